//! `cache`: for how long what was looked up is answered from memory.

use crate::support::{Configuration, PATIENCE, Root, Server, request, wait_until};
use std::time::Duration;

/// One worker, so that what one request left in memory is what the next one meets.
fn server(root: &Root, rules: &str) -> Server {
    Server::run(&Configuration::new().server_also("workers = 1").site(&root.path(), &format!("name = [\"\"]\n{rules}")))
}

/// Puts a new version in the place of a file at once.
fn replace(root: &Root, name: &str, contents: &str) {
    root.file("new.tmp", contents);
    std::fs::rename(root.at("new.tmp"), root.at(name)).unwrap();
}

#[test]
fn with_no_time_at_all_each_request_sees_what_is_there() {
    let root = Root::with_index();
    let server = server(&root, "error_pages = { 404 = \"/404.html\" }\n[[site.rule]]\ncache = \"0s\"\n");
    let mut client = server.connect();
    let mut get = |target: &str, fields: &[&str]| {
        client.send(request("GET", target, fields));
        client.response("GET")
    };
    for number in 0..50 {
        replace(&root, "f.txt", &format!("version {number}"));
        replace(&root, "index.html", &format!("index {number}"));
        replace(&root, "404.html", &format!("no {number}"));
        root.file("s.txt", "plain");
        // Of different lengths, since the time of a sibling is all that tells else.
        replace(&root, "s.txt.gz", &"x".repeat(number + 1));
        assert_eq!(get("/f.txt", &[]).must_be(&[200]).text(), format!("version {number}"));
        assert_eq!(get("/", &[]).must_be(&[200]).text(), format!("index {number}"));
        assert_eq!(get("/none", &[]).must_be(&[404]).text(), format!("no {number}"));
        assert_eq!(get("/s.txt", &["Accept-Encoding: gzip"]).must_be(&[200]).body.len(), number + 1);
        std::fs::remove_file(root.at("f.txt")).unwrap();
        get("/f.txt", &[]).must_be(&[404]);
    }
}

#[test]
fn what_was_found_stays_until_its_time_is_over_or_a_reload() {
    let root = Root::with_index();
    let server = server(
        &root,
        "error_pages = { 404 = \"/404.html\" }\n[[site.rule]]\ncache = \"1d\"\n[[site.rule]]\npath = \"/try/*\"\ntry = [\"/{1}\", \"/other\"]\n",
    );
    root.file("f.txt", "first");
    root.file("404.html", "first");
    root.file("s.txt", "plain");
    root.file("s.txt.gz", "first");
    let gzip: &[&str] = &["Accept-Encoding: gzip"];
    let all: [(&str, &[&str]); 5] = [("/f.txt", &[]), ("/", &[]), ("/none", &[]), ("/s.txt", gzip), ("/try/f.txt", &[])];
    let before = all.map(|(target, fields)| server.ask("GET", target, fields).body);
    for name in ["f.txt", "index.html", "404.html", "s.txt.gz"] {
        replace(&root, name, "the second");
    }
    std::fs::remove_file(root.at("f.txt")).unwrap();
    // Longer than without the rule.
    std::thread::sleep(Duration::from_millis(1500));
    for ((target, fields), body) in all.into_iter().zip(before) {
        assert_eq!(server.ask("GET", target, fields).body, body, "{target}");
    }
    // What was not there is looked for each time.
    server.get("/later").must_be(&[404]);
    root.file("later", "later");
    assert_eq!(server.get("/later").must_be(&[200]).text(), "later");
    server.order(&["reload"]).must_be_done();
    let seen = wait_until(PATIENCE, || server.get("/").text() == "the second");
    assert!(seen.is_some());
    assert_eq!(server.get("/f.txt").status, 404);
}

#[test]
fn rules_are_asked_each_time_whatever_is_in_memory() {
    let root = Root::with_index();
    root.file("a/f.txt", "a");
    root.file("b/f.txt", "b");
    let rules = "[[site.rule]]\ncache = \"1d\"\n\
                 [[site.rule]]\nrequest_header = { X-Stop = \"*\" }\nrespond = 410\n\
                 [[site.rule]]\nrequest_header = { X-Deny = \"*\" }\ndeny = \"127.0.0.0/8\"\n\
                 [[site.rule]]\npath = \"/f.txt\"\nrequest_header = { X-To = \"*\" }\nheader = { X-Is = \"{header.x-to}\" }\nrewrite = \"/b/f.txt\"\n\
                 [[site.rule]]\npath = \"/f.txt\"\nrewrite = \"/a/f.txt\"\n";
    let server = server(&root, rules);
    for _ in 0..3 {
        assert_eq!(server.get("/f.txt").must_be(&[200]).text(), "a");
        let other = server.ask("GET", "/f.txt", &["X-To: there"]).must_be(&[200]);
        assert_eq!((other.field("X-Is"), other.text().as_str()), (Some("there"), "b"));
        server.ask("GET", "/f.txt", &["X-Stop: 1"]).must_be(&[410]);
        server.ask("GET", "/f.txt", &["X-Deny: 1"]).must_be(&[403]);
        server.ask("POST", "/f.txt", &["Content-Length: 0"]).must_be(&[405]);
        server.get("/f.txt/").must_be(&[404]);
    }
}

#[test]
fn a_large_file_is_looked_at_again_within_seconds_whatever_the_rule_says() {
    let root = Root::with_index();
    root.file("large.bin", "1".repeat(300_000));
    let server = server(&root, "[[site.rule]]\ncache = \"1d\"\n");
    let first = server.get("/large.bin").must_be(&[200]);
    // Written to in place: what is held open is another now.
    root.file("large.bin", "2".repeat(300_000));
    let changed = wait_until(PATIENCE, || server.head("/large.bin").field("ETag") != first.field("ETag"));
    assert!(changed.is_some());
    assert!(server.get("/large.bin").body.iter().all(|byte| *byte == b'2'));
}

#[test]
fn without_the_key_a_change_is_seen_within_seconds() {
    let root = Root::with_index();
    let server = server(&root, "[[site.rule]]\npath = \"/x\"\nrespond = 204\n");
    assert_eq!(server.get("/").text(), "index\n");
    replace(&root, "index.html", "another");
    let seen = wait_until(PATIENCE, || server.get("/").text() == "another");
    assert!(seen.is_some());
}
