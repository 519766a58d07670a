//! What the parent does once: takes its descriptors, finds whom to run as, binds, opens logs, gives up what it does not
//! need, has the sandbox proved, and goes over to the loop.

use super::cell::Cells;
use super::child::Nursery;
use super::report::{Report, announce};
use super::supervise::{START_MS, Supervisor};
use crate::config::{Config, Listen, LogFormat, LogTarget, Site};
use crate::ipc::messages::ToParent;
use crate::ipc::{Channel, Received, birth, lines};
use crate::role::{Layer, Role};
use crate::sys::epoll::{Interest, Poller};
use crate::sys::policy::Policy;
use crate::sys::privilege::{self, Identity};
use crate::sys::process::{self, Executable};
use crate::sys::signal::Signals;
use crate::sys::{clock, landlock, log_file, panic, proc, proof, seccomp, socket, title};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// How the start is told to whoever started the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announce {
    /// `anchorite serve DIR`: this directory at a URL.
    Directory(String),
    /// `anchorite run`: the addresses.
    Addresses,
}

/// Runs the service until a signal ends it; the exit status.
pub fn run(config: Config, announcement: &Announce) -> u8 {
    panic::install(|text| lines::error_line(crate::config::Level::Error, "parent", text.as_bytes()));
    match start(config, announcement) {
        Ok(supervisor) => supervisor.supervise(),
        Err(why) => {
            announce(&why);
            1
        }
    }
}

fn start(mut config: Config, announcement: &Announce) -> Result<Supervisor, String> {
    process::reserve_standard_descriptors().map_err(|fault| format!("/dev/null: {fault}"))?;
    process::set_umask();
    let executable = Executable::running().map_err(|fault| format!("/proc/self/exe: {fault}"))?;
    let signals = Signals::block().map_err(|fault| format!("signals: {fault}"))?;
    let null = socket::null().map_err(|fault| format!("/dev/null: {fault}"))?;
    refuse_unfinished(&config)?;
    let identity = identity(&config)?;
    let listeners = listeners(&config.addresses())?;
    let access_log = open_log(&config.log.access)?;
    let error_log = open_log(&config.log.error)?;
    let report = Report::new(open_log(&config.log.error)?, config.log.level);
    let cells = Cells::new(&mut config, identity)?;
    process::raise_file_limit();
    clock::load_zone();
    title::clear_environment();
    title::set_short("anchorite");
    drop_privilege(identity)?;

    let mut nursery = Nursery {
        executable,
        null,
        cells,
        user_namespace: identity.rootless,
    };
    let missing = prove(&mut nursery)?;
    set_title(&listeners, &missing);
    let workers = if config.server.workers == 0 {
        process::cpus()
    } else {
        config.server.workers
    };
    let mut supervisor = Supervisor::new(nursery, signals, listeners, (access_log, error_log), report, &config.limits)?;
    supervisor.start_all(workers)?;
    tell(announcement, supervisor.listeners(), &missing, workers, identity);
    Ok(supervisor)
}

/// What the configuration can say and the workers do not do yet: refused, for what is ignored in silence may be what a site relies on.
fn refuse_unfinished(config: &Config) -> Result<(), String> {
    let any = |what: fn(&Site) -> bool| config.sites.iter().any(what);
    let unfinished = [
        (any(|site| !site.rules.is_empty()), "[[site.rule]]"),
        (any(|site| !site.listen.is_empty()), "\"listen\" in [[site]]"),
        (any(|site| site.access_log.is_some()), "\"access_log\" in [[site]]"),
        (any(|site| !site.error_pages.is_empty()), "\"error_pages\" in [[site]]"),
        (any(|site| !site.root_rest.parts.is_empty()), "a capture in the \"root\" of a site"),
        (!config.mime.is_empty(), "[mime]"),
        (
            config.log.format != LogFormat::Combined,
            "a \"format\" in [log] other than \"combined\"",
        ),
    ];
    match unfinished.into_iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => Err(format!("{what} is not supported by this version")),
        None => Ok(()),
    }
}

