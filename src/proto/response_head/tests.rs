//! Heads of answers, right and wrong, whole and byte by byte.

use super::*;

fn read_whole(bytes: &[u8], asked: Asked) -> Result<Option<(Head<'_>, usize)>, &'static str> {
    let Some(length) = Scan::default().advance(bytes).map_err(|fault| fault.why)? else { return Ok(None) };
    let mut scan = Scan::default();
    for end in 0..length {
        assert_eq!(scan.advance(&bytes[..end]), Ok(None), "{end} of {}", bytes.escape_ascii());
    }
    assert_eq!(scan.advance(bytes), Ok(Some(length)), "{}", bytes.escape_ascii());
    parse(&bytes[..length], asked).map(|head| Some((head, length))).map_err(|fault| fault.why)
}

#[track_caller]
fn read(bytes: &str, asked: Asked) -> Result<Head<'_>, &'static str> {
    read_whole(bytes.as_bytes(), asked).map(|read| read.expect("the head is complete").0)
}

#[track_caller]
fn frames(fields: &str, framing: Framing, keep_alive: bool) {
    let bytes = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
    let head = read(&bytes, Asked::Other).unwrap();
    assert_eq!((head.framing, head.keep_alive), (framing, keep_alive), "{fields:?}");
}

#[track_caller]
fn refused(bytes: &str, why: &str) {
    assert_eq!(read_whole(bytes.as_bytes(), Asked::Other).map(|_| ()), Err(why), "{}", bytes.escape_debug());
}

#[test]
fn a_head_is_read_and_what_follows_is_left() {
    let bytes = b"HTTP/1.1 404 Not here\r\nContent-Length: 3\r\nSet-Cookie: a\r\nset-cookie: b\r\n\r\nabc";
    let (head, length) = read_whole(bytes, Asked::Other).unwrap().unwrap();
    assert_eq!((head.code, head.version, head.framing, head.keep_alive), (404, Version::Http11, Framing::Length(3), true));
    assert_eq!(head.fields().collect::<Vec<_>>(), [("Set-Cookie", b"a".as_slice()), ("set-cookie", b"b")]);
    assert_eq!((head.field("SET-COOKIE"), &bytes[length..]), (Some(b"a".as_slice()), b"abc".as_slice()));
    assert!(matches!(read_whole(b"HTTP/1.1 200 OK\r\nA: b\r\n", Asked::Other), Ok(None)));
}

#[test]
fn status_lines() {
    for (line, code) in [("HTTP/1.1 200 OK", 200), ("HTTP/1.0 599 ", 599), ("HTTP/1.1 299", 299), ("HTTP/1.1 500 \u{e9}\ta", 500)] {
        assert_eq!(read(&format!("{line}\r\n\r\n"), Asked::Other).map(|head| head.code), Ok(code), "{line}");
    }
    for line in [
        "",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000",
        "HTTP/1.1 +20",
        "HTTP/1.1 099 A",
        "HTTP/1.1 600 A",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 200OK",
        "HTTP/1.2 200 OK",
        "HTTP/2.0 200 OK",
        "http/1.1 200 OK",
        " HTTP/1.1 200 OK",
        "ICY 200 OK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 O\rK",
        "HTTP/1.1 200 O\u{7f}K",
        "Status: 200",
    ] {
        refused(&format!("{line}\r\n\r\n"), "malformed status line");
    }
}

#[test]
fn the_end_of_an_answer_is_told_in_one_way() {
    frames("", Framing::UntilClose, false);
    frames("Connection: keep-alive\r\n", Framing::UntilClose, false);
    frames("Content-Length: 0\r\n", Framing::Length(0), true);
    frames("Content-Length: 5\r\nConnection: x, Close\r\n", Framing::Length(5), false);
    frames("Transfer-Encoding: Chunked\r\n", Framing::Chunked, true);
    for (fields, why) in [
        ("Content-Length: 5\r\nContent-Length: 5\r\n", "more than one Content-Length"),
        ("Content-Length: 5, 5\r\n", "malformed Content-Length"),
        ("Content-Length: -5\r\n", "malformed Content-Length"),
        ("Content-Length:\r\n", "malformed Content-Length"),
        ("Content-Length: 9223372036854775808\r\n", "malformed Content-Length"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "both Transfer-Encoding and Content-Length"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "more than one Transfer-Encoding"),
        ("Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding other than chunked"),
        ("Transfer-Encoding: identity\r\n", "Transfer-Encoding other than chunked"),
        ("Transfer-Encoding:\r\n", "Transfer-Encoding other than chunked"),
        ("Transfer-Encoding: \u{b}chunked\r\n", "byte in a field value that is not allowed"),
        ("Content-Length : 5\r\n", "malformed field name"),
        (" Content-Length: 5\r\n", "malformed field name"),
        ("A: b\r\n Content-Length: 5\r\n", "malformed field name"),
        ("A: b\r\n folded\r\n", "line of the head without a colon"),
        ("A: b\r\n\tc: d\r\n", "malformed field name"),
        ("A: b\nContent-Length: 5\r\n", "line of the head that does not end with CRLF"),
        ("A: b\rContent-Length: 5\r\n", "byte in a field value that is not allowed"),
        ("A: b\r\r\n", "byte in a field value that is not allowed"),
    ] {
        refused(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), why);
    }
    refused("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding with HTTP/1.0");
    refused("HTTP/1.1 200 OK\n\n", "line of the head that does not end with CRLF");
}

