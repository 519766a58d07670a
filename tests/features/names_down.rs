//! O15: user names, groups and hosts that cannot be looked up. Only the start asks; whatever hangs later keeps nobody waiting.
//!
//! In a mount namespace of its own the service sees an `/etc` whose passwd, group, nsswitch.conf, hosts and resolv.conf become
//! FIFOs that nobody writes, once it serves: whoever opens one waits for ever.

use crate::support::{Configuration, Launch, OwnEtc, PATIENCE, Root, needs_root, signal, wait_until};
use nix::sys::signal::Signal;
use std::fs;

const NAMES: [&str; 5] = ["passwd", "group", "nsswitch.conf", "hosts", "resolv.conf"];

#[test]
fn o15_names_that_hang_after_the_start_stop_nothing() {
    needs_root!();
    let (root, other) = (Root::with_index(), Root::new());
    other.file("index.html", "other\n");
    let launch = Launch::new();
    let etc = OwnEtc::new(&launch);
    let mut server = launch.shell(&etc.line()).run(&Configuration::of(&root.path()));
    for name in NAMES {
        let path = etc.path().join(name);
        let _ = fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
    }
    let looked_up = std::process::Command::new("timeout")
        .args(["1", "nsenter", "-m", "-t", &server.parent().to_string(), "getent", "passwd", "nobody"])
        .status()
        .unwrap();
    assert_eq!(looked_up.code(), Some(124), "a look-up hangs");
    server.get("/").must_be(&[200]);
    server.order(&["status"]).must_be_done();
    server.order(&["reopen"]).must_be_done();
    let victim = server.workers()[0];
    signal(victim, Signal::SIGKILL);
    let replaced = || server.workers().len() == 2 && !server.workers().contains(&victim);
    assert!(wait_until(PATIENCE, replaced).is_some(), "{:?}", server.processes());
    // The user and the group need a restart: a reload asks for neither.
    server.configure(&Configuration::of(&other.path()));
    server.order(&["reload"]).must_be_done();
    assert_eq!(server.get("/").must_be(&[200]).text(), "other\n");
    // Another program does ask, in its check, which is a process of its own: meanwhile everything goes on.
    signal(server.parent(), Signal::SIGUSR2);
    let checks = || server.processes().iter().any(|process| process.title.contains("check"));
    assert!(wait_until(PATIENCE, checks).is_some(), "{:?}", server.processes());
    server.get("/").must_be(&[200]);
    server.order(&["status"]).must_be_done();
    server.order(&["reload"]).must_be_done();
    let given_up = || fs::read_to_string(server.home().join("error.log")).unwrap().contains("does not come to an end");
    assert!(wait_until(3 * PATIENCE, given_up).is_some(), "{:?}", server.processes());
    server.get("/").must_be(&[200]);
    assert!(server.end(Signal::SIGTERM).success());
}
