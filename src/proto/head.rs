//! The head of a request: where it ends, and what it says (RFC 9112, 2 to 6).
//!
//! Runs in the `worker`, on bytes straight from the network; does no I/O and allocates nothing. The crate `httparse` reads the fields; around
//! it stands what it lets through and a server must not, since each such leniency is a way to smuggle a request past another server.

pub use super::request_line::{Method, Version};
pub use super::status::Reject;

use super::request_line::{Authority, Form, RequestLine, is_token, is_token_byte};
use super::status::Status;
use std::mem::MaybeUninit;

/// How large a head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the request line without its CRLF; beyond: 414.
    pub request_line: usize,
    /// Bytes of all field lines with their CRLFs, without the empty line at the end; beyond: 431.
    pub header_bytes: usize,
    /// Field lines, at most [`FIELDS_MAX`]; beyond: 431.
    pub header_count: usize,
}

impl HeadLimits {
    /// Bytes of the largest head within these limits, its line ends and an empty line before it included: a buffer of this size
    /// always gets an answer from [`Scan::advance`].
    pub const fn head_max(&self) -> usize {
        self.request_line.saturating_add(self.header_bytes).saturating_add(6)
    }
}

/// Finds the end of one head while it arrives. Remembers how far it has looked, so that a head sent byte by byte costs no more than a
/// whole one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    /// Bytes looked at.
    position: usize,
    /// Where the present line begins.
    line: usize,
    part: Part,
    fields_start: usize,
    fields: usize,
    /// The head is that of a stream of HTTP/2, written down by [`http2::write_head`](super::http2::write_head).
    http2: bool,
}

/// What the present line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The request line, or the one empty line that may stand before it.
    #[default]
    Start,
    RequestLine,
    /// [`SECOND_LINE`].
    Second,
    Fields,
}

impl Scan {
    /// For the head of a stream of HTTP/2.
    pub fn http2() -> Scan {
        Scan { http2: true, ..Scan::default() }
    }

    /// Looks at `buffer`, which holds all that has come since the head began (each call's begins with the bytes of the one before).
    /// `Some` is the head's length with the empty line that ends it; `None` that more must come.
    ///
    /// # Errors
    ///
    /// As soon as the head can no longer become right: 400 for a line that ends otherwise than with CRLF, for a folded field line and
    /// for a malformed request line, 505 for its version, 414 and 431 beyond the limits.
    pub fn advance(&mut self, buffer: &[u8], limits: &HeadLimits) -> Result<Option<usize>, Reject> {
        while let Some(offset) = memchr::memchr2(b'\r', b'\n', buffer.get(self.position..).unwrap_or_default()) {
            let end = self.position + offset;
            self.position = end;
            self.within(buffer, end, limits)?;
            match buffer[end..] {
                [b'\r'] => return Ok(None),
                [b'\r', b'\n', ..] => {}
                [b'\r', ..] => return Err(Reject::bad("CR without LF")),
                // A reader that takes LF for a line end and one that does not see different fields (RFC 9112, 2.2 leaves it open).
                _ => return Err(Reject::bad("LF without CR")),
            }
            self.position = end + 2;
            if self.line_complete(&buffer[self.line..end], limits)? {
                return Ok(Some(self.position));
            }
            self.line = self.position;
        }
        self.position = buffer.len();
        self.within(buffer, buffer.len(), limits)?;
        Ok(None)
    }

    /// Refuses a line that is too long already, whether or not its end has come, and a first line that begins as no request does: what
    /// speaks another protocol, such as TLS, may never send a line's end.
    fn within(&self, buffer: &[u8], end: usize, limits: &HeadLimits) -> Result<(), Reject> {
        match self.part {
            Part::Start | Part::RequestLine if end > self.line && !is_token_byte(buffer[self.line]) => Err(NO_METHOD),
            Part::Start | Part::RequestLine if end - self.line > limits.request_line => {
                Err(Reject::new(Status::URI_TOO_LONG, "request line beyond the limit"))
            }
            Part::Fields if end > self.line && end - self.fields_start > limits.header_bytes => Err(FIELDS_TOO_LARGE),
            Part::Start | Part::RequestLine | Part::Second | Part::Fields => Ok(()),
        }
    }

