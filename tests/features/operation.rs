//! The administrator's orders to a service that runs: reload, reopen, stop, status, and what stands for it in the file system.

use crate::support::{
    Client, Configuration, Launch, PATIENCE, Response, Root, Server, free_port, is_alive, is_root, needs_root, pattern, request, signal,
    wait_until,
};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// GET of `/` of this host.
fn of_host(server: &Server, host: &str) -> Response {
    server.exchange(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), "GET")
}

fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The number of the generation that serves.
fn generation(server: &Server) -> u64 {
    let status = server.order(&["status", "--json"]).must_be_done();
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let generations = status["generations"].as_array().unwrap();
    let serving = generations.iter().find(|generation| generation["state"] == "serving");
    serving.unwrap()["generation"].as_u64().unwrap()
}

#[test]
fn reload_adds_a_document_root_and_serves_it() {
    let (one, two) = (Root::with_index(), Root::new());
    two.file("index.html", "two\n");
    let before = Configuration::of(&one.path());
    let server = Server::run(&before);
    let workers = server.workers();
    assert_eq!(of_host(&server, "two.test").text(), "index\n");
    server.configure(&before.clone().site(&two.path(), "name = [\"two.test\"]"));
    let said = server.order(&["reload"]).must_be_done().stdout;
    assert_eq!(said, "generation 2 serves\n");
    assert_eq!(of_host(&server, "two.test").text(), "two\n");
    assert_eq!(of_host(&server, "a").text(), "index\n");
    assert!(wait_until(PATIENCE, || !workers.iter().any(|pid| is_alive(*pid))).is_some());
    server.configure(&before);
    signal(server.parent(), Signal::SIGHUP);
    assert!(wait_until(PATIENCE, || of_host(&server, "two.test").text() == "index\n").is_some());
}

#[test]
fn a_bad_file_changes_nothing_and_the_command_says_where() {
    // 014
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path());
    let server = Server::run(&configuration);
    let workers = server.workers();
    // O07
    let text = fs::read_to_string(server.configuration()).unwrap();
    fs::write(server.configuration(), format!("[limits]\nlisten_timeout = 1\n{}", text.replace("[limits]", "[limit]"))).unwrap();
    let told = server.order(&["reload"]).must_fail().stderr;
    let place = format!("{}:2:1: unknown key \"listen_timeout\"", server.configuration().display());
    assert!(told.starts_with(&place), "{told}");
    server.must_be_well(&workers, "after a reload of a bad file");
    assert!(fs::read_to_string(server.home().join("error.log")).unwrap().contains("listen_timeout"));
    for (broken, what) in [
        (configuration.clone().site(&root.at("missing"), "name = [\"b\"]"), "missing"),
        (configuration.clone().log("access = \"/proc/none/a\"\nerror = \"/proc/none/e\""), "/proc/none"),
        (configuration.clone().server_also("# a port that is taken is tried below"), ""),
    ] {
        server.configure(&broken);
        if !what.is_empty() {
            let told = server.order(&["reload"]).must_fail().stderr;
            assert!(told.contains(what) && told.starts_with(&format!("{}:", server.configuration().display())), "{told}");
            server.must_be_well(&workers, what);
        }
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = configuration.text(server.home()).replace("\"127.0.0.1:0\"", &format!("\"127.0.0.1:0\", \"{address}\""));
    fs::write(server.configuration(), text).unwrap();
    let told = server.order(&["reload"]).must_fail().stderr;
    assert!(told.contains(&format!("listen on {address}")), "{told}");
    server.must_be_well(&workers, "after a reload to an address that is taken");
    // All at once, each where it stands.
    let several = configuration.clone().site(&root.at("missing"), "name = [\"b\"]").text(server.home());
    fs::write(server.configuration(), several.replace("\"127.0.0.1:0\"", &format!("\"127.0.0.1:0\", \"{address}\""))).unwrap();
    let told = server.order(&["reload"]).must_fail().stderr;
    assert!(told.contains(&format!("listen on {address}")) && told.contains("missing") && told.matches('^').count() > 1, "{told}");
    server.must_be_well(&workers, "after a reload with two faults");
    server.configure(&configuration);
    server.order(&["reload"]).must_be_done();
}

