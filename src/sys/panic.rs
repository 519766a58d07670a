//! What a panic does: one line, then the end of the process. Installed by every role first of all.
//!
//! The standard library's own hook may open files for a backtrace, which a confined process dies of as a violation; this
//! one makes no system call but write(2) and exit_group(2), so a panic ends as a panic: with [`EXIT_STATUS`].

use nix::libc;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// The status a process ends with after a panic.
pub const EXIT_STATUS: i32 = 101;

/// Where the line goes: standard error, or a channel to `log`.
static TARGET: AtomicI32 = AtomicI32::new(2);

/// Installs the hook. `packet` makes the bytes to send of the message.
pub fn install(packet: fn(&str) -> Vec<u8>) {
    std::panic::set_hook(Box::new(move |info| {
        let mut text = String::new();
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{info}"));
        let line = packet(&text.replace('\n', ": "));
        // SAFETY: the number is that of an open descriptor or of none; a write to it is then an error.
        let target = unsafe { BorrowedFd::borrow_raw(TARGET.load(Ordering::Relaxed)) };
        let _ = nix::unistd::write(target, &line);
        // SAFETY: _exit(2) is always sound.
        unsafe { libc::_exit(EXIT_STATUS) }
    }));
}

/// From now on the line goes to this descriptor.
pub fn send_to(descriptor: RawFd) {
    TARGET.store(descriptor, Ordering::Relaxed);
}
