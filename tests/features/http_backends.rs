//! Backends by HTTP/1.1: a backend that shows what it was told and answers right or wrong; nginx and Python's own server behind this one.
//! What both sides change to other protocols stands in `upgrades`.

use crate::fastcgi::Step;
use crate::plain::{PlainBackend, Told, Tongue};
use crate::support::{Configuration, PATIENCE, Root, Server, pattern, request, signal, wait_until};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::time::Duration;

fn backend(answer: impl Fn(&Told) -> Vec<Step> + Send + Sync + 'static) -> PlainBackend {
    PlainBackend::new(Tongue::Http, answer)
}

fn service(backend: &PlainBackend, root: &Root, lines: &str) -> Server {
    Server::run(&Configuration::of(&root.path()).server_also("workers = 1").backend(&backend.table(lines)).rule("backend = \"fake\""))
}

fn send(text: impl AsRef<[u8]>) -> Vec<Step> {
    vec![Step::Send(text.as_ref().to_vec())]
}

fn answer(text: impl AsRef<[u8]>) -> Vec<Step> {
    let text = text.as_ref();
    send([format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len()).as_bytes(), text].concat())
}

/// What it was told, without the body.
fn show(told: &Told) -> Vec<Step> {
    answer(&told.opening)
}

#[test]
fn the_backend_gets_the_normalised_path_the_raw_query_and_who_the_client_is() {
    let (backend, root) = (backend(show), Root::new());
    let server = service(&backend, &root, "");
    let fields = [
        "User-Agent: u",
        "X-Forwarded-For: 192.0.2.66",
        "X-Forwarded-Host: evil",
        "X-Real-IP: 192.0.2.66",
        "Forwarded: for=192.0.2.66",
        "X_Forwarded_For: 192.0.2.66",
        "Proxy: http://evil",
        "Connection: x-a, x-forwarded-for, host",
        "X-A: b",
        "TE: trailers",
        "Keep-Alive: 5",
        "Cookie: a=1",
        "Authorization: Basic eDp5",
    ];
    let text = server.ask("GET", "/a/./b//%7Ec%2fd%20e?x=%2F&y=%00", &fields).must_be(&[200]).text();
    let expected = "GET /a/b/~c%2Fd%20e?x=%2F&y=%00 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\
                    X-Forwarded-Host: a\r\nUser-Agent: u\r\nCookie: a=1\r\nAuthorization: Basic eDp5\r\n\r\n";
    assert_eq!(text, expected);
    // No length, no body; and a method that means to send something says so.
    let text = server.ask("POST", "/", &[]).must_be(&[200]).text();
    assert!(text.contains("\r\nContent-Length: 0\r\n") && !text.contains("Transfer-Encoding"), "{text}");
    // What HTTP/1.0 cannot say.
    let response = server.exchange("GET / HTTP/1.0\r\n\r\n", "GET").must_be(&[200]);
    assert!(response.text().starts_with("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"), "{}", response.text());
    // The host of the target goes before that of the field, with its port (RFC 9112, 3.2.2).
    let response = server.exchange("GET http://b.example:777/x?y HTTP/1.1\r\nHost: c:1\r\nConnection: close\r\n\r\n", "GET");
    let text = response.must_be(&[200]).text();
    assert!(text.starts_with("GET /x?y HTTP/1.1\r\nHost: b.example:777\r\n"), "{text}");
    assert!(text.contains("\r\nX-Forwarded-Host: b.example:777\r\n"), "{text}");
}

/// Whoever comes over a socket of the unix domain has no address, and none is made up.
#[test]
fn a_client_without_an_address_is_not_given_one() {
    let (backend, root) = (backend(show), Root::new());
    let path = root.base().join("web.sock");
    let configuration = Configuration::of(&root.path())
        .site(&root.path(), &format!("name = [\"a\"]\nlisten = [\"unix:{}\"]\n[[site.rule]]\nbackend = \"fake\"", path.display()))
        .backend(&backend.table(""));
    let _server = Server::run(&configuration);
    let mut socket = std::os::unix::net::UnixStream::connect(&path).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.66\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: http\r\n"), "{text}");
    assert!(!text.contains("X-Forwarded-For"), "{text}");
}

