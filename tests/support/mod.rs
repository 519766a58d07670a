//! What the black-box tests share: a server to start and stop, a client that is strict about what it reads, a
//! document root to fill, and a view of the processes as the kernel reports them. Nothing here uses the library:
//! the tests know the program by its command line, its configuration file, its sockets and `/proc`.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary includes this module and uses its own part of it")]

mod access_line;
mod browser;
mod client;
mod configuration;
mod network;
mod own_etc;
mod processes;
mod root;
mod server;

pub(crate) use access_line::AccessLine;
pub(crate) use browser::{Browser, pictures};
pub(crate) use client::{Client, Response, request};
pub(crate) use configuration::Configuration;
pub(crate) use network::own_network;
pub(crate) use own_etc::OwnEtc;
pub(crate) use processes::{Process, children_of, is_alive, running, signal, status_field};
pub(crate) use root::Root;
pub(crate) use server::{Ended, Launch, Server, free_port};

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for what must happen at once on an idle machine. Generous, since the tests share few CPUs, with others too; who
/// waits for less tests the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `condition` until it is true or `limit` is over. Returns the time it took, or `None`.
pub(crate) fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> Option<Duration> {
    let start = Instant::now();
    loop {
        if condition() {
            return Some(start.elapsed());
        }
        if start.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Says to other threads that the test is over, however it ends: a scope waits for them where an assertion fails, too.
pub(crate) struct Done<'d>(pub(crate) &'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether the tests run as root. Cases about several owners, device nodes and ids need it, and say so.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Ends the test early, with a line that says so, where it needs root and does not have it.
macro_rules! needs_root {
    () => {
        if !crate::support::is_root() {
            eprintln!("skipped: this case needs root");
            return;
        }
    };
}
pub(crate) use needs_root;

/// Whether what takes long, or needs large programs, is tested too: `tests/run --all`.
pub(crate) fn is_all() -> bool {
    std::env::var_os("ANCHORITE_TESTS_ALL").is_some_and(|value| value == "1")
}

/// Ends the test early, with a line that says so, where not everything is tested.
macro_rules! needs_all {
    () => {
        if !crate::support::is_all() {
            eprintln!("skipped: this case needs tests/run --all");
            return;
        }
    };
}
pub(crate) use needs_all;

/// Bytes as text for messages: what is not printable ASCII as `\xHH`.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(2000)];
    let more = if cut.len() < bytes.len() { format!("… ({} bytes)", bytes.len()) } else { String::new() };
    format!("{}{more}", cut.escape_ascii())
}

/// `len` bytes that differ along their way, so that a shifted or repeated piece shows.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_u32;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect()
}
