//! What one program leaves to the next when it is replaced in place: a sealed memory file that survives execve(2).
//!
//! It begins with a head that every version understands, so that a program which can read nothing else of it can still make
//! way for the one before. What follows is for the next program; the [`Rest`] behind that only for the way back, and read
//! by no other program than the one that wrote it.

use super::cell::Cells;
use super::child::{Brokers, Child, State};
use super::listen::Listener;
use super::logs::{LeftLogs, Logs};
use super::prepare::Fixed;
use super::slot::Slot;
use crate::config::{self, Listen, TicketSource};
use crate::ipc::Channel;
use crate::role::Role;
use crate::sys::kept::copy;
use crate::sys::privilege::Identity;
use crate::sys::process::{self, Executable};
use crate::sys::watch::Watched;
use crate::sys::{memory, socket};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// What the next program takes up; descriptors by their numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Legacy {
    /// Each with whether it was bound by the service, and so is removed by it if it has a name.
    pub(super) listeners: Vec<(Listen, i32, bool)>,
    pub(super) children: Vec<LeftChild>,
    pub(super) generation: u32,
    pub(super) counters: i32,
    pub(super) control: Option<i32>,
    pub(super) kernel_log: Option<i32>,
    pub(super) logs: LeftLogs,
    pub(super) fixed: Fixed,
    /// Whence the keys of tickets come.
    pub(super) tickets: Option<TicketSource>,
    /// The files with private keys and with passwords, for the way back.
    pub(super) keys: Vec<i32>,
    /// Where the program lay when the service started.
    pub(super) program: OsString,
    /// Of the parent's filter, which stays in force over exec.
    pub(super) filter: u64,
    /// The old program, to go back to.
    pub(super) executable: i32,
    /// [`Rest`], encoded.
    pub(super) rest: Vec<u8>,
}

/// A process that serves.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftChild {
    pub(super) role: String,
    pub(super) pid: i32,
    pub(super) channel: i32,
    /// Of a worker: what each `files`, `connect` and `spool` of its generation gets, and `spawn`.
    pub(super) ends: Option<[i32; 6]>,
    /// What `log` and the counters know it by.
    pub(super) log_number: u16,
}

/// What the program needs beside that to be again as it was.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rest {
    pub(super) identity: Identity,
    pub(super) generations: Vec<LeftGeneration>,
    /// Where the configuration lies.
    pub(super) file: OsString,
    pub(super) control_socket: Option<OsString>,
    pub(super) pid_file: Option<OsString>,
    pub(super) watched: Watched,
    pub(super) restarts: u32,
    pub(super) lost_lines: u64,
    /// Of the process, and the words of the service manager.
    pub(super) title: String,
    pub(super) environment: Vec<(OsString, OsString)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftGeneration {
    pub(super) number: u32,
    pub(super) cells: Cells,
    /// By their places in [`Legacy::listeners`].
    pub(super) listeners: Vec<usize>,
    /// When it is ended, where it drains.
    pub(super) draining: Option<u64>,
    pub(super) drain_ms: u64,
    /// Role and number of each place, and the place of its process in [`Legacy::children`].
    pub(super) slots: Vec<(Role, u16, Option<usize>)>,
    /// The files with its private keys, then those with passwords, by their places in [`Legacy::keys`].
    pub(super) keys: Vec<usize>,
}

/// A legacy that was taken up.
pub(super) struct Inherited {
    pub(super) listeners: Vec<Rc<Listener>>,
    pub(super) children: Vec<Found>,
    pub(super) generation: u32,
    pub(super) counters: OwnedFd,
    pub(super) control: Option<OwnedFd>,
    pub(super) kernel_log: Option<OwnedFd>,
    pub(super) logs: Logs,
}

/// A process that the program before started, and what `log` knows it by.
pub(super) struct Found {
    pub(super) role: Role,
    pub(super) child: Child,
    pub(super) log_number: u16,
    pub(super) ends: Option<Brokers>,
}

impl Legacy {
    /// The memory file.
    ///
    /// # Errors
    /// The errno of memfd_create(2), write(2) or fcntl(2).
    pub(super) fn write(&self) -> io::Result<OwnedFd> {
        let mut content = HEAD.to_vec();
        content.extend(self.executable.to_le_bytes());
        content.extend(config::encode(self));
        memory::sealed(&content)
    }

