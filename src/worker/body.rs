//! Bodies of requests on one connection, and what happens to the ones that nobody wants.
//!
//! Runs in the worker; reads no socket. What is to be done with a request is decided by its head alone, but it is done only when its body
//! is complete: then a body that is malformed is answered 400 and not what the head deserved, and the next request begins where the
//! body really ended. What a backend wants goes to it as it comes, or is kept until its length is known; the rest is read and dropped.
//!
//! ```text
//! head ── decided ──┬── no body ─────────────────────────────────── answered
//!                   ├── longer than the limit: 413, longer than is worth
//!                   │   dropping, or held back by the client (Expect) ── answered at once, and the connection ends
//!                   └── Reading ──┬── End ──────────────────────── answered, the connection stays
//!                                 ├── more than is worth dropping ── answered, and the connection ends
//!                                 └── malformed 400, beyond a limit 413 or 431, late 408 ── refused, and it ends
//! ```

use super::backend::Shared;
use super::clock::millis;
use super::fetched::Fetched;
use super::kept::Kept;
use crate::config::Limits;
use crate::proto::body::{Body, Piece};
use crate::proto::head::{Framing, Request};
use crate::proto::status::{Reject, Status};
use crate::site::plan::{Outcome, Plan};

/// What is to be done once the body is complete.
pub(super) struct Decided {
    pub(super) plan: Plan,
    pub(super) outcome: Outcome<Fetched>,
    pub(super) body: Body,
    pub(super) uptake: Uptake,
}

/// Where the content goes.
pub(super) enum Uptake {
    /// Nobody wants it.
    Dropped,
    /// To a backend as it comes; whether its client waits to be told to send it.
    Backend { exchange: Shared, continues: bool },
    /// It has to be whole before a backend can be told how long it is.
    Kept(Kept),
}

/// A request whose body is coming in.
pub(super) struct Reading {
    /// The head, which is read again when the request is answered.
    pub(super) head: Box<[u8]>,
    decided: Box<Decided>,
    /// Bytes that came, framing included.
    received: u64,
    /// When the body began, and when some of it last came, in monotonic milliseconds.
    began: u64,
    progress: u64,
}

/// Why a body is read no further.
pub(super) enum Ended {
    /// It is complete.
    Whole,
    /// It goes on for longer than it is worth reading what nobody wants.
    Unwanted,
    /// Where the next request begins cannot be known.
    Broken(Reject),
}

impl Reading {
    pub(super) fn new(head: &[u8], decided: Box<Decided>, now: u64) -> Reading {
        Reading { head: head.into(), decided, received: 0, began: now, progress: now }
    }

    /// Takes what belongs to the body off the front of `input`, and drops it; `None`: more must come.
    pub(super) fn take(&mut self, input: &mut &[u8], now: u64) -> Option<Ended> {
        let before = input.len();
        let ended = loop {
            match self.decided.body.read(input) {
                Ok(Piece::Data(data)) => match &mut self.decided.uptake {
                    Uptake::Dropped => {}
                    Uptake::Backend { exchange, .. } => exchange.borrow_mut().input(data),
                    Uptake::Kept(kept) => kept.take(data),
                },
                Ok(Piece::More) => break None,
                Ok(Piece::End) => break Some(Ended::Whole),
                Err(reject) => break Some(Ended::Broken(reject)),
            }
        };
        if before > 0 {
            self.progress = now;
        }
        self.received += u64::try_from(before - input.len()).unwrap_or(u64::MAX);
        if ended.is_none() && matches!(self.decided.uptake, Uptake::Dropped) && self.received > DISCARD_MAX {
            return Some(Ended::Unwanted);
        }
        ended
    }

    /// The backend that takes the content.
    pub(super) fn exchange(&self) -> Option<&Shared> {
        match &self.decided.uptake {
            Uptake::Backend { exchange, .. } => Some(exchange),
            Uptake::Dropped | Uptake::Kept(_) => None,
        }
    }

