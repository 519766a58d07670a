//! Every limit at its value and one beyond, and the times.

use crate::support::{Client, Configuration, Launch, PATIENCE, Root, Server, request, status_field};
use std::io::Read;
use std::time::{Duration, Instant};

fn limited(root: &Root, lines: &str) -> Server {
    Server::run(&Configuration::of(&root.path()).limits(lines))
}

/// A request line of exactly `len` bytes, its CRLF not counted.
fn request_line(len: usize) -> String {
    let rest = len - "GET / HTTP/1.1".len();
    // Segments stay short of NAME_MAX, so that the answer is 404 and nothing else.
    let target: String = "abcdefghi/".chars().cycle().take(rest).collect();
    let line = format!("GET /{target} HTTP/1.1");
    assert_eq!(line.len(), len);
    line
}

#[test]
fn a_request_line_is_limited() {
    let root = Root::with_index();
    for (server, limit) in [(Server::serve(&root.path()), 8192), (limited(&root, "request_line = \"1KiB\""), 1024)] {
        let workers = server.workers();
        let at = server.exchange(format!("{}\r\nHost: a\r\nConnection: close\r\n\r\n", request_line(limit)), "GET");
        assert_eq!(at.status, 404, "at the limit of {limit}");
        for len in [limit + 1, limit + 2, 60_000] {
            let mut client = server.connect();
            let _ = client.try_send(format!("{}\r\nHost: a\r\n\r\n", request_line(len)));
            assert!(client.response("GET").must_be(&[414]).closes(), "{len} bytes");
            client.expect_end();
        }
        // Without an end: refused when the limit is passed, not when a time-out comes.
        let start = Instant::now();
        let mut client = server.connect();
        let _ = client.try_send(&request_line(limit + 200)[..limit + 100]);
        client.response("GET").must_be(&[414]);
        assert!(start.elapsed() < PATIENCE);
        server.must_be_well(&workers, "long request lines");
    }
}

/// Field lines of exactly `len` bytes together, CRLFs counted, `Host` and `Connection` among them.
fn fields(len: usize) -> String {
    let fixed = "Host: a\r\nConnection: close\r\n";
    let filler = "X-Filler: \r\n";
    let fields = format!("{fixed}X-Filler: {}\r\n", "x".repeat(len - fixed.len() - filler.len()));
    assert_eq!(fields.len(), len);
    fields
}

#[test]
fn the_bytes_of_a_header_are_limited() {
    let root = Root::with_index();
    for (server, limit) in [(Server::serve(&root.path()), 32 * 1024), (limited(&root, "header_bytes = \"1KiB\""), 1024)] {
        let workers = server.workers();
        server.exchange(format!("GET / HTTP/1.1\r\n{}\r\n", fields(limit)), "GET").must_be(&[200]);
        for len in [limit + 1, limit + 64 * 1024] {
            let mut client = server.connect();
            let _ = client.try_send(format!("GET / HTTP/1.1\r\n{}\r\n", fields(len)));
            assert!(client.response("GET").must_be(&[431]).closes(), "{len} bytes");
            client.expect_end();
        }
        server.must_be_well(&workers, "large headers");
    }
}

#[test]
fn h01_the_number_of_fields_is_limited() {
    let root = Root::with_index();
    for (server, limit) in [(Server::serve(&root.path()), 100), (limited(&root, "header_count = 5"), 5)] {
        let workers = server.workers();
        let with = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1));
        let mut client = server.connect();
        client.send(with(limit));
        client.response("GET").must_be(&[200]);
        // H01
        for count in [limit + 1, 2000, 100_000] {
            let mut client = server.connect();
            let _ = client.try_send(with(count));
            match client.try_response("GET") {
                Ok(response) => assert!(response.must_be(&[431]).closes(), "{count} fields"),
                // The bytes still on their way when it closed may have turned the close into a reset.
                Err(fault) => assert!(count > 2000 && fault.contains("reset"), "{count} fields: {fault}"),
            }
        }
        server.must_be_well(&workers, "many fields");
    }
}

