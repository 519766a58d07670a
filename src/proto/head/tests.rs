//! Tables of heads, each read whole and split at every byte.

use super::*;

const LIMITS: HeadLimits = HeadLimits { request_line: 8192, header_bytes: 32768, header_count: 100 };

/// What is kept of a request to compare.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    method: Method,
    path: Vec<u8>,
    host: Option<Vec<u8>>,
    authority: Option<Vec<u8>>,
    framing: Framing,
    keep_alive: bool,
    expect_continue: bool,
}

/// Scans in the pieces that `cuts` makes, then parses; `None` if the head is incomplete.
fn read_split(bytes: &[u8], cuts: &[usize], limits: &HeadLimits) -> Result<Option<Seen>, Reject> {
    let mut scan = Scan::default();
    for &end in cuts.iter().chain([&bytes.len()]) {
        if let Some(length) = scan.advance(&bytes[..end], limits)? {
            let mut space = field_space();
            let request = parse(&bytes[..length], &mut space, limits)?;
            return Ok(Some(Seen {
                method: request.method,
                path: request.path.to_vec(),
                host: request.host.map(<[u8]>::to_vec),
                authority: request.authority.map(<[u8]>::to_vec),
                framing: request.framing,
                keep_alive: request.keep_alive,
                expect_continue: request.expect_continue,
            }));
        }
    }
    Ok(None)
}

/// Reads whole, in two pieces cut at every byte, and byte by byte; all must agree.
fn read(bytes: &[u8], limits: &HeadLimits) -> Result<Option<Seen>, Reject> {
    let whole = read_split(bytes, &[], limits);
    for cut in 0..bytes.len() {
        assert_eq!(read_split(bytes, &[cut], limits), whole, "cut at {cut}: {}", bytes.escape_ascii());
    }
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(read_split(bytes, &every, limits), whole, "byte by byte: {}", bytes.escape_ascii());
    whole
}

fn seen(bytes: &[u8]) -> Seen {
    match read(bytes, &LIMITS) {
        Ok(Some(seen)) => seen,
        other => panic!("{other:?} for {}", bytes.escape_ascii()),
    }
}

fn with_fields(fields: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n").into_bytes()
}

/// The status of a refusal, or 200.
fn status(bytes: &[u8]) -> u16 {
    match read(bytes, &LIMITS) {
        Ok(Some(_)) => 200,
        Ok(None) => panic!("incomplete: {}", bytes.escape_ascii()),
        Err(reject) => reject.status.code(),
    }
}

fn refused(code: u16, heads: &[&[u8]]) {
    for head in heads {
        assert_eq!(status(head), code, "{}", head.escape_ascii());
    }
}

fn refused_fields(code: u16, fields: &[&str]) {
    for fields in fields {
        assert_eq!(status(&with_fields(fields)), code, "{fields:?}");
    }
}

#[test]
fn an_ordinary_request_is_read() {
    let head = b"GET /a%20b?q=1 HTTP/1.1\r\nHost: www.example.org:8080\r\nUser-Agent:x \t\r\nX-Empty:\r\nx-a: 1\r\nX-A: 2\r\n\r\nrest";
    assert_eq!(
        seen(head),
        Seen {
            method: Method::Get,
            path: b"/a%20b".to_vec(),
            host: Some(b"www.example.org".to_vec()),
            authority: Some(b"www.example.org:8080".to_vec()),
            framing: Framing::None,
            keep_alive: true,
            expect_continue: false,
        }
    );
    let length = Scan::default().advance(head, &LIMITS).unwrap().unwrap();
    assert_eq!(&head[length..], b"rest");
    let mut space = field_space();
    let request = parse(&head[..length], &mut space, &LIMITS).unwrap();
    assert_eq!(request.method_name, b"GET");
    assert_eq!(request.line, b"GET /a%20b?q=1 HTTP/1.1");
    assert_eq!(request.target, b"/a%20b?q=1");
    assert_eq!(request.query, Some(&b"q=1"[..]));
    assert_eq!(request.version, Version::Http11);
    assert_eq!(request.field("USER-AGENT"), Some(&b"x"[..]));
    assert_eq!(request.field("x-empty"), Some(&b""[..]));
    assert_eq!(request.field("absent"), None);
    assert_eq!(request.fields("x-a").collect::<Vec<_>>(), [b"1", b"2"]);
    assert!(!request.may_be_conditional());
}

