//! The request line, and the authority in a target or a `Host` field (RFC 9112, 3).
//!
//! Runs in the `worker`; does no I/O. Checked apart from the fields so that a line without a version, or one of another protocol, is
//! refused as soon as its CRLF is there.

use super::status::{Reject, Status};
use std::net::Ipv6Addr;

/// What a request asks for (RFC 9110, 9; RFC 5789). Methods are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Options,
    Post,
    Put,
    Delete,
    Patch,
    Trace,
    Connect,
    /// Any other token.
    Extension,
}

/// The version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
    /// Of a stream of HTTP/2, whose request is written down as one of HTTP/1.1 would be; no socket can say it.
    Http2,
}

/// A request line that is well formed.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLine<'b> {
    pub(super) method: Method,
    pub(super) method_name: &'b [u8],
    pub(super) target: &'b [u8],
    pub(super) form: Form<'b>,
    pub(super) version: Version,
}

/// The parts of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form<'b> {
    /// Begins with `/`, or is `*`; empty for CONNECT.
    pub(super) path: &'b [u8],
    pub(super) query: Option<&'b [u8]>,
    /// The host in the target itself; never empty.
    pub(super) host: Option<&'b [u8]>,
    /// The same with its port, as it was sent.
    pub(super) authority: Option<&'b [u8]>,
}

impl<'b> RequestLine<'b> {
    /// Reads a line without its CRLF, as it comes from a socket.
    pub(super) fn parse(line: &'b [u8]) -> Result<RequestLine<'b>, Reject> {
        RequestLine::parse_as(line, false)
    }

    /// The same where it may be that of a stream of HTTP/2.
    pub(super) fn parse_any(line: &'b [u8]) -> Result<RequestLine<'b>, Reject> {
        RequestLine::parse_as(line, true)
    }

    fn parse_as(line: &'b [u8], http2: bool) -> Result<RequestLine<'b>, Reject> {
        // Exactly one space between the parts, and none elsewhere: what a lenient reader takes for part of the target, another
        // takes for the end of the line.
        let mut parts = line.split(|&byte| byte == b' ');
        let (Some(method_name), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(Reject::bad("request line is not method, target and version"));
        };
        let method = parse_method(method_name);
        if method == Method::Extension && !is_token(method_name) {
            return Err(Reject::bad("method is not a token"));
        }
        if target.is_empty() || !target.iter().all(|&byte| TARGET[usize::from(byte)]) {
            return Err(Reject::bad("byte in the target that must be percent-encoded"));
        }
        let version = parse_version(version)?;
        if version == Version::Http2 && !http2 {
            return Err(OTHER_VERSION);
        }
        let form = Form::parse(method, target)?;
        Ok(RequestLine { method, method_name, target, form, version })
    }
}

impl<'b> Form<'b> {
    /// Tells the four forms of RFC 9112, 3.2 apart.
    fn parse(method: Method, target: &'b [u8]) -> Result<Form<'b>, Reject> {
        if method == Method::Connect {
            return Form::authority(target);
        }
        match target {
            [b'/', ..] => Ok(Form::origin(target, None)),
            b"*" if method == Method::Options => Ok(Form { path: target, query: None, host: None, authority: None }),
            b"*" => Err(Reject::bad("target \"*\" is for OPTIONS only")),
            _ => Form::absolute(method, target),
        }
    }

    fn origin(target: &'b [u8], host: Option<&'b [u8]>) -> Form<'b> {
        match memchr::memchr(b'?', target) {
            Some(at) => Form { path: &target[..at], query: Some(&target[at + 1..]), host, authority: None },
            None => Form { path: target, query: None, host, authority: None },
        }
    }

    fn absolute(method: Method, target: &'b [u8]) -> Result<Form<'b>, Reject> {
        let rest = strip_scheme(target, b"http://").or_else(|| strip_scheme(target, b"https://"));
        let rest = rest.ok_or(Reject::bad("target is neither a path nor an http URL"))?;
        let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let host = Some(Authority::parse(authority)?.host);
        let form = match rest {
            // An OPTIONS for the server as a whole, as a proxy passes it on (RFC 9112, 3.2.4).
            b"" if method == Method::Options => Form::origin(b"*", host),
            b"" => Form::origin(b"/", host),
            [b'?', query @ ..] => Form { query: Some(query), ..Form::origin(b"/", host) },
            _ => Form::origin(rest, host),
        };
        Ok(Form { authority: Some(authority), ..form })
    }

    fn authority(target: &'b [u8]) -> Result<Form<'b>, Reject> {
        let authority = Authority::parse(target)?;
        if authority.port.is_none_or(<[u8]>::is_empty) {
            return Err(Reject::bad("CONNECT without a port"));
        }
        Ok(Form { path: b"", query: None, host: Some(authority.host), authority: Some(target) })
    }
}

/// A host with an optional port.
pub(super) struct Authority<'b> {
    /// As it was sent; an IPv6 address with its brackets. Never empty.
    pub(super) host: &'b [u8],
    port: Option<&'b [u8]>,
}

impl<'b> Authority<'b> {
    /// Reads `host [":" port]` (RFC 3986, 3.2.2 and 3.2.3). User information is refused (RFC 9110, 4.2.4), and so is a comma,
    /// which the grammar allows, but which is what two `Host` lines joined by a proxy look like.
    pub(super) fn parse(text: &'b [u8]) -> Result<Authority<'b>, Reject> {
        let end = match text {
            [b'[', ..] => 1 + memchr::memchr(b']', text).ok_or(BAD_HOST)?,
            _ => memchr::memchr(b':', text).unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(end);
        let port = match rest {
            b"" => None,
            [b':', port @ ..] if is_port(port) => Some(port),
            _ => return Err(Reject::bad("invalid port behind the host")),
        };
        let valid = match host {
            b"" => false,
            [b'[', address @ .., b']'] => std::str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok()),
            name => is_reg_name(name),
        };
        if valid { Ok(Authority { host, port }) } else { Err(BAD_HOST) }
    }
}

/// Whether `text` is a token (RFC 9110, 5.6.2); an empty one is not.
pub(super) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// Whether a token may hold this byte: `tchar`.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn parse_method(name: &[u8]) -> Method {
    match name {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"OPTIONS" => Method::Options,
        b"POST" => Method::Post,
        b"PUT" => Method::Put,
        b"DELETE" => Method::Delete,
        b"PATCH" => Method::Patch,
        b"TRACE" => Method::Trace,
        b"CONNECT" => Method::Connect,
        _ => Method::Extension,
    }
}

const OTHER_VERSION: Reject = Reject::new(Status::HTTP_VERSION_NOT_SUPPORTED, "version is neither 1.0 nor 1.1");

fn parse_version(text: &[u8]) -> Result<Version, Reject> {
    match text {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        b"HTTP/2.0" => Ok(Version::Http2),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Err(OTHER_VERSION),
        _ => Err(Reject::bad("malformed version")),
    }
}

/// `scheme` is in lower case; a target's may be in any.
fn strip_scheme<'b>(target: &'b [u8], scheme: &[u8]) -> Option<&'b [u8]> {
    let (start, rest) = target.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// At most five digits, so that no number can overflow; the empty port is grammatical.
fn is_port(text: &[u8]) -> bool {
    text.len() <= 5
        && text.iter().all(u8::is_ascii_digit)
        && text.iter().fold(0, |port, digit| port * 10 + u32::from(digit - b'0')) <= u32::from(u16::MAX)
}

fn is_reg_name(name: &[u8]) -> bool {
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        let valid = match byte {
            b'%' => [bytes.next(), bytes.next()].iter().all(|digit| digit.is_some_and(u8::is_ascii_hexdigit)),
            _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=".contains(&byte),
        };
        if !valid {
            return false;
        }
    }
    true
}

const BAD_HOST: Reject = Reject::bad("invalid host");

/// The bytes a target may hold: visible ASCII without those that a URL must encode (RFC 3986, 2) and without `#`, since a fragment
/// is never sent. `[` and `]` are let through: browsers send them as they are in queries.
const TARGET: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = !matches!(byte, 0x22 | 0x23 | 0x3c | 0x3e | 0x5c | 0x5e | 0x60 | 0x7b | 0x7c | 0x7d);
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn status(line: &[u8]) -> u16 {
        RequestLine::parse(line).map_or_else(|reject| reject.status.code(), |_| 200)
    }

    fn form(line: &str) -> (String, Option<String>, Option<String>) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let form = RequestLine::parse(line.as_bytes()).unwrap().form;
        (text(form.path), form.query.map(text), form.host.map(text))
    }

