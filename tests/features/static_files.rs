//! Files and directories: what GET and HEAD give.

use crate::support::{Root, Server, pattern, request};

#[test]
fn get_gives_the_bytes_of_the_file() {
    let root = Root::with_index();
    root.file("a.txt", "hello\n");
    let server = Server::serve(&root.path());
    let response = server.get("/a.txt").must_be(&[200]);
    assert_eq!(response.body, b"hello\n");
    assert_eq!(response.length(), 6);
    assert_eq!(response.field("Server"), Some("anchorite"), "never a version");
    assert!(response.field("ETag").is_some() && response.field("Last-Modified").is_some());
    assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
}

#[test]
fn head_has_the_fields_of_get_and_no_body() {
    let root = Root::with_index();
    root.file("a.txt", "hello\n");
    let server = Server::serve(&root.path());
    let get = server.get("/a.txt").must_be(&[200]);
    let head = server.head("/a.txt").must_be(&[200]);
    for name in ["Content-Length", "Content-Type", "ETag", "Last-Modified", "Accept-Ranges"] {
        assert_eq!(get.field(name), head.field(name), "{name}");
    }
    assert_eq!(head.length(), 6);
    // RFC 9110 section 9.3.2: also where there is no such file.
    let missing = server.head("/none").must_be(&[404]);
    assert_eq!(missing.length(), server.get("/none").length());
}

#[test]
fn sizes_around_every_border_are_exact() {
    let root = Root::with_index();
    let sizes = [0, 1, 1023, 1024, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, 2 * 1024 * 1024];
    for size in sizes {
        root.file(format!("{size}.bin"), pattern(size));
    }
    let server = Server::serve(&root.path());
    let mut kept = server.connect();
    // Twice: the second time it comes from whatever the server remembers. Once on a connection of its own, once on a kept one.
    for round in 0..2 {
        for size in sizes {
            let target = format!("/{size}.bin");
            let response = server.get(&target).must_be(&[200]);
            assert_eq!(response.length(), size as u64);
            assert!(response.body == pattern(size), "{size} bytes, round {round}, new connection");
            kept.send(request("GET", &target, &[]));
            assert!(kept.response("GET").must_be(&[200]).body == pattern(size), "{size} bytes, round {round}, kept connection");
        }
    }
}

