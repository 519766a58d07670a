//! One confined process: its start, its channel, its verification, its end.

use super::cell::{Birth, Cells};
use crate::ipc::Channel;
use crate::role::{Layer, Role};
use crate::sys::process::{self, Ended, Executable, SIGALRM, SIGSYS, Start};
use crate::sys::verify::{self, Expected};
use crate::sys::{clock, kernel_log, memory, panic, proc};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What starting a child takes.
pub(super) struct Nursery {
    pub(super) executable: Executable,
    pub(super) null: OwnedFd,
    /// What workers count in; never mapped here.
    pub(super) counters: OwnedFd,
    /// What `log` reads, and nobody here: it holds what other programs and the network had the kernel say.
    pub(super) kernel_log: io::Result<OwnedFd>,
    /// Start children in a user namespace of their own.
    pub(super) user_namespace: bool,
}

/// A worker's ends of its channels to the brokers, or theirs.
pub(super) struct Ends {
    pub(super) log: Channel,
    pub(super) brokers: Brokers,
}

/// Those to the brokers of its generation. They are kept where there is no such broker too, so that no other descriptor gets their numbers.
pub(super) struct Brokers {
    pub(super) files: Channel,
    pub(super) connect: Channel,
    pub(super) spool: Channel,
    /// To the worker's own.
    pub(super) keys: Channel,
    pub(super) auth: Channel,
    /// Of no generation.
    pub(super) spawn: Channel,
}

/// A process that this parent started.
pub(super) struct Child {
    pub(super) pid: i32,
    pub(super) channel: Channel,
    pub(super) started_ms: u64,
    pub(super) state: State,
    /// When it was last looked at, a signal that ends it had not yet done so.
    pub(super) dying: bool,
}

/// Processes that hang in the kernel and were given up, and when they were looked for.
#[derive(Default)]
pub(super) struct Stuck {
    pub(super) pids: Vec<i32>,
    pub(super) looked: u64,
}

impl Stuck {
    /// One of them has ended after all.
    pub(super) fn forget(&mut self, pid: i32) {
        self.pids.retain(|stuck| *stuck != pid);
    }
}

/// How far a child has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has not yet said that it is confined.
    Starting,
    /// Verified, and given its work.
    Serving,
    /// Its channel has ended: so has it, or it will at this moment (monotonic milliseconds).
    Leaving(u64),
    /// It was killed for the reason that was logged; its end is not news.
    Condemned,
}

