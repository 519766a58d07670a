//! The parser compared with a second reader of the same rules. The other tests know the program from outside; this one calls the
//! library as well, since a million messages over sockets would take an hour.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test ends by panicking, and starts processes and dials as any user of the machine would"
)]

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/http2.rs"]
mod http2_frames;

#[path = "../support/hpack.rs"]
mod hpack;

mod differential;
mod exchanges;
mod frames;
mod grammar;
mod mutation;
mod over_sockets;
mod parser;
mod probes;
mod seeds;

/// Whether what takes minutes is run too: `tests/run --all`.
fn everything() -> bool {
    std::env::var_os("ANCHORITE_TESTS_ALL").is_some_and(|value| value == "1")
}
