//! `X-Sendfile`: files that a backend names, beneath the directory of `sendfile` and nowhere else.

use crate::fastcgi::{FakeBackend, Php, answer};
use crate::support::{Configuration, Launch, PATIENCE, Root, Server, needs_root, pattern, wait_until};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Says `X-Sendfile` with the rest of the path's query, and something else to be sent were it not heeded.
fn naming() -> FakeBackend {
    FakeBackend::new(|seen| {
        let named = seen.value("QUERY_STRING").unwrap_or("").to_owned();
        answer(format!(
            "X-Sendfile: {named}\r\nContent-Type: application/x-test\r\nContent-Disposition: attachment\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\
             ETag: \"theirs\"\r\nContent-Length: 7\r\nX-Both: theirs\r\n\r\nignored"
        ))
    })
}

/// A private directory beside the root, and what it holds.
fn private(root: &Root) -> PathBuf {
    let directory = root.base().join("private");
    std::fs::create_dir_all(directory.join("sub")).unwrap();
    std::fs::write(directory.join("small.txt"), "private").unwrap();
    std::fs::write(directory.join("sub/large.bin"), pattern(1_000_000)).unwrap();
    std::fs::write(root.base().join("secret"), "secret").unwrap();
    symlink(root.base().join("secret"), directory.join("out")).unwrap();
    symlink("small.txt", directory.join("in")).unwrap();
    directory
}

fn run(lines: impl Fn(&Path) -> String) -> (FakeBackend, Root, PathBuf, Server) {
    let (backend, root) = (naming(), Root::new());
    let directory = private(&root);
    let rule = "backend = \"fake\"\nheader = { X-Both = \"ours\" }";
    let server = Server::run(&Configuration::of(&root.path()).backend(&backend.table(&lines(&directory))).rule(rule));
    (backend, root, directory, server)
}

fn on(directory: &Path) -> String {
    format!("sendfile = {directory:?}")
}

fn must_say(server: &Server, what: &str) {
    let errors = || std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default();
    assert!(wait_until(PATIENCE, || errors().contains(what)).is_some(), "{what}: {}", errors());
}

