//! What the parent finds out about backends for `connect` and `spawn`: where sockets are, and whom names of users and groups mean.

use crate::config::{BackendAddress, Config, ConnectSlice, Program, Protocol, RunSlice, SpawnSlice, SpoolSlice, Target, run_roots};
use crate::role::Role;
use crate::sys::privilege::{self, Identity};
use crate::sys::shown;
use crate::sys::withheld::Withheld;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The part of the cells that `connect` gets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Backends {
    pub(super) slice: ConnectSlice,
    /// Directories of sockets, links followed; of one that holds what no role may see, as /run does, the socket alone. One that is not there yet cannot be shown; the parent looks for it from time to time.
    pub(super) shown: Vec<OsString>,
    /// Sorted, as the kernel keeps them.
    pub(super) groups: Vec<u32>,
}

impl Backends {
    /// # Errors
    /// Names a group that is not known, or is root's.
    pub(super) fn new(config: &Config, withheld: &Withheld) -> Result<Backends, String> {
        let (mut groups, mut targets) = (BTreeSet::new(), Vec::new());
        for backend in config.backends.iter().filter(|backend| backend.protocol != Protocol::Cgi) {
            if let Some(group) = &backend.group {
                match privilege::look_up_group(group)? {
                    0 => return Err(format!("group of backend \"{}\": the group of root opens more than a socket", backend.name)),
                    gid => drop(groups.insert(gid)),
                }
            }
            let timeout_ms = u64::try_from(backend.connect_timeout.as_millis()).unwrap_or(u64::MAX);
            for address in &backend.addresses {
                let mut target = Target { timeout_ms, begins: backend.spawn.is_some(), ..Target::default() };
                match address {
                    BackendAddress::Tcp { host, port } => target.addresses.push(SocketAddr::new(*host, *port)),
                    BackendAddress::Name { .. } => target.name = address.name(),
                    BackendAddress::Unix(path) => {
                        target.path = Some(resolved(path));
                    }
                }
                targets.push(target);
            }
        }
        let slice = ConnectSlice { targets, again: false };
        let mut backends = Backends { slice, shown: Vec::new(), groups: groups.into_iter().collect() };
        backends.look_again(withheld);
        Ok(backends)
    }

    /// Shows what is there of the sockets now.
    pub(super) fn look_again(&mut self, withheld: &Withheld) {
        let paths = self.slice.targets.iter().filter_map(|target| target.path.as_deref());
        let places: BTreeSet<&Path> = paths.filter_map(|path| place(path, withheld)).collect();
        self.shown = places.into_iter().map(OsString::from).collect();
    }

    pub(super) fn role(&self) -> Option<Role> {
        let has_tcp = self.slice.targets.iter().any(|target| target.path.is_none());
        (!self.slice.targets.is_empty()).then_some(if has_tcp { Role::ConnectTcp } else { Role::Connect })
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        let ports = self.slice.targets.iter().flat_map(|target| &target.addresses).map(SocketAddr::port);
        let of_names = self.slice.targets.iter().filter_map(|target| target.name.as_ref()).map(|(_, port)| *port);
        ports.chain(of_names).collect::<BTreeSet<u16>>().into_iter().collect()
    }
}

/// What is watched of that: when another takes its place, or appears, a new generation sees it.
pub(super) fn watched(config: &Config) -> impl Iterator<Item = PathBuf> {
    let withheld = Withheld::of(config.secrets.iter().map(|(file, _)| file.as_path()));
    let others = config.backends.iter().filter(|backend| backend.protocol != Protocol::Cgi);
    let addresses = others.flat_map(|backend| &backend.addresses);
    let sockets = addresses.filter_map(move |address| match address {
        BackendAddress::Unix(path) => {
            path.parent().map(|directory| if withheld.refuse_path(directory).is_ok() { directory } else { path }.to_owned())
        }
        BackendAddress::Tcp { .. } | BackendAddress::Name { .. } => None,
    });
    sockets.chain(Some(config.server.spool.clone()).filter(|_| !config.backends.is_empty()))
}

