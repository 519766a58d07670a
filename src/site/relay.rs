//! The head of a request as a backend of HTTP/1.1 gets it (RFC 9110, 7.6; RFC 9112, 3).
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O. Nothing of the client's framing, and nothing that it says of its own connection,
//! reaches the backend: both are written anew, so that the two servers cannot read two requests where the other reads one. Who the client is
//! says this server; what a client says of that itself is passed on from trusted proxies only.

use super::facts::Facts;
use crate::proto::decimal;
use crate::proto::head::{Framing, Method};
use crate::proto::target::Path;
use std::io::Write;
use std::net::IpAddr;

/// What is known of the request beside its [`Facts`].
#[derive(Clone, Copy, Debug)]
pub struct Relayed<'a> {
    /// As rules have rewritten them.
    pub path: &'a Path,
    pub query: Option<&'a [u8]>,
    /// For a request that names no host.
    pub server_name: &'a [u8],
    /// How the body's end is told to the backend.
    pub framing: Framing,
    /// The protocol that the client asks to change to; see [`upgrade`].
    pub upgrade: Option<&'a [u8]>,
    /// From the client to this server, as far as it is vouched for: the client, then proxies.
    pub chain: &'a [IpAddr],
    /// The peer is a proxy that is believed.
    pub trusted: bool,
    /// The connection stays open behind the answer.
    pub keep: bool,
}

/// Appends the head.
pub fn head(facts: &Facts<'_>, relayed: &Relayed<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(facts.method_name);
    out.push(b' ');
    relayed.path.encode_part(0..usize::MAX, out);
    if let Some(query) = relayed.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    // As it was sent, with its port; that of the target goes before that of the field (RFC 9112, 3.2.2).
    let host = facts.authority.unwrap_or(relayed.server_name);
    field(out, "Host", host);
    match relayed.upgrade {
        Some(protocol) => {
            field(out, "Connection", b"Upgrade");
            field(out, "Upgrade", protocol);
        }
        None if relayed.keep => {}
        None => field(out, "Connection", b"close"),
    }
    framing(facts, relayed.framing, out);
    forwarded(facts, relayed, host, out);
    let mut listed: Vec<&[u8]> = Vec::new();
    facts.fields.each(&mut |name, value| {
        if name.eq_ignore_ascii_case("connection") {
            listed.extend(value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
        }
    });
    facts.fields.each(&mut |name, value| {
        if is_passed(name, facts) && !listed.iter().any(|option| option.eq_ignore_ascii_case(name.as_bytes())) {
            field(out, name, value);
        }
    });
    out.extend_from_slice(b"\r\n");
}

/// The protocol that a client asks to change to, if that can be asked of a backend: one, without a body, not by HEAD, whose answer has no content
/// that another protocol could be spoken in, and not HTTP once more, which would be spoken past everything that is checked here ("h2c smuggling").
pub fn upgrade<'a>(facts: &Facts<'a>, is_http11: bool, framing: Framing) -> Option<&'a [u8]> {
    let names = |value: &[u8]| value.split(|byte| *byte == b',').any(|option| option.trim_ascii().eq_ignore_ascii_case(b"upgrade"));
    let can_change = is_http11 && framing == Framing::None && facts.method != Method::Head;
    if !can_change || !facts.fields.any("connection", &mut |value| names(value)) {
        return None;
    }
    let mut count = 0;
    facts.fields.any("upgrade", &mut |_| {
        count += 1;
        false
    });
    let protocol = facts.fields.first("upgrade").filter(|_| count == 1)?;
    let is_one = !protocol.is_empty() && protocol.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(byte));
    let begins = |start: &[u8]| protocol.get(..start.len()).is_some_and(|have| have.eq_ignore_ascii_case(start));
    (is_one && !HTTP_AGAIN.iter().any(|start| begins(start))).then_some(protocol)
}

/// What tokens begin with that mean HTTP once more, bare or within TLS (the registry of RFC 9110, 16.7, and RFC 7540, 3.2).
const HTTP_AGAIN: [&[u8]; 3] = [b"h2", b"http/", b"tls/"];

/// One of the two, or none: never what the client wrote.
fn framing(facts: &Facts<'_>, framing: Framing, out: &mut Vec<u8>) {
    match framing {
        Framing::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            decimal::write(length, out);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => field(out, "Transfer-Encoding", b"chunked"),
        // A method that means to send something says that it does not (RFC 9110, 8.6).
        Framing::None if matches!(facts.method, Method::Post | Method::Put | Method::Patch) => field(out, "Content-Length", b"0"),
        Framing::None => {}
    }
}

