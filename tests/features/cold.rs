//! Disks that are slow or do not answer: whoever asks for what lies on one waits, and nobody else. `U08`.

use crate::fuse::Fuse;
use crate::support::{Client, Configuration, PATIENCE, Root, Server, needs_root, request, signal, wait_until};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// How long a client waits for a disk, and how late that may be noticed on a busy machine.
const DEADLINE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(4);

/// A site on a disk that answers, for every name, and one on `fuse` for `slow`.
fn two_sites(root: &Root, fuse: &Fuse, workers: u16) -> Server {
    let configuration = Configuration::of(&root.path()).site(&fuse.path(), "name = [\"slow\"]");
    Server::run(&configuration.server_also(&format!("workers = {workers}")))
}

fn ask(server: &Server, target: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: slow\r\nConnection: close\r\n\r\n"));
    client
}

#[track_caller]
fn get(server: &Server, target: &str) -> crate::support::Response {
    ask(server, target).response("GET")
}

fn errors(server: &Server) -> String {
    std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default()
}

#[test]
fn what_lies_on_a_remote_file_system_is_served_as_it_is() {
    needs_root!();
    let large: Vec<u8> = (0..3_000_000u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
    let fuse = Fuse::mount(&[("index.html", b"remote\n"), ("empty", b""), ("64k", &large[..65_536]), ("large", &large)]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    for _ in 0..2 {
        assert_eq!(get(&server, "/").must_be(&[200]).text(), "remote\n");
        assert_eq!(get(&server, "/empty").must_be(&[200]).body, b"");
        assert_eq!(get(&server, "/64k").must_be(&[200]).body, &large[..65_536]);
        assert!(get(&server, "/large").must_be(&[200]).body == large);
        get(&server, "/none").must_be(&[404]);
        get(&server, &format!("/{}", "x".repeat(5000))).must_be(&[404, 414]);
    }
    assert_eq!(server.get("/").must_be(&[200]).text(), "index\n");
}

/// Content that the kernel has dropped is read by `files`, and comes whole.
#[test]
fn a_cold_file_is_served_right() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).server_also("workers = 1"));
    for size in [1, 4_096, 65_536, 65_537, 3_000_000] {
        let name = format!("f{size}");
        let content: Vec<u8> = (0..size).map(|at: u32| at.to_le_bytes()[0] ^ at.to_le_bytes()[2]).collect();
        let path = root.file(&name, &content);
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
        assert!(server.get(format!("/{name}")).must_be(&[200]).body == content, "{size}");
    }
}

