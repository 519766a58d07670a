//! Programs that are not this one: started by fork and exec as another user, in a process-id namespace that ends with its maker.
//!
//! Only `spawn` uses this. fork(2), execve(2), pid_namespaces(7), setsid(2), credentials(7).

use super::process::StartFault;
use super::{privilege, signal, socket};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sched::CloneFlags;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Gid, Pid, Uid};
use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A program and whom it runs as.
pub struct Program<'a> {
    /// The path of the program, absolute, and its arguments.
    pub command: &'a [OsString],
    /// All that it finds in its environment.
    pub environment: &'a [(OsString, OsString)],
    pub uid: u32,
    pub gid: u32,
    /// Become descriptors 0, 1 and 2; there are no others.
    pub standard: [BorrowedFd<'a>; 3],
}

/// Starts a program in a session of its own.
///
/// # Errors
/// The step that failed and its errno; nothing is left running then.
pub fn start(program: &Program<'_>) -> Result<i32, StartFault> {
    let fault = |step, errno: Errno| StartFault { step, errno: errno.into() };
    let text = |text: &OsString| CString::new(text.as_bytes()).map_err(|_| fault("command", Errno::EINVAL));
    let command = program.command.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let pair = |(name, value): &(OsString, OsString)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat());
    let environment: Vec<CString> =
        program.environment.iter().map(pair).collect::<Result<_, _>>().map_err(|_| fault("env", Errno::EINVAL))?;
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(|errno| fault("pipe", errno))?;
    // SAFETY: this program has one thread, so the child is a whole copy in which any code may run.
    match unsafe { nix::unistd::fork() }.map_err(|errno| fault("fork", errno))? {
        ForkResult::Child => {
            let (step, errno) = become_program(program, &command, &environment, &writer);
            let number = (errno as i32).to_ne_bytes();
            // Above the others: see `place`.
            let _ = nix::unistd::write(&writer, &[[step, 0, 0, 0], number].concat());
            // SAFETY: _exit(2) is always sound; exit(3) would run the parent's handlers in the child.
            unsafe { libc::_exit(127) }
        }
        ForkResult::Parent { child } => {
            drop(writer);
            let mut record = [0; 8];
            // The pipe ends without a record when exec has closed it.
            if std::fs::File::from(reader).read_exact(&mut record).is_err() {
                return Ok(child.as_raw());
            }
            let _ = waitpid(child, None);
            let errno = Errno::from_raw(i32::from_ne_bytes([record[4], record[5], record[6], record[7]]));
            Err(fault(STEPS.get(usize::from(record[0])).unwrap_or(&"start"), errno))
        }
    }
}

/// Steps between fork and exec, by the number that the child reports.
const STEPS: [&str; 8] = ["setsid", "signals", "limits", "descriptors", "groups", "group id", "user id", "exec"];

/// Runs in the child; returns only when a step failed.
fn become_program(program: &Program<'_>, command: &[CString], environment: &[CString], report: &OwnedFd) -> (u8, Errno) {
    let steps: [&dyn Fn() -> Result<(), Errno>; 7] = [
        // A session of its own: it and all that it starts can be signalled together, and no terminal reaches it.
        &|| nix::unistd::setsid().map(drop),
        &|| signal::all_default().map_err(|fault| Errno::from_raw(fault.raw_os_error().unwrap_or(libc::EIO))),
        &limits,
        &|| place(program.standard, report),
        &|| nix::unistd::setgroups(&[Gid::from_raw(program.gid)]),
        &|| nix::unistd::setresgid(Gid::from_raw(program.gid), Gid::from_raw(program.gid), Gid::from_raw(program.gid)),
        &|| become_user(Uid::from_raw(program.uid)),
    ];
    for (number, step) in (0..).zip(steps) {
        if let Err(errno) = step() {
            return (number, errno);
        }
    }
    let _ = nix::unistd::chdir("/");
    match command.first().map(|path| nix::unistd::execve(path, command, environment)) {
        Some(Ok(never)) => match never {},
        Some(Err(errno)) => (7, errno),
        None => (7, Errno::ENOENT),
    }
}

/// The capabilities go with root's id; that it cannot come back is tried. What would be left of a death signal is gone as well, so it
/// is set here: should `spawn` die, the namespace ends too, and this is the second line.
pub(super) fn become_user(uid: Uid) -> Result<(), Errno> {
    nix::unistd::setresuid(uid, uid, uid)?;
    let root = Uid::from_raw(0);
    if nix::unistd::setresuid(root, root, root).is_ok() {
        return Err(Errno::EPERM);
    }
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
}

/// No core, which would hold what clients sent; and the soft limit of open files that programs are written for.
pub(super) fn limits() -> Result<(), Errno> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, FILES.min(hard), hard)?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    Ok(())
}

/// select(2) has room for so many.
const FILES: u64 = 1024;

