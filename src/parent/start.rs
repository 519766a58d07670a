//! What the parent does once: takes its descriptors, finds whom to run as, binds, opens logs, gives up what it does not
//! need, has the sandbox proved, and goes over to the loop.

use super::cell::Cells;
use super::child::Nursery;
use super::control::{self, Control};
use super::listen::{self, Listener};
use super::reload::{Fixed, Source, prepare};
use super::report::{self, announce};
use super::supervise::{START_MS, Supervisor};
use crate::config::{Config, JailMode};
use crate::ipc::messages::ToParent;
use crate::ipc::{Channel, Received, birth, lines};
use crate::role::{Layer, Role};
use crate::sys::epoll::{Interest, Poller};
use crate::sys::manager::Manager;
use crate::sys::policy::Policy;
use crate::sys::privilege::{self, Identity};
use crate::sys::process::{self, Executable};
use crate::sys::signal::Signals;
use crate::sys::{clock, panic, proc, proof, seccomp, socket, title};
use std::path::PathBuf;
use std::rc::Rc;

/// How the start is told to whoever started the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announce {
    /// `anchorite serve DIR`: this directory at a URL.
    Directory(String),
    /// `anchorite run`: the addresses.
    Addresses,
}

/// Runs the service until a signal ends it; the exit status.
pub fn run(config: Config, file: Option<PathBuf>, announcement: &Announce) -> u8 {
    panic::install(|text| lines::error_line(crate::config::Level::Error, "parent", text.as_bytes()));
    match start(config, file, announcement) {
        Ok(supervisor) => supervisor.supervise(),
        Err(why) => {
            announce(&why);
            1
        }
    }
}

fn start(mut config: Config, file: Option<PathBuf>, announcement: &Announce) -> Result<Supervisor, String> {
    let inherited = listen::inherited()?;
    process::reserve_standard_descriptors().map_err(|fault| format!("/dev/null: {fault}"))?;
    process::set_umask();
    let executable = Executable::running().map_err(|fault| format!("/proc/self/exe: {fault}"))?;
    let signals = Signals::block().map_err(|fault| format!("signals: {fault}"))?;
    let null = socket::null().map_err(|fault| format!("/dev/null: {fault}"))?;
    // One that is not there, as where the variable was left over, is no reason not to serve.
    let manager = Manager::open().inspect_err(|why| announce(why)).unwrap_or_default();
    let identity = identity(&config)?;
    let fixed = Fixed::of(&config);
    if control::leave_out_of_reach(&mut config.server, identity.rootless) {
        announce("no control socket or pid file in /run/anchorite, which this user cannot write: [server] can name other places");
    }
    let pid_file = config.server.pid_file.clone();
    let control = config
        .server
        .control_socket
        .as_deref()
        .map(Control::open)
        .transpose()?
        .unwrap_or_default();
    let chrooted = matches!(config.jail.mode, JailMode::Chroot(_));
    let first = prepare(config, identity, &inherited)?;
    listen::refuse_unnamed(&inherited, &first.listeners)?;
    drop(inherited);
    process::raise_file_limit();
    clock::load_zone();
    title::clear_environment();
    title::set_short("anchorite");
    drop_privilege(identity)?;

    let mut nursery = Nursery {
        executable,
        null,
        user_namespace: identity.rootless,
    };
    let missing = prove(&mut nursery, &first.cells)?;
    set_title(&first.listeners, &missing);
    let (listeners, workers) = (first.listeners.clone(), first.workers);
    let source = Source {
        file,
        identity,
        fixed,
        watched: Vec::new(),
        looked: clock::monotonic_ms(),
        tried: Vec::new(),
        again: None,
    };
    let mut supervisor = Supervisor::start(nursery, source, signals, control, manager, first)?;
    supervisor.write_pid_file(pid_file.as_deref())?;
    tell(announcement, &listeners);
    announce(&report::confinement(workers, identity, chrooted, &missing));
    announce("ready");
    supervisor.started = true;
    supervisor.tell_manager();
    Ok(supervisor)
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
fn prove(nursery: &mut Nursery, cells: &Cells) -> Result<Vec<Layer>, String> {
    if cfg!(feature = "bench-unconfined") {
        return Ok(Vec::new());
    }
    if nursery.user_namespace
        && cells.allow_missing.contains(&Layer::Namespaces)
        && nursery.start(cells, Role::Log, "log, trying a user namespace", true, None).is_err()
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
        let child = nursery.start(cells, role, title, true, log.as_ref().map(|(theirs, _)| theirs))?;
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

/// Tells what is served where.
fn tell(announcement: &Announce, listeners: &[Rc<Listener>]) {
    for address in listeners.iter().map(|listener| listener.address()) {
        match announcement {
            Announce::Directory(directory) => announce(&format!("serving {directory} at http://{address}/")),
            Announce::Addresses => announce(&format!("listening on {address}")),
        }
    }
}

fn set_title(listeners: &[Rc<Listener>], missing: &[Layer]) {
    let addresses: Vec<String> = listeners.iter().map(|listener| listener.address()).map(|a| a.to_string()).collect();
    let without: Vec<&str> = missing.iter().map(|layer| layer.name()).collect();
    let without = if without.is_empty() {
        String::new()
    } else {
        format!(" WITHOUT {}", without.join(", "))
    };
    title::set(&format!("anchorite: parent {}{without}", addresses.join(" ")));
}

const SERVICE_USER: &str = "anchorite";
