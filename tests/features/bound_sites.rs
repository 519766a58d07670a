//! Where the service listens: several addresses, IPv6, sockets in the file system, and sites that answer at their own only.

use crate::support::{Client, Configuration, Root, Server, free_port};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

fn configuration(lines: &str) -> Configuration {
    let user = if crate::support::is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" };
    Configuration::new().server(&format!("{user}{lines}"))
}

fn text_at(address: &str, host: &str) -> String {
    let mut client = Client::connect(address.parse().unwrap());
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response("GET").must_be(&[200]).text()
}

fn over_socket(path: &Path, host: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn a_site_bound_to_an_address_answers_there_alone() {
    let root = Root::new();
    for name in ["public", "admin", "default"] {
        root.file(format!("{name}/index.html"), name);
    }
    let port = free_port();
    let socket = root.base().join("admin.sock");
    let (open, own) = (format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}"));
    let text = configuration(&format!("listen = [\"{open}\"]"))
        .site(&root.at("default"), "name = [\"\"]")
        .site(&root.at("public"), "name = [\"a.test\"]")
        .site(&root.at("admin"), &format!("name = [\"a.test\"]\nlisten = [\"{own}\", \"unix:{}\"]", socket.display()));
    let server = Server::run(&text);
    for (address, host, right) in [
        (&open, "a.test", "public"),
        (&open, "other", "default"),
        (&own, "a.test", "admin"),
        // Nobody else answers there, not even the site for all other names.
        (&own, "other", "admin"),
    ] {
        assert_eq!(text_at(address, host), right, "{host} at {address}");
    }
    assert_eq!(over_socket(&socket, "a.test"), "admin");
    assert_eq!(over_socket(&socket, "other"), "admin");
    for (url, right) in [
        (format!("http://{open}/"), "default"),
        (format!("http://{own}/"), "admin"),
        (format!("http://a.test:{port}/"), "public"),
        ("http://a.test/".into(), "public"),
    ] {
        let told = server.order(&["explain", &url]).must_be_done().stdout;
        assert!(told.contains(&format!("/{right}/index.html")), "{url}: {told}");
    }
    let lines = server.wait_for_lines("access.log", 6);
    assert_eq!(lines.len(), 6, "{lines:?}");
    let status = server.order(&["status", "--json"]).must_be_done().stdout;
    assert!(status.contains(&own) && status.contains(&open), "{status}");
    // A reload takes the address away, and gives it back.
    let both = text.clone();
    server.configure(&configuration(&format!("listen = [\"{open}\"]")).site(&root.at("default"), "name = [\"\"]"));
    server.order(&["reload"]).must_be_done();
    assert!(crate::support::wait_until(crate::support::PATIENCE, || Client::try_connect(own.parse().unwrap()).is_err()).is_some());
    server.configure(&both);
    server.order(&["reload"]).must_be_done();
    assert_eq!(text_at(&own, "a.test"), "admin");
    assert_eq!(over_socket(&socket, "a.test"), "admin");
}

#[test]
fn ipv6_and_both_families_are_served() {
    let root = Root::with_index();
    let port = free_port();
    // 134, 127
    for (listen, addresses) in [
        (format!("\"[::1]:{port}\""), vec![format!("[::1]:{port}")]),
        (format!("\"[::]:{port}\""), vec![format!("[::1]:{port}"), format!("127.0.0.1:{port}")]),
        (format!("\"0.0.0.0:{port}\", \"[::]:{port}\""), vec![format!("[::1]:{port}"), format!("127.0.0.1:{port}")]),
    ] {
        let rules = "name = [\"\"]\n[[site.rule]]\nclient = [\"127.0.0.1\"]\nrespond = 200\nrespond_body = \"four {client}\"\n\
                     [[site.rule]]\nclient = [\"::1\"]\nrespond = 200\nrespond_body = \"six {client}\"\n";
        let server = Server::run(&configuration(&format!("listen = [{listen}]")).site(&root.path(), rules));
        for address in &addresses {
            let right = if address.starts_with('[') { "six ::1" } else { "four 127.0.0.1" };
            assert_eq!(text_at(address, "x"), right, "{address} of {listen}");
        }
        let lines = server.wait_for_lines("access.log", addresses.len());
        assert!(lines.iter().all(|line| line.starts_with("::1 - ") || line.starts_with("127.0.0.1 - ")), "{lines:?}");
    }
}

#[test]
fn a_socket_in_the_file_system_is_for_this_machine() {
    let root = Root::with_index();
    let socket = root.base().join("web.sock");
    let listen = format!("listen = [\"127.0.0.1:0\", \"unix:{}\"]", socket.display());
    let server = Server::run(&configuration(&listen).site(&root.path(), "name = [\"\"]"));
    assert_eq!(over_socket(&socket, "x"), "index\n");
    server.order(&["reload"]).must_be_done();
    assert_eq!(over_socket(&socket, "x"), "index\n");
    server.order(&["stop"]).must_be_done();
    assert!(UnixStream::connect(&socket).is_err());
    let mut server = server;
    server.wait_for_end();
    assert!(!socket.exists(), "the socket was left behind");
}

#[test]
fn as_many_addresses_as_there_may_be_are_served_and_a_reload_to_one_more_changes_nothing() {
    let root = Root::with_index();
    let socket = |number: usize| root.base().join(format!("s{number}"));
    let with = |sockets: usize| {
        let all: Vec<String> = (0..sockets).map(|number| format!("\"unix:{}\"", socket(number).display())).collect();
        configuration(&format!("listen = [\"127.0.0.1:0\", {}]", all.join(", "))).site(&root.path(), "name = [\"\"]")
    };
    let server = Server::run(&with(63));
    let right = server.get("/").must_be(&[200]).text();
    assert_eq!(over_socket(&socket(62), "a"), right);
    server.configure(&with(64));
    let refused = server.order(&["reload"]).must_fail();
    assert!(refused.stderr.contains("more than 64 addresses to listen on"), "{refused:?}");
    server.get("/").must_be(&[200]);
    assert_eq!(over_socket(&socket(0), "a"), right);
    assert!(!socket(63).exists());
}