#[test]
fn f01_f02_both_lengths_are_refused() {
    refused_fields(
        400,
        &[
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 4",
            "Content-Length: 0\r\nTransfer-Encoding: chunked",
        ],
    );
}

#[test]
fn f03_disguised_chunked_is_refused() {
    refused_fields(
        400,
        &[
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: \x0bchunked",
            "Transfer-Encoding: chunked\x0b",
            "Transfer-Encoding: chunked\0",
            "Transfer-Encoding: \"chunked\"",
            "Transfer-Encoding: chunked;q=1",
            "Transfer-Encoding: chunked chunked",
            "Transfer-Encoding: chunked\x0c",
            "Transfer-Encoding: chunke\u{212a}",
        ],
    );
}

#[test]
fn f04_f05_chunked_stands_once_alone() {
    refused_fields(
        400,
        &[
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: ,chunked",
            "Transfer-Encoding: chunked,",
            "Transfer-Encoding: ,",
        ],
    );
}

#[test]
fn f06_f07_other_codings() {
    refused_fields(501, &["Transfer-Encoding: gzip, chunked", "Transfer-Encoding: gzip ,\tChunked"]);
    refused_fields(
        400,
        &["Transfer-Encoding: chunked, gzip", "Transfer-Encoding: identity", "Transfer-Encoding: gzip", "Transfer-Encoding:"],
    );
    refused_fields(400, &["Transfer-Encoding:\r\nContent-Length: 5"]);
}

#[test]
fn bodies_are_framed() {
    let table = [
        ("X: y", Framing::None),
        ("Content-Length: 0", Framing::Length(0)),
        ("content-length:5", Framing::Length(5)),
        ("Content-Length: 5 ", Framing::Length(5)),
        ("Content-Length: 9223372036854775807", Framing::Length(9_223_372_036_854_775_807)),
        ("Transfer-Encoding: chunked", Framing::Chunked),
        ("TRANSFER-ENCODING: \tChunKed\t", Framing::Chunked),
        // F13: other names, whatever a CGI would make of them.
        ("Content_Length: 5", Framing::None),
        ("Transfer_Encoding: chunked", Framing::None),
        ("Content-Lengt\u{68}s: 5", Framing::None),
    ];
    for (fields, framing) in table {
        assert_eq!(seen(&with_fields(fields)).framing, framing, "{fields}");
    }
}

#[test]
fn f08_content_length_stands_once() {
    refused_fields(
        400,
        &["Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\ncontent-length: 6", "Content-Length: 5, 5", "Content-Length: 5,"],
    );
}

#[test]
fn f09_f10_f11_content_length_is_plain_digits() {
    for value in [
        "+5",
        "-5",
        "5 5",
        "0x5",
        "5_0",
        "1e1",
        "5;",
        "",
        "\u{665}",
        "5.0",
        "\"5\"",
        "18446744073709551616",
        "9223372036854775808",
        "999999999999999999999999999999",
        "00005",
        "00",
        "05",
    ] {
        refused_fields(400, &[&format!("Content-Length: {value}")]);
    }
}

