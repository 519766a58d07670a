//! What the parent does once: takes its descriptors, finds whom to run as, binds, opens logs, gives up what it does not
//! need, has the sandbox proved, and goes over to the loop.

use super::account::{identity, ignored};
use super::check;
use super::child::Nursery;
use super::control::{self, Control};
use super::legacy::{self, Inherited, Legacy};
use super::listen::{self, Listener};
use super::logs::Logs;
use super::prepare::{Fixed, Source, prepare};
use super::prove::{Proof, prove};
use super::report::announce;
use super::supervise::Supervisor;
use crate::config::{Config, JailMode, Level};
use crate::ipc::lines;
use crate::role::{Layer, Role};
use crate::sys::manager::Manager;
use crate::sys::policy::Policy;
use crate::sys::privilege::{self, Identity};
use crate::sys::process::{self, Executable};
use crate::sys::signal::Signals;
use crate::sys::watch::Watched;
use crate::sys::{clock, confine, kernel_log, panic, proc, seccomp, shared, socket, title};
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

/// Where a service comes from, beside its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file that a reload reads again; absolute.
    pub file: Option<PathBuf>,
    /// Number of the descriptor under which the program before left what it had.
    pub resume: Option<i32>,
}

/// Runs the service until a signal ends it; the exit status.
pub fn run(config: Config, origin: Origin, announcement: &Announce) -> u8 {
    panic::install(|text| lines::error_line(crate::config::Level::Error, "parent", text.as_bytes()));
    let legacy = origin.resume.map(Legacy::read).transpose();
    match legacy.and_then(|legacy| start(config, origin.file, legacy.zip(origin.resume), announcement)) {
        Ok(supervisor) => supervisor.supervise(),
        Err(why) => {
            announce(&why);
            origin.resume.map_or(1, |resume| go_back(resume, &why))
        }
    }
}

/// Becomes the program before again, because this one cannot serve; the exit status when even that failed.
pub fn go_back(resume: i32, why: &str) -> u8 {
    announce(&legacy::go_back(resume, why));
    1
}

