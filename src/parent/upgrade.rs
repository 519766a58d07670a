//! Replacing the binary in place: the parent becomes the new program by execve(2), with the same process id, children and
//! sockets. Nothing is closed on the way, so no connection is refused and no transfer cut.
//!
//! The new program first reads the configuration with its `check`; if it refuses, nothing happens. It then starts a `log`
//! and a generation of its own beside the processes it found, and only when those serve do the old ones finish. Whatever
//! fails before, it ends what it started itself, and becomes the old program again, from the descriptor that was held open
//! since the start, which is then as it was: see `restore`.

use super::child::Brokers;
use super::generation::{Generation, Phase};
use super::legacy::{Found, LeftChild, LeftGeneration, Legacy, Rest};
use super::listen::Listener;
use super::slot::{Place, Slot};
use super::supervise::{CHECK, Supervisor};
use crate::config::{self, Level};
use crate::ipc::messages::{Death, ToLog};
use crate::role::Role;
use crate::sys::candidate::{Candidate, Check};
use crate::sys::epoll::Interest;
use crate::sys::kept::Kept;
use crate::sys::policy::Policy;
use crate::sys::process::{self, Ended, Executable};
use crate::sys::{proc, seccomp};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

impl Supervisor {
    /// Lets the program that now lies where this one was started from check the configuration, to become it if it takes it.
    /// Meanwhile everything goes on: that may take seconds.
    pub(super) fn upgrade(&mut self) {
        let outcome = self.begin_check();
        self.report_upgrade(outcome);
    }

    fn begin_check(&mut self) -> Result<(), String> {
        if self.is_stopping() || !matches!(self.candidate, Candidate::None) {
            return Err("the service is stopping, or a replacement is under way".to_owned());
        }
        let file = self.source.file.as_deref().ok_or("there is no configuration file to read again")?;
        let open = self.generations.iter().flat_map(|generation| &generation.listeners);
        let open: Vec<String> = open.flat_map(|listener| listener.told()).collect();
        let check = Check::start(&self.source.program, file, &open)
            .map_err(|fault| format!("cannot run \"{}\": {fault}", self.source.program.display()))?;
        self.poller.add(&check, Interest::Input, CHECK).map_err(|fault| format!("epoll: {fault}"))?;
        self.candidate = Candidate::Checking(check);
        Ok(())
    }

    fn refusal(&self, why: &str) -> String {
        format!("\"{}\" refuses the configuration: {why}", self.source.program.display())
    }

    fn report_upgrade(&self, outcome: Result<(), String>) {
        if let Err(why) = outcome {
            self.logs.report.line(Level::Error, &format!("upgrade: {why}; the running program goes on"));
        }
    }

    /// Takes what the check says of the configuration.
    pub(super) fn hear_check(&mut self) {
        if let Candidate::Checking(check) = &mut self.candidate
            && !check.read()
        {
            // It may have been removed before.
            let _ = self.poller.remove(&*check);
        }
    }

    /// A process has ended; perhaps the check.
    pub(super) fn end_check(&mut self, pid: i32, ended: Ended) {
        match std::mem::take(&mut self.candidate) {
            Candidate::Checking(check) if check.is(pid) => match check.outcome(ended) {
                Ok(()) => self.candidate = Candidate::Waiting,
                Err(why) => self.report_upgrade(Err(self.refusal(&why))),
            },
            other @ (Candidate::None | Candidate::Checking(_) | Candidate::Waiting) => self.candidate = other,
        }
    }

    /// Ends a check that takes too long; becomes the next program when that may be.
    pub(super) fn go_on_upgrading(&mut self, now: u64) {
        match &self.candidate {
            Candidate::Checking(check) if now >= check.until => check.kill(),
            Candidate::Waiting if self.pending.is_none() => {
                self.candidate = Candidate::None;
                self.answer_status(None);
                let outcome = self.replace().map(|never| match never {});
                self.report_upgrade(outcome);
            }
            Candidate::None | Candidate::Checking(_) | Candidate::Waiting => {}
        }
    }

    fn replace(&mut self) -> Result<Infallible, String> {
        let file = self.source.file.clone().ok_or("there is no configuration file to read again")?;
        let program = self.source.program.clone();
        let next = Executable::open(&program).map_err(|fault| format!("\"{}\": {fault}", program.display()))?;
        let mut kept = Kept::default();
        let resume = self
            .legacy(&file, &mut kept)
            .and_then(|legacy| legacy.write())
            .and_then(|legacy| kept.keep(legacy.as_fd()))
            .map_err(|fault| format!("descriptors: {fault}"))?;
        let [run, option, name] = ["run", "-c", "--resume"].map(OsString::from);
        let arguments = [program.clone().into(), run, option, file.into(), name, resume.to_string().into()];
        self.logs.report.line(Level::Notice, "the program is replaced");
        process::become_program(&next, &arguments, self.manager.environment())
            .map_err(|fault| format!("\"{}\": {fault}", program.display()))
    }

