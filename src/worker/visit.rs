//! What is known of a request beside its head, and the access line that waits for its response to end.
//!
//! Runs in the worker; does nothing.

use crate::proto::status::Status;
use crate::site::Door;
use crate::site::facts::{Origin, Scheme};
use std::net::IpAddr;

/// What is known of a request beside its head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) client: IpAddr,
    /// Whether a proxy asks for it, and how it came there.
    pub(super) forwarded: bool,
    pub(super) scheme: Scheme,
    /// Which sites answer where the connection came in, and the port there.
    pub(super) door: Door,
    pub(super) port: u16,
    /// Tells this request from all others of the service.
    pub(super) id: u64,
    /// When its first byte came, in monotonic milliseconds.
    pub(super) began: u64,
}

impl Visit {
    pub(super) fn origin(&self) -> Origin {
        Origin { client: self.client, forwarded: self.forwarded, scheme: self.scheme }
    }

    pub(super) fn set_origin(&mut self, origin: Origin) {
        Origin { client: self.client, forwarded: self.forwarded, scheme: self.scheme } = origin;
    }
}

/// An access line that waits for its response to end.
pub(super) struct Line {
    /// The head, which is read again when the line is written.
    pub(super) head: Vec<u8>,
    pub(super) site: usize,
    pub(super) visit: Visit,
    pub(super) status: Status,
}

#[cfg(test)]
impl Line {
    pub(super) fn for_tests() -> Line {
        let client = std::net::Ipv4Addr::LOCALHOST.into();
        let visit = Visit { client, forwarded: false, scheme: Scheme::Http, door: Door::default(), port: 0, id: 0, began: 0 };
        Line { head: Vec::new(), site: 0, visit, status: Status::OK }
    }
}
