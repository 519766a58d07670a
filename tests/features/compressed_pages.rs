//! Pages that the server makes itself, and those that a site has for errors, encoded.

use crate::compression::{css, decoded, noise};
use crate::support::{Configuration, PATIENCE, Response, Root, Server, request, wait_until};
use std::time::Duration;

const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];

fn accepting(server: &Server, method: &str, target: &str, coding: &str) -> Response {
    server.ask(method, target, &[&format!("Accept-Encoding: {coding}")])
}

/// The same page comes plain to who accepts nothing, and encoded with each coding.
#[track_caller]
fn is_encoded(server: &Server, method: &str, target: &str, status: u16) {
    let plain = server.ask(method, target, &[]).must_be(&[status]);
    assert_eq!((plain.field("Content-Encoding"), plain.field("Vary")), (None, Some("Accept-Encoding")), "{target}");
    for coding in CODINGS {
        let encoded = accepting(server, method, target, coding).must_be(&[status]);
        assert_eq!((encoded.field("Content-Encoding"), encoded.field("Vary")), (Some(coding), Some("Accept-Encoding")), "{target}");
        assert!(decoded(&encoded) == plain.body, "{target} {coding}");
        assert!(encoded.body.len() < plain.body.len(), "{target} {coding}");
        for name in ["Content-Type", "Content-Security-Policy", "Allow", "Location", "Retry-After", "X-Content-Type-Options"] {
            assert_eq!(encoded.field(name), plain.field(name), "{target} {name}");
        }
        if method == "GET" && encoded.field("Content-Length").is_some() {
            let head = accepting(server, "HEAD", target, coding).must_be(&[status]);
            assert_eq!((head.length(), head.field("Content-Encoding")), (encoded.length(), Some(coding)), "{target}");
        }
    }
}

#[track_caller]
fn is_plain(server: &Server, target: &str, status: u16) -> Response {
    let response = accepting(server, "GET", target, "gzip, br, zstd").must_be(&[status]);
    assert_eq!(response.field("Content-Encoding"), None, "{target}");
    response
}

#[test]
fn built_in_pages_are_encoded() {
    let root = Root::with_index();
    root.directory("d");
    let rules = "name = [\"\"]\n[[site.rule]]\npath = \"/gone\"\nrespond = 410\n[[site.rule]]\npath = \"/to\"\nredirect = \"/\"\n\
                 [[site.rule]]\npath = \"/once\"\nrequests = \"1/h\"\n\
                 [[site.rule]]\npath = \"/off/*\"\ncompress = []\n\
                 [[site.rule]]\npath = \"/coded/*\"\nheader = { Content-Encoding = \"x\" }\n";
    let server = Server::run(&Configuration::new().server_also("workers = 1").site(&root.path(), rules));
    server.get("/once");
    for (method, target, status) in [
        ("GET", "/none", 404),
        ("GET", "/d/", 403),
        ("GET", "/d", 301),
        ("GET", "/to", 302),
        ("GET", "/gone", 410),
        ("GET", "/once", 429),
        ("POST", "/", 405),
        ("BREW", "/", 501),
    ] {
        is_encoded(&server, method, target, status);
    }
    assert_eq!(is_plain(&server, "/off/x", 404).field("Vary"), None);
    // What a rule says of the coding is not true of a page that is encoded besides.
    let coded = accepting(&server, "GET", "/coded/x", "gzip").must_be(&[404]);
    assert!(coded.field("Content-Encoding") == Some("x") && coded.text().contains("404"));
}

