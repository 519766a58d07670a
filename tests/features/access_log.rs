//! The access log: one line a request, whatever the request holds.

use crate::support::{AccessLine, Client, Configuration, Root, Server, is_root, request};

#[test]
fn lines_in_the_combined_format_say_what_happened() {
    let root = Root::with_index();
    root.file("a.txt", "hello\n");
    // One worker: the lines of several come in their own time.
    let configuration = Configuration::of(&root.path()).server_also("workers = 1").log("access = \"stderr\"\nerror = \"stderr\"");
    let server = Server::run(&configuration);
    let etag = server.get("/a.txt").field("ETag").unwrap().to_owned();
    server.ask("GET", "/a.txt?q=1", &["Referer: http://b/c", "User-Agent: test/1.0"]).must_be(&[200]);
    server.head("/a.txt").must_be(&[200]);
    server.ask("GET", "/a.txt", &[&format!("If-None-Match: {etag}")]).must_be(&[304]);
    server.ask("GET", "/a.txt", &["Range: bytes=1-3"]).must_be(&[206]);
    let missing = server.get("/none").must_be(&[404]);
    server.exchange("BAD\r\n\r\n", "GET").must_be(&[400]);
    let lines = server.wait_for_access_lines(7);
    assert_eq!(lines.len(), 7, "{lines:#?}");
    for line in &lines {
        assert_eq!(line.client, "127.0.0.1");
        assert_eq!(line.user, "-");
    }
    let facts: Vec<_> = lines.iter().map(|line| (line.request.as_str(), line.status, line.bytes)).collect();
    assert_eq!(facts[0], ("GET /a.txt HTTP/1.1", 200, 6));
    assert_eq!(facts[1], ("GET /a.txt?q=1 HTTP/1.1", 200, 6));
    assert_eq!((lines[1].referer.as_str(), lines[1].agent.as_str()), ("http://b/c", "test/1.0"));
    assert_eq!((lines[0].referer.as_str(), lines[0].agent.as_str()), ("-", "-"));
    assert_eq!(facts[2], ("HEAD /a.txt HTTP/1.1", 200, 0));
    assert_eq!(facts[3], ("GET /a.txt HTTP/1.1", 304, 0));
    assert_eq!(facts[4], ("GET /a.txt HTTP/1.1", 206, 3));
    assert_eq!(facts[5], ("GET /none HTTP/1.1", 404, missing.body.len() as u64));
    assert_eq!(facts[6].1, 400);
}

#[test]
fn the_log_file_has_one_line_for_each_request() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let mut client = server.connect();
    client.send(request("GET", "/", &[]).repeat(500));
    for _ in 0..500 {
        client.response("GET").must_be(&[200]);
    }
    for number in 0..100 {
        server.get(format!("/none-{number}")).must_be(&[404]);
    }
    let lines = server.wait_for_lines("access.log", 600);
    assert_eq!(lines.len(), 600);
    for line in &lines {
        assert!(AccessLine::parse(line.as_bytes()).is_some(), "{line}");
    }
    for number in 0..100 {
        let wanted = format!("GET /none-{number} HTTP/1.1");
        assert_eq!(lines.iter().filter(|line| line.contains(&wanted)).count(), 1, "{wanted}");
    }
    assert_eq!(
        std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default().lines().filter(|line| line.contains("GET /")).count(),
        0
    );
}

