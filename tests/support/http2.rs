//! Frames of HTTP/2 by hand, for what no well-behaved client sends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// One frame.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The code of RST_STREAM or GOAWAY.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A block of fields, none of them from a table (RFC 7541, 6.2.2).
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "one byte of length");
            out.push(u8::try_from(text.len()).unwrap());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// A block that asks for a path, with more fields.
pub(crate) fn asks(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    block(&[&[(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)], more].concat())
}

/// A connection that began with the preface and a frame of settings.
pub(crate) struct RawHttp2 {
    pub(crate) socket: TcpStream,
    pub(crate) unread: Vec<u8>,
}

impl RawHttp2 {
    /// `settings`: identifiers and values.
    pub(crate) fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let payload: Vec<u8> = settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        socket.write_all(&frame(SETTINGS, 0, 0, &payload)).unwrap();
        Self { socket, unread: Vec::new() }
    }

    /// Sends; false: the server has closed.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// Asks for a path without content.
    pub(crate) fn get(&mut self, stream: u32, path: &str) {
        assert!(self.send(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &asks("GET", path, &[]))));
    }

    /// The next frame; `None` at the end, or when none comes in time.
    pub(crate) fn next(&mut self, limit: Duration) -> Option<Frame> {
        let end = Instant::now() + limit;
        loop {
            if let Some(header) = self.unread.get(..9) {
                let length = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
                if self.unread.len() >= 9 + length {
                    let (kind, flags) = (header[3], header[4]);
                    let stream = u32::from_be_bytes(header[5..9].try_into().unwrap());
                    let payload = self.unread[9..9 + length].to_vec();
                    self.unread.drain(..9 + length);
                    return Some(Frame { kind, flags, stream, payload });
                }
            }
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            self.socket.set_read_timeout(Some(left)).unwrap();
            let mut buffer = [0; 65536];
            match self.socket.read(&mut buffer) {
                Ok(count @ 1..) => self.unread.extend_from_slice(&buffer[..count]),
                Ok(0) | Err(_) => return None,
            }
        }
    }

    /// Frames up to the first that is looked for, that one included.
    pub(crate) fn until(&mut self, limit: Duration, mut is_it: impl FnMut(&Frame) -> bool) -> Result<Frame, Vec<Frame>> {
        let (end, mut seen) = (Instant::now() + limit, Vec::new());
        loop {
            match self.next(end.saturating_duration_since(Instant::now())) {
                Some(frame) if is_it(&frame) => return Ok(frame),
                Some(frame) => seen.push(frame),
                None => return Err(seen),
            }
        }
    }
}
