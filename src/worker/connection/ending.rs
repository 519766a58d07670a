//! The end of a connection whose client may still be sending.
//!
//! Runs in the worker, as a part of [`Connection`].

use super::{Connection, Fate, Waiting};
use crate::worker::answer::Service;
use crate::worker::body::pace;
use std::io;

impl Connection {
    /// Everything is sent. Where the client may still be sending, closing at once would reset the connection and could take
    /// the response with it: only our side is ended, and what comes is dropped for a while (RFC 9112, 9.6).
    pub(super) fn end_sending(&mut self, service: &Service, unread: bool) -> Fate {
        if !unread || self.transport.end_sending().is_err() {
            return Fate::Close;
        }
        self.input = Vec::new();
        self.waiting = Waiting::End;
        self.ended = service.clock.now;
        self.deadline = self.ended + LINGER_MS;
        Fate::Again
    }

    /// Drops what still comes, as long as the client goes on and within bounds.
    pub(super) fn linger(&mut self, service: &Service, buffer: &mut [u8]) -> Fate {
        for _ in 0..LINGER_TURNS {
            // Not read on, and not closed yet: our response may still be on its way.
            if self.lingered >= LINGER_BYTES {
                return Fate::Keep;
            }
            match self.transport.receive(buffer) {
                Ok(0) => return Fate::Close,
                Ok(count) => {
                    self.lingered += count;
                    // A slow sender gets no longer here than where it was waited for.
                    let (sent, rate) = (u64::try_from(self.lingered).unwrap_or(u64::MAX), service.limits.min_rate);
                    self.deadline = (service.clock.now + LINGER_MS).min(self.ended + LINGER_MAX_MS).min(pace(self.ended, sent, rate));
                }
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Fate::Keep,
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Fate::Close,
            }
        }
        Fate::Again
    }
}

/// How long a client may be silent after our end, how long it may go on sending, and how many bytes.
const LINGER_MS: u64 = 5_000;
const LINGER_MAX_MS: u64 = 30_000;
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// Times that a client after our end is read from before others get their turn.
const LINGER_TURNS: u8 = 16;
