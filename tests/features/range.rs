//! Range requests (RFC 9110 section 14): single ranges; several at once give the whole file.

use crate::support::{Root, Server};

const BODY: &str = "0123456789abcdefghij";

fn site() -> (Root, Server) {
    let root = Root::with_index();
    root.file("a.txt", BODY);
    root.file("empty.txt", "");
    let server = Server::serve(&root.path());
    (root, server)
}

#[test]
fn single_ranges_give_their_bytes() {
    let (_root, server) = site();
    let table = [
        ("bytes=0-0", "0", "bytes 0-0/20"),
        ("bytes=0-9", "0123456789", "bytes 0-9/20"),
        ("bytes=10-", "abcdefghij", "bytes 10-19/20"),
        ("bytes=19-", "j", "bytes 19-19/20"),
        ("bytes=-1", "j", "bytes 19-19/20"),
        ("bytes=-20", BODY, "bytes 0-19/20"),
        // Section 14.1.2: longer than the file is the file; an end beyond the end is the end.
        ("bytes=-999", BODY, "bytes 0-19/20"),
        ("bytes=15-99999", "fghij", "bytes 15-19/20"),
        ("bytes=0-18446744073709551615", BODY, "bytes 0-19/20"),
        ("BYTES=5-6", "56", "bytes 5-6/20"),
    ];
    for (range, body, content_range) in table {
        let response = server.ask("GET", "/a.txt", &[&format!("Range: {range}")]).must_be(&[206]);
        assert_eq!((response.text().as_str(), response.field("Content-Range")), (body, Some(content_range)), "{range}");
        assert_eq!(response.length(), body.len() as u64, "{range}");
    }
}

#[test]
fn a_range_beyond_the_end_gives_416_and_the_length() {
    let (_root, server) = site();
    for (file, range, right) in [
        ("/a.txt", "bytes=20-", "bytes */20"),
        ("/a.txt", "bytes=20-25", "bytes */20"),
        ("/a.txt", "bytes=9223372036854775807-", "bytes */20"),
        // R05
        ("/empty.txt", "bytes=0-0", "bytes */0"),
        ("/empty.txt", "bytes=0-", "bytes */0"),
    ] {
        let response = server.ask("GET", file, &[&format!("Range: {range}")]).must_be(&[416]);
        assert_eq!(response.field("Content-Range"), Some(right), "{file} {range}");
    }
}

#[test]
fn what_is_no_range_is_ignored_or_416() {
    let (_root, server) = site();
    let workers = server.workers();
    // R03, R04, R08
    for range in [
        "bytes=-0",
        "bytes=5-4",
        "bytes=-",
        "bytes=a-b",
        "bytes=0--1",
        "bytes=",
        "bytes",
        "=0-1",
        "lines=0-1",
        "bytes 0-1",
        "bytes=0-1 2",
        "bytes=+1-2",
        "bytes=0x0-1",
        "bytes=-9223372036854775608",
        "bytes=-18446744073709551616",
        "bytes=18446744073709551615-",
        "bytes=18446744073709551616-",
        "bytes=99999999999999999999999999999999-",
        "bytes=0-0,x",
    ] {
        let response = server.ask("GET", "/a.txt", &[&format!("Range: {range}")]).must_be(&[200, 206, 416]);
        match response.status {
            200 => assert_eq!(response.text(), BODY, "{range}"),
            // A suffix longer than the file, however written, may mean the whole of it.
            206 => assert!(range.starts_with("bytes=-9") || range.starts_with("bytes=-1"), "{range} gave 206"),
            _ => assert_eq!(response.field("Content-Range"), Some("bytes */20"), "{range}"),
        }
    }
    server.must_be_well(&workers, "odd ranges");
}

#[test]
fn many_ranges_never_give_more_than_the_file() {
    let (_root, server) = site();
    let workers = server.workers();
    // R01, R02
    let floods = [
        vec!["0-"; 1300].join(","),
        (0..200).map(|at| format!("{}-{}", at % 7, at % 7 + 3)).collect::<Vec<_>>().join(","),
        "0-1,5-6".to_owned(),
    ];
    for ranges in floods {
        let response = server.ask("GET", "/a.txt", &[&format!("Range: bytes={ranges}")]).must_be(&[200, 416]);
        assert!(response.status == 416 || response.text() == BODY);
    }
    server.must_be_well(&workers, "many ranges");
}

#[test]
fn if_range_decides_whether_the_range_counts() {
    let (_root, server) = site();
    let whole = server.get("/a.txt");
    let etag = whole.field("ETag").unwrap();
    // R07; section 13.1.5: only a strong validator may match.
    let same = server.ask("GET", "/a.txt", &["Range: bytes=0-1", &format!("If-Range: {etag}")]);
    assert_eq!(same.status, if etag.starts_with("W/") { 200 } else { 206 });
    server.ask("GET", "/a.txt", &["Range: bytes=0-1", "If-Range: \"old\""]).must_be(&[200]);
    server.ask("GET", "/a.txt", &["Range: bytes=0-1", &format!("If-Range: W/{}", etag.trim_start_matches("W/"))]).must_be(&[200]);
    server.ask("GET", "/a.txt", &["Range: bytes=0-1", "If-Range: Sun, 06 Nov 1994 08:49:37 GMT"]).must_be(&[200]);
    server.ask("GET", "/a.txt", &["Range: bytes=50-", "If-Range: \"old\""]).must_be(&[200]);
}

#[test]
fn ranges_are_for_get_only_and_come_after_preconditions() {
    let (_root, server) = site();
    // Section 14.2: a range on any other method is ignored.
    let head = server.ask("HEAD", "/a.txt", &["Range: bytes=0-1"]).must_be(&[200]);
    assert_eq!(head.length(), 20);
    let etag = server.get("/a.txt").field("ETag").unwrap().to_owned();
    server.ask("GET", "/a.txt", &["Range: bytes=0-1", &format!("If-None-Match: {etag}")]).must_be(&[304]);
    server.ask("GET", "/none.txt", &["Range: bytes=0-1"]).must_be(&[404]);
}
