//! A limit for what this process does next: the kernel ends it when the time is over (setitimer(2), SIGALRM by its default
//! action). Set by `files`, whose reads wait for disks and for servers that may never answer, and for look-ups of
//! names.

use nix::errno::Errno;
use nix::libc;
use std::io;

/// Ends this process in so many milliseconds, unless this is called again; 0: not at all.
///
/// # Errors
/// The errno of setitimer(2).
pub fn end_in(milliseconds: u32) -> io::Result<()> {
    let [seconds, rest] = [milliseconds / 1000, milliseconds % 1000].map(i64::from);
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: never, it_value: libc::timeval { tv_sec: seconds, tv_usec: rest * 1000 } };
    // SAFETY: the new value is live, and the old one is not asked for.
    let result = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    Ok(Errno::result(result).map(drop)?)
}
