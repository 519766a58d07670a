//! Encoded answers: siblings beside a file, what is encoded on the fly, and what tells caches and clients of it.

use crate::support::{Configuration, PATIENCE, Response, Root, Server, request, wait_until};
use std::io::Read;
use std::time::Duration;

/// A style sheet of about this many bytes, of which no two lines are the same.
pub(crate) fn css(length: usize) -> String {
    (0..length / 25).map(|number| format!(".c{number:07} {{ margin: {}px }}\n", number % 9)).collect()
}

/// Bytes that nothing makes smaller.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(length)
    .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzEncoder::new(bytes, flate2::Compression::best()).read_to_end(&mut out).unwrap();
    out
}

pub(crate) fn decoded(response: &Response) -> Vec<u8> {
    let (body, mut out) = (response.body.as_slice(), Vec::new());
    match response.field("Content-Encoding") {
        None => return response.body.clone(),
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut out).unwrap(),
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_end(&mut out).unwrap(),
        Some("zstd") => zstd::stream::read::Decoder::new(body).unwrap().read_to_end(&mut out).unwrap(),
        Some(other) => panic!("encoded with {other:?}"),
    };
    out
}

fn accepting(server: &Server, target: &str, value: &str) -> Response {
    server.ask("GET", target, &[&format!("Accept-Encoding: {value}")]).must_be(&[200])
}

fn coding(server: &Server, target: &str, value: &str) -> String {
    accepting(server, target, value).field("Content-Encoding").unwrap_or("none").to_owned()
}

#[test]
fn text_is_encoded_with_what_the_client_wants_most() {
    let root = Root::with_index();
    for length in [1500, 60_000, 400_000] {
        root.file("a.css", css(length));
        let server = Server::serve(&root.path());
        // The first answer is made while it is sent, the second is the one that was kept.
        for (value, expected) in [
            ("gzip", "gzip"),
            ("br", "br"),
            ("zstd", "zstd"),
            ("gzip, deflate, br, zstd", "gzip"),
            ("gzip;q=0.5, br;q=0.8", "br"),
            ("*", "gzip"),
            ("gzip;q=0, *", "br"),
            ("gzip;q=0", "none"),
            ("identity", "none"),
            ("deflate", "none"),
            ("identity, gzip;q=0.5", "none"),
            ("", "none"),
        ] {
            for _ in 0..2 {
                let response = accepting(&server, "/a.css", value);
                assert_eq!(response.field("Content-Encoding").unwrap_or("none"), expected, "{length} {value}");
                assert!(decoded(&response) == css(length).into_bytes(), "{length} {value}");
                assert_eq!(response.field("Content-Type"), Some("text/css; charset=utf-8"));
                assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{length} {value}");
                assert!(expected == "none" || response.body.len() < length / 2);
            }
        }
    }
}

#[test]
fn what_gains_nothing_goes_as_it_is() {
    let root = Root::with_index();
    root.file("small.css", css(900));
    root.file("noise.txt", noise(50_000));
    root.file("noise-large.bin", noise(200_000));
    for name in ["a.png", "a.jpg", "a.webp", "a.woff2", "a.zip", "a.gz", "a.mp4", "a.unknown"] {
        root.file(name, css(5000));
    }
    root.file("huge.txt", css(11 << 20));
    let server = Server::serve(&root.path());
    for name in [
        "small.css",
        "noise.txt",
        "noise-large.bin",
        "a.png",
        "a.jpg",
        "a.webp",
        "a.woff2",
        "a.zip",
        "a.gz",
        "a.mp4",
        "a.unknown",
        "huge.txt",
    ] {
        for _ in 0..2 {
            assert_eq!(coding(&server, &format!("/{name}"), "gzip, br, zstd"), "none", "{name}");
        }
    }
}

#[test]
fn encoded_types_are_those_of_text_scripts_fonts_and_data() {
    let root = Root::with_index();
    let names =
        ["a.html", "a.js", "a.mjs", "a.json", "a.xml", "a.svg", "a.wasm", "a.ttf", "a.otf", "a.txt", "a.md", "a.webmanifest", "a.ico"];
    for name in names {
        root.file(name, css(5000));
    }
    let server = Server::serve(&root.path());
    for name in names {
        assert_eq!(coding(&server, &format!("/{name}"), "gzip"), "gzip", "{name}");
    }
}