#[test]
fn what_needs_a_restart_is_refused_and_named() {
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path());
    let server = Server::run(&configuration);
    let workers = server.workers();
    let text = fs::read_to_string(server.configuration()).unwrap();
    let chroot = text.replace("[jail]", &format!("[jail]\nmode = \"chroot\"\nroot = {:?}", root.base()));
    let mut cases = vec![(chroot, "[jail] mode")];
    if crate::support::is_root() {
        cases.push((text.replace("user = \"nobody\"", "user = \"daemon\""), "[server] user"));
        cases.push((text.replace("group = \"nogroup\"", "group = \"daemon\""), "[server] group"));
    }
    for (changed, name) in cases {
        fs::write(server.configuration(), changed).unwrap();
        let told = server.order(&["reload"]).must_fail().stderr;
        assert!(told.contains(&format!("{name} was changed, which needs a restart")), "{told}");
        server.must_be_well(&workers, name);
    }
    // The command finds the new place where nobody listens: told by signal, said in the log.
    fs::write(server.configuration(), text.replace("/control_socket", "/elsewhere")).unwrap();
    assert!(server.order(&["reload"]).must_fail().stderr.contains("no service runs: connect"));
    signal(server.parent(), Signal::SIGHUP);
    let told = || fs::read_to_string(server.home().join("error.log")).unwrap();
    assert!(wait_until(PATIENCE, || told().contains("[server] control_socket was changed")).is_some(), "{}", told());
    server.must_be_well(&workers, "control_socket");
}

#[test]
fn a_root_that_is_replaced_is_seen_without_a_reload() {
    let root = Root::new();
    for (name, text) in [("../one/index.html", "one\n"), ("../two/index.html", "two\n"), ("../three/index.html", "three\n")] {
        root.file(name, text);
    }
    let current = root.base().join("current");
    symlink("one", &current).unwrap();
    let server = Server::run(&Configuration::of(&current));
    assert_eq!(server.get("/").text(), "one\n");
    // A release switches the link at once, as `ln -sfn` and `mv -T` do.
    symlink("two", root.base().join("next")).unwrap();
    fs::rename(root.base().join("next"), &current).unwrap();
    assert!(wait_until(PATIENCE, || server.get("/").text() == "two\n").is_some());
    fs::rename(root.base().join("two"), root.base().join("old")).unwrap();
    fs::rename(root.base().join("three"), root.base().join("two")).unwrap();
    assert!(wait_until(PATIENCE, || server.get("/").text() == "three\n").is_some());
}

#[test]
fn what_a_rule_serves_from_and_was_replaced_is_seen_without_a_reload() {
    let root = Root::with_index();
    root.file("../icons/a.txt", "old\n");
    root.file("../robots.txt", "old\n");
    let base = root.base().display();
    let rules = format!(
        "name = [\"\"]\n[[site.rule]]\npath = \"/icons/*\"\nalias = \"{base}/icons\"\n\
         [[site.rule]]\npath = \"/robots.txt\"\nalias = \"{base}/robots.txt\"\n"
    );
    let server = Server::run(&Configuration::new().site(&root.path(), &rules));
    for (target, name) in [("/icons/a.txt", "icons"), ("/robots.txt", "robots.txt")] {
        assert_eq!(server.get(target).text(), "old\n");
        let (next, shown) = (root.base().join(format!("next-{name}")), root.base().join(name));
        root.file(format!("../next-{name}{}", if name == "icons" { "/a.txt" } else { "" }), "new\n");
        fs::rename(&shown, root.base().join(format!("old-{name}"))).unwrap();
        fs::rename(&next, &shown).unwrap();
        assert!(wait_until(PATIENCE, || server.get(target).text() == "new\n").is_some(), "{target}");
    }
}