    /// Reads what the program before left under this descriptor number, which stays open.
    ///
    /// # Errors
    /// Says what is not as it should be.
    pub(super) fn read(number: i32) -> Result<Legacy, String> {
        let content = content(number)?;
        let body = content.get(HEAD.len() + EXECUTABLE..).unwrap_or_default();
        config::decode(body).map_err(|fault| format!("resume: {fault}"))
    }

    /// Takes copies of the descriptors, closed on exec: the originals stay for the way back, until [`Legacy::settle`].
    /// Nothing that has a name is removed at the end before [`Legacy::settle`] either.
    ///
    /// # Errors
    /// The errno of fcntl(2), or a role that this program does not know.
    pub(super) fn take(&self) -> Result<Inherited, String> {
        let listener = |(configured, number, bound): &(Listen, i32, bool)| {
            Ok(Rc::new(Listener::inherited(configured.clone(), copy(*number)?, *bound)))
        };
        let listeners = self.listeners.iter().map(listener);
        let children = self.children.iter().map(|left| {
            let role = Role::from_name(&left.role).ok_or_else(|| format!("resume: unknown role \"{}\"", left.role))?;
            let child =
                Child { pid: left.pid, channel: Channel::from(copy(left.channel)?), started_ms: 0, state: State::Serving, dying: false };
            let taken = |number| copy(number).map(Channel::from);
            let ends =
                left.ends.map(|[a, b, c, d, e, f]| Ok::<_, String>([taken(a)?, taken(b)?, taken(c)?, taken(d)?, taken(e)?, taken(f)?]));
            let ends = ends.transpose()?;
            Ok(Found { role, child, log_number: left.log_number, ends: ends.map(Brokers::from) })
        });
        Ok(Inherited {
            listeners: listeners.collect::<Result<_, String>>()?,
            children: children.collect::<Result<_, String>>()?,
            generation: self.generation,
            counters: copy(self.counters)?,
            control: self.control.map(copy).transpose()?,
            kernel_log: self.kernel_log.map(copy).transpose()?,
            logs: Logs::inherit(&self.logs)?,
        })
    }

    /// The program that took it up serves: `listeners` are its own from now on, and what was kept for the way back is closed.
    pub(super) fn settle<'l>(self, resume: i32, listeners: impl Iterator<Item = &'l Rc<Listener>>) {
        let listeners: Vec<_> = listeners.collect();
        for (configured, _, _) in self.listeners.iter().filter(|(_, _, own)| *own) {
            match listeners.iter().find(|listener| listener.configured == *configured) {
                Some(listener) => listener.own.set(true),
                None => Listener::forget(configured),
            }
        }
        let listeners = self.listeners.iter().map(|(_, number, _)| *number);
        let children = self.children.iter().flat_map(|left| left.ends.into_iter().flatten().chain([left.channel]));
        let logs = self.logs.open.iter().map(|left| left.descriptor);
        let others = [resume, self.counters, self.executable].into_iter().chain(self.control).chain(self.kernel_log);
        for number in listeners.chain(children).chain(logs).chain(others).chain(self.keys) {
            drop(socket::inherited(number));
        }
    }
}

impl LeftGeneration {
    /// Its places, empty.
    pub(super) fn places(&self) -> Vec<Slot> {
        self.slots.iter().map(|(role, number, _)| Slot::new(*role, *number, self.number)).collect()
    }
}

/// Becomes the program that left this again, which is told why. Returns only when that failed.
pub(super) fn go_back(resume: i32, why: &str) -> String {
    let outcome = content(resume).and_then(|content| {
        let number = content.get(HEAD.len()..HEAD.len() + EXECUTABLE).and_then(|bytes| bytes.try_into().ok());
        let held = copy(i32::from_le_bytes(number.ok_or("resume: too short")?))?;
        // The same line that this program was given: the file and the number stand in it.
        let arguments: Vec<OsString> = std::env::args_os().chain(["--returned".into(), why.into()]).collect();
        process::become_program(&Executable::from(held), &arguments, &[]).map_err(|fault| fault.to_string())
    });
    format!("back to the old program: {}", outcome.map_or_else(|fault| fault, |never| match never {}))
}

fn content(number: i32) -> Result<Vec<u8>, String> {
    let content = copy(number).and_then(|file| memory::content(file).map_err(|fault| format!("resume: {fault}")))?;
    if content.starts_with(HEAD) { Ok(content) } else { Err("resume: not what a program of this kind leaves".to_owned()) }
}

/// Every version begins with this, and the number of the old program's descriptor, least significant byte first.
const HEAD: &[u8] = b"anchorite legacy\n";
const EXECUTABLE: usize = size_of::<i32>();