/// Puts the standard descriptors at their numbers and has exec close all others.
pub(super) fn place(standard: [BorrowedFd<'_>; 3], report: &OwnedFd) -> Result<(), Errno> {
    const OUT_OF_THE_WAY: RawFd = 32;
    let mut moved = Vec::new();
    for descriptor in standard {
        let number = fcntl(descriptor, FcntlArg::F_DUPFD_CLOEXEC(OUT_OF_THE_WAY))?;
        // SAFETY: F_DUPFD_CLOEXEC has just made this descriptor.
        moved.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    if report.as_raw_fd() <= 2 {
        return Err(Errno::EBADF);
    }
    for (descriptor, number) in moved.iter().zip(0..) {
        // SAFETY: dup2(2) touches no memory; this child goes on only to exec or _exit, so no owner of what had the number is used.
        Errno::result(unsafe { libc::dup2(descriptor.as_raw_fd(), number) })?;
    }
    // SAFETY: close_range(2) touches no memory, and with this flag closes nothing before exec.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })?;
    Ok(())
}

/// A process-id namespace that ends, with all that is in it, when this process does. Its first process, which does nothing, is
/// ended by the kernel then, and with it every other, also one that has left its session or lost its parent.
///
/// # Errors
/// The errno of unshare(2), pipe(2) or fork(2).
pub(super) fn enter_process_namespace() -> io::Result<()> {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    nix::sched::unshare(CloneFlags::CLONE_NEWPID)?;
    // SAFETY: this program has one thread, so the child is a whole copy in which any code may run.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => {
            drop(writer);
            be_first(reader);
            // SAFETY: _exit(2) is always sound; exit(3) would run the parent's handlers in the child.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { .. } => {
            drop(reader);
            // Its end is how the first process learns that this one is gone; nothing is ever written.
            std::mem::forget(writer);
            Ok(())
        }
    }
}

/// Waits for the end of the maker. Orphans of the namespace become its children, and are reaped by the kernel as long as their ends
/// are ignored (wait(2)).
fn be_first(end: OwnedFd) {
    let alone = || -> io::Result<()> {
        signal::ignore_children()?;
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        privilege::drop_bounding()?;
        privilege::drop_capabilities()?;
        nix::sys::prctl::set_dumpable(false)?;
        let null = socket::null()?;
        place([end.as_fd(), null.as_fd(), null.as_fd()], &end).map_err(io::Error::from)?;
        std::mem::forget(null);
        // SAFETY: close_range(2) touches no memory; no owner of what is closed is used or dropped any more.
        Errno::result(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) })?;
        Ok(())
    };
    let done = alone();
    std::mem::forget(end);
    if done.is_ok() {
        let mut byte = [0; 1];
        // SAFETY: descriptor 0 is the pipe, as `place` has just put it.
        let end = unsafe { BorrowedFd::borrow_raw(0) };
        while nix::unistd::read(end, &mut byte) == Err(Errno::EINTR) {}
    }
}

/// Sends a signal to a program and to all of its session that have not left its group.
pub fn signal_all(pid: i32, end: End) {
    let signal = match end {
        End::Ask => Signal::SIGTERM,
        End::Force => Signal::SIGKILL,
    };
    let _ = kill(Pid::from_raw(-pid), signal);
}

/// Whether anything is left of a program's group, be it only its leader that nobody has reaped yet.
pub fn has_members(pid: i32) -> bool {
    kill(Pid::from_raw(-pid), None).is_ok()
}

/// How a program is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Ask,
    Force,
}

/// A stream socket at a path, for a program that finds it as its descriptor 0, as FastCGI has it (section 2.2): only root and a group may
/// connect. In place of one that nobody listens at any more.
///
/// # Errors
/// `AddrInUse` where somebody listens; the errno of socket(2), bind(2) or listen(2).
pub fn listen(path: &Path, group: u32) -> io::Result<OwnedFd> {
    // The group is there with the socket, without the capability that chown(2) takes.
    let before = nix::unistd::setfsgid(Gid::from_raw(group));
    let listener = socket::listen_group(path);
    nix::unistd::setfsgid(before);
    let listener = listener?;
    // Programs that accept do not expect to be told to try again.
    fcntl(&listener, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(listener)
}

/// A pipe for what a program says: its end, and ours, which does not block.
///
/// # Errors
/// The errno of pipe2(2) or fcntl(2).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((theirs, ours))
}

/// The same for another user, who so may open it by its name in `/dev` too, as scripts do with `/dev/stderr`.
///
/// # Errors
/// As [`pipe`].
pub(super) fn pipe_of(uid: u32) -> io::Result<(OwnedFd, OwnedFd)> {
    let before = nix::unistd::setfsuid(Uid::from_raw(uid));
    let made = pipe();
    nix::unistd::setfsuid(before);
    made
}

/// What has come through a pipe; `None`: nothing is there now. No bytes: its end.
pub fn read<'b>(pipe: &OwnedFd, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    match nix::unistd::read(pipe, buffer) {
        Ok(length) => Some(&buffer[..length]),
        Err(Errno::EAGAIN | Errno::EINTR) => None,
        Err(_) => Some(&[]),
    }
}
