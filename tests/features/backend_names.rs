//! Backends at TCP addresses, and by name: looked up when a generation starts, by a process without rights, and never while it serves.
//!
//! The names stand in an `/etc/hosts` of the service's own.

use crate::fastcgi::{FakeBackend, answer};
use crate::support::{Configuration, Launch, OwnEtc, PATIENCE, Root, Server, needs_root, signal, wait_until};
use nix::sys::signal::Signal;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// A backend behind a TCP address, which tells its own.
fn behind(address: &str) -> (FakeBackend, SocketAddr) {
    let backend = FakeBackend::new(|seen| answer(format!("A: b\r\n\r\nfine {}", seen.body.len())));
    let listener = TcpListener::bind(address).unwrap();
    let (at, path) = (listener.local_addr().unwrap(), backend.path());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(other) = UnixStream::connect(&path) else { return };
            std::thread::spawn(move || pass(stream, other));
        }
    });
    (backend, at)
}

fn pass(client: TcpStream, backend: UnixStream) {
    let (mut from, mut to) = (client.try_clone().unwrap(), backend.try_clone().unwrap());
    let back = std::thread::spawn(move || std::io::copy(&mut { backend }, &mut { client }));
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.flush();
    let _ = to.shutdown(std::net::Shutdown::Write);
    let _ = back.join();
}

fn configuration(root: &Root, address: &str, lines: &str) -> Configuration {
    let table = format!("\n[backend.far]\ntype = \"fastcgi\"\naddress = [\"{address}\"]\n{lines}\n");
    Configuration::of(&root.path()).backend(&table).rule("path = \"/b/*\"\nbackend = \"far\"")
}

/// A service that looks names up in these lines alone.
struct Named {
    etc: OwnEtc,
    launch: Launch,
}

impl Named {
    fn new(hosts: &str) -> Self {
        let launch = Launch::new();
        let etc = OwnEtc::new(&launch);
        std::fs::write(etc.path().join("nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files\n").unwrap();
        let named = Self { etc, launch };
        named.hosts(hosts);
        named
    }

    fn hosts(&self, lines: &str) {
        write_hosts(self.etc.path(), lines);
    }

    fn run(self, configuration: &Configuration) -> (OwnEtc, Server) {
        let line = self.etc.line();
        (self.etc, self.launch.shell(&line).run(configuration))
    }
}

fn write_hosts(etc: &std::path::Path, lines: &str) {
    let path = etc.join("hosts");
    let _ = std::fs::remove_file(&path);
    std::fs::write(path, format!("127.0.0.1 localhost\n{lines}\n")).unwrap();
}

fn errors(server: &Server) -> String {
    std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default()
}

#[test]
fn a_backend_is_reached_at_an_ipv4_and_an_ipv6_address() {
    needs_root!();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (backend, at) = behind(address);
        let root = Root::new();
        let server = Server::run(&configuration(&root, &at.to_string(), ""));
        for length in [0, 5, 1_000_000] {
            let mut client = server.connect();
            client.send(format!("POST /b/x HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")).send(vec![b'x'; length]);
            assert_eq!(client.response("POST").must_be(&[200]).text(), format!("fine {length}"));
        }
        assert_eq!(backend.seen.lock().unwrap().len(), 3);
    }
}

#[test]
fn every_address_of_a_name_is_tried_in_its_order() {
    needs_root!();
    let (_backend, at) = behind("127.0.0.1:0");
    let root = Root::new();
    // Nobody listens at the first two.
    let hosts = format!("127.0.0.9 far.test\n127.0.0.8 far.test\n{} far.test", at.ip());
    let (_etc, server) = Named::new(&hosts).run(&configuration(&root, &format!("Far.test:{}", at.port()), "keep = 0"));
    for _ in 0..3 {
        assert_eq!(server.get("/b/x").must_be(&[200]).text(), "fine 0");
    }
}

#[test]
fn a_name_is_looked_up_again_by_a_reload_and_by_nothing_else() {
    needs_root!();
    let (one, at) = behind("127.0.0.1:0");
    let (other, _) = behind(&format!("127.0.0.2:{}", at.port()));
    let root = Root::new();
    let (etc, server) = Named::new("127.0.0.1 far.test").run(&configuration(&root, &format!("far.test:{}", at.port()), "keep = 0"));
    server.get("/b/x").must_be(&[200]);
    write_hosts(etc.path(), "127.0.0.2 far.test");
    server.get("/b/x").must_be(&[200]);
    let count = |backend: &FakeBackend| backend.seen.lock().unwrap().len();
    assert_eq!((count(&one), count(&other)), (2, 0));
    server.order(&["reload"]).must_be_done();
    server.get("/b/x").must_be(&[200]);
    assert_eq!((count(&one), count(&other)), (2, 1));
}

