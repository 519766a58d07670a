//! `https_redirect`: plain requests are sent to the same place with https.

use crate::support::{Configuration, Root, Server};

#[test]
fn plain_requests_are_sent_to_https() {
    let root = Root::with_index();
    root.file("a b.txt", "x");
    root.file(".well-known/acme-challenge/token", "proof");
    let site =
        "name = [\"a\", \"*.example.org\"]\nhttps_redirect = true\n[[site.rule]]\npath = \"/r\"\nrespond = 200\nheader = { X = \"y\" }\n";
    let other = "name = [\"other.test\"]\nhttps_redirect = true\n";
    let server = Server::run(&Configuration::new().site(&root.path(), site).site(&root.path(), other));
    for (method, target, status, location) in [
        ("GET", "/", 301, "https://a/"),
        ("HEAD", "/", 301, "https://a/"),
        ("GET", "/a%20b.txt?q=1", 301, "https://a/a%20b.txt?q=1"),
        ("GET", "/none/", 301, "https://a/none/"),
        ("GET", "/r", 301, "https://a/r"),
        ("POST", "/form", 308, "https://a/form"),
        ("GET", "//evil.test/", 301, "https://a/evil.test/"),
        ("GET", "/%0d%0aX:%20y", 301, "https://a/%0D%0AX:%20y"),
    ] {
        let fields: &[&str] = if method == "POST" { &["Content-Length: 0"] } else { &[] };
        let response = server.ask(method, target, fields).must_be(&[status]);
        assert_eq!(response.field("Location"), Some(location), "{method} {target}");
    }
    assert_eq!(server.get("/.well-known/acme-challenge/token").must_be(&[200]).text(), "proof");
    server.get("/.well-known/acme-challenge/none").must_be(&[404]);
    for (host, location) in
        [("other.test:8080", "https://other.test/x"), ("x.example.org.", "https://x.example.org/x"), ("evil.test", "https://a/x")]
    {
        let response = server.exchange(format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), "GET").must_be(&[301]);
        assert_eq!(response.field("Location"), Some(location), "{host}");
    }
    // A site for every other host does not send clients to one that somebody made up, if it has a name of its own.
    for (name, location) in [("\"any.test\", \"\"", "https://any.test/x"), ("\"\"", "https://evil.test/x")] {
        let site = format!("name = [{name}]\nhttps_redirect = true\n");
        let server = Server::run(&Configuration::new().site(&root.path(), &site));
        let response = server.exchange("GET /x HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n", "GET").must_be(&[301]);
        assert_eq!(response.field("Location"), Some(location), "{name}");
    }
    let explained = server.order(&["explain", "http://a/x?y"]).must_be_done().stdout;
    assert!(explained.contains("https_redirect") && explained.contains("https://a/x?y"), "{explained}");
    let explained = server.order(&["explain", "https://a/"]).must_be_done().stdout;
    assert!(explained.contains("index.html") && !explained.contains("https_redirect"), "{explained}");
}
