//! The logs of the service: opened here, numbered, handed to `log`, opened again by their names. Runs in the parent.
//!
//! A log keeps its number as long as a generation uses it, so that lines which old workers still send go where they meant.

use super::report::Report;
use crate::config::{Config, Level, LogNumbers, LogTarget, SYSLOG};
use crate::ipc::Channel;
use crate::ipc::messages::{FILES_MAX, ToLog};
use crate::sys::kept::{self, Kept};
use crate::sys::privilege::Identity;
use crate::sys::{clock, log_file, socket};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Every log that a generation uses, and the parent's own way into the error log.
pub(super) struct Logs {
    open: BTreeMap<LogTarget, Open>,
    error: LogTarget,
    /// Whether access lines of a living generation go to the error log too.
    shared: bool,
    level: Level,
    identity: Identity,
    pub(super) report: Report,
}

/// What the next program needs to know of them; descriptors by their numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftLogs {
    pub(super) open: Vec<LeftLog>,
    error: LogTarget,
    shared: bool,
    level: Level,
    identity: Identity,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftLog {
    target: LogTarget,
    number: u16,
    pub(super) descriptor: i32,
    current: bool,
}

struct Open {
    number: u16,
    descriptor: OwnedFd,
    /// The newest configuration names it.
    current: bool,
}

impl Logs {
    /// Opens the logs that a configuration names; those of `before` that are still `in_use` stay with their numbers.
    ///
    /// # Errors
    /// Names the log that cannot be opened, and why.
    pub(super) fn open(config: &Config, identity: Identity, before: Option<(&Logs, &BTreeSet<u16>)>) -> Result<(Logs, LogNumbers), String> {
        let old = |(logs, in_use): (&Logs, &BTreeSet<u16>)| {
            let used = logs.open.iter().filter(|(_, open)| in_use.contains(&open.number));
            used.map(|(target, open)| (target.clone(), open.number)).collect()
        };
        let known: BTreeMap<LogTarget, u16> = before.map(old).unwrap_or_default();
        let numbers = config.number_logs(&known)?;
        let mut open = BTreeMap::new();
        for (target, number) in &numbers {
            open.insert(target.clone(), Open::new(target, *number, true, identity)?);
        }
        if let Some((logs, _)) = before {
            for target in known.keys().filter(|target| !numbers.contains_key(target)) {
                let kept = logs.open.get(target).map(Open::copy).transpose()?;
                open.extend(kept.map(|kept| (target.clone(), kept)));
            }
        }
        let access = config.log_numbers(&numbers);
        let error = numbers.get(&config.log.error).copied();
        let logs = Logs {
            shared: access.sites.contains(&error) || access.service == error || known.contains_key(&config.log.error),
            report: report(&config.log.error, identity, config.log.level)?,
            open,
            error: config.log.error.clone(),
            level: config.log.level,
            identity,
        };
        Ok((logs, access))
    }

    /// The numbers of all of them.
    pub(super) fn numbers(&self) -> BTreeSet<u16> {
        self.open.values().map(|open| open.number).collect()
    }

    /// Leaves them to the next program.
    ///
    /// # Errors
    /// The errno of fcntl(2).
    pub(super) fn leave(&self, kept: &mut Kept) -> io::Result<LeftLogs> {
        let open = self.open.iter().map(|(target, open)| {
            let descriptor = kept.keep(open.descriptor.as_fd())?;
            Ok(LeftLog { target: target.clone(), number: open.number, descriptor, current: open.current })
        });
        let (error, shared, level, identity) = (self.error.clone(), self.shared, self.level, self.identity);
        Ok(LeftLogs { open: open.collect::<io::Result<_>>()?, error, shared, level, identity })
    }

    /// Takes up what the program before left.
    ///
    /// # Errors
    /// The errno of fcntl(2).
    pub(super) fn inherit(left: &LeftLogs) -> Result<Logs, String> {
        let mut open = BTreeMap::new();
        for LeftLog { target, number, descriptor, current } in &left.open {
            open.insert(target.clone(), Open { number: *number, descriptor: kept::copy(*descriptor)?, current: *current });
        }
        let (error, shared, level, identity) = (left.error.clone(), left.shared, left.level, left.identity);
        let own = match open.get(&error) {
            Some(open) => socket::copy(&open.descriptor).map_err(|fault| format!("log: {fault}"))?,
            None => open_log(&error, identity)?,
        };
        Ok(Logs { report: Report::new(own, error == LogTarget::Syslog, level), open, error, shared, level, identity })
    }

