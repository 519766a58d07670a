//! `anchorite check` beyond the file itself: everything that a start needs, tried without serving or writing anything.
//!
//! Directories are tried by a worker in its jail, since only it knows what it can see. Runs as a command, not in a service.

use super::cell::Cells;
use super::child::Nursery;
use super::control;
use super::prove::prove;
use super::start::identity;
use crate::config::{Config, Listen, LogNumbers, LogTarget};
use crate::sys::privilege::Identity;
use crate::sys::process::{self, Executable};
use crate::sys::{kernel_log, log_file, pid_file, shared, socket};
use std::io;

/// Every fault that would keep the service from starting or from serving; empty: none. `owned` says whether a running
/// service has an address.
pub fn check(mut config: Config, owned: impl Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for address in &config.addresses() {
        let (tried, is_any) = match address {
            Listen::Tcp(address) => (socket::listen(*address).map(drop), address.ip().is_unspecified()),
            Listen::Unix(path) => (socket::could_listen_path(path), false),
        };
        match tried {
            Err(fault) if fault.kind() == io::ErrorKind::AddrInUse && owned(&address.to_string()) => {}
            Err(fault) if socket::is_without_ipv6(&fault) && is_any => {}
            Err(fault) => faults.push(format!("listen on {address}: {fault}")),
            Ok(()) => {}
        }
    }
    let identity = match identity(&config) {
        Ok(identity) => identity,
        Err(why) => {
            faults.push(why);
            return faults;
        }
    };
    let service = (!identity.rootless).then_some((identity.uid, identity.gid));
    for target in config.log_targets() {
        if let LogTarget::File(path) = target
            && let Err(fault) = log_file::could_append(path, service)
        {
            faults.push(format!("log \"{}\": {fault}", path.display()));
        }
    }
    // The service then goes without them, and says so when it starts.
    control::leave_out_of_reach(&mut config.server, identity.rootless);
    for (what, path) in [("control socket", &config.server.control_socket), ("pid file", &config.server.pid_file)] {
        if let Some(path) = path
            && let Err(why) = pid_file::could_stand(path)
        {
            faults.push(format!("{what} \"{}\": {why}", path.display()));
        }
    }
    match try_roots(&mut config, identity) {
        Ok(unusable) => faults.extend(unusable),
        Err(why) => faults.extend(why.lines().map(str::to_owned)),
    }
    faults
}

fn try_roots(config: &mut Config, identity: Identity) -> Result<Vec<String>, String> {
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
