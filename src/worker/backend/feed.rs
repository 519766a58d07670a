//! What goes to a backend: its request, and the body behind that as it comes.
//!
//! Runs in the worker. Writes to the one socket that it is given; holds as much of a body as waits for that socket.

use super::codec::{Codec, PART_MAX};
use crate::sys::socket;
use std::io;
use std::os::fd::OwnedFd;

/// Bytes for a backend.
#[derive(Default)]
pub(super) struct Feed {
    out: Vec<u8>,
    sent: usize,
    /// The whole request, while it may be sent once more.
    again: Option<Vec<u8>>,
    /// Whether its body follows then, from the beginning, and whether that is due.
    again_open: bool,
    rewound: bool,
    /// More of the body comes from the client.
    open: bool,
    /// It was told that nothing more comes.
    over: bool,
    /// Something was sent since [`Feed::write`] said so.
    moved: bool,
}

impl Feed {
    /// What the request begins with, and whether a body follows.
    pub(super) fn begin(&mut self, opening: Vec<u8>, body: bool, codec: &Codec) {
        (self.out, self.sent, self.open) = (opening, 0, body);
        if !body {
            codec.frame_end(&mut self.out);
        }
    }

    /// The request may be sent once more.
    pub(super) fn remember(&mut self) {
        (self.again, self.again_open) = (Some(self.out.clone()), self.open);
    }

    /// Whether it may still be sent once more.
    pub(super) fn is_remembered(&self) -> bool {
        self.again.is_some()
    }

    /// Once after a [`Feed::rewind`]: the body has to be given from its beginning.
    pub(super) fn take_rewound(&mut self) -> bool {
        std::mem::take(&mut self.rewound)
    }

    /// Something was answered: it is not sent again.
    pub(super) fn forget(&mut self) {
        self.again = None;
    }

    /// From the beginning; false: it may not be.
    pub(super) fn rewind(&mut self) -> bool {
        let Some(again) = self.again.take() else { return false };
        (self.out, self.sent) = (again, 0);
        (self.open, self.rewound) = (self.again_open, self.again_open);
        true
    }

    /// Bytes of the body that can be taken now.
    pub(super) fn room(&self) -> usize {
        OUT_MAX.saturating_sub(self.out.len() - self.sent)
    }

    pub(super) fn push(&mut self, content: &[u8], codec: &Codec) {
        codec.frame(content, &mut self.out);
    }

    /// The same, and sends from where it lies what the socket takes, as long as nothing waits before it: only the rest is copied.
    pub(super) fn push_through(&mut self, socket: &OwnedFd, content: &[u8], codec: &Codec) {
        for part in content.chunks(PART_MAX) {
            let Some((prefix, length)) = codec.prefix(part.len()).filter(|_| self.is_sent()) else {
                codec.frame(part, &mut self.out);
                continue;
            };
            let prefix = &prefix[..length];
            // A failure is met again when the rest is sent.
            let count = socket::send_both(socket, prefix, part).unwrap_or(0);
            self.moved |= count > 0;
            self.out.extend_from_slice(prefix.get(count..).unwrap_or_default());
            self.out.extend_from_slice(part.get(count.saturating_sub(length)..).unwrap_or_default());
        }
    }

    /// The body is complete.
    pub(super) fn end(&mut self, codec: &Codec) {
        if std::mem::take(&mut self.open) {
            codec.frame_end(&mut self.out);
        }
    }

    /// The client has more to say, in another protocol.
    pub(super) fn reopen(&mut self) {
        self.open = true;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Everything was sent that is there.
    pub(super) fn is_sent(&self) -> bool {
        self.sent >= self.out.len()
    }

    /// Everything was sent, to the end of the body; told once.
    pub(super) fn has_ended(&mut self) -> bool {
        let ended = !self.open && self.is_sent();
        ended && !std::mem::replace(&mut self.over, true)
    }

    /// Nothing more is sent; whether more would have come.
    pub(super) fn close(&mut self) -> bool {
        (self.out, self.sent) = (Vec::new(), 0);
        std::mem::take(&mut self.open)
    }

    /// Sends what the socket takes; whether it took anything.
    ///
    /// # Errors
    /// The errno of write(2): the backend takes no more.
    pub(super) fn write(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        let mut moved = std::mem::take(&mut self.moved);
        while self.sent < self.out.len() {
            match socket::send(socket, &self.out[self.sent..]) {
                Ok(count) => (self.sent, moved) = (self.sent + count, true),
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => break,
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return Err(fault),
            }
        }
        if self.sent >= self.out.len() {
            self.out.clear();
            self.sent = 0;
            if self.out.capacity() > OUT_MAX {
                self.out = Vec::new();
            }
        }
        Ok(moved)
    }
}

/// Bytes for a backend that may wait: as much of a body as its socket takes at once, and as much again.
const OUT_MAX: usize = 128 * 1024;