/// 095
#[test]
fn vary_is_said_whatever_form_is_sent() {
    let root = Root::with_index();
    root.file("a.css", css(5000));
    let server = Server::serve(&root.path());
    let etag = server.get("/a.css").field("ETag").unwrap().to_owned();
    for (method, fields, status) in [
        ("GET", vec![], 200),
        ("GET", vec!["Accept-Encoding: gzip".to_owned()], 200),
        ("GET", vec!["Range: bytes=0-9".to_owned()], 206),
        ("GET", vec![format!("If-None-Match: {etag}")], 304),
        ("GET", vec!["Accept-Encoding: br".to_owned(), format!("If-None-Match: {etag}")], 304),
        ("HEAD", vec![], 200),
        ("HEAD", vec!["Accept-Encoding: gzip".to_owned()], 200),
    ] {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let response = server.ask(method, "/a.css", &fields).must_be(&[status]);
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{method} {fields:?}");
    }
    assert_eq!(server.get("/").field("Vary"), None);
}

/// 095
#[test]
fn a_rules_own_vary_is_merged_with_ours() {
    let root = Root::with_index();
    root.file("a.css", css(5000));
    root.file("b.css", css(5000));
    root.file("c.png", "x");
    let rules = "[[site.rule]]\npath = [\"/a.css\", \"/c.png\"]\nheader = { Vary = \"Cookie\" }\n\
                 [[site.rule]]\npath = \"/b.css\"\nheader = { Vary = \"Origin, accept-encoding\" }\n";
    let server = Server::run(&Configuration::new().site(&root.path(), rules));
    assert_eq!(accepting(&server, "/a.css", "gzip").field("Vary"), Some("Cookie, Accept-Encoding"));
    assert_eq!(accepting(&server, "/b.css", "gzip").field("Vary"), Some("Origin, accept-encoding"));
    assert_eq!(accepting(&server, "/c.png", "gzip").field("Vary"), Some("Cookie"));
}

/// 097
#[test]
fn head_says_what_get_says() {
    let root = Root::with_index();
    root.file("a.css", css(5000));
    root.file("large.css", css(300_000));
    root.file("b.css", css(3000));
    root.file("b.css.br", "not really");
    let server = Server::serve(&root.path());
    for target in ["/a.css", "/large.css", "/b.css"] {
        for value in ["gzip, br;q=0.9", "br", "identity"] {
            let field = format!("Accept-Encoding: {value}");
            for _ in 0..2 {
                let head = server.ask("HEAD", target, &[&field]).must_be(&[200]);
                let get = server.ask("GET", target, &[&field]).must_be(&[200]);
                for name in ["Content-Encoding", "Vary", "ETag", "Content-Type", "Last-Modified"] {
                    assert_eq!(head.field(name), get.field(name), "{target} {value} {name}");
                }
                if let (Some(head), Some(get)) = (head.field("Content-Length"), get.field("Content-Length")) {
                    assert_eq!(head, get, "{target} {value}");
                }
            }
        }
    }
}

