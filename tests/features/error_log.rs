//! The error log: one line for one fault, with what an administrator needs to mend it.

use crate::support::{Configuration, Root, Server, needs_root};

#[test]
fn a_file_that_may_not_be_read_is_one_line_with_path_and_reason() {
    needs_root!();
    let root = Root::with_index();
    let path = root.file("private.txt", "private");
    root.mode("private.txt", 0o600);
    let server = Server::run(&Configuration::of(&root.path()));
    server.get("/private.txt").must_be(&[403]);
    let about = || {
        let text = std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default();
        text.lines().filter(|line| line.contains("private.txt")).map(str::to_owned).collect::<Vec<_>>()
    };
    crate::support::wait_until(crate::support::PATIENCE, || !about().is_empty());
    std::thread::sleep(std::time::Duration::from_millis(200));
    let lines = about();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let line = &lines[0];
    assert!(line.contains(path.to_str().unwrap()), "the path on disk: {line}");
    assert!(line.to_ascii_lowercase().contains("permission denied") || line.contains("EACCES"), "the reason: {line}");
    assert!(line.contains("127.0.0.1"), "the client: {line}");
}

#[test]
fn a_link_that_is_not_followed_is_one_line_with_its_path_and_why() {
    let root = Root::with_index();
    root.file("../outside/file", "x");
    root.link("leaves", "../outside");
    root.link("loop", "loop");
    root.link("dangling", "nowhere");
    let server = Server::run(&Configuration::of(&root.path()));
    for target in ["/leaves/file", "/leaves/other", "/loop", "/dangling", "/leaves/file", "/loop"] {
        for _ in 0..4 {
            server.get(target).must_be(&[404]);
        }
    }
    let lines = || {
        let text = std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default();
        text.lines().filter(|line| line.contains("symbolic link")).map(str::to_owned).collect::<Vec<_>>()
    };
    let about = |name: &str| lines().iter().filter(|line| line.contains(&format!("open {:?}: ", root.at(name)))).count();
    crate::support::wait_until(crate::support::PATIENCE, || about("leaves") > 0 && about("loop") > 0);
    // One of each worker, of which there are two.
    for name in ["leaves", "loop"] {
        assert!((1..=2).contains(&about(name)), "{:#?}", lines());
    }
    // A link to nothing is nothing.
    assert_eq!(about("dangling"), 0, "{:#?}", lines());
    assert!(lines().iter().any(|line| line.contains("leads out of the directory") && line.contains("127.0.0.1")), "{:#?}", lines());
}

#[test]
fn what_is_merely_missing_is_no_error() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    server.get("/none").must_be(&[404]);
    server.exchange("BAD\r\n\r\n", "GET").must_be(&[400]);
    server.wait_for_lines("access.log", 2);
    let text = std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default();
    assert!(!text.contains("/none"), "{text}");
}

#[test]
fn names_in_error_lines_are_escaped() {
    needs_root!();
    let root = Root::with_index();
    root.file("x\nforged\x1b[31m.txt", "private");
    root.mode("x\nforged\x1b[31m.txt", 0o600);
    let server = Server::run(&Configuration::of(&root.path()));
    server.get("/x%0aforged%1b%5b31m.txt").must_be(&[403]);
    let lines = server.wait_for_lines("error.log", 1);
    let about: Vec<_> = lines.iter().filter(|line| line.contains("forged")).collect();
    assert_eq!(about.len(), 1, "{lines:#?}");
    for line in &lines {
        assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line:?}");
        assert!(!line.starts_with("forged"));
    }
}

#[test]
fn every_line_of_a_refused_configuration_has_time_and_level() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    server.configure(&Configuration::of(&root.path()).limits("no_such_key = 1\nnor_this = 2"));
    server.order(&["reload"]).must_fail();
    let lines = server.wait_for_lines("error.log", 7);
    assert!(lines.iter().filter(|line| line.contains("unknown key")).count() == 2, "{lines:#?}");
    for line in &lines {
        let mut words = line.split(' ');
        let time = words.next().unwrap();
        assert!(time.len() == 25 && time.as_bytes()[10] == b'T', "{line}");
        assert!(words.next().is_some_and(|level| level.starts_with('[')) && words.next() == Some("parent:"), "{line}");
    }
}

/// The client is told 403 and no more; an administrator who asks himself why finds the answer where nginx and Apache have it.
#[test]
fn what_the_configuration_forbids_has_a_line_with_the_reason() {
    needs_root!();
    let root = Root::with_index();
    root.directory("empty");
    root.fifo("fifo");
    let server = Server::run(&Configuration::of(&root.path()).rule("path = \"/secret*\"\ndeny = [\"127.0.0.0/8\"]"));
    for (path, reason) in [
        ("/secret", "the rules of the site keep 127.0.0.1 out; \"anchorite explain\" tells which"),
        ("/empty/", "/empty\" is a directory without an index file, and \"listing\" is off"),
        ("/fifo", "/fifo\": not a regular file"),
    ] {
        server.get(path).must_be(&[403]);
        let text = || std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default();
        let told = || text().lines().find(|line| line.contains(reason)).map(str::to_owned);
        crate::support::wait_until(crate::support::PATIENCE, || told().is_some());
        let line = told().unwrap_or_default();
        assert!(line.contains(&format!("request \"GET {path} HTTP/1.1\"")) && line.contains("client 127.0.0.1, site \"\""), "{line}");
    }
}
