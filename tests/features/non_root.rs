//! The same server started by an ordinary user: it serves, and its processes are confined just as well.

use crate::support::{Configuration, Launch, PATIENCE, Root, Server, needs_root, request, signal, status_field, wait_until};
use nix::sys::signal::Signal;

/// An id that no account of the machine has.
const USER: u32 = 4242;

fn served(root: &Root) -> Server {
    Launch::new().user(USER).serve(&root.path())
}

fn user() -> u32 {
    if crate::support::is_root() { USER } else { nix::unistd::geteuid().as_raw() }
}

#[test]
fn an_ordinary_user_serves_a_directory() {
    let root = Root::with_index();
    let body = crate::support::pattern(300_000);
    root.file("dir/a.bin", &body);
    root.file(".env", "hidden");
    let server = served(&root);
    assert_eq!(server.get("/").must_be(&[200]).text(), "index\n");
    assert!(server.get("/dir/a.bin").must_be(&[200]).body == body);
    server.head("/dir/a.bin").must_be(&[200]);
    server.get("/dir").must_be(&[301, 308]);
    server.get("/none").must_be(&[404]);
    server.get("/.env").must_be(&[404]);
    server.get("/../etc/passwd").must_be(&[400]);
    assert_eq!(server.ask("GET", "/dir/a.bin", &["Range: bytes=5-9"]).must_be(&[206]).body, &body[5..10]);
    let mut client = server.connect();
    client.send(request("GET", "/", &[]).repeat(100));
    for _ in 0..100 {
        client.response("GET").must_be(&[200]);
    }
    assert!(server.wait_for_access_lines(108).len() >= 108);
}

#[test]
fn its_processes_are_confined() {
    let root = Root::with_index();
    let server = served(&root);
    let id = user().to_string();
    let confined: Vec<_> = server.workers().into_iter().chain(server.log_process()).collect();
    assert!(confined.len() >= 2, "{:?}", server.processes());
    for pid in confined {
        assert_eq!(status_field(pid, "NoNewPrivs"), "1", "{pid}");
        assert_eq!(status_field(pid, "Seccomp"), "2", "{pid}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status_field(pid, set), "0000000000000000", "{pid}: {set}");
        }
        assert!(status_field(pid, "Uid").split_whitespace().all(|uid| uid == id), "{pid}: {}", status_field(pid, "Uid"));
    }
}

#[test]
fn a_dead_worker_is_replaced_and_the_end_is_clean() {
    let root = Root::with_index();
    let mut server = served(&root);
    let before = server.workers();
    signal(before[0], Signal::SIGKILL);
    let back = wait_until(PATIENCE, || server.workers().len() == before.len() && !server.workers().contains(&before[0]));
    assert!(back.is_some(), "{:?}", server.processes());
    server.get("/").must_be(&[200]);
    assert_eq!(server.end(Signal::SIGTERM).code(), Some(0));
}

#[test]
fn an_ordinary_user_runs_a_configuration() {
    let root = Root::with_index();
    let server = Launch::new().user(USER).run(&Configuration::of(&root.path()).server("listen = [\"127.0.0.1:0\"]"));
    server.get("/").must_be(&[200]);
    assert_eq!(server.wait_for_lines("access.log", 1).len(), 1);
}

#[test]
fn links_of_owners_that_cannot_be_told_apart_are_refused() {
    crate::support::needs_root!();
    // In a user namespace every owner but the user's own shows as 65534; two of those are not "the same".
    let root = Root::with_index();
    root.file("a.txt", "a");
    root.link("link", "a.txt");
    std::os::unix::fs::lchown(root.at("link"), Some(4300), Some(4300)).unwrap();
    std::os::unix::fs::chown(root.at("a.txt"), Some(4301), Some(4301)).unwrap();
    let mine = root.link("mine", "own.txt");
    let own = root.file("own.txt", "own");
    std::os::unix::fs::lchown(mine, Some(USER), Some(USER)).unwrap();
    std::os::unix::fs::chown(own, Some(USER), Some(USER)).unwrap();
    let server = served(&root);
    server.get("/link").must_be(&[404]);
    server.get("/mine").must_be(&[200]);
}

#[test]
fn a_port_that_needs_privilege_is_refused_and_named() {
    // 158
    let limit = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if limit.trim() != "1024" {
        eprintln!("skipped: ports below 1024 are free for all here");
        return;
    }
    let root = Root::with_index();
    let ended = Launch::new().user(USER).to_end(&["serve".into(), root.path().into(), "--listen".into(), "127.0.0.1:81".into()]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("127.0.0.1:81"), "{}", ended.stderr);
}

#[test]
fn without_a_place_for_the_control_socket_it_is_told_and_served() {
    needs_root!();
    let root = Root::with_index();
    let launch = Launch::new().user(USER);
    // Defaults: /run/anchorite is not this user's to make.
    let text = Configuration::of(&root.path()).text(launch.home());
    let own = |line: &&str| {
        !line.starts_with("control_socket") && !line.starts_with("pid_file") && !line.starts_with("user") && !line.starts_with("group")
    };
    let text: String = text.lines().filter(own).map(|line| format!("{line}\n")).collect();
    let file = launch.write_configuration(&text);
    let server = launch.start(&["run".into(), "-c".into(), file.into()]);
    assert!(server.stderr().contains("which this user cannot write"), "{}", server.stderr());
    server.get("/").must_be(&[200]);
    // The signal still reloads.
    let workers = server.workers();
    signal(server.parent(), Signal::SIGHUP);
    assert!(wait_until(PATIENCE, || !server.workers().iter().any(|pid| workers.contains(pid))).is_some());
    server.get("/").must_be(&[200]);
}
