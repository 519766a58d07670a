//! anchorite: a web server whose every process can do only what its part of the work needs.
//!
//! # The tour
//!
//! A process is a role, and a role is a room. Read them from the outside in:
//!
//! | room | what it is for |
//! |---|---|
//! | [`cli`] | arguments; one file per subcommand |
//! | [`parent`] | PRIVILEGED: binds, opens logs, starts, verifies and replaces the other processes |
//! | [`worker`] | CONFINED, network-facing: the event loop, connections, files |
//! | [`broker`] | CONFINED, but for `spawn`: one file per small process that does one thing for the workers |
//! | [`site`] | pure decisions: which site, which file, listing or answer |
//! | [`ipc`] | channels between processes, and every message that may pass over them |
//! | [`sys`] | THE FENCE: the only room with `unsafe` and with the crates that make system calls |
//! | [`config`] | TOML to a checked, immutable configuration; the slice each role gets |
//! | [`tls`] | certificates and keys, read from the files that the configuration names; what may be signed |
//! | [`proto`] | HTTP without I/O: bytes in, events and bytes out |
//! | [`role`] | the list of roles |
//!
//! # Who may use whom
//!
//! Floors, from the top. A room uses only rooms on floors below its own, and no two files use each other in a circle;
//! `tests/style` checks this table against the code.
//!
//! ```text
//! main
//! cli
//! worker broker parent
//! site ipc tls
//! sys config
//! proto role
//! ```

pub mod broker;
pub mod cli;
pub mod config;
pub mod ipc;
pub mod parent;
pub mod proto;
pub mod role;
pub mod site;
pub mod sys;
pub mod tls;
pub mod worker;
