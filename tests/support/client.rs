//! A client that sends exactly the bytes it is given and accepts only well-formed responses.

use super::{PATIENCE, shown};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// The bytes of a request with `Host: a` and the given further field lines.
pub(crate) fn request(method: &str, target: impl AsRef<[u8]>, fields: &[&str]) -> Vec<u8> {
    let mut bytes = method.as_bytes().to_vec();
    bytes.push(b' ');
    bytes.extend_from_slice(target.as_ref());
    bytes.extend_from_slice(b" HTTP/1.1\r\nHost: a\r\n");
    for field in fields {
        bytes.extend_from_slice(field.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// A response, read strictly: see [`Client::try_response`].
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: Vec<u8>,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of a field that may stand once; panics when it stands twice.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name));
        let first = values.next()?;
        assert!(values.next().is_none(), "field {name:?} twice in {}", shown(&self.head));
        Some(&first.1)
    }

    /// Whether the server says that it closes the connection after this response.
    pub(crate) fn closes(&self) -> bool {
        self.field("Connection").is_some_and(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case("close")))
    }

    /// `Content-Length`; panics when it is absent.
    pub(crate) fn length(&self) -> u64 {
        self.field("Content-Length").unwrap_or_else(|| panic!("no Content-Length in {}", shown(&self.head))).parse().unwrap()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Panics unless the status is one of `right`.
    #[track_caller]
    pub(crate) fn must_be(self, right: &[u16]) -> Self {
        assert!(right.contains(&self.status), "status {} is not one of {right:?}: {}", self.status, shown(&self.head));
        self
    }
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    /// Received and not yet taken as part of a response.
    buffer: Vec<u8>,
}

