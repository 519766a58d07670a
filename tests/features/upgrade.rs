//! `USR2`: another program takes the place of the running one, and nobody who asks for a page notices.

use crate::support::{Client, Configuration, Launch, PATIENCE, Root, Server, free_port, is_alive, request, signal, wait_until};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A service whose program is a copy, which a test may replace.
fn copied(configuration: &Configuration) -> (Server, PathBuf) {
    let launch = Launch::new();
    let program = launch.home().join("program");
    place(&program, &fs::read(env!("CARGO_BIN_EXE_anchorite")).unwrap());
    // An address that another program could not have beside this one.
    let text = configuration.text(launch.home()).replace("127.0.0.1:0", &format!("127.0.0.1:{}", free_port()));
    let file = launch.write_configuration(&text);
    let line = format!("shift; exec {program:?} \"$@\"");
    (launch.shell(&line).start(&[OsString::from("run"), "-c".into(), file.into()]), program)
}

/// Puts a program there as a package manager does: written beside, then renamed.
fn place(program: &Path, content: &[u8]) {
    let new = program.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, program).unwrap();
}

/// Another version of the program: the same, with something behind its end.
fn place_next(program: &Path, version: u8) {
    let mut content = fs::read(env!("CARGO_BIN_EXE_anchorite")).unwrap();
    content.write_all(&[version; 64]).unwrap();
    place(program, &content);
}

/// Whether the parent and its workers run the file that now lies there.
fn runs(server: &Server, program: &Path) -> bool {
    let wanted = fs::metadata(program).unwrap().ino();
    let is = |pid: i32| fs::metadata(format!("/proc/{pid}/exe")).is_ok_and(|file| file.ino() == wanted);
    let workers = server.workers();
    is(server.parent()) && workers.len() == 2 && workers.iter().all(|pid| is(*pid))
}

fn error_log(server: &Server) -> String {
    fs::read_to_string(server.home().join("error.log")).unwrap()
}