    /// What is kept of it until it is whole.
    pub(super) fn kept(&self) -> Option<&Kept> {
        match &self.decided.uptake {
            Uptake::Kept(kept) => Some(kept),
            Uptake::Dropped | Uptake::Backend { .. } => None,
        }
    }

    /// Whether it is somebody else who may have something new.
    pub(super) fn is_taken_elsewhere(&self) -> bool {
        self.exchange().is_some() || self.kept().is_some_and(|kept| kept.spooled().is_some())
    }

    /// Until when it is waited for whoever takes the content, who takes no more at the moment.
    pub(super) fn waits(&self, now: u64) -> Option<u64> {
        (self.room() == 0).then(|| self.exchange().map_or(now + SPOOL_MS, |exchange| exchange.borrow().deadline()))
    }

    /// Whoever takes the content has been silent for too long.
    pub(super) fn is_late(&self) -> Ended {
        match self.exchange() {
            Some(exchange) => {
                exchange.borrow_mut().is_late();
                Ended::Unwanted
            }
            None => Ended::Broken(SPOOL_LATE),
        }
    }

    /// Bytes that can be taken now.
    pub(super) fn room(&self) -> usize {
        match &self.decided.uptake {
            Uptake::Dropped => usize::MAX,
            Uptake::Backend { exchange, .. } => exchange.borrow().room(),
            Uptake::Kept(kept) => kept.room(),
        }
    }

    /// Whether the client is to be told, once, that it may send the body.
    pub(super) fn continues(&mut self) -> bool {
        match &mut self.decided.uptake {
            Uptake::Backend { exchange, continues } => exchange.borrow().is_connected() && std::mem::take(continues),
            Uptake::Dropped | Uptake::Kept(_) => false,
        }
    }

    /// When the client is too late, in monotonic milliseconds.
    pub(super) fn deadline(&self, limits: &Limits) -> u64 {
        let progress = self.progress.saturating_add(millis(limits.body_timeout));
        progress.min(pace(self.began, self.received, limits.min_rate))
    }
}

impl Decided {
    /// What [`Reading`] holds for `Service::conclude`, and the head beside it.
    pub(super) fn of(reading: Reading) -> (Box<[u8]>, Decided) {
        (reading.head, *reading.decided)
    }
}

/// Whether the body of a request is read although nobody wants it, so that the connection can stay.
pub(super) fn is_worth_reading(request: &Request<'_, '_>) -> bool {
    match request.framing {
        Framing::None => true,
        Framing::Length(length) => !request.expect_continue && length <= DISCARD_MAX,
        Framing::Chunked => !request.expect_continue,
    }
}

/// When a sender that began at `began` and has sent so many bytes is too slow (monotonic milliseconds): everybody has [`GRACE_MS`], and
/// a second for every `min_rate` bytes.
pub(super) fn pace(began: u64, bytes: u64, min_rate: u64) -> u64 {
    match bytes.saturating_mul(1000).checked_div(min_rate) {
        Some(earned) => began.saturating_add(GRACE_MS).saturating_add(earned),
        None => u64::MAX,
    }
}

/// A request body that nobody wants is read and dropped up to this many bytes, framing included, to keep the connection, or for as
/// long as it is already there; a longer one ends it.
const DISCARD_MAX: u64 = 64 * 1024;

/// How long `spool` may take for a part of a body, in milliseconds: a disk that is written to by others too is slow.
const SPOOL_MS: u64 = 30_000;
const SPOOL_LATE: Reject = Reject { status: Status::SERVICE_UNAVAILABLE, why: "the spool directory is too slow" };

/// How long a client may take however slow it is: long lines and lost packets are no attack.
const GRACE_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s02_a_sender_earns_a_second_for_every_so_many_bytes() {
        assert_eq!(pace(1_000, 0, 240), 6_000);
        assert_eq!(pace(1_000, 120, 240), 6_500);
        assert_eq!(pace(1_000, 2_400, 240), 16_000);
        assert_eq!(pace(1_000, 2_400, 0), u64::MAX);
        assert_eq!(pace(u64::MAX - 1, u64::MAX, 1), u64::MAX);
    }
}