#[test]
fn h02_a_huge_field_costs_no_memory() {
    let root = Root::with_index();
    let server = limited(&root, "");
    let workers = server.workers();
    // H02: 16 MiB in one value, 64 KiB in a name.
    let mut client = server.connect();
    let _ = client.try_send(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(16 * 1024 * 1024)));
    if let Ok(response) = client.try_response("GET") {
        response.must_be(&[431]);
    }
    let mut client = server.connect();
    let _ = client.try_send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}: x\r\n\r\n", "x".repeat(64 * 1024)));
    client.response("GET").must_be(&[431]);
    for worker in &workers {
        let peak = status_field(*worker, "VmHWM");
        let kib: u64 = peak.trim_end_matches(" kB").trim().parse().unwrap();
        assert!(kib < 64 * 1024, "peak memory of a worker: {peak}");
    }
    server.must_be_well(&workers, "huge fields");
}

#[test]
fn a_body_beyond_the_limit_is_413_and_a_rule_goes_before() {
    let root = Root::with_index();
    let rules = "name = [\"\"]\n[[site.rule]]\npath = \"/large\"\nbody = \"30B\"\nmethod = [\"POST\"]\nrespond = 200\n";
    let configuration = Configuration::new().limits("body = \"20B\"");
    let server = Server::run(&configuration.site(&root.path(), rules));
    for (target, length, status) in [("/", 20, 405), ("/", 21, 413), ("/large", 30, 200), ("/large", 31, 413)] {
        let mut client = server.connect();
        client.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(length)));
        client.response("POST").must_be(&[status]);
    }
}

#[test]
fn a_head_that_does_not_come_is_408_however_it_drips() {
    let root = Root::with_index();
    let server = limited(&root, "header_timeout = \"2s\"");
    let workers = server.workers();
    for drip in [false, true] {
        let start = Instant::now();
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n");
        let mut dripped = client.stream().try_clone().unwrap();
        let dripping = std::thread::spawn(move || {
            // S01: a byte now and then does not prolong it.
            for _ in 0..if drip { 150 } else { 0 } {
                std::thread::sleep(Duration::from_millis(200));
                if std::io::Write::write_all(&mut dripped, b"x").is_err() {
                    break;
                }
            }
        });
        match client.try_response("GET") {
            Ok(response) => assert!(response.must_be(&[408]).closes()),
            Err(fault) => assert!(drip && fault.contains("reset"), "{fault}"),
        }
        let took = start.elapsed();
        assert!(took > Duration::from_millis(1800) && took < Duration::from_secs(20), "drip {drip}: {took:?}");
        client.expect_end();
        dripping.join().unwrap();
    }
    server.must_be_well(&workers, "slow heads");
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let root = Root::with_index();
    let server = limited(&root, "keepalive_timeout = \"1s\"");
    let mut client = server.connect();
    client.send(request("GET", "/", &[]));
    client.response("GET").must_be(&[200]);
    let start = Instant::now();
    client.expect_end();
    let took = start.elapsed();
    assert!(took > Duration::from_millis(800) && took < PATIENCE, "{took:?}");
}

#[test]
fn s05_a_connection_that_never_speaks_is_closed() {
    let root = Root::with_index();
    let server = limited(&root, "header_timeout = \"1s\"\nkeepalive_timeout = \"1s\"");
    // S05. The kernel may hold such a connection back from the server for a while (TCP_DEFER_ACCEPT), so the bound is wide.
    let mut client = server.connect();
    client.read_timeout(Duration::from_secs(60));
    let rest = client.rest().expect("closed in the end");
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408 "));
}

#[test]
fn s03_a_reader_that_stops_is_cut() {
    let root = Root::with_index();
    root.sparse("big.bin", 256 * 1024 * 1024);
    let server = limited(&root, "write_timeout = \"1s\"");
    let workers = server.workers();
    // S03
    let mut client = server.connect();
    client.send(request("GET", "/big.bin", &[]));
    client.head().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let mut left = 0_usize;
    let mut piece = vec![0; 256 * 1024];
    let mut stream = client.stream().try_clone().unwrap();
    while let Ok(count) = stream.read(&mut piece) {
        if count == 0 {
            break;
        }
        left += count;
    }
    assert!(left < 200 * 1024 * 1024, "the server went on to send {left} bytes");
    server.must_be_well(&workers, "a reader that stopped");
}

