//! `spawn`: starts the programs that the configuration names, as their users, watches them and starts them again; and those of `cgi`, for each
//! request. PRIVILEGED: root, to become those users; its filter is a list of calls that neither it nor any program may make. Of workers it reads
//! only which program a request is for: see `runs`.
//!
//! A program finds the socket that it accepts at as descriptor 0, made here, and nothing else of this process: no descriptor, no
//! variable, no session. What it writes goes to the error log, line by line. All programs are in a process-id namespace that ends with
//! this process, however that ends: see `sys::program`.

mod requests;
mod runs;

use crate::config::{self, Level, Program, SpawnSlice};
use crate::ipc::back_off::BackOff;
use crate::ipc::birth::{self, Born, Order};
use crate::ipc::messages::{ToParent, ToSpawn};
use crate::ipc::{Channel, lines};
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::process::{self, Ended};
use crate::sys::program::{self, End};
use crate::sys::signal::{Arrived, Signals};
use crate::sys::{clock, memory};
use runs::{Runs, Said};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

/// Runs the role until the parent stops it; the exit status.
pub fn run() -> u8 {
    birth::run(Role::Spawn, |born| Spawn::new(born)?.serve())
}

struct Spawn {
    born: Born<()>,
    signals: Signals,
    log: Option<Channel>,
    /// Lines that wait for `log`.
    unsaid: Vec<Vec<u8>>,
    places: Vec<Place>,
    sockets: BTreeMap<PathBuf, OwnedFd>,
    /// Processes that were told to end, and when they are made to.
    leaving: Vec<(i32, u64)>,
    runs: Runs,
    next_token: u64,
    /// The parent has sent a table of programs and was not told yet that they were started.
    untold: bool,
    /// When whatever still runs is ended.
    stopping: Option<u64>,
}

/// A place for one process of a program.
struct Place {
    program: Rc<Program>,
    running: Option<Running>,
    back_off: BackOff,
    /// When to start the next one, in monotonic milliseconds.
    next_start: Option<u64>,
}

struct Running {
    pid: i32,
    token: u64,
    said: Said,
    started: u64,
}

impl Spawn {
    fn new(born: Born<()>) -> io::Result<Spawn> {
        let signals = Signals::block()?;
        born.poller.add(&born.parent, Interest::Input, PARENT)?;
        born.poller.add(&signals, Interest::Input, SIGNALS)?;
        birth::report_ready(&born.parent, &born.confined)?;
        Ok(Spawn {
            born,
            signals,
            log: None,
            unsaid: Vec::new(),
            places: Vec::new(),
            sockets: BTreeMap::new(),
            leaving: Vec::new(),
            runs: Runs::default(),
            next_token: SIGNALS + 1,
            untold: false,
            stopping: None,
        })
    }

    /// The loop. Ends when the parent is gone or has said so; the kernel ends what still runs then.
    fn serve(mut self) -> io::Result<()> {
        loop {
            let now = clock::monotonic_ms();
            self.start_due(now);
            if std::mem::take(&mut self.untold) {
                let _ = self.born.parent.send(&ToParent::Begun, &[]);
            }
            self.end_overdue(now);
            self.end_runs(now);
            let is_empty = self.leaving.is_empty() && self.places.is_empty() && self.runs.is_empty();
            if self.stopping.is_some_and(|until| is_empty || now >= until) {
                self.sockets.keys().for_each(|path| drop(std::fs::remove_file(path)));
                return Ok(());
            }
            let count = self.born.poller.wait(self.next_moment().map(|moment| moment.saturating_sub(now)))?;
            let tokens: Vec<u64> = (0..count).filter_map(|index| self.born.poller.ready(index)).map(|ready| ready.token).collect();
            for token in tokens {
                match token {
                    PARENT if !self.obey()? => return Ok(()),
                    PARENT => {}
                    SIGNALS => self.reap()?,
                    token if self.hear_run(token, now) => {}
                    token => self.hear(token),
                }
            }
        }
    }