#[test]
fn a_trusted_proxy_is_believed_and_added_to_the_chain() {
    let (backend, root) = (backend(show), Root::new());
    let configuration = Configuration::of(&root.path())
        .server_also("trusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]")
        .backend(&backend.table(""))
        .rule("backend = \"fake\"");
    let server = Server::run(&configuration);
    for (fields, chain, scheme, host) in [
        (
            &["X-Forwarded-For: 192.0.2.66, 198.51.100.7, 10.0.0.9", "X-Forwarded-Proto: https"][..],
            "198.51.100.7, 10.0.0.9, 127.0.0.1",
            "https",
            "a",
        ),
        (&["X-Forwarded-For: junk", "X-Forwarded-Host: b.example"], "127.0.0.1", "http", "b.example"),
        (&["Forwarded: for=198.51.100.7;proto=https"], "198.51.100.7, 127.0.0.1", "https", "a"),
        (&[], "127.0.0.1", "http", "a"),
    ] {
        let text = server.ask("GET", "/", fields).must_be(&[200]).text();
        let told = format!("\r\nX-Forwarded-For: {chain}\r\nX-Forwarded-Proto: {scheme}\r\nX-Forwarded-Host: {host}\r\n");
        assert!(text.contains(&told), "{fields:?}: {text}");
        assert!(!text.to_lowercase().contains("\nforwarded:"), "{text}");
    }
}

