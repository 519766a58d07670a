//! What the parent decides about each confined process: whom it runs as, what it sees, which rights it needs.

use super::account;
use super::backends::{Backends, programs, runs, spool};
use super::passwords::Passwords;
use crate::config::{
    self, Act, AuthSlice, Config, ConnectSlice, FilesSlice, JailMode, KeySlice, KeysSlice, LogNumbers, LogSlice, RunSlice, SpawnSlice,
    SpoolSlice, TicketSource, WorkerSlice,
};
use crate::ipc::birth;
use crate::role::{Layer, Role};
use crate::sys::attributes::Mounts;
use crate::sys::confine::Cell;
use crate::sys::jail::Tree;
use crate::sys::memory;
use crate::sys::policy::Policy;
use crate::sys::privilege::Identity;
use crate::sys::process;
use crate::sys::shown::{directory, resolved, safe_root};
use crate::sys::withheld::Withheld;
use crate::tls::{KeyFile, Loaded, tickets};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The part of every cell that does not depend on its role, and the slices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cells {
    pub(super) identity: Identity,
    of_keys: Identity,
    pub(super) allow_missing: Vec<Layer>,
    /// Document roots and `jail.also`, resolved.
    shown: Vec<OsString>,
    /// Which of them are on local disks.
    local: Vec<bool>,
    chroot: Option<OsString>,
    withheld: Withheld,
    worker: WorkerSlice,
    log: LogSlice,
    files: FilesSlice,
    backends: Backends,
    keys: KeysSlice,
    /// The files of these, and that of tickets where there is one.
    #[serde(skip)]
    key_files: Vec<Rc<OwnedFd>>,
    auth: AuthSlice,
    #[serde(skip)]
    password_files: Vec<Rc<OwnedFd>>,
    /// When certificates are over, for `status`.
    pub(super) ends: Vec<(PathBuf, u64)>,
    spool: SpoolSlice,
    pub(super) programs: SpawnSlice,
    /// What is run for requests.
    pub(super) runs: Option<RunSlice>,
}

/// What a process is started for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth {
    /// To prove the sandbox.
    Proof,
    /// For a generation that does not serve yet.
    First,
    /// To take the place of one that ended.
    Again,
}

impl Cells {
    /// Resolves the directories that are shown; a confined process could not, and a link is followed here once.
    ///
    /// # Errors
    /// Names every directory that cannot be shown, and why, on a line each.
    pub(super) fn new(
        config: &mut Config,
        identity: Identity,
        logs: LogNumbers,
        (tls, passwords): (Loaded, Passwords),
    ) -> Result<Cells, String> {
        let mut faults: Vec<String> = Vec::new();
        let mut replace = |path: &mut PathBuf, by: fn(&Path) -> Result<PathBuf, String>| match by(path) {
            Ok(found) => *path = found,
            Err(fault) if faults.contains(&fault) => {}
            Err(fault) => faults.push(fault),
        };
        for site in &mut config.sites {
            replace(&mut site.root, directory);
            for rule in &mut site.rules {
                if let Some(to) = rule.act.as_mut().and_then(Act::directory_mut) {
                    replace(&mut to.base, resolved);
                }
                if let Some(path) = rule.act.as_mut().and_then(Act::sendfile_mut) {
                    replace(path, directory);
                }
            }
        }
        let mut also = config.jail.also.clone();
        also.iter_mut().for_each(|path| replace(path, directory));
        if !faults.is_empty() {
            return Err(faults.join("\n"));
        }
        let bases = config::directories(&config.sites).0.into_iter().map(|base| base.path);
        let shown: Vec<PathBuf> = bases.chain(also).collect();
        // Compared where the file was read, but a link may lead elsewhere by now; said here, and made sure where it is shown.
        let withheld = Withheld::of(config.secrets.iter().map(|(file, _)| file.as_path()));
        shown.iter().try_for_each(|path| withheld.refuse_path(path))?;
        let chroot = match &config.jail.mode {
            JailMode::Mount => None,
            JailMode::Chroot(root) => Some(safe_root(root, identity)?.into()),
        };
        let mounts = Mounts::read();
        Ok(Cells {
            identity,
            of_keys: account::of_keys(identity),
            allow_missing: config.jail.allow_missing.clone(),
            local: shown.iter().map(|path| mounts.is_on_local_disk(path)).collect(),
            shown: shown.into_iter().map(OsString::from).collect(),
            chroot,
            backends: Backends::new(config, &withheld)?,
            spool: spool(config, identity, &withheld)?,
            withheld,
            worker: WorkerSlice { tls: tls.sites, ..config.worker_slice(logs) },
            ends: tls.ends,
            keys: KeysSlice { keys: tls.keys.iter().map(|key| (!key.given_away).then(|| slice(key))).collect(), tickets: tls.tickets },
            key_files: tls.keys.iter().filter(|key| !key.given_away).map(|key| Rc::clone(&key.file)).chain(tls.ticket_file).collect(),
            auth: config.auth_slice(),
            password_files: passwords.files,
            log: config.log_slice(),
            files: config.files_slice(),
            programs: programs(config, identity)?,
            runs: runs(config, identity)?,
        })
    }

