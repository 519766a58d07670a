//! What a backend may not do to this server or its clients. The cases `B`.

use crate::fastcgi::{FakeBackend, Seen, Step, answer, end, record, stdout};
use crate::support::{Configuration, PATIENCE, Root, Server, status_field, wait_until};
use std::io::{Read, Write};
use std::time::Duration;

/// A service that hands everything to the backend.
fn service(backend: &FakeBackend, root: &Root, lines: &str) -> Server {
    Server::run(&Configuration::of(&root.path()).backend(&backend.table(lines)).rule("backend = \"fake\""))
}

/// An answer that ends without its last record.
fn cut(bytes: Vec<u8>) -> Vec<Step> {
    vec![Step::Send(bytes), Step::Close]
}

const FINE: &str = "Content-Type: text/plain\r\n\r\nfine";

fn misbehave(seen: &Seen) -> Vec<Step> {
    let send = |bytes: Vec<u8>| vec![Step::Send(bytes), Step::Wait];
    let head = |lines: &str| answer(format!("{lines}\r\n\r\nbody"));
    match seen.path() {
        "/b01/version" => send([&[2, 6, 0, 1, 0, 4, 0, 0][..], b"oops"].concat()),
        "/b01/type0" => send(record(0, 1, b"x")),
        "/b01/type12" => send(record(12, 1, b"x")),
        "/b01/type255" => send(record(255, 1, b"x")),
        "/b02/id0" => send(record(6, 0, FINE.as_bytes())),
        "/b02/id2" => send(record(6, 2, FINE.as_bytes())),
        "/b02/id65535" => send(record(6, 65_535, FINE.as_bytes())),
        "/b03" => vec![Step::Send(stdout(vec![b'x'; 200_000])), Step::Wait],
        "/b04/empty" => send(record(7, 1, b"").repeat(100_000)),
        "/b06/before" => vec![Step::Close],
        "/b06/within" => cut(vec![1, 6, 0, 1]),
        "/b08/word" => head("Content-Length: abc"),
        "/b08/negative" => head("Content-Length: -1"),
        "/b08/two" => head("Content-Length: 4\r\nContent-Length: 4"),
        "/b08/both" => head("Content-Length: 4\r\nTransfer-Encoding: chunked"),
        "/b09/99" => head("Status: 99"),
        "/b09/1000" => head("Status: 1000"),
        "/b09/word" => head("Status: abc"),
        "/b09/empty" => head("Status: "),
        "/b09/two" => head("Status: 200\r\nStatus: 404"),
        "/b10/100" => head("Status: 100"),
        "/b10/101" => head("Status: 101 Switching Protocols\r\nUpgrade: x"),
        "/b10/103" => head("Status: 103"),
        "/b12/cr" => head("A: b\rc"),
        "/b12/nul" => head("A: b\0c"),
        "/b12/name" => head("A b: c"),
        "/b12/folded" => head("A: b\r\n c"),
        "/b12/colon" => head("no colon"),
        "/b16/lines" => answer("X: y\r\n".repeat(10_000) + "\r\n"),
        "/b16/long" => answer(format!("X: {}\r\n\r\n", "y".repeat(1 << 20))),
        "/b18/1" => vec![Step::Send(end(1))],
        "/b18/2" => vec![Step::Send(end(2))],
        "/b18/3" => vec![Step::Send(end(3))],
        "/b18/9" => vec![Step::Send(end(9))],
        _ => answer(FINE),
    }
}