    /// Takes in a line without its CRLF; true if it ends the head.
    fn line_complete(&mut self, line: &[u8], limits: &HeadLimits) -> Result<bool, Reject> {
        match (self.part, line) {
            // One empty line before a request is ignored (RFC 9112, 2.2): old clients send it behind a body.
            (Part::Start, []) => self.part = Part::RequestLine,
            (Part::Start | Part::RequestLine, line) => {
                if self.http2 {
                    RequestLine::parse_any(line)?
                } else {
                    RequestLine::parse(line)?
                };
                self.part = if self.http2 { Part::Second } else { Part::Fields };
                self.fields_start = self.position;
            }
            (Part::Second, line) if line == SECOND_LINE => (self.part, self.fields_start) = (Part::Fields, self.position),
            (Part::Second, _) => return Err(INCOMPLETE),
            (Part::Fields, []) => return Ok(true),
            (Part::Fields, [b' ' | b'\t', ..]) => return Err(Reject::bad("field line that begins with white space")),
            (Part::Fields, _) => {
                self.fields += 1;
                if self.position - self.fields_start > limits.header_bytes {
                    return Err(FIELDS_TOO_LARGE);
                }
                if self.fields > limits.header_count {
                    return Err(TOO_MANY_FIELDS);
                }
            }
        }
        Ok(false)
    }
}

/// The most field lines that a head can have, whatever the configuration says: [`FieldSpace`] lies on the stack.
pub const FIELDS_MAX: usize = 256;

/// Where [`parse`] puts the fields; see [`field_space`].
pub type FieldSpace<'b> = [MaybeUninit<httparse::Header<'b>>; FIELDS_MAX];

/// An empty [`FieldSpace`]; costs nothing.
pub const fn field_space<'b>() -> FieldSpace<'b> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// The body that follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// None: the next request begins right behind the head.
    None,
    /// That many bytes, at most [`i64::MAX`].
    Length(u64),
    /// Chunks (RFC 9112, 7.1).
    Chunked,
}

/// A request's head, well formed in every part. `'b` is the buffer, `'h` the [`FieldSpace`].
#[derive(Clone, Copy, Debug)]
pub struct Request<'h, 'b> {
    pub method: Method,
    /// As it was sent.
    pub method_name: &'b [u8],
    /// The whole request line without its CRLF, for the log; visible ASCII and single spaces only.
    pub line: &'b [u8],
    /// The target as it was sent.
    pub target: &'b [u8],
    /// The target's path, still encoded: begins with `/`, or is `*` (with OPTIONS only), or empty (with CONNECT only).
    pub path: &'b [u8],
    /// What stands behind the target's first `?`.
    pub query: Option<&'b [u8]>,
    pub version: Version,
    /// The host without its port as it was sent: that in the target, else that of the `Host` field (RFC 9112, 3.2.2). `None` only
    /// with HTTP/1.0, or with an empty `Host` for the target `*`.
    pub host: Option<&'b [u8]>,
    /// The same with its port, as it was sent.
    pub authority: Option<&'b [u8]>,
    pub framing: Framing,
    /// Whether the client lets the connection stay open.
    pub keep_alive: bool,
    /// Whether the client waits for 100 before it sends the body; never without a body.
    pub expect_continue: bool,
    /// Whether any `If-…` field is there.
    conditional: bool,
    fields: &'h [httparse::Header<'b>],
}

impl<'b> Request<'_, 'b> {
    /// The value of the first field of that name, in any case, without white space around it. It may hold bytes above 0x7f and tabs.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        self.fields(name).next()
    }

    /// All fields in order: name, as it was sent, and value.
    pub fn all_fields(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> {
        self.fields.iter().map(|field| (field.name, field.value))
    }

    /// The value of the only field of that name; `None` also where there are several: of a field that is no list neither counts
    /// (RFC 9110, 5.3).
    pub fn only_field(&self, name: &str) -> Option<&'b [u8]> {
        let mut values = self.fields(name);
        match (values.next(), values.next()) {
            (Some(value), None) => Some(value),
            (None | Some(_), _) => None,
        }
    }

    /// The values of all fields of that name, in order.
    pub fn fields(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// False if no precondition (RFC 9110, 13.1) can be there, so that none need be looked for.
    pub(super) fn may_be_conditional(&self) -> bool {
        self.conditional
    }
}

