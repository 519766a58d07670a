//! Replacing the binary in place: the parent becomes the new program by execve(2), with the same process id, children and
//! sockets. Nothing is closed on the way, so no connection is refused and no transfer cut.
//!
//! The new program first reads the configuration with its `check`; if it refuses, nothing happens. What it must know of the
//! old one stands in a sealed memory file whose number is on its command line. It starts a `log` and a generation of its
//! own, and drains the old workers as after a reload. If it cannot, it becomes the old program again, from the descriptor
//! that was held open since the start.

use super::child::{Child, State};
use super::generation::{Generation, Phase};
use super::listen::Listener;
use super::supervise::{Place, Supervisor};
use crate::config::{self, Level, Listen};
use crate::ipc::Channel;
use crate::ipc::messages::ToLog;
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::policy::Policy;
use crate::sys::process::{self, Executable};
use crate::sys::{memory, seccomp, socket};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

/// What one program leaves to the next; descriptors by their numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Legacy {
    listeners: Vec<(Listen, i32)>,
    /// Workers that serve: process id, channel, and the number that `log` and the counters know them by.
    workers: Vec<(i32, i32, u16)>,
    generation: u32,
    counters: i32,
    control: Option<i32>,
    kernel_log: Option<i32>,
    /// The old program, to go back to.
    executable: i32,
    /// Where the program and the configuration lie.
    pub(super) program: OsString,
    file: OsString,
    /// Of the parent's filter, which stays in force over exec.
    pub(super) filter: u64,
    /// Whether this is the way back.
    returning: bool,
}

/// A legacy that was taken up.
pub(super) struct Inherited {
    pub(super) listeners: Vec<Rc<Listener>>,
    pub(super) workers: Vec<(Child, u16)>,
    pub(super) generation: u32,
    pub(super) counters: OwnedFd,
    pub(super) control: Option<OwnedFd>,
    pub(super) kernel_log: Option<OwnedFd>,
}

impl Legacy {
    /// Reads what the program before left under this descriptor number.
    ///
    /// # Errors
    /// Says what is not as it should be.
    pub(super) fn read(number: i32) -> Result<Legacy, String> {
        let file = socket::inherited(number).map_err(|fault| format!("resume: {fault}"))?;
        let content = memory::content(file).map_err(|fault| format!("resume: {fault}"))?;
        config::decode(&content).map_err(|fault| format!("resume: {fault}"))
    }

    /// Takes copies of the descriptors, closed on exec: the originals stay for the way back, until [`Legacy::settle`].
    ///
    /// # Errors
    /// The errno of fcntl(2).
    pub(super) fn take(&self) -> Result<Inherited, String> {
        let copy = |number: &i32| socket::copy_of(*number).map_err(|fault| format!("resume: descriptor {number}: {fault}"));
        let listeners = self
            .listeners
            .iter()
            .map(|(configured, number)| copy(number).map(|socket| Rc::new(Listener { configured: configured.clone(), socket, own: true })));
        let workers = self.workers.iter().map(|(pid, number, log_number)| {
            let child = Child { pid: *pid, channel: Channel::from(copy(number)?), started_ms: 0, state: State::Serving };
            Ok((child, *log_number))
        });
        Ok(Inherited {
            listeners: listeners.collect::<Result<_, _>>()?,
            workers: workers.collect::<Result<_, String>>()?,
            generation: self.generation,
            counters: copy(&self.counters)?,
            control: self.control.as_ref().map(copy).transpose()?,
            kernel_log: self.kernel_log.as_ref().map(copy).transpose()?,
        })
    }

    /// The new program serves: closes what was kept for the way back.
    pub(super) fn settle(self) {
        for number in self.numbers() {
            drop(socket::inherited(number));
        }
    }

    /// The new program cannot serve: becomes the old one again. Returns only when even that failed.
    pub(super) fn go_back(mut self) -> String {
        if self.returning {
            return "the old program cannot serve either".to_owned();
        }
        self.returning = true;
        let outcome =
            socket::copy_of(self.executable).and_then(|held| process::become_program(&Executable::from(held), &self.arguments()?, &[]));
        format!("back to the old program: {}", outcome.map_or_else(|fault| fault.to_string(), |never| match never {}))
    }

    /// The command line that hands the legacy over.
    fn arguments(&self) -> io::Result<[OsString; 6]> {
        let number = process::keep_over_exec(memory::sealed(&config::encode(self))?)?;
        let [run, option, resume] = ["run", "-c", "--resume"].map(OsString::from);
        Ok([self.program.clone(), run, option, self.file.clone(), resume, number.to_string().into()])
    }