#[test]
fn f12_f14_f15_white_space_around_names() {
    refused_fields(
        400,
        &[
            "Content-Length : 5",
            "Content-Length\t: 5",
            "X: a\r\n b",
            "X: a\r\n\tb",
            "Transfer-Encoding:\r\n chunked",
            "X: a\r\n ",
            " X: a",
            "X y: a",
        ],
    );
    refused(400, &[b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", b"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n"]);
}

#[test]
fn f16_f17_lines_end_with_crlf_only() {
    refused(
        400,
        &[
            b"GET / HTTP/1.1\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\n",
            b"GET / HTTP/1.1\r\nHost: a\n\n",
            b"GET /\n HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
            b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
            b"GET / HTTP/1.1\rHost: a\r\r",
            b"GET / HTTP/1.1\r\nHost: a\r\n\rX",
            b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn f16_a_bare_lf_is_refused_before_the_head_is_complete() {
    refused(400, &[b"GET / HTTP/1.1\n", b"\n", b"GET / HTTP/1.1\r\nHost: a\n", b"X\n"]);
}

#[test]
fn f18_control_bytes_in_fields() {
    for byte in 0..=255u8 {
        if matches!(byte, b'\r' | b'\n') {
            continue;
        }
        let head = [b"GET / HTTP/1.1\r\nHost: a\r\nX: a", &[byte][..], b"b\r\n\r\n"].concat();
        let allowed = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
        assert_eq!(status(&head), if allowed { 200 } else { 400 }, "value {byte:#04x}");
        if byte != b':' {
            let head = [b"GET / HTTP/1.1\r\nHost: a\r\nXa", &[byte][..], b"b: y\r\n\r\n"].concat();
            assert_eq!(status(&head), if is_token(&[byte]) { 200 } else { 400 }, "name {byte:#04x}");
        }
    }
}

#[test]
fn f19_field_lines_have_a_name() {
    refused_fields(400, &["nonsense", ": x", ":", "X\r\nY: z"]);
}

#[test]
fn f20_host_stands_once_and_is_one() {
    refused(400, &[b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nX: y\r\n\r\n", b"GET http://b/ HTTP/1.1\r\n\r\n"]);
    for host in ["a\r\nHost: a", "a\r\nhost: b", "a, b", "a,b", "a/b", "u@a", "a:99999", "[::1", "", "a b", ":80"] {
        refused(400, &[format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()]);
        refused(400, &[format!("GET http://b/ HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()]);
    }
    refused(400, &[b"GET / HTTP/1.0\r\nHost: a/b\r\n\r\n", b"GET / HTTP/1.0\r\nHost:\r\n\r\n"]);
    assert_eq!(seen(b"GET / HTTP/1.0\r\n\r\n").host, None);
    assert_eq!(seen(b"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n").host, None);
    assert_eq!(seen(b"GET / HTTP/1.1\r\nHOST: [::1]:80\r\n\r\n").host, Some(b"[::1]".to_vec()));
}

#[test]
fn f21_the_host_in_the_target_wins() {
    let seen = seen(b"GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((seen.host, seen.authority, seen.path), (Some(b"b".to_vec()), Some(b"b".to_vec()), b"/x".to_vec()));
    for (head, authority) in [
        (&b"GET http://b:81?x HTTP/1.1\r\nHost: a:80\r\n\r\n"[..], Some(&b"b:81"[..])),
        (b"OPTIONS http://b:81 HTTP/1.1\r\nHost: a\r\n\r\n", Some(b"b:81")),
        (b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", Some(b"[::1]:80")),
        (b"GET / HTTP/1.0\r\n\r\n", None),
    ] {
        assert_eq!(self::seen(head).authority.as_deref(), authority);
    }
}

#[test]
fn f22_f23_targets_and_methods() {
    for target in ["http://b:80@c/", "ftp://b/", "b/x", "*"] {
        refused(400, &[format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()]);
    }
    let options = seen(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((options.method, options.path), (Method::Options, b"*".to_vec()));
    let connect = seen(b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n");
    assert_eq!((connect.method, connect.path), (Method::Connect, Vec::new()));
    assert_eq!(seen(b"TRACE / HTTP/1.1\r\nHost: a\r\nCookie: x\r\n\r\n").method, Method::Trace);
}

#[test]
fn f24_f26_f42_the_line_is_refused_as_soon_as_it_is_there() {
    refused(400, &[b"GET /\r\n", b"GET / http/1.1\r\n", b"GET / HTTP/1\r\n", b"\r\n\r\n"]);
    refused(505, &[b"GET / HTTP/1.2\r\n", b"GET / HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]);
    assert_eq!(read(b"GET /", &LIMITS), Ok(None));
    assert_eq!(read(b"GET / HTTP/1.1\r\nHost: a\r\n", &LIMITS), Ok(None));
    assert_eq!(read(b"", &LIMITS), Ok(None));
}

#[test]
fn f25_transfer_encoding_needs_http_1_1() {
    refused(400, &[b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"]);
}

#[test]
fn f27_f28_targets_are_clean() {
    refused(
        400,
        &[
            b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /<b> HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn f38_expectations() {
    assert!(seen(&with_fields("Expect: 100-Continue\r\nContent-Length: 5")).expect_continue);
    assert!(seen(&with_fields("Expect: 100-continue\r\nTransfer-Encoding: chunked")).expect_continue);
    assert!(!seen(&with_fields("Expect: 100-continue")).expect_continue);
    assert!(!seen(&with_fields("Expect: 100-continue\r\nContent-Length: 0")).expect_continue);
    refused_fields(417, &["Expect: x", "Expect:", "Expect: 100-continue, x", "Expect: x\r\nExpect: 100-continue"]);
    refused_fields(400, &["Expect: 100-continue\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"]);
    let old = seen(b"POST / HTTP/1.0\r\nExpect: x\r\nContent-Length: 5\r\n\r\n");
    assert!(!old.expect_continue);
}

#[test]
fn connections_persist_as_the_client_says() {
    let table = [
        ("HTTP/1.1", "X: y", true),
        ("HTTP/1.1", "Connection: close", false),
        ("HTTP/1.1", "Connection: Keep-Alive, CLOSE", false),
        ("HTTP/1.1", "Connection: x\r\nConnection: \tclose ,y", false),
        ("HTTP/1.1", "Connection: closed", true),
        ("HTTP/1.1", "Connection: close, x, Content-Length, Host", false),
        ("HTTP/1.0", "X: y", false),
        ("HTTP/1.0", "Connection: keep-alive", true),
        ("HTTP/1.0", "connection: x,, Keep-Alive", true),
        ("HTTP/1.0", "Connection: keep-alive, close", false),
    ];
    for (version, fields, expected) in table {
        let head = format!("GET / {version}\r\nHost: a\r\n{fields}\r\n\r\n");
        assert_eq!(seen(head.as_bytes()).keep_alive, expected, "{head}");
    }
}

#[test]
fn one_empty_line_before_the_request_is_ignored() {
    assert_eq!(seen(b"\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n").path, b"/x");
    refused(400, &[b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"]);
    assert_eq!(first_line(b"\r\nGET / x\r\n"), b"GET / x");
    assert_eq!(first_line(b"GE"), b"GE");
    assert_eq!(first_line(b"\nX"), b"");
}

#[test]
fn p14_request_line_at_the_limit_and_beyond() {
    let limits = HeadLimits { request_line: 20, ..LIMITS };
    let line = |length: usize| format!("GET /{} HTTP/1.1", "a".repeat(length - 14)).into_bytes();
    let head = |length: usize| [&line(length)[..], b"\r\nHost: a\r\n\r\n"].concat();
    assert!(matches!(read(&head(20), &limits), Ok(Some(_))));
    assert_eq!(read(&head(21), &limits).unwrap_err().status, Status::URI_TOO_LONG);
    // Before its end has come, and whatever its end.
    assert_eq!(read(&line(20), &limits), Ok(None));
    assert_eq!(read(&line(21), &limits).unwrap_err().status, Status::URI_TOO_LONG);
    assert_eq!(read(&[&line(20)[..], b"\r"].concat(), &limits), Ok(None));
    assert_eq!(read(&[&line(21)[..], b"\n"].concat(), &limits).unwrap_err().status, Status::URI_TOO_LONG);
}

#[test]
fn h02_field_bytes_at_the_limit_and_beyond() {
    let limits = HeadLimits { header_bytes: 24, ..LIMITS };
    // "Host: a\r\n" is 9 bytes, "X: " and CRLF 5.
    let head = |length: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(length)).into_bytes();
    assert!(matches!(read(&head(10), &limits), Ok(Some(_))));
    for length in 11..20 {
        assert_eq!(read(&head(length), &limits).unwrap_err().status, Status::REQUEST_HEADER_FIELDS_TOO_LARGE, "{length}");
    }
    let endless = format!("GET / HTTP/1.1\r\n{}", "a".repeat(25));
    assert_eq!(read(endless.as_bytes(), &limits).unwrap_err().status, Status::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(read(&endless.as_bytes()[..16 + 24], &limits), Ok(None));
}

#[test]
fn h01_field_lines_at_the_limit_and_beyond() {
    let limits = HeadLimits { header_count: 5, ..LIMITS };
    let head = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1)).into_bytes();
    assert!(matches!(read(&head(5), &limits), Ok(Some(_))));
    assert_eq!(read(&head(6), &limits).unwrap_err().status, Status::REQUEST_HEADER_FIELDS_TOO_LARGE);
    // Before the head is complete.
    let open = &head(6)[..head(6).len() - 2];
    assert_eq!(read(open, &limits).unwrap_err().status, Status::REQUEST_HEADER_FIELDS_TOO_LARGE);
    // `parse` holds to it by itself, and to its own table whatever the configuration says.
    let mut space = field_space();
    assert_eq!(parse(&head(6), &mut space, &limits).unwrap_err().status, Status::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let unlimited = HeadLimits { header_count: usize::MAX, header_bytes: usize::MAX, ..LIMITS };
    let (most, beyond) = (head(FIELDS_MAX), head(FIELDS_MAX + 1));
    assert!(matches!(read_split(&most, &[], &unlimited), Ok(Some(_))));
    assert_eq!(read_split(&beyond, &[], &unlimited).unwrap_err().status, Status::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[test]
fn a_buffer_of_the_largest_head_always_gets_an_answer() {
    let limits = HeadLimits { request_line: 30, header_bytes: 40, header_count: 100 };
    let line = format!("GET /{} HTTP/1.1", "a".repeat(16));
    let head = format!("\r\n{line}\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(26));
    assert_eq!(head.len(), limits.head_max());
    assert!(matches!(read(head.as_bytes(), &limits), Ok(Some(_))));
    for byte in [b'a', b' ', b'\r', b'\n', b':', 0] {
        let buffer = vec![byte; limits.head_max()];
        assert!(read(&buffer, &limits).is_err(), "{byte}");
    }
}

#[test]
fn f39_pipelined_heads_are_found_one_by_one() {
    let one = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    let many = one.repeat(1000);
    let mut rest = &many[..];
    let mut count = 0;
    while !rest.is_empty() {
        let length = Scan::default().advance(rest, &LIMITS).unwrap().unwrap();
        assert_eq!(length, one.len());
        rest = &rest[length..];
        count += 1;
    }
    assert_eq!(count, 1000);
}

#[test]
fn f45_changed_bytes_never_panic_and_agree_however_they_are_cut() {
    let head = b"\r\nPOST /a?b HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    for at in 0..head.len() {
        for byte in 0..=255u8 {
            let mut changed = head.to_vec();
            changed[at] = byte;
            let whole = read_split(&changed, &[], &LIMITS);
            assert_eq!(read_split(&changed, &[at], &LIMITS), whole, "{}", changed.escape_ascii());
            assert_eq!(read_split(&changed, &[at + 1], &LIMITS), whole, "{}", changed.escape_ascii());
        }
        let mut shorter = head.to_vec();
        shorter.remove(at);
        let _ = read(&shorter, &LIMITS);
    }
}

#[test]
fn a_head_of_http2_has_both_lines_and_is_no_shorter() {
    let whole = b"GET /x HTTP/2.0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut space = super::field_space();
    assert!(super::parse(whole, &mut space, &LIMITS).is_ok());
    for length in 0..whole.len() {
        let mut space = super::field_space();
        assert!(super::parse(&whole[..length], &mut space, &LIMITS).is_err(), "{length}");
    }
    for other in [&b"GET /x HTTP/2.0\r\nHost: a\r\n\r\n"[..], b"GET /x HTTP/2.0\r\nPUT / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/2.0\r"]
    {
        let mut space = super::field_space();
        assert!(super::parse(other, &mut space, &LIMITS).is_err());
    }
}