/// Whom confined roles run as.
fn identity(config: &Config) -> Result<Identity, String> {
    let (own_uid, own_gid) = privilege::own_ids();
    if !privilege::is_root() {
        return Ok(Identity {
            uid: own_uid,
            gid: own_gid,
            rootless: true,
        });
    }
    let (uid, gid) = match &config.server.user {
        Some(user) => privilege::look_up(user, config.server.group.as_deref())?,
        None => privilege::look_up(SERVICE_USER, None)
            .ok()
            .filter(|(uid, gid)| *uid != 0 && *gid != 0)
            .map_or_else(unused, Ok)?,
    };
    if uid == 0 || gid == 0 {
        return Err(format!(
            "the service may not run as root (user id {uid}, group id {gid}): name another user and group in [server]"
        ));
    }
    Ok(Identity { uid, gid, rootless: false })
}

fn unused() -> Result<(u32, u32), String> {
    let id = privilege::unused_id().ok_or("no unused user id was found, and the user \"anchorite\" does not exist")?;
    announce(&format!(
        "the user \"{SERVICE_USER}\" does not exist: running as the unused id {id}"
    ));
    Ok((id, id))
}

/// Binds every address; where the host has no IPv6, its wildcard falls back to that of IPv4.
fn listeners(addresses: &[Listen]) -> Result<Vec<OwnedFd>, String> {
    let mut listeners = Vec::new();
    for address in addresses {
        let address = match address {
            Listen::Tcp(address) => address,
            Listen::Unix(_) => return Err(format!("listen on \"{address}\": unix sockets are not supported by this version")),
        };
        let fault = match socket::listen(*address) {
            Ok(listener) => {
                listeners.push(listener);
                continue;
            }
            Err(fault) => fault,
        };
        if !(address.is_ipv6() && address.ip().is_unspecified() && socket::is_without_ipv6(&fault)) {
            return Err(format!("listen on {address}: {fault}"));
        }
        let instead = SocketAddr::from(([0, 0, 0, 0], address.port()));
        announce(&format!("this host has no IPv6: listening on {instead} in place of {address}"));
        listeners.push(socket::listen(instead).map_err(|fault| format!("listen on {instead}: {fault}"))?);
    }
    Ok(listeners)
}

fn open_log(target: &LogTarget) -> Result<OwnedFd, String> {
    match target {
        LogTarget::Stderr => socket::copy(std::io::stderr()).map_err(|fault| format!("standard error: {fault}")),
        LogTarget::Syslog => Err("log \"syslog\": not supported by this version".to_owned()),
        LogTarget::Off => socket::null().map_err(|fault| format!("/dev/null: {fault}")),
        LogTarget::File(path) => log_file::open_for_appending(path).map_err(|fault| format!("log \"{}\": {fault}", path.display())),
    }
}

/// Cuts the parent's own capabilities to its policy and installs its filter, which its children inherit.
fn drop_privilege(identity: Identity) -> Result<(), String> {
    let policy = Policy::of(Role::Parent);
    if identity.rootless {
        // Without CAP_SYS_ADMIN the kernel takes a filter only after this; nothing the parent starts needs set-id programs.
        privilege::forbid_new_privileges().map_err(|fault| format!("no_new_privs: {fault}"))?;
    } else {
        let names: Vec<&str> = policy.capabilities.iter().map(|grant| grant.name).collect();
        privilege::keep_only(&names).map_err(|why| format!("capabilities of the parent: {why}"))?;
    }
    if cfg!(feature = "bench-unconfined") {
        announce("UNCONFINED: this binary was built to measure the cost of the confinement; do not serve with it");
        return Ok(());
    }
    let before = proc::status(process::own_id()).map_err(|fault| fault.to_string())?.seccomp_filters;
    seccomp::install(policy.list).map_err(|fault| format!("seccomp filter of the parent: {fault}"))?;
    let after = proc::status(process::own_id()).map_err(|fault| fault.to_string())?.seccomp_filters;
    if after == before + 1 {
        Ok(())
    } else {
        Err("seccomp filter of the parent: it is not in force".to_owned())
    }
}

