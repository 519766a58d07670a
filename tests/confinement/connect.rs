//! `connect`: what it sees, whom it belongs to, what it may not be asked, and what it may not do when it is taken over.

use crate::fastcgi::FakeBackend;
use crate::hijack::{Hijacked, number};
use crate::support::{Configuration, PATIENCE, Process, Root, Server, is_alive, needs_root, status_field, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use std::collections::BTreeSet;
use std::net::TcpListener;

/// At which a worker has its channel to `connect`.
const CONNECT_CHANNEL: u64 = 6;

fn run(table: &str) -> (Root, Server) {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).backend(table).rule("path = \"/b/*\"\nbackend = \"fake\""));
    (root, server)
}

fn connect(server: &Server, title: &str) -> i32 {
    let processes = server.processes();
    let found = processes.iter().find(|process: &&Process| process.title == title);
    found.unwrap_or_else(|| panic!("no {title} in {processes:?}")).pid
}

fn answering() -> FakeBackend {
    FakeBackend::new(|_| crate::fastcgi::answer("A: b\r\n\r\nfine"))
}

#[test]
fn connect_sees_the_directories_of_sockets_and_has_their_groups_and_no_network() {
    needs_root!();
    let backend = answering();
    let (_root, server) = run(&backend.table("group = \"www-data\""));
    assert_eq!(server.get("/b/x").text(), "fine");
    let pid = connect(&server, "anchorite: connect");
    assert_eq!(status_field(pid, "Groups").split_whitespace().count(), 1);
    for role in server.processes().iter().filter(|process| process.pid != pid && process.pid != server.parent()) {
        assert_eq!(status_field(role.pid, "Groups").trim(), "", "{role:?}");
    }
    let network = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    assert_ne!(network(pid), network(server.parent()));
    let inside = std::path::PathBuf::from(format!("/proc/{pid}/root")).join(backend.path().strip_prefix("/").unwrap());
    assert!(inside.exists());
    let directory = inside.parent().unwrap();
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 1);
    assert!(!std::path::Path::new(&format!("/proc/{pid}/root/etc")).exists());
    for row in crate::audit::rows(&server) {
        assert_eq!(row["faults"], serde_json::Value::Array(Vec::new()), "{row}");
    }
}

#[test]
fn m01_m02_m03_what_connect_may_not_be_asked_ends_its_sender() {
    needs_root!();
    let backend = answering();
    let (_root, server) = run(&backend.table(""));
    let pid = connect(&server, "anchorite: connect");
    let mut killed = BTreeSet::new();
    for (name, packet) in [
        ("short", vec![0; 5]),
        ("long", vec![0; 7]),
        ("an address that there is not", vec![9, 0, 0, 0, 1, 0]),
        ("another address that there is not", vec![9, 0, 0, 0, 255, 255]),
        ("much too long", vec![0; 600]),
    ] {
        let Some(worker) = server.workers().into_iter().find(|pid| !killed.contains(pid)) else { panic!("{name}: no worker") };
        let mut process = Hijacked::take(worker);
        let address = process.place(&packet);
        process.call(libc::SYS_write, [CONNECT_CHANNEL, address, u64::try_from(packet.len()).unwrap(), 0, 0, 0]);
        drop(process);
        assert!(wait_until(PATIENCE, || !is_alive(worker)).is_some(), "{name}: its sender lives on");
        killed.insert(worker);
        assert!(wait_until(PATIENCE, || server.workers().len() == 2).is_some(), "{name}");
    }
    assert_eq!(connect(&server, "anchorite: connect"), pid);
    assert_eq!(server.get("/b/x").text(), "fine");
}

#[test]
fn a_connect_that_ends_is_replaced_and_requests_go_on() {
    needs_root!();
    let backend = answering();
    let (_root, server) = run(&backend.table("keep = 0"));
    let pid = connect(&server, "anchorite: connect");
    crate::support::signal(pid, nix::sys::signal::Signal::SIGKILL);
    let replaced = || server.processes().iter().any(|process| process.title == "anchorite: connect" && process.pid != pid);
    assert!(wait_until(PATIENCE, replaced).is_some());
    assert_eq!(server.get("/b/x").text(), "fine");
}

#[test]
fn a_hijacked_connect_reaches_no_other_port_and_no_other_socket() {
    needs_root!();
    let (mine, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = mine.local_addr().unwrap().port();
    let (_root, server) = run(&format!("\n[backend.fake]\ntype = \"fastcgi\"\naddress = [\"127.0.0.1:{port}\"]\n"));
    let pid = connect(&server, "anchorite: connect-tcp");
    for row in crate::audit::rows(&server) {
        assert_eq!(row["faults"], serde_json::Value::Array(Vec::new()), "{row}");
    }
    let mut process = Hijacked::take(pid);
    let stream = number(libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    let mut dial = |port: u16| {
        let Outcome::Returned(socket) = process.call(libc::SYS_socket, [number(libc::AF_INET), stream, 0, 0, 0, 0]) else { panic!() };
        let [a, b] = port.to_be_bytes();
        let address = process.place(&[2, 0, a, b, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        process.call(libc::SYS_connect, [u64::try_from(socket).unwrap(), address, 16, 0, 0, 0])
    };
    let refused = Outcome::Returned(-i64::from(libc::EACCES));
    assert_ne!(dial(port), refused);
    // Landlock knows of ports since Linux 6.7.
    if anchorite::sys::landlock::version() >= 4 {
        assert_eq!(dial(other.local_addr().unwrap().port()), refused);
    }
}
