//! Disks that are slow or do not answer: whoever asks for what lies on one waits, and nobody else. `U08`.

use crate::fuse::Fuse;
use crate::support::{Client, Configuration, Launch, PATIENCE, Root, Server, needs_root, request, signal, wait_until};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// How long a client waits for a disk, and how late that may be noticed on a busy machine. Who is answered in less than `SOON` did not wait
/// for a disk.
const DEADLINE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(15);
const SOON: Duration = Duration::from_millis(4_500);

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
    let fuse = Fuse::mount(&[("index.html", b"remote\n"), ("empty", b""), ("128k", &large[..131_072]), ("large", &large)]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    for _ in 0..2 {
        assert_eq!(get(&server, "/").must_be(&[200]).text(), "remote\n");
        assert_eq!(get(&server, "/empty").must_be(&[200]).body, b"");
        assert_eq!(get(&server, "/128k").must_be(&[200]).body, &large[..131_072]);
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
    for size in [1, 4_096, 65_536, 65_537, 131_072, 131_073, 3_000_000] {
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
    assert!(slowest < SOON, "{slowest:?}");
    for client in &mut waiting {
        client.response("GET").must_be(&[503]);
    }
    let waited = start.elapsed();
    assert!(waited >= DEADLINE - Duration::from_millis(100) && waited < DEADLINE + SLACK, "{waited:?}");
    // What hangs is left alone: whoever asks now is told at once.
    let start = Instant::now();
    get(&server, "/b").must_be(&[503]);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
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
            assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
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
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
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
    let replaced = wait_until(PATIENCE * 2, || server.files().iter().filter(|pid| !before.contains(pid)).count() == 2);
    assert!(replaced.is_some(), "{:?} {}", server.processes(), errors(&server));
    for client in &mut waiting {
        client.response("GET").must_be(&[503]);
    }
    assert!(wait_until(PATIENCE, || get(&server, "/a").status == 200).is_some(), "{}", errors(&server));
    assert!(wait_until(PATIENCE, || errors(&server).contains("hangs in the kernel")).is_some(), "{}", errors(&server));
    dead.answer();
    assert!(wait_until(PATIENCE, || server.files().len() == 2).is_some(), "{:?}", server.processes());
}

/// A site on `fuse` for `slow` that lists directories.
fn listing_site(root: &Root, fuse: &Fuse) -> Server {
    let site = "name = [\"slow\"]\nlisting = true\nindex = []";
    Server::run(&Configuration::of(&root.path()).site(&fuse.path(), site).server_also("workers = 1"))
}

/// What still comes of a response; until then others are served at once.
fn rest_beside_others(server: &Server, mut client: Client) -> Vec<u8> {
    std::thread::scope(|threads| {
        let reading = threads.spawn(move || client.rest().unwrap_or_default());
        while !reading.is_finished() {
            let start = Instant::now();
            server.get("/").must_be(&[200]);
            assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        }
        reading.join().unwrap()
    })
}

#[test]
fn s15_a_directory_of_a_remote_file_system_is_listed_whole() {
    needs_root!();
    // A few batches, each of few entries, as every one of them is asked for and answered by a thread of this test.
    let names: Vec<String> = (0..900).map(|number| format!("{number:05}-{}", "x".repeat(150 + number % 99))).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"content"[..])).collect();
    let fuse = Fuse::mount(&files);
    let server = listing_site(&Root::with_index(), &fuse);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: slow\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
    let list: Vec<serde_json::Value> = serde_json::from_str(&client.response("GET").must_be(&[200]).text()).unwrap();
    let found: Vec<&str> = list.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(found, names);
}

#[test]
fn u08_s15_a_directory_that_does_not_answer_is_503_and_stops_no_other_client() {
    needs_root!();
    let names: Vec<String> = (0..2_000).map(|number| format!("{number:05}-{}", "x".repeat(100))).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let (root, fuse) = (Root::with_index(), Fuse::mount(&files));
    let server = listing_site(&root, &fuse);
    server.get("/").must_be(&[200]);
    fuse.hang();
    let start = Instant::now();
    let mut client = ask(&server, "/");
    fuse.wait_for_held(1);
    for _ in 0..20 {
        let start = Instant::now();
        server.get("/").must_be(&[200]);
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    }
    client.response("GET").must_be(&[503]);
    assert!(start.elapsed() < DEADLINE + SLACK, "{:?}", start.elapsed());
    let said = || errors(&server).contains("\": the disk did not answer");
    assert!(wait_until(PATIENCE, said).is_some(), "{}", errors(&server));
    fuse.answer();
    assert!(wait_until(Duration::from_secs(90), || get(&server, "/").status == 200).is_some(), "{}", errors(&server));
}

/// Hangs while a list is on its way.
#[test]
fn u08_s15_a_list_whose_disk_hangs_is_cut_and_stops_no_other() {
    needs_root!();
    let names: Vec<String> = (0..20_000).map(|number| format!("{number:05}-{}", "x".repeat(150))).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let (root, fuse) = (Root::with_index(), Fuse::mount(&files));
    let server = listing_site(&root, &fuse);
    server.get("/").must_be(&[200]);
    let mut client = ask(&server, "/");
    client.head().unwrap();
    fuse.hang();
    let start = Instant::now();
    let rest = rest_beside_others(&server, client);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{} bytes", rest.len());
    assert!(start.elapsed() < DEADLINE + SLACK, "{:?}", start.elapsed());
    fuse.answer();
}