#[test]
fn a_root_that_is_replaced_while_the_file_is_bad_is_tried_once_and_served_after_the_reload() {
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path());
    let server = Server::run(&configuration);
    let text = fs::read_to_string(server.configuration()).unwrap();
    fs::write(server.configuration(), text + "[limit]\n").unwrap();
    fs::rename(root.path(), root.base().join("old")).unwrap();
    root.file("index.html", "new\n");
    let failures = || {
        let log = fs::read_to_string(server.home().join("error.log")).unwrap();
        log.matches("stays as it was").count()
    };
    assert!(wait_until(PATIENCE, || failures() > 0).is_some());
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(failures(), 1);
    assert_eq!(server.get("/").text(), "index\n");
    server.configure(&configuration);
    server.order(&["reload"]).must_be_done();
    assert_eq!(server.get("/").text(), "new\n");
}

#[test]
fn a_hundred_reloads_under_load_fail_no_request_and_leak_nothing() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).limits("drain_timeout = \"2s\""));
    // O08
    server.order(&["reload"]).must_be_done();
    assert!(wait_until(PATIENCE, || server.workers().len() == 2).is_some());
    let before = descriptors(server.parent());
    let (done, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = server.address();
    let mut slowest = Duration::ZERO;
    std::thread::scope(|threads| {
        let load = |keep: bool| {
            let mut client = Client::connect(address);
            while !done.load(Ordering::Relaxed) {
                let fields: &[&str] = if keep { &[] } else { &["Connection: close"] };
                client.send(request("GET", "/", fields));
                let response = client.response("GET").must_be(&[200]);
                assert_eq!(response.text(), "index\n");
                requests.fetch_add(1, Ordering::Relaxed);
                if response.closes() {
                    client = Client::connect(address);
                }
            }
        };
        let clients: Vec<_> = [true, false, false].map(|keep| threads.spawn(move || load(keep))).into();
        for number in 0..100 {
            let start = Instant::now();
            server.order(&["reload"]).must_be_done();
            slowest = slowest.max(start.elapsed());
            assert!(!clients.iter().any(|client| client.is_finished()), "a request failed at reload {number}");
        }
        done.store(true, Ordering::Relaxed);
    });
    eprintln!("{requests:?} requests, the slowest reload took {slowest:?}");
    assert_eq!(generation(&server), 102);
    assert!(wait_until(PATIENCE, || server.processes().len() == 5).is_some(), "{:?}", server.processes());
    assert!(wait_until(PATIENCE, || descriptors(server.parent()) <= before).is_some(), "{} of {before}", descriptors(server.parent()));
}

/// Reads the rest of a body of `length` bytes.
fn rest(mut stream: &std::net::TcpStream, length: usize) -> usize {
    let (mut buffer, mut sum) = (vec![0; 1 << 16], 0);
    while sum < length {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => sum += count,
        }
    }
    sum
}

const BIG: usize = 64 << 20;

/// A download of [`BIG`] bytes that has begun and waits.
fn begin_download(address: SocketAddr) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&request("GET", "/big", &["Connection: close"])).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", head.escape_ascii());
    stream
}

#[test]
fn transfers_finish_across_a_reload_while_the_new_workers_serve() {
    // 131
    let root = Root::with_index();
    root.sparse("big", BIG as u64);
    let server = Server::run(&Configuration::of(&root.path()));
    let download = begin_download(server.address());
    server.order(&["reload"]).must_be_done();
    root.file("new", "new\n");
    assert_eq!(server.get("/new").text(), "new\n");
    let status = server.order(&["status"]).must_be_done().stdout;
    assert!(status.contains("generation 1 draining") && status.contains("generation 2 serving"), "{status}");
    assert_eq!(rest(&download, BIG), BIG);
    drop(download);
    let gone = || !server.order(&["status"]).stdout.contains("generation 1");
    assert!(wait_until(PATIENCE, gone).is_some());
}