    /// Takes what the parent has sent; false: it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        loop {
            match self.born.order(false)? {
                Order::Given(ToSpawn::Programs, descriptors) => {
                    for table in descriptors {
                        let table: SpawnSlice = config::decode(&memory::content(table)?).map_err(|_| io::ErrorKind::InvalidData)?;
                        self.take_programs(table);
                        self.untold = true;
                    }
                }
                Order::Given(ToSpawn::Log, descriptors) => {
                    self.log = descriptors.into_iter().map(Channel::from).next();
                    for packet in std::mem::take(&mut self.unsaid) {
                        self.send(packet);
                    }
                }
                Order::Given(ToSpawn::Channel { worker }, descriptors) => {
                    let [channel, answers, table] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| io::ErrorKind::InvalidData)?;
                    let table = config::decode(&memory::content(table)?).map_err(|_| io::ErrorKind::InvalidData)?;
                    self.take_worker(worker, channel.into(), answers.into(), table)?;
                }
                Order::Given(ToSpawn::Stop, _) => self.stop(),
                Order::Nothing => return Ok(true),
                Order::Gone => return Ok(false),
            }
        }
    }

    /// Runs these programs from now on: those that are as they were go on as they are.
    fn take_programs(&mut self, table: SpawnSlice) {
        if self.stopping.is_some() {
            return;
        }
        let (now, mut before) = (clock::monotonic_ms(), std::mem::take(&mut self.places));
        for program in table.programs.into_iter().map(Rc::new) {
            for _ in 0..program.processes {
                let same = before.iter().position(|place| place.program.runs_as(&program));
                let new = || Place { program: Rc::clone(&program), running: None, back_off: BackOff::default(), next_start: Some(now) };
                self.places.push(same.map_or_else(new, |at| before.swap_remove(at)));
            }
        }
        before.into_iter().for_each(|place| self.ask_to_end(place, now));
        let used = |path: &PathBuf| self.places.iter().any(|place| place.program.socket == *path);
        for path in self.sockets.keys().filter(|path| !used(path)).cloned().collect::<Vec<_>>() {
            self.sockets.remove(&path);
            let _ = std::fs::remove_file(&path);
        }
    }

    fn stop(&mut self) {
        let now = clock::monotonic_ms();
        self.stopping = Some(now + STOP_MS);
        std::mem::take(&mut self.places).into_iter().for_each(|place| self.ask_to_end(place, now));
        self.stop_runs(now);
    }

    fn ask_to_end(&mut self, place: Place, now: u64) {
        let Some(Running { pid, said, .. }) = place.running else { return };
        let _ = said.pipe.map(|pipe| self.born.poller.remove(&pipe));
        program::signal_all(pid, End::Ask);
        self.leaving.push((pid, now + LEAVE_MS));
    }

    fn end_overdue(&mut self, now: u64) {
        for (pid, until) in &mut self.leaving {
            if *until <= now && program::has_members(*pid) {
                program::signal_all(*pid, End::Force);
                *until = now + LEAVE_MS;
            }
        }
        self.leaving.retain(|(_, until)| *until > now);
    }

    fn next_moment(&self) -> Option<u64> {
        let starts = self.places.iter().filter_map(|place| place.next_start);
        starts.chain(self.leaving.iter().map(|(_, until)| *until)).chain(self.runs.next_moment()).chain(self.stopping).min()
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token - 1
    }

    fn start_due(&mut self, now: u64) {
        for at in 0..self.places.len() {
            if self.places[at].next_start.is_none_or(|moment| moment > now) {
                continue;
            }
            match self.start(&self.places[at].program.clone(), now) {
                Ok(running) => {
                    let place = &mut self.places[at];
                    (place.running, place.next_start) = (Some(running), None);
                }
                Err(why) => {
                    let place = &mut self.places[at];
                    let delay = place.back_off.next_delay(0).max(RETRY_MS);
                    place.next_start = Some(now + delay);
                    let text = format!("backend \"{}\": {why}; tried again in {delay} ms", place.program.backend);
                    self.say(Level::Error, &text);
                }
            }
        }
    }

    fn start(&mut self, program: &Program, now: u64) -> Result<Running, String> {
        if !self.sockets.contains_key(&program.socket) {
            let listener = program::listen(&program.socket, program.socket_group);
            let listener = listener.map_err(|fault| format!("socket \"{}\": {fault}", program.socket.display()))?;
            self.sockets.insert(program.socket.clone(), listener);
        }
        let listener = self.sockets.get(&program.socket).ok_or("no socket")?;
        let (theirs, ours) = program::pipe().map_err(|fault| format!("pipe: {fault}"))?;
        let command: Vec<OsString> = program.command.iter().map(OsString::from).collect();
        let given = program.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let mut environment: Vec<(OsString, OsString)> = given.collect();
        if !environment.iter().any(|(name, _)| name == "PATH") {
            environment.push(("PATH".into(), PATH.into()));
        }
        let standard = [listener.as_fd(), theirs.as_fd(), theirs.as_fd()];
        let start = program::Program { command: &command, environment: &environment, uid: program.uid, gid: program.gid, standard };
        let pid = program::start(&start).map_err(|fault| {
            format!("\"{}\" cannot be started: {}: {} (uid {})", program.command.join(" "), fault.step, fault.errno, program.uid)
        })?;
        let token = self.token();
        self.born.poller.add(&ours, Interest::Input, token).map_err(|fault| format!("epoll: {fault}"))?;
        Ok(Running { pid, token, said: Said { pipe: Some(ours), line: Vec::new(), lines: 0, since: now }, started: now })
    }

    /// Takes the ends of children.
    fn reap(&mut self) -> io::Result<()> {
        while let Some(arrived) = self.signals.next() {
            match arrived {
                Arrived::Stop | Arrived::Drain => self.stop(),
                Arrived::Child | Arrived::Reload | Arrived::Reopen | Arrived::Upgrade => {}
            }
        }
        while let Some((pid, ended)) = process::reap() {
            if let Some(at) = self.places.iter().position(|place| place.running.as_ref().is_some_and(|running| running.pid == pid)) {
                self.bury(at, ended);
            } else if self.bury_run(pid, ended, clock::monotonic_ms()) {
            } else if let Some(at) = self.leaving.iter().position(|(leaving, _)| *leaving == pid) {
                // The children of php-cgi finish what they do when it has ended; its number stays theirs as long as there are any.
                if !program::has_members(pid) {
                    self.leaving.swap_remove(at);
                }
            } else {
                // The first process of the namespace: without it nothing can be started.
                return Err(io::Error::other("the namespace of the programs has ended"));
            }
        }
        Ok(())
    }

    /// A program has ended by itself: says how, with what it said last, and plans the next start.
    fn bury(&mut self, at: usize, ended: Ended) {
        let now = clock::monotonic_ms();
        if let Some(token) = self.places[at].running.as_ref().map(|running| running.token) {
            self.hear(token);
        }
        let place = &mut self.places[at];
        let Some(Running { pid, mut said, started, .. }) = place.running.take() else { return };
        if let Some(pipe) = said.pipe.take() {
            let _ = self.born.poller.remove(&pipe);
        }
        // What it has left behind in its session would keep serving with the old settings.
        program::signal_all(pid, End::Force);
        let (backend, lived) = (place.program.backend.clone(), now.saturating_sub(started));
        let (delay, orderly) = delay(&mut place.back_off, ended, lived);
        place.next_start = Some(now + delay);
        let text = format!("backend \"{backend}\": \"{}\" (pid {pid}) ended: {ended}", place.program.command.join(" "));
        let last = std::mem::take(&mut said.line);
        if !last.is_empty() {
            self.say_line(&backend, pid, &last);
        }
        let level = if orderly { Level::Info } else { Level::Error };
        self.say(level, &format!("{text}; a new one starts in {delay} ms"));
    }

    /// Takes what a program has written.
    fn hear(&mut self, token: u64) {
        let Some(at) = self.places.iter().position(|place| place.running.as_ref().is_some_and(|running| running.token == token)) else {
            return;
        };
        let mut buffer = [0; 4096];
        for _ in 0..TURN {
            let place = &mut self.places[at];
            let (backend, Some(running)) = (place.program.backend.clone(), place.running.as_mut()) else { return };
            let (pid, Some(pipe)) = (running.pid, running.said.pipe.as_ref()) else { return };
            let Some(bytes) = program::read(pipe, &mut buffer) else { return };
            if bytes.is_empty() {
                let _ = running.said.pipe.take().map(|pipe| self.born.poller.remove(&pipe));
                return;
            }
            for line in running.said.take(bytes, clock::monotonic_ms()) {
                match line {
                    Some(line) => self.say_line(&backend, pid, &line),
                    None => self.say(
                        Level::Warning,
                        &format!("backend \"{backend}\" (pid {pid}) writes too much: the rest of this second is left out"),
                    ),
                }
            }
        }
    }

    fn say_line(&mut self, backend: &str, pid: i32, line: &[u8]) {
        self.say(Level::Warning, &format!("backend \"{backend}\" (pid {pid}): {}", lines::escaped(line)));
    }

    fn say(&mut self, level: Level, text: &str) {
        self.send(lines::error_packet(level, text));
    }

    /// A line that `log` does not take now is lost, so that no program waits for a disk.
    fn send(&mut self, packet: Vec<u8>) {
        match &self.log {
            Some(log) => drop(log.send_lines(&packet)),
            None if self.unsaid.len() < UNSAID_MAX => self.unsaid.push(packet),
            None => {}
        }
    }
}

