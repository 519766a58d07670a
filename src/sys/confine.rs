//! The confinement: numbered steps in the one order that works, each read back, the whole tried before it is believed.
//!
//! Runs first in every confined role, after exec. [`enter`] is the only way to get a [`Confined`], and each confined role's
//! loop demands one. A step that fails ends the start; a layer that the kernel lacks does too, unless it may be missing.
//!
//! Why this order: descriptors first, because an open directory defeats a chroot; namespaces and mounts while the process
//! still may; the bounding set before the user id, because emptying it takes a capability; groups before users; the flags
//! that setresuid(2) resets after it; Landlock after the mounts, which it forbids; seccomp last, because it forbids the rest.

use super::jail::{self, Inside, Tree};
use super::policy::{Policy, User};
use super::privilege::{self, Identity};
use super::withheld::Withheld;
use super::{landlock, prctl, process, program, seccomp, signal, title};
use crate::role::{Layer, Role};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// What the parent decided about one confined process; sent to it with its slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    pub role: Role,
    pub identity: Identity,
    pub tree: Tree,
    /// Paths of the host beneath which the Landlock rights hold.
    pub paths: Vec<OsString>,
    /// Which of them lie on local disks, as a process that sees no `/proc` could not tell without asking a server.
    pub local: Vec<bool>,
    /// What it may never see, whatever the names of `tree` and `paths` lead to.
    pub withheld: Withheld,
    /// Landlock rights of the policy that this configuration needs.
    pub rights: Vec<String>,
    /// TCP ports that may be connected to.
    pub ports: Vec<u16>,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    pub allow_missing: Vec<Layer>,
    /// Answer EPERM where the filter would kill: for the process that proves the sandbox and serves nothing.
    pub proof: bool,
    /// What the parent knows this process by, for roles of which there are several.
    pub number: u16,
    /// Process id of the parent; when it is not that any more, the parent died before this process could ask to be told.
    pub parent: i32,
    /// Descriptors above this number are closed.
    pub last_descriptor: RawFd,
}

/// Proof that this process is confined.
#[derive(Debug)]
pub struct Confined {
    pub inside: Inside,
    /// Layers that are missing and may be.
    pub missing: Vec<Layer>,
}

/// The step that failed, and why.
#[derive(Debug)]
pub struct Fault {
    pub step: &'static str,
    pub why: String,
}

/// Enters the confinement of a role, for good.
///
/// # Errors
/// The step that failed. The process must end then; it is confined in part.
pub fn enter(cell: &Cell) -> Result<Confined, Fault> {
    let policy = Policy::of(cell.role);
    if policy.user == User::Root {
        return enter_as_root(cell, policy);
    }
    let mut missing = Vec::new();
    let names: Vec<&str> = policy.namespaces.iter().map(|grant| grant.name).collect();

    at("1 descriptors", process::close_above(cell.last_descriptor))?;
    title::clear_environment();
    at("2 limits", set_limits(policy))?;
    let inside = if unconfined() {
        Inside::default()
    } else if layer(cell, &mut missing, Layer::Namespaces, "3 namespaces", jail::leave_namespaces(&names))? {
        at("4 jail", jail::enter(&cell.tree, &cell.withheld))?
    } else {
        at("4 jail", jail::enter_without_namespaces(&cell.tree))?
    };
    // An ordinary user without a namespace of his own has no capability, and so none to empty the bounding set with.
    let powerless = cell.identity.rootless && missing.contains(&Layer::Namespaces);
    at("5 bounding set", if unconfined() || powerless { Ok(()) } else { privilege::drop_bounding() })?;
    at("6 ids", privilege::become_identity(cell.identity, &cell.groups))?;
    at("7 capabilities", privilege::drop_capabilities())?;
    at("8 process flags", set_flags(cell.parent))?;
    if !unconfined() {
        at("9 no_new_privs", nix::sys::prctl::set_no_new_privs())?;
        at("10 privileges read back", privilege::confirm_dropped(cell.identity, &cell.groups, !powerless))?;
        at("10 privileges read back", confirm_flags())?;
        if layer(cell, &mut missing, Layer::Landlock, "11 landlock", landlock_present())? {
            let paths: Vec<PathBuf> = cell.paths.iter().map(|path| inside.path(Path::new(path))).collect();
            let rights: Vec<&str> = cell.rights.iter().map(String::as_str).collect();
            at("11 landlock", landlock::restrict(&paths, &rights, &cell.withheld, &cell.ports))?;
            at("11 landlock", landlock::confirm())?;
        }
        if layer(cell, &mut missing, Layer::Seccomp, "12 seccomp", seccomp::install(policy.answered))? {
            at("12 seccomp", seccomp::install(if cell.proof { policy.proof } else { policy.list }))?;
            at("12 seccomp", confirm_filtered())?;
        }
    }
    Ok(Confined { inside, missing })
}

/// The steps of a role that stays root, since its children become users: what those must be able to do, it may not give up for them, so
/// there is no no_new_privs, no Landlock and no jail. Its filter is installed while it may, which takes a capability that goes then.
fn enter_as_root(cell: &Cell, policy: &Policy) -> Result<Confined, Fault> {
    let mut missing = Vec::new();
    // Of an ordinary user, who can become nobody else, it keeps what made its namespace no longer than that takes.
    let wanted = policy.capabilities.iter().filter(|_| !cell.identity.rootless);
    let names: Vec<&str> = wanted.map(|grant| grant.name).collect();
    at("1 descriptors", process::close_above(cell.last_descriptor))?;
    title::clear_environment();
    at("2 limits", set_limits(policy))?;
    layer(cell, &mut missing, Layer::Namespaces, "3 namespaces", program::enter_process_namespace())?;
    at("8 process flags", set_end_with(cell.parent))?;
    if !unconfined() {
        layer(cell, &mut missing, Layer::Seccomp, "12 seccomp", seccomp::install(policy.list))?;
        at("7 capabilities", privilege::keep_only(&names))?;
    }
    Ok(Confined { inside: Inside::default(), missing })
}

