//! What the surroundings of the service may do to it: whoever started it, the limits it inherits, directories of others.

use crate::support::{Client, Configuration, Launch, PATIENCE, Root, free_port, needs_root, request, wait_until};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};

#[test]
fn a_standard_error_that_nobody_reads_holds_nothing_up() {
    let root = Root::with_index();
    let launch = Launch::new();
    let unread = launch.home().join("unread");
    nix::unistd::mkfifo(&unread, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    // Both ends, so that nothing waits for the other; read until the start is seen, and then no more.
    let mut reader = BufReader::new(fs::File::options().read(true).write(true).open(&unread).unwrap());
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let configuration = Configuration::of(&root.path()).log("access = \"stderr\"\nerror = \"stderr\"\n");
    let file = launch.write_configuration(&configuration.text(launch.home()).replace("127.0.0.1:0", &address.to_string()));
    let mut server = launch.shell(&format!("exec \"$@\" 2>{unread:?}")).spawn(&["run".into(), "-c".into(), file.into()]);
    let mut line = String::new();
    while line != "anchorite: ready\n" {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0);
    }
    for _ in 0..30 {
        // More than a pipe holds.
        let mut client = Client::connect(address);
        for _ in 0..100 {
            client.send(format!("GET /?{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(100)));
            assert_eq!(client.response("GET").status, 200);
        }
    }
    server.order(&["reload"]).must_be_done();
    server.order(&["reopen"]).must_be_done();
    assert_eq!(Client::connect(address).send(request("GET", "/", &["Connection: close"])).response("GET").text(), "index\n");
    assert_eq!(server.end(Signal::SIGTERM).code(), Some(0));
}

#[test]
fn a_log_beyond_the_limit_for_files_is_a_log_that_takes_no_line() {
    let root = Root::with_index();
    let launch = Launch::new();
    let log = launch.home().join("error.log");
    fs::write(&log, "x\n".repeat(5_000_000)).unwrap();
    let server = launch.shell("ulimit -f 9000; exec \"$@\"").run(&Configuration::of(&root.path()));
    let workers = server.workers();
    let log_process = server.log_process();
    server.order(&["reload"]).must_be_done();
    assert_eq!(server.get("/").text(), "index\n");
    assert_eq!(server.log_process(), log_process);
    assert!(wait_until(PATIENCE, || server.stderr().contains("serves")).is_some(), "{}", server.stderr());
    assert_ne!(server.workers(), workers);
    assert_eq!(fs::metadata(&log).unwrap().len(), 10_000_000);
}

#[test]
fn a_socket_in_a_directory_that_the_service_can_write_is_refused() {
    needs_root!();
    let root = Root::with_index();
    let launch = Launch::new();
    let open = launch.home().join("open");
    fs::create_dir(&open).unwrap();
    for (owner, mode, expected) in [(0, 0o755, true), (0, 0o777, false), (65534, 0o755, false)] {
        chown(&open, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        let server = format!("user = \"nobody\"\nlisten = [\"unix:{}\"]\n", open.join("s").display());
        let file = launch.write_configuration(&Configuration::of(&root.path()).server(&server).text(launch.home()));
        let ended = launch.to_end(&["check".into(), "-c".into(), file.into()]);
        assert_eq!(ended.code == Some(0), expected, "{owner} {mode:o}: {ended:?}");
        assert_eq!(ended.stderr.contains("can be written by the service's user"), !expected, "{ended:?}");
    }
}

#[test]
fn a_control_socket_beneath_a_directory_of_somebody_else_is_refused() {
    needs_root!();
    let root = Root::with_index();
    let launch = Launch::new();
    let home = launch.home().join("bob");
    fs::create_dir_all(home.join("run")).unwrap();
    chown(&home, Some(12_345), Some(12_345)).unwrap();
    for key in ["control_socket", "pid_file"] {
        let line = format!("{key} = {:?}", home.join("run/x"));
        let ended = launch.run_to_end(&Configuration::of(&root.path()).server_also(&line).text(launch.home()));
        assert_eq!(ended.code, Some(1), "{key}: {ended:?}");
        assert!(ended.stderr.contains("belongs to a user other than root"), "{key}: {ended:?}");
    }
}

#[test]
fn each_line_of_a_failed_reload_is_a_line_of_the_log() {
    let root = Root::with_index();
    let server = crate::support::Server::run(&Configuration::of(&root.path()));
    let text = fs::read_to_string(server.configuration()).unwrap();
    fs::write(server.configuration(), text + "\n[limit]\nx = 1\n").unwrap();
    server.order(&["reload"]).must_fail();
    let log = fs::read_to_string(server.home().join("error.log")).unwrap();
    assert!(log.contains("\"limit\""), "{log}");
    assert!(log.lines().all(|line| line.contains(" parent: ") || line.contains(" log: ")), "{log}");
}