#[test]
fn a_transfer_that_outlasts_drain_timeout_is_ended() {
    // 131
    let root = Root::with_index();
    root.sparse("big", BIG as u64);
    let server = Server::run(&Configuration::of(&root.path()).limits("drain_timeout = \"1s\""));
    let download = begin_download(server.address());
    let begun = Instant::now();
    server.order(&["reload"]).must_be_done();
    let gone = || !server.order(&["status"]).stdout.contains("generation 1");
    wait_until(PATIENCE, gone).expect("the old generation ends");
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(rest(&download, BIG) < BIG);
    // What was cut off has its line.
    let lines = server.wait_for_lines("access.log", 1);
    assert!(lines.len() == 1 && lines[0].contains("/big"), "{lines:?}");
}

#[test]
fn reopen_goes_over_to_new_files() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    server.get("/before");
    assert_eq!(server.wait_for_lines("access.log", 1).len(), 1);
    fs::rename(server.home().join("access.log"), server.home().join("access.log.1")).unwrap();
    server.order(&["reopen"]).must_be_done();
    server.get("/after");
    let lines = server.wait_for_lines("access.log", 1);
    assert!(lines.len() == 1 && lines[0].contains("/after"), "{lines:?}");
    assert_eq!(server.wait_for_lines("access.log.1", 1).len(), 1);
}

#[test]
fn stop_drains_and_answers_when_nothing_is_left() {
    let root = Root::with_index();
    root.sparse("big", BIG as u64);
    let mut server = Server::run(&Configuration::of(&root.path()));
    let download = begin_download(server.address());
    let (pid_file, socket) = (server.home().join("pid_file"), server.home().join("control_socket"));
    assert_eq!(fs::read_to_string(&pid_file).unwrap().trim(), server.parent().to_string());
    std::thread::scope(|threads| {
        let stop = threads.spawn(|| server.order(&["stop"]));
        let refused = wait_until(PATIENCE, || Client::try_connect(server.address()).is_err());
        assert!(refused.is_some());
        assert!(!stop.is_finished());
        assert_eq!(rest(&download, BIG), BIG);
        let stopped = stop.join().unwrap().must_be_done();
        assert_eq!(stopped.stdout, "stopped\n");
        assert!(!pid_file.exists() && !socket.exists());
    });
    assert!(server.wait_for_end().success());
}

/// A second order to stop asks for the same as the first.
#[test]
fn stop_twice_does_not_shorten_the_time() {
    let root = Root::with_index();
    root.sparse("big", BIG as u64);
    let mut server = Server::run(&Configuration::of(&root.path()));
    let download = begin_download(server.address());
    signal(server.parent(), Signal::SIGQUIT);
    assert!(wait_until(PATIENCE, || Client::try_connect(server.address()).is_err()).is_some());
    std::thread::scope(|threads| {
        let stop = threads.spawn(|| server.order(&["stop"]));
        signal(server.parent(), Signal::SIGQUIT);
        // Longer than what a stop without a drain leaves.
        std::thread::sleep(Duration::from_millis(3_500));
        assert_eq!(rest(&download, BIG), BIG);
        stop.join().unwrap().must_be_done();
    });
    assert!(server.wait_for_end().success());
}

#[test]
fn status_tells_generations_and_workers() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let text = server.order(&["status"]).must_be_done().stdout;
    let json = server.order(&["status", "--json"]).must_be_done().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["pid"], server.parent());
    for worker in server.workers() {
        assert!(text.contains(&worker.to_string()), "{text}");
    }
    assert!(text.contains(&server.address().to_string()), "{text}");
    assert_eq!(generation(&server), 1);
}

#[test]
fn status_has_the_counters_while_a_worker_is_stopped() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    assert_eq!(of_host(&server, "a").status, 200);
    let counted = || {
        let status = server.order(&["status", "--json"]).must_be_done().stdout;
        serde_json::from_str::<serde_json::Value>(&status).unwrap()["requests"].as_u64()
    };
    for stopped in server.workers() {
        signal(stopped, Signal::SIGSTOP);
        let counts = [counted(), counted(), counted()];
        signal(stopped, Signal::SIGCONT);
        assert_eq!(counts, [Some(1); 3]);
    }
    assert_eq!(counted(), Some(1));
}

