//! Response heads, byte for byte (RFC 9112, 4 and 6.3).

use super::clock::Clock;
use super::segment::Delimiter;
use super::served::Served;
use crate::proto::coding::Coding;
use crate::proto::date;
use crate::proto::decimal;
use crate::proto::status::Status;
use crate::site::ResponseChanges;
use crate::site::look::Look;
use crate::site::template::STATUS;

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
    /// Status line, `Server` (none for an empty name), `Date`, and that browsers are to believe the type: what somebody uploaded as an image
    /// is not to become a page.
    pub(super) fn begin(out: &'o mut Vec<u8>, status: Status, server: &str, clock: &Clock) -> Head<'o> {
        out.extend_from_slice(b"HTTP/1.1 ");
        decimal::write(u64::from(status.code()), out);
        out.push(b' ');
        out.extend_from_slice(status.reason().as_bytes());
        out.extend_from_slice(b"\r\n");
        let head = Head { out };
        let head = if server.is_empty() { head } else { head.field("Server", server.as_bytes()) };
        head.field("Date", &clock.date).field("X-Content-Type-Options", b"nosniff")
    }

    pub(super) fn field(mut self, name: &str, value: &[u8]) -> Head<'o> {
        self.add(name, value);
        self
    }

    pub(super) fn add(&mut self, name: &str, value: &[u8]) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn number(self, name: &str, value: u64) -> Head<'o> {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        decimal::write(value, self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// `Content-Range` of a part, or of what cannot be satisfied (RFC 9110, 14.4).
    pub(super) fn content_range(self, part: Option<(u64, u64)>, length: u64) -> Head<'o> {
        write_content_range(part, length, self.out);
        self
    }

    /// `Last-Modified` and `ETag` of a file.
    pub(super) fn validators(self, file: &Served, weak: bool) -> Head<'o> {
        let head = self.field("Last-Modified", &date::imf_fixdate(file.modified));
        head.out.extend_from_slice(if weak { b"ETag: W/" } else { b"ETag: " });
        head.out.extend_from_slice(&file.etag);
        head.out.extend_from_slice(b"\r\n");
        head
    }

    /// The same, and how the file is encoded.
    pub(super) fn of_file(self, file: &Served, weak: bool) -> Head<'o> {
        self.validators(file, weak).encoded(file.coding)
    }

    /// What the content is encoded with.
    pub(super) fn encoded(self, coding: Option<Coding>) -> Head<'o> {
        match coding {
            Some(coding) => self.field("Content-Encoding", coding.name().as_bytes()),
            None => self,
        }
    }

    /// That another client may get another form of the same (RFC 9110, 12.5.5).
    pub(super) fn vary(self, varies: bool) -> Head<'o> {
        if varies {
            self.out.extend_from_slice(VARY);
        }
        self
    }

    /// What tells the end of content whose length is not known.
    pub(super) fn delimited(self, delimiter: Delimiter) -> Head<'o> {
        match delimiter {
            Delimiter::Chunks => self.field("Transfer-Encoding", b"chunked"),
            Delimiter::None => self,
        }
    }

    /// Content of this type and of so many bytes.
    pub(super) fn typed(self, content_type: &[u8], length: u64) -> Head<'o> {
        self.field("Content-Type", content_type).number("Content-Length", length)
    }

    /// A page of our own, which can do nothing but look as it does.
    pub(super) fn page(self, look: &Look, length: u64) -> Head<'o> {
        self.typed(HTML, length).field("Content-Security-Policy", look.policy.as_bytes())
    }

    /// Ends the head.
    pub(super) fn end(self, persistence: Persistence) {
        end(self.out, false, persistence);
    }
}

/// The field line of [`Head::content_range`].
pub(super) fn write_content_range(part: Option<(u64, u64)>, length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Range: bytes ");
    match part {
        Some((first, last)) => {
            decimal::write(first, out);
            out.push(b'-');
            decimal::write(last, out);
        }
        None => out.push(b'*'),
    }
    out.push(b'/');
    decimal::write(length, out);
    out.extend_from_slice(b"\r\n");
}

/// Applies what rules change to the head that begins at `start` and was just ended: a header of the same name is replaced, an
/// empty value removes it.
pub(super) fn change(out: &mut Vec<u8>, start: usize, changes: &ResponseChanges, clock: &Clock) {
    let head = out.split_off(start);
    // `HTTP/1.1 200 OK`: now it is known.
    let status = head.get(9..12).unwrap_or_default();
    // Of what was found only: whoever can provoke an error would have caches keep it for everybody (RFC 9111, 3).
    let keeps = matches!(status.first(), Some(b'2' | b'3'));
    let expires = changes.expires.filter(|_| keeps).map(|age| {
        let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        let date = date::imf_fixdate(clock.unix.saturating_add(seconds)).to_vec();
        [("Expires", date), ("Cache-Control", format!("max-age={}", age.as_secs()).into_bytes())]
    });
    let set = |name: &str| changes.headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    let expires: Vec<(&str, Vec<u8>)> = expires.into_iter().flatten().filter(|(name, _)| !set(name)).collect();
    let replaced = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().and_then(|name| std::str::from_utf8(name).ok()).unwrap_or("");
        set(name) || expires.iter().any(|(set, _)| set.eq_ignore_ascii_case(name))
    };
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    out.extend_from_slice(lines.next().unwrap_or_default());
    lines.filter(|line| *line != b"\r\n" && !replaced(line)).for_each(|line| out.extend_from_slice(line));
    let ours = head.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Vary: ")).map(<[u8]>::trim_ascii_end);
    let rules = changes.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("vary"));
    let merged = ours.zip(rules).map(|(ours, (_, value))| vary_also(value, ours));
    let changed = changes.headers.iter().map(|(name, value)| match &merged {
        Some(merged) if name.eq_ignore_ascii_case("vary") => (&**name, merged.as_slice()),
        Some(_) | None => (&**name, &**value),
    });
    let mut head = Head { out };
    for (name, value) in changed.chain(expires.iter().map(|(name, value)| (*name, value.as_slice()))).filter(|(_, value)| !value.is_empty())
    {
        head = match value.contains(&STATUS) {
            true => head.field(name, &with_status(value, status)),
            false => head.field(name, value),
        };
    }
    head.out.extend_from_slice(b"\r\n");
}

/// Ends a head whose other lines were made before.
pub(super) fn end(out: &mut Vec<u8>, varies: bool, persistence: Persistence) {
    if varies {
        out.extend_from_slice(VARY);
    }
    out.extend_from_slice(persistence.line());
    out.extend_from_slice(b"\r\n");
}

/// A value with the status where it was left open.
fn with_status(value: &[u8], status: &[u8]) -> Vec<u8> {
    value.split(|byte| *byte == STATUS).collect::<Vec<_>>().join(status)
}

/// A rule's `Vary` with ours: without it a cache would give one form of an answer to who asked for another.
fn vary_also(value: &[u8], ours: &[u8]) -> Vec<u8> {
    let members = || value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    if value.is_empty() || members().any(|member| member == b"*" || member.eq_ignore_ascii_case(ours)) {
        return value.to_vec();
    }
    [value, b", ", ours].concat()
}

/// What the forms of a file are chosen by.
const VARY: &[u8] = b"Vary: Accept-Encoding\r\n";

/// Of pages of our own.
const HTML: &[u8] = b"text/html; charset=utf-8";