    /// The same logs, opened again by their names. One that only older generations use stays as it is where that fails.
    ///
    /// # Errors
    /// As [`Logs::open`].
    pub(super) fn reopened(&self) -> Result<Logs, String> {
        let mut open = BTreeMap::new();
        for (target, before) in &self.open {
            let again = match Open::new(target, before.number, before.current, self.identity) {
                Err(_) if !before.current => before.copy(),
                outcome => outcome,
            };
            open.insert(target.clone(), again?);
        }
        Ok(Logs {
            report: report(&self.error, self.identity, self.level)?,
            open,
            error: self.error.clone(),
            shared: self.shared,
            level: self.level,
            identity: self.identity,
        })
    }

    /// Closes those that no generation uses any more; false: there are none.
    pub(super) fn close_unused(&mut self, in_use: &BTreeSet<u16>) -> bool {
        let before = self.open.len();
        self.open.retain(|_, open| open.current || in_use.contains(&open.number));
        self.open.len() < before
    }

    /// Hands all of them to `log`, in place of those it has.
    ///
    /// # Errors
    /// `log` is gone, or takes nothing for too long.
    pub(super) fn hand_over(&self, log: &Channel) -> io::Result<()> {
        let all: Vec<&Open> = self.open.values().collect();
        for some in all.chunks(FILES_MAX) {
            let numbers = some.iter().map(|open| open.number).collect();
            let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(|open| open.descriptor.as_fd()).collect();
            send_patiently(log, &ToLog::Files { numbers }, &descriptors)?;
        }
        let error = self.open.get(&self.error).map_or(SYSLOG, |open| open.number);
        let (level, shared) = (self.level, self.shared);
        send_patiently(log, &ToLog::InForce { level, error, shared }, &[])
    }

    /// A new socket to syslog; `None`: nobody listens there, or no log goes there.
    pub(super) fn renew_syslog(&mut self) -> Option<BorrowedFd<'_>> {
        let open = self.open.get_mut(&LogTarget::Syslog)?;
        let (socket, connected) = socket::syslog().ok()?;
        open.descriptor = socket;
        connected.then(|| open.descriptor.as_fd())
    }

    /// What is said of lines that are lost.
    pub(super) fn loss(&self, lines: u32, number: u16, errno: u16) -> String {
        let name = match self.open.iter().find(|(_, open)| open.number == number) {
            Some((LogTarget::File(path), _)) => format!("\"{}\"", path.display()),
            Some((LogTarget::Stderr, _)) => "standard error".to_owned(),
            Some((LogTarget::Syslog, _)) => "syslog".to_owned(),
            Some((LogTarget::Off, _)) | None => "a log that is closed".to_owned(),
        };
        let fault = io::Error::from_raw_os_error(i32::from(errno));
        format!("{lines} log lines could not be written and are lost, the last of them to {name}: {fault}")
    }
}

impl Open {
    fn new(target: &LogTarget, number: u16, current: bool, identity: Identity) -> Result<Open, String> {
        Ok(Open { number, descriptor: open_log(target, identity)?, current })
    }

    fn copy(&self) -> Result<Open, String> {
        Ok(Open {
            number: self.number,
            descriptor: socket::copy(&self.descriptor).map_err(|fault| format!("log: {fault}"))?,
            current: false,
        })
    }
}

fn report(error: &LogTarget, identity: Identity, level: Level) -> Result<Report, String> {
    Ok(Report::new(open_log(error, identity)?, *error == LogTarget::Syslog, level))
}

/// Whom logs are kept from. `None`: without a user of its own for confined roles, the caller's own directories are theirs too.
fn service(identity: Identity) -> Option<(u32, u32)> {
    (!identity.rootless).then_some((identity.uid, identity.gid))
}

fn open_log(target: &LogTarget, identity: Identity) -> Result<OwnedFd, String> {
    match target {
        LogTarget::Stderr => log_file::standard_error().map_err(|fault| format!("standard error: {fault}")),
        LogTarget::Off => socket::null().map_err(|fault| format!("/dev/null: {fault}")),
        // Where nobody listens, lines are lost and counted until somebody does: no reason not to serve.
        LogTarget::Syslog => socket::syslog().map(|(socket, _)| socket).map_err(|fault| format!("syslog: {fault}")),
        LogTarget::File(path) => {
            log_file::open_for_appending(path, service(identity)).map_err(|fault| format!("log \"{}\": {fault}", path.display()))
        }
    }
}

/// `log` may be behind when there are many files; it is given a moment, and not for ever.
fn send_patiently(log: &Channel, message: &ToLog, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let deadline = clock::monotonic_ms() + PATIENCE_MS;
    loop {
        match log.send(message, descriptors) {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock && clock::monotonic_ms() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            outcome => return outcome,
        }
    }
}

const PATIENCE_MS: u64 = 2_000;
