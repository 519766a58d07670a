//! The head of an answer of an HTTP/1 backend, and where its body ends (RFC 9112, 4 to 6).
//!
//! Runs in the `worker`, on bytes of a server that may be hostile, or that passes on what a client made it say; does no I/O and allocates
//! nothing. As strict as the reading of requests, for the same reason: an answer that ends elsewhere than we think puts the rest of it before
//! the next client ("response splitting", "response queue poisoning").

pub use super::fault::Fault;
pub use super::fields::{HEAD_MAX, LINES_MAX};
pub use super::request_line::Version;

use super::fields::{self, Connection, Field, LineEnd, Passed, content_length, next_line, once};

/// Finds the end of a head while it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Scan(fields::Scan);

impl Default for Scan {
    fn default() -> Scan {
        Scan(fields::Scan::new(LineEnd::Crlf))
    }
}

impl Scan {
    /// Looks at `buffer`, which holds all that has come since the head began. `Some` is the head's length with the empty line that ends it,
    /// `None` that more must come.
    ///
    /// # Errors
    /// When the head is beyond [`HEAD_MAX`] bytes or [`LINES_MAX`] lines, or a line ends otherwise than with CRLF.
    pub fn advance(&mut self, buffer: &[u8]) -> Result<Option<usize>, Fault> {
        self.0.advance(buffer)
    }
}

/// What was asked for, as far as it decides where the answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Head,
    /// Any other method; `CONNECT` is never sent to a backend.
    Other,
}

/// The body that follows an answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    /// That many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// All that comes before the backend closes.
    UntilClose,
}

/// The head of an answer, well formed in every part.
#[derive(Clone, Copy, Debug)]
pub struct Head<'b> {
    /// 100 to 599.
    pub code: u16,
    pub version: Version,
    pub framing: Framing,
    /// As it stands in the head, also where no body follows, as with `HEAD` and 304.
    pub content_length: Option<u64>,
    /// Whether the connection can have another request once the body has come.
    pub keep_alive: bool,
    /// What the connection speaks behind a head with 101; never with another status.
    pub upgrade: Option<&'b [u8]>,
    /// The file that is to be sent instead of the body, by `X-Sendfile` or `X-LIGHTTPD-send-file`: a wish, which nobody need fulfil.
    pub sendfile: Option<&'b [u8]>,
    /// `X-Accel-Buffering`: whether what comes may be held back for a slow client.
    pub buffering: Option<bool>,
    passed: Passed<'b>,
}

impl<'b> Head<'b> {
    /// Whether another head follows for the same request (RFC 9110, 15.2). 101 is the last one.
    pub fn is_interim(&self) -> bool {
        self.code < 200 && self.code != 101
    }

