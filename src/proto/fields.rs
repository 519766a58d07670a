//! Field lines of an answer of a backend: where they end, what each says, and which of them are for the client.
//!
//! Runs in the `worker`, on bytes of a program that may be hostile; does no I/O and allocates nothing. Both kinds of head that backends
//! send are read here, with one grammar (RFC 9110, 5): they differ in how lines may end.

use super::fault::Fault;
use super::request_line::is_token;

/// Bytes of a head of a backend, with its line ends and the empty line. Applications that send large policies and cookies need 16 KiB.
pub const HEAD_MAX: usize = 64 * 1024;

/// Lines of a head of a backend, without the empty one.
pub const LINES_MAX: usize = 256;

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// With CRLF (RFC 9112, 2.2).
    Crlf,
    /// With LF or CRLF (RFC 3875, 6.2).
    LfOrCrlf,
}

/// Finds the end of a head while it arrives; remembers how far it has looked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    ends: LineEnd,
    /// Bytes looked at.
    position: usize,
    /// Where the present line begins.
    line: usize,
    lines: usize,
}

impl Scan {
    pub(super) const fn new(ends: LineEnd) -> Scan {
        Scan { ends, position: 0, line: 0, lines: 0 }
    }

    /// Looks at `buffer`, which holds all that has come since the head began. `Some` is the head's length with the empty line that ends it.
    ///
    /// # Errors
    /// As soon as the head is beyond its limits or a line ends as none may.
    pub(super) fn advance(&mut self, buffer: &[u8]) -> Result<Option<usize>, Fault> {
        while let Some(offset) = memchr::memchr(b'\n', buffer.get(self.position..).unwrap_or_default()) {
            let end = self.position + offset + 1;
            let line = self.ends.strip(&buffer[self.line..end])?;
            if end > HEAD_MAX {
                return Err(TOO_LARGE);
            }
            (self.position, self.line) = (end, end);
            if line.is_empty() {
                return Ok(Some(end));
            }
            self.lines += 1;
            if self.lines > LINES_MAX {
                return Err(Fault::new("more lines in the head than the limit"));
            }
        }
        self.position = buffer.len();
        if buffer.len() > HEAD_MAX { Err(TOO_LARGE) } else { Ok(None) }
    }
}

impl LineEnd {
    /// A line without what ends it.
    fn strip(self, line: &[u8]) -> Result<&[u8], Fault> {
        match (self, line.strip_suffix(b"\r\n"), line.strip_suffix(b"\n")) {
            (_, Some(line), _) => Ok(line),
            (LineEnd::LfOrCrlf, None, Some(line)) => Ok(line),
            (LineEnd::Crlf | LineEnd::LfOrCrlf, None, _) => Err(Fault::new("line of the head that does not end with CRLF")),
        }
    }
}

/// Takes the next line off the front of a head that [`Scan`] has measured; `None` at the empty line.
pub(super) fn next_line<'b>(head: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (line, rest) = head.split_at(memchr::memchr(b'\n', head)?);
    *head = &rest[1..];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    (!line.is_empty()).then_some(line)
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'b> {
    pub(super) name: &'b str,
    /// Without white space around it.
    pub(super) value: &'b [u8],
}

impl<'b> Field<'b> {
    /// Reads a line without its end.
    ///
    /// # Errors
    /// For a line without a colon, a name that is no token, and a value with CR, NUL or another control character; a line that begins with
    /// white space goes on with the one before it for some readers and not for others, and has no name here.
    pub(super) fn read(line: &'b [u8]) -> Result<Field<'b>, Fault> {
        let colon = memchr::memchr(b':', line).ok_or(Fault::new("line of the head without a colon"))?;
        let name = std::str::from_utf8(&line[..colon]).ok().filter(|name| is_token(name.as_bytes())).ok_or(BAD_NAME)?;
        let value = trim(&line[colon + 1..]);
        if value.iter().any(|&byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
            return Err(Fault::new("byte in a field value that is not allowed"));
        }
        Ok(Field { name, value })
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Whether the client may see a field: those about the connection to the backend end here (RFC 9110, 7.6.1), those that tell a
    /// server to send a file are never passed on, and what this server says itself is said once.
    fn is_for_client(&self) -> bool {
        let begins = |prefix: &str| self.name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        !OWN.iter().any(|name| self.is(name)) && !FOR_SERVERS.iter().any(|prefix| begins(prefix))
    }
}

/// The fields of a head that are for the client, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed<'b> {
    /// Lines that [`Field::read`] has taken.
    pub(super) lines: &'b [u8],
    pub(super) connection: Connection<'b>,
}

impl<'b> Iterator for Passed<'b> {
    type Item = (&'b str, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let field = Field::read(next_line(&mut self.lines)?).ok()?;
            if field.is_for_client() && !self.connection.names(field.name) {
                return Some((field.name, field.value));
            }
        }
    }
}

/// What `Connection` lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connection<'b> {
    values: [&'b [u8]; Connection::LINES_MAX],
    count: usize,
}

impl<'b> Connection<'b> {
    /// Lines of it, and bytes of each: every field is compared with every option.
    const LINES_MAX: usize = 4;
    const BYTES_MAX: usize = 256;

    pub(super) fn take(&mut self, value: &'b [u8]) -> Result<(), Fault> {
        let place = self.values.get_mut(self.count).filter(|_| value.len() <= Self::BYTES_MAX);
        *place.ok_or(Fault::new("Connection beyond the limit"))? = value;
        self.count += 1;
        Ok(())
    }

    /// Whether an option is listed, or a field is said to be about the connection.
    pub(super) fn names(&self, name: &str) -> bool {
        let listed = |value: &&[u8]| value.split(|&byte| byte == b',').any(|option| trim(option).eq_ignore_ascii_case(name.as_bytes()));
        self.values[..self.count].iter().any(listed)
    }
}

/// Takes a value that may stand in a head once.
pub(super) fn once<'b>(place: &mut Option<&'b [u8]>, value: &'b [u8], why: &'static str) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::new(why)),
    }
}

/// 1*DIGIT, as much as a file may hold.
pub(super) fn content_length(value: &[u8]) -> Result<u64, Fault> {
    const BAD: Fault = Fault::new("malformed Content-Length");
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(BAD);
    }
    let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse::<i64>().ok()).ok_or(BAD)?;
    Ok(length.unsigned_abs())
}

fn trim(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_space(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

/// What is about the connection to the backend, what decides the framing of the answer, which is ours, and what this server says itself.
const OWN: [&str; 10] =
    ["connection", "content-length", "date", "keep-alive", "server", "status", "te", "trailer", "transfer-encoding", "upgrade"];

/// How the names begin that are for a server or a proxy on the way, never for a client.
const FOR_SERVERS: [&str; 5] = ["proxy-", "x-accel-", "x-lighttpd-send-", "x-reproxy-", "x-sendfile"];

const TOO_LARGE: Fault = Fault::new("head beyond the limit");
const BAD_NAME: Fault = Fault::new("malformed field name");
