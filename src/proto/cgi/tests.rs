//! Heads right and wrong, whole and byte by byte.

use super::*;

/// Status, length, fields for the client, and what follows the head.
type Read = (u16, Option<u64>, Vec<(String, String)>, Vec<u8>);

fn text(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn read_whole(bytes: &[u8]) -> Result<Option<Read>, &'static str> {
    let Some(length) = Scan::default().advance(bytes).map_err(|fault| fault.why)? else { return Ok(None) };
    let mut scan = Scan::default();
    for end in 0..length {
        assert_eq!(scan.advance(&bytes[..end]), Ok(None), "{end} of {}", bytes.escape_ascii());
    }
    assert_eq!(scan.advance(bytes), Ok(Some(length)), "{}", bytes.escape_ascii());
    let head = parse(&bytes[..length]).map_err(|fault| fault.why)?;
    let fields = head.fields().map(|(name, value)| (name.to_owned(), text(value))).collect();
    Ok(Some((head.status.code(), head.content_length, fields, bytes[length..].to_vec())))
}

/// The same with LF and with CRLF.
#[track_caller]
fn read(lines: &str) -> Result<Read, &'static str> {
    let lf = read_whole(lines.as_bytes());
    let crlf = read_whole(lines.replace('\n', "\r\n").as_bytes());
    assert_eq!(
        lf.clone().map(|read| read.map(|read| (read.0, read.1, read.2))),
        crlf.map(|read| read.map(|read| (read.0, read.1, read.2)))
    );
    lf.map(|read| read.expect("the head is complete"))
}

#[track_caller]
fn refused(lines: &str, why: &str) {
    assert_eq!(read(lines).map(|_| ()), Err(why), "{}", lines.escape_debug());
}

#[track_caller]
fn raw_refused(bytes: impl AsRef<[u8]>, why: &str) {
    let bytes = bytes.as_ref();
    assert_eq!(read_whole(bytes).map(|_| ()), Err(why), "{}", bytes[..bytes.len().min(200)].escape_ascii());
}