    /// That a directory, by its number, cannot be looked into by confined processes.
    pub(super) fn unusable(&self, directory: u16, errno: i32) -> (PathBuf, String) {
        let path = self.shown.get(usize::from(directory)).map_or_else(|| "?".into(), PathBuf::from);
        let (fault, uid) = (std::io::Error::from_raw_os_error(errno), self.identity.uid);
        let text = format!("root \"{}\": {fault} (uid {uid}): nothing of it can be served", path.display());
        (path, text)
    }

    /// The logs that its workers write to.
    pub(super) fn log_numbers(&self) -> impl Iterator<Item = u16> {
        let numbers = &self.worker.logs;
        numbers.sites.iter().chain([&numbers.service]).copied().flatten()
    }

    /// The brokers that a generation has because its configuration needs them.
    pub(super) fn brokers(&self) -> impl Iterator<Item = Role> {
        let connect = self.backends.role();
        let any = connect.is_some() || self.runs.is_some();
        let keys = Some(Role::Keys).filter(|_| self.keys.keys.iter().any(Option::is_some) || self.keys.tickets.is_some());
        let auth = Some(Role::Auth).filter(|_| !self.auth.files.is_empty());
        connect.into_iter().chain(Some(Role::Spool).filter(|_| any)).chain(keys).chain(auth)
    }

    /// What is to be said where the memory of `keys` cannot be locked.
    pub(super) fn swappable(&self) -> Option<String> {
        let needed = self.keys.memory();
        let told = || format!("RLIMIT_MEMLOCK is less than {needed} bytes: private keys may be written to a swap area");
        (self.keys.keys.iter().any(Option::is_some) && !memory::may_lock(needed)).then(told)
    }

    /// Whence the keys of tickets come, which another configuration goes on with.
    pub(super) fn tickets(&self) -> Option<&TicketSource> {
        self.keys.tickets.as_ref()
    }

    /// Goes on with what another had, so that its tickets are good here too.
    pub(super) fn go_on_with(&mut self, tickets: Option<&TicketSource>) {
        if let (Some(own @ TicketSource::Made { .. }), Some(other @ TicketSource::Made { .. })) = (&mut self.keys.tickets, tickets) {
            own.clone_from(other);
        }
    }

    /// Forgets secrets of hours that are over.
    pub(super) fn forget_tickets(&mut self, hour: u64) {
        self.keys.tickets.iter_mut().for_each(|source| tickets::forget(source, hour));
    }

    /// Takes the files with private keys, and behind them those with passwords, which a program left to itself.
    pub(super) fn take_files(&mut self, mut files: Vec<Rc<OwnedFd>>) {
        self.password_files = files.split_off(files.len().saturating_sub(self.auth.files.len()));
        self.key_files = files;
    }

