//! Connections: how long they live, and that requests on one are answered in order, however they arrive.

use crate::support::{Configuration, Root, Server, pattern, request};

fn site() -> (Root, Server) {
    let root = Root::with_index();
    for number in 0..10 {
        root.file(format!("{number}.txt"), format!("body {number}"));
    }
    let server = Server::serve(&root.path());
    (root, server)
}

#[test]
fn many_requests_on_one_connection() {
    let (_root, server) = site();
    let mut client = server.connect();
    for round in 0..50 {
        let number = round % 10;
        client.send(request("GET", format!("/{number}.txt"), &[]));
        let response = client.response("GET").must_be(&[200]);
        assert_eq!(response.text(), format!("body {number}"));
        assert!(!response.closes());
    }
    // Errors, redirects and HEAD keep the connection too.
    for (method, target, status) in
        [("GET", "/none", 404), ("HEAD", "/0.txt", 200), ("HEAD", "/none", 404), ("OPTIONS", "/0.txt", 204), ("POST", "/0.txt", 405)]
    {
        client.send(request(method, target, if method == "POST" { &["Content-Length: 0"] } else { &[] }));
        let response = client.response(method);
        assert!(response.status == status || (method == "OPTIONS" && response.status == 200), "{method} {target}: {}", response.status);
        assert!(!response.closes(), "{method} {target}");
    }
    client.send(request("GET", "/1.txt", &[]));
    assert_eq!(client.response("GET").must_be(&[200]).text(), "body 1");
}

#[test]
fn f39_a_thousand_pipelined_requests_are_answered_in_order() {
    let (_root, server) = site();
    let workers = server.workers();
    // F39: sent at once, read afterwards.
    let all: Vec<u8> = (0..1000).flat_map(|number| request("GET", format!("/{}.txt", number % 10), &[])).collect();
    let mut client = server.connect();
    client.send(&all);
    for number in 0..1000 {
        assert_eq!(client.response("GET").must_be(&[200]).text(), format!("body {}", number % 10), "response {number}");
    }
    server.must_be_well(&workers, "1,000 pipelined requests");
}

#[test]
fn pipelined_large_files_are_answered_in_order() {
    let root = Root::with_index();
    let bodies: Vec<_> = [300_000, 10, 150_000, 0, 1_000_000].iter().map(|len| pattern(*len)).collect();
    for (number, body) in bodies.iter().enumerate() {
        root.file(format!("{number}.bin"), body);
    }
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    let all: Vec<u8> = (0..20).flat_map(|number| request("GET", format!("/{}.bin", number % 5), &[])).collect();
    client.send(&all).half_close();
    for number in 0..20 {
        assert!(client.response("GET").must_be(&[200]).body == bodies[number % 5], "response {number}");
    }
    client.expect_end();
}

#[test]
fn f39_split_at_every_byte_the_answers_are_the_same() {
    let (_root, server) = site();
    let bytes =
        [request("GET", "/1.txt", &["User-Agent: split", "Accept: */*"]), request("HEAD", "/2.txt", &[]), request("GET", "/3.txt", &[])]
            .concat();
    let mut client = server.connect();
    for at in 1..bytes.len() {
        client.send(&bytes[..at]);
        // The pieces must be read apart: wait until the first has been taken from the socket.
        std::thread::sleep(std::time::Duration::from_millis(2));
        client.send(&bytes[at..]);
        assert_eq!(client.response("GET").must_be(&[200]).text(), "body 1", "split at {at}");
        assert_eq!(client.response("HEAD").must_be(&[200]).length(), 6, "split at {at}");
        assert_eq!(client.response("GET").must_be(&[200]).text(), "body 3", "split at {at}");
    }
}

#[test]
fn one_byte_at_a_time_gives_the_same_answer() {
    let (_root, server) = site();
    let mut client = server.connect();
    for byte in request("GET", "/1.txt", &["User-Agent: slow"]) {
        client.send([byte]);
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
    assert_eq!(client.response("GET").must_be(&[200]).text(), "body 1");
}

#[test]
fn empty_lines_before_a_request_are_passed_over() {
    let (_root, server) = site();
    // RFC 9112 section 2.2: at least one CRLF before the request line should be ignored.
    let mut client = server.connect();
    client.send([b"\r\n".as_slice(), &request("GET", "/1.txt", &[])].concat());
    client.response("GET").must_be(&[200]);
}

#[test]
fn connection_close_closes() {
    let (_root, server) = site();
    for value in ["close", "Close", "x, close", "close, keep-alive"] {
        let response = server.exchange(request("GET", "/1.txt", &[&format!("Connection: {value}")]), "GET");
        assert!(response.closes(), "{value}");
    }
    // A request behind it is not answered.
    let both = [request("GET", "/1.txt", &["Connection: close"]), request("GET", "/2.txt", &[])].concat();
    assert_eq!(server.exchange(both, "GET").text(), "body 1");
}

#[test]
fn http_1_0_closes_unless_asked_not_to() {
    let (_root, server) = site();
    let response = server.exchange("GET /1.txt HTTP/1.0\r\n\r\n", "GET").must_be(&[200]);
    assert_eq!(response.text(), "body 1");
    assert!(response.field("Transfer-Encoding").is_none());
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET /1.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.response("GET").must_be(&[200]);
        if response.closes() {
            return client.expect_end();
        }
        // RFC 9112 appendix C.2.2: the client must be told.
        assert_eq!(response.field("Connection").map(str::to_ascii_lowercase), Some("keep-alive".to_owned()));
    }
}

#[test]
fn keepalive_requests_are_counted() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).limits("keepalive_requests = 3"));
    let mut client = server.connect();
    for number in 1..=3 {
        client.send(request("GET", "/", &[]));
        assert_eq!(client.response("GET").must_be(&[200]).closes(), number == 3, "request {number}");
    }
    client.expect_end();
    // The same with a fourth request already sent.
    let mut client = server.connect();
    client.send(request("GET", "/", &[]).repeat(4));
    for _ in 1..=3 {
        client.response("GET").must_be(&[200]);
    }
    client.expect_end();
}

#[test]
fn kept_connections_spread_over_the_workers() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    // A worker has other sockets too, and opens some when it needs them: only ends of connections at the address count.
    let connections = |pid: i32| {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let local = format!(":{:04X}", server.address().port());
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let ends = rows.filter(|row| row[1].ends_with(&local) && row[3] == "01");
        let sockets: Vec<_> = ends.map(|row| format!("socket:[{}]", row[9])).collect();
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        links.filter(|link| sockets.contains(&link.to_string_lossy().into_owned())).count()
    };
    let workers = server.workers();
    let mut clients: Vec<_> = (0..64).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(request("GET", "/", &[]));
        client.response("GET").must_be(&[200]);
    }
    let held: Vec<usize> = workers.iter().map(|pid| connections(*pid)).collect();
    assert!(held.len() == 2 && held.iter().sum::<usize>() == 64 && held.iter().all(|count| *count >= 16), "{held:?}");
}
