//! Response heads, byte for byte (RFC 9112, 4 and 6.3).

use super::clock::Clock;
use super::log::write_decimal;
use crate::proto::date;
use crate::proto::status::Status;

/// What the connection does after this response, as the head must say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// HTTP/1.1 keeps the connection without being told.
    Keep,
    /// HTTP/1.0 has to be told.
    KeepAsked,
    Close,
}

impl Persistence {
    fn line(self) -> &'static [u8] {
        match self {
            Persistence::Keep => b"",
            Persistence::KeepAsked => b"Connection: keep-alive\r\n",
            Persistence::Close => b"Connection: close\r\n",
        }
    }
}

/// A head being written.
pub(super) struct Head<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Head<'o> {
    /// Status line, `Server` (none for an empty name) and `Date`.
    pub(super) fn begin(out: &'o mut Vec<u8>, status: Status, server: &str, clock: &Clock) -> Head<'o> {
        out.extend_from_slice(b"HTTP/1.1 ");
        write_decimal(u64::from(status.code()), out);
        out.push(b' ');
        out.extend_from_slice(status.reason().as_bytes());
        out.extend_from_slice(b"\r\n");
        let head = Head { out };
        let head = if server.is_empty() {
            head
        } else {
            head.field("Server", server.as_bytes())
        };
        head.field("Date", &clock.date)
    }

    pub(super) fn field(self, name: &str, value: &[u8]) -> Head<'o> {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    pub(super) fn number(self, name: &str, value: u64) -> Head<'o> {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        write_decimal(value, self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// `Content-Range` of a part, or of what cannot be satisfied (RFC 9110, 14.4).
    pub(super) fn content_range(self, part: Option<(u64, u64)>, length: u64) -> Head<'o> {
        self.out.extend_from_slice(b"Content-Range: bytes ");
        match part {
            Some((first, last)) => {
                write_decimal(first, self.out);
                self.out.push(b'-');
                write_decimal(last, self.out);
            }
            None => self.out.push(b'*'),
        }
        self.out.push(b'/');
        write_decimal(length, self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// `Last-Modified` and `ETag` of a file.
    pub(super) fn validators(self, modified: i64, etag: &[u8]) -> Head<'o> {
        self.field("Last-Modified", &date::imf_fixdate(modified)).field("ETag", etag)
    }

    /// Ends the head.
    pub(super) fn end(self, persistence: Persistence) {
        end(self.out, persistence);
    }
}

/// Ends a head whose other lines were made before.
pub(super) fn end(out: &mut Vec<u8>, persistence: Persistence) {
    out.extend_from_slice(persistence.line());
    out.extend_from_slice(b"\r\n");
}
