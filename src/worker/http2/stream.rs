//! One stream of HTTP/2, taken for a socket by the connection that answers its request.
//!
//! Runs in the worker; makes no system call. What comes in is the request's content, as the head of the request has announced it: as it is, or in
//! chunks where its length is not known. What goes out is a head, then content; both are flow-controlled by `h2` and by what the session has
//! room for. A stream that is dropped before its response is whole is reset.

use super::bell::Bell;
use super::shared::Shared;
use crate::proto::http2;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Response, StatusCode};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// One request and its response.
pub(in crate::worker) struct Stream {
    shared: Rc<Shared>,
    bell: Arc<Bell>,
    token: u64,
    waker: Option<Waker>,
    content: RecvStream,
    /// Content that came and was not taken yet.
    held: Bytes,
    /// It is to be in chunks.
    chunked: bool,
    /// All of it has come.
    ended: bool,
    respond: SendResponse<Bytes>,
    /// Where content goes once the head is sent.
    sending: Option<SendStream<Bytes>>,
    finished: bool,
}

impl Stream {
    pub(super) fn new(shared: &Rc<Shared>, bell: &Arc<Bell>, token: u64, content: RecvStream, respond: SendResponse<Bytes>) -> Stream {
        shared.opened();
        let ended = content.is_end_stream();
        Stream {
            shared: Rc::clone(shared),
            bell: Arc::clone(bell),
            token,
            waker: None,
            content,
            held: Bytes::new(),
            chunked: false,
            ended,
            respond,
            sending: None,
            finished: false,
        }
    }

    /// The content has no length.
    pub(super) fn in_chunks(&mut self) {
        self.chunked = true;
    }

    /// The session that it is one of.
    pub(in crate::worker) fn session(&self) -> u64 {
        self.shared.token
    }

    /// The request is not looked at, and may be sent again.
    pub(in crate::worker) fn refuse(&mut self) {
        self.respond.send_reset(Reason::REFUSED_STREAM);
        self.finished = true;
    }

    /// Whether the head of the final response is sent.
    pub(in crate::worker) fn has_begun(&self) -> bool {
        self.sending.is_some() || self.finished
    }

    fn waker(&mut self) -> Waker {
        let (bell, token) = (&self.bell, self.token);
        self.waker.get_or_insert_with(|| bell.waker(token)).clone()
    }