/// One line that says how the service is confined, and in capitals what is missing of it.
pub fn summary(workers: u16, identity: Identity, chrooted: bool, missing: &[Layer]) -> String {
    let layer = |layer, present: String, absent: &str| if missing.contains(&layer) { absent.to_owned() } else { present };
    let s = if workers == 1 { "" } else { "s" };
    let rootless = identity.rootless && !missing.contains(&Layer::Namespaces);
    let namespace = if rootless { " in user namespaces" } else { "" };
    let tree = if chrooted { "read-only chroot" } else { "private read-only tree" };
    let calls = Policy::of(Role::Worker).allow.len();
    [
        format!("confined: {workers} worker{s}, files and log as uid {} gid {}{namespace}", identity.uid, identity.gid),
        layer(Layer::Namespaces, format!("{tree}, no network"), "NO PRIVATE TREE, NO NAMESPACES"),
        layer(Layer::Seccomp, format!("{calls} system calls"), "NO SECCOMP"),
        layer(Layer::Landlock, format!("Landlock ABI {}", landlock::version()), "NO LANDLOCK"),
        "no capabilities; check with \"anchorite audit\"".to_owned(),
    ]
    .join(", ")
}

/// Whether this is the binary that the benchmark measures the cost of the confinement against.
const fn unconfined() -> bool {
    cfg!(feature = "bench-unconfined")
}

fn at<T>(step: &'static str, result: Result<T, impl ToString>) -> Result<T, Fault> {
    result.map_err(|why| Fault { step, why: why.to_string() })
}

/// Whether a layer that may be missing is there; a missing one is an error that names the kernel which brings it.
fn layer(cell: &Cell, missing: &mut Vec<Layer>, layer: Layer, step: &'static str, result: io::Result<()>) -> Result<bool, Fault> {
    let Err(fault) = result else { return Ok(true) };
    if cell.allow_missing.contains(&layer) {
        missing.push(layer);
        return Ok(false);
    }
    let why = format!("{fault}; {}", layer.is_missing());
    Err(Fault { step, why })
}

/// Sets the limits of the policy, soft and hard, and reads them back.
fn set_limits(policy: &Policy) -> Result<(), String> {
    for limit in policy.limits {
        let resource = resource(limit.name).ok_or_else(|| format!("unknown limit \"{}\"", limit.name))?;
        setrlimit(resource, limit.value, limit.value).map_err(|errno| format!("{}: {}", limit.name, errno.desc()))?;
        if resource == Resource::RLIMIT_FSIZE {
            // The parent ignores it, as `log` does, which writes files.
            signal::default_file_limit().map_err(|fault| format!("SIGXFSZ: {fault}"))?;
        }
        if getrlimit(resource) != Ok((limit.value, limit.value)) {
            return Err(format!("{} is not as set", limit.name));
        }
    }
    Ok(())
}

fn resource(name: &str) -> Option<Resource> {
    match name {
        "CORE" => Some(Resource::RLIMIT_CORE),
        "FSIZE" => Some(Resource::RLIMIT_FSIZE),
        "NPROC" => Some(Resource::RLIMIT_NPROC),
        "MEMLOCK" => Some(Resource::RLIMIT_MEMLOCK),
        "MSGQUEUE" => Some(Resource::RLIMIT_MSGQUEUE),
        _ => None,
    }
}

/// The flags that exec or setresuid reset: no core and no tracing by the same user, no mapping that becomes executable, and
/// death with the parent; and death by a memory fault.
fn set_flags(parent: i32) -> io::Result<()> {
    match prctl::set_mdwe() {
        // Before Linux 6.3; the seccomp filter refuses executable memory there too.
        Err(fault) if fault.raw_os_error() == Some(Errno::EINVAL as i32) => {}
        result => result?,
    }
    set_end_with(parent)
}

/// No core and no tracing by the same user; death with the parent, and by a memory fault.
fn set_end_with(parent: i32) -> io::Result<()> {
    nix::sys::prctl::set_dumpable(false)?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    signal::end_on_fault()?;
    if process::parent_id() != parent {
        return Err(io::Error::other("the parent has died"));
    }
    Ok(())
}

fn confirm_flags() -> Result<(), String> {
    let flag = |name: &str, holds: bool| if holds { Ok(()) } else { Err(format!("{name} is not as set")) };
    flag("dumpable", nix::sys::prctl::get_dumpable() == Ok(false))?;
    flag("no_new_privs", nix::sys::prctl::get_no_new_privs() == Ok(true))?;
    flag("pdeathsig", nix::sys::prctl::get_pdeathsig() == Ok(Some(Signal::SIGKILL)))?;
    flag("mdwe", prctl::mdwe().unwrap_or(true))
}

fn landlock_present() -> io::Result<()> {
    if landlock::version() > 0 { Ok(()) } else { Err(Errno::ENOSYS.into()) }
}

/// With the filters in force prctl(2) is answered with ENOSYS; without them it would tell the mode.
fn confirm_filtered() -> Result<(), String> {
    match prctl::seccomp_mode() {
        Err(fault) if fault.raw_os_error() == Some(Errno::ENOSYS as i32) => Ok(()),
        other => Err(format!("prctl is answered with {other:?}: the filter is not in force")),
    }
}
