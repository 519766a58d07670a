//! Several addresses of a backend, whatever it speaks: who is asked, and what becomes of requests when one of them fails.

use crate::fastcgi::{self, FakeBackend, Step};
use crate::plain::{PlainBackend, Tongue};
use crate::support::{Configuration, PATIENCE, Root, Server, wait_until};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TYPES: [&str; 4] = ["fastcgi", "scgi", "uwsgi", "http"];

/// A backend that answers with its name, or ends the connection instead while it is ill; and how often it was asked.
struct One {
    _kept: Kept,
    path: PathBuf,
    asked: Arc<AtomicUsize>,
    ill: Arc<AtomicUsize>,
    /// While it is not 0, nothing is answered yet.
    pause: Arc<AtomicUsize>,
}

#[expect(dead_code, reason = "held until its end")]
enum Kept {
    FastCgi(FakeBackend),
    Plain(PlainBackend),
}

fn one(kind: &str, name: &'static str) -> One {
    let [asked, ill, pause] = std::array::from_fn(|_| Arc::new(AtomicUsize::new(0)));
    let (counted, state, waits) = (Arc::clone(&asked), Arc::clone(&ill), Arc::clone(&pause));
    let is_http = kind == "http";
    let said = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        while waits.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        if state.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let line = if is_http { "HTTP/1.1 200 OK\r\n" } else { "" };
        Some(format!("{line}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{name}", name.len()))
    };
    let (kept, path) = match kind {
        "fastcgi" => {
            let backend = FakeBackend::new(move |_| said().map_or_else(|| vec![Step::Close], fastcgi::answer));
            let path = backend.path();
            (Kept::FastCgi(backend), path)
        }
        kind => {
            let tongue = if kind == "scgi" {
                Tongue::Scgi
            } else if kind == "uwsgi" {
                Tongue::Uwsgi
            } else {
                Tongue::Http
            };
            let answer = move |_: &_| said().map_or_else(|| vec![Step::Close], |text| vec![Step::Send(text.into_bytes())]);
            let backend = PlainBackend::new(tongue, answer);
            let path = backend.path();
            (Kept::Plain(backend), path)
        }
    };
    One { _kept: kept, path, asked, ill, pause }
}

fn service(kind: &str, backends: &[One], root: &Root, lines: &str) -> Server {
    service_of(1, kind, backends, root, lines)
}

fn service_of(workers: usize, kind: &str, backends: &[One], root: &Root, lines: &str) -> Server {
    let addresses: Vec<String> = backends.iter().map(|backend| format!("\"unix:{}\"", backend.path.display())).collect();
    let table = format!("\n[backend.all]\ntype = \"{kind}\"\naddress = [{}]\n{lines}\n", addresses.join(", "));
    Server::run(&Configuration::of(&root.path()).server_also(&format!("workers = {workers}")).backend(&table).rule("backend = \"all\""))
}

fn asked(backends: &[One]) -> Vec<usize> {
    backends.iter().map(|backend| backend.asked.load(Ordering::SeqCst)).collect()
}

#[test]
fn every_type_is_balanced_as_the_configuration_says() {
    let root = Root::new();
    for kind in TYPES {
        for (balance, most) in [("least-connections", 3), ("round-robin", 3), ("hash-client", 9)] {
            let backends = ["a", "b", "c"].map(|name| one(kind, name));
            let server = service(kind, &backends, &root, &format!("balance = \"{balance}\"\nkeep = 0"));
            for _ in 0..9 {
                server.get("/").must_be(&[200]);
            }
            let asked = asked(&backends);
            assert_eq!((asked.iter().sum::<usize>(), asked.iter().max().copied()), (9, Some(most)), "{kind} {balance}: {asked:?}");
        }
    }
}

/// The turn is that of all workers, and of one backend alone: others that are asked in between do not shift it.
#[test]
fn workers_take_turns_together() {
    let root = Root::new();
    let backends = ["a", "b"].map(|name| one("http", name));
    let other = ["c", "d"].map(|name| one("http", name));
    let table = |name: &str, of: &[One]| {
        let addresses: Vec<String> = of.iter().map(|backend| format!("\"unix:{}\"", backend.path.display())).collect();
        let addresses = addresses.join(", ");
        format!("\n[backend.{name}]\ntype = \"http\"\naddress = [{addresses}]\nbalance = \"round-robin\"\nkeep = 0\n")
    };
    let configuration = Configuration::of(&root.path())
        .server_also("workers = 2")
        .backend(&(table("these", &backends) + &table("others", &other)))
        .rule("path = \"/these\"\nbackend = \"these\"")
        .rule("backend = \"others\"");
    let server = Server::run(&configuration);
    let said: Vec<String> = (0..20).map(|_| server.get("/others").text() + &server.get("/these").text()).collect();
    assert!(said.windows(2).all(|pair| pair[0] != pair[1]), "{said:?}");
    assert_eq!((asked(&backends), asked(&other)), (vec![10; 2], vec![10; 2]));
}