/// Siblings on a remote file system come from `files`, and hold nobody up when they do not.
#[test]
fn u08_siblings_on_a_remote_file_system_are_sent_and_their_absence_waits_for_nobody() {
    needs_root!();
    let fuse = Fuse::mount(&[("a.css", b"text"), ("a.css.gz", b"as good as encoded"), ("b.css", b"b")]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    let encoded = |target: &str| {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: slow\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"));
        client.response("GET").must_be(&[200])
    };
    for _ in 0..2 {
        let response = encoded("/a.css");
        assert_eq!((response.field("Content-Encoding"), response.body.as_slice()), (Some("gzip"), &b"as good as encoded"[..]));
        assert_eq!(get(&server, "/a.css").must_be(&[200]).text(), "text");
        assert_eq!(encoded("/b.css").text(), "b");
        std::thread::sleep(Duration::from_millis(1_100));
    }
}

/// A large file that the kernel has dropped, being encoded: `files` reads it, and what comes is whole.
#[test]
fn s14_a_large_cold_file_is_encoded_whole() {
    use std::io::Read;
    needs_root!();
    let text: String = (0..300_000).map(|number| format!("{number:x}\n")).collect();
    let fuse = Fuse::mount(&[("a.css", text.as_bytes())]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    let mut client = server.connect();
    client.send("GET /a.css HTTP/1.1\r\nHost: slow\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    let response = client.response("GET").must_be(&[200]);
    assert_eq!(response.field("Content-Encoding"), Some("gzip"));
    let mut decoded = String::new();
    flate2::read::GzDecoder::new(response.body.as_slice()).read_to_string(&mut decoded).unwrap();
    assert!(decoded == text, "{} of {}", decoded.len(), text.len());
}

/// The same, and the disk hangs on the way.
#[test]
fn u08_s14_a_file_being_encoded_whose_disk_hangs_is_cut_and_stops_no_other() {
    needs_root!();
    let text: String = (0..900_000).map(|number| format!("{:x}\n", number * 7919_u64)).collect();
    let fuse = Fuse::mount(&[("a.css", text.as_bytes())]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    server.get("/").must_be(&[200]);
    let mut client = server.connect();
    client.send("GET /a.css HTTP/1.1\r\nHost: slow\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    client.head().unwrap();
    fuse.hang();
    let rest = rest_beside_others(&server, client);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{} bytes", rest.len());
    fuse.answer();
}

/// A root that is a mount whose server is dead: new processes start over it, and serve the rest.
#[test]
fn u08_processes_start_over_a_dead_mount_and_serve_the_rest() {
    needs_root!();
    let fuse = Fuse::mount(&[("a", b"a\n")]);
    let root = Root::with_index();
    fuse.hang();
    let start = Instant::now();
    let server = two_sites(&root, &fuse, 1);
    server.get("/").must_be(&[200]);
    // A worker that dies is replaced.
    let before = server.workers();
    signal(before[0], Signal::SIGKILL);
    assert!(wait_until(PATIENCE, || server.workers().iter().any(|pid| !before.contains(pid))).is_some());
    server.get("/").must_be(&[200]);
    // And a whole generation, while a request waits.
    let mut waiting = ask(&server, "/a");
    server.order(&["reload"]).must_be_done();
    server.get("/").must_be(&[200]);
    waiting.response("GET").must_be(&[503]);
    eprintln!("all of it took {:?}", start.elapsed());
    fuse.answer();
    assert!(wait_until(Duration::from_secs(90), || get(&server, "/a").status == 200).is_some(), "{}", errors(&server));
}

/// What lies beneath such a mount cannot even be looked up: told within seconds, while everything else goes on.
#[test]
fn u08_a_root_or_an_alias_beneath_a_dead_mount_is_told_and_holds_up_nobody() {
    needs_root!();
    let fuse = Fuse::mount(&[("a", b"a\n")]);
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).server_also("workers = 1"));
    let workers = server.workers();
    let beneath = [
        Configuration::of(&root.path()).site(&fuse.path().join("www"), "name = [\"slow\"]"),
        Configuration::of(&root.path()).rule(&format!("path = \"/a\"\nalias = {:?}", fuse.path().join("a"))),
    ];
    fuse.hang();
    for (number, configuration) in beneath.iter().enumerate() {
        let configuration = configuration.clone().server_also("workers = 1");
        server.configure(&configuration);
        let second = Launch::new();
        let started = second.run_to_end(&configuration.text(second.home()));
        let told = [started, server.order(&["check"]), server.order(&["reload"])];
        for told in told {
            let stderr = told.must_fail().stderr;
            assert!(stderr.contains(&fuse.path().display().to_string()) && stderr.contains("does not answer"), "{number}: {stderr}");
            server.must_be_well(&workers, "beside a dead mount");
        }
        // Nor by the signal, after which there is nobody to tell.
        let before = errors(&server).matches("does not answer").count();
        signal(server.parent(), Signal::SIGHUP);
        assert!(wait_until(PATIENCE, || errors(&server).matches("does not answer").count() > before).is_some(), "{}", errors(&server));
        server.must_be_well(&workers, "beside a dead mount");
    }
    // When it answers again, so does the reload.
    fuse.answer();
    server.order(&["reload"]).must_be_done();
    assert_eq!(server.get("/a").must_be(&[200]).text(), "a\n");
}

/// A root that is such a mount is no fault: a start serves the rest.
#[test]
fn u08_a_check_does_not_wait_for_a_dead_mount() {
    needs_root!();
    let fuse = Fuse::mount(&[("a", b"a\n")]);
    let root = Root::with_index();
    let server = two_sites(&root, &fuse, 1);
    fuse.hang();
    let told = server.order(&["check"]).must_be_done();
    assert!(told.stderr.contains(&format!("{:?}: its file system does not answer", fuse.path())), "{}", told.stderr);
    fuse.answer();
}