impl Nursery {
    /// Starts a process of a role with what [`Cells::encode`] says; `files` are those of `keys` or `auth`, `ends` a worker's.
    ///
    /// # Errors
    /// Says what failed, with the errno.
    pub(super) fn start(
        &self,
        role: Role,
        slice: &[u8],
        title: &str,
        files: &[BorrowedFd<'_>],
        ends: Option<&Ends>,
    ) -> Result<Child, String> {
        let slice = memory::sealed(slice).map_err(|fault| format!("slice for {title}: {fault}"))?;
        let (ours, theirs) = Channel::pair().map_err(|fault| format!("channel to {title}: {fault}"))?;
        let mut given = vec![theirs.as_fd(), slice.as_fd()];
        if let Some(ends) = ends {
            let Brokers { files, connect, spool, keys, auth, spawn } = &ends.brokers;
            given.extend([ends.log.as_fd(), connect.as_fd(), files.as_fd(), self.counters.as_fd()]);
            given.extend([spool.as_fd(), spawn.as_fd(), keys.as_fd(), auth.as_fd()]);
        } else if role == Role::Log
            && let Ok(kernel_log) = &self.kernel_log
        {
            given.push(kernel_log.as_fd());
        }
        given.extend(files);
        let title = format!("anchorite: {title}");
        let start = Start { title: &title, null: self.null.as_fd(), given: &given, user_namespace: self.user_namespace };
        let pid = process::start(&self.executable, &start).map_err(|fault| {
            let why = format!("start of \"{title}\": {}: {}", fault.step, fault.errno);
            if fault.step == process::USER_NAMESPACE { format!("{why}; {}", Layer::Namespaces.is_missing()) } else { why }
        })?;
        Ok(Child { pid, channel: ours, started_ms: clock::monotonic_ms(), state: State::Starting, dying: false })
    }

    /// Starts a process that proves the sandbox of a role.
    ///
    /// # Errors
    /// As [`Nursery::start`].
    pub(super) fn start_proof(&self, cells: &Cells, role: Role, title: &str, ends: Option<&Ends>) -> Result<Child, String> {
        self.start(role, &cells.encode(role, 0, Birth::Proof), title, &[], ends)
    }

    /// How a process ended. For which system call, `log` says in a line of its own, where the kernel's log can be read.
    pub(super) fn describe(&self, ended: Ended) -> String {
        const REFUSED: &str = "SIGSYS: it made a system call that its filter refuses";
        match (ended, &self.kernel_log) {
            (Ended::Exited(panic::EXIT_STATUS), _) => "panic (see the line before)".to_owned(),
            (Ended::Signalled(SIGSYS), Ok(_)) => REFUSED.to_owned(),
            (Ended::Signalled(SIGSYS), Err(fault)) => {
                let path = kernel_log::PATH;
                format!("{REFUSED}; which one stands in an audit record of type SECCOMP (1326): \"{path}\" is not to be had: {fault}")
            }
            (Ended::Signalled(SIGALRM), _) => "SIGALRM: a disk kept it for too long".to_owned(),
            (Ended::Exited(_) | Ended::Signalled(_), _) => ended.to_string(),
        }
    }

    /// Whether a child is confined as its policy says, read from `/proc` and not from what it says of itself.
    ///
    /// # Errors
    /// Everything in which it differs.
    pub(super) fn verify(cells: &Cells, role: Role, child: &Child, missing: &[Layer]) -> Result<(), String> {
        let status = proc::status(child.pid).map_err(|fault| fault.to_string())?;
        let own = proc::status(process::own_id()).map_err(|fault| fault.to_string())?;
        if let Some(layer) = missing.iter().find(|layer| !cells.allow_missing.contains(layer)) {
            return Err(format!("the layer \"{}\" is missing", layer.name()));
        }
        let groups = cells.groups(role);
        let expected = Expected { identity: cells.identity_of(role), groups, inherited_filters: own.seccomp_filters, missing };
        let faults = verify::faults(role, &status, &expected);
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

impl Ends {
    /// Those of a worker, and those of the brokers.
    ///
    /// # Errors
    /// The errno of socketpair(2).
    pub(super) fn pairs() -> Result<(Ends, Ends), String> {
        let pair = || Channel::pair().map_err(|fault| format!("channel of a worker: {fault}"));
        let ((log, to_log), (files, to_files), (connect, to_connect), (spool, to_spool)) = (pair()?, pair()?, pair()?, pair()?);
        let ((spawn, to_spawn), (keys, to_keys), (auth, to_auth)) = (pair()?, pair()?, pair()?);
        let theirs = Brokers { files: to_files, connect: to_connect, spool: to_spool, keys: to_keys, auth: to_auth, spawn: to_spawn };
        Ok((Ends { log, brokers: Brokers { files, connect, spool, keys, auth, spawn } }, Ends { log: to_log, brokers: theirs }))
    }
}

impl Brokers {
    /// The end for a broker of this role.
    pub(super) fn of(&self, role: Role) -> Option<&Channel> {
        match role {
            Role::Files => Some(&self.files),
            Role::Connect | Role::ConnectTcp => Some(&self.connect),
            Role::Spool => Some(&self.spool),
            Role::Keys => Some(&self.keys),
            Role::Auth => Some(&self.auth),
            Role::Spawn => Some(&self.spawn),
            Role::Parent | Role::Worker | Role::Log => None,
        }
    }

    pub(super) fn all(&self) -> [&Channel; 6] {
        [&self.files, &self.connect, &self.spool, &self.keys, &self.auth, &self.spawn]
    }
}

impl From<[Channel; 6]> for Brokers {
    fn from([files, connect, spool, keys, auth, spawn]: [Channel; 6]) -> Brokers {
        Brokers { files, connect, spool, keys, auth, spawn }
    }
}

impl Child {
    /// Ends it at once; the reason has been logged.
    pub(super) fn condemn(&mut self) {
        self.state = State::Condemned;
        process::kill(self.pid);
    }
}

/// How often what hangs in the kernel is looked for.
pub(super) const STUCK_MS: u64 = 2_000;
