//! What a connection has to send: bytes that the socket did not take yet, and the file that follows them.
//!
//! Small responses are copied, one write(2) for head and body; larger ones from memory go out beside their head with
//! writev(2) and wait, where they must, as a reference; from a file with sendfile(2). So a slow client holds little memory.

use super::answer::FileBody;
use super::files::Content;
use crate::sys::socket;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What waits to be sent on one connection.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// Follows `bytes`.
    file: Option<FileBody>,
}

/// How far sending came.
pub(super) enum Sent {
    /// Everything is gone; with the file that was sent whole, if there was one.
    All(Option<FileBody>),
    /// The socket is full; whether anything was sent before.
    Blocked { moved: bool },
    /// There is more, but others should have their turn.
    Turn,
    /// The file has become shorter: what was promised cannot be sent, and only the end of the connection tells.
    Short,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.file.is_none()
    }

    /// Bytes held in memory of this connection's own.
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }

    /// The file that follows what is made next.
    pub(super) fn follow(&mut self, file: Option<FileBody>) {
        self.file = file;
    }

    /// The file whose response was cut off.
    pub(super) fn abandon(&mut self) -> Option<FileBody> {
        self.file.take()
    }

    /// Sends what waits and then `made`, which is emptied: what the socket does not take is kept here.
    ///
    /// # Errors
    /// The errno of write(2), writev(2) or sendfile(2) when the client is gone.
    pub(super) fn send(&mut self, socket: &OwnedFd, made: &mut Vec<u8>) -> io::Result<Sent> {
        let mut moved = false;
        if !self.bytes.is_empty() {
            self.bytes.append(made);
        }
        let waiting = if self.bytes.is_empty() { made.as_slice() } else { self.bytes.get(self.sent..).unwrap_or_default() };
        if !waiting.is_empty() {
            let sent = send_head(socket, waiting, self.file.as_mut())?;
            moved = sent > 0;
            let left = waiting.get(sent..).unwrap_or_default();
            if !left.is_empty() {
                if self.bytes.is_empty() {
                    self.bytes = left.to_vec();
                } else {
                    self.sent += sent;
                }
                made.clear();
                return Ok(Sent::Blocked { moved });
            }
        }
        made.clear();
        self.bytes = Vec::new();
        self.sent = 0;
        self.send_file(socket, moved)
    }

    fn send_file(&mut self, socket: &OwnedFd, mut moved: bool) -> io::Result<Sent> {
        let Some(body) = self.file.as_mut() else {
            return Ok(Sent::All(None));
        };
        for _ in 0..TURNS {
            if body.remaining == 0 {
                return Ok(Sent::All(self.file.take()));
            }
            let result = match &body.file.content {
                Content::Open(file) => socket::send_file(socket, file.as_fd(), body.offset, body.remaining),
                Content::Memory(bytes) => socket::send(socket, slice(bytes, body.offset, body.remaining)).map(count),
            };
            match result {
                Ok(0) => return Ok(Sent::Short),
                Ok(sent) => {
                    body.advance(sent);
                    moved = true;
                }
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Blocked { moved }),
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(if body.remaining == 0 { Sent::All(self.file.take()) } else { Sent::Turn })
    }
}

/// Sends a head with as much of what follows as one call takes; how much of the head was sent.
fn send_head(socket: &OwnedFd, head: &[u8], file: Option<&mut FileBody>) -> io::Result<usize> {
    let Some(body) = file else {
        return or_none(socket::send(socket, head));
    };
    match &body.file.content {
        // Held back until the first bytes of the file come, to leave in one segment with them.
        Content::Open(_) => or_none(socket::send_more(socket, head)),
        Content::Memory(bytes) => {
            let sent = or_none(socket::send_both(socket, head, slice(bytes, body.offset, body.remaining)))?;
            body.advance(count(sent.saturating_sub(head.len())));
            Ok(sent.min(head.len()))
        }
    }
}

/// A full socket takes nothing, which is no error.
fn or_none(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(fault) if matches!(fault.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        result => result,
    }
}

fn slice(bytes: &[u8], offset: u64, length: u64) -> &[u8] {
    let index = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    bytes.get(index(offset)..index(offset.saturating_add(length))).unwrap_or_default()
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Calls of sendfile(2) for one connection before others get their turn.
const TURNS: u8 = 4;