#[test]
fn a_named_file_is_sent_with_what_the_backend_said_of_it() {
    needs_root!();
    let (_backend, _root, directory, server) = run(on);
    let get = |named: &str, fields: &[&str]| server.ask("GET", format!("/x?{named}"), fields);
    let explained = server.order(&["explain", "http://a/x"]).must_be_done().stdout;
    assert!(explained.contains(&format!("by X-Sendfile is sent from beneath \"{}\"", directory.display())), "{explained}");
    let large = format!("{}/sub/large.bin", directory.display());
    let response = get(&large, &[]).must_be(&[200]);
    assert!(response.body == pattern(1_000_000));
    let fields = |name: &'static str| {
        response.fields.iter().filter(move |(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    for (name, values) in [
        ("content-type", vec!["application/x-test"]),
        ("content-disposition", vec!["attachment"]),
        ("set-cookie", vec!["a=1", "b=2"]),
        ("x-both", vec!["ours"]),
        ("content-length", vec!["1000000"]),
        ("accept-ranges", vec!["bytes"]),
        ("x-sendfile", vec![]),
    ] {
        assert_eq!(fields(name).collect::<Vec<_>>(), values, "{name}");
    }
    let etag = response.field("etag").unwrap().to_owned();
    assert!(response.field("last-modified").is_some() && etag != "\"theirs\"");
    let part = get(&large, &["Range: bytes=10-19"]).must_be(&[206]);
    assert_eq!(part.body, pattern(1_000_000)[10..20]);
    assert_eq!(part.field("content-disposition"), Some("attachment"));
    let unchanged = get(&large, &[&format!("If-None-Match: {etag}")]).must_be(&[304]);
    assert!(unchanged.body.is_empty());
    assert_eq!(get(&large, &["Range: bytes=2000000-"]).status, 416);
    assert_eq!(server.head(format!("/x?{large}")).must_be(&[200]).length(), 1_000_000);
    for named in ["small.txt", "in", "sub/../../x", "%73mall.txt"] {
        let status = if named.contains("..") { 502 } else { 200 };
        assert_eq!(get(named, &[]).status, status, "{named}");
    }
    // In place of the answer to whatever was asked.
    let mut client = server.connect();
    client.send("POST /x?small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.response("POST").must_be(&[200]).text(), "private");
}

#[test]
fn what_is_not_beneath_the_directory_is_refused_and_told() {
    needs_root!();
    let (_backend, root, directory, server) = run(on);
    let secret = root.base().join("secret");
    for (named, status) in [
        ("/etc/passwd".to_owned(), 502),
        (secret.display().to_string(), 502),
        (format!("{}/../secret", directory.display()), 502),
        (format!("{}/%2e%2e/secret", directory.display()), 502),
        (format!("{}er/x", directory.display()), 502),
        (String::new(), 502),
        (directory.display().to_string(), 502),
        (format!("{}/none", directory.display()), 404),
        (format!("{}/sub", directory.display()), 404),
        // A link that leads out of it.
        (format!("{}/out", directory.display()), 404),
    ] {
        let response = server.get(format!("/x?{named}"));
        assert_eq!(response.status, status, "{named}");
        assert!(!response.text().contains("secret") && !response.text().contains("ignored"), "{named}: {}", response.text());
        assert_eq!(response.field("content-disposition"), None, "{named}");
    }
    must_say(&server, &format!("backend \"fake\": X-Sendfile \"{}\" is not beneath \"sendfile\"; 502", secret.display()));
    must_say(&server, "backend \"fake\": X-Sendfile \"none\" cannot be sent; 404");
}

#[test]
fn without_the_key_the_field_is_taken_out_and_nothing_is_sent() {
    needs_root!();
    let (_backend, _root, directory, server) = run(|_| String::new());
    let response = server.get(format!("/x?{}/small.txt", directory.display())).must_be(&[200]);
    assert_eq!((response.text().as_str(), response.field("x-sendfile")), ("ignored", None));
}

#[test]
fn a_directory_that_is_not_there_is_told_with_its_place() {
    needs_root!();
    let (backend, root) = (naming(), Root::new());
    let table = backend.table("sendfile = \"/nonexistent/private\"");
    let configuration = Configuration::of(&root.path()).backend(&table).rule("backend = \"fake\"");
    let launch = Launch::new();
    let text = configuration.text(launch.home());
    let checked = launch.to_end(&["check".into(), "-c".into(), launch.write_configuration(&text).into()]);
    let line = 1 + text.lines().position(|line| line.starts_with("sendfile = ")).unwrap();
    assert!(checked.stderr.contains(&format!(":{line}:12: ")) && checked.stderr.contains("/nonexistent/private"), "{}", checked.stderr);
    checked.must_fail();
    launch.run_to_end(&text).must_fail();
}

#[test]
fn php_sends_a_private_file() {
    needs_root!();
    let Some(php) = Php::start(2) else {
        eprintln!("skipped: this case needs php-fpm");
        return;
    };
    let root = Root::new();
    let directory = private(&root);
    root.file("get.php", "<?php header('Content-Type: image/x-test'); header('X-Sendfile: ' . $_GET['f']); setcookie('seen', '1');");
    let configuration = Configuration::of(&root.path()).backend(&php.table(&on(&directory))).rule("path = \"*.php\"\nbackend = \"php\"");
    let server = Server::run(&configuration);
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(crate::support::request("GET", format!("/get.php?f={}/sub/large.bin", directory.display()), &["Range: bytes=5-"]));
        let response = client.response("GET").must_be(&[206]);
        assert!(response.body == pattern(1_000_000)[5..] && !response.closes());
        assert_eq!(response.field("content-type"), Some("image/x-test"));
        assert!(response.field("set-cookie").is_some_and(|cookie| cookie.starts_with("seen=1")));
    }
    assert_eq!(server.get("/get.php?f=/etc/passwd").status, 502);
}