/// The names of the fields for the client.
#[track_caller]
fn names(lines: &str) -> Vec<String> {
    read(lines).unwrap().2.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_head_ends_at_its_empty_line_whatever_ends_its_lines() {
    let (status, length, fields, rest) = read_whole(b"Content-Type: text/plain\nX-A:  b \t\r\n\nbody\n\n").unwrap().unwrap();
    assert_eq!((status, length, rest.as_slice()), (200, None, b"body\n\n".as_slice()));
    assert_eq!(fields, [("Content-Type".to_owned(), "text/plain".to_owned()), ("X-A".to_owned(), "b".to_owned())]);
    assert_eq!(read_whole(b"Content-Type: text/plain\r\n\r"), Ok(None));
    assert_eq!(read_whole(b"Content-Type: text/plain\n"), Ok(None));
    assert_eq!(read_whole(b""), Ok(None));
}

#[test]
fn statuses_are_the_programs_and_phrases_are_not() {
    for (lines, status) in [
        ("Content-Type: a/b\n\n", 200),
        ("Status: 404\n\n", 404),
        ("Status: 404 Not Found\n\n", 404),
        ("status:599 \n\n", 599),
        ("Status: 200 anything: at all\n\n", 200),
        ("Location: /a\n\n", 302),
        ("Location: http://b/\n\n", 302),
        ("Status: 201 Created\nLocation: /a\n\n", 201),
        ("Location: //evil\nStatus: 301\n\n", 301),
    ] {
        assert_eq!(read(lines).map(|read| read.0), Ok(status), "{lines:?}");
    }
    assert_eq!(read("Location: //evil\n\n").unwrap().2, [("Location".to_owned(), "//evil".to_owned())]);
}

#[test]
fn b09_statuses_that_are_none_are_refused() {
    for value in ["99", "1000", "abc", "", "2 00", "20", "200OK", "+20", "-20", "200\tOK", "0x1", "\u{662}00"] {
        refused(&format!("Status: {value}\n\n"), "malformed Status");
    }
    for value in ["000", "099", "600", "999"] {
        refused(&format!("Status: {value}\n\n"), "Status that is not final");
    }
    refused("Status: 200\0\n\n", "byte in a field value that is not allowed");
    refused("Status: 200\nstatus: 200\n\n", "more than one Status");
    raw_refused(b"Status: 200 OK\rX: y\n\n", "byte in a field value that is not allowed");
}

#[test]
fn b10_statuses_that_are_not_final_are_refused() {
    for code in [100, 101, 103, 199] {
        refused(&format!("Status: {code}\n\n"), "Status that is not final");
    }
}

#[test]
fn b08_lengths_are_one_number() {
    assert_eq!(read("Content-Length: 5\n\n").unwrap().1, Some(5));
    assert_eq!(read("Content-Length: 9223372036854775807\n\n").unwrap().1, Some(i64::MAX.unsigned_abs()));
    for value in ["abc", "-1", "+1", "", "5, 5", "5 5", "0x5", "9223372036854775808", "18446744073709551616", "1e1"] {
        refused(&format!("Content-Length: {value}\n\n"), "malformed Content-Length");
    }
    refused("Content-Length: 5\nContent-Length: 5\n\n", "more than one Content-Length");
    refused("Content-Length: 5\nTransfer-Encoding: chunked\n\n", "both Transfer-Encoding and Content-Length");
    assert_eq!(names("Content-Type: a/b\nTransfer-Encoding: chunked\n\n"), ["Content-Type"]);
}

#[test]
fn b12_lines_that_are_no_fields_are_refused() {
    for line in ["no colon", "HTTP/1.1 200 OK", "<html>"] {
        refused(&format!("A: b\n{line}\n\n"), "line of the head without a colon");
    }
    for line in [": x", "a b: c", "a : c", " a: b", "\tfolded: b", "a\u{e9}: b", "a\0: b", "HTTP/1.1 200 OK: x"] {
        refused(&format!("A: b\n{line}\n\n"), "malformed field name");
    }
    for byte in ["\0", "\u{1}", "\u{b}", "\u{1b}", "\u{7f}", "\r"] {
        raw_refused(format!("A: b{byte}c\n\n"), "byte in a field value that is not allowed");
    }
    raw_refused(b"A: b\r\r\n\r\n", "byte in a field value that is not allowed");
    refused("\nbody\n\n", "head without a field");
    // A tab, and bytes above 0x7f, are text.
    assert_eq!(read("A: b\tc\u{e9}\n\n").unwrap().2.len(), 1);
}

#[test]
fn b14_the_file_that_is_wished_for_is_never_told_to_the_client() {
    let lines = "X-Sendfile: /etc/passwd\nX-Sendfile2: /a\nx-accel-redirect: /b\nX-Accel-Expires: 1\nX-LIGHTTPD-send-tempfile: /c\n\
                 X-Reproxy-URL: http://d\nX-Send: e\nX-Accelerate: f\n\n";
    assert_eq!(names(lines), ["X-Send", "X-Accelerate"]);
    assert_eq!(parse(lines.as_bytes()).unwrap().sendfile, Some(b"/etc/passwd".as_slice()));
    assert_eq!(parse(b"X-LIGHTTPD-send-file: /a\n\n").unwrap().sendfile, Some(b"/a".as_slice()));
    refused("X-LIGHTTPD-send-file: /a\nX-Sendfile: /a\n\n", "more than one X-Sendfile");
    for (value, buffering) in [("no", Some(false)), ("No", Some(false)), ("yes", Some(true))] {
        assert_eq!(parse(format!("X-Accel-Buffering: {value}\n\n").as_bytes()).unwrap().buffering, buffering);
    }
}

#[test]
fn b15_fields_about_the_connection_and_our_own_are_left_out() {
    let lines = "Connection: keep-alive, X-Hop\nKeep-Alive: timeout=5\nTransfer-Encoding: chunked\nTE: trailers\nTrailer: X\nUpgrade: h2c\n\
                 Proxy-Connection: close\nProxy-Authenticate: Basic\nDate: now\nServer: other\nStatus: 200\nX-HOP: 1\nX-Test: 1\n\n";
    assert_eq!(names(lines), ["X-Test"]);
    let listed = |count: usize, value: &str| format!("Connection: {value}\n").repeat(count) + "A: b\n\n";
    assert!(read(&listed(4, &"x".repeat(256))).is_ok());
    refused(&listed(5, "x"), "Connection beyond the limit");
    refused(&listed(1, &"x".repeat(257)), "Connection beyond the limit");
}

#[test]
fn b16_heads_have_limits() {
    let lines = |count: usize| "A: b\n".repeat(count) + "\n";
    assert!(read(&lines(LINES_MAX)).is_ok());
    refused(&lines(LINES_MAX + 1), "more lines in the head than the limit");
    let long = |bytes: usize| format!("A: {}\n\n", "b".repeat(bytes - 5));
    assert!(read_whole(long(HEAD_MAX).as_bytes()).is_ok());
    raw_refused(long(HEAD_MAX + 1), "head beyond the limit");
    // Without an end too.
    assert_eq!(Scan::default().advance(&vec![b'a'; HEAD_MAX]), Ok(None));
    assert!(Scan::default().advance(&vec![b'a'; HEAD_MAX + 1]).is_err());
}

#[test]
fn several_cookies_stay_several() {
    let lines = "Set-Cookie: a=1; Expires=Thu, 01 Jan 2032 00:00:00 GMT\nContent-Type: text/html\nSet-Cookie: b=2\n\n";
    assert_eq!(names(lines), ["Set-Cookie", "Content-Type", "Set-Cookie"]);
    assert_eq!(parse(lines.as_bytes()).unwrap().field("content-type"), Some(b"text/html".as_slice()));
    for name in ["Content-Type", "Location"] {
        refused(&format!("{name}: a\n{name}: a\n\n"), &format!("more than one {name}"));
    }
}
