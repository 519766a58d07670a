//! Tests of the confinement on the shipped program.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test ends by panicking, and starts processes, opens files and dials as any user of the machine would"
)]

#[path = "../support/mod.rs"]
mod support;
#[cfg(target_arch = "x86_64")]
#[path = "../support/syscall.rs"]
mod syscall;

#[cfg(target_arch = "x86_64")]
#[path = "../support/hijack.rs"]
mod hijack;

#[cfg(target_arch = "x86_64")]
#[path = "../support/tamper.rs"]
mod tamper;

#[cfg(target_arch = "x86_64")]
mod allow_missing;
#[cfg(target_arch = "x86_64")]
mod hijacked;
#[cfg(target_arch = "x86_64")]
mod messages;
#[cfg(target_arch = "x86_64")]
mod seccomp;
#[cfg(target_arch = "x86_64")]
mod steps;