    /// What a process of this role is given beside its slice: files with private keys, or with passwords.
    pub(super) fn given_files(&self, role: Role) -> Vec<BorrowedFd<'_>> {
        let files: &[Rc<OwnedFd>] = match role {
            Role::Keys => &self.key_files,
            Role::Auth => &self.password_files,
            Role::Parent | Role::Worker | Role::Log | Role::Files | Role::Connect | Role::ConnectTcp | Role::Spool | Role::Spawn => &[],
        };
        files.iter().map(|file| file.as_fd()).collect()
    }

    /// Looks again for the sockets of backends, which `spawn` has made meanwhile.
    pub(super) fn see_sockets(&mut self) {
        self.backends.look_again(&self.withheld);
    }

    /// Whether there is anything for `spawn` to start.
    pub(super) fn needs_spawn(&self) -> bool {
        !self.programs.programs.is_empty() || self.runs.is_some()
    }

    /// Whom a role runs as.
    pub(super) fn identity_of(&self, role: Role) -> Identity {
        if role == Role::Keys { self.of_keys } else { self.identity }
    }

    /// The supplementary groups of a role.
    pub(super) fn groups(&self, role: Role) -> &[u32] {
        if role.is_connect() { &self.backends.groups } else { &[] }
    }

    /// The directories that a role sees.
    fn sees(&self, role: Role) -> Vec<OsString> {
        match role {
            Role::Worker | Role::Files => self.shown.clone(),
            Role::Connect | Role::ConnectTcp => self.backends.shown.clone(),
            Role::Spool => self.spool.directory.iter().map(OsString::from).collect(),
            Role::Log | Role::Keys | Role::Auth | Role::Spawn | Role::Parent => Vec::new(),
        }
    }

    /// What a new process of this role is told, encoded.
    pub(super) fn encode(&self, role: Role, number: u16, birth: Birth) -> Vec<u8> {
        let cell = self.cell(role, number, birth == Birth::Proof);
        match role {
            Role::Worker => config::encode(&(cell, &self.worker)),
            Role::Log => config::encode(&(cell, &self.log)),
            Role::Files => config::encode(&(cell, &self.files)),
            Role::Connect | Role::ConnectTcp => {
                config::encode(&(cell, ConnectSlice { again: birth == Birth::Again, ..self.backends.slice.clone() }))
            }
            Role::Spool => config::encode(&(cell, &self.spool)),
            Role::Keys => config::encode(&(cell, &self.keys)),
            Role::Auth => config::encode(&(cell, &self.auth)),
            // Its programs come by message, since they change while it runs.
            Role::Spawn => config::encode(&(cell, ())),
            // The parent starts no parent.
            Role::Parent => Vec::new(),
        }
    }

    fn cell(&self, role: Role, number: u16, proof: bool) -> Cell {
        let sees_tree = matches!(role, Role::Worker | Role::Files);
        let tree = match &self.chroot {
            Some(root) if sees_tree => Tree::Beneath(root.clone()),
            _ => match (role, &self.spool.directory) {
                (Role::Spool, Some(directory)) => Tree::Written(directory.into()),
                _ => Tree::Shown(self.sees(role)),
            },
        };
        // The policy's rights, less what this configuration does not need.
        let lists = self.files.directories.iter().any(|base| base.lists);
        let needed = |right: &&str| lists || *right != "read_dir";
        let rights = Policy::of(role).landlock.iter().map(|grant| grant.name).filter(needed).map(str::to_owned).collect();
        Cell {
            role,
            identity: self.identity_of(role),
            tree,
            paths: self.sees(role),
            local: match role {
                Role::Worker => self.local.clone(),
                Role::Parent
                | Role::Log
                | Role::Files
                | Role::Connect
                | Role::ConnectTcp
                | Role::Spool
                | Role::Keys
                | Role::Auth
                | Role::Spawn => Vec::new(),
            },
            withheld: self.withheld.clone(),
            rights,
            ports: if role == Role::ConnectTcp { self.backends.ports() } else { Vec::new() },
            groups: self.groups(role).to_vec(),
            allow_missing: self.allow_missing.clone(),
            proof,
            number,
            parent: process::own_id(),
            last_descriptor: match role {
                Role::Worker => birth::AUTH_CHANNEL,
                Role::Keys | Role::Auth if !proof => birth::SLICE + i32::try_from(self.given_files(role).len()).unwrap_or(0),
                Role::Log => birth::KERNEL_LOG,
                Role::Files | Role::Connect | Role::ConnectTcp | Role::Spool | Role::Keys | Role::Auth | Role::Spawn | Role::Parent => {
                    birth::SLICE
                }
            },
        }
    }
}

fn slice(key: &KeyFile) -> KeySlice {
    KeySlice { path: key.path.to_string_lossy().into_owned(), public: key.public.clone() }
}