    fn numbers(&self) -> Vec<i32> {
        let listeners = self.listeners.iter().map(|(_, number)| *number);
        let workers = self.workers.iter().map(|(_, number, _)| *number);
        listeners.chain(workers).chain([self.counters, self.executable]).chain(self.control).chain(self.kernel_log).collect()
    }
}

impl Supervisor {
    /// Becomes the program that now lies where this one was started from, if it takes the configuration.
    pub(super) fn upgrade(&mut self) {
        let why = self.try_upgrade().map_or_else(|why| why, |never| match never {});
        self.logs.report.line(Level::Error, &format!("upgrade: {why}; the running program goes on"));
    }

    fn try_upgrade(&mut self) -> Result<std::convert::Infallible, String> {
        if self.is_stopping() || self.pending.is_some() {
            return Err("the service is stopping, or a reload is under way".to_owned());
        }
        let file = self.source.file.clone().ok_or("there is no configuration file to read again")?;
        let program = self.source.program.clone();
        let open = self.current().into_iter().flat_map(|generation| &generation.listeners);
        let open: Vec<String> = open.map(|listener| listener.address().to_string()).collect();
        process::check(&program, &file, &open).map_err(|why| format!("\"{}\" refuses the configuration: {why}", program.display()))?;
        let next = Executable::open(&program).map_err(|fault| format!("\"{}\": {fault}", program.display()))?;
        let legacy = self.legacy(&file).map_err(|fault| format!("descriptors: {fault}"))?;
        let arguments = legacy.arguments().map_err(|fault| fault.to_string())?;
        // The old `log` ends when the last old worker has; the next program starts its own.
        if let Some(log) = self.generations.first().and_then(|generation| generation.slots.first()).and_then(|slot| slot.child.as_ref()) {
            let _ = log.channel.send(&ToLog::Stop, &[]);
        }
        self.logs.report.line(Level::Notice, "the program is replaced");
        process::become_program(&next, &arguments, self.manager.environment()).map_err(|fault| {
            legacy.settle();
            format!("\"{}\": {fault}", program.display())
        })
    }

    /// Everything the next program needs, under numbers that exec leaves open.
    fn legacy(&self, file: &Path) -> io::Result<Legacy> {
        let keep = |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned().and_then(process::keep_over_exec);
        let current = self.current();
        let listeners = current.iter().flat_map(|generation| &generation.listeners);
        let serving = self.generations.iter().filter(|generation| generation.number > 0).flat_map(|generation| &generation.slots);
        let workers = serving.filter_map(|slot| slot.child.as_ref().map(|child| (child, slot.log_number)));
        Ok(Legacy {
            listeners: listeners
                .map(|listener| Ok((listener.configured.clone(), keep(listener.socket.as_fd())?)))
                .collect::<io::Result<_>>()?,
            workers: workers.map(|(child, number)| Ok((child.pid, keep(child.channel.as_fd())?, number))).collect::<io::Result<_>>()?,
            generation: self.next_generation,
            counters: keep(self.nursery.counters.as_fd())?,
            control: self.control.listener().map(keep).transpose()?,
            kernel_log: self.nursery.kernel_log.as_ref().ok().map(|log| keep(log.as_fd())).transpose()?,
            executable: keep(self.nursery.executable.as_fd())?,
            program: self.source.program.clone().into(),
            file: file.into(),
            filter: seccomp::digest(Policy::of(Role::Parent).list),
            returning: false,
        })
    }

    /// Takes over the workers of the program before, which serve until the first generation of this one does.
    pub(super) fn adopt(&mut self, workers: Vec<(Child, u16)>, drain_ms: u64) -> io::Result<()> {
        let Some(cells) = self.generations.first().map(|generation| generation.cells.clone()) else {
            return Ok(());
        };
        let count = u16::try_from(workers.len()).unwrap_or(u16::MAX);
        let mut generation = Generation::new(self.next_generation, cells, Vec::new(), count, drain_ms);
        self.next_generation += 1;
        generation.phase = Phase::Serving;
        for (index, (slot, (child, log_number))) in (0..).zip(generation.slots.iter_mut().zip(workers)) {
            self.poller.add(&child.channel, Interest::Input, Place { generation: generation.number, slot: index }.token())?;
            slot.log_number = log_number;
            slot.child = Some(child);
        }
        self.generations.push(generation);
        Ok(())
    }
}
