//! The same for a stream of HTTP/2: the head is taken apart again, content is given to `h2` as it has room for it.
//!
//! Runs in the worker, as a part of [`Outgoing`].

use super::{Outgoing, Sent, Step, TURNS, count, first};
use crate::sys::file;
use crate::worker::http2::stream::Stream;
use crate::worker::segment::{Ready, Rest};
use bytes::Bytes;
use std::io;

impl Outgoing {
    /// Sends what waits and then `made`, as [`Outgoing::send`] does.
    pub(super) fn send_on_stream(&mut self, stream: &mut Stream, made: &mut Vec<u8>, now: u64) -> io::Result<Sent> {
        let mut moved = false;
        if !self.bytes.is_empty() {
            self.bytes.append(made);
        }
        let waiting = if self.bytes.is_empty() { made.as_slice() } else { self.bytes.get(self.sent..).unwrap_or_default() };
        let mut sent = 0;
        if !waiting.is_empty() {
            let is_all = self.rest.is_none();
            sent = stream.send_heads(waiting, is_all)?;
            moved = sent > 0;
            while let Some(left) = waiting.get(sent..).filter(|left| !left.is_empty()) {
                let room = stream.room(left.len())?;
                if room == 0 {
                    break;
                }
                stream.send(Bytes::copy_from_slice(&left[..room]), is_all && room == left.len())?;
                sent += room;
                moved = true;
            }
        }
        if !self.spend(made, sent) {
            return Ok(Sent::Blocked { moved });
        }
        if let Some(rest) = self.rest.as_mut() {
            for _ in 0..TURNS {
                match step(stream, rest, moved, now)? {
                    Step::Moved => moved = true,
                    Step::Stop(Sent::All(_)) => break,
                    Step::Stop(sent) => return Ok(sent),
                }
            }
            if !rest.is_done() {
                return Ok(Sent::Turn);
            }
        }
        // An interim response is not the end.
        if stream.has_begun() {
            stream.finish()?;
        }
        Ok(Sent::All(self.rest.take()))
    }
}

/// Gives to `h2` what is ready.
fn step(stream: &mut Stream, rest: &mut Rest, moved: bool, now: u64) -> io::Result<Step> {
    let allowed = rest.allowed(now);
    if allowed == 0 && !rest.is_done() {
        return Ok(Step::Stop(Sent::Paused { until: rest.next(), moved }));
    }
    if let Some((file, offset, length)) = rest.unknown() {
        if !file.is_in_memory(offset, length, now) {
            return Ok(Step::Stop(Sent::Cold));
        }
        rest.know();
    }
    if rest.ready().is_err() {
        return Ok(Step::Stop(Sent::Short));
    }
    let shared = rest.shared();
    let Ok(ready) = rest.ready() else {
        return Ok(Step::Stop(Sent::Short));
    };
    let content = match ready {
        Ready::Memory(bytes) => {
            let length = first(bytes, allowed).len();
            let room = stream.room(length)?;
            if room == 0 {
                return Ok(Step::Stop(Sent::Blocked { moved }));
            }
            match shared.filter(|shared| shared.len() >= room) {
                Some(shared) => shared.slice(..room),
                None => Bytes::copy_from_slice(&bytes[..room]),
            }
        }
        Ready::File { file, offset, length } => {
            let room = stream.room(usize::try_from(length.min(allowed)).unwrap_or(usize::MAX))?;
            if room == 0 {
                return Ok(Step::Stop(Sent::Blocked { moved }));
            }
            let mut buffer = vec![0; room];
            let count = file::read_at(file, offset, &mut buffer)?;
            buffer.truncate(count);
            if count == 0 {
                return Ok(Step::Stop(Sent::Short));
            }
            Bytes::from(buffer)
        }
        Ready::Turn => return Ok(Step::Stop(Sent::Turn)),
        Ready::Wait => return Ok(Step::Stop(Sent::Wait { moved })),
        Ready::End => return Ok(Step::Stop(Sent::All(None))),
    };
    let sent = count(content.len());
    stream.send(content, false)?;
    rest.advance(sent);
    Ok(Step::Moved)
}