#[test]
fn a_name_that_is_not_known_fails_a_reload_and_the_old_generation_goes_on() {
    needs_root!();
    let (_backend, at) = behind("127.0.0.1:0");
    let root = Root::new();
    let configuration = configuration(&root, &format!("far.test:{}", at.port()), "");
    let (etc, server) = Named::new("127.0.0.1 far.test").run(&configuration);
    server.get("/b/x").must_be(&[200]);
    write_hosts(etc.path(), "");
    let refused = server.order(&["reload"]);
    assert!(refused.stderr.contains(&format!("address \"far.test:{}\": ", at.port())), "{}", refused.stderr);
    refused.must_fail();
    server.get("/b/x").must_be(&[200]);
    // One that hangs takes a moment, and nobody else waits for it.
    std::fs::remove_file(etc.path().join("hosts")).unwrap();
    nix::unistd::mkfifo(&etc.path().join("hosts"), nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
    signal(server.parent(), Signal::SIGHUP);
    let begun = Instant::now();
    while !errors(&server).contains("no answer within 5 s") {
        server.get("/b/x").must_be(&[200]);
        server.order(&["status"]).must_be_done();
        assert!(begun.elapsed() < 6 * PATIENCE, "{}", errors(&server));
    }
    write_hosts(etc.path(), "127.0.0.1 far.test");
    assert!(wait_until(PATIENCE, || server.order(&["reload"]).code == Some(0)).is_some(), "{}", errors(&server));
    server.get("/b/x").must_be(&[200]);
}

#[test]
fn a_reload_that_fails_for_another_reason_asks_nobody_for_names() {
    needs_root!();
    let (_backend, at) = behind("127.0.0.1:0");
    let root = Root::new();
    let address = format!("far.test:{}", at.port());
    let (etc, server) = Named::new("127.0.0.1 far.test").run(&configuration(&root, &address, ""));
    // Whoever looked a name up now would wait, and say so.
    std::fs::remove_file(etc.path().join("hosts")).unwrap();
    nix::unistd::mkfifo(&etc.path().join("hosts"), nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
    let missing = root.base().join("missing");
    server.configure(&configuration(&root, &address, "").site(&missing, "name = [\"other.test\"]"));
    let refused = server.order(&["reload"]);
    assert!(refused.stderr.contains(&missing.display().to_string()) && !refused.stderr.contains("far.test:"), "{}", refused.stderr);
    refused.must_fail();
    server.get("/b/x").must_be(&[200]);
}

#[test]
fn a_name_that_is_not_known_when_connect_is_replaced_takes_no_other_backend_away() {
    needs_root!();
    let (_backend, at) = behind("127.0.0.1:0");
    let (near, root) = (FakeBackend::new(|_| answer("A: b\r\n\r\nnear")), Root::new());
    let configuration = configuration(&root, &format!("far.test:{}", at.port()), "keep = 0")
        .backend(&near.table("keep = 0"))
        .rule("path = \"/near/*\"\nbackend = \"fake\"");
    let (etc, server) = Named::new("127.0.0.1 far.test").run(&configuration);
    server.get("/b/x").must_be(&[200]);
    write_hosts(etc.path(), "");
    let connect =
        |server: &Server| server.processes().iter().find(|process| process.title == "anchorite: connect-tcp").map(|found| found.pid);
    let before = connect(&server).unwrap();
    signal(before, Signal::SIGKILL);
    let replaced = wait_until(PATIENCE, || connect(&server).is_some_and(|pid| pid != before));
    assert!(replaced.is_some(), "{}", errors(&server));
    let serves = wait_until(PATIENCE, || server.get("/near/x").status == 200);
    assert!(serves.is_some(), "{}", errors(&server));
    server.get("/b/x").must_be(&[503]);
    write_hosts(etc.path(), "127.0.0.1 far.test");
    server.order(&["reload"]).must_be_done();
    server.get("/b/x").must_be(&[200]);
}

#[test]
fn a_name_that_is_not_known_keeps_from_starting_and_check_says_where_it_stands() {
    needs_root!();
    let root = Root::new();
    let named = Named::new("");
    let configuration = configuration(&root, "none.test:9000", "");
    let line = named.etc.line();
    let Named { etc: _etc, launch } = named;
    let launch = launch.shell(&line);
    let text = configuration.text(launch.home());
    let started = launch.run_to_end(&text);
    assert!(started.stderr.contains("address \"none.test:9000\": "), "{}", started.stderr);
    started.must_fail();
    let checked = launch.to_end(&["check".into(), "-c".into(), launch.write_configuration(&text).into()]);
    let at = 1 + text.lines().position(|line| line.starts_with("address = ")).unwrap();
    assert!(checked.stderr.contains(&format!(":{at}:12: address \"none.test:9000\": ")), "{}", checked.stderr);
    assert_eq!(checked.stderr.matches("none.test:9000\": ").count(), 1, "{}", checked.stderr);
    checked.must_fail();
}
