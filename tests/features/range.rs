//! Range requests (RFC 9110 section 14): single ranges, and several as `multipart/byteranges`.

use crate::support::{Configuration, Response, Root, Server, pattern, request};

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
fn r05_a_range_beyond_the_end_gives_416_and_the_length() {
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
fn r03_r04_r08_what_is_no_range_is_ignored_or_416() {
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

/// The parts of a multipart response, each with its `Content-Range`, read strictly.
fn parts(response: &Response) -> Vec<(String, Vec<u8>)> {
    let boundary = response.field("Content-Type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut rest = response.body.strip_suffix(format!("\r\n--{boundary}--\r\n").as_bytes()).expect("the last boundary ends the body");
    let mut found = Vec::new();
    while !rest.is_empty() {
        rest = rest
            .strip_prefix(format!("\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes ").as_bytes())
            .expect("a boundary and the part's head");
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let range = std::str::from_utf8(&rest[..end]).unwrap().to_owned();
        let (first, last) = range.split_once('/').unwrap().0.split_once('-').unwrap();
        let length = last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap();
        found.push((range, rest[end + 4..end + 4 + length].to_vec()));
        rest = &rest[end + 4 + length..];
    }
    found
}

#[test]
fn several_ranges_give_several_parts() {
    let root = Root::with_index();
    root.file("a.txt", BODY);
    // In memory, and in a file that is sent from its descriptor.
    let (middle, large) = (pattern(60_000), pattern(3_000_000));
    root.file("middle.txt", &middle);
    root.file("large.txt", &large);
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    for (target, content) in [("/a.txt", BODY.as_bytes()), ("/middle.txt", &middle), ("/large.txt", &large)] {
        let length = content.len();
        let far = length / 2 + 5..length - 2;
        let ranges = [0..1, 3..5, 7..9, far.clone()];
        let asked: Vec<String> = ranges.iter().map(|range| format!("{}-{}", range.start, range.end - 1)).collect();
        client.send(request("GET", target, &[&format!("Range: bytes={},{length}-", asked.join(", "))]));
        let response = client.response("GET").must_be(&[206]);
        assert_eq!(response.field("Content-Range"), None);
        assert_eq!(response.length(), response.body.len() as u64);
        let expected: Vec<_> =
            ranges.iter().zip(&asked).map(|(range, asked)| (format!("{asked}/{length}"), content[range.clone()].to_vec())).collect();
        assert!(parts(&response) == expected, "{target}");
        // The connection goes on where the response ended.
        client.send(request("GET", target, &["Range: bytes=0-0,2-2"]));
        assert_eq!(parts(&client.response("GET").must_be(&[206])).len(), 2);
    }
    // HEAD has no ranges.
    client.send(request("HEAD", "/a.txt", &["Range: bytes=0-0,2-2"]));
    assert_eq!(client.response("HEAD").must_be(&[200]).length(), 20);
}

#[test]
fn r01_r02_many_ranges_never_give_more_than_the_file() {
    let (_root, server) = site();
    let workers = server.workers();
    let whole = |ranges: String| {
        let response = server.ask("GET", "/a.txt", &[&format!("Range: bytes={ranges}")]).must_be(&[200, 206, 416]);
        assert!(response.status == 416 || response.text() == BODY, "{ranges}");
    };
    whole(vec!["0-"; 1300].join(","));
    whole(vec!["0-"; 30].join(","));
    whole((0..200).map(|at| format!("{}-{}", at % 7, at % 7 + 3)).collect::<Vec<_>>().join(","));
    whole((0..200).map(|at| format!("{0}-{0}", at % 20)).collect::<Vec<_>>().join(","));
    whole("10-,0-4,3-12".to_owned());
    // At the limit of ranges in one field, and one beyond.
    let at = |count: usize| {
        server.ask(
            "GET",
            "/a.txt",
            &[&format!("Range: bytes={}", vec!["0-0,5-5"; count / 2].join(",") + if count % 2 == 1 { ",9-9" } else { "" })],
        )
    };
    assert_eq!(parts(&at(32).must_be(&[206])).len(), 2);
    at(33).must_be(&[200]);
    server.must_be_well(&workers, "many ranges");
}

#[test]
fn r06_a_boundary_comes_once() {
    let (_root, server) = site();
    let boundary = || server.ask("GET", "/a.txt", &["Range: bytes=0-0,2-2"]).must_be(&[206]).field("Content-Type").unwrap().to_owned();
    let all: std::collections::HashSet<String> = (0..20).map(|_| boundary()).collect();
    assert_eq!(all.len(), 20);
}

#[test]
fn several_range_lines_count_for_nothing() {
    let (_root, server) = site();
    server.ask("GET", "/a.txt", &["Range: bytes=0-0", "Range: bytes=2-2"]).must_be(&[200]);
}

#[test]
fn parts_keep_what_rules_say_and_a_type_of_its_own_keeps_the_file_whole() {
    let root = Root::with_index();
    root.file("a.txt", BODY);
    let rules = "name = [\"\"]\n[[site.rule]]\nheader = { X-Set = \"yes\" }\n[[site.rule]]\nmethod = [\"GET\"]\nrequest_header = { X-Type = \"*\" }\nheader = { Content-Type = \"x/y\" }\n";
    let server = Server::run(&Configuration::new().site(&root.path(), rules));
    let response = server.ask("GET", "/a.txt", &["Range: bytes=0-0,2-2"]).must_be(&[206]);
    assert_eq!((response.field("X-Set"), parts(&response).len()), (Some("yes"), 2));
    assert_eq!(server.ask("GET", "/a.txt", &["X-Type: 1", "Range: bytes=0-0,2-2"]).must_be(&[200]).text(), BODY);
}

#[test]
fn r07_if_range_decides_whether_the_range_counts() {
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
fn r07_ranges_are_for_get_only_and_come_after_preconditions() {
    let (_root, server) = site();
    // Section 14.2: a range on any other method is ignored.
    let head = server.ask("HEAD", "/a.txt", &["Range: bytes=0-1"]).must_be(&[200]);
    assert_eq!(head.length(), 20);
    let etag = server.get("/a.txt").field("ETag").unwrap().to_owned();
    server.ask("GET", "/a.txt", &["Range: bytes=0-1", &format!("If-None-Match: {etag}")]).must_be(&[304]);
    server.ask("GET", "/none.txt", &["Range: bytes=0-1"]).must_be(&[404]);
}
