//! Processes: starting a role by fork and exec of the very program that runs, watching and ending it.
//!
//! Only the parent uses this. fork(2), execveat(2), user_namespaces(7), waitpid(2), kill(2).

use super::{panic, privilege, signal};
use caps::Capability;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl};
use nix::sched::CloneFlags;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};
use std::ffi::{CStr, CString, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

/// The program as it was when the service started, held open so that every role of it is of one version.
pub struct Executable(OwnedFd);

impl Executable {
    /// # Errors
    /// The errno of open(2).
    pub fn running() -> io::Result<Executable> {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let file = nix::fcntl::open("/proc/self/exe", flags, nix::sys::stat::Mode::empty())?;
        Ok(Executable(above_given(file)?))
    }
}

impl Executable {
    /// Opens a program by its path.
    ///
    /// # Errors
    /// The errno of open(2).
    pub fn open(path: &Path) -> io::Result<Executable> {
        Ok(Executable(nix::fcntl::open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, nix::sys::stat::Mode::empty())?))
    }

    /// Where the running program lies, or lay when it was started.
    pub fn path() -> io::Result<PathBuf> {
        std::fs::read_link("/proc/self/exe")
    }
}

impl From<OwnedFd> for Executable {
    fn from(program: OwnedFd) -> Executable {
        Executable(program)
    }
}

impl AsFd for Executable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Leaves a descriptor open over exec, and to whoever takes it up by its number.
///
/// # Errors
/// The errno of fcntl(2).
pub(super) fn keep_over_exec(descriptor: OwnedFd) -> io::Result<RawFd> {
    // Above the standard streams' and a role's numbers, so that nothing is put in its place.
    let kept = above_given(descriptor)?;
    fcntl(&kept, FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
    Ok(kept.into_raw_fd())
}

/// Becomes another program in this process: same process id, children and open descriptors.
///
/// # Errors
/// The errno of execveat(2).
pub fn become_program(
    program: &Executable,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
) -> io::Result<std::convert::Infallible> {
    let text = |text: &OsString| CString::new(text.as_encoded_bytes()).map_err(|_| io::ErrorKind::InvalidInput);
    let arguments: Vec<CString> = arguments.iter().map(text).collect::<Result<_, _>>()?;
    let environment: Vec<CString> = std::env::vars_os()
        .chain(environment.iter().cloned())
        .filter_map(|(name, value)| CString::new([name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat()).ok())
        .collect();
    Ok(nix::unistd::execveat(&program.0, c"", &arguments, &environment, AtFlags::AT_EMPTY_PATH)?)
}

/// What a new process is given.
pub struct Start<'a> {
    /// Its whole command line, as ps(1) shows it.
    pub title: &'a str,
    /// Becomes descriptors 0, 1 and 2.
    pub null: BorrowedFd<'a>,
    /// Become [`FIRST_GIVEN`] and the numbers after it.
    pub given: &'a [BorrowedFd<'a>],
    /// Start it in a user namespace of its own that maps only the caller's ids: how a role gets what it needs to build its
    /// jail when the parent is not root.
    pub user_namespace: bool,
}

/// Number of the first descriptor of [`Start::given`]; the numbers below are the standard three.
pub const FIRST_GIVEN: RawFd = 3;

/// The step that the layer of namespaces takes where the parent is not root.
pub const USER_NAMESPACE: &str = "user namespace";

/// A step between fork and exec that failed.
#[derive(Debug)]
pub struct StartFault {
    pub step: &'static str,
    pub errno: io::Error,
}