#[test]
fn the_program_is_replaced_under_load_and_no_request_fails() {
    let root = Root::with_index();
    root.file("big", vec![b'x'; 2_000_000]);
    let (server, program) = copied(&Configuration::of(&root.path()).limits("drain_timeout = \"5s\""));
    let (pid, address) = (server.parent(), server.address());
    let (over, served, failed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for target in ["/", "/big", "/"] {
            let (over, served, failed) = (&over, &served, &failed);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok(mut client) = Client::try_connect(address) else {
                        failed.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    let fine = client.try_send(request("GET", target, &["Connection: close"])).is_ok()
                        && client.try_response("GET").is_ok_and(|response| response.status == 200);
                    (if fine { served } else { failed }).fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for version in 1..=3 {
            place_next(&program, version);
            let before = served.load(Ordering::Relaxed);
            signal(pid, Signal::SIGUSR2);
            let came = wait_until(PATIENCE, || runs(&server, &program));
            if came.is_none() {
                over.store(true, Ordering::Relaxed);
            }
            assert!(came.is_some(), "version {version} does not run: {}", error_log(&server));
            wait_until(PATIENCE, || served.load(Ordering::Relaxed) > before + 50);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed.load(Ordering::Relaxed), 0, "of {}", served.load(Ordering::Relaxed));
    assert_eq!(server.parent(), pid);
    assert_eq!(fs::read_to_string(server.home().join("pid_file")).unwrap().trim(), pid.to_string());
    server.order(&["status"]).must_be_done();
    server.order(&["reload"]).must_be_done();
    server.get("/").must_be(&[200]);
    // Every request has its line.
    let count = served.load(Ordering::Relaxed) + 1;
    let lines = server.wait_for_lines("access.log", count);
    assert_eq!(lines.len(), count);
}

#[test]
fn a_worker_that_dies_after_the_file_was_replaced_runs_the_program_that_was_started() {
    // O16
    let root = Root::with_index();
    let (server, program) = copied(&Configuration::of(&root.path()));
    place(&program, b"no program at all");
    let victim = server.workers()[0];
    let count = server.workers().len();
    signal(victim, Signal::SIGKILL);
    let replaced = || server.workers().len() == count && !server.workers().contains(&victim);
    assert!(wait_until(PATIENCE, replaced).is_some(), "{}", error_log(&server));
    server.must_be_well(&server.workers(), "after the file was replaced");
}

#[test]
fn a_program_that_refuses_leaves_the_old_one_serving() {
    let root = Root::with_index();
    let (server, program) = copied(&Configuration::of(&root.path()));
    let workers = server.workers();
    let refusing: [&[u8]; 4] = [b"#!/bin/sh\necho 'no such key' >&2\nexit 1\n", b"#!/bin/sh\nexit 3\n", b"no program at all", b""];
    for (number, content) in (1..).zip(refusing) {
        place(&program, content);
        signal(server.parent(), Signal::SIGUSR2);
        let told = || error_log(&server).matches("the running program goes on").count();
        assert!(wait_until(PATIENCE, || told() == number).is_some(), "{}", error_log(&server));
        server.must_be_well(&workers, "after a program that refuses");
    }
    // It finds nothing wrong with whatever it is asked, and would serve nothing.
    place(&program, &fs::read("/bin/true").unwrap());
    signal(server.parent(), Signal::SIGUSR2);
    let told = || error_log(&server).contains("it does not say that the configuration is good; the running program goes on");
    assert!(wait_until(PATIENCE, told).is_some(), "{}", error_log(&server));
    server.must_be_well(&workers, "after a program of another kind");
    for reason in ["no such key", "refuses the configuration: exit status 3;"] {
        assert!(error_log(&server).contains(reason), "{}", error_log(&server));
    }
    // A file that the new one refuses.
    place_next(&program, 1);
    let text = fs::read_to_string(server.configuration()).unwrap();
    fs::write(server.configuration(), format!("{text}\n[limit]\n")).unwrap();
    signal(server.parent(), Signal::SIGUSR2);
    assert!(wait_until(PATIENCE, || error_log(&server).contains("\"limit\"")).is_some(), "{}", error_log(&server));
    server.must_be_well(&workers, "after a file that is refused");
    // One that does not come to an end.
    place(&program, b"#!/bin/sh\nexec sleep 1000\n");
    fs::write(server.configuration(), &text).unwrap();
    signal(server.parent(), Signal::SIGUSR2);
    assert!(wait_until(3 * PATIENCE, || error_log(&server).contains("does not come to an end")).is_some(), "{}", error_log(&server));
    server.must_be_well(&workers, "after a program that hangs");
    fs::remove_file(&program).unwrap();
    signal(server.parent(), Signal::SIGUSR2);
    let told = format!("cannot run {program:?}: No such file");
    assert!(wait_until(PATIENCE, || error_log(&server).contains(&told)).is_some(), "{}", error_log(&server));
    server.must_be_well(&workers, "after a program that is gone");
    place_next(&program, 2);
    signal(server.parent(), Signal::SIGUSR2);
    assert!(wait_until(PATIENCE, || runs(&server, &program)).is_some(), "{}", error_log(&server));
}

#[test]
fn signals_that_come_during_the_replacement_are_not_lost() {
    let (root, other) = (Root::with_index(), Root::new());
    other.file("index.html", "other\n");
    let (server, program) = copied(&Configuration::of(&root.path()));
    let address = format!("{}", server.address());
    let text = |root: &Root| Configuration::of(&root.path()).text(server.home()).replace("127.0.0.1:0", &address);
    for delay in [0, 1, 5, 20, 60, 150] {
        fs::write(server.configuration(), text(&root)).unwrap();
        server.order(&["reload"]).must_be_done();
        place_next(&program, delay);
        signal(server.parent(), Signal::SIGUSR2);
        std::thread::sleep(std::time::Duration::from_millis(delay.into()));
        // At once, as the new program may be reading it.
        let next = server.home().join("next.toml");
        fs::write(&next, text(&other)).unwrap();
        fs::rename(next, server.configuration()).unwrap();
        signal(server.parent(), Signal::SIGHUP);
        assert!(wait_until(PATIENCE, || server.get("/").text() == "other\n").is_some(), "HUP after {delay} ms: {}", error_log(&server));
        assert!(wait_until(PATIENCE, || runs(&server, &program)).is_some(), "USR2 and HUP after {delay} ms: {}", error_log(&server));
        server.order(&["status"]).must_be_done();
    }
    assert!(is_alive(server.parent()));
}

/// A program that takes any configuration and then runs the real one with another file.
fn place_misled(program: &Path, file: &Path) {
    let source = program.with_extension("c");
    let real = env!("CARGO_BIN_EXE_anchorite");
    let text = "#include <stdio.h>\n#include <unistd.h>\n#include <string.h>\nint main(int c, char **v) {\n  \
        if (c > 1 && !strcmp(v[1], \"check\")) return puts(\"the configuration is good\") < 0;\n";
    fs::write(&source, format!("{text}  v[3] = {file:?};\n  execv({real:?}, v);\n  return 9;\n}}\n")).unwrap();
    let new = program.with_extension("new");
    let compiled = std::process::Command::new("cc").arg("-o").arg(&new).arg(&source).status().unwrap();
    assert!(compiled.success());
    fs::rename(new, program).unwrap();
}

#[test]
fn a_program_that_fails_after_its_check_leaves_the_old_one_as_it_was() {
    let root = Root::with_index();
    root.file("big", vec![b'x'; 30_000_000]);
    let (server, program) = copied(&Configuration::of(&root.path()).server_also("control_socket = \"control\""));
    let workers = server.workers();
    let log = server.log_process();
    let mut slow = server.connect();
    slow.send(request("GET", "/big", &["Connection: close"]));
    let head = slow.head().unwrap();
    let text = fs::read_to_string(server.configuration()).unwrap();
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", server.parent())).unwrap().count();
    let before = descriptors();
    let bad = server.home().join("bad.toml");
    let faults = [
        (text.replace("error.log", "nowhere/error.log"), "nowhere"),
        (text.replace("\"control\"", "\"elsewhere\""), "control_socket was changed, which needs a restart"),
        (text.clone() + "\n[limit]\n", "\"limit\""),
        (text.replace("error.log", "nowhere/error.log"), "nowhere"),
    ];
    for (number, (content, why)) in (1..).zip(&faults) {
        assert_ne!(content, &text, "{why}");
        fs::write(&bad, content).unwrap();
        place_misled(&program, &bad);
        signal(server.parent(), Signal::SIGUSR2);
        let told = || error_log(&server).matches("the running program goes on").count();
        assert!(wait_until(PATIENCE, || told() == number).is_some(), "{why}: {}", error_log(&server));
        assert!(error_log(&server).contains(why), "{why}: {}", error_log(&server));
        assert_eq!(server.log_process(), log);
        server.must_be_well(&workers, why);
        server.order(&["status"]).must_be_done();
        // The answer comes before the connection that it came over is closed.
        assert!(wait_until(PATIENCE, || descriptors() == before).is_some(), "{why}: {} and not {before}", descriptors());
    }
    // What ran is not cut, what dies is replaced, and orders are obeyed.
    assert_eq!(slow.exactly(usize::try_from(head.length()).unwrap()).unwrap().len(), 30_000_000);
    signal(workers[0], Signal::SIGKILL);
    let replaced = || server.workers().len() == workers.len() && !server.workers().contains(&workers[0]);
    assert!(wait_until(PATIENCE, replaced).is_some(), "{}", error_log(&server));
    fs::rename(server.home().join("access.log"), server.home().join("access.log.1")).unwrap();
    server.order(&["reopen"]).must_be_done();
    server.get("/").must_be(&[200]);
    server.wait_for_lines("access.log", 1);
    server.order(&["reload"]).must_be_done();
    server.get("/").must_be(&[200]);
    place_next(&program, 1);
    signal(server.parent(), Signal::SIGUSR2);
    assert!(wait_until(PATIENCE, || runs(&server, &program)).is_some(), "{}", error_log(&server));
    server.order(&["stop"]).must_be_done();
    assert!(wait_until(PATIENCE, || !server.home().join("control").exists()).is_some());
}

#[test]
fn a_signal_to_stop_during_the_replacement_is_obeyed() {
    for delay in [0, 5, 20, 60, 150, 300] {
        let root = Root::with_index();
        let (mut server, program) = copied(&Configuration::of(&root.path()));
        place_next(&program, 1);
        signal(server.parent(), Signal::SIGUSR2);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        let ended = server.end(Signal::SIGTERM);
        assert_eq!(ended.code(), Some(0), "after {delay} ms: {}", error_log(&server));
    }
}

#[test]
fn lines_of_old_workers_go_to_their_own_logs_after_the_configuration_changed() {
    let root = Root::with_index();
    root.file("big", vec![b'x'; 30_000_000]);
    let site = |name: &str| format!("name = [{name:?}]\naccess_log = {:?}", format!("{name}.log"));
    let first = Configuration::new().site(&root.path(), &site("b.test"));
    let (server, program) = copied(&first);
    let address = server.address().to_string();
    let next = Configuration::new().site(&root.path(), &site("a.test")).site(&root.path(), &site("b.test"));
    let without = Configuration::new().site(&root.path(), "");
    for (version, configuration) in [(1, next), (2, without)] {
        let mut slow = server.connect();
        slow.send(format!("GET /big?{version} HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n"));
        slow.head().unwrap();
        fs::write(server.configuration(), configuration.text(server.home()).replace("127.0.0.1:0", &address)).unwrap();
        place_next(&program, version);
        signal(server.parent(), Signal::SIGUSR2);
        assert!(
            wait_until(PATIENCE, || server.parent() > 0 && server.get("/").status == 200 && {
                let wanted = fs::metadata(&program).unwrap().ino();
                fs::metadata(format!("/proc/{}/exe", server.parent())).is_ok_and(|file| file.ino() == wanted)
            })
            .is_some()
        );
        slow.exactly(30_000_000).unwrap();
        let lines = server.wait_for_lines("b.test.log", usize::from(version));
        assert!(lines.iter().any(|line| line.contains(&format!("/big?{version} "))), "{lines:?}");
        assert!(!error_log(&server).contains("malformed"), "{}", error_log(&server));
    }
    assert!(!fs::read_to_string(server.home().join("a.test.log")).unwrap_or_default().contains("big"));
}

#[test]
fn a_check_that_takes_long_keeps_nobody_waiting() {
    let root = Root::with_index();
    let (server, program) = copied(&Configuration::of(&root.path()));
    // Takes any configuration, as soon as there is this file.
    let gate = server.home().join("gate");
    place(&program, format!("#!/bin/sh\nwhile [ ! -e {gate:?} ]; do sleep 0.05; done\necho the configuration is good\n").as_bytes());
    signal(server.parent(), Signal::SIGUSR2);
    let checks = || server.processes().iter().any(|process| process.title.contains("check"));
    assert!(wait_until(PATIENCE, checks).is_some(), "{:?}", server.processes());
    let victim = server.workers()[0];
    signal(victim, Signal::SIGKILL);
    let replaced = || server.workers().len() == 2 && !server.workers().contains(&victim);
    assert!(wait_until(PATIENCE, replaced).is_some(), "{:?}", server.processes());
    server.order(&["status"]).must_be_done();
    server.order(&["reload"]).must_be_done();
    signal(server.parent(), Signal::SIGUSR2);
    assert!(wait_until(PATIENCE, || error_log(&server).contains("a replacement is under way")).is_some(), "{}", error_log(&server));
    assert!(checks(), "all of that while it checks: {}", error_log(&server));
    place_next(&program, 1);
    fs::write(gate, "").unwrap();
    assert!(wait_until(PATIENCE, || runs(&server, &program)).is_some(), "{}", error_log(&server));
    let status = server.order(&["status"]).must_be_done().stdout;
    assert!(
        status.contains(&format!("serving: workers {} {}, listening on {}", server.workers()[0], server.workers()[1], server.address())),
        "{status}"
    );
}

#[test]
fn a_check_that_takes_long_does_not_delay_the_end() {
    let root = Root::with_index();
    let (mut server, program) = copied(&Configuration::of(&root.path()));
    place(&program, b"#!/bin/sh\nexec sleep 1000\n");
    signal(server.parent(), Signal::SIGUSR2);
    let checks = || server.processes().iter().any(|process| process.title.starts_with("sleep 1000"));
    assert!(wait_until(PATIENCE, checks).is_some(), "{:?}", server.processes());
    assert!(server.end(Signal::SIGTERM).success());
}