fn start(mut config: Config, file: Option<PathBuf>, legacy: Option<(Legacy, i32)>, announcement: &Announce) -> Result<Supervisor, String> {
    // What the program before left is meant for this one. Otherwise only what the service manager hands over is: anything else
    // that is open is a mistake of the caller, and closed.
    let handed_over = if legacy.is_none() { listen::inherited()? } else { Vec::new() };
    process::reserve_standard_descriptors().map_err(|fault| format!("/dev/null: {fault}"))?;
    process::set_umask();
    let executable = Executable::running().map_err(|fault| format!("/proc/self/exe: {fault}"))?;
    let signals = Signals::block().map_err(|fault| format!("signals: {fault}"))?;
    let null = socket::null().map_err(|fault| format!("/dev/null: {fault}"))?;
    let before = legacy.as_ref().map(|(legacy, _)| legacy.take()).transpose()?;
    let identity = identity(&config)?;
    ignored(&config).iter().for_each(|text| announce(text));
    let program = match &legacy {
        Some((legacy, _)) => PathBuf::from(&legacy.program),
        None => Executable::path().map_err(|fault| format!("/proc/self/exe: {fault}"))?,
    };
    let (before, control, counters, kernel_log, open, known) = match before {
        Some(Inherited { listeners, children, generation, counters, control, kernel_log, logs }) => {
            (Some((children, listeners.clone(), generation)), control, Some(counters), kernel_log, listeners, Some(logs))
        }
        None => (None, None, None, None, handed_over.clone(), None),
    };
    // The program before had the right to open it, which is given up below.
    let kernel_log = kernel_log.map_or_else(kernel_log::open_at_end, Ok);
    // One that is not there, as where the variable was left over, is no reason not to serve.
    let manager = Manager::open().inspect_err(|why| announce(why)).unwrap_or_default();
    let fixed = Fixed::of(&config);
    if let Some(name) = legacy.as_ref().and_then(|(legacy, _)| legacy.fixed.difference(&fixed)) {
        return Err(format!("{name} was changed, which needs a restart"));
    }
    if control::leave_out_of_reach(&mut config.server, identity.rootless) {
        announce("no control socket or pid file in /run/anchorite, which this user cannot write: [server] can name other places");
    }
    let pid_file = config.server.pid_file.clone();
    let control = match (config.server.control_socket.as_deref(), control) {
        (Some(path), Some(listener)) => Control::inherit(path, listener),
        (Some(path), None) => Control::open(path)?,
        (None, _) => Control::default(),
    };
    let chrooted = matches!(config.jail.mode, JailMode::Chroot(_));
    let in_use = known.as_ref().map(Logs::numbers).unwrap_or_default();
    let owner = |address: &str| listen::owner(&open, address);
    let mut first = prepare(config, identity, &open, known.as_ref().map(|logs| (logs, &in_use)))
        .map_err(|why| file.as_deref().map_or(why.clone(), |file| check::placed(file, identity, owner, why)))?;
    Rc::make_mut(&mut first.cells).go_on_with(legacy.as_ref().and_then(|(legacy, _)| legacy.tickets.as_ref()));
    listen::refuse_unnamed(&handed_over, &first.listeners)?;
    drop((handed_over, open, known));
    process::raise_file_limit();
    clock::load_zone();
    title::clear_environment();
    title::set_short("anchorite");
    drop_privilege(identity, &first.cells.allow_missing, legacy.as_ref().map(|(legacy, _)| legacy.filter))?;

    let counters = counters.filter(shared::fits).map_or_else(|| shared::create().map_err(|fault| format!("counters: {fault}")), Ok)?;
    let mut nursery = Nursery { executable, null, counters, kernel_log, user_namespace: identity.rootless };
    let Proof { missing, unusable } = prove(&mut nursery, &first.cells)?;
    unusable.iter().for_each(|(_, text)| announce(text));
    set_title(&first.listeners, &missing);
    let (listeners, workers) = (first.listeners.clone(), first.workers);
    let logs = first.logs.take().ok_or("no logs")?;
    let source = Source { file, program, identity, fixed, watched: Watched::default(), again: None };
    let mut supervisor = Supervisor::new(nursery, source, signals, control, manager, logs)?;
    supervisor.start(first, before)?;
    if let Some((legacy, resume)) = legacy {
        supervisor.settle(legacy, resume);
        // Too late to go back, and no reason to stop.
        if let Err(why) = supervisor.write_pid_file(pid_file.as_deref()) {
            supervisor.logs.report.line(Level::Error, &why);
        }
    } else {
        supervisor.write_pid_file(pid_file.as_deref())?;
    }
    if supervisor.is_stopping() {
        return Ok(supervisor);
    }
    tell(announcement, &listeners);
    announce(&confine::summary(workers, identity, chrooted, &missing));
    announce("ready");
    supervisor.started = true;
    supervisor.tell_manager();
    Ok(supervisor)
}

/// Cuts the parent's own capabilities to its policy and installs its filter, which its children inherit, unless the same is
/// in force from the program before; where seccomp may be missing and is, its children find so too and say it.
pub(super) fn drop_privilege(identity: Identity, allow_missing: &[Layer], in_force: Option<u64>) -> Result<(), String> {
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
    if in_force == Some(seccomp::digest(policy.list)) {
        return Ok(());
    }
    let before = proc::status(process::own_id()).map_err(|fault| fault.to_string())?.seccomp_filters;
    if let Err(fault) = seccomp::install(policy.list) {
        if allow_missing.contains(&Layer::Seccomp) {
            return Ok(());
        }
        return Err(format!("seccomp filter of the parent: {fault}; {}", Layer::Seccomp.is_missing()));
    }
    let after = proc::status(process::own_id()).map_err(|fault| fault.to_string())?.seccomp_filters;
    if after == before + 1 { Ok(()) } else { Err("seccomp filter of the parent: it is not in force".to_owned()) }
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

pub(super) fn set_title(listeners: &[Rc<Listener>], missing: &[Layer]) {
    let addresses: Vec<String> = listeners.iter().map(|listener| listener.address()).map(|a| a.to_string()).collect();
    let without: Vec<&str> = missing.iter().map(|layer| layer.name()).collect();
    let without = if without.is_empty() { String::new() } else { format!(" WITHOUT {}", without.join(", ")) };
    title::set(&format!("anchorite: parent {}{without}", addresses.join(" ")));
}
