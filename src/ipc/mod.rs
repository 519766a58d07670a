//! Channels between processes, and every message that may pass over them.
//!
//! One SOCK_SEQPACKET pair per pair of processes, one message a packet. Messages are small and dull: a tag, then fields of
//! fixed size; integers that index what the parent configured; byte strings only as log lines, printable and
//! capped, and as what `files` looks up beneath a directory that a number stands for. Never an address. A malformed, oversized or unexpected message ends its sender: the receiver closes the channel and
//! says so, the parent kills.

#![forbid(unsafe_code)]

pub mod answers;
pub mod auth;
pub mod back_off;
pub mod birth;
mod channel;
pub mod clients;
pub mod connect;
pub mod control;
pub mod counters;
pub mod disk;
pub mod entries;
pub mod keys;
pub mod lines;
pub mod messages;
pub mod run;
pub mod spool;
pub mod status;
pub mod syslog;

pub use channel::{Channel, Received};