#[test]
fn a_reader_that_is_slow_but_steady_is_not_cut() {
    let root = Root::with_index();
    root.sparse("big.bin", 24 * 1024 * 1024);
    let server = limited(&root, "write_timeout = \"4s\"");
    let mut client = server.connect();
    client.send(request("GET", "/big.bin", &[]));
    let length = usize::try_from(client.head().unwrap().length()).unwrap();
    let pieces = 30;
    for _ in 0..pieces {
        // Longer than write_timeout altogether, never so long without progress.
        client.exactly(length / pieces).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    client.exactly(length % pieces).unwrap();
}

#[test]
fn a_reader_that_is_slow_for_what_the_kernel_holds_is_not_cut() {
    let root = Root::with_index();
    root.sparse("big.bin", 24 * 1024 * 1024);
    let server = limited(&root, "write_timeout = \"2s\"");
    let mut client = server.connect();
    client.send(request("GET", "/big.bin", &[]));
    let mut left = usize::try_from(client.head().unwrap().length()).unwrap();
    // Buffers of sockets grow to some megabytes, of which this takes far less than a third in the time.
    for _ in 0..50 {
        client.exactly(40_000).unwrap();
        left -= 40_000;
        std::thread::sleep(Duration::from_millis(100));
    }
    client.exactly(left).unwrap();
}

#[test]
fn s04_at_the_connection_limit_idle_ones_make_room() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).server_also("workers = 1").limits("connections = 10"));
    let workers = server.workers();
    // S04
    let mut idle: Vec<Client> = (0..10)
        .map(|_| {
            let mut client = server.connect();
            client.send(request("GET", "/", &[]));
            client.response("GET").must_be(&[200]);
            client
        })
        .collect();
    for _ in 0..5 {
        server.get("/").must_be(&[200]);
    }
    // The oldest were closed, the youngest still live.
    idle[0].expect_end();
    let youngest = idle.last_mut().unwrap();
    youngest.send(request("GET", "/", &[]));
    youngest.response("GET").must_be(&[200]);
    server.must_be_well(&workers, "at the connection limit");
}

#[test]
fn s07_at_the_limit_of_descriptors_the_server_lives_and_recovers() {
    let root = Root::with_index();
    // S07: the limit of the machine is lower than the configured number of connections.
    let server = Launch::new().shell("ulimit -n 64; exec \"$@\"").run(&Configuration::of(&root.path()).server_also("workers = 1"));
    let workers = server.workers();
    let mut open: Vec<Client> = (0..100).map(|_| server.connect()).collect();
    for client in &mut open {
        let _ = client.try_send("GET / HTTP/1.1\r\n");
    }
    std::thread::sleep(Duration::from_millis(500));
    drop(open);
    let well = crate::support::wait_until(PATIENCE * 2, || {
        let mut client = server.connect();
        client.read_timeout(Duration::from_secs(5));
        client.try_send(request("GET", "/", &["Connection: close"])).is_ok()
            && client.try_response("GET").is_ok_and(|response| response.status == 200)
    });
    assert!(well.is_some(), "no answer after the connections were gone");
    server.must_be_well(&workers, "out of descriptors");
}

#[test]
fn s06_connections_that_come_and_go_at_once_do_no_harm() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    // S06: half with FIN, half with RST.
    for number in 0..2000 {
        let client = server.connect();
        if number % 2 == 0 {
            nix::sys::socket::setsockopt(
                client.stream(),
                nix::sys::socket::sockopt::Linger,
                &nix::libc::linger { l_onoff: 1, l_linger: 0 },
            )
            .unwrap();
        }
    }
    server.must_be_well(&workers, "connect and leave");
}
