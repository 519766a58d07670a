//! The states of a connection, and what the event loop has to do with it. Runs in the worker; does nothing.

use crate::ipc::counters::Gauge;

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
    /// The disk.
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
}
