//! What is known of a connection by where it came in.
//!
//! Runs in the worker, as a part of its loop.

use crate::site::Door;
use std::net::IpAddr;

/// What is known of connections by the listener they come from.
#[derive(Clone, Copy)]
pub(super) struct Gate {
    pub(super) door: Door,
    pub(super) port: u16,
    /// Whether clients speak TLS there.
    pub(super) tls: bool,
    /// The address, where a listener has but one.
    pub(super) local: Option<IpAddr>,
    /// Whether the address that a client came to has to be known.
    pub(super) ask: bool,
}