/// Starts a process of this program.
///
/// # Errors
/// The step that failed and its errno; nothing is left running then.
pub fn start(executable: &Executable, start: &Start<'_>) -> Result<i32, StartFault> {
    let fault = |step, errno: Errno| StartFault { step, errno: errno.into() };
    let title = CString::new(start.title).map_err(|_| fault("title", Errno::EINVAL))?;
    let zone = std::env::var_os("TZ").and_then(|zone| CString::new([b"TZ=".as_slice(), zone.as_encoded_bytes()].concat()).ok());
    let environment: Vec<&CStr> = zone.iter().map(CString::as_c_str).collect();
    let (mut reader, writer) = pipe().map_err(|errno| fault("pipe", errno))?;
    // SAFETY: this program has one thread, so the child is a whole copy in which any code may run.
    match unsafe { nix::unistd::fork() }.map_err(|errno| fault("fork", errno))? {
        ForkResult::Child => {
            let (step, errno) = become_role(executable, start, &title, &environment);
            let mut writer = std::fs::File::from(writer);
            let number = (errno as i32).to_ne_bytes();
            let _ = writer.write_all(&[[step, 0, 0, 0], number].concat());
            // SAFETY: _exit(2) is always sound; exit(3) would run the parent's handlers in the child.
            unsafe { nix::libc::_exit(127) }
        }
        ForkResult::Parent { child } => {
            drop(writer);
            let mut record = [0; 8];
            // The pipe ends without a record when exec has closed it.
            if reader.read_exact(&mut record).is_err() {
                return Ok(child.as_raw());
            }
            let _ = waitpid(child, None);
            let errno = Errno::from_raw(i32::from_ne_bytes([record[4], record[5], record[6], record[7]]));
            Err(fault(STEPS.get(usize::from(record[0])).unwrap_or(&"start"), errno))
        }
    }
}

/// Steps between fork and exec, by the number that the child reports.
const STEPS: [&str; 6] = ["setsid", "signal mask", "out-of-memory score", USER_NAMESPACE, "descriptors", "exec"];

/// Runs in the child; returns only when a step failed.
fn become_role(executable: &Executable, start: &Start<'_>, title: &CStr, environment: &[&CStr]) -> (u8, Errno) {
    let errno = |fault: io::Error| Errno::from_raw(fault.raw_os_error().unwrap_or(nix::libc::EIO));
    // A session of its own: Ctrl-C in a terminal reaches the parent alone.
    if let Err(fault) = nix::unistd::setsid() {
        return (0, fault);
    }
    if let Err(fault) = signal::unblock_all() {
        return (1, errno(fault));
    }
    // When memory runs out the kernel should take a worker, which is replaced, not the parent. Raising it needs no privilege.
    let _ = std::fs::write("/proc/self/oom_score_adj", "300");
    if start.user_namespace
        && let Err(fault) = enter_user_namespace()
    {
        return (3, errno(fault));
    }
    if let Err(fault) = place_descriptors(start) {
        return (4, fault);
    }
    match nix::unistd::execveat(&executable.0, c"", &[title], environment, AtFlags::AT_EMPTY_PATH) {
        Err(fault) => (5, fault),
        Ok(never) => match never {},
    }
}

