//! `anchorite check` beyond the file itself: everything that a start needs, tried without serving or writing anything.
//!
//! Directories are tried by a worker in its jail, since only it knows what it can see. Runs as a command; in a service only [`placed`],
//! to say where in the file that stands which kept a reload from being made.

use super::account::identity;
use super::cell::Cells;
use super::child::Nursery;
use super::control;
use super::listen::{self, Owner};
use super::passwords::{self, Passwords};
use super::prove::prove;
use crate::config::{self, Act, BackendAddress, Config, JailMode, Listen, LogNumbers, LogTarget, Server, Setting};
use crate::sys::privilege::Identity;
use crate::sys::process::{self, Executable};
use crate::sys::{kernel_log, log_file, pid_file, proc, resolve, shared, shown, socket};
use crate::tls::{self, Loaded};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// How far a configuration is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Whether what it names is there.
    Outside,
    /// As a worker in its jail too.
    Jail,
}

/// Every fault that would keep the service from starting or from serving, and what it is about; empty: none. `owner` says who has an
/// address.
pub fn check(mut config: Config, depth: Depth, owner: impl Fn(&str) -> Owner) -> Vec<(Setting, String)> {
    // Without a user, or where the text has one at fault, what does not depend on it is tried all the same.
    let is_known = depth == Depth::Jail || config.server.user.is_some();
    let (mut faults, mut identity) = (Vec::new(), Err(()));
    if is_known {
        let told = |why: String| faults.push((if why.starts_with("group") { Setting::Group } else { Setting::User }, why));
        identity = self::identity(&config).map_err(told);
    }
    // The service then goes without them, and says so when it starts.
    control::leave_out_of_reach(&mut config.server, identity.is_ok_and(|identity| identity.rootless));
    faults.extend(try_outside(&config, identity.ok(), owner));
    if faults.iter().any(|(setting, _)| *setting == Setting::Spool) {
        // What is tried below shall not tell it again.
        config.server.spool = PathBuf::new();
    }
    let (mut loaded, mut opened) = (Loaded::default(), Passwords::default());
    if let Ok(identity) = identity {
        match tls::load(&config, identity).and_then(|found| tls::check_keys(&found).map(|()| found)) {
            Ok(found) => loaded = found,
            Err(wrong) => faults.extend(of_tls(wrong)),
        }
        match passwords::load(&config, identity) {
            Ok(found) => opened = found,
            Err(wrong) => faults.extend(of_passwords(wrong)),
        }
        faults.extend(unknown_names(&mut config, identity));
    }
    let missing = missing_directories(&config, identity.ok());
    leave_out(&mut config, &missing);
    let sees_nothing = config.sites.is_empty() || matches!(&config.jail.mode, JailMode::Chroot(root) if missing.contains_key(root));
    if let (Ok(identity), false, Depth::Jail) = (identity, sees_nothing, depth) {
        match try_roots(&mut config, identity, (loaded, opened)) {
            Ok(unusable) => faults.extend(unusable.into_iter().map(|(path, text)| (Setting::Directory(path), text))),
            Err(why) => faults.extend(why.lines().map(|line| (Setting::Whole, line.to_owned()))),
        }
    }
    faults.extend(of_directories(missing));
    faults
}

/// Everything that a reload would fail for beside `why` it has failed, each with its place in the file; `why` alone where that is over by
/// now, or has no place.
pub(super) fn placed(file: &Path, identity: Identity, owner: impl Fn(&str) -> Owner, why: String) -> String {
    let Ok(mut config) = config::load(file) else { return why };
    control::leave_out_of_reach(&mut config.server, identity.rootless);
    // Not where names of backends lead: NSS and DNS may keep who asks, and this one serves. `connect` has said it itself.
    let mut faults = try_outside(&config, Some(identity), owner);
    faults.extend(of_tls(tls::load(&config, identity).err().unwrap_or_default()));
    faults.extend(of_passwords(passwords::load(&config, identity).err().unwrap_or_default()));
    faults.extend(of_directories(missing_directories(&config, Some(identity))));
    if faults.is_empty() { why } else { config::diagnose(file, &faults).to_string() }
}

/// Files of TLS that are not as they must be.
fn of_tls(faults: Vec<(PathBuf, String)>) -> impl Iterator<Item = (Setting, String)> {
    faults.into_iter().map(|(path, why)| (Setting::Tls(path.clone()), format!("\"{}\": {why}", path.display())))
}

fn of_passwords(faults: Vec<(PathBuf, String)>) -> impl Iterator<Item = (Setting, String)> {
    faults.into_iter().map(|(path, why)| (Setting::Passwords(path.clone()), format!("password file \"{}\": {why}", path.display())))
}

fn of_directories(missing: BTreeMap<PathBuf, String>) -> impl Iterator<Item = (Setting, String)> {
    missing.into_iter().map(|(path, why)| (Setting::Directory(path), why))
}