#[test]
fn r07_an_encoded_answer_has_a_weak_tag_and_no_parts() {
    let root = Root::with_index();
    root.file("a.css", css(5000));
    root.file("large.css", css(300_000));
    let server = Server::serve(&root.path());
    for target in ["/a.css", "/large.css"] {
        for _ in 0..2 {
            let strong = server.get(target).field("ETag").unwrap().to_owned();
            let response = accepting(&server, target, "gzip");
            let weak = response.field("ETag").unwrap().to_owned();
            assert_eq!(weak, format!("W/{strong}"));
            assert_eq!(response.field("Accept-Ranges"), None);
            for tag in [&strong, &weak] {
                let field = format!("If-None-Match: {tag}");
                let same = server.ask("GET", target, &["Accept-Encoding: gzip", &field]).must_be(&[304]);
                assert_eq!(same.field("ETag"), Some(weak.as_str()));
                let field = format!("If-Match: {tag}");
                server.ask("GET", target, &["Accept-Encoding: gzip", &field]).must_be(&[412]);
            }
            // With Range the file as it is is chosen, and parts of it can be put together with others of it.
            let part = server.ask("GET", target, &["Accept-Encoding: gzip", "Range: bytes=0-9"]).must_be(&[206]);
            assert_eq!((part.field("Content-Encoding"), part.field("ETag")), (None, Some(strong.as_str())));
            assert_eq!(part.body, &css(5000).as_bytes()[..10]);
            let field = format!("If-Range: {weak}");
            let whole = server.ask("GET", target, &["Accept-Encoding: gzip", "Range: bytes=0-9", &field]).must_be(&[200]);
            assert_eq!(whole.field("Content-Encoding"), None);
        }
    }
}

/// More comes from the client while the worker has the first request still to look up.
#[test]
fn a_sibling_is_found_while_the_next_request_comes_in() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    for number in 0..300 {
        let name = format!("{number}.css");
        root.file(&name, "plain");
        root.file(format!("{name}.gz"), "encoded");
        client.send(request("GET", format!("/{name}"), &["Accept-Encoding: gzip"]));
        client.send(request("GET", "/", &[]));
        assert_eq!(client.response("GET").must_be(&[200]).text(), "encoded", "{number}");
        client.response("GET").must_be(&[200]);
    }
}

/// What a client that takes only the file itself makes the worker know of it is not kept from the others, and even its answer,
/// the first of all, says that there are several.
#[test]
fn who_takes_no_coding_hides_no_sibling_from_others() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    for number in 0..20 {
        let name = format!("/{number}.css");
        root.file(&name[1..], "plain");
        root.file(format!("{}.gz", &name[1..]), "encoded");
        for _ in 0..2 {
            let plain = server.get(&name).must_be(&[200]);
            assert_eq!((plain.text().as_str(), plain.field("Vary")), ("plain", Some("Accept-Encoding")));
            assert_eq!(accepting(&server, &name, "gzip").text(), "encoded");
        }
    }
}

/// 098
#[test]
fn a_sibling_is_sent_as_it_is() {
    let root = Root::with_index();
    let stored = gzip(css(4000).as_bytes());
    root.file("app.css", css(4000));
    root.file("app.css.gz", &stored);
    root.file("app.css.br", "brotli");
    root.file("data.bin", "plain");
    root.file("data.bin.zst", "z");
    let server = Server::serve(&root.path());
    for _ in 0..2 {
        let response = accepting(&server, "/app.css", "gzip");
        assert_eq!(response.field("Content-Encoding"), Some("gzip"));
        assert_eq!(response.field("Content-Type"), Some("text/css; charset=utf-8"));
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
        assert_eq!(response.length(), stored.len() as u64);
        assert!(response.body == stored);
        // Smallest first, where the client wants both the same; its own weights count more.
        assert_eq!(accepting(&server, "/app.css", "gzip, br").text(), "brotli");
        assert_eq!(coding(&server, "/app.css", "gzip, br;q=0.9"), "gzip");
        assert_eq!(coding(&server, "/app.css", "zstd, gzip;q=0.1"), "zstd");
        let data = accepting(&server, "/data.bin", "zstd");
        assert_eq!((data.field("Content-Type"), data.text().as_str()), (Some("application/octet-stream"), "z"));
        assert_eq!(server.get("/data.bin").field("Vary"), Some("Accept-Encoding"));
    }
    // By its own name it is what it is.
    let itself = accepting(&server, "/app.css.gz", "gzip");
    assert_eq!((itself.field("Content-Type"), itself.field("Content-Encoding")), (Some("application/gzip"), None));
}