#[test]
fn b01_b02_b03_b04_b06_b08_b09_b10_b12_b16_b18_what_is_no_answer_is_told_so_and_the_next_request_is_answered() {
    let (backend, root) = (FakeBackend::new(misbehave), Root::new());
    let server = service(&backend, &root, "");
    let workers = server.workers();
    for (target, status) in [
        ("/b01/version", 502),
        ("/b01/type0", 502),
        ("/b01/type12", 502),
        ("/b01/type255", 502),
        ("/b02/id0", 502),
        ("/b02/id2", 502),
        ("/b02/id65535", 502),
        ("/b03", 502),
        ("/b04/empty", 502),
        ("/b06/before", 502),
        ("/b06/within", 502),
        ("/b08/word", 502),
        ("/b08/negative", 502),
        ("/b08/two", 502),
        ("/b08/both", 502),
        ("/b09/99", 502),
        ("/b09/1000", 502),
        ("/b09/word", 502),
        ("/b09/empty", 502),
        ("/b09/two", 502),
        ("/b10/100", 502),
        ("/b10/101", 502),
        ("/b10/103", 502),
        ("/b12/cr", 502),
        ("/b12/nul", 502),
        ("/b12/name", 502),
        ("/b12/folded", 502),
        ("/b12/colon", 502),
        ("/b16/lines", 502),
        ("/b16/long", 502),
        ("/b18/1", 503),
        ("/b18/2", 503),
        ("/b18/3", 502),
        ("/b18/9", 502),
    ] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let response = client.try_response("GET").unwrap_or_else(|why| panic!("{target}: {why}"));
        assert_eq!(response.status, status, "{target}");
        assert_eq!(response.field("retry-after").is_some(), status == 503, "{target}");
        // The client's connection stays, and gets nothing of what was wrong.
        client.send("GET /fine HTTP/1.1\r\nHost: a\r\n\r\n");
        let next = client.response("GET").must_be(&[200]);
        assert_eq!(next.text(), "fine", "{target}");
    }
    server.must_be_well(&workers, "hostile backend");
    let log = || std::fs::read_to_string(server.home().join("error.log")).unwrap();
    let told = || log().contains("backend \"fake\" at unix:") && log().contains("502 Bad Gateway");
    assert!(wait_until(PATIENCE, told).is_some(), "{}", log());
}