/// Maps the caller's ids onto themselves, so that files keep their owners' numbers. Done before exec, so that the memory of
/// the role belongs to the namespace and its maker may audit it.
fn enter_user_namespace() -> io::Result<()> {
    let (uid, gid) = privilege::own_ids();
    nix::sched::unshare(CloneFlags::CLONE_NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    // What building the jail takes (mounts, chroot, emptying the bounding set): given up with the rest in the role.
    privilege::keep_over_exec(&[Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_CHROOT, Capability::CAP_SETPCAP])
}

/// Puts the given descriptors at their numbers. They are first moved out of the way: a number to be filled may be that of
/// one still needed.
fn place_descriptors(start: &Start<'_>) -> Result<(), Errno> {
    const OUT_OF_THE_WAY: RawFd = 32;
    let standard = [start.null, start.null, start.null];
    let mut moved = Vec::new();
    for descriptor in standard.iter().chain(start.given) {
        let number = fcntl(descriptor, FcntlArg::F_DUPFD_CLOEXEC(OUT_OF_THE_WAY))?;
        // SAFETY: F_DUPFD_CLOEXEC has just made this descriptor.
        moved.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    for (descriptor, number) in moved.iter().zip(0..) {
        // SAFETY: dup2(2) touches no memory. What had the number before is closed; in this child, which goes on only to
        // exec or _exit, no owner of it is used any more: the executable and the report pipe were opened above 5.
        Errno::result(unsafe { nix::libc::dup2(descriptor.as_raw_fd(), number) })?;
    }
    Ok(())
}

fn pipe() -> Result<(std::fs::File, OwnedFd), Errno> {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    Ok((reader.into(), above_given(writer)?))
}

/// Moves a descriptor above the numbers that a role's descriptors are put at.
pub(super) fn above_given(descriptor: OwnedFd) -> Result<OwnedFd, Errno> {
    const ABOVE: RawFd = 16;
    let number = fcntl(descriptor.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(ABOVE))?;
    // SAFETY: F_DUPFD_CLOEXEC has just made this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signalled(i32),
}

impl Ended {
    /// Whether the process ended by what it did itself, and not because somebody ended it: a panic, or one of the signals that the kernel
    /// sends for a fault or a refused call.
    pub fn is_own_fault(self) -> bool {
        const FAULTS: [Signal; 7] =
            [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT, Signal::SIGTRAP, Signal::SIGSYS];
        match self {
            Ended::Exited(status) => status == panic::EXIT_STATUS,
            Ended::Signalled(number) => FAULTS.iter().any(|fault| *fault as i32 == number),
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Exited(status) => write!(f, "exit status {status}"),
            Ended::Signalled(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "{}", signal.as_str()),
                Err(_) => write!(f, "signal {number}"),
            },
        }
    }
}

/// What ends a process that is told to, and one that does not listen.
pub const SIGTERM: i32 = nix::libc::SIGTERM;
pub const SIGKILL: i32 = nix::libc::SIGKILL;

/// What a filter sends (signal(7)); the same number on every architecture here.
pub const SIGSYS: i32 = nix::libc::SIGSYS;
pub const SIGALRM: i32 = Signal::SIGALRM as i32;

/// The next child that has ended, if one has.
pub fn reap() -> Option<(i32, Ended)> {
    match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::Exited(child, status)) => Some((child.as_raw(), Ended::Exited(status))),
        Ok(WaitStatus::Signaled(child, signal, _)) => Some((child.as_raw(), Ended::Signalled(signal as i32))),
        _ => None,
    }
}

/// Ends a process at once; one that has already ended is no error.
pub fn kill(pid: i32) {
    let _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
}

/// The process that started this one.
pub fn parent_id() -> i32 {
    nix::unistd::getppid().as_raw()
}

pub fn own_id() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// CPUs this process may run on.
pub fn cpus() -> u16 {
    let set = nix::sched::sched_getaffinity(Pid::from_raw(0));
    let count = set.map_or(1, |set| (0..nix::sched::CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).count());
    u16::try_from(count.max(1)).unwrap_or(u16::MAX)
}

/// Makes directories and files of this process and its children readable as their modes say, whatever the caller's mask.
pub fn set_umask() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
}

/// Raises the soft limit of open files to the hard one, which children inherit.
pub fn raise_file_limit() {
    let hard = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(_, hard)| hard);
    // An unlimited or huge hard limit would only make kernel tables larger than any use of them.
    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard.min(1 << 20), hard);
}

/// How many files this process may have open.
pub fn file_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

/// Closes every descriptor above `last` and looks whether it did: what the caller left open is nobody's here. To be called
/// before anything above `last` has an owner.
///
/// # Errors
/// The errno of close_range(2), or a text that names what is still open.
pub fn close_above(last: RawFd) -> io::Result<()> {
    let first = u32::try_from(last + 1).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: close_range(2) touches no memory; by the start order of every role nothing above `last` has an owner yet.
    Errno::result(unsafe { nix::libc::syscall(nix::libc::SYS_close_range, first, u32::MAX, 0) })?;
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        // The one above all others is the open directory that is being read.
        if number.is_some_and(|number| number > last + 1) {
            return Err(io::Error::other(format!("{entry:?} is still open")));
        }
    }
    Ok(())
}

/// Makes sure that 0, 1 and 2 are open, so that nothing opened later is mistaken for a standard stream.
///
/// # Errors
/// The errno of open(2).
pub fn reserve_standard_descriptors() -> io::Result<()> {
    loop {
        let descriptor = super::socket::null()?;
        if descriptor.as_raw_fd() > 2 {
            return Ok(());
        }
        std::mem::forget(descriptor);
    }
}
