//! The head of an answer of CGI, FastCGI, SCGI and uwsgi programs (RFC 3875, 6.2 and 6.3).
//!
//! Runs in the `worker`, on bytes of a program that may be hostile; does no I/O and allocates nothing. The program says a status and
//! fields; the status line, the framing and the connection are ours, and a head that writes its own ("NPH") is none.

pub use super::fault::Fault;
pub use super::fields::{HEAD_MAX, LINES_MAX};

use super::fields::{self, Connection, Field, LineEnd, Passed, content_length, next_line, once};
use super::status::Status;

/// Finds the end of a head while it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Scan(fields::Scan);

impl Default for Scan {
    fn default() -> Scan {
        Scan(fields::Scan::new(LineEnd::LfOrCrlf))
    }
}

impl Scan {
    /// Looks at `buffer`, which holds all of the answer that has come. `Some` is the head's length with the empty line that ends it, `None` that
    /// more must come.
    ///
    /// # Errors
    /// When the head is beyond [`HEAD_MAX`] bytes or [`LINES_MAX`] lines.
    pub fn advance(&mut self, buffer: &[u8]) -> Result<Option<usize>, Fault> {
        self.0.advance(buffer)
    }
}

/// The head of an answer, well formed in every part.
#[derive(Clone, Copy, Debug)]
pub struct Head<'b> {
    /// As the program says; without, 302 for one with a `Location`, else 200.
    pub status: Status,
    pub content_type: Option<&'b [u8]>,
    /// Bytes of the body that will come.
    pub content_length: Option<u64>,
    pub location: Option<&'b [u8]>,
    /// The file that is to be sent instead of the body, by `X-Sendfile` or `X-LIGHTTPD-send-file`: a wish, which nobody need fulfil.
    pub sendfile: Option<&'b [u8]>,
    /// `X-Accel-Buffering`: whether what comes may be held back for a slow client.
    pub buffering: Option<bool>,
    passed: Passed<'b>,
}

impl<'b> Head<'b> {
    /// The fields for the client in order, `Content-Type`, `Location` and each `Set-Cookie` among them; never those that this server
    /// sends itself, such as `Content-Length`.
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
/// For whatever is malformed or said twice, a status that is none or is not final, and a head without any field.
pub fn parse(head: &[u8]) -> Result<Head<'_>, Fault> {
    let (mut rest, mut said) = (head, Said::default());
    while let Some(line) = next_line(&mut rest) {
        said.take(Field::read(line)?)?;
    }
    if !said.any {
        return Err(Fault::new("head without a field"));
    }
    // Two lengths of one body, where the next reader might believe the other one (RFC 9112, 6.3).
    if said.transfer_encoding && said.length.is_some() {
        return Err(Fault::new("both Transfer-Encoding and Content-Length"));
    }
    Ok(Head {
        status: said.status()?,
        content_type: said.content_type,
        content_length: said.length.map(content_length).transpose()?,
        location: said.location,
        sendfile: said.sendfile,
        buffering: said.buffering,
        passed: Passed { lines: head, connection: said.connection },
    })
}

/// What the fields say that decide what becomes of the answer.
#[derive(Default)]
struct Said<'b> {
    any: bool,
    status: Option<&'b [u8]>,
    content_type: Option<&'b [u8]>,
    length: Option<&'b [u8]>,
    location: Option<&'b [u8]>,
    sendfile: Option<&'b [u8]>,
    buffering: Option<bool>,
    transfer_encoding: bool,
    connection: Connection<'b>,
}

impl<'b> Said<'b> {
    /// A script must not send a field of CGI twice (RFC 3875, 6.3).
    fn take(&mut self, field: Field<'b>) -> Result<(), Fault> {
        self.any = true;
        let value = field.value;
        match field.name.len() {
            6 if field.is("status") => once(&mut self.status, value, "more than one Status"),
            8 if field.is("location") => once(&mut self.location, value, "more than one Location"),
            10 if field.is("connection") => self.connection.take(value),
            12 if field.is("content-type") => once(&mut self.content_type, value, "more than one Content-Type"),
            14 if field.is("content-length") => once(&mut self.length, value, "more than one Content-Length"),
            10 if field.is("x-sendfile") => once(&mut self.sendfile, value, "more than one X-Sendfile"),
            20 if field.is("x-lighttpd-send-file") => once(&mut self.sendfile, value, "more than one X-Sendfile"),
            17 if field.is("transfer-encoding") => {
                self.transfer_encoding = true;
                Ok(())
            }
            17 if field.is("x-accel-buffering") => {
                self.buffering = Some(!value.eq_ignore_ascii_case(b"no"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Three digits, and a phrase that nobody reads: ours stands in the status line. A status that is not final would be the program's
    /// word in a conversation that is ours, up to an upgrade to another protocol.
    fn status(&self) -> Result<Status, Fault> {
        let Some(value) = self.status else {
            return Ok(if self.location.is_some() { Status::FOUND } else { Status::OK });
        };
        let code = match *value {
            [a, b, c] | [a, b, c, b' ', ..] if [a, b, c].iter().all(u8::is_ascii_digit) => {
                [a, b, c].iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'))
            }
            _ => return Err(Fault::new("malformed Status")),
        };
        Status::of(code).ok_or(Fault::new("Status that is not final"))
    }
}

#[cfg(test)]
mod tests;
