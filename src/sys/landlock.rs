//! Landlock (landlock(7)): files by path, TCP by port, scopes. Runs in every confined role, before seccomp.
//!
//! The `landlock` crate is best-effort unless told otherwise; here every right that the running kernel knows is a hard
//! requirement, and paths are opened one by one, because the crate's helper drops those it cannot open.

use super::attributes::Attributes;
use super::withheld::Withheld;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, socket};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// The rights of a policy by the names they have in `policy/roles.toml`.
fn right(name: &str) -> Option<AccessFs> {
    match name {
        "read_file" => Some(AccessFs::ReadFile),
        "read_dir" => Some(AccessFs::ReadDir),
        "write_file" => Some(AccessFs::WriteFile),
        "resolve_unix" => Some(AccessFs::ResolveUnix),
        _ => None,
    }
}

/// The Landlock version of the running kernel; 0: it has none (before 5.13, or switched off).
pub fn version() -> i64 {
    const VERSION: libc::c_uint = 1; // LANDLOCK_CREATE_RULESET_VERSION
    // SAFETY: with a null attribute, size 0 and this flag the kernel returns its version and touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    Errno::result(result).unwrap_or(0)
}

/// Restricts this process to `rights` beneath `paths`, TCP to no port but `ports` and none that it listens at, no signal or abstract socket
/// beyond this process. A right that the running kernel does not know yet is refused by other layers.
///
/// # Errors
/// Says what could not be enforced.
pub(super) fn restrict(paths: &[PathBuf], rights: &[&str], withheld: &Withheld, ports: &[u16]) -> Result<(), String> {
    let abi = known(version()).ok_or_else(|| Errno::ENOSYS.to_string())?;
    let mut granted = AccessFs::from_all(ABI::Unsupported);
    for name in rights {
        granted |= right(name).ok_or_else(|| format!("unknown right \"{name}\""))?;
    }
    apply(abi, paths, granted & AccessFs::from_all(abi), withheld, ports).map_err(|fault| fault.to_string())
}

fn apply(
    abi: ABI,
    paths: &[PathBuf],
    granted: landlock::BitFlags<AccessFs>,
    withheld: &Withheld,
    ports: &[u16],
) -> Result<(), Box<dyn std::error::Error>> {
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::from_all(abi))?;
    let net = AccessNet::from_all(abi);
    if !net.is_empty() {
        ruleset = ruleset.handle_access(net)?;
    }
    let scope = Scope::from_all(abi);
    if !scope.is_empty() {
        ruleset = ruleset.scope(scope)?;
    }
    let mut created = ruleset.create()?;
    if !granted.is_empty() {
        let rules: Option<OwnedFd> = created.try_clone()?.into();
        let rules = rules.ok_or(Errno::ENOSYS)?;
        for path in paths {
            let found = match open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()) {
                // Behind a directory that this user cannot search: nothing beneath it could be opened, and nothing is granted.
                Err(Errno::EACCES) => continue,
                result => result.map_err(|errno| format!("open \"{}\": {}", path.display(), errno.desc()))?,
            };
            let stat = Attributes::of_open(&found)?;
            withheld.refuse(path, (stat.device, stat.inode))?;
            // A right that only directories have cannot be granted on a file.
            let rights = if stat.is_directory { granted } else { granted & AccessFs::from_file(abi) };
            allow_beneath(&rules, &found, rights)?;
        }
    }
    if net.contains(AccessNet::ConnectTcp) {
        for port in ports {
            created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
        }
    }
    let status = created.restrict_self()?;
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(Box::new(io::Error::other("not fully enforced")));
    }
    Ok(())
}

/// Adds a rule (landlock_add_rule(2)). The crate would ask fstat(2) what kind of file it is, and with it the server of a mount, which may be dead.
fn allow_beneath(rules: &OwnedFd, place: &OwnedFd, rights: landlock::BitFlags<AccessFs>) -> io::Result<()> {
    /// `struct landlock_path_beneath_attr`.
    #[repr(C, packed)]
    struct PathBeneath {
        allowed_access: u64,
        parent_fd: i32,
    }
    const PATH_BENEATH: i32 = 1;
    let rule = PathBeneath { allowed_access: rights.bits(), parent_fd: place.as_raw_fd() };
    // SAFETY: the kernel reads one structure of this layout, which is live; both descriptors are open.
    let result = unsafe { libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), PATH_BENEATH, &raw const rule, 0) };
    Ok(Errno::result(result).map(drop)?)
}

/// Tries what Landlock alone refuses at this point of the start: binding a port (no rule grants one), and before it knew of
/// ports, reading the root directory, which is never served.
pub(super) fn confirm() -> Result<(), String> {
    const KNOWS_PORTS: i64 = 4;
    let refused =
        if version() >= KNOWS_PORTS { bind_a_port() } else { open("/", OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).map(drop) };
    match refused {
        Err(Errno::EACCES) => Ok(()),
        other => Err(format!("what it refuses is answered with {other:?}: it is not in force")),
    }
}

fn bind_a_port() -> nix::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, 0))
}

/// The newest interface that both the kernel and the crate know.
fn known(version: i64) -> Option<ABI> {
    match version {
        ..=0 => None,
        1 => Some(ABI::V1),
        2 => Some(ABI::V2),
        3 => Some(ABI::V3),
        4 => Some(ABI::V4),
        5 => Some(ABI::V5),
        6 => Some(ABI::V6),
        7 => Some(ABI::V7),
        8 => Some(ABI::V8),
        9 => Some(ABI::V9),
        10.. => Some(ABI::V10),
    }
}
