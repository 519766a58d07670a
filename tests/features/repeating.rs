//! Requests that could be sent to a backend a second time: they are only if nothing came of the first.

use crate::support::{Configuration, Root, Server, needs_root};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const OVERLOADED: &[u8] = b"HTTP/1.1 503 Full\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull";

/// One that is overloaded, and says so to whoever connects, before a request has come.
#[test]
fn an_answer_that_is_there_before_the_request_is_read_and_nothing_sent_again() {
    let (root, directory) = (Root::new(), tempfile::tempdir().unwrap());
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(OVERLOADED);
        }
    });
    let table = format!("\n[backend.fake]\ntype = \"http\"\naddress = [\"unix:{}\"]\n", socket.display());
    let server = Server::run(&Configuration::of(&root.path()).backend(&table).rule("backend = \"fake\""));
    for asked in 1..=30 {
        assert_eq!(server.get("/").must_be(&[503]).text(), "full");
        assert_eq!(count.load(Ordering::SeqCst), asked);
    }
}

/// It has been run: what it did would be done twice.
#[test]
fn a_program_that_says_nothing_is_run_once() {
    needs_root!();
    let root = Root::new();
    let marks = root.directory("marks");
    fs::set_permissions(&marks, Permissions::from_mode(0o777)).unwrap();
    let note = marks.join("runs");
    root.directory("cgi-bin");
    for (name, rest) in [("silent", ""), ("killed", "kill -9 $$\n"), ("closes", "exec <&- >&-\n")] {
        let program = root.file(format!("cgi-bin/{name}"), format!("#!/bin/sh\necho {name} >> {}\n{rest}", note.display()));
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        chown(&program, Some(65_534), Some(65_534)).unwrap();
    }
    let site = "name = [\"\"]\n[[site.rule]]\npath = \"/cgi-bin/*\"\ncgi = true\n";
    let server = Server::run(&Configuration::new().server("user = \"daemon\"\nlisten = [\"127.0.0.1:0\"]").site(&root.path(), site));
    for name in ["silent", "killed", "closes"] {
        for method in ["GET", "PUT"] {
            server.ask(method, format!("/cgi-bin/{name}"), &[]).must_be(&[502]);
        }
        let mut runs = String::new();
        fs::File::open(&note).unwrap().read_to_string(&mut runs).unwrap();
        assert_eq!(runs.lines().filter(|line| *line == name).count(), 2, "{runs}");
    }
}
