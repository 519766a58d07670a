//! What HTTP/2 and the rest of the server say to each other: the heads of requests and of responses, written down as those of HTTP/1.1
//! (RFC 9113, 8.2 and 8.3), and how a client begins that knows beforehand (3.3).
//!
//! Runs in the `worker`, on what the crate `h2` read from the network; does no I/O. A request is a request whatever it came in: one parser,
//! one set of limits and one log line see it. What the text of a head could be broken with is refused here, before there is a text: requests
//! are smuggled where one version is written down as another.

use super::head::SECOND_LINE;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, TE};
use http::{Method, Request, Response, StatusCode};

/// What a client begins with that speaks HTTP/2 (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether a connection begins with [`PREFACE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preface {
    Whole,
    /// It may: more must come.
    Begun,
    Absent,
}

impl Preface {
    /// By the first bytes of a connection.
    pub fn of(bytes: &[u8]) -> Preface {
        if bytes.starts_with(PREFACE) {
            Preface::Whole
        } else if PREFACE.starts_with(bytes) {
            Preface::Begun
        } else {
            Preface::Absent
        }
    }
}

/// The request is none (RFC 9113, 8.1.1): its stream ends with PROTOCOL_ERROR, and nobody sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Appends the head of a request as [`head::parse`](super::head::parse) takes it. `ends`: no content follows; else content whose length is not
/// told is in chunks, which whoever reads the stream makes of it.
///
/// # Errors
/// For what cannot be a request, or could not be written down without becoming another.
pub fn write_head<B>(request: &Request<B>, ends: bool, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (uri, fields) = (request.uri(), request.headers());
    let connects = request.method() == Method::CONNECT;
    let authority = uri.authority().map(http::uri::Authority::as_str);
    let host = authority_of(authority, fields)?;
    let path = uri.path_and_query().map(http::uri::PathAndQuery::as_str);
    let target = match (connects, path, authority) {
        (true, None, Some(authority)) => authority,
        (false, Some("*"), _) if request.method() != Method::OPTIONS => return Err(Malformed("\"*\" is for OPTIONS only")),
        (false, Some(path), _) if path.starts_with('/') || path == "*" => path,
        _ => return Err(Malformed("a target that is no path")),
    };
    if !matches!(uri.scheme_str(), None | Some("http" | "https")) {
        return Err(Malformed("a scheme that is not http"));
    }
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/2.0\r\n");
    out.extend_from_slice(SECOND_LINE);
    out.extend_from_slice(b"\r\n");
    if let Some(host) = host {
        write_field(b"Host", host, out)?;
    }
    let mut cookies = fields.get_all(COOKIE).iter().filter(|crumb| !crumb.is_empty());
    if let Some(first) = cookies.next() {
        // One field again, as everybody else knows it (8.2.3).
        write_field(b"cookie", first.as_bytes(), out)?;
        for crumb in cookies {
            check(crumb.as_bytes())?;
            out.truncate(out.len() - 2);
            out.extend_from_slice(b"; ");
            out.extend_from_slice(crumb.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    for (name, value) in fields {
        if name == HOST || name == COOKIE {
            continue;
        }
        if is_of_connection(name) || (name == TE && value != "trailers") {
            return Err(Malformed("a field about the connection"));
        }
        write_field(name.as_str().as_bytes(), value.as_bytes(), out)?;
    }
    if !ends && !fields.contains_key(CONTENT_LENGTH) {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Reads the head of a response as this server writes them; `None`: it is none. What is about the connection is left out.
pub fn read_head(head: &[u8]) -> Option<Response<()>> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    // `HTTP/1.1 200 OK`
    let status = StatusCode::from_bytes(lines.next()?.get(9..12)?).ok()?;
    let mut fields = HeaderMap::with_capacity(FIELDS);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
        let name = HeaderName::from_bytes(name).ok()?;
        if !is_of_connection(&name) {
            fields.append(name, HeaderValue::from_bytes(value.get(1..)?.trim_ascii()).ok()?);
        }
    }
    let mut response = Response::new(());
    (*response.status_mut(), *response.headers_mut()) = (status, fields);
    Some(response)
}

/// Whom the request is for: the pseudo-header field, which a `Host` beside it may only repeat (8.3.1).
fn authority_of<'r>(authority: Option<&'r str>, fields: &'r HeaderMap) -> Result<Option<&'r [u8]>, Malformed> {
    let mut hosts = fields.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let (host, another) = (hosts.next(), hosts.next());
    match (authority.map(str::as_bytes), host) {
        _ if another.is_some() => Err(Malformed("more than one host")),
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => Err(Malformed("host differs from :authority")),
        (Some(authority), _) => Ok(Some(authority)),
        (None, host) => Ok(host),
    }
}

fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    check(value)?;
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Refuses what may not stand in a value (8.2.1). Names are tokens in lower case already.
fn check(value: &[u8]) -> Result<(), Malformed> {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if is_space(value.first()) || is_space(value.last()) {
        return Err(Malformed("white space around a value"));
    }
    if value.iter().any(|&byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
        return Err(Malformed("byte in a value that is not allowed"));
    }
    Ok(())
}

/// Whether a field is about a connection of HTTP/1.1 (8.2.2).
fn is_of_connection(name: &HeaderName) -> bool {
    matches!(name.as_str(), "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade")
}

/// Fields that a response has, about: so many find room without growing.
const FIELDS: usize = 12;

#[cfg(test)]
mod tests {
    use super::super::head::{self, HeadLimits, Scan, Version};
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { request_line: 8192, header_bytes: 32768, header_count: 100 };

    fn request(method: &str, uri: &str, fields: &[(&str, &[u8])]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(uri).body(()).unwrap();
        for (name, value) in fields {
            request.headers_mut().append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value).unwrap());
        }
        request
    }

    fn written(request: &Request<()>, ends: bool) -> Result<String, Malformed> {
        let mut out = Vec::new();
        write_head(request, ends, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_request_is_written_down_and_read_again() {
        let fields: &[(&str, &[u8])] =
            &[("accept", b"*/*"), ("cookie", b"a=1"), ("x", b"y"), ("cookie", b"b=2"), ("cookie", b""), ("host", b"A.example:80")];
        let text = written(&request("GET", "http://a.example:80/x?y", fields), true).unwrap();
        assert_eq!(text, "GET /x?y HTTP/2.0\r\nGET / HTTP/1.1\r\nHost: a.example:80\r\ncookie: a=1; b=2\r\naccept: */*\r\nx: y\r\n\r\n");
        assert_eq!(Scan::http2().advance(text.as_bytes(), &LIMITS), Ok(Some(text.len())));
        let mut space = head::field_space();
        let read = head::parse(text.as_bytes(), &mut space, &LIMITS).unwrap();
        assert_eq!((read.version, read.host, read.framing), (Version::Http2, Some(&b"a.example"[..]), head::Framing::None));
        assert_eq!(Scan::default().advance(text.as_bytes(), &LIMITS).unwrap_err().status.code(), 505);
    }

    #[test]
    fn content_has_a_length_or_comes_in_chunks() {
        let text = written(&request("POST", "http://a/", &[]), false).unwrap();
        assert_eq!(text, "POST / HTTP/2.0\r\nGET / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n");
        let text = written(&request("POST", "http://a/", &[("content-length", b"5")]), false).unwrap();
        assert_eq!(text, "POST / HTTP/2.0\r\nGET / HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\n\r\n");
    }

    #[test]
    fn w12_w13_w15_what_cannot_be_a_request_is_not_written() {
        let get = |uri: &str, fields: &[(&str, &[u8])]| written(&request("GET", uri, fields), true).map_err(|malformed| malformed.0);
        for (name, value) in [
            ("connection", &b"close"[..]),
            ("transfer-encoding", b"chunked"),
            ("upgrade", b"h2c"),
            ("keep-alive", b"1"),
            ("proxy-connection", b"x"),
            ("te", b"gzip"),
        ] {
            assert_eq!(get("http://a/", &[(name, value)]), Err("a field about the connection"), "{name}");
        }
        assert!(get("http://a/", &[("te", b"trailers")]).is_ok());
        assert_eq!(get("http://a/", &[("host", b"b")]), Err("host differs from :authority"));
        assert_eq!(get("/", &[("host", b"a"), ("host", b"a")]), Err("more than one host"));
        assert_eq!(get("http://a/", &[("x", b" y")]), Err("white space around a value"));
        assert_eq!(get("http://a/", &[("cookie", b"a"), ("cookie", b"b\t")]), Err("white space around a value"));
        assert_eq!(get("javascript://a/", &[]), Err("a scheme that is not http"));
        assert_eq!(get("*", &[]), Err("\"*\" is for OPTIONS only"));
        assert!(written(&request("OPTIONS", "*", &[]), true).is_ok());
        assert_eq!(get("a:80", &[]), Err("a target that is no path"));
        assert_eq!(
            written(&request("CONNECT", "a:80", &[]), true).unwrap(),
            "CONNECT a:80 HTTP/2.0\r\nGET / HTTP/1.1\r\nHost: a:80\r\n\r\n"
        );
    }

    #[test]
    fn a_response_is_read_without_what_is_about_the_connection() {
        let head = b"HTTP/1.1 404 Not Found\r\nServer: x\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nConnection: close\r\nX-Empty: \r\n\r\n";
        let response = read_head(head).unwrap();
        let fields: Vec<_> = response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(response.status(), 404);
        assert_eq!(fields, [("server", &b"x"[..]), ("set-cookie", b"a"), ("set-cookie", b"b"), ("x-empty", b"")]);
        assert!(read_head(b"HTTP/1.1 4\r\n\r\n").is_none() && read_head(b"").is_none());
    }

    #[test]
    fn a_connection_begins_with_the_preface_or_not() {
        for length in 0..PREFACE.len() {
            assert_eq!(Preface::of(&PREFACE[..length]), Preface::Begun);
        }
        assert_eq!(Preface::of(PREFACE), Preface::Whole);
        assert_eq!(Preface::of(&[PREFACE, b"x"].concat()), Preface::Whole);
        for other in [&b"G"[..], b"POST / HTTP/1.1\r\n", b"PRI * HTTP/1.1\r\n", b"\x16\x03\x01"] {
            assert_eq!(Preface::of(other), Preface::Absent);
        }
    }
}