impl Client {
    /// Its own port.
    pub(crate) fn port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"))
    }

    pub(crate) fn try_connect(address: SocketAddr) -> std::io::Result<Self> {
        Self::of(TcpStream::connect_timeout(&address, PATIENCE)?)
    }

    pub(crate) fn of(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub(crate) fn read_timeout(&self, limit: Duration) {
        self.stream.set_read_timeout(Some(limit)).unwrap();
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// How much was received and is not yet taken as part of a response.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Sends all of it; panics if the server does not take it.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes).unwrap_or_else(|error| panic!("send: {error}"));
        self
    }

    /// Sends all of it, or says why not: a server may close in the middle of what it refuses.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends FIN and goes on reading.
    pub(crate) fn half_close(&mut self) -> &mut Self {
        self.stream.shutdown(Shutdown::Write).unwrap();
        self
    }

    /// The next response to a request with `method`; panics when it is malformed or does not come.
    #[track_caller]
    pub(crate) fn response(&mut self, method: &str) -> Response {
        match self.try_response(method) {
            Ok(response) => response,
            Err(fault) => panic!("{fault}; received: {}", shown(&self.buffer)),
        }
    }

    /// The next response to a request with `method`, interim ones (1xx) passed over. A response is refused when its head is
    /// not what RFC 9112 section 2 and 4 allow, when it has no date, when it has not exactly one sign of where it ends, or when its body is short.
    pub(crate) fn try_response(&mut self, method: &str) -> Result<Response, String> {
        loop {
            let mut response = self.head()?;
            if response.status / 100 == 1 {
                continue;
            }
            response.body = self.body(method, &response)?;
            return Ok(response);
        }
    }

    /// The head of the next response; its body stays unread.
    pub(crate) fn head(&mut self) -> Result<Response, String> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            if self.buffer.len() > 64 * 1024 {
                return Err("head without an end".to_owned());
            }
            if self.fill()? == 0 {
                return Err("connection closed before the end of a head".to_owned());
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        parse_head(&head).map_err(|fault| format!("{fault} in {}", shown(&head)))
    }

    fn body(&mut self, method: &str, response: &Response) -> Result<Vec<u8>, String> {
        let lengths: Vec<_> = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).collect();
        let coded = response.field("Transfer-Encoding");
        if lengths.len() > 1 {
            return Err(format!("two lengths in {}", shown(&response.head)));
        }
        let length = match lengths.first() {
            Some((_, value)) if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(value.parse::<usize>().map_err(|error| error.to_string())?)
            }
            Some((_, value)) => return Err(format!("length {value:?}")),
            None => None,
        };
        if response.status == 204 {
            // RFC 9110 section 8.6: no Content-Length in a 204; RFC 9112 section 6.1: no Transfer-Encoding.
            return if length.is_none() && coded.is_none() { Ok(Vec::new()) } else { Err("204 with framing".to_owned()) };
        }
        if method == "HEAD" || response.status == 304 {
            return Ok(Vec::new());
        }
        match (length, coded) {
            (Some(length), None) => self.exactly(length),
            (None, Some("chunked")) => self.chunks(),
            (None, None) => Err(format!("no sign of where the body ends in {}", shown(&response.head))),
            (_, Some(value)) => Err(format!("transfer coding {value:?} with length {length:?}")),
        }
    }

    /// The next `length` bytes.
    pub(crate) fn exactly(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.buffer.len() < length {
            if self.fill()? == 0 {
                return Err(format!("body of {length} bytes ends after {}", self.buffer.len()));
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            while find(&self.buffer, b"\r\n").is_none() {
                if self.fill()? == 0 {
                    return Err("closed within a chunk size".to_owned());
                }
            }
            let end = find(&self.buffer, b"\r\n").unwrap();
            let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let size = usize::from_str_radix(std::str::from_utf8(&line[..end]).map_err(|error| error.to_string())?, 16)
                .map_err(|error| error.to_string())?;
            let mut chunk = self.exactly(size + 2)?;
            if !chunk.ends_with(b"\r\n") {
                return Err("chunk without CRLF".to_owned());
            }
            chunk.truncate(size);
            body.extend_from_slice(&chunk);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    /// Waits for the server to close; panics if it sends something more, or keeps the connection. A reset is a close: the
    /// server may have had unread bytes of ours.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        match self.rest() {
            Ok(rest) => assert!(rest.is_empty(), "after the last response came: {}", shown(&rest)),
            Err(fault) => panic!("the server should have closed: {fault}"),
        }
    }

    /// Everything up to the close.
    pub(crate) fn rest(&mut self) -> Result<Vec<u8>, String> {
        loop {
            match self.fill() {
                Ok(0) => return Ok(std::mem::take(&mut self.buffer)),
                Ok(_) => {}
                Err(fault) if fault.contains("reset") => return Ok(std::mem::take(&mut self.buffer)),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Reads once into the buffer; 0 is the end.
    fn fill(&mut self) -> Result<usize, String> {
        let mut piece = vec![0; 256 * 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(count) => {
                    self.buffer.extend_from_slice(&piece[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err("nothing came in time".to_owned()),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err("connection reset".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Status line and field lines by the grammar of RFC 9112 sections 4 and 5, without folding.
fn parse_head(head: &[u8]) -> Result<Response, String> {
    let text = head.strip_suffix(b"\r\n\r\n").ok_or("no empty line")?;
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = find(rest, b"\r\n") {
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    lines.push(rest);
    let status_line = lines.remove(0);
    let after = status_line.strip_prefix(b"HTTP/1.1 ").ok_or("status line does not begin with \"HTTP/1.1 \"")?;
    if after.len() < 4 || !after[..3].iter().all(u8::is_ascii_digit) || after[3] != b' ' {
        return Err("no status of three digits and a space".to_owned());
    }
    let status: u16 = std::str::from_utf8(&after[..3]).unwrap().parse().unwrap();
    let mut fields = Vec::new();
    for line in lines {
        if line.iter().any(|&byte| (byte < 0x20 && byte != b'\t') || byte >= 0x7f) {
            return Err(format!("byte that may not stand in a field line: {}", shown(line)));
        }
        let line = std::str::from_utf8(line).unwrap();
        let (name, value) = line.split_once(':').ok_or_else(|| format!("field line without a colon: {line:?}"))?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)) {
            return Err(format!("field name {name:?}"));
        }
        fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    // RFC 9110 section 6.6.1: an origin server with a clock sends Date in every 2xx, 3xx and 4xx.
    if (200..500).contains(&status) {
        let date = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("date")).ok_or("no Date")?;
        httpdate::parse_http_date(&date.1).map_err(|_| format!("date {:?}", date.1))?;
    }
    Ok(Response { status, head: head.to_vec(), fields, body: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

    /// Serves `bytes` to one client and returns what it makes of them as the answer to `method`.
    fn read(method: &str, bytes: &[u8]) -> Result<Response, String> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Client::connect(listener.local_addr().unwrap());
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(bytes).unwrap();
        drop(peer);
        client.try_response(method)
    }

    #[test]
    fn right_responses_are_read() {
        let with = |rest: &str| format!("HTTP/1.1 200 OK\r\n{DATE}{rest}").into_bytes();
        assert_eq!(read("GET", &with("Content-Length: 2\r\n\r\nhi")).unwrap().body, b"hi");
        assert_eq!(read("GET", &with("Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")).unwrap().body, b"hi");
        assert_eq!(read("HEAD", &with("Content-Length: 2\r\n\r\n")).unwrap().body, b"");
        assert_eq!(
            read("GET", &[b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), with("Content-Length: 0\r\n\r\n")].concat()).unwrap().status,
            200
        );
        assert_eq!(read("GET", format!("HTTP/1.1 204 No Content\r\n{DATE}\r\n").as_bytes()).unwrap().status, 204);
    }

    #[test]
    fn malformed_responses_are_refused() {
        for bytes in [
            format!("HTTP/1.0 200 OK\r\n{DATE}Content-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 200\r\n{DATE}Content-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 20 OK\r\n{DATE}Content-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 200 OK\n{DATE}Content-Length: 0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 0\r\n\r\n".to_owned(),
            format!("HTTP/1.1 200 OK\r\n{DATE}\r\n"),
            format!("HTTP/1.1 200 OK\r\n{DATE}Content-Length: 2\r\n\r\nh"),
            format!("HTTP/1.1 200 OK\r\n{DATE}Content-Length: 0\r\nContent-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\n{DATE}Content-Length: +0\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\n{DATE}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\n{DATE}Bad Name: x\r\nContent-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\n{DATE}X: a\0b\r\nContent-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\n{DATE}nocolon\r\nContent-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 204 No Content\r\n{DATE}Content-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\n{DATE}Transfer-Encoding: chunked\r\n\r\n2\r\nhi0\r\n\r\n"),
            "garbage".to_owned(),
            String::new(),
        ] {
            assert!(read("GET", bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }
}