/// Addresses, logs and the service's own files.
fn try_outside(config: &Config, identity: Option<Identity>, owner: impl Fn(&str) -> Owner) -> Vec<(Setting, String)> {
    let mut faults = Vec::new();
    for address in &config.addresses() {
        let (tried, is_any) = match address {
            Listen::Tcp(address) => (socket::listen(*address).map(drop), address.ip().is_unspecified()),
            Listen::Unix(path) => (socket::could_listen_path(path), false),
        };
        match tried {
            Err(fault) if fault.kind() == io::ErrorKind::AddrInUse && is_left_by(&owner, address) => {}
            Err(fault) if socket::is_without_ipv6(&fault) && is_any => {}
            Err(fault) => faults.push((Setting::Listen(address.clone()), format!("listen on {address}: {fault}"))),
            Ok(()) => {}
        }
    }
    let service = identity.filter(|identity| !identity.rootless).map(|identity| (identity.uid, identity.gid));
    if let Some(identity) = identity {
        let unsafe_ones =
            config.addresses().into_iter().filter_map(|address| Some((listen::refuse_unsafe(&address, identity).err()?, address)));
        faults.extend(unsafe_ones.map(|(why, address)| (Setting::Listen(address), why)));
    }
    for target in config.log_targets() {
        if let LogTarget::File(path) = target
            && let Err(fault) = log_file::could_append(path, service)
        {
            faults.push((Setting::Log(path.clone()), format!("log \"{}\": {fault}", path.display())));
        }
    }
    let Server { control_socket, pid_file, .. } = &config.server;
    for (setting, what, path, is_free) in [
        (Setting::ControlSocket, "control socket", control_socket, socket::refuse_other as fn(&Path) -> Result<(), String>),
        (Setting::PidFile, "pid file", pid_file, pid_file::refuse_foreign),
    ] {
        if let Some(path) = path
            && let Err(why) = pid_file::could_stand(path).and_then(|()| is_free(path))
        {
            faults.push((setting, format!("{what} \"{}\": {why}", path.display())));
        }
    }
    if let (Some(identity), false) = (identity, config.backends.is_empty())
        && let Err(why) = shown::spool(&config.server.spool, identity)
    {
        faults.push((Setting::Spool, why));
    }
    faults
}

/// Whether an address that is in use is so only by a running service: it has the same, or all that overlap with it and can be left, as a
/// reload takes them.
fn is_left_by(owner: impl Fn(&str) -> Owner, address: &Listen) -> bool {
    let overlapping = || proc::listening().into_iter().map(Listen::Tcp).filter(|other| other.overlaps(address));
    let is_left = |other: Listen| owner(&other.to_string()) == Owner::Service;
    owner(&address.to_string()) != Owner::Another || overlapping().next().is_some() && overlapping().all(is_left)
}

/// Addresses of backends whose names lead nowhere; they are left out, so that what is tried later does not tell it again.
fn unknown_names(config: &mut Config, identity: Identity) -> Vec<(Setting, String)> {
    let mut addresses: Vec<_> =
        config.backends.iter().flat_map(|backend| &backend.addresses).filter(|a| a.name().is_some()).cloned().collect();
    addresses.dedup();
    let names: Vec<(String, u16)> = addresses.iter().filter_map(BackendAddress::name).collect();
    let found = addresses.into_iter().zip(resolve::resolve(&names, identity));
    let faults: Vec<_> = found.filter_map(|(address, found)| Some((address, found.err()?))).collect();
    for backend in &mut config.backends {
        backend.addresses.retain(|address| !faults.iter().any(|(unknown, _)| unknown == address));
    }
    faults.into_iter().map(|(address, why)| (Setting::Backend(address.clone()), format!("address \"{address}\": {why}"))).collect()
}

/// Directories that no worker could be shown.
fn missing_directories(config: &Config, identity: Option<Identity>) -> BTreeMap<PathBuf, String> {
    let roots = config.sites.iter().map(|site| &site.root).chain(&config.jail.also).map(|path| (path, shown::directory(path)));
    let acts = config.sites.iter().flat_map(|site| &site.rules).filter_map(|rule| {
        let to = rule.act.as_ref()?.directory()?;
        Some((&to.base, shown::resolved(&to.base)))
    });
    let jail = match (&config.jail.mode, identity) {
        (JailMode::Chroot(root), Some(identity)) => Some((root, shown::safe_root(root, identity))),
        (JailMode::Chroot(_) | JailMode::Mount, _) => None,
    };
    let sent = config.sites.iter().flat_map(|site| &site.rules).filter_map(|rule| rule.act.as_ref()?.sendfile());
    let sent = sent.map(|path| (path, shown::directory(path)));
    roots.chain(acts).chain(sent).chain(jail).filter_map(|(path, tried)| Some((path.clone(), tried.err()?))).collect()
}

/// Leaves out what is missing, so that the rest can be tried all the same.
fn leave_out(config: &mut Config, missing: &BTreeMap<PathBuf, String>) {
    let is_there = |path: &PathBuf| !missing.contains_key(path);
    config.jail.also.retain(is_there);
    config.sites.retain(|site| is_there(&site.root));
    for site in &mut config.sites {
        site.rules.retain(|rule| {
            let sent = rule.act.as_ref().and_then(Act::sendfile);
            sent.is_none_or(is_there) && rule.act.as_ref().and_then(Act::directory).is_none_or(|to| is_there(&to.base))
        });
    }
}

fn try_roots(config: &mut Config, identity: Identity, files: (Loaded, Passwords)) -> Result<Vec<(PathBuf, String)>, String> {
    process::set_umask();
    let fault = |fault: io::Error| fault.to_string();
    let cells = Cells::new(config, identity, LogNumbers::default(), files)?;
    let mut nursery = Nursery {
        executable: Executable::running().map_err(fault)?,
        null: socket::null().map_err(fault)?,
        counters: shared::create().map_err(fault)?,
        kernel_log: kernel_log::open_at_end(),
        user_namespace: identity.rootless,
    };
    prove(&mut nursery, &cells).map(|proof| proof.unusable)
}