    #[test]
    fn forms_of_targets() {
        let table: &[(&str, &str, Option<&str>, Option<&str>)] = &[
            ("GET / HTTP/1.1", "/", None, None),
            ("GET /a?b?c HTTP/1.1", "/a", Some("b?c"), None),
            ("GET /? HTTP/1.0", "/", Some(""), None),
            ("GET //x/y HTTP/1.1", "//x/y", None, None),
            ("GET /a?b[]=http://x/ HTTP/1.1", "/a", Some("b[]=http://x/"), None),
            ("GET http://b/x?y HTTP/1.1", "/x", Some("y"), Some("b")),
            ("GET HTTPS://b:443/x HTTP/1.1", "/x", None, Some("b")),
            ("GET http://b HTTP/1.1", "/", None, Some("b")),
            ("GET http://b?x/y HTTP/1.1", "/", Some("x/y"), Some("b")),
            ("GET http://[::1]:80/ HTTP/1.1", "/", None, Some("[::1]")),
            ("OPTIONS * HTTP/1.1", "*", None, None),
            ("OPTIONS http://b HTTP/1.1", "*", None, Some("b")),
            ("OPTIONS http://b/ HTTP/1.1", "/", None, Some("b")),
            ("CONNECT a:80 HTTP/1.1", "", None, Some("a")),
        ];
        for (line, path, query, host) in table {
            assert_eq!(form(line), (path.to_string(), query.map(String::from), host.map(String::from)), "{line}");
        }
    }