    /// Everything the next program needs, and this one if it comes back, under numbers that exec leaves open.
    fn legacy(&self, file: &Path, kept: &mut Kept) -> io::Result<Legacy> {
        let (mut listeners, mut children, mut generations, mut keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for generation in &self.generations {
            let mut left = LeftGeneration {
                number: generation.number,
                cells: (*generation.cells).clone(),
                listeners: Vec::new(),
                draining: match generation.phase {
                    Phase::Draining(deadline) => Some(deadline),
                    Phase::Starting | Phase::Serving => None,
                },
                drain_ms: generation.drain_ms,
                slots: Vec::new(),
                keys: Vec::new(),
            };
            let cells = &generation.cells;
            for file in cells.given_files(Role::Keys).into_iter().chain(cells.given_files(Role::Auth)) {
                left.keys.push(keys.len());
                keys.push(kept.keep(file)?);
            }
            for listener in generation.listeners.iter().filter(|listener| !listener.socket.is_retired()) {
                left.listeners.push(listeners.len());
                listeners.push((listener.configured.clone(), kept.keep(listener.socket.as_fd())?, listener.own.get()));
            }
            for slot in &generation.slots {
                // `spawn` and its programs end with the program that started them: the next one starts its own.
                let child = slot.child.as_ref().filter(|_| slot.is_serving() && slot.role != Role::Spawn);
                left.slots.push((slot.role, slot.number, child.map(|_| children.len())));
                if let Some(child) = child {
                    let channel = kept.keep(child.channel.as_fd())?;
                    let mut ends = None;
                    if let Some(all) = slot.ends.as_ref().map(Brokers::all) {
                        let numbers = all.iter().map(|end| kept.keep(end.as_fd())).collect::<io::Result<Vec<i32>>>()?;
                        ends = numbers.try_into().ok();
                    }
                    let (role, log_number) = (slot.role.name().to_owned(), slot.log_number);
                    children.push(LeftChild { role, pid: child.pid, channel, ends, log_number });
                }
            }
            generations.push(left);
        }
        let rest = Rest {
            identity: self.source.identity,
            generations,
            file: file.into(),
            control_socket: self.control.path().map(OsString::from),
            pid_file: self.pid_file.as_ref().map(|file| file.path().into()),
            watched: self.source.watched.clone(),
            restarts: self.restarts,
            lost_lines: self.lost_lines,
            title: proc::command_line(process::own_id()).unwrap_or_default(),
            environment: self.manager.environment().to_vec(),
        };
        Ok(Legacy {
            listeners,
            children,
            generation: self.next_generation,
            counters: kept.keep(self.nursery.counters.as_fd())?,
            control: self.control.listener().map(|listener| kept.keep(listener)).transpose()?,
            kernel_log: self.nursery.kernel_log.as_ref().ok().map(|log| kept.keep(log.as_fd())).transpose()?,
            logs: self.logs.leave(kept)?,
            fixed: self.source.fixed.clone(),
            tickets: self.tickets().cloned(),
            keys,
            program: self.source.program.clone().into(),
            filter: seccomp::digest(Policy::of(Role::Parent).list),
            executable: kept.keep(self.nursery.executable.as_fd())?,
            rest: config::encode(&rest),
        })
    }

    /// Takes over the processes of the program before, which serve until the first generation of this one does. Its `log`
    /// keeps their lines until then.
    pub(super) fn adopt(&mut self, children: Vec<Found>, listeners: Vec<Rc<Listener>>, drain_ms: u64) -> io::Result<()> {
        let Some(cells) = self.generations.first().map(|generation| Rc::clone(&generation.cells)) else {
            return Ok(());
        };
        let number = self.next_generation;
        self.next_generation += 1;
        let mut generation = Generation::new(number, cells, listeners, 0, drain_ms);
        generation.phase = Phase::Serving;
        for Found { role, child, log_number, ends } in children {
            if role == Role::Log {
                self.adopted_log = Some(child.channel);
                continue;
            }
            let mut slot = Slot::new(role, u16::try_from(generation.slots.len()).unwrap_or(u16::MAX), number);
            slot.log_number = log_number;
            slot.ends = ends;
            slot.child = Some(child);
            generation.slots.push(slot);
        }
        self.adopted = Some(number);
        self.take_up(generation)
    }

    /// Watches the processes of a generation that serve, and counts it among those there are.
    pub(super) fn take_up(&mut self, generation: Generation) -> io::Result<()> {
        for (slot, place) in (0..).zip(&generation.slots) {
            if let Some(child) = &place.child {
                self.poller.add(&child.channel, Interest::Input, Place { generation: generation.number, slot }.token())?;
            }
        }
        self.generations.push(generation);
        Ok(())
    }

    /// The first generation of this program serves, and there is no way back: what is left of the one before is its own. The
    /// old workers write to the new `log`, and the old one ends with what it has.
    pub(super) fn settle(&mut self, legacy: Legacy, resume: i32) {
        let listeners = self.generations.iter().flat_map(|generation| &generation.listeners);
        legacy.settle(resume, listeners);
        self.control.settle();
        if self.adopted.take().is_none() {
            return;
        }
        if let Err(why) = self.give_log_ends() {
            self.logs.report.line(Level::Error, &why);
        }
        if let Some(log) = self.adopted_log.take() {
            let _ = log.send(&ToLog::Stop, &[]);
        }
    }

    /// The start failed: ends what this program started, and nothing else.
    pub(super) fn undo_start(&mut self) {
        let adopted = self.adopted;
        let started = self.places(|slot| slot.child.is_some()).into_iter().filter(|place| Some(place.generation) != adopted);
        for place in started.collect::<Vec<_>>() {
            let Some(slot) = self.slot(place) else { continue };
            let (role, number) = (slot.role, slot.log_number);
            slot.child.iter().for_each(|child| process::kill(child.pid));
            if role == Role::Worker {
                self.tell_of_death(number, Death::Ended);
            }
        }
    }
}
