//! Bodies of requests: limits, time-outs, and that an answer is neither lost nor given before its time.

use crate::support::{Configuration, PATIENCE, Root, Server, request};
use std::io::Write;
use std::time::{Duration, Instant};

fn limited(root: &Root, limits: &str, site: &str) -> Server {
    Server::run(
        &Configuration::new()
            .limits(limits)
            .log("access = \"stderr\"\nerror = \"stderr\"")
            .site(&root.path(), &format!("name = [\"\"]\n{site}")),
    )
}

/// A head with a chunked body behind it.
fn chunked(target: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
}

#[test]
fn s11_a_chunked_body_beyond_the_limit_is_413_when_a_chunk_announces_it() {
    let root = Root::with_index();
    let rules = "[[site.rule]]\npath = \"/large\"\nbody = \"30B\"\nmethod = [\"POST\"]\nrespond = 200\n";
    let server = limited(&root, "body = \"20B\"", rules);
    let workers = server.workers();
    let mut count = 0;
    for (target, within, beyond, status) in [
        ("/", "14\r\n01234567890123456789\r\n0\r\n\r\n", "15\r\n", 405),
        ("/large", "1e\r\n012345678901234567890123456789\r\n0\r\n\r\n", "1d\r\n01234567890123456789012345678\r\n2\r\n", 200),
    ] {
        let mut client = server.connect();
        client.send(chunked(target, within));
        assert!(!client.response("POST").must_be(&[status]).closes(), "{target}");
        // Nothing of what was announced has come.
        client.send(chunked(target, beyond));
        assert!(client.response("POST").must_be(&[413]).closes(), "{target}");
        client.half_close();
        client.expect_end();
        server.must_be_well(&workers, target);
        count += 3;
    }
    let lines = server.wait_for_access_lines(count);
    assert_eq!(lines.len(), count, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.status == 413 && line.request.starts_with("POST ")).count(), 2);
}

#[test]
fn s11_a_length_beyond_the_limit_is_413_before_any_byte_of_it() {
    let root = Root::with_index();
    let server = limited(&root, "body = \"1MiB\"", "");
    let workers = server.workers();
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
    assert!(client.response("POST").must_be(&[413]).closes());
    client.half_close();
    client.expect_end();
    // A client that reads only when it has sent everything still finds the answer.
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
    client.send(vec![b'x'; 20_000_000]);
    client.response("POST").must_be(&[413]);
    client.half_close();
    client.expect_end();
    server.must_be_well(&workers, "bodies beyond the limit");
}

#[test]
fn a_body_is_answered_when_it_is_complete_however_it_is_split() {
    let root = Root::with_index();
    let server = limited(&root, "", "");
    let workers = server.workers();
    let sent = [
        chunked("/", "3;a=\"b\"\r\nabc\r\n0\r\nX: y\r\n\r\n"),
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
    ]
    .concat();
    let mut client = server.connect();
    for at in 1..sent.len() {
        client.send(&sent[..at]);
        std::thread::sleep(Duration::from_millis(2));
        client.send(&sent[at..]);
        for (method, status) in [("POST", 405), ("POST", 405), ("GET", 200)] {
            assert!(!client.response(method).must_be(&[status]).closes(), "split at {at}");
        }
    }
    server.must_be_well(&workers, "split bodies");
}

#[test]
fn nothing_is_answered_before_the_body_is_complete() {
    let root = Root::with_index();
    let server = limited(&root, "", "");
    let mut client = server.connect();
    client.send(chunked("/", "1\r\na\r\n"));
    client.read_timeout(Duration::from_millis(300));
    assert!(client.try_response("POST").is_err());
    client.send("1\r\nb\r\n0\r\n\r");
    assert!(client.try_response("POST").is_err());
    client.send("\n");
    client.read_timeout(PATIENCE);
    client.response("POST").must_be(&[405]);
}