#[test]
fn b11_answers_without_a_body_have_none() {
    let table: &[(u16, Asked, &str, bool)] = &[
        (200, Asked::Head, "Content-Length: 1771\r\n", true),
        (200, Asked::Head, "Transfer-Encoding: chunked\r\n", true),
        (200, Asked::Head, "", true),
        (304, Asked::Other, "Content-Length: 5\r\n", true),
        (204, Asked::Other, "", true),
        (204, Asked::Other, "Content-Length: 0\r\n", true),
        // It has no body, but a backend that says so may send one.
        (204, Asked::Other, "Content-Length: 5\r\n", false),
        (204, Asked::Other, "Transfer-Encoding: chunked\r\n", false),
        (100, Asked::Other, "", true),
        (103, Asked::Other, "Content-Length: 5\r\n", false),
    ];
    for (code, asked, fields, keep_alive) in table {
        let bytes = format!("HTTP/1.1 {code} A\r\n{fields}\r\n");
        let head = read(&bytes, *asked).unwrap();
        assert_eq!((head.framing, head.keep_alive, head.is_interim()), (Framing::None, *keep_alive, *code < 200), "{bytes:?}");
    }
    assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 1771\r\n\r\n", Asked::Head).unwrap().content_length, Some(1771));
}

#[test]
fn connections_are_kept_as_their_version_says() {
    let keeps =
        |line: &str, fields: &str| read(&format!("{line} 200 OK\r\nContent-Length: 0\r\n{fields}\r\n"), Asked::Other).unwrap().keep_alive;
    assert!(keeps("HTTP/1.1", ""));
    assert!(!keeps("HTTP/1.0", ""));
    assert!(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
    assert!(!keeps("HTTP/1.0", "Connection: keep-alive\r\nConnection: close\r\n"));
}

#[test]
fn b10_another_protocol_begins_only_behind_101() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
    let head = read(switch, Asked::Other).unwrap();
    assert_eq!(
        (head.upgrade, head.framing, head.keep_alive, head.is_interim()),
        (Some(b"websocket".as_slice()), Framing::None, false, false)
    );
    assert_eq!(head.fields().collect::<Vec<_>>(), [("Sec-WebSocket-Accept", b"x".as_slice())]);
    assert_eq!(read(&switch.replace("101", "200"), Asked::Other).unwrap().upgrade, None);
    for (from, to) in [("Connection: Upgrade\r\n", ""), ("Upgrade: websocket\r\n", ""), ("HTTP/1.1 ", "HTTP/1.0 ")] {
        refused(&switch.replace(from, to), "101 without an upgrade");
    }
    refused(&switch.replace("Sec-", "Upgrade: h2c\r\nSec-"), "more than one Upgrade");
}

#[test]
fn b15_fields_about_the_connection_and_our_own_are_left_out() {
    let bytes = "HTTP/1.1 200 OK\r\nConnection: x-hop\r\nKeep-Alive: 5\r\nX-Hop: 1\r\nDate: now\r\nServer: s\r\nX-Sendfile: /a\r\n\
                 X-Accel-Buffering: no\r\nX-Test: 1\r\nProxy-Authenticate: Basic\r\nTrailer: a\r\nUpgrade: h2c\r\n\r\n";
    let head = read(bytes, Asked::Other).unwrap();
    assert_eq!(head.fields().collect::<Vec<_>>(), [("X-Test", b"1".as_slice())]);
    assert_eq!(head.buffering, Some(false));
}

#[test]
fn b16_heads_have_limits() {
    let lines = |count: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(read(&lines(LINES_MAX - 1), Asked::Other).is_ok());
    refused(&lines(LINES_MAX), "more lines in the head than the limit");
    let long = |bytes: usize| format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(bytes - 24));
    assert!(read(&long(HEAD_MAX), Asked::Other).is_ok());
    refused(&long(HEAD_MAX + 1), "head beyond the limit");
}
