//! `anchorite check` beyond the file itself: everything that a start needs, tried without serving or writing anything.
//!
//! Directories are tried by a worker in its jail, since only it knows what it can see. Runs as a command, not in a service.

use super::cell::{self, Cells};
use super::child::Nursery;
use super::control;
use super::listen;
use super::prove::prove;
use super::start::identity;
use crate::config::{Act, Config, JailMode, Listen, LogNumbers, LogTarget, Server, Setting};
use crate::sys::privilege::Identity;
use crate::sys::process::{self, Executable};
use crate::sys::{kernel_log, log_file, pid_file, shared, socket};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Every fault that would keep the service from starting or from serving, and what it is about; empty: none. `owned` says whether a
/// running service has an address.
pub fn check(mut config: Config, owned: impl Fn(&str) -> bool) -> Vec<(Setting, String)> {
    let mut faults = Vec::new();
    for address in &config.addresses() {
        let (tried, is_any) = match address {
            Listen::Tcp(address) => (socket::listen(*address).map(drop), address.ip().is_unspecified()),
            Listen::Unix(path) => (socket::could_listen_path(path), false),
        };
        match tried {
            Err(fault) if fault.kind() == io::ErrorKind::AddrInUse && owned(&address.to_string()) => {}
            Err(fault) if socket::is_without_ipv6(&fault) && is_any => {}
            Err(fault) => faults.push((Setting::Listen(address.clone()), format!("listen on {address}: {fault}"))),
            Ok(()) => {}
        }
    }
    // Without a user what does not depend on it is tried all the same.
    let identity = identity(&config).map_err(|why| {
        let setting = if why.starts_with("group") { Setting::Group } else { Setting::User };
        faults.push((setting, why));
    });
    let service = identity.ok().filter(|identity| !identity.rootless).map(|identity| (identity.uid, identity.gid));
    if let Ok(identity) = identity {
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
    // The service then goes without them, and says so when it starts.
    control::leave_out_of_reach(&mut config.server, identity.is_ok_and(|identity| identity.rootless));
    let Server { control_socket, pid_file, .. } = &config.server;
    for (setting, what, path) in [(Setting::ControlSocket, "control socket", control_socket), (Setting::PidFile, "pid file", pid_file)] {
        if let Some(path) = path
            && let Err(why) = pid_file::could_stand(path)
        {
            faults.push((setting, format!("{what} \"{}\": {why}", path.display())));
        }
    }
    let missing = missing_directories(&config, identity.ok());
    leave_out(&mut config, &missing);
    let sees_nothing = config.sites.is_empty() || matches!(&config.jail.mode, JailMode::Chroot(root) if missing.contains_key(root));
    if let (Ok(identity), false) = (identity, sees_nothing) {
        match try_roots(&mut config, identity) {
            Ok(unusable) => faults.extend(unusable.into_iter().map(|(path, text)| (Setting::Directory(path), text))),
            Err(why) => faults.extend(why.lines().map(|line| (Setting::Whole, line.to_owned()))),
        }
    }
    let missing = missing.into_iter().map(|(path, why)| (Setting::Directory(path), why));
    faults.extend(missing);
    faults
}

/// Directories that no worker could be shown.
fn missing_directories(config: &Config, identity: Option<Identity>) -> BTreeMap<PathBuf, String> {
    let roots = config.sites.iter().map(|site| &site.root).chain(&config.jail.also).map(|path| (path, cell::directory(path)));
    let acts = config.sites.iter().flat_map(|site| &site.rules).filter_map(|rule| match &rule.act {
        Some(Act::Root(to) | Act::Alias(to)) => Some((&to.base, cell::resolved(&to.base))),
        Some(Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. }) | None => None,
    });
    let jail = match (&config.jail.mode, identity) {
        (JailMode::Chroot(root), Some(identity)) => Some((root, cell::safe_root(root, identity))),
        (JailMode::Chroot(_) | JailMode::Mount, _) => None,
    };
    roots.chain(acts).chain(jail).filter_map(|(path, tried)| Some((path.clone(), tried.err()?))).collect()
}

/// Leaves out what is missing, so that the rest can be tried all the same.
fn leave_out(config: &mut Config, missing: &BTreeMap<PathBuf, String>) {
    let is_there = |path: &PathBuf| !missing.contains_key(path);
    config.jail.also.retain(is_there);
    config.sites.retain(|site| is_there(&site.root));
    for site in &mut config.sites {
        site.rules.retain(|rule| !matches!(&rule.act, Some(Act::Root(to) | Act::Alias(to)) if !is_there(&to.base)));
    }
}

fn try_roots(config: &mut Config, identity: Identity) -> Result<Vec<(PathBuf, String)>, String> {
    process::set_umask();
    let fault = |fault: io::Error| fault.to_string();
    let cells = Cells::new(config, identity, LogNumbers::default())?;
    let mut nursery = Nursery {
        executable: Executable::running().map_err(fault)?,
        null: socket::null().map_err(fault)?,
        counters: shared::create().map_err(fault)?,
        kernel_log: kernel_log::open_at_end(),
        user_namespace: identity.rootless,
    };
    prove(&mut nursery, &cells).map(|proof| proof.unusable)
}