#[test]
fn nothing_a_client_sends_makes_a_second_line() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let mut sent = 0;
    // L01, L02, 125. What the grammar refuses outright is 400 and still one line.
    for target in
        ["/%0d%0a127.0.0.1%20-%20-%20%22forged%22", "/%0d%0aFAKE%20LINE", "/%00", "/%1b[31m", "/%22%20200%201%20%22", "/%7f%ff", "/a%5c"]
    {
        server.get(target);
        sent += 1;
    }
    let long = "x".repeat(20_000);
    for value in [
        b"\" 200 1 \"forged\" \"".as_slice(),
        b"\\",
        b"\\\"",
        b"\\x22",
        b"tab\there",
        b"\xe9\xff\x80",
        "umläut \u{202e}".as_bytes(),
        b"%0d%0a",
        b"\x1b]0;title\x07",
        b"\x1b[31mred",
        b"a\rb",
        long.as_bytes(),
    ] {
        for name in ["User-Agent", "Referer"] {
            let head =
                [b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n".as_slice(), name.as_bytes(), b": ", value, b"\r\n\r\n"].concat();
            server.exchange(head, "GET").must_be(&[200, 400]);
            sent += 1;
        }
    }
    for bytes in [
        b"GET /\x1b[31m HTTP/1.1\r\nHost: a\r\n\r\n".as_slice(),
        b"GET /\xff\" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \"a\r\n\r\n",
    ] {
        server.exchange(bytes, "GET").must_be(&[400]);
        sent += 1;
    }
    let lines = server.wait_for_lines("access.log", sent);
    assert_eq!(lines.len(), sent, "{lines:#?}");
    for line in &lines {
        // L03: also short enough to be written at once (PIPE_BUF).
        assert!(line.len() < 4096, "a line of {} bytes", line.len());
        assert!(AccessLine::parse(line.as_bytes()).is_some(), "{line}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("127.0.0.1 - - \"forged")));
    assert_eq!(lines.iter().filter(|line| line.contains("FAKE")).count(), 1);
}

#[test]
fn a_long_target_is_cut_with_a_mark() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    server.get(format!("/{}", "abc/".repeat(1900)));
    let lines = server.wait_for_lines("access.log", 1);
    let line = AccessLine::parse(lines[0].as_bytes()).unwrap_or_else(|| panic!("{lines:?}"));
    assert!(lines[0].len() < 4096 && line.status == 404 && line.request.starts_with("GET /abc/abc/"), "{lines:?}");
    assert!(line.request.contains("..."), "the cut must show: {}", &line.request[line.request.len() - 40..]);
}

#[test]
fn secrets_are_not_logged() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    // L09
    server.ask("GET", "/", &["Authorization: Basic c2VjcmV0", "Cookie: session=secret"]).must_be(&[200]);
    let lines = server.wait_for_lines("access.log", 1);
    assert!(!lines[0].contains("c2VjcmV0") && !lines[0].contains("session"), "{lines:?}");
}

#[test]
fn an_ipv4_client_of_a_dual_stack_listener_is_logged_as_ipv4() {
    let root = Root::with_index();
    let user = if is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" };
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let server = Server::run(&Configuration::of(&root.path()).server(&format!("{user}listen = [\"[::]:0\"]")));
    // 127
    let port = server.address().port();
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let mut client = Client::connect(address.parse().unwrap());
        client.send(request("GET", "/", &["Connection: close"]));
        client.response("GET").must_be(&[200]);
    }
    let lines = server.wait_for_lines("access.log", 2);
    let clients: Vec<_> = lines.iter().map(|line| AccessLine::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}")).client).collect();
    assert!(clients.contains(&"127.0.0.1".to_owned()) && clients.contains(&"::1".to_owned()), "{clients:?}");
}

#[test]
fn the_access_log_can_be_off_or_on_stderr() {
    let root = Root::with_index();
    let off = Server::run(&Configuration::of(&root.path()).log("access = \"off\"\nerror = \"stderr\""));
    off.get("/").must_be(&[200]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(off.access_lines().is_empty());
    assert!(!off.home().join("access.log").exists());
    let stderr = Server::run(&Configuration::of(&root.path()).log("access = \"stderr\"\nerror = \"stderr\""));
    stderr.get("/").must_be(&[200]);
    assert_eq!(stderr.wait_for_access_lines(1).len(), 1);
}

#[test]
fn an_aborted_transfer_is_logged_with_what_was_sent() {
    let root = Root::with_index();
    root.sparse("big.bin", 256 * 1024 * 1024);
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    client.send(request("GET", "/big.bin", &[]));
    client.head().unwrap();
    client.exactly(100_000).unwrap();
    drop(client);
    let lines = server.wait_for_access_lines(1);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].bytes >= 100_000 && lines[0].bytes < 256 * 1024 * 1024, "{lines:?}");
}
