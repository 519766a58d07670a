//! Answers of backends that do not end, or come faster than they are taken: nobody else waits for them.

use crate::fastcgi::{FakeBackend, Seen, Step, answer, end, record, stdout};
use crate::plain::{PlainBackend, Told, Tongue};
use crate::support::{Configuration, PATIENCE, Root, Server, wait_until};
use std::time::Duration;

const HEAD: &str = "Content-Type: text/plain\r\n\r\n";

/// One connection to the backend is all there is.
fn service(table: &str, root: &Root) -> Server {
    Server::run(&Configuration::of(&root.path()).server_also("workers = 1").backend(table).rule("backend = \"fake\""))
}

/// A word now and then, for longer than anybody waits here.
fn now_and_then(word: impl Fn(&str) -> Vec<u8>) -> Vec<Step> {
    let beats = (0..1_800).flat_map(|_| [Step::Send(word(": beat\n\n")), Step::Pause(Duration::from_millis(50))]);
    [Step::Send(word(HEAD))].into_iter().chain(beats).collect()
}

/// Far more than is worth reading, as fast as it is taken, and then the end of the connection.
fn flood(word: impl Fn(&str) -> Vec<u8>) -> Vec<Step> {
    let part = "x".repeat(50_000);
    let parts = (0..2_000).map(|_| Step::Send(word(&part)));
    [Step::Send(word(HEAD))].into_iter().chain(parts).chain([Step::Close]).collect()
}

fn asks_and_leaves(server: &Server, target: &str) {
    let mut client = server.connect();
    client.send(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.response("HEAD").must_be(&[200]);
}

/// The request that waits for the one connection gets it, sooner or later.
#[track_caller]
fn is_served_again(server: &Server) {
    assert!(wait_until(PATIENCE, || server.get("/").status == 200).is_some(), "the connection is held");
}

#[test]
fn head_of_what_never_ends_holds_no_connection() {
    let root = Root::new();
    let backend = FakeBackend::new(|seen: &Seen| match seen.path() {
        "/events" => now_and_then(|text| stdout(text)),
        "/flood" => flood(|text| stdout(text)),
        _ => answer(HEAD),
    });
    for (target, timeout) in [("/events", "500ms"), ("/flood", "1h")] {
        let server = service(&backend.table(&format!("max_connections = 1\nread_timeout = \"{timeout}\"")), &root);
        asks_and_leaves(&server, target);
        is_served_again(&server);
        let cut = || backend.seen.lock().unwrap().iter().any(|seen| seen.path() == target && seen.gone);
        assert!(wait_until(PATIENCE, cut).is_some(), "{target}");
    }
    for tongue in [Tongue::Scgi, Tongue::Uwsgi] {
        let backend = PlainBackend::new(tongue, |told: &Told| match told.path() {
            "/events" => now_and_then(|text| text.into()),
            "/flood" => flood(|text| text.into()),
            _ => vec![Step::Send(HEAD.into()), Step::Close],
        });
        for (target, timeout) in [("/events", "500ms"), ("/flood", "1h")] {
            let server = service(&backend.table(&format!("max_connections = 1\nread_timeout = \"{timeout}\"")), &root);
            asks_and_leaves(&server, target);
            is_served_again(&server);
            let cut = || backend.told.lock().unwrap().iter().any(|told| told.path() == target && told.gone);
            assert!(wait_until(PATIENCE, cut).is_some(), "{tongue:?} {target}");
        }
    }
}

/// What is said in many small pieces, each of which is a read of its own since a descriptor is beside it, is more than one turn takes; the kernel
/// tells of it once.
#[test]
fn what_is_left_when_a_turn_is_over_is_read_in_the_next() {
    let root = Root::new();
    let backend = FakeBackend::new(|_: &Seen| {
        let piece = || Step::SendWith(stdout("piece"), 1);
        let begin = [Step::Send(stdout(HEAD))];
        begin.into_iter().chain((0..200).map(|_| piece())).chain([Step::Send([record(6, 1, b""), end(0)].concat())]).collect()
    });
    let server = service(&backend.table(""), &root);
    for _ in 0..50 {
        assert_eq!(server.get("/").must_be(&[200]).text(), "piece".repeat(200));
    }
}