/// A socket's path without links, as the jail can show it; of one that is not there yet at least its directory's.
fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| match (path.parent().map(std::fs::canonicalize), path.file_name()) {
        (Some(Ok(directory)), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    })
}

/// What is shown of a socket: its directory, in which its program may make it anew; the socket itself where that may not be shown.
fn place<'p>(path: &'p Path, withheld: &Withheld) -> Option<&'p Path> {
    let directory = path.parent().filter(|directory| directory.is_dir())?;
    let may_be_shown = directory != Path::new("/") && withheld.refuse_path(directory).is_ok();
    if may_be_shown { Some(directory) } else { Some(path).filter(|path| path.exists()) }
}

/// Where bodies are kept that are too large for memory. A directory that is not there yet is no fault: who needs it is told then, and the
/// parent looks for it from time to time.
///
/// # Errors
/// Names it, and why it is not taken.
pub(super) fn spool(config: &Config, identity: Identity, withheld: &Withheld) -> Result<SpoolSlice, String> {
    let max = config.server.spool_max;
    if config.backends.is_empty() {
        return Ok(SpoolSlice { directory: None, max });
    }
    let directory = shown::spool(&config.server.spool, identity)?;
    directory.iter().try_for_each(|directory| withheld.refuse_path(directory))?;
    Ok(SpoolSlice { directory, max })
}

/// The programs with their users looked up.
///
/// # Errors
/// Names what is not known or not possible.
pub(super) fn programs(config: &Config, identity: Identity) -> Result<SpawnSlice, String> {
    let started = config.backends.iter().filter_map(|backend| Some((backend, backend.spawn.as_ref()?)));
    let programs = started.map(|(backend, spawn)| {
        let of = |why: String| format!("program of backend \"{}\": {why}", backend.name);
        if identity.rootless {
            return Err(of("only root can start programs as other users".to_owned()));
        }
        let [BackendAddress::Unix(socket)] = backend.addresses.as_slice() else {
            return Err(of("its backend needs one address, a path, where the socket for it is made".to_owned()));
        };
        let (uid, gid) = privilege::look_up(&spawn.user, spawn.group.as_deref()).map_err(of)?;
        if uid == 0 || gid == 0 || uid == identity.uid {
            return Err(of(format!("it may not run as root, nor as the user of the service (user id {uid}, group id {gid})")));
        }
        Ok(Program {
            backend: backend.name.clone(),
            command: spawn.command.clone(),
            processes: spawn.processes,
            uid,
            gid,
            env: spawn.env.clone(),
            socket: socket.clone(),
            socket_group: identity.gid,
        })
    });
    Ok(SpawnSlice { programs: programs.collect::<Result<_, _>>()? })
}

/// What is run for requests, with the user looked up.
///
/// # Errors
/// Names what is not known or not possible.
pub(super) fn runs(config: &Config, identity: Identity) -> Result<Option<RunSlice>, String> {
    if !config.backends.iter().any(|backend| backend.protocol == Protocol::Cgi) {
        return Ok(None);
    }
    let cgi = &config.cgi;
    let user = match &cgi.user {
        Some(user) if !identity.rootless => {
            let (uid, gid) = privilege::look_up(user, cgi.group.as_deref()).map_err(|why| format!("user of [cgi]: {why}"))?;
            if uid == 0 || gid == 0 || uid == identity.uid {
                return Err(format!(
                    "user of [cgi]: programs may not run as root, nor as the user of the service (user id {uid}, group id {gid})"
                ));
            }
            Some((uid, gid))
        }
        _ => None,
    };
    Ok(Some(RunSlice {
        roots: run_roots(&config.sites),
        user,
        min_uid: cgi.min_uid,
        service: identity.uid,
        rootless: identity.rootless,
        max_programs: cgi.max_programs,
        run_timeout_ms: u64::try_from(cgi.run_timeout.as_millis()).unwrap_or(u64::MAX),
        env: cgi.env.clone(),
        limits: cgi.limits,
    }))
}