#[test]
fn answers_of_every_framing_are_passed_on() {
    let (backend, root) = (
        backend(|told| match told.path() {
            "/length" => answer("length"),
            "/chunks" => send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: y\r\n\r\n"),
            "/close" => vec![Step::Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nclose".to_vec()), Step::Close],
            "/one-zero" => vec![Step::Send(b"HTTP/1.0 200 OK\r\n\r\nold".to_vec()), Step::Close],
            "/interim" => send(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal",
            ),
            "/bytes" => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow".iter().map(|byte| Step::Send(vec![*byte])).collect(),
            "/none" => send("HTTP/1.1 204 No Content\r\n\r\n"),
            "/same" => send("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 9\r\n\r\n"),
            "/odd" => send("HTTP/1.1 299\r\nContent-Length: 3\r\n\r\nodd"),
            "/fields" => send(
                "HTTP/1.1 302 Found\r\nLocation: /x?y\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nConnection: x-b\r\nX-B: c\r\nKeep-Alive: 5\r\nServer: other\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Accel-Redirect: /etc\r\nContent-Length: 0\r\n\r\n",
            ),
            _ => send("HTTP/1.1 404 Nowhere\r\nContent-Length: 4\r\n\r\ngone"),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "");
    let mut client = server.connect();
    for (target, status, text) in [
        ("/length", 200, "length"),
        ("/chunks", 200, "abcde"),
        ("/close", 200, "close"),
        ("/one-zero", 200, "old"),
        ("/interim", 200, "final"),
        ("/bytes", 200, "slow"),
        ("/none", 204, ""),
        ("/same", 304, ""),
        ("/odd", 299, "odd"),
        ("/fields", 302, ""),
        ("/", 404, "gone"),
    ] {
        client.send(request("GET", target, &[]));
        let response = client.response("GET");
        assert_eq!((response.status, response.text().as_str()), (status, text), "{target}");
        let count = |name: &str| response.fields.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name)).count();
        assert_eq!((count("date"), count("server"), count("x-b"), count("keep-alive"), count("x-accel-redirect")), (1, 1, 0, 0, 0));
        assert_eq!(count("set-cookie"), if target == "/fields" { 2 } else { 0 });
    }
    // One of a client that knows no chunks ends with the connection.
    assert_eq!(server.exchange("GET /chunks HTTP/1.0\r\n\r\n", "GET").must_be(&[200]).text(), "abcde");
    for (target, length) in [("/length", 6), ("/", 4)] {
        client.send(request("HEAD", target, &[]));
        // What a backend sends to HEAD although there is no body would be before the next answer: its connection is not used again.
        assert_eq!(client.response("HEAD").length(), length, "{target}");
    }
    client.send(request("GET", "/length", &[]));
    assert_eq!(client.response("GET").text(), "length");
}

#[test]
fn b05_b06_b08_b09_b10_b12_b16_what_is_no_answer_is_502_with_a_line_in_the_log() {
    const FRAMED: &str = "HTTP/1.1 200 OK\r\n";
    let (backend, root) = (
        backend(|told| match told.path() {
            "/b05" => vec![Step::Send(b"HTTP/1.1 2".to_vec()), Step::Wait],
            "/b06/before" => vec![Step::Close],
            "/b06/within" => vec![Step::Send(b"HTTP/1.1 200 OK\r\nX".to_vec()), Step::Close],
            "/b08/word" => send(format!("{FRAMED}Content-Length: abc\r\n\r\n")),
            "/b08/negative" => send(format!("{FRAMED}Content-Length: -1\r\n\r\n")),
            "/b08/list" => send(format!("{FRAMED}Content-Length: 1, 1\r\n\r\nx")),
            "/b08/two" => send(format!("{FRAMED}Content-Length: 1\r\nContent-Length: 1\r\n\r\nx")),
            "/b08/both" => send(format!("{FRAMED}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
            "/b08/gzip" => send(format!("{FRAMED}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")),
            "/b08/twice" => send(format!("{FRAMED}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
            "/b08/old" => send("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "/b08/size" => send(format!("{FRAMED}Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n")),
            "/b08/lf" => send(format!("{FRAMED}Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n")),
            "/b09/99" => send("HTTP/1.1 99 X\r\n\r\n"),
            "/b09/600" => send("HTTP/1.1 600 X\r\n\r\n"),
            "/b09/word" => send("HTTP/1.1 OK\r\n\r\n"),
            "/b09/version" => send("HTTP/2 200 OK\r\n\r\n"),
            "/b09/none" => send("<html>hello</html>\r\n\r\n"),
            "/b10/101" => send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
            "/b10/many" => send("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100)),
            "/b12/cr" => send(format!("{FRAMED}A: b\rc\r\n\r\n")),
            "/b12/nul" => send(format!("{FRAMED}A: b\0c\r\n\r\n")),
            "/b12/lf" => send("HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
            "/b12/name" => send(format!("{FRAMED}A : b\r\n\r\n")),
            "/b12/folded" => send(format!("{FRAMED}A: b\r\n c\r\n\r\n")),
            "/b12/colon" => send(format!("{FRAMED}no colon\r\n\r\n")),
            "/b16/lines" => send(format!("{FRAMED}{}\r\n", "X: y\r\n".repeat(10_000))),
            "/b16/long" => send(format!("{FRAMED}X: {}\r\n\r\n", "y".repeat(1 << 20))),
            _ => answer("fine"),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "read_timeout = \"5s\"");
    let workers = server.workers();
    let targets = [
        "/b06/before",
        "/b06/within",
        "/b08/word",
        "/b08/negative",
        "/b08/list",
        "/b08/two",
        "/b08/both",
        "/b08/gzip",
        "/b08/twice",
        "/b08/old",
        "/b08/size",
        "/b08/lf",
        "/b09/99",
        "/b09/600",
        "/b09/word",
        "/b09/version",
        "/b09/none",
        "/b10/101",
        "/b10/many",
        "/b12/cr",
        "/b12/nul",
        "/b12/lf",
        "/b12/name",
        "/b12/folded",
        "/b12/colon",
        "/b16/lines",
        "/b16/long",
    ];
    let mut client = server.connect();
    for target in targets {
        client.send(request("GET", target, &[]));
        assert_eq!(client.response("GET").status, 502, "{target}");
        client.send(request("GET", "/fine", &[]));
        assert_eq!(client.response("GET").must_be(&[200]).text(), "fine", "{target}");
    }
    assert_eq!(server.get("/b05").status, 504);
    server.must_be_well(&workers, "hostile backend");
    let log = || std::fs::read_to_string(server.home().join("error.log")).unwrap();
    let told = || log().contains("both Transfer-Encoding and Content-Length; 502") && log().contains("backend \"fake\" at unix:");
    assert!(wait_until(PATIENCE, told).is_some(), "{}", log());
}

/// Once the answer has begun, only the end of the connection can tell.
#[test]
fn b06_b07_an_answer_that_is_cut_is_seen_to_be_by_whoever_has_its_beginning() {
    let (backend, root) = (
        backend(|told| {
            let head = match told.path() {
                "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n",
            };
            vec![Step::Send([head.as_bytes(), &[b'x'; 100_000]].concat()), Step::Pause(Duration::from_millis(300)), Step::Close]
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "buffer = 0");
    for target in ["/length", "/chunks"] {
        let mut client = server.connect();
        client.send(request("GET", target, &[]));
        // Where it had not begun, because this machine was slow, it is told.
        assert!(client.try_response("GET").map_or(true, |response| response.status == 502), "{target}");
    }
}

#[test]
fn connections_are_kept_as_long_as_nothing_speaks_against_it() {
    let (backend, root) = (
        backend(|told| match told.path() {
            "/close" => vec![Step::Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nc".to_vec()), Step::Close],
            // More than it said: the rest would be another request's answer.
            "/excess" => send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfourHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"),
            "/behind-chunks" => send(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
            ),
            "/none" => send("HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\npoison"),
            "/head" => answer("poison"),
            _ => answer("fine"),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "keep_idle = \"1h\"");
    let connections = || *backend.connections.lock().unwrap();
    for _ in 0..10 {
        assert_eq!(server.get("/").must_be(&[200]).text(), "fine");
    }
    assert_eq!(connections(), 1);
    for (target, method) in [("/close", "GET"), ("/excess", "GET"), ("/behind-chunks", "GET"), ("/none", "GET"), ("/head", "HEAD")] {
        let before = connections();
        let mut client = server.connect();
        client.send(request(method, target, &[]));
        client.response(method).must_be(&[200, 204]);
        for _ in 0..3 {
            client.send(request("GET", "/", &[]));
            assert_eq!(client.response("GET").must_be(&[200]).text(), "fine", "{target}");
        }
        assert_eq!(connections(), before + 1, "{target}");
    }
}

/// Unlike that of a pool, where each connection that is kept holds a process.
#[test]
fn a_long_answer_to_one_leaves_the_connections_of_others_kept() {
    let (backend, root) = (
        backend(|told| match told.path() {
            "/poll" => vec![Step::Wait],
            _ => answer("fine"),
        }),
        Root::new(),
    );
    let configuration = Configuration::of(&root.path()).server_also("workers = 1").backend(&backend.table("keep_idle = \"1h\""));
    let server = Server::run(&configuration.rule("backend = \"fake\""));
    let mut held = server.connect();
    held.send(request("GET", "/poll", &[]));
    assert!(wait_until(PATIENCE, || backend.told.lock().unwrap().len() == 1).is_some());
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(server.get("/").must_be(&[200]).text(), "fine");
    }
    assert_eq!(*backend.connections.lock().unwrap(), 2);
}

/// The backend ends a connection that was kept just when the next request comes.
#[test]
fn what_may_be_repeated_is_when_a_kept_connection_turns_out_to_be_closed() {
    let (backend, root) = (
        backend(|told| {
            let second = told.value("X-Second").is_some();
            if second { vec![Step::Close] } else { answer("fine") }
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "keep_idle = \"1h\"");
    // On the connection that is kept, and then on a new one, both of which end without an answer.
    for (method, status, asked) in [("GET", 502, 2), ("PUT", 502, 2), ("POST", 502, 1)] {
        server.get("/").must_be(&[200]);
        let before = backend.told.lock().unwrap().len();
        assert_eq!(server.ask(method, "/", &["X-Second: 1"]).status, status);
        assert_eq!(backend.told.lock().unwrap().len() - before, asked, "{method}");
    }
}

#[test]
fn f01_to_f44_no_request_of_a_client_becomes_two_at_the_backend() {
    let (backend, root) = (backend(|_| answer("fine")), Root::new());
    let server = service(&backend, &root, "keep_idle = \"1h\"");
    let inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = inner.len();
    let post = |fields: &str, body: &str| format!("POST /outer HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}");
    let refused = [
        post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", &format!("0\r\n\r\n{inner}")),
        post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", &format!("0\r\n\r\n{inner}")),
        post("Content-Length: 0\r\nContent-Length: 40\r\n", inner),
        post(&format!("Content-Length: {length}\r\nContent-Length: {length}\r\n"), inner),
        post("Content-Length: 0, 40\r\n", inner),
        post("Content-Length: +0\r\n", inner),
        post("Content-Length : 0\r\n", inner),
        post("Content-Length:\r\n", inner),
        post("Transfer-Encoding: xchunked\r\n", inner),
        post("Transfer-Encoding: chunked, identity\r\n", inner),
        post("Transfer-Encoding : chunked\r\n", &format!("0\r\n\r\n{inner}")),
        post("Transfer-Encoding:\x0bchunked\r\n", &format!("0\r\n\r\n{inner}")),
        post("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", &format!("0\r\n\r\n{inner}")),
        post("X: y\r\n Transfer-Encoding: chunked\r\n", inner),
        post("X: y\nTransfer-Encoding: chunked\r\n", inner),
        post("X: y\rTransfer-Encoding: chunked\r\n", inner),
        post("Transfer-Encoding: chunked\r\n", &format!("0x0\r\n\r\n{inner}")),
        post("Transfer-Encoding: chunked\r\n", &format!("0\n\n{inner}")),
        post("Transfer-Encoding: chunked\r\n", &format!("1;a\nb\r\nx\r\n0\r\n\r\n{inner}")),
        post("Transfer-Encoding: chunked\r\n", &format!("1\r\nxx\r\n0\r\n\r\n{inner}")),
        format!("GET /outer HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("GET /outer HTTP/1.1\r\n Host: a\r\n\r\n{inner}"),
        format!("GET /outer HTTP/1.1 X\r\nHost: a\r\n\r\n{inner}"),
        format!("GET http://a/outer HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n{inner}"),
    ];
    for bytes in &refused {
        let mut client = server.connect();
        client.send(bytes);
        let response = client.response("POST");
        assert!((400..=501).contains(&response.status) && response.closes(), "{bytes:?}: {}", response.status);
    }
    assert!(backend.told.lock().unwrap().iter().all(|told| told.path() == "/outer"));
    // What is a body stays one, however it looks.
    let passed = [
        post(&format!("Content-Length: {length}\r\n"), inner),
        post("Transfer-Encoding: chunked\r\n", &format!("{length:x}\r\n{inner}\r\n0\r\nContent-Length: 5\r\nHost: b\r\n\r\n")),
        post(&format!("Content_Length: 0\r\nTransfer_Encoding: chunked\r\nContent-Length: {length}\r\n"), inner),
        format!("GET /outer HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{inner}"),
        post(&format!("Connection: content-length, transfer-encoding, host\r\nContent-Length: {length}\r\n"), inner),
        post(&format!("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\nContent-Length: {length}\r\n"), inner),
    ];
    for bytes in &passed {
        let mut client = server.connect();
        client.send(bytes).send(request("GET", "/next", &[]));
        client.response("POST").must_be(&[200]);
        client.response("GET").must_be(&[200]);
        let told = backend.told.lock().unwrap();
        let [.., outer, next] = told.as_slice() else { panic!("{bytes:?}") };
        assert_eq!((outer.path(), outer.body.as_slice(), next.path()), ("/outer", inner.as_bytes(), "/next"), "{bytes:?}");
        let text = String::from_utf8_lossy(&outer.opening).to_lowercase();
        assert_eq!(text.matches("content-length").count() + text.matches("transfer-encoding").count(), 1, "{text}");
        assert!(!text.contains("content_length") && !text.contains("upgrade") && !text.contains("http2"), "{text}");
    }
    assert!(backend.told.lock().unwrap().iter().all(|told| told.path() != "/smuggled"));
}

#[test]
fn large_bodies_are_byte_exact_both_ways_and_streamed() {
    let (backend, root) = (backend(|told| answer(&told.body)), Root::new());
    let server = service(&backend, &root, "");
    let body = pattern(10_000_000);
    let mut client = server.connect();
    client.send(request("POST", "/", &[&format!("Content-Length: {}", body.len()), "Expect: 100-continue"]));
    assert_eq!(client.head().unwrap().status, 100);
    client.send(&body);
    assert!(client.response("POST").must_be(&[200]).body == body);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for part in body.chunks(70_001) {
        client.send(format!("{:x}\r\n", part.len())).send(part).send("\r\n");
    }
    client.send("0\r\n\r\n");
    assert!(client.response("POST").must_be(&[200]).body == body);
    let told = backend.told.lock().unwrap();
    assert_eq!((told[0].value("Content-Length"), told[1].value("Transfer-Encoding")), (Some("10000000"), Some("chunked")));
    assert!(told[0].value("Expect").is_none());
}

#[test]
fn c14_a_body_that_ends_half_way_is_not_told_as_a_short_one() {
    let (backend, root) = (backend(|_| answer("fine")), Root::new());
    let server = service(&backend, &root, "");
    for fields in [
        "Content-Length: 10\r\n\r\nhalf",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz",
    ] {
        let mut client = server.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}"));
        client.half_close();
        let _ = client.rest();
    }
    server.get("/").must_be(&[200]);
    assert_eq!(backend.told.lock().unwrap().len(), 1);
}

#[test]
fn b17_an_answer_before_the_body_is_delivered_and_the_connection_not_used_again() {
    let (backend, root) = (
        backend(|told| match told.path() {
            "/early" => vec![Step::Send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nearly".to_vec()), Step::Wait],
            _ => answer("fine"),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "keep_idle = \"1h\"");
    let mut client = server.connect();
    client.send("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\nsome");
    let response = client.response("POST").must_be(&[413]);
    assert!(response.closes() && response.text() == "early");
    assert_eq!(server.get("/").must_be(&[200]).text(), "fine");
    assert_eq!(*backend.connections.lock().unwrap(), 2);
}

/// Each is there before the backend makes the next one.
#[test]
fn events_arrive_as_they_are_sent() {
    let (root, run) = (Root::new(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(run.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let socket = run.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let (go_on, may) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        while may.recv().is_ok() {
            stream.write_all(b"9\r\ndata: x\n\n\r\n").unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let server = before(&format!("unix:{}", socket.display()), &root);
    let mut client = server.connect();
    client.send(request("GET", "/", &[]));
    assert_eq!(client.head().unwrap().status, 200);
    for _ in 0..5 {
        go_on.send(()).unwrap();
        assert_eq!(client.exactly(14).unwrap(), b"9\r\ndata: x\n\n\r\n");
    }
    drop(go_on);
    assert_eq!(client.exactly(5).unwrap(), b"0\r\n\r\n");
}

#[test]
fn a_slow_client_holds_the_buffer_and_not_the_backend() {
    let body = pattern(3_000_000);
    let expected = body.clone();
    let (backend, root) = (backend(move |_| answer(&body)), Root::new());
    let server = service(&backend, &root, "buffer = \"8MiB\"\nmax_connections = 1\nkeep_idle = \"1h\"");
    let mut slow = server.connect();
    slow.send(request("GET", "/", &[]));
    // The one connection is free again before the client has read a byte.
    assert_eq!(server.get("/").must_be(&[200]).body.len(), expected.len());
    assert!(slow.response("GET").must_be(&[200]).body == expected);
}

#[test]
fn c14_a_client_that_leaves_ends_the_connection_to_the_backend() {
    let (backend, root) = (backend(|_| vec![Step::Wait]), Root::new());
    let server = service(&backend, &root, "");
    let mut client = server.connect();
    client.send(request("GET", "/", &[]));
    assert!(wait_until(PATIENCE, || backend.told.lock().unwrap().len() == 1).is_some());
    drop(client);
    assert!(wait_until(PATIENCE, || backend.told.lock().unwrap()[0].gone).is_some());
}

/// Ends a process at the end of its test.
struct Started(std::process::Child);

impl Drop for Started {
    fn drop(&mut self) {
        // Not by force: nginx has processes of its own.
        signal(i32::try_from(self.0.id()).unwrap(), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

fn before(address: &str, root: &Root) -> Server {
    let table = format!("\n[backend.real]\ntype = \"http\"\naddress = [\"{address}\"]\n");
    Server::run(&Configuration::of(&root.path()).backend(&table).rule("backend = \"real\""))
}

#[test]
fn nginx_behind_it_serves_its_files_and_takes_uploads() {
    if !std::path::Path::new("/usr/sbin/nginx").exists() {
        eprintln!("skipped: this case needs nginx");
        return;
    }
    let (root, home) = (Root::new(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (socket, body) = (home.path().join("s"), pattern(2_000_000));
    std::fs::create_dir_all(home.path().join("www/a b")).unwrap();
    std::fs::write(home.path().join("www/a b/x.bin"), &body).unwrap();
    let file = home.path().join("conf");
    let home_text = home.path().display();
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {home_text}/{name};")).concat();
    let user = if crate::support::is_root() { "user root;" } else { "" };
    let text = format!(
        "{user} daemon off; pid {home_text}/pid; error_log {home_text}/log; events {{}} http {{ access_log off; {paths} client_max_body_size 8m; \
         server {{ listen unix:{}; root {home_text}/www; location /put {{ client_body_in_file_only on; return 200 \"$http_x_forwarded_for $content_length $request_uri\"; }} }} }}",
        socket.display()
    );
    std::fs::write(&file, text).unwrap();
    let nginx = std::process::Command::new("/usr/sbin/nginx").arg("-c").arg(&file).stderr(std::process::Stdio::null()).spawn().unwrap();
    let _nginx = Started(nginx);
    assert!(wait_until(PATIENCE, || std::os::unix::net::UnixStream::connect(&socket).is_ok()).is_some());
    std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let server = before(&format!("unix:{}", socket.display()), &root);
    let mut client = server.connect();
    client.send(request("GET", "/a%20b/x.bin", &[]));
    let response = client.response("GET").must_be(&[200]);
    assert!(response.body == body);
    let etag = response.field("ETag").unwrap().to_owned();
    client.send(request("GET", "/a%20b/x.bin", &[&format!("If-None-Match: {etag}")]));
    client.response("GET").must_be(&[304]);
    client.send(request("GET", "/a%20b/x.bin", &["Range: bytes=10-19"]));
    assert!(client.response("GET").must_be(&[206]).body == body[10..20]);
    client.send(request("HEAD", "/a%20b/x.bin", &[]));
    assert_eq!(client.response("HEAD").must_be(&[200]).length(), 2_000_000);
    client.send(request("GET", "/none", &[]));
    client.response("GET").must_be(&[404]);
    client.send(request("POST", "/put?x", &[&format!("Content-Length: {}", body.len())])).send(&body);
    assert_eq!(client.response("POST").must_be(&[200]).text(), "127.0.0.1 2000000 /put?x");
}

#[test]
fn pythons_own_server_behind_it_answers_and_ends_its_connections() {
    let (root, files) = (Root::new(), Root::new());
    files.file("x.txt", "from python");
    let script = "import http.server,sys;s=http.server.ThreadingHTTPServer(('127.0.0.1',0),http.server.SimpleHTTPRequestHandler);print(s.server_port,flush=True);s.serve_forever()";
    let python = std::process::Command::new("python3")
        .args(["-c", script])
        .current_dir(files.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut python = Started(python);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(python.0.stdout.take().unwrap()), &mut line).unwrap();
    let server = before(&format!("127.0.0.1:{}", line.trim()), &root);
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(request("GET", "/x.txt", &[]));
        assert_eq!(client.response("GET").must_be(&[200]).text(), "from python");
    }
    client.send(request("GET", "/none", &[]));
    client.response("GET").must_be(&[404]);
    client.send(request("HEAD", "/x.txt", &[]));
    assert_eq!(client.response("HEAD").must_be(&[200]).length(), 11);
}