#[test]
fn b06_b07_an_answer_that_is_cut_is_seen_to_be() {
    let (backend, root) = (
        FakeBackend::new(|seen| match seen.path() {
            // More than is waited for, so that the answer has begun.
            "/chunked" => cut(stdout([FINE.as_bytes(), &[b'x'; 100_000]].concat())),
            "/short" => vec![
                Step::Send(stdout("Content-Length: 300000\r\n\r\n".to_owned() + &"x".repeat(100_000))),
                Step::Pause(Duration::from_millis(200)),
                Step::Send([record(6, 1, b""), end(0)].concat()),
            ],
            "/long" => answer("Content-Length: 4\r\n\r\nfour and more"),
            _ => answer(FINE),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "buffer = 0");
    for target in ["/chunked", "/short"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        match client.try_response("GET") {
            Err(why) => assert!(!why.is_empty()),
            // It had not begun: then it is told.
            Ok(response) => assert_eq!(response.status, 502, "{target}"),
        }
    }
    let mut client = server.connect();
    client.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").must_be(&[200]).text(), "four");
    client.send("GET /fine HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").must_be(&[200]).text(), "fine");
}

/// The end of the connection comes together with the last bytes, and is seen at once: not when the backend has been silent for too long.
#[test]
fn b06_a_backend_that_dies_after_its_first_words_is_502_at_once() {
    let (backend, root) = (
        FakeBackend::new(|seen| match seen.path() {
            "/crash" => cut(record(7, 1, b"fatal error\n")),
            _ => cut(stdout("Content-Type: text/pl")),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "read_timeout = \"10m\"");
    for target in ["/crash", "/half"].repeat(20) {
        server.get(target).must_be(&[502]);
    }
}

/// What is sent is not held any more, also where the client is never done with all that came.
#[test]
fn b19_a_client_that_stays_behind_its_backend_gets_all_of_a_long_answer() {
    const LENGTH: usize = 160 << 20;
    let (backend, root) = (
        FakeBackend::new(|_| {
            let piece = || Step::Send(stdout(vec![b'x'; 4 << 20]));
            let head = Step::Send(stdout(format!("Content-Length: {LENGTH}\r\n\r\n")));
            std::iter::once(head).chain(std::iter::repeat_with(piece).take(LENGTH >> 22)).chain([Step::Send(end(0))]).collect()
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "buffer = \"16MiB\"");
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let (mut received, mut buffer) = (0, vec![0; 256 << 10]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        received += count;
        std::thread::sleep(Duration::from_micros(500));
    }
    assert!(received > LENGTH, "{received}");
    for worker in server.workers() {
        let peak = status_field(worker, "VmHWM");
        let kib: u64 = peak.trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 100 << 10, "{peak}");
    }
}

#[test]
fn b05_b20_silence_is_504() {
    let (backend, root) = (
        FakeBackend::new(|seen| match seen.path() {
            "/silent" => vec![Step::Wait],
            "/drip" => {
                std::iter::repeat_with(|| [Step::Send(stdout("x")), Step::Pause(Duration::from_millis(50))]).take(200).flatten().collect()
            }
            _ => answer(FINE),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "read_timeout = \"2s\"");
    for target in ["/silent", "/drip"] {
        assert_eq!(server.get(target).status, 504, "{target}");
    }
    server.get("/fine").must_be(&[200]);
}

#[test]
fn b11_no_body_where_none_may_be() {
    let (backend, root) = (
        FakeBackend::new(|seen| match seen.path() {
            "/204" => answer("Status: 204\r\n\r\nbody"),
            "/304" => answer("Status: 304\r\n\r\nbody"),
            _ => answer(FINE),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "");
    let mut client = server.connect();
    for (method, target, status) in [("GET", "/204", 204), ("GET", "/304", 304), ("HEAD", "/x", 200), ("GET", "/x", 200)] {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response(method).must_be(&[status]);
    }
}

#[test]
fn b13_b14_b15_fields_that_are_not_the_backends_to_say() {
    let (backend, root) = (
        FakeBackend::new(|seen| match seen.path() {
            "/location" => answer("Location: /local?x\r\n\r\n"),
            _ => answer(
                "Status: 299 Fine\r\nX-Sendfile: /etc/passwd\r\nX-Accel-Redirect: /x\r\nConnection: X-Secret\r\n\
                 X-Secret: 1\r\nKeep-Alive: x\r\nUpgrade: x\r\nTrailer: x\r\nProxy-Authenticate: x\r\nDate: never\r\nServer: other\r\n\
                 Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Own: yes\r\n\r\nbody",
            ),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "");
    let response = server.get("/x");
    assert_eq!((response.status, response.text().as_str()), (299, "body"));
    let names: Vec<String> = response.fields.iter().map(|(name, _)| name.to_lowercase()).collect();
    for gone in ["x-sendfile", "x-accel-redirect", "x-secret", "keep-alive", "upgrade", "trailer", "proxy-authenticate"] {
        assert!(!names.iter().any(|name| name == gone), "{gone}: {names:?}");
    }
    for once in ["date", "server"] {
        assert_eq!(names.iter().filter(|name| *name == once).count(), 1, "{once}");
    }
    assert_eq!(response.field("server"), Some("anchorite"));
    assert_eq!(names.iter().filter(|name| *name == "set-cookie").count(), 2);
    assert_eq!(response.field("x-own"), Some("yes"));
    let response = server.get("/location");
    assert_eq!((response.status, response.field("location")), (302, Some("/local?x")));
}

#[test]
fn b17_an_answer_before_the_body_is_delivered() {
    let (backend, root) = (FakeBackend::new(|_| vec![Step::Send([stdout(FINE), end(0)].concat()), Step::Wait]), Root::new());
    let server = service(&backend, &root, "");
    let mut client = server.connect();
    client.send("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\nsome");
    let response = client.response("POST").must_be(&[200]);
    assert!(response.closes() && response.text() == "fine");
}

#[test]
fn b19_what_comes_behind_the_end_reaches_no_other_client() {
    let (backend, root) = (
        FakeBackend::new(|seen| match seen.path() {
            "/poison" => vec![Step::Send([stdout(FINE), end(0), stdout("Content-Type: x\r\n\r\npoison"), end(0)].concat())],
            _ => answer(FINE),
        }),
        Root::new(),
    );
    let server = service(&backend, &root, "keep_idle = \"1m\"");
    for _ in 0..4 {
        assert_eq!(server.get("/poison").text(), "fine");
        assert_eq!(server.get("/next").text(), "fine");
    }
}

#[test]
fn c14_a_client_that_leaves_ends_the_request_at_the_backend() {
    let (backend, root) =
        (FakeBackend::new(|_| vec![Step::Send(stdout("Content-Type: text/plain\r\n\r\nbegun")), Step::Wait]), Root::new());
    let server = service(&backend, &root, "");
    let mut client = server.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head().unwrap();
    drop(client);
    let seen = || backend.seen.lock().unwrap().first().cloned().is_some_and(|seen| seen.gone && seen.aborted);
    assert!(wait_until(PATIENCE, seen).is_some(), "{:?}", backend.seen.lock().unwrap());
}