#[test]
fn an_order_with_a_file_that_is_not_there_goes_to_no_other_service() {
    let launch = Launch::new();
    for order in ["reload", "reopen", "stop", "status"] {
        let told = launch.to_end(&[order.into(), "-c".into(), "/nonexistent/typo.toml".into()]).must_fail().stderr;
        assert!(told.starts_with("/nonexistent/typo.toml: cannot be read: no such file"), "{told}");
    }
}

#[test]
fn an_order_without_a_service_fails_and_says_where_it_looked() {
    let root = Root::with_index();
    let launch = Launch::new();
    let file = launch.write_configuration(&Configuration::of(&root.path()).text(launch.home()));
    for order in ["reload", "stop", "reopen", "status"] {
        let told = launch.to_end(&[order.into(), "-c".into(), file.clone().into()]).must_fail().stderr;
        let expected = format!("anchorite: no service runs: connect \"{}\": ", launch.home().join("control_socket").display());
        assert!(told.starts_with(&expected), "{told}");
    }
    // A socket that nobody listens at any more.
    drop(std::os::unix::net::UnixListener::bind(launch.home().join("control_socket")).unwrap());
    launch.to_end(&["status".into(), "-c".into(), file.into()]).must_fail();
}

#[test]
fn the_control_socket_is_for_root_alone() {
    needs_root!();
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let socket = server.home().join("control_socket");
    assert_eq!(socket.metadata().unwrap().mode() & 0o7777, 0o600);
    // Even with the mode lost, another user gets no word.
    for mode in [0o600, 0o666] {
        fs::set_permissions(&socket, fs::Permissions::from_mode(mode)).unwrap();
        let other = Launch::new().user(65_534);
        let ended = other.to_end(&["status".into(), "-c".into(), server.configuration().into()]);
        assert!(ended.code == Some(1) && ended.stdout.is_empty(), "{ended:?}");
    }
    server.order(&["status"]).must_be_done();
}

/// A connection to the control socket that says what it likes.
fn control(server: &Server) -> std::os::fd::OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
    use std::os::fd::AsRawFd;
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    connect(client.as_raw_fd(), &UnixAddr::new(&server.home().join("control_socket")).unwrap()).unwrap();
    client
}

#[test]
fn garbage_on_the_control_socket_does_no_harm() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let workers = server.workers();
    let before = descriptors(server.parent());
    let mut silent: Vec<_> = (0..40).map(|_| control(&server)).collect();
    for garbage in [b"x".to_vec(), vec![0; 1], b"rr".to_vec(), b"reload\n".to_vec(), pattern(16), pattern(60_000)] {
        silent.clear();
        let client = control(&server);
        nix::unistd::write(&client, &garbage).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(nix::unistd::read(&client, &mut buffer).unwrap(), 0, "{}", garbage[..garbage.len().min(16)].escape_ascii());
    }
    // One who asks and is gone before the answer.
    for _ in 0..50 {
        nix::unistd::write(control(&server), b"r").unwrap();
        nix::unistd::write(control(&server), b"j").unwrap();
    }
    assert!(wait_until(PATIENCE, || server.order(&["status"]).code == Some(0)).is_some());
    server.order(&["reload"]).must_be_done();
    assert!(wait_until(PATIENCE, || server.workers().len() == workers.len()).is_some(), "{:?}", server.processes());
    assert!(wait_until(PATIENCE, || descriptors(server.parent()) <= before).is_some());
    server.get("/").must_be(&[200]);
}

