//! Which site answers: by `Host`, by the authority of an absolute target, by the address.

use crate::support::{Configuration, Root, Server};

fn two_sites() -> (Root, Server) {
    let root = Root::new();
    for name in ["a", "b", "wild", "default"] {
        root.file(format!("{name}/index.html"), name);
    }
    let configuration = Configuration::new()
        .site(&root.at("a"), "name = [\"a.test\", \"www.a.test\"]")
        .site(&root.at("b"), "name = [\"b.test\"]")
        .site(&root.at("wild"), "name = [\"*.wild.test\"]")
        .site(&root.at("default"), "name = [\"\"]");
    let server = Server::run(&configuration);
    (root, server)
}

#[test]
fn h08_the_host_selects_the_site() {
    let (_root, server) = two_sites();
    // 122, H08
    for (host, right) in [
        ("a.test", "a"),
        ("www.a.test", "a"),
        ("WWW.A.Test.:8443", "a"),
        ("a.test:80", "a"),
        ("a.test.", "a"),
        ("b.test", "b"),
        ("x.wild.test", "wild"),
        ("X.Wild.Test:1", "wild"),
        ("wild.test", "default"),
        ("xwild.test", "default"),
        ("other.test", "default"),
        ("127.0.0.1", "default"),
        ("[::1]:80", "default"),
        ("a.test.evil.example", "default"),
        ("xa.test", "default"),
    ] {
        let response = server.exchange(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), "GET").must_be(&[200]);
        assert_eq!(response.text(), right, "Host: {host}");
    }
}

#[test]
fn the_target_wins_over_the_host() {
    let (_root, server) = two_sites();
    // RFC 9112 section 3.2.2, F21
    for (target, right) in [("http://b.test/", "b"), ("http://B.Test:80/", "b"), ("HTTP://b.test/", "b"), ("http://b.test", "b")] {
        let response =
            server.exchange(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"), "GET").must_be(&[200]);
        assert_eq!(response.text(), right, "{target}");
    }
}

#[test]
fn no_host_is_400_and_in_http_1_0_the_default_site() {
    let (_root, server) = two_sites();
    server.exchange("GET / HTTP/1.1\r\n\r\n", "GET").must_be(&[400]);
    server.exchange("GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", "GET").must_be(&[400]);
    server.exchange("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET").must_be(&[400]);
    assert_eq!(server.exchange("GET / HTTP/1.0\r\n\r\n", "GET").must_be(&[200]).text(), "default");
    assert_eq!(server.exchange("GET / HTTP/1.0\r\nHost: b.test\r\n\r\n", "GET").must_be(&[200]).text(), "b");
}

#[test]
fn every_request_of_a_connection_selects_for_itself() {
    let (_root, server) = two_sites();
    let mut client = server.connect();
    for (host, right) in [("a.test", "a"), ("b.test", "b"), ("a.test", "a"), ("none", "default")] {
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.response("GET").must_be(&[200]).text(), right);
    }
}

#[test]
fn h08_without_a_default_site_the_first_one_answers() {
    let root = Root::new();
    root.file("a/index.html", "a");
    root.file("b/index.html", "b");
    let server = Server::run(&Configuration::new().site(&root.at("a"), "name = [\"a.test\"]").site(&root.at("b"), "name = [\"b.test\"]"));
    for (host, right) in [("other", "a"), ("b.test", "b"), ("a.test", "a")] {
        let response = server.exchange(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), "GET").must_be(&[200]);
        assert_eq!(response.text(), right, "Host: {host}");
    }
}

#[test]
fn two_addresses_serve_the_same_sites() {
    let root = Root::with_index();
    let user = if crate::support::is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" };
    let configuration = Configuration::of(&root.path()).server(&format!("{user}listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]"));
    let server = Server::run(&configuration);
    assert_eq!(server.addresses().len(), 2);
    for address in server.addresses() {
        let mut client = crate::support::Client::connect(*address);
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        client.response("GET").must_be(&[200]);
    }
}

#[test]
fn the_server_field_is_the_configured_one() {
    let root = Root::with_index();
    let named = Server::run(&Configuration::of(&root.path()).server_also("server_header = \"web\""));
    assert_eq!(named.get("/").field("Server"), Some("web"));
    let none = Server::run(&Configuration::of(&root.path()).server_also("server_header = \"\""));
    assert_eq!(none.get("/").field("Server"), None);
    assert_eq!(none.get("/none").field("Server"), None);
}
