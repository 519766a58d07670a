//! The same over TLS: head and content are sealed into records of full size, several of them for one writev(2).
//!
//! Runs in the worker, as a part of [`Outgoing`]. What is sealed has to be sent before more is, so that a slow client holds one piece.

use super::{Outgoing, Sent, TURNS, count, first};
use crate::sys::file;
use crate::worker::segment::{Ready, Rest};
use crate::worker::tls::link::{PIECE, Tls};
use std::io;

/// What of the content is next.
enum Next<'r> {
    Bytes(&'r [u8]),
    /// In the scratch space, so many bytes.
    Read(usize),
    Stop(Sent),
}

impl Outgoing {
    /// Sends what waits and then `made`, as [`Outgoing::send`] does.
    pub(super) fn send_over_tls(&mut self, tls: &mut Tls, made: &mut Vec<u8>, now: u64) -> io::Result<Sent> {
        if !self.bytes.is_empty() {
            self.bytes.append(made);
        }
        let before = tls.held();
        if !tls.flush()? {
            let moved = tls.held() < before;
            // During the handshake nothing else waits, and that has a time of its own.
            if self.spend(made, 0) && self.rest.is_none() && tls.is_handshaking() {
                return Ok(Sent::All(None));
            }
            return Ok(Sent::Blocked { moved });
        }
        let mut moved = before > 0;
        let mut scratch = Vec::new();
        for _ in 0..TURNS {
            let waiting = if self.bytes.is_empty() { made.as_slice() } else { self.bytes.get(self.sent..).unwrap_or_default() };
            let next = match self.rest.as_deref_mut() {
                // What waits fills a piece by itself.
                Some(_) if waiting.len() >= PIECE => Next::Bytes(&[]),
                Some(rest) => next(rest, PIECE - waiting.len(), &mut scratch, now)?,
                None => Next::Stop(Sent::All(None)),
            };
            let content = match &next {
                Next::Bytes(bytes) => bytes,
                Next::Read(length) => scratch.get(..*length).unwrap_or_default(),
                Next::Stop(_) => &[],
            };
            if waiting.is_empty() && content.is_empty() {
                let stop = if let Next::Stop(stop) = next { stop } else { Sent::Turn };
                made.clear();
                return Ok(match stop {
                    Sent::All(_) => Sent::All(self.rest.take()),
                    Sent::Wait { .. } => Sent::Wait { moved },
                    Sent::Paused { until, .. } => Sent::Paused { until, moved },
                    stop @ (Sent::Turn | Sent::Cold | Sent::Short | Sent::Blocked { .. }) => stop,
                });
            }
            let head = waiting.len();
            let sealed = tls.seal(waiting, content)?;
            if let Some(rest) = self.rest.as_deref_mut().filter(|_| sealed > head) {
                rest.advance(count(sealed - head));
            }
            self.spend(made, sealed.min(head));
            moved = true;
            if !tls.flush()? {
                return Ok(Sent::Blocked { moved });
            }
        }
        let is_done = self.bytes.is_empty() && self.rest.as_ref().is_none_or(|rest| rest.is_done());
        Ok(if is_done { Sent::All(self.rest.take()) } else { Sent::Turn })
    }
}

/// What can be sealed now, of so many bytes.
fn next<'r>(rest: &'r mut Rest, room: usize, scratch: &mut Vec<u8>, now: u64) -> io::Result<Next<'r>> {
    let allowed = rest.allowed(now).min(count(room));
    if allowed == 0 && !rest.is_done() {
        return Ok(Next::Stop(Sent::Paused { until: rest.next(), moved: false }));
    }
    if let Some((file, offset, length)) = rest.unknown() {
        if !file.is_in_memory(offset, length, now) {
            return Ok(Next::Stop(Sent::Cold));
        }
        rest.know();
    }
    let Ok(ready) = rest.ready() else { return Ok(Next::Stop(Sent::Short)) };
    Ok(match ready {
        Ready::Memory(bytes) => Next::Bytes(first(bytes, allowed)),
        Ready::File { file, offset, length } => {
            let length = usize::try_from(length.min(allowed)).unwrap_or(room).min(room);
            scratch.resize(length, 0);
            match file::read_at(file, offset, scratch)? {
                0 => Next::Stop(Sent::Short),
                length => Next::Read(length),
            }
        }
        Ready::Turn => Next::Stop(Sent::Turn),
        Ready::Wait => Next::Stop(Sent::Wait { moved: false }),
        Ready::End => Next::Stop(Sent::All(None)),
    })
}
