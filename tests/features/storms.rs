//! Signals in every state: while it starts, while it serves, while it reloads and while it stops.

use crate::support::{Configuration, Launch, PATIENCE, Root, Server, children_of, is_alive, signal, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

const STORM: [Signal; 4] = [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGHUP, Signal::SIGWINCH];

#[test]
fn storms_of_signals_leave_the_service_well() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    // O09
    for round in 0..200 {
        signal(server.parent(), STORM[round % STORM.len()]);
        std::thread::sleep(Duration::from_millis(u64::try_from(round % 7).unwrap()));
    }
    server.get("/").must_be(&[200]);
    server.order(&["reload"]).must_be_done();
    assert!(wait_until(PATIENCE, || server.workers().len() == 2).is_some(), "{:?}", server.processes());
    server.get("/").must_be(&[200]);
}

#[test]
fn signals_while_it_starts_end_it_or_are_ignored() {
    let root = Root::with_index();
    let whole = {
        let start = Instant::now();
        drop(Server::run(&Configuration::of(&root.path())));
        start.elapsed()
    };
    // O09: at many moments of the start. Before the signals are blocked, a signal has its default meaning.
    for (step, which) in (1..=12).zip([Signal::SIGHUP, Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1].into_iter().cycle()) {
        let launch = Launch::new();
        let file = launch.write_configuration(&Configuration::of(&root.path()).text(launch.home()));
        let mut server = launch.spawn(&["run".into(), "-c".into(), file.into()]);
        let pid = server.parent();
        std::thread::sleep(whole * step / 16);
        for _ in 0..10 {
            let _ = kill(Pid::from_raw(pid), which);
        }
        std::thread::sleep(Duration::from_millis(20));
        let children = children_of(pid);
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        let _ = server.wait_for_end();
        let gone = || !children.iter().any(|child| is_alive(child.pid));
        assert!(wait_until(PATIENCE, gone).is_some(), "step {step}: {children:?}");
    }
}

#[test]
fn a_change_made_while_it_reloads_is_not_lost() {
    let (one, two) = (Root::with_index(), Root::new());
    two.file("index.html", "two\n");
    let server = Server::run(&Configuration::of(&one.path()));
    for _ in 0..5 {
        for (root, text) in [(&two, "two\n"), (&one, "index\n")] {
            // The first is under way when the file changes.
            signal(server.parent(), Signal::SIGHUP);
            std::thread::sleep(Duration::from_millis(3));
            server.configure(&Configuration::of(&root.path()));
            signal(server.parent(), Signal::SIGHUP);
            assert!(wait_until(PATIENCE, || server.get("/").text() == text).is_some());
        }
    }
}

#[test]
fn signals_while_it_stops_do_not_keep_it() {
    let root = Root::with_index();
    for which in [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGQUIT, Signal::SIGTERM] {
        let mut server = Server::run(&Configuration::of(&root.path()));
        let children = server.processes();
        signal(server.parent(), Signal::SIGHUP);
        signal(server.parent(), Signal::SIGQUIT);
        for _ in 0..50 {
            let _ = kill(Pid::from_raw(server.parent()), which);
        }
        assert!(server.wait_for_end().success());
        assert!(wait_until(PATIENCE, || !children.iter().any(|child| is_alive(child.pid))).is_some());
    }
}