#[test]
fn a_file_that_changed_is_sent_as_it_is_now() {
    let root = Root::with_index();
    root.file("a.txt", "old");
    let server = Server::serve(&root.path());
    let first = server.get("/a.txt").must_be(&[200]);
    assert_eq!(first.text(), "old");
    // Both ways of changing a file: in place, and by a rename over it.
    root.file("a.txt", "new and longer");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let second = server.get("/a.txt").must_be(&[200]);
    assert_eq!(second.text(), "new and longer");
    assert_ne!(first.field("ETag"), second.field("ETag"));
    let fresh = root.file("fresh", "third");
    std::fs::rename(fresh, root.at("a.txt")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let third = server.get("/a.txt").must_be(&[200]);
    assert_eq!(third.text(), "third");
    assert_ne!(second.field("ETag"), third.field("ETag"));
    std::fs::remove_file(root.at("a.txt")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    server.get("/a.txt").must_be(&[404]);
}

#[test]
fn a_directory_gives_its_index() {
    let root = Root::with_index();
    root.file("dir/index.html", "inner");
    let server = Server::serve(&root.path());
    assert_eq!(server.get("/").must_be(&[200]).text(), "index\n");
    let inner = server.get("/dir/").must_be(&[200]);
    assert_eq!(inner.text(), "inner");
    assert!(inner.field("Content-Type").unwrap().starts_with("text/html"));
}

#[test]
fn a_directory_without_slash_redirects_and_keeps_the_query() {
    let root = Root::with_index();
    root.file("dir/index.html", "inner");
    root.file("a b%c/index.html", "inner");
    let server = Server::serve(&root.path());
    for (target, right) in
        [("/dir", "/dir/"), ("/dir?a=1&b=/c?d", "/dir/?a=1&b=/c?d"), ("/x/../dir", "/dir/"), ("/a%20b%25c?q", "/a%20b%25c/?q")]
    {
        let response = server.get(target).must_be(&[301, 308]);
        let location = response.field("Location").unwrap();
        let path = location.strip_prefix("http://a").unwrap_or(location);
        assert_eq!(path, right, "{target}");
        assert!(!location.starts_with("//"));
    }
}

#[test]
fn a_directory_without_index_is_403_where_listing_is_off() {
    let root = Root::with_index();
    root.file("dir/a.txt", "a");
    let server = Server::run(&crate::support::Configuration::of(&root.path()));
    let response = server.get("/dir/").must_be(&[403]);
    assert!(!response.text().contains("a.txt"));
}

#[test]
fn what_is_not_there_is_404_and_the_page_says_nothing_of_the_machine() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let response = server.get("/none.txt").must_be(&[404]);
    let text = response.text();
    // U22: neither a path of the file system nor a version.
    assert!(!text.contains(root.base().to_str().unwrap()) && !text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    assert!(response.field("Content-Type").unwrap().starts_with("text/"));
}

#[test]
fn names_give_their_media_type() {
    let root = Root::with_index();
    let types = [
        ("a.html", "text/html"),
        ("a.css", "text/css"),
        ("a.js", "text/javascript"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.jpg", "image/jpeg"),
        ("a.webp", "image/webp"),
        ("a.avif", "image/avif"),
        ("a.wasm", "application/wasm"),
        ("a.woff2", "font/woff2"),
        ("a.webmanifest", "application/manifest+json"),
        ("a.txt", "text/plain"),
        ("A.HTML", "text/html"),
        ("a.xyzzy", "application/octet-stream"),
        ("noextension", "application/octet-stream"),
    ];
    for (name, _) in types {
        root.file(name, "x");
    }
    let server = Server::serve(&root.path());
    for (name, right) in types {
        let response = server.head(format!("/{name}")).must_be(&[200]);
        let value = response.field("Content-Type").unwrap();
        assert_eq!(value.split(';').next().unwrap().trim(), right, "{name}");
    }
}

#[test]
fn the_charset_is_added_to_text_only() {
    let root = Root::with_index();
    for name in ["a.txt", "a.css", "a.html", "a.png"] {
        root.file(name, "x");
    }
    let server = Server::run(&crate::support::Configuration::new().site(&root.path(), "name = [\"\"]\ncharset = \"iso-8859-15\""));
    for name in ["a.txt", "a.css", "a.html"] {
        let response = server.head(format!("/{name}"));
        assert!(
            response.field("Content-Type").unwrap().to_ascii_lowercase().ends_with("charset=iso-8859-15"),
            "{name}: {:?}",
            response.field("Content-Type")
        );
    }
    assert_eq!(server.head("/a.png").field("Content-Type"), Some("image/png"));
    let default = Server::serve(&root.path());
    assert_eq!(default.head("/a.txt").field("Content-Type").unwrap().to_ascii_lowercase(), "text/plain; charset=utf-8");
}

#[test]
fn a_file_of_five_gib_has_its_length_and_its_last_bytes() {
    const LENGTH: u64 = 5 * 1024 * 1024 * 1024;
    let root = Root::with_index();
    let path = root.sparse("big.bin", LENGTH);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"0123456789", LENGTH - 10).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"abcdefghijk", 4_294_967_290).unwrap();
    let server = Server::serve(&root.path());
    assert_eq!(server.head("/big.bin").must_be(&[200]).length(), LENGTH);
    let last = server.ask("GET", "/big.bin", &["Range: bytes=5368709110-"]).must_be(&[206]);
    assert_eq!(last.text(), "0123456789");
    assert_eq!(last.field("Content-Range"), Some("bytes 5368709110-5368709119/5368709120"));
    // Across 4 GiB.
    let middle = server.ask("GET", "/big.bin", &["Range: bytes=4294967290-4294967300"]).must_be(&[206]);
    assert_eq!(middle.text(), "abcdefghijk");
}

#[test]
fn a_file_of_five_gib_is_sent_to_a_client_that_leaves_early() {
    let root = Root::with_index();
    root.sparse("big.bin", 5 * 1024 * 1024 * 1024);
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let mut client = server.connect();
    client.send(request("GET", "/big.bin", &[]));
    let head = client.head().unwrap();
    assert_eq!(head.length(), 5_368_709_120);
    client.exactly(10_000_000).unwrap();
    drop(client);
    server.must_be_well(&workers, "after a client that left");
}

#[test]
fn names_of_any_bytes_are_served() {
    let root = Root::with_index();
    // U19: every byte a name can hold. A leading dot, a closing tilde and the like are hidden, so each stands in the middle.
    let names: Vec<Vec<u8>> = (1..=255_u8).filter(|byte| *byte != b'/').map(|byte| vec![b'x', byte, b'y']).collect();
    for name in &names {
        root.file(name, name);
    }
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    for name in &names {
        let target: String = std::iter::once("/".to_owned()).chain(name.iter().map(|byte| format!("%{byte:02x}"))).collect();
        client.send(request("GET", &target, &[]));
        let response = client.response("GET").must_be(&[200]);
        assert_eq!(&response.body, name, "{target}");
    }
    // And unencoded where RFC 3986 lets a byte stand for itself.
    for byte in b"azAZ09-._~!$&'()*+,;=:@" {
        let name = vec![b'x', *byte, b'y'];
        client.send(request("GET", [b"/".as_slice(), &name].concat(), &[]));
        assert_eq!(client.response("GET").must_be(&[200]).body, name);
    }
}

#[test]
fn a_client_that_closes_its_side_gets_the_whole_response() {
    let root = Root::with_index();
    let body = pattern(3_000_000);
    root.file("a.bin", &body);
    let server = Server::serve(&root.path());
    // S12
    let mut client = server.connect();
    client.send(request("GET", "/a.bin", &[])).half_close();
    assert!(client.response("GET").must_be(&[200]).body == body);
    client.expect_end();
}

#[test]
fn a_reader_that_comes_late_gets_every_byte() {
    let root = Root::with_index();
    let body = pattern(8 * 1024 * 1024);
    root.file("a.bin", &body);
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    // A small window, so that the server cannot put all of it into the socket at once.
    nix::sys::socket::setsockopt(client.stream(), nix::sys::socket::sockopt::RcvBuf, &65_536).unwrap();
    client.send(request("GET", "/a.bin", &[]));
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        server.get("/").must_be(&[200]);
    }
    assert!(client.response("GET").must_be(&[200]).body == body);
}