    /// Takes content, as much as there is and fits. A short count means that there is no more, or that the loop was told that there is.
    pub(in crate::worker) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            let room = buffer.get_mut(filled..).unwrap_or_default();
            if !self.held.is_empty() {
                let count = self.take(room);
                if count == 0 {
                    self.bell.ring(self.token);
                    return Ok(filled);
                }
                filled += count;
                continue;
            }
            if self.ended {
                if self.chunked && room.len() < LAST_CHUNK.len() {
                    self.bell.ring(self.token);
                    return Ok(filled);
                }
                if std::mem::take(&mut self.chunked) {
                    room[..LAST_CHUNK.len()].copy_from_slice(LAST_CHUNK);
                    return Ok(filled + LAST_CHUNK.len());
                }
                return if filled > 0 { Ok(filled) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
            let waker = self.waker();
            match self.content.poll_data(&mut Context::from_waker(&waker)) {
                Poll::Ready(Some(Ok(bytes))) => self.held = bytes,
                Poll::Ready(None) => self.ended = true,
                Poll::Pending if filled > 0 => return Ok(filled),
                Poll::Pending => return Err(io::ErrorKind::WouldBlock.into()),
                // What came before is of no use either: the request is not whole.
                Poll::Ready(Some(Err(_))) => return Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
    }

    /// Moves content that is held; what is taken may be sent again by the client.
    fn take(&mut self, room: &mut [u8]) -> usize {
        let framing = if self.chunked { CHUNK_MORE } else { 0 };
        let count = self.held.len().min(room.len().saturating_sub(framing));
        if count == 0 {
            return 0;
        }
        let part = self.held.split_to(count);
        let _ = self.content.flow_control().release_capacity(count);
        self.shared.received.set(self.shared.received.get().saturating_add(u64::try_from(count).unwrap_or(u64::MAX)));
        self.shared.touch();
        if !self.chunked {
            room[..count].copy_from_slice(&part);
            return count;
        }
        let size = format!("{count:x}\r\n");
        let (head, tail) = room.split_at_mut(size.len());
        head.copy_from_slice(size.as_bytes());
        tail[..count].copy_from_slice(&part);
        tail[count..count + 2].copy_from_slice(b"\r\n");
        size.len() + count + 2
    }

    /// Asks to be woken when the client resets the stream, or is gone.
    ///
    /// # Errors
    /// It did, or is.
    pub(in crate::worker) fn watch(&mut self) -> io::Result<()> {
        let waker = self.waker();
        let mut context = Context::from_waker(&waker);
        let reset = match &mut self.sending {
            Some(sending) => sending.poll_reset(&mut context),
            None => self.respond.poll_reset(&mut context),
        };
        match reset {
            Poll::Pending => Ok(()),
            Poll::Ready(_) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Sends the heads at the front of `bytes`, up to and with that of the final response; how many bytes these were. `ends`: what follows in
    /// `bytes` is all the content.
    ///
    /// # Errors
    /// The client is gone.
    pub(in crate::worker) fn send_heads(&mut self, bytes: &[u8], ends: bool) -> io::Result<usize> {
        let mut used = 0;
        while !self.has_begun() {
            let rest = bytes.get(used..).unwrap_or_default();
            let Some(at) = memchr::memmem::find(rest, b"\r\n\r\n") else { break };
            used += at + 4;
            let Some(response) = http2::read_head(&rest[..at + 4]) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            if response.status() == StatusCode::CONTINUE {
                self.respond.send_informational(response).map_err(gone)?;
            } else {
                self.begin(response, ends && used == bytes.len())?;
            }
            self.shared.touch();
        }
        Ok(used)
    }

    fn begin(&mut self, response: Response<()>, ends: bool) -> io::Result<()> {
        let sending = self.respond.send_response(response, ends).map_err(gone)?;
        if ends {
            self.finish_now();
        } else {
            self.sending = Some(sending);
        }
        Ok(())
    }

    /// Bytes of content that can be sent now, of so many; 0: the loop is told when there is room.
    ///
    /// # Errors
    /// The client is gone.
    pub(in crate::worker) fn room(&mut self, wanted: usize) -> io::Result<usize> {
        let wanted = wanted.min(PIECE).min(self.shared.room(self.token));
        if wanted == 0 {
            return Ok(0);
        }
        let Some(sending) = &mut self.sending else { return Ok(0) };
        sending.reserve_capacity(wanted);
        let room = sending.capacity();
        if room > 0 {
            return Ok(room.min(wanted));
        }
        let waker = self.waker();
        let Some(sending) = &mut self.sending else { return Ok(0) };
        loop {
            let room = sending.capacity();
            if room > 0 {
                return Ok(room.min(wanted));
            }
            match sending.poll_capacity(&mut Context::from_waker(&waker)) {
                Poll::Pending => return Ok(0),
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// Sends content for which there is room; `ends`: it is the last.
    ///
    /// # Errors
    /// The client is gone.
    pub(in crate::worker) fn send(&mut self, bytes: Bytes, ends: bool) -> io::Result<()> {
        let length = bytes.len();
        let sending = self.sending.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        sending.send_data(bytes, ends).map_err(gone)?;
        self.shared.spend(length);
        if ends {
            self.finish_now();
        }
        Ok(())
    }

    /// The response is whole.
    ///
    /// # Errors
    /// The client is gone.
    pub(in crate::worker) fn finish(&mut self) -> io::Result<()> {
        if self.finished { Ok(()) } else { self.send(Bytes::new(), true) }
    }

    fn finish_now(&mut self) {
        self.finished = true;
        self.shared.finished.set(self.shared.finished.get().saturating_add(1));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.finished {
            match &mut self.sending {
                Some(sending) => sending.send_reset(Reason::INTERNAL_ERROR),
                None => self.respond.send_reset(Reason::CANCEL),
            }
        }
        // Of a body that was not read to its end the client is told by `h2` (NO_ERROR).
        self.shared.closed();
        self.shared.touch();
    }
}

/// The stream, or the connection with it, is no more.
fn gone(_: h2::Error) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// Bytes of content that are given to `h2` at once, at most.
const PIECE: usize = 64 * 1024;

/// Room that the framing of a chunk takes, at most, and the last one.
const CHUNK_MORE: usize = 20;
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
