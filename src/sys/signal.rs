//! Signals as records of a descriptor (signalfd(2)); there are no handlers in this program.

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The signals that the parent acts on.
pub struct Signals(SignalFd);

/// One signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// TERM or INT: stop now.
    Stop,
    /// QUIT: finish what runs, then stop.
    Drain,
    /// HUP: read the configuration again.
    Reload,
    /// USR1: open the log files again.
    Reopen,
    /// USR2: replace the program.
    Upgrade,
    /// A process that this one started has ended.
    Child,
}

impl Signals {
    /// Blocks the signals and opens the descriptor they arrive on.
    ///
    /// # Errors
    /// The errno of sigprocmask(2) or signalfd(2).
    pub fn block() -> io::Result<Signals> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGCHLD, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2]
        {
            set.add(signal);
        }
        set.thread_block()?;
        ignore_file_limit()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// The next signal, if one has arrived.
    pub fn next(&self) -> Option<Arrived> {
        loop {
            let record = self.0.read_signal().ok().flatten()?;
            let signal = i32::try_from(record.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            match signal {
                Some(Signal::SIGTERM | Signal::SIGINT) => return Some(Arrived::Stop),
                Some(Signal::SIGQUIT) => return Some(Arrived::Drain),
                Some(Signal::SIGCHLD) => return Some(Arrived::Child),
                Some(Signal::SIGHUP) => return Some(Arrived::Reload),
                Some(Signal::SIGUSR1) => return Some(Arrived::Reopen),
                Some(Signal::SIGUSR2) => return Some(Arrived::Upgrade),
                _ => {}
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A log that has reached the size which the caller's limits allow (RLIMIT_FSIZE) is a log that takes no line, not the end of
/// the service: write(2) then says EFBIG.
pub(super) fn ignore_file_limit() -> io::Result<()> {
    set(Signal::SIGXFSZ, SigHandler::SigIgn)
}

/// Of the roles that the parent starts only `log` writes to files.
pub(super) fn default_file_limit() -> io::Result<()> {
    set(Signal::SIGXFSZ, SigHandler::SigDfl)
}

fn set(signal: Signal, to: SigHandler) -> io::Result<()> {
    // SAFETY: neither ignoring a signal nor its default action runs code of ours.
    unsafe { sigaction(signal, &SigAction::new(to, SaFlags::empty(), SigSet::empty())) }?;
    Ok(())
}

/// Gives a memory fault its default action, the end of the process, and reads that back.
///
/// The standard library installs handlers that report a stack overflow. For any other fault they restore the default with
/// rt_sigaction(2) and return to the faulting instruction; the filter answers that call with ENOSYS, so under it they would
/// return to the fault for ever, and a crashed worker would spin where it should be replaced.
///
/// The same for SIGALRM, which ends a process that a disk keeps waiting and that a caller may have let be ignored.
pub(super) fn end_on_fault() -> io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGALRM] {
        // SAFETY: the default action runs no code of ours.
        unsafe { sigaction(signal, &default) }?;
        if handler(signal)? != libc::SIG_DFL {
            return Err(io::Error::other(format!("{signal} still has a handler")));
        }
    }
    Ok(())
}

/// What a signal does now (rt_sigaction(2)): by the kernel's own structure, whose first word is the handler on every architecture here. The C
/// library would copy whatever is in its own, should the kernel have written nothing.
fn handler(signal: Signal) -> io::Result<libc::sighandler_t> {
    let mut action = [libc::SIG_ERR; 8];
    // SAFETY: the kernel writes its structure, which is shorter than this, and the size is that of its signal mask.
    let result = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal as i32, std::ptr::null::<u8>(), action.as_mut_ptr(), 8) };
    Errno::result(result)?;
    Ok(action.first().copied().unwrap_or(libc::SIG_ERR))
}

/// What programs expect that are not this one: every signal has its default action, and none is blocked. The standard library ignores
/// SIGPIPE, and a role SIGXFSZ, which would stay so over exec.
pub(super) fn all_default() -> io::Result<()> {
    for signal in Signal::iterator().filter(|signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP)) {
        set(signal, SigHandler::SigDfl)?;
    }
    unblock_all()
}

/// Lets the kernel reap children (wait(2)).
pub(super) fn ignore_children() -> io::Result<()> {
    set(Signal::SIGCHLD, SigHandler::SigIgn)
}

/// Unblocks every signal: what a new process starts with.
pub(super) fn unblock_all() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}