#[test]
fn a_sites_error_pages_are_encoded_unless_they_are_small() {
    let root = Root::with_index();
    for (name, contents) in [("small", css(900)), ("middle", css(5_000)), ("large", css(200_000))] {
        root.file(format!("{name}.html"), contents);
    }
    root.file("noise.html", noise(5_000));
    let mut configuration = Configuration::new();
    for name in ["small", "middle", "large", "noise"] {
        configuration = configuration
            .site(&root.path(), &format!("name = [\"{name}\"]\nerror_pages = {{ 404 = \"/{name}.html\", 405 = \"/{name}.html\" }}"));
    }
    let server = Server::run(&configuration);
    let ask = |host: &str, method: &str, coding: &str, version: &str| {
        let bytes = format!("{method} /none HTTP/1.{version}\r\nHost: {host}\r\nConnection: close\r\nAccept-Encoding: {coding}\r\n\r\n");
        server.exchange(bytes, method).must_be(&[404, 405])
    };
    for (host, is_coded) in [("small", false), ("middle", true), ("large", true), ("noise", false)] {
        let plain = std::fs::read(root.at(format!("{host}.html"))).unwrap();
        for (coding, method) in CODINGS.into_iter().flat_map(|coding| [(coding, "GET"), (coding, "POST")]) {
            for _ in 0..2 {
                let response = ask(host, method, coding, "1");
                assert_eq!(response.field("Content-Encoding"), is_coded.then_some(coding), "{host} {method}");
                assert_eq!(response.field("Allow").is_some(), response.status == 405);
                assert!(decoded(&response) == plain, "{host} {coding}");
            }
        }
        let head = ask(host, "HEAD", "br", "1");
        assert_eq!(head.field("Content-Encoding"), is_coded.then_some("br"), "{host}");
    }
    // Of HTTP/1.0 the end of the connection tells the end.
    std::fs::write(root.at("large.html"), css(300_000)).unwrap();
    let mut client = server.connect();
    client.send("GET /none HTTP/1.0\r\nHost: large\r\nAccept-Encoding: gzip\r\n\r\n");
    let mut response = client.head().unwrap();
    assert!(response.field("Transfer-Encoding").is_none());
    response.body = client.rest().unwrap();
    assert!([css(200_000), css(300_000)].contains(&String::from_utf8(decoded(&response)).unwrap()));
}

/// A root with a directory of so many files.
fn listed(count: usize) -> (Root, Server) {
    let root = Root::new();
    root.directory("d");
    for number in 0..count {
        std::fs::write(root.at(format!("d/{number:06}")), "").unwrap();
    }
    let server = serve(&root, "");
    (root, server)
}

fn serve(root: &Root, rules: &str) -> Server {
    let site = format!("name = [\"\"]\nlisting = true\nindex = []\n{rules}");
    Server::run(&Configuration::new().server_also("workers = 1").site(&root.path(), &site))
}

#[test]
fn lists_of_directories_are_encoded_whole_and_while_they_are_made() {
    for count in [2, 100, 3_000, 12_000] {
        let (_root, server) = listed(count);
        for accept in ["text/html", "application/json"] {
            let accept = format!("Accept: {accept}");
            let plain = server.ask("GET", "/d/?sort=name", &[&accept]).must_be(&[200]);
            assert_eq!(plain.field("Vary"), Some("Accept, Accept-Encoding"));
            for coding in CODINGS {
                let encoded = server.ask("GET", "/d/?sort=name", &[&accept, &format!("Accept-Encoding: {coding}")]).must_be(&[200]);
                let expected = (plain.body.len() >= 1024).then_some(coding);
                assert_eq!(encoded.field("Content-Encoding"), expected, "{count} {accept}");
                assert_eq!(encoded.field("Vary"), Some("Accept, Accept-Encoding"));
                assert!(decoded(&encoded) == plain.body, "{count} {accept} {coding}");
                assert!(expected.is_none() || encoded.body.len() < plain.body.len() / 2, "{count} {accept} {coding}");
            }
        }
        let same = server.ask("GET", "/d/", &["If-None-Match: *", "Accept-Encoding: gzip"]);
        assert!(same.status != 304 || same.field("Vary") == Some("Accept, Accept-Encoding"), "{:?}", same.fields);
    }
}

#[test]
fn s14_no_more_lists_are_encoded_at_once_than_there_are_encoders() {
    let root = Root::new();
    for number in 0..12_000 {
        std::fs::write(root.at(format!("{number:06}")), "").unwrap();
    }
    // So slowly that none of them comes to its end.
    let server = serve(&root, "[[site.rule]]\nrate = \"1KiB/s\"\n");
    let slow = || {
        let mut client = server.connect();
        client.send(request("GET", "/", &["Accept-Encoding: gzip"]));
        let coding = client.head().unwrap().field("Content-Encoding").map(str::to_owned);
        (client, coding)
    };
    let all: Vec<_> = (0..12).map(|_| slow()).collect();
    let coded: Vec<Option<&str>> = all.iter().map(|(_, coding)| coding.as_deref()).collect();
    assert_eq!(coded, [[Some("gzip"); 8].as_slice(), &[None; 4]].concat());
    drop(all);
    let seen = wait_until(PATIENCE * 3, || {
        // Each attempt is a list more to make.
        std::thread::sleep(Duration::from_millis(500));
        slow().1.as_deref() == Some("gzip")
    });
    assert!(seen.is_some());
}