/// Reads a head whose end [`Scan`] has found, which has seen to it that only a stream of HTTP/2 says so.
///
/// # Errors
///
/// 400 for whatever is malformed or ambiguous, 501 for transfer codings besides `chunked`, 417 for an expectation that is not
/// `100-continue`, 505, 414 and 431 as with [`Scan::advance`].
pub fn parse<'h, 'b>(head: &'b [u8], space: &'h mut FieldSpace<'b>, limits: &HeadLimits) -> Result<Request<'h, 'b>, Reject> {
    let head = head.strip_prefix(b"\r\n").unwrap_or(head);
    let line = &head[..memchr::memchr(b'\r', head).ok_or(INCOMPLETE)?];
    let RequestLine { method, method_name, target, form, version } = RequestLine::parse_any(line)?;
    let fields = if version == Version::Http2 { second_line(&head[line.len()..]).ok_or(INCOMPLETE)? } else { head };
    let fields = parse_fields(fields, &mut space[..limits.header_count.min(FIELDS_MAX)])?;
    let special = Special::collect(fields)?;
    let framing = special.framing(version)?;
    let [host, authority] = special.host(&form, version)?;
    Ok(Request {
        method,
        method_name,
        line,
        target,
        path: form.path,
        query: form.query,
        version,
        host,
        authority,
        framing,
        keep_alive: !special.close && (special.keep_alive || version != Version::Http10),
        expect_continue: special.expects_continue(version)? && !matches!(framing, Framing::None | Framing::Length(0)),
        conditional: special.conditional,
        fields,
    })
}

/// The first line of what has come, for the log when there is no [`Request`]: up to its first CR or LF, or as far as it got. Its bytes are
/// unchecked and its length is what was received.
pub fn first_line(buffer: &[u8]) -> &[u8] {
    let line = buffer.strip_prefix(b"\r\n").unwrap_or(buffer);
    &line[..memchr::memchr2(b'\r', b'\n', line).unwrap_or(line.len())]
}

/// Follows the request line of a stream of HTTP/2: `httparse`, which reads the fields, begins at a line of a version that it knows.
pub(super) const SECOND_LINE: &[u8] = b"GET / HTTP/1.1";

/// What begins with that line, behind the end of the one before.
fn second_line(rest: &[u8]) -> Option<&[u8]> {
    rest.strip_prefix(b"\r\n").filter(|rest| rest.strip_prefix(SECOND_LINE).is_some_and(|rest| rest.starts_with(b"\r\n")))
}