#[test]
fn a_sibling_has_a_strong_tag_of_its_own_and_parts() {
    let root = Root::with_index();
    root.file("a.css", css(4000));
    root.file("a.css.br", "0123456789");
    let server = Server::serve(&root.path());
    let plain = server.get("/a.css").field("ETag").unwrap().to_owned();
    let etag = accepting(&server, "/a.css", "br").field("ETag").unwrap().to_owned();
    assert!(etag != plain && etag.starts_with('"'), "{etag} {plain}");
    let field = format!("If-None-Match: {etag}");
    server.ask("GET", "/a.css", &["Accept-Encoding: br", &field]).must_be(&[304]);
    server.ask("GET", "/a.css", &[&field]).must_be(&[200]);
    let field = format!("If-Range: {etag}");
    let part = server.ask("GET", "/a.css", &["Accept-Encoding: br", "Range: bytes=2-4", &field]).must_be(&[206]);
    assert_eq!((part.text().as_str(), part.field("Content-Range")), ("234", Some("bytes 2-4/10")));
    assert_eq!((part.field("Content-Encoding"), part.field("Vary")), (Some("br"), Some("Accept-Encoding")));
    server.ask("GET", "/a.css", &["Range: bytes=2-4", &field]).must_be(&[200]);
}

#[test]
fn a_sibling_that_is_older_or_empty_or_no_file_is_not_used() {
    let root = Root::with_index();
    let old = std::time::SystemTime::now() - Duration::from_secs(100);
    for name in ["old", "empty", "directory", "denied", "hidden", "same"] {
        root.file(format!("{name}.css"), css(200));
    }
    let set = |name: &str, time| std::fs::File::options().append(true).open(root.at(name)).unwrap().set_modified(time).unwrap();
    root.file("old.css.gz", "old");
    root.file("empty.css.gz", "");
    root.file("directory.css.gz/x", "");
    root.file("denied.css.gz", "denied");
    root.file("hidden.css.gz", "hidden");
    root.file("same.css.gz", "same");
    set("old.css.gz", old);
    // What copies times loses the fraction of the second.
    let whole = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    set("same.css", whole + Duration::from_millis(900));
    set("same.css.gz", whole);
    let site = "hidden = [\"hidden.css.*\"]\n[[site.rule]]\npath = \"/denied.css.gz\"\ndeny = \"127.0.0.0/8\"\n";
    let server = Server::run(&Configuration::new().site(&root.path(), site));
    for name in ["old", "empty", "directory", "denied", "hidden"] {
        assert_eq!(coding(&server, &format!("/{name}.css"), "gzip"), "none", "{name}");
    }
    assert_eq!(accepting(&server, "/same.css", "gzip").text(), "same");
}

#[test]
fn a_sibling_that_comes_or_goes_is_noticed() {
    let root = Root::with_index();
    root.file("a.css", css(200));
    let server = Server::serve(&root.path());
    assert_eq!(coding(&server, "/a.css", "gzip"), "none");
    root.file("a.css.gz", "one");
    let is = |text: &str| wait_until(PATIENCE, || accepting(&server, "/a.css", "gzip").text() == text).is_some();
    assert!(is("one"));
    root.file("a.css.gz", "two!");
    assert!(is("two!"));
    std::fs::remove_file(root.at("a.css.gz")).unwrap();
    assert!(is(&css(200)));
}

#[test]
fn an_index_file_and_an_alias_have_siblings_and_encoded_forms_too() {
    let root = Root::with_index();
    root.file("d/index.html", css(4000));
    root.file("d/index.html.br", "index");
    root.file("else/a.css", css(4000));
    root.file("else/b.css", css(4000));
    root.file("else/b.css.gz", "sibling");
    let rules = format!("[[site.rule]]\npath = \"/x/*\"\nalias = {:?}\n", root.at("else").to_str().unwrap());
    let server = Server::run(&Configuration::new().site(&root.path(), &rules));
    for _ in 0..2 {
        assert_eq!(accepting(&server, "/d/", "br").text(), "index");
        let response = accepting(&server, "/x/a.css", "gzip");
        assert!(decoded(&response) == css(4000).into_bytes());
        // Kept, so that its length is known.
        assert_eq!(response.length(), response.body.len() as u64);
        assert_eq!(accepting(&server, "/x/b.css", "gzip").text(), "sibling");
    }
}