#[test]
fn a_second_start_fails_and_names_the_first() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let workers = server.workers();
    let arguments = |file: std::path::PathBuf| ["run".into(), "-c".into(), file.into()];
    // O10: everything the same; then only the pid file, or the address, in common.
    let second = Launch::new();
    let told = second.to_end(&arguments(server.configuration())).must_fail().stderr;
    assert!(told.contains(&format!("(pid {})", server.parent())), "{told}");
    let common = format!("pid_file = {:?}", server.home().join("pid_file"));
    let told = second.run_to_end(&Configuration::of(&root.path()).server_also(&common).text(second.home())).must_fail().stderr;
    assert!(told.contains("pid_file") && told.contains(&format!("(pid {})", server.parent())), "{told}");
    let text = Configuration::of(&root.path()).text(second.home());
    let told = second.run_to_end(&text.replace("127.0.0.1:0", &server.address().to_string())).must_fail().stderr;
    assert!(told.contains(&format!("listen on {}", server.address())), "{told}");
    assert!(!second.home().join("control_socket").exists() && !second.home().join("pid_file").exists());
    server.order(&["status"]).must_be_done();
    assert_eq!(fs::read_to_string(server.home().join("pid_file")).unwrap().trim(), server.parent().to_string());
    server.must_be_well(&workers, "after three second starts");
}

#[test]
fn twenty_restarts_under_load_always_come_up() {
    // 133
    let root = Root::with_index();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let user = if is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" };
    let configuration = Configuration::new().server(&format!("{user}listen = [\"{address}\"]")).site(&root.path(), "name = [\"\"]");
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let Ok(mut client) = Client::try_connect(address) else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                if client.try_send(request("GET", "/", &[])).is_ok() && client.try_response("GET").is_ok() {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for _ in 0..20 {
            let mut server = Server::run(&configuration);
            fs::remove_file(server.home().join("pid_file")).unwrap();
            assert_eq!(server.get("/").text(), "index\n");
            // Nothing of it is left, or this panics.
            server.end(Signal::SIGTERM);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(answered.into_inner() >= 20);
}

#[test]
fn stale_files_are_replaced_and_links_are_refused() {
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path());
    let mut server = Server::run(&configuration);
    let (pid_file, socket) = (server.home().join("pid_file"), server.home().join("control_socket"));
    // Killed, it leaves both behind.
    server.end(Signal::SIGKILL);
    assert!(pid_file.exists() && socket.exists());
    let launch = Launch::new();
    fs::copy(&pid_file, launch.home().join("pid_file")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(launch.home().join("control_socket")).unwrap());
    let server = launch.run(&configuration);
    let written = fs::read_to_string(server.home().join("pid_file")).unwrap();
    assert_eq!(written.trim(), server.parent().to_string());
    drop(server);
    let launch = Launch::new();
    let precious = launch.home().join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, launch.home().join("pid_file")).unwrap();
    let told = launch.run_to_end(&configuration.text(launch.home())).must_fail().stderr;
    assert!(told.contains("is a link"), "{told}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    let open = launch.home().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for key in ["pid_file", "control_socket"] {
        let line = format!("{key} = {:?}", open.join("x"));
        let other = if key == "pid_file" { "control_socket = \"\"" } else { "pid_file = \"\"" };
        let text = configuration.clone().server_also(&line).server_also(other).text(launch.home());
        let told = launch.run_to_end(&text).must_fail().stderr;
        assert!(told.contains("other users can write it"), "{told}");
    }
}

#[test]
fn the_directory_of_socket_and_pid_file_is_made() {
    let root = Root::with_index();
    let launch = Launch::new();
    let place = launch.home().join("run");
    let keys = [format!("control_socket = {:?}", place.join("control_socket")), format!("pid_file = {:?}", place.join("pid"))];
    let server = launch.run(&Configuration::of(&root.path()).server_also(&keys.join("\n")));
    assert_eq!(place.metadata().unwrap().mode() & 0o7777, 0o755);
    server.order(&["status"]).must_be_done();
    // A reload moves the pid file.
    let text = fs::read_to_string(server.configuration()).unwrap();
    fs::write(server.configuration(), text.replace("/run/pid", "/run/moved")).unwrap();
    server.order(&["reload"]).must_be_done();
    assert!(place.join("moved").exists() && !place.join("pid").exists());
}