fn parse_fields<'h, 'b>(head: &'b [u8], space: &'h mut [MaybeUninit<httparse::Header<'b>>]) -> Result<&'h [httparse::Header<'b>], Reject> {
    let mut parser = httparse::Request::new(&mut []);
    match parser.parse_with_uninit_headers(head, space) {
        // Its end and ours must be the same, or what follows would be read differently than it was counted.
        Ok(httparse::Status::Complete(length)) if length == head.len() => Ok(parser.headers),
        Ok(httparse::Status::Complete(_) | httparse::Status::Partial) => Err(INCOMPLETE),
        Err(error) => Err(match error {
            httparse::Error::HeaderName => Reject::bad("malformed field name"),
            httparse::Error::HeaderValue => Reject::bad("byte in a field value that is not allowed"),
            httparse::Error::NewLine => Reject::bad("malformed line end"),
            httparse::Error::TooManyHeaders => TOO_MANY_FIELDS,
            httparse::Error::Status | httparse::Error::Token | httparse::Error::Version => Reject::bad("malformed request line"),
        }),
    }
}

/// What the fields say that decide how a request is read.
#[derive(Default)]
struct Special<'b> {
    host: Option<&'b [u8]>,
    content_length: Option<&'b [u8]>,
    transfer_encoding: Option<&'b [u8]>,
    close: bool,
    keep_alive: bool,
    expect: Option<Expectation>,
    conditional: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expectation {
    Continue,
    Unknown,
}

impl<'b> Special<'b> {
    /// One pass over the fields; a name's length tells most of them apart.
    fn collect(fields: &[httparse::Header<'b>]) -> Result<Special<'b>, Reject> {
        let mut special = Special::default();
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            match field.name.len() {
                4 if is("host") => once(&mut special.host, field.value, "more than one Host")?,
                6 if is("expect") => special.expectation(field.value),
                10 if is("connection") => special.connection(field.value),
                14 if is("content-length") => once(&mut special.content_length, field.value, "more than one Content-Length")?,
                17 if is("transfer-encoding") => once(&mut special.transfer_encoding, field.value, "more than one Transfer-Encoding")?,
                8.. => special.conditional |= field.name.as_bytes()[..3].eq_ignore_ascii_case(b"if-"),
                _ => {}
            }
        }
        Ok(special)
    }

    fn connection(&mut self, value: &[u8]) {
        for option in list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn expectation(&mut self, value: &[u8]) {
        let known = value.eq_ignore_ascii_case(b"100-continue") && self.expect != Some(Expectation::Unknown);
        self.expect = Some(if known { Expectation::Continue } else { Expectation::Unknown });
    }

    /// RFC 9112, 6.3, without its leniencies.
    fn framing(&self, version: Version) -> Result<Framing, Reject> {
        match (self.transfer_encoding, self.content_length) {
            (None, None) => Ok(Framing::None),
            (None, Some(length)) => parse_length(length).map(Framing::Length),
            (Some(_), Some(_)) => Err(Reject::bad("both Transfer-Encoding and Content-Length")),
            (Some(_), None) if version == Version::Http10 => Err(Reject::bad("Transfer-Encoding with HTTP/1.0")),
            (Some(codings), None) => check_codings(codings).map(|()| Framing::Chunked),
        }
    }

    /// The host without its port, and with it: RFC 9112, 3.2 and 3.2.2. A `Host` field is checked even where the target's host is taken.
    fn host(&self, form: &Form<'b>, version: Version) -> Result<[Option<&'b [u8]>; 2], Reject> {
        let (host, authority) = match self.host {
            None if version != Version::Http10 => return Err(Reject::bad("no Host")),
            None => (None, None),
            Some(b"") if form.path == b"*" && form.host.is_none() => (None, None),
            Some(value) => (Some(Authority::parse(value)?.host), self.host),
        };
        Ok([form.host.or(host), form.authority.or(authority)])
    }

    /// RFC 9110, 10.1.1: HTTP/1.0 does not have it.
    fn expects_continue(&self, version: Version) -> Result<bool, Reject> {
        match self.expect {
            Some(Expectation::Unknown) if version != Version::Http10 => Err(Reject::new(Status::EXPECTATION_FAILED, "unknown expectation")),
            expect => Ok(expect.is_some() && version != Version::Http10),
        }
    }
}

fn once<'b>(place: &mut Option<&'b [u8]>, value: &'b [u8], why: &'static str) -> Result<(), Reject> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Reject::bad(why)),
    }
}

/// The elements of a comma-separated list, trimmed; empty ones included.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(|element| {
        let start = element.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let end = element[start..].iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        &element[start..element.len() - end]
    })
}

/// 1*DIGIT without leading zeros: of two numbers that different readers could make of the same text, only one would be the length.
fn parse_length(value: &[u8]) -> Result<u64, Reject> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if !digits || (value.len() > 1 && value[0] == b'0') {
        return Err(Reject::bad("malformed Content-Length"));
    }
    let length = value.iter().try_fold(0i64, |length, digit| length.checked_mul(10)?.checked_add(i64::from(digit - b'0')));
    length.and_then(|length| u64::try_from(length).ok()).ok_or(Reject::bad("Content-Length too large"))
}

/// `chunked` is fine; other codings before a single, last `chunked` are well formed but not understood; all else leaves the body's end
/// open (RFC 9112, 6.1 and 6.3).
fn check_codings(value: &[u8]) -> Result<(), Reject> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let (mut count, mut last) = (0, false);
    for coding in list(value) {
        if !is_token(coding) {
            return Err(Reject::bad("malformed Transfer-Encoding"));
        }
        last = coding.eq_ignore_ascii_case(b"chunked");
        count += usize::from(last);
    }
    if last && count == 1 {
        return Err(Reject::new(Status::NOT_IMPLEMENTED, "transfer coding that is not supported"));
    }
    Err(Reject::bad("Transfer-Encoding does not end with a single \"chunked\""))
}

const NO_METHOD: Reject = Reject::bad("method is not a token");
const INCOMPLETE: Reject = Reject::bad("malformed head");
const FIELDS_TOO_LARGE: Reject = Reject::new(Status::REQUEST_HEADER_FIELDS_TOO_LARGE, "field lines beyond the limit");
const TOO_MANY_FIELDS: Reject = Reject::new(Status::REQUEST_HEADER_FIELDS_TOO_LARGE, "more field lines than the limit");

#[cfg(test)]
mod grammar;
#[cfg(test)]
mod tests;