#[test]
fn u08_a_disk_that_does_not_answer_stops_no_other_client() {
    needs_root!();
    let fuse = Fuse::mount(&[("a", b"a\n"), ("b", b"b\n")]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    get(&server, "/a").must_be(&[200]);
    server.get("/missing").must_be(&[404]);
    let workers = server.workers();
    std::thread::sleep(Duration::from_millis(1100));
    fuse.hang();
    let start = Instant::now();
    let mut waiting: Vec<Client> = ["/a", "/a", "/b", "/none"].iter().map(|target| ask(&server, target)).collect();
    fuse.wait_for_held(1);
    let mut slowest = Duration::ZERO;
    for number in 0..100 {
        root.file(format!("new{number}"), "new\n");
        for target in ["/", &format!("/new{number}"), "/missing"] {
            let start = Instant::now();
            server.get(target).must_be(&[200, 404]);
            slowest = slowest.max(start.elapsed());
        }
    }
    eprintln!("the slowest of the others took {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    for client in &mut waiting {
        client.response("GET").must_be(&[503]);
    }
    let waited = start.elapsed();
    assert!(waited >= DEADLINE - Duration::from_millis(100) && waited < DEADLINE + SLACK, "{waited:?}");
    // What hangs is left alone: whoever asks now is told at once.
    let start = Instant::now();
    get(&server, "/b").must_be(&[503]);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let late = || errors(&server).matches("/a\": the disk did not answer in 5 s").count();
    assert!(wait_until(PATIENCE, || late() > 0).is_some(), "{}", errors(&server));
    let said = errors(&server);
    assert_eq!(said.matches("/a\": the disk did not answer in 5 s").count(), 1, "{said}");
    fuse.answer();
    assert!(wait_until(Duration::from_secs(90), || get(&server, "/a").status == 200).is_some(), "{}", errors(&server));
    assert_eq!(server.workers(), workers);
    server.get("/").must_be(&[200]);
}

/// The same while a response is on its way: it is cut, since its status has been sent.
#[test]
fn u08_a_transfer_whose_disk_hangs_is_cut_and_stops_no_other() {
    needs_root!();
    let large: Vec<u8> = (0..40_000_000u32).map(|number| number.to_le_bytes()[1]).collect();
    let fuse = Fuse::mount(&[("large", &large)]);
    let root = Root::with_index();
    let mut server = two_sites(&root, &fuse, 1);
    let mut client = ask(&server, "/large");
    client.head().unwrap();
    fuse.hang();
    let start = Instant::now();
    let received = std::thread::scope(|threads| {
        let reading = threads.spawn(move || client.rest().map_or(0, |bytes| bytes.len()));
        while !reading.is_finished() {
            let start = Instant::now();
            server.get("/").must_be(&[200]);
            assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        }
        reading.join().unwrap()
    });
    assert!(received < large.len(), "{received}");
    assert!(start.elapsed() < DEADLINE + SLACK, "{:?}", start.elapsed());
    let said = || errors(&server).contains("/large\": the disk did not answer in 5 s; the transfer is cut");
    assert!(wait_until(PATIENCE, said).is_some(), "{}", errors(&server));
    // Nor does a disk that hangs keep the service from stopping.
    signal(server.parent(), Signal::SIGTERM);
    assert!(server.wait_for_end().success());
    fuse.answer();
}

#[test]
fn a_herd_that_asks_for_one_cold_file_asks_the_disk_once() {
    needs_root!();
    let fuse = Fuse::mount(&[("a", b"a\n")]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    let before = fuse.asked("a");
    fuse.hang();
    let mut herd: Vec<Client> = (0..50).map(|_| ask(&server, "/a")).collect();
    fuse.wait_for_held(1);
    // All of them have come when one that came after them is answered.
    server.get("/").must_be(&[200]);
    fuse.answer();
    for client in &mut herd {
        assert_eq!(client.response("GET").must_be(&[200]).text(), "a\n");
    }
    let asked = fuse.asked("a") - before;
    assert!(asked <= 2, "{asked}");
}

#[test]
fn beyond_the_limit_of_waiting_requests_a_client_is_refused_at_once() {
    needs_root!();
    let fuse = Fuse::mount(&[]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    fuse.hang();
    let start = Instant::now();
    let mut within: Vec<Client> = (0..256).map(|number| ask(&server, &format!("/{number}"))).collect();
    fuse.wait_for_held(1);
    get(&server, "/beyond").must_be(&[503]);
    assert!(start.elapsed() < DEADLINE - Duration::from_millis(500), "{:?}", start.elapsed());
    let said = || errors(&server).contains("/beyond\": too many requests wait for a disk");
    assert!(wait_until(PATIENCE, said).is_some(), "{}", errors(&server));
    for client in &mut within {
        client.response("GET").must_be(&[503]);
    }
    fuse.answer();
}

#[test]
fn killed_files_are_replaced_and_what_waits_is_answered() {
    needs_root!();
    let fuse = Fuse::mount(&[("a", b"a\n")]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    let before = server.files();
    assert_eq!(before.len(), 2);
    for round in 0..3 {
        let killed = server.files();
        killed.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
        std::thread::sleep(Duration::from_millis(1100));
        let mut client = ask(&server, "/a");
        server.get("/").must_be(&[200]);
        killed.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
        assert_eq!(client.response("GET").must_be(&[200]).text(), "a\n", "round {round}");
        assert!(wait_until(PATIENCE, || server.files().len() == 2 && server.files().iter().all(|pid| !killed.contains(pid))).is_some());
    }
}

/// A wait that not even SIGKILL ends: others take the place of those that hang.
#[test]
fn files_that_hang_in_the_kernel_are_replaced() {
    needs_root!();
    let root = Root::with_index();
    let dead = Fuse::mount_at(&root.directory("dead"), &[]);
    let alive = Fuse::mount(&[("a", b"a\n")]);
    let server = two_sites(&root, &alive, 1);
    let before = server.files();
    dead.hang();
    let mut waiting: Vec<Client> = (0..2)
        .map(|number| {
            let mut client = server.connect();
            client.send(request("GET", format!("/dead/{number}"), &["Connection: close"]));
            client
        })
        .collect();
    dead.wait_for_held(2);
    let replaced = wait_until(Duration::from_secs(30), || server.files().iter().filter(|pid| !before.contains(pid)).count() == 2);
    assert!(replaced.is_some(), "{:?} {}", server.processes(), errors(&server));
    for client in &mut waiting {
        client.response("GET").must_be(&[503]);
    }
    assert!(wait_until(Duration::from_secs(20), || get(&server, "/a").status == 200).is_some(), "{}", errors(&server));
    assert!(wait_until(PATIENCE, || errors(&server).contains("hangs in the kernel")).is_some(), "{}", errors(&server));
    dead.answer();
    assert!(wait_until(PATIENCE, || server.files().len() == 2).is_some(), "{:?}", server.processes());
}
