//! Methods other than GET and HEAD.

use crate::support::{Root, Server, request, shown};

fn site() -> (Root, Server) {
    let root = Root::with_index();
    root.file("a.txt", "hello\n");
    root.file("dir/index.html", "inner");
    let server = Server::serve(&root.path());
    (root, server)
}

fn allowed(value: &str) -> Vec<String> {
    let mut methods: Vec<_> = value.split(',').map(|method| method.trim().to_owned()).collect();
    methods.sort();
    methods
}

#[test]
fn options_says_what_is_allowed() {
    let (_root, server) = site();
    for target in ["/a.txt", "/dir/", "*"] {
        let response = server.ask("OPTIONS", target, &[]).must_be(&[200, 204]);
        assert_eq!(allowed(response.field("Allow").unwrap()), ["GET", "HEAD", "OPTIONS"], "{target}");
        assert!(response.body.is_empty());
    }
}

#[test]
fn methods_that_change_things_are_405_and_change_nothing() {
    let (root, server) = site();
    let workers = server.workers();
    // P22
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        for target in ["/a.txt", "/dir/", "/new.txt"] {
            let response = server.ask(method, target, &["Content-Length: 0"]);
            assert!(response.status == 405 || (target == "/new.txt" && response.status == 404), "{method} {target}: {}", response.status);
            if response.status == 405 {
                assert_eq!(allowed(response.field("Allow").unwrap()), ["GET", "HEAD", "OPTIONS"]);
            }
        }
    }
    for method in ["MOVE", "COPY", "PROPFIND", "MKCOL", "LOCK"] {
        server.ask(method, "/a.txt", &["Destination: http://a/b.txt"]).must_be(&[405, 501]);
    }
    assert_eq!(std::fs::read_to_string(root.at("a.txt")).unwrap(), "hello\n");
    assert!(!root.at("new.txt").exists() && !root.at("b.txt").exists());
    server.must_be_well(&workers, "methods");
}

#[test]
fn unknown_methods_are_501_and_methods_have_case() {
    let (_root, server) = site();
    for method in ["BREW", "get", "Get", "GETS", "X-!#$%&'*+.^_`|~9"] {
        server.ask(method, "/a.txt", &[]).must_be(&[501]);
    }
    let long = "A".repeat(5000);
    server.exchange(request(&long, "/a.txt", &["Connection: close"]), &long).must_be(&[400, 414, 501]);
    for method in ["G(T", "GE\"T", "G\u{e9}T"] {
        server.exchange(request(method, "/a.txt", &[]), "GET").must_be(&[400]);
    }
}

#[test]
fn trace_never_echoes_and_connect_never_tunnels() {
    let (_root, server) = site();
    // F23
    let trace = server.ask("TRACE", "/", &["Cookie: secret=1"]).must_be(&[405, 501]);
    assert!(!trace.text().contains("secret"), "{}", shown(&trace.body));
    server.exchange("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n", "CONNECT").must_be(&[405, 501]);
}

#[test]
fn a_body_nobody_reads_never_becomes_a_request() {
    let (_root, server) = site();
    let workers = server.workers();
    // F37, 118: the body looks like a request.
    let hidden = request("GET", "/a.txt", &[]);
    for (method, status) in [("POST", 405), ("GET", 200), ("PUT", 405)] {
        let mut bytes = request(method, "/", &[&format!("Content-Length: {}", hidden.len())]);
        bytes.extend_from_slice(&hidden);
        bytes.extend_from_slice(&request("GET", "/dir/", &[]));
        let mut client = server.connect();
        client.send(&bytes);
        client.response(method).must_be(&[status]);
        let next = client.response("GET").must_be(&[200]);
        assert!(next.text().contains("inner"), "{method}: the next answer is to the next request: {}", next.text());
    }
    server.must_be_well(&workers, "bodies nobody reads");
}

#[test]
fn a_large_body_nobody_reads_does_not_lose_the_answer() {
    let (_root, server) = site();
    let workers = server.workers();
    // 119: the client reads only after it has sent all of it; the server drains within bounds.
    let body = vec![b'x'; 300_000];
    let mut client = server.connect();
    client.send(request("POST", "/a.txt", &["Content-Length: 300000"]));
    if client.try_send(&body).is_ok() {
        client.response("POST").must_be(&[405]);
        client.expect_end();
    }
    // And one that never ends is cut.
    let mut client = server.connect();
    client.send(request("POST", "/a.txt", &["Content-Length: 15000000"]));
    client.response("POST").must_be(&[405]);
    let piece = vec![b'x'; 64 * 1024];
    let cut = crate::support::wait_until(std::time::Duration::from_secs(30), || client.try_send(&piece).is_err());
    assert!(cut.is_some(), "the server should stop reading a body it does not want");
    server.must_be_well(&workers, "a body without end");
}

#[test]
fn expect_is_answered() {
    let (_root, server) = site();
    // F38: what will not be read is not asked for.
    let mut client = server.connect();
    client.send(request("POST", "/a.txt", &["Content-Length: 5", "Expect: 100-continue"]));
    client.response("POST").must_be(&[405]);
    server.ask("GET", "/a.txt", &["Expect: magic"]).must_be(&[417]);
}