fn forwarded(facts: &Facts<'_>, relayed: &Relayed<'_>, host: &[u8], out: &mut Vec<u8>) {
    // A client at a socket of the unix domain has no address.
    if relayed.chain.iter().all(IpAddr::is_unspecified) {
        return forwarded_by(facts, relayed, host, out);
    }
    out.extend_from_slice(b"X-Forwarded-For: ");
    for (at, address) in relayed.chain.iter().enumerate() {
        // Writing to memory does not fail.
        let _ = write!(out, "{}{address}", if at > 0 { ", " } else { "" });
    }
    out.extend_from_slice(b"\r\n");
    forwarded_by(facts, relayed, host, out);
}

fn forwarded_by(facts: &Facts<'_>, relayed: &Relayed<'_>, host: &[u8], out: &mut Vec<u8>) {
    field(out, "X-Forwarded-Proto", facts.scheme.name().as_bytes());
    let told = facts.fields.first("x-forwarded-host").filter(|_| relayed.trusted);
    field(out, "X-Forwarded-Host", told.unwrap_or(host));
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Whether the backend gets a field as the client sent it.
fn is_passed(name: &str, facts: &Facts<'_>) -> bool {
    // `X_Forwarded_For` is `X-Forwarded-For` to many a program, and so would be a client's own word for a proxy's.
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    // The password of a user whom the server has checked is nobody else's matter.
    let secret = !facts.user.is_empty() && name.eq_ignore_ascii_case("authorization");
    plain && !secret && !OURS.iter().any(|own| name.eq_ignore_ascii_case(own)) && !begins("x-forwarded-") && !begins("proxy-")
}

/// What is about the client's connection (RFC 9110, 7.6.1), decides the framing, says who the client is, or was answered here; and `Proxy`,
/// which becomes HTTP_PROXY in many a program (CVE-2016-5385). The last ones tell applications that the server sends files for them, and which
/// (Rack::Sendfile): a client's word for that would name any file.
const OURS: [&str; 15] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-accel-mapping",
    "x-real-ip",
    "x-sendfile-type",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::target;
    use crate::site::facts::Scheme;
    use crate::site::facts::tests::Asked;

    fn asked(target: &str, fields: &[(&'static str, &str)]) -> Asked {
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())).collect();
        Asked { fields, ..Asked::get(target) }
    }

    fn relayed(asked: &Asked) -> Relayed<'_> {
        Relayed {
            path: &asked.path,
            query: None,
            server_name: b"s.test",
            framing: Framing::None,
            upgrade: None,
            chain: &[],
            trusted: false,
            keep: true,
        }
    }

    fn written(asked: &Asked, relayed: &Relayed<'_>) -> String {
        let mut out = Vec::new();
        head(&asked.facts(), relayed, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_the_clients_own_is_passed_in_order_and_the_rest_is_ours() {
        let asked = asked(
            "/a/./b%2Fc/%7e%3f?x=%2F&y",
            &[
                ("Host", "a.test:8080"),
                ("User-Agent", "u"),
                ("X-Forwarded-For", "127.0.0.1"),
                ("X-Forwarded-Port", "1"),
                ("X_Forwarded_For", "127.0.0.1"),
                ("X-Real-IP", "127.0.0.1"),
                ("Forwarded", "for=127.0.0.1"),
                ("Connection", "x-listed , Host"),
                ("X-Listed", "y"),
                ("Transfer-Encoding", "chunked"),
                ("Content-Length", "3"),
                ("TE", "trailers"),
                ("Expect", "100-continue"),
                ("Upgrade", "h2c"),
                ("HTTP2-Settings", "x"),
                ("Proxy", "http://evil"),
                ("X-Sendfile-Type", "X-Accel-Redirect"),
                ("X-Accel-Mapping", "/=/etc"),
                ("Proxy-Authorization", "x"),
                ("Cookie", "a=1"),
                ("Cookie", "b=2"),
                ("Authorization", "Basic eDp5"),
            ],
        );
        let chain = ["192.0.2.1".parse().unwrap()];
        let relayed = Relayed { query: Some(b"x=%2F&y"), chain: &chain, ..relayed(&asked) };
        let expected = "GET /a/b%2Fc/~%3F?x=%2F&y HTTP/1.1\r\nHost: a.test:8080\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n\
                        X-Forwarded-Host: a.test:8080\r\nUser-Agent: u\r\nCookie: a=1\r\nCookie: b=2\r\nAuthorization: Basic eDp5\r\n\r\n";
        assert_eq!(written(&asked, &relayed), expected);
    }

    #[test]
    fn a_trusted_proxy_is_believed_as_far_as_it_vouches() {
        let mut asked = asked("/", &[("X-Forwarded-Host", "b.test"), ("X-Forwarded-For", "junk, 192.0.2.7, 10.0.0.2")]);
        asked.scheme = Scheme::Https;
        let chain = ["192.0.2.7", "10.0.0.2", "10.0.0.1"].map(|address| address.parse().unwrap());
        let relayed = Relayed { chain: &chain, trusted: true, ..relayed(&asked) };
        let text = written(&asked, &relayed);
        for line in ["X-Forwarded-For: 192.0.2.7, 10.0.0.2, 10.0.0.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: b.test"] {
            assert_eq!(text.lines().filter(|have| *have == line).count(), 1, "{text}");
        }
        assert_eq!(text.to_lowercase().matches("x-forwarded-").count(), 3, "{text}");
    }

    #[test]
    fn the_framing_is_one_and_ours() {
        for (method, framing, lines) in [
            (Method::Get, Framing::None, ""),
            (Method::Post, Framing::None, "Content-Length: 0\r\n"),
            (Method::Post, Framing::Length(7), "Content-Length: 7\r\n"),
            (Method::Get, Framing::Chunked, "Transfer-Encoding: chunked\r\n"),
        ] {
            let asked = Asked { method, ..asked("/", &[("Content-Length", "9"), ("Transfer-Encoding", "gzip")]) };
            let text = written(&asked, &Relayed { framing, ..relayed(&asked) });
            let found: String =
                text.lines().filter(|line| line.starts_with("Content-L") || line.starts_with("Tr")).map(|l| format!("{l}\r\n")).collect();
            assert_eq!(found, lines, "{text}");
        }
    }

    #[test]
    fn f41_one_protocol_is_asked_for_and_never_http_once_more() {
        for (fields, is_http11, expected) in [
            (&[("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket")][..], true, Some("websocket")),
            (&[("Connection", "upgrade"), ("Upgrade", "websocket")], false, None),
            (&[("Connection", "close"), ("Upgrade", "websocket")], true, None),
            (&[("Upgrade", "websocket")], true, None),
            (&[("Connection", "upgrade")], true, None),
            (&[("Connection", "upgrade"), ("Upgrade", "websocket"), ("Upgrade", "x")], true, None),
            (&[("Connection", "upgrade"), ("Upgrade", "websocket, h2c")], true, None),
            (&[("Connection", "upgrade, http2-settings"), ("Upgrade", "h2c")], true, None),
            (&[("Connection", "upgrade"), ("Upgrade", "H2")], true, None),
            (&[("Connection", "upgrade"), ("Upgrade", "HTTP/2.0")], true, None),
            (&[("Connection", "upgrade"), ("Upgrade", "tls/1.2")], true, None),
            (&[("Connection", "upgrade"), ("Upgrade", "httpx")], true, Some("httpx")),
        ] {
            let asked = asked("/", fields);
            assert_eq!(upgrade(&asked.facts(), is_http11, Framing::None), expected.map(str::as_bytes), "{fields:?}");
            assert_eq!(upgrade(&asked.facts(), is_http11, Framing::Length(1)), None);
            let asked = Asked { method: Method::Head, method_name: "HEAD", ..asked };
            assert_eq!(upgrade(&asked.facts(), is_http11, Framing::None), None);
        }
    }

    #[test]
    fn whatever_a_path_holds_the_line_is_one() {
        for (raw, sent) in
            [("/%0d%0aX:%20y", "/%0D%0AX:%20y"), ("/%20HTTP/1.1", "/%20HTTP/1.1"), ("/%ff/..;/x", "/%FF/..;/x"), ("/a//b/", "/a/b/")]
        {
            let mut path = Path::default();
            target::parse_into(raw.as_bytes(), &mut path).unwrap();
            let asked = asked("/", &[]);
            let text = written(&asked, &Relayed { path: &path, ..relayed(&asked) });
            assert_eq!(text.lines().next(), Some(format!("GET {sent} HTTP/1.1").as_str()));
        }
    }
}
