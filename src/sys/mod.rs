//! THE FENCE: the only room with `unsafe` and with the crates that make system calls (`nix`, `caps`, `landlock`).
//!
//! Everything above asks this room for what the kernel must do, in safe types: owned descriptors, `io::Result`,
//! tokens. Each file names the manual pages it stands on. A system call that a confined role makes after
//! [`confine::enter`] must stand in that role's seccomp file with its reason.

#![expect(
    unsafe_code,
    reason = "this is the fence: system calls without a safe wrapper in nix are made here, each with its argument why it is sound"
)]

pub mod alarm;
pub mod attributes;
pub mod candidate;
pub mod cgi;
pub mod clock;
pub mod confine;
pub mod directory;
pub mod epoll;
mod errand;
pub mod file;
mod find;
pub mod jail;
pub mod kept;
pub mod kernel_log;
pub mod landlock;
pub mod log_file;
pub mod manager;
pub mod memory;
pub mod page_cache;
pub mod panic;
pub mod pid_file;
pub mod place;
pub mod policy;
pub mod port;
mod prctl;
pub mod privilege;
pub mod proc;
pub mod process;
pub mod program;
pub mod proof;
pub mod replace;
pub mod resolve;
pub mod scout;
pub mod seccomp;
pub mod shared;
pub mod shown;
pub mod signal;
pub mod socket;
pub mod terminal;
pub mod title;
pub mod unnamed;
pub mod verify;
pub mod watch;
pub mod withheld;