    #[test]
    fn methods_are_case_sensitive() {
        let table = [
            ("GET", Method::Get),
            ("HEAD", Method::Head),
            ("OPTIONS", Method::Options),
            ("POST", Method::Post),
            ("PUT", Method::Put),
            ("DELETE", Method::Delete),
            ("PATCH", Method::Patch),
            ("TRACE", Method::Trace),
            ("get", Method::Extension),
            ("PROPFIND", Method::Extension),
            ("!#$%&'*+-.^_`|~09", Method::Extension),
        ];
        for (name, method) in table {
            assert_eq!(RequestLine::parse(format!("{name} / HTTP/1.1").as_bytes()).unwrap().method, method, "{name}");
        }
    }

    #[test]
    fn f22_f23_targets_of_no_form() {
        for target in [
            "http://b:80@c/",
            "http://u@b/",
            "ftp://b/",
            "b/x",
            "*",
            "http:/b/",
            "http:///x",
            "http://:80/",
            "http://?x",
            "http://a:99999/",
            "http://[::1/",
            "http://[::1]x/",
            "?x",
            "*/",
            "a:80",
            "%2f",
        ] {
            assert_eq!(status(format!("GET {target} HTTP/1.1").as_bytes()), 400, "{target}");
        }
        for target in ["/", "*", "a", "a:", "a:x", "http://a:80/", "u@a:80", ":80", "a:65536"] {
            assert_eq!(status(format!("CONNECT {target} HTTP/1.1").as_bytes()), 400, "{target}");
        }
    }

    #[test]
    fn f24_f26_versions() {
        let table = [
            ("GET / HTTP/1.1", 200),
            ("GET / HTTP/1.0", 200),
            ("GET / HTTP/1.2", 505),
            ("GET / HTTP/2.0", 505),
            ("GET / HTTP/0.9", 505),
            ("PRI * HTTP/2.0", 505),
            ("GET / HTTP/01.1", 400),
            ("GET / HTTP/1.10", 400),
            ("GET / http/1.1", 400),
            ("GET / HTTP/1", 400),
            ("GET / HTTP/1.", 400),
            ("GET / HTTP/1,1", 400),
            ("GET / HTTPS/1.1", 400),
            ("GET /", 400),
            ("GET", 400),
            ("", 400),
        ];
        for (line, code) in table {
            assert_eq!(status(line.as_bytes()), code, "{line}");
        }
    }

    #[test]
    fn f27_white_space_in_the_line() {
        for line in [
            "GET  / HTTP/1.1",
            "GET /  HTTP/1.1",
            "GET / HTTP/1.1 ",
            " GET / HTTP/1.1",
            "GET\t/ HTTP/1.1",
            "GET /\tHTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET /a\tb HTTP/1.1",
            "GET /\x0b HTTP/1.1",
            "GET / HTTP/1.1\t",
        ] {
            assert_eq!(status(line.as_bytes()), 400, "{line:?}");
        }
    }

    #[test]
    fn f28_every_byte_in_target_and_method() {
        for byte in 0..=255u8 {
            let visible = (0x21..0x7f).contains(&byte) && !b"\"#<>\\^`{|}".contains(&byte);
            let line = [b"GET /a", &[byte][..], b"b HTTP/1.1"].concat();
            assert_eq!(status(&line) == 200, visible, "target {byte:#04x}");
            let line = [b"G", &[byte][..], b"T / HTTP/1.1"].concat();
            assert_eq!(status(&line) == 200, is_token(&[byte]), "method {byte:#04x}");
        }
    }

    #[test]
    fn f20_authorities() {
        let table: &[(&str, Option<&str>)] = &[
            ("a", Some("a")),
            ("WWW.A.Test.:8443", Some("WWW.A.Test.")),
            ("a:", Some("a")),
            ("a:0", Some("a")),
            ("a:65535", Some("a")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("[2001:db8::1]:443", Some("[2001:db8::1]")),
            ("a_b-c~d%20", Some("a_b-c~d%20")),
            ("a:65536", None),
            ("a:99999", None),
            ("a:000080", None),
            ("a:+80", None),
            ("a:80:80", None),
            ("a, b", None),
            ("a,b", None),
            ("a/b", None),
            ("u@a", None),
            ("a b", None),
            ("a%2", None),
            ("a%zz", None),
            ("a\u{e9}", None),
            ("[::1", None),
            ("[]", None),
            ("[::1]x", None),
            ("[::1%25eth0]", None),
            ("[127.0.0.1]", None),
            ("[v1.a]", None),
            ("::1", None),
            (":80", None),
            ("a?b", None),
            ("a#b", None),
            ("a\\b", None),
            ("", None),
        ];
        for (text, host) in table {
            let parsed = Authority::parse(text.as_bytes()).ok().map(|authority| authority.host);
            assert_eq!(parsed, host.map(str::as_bytes), "{text:?}");
        }
    }
}