#[test]
fn s02_a_body_that_stops_is_408() {
    let root = Root::with_index();
    let server = limited(&root, "body_timeout = \"1s\"", "");
    let workers = server.workers();
    for (number, sent) in
        [chunked("/", "5\r\nhel"), "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel".to_owned()].iter().enumerate()
    {
        let start = Instant::now();
        let mut client = server.connect();
        client.send(sent);
        assert!(client.response("POST").must_be(&[408]).closes());
        let took = start.elapsed();
        assert!(took > Duration::from_millis(900) && took < PATIENCE / 2, "{took:?}");
        client.half_close();
        client.expect_end();
        server.must_be_well(&workers, "a body that stops");
        let lines = server.wait_for_access_lines(number * 2 + 2);
        assert_eq!(lines.len(), number * 2 + 2, "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.status == 408 && line.request.ends_with(" / HTTP/1.1")).count(), number + 1);
    }
}

#[test]
fn s02_a_sender_below_the_rate_is_cut_and_one_above_is_not() {
    let root = Root::with_index();
    let server = limited(&root, "min_rate = \"50B/s\"\nbody_timeout = \"20s\"\nheader_timeout = \"30s\"", "");
    let workers = server.workers();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
    std::thread::scope(|scope| {
        // One byte a second: five seconds, and a little for what came.
        for sent in [head, "POST / HTTP/1.1\r\nHost: a\r\nX: "] {
            let server = &server;
            scope.spawn(move || {
                let start = Instant::now();
                let mut client = server.connect();
                client.send(sent);
                let mut dripping = client.stream().try_clone().unwrap();
                let dripped = std::thread::spawn(move || {
                    (0..20).all(|_| {
                        std::thread::sleep(Duration::from_secs(1));
                        dripping.write_all(b"x").is_ok()
                    })
                });
                match client.try_response("POST") {
                    Ok(response) => assert!(response.must_be(&[408]).closes()),
                    Err(fault) => assert!(fault.contains("reset"), "{fault}"),
                }
                let took = start.elapsed();
                assert!(took > Duration::from_millis(4_900) && took < Duration::from_secs(18), "{took:?}");
                drop(client);
                assert!(!dripped.join().unwrap(), "the client could go on");
            });
        }
        scope.spawn(|| {
            // Twice the rate, for longer than the grace.
            let mut client = server.connect();
            client.send(head);
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(400));
                client.send([b'x'; 50]);
            }
            client.response("POST").must_be(&[405]);
        });
    });
    server.must_be_well(&workers, "slow senders");
}

#[test]
fn an_end_within_a_request_is_400_and_has_its_line() {
    let root = Root::with_index();
    let server = limited(&root, "", "");
    let workers = server.workers();
    for sent in
        [chunked("/", "5\r\nhel"), "GET / HTTP/1.1\r\nHos".to_owned(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n".to_owned()]
    {
        let mut client = server.connect();
        client.send(&sent).half_close();
        assert!(client.response("POST").must_be(&[400]).closes(), "{sent:?}");
        client.expect_end();
    }
    // Nothing was asked here.
    for sent in ["", "\r\n"] {
        let mut client = server.connect();
        client.send(sent).half_close();
        client.expect_end();
    }
    server.must_be_well(&workers, "cut requests");
    let lines = server.wait_for_access_lines(4);
    assert_eq!(lines.iter().map(|line| line.status).collect::<Vec<_>>(), [400, 400, 400, 200], "{lines:#?}");
}

#[test]
fn s13_what_comes_after_the_last_response_is_dropped_and_takes_nothing_with_it() {
    let root = Root::with_index();
    root.sparse("big.bin", 3 << 20);
    let server = limited(&root, "", "");
    let workers = server.workers();
    let mut client = server.connect();
    // The request is refused within its head, and the client goes on and on before it reads.
    client.send("GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nand more");
    let mut sending = client.stream().try_clone().unwrap();
    let sent = std::thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        (0..1024).take_while(|_| sending.write_all(&piece).is_ok()).count()
    });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(client.response("GET").must_be(&[200]).body.len(), 3 << 20);
    client.expect_end();
    let sent = sent.join().unwrap();
    assert!(sent < 1024, "a client could send {sent} MiB after the end");
    server.must_be_well(&workers, "1 GiB after the last response");
    let lines = server.wait_for_access_lines(2);
    assert_eq!(lines.len(), 2, "{lines:#?}");
}

#[test]
fn an_error_page_that_cannot_be_had_does_not_hold_the_answer() {
    let root = Root::with_index();
    root.file("large.html", "too large");
    let server = limited(&root, "body = \"10B\"", "error_pages = { 404 = \"/gone.html\", 413 = \"/large.html\", 405 = \"/gone.html\" }");
    let workers = server.workers();
    server.get("/none").must_be(&[404]);
    let mut client = server.connect();
    // The page is looked up after the body was read, with a request waiting behind it.
    client.send(
        [
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
            chunked("/", "1\r\na\r\n0\r\n\r\n"),
            chunked("/", "b\r\n"),
        ]
        .concat(),
    );
    assert!(!client.response("POST").must_be(&[405]).closes());
    client.response("POST").must_be(&[405]);
    let response = client.response("POST").must_be(&[413]);
    assert!(response.closes());
    assert_eq!(response.text(), "too large");
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world");
    let response = client.response("POST").must_be(&[413]);
    assert!(response.closes());
    assert_eq!(response.text(), "too large");
    client.half_close();
    client.expect_end();
    server.must_be_well(&workers, "error pages");
}

#[test]
fn s12_a_client_that_has_ended_gets_its_response_whole() {
    let root = Root::with_index();
    root.sparse("big.bin", 50 << 20);
    let server = limited(&root, "", "");
    for (target, length) in [("/", 6), ("/big.bin", 50 << 20)] {
        let mut client = server.connect();
        client.send(request("GET", target, &[])).half_close();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(client.response("GET").must_be(&[200]).body.len(), length);
        client.expect_end();
    }
}