    /// The fields for the client in order; never those that this server sends itself, nor those that are about this connection.
    pub fn fields(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> {
        self.passed
    }

    /// The value of the first of them of that name, in any case.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        self.fields().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Reads a head whose end [`Scan`] has found.
///
/// # Errors
/// For whatever is malformed, ambiguous in where the answer ends, or of another version than HTTP/1.0 and 1.1; for 101 without an `Upgrade`
/// that `Connection` lists.
pub fn parse(head: &[u8], asked: Asked) -> Result<Head<'_>, Fault> {
    let mut rest = head;
    let (version, code) = status_line(next_line(&mut rest).ok_or(BAD_LINE)?)?;
    let (lines, mut said) = (rest, Said::default());
    while let Some(line) = next_line(&mut rest) {
        said.take(Field::read(line)?)?;
    }
    let content_length = said.length.map(content_length).transpose()?;
    let framing = said.framing(version, content_length)?;
    let upgrade = said.upgrade.filter(|_| code == 101);
    if code == 101 && (upgrade.is_none() || !said.connection.names("upgrade") || version == Version::Http10) {
        return Err(Fault::new("101 without an upgrade"));
    }
    // What cannot have a body, yet says it has one, may be followed by it: a mistake that is made.
    let bodiless = matches!(code, 100..=199 | 204 | 304) || asked == Asked::Head;
    let contradicts = matches!(code, 100..=199 | 204) && !matches!(framing, Framing::UntilClose | Framing::Length(0));
    let framing = if bodiless { Framing::None } else { framing };
    Ok(Head {
        code,
        version,
        framing,
        content_length,
        keep_alive: said.keeps_alive(version) && framing != Framing::UntilClose && !contradicts && code != 101,
        upgrade,
        sendfile: said.sendfile,
        buffering: said.buffering,
        passed: Passed { lines, connection: said.connection },
    })
}

/// `HTTP/1.1 200 …`; the phrase may be empty, and many leave out the space before it too (RFC 9112, 4).
fn status_line(line: &[u8]) -> Result<(Version, u16), Fault> {
    let (version, rest) = line.split_first_chunk::<9>().ok_or(BAD_LINE)?;
    let version = match version {
        b"HTTP/1.1 " => Version::Http11,
        b"HTTP/1.0 " => Version::Http10,
        _ => return Err(BAD_LINE),
    };
    let code = match rest {
        [a, b, c] | [a, b, c, b' ', ..] if [a, b, c].iter().all(|digit| digit.is_ascii_digit()) => {
            [a, b, c].iter().fold(0, |code, digit| code * 10 + u16::from(**digit - b'0'))
        }
        _ => return Err(BAD_LINE),
    };
    if rest.iter().any(|&byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) || !(100..=599).contains(&code) {
        return Err(BAD_LINE);
    }
    Ok((version, code))
}

/// What the fields say that decides how the answer is read.
#[derive(Default)]
struct Said<'b> {
    length: Option<&'b [u8]>,
    transfer_encoding: Option<&'b [u8]>,
    upgrade: Option<&'b [u8]>,
    sendfile: Option<&'b [u8]>,
    buffering: Option<bool>,
    connection: Connection<'b>,
}

impl<'b> Said<'b> {
    fn take(&mut self, field: Field<'b>) -> Result<(), Fault> {
        let value = field.value;
        match field.name.len() {
            7 if field.is("upgrade") => once(&mut self.upgrade, value, "more than one Upgrade"),
            10 if field.is("connection") => self.connection.take(value),
            10 if field.is("x-sendfile") => once(&mut self.sendfile, value, "more than one X-Sendfile"),
            20 if field.is("x-lighttpd-send-file") => once(&mut self.sendfile, value, "more than one X-Sendfile"),
            14 if field.is("content-length") => once(&mut self.length, value, "more than one Content-Length"),
            17 if field.is("transfer-encoding") => once(&mut self.transfer_encoding, value, "more than one Transfer-Encoding"),
            17 if field.is("x-accel-buffering") => {
                self.buffering = Some(!value.eq_ignore_ascii_case(b"no"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// RFC 9112, 6.3, without its leniencies. Codings besides `chunked` were never asked for.
    fn framing(&self, version: Version, length: Option<u64>) -> Result<Framing, Fault> {
        match (self.transfer_encoding, length) {
            (None, None) => Ok(Framing::UntilClose),
            (None, Some(length)) => Ok(Framing::Length(length)),
            (Some(_), Some(_)) => Err(Fault::new("both Transfer-Encoding and Content-Length")),
            (Some(_), None) if version == Version::Http10 => Err(Fault::new("Transfer-Encoding with HTTP/1.0")),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
            (Some(_), None) => Err(Fault::new("Transfer-Encoding other than chunked")),
        }
    }

    fn keeps_alive(&self, version: Version) -> bool {
        !self.connection.names("close") && (version == Version::Http11 || self.connection.names("keep-alive"))
    }
}

const BAD_LINE: Fault = Fault::new("malformed status line");

#[cfg(test)]
mod tests;
