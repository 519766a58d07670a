//! Programs of `cgi`: one for each request, started for workers, ended with its request. PRIVILEGED, as the rest of `spawn`.
//!
//! Of a worker it reads which program is meant and whose request it is; the environment and the body go to the program's process over its own
//! socket. What it is asked for is bounded: so many programs at a time, so many requests that wait; a malformed one ends its sender.

use super::runs::{LINE_MAX, One, Said, Sender};
use super::{LEAVE_MS, Spawn};
use crate::config::{Level, RunSlice};
use crate::ipc::connect::{Outcome, Reply};
use crate::ipc::messages::{Message, ToParent};
use crate::ipc::run::{Request, Run};
use crate::ipc::{Channel, Received, lines};
use crate::sys::cgi::{self, Limits, Owners, Refusal};
use crate::sys::epoll::Interest;
use crate::sys::process::{Ended, SIGKILL, SIGTERM};
use crate::sys::program::{self, End};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

impl Spawn {
    /// A worker that may have programs run.
    pub(super) fn take_worker(&mut self, worker: u16, channel: Channel, answers: Channel, table: RunSlice) -> io::Result<()> {
        let token = self.token();
        self.born.poller.add(&channel, Interest::Input, token)?;
        self.runs.buffer.resize(Request::LENGTH_MAX + 1, 0);
        self.runs.senders.insert(token, Sender { worker, channel, answers, table: Rc::new(table) });
        Ok(())
    }

    /// Something has come for a program, or from one; false: it is not one of these.
    pub(super) fn hear_run(&mut self, token: u64, now: u64) -> bool {
        if self.runs.senders.contains_key(&token) {
            self.take_requests(token, now);
        } else if let Some(at) = self.runs.running.iter().position(|one| one.said_token == token) {
            self.hear_program(at, now);
        } else if let Some(at) = self.runs.running.iter().position(|one| one.report.as_ref().is_some_and(|(_, known)| *known == token)) {
            self.hear_report(at);
        } else {
            return false;
        }
        true
    }

    fn take_requests(&mut self, token: u64, now: u64) {
        for _ in 0..TURN {
            let Some(sender) = self.runs.senders.get(&token) else { return };
            let (worker, table) = (sender.worker, Rc::clone(&sender.table));
            let known = |root: u16| table.roots.get(usize::from(root)).is_some_and(|root| !root.scopes.is_empty());
            match sender.channel.receive_long::<Request>(&mut self.runs.buffer) {
                Received::Message(Request::Run(run), _) if known(run.root) && !self.is_run(token, run.id) => {
                    self.take_run(token, run, &table, now)
                }
                Received::Message(Request::Over { id, ends }, _) => self.request_over(token, Some(id), ends, now),
                Received::Nothing => return,
                Received::Ended => return self.forget_worker(token, now),
                Received::Message(Request::Run(_), _) | Received::Malformed => {
                    self.forget_worker(token, now);
                    let _ = self.born.parent.send(&ToParent::Malformed { worker }, &[]);
                }
            }
        }
    }

    fn is_run(&self, sender: u64, id: u32) -> bool {
        let same = |one: &One| one.sender == sender && one.id == id;
        self.runs.running.iter().any(same) || self.runs.waiting.iter().any(|(of, run)| *of == sender && run.id == id)
    }

    /// A worker is gone, and with it whoever waited for its programs.
    fn forget_worker(&mut self, token: u64, now: u64) {
        self.request_over(token, None, true, now);
        self.runs.senders.remove(&token);
    }

    fn take_run(&mut self, sender: u64, run: Run, table: &RunSlice, now: u64) {
        if self.runs.running.len() < usize::try_from(table.max_programs).unwrap_or(usize::MAX) && self.stopping.is_none() {
            self.run(sender, &run, now);
        } else if self.runs.waiting.len() < WAITING_MAX && self.stopping.is_none() {
            self.runs.waiting.push_back((sender, run));
        } else {
            self.answer_run(sender, run.id, Outcome::Busy, None);
        }
    }