/// Connections of both workers count: the address that has fewer of them all is asked.
#[test]
fn workers_count_each_others_connections() {
    let root = Root::new();
    let (busy, idle) = (one("http", "busy"), one("http", "idle"));
    let pause = Arc::clone(&busy.pause);
    let backends = [busy, idle];
    let server = service_of(2, "http", &backends, &root, "keep = 0");
    pause.store(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..8).map(|_| scope.spawn(|| server.get("/").must_be(&[200]).text())).collect();
        // One address keeps every request that it has got.
        assert!(wait_until(PATIENCE, || asked(&backends).iter().sum::<usize>() == 8).is_some(), "{:?}", asked(&backends));
        let held = asked(&backends)[0];
        assert!(held > 0);
        // The other has none, so all the next ones are for it, whichever worker they come to.
        assert!(wait_until(PATIENCE, || slow.iter().filter(|one| one.is_finished()).count() == 8 - held).is_some());
        for _ in 0..10 {
            assert_eq!(server.get("/").must_be(&[200]).text(), "idle");
        }
        pause.store(0, Ordering::SeqCst);
        for one in slow {
            one.join().unwrap();
        }
    });
}

/// Once each, and only what may be done twice; POST is told that it may have been done.
#[test]
fn what_one_address_drops_another_answers() {
    let root = Root::new();
    for kind in TYPES {
        let backends = ["a", "b"].map(|name| one(kind, name));
        let server = service(kind, &backends, &root, "balance = \"round-robin\"\nkeep = 0");
        backends[0].ill.store(1, Ordering::SeqCst);
        let statuses: Vec<u16> = (0..4).map(|_| server.ask("POST", "/", &["Content-Length: 0"]).status).collect();
        assert!(statuses.contains(&502) && statuses.contains(&200), "{kind}: {statuses:?}");
        assert_eq!(asked(&backends).iter().sum::<usize>(), 4, "{kind}");
        for _ in 0..6 {
            assert_eq!(server.get("/").must_be(&[200]).text(), "b", "{kind}");
        }
    }
}

/// One that takes requests and gives no answer is asked three times in a row, then no more for a while, and when it is well again it is back.
#[test]
fn an_address_that_gives_no_answers_is_passed_over() {
    let root = Root::new();
    for kind in TYPES {
        let backends = ["a", "b"].map(|name| one(kind, name));
        let server = service(kind, &backends, &root, "balance = \"round-robin\"\nkeep = 0");
        backends[0].ill.store(1, Ordering::SeqCst);
        let begin = Instant::now();
        let failed = (0..40).filter(|_| server.ask("POST", "/", &["Content-Length: 0"]).status == 502).count();
        // Once more each time it was passed over for long enough.
        let again = usize::try_from(begin.elapsed().as_secs()).unwrap();
        assert!((3..=3 + again).contains(&failed), "{kind}: {failed} of 40");
        backends[0].ill.store(0, Ordering::SeqCst);
        assert!(wait_until(PATIENCE, || server.get("/").must_be(&[200]).text() == "a").is_some(), "{kind}");
    }
}

#[test]
fn an_address_that_is_away_is_passed_over_and_asked_again_when_it_is_back() {
    let root = Root::new();
    for kind in TYPES {
        let backends = ["a", "b"].map(|name| one(kind, name));
        let server = service(kind, &backends, &root, "keep = 0");
        let away = backends[0].path.with_file_name("away");
        std::fs::rename(&backends[0].path, &away).unwrap();
        for _ in 0..6 {
            assert_eq!(server.get("/").must_be(&[200]).text(), "b", "{kind}");
        }
        std::fs::rename(&away, &backends[0].path).unwrap();
        assert!(wait_until(PATIENCE, || server.get("/").must_be(&[200]).text() == "a").is_some(), "{kind}");
    }
}

#[test]
fn b20_b22_the_only_address_is_always_asked() {
    let root = Root::new();
    for kind in TYPES {
        let backends = [one(kind, "a")];
        let server = service(kind, &backends, &root, "keep = 0");
        let away = backends[0].path.with_file_name("away");
        std::fs::rename(&backends[0].path, &away).unwrap();
        for _ in 0..3 {
            assert_eq!(server.get("/").status, 503, "{kind}");
        }
        // At once: what failed a moment ago is not passed over.
        std::fs::rename(&away, &backends[0].path).unwrap();
        assert_eq!(server.get("/").must_be(&[200]).text(), "a", "{kind}");
        // Whoever is ill is asked twice, and told of.
        backends[0].ill.store(1, Ordering::SeqCst);
        let before = asked(&backends)[0];
        assert_eq!(server.get("/").status, 502, "{kind}");
        assert_eq!(asked(&backends)[0] - before, 2, "{kind}");
    }
}