/// Tokens of the parent's channel and of the signals.
const PARENT: u64 = 0;
const SIGNALS: u64 = 1;

/// What a program without a `PATH` of its own finds there.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How long a program that was told to end may finish what it does.
const LEAVE_MS: u64 = 5_000;

/// The same when the service ends; less than the parent waits.
const STOP_MS: u64 = 1_500;

/// Between two tries where it was not the program that failed.
const RETRY_MS: u64 = 500;

/// How long to wait before what ended is started again, in milliseconds, and whether it has done what it should. With status 0 it may have, as
/// php-cgi does after PHP_FCGI_MAX_REQUESTS, which is soon where there is much to do: then nobody waits for the next one for long.
fn delay(back_off: &mut BackOff, ended: Ended, lived: u64) -> (u64, bool) {
    if ended != Ended::Exited(0) {
        return (back_off.next_delay(lived), false);
    }
    if lived >= ORDERLY_MS { (0, true) } else { (back_off.next_delay(lived).min(SOON_MS), false) }
}

/// A program that lived so long and ended with status 0 has done what it should.
const ORDERLY_MS: u64 = 250;

/// The longest wait for one that did not, but with status 0.
const SOON_MS: u64 = 1_000;

/// Reads of one program before others have their turn.
const TURN: u8 = 8;

/// Lines that wait for `log`.
const UNSAID_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_with_status_0_is_back_within_a_second_and_what_fails_ever_later() {
        let mut back_off = BackOff::default();
        let short: Vec<u64> = (0..12).map(|_| delay(&mut back_off, Ended::Exited(0), 5).0).collect();
        assert_eq!(short, [0, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
        assert_eq!(delay(&mut back_off, Ended::Exited(0), ORDERLY_MS), (0, true));
        assert_eq!(delay(&mut back_off, Ended::Exited(1), 5), (60_000, false));
    }
}
