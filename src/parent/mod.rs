//! PRIVILEGED: binds, opens logs, starts, verifies and replaces the other processes. The only role that is never confined,
//! and so the one that never reads a byte from the network, never looks into what its children send beyond a few fixed
//! messages, and asks no name service once it serves.
//!
//! `start` is what happens once, `cell` what is decided about each confined process, `child` one process from its start to
//! its verification, `slot` the place it has and gets again, `verify` the comparison
//! of a process with its policy, `supervise` the loop.

#![forbid(unsafe_code)]

mod cell;
mod child;
mod report;
mod slot;
mod start;
mod supervise;
pub mod verify;

pub use start::{Announce, run};