#[test]
fn compress_says_which_codings_there_are_and_in_which_order() {
    let root = Root::with_index();
    root.file("a.css", css(4000));
    root.file("b.css", css(4000));
    root.file("c.css", css(4000));
    root.file("c.css.gz", "sibling");
    let site = "compress = [\"zstd\", \"gzip\"]\n[[site.rule]]\npath = \"/b.css\"\ncompress = []\n[[site.rule]]\npath = \"/c.css\"\ncompress = [\"br\"]\n";
    let server = Server::run(&Configuration::new().site(&root.path(), site));
    assert_eq!(coding(&server, "/a.css", "gzip, br, zstd"), "zstd");
    assert_eq!(coding(&server, "/a.css", "gzip, br"), "gzip");
    assert_eq!(coding(&server, "/a.css", "br"), "none");
    assert_eq!(coding(&server, "/b.css", "gzip, br, zstd"), "none");
    assert_eq!(server.get("/b.css").field("Vary"), None);
    assert_eq!(coding(&server, "/c.css", "gzip"), "none");
    assert_eq!(coding(&server, "/c.css", "gzip, br"), "br");
}

#[test]
fn what_a_rule_says_is_encoded_is_not_encoded_again() {
    let root = Root::with_index();
    root.file("a.css", gzip(css(400_000).as_bytes()));
    root.file("b.svgz", gzip(css(4000).as_bytes()));
    let rules = "[[site.rule]]\npath = \"/a.css\"\nheader = { Content-Encoding = \"gzip\" }\n";
    let server = Server::run(&Configuration::new().site(&root.path(), rules));
    let response = accepting(&server, "/a.css", "gzip, br");
    assert!(decoded(&response) == css(400_000).into_bytes());
    let response = accepting(&server, "/b.svgz", "gzip, br");
    assert_eq!(response.field("Content-Type"), Some("image/svg+xml"));
    assert!(decoded(&response) == css(4000).into_bytes());
}

#[test]
fn http_1_0_gets_an_encoded_stream_that_ends_with_the_connection() {
    let root = Root::with_index();
    root.file("large.css", css(300_000));
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    client.send("GET /large.css HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.head().unwrap();
    assert_eq!((head.field("Content-Encoding"), head.field("Transfer-Encoding")), (Some("gzip"), None));
    assert_eq!((head.field("Content-Length"), head.closes()), (None, true));
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(client.rest().unwrap().as_slice()).read_to_end(&mut out).unwrap();
    assert!(out == css(300_000).into_bytes());
}

#[test]
fn the_access_log_counts_what_was_sent() {
    let root = Root::with_index();
    root.file("a.css", css(300_000));
    let server =
        Server::run(&Configuration::new().server_also("workers = 1").log("access = \"stderr\"\nerror = \"stderr\"").site(&root.path(), ""));
    let first = accepting(&server, "/a.css", "gzip");
    assert_eq!(first.field("Transfer-Encoding"), Some("chunked"));
    let second = accepting(&server, "/a.css", "gzip");
    assert_eq!(second.length(), second.body.len() as u64);
    let lines = server.wait_for_access_lines(2);
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.bytes == first.body.len() as u64), "{lines:?} {}", first.body.len());
}

/// What is being encoded for slow clients holds a bounded number of encoders; the others get the file as it is, and are not kept waiting.
#[test]
fn s14_slow_clients_of_files_being_encoded_do_not_stop_others() {
    let root = Root::with_index();
    root.file("big.json", [css(1 << 20).into_bytes(), noise(6 << 20)].concat());
    let server = Server::run(&Configuration::new().server_also("workers = 1").site(&root.path(), ""));
    let slow: Vec<_> = (0..12)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /big.json HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
            client.head().unwrap()
        })
        .collect();
    let encoded = slow.iter().filter(|head| head.field("Content-Encoding").is_some()).count();
    // A client whose answer fits the buffers of its socket gives its encoder back.
    assert!((8..12).contains(&encoded), "{encoded}");
    for _ in 0..20 {
        server.get("/").must_be(&[200]);
    }
}