/// Starts one process of each confined role under the same rules with EPERM in place of the end, and lets it try to get out.
/// Returns the layers that are missing and may be.
fn prove(nursery: &mut Nursery) -> Result<Vec<Layer>, String> {
    if cfg!(feature = "bench-unconfined") {
        return Ok(Vec::new());
    }
    if nursery.user_namespace
        && nursery.cells.allow_missing.contains(&Layer::Namespaces)
        && nursery.start(Role::Log, "log, trying a user namespace", true, None).is_err()
    {
        nursery.user_namespace = false;
    }
    let mut found = Vec::new();
    for (role, title) in [
        (Role::Worker, "worker, proving the sandbox"),
        (Role::Log, "log, proving the sandbox"),
    ] {
        let log = if role == Role::Worker {
            Some(Channel::pair().map_err(|fault| fault.to_string())?)
        } else {
            None
        };
        let child = nursery.start(role, title, true, log.as_ref().map(|(theirs, _)| theirs))?;
        let outcome = proof_of(&child.channel);
        process::kill(child.pid);
        match outcome {
            Some(ToParent::Proved { missing, escape: None }) => found.extend(birth::missing(missing)),
            Some(ToParent::Proved { escape: Some(attempt), .. }) => {
                return Err(format!(
                    "the sandbox does not hold: a confined {} could {}; nothing is served",
                    role.name(),
                    proof::name(attempt)
                ));
            }
            Some(ToParent::Failed { why }) => return Err(format!("confinement of {}: {why}", role.name())),
            Some(ToParent::Ready { .. } | ToParent::Malformed { .. } | ToParent::Lost { .. }) | None => {
                return Err(format!(
                    "confinement of {}: the process that proves it ended without a word",
                    role.name()
                ));
            }
        }
    }
    found.dedup();
    Ok(found)
}

/// Waits for the word of a process that proves the sandbox; `None`: it ended without one, or kept silent.
fn proof_of(channel: &Channel) -> Option<ToParent> {
    let deadline = clock::monotonic_ms() + START_MS;
    let mut poller = Poller::new().ok()?;
    poller.add(channel, Interest::Input, 0).ok()?;
    while clock::monotonic_ms() < deadline {
        poller.wait(Some(deadline.saturating_sub(clock::monotonic_ms()))).ok()?;
        match channel.receive() {
            Received::Message(message, _) => return Some(message),
            Received::Nothing => {}
            Received::Ended | Received::Malformed => return None,
        }
    }
    None
}

fn set_title(listeners: &[OwnedFd], missing: &[Layer]) {
    let addresses: Vec<String> = listeners
        .iter()
        .filter_map(|listener| socket::local_address(listener).ok())
        .map(|a| a.to_string())
        .collect();
    let without: Vec<&str> = missing.iter().map(|layer| layer.name()).collect();
    let without = if without.is_empty() {
        String::new()
    } else {
        format!(" WITHOUT {}", without.join(", "))
    };
    title::set(&format!("anchorite: parent {}{without}", addresses.join(" ")));
}

/// Tells what is served, how it is confined, and that it is ready, in this order.
fn tell(announcement: &Announce, listeners: &[OwnedFd], missing: &[Layer], workers: u16, identity: Identity) {
    for address in listeners.iter().filter_map(|listener| socket::local_address(listener).ok()) {
        match announcement {
            Announce::Directory(directory) => announce(&format!("serving {directory} at http://{address}/")),
            Announce::Addresses => announce(&format!("listening on {address}")),
        }
    }
    let processes = format!("{workers} workers and log as uid {} gid {}", identity.uid, identity.gid);
    let calls = Policy::of(Role::Worker).allow.len();
    let namespaces = if missing.contains(&Layer::Namespaces) {
        "NO PRIVATE TREE, NO NETWORK NAMESPACE"
    } else {
        "private read-only tree, no network"
    };
    let seccomp = if missing.contains(&Layer::Seccomp) {
        "NO SECCOMP".to_owned()
    } else {
        format!("{calls} system calls")
    };
    let landlock = if missing.contains(&Layer::Landlock) {
        "NO LANDLOCK".to_owned()
    } else {
        format!("Landlock ABI {}", landlock::version())
    };
    announce(&format!(
        "confined: {processes}, {namespaces}, {seccomp}, {landlock}, no capabilities; check with \"anchorite audit\""
    ));
    announce("ready");
}

const SERVICE_USER: &str = "anchorite";