    /// Starts what waits, as many as may run.
    pub(super) fn run_waiting(&mut self, now: u64) {
        while let Some((sender, _)) = self.runs.waiting.front() {
            let most = self.runs.senders.get(sender).map_or(u32::MAX, |sender| sender.table.max_programs);
            if self.runs.running.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
                return;
            }
            if let Some((sender, run)) = self.runs.waiting.pop_front() {
                self.run(sender, &run, now);
            }
        }
    }

    fn run(&mut self, sender: u64, run: &Run, now: u64) {
        let Some(table) = self.runs.senders.get(&sender).map(|sender| Rc::clone(&sender.table)) else { return };
        let Some(root) = table.roots.get(usize::from(run.root)) else { return };
        let path = if run.path.is_empty() { String::new() } else { format!("/{}", lines::escaped(&run.path)) };
        let what = format!("{}, program \"{}{path}\"", shown(&run.origin), root.path.display());
        let documents = root.documents(&run.path);
        let owners = Owners { user: table.user, min_uid: table.min_uid, service: Some(table.service), rootless: table.rootless };
        let outside = || Err("no rule runs what lies there".to_owned());
        let whom = match if documents.is_empty() { outside() } else { cgi::whom(&owners, run.owner) } {
            Ok(whom) => whom,
            Err(why) => {
                self.say(Level::Error, &format!("{what}: {why}: not run"));
                let refused = cgi::refused(Refusal::Denied).ok();
                return self.answer_run(sender, run.id, refused.as_ref().map_or(Outcome::Busy, |_| Outcome::Connected), refused.as_ref());
            }
        };
        let limits = table.limits;
        let started = cgi::run(&cgi::Run {
            root: &root.path,
            path: &run.path,
            device: run.device,
            inode: run.inode,
            owner: run.owner,
            whom,
            documents: &documents,
            limits: Limits { cpu: limits.cpu, memory: limits.memory, file_size: limits.file_size, processes: limits.processes },
            env: &table.env,
        });
        let started = started.and_then(|started| {
            let (report, said) = (self.token(), self.token());
            self.born.poller.add(&started.report, Interest::Input, report)?;
            self.born.poller.add(&started.said, Interest::Input, said)?;
            Ok((started, report, said))
        });
        match started {
            Ok((started, report, said_token)) => {
                let said = Said { pipe: Some(started.said), line: Vec::new(), lines: 0, since: now };
                let (report, end) = (Some((started.report, report)), Some((End::Ask, now.saturating_add(table.run_timeout_ms))));
                let one = One { sender, id: run.id, pid: started.pid, what, report, said, said_token, reaped: false, end, over: false };
                self.runs.running.push(one);
                self.answer_run(sender, run.id, Outcome::Connected, Some(&started.socket));
            }
            Err(fault) => {
                self.say(Level::Error, &format!("{what}: {fault}: not run"));
                let errno = fault.raw_os_error().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
                self.answer_run(sender, run.id, Outcome::Failed { errno }, None);
            }
        }
    }

    /// A worker that does not take its answers loses them: the program sees that its socket has ended.
    fn answer_run(&self, sender: u64, id: u32, outcome: Outcome, socket: Option<&OwnedFd>) {
        let Some(sender) = self.runs.senders.get(&sender) else { return };
        let descriptors: Vec<_> = socket.iter().map(|socket| socket.as_fd()).collect();
        let _ = sender.answers.send(&Reply { id, outcome }, &descriptors);
    }

    /// A request of a worker is over, or all of them: what its program still does has some time, or ends.
    fn request_over(&mut self, sender: u64, id: Option<u32>, ends: bool, now: u64) {
        let is_over = |(of, run): &(u64, Run)| *of == sender && id.is_none_or(|id| run.id == id);
        let (over, waiting): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.runs.waiting).into_iter().partition(is_over);
        self.runs.waiting = waiting;
        over.iter().for_each(|(sender, run)| self.answer_run(*sender, run.id, Outcome::Busy, None));
        for one in self.runs.running.iter_mut().filter(|one| one.sender == sender && id.is_none_or(|id| one.id == id)) {
            one.over = true;
            let moment = if ends || one.reaped { now } else { now + LEAVE_MS };
            one.end = Some(one.end.map_or((End::Ask, moment), |(end, until)| (end, until.min(moment))));
        }
        self.end_runs(now);
    }

    /// Ends what is over and what has run for too long, and forgets what is gone.
    pub(super) fn end_runs(&mut self, now: u64) {
        let mut late = Vec::new();
        for one in &mut self.runs.running {
            let Some((end, _)) = one.end.filter(|(_, moment)| *moment <= now) else { continue };
            if !one.over && end == End::Ask {
                late.push(format!("{}: it runs for longer than run_timeout: ended", one.what));
            }
            program::signal_all(one.pid, end);
            // What has not gone by then is made to.
            one.end = Some((End::Force, now + LEAVE_MS));
        }
        late.iter().for_each(|text| self.say(Level::Error, text));
        let poller = &self.born.poller;
        self.runs.running.retain(|one| {
            let stays = !one.reaped || program::has_members(one.pid);
            if !stays {
                let pipes = one.said.pipe.iter().chain(one.report.iter().map(|(pipe, _)| pipe));
                pipes.for_each(|pipe| drop(poller.remove(pipe)));
            }
            stays
        });
        self.run_waiting(now);
    }

    /// The first process of a program has ended; false: it is none of these.
    pub(super) fn bury_run(&mut self, pid: i32, ended: Ended, now: u64) -> bool {
        let Some(at) = self.runs.running.iter().position(|one| one.pid == pid && !one.reaped) else { return false };
        self.hear_report(at);
        self.hear_program(at, now);
        let one = &mut self.runs.running[at];
        one.reaped = true;
        let last = std::mem::take(&mut one.said.line);
        // How it ended is no news where it was told to.
        let told = matches!((ended, one.end), (Ended::Signalled(SIGTERM | SIGKILL), Some((End::Force, _))));
        let ordinary = told || matches!(ended, Ended::Exited(_));
        if one.over {
            // What it has left behind in its session has nobody to work for.
            one.end = Some((End::Ask, now));
        }
        let what = one.what.clone();
        if !last.is_empty() {
            self.say(Level::Error, &format!("{what}: {}", lines::escaped(&last)));
        }
        if !ordinary {
            self.say(Level::Error, &format!("{what}: ended: {ended}"));
        }
        self.end_runs(now);
        true
    }

    /// Why a process does not become its program.
    fn hear_report(&mut self, at: usize) {
        let one = &mut self.runs.running[at];
        let Some((pipe, _)) = one.report.as_ref() else { return };
        let mut record = [0; RECORD];
        let Some(bytes) = program::read(pipe, &mut record) else { return };
        let _ = self.born.poller.remove(pipe);
        one.report = None;
        let Some((refusal, why)) = cgi::refusal(bytes).filter(|(_, why)| !why.is_empty()) else { return };
        let (text, sender) = (format!("{}: {}: not run", one.what, shown(why)), one.sender);
        self.say(Level::Error, &text);
        if refusal == Refusal::Malformed
            && let Some(sender) = self.runs.senders.get(&sender)
        {
            let _ = self.born.parent.send(&ToParent::Malformed { worker: sender.worker }, &[]);
        }
    }

    /// Takes what a program has written to its error stream.
    fn hear_program(&mut self, at: usize, now: u64) {
        let mut buffer = [0; 4096];
        for _ in 0..TURN {
            let one = &mut self.runs.running[at];
            let Some(bytes) = one.said.pipe.as_ref().and_then(|pipe| program::read(pipe, &mut buffer)) else { return };
            if bytes.is_empty() {
                let _ = one.said.pipe.take().map(|pipe| self.born.poller.remove(&pipe));
                return;
            }
            let (complete, what) = (one.said.take(bytes, now), one.what.clone());
            for line in complete {
                let text = line
                    .map_or("truncated: it writes too much; the rest of this second is left out".to_owned(), |line| lines::escaped(&line));
                self.say(Level::Error, &format!("{what}: {text}"));
            }
        }
    }

    /// The service ends, and its programs with it.
    pub(super) fn stop_runs(&mut self, now: u64) {
        self.runs.waiting.clear();
        let senders: Vec<u64> = self.runs.senders.keys().copied().collect();
        senders.into_iter().for_each(|sender| self.request_over(sender, None, true, now));
    }
}

/// A text of this program, in which quotes and backslashes are what they are, and whatever else it holds is escaped.
fn shown(text: &[u8]) -> String {
    lines::escaped(text).replace("\\x22", "\"").replace("\\x5C", "\\")
}

/// Messages of one worker, and reads of one pipe, before others get their turn.
const TURN: u8 = 8;

/// Requests of all workers that wait here; those that the configuration lets wait do so in the workers.
const WAITING_MAX: usize = 512;

/// Bytes of one report.
const RECORD: usize = LINE_MAX;
