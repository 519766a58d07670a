//! The states of a connection, and what the event loop has to do with it. Runs in the worker; does nothing.

use super::clients::{Client, Seat};
use super::transport::Transport;
use super::visit::Visit;
use crate::ipc::counters::Gauge;
use crate::site::facts::Origin;

/// The number of an answer that a connection waits for, and whose that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticket {
    /// Of `files`.
    Disk(u32),
    /// Of `auth`.
    Login(u32),
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The rest of a head, or the first one.
    Head,
    /// The rest of a body.
    Body,
    /// The next request.
    Request,
    /// Room to send.
    Room,
    /// The disk, or `auth`.
    Disk,
    /// A backend.
    Backend,
    /// The client's end, after ours.
    End,
}

impl Waiting {
    /// The state that connections are counted in.
    pub(super) fn gauge(self) -> Gauge {
        match self {
            Waiting::Head | Waiting::Body => Gauge::Reading,
            Waiting::Request => Gauge::Idle,
            Waiting::Room | Waiting::Disk | Waiting::Backend | Waiting::End => Gauge::Writing,
        }
    }
}

/// What the event loop has to do with a connection that was driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Wait for the socket.
    Keep,
    /// Drive it again soon: it has had its turn, not all of its work.
    Again,
    /// Call `resume` of the connection when the disk can be asked.
    Ask,
    Close,
    /// The connection turned out to be one of HTTP/2.
    Http2,
}

/// What a connection was made of, for the session of HTTP/2 that it turned out to be.
pub(super) struct Parted {
    pub(super) transport: Transport,
    pub(super) visit: Visit,
    pub(super) client: Option<Client>,
    pub(super) seat: Option<Seat>,
    pub(super) proxy: Option<Origin>,
    /// What has come.
    pub(super) input: Vec<u8>,
    pub(super) gauge: Gauge,
    pub(super) registered: bool,
}
