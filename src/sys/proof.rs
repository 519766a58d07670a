//! What a confined process must not be able to do, tried: by a sacrificial process of each role at every start, under the
//! same rules with EPERM in place of the end. If one attempt works, nothing is served.

use super::confine::Confined;
use super::privilege;
use crate::role::Layer;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::signal::kill;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

/// One thing that must fail.
struct Attempt {
    name: &'static str,
    /// Whether the other layers refuse it too, so that it is tried where seccomp is missing.
    without_seccomp: bool,
    succeeds: fn(parent: i32) -> bool,
}

/// What a confined process tries.
const ATTEMPTS: [Attempt; 9] = [
    Attempt { name: "open /etc/passwd", without_seccomp: true, succeeds: |_| opens("/etc/passwd") },
    Attempt { name: "open /proc/self/status", without_seccomp: false, succeeds: |_| opens("/proc/self/status") },
    Attempt {
        name: "make a socket",
        without_seccomp: false,
        succeeds: |_| socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).is_ok(),
    },
    Attempt { name: "execute a program", without_seccomp: false, succeeds: |_| executes() },
    Attempt { name: "map executable memory", without_seccomp: false, succeeds: |_| maps_executable() },
    Attempt { name: "signal the parent", without_seccomp: false, succeeds: |parent| kill(Pid::from_raw(parent), None).is_ok() },
    Attempt {
        name: "make a user namespace",
        without_seccomp: false,
        succeeds: |_| nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER).is_ok(),
    },
    Attempt {
        name: "trace the parent",
        without_seccomp: false,
        succeeds: |parent| nix::sys::ptrace::seize(Pid::from_raw(parent), nix::sys::ptrace::Options::empty()).is_ok(),
    },
    Attempt { name: "become root", without_seccomp: true, succeeds: |_| becomes_root() },
];

/// Tries everything; the number of the first attempt that worked, for [`name`].
pub fn escape(parent: i32, confined: &Confined) -> Option<u8> {
    let all = !confined.missing.contains(&Layer::Seccomp);
    let worked = ATTEMPTS.iter().position(|attempt| (all || attempt.without_seccomp) && (attempt.succeeds)(parent));
    worked.map(|position| u8::try_from(position).unwrap_or(u8::MAX))
}

/// What an attempt was, by its number.
pub fn name(number: u8) -> &'static str {
    ATTEMPTS.get(usize::from(number)).map_or("do something that is not known", |attempt| attempt.name)
}

fn opens(path: &str) -> bool {
    open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).is_ok()
        || nix::fcntl::openat2(nix::fcntl::AT_FDCWD, path, nix::fcntl::OpenHow::new().flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC)).is_ok()
}

fn executes() -> bool {
    // A call that the kernel refuses for a missing program answers ENOENT; one that the filter refuses, EPERM.
    let none: [&std::ffi::CStr; 0] = [];
    !matches!(nix::unistd::execve(c"/bin/true", &none, &none), Err(Errno::EPERM))
}

fn maps_executable() -> bool {
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let address = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    address != libc::MAP_FAILED
}

fn becomes_root() -> bool {
    let root = nix::unistd::Uid::from_raw(0);
    nix::unistd::setresuid(root, root, root).is_ok() && privilege::is_root()
}
