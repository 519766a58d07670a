//! Rotation under load: logs are renamed and reopened a hundred times, and every request has exactly one whole line.

use crate::support::{AccessLine, Configuration, PATIENCE, Root, Server, needs_root, signal, wait_until};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

const REQUESTS: usize = 120_000;
const ROTATIONS: usize = 100;

#[test]
fn no_line_is_lost_doubled_or_torn_while_logs_are_rotated_a_hundred_times() {
    // L07
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).limits("keepalive_requests = 1000000"));
    let load = Command::new("h2load")
        .args(["--h1", "-t1", "-c16", &format!("-n{REQUESTS}")])
        .args((0..8).map(|number| format!("http://{}/?{number}", server.address())))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let log = server.home().join("access.log");
    for number in 0..ROTATIONS {
        fs::rename(&log, server.home().join(format!("access.log.{number}"))).unwrap();
        signal(server.parent(), Signal::SIGUSR1);
        assert!(wait_until(PATIENCE, || log.exists()).is_some(), "rotation {number}");
        std::thread::sleep(Duration::from_millis(25));
    }
    let told = load.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(&format!("{REQUESTS} succeeded, 0 failed")), "{told}");
    let read = || -> Vec<String> {
        let rotated = (0..ROTATIONS).map(|number| server.home().join(format!("access.log.{number}")));
        rotated.chain([log.clone()]).map(|path| fs::read_to_string(path).unwrap()).collect()
    };
    wait_until(PATIENCE, || read().iter().map(|text| text.lines().count()).sum::<usize>() >= REQUESTS);
    std::thread::sleep(Duration::from_millis(200));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut used = 0;
    for text in read() {
        assert!(text.is_empty() || text.ends_with('\n'), "a file ends within a line");
        used += usize::from(!text.is_empty());
        for line in text.lines() {
            let line = AccessLine::parse(line.as_bytes()).unwrap_or_else(|| panic!("torn: {line}"));
            assert_eq!((line.status, line.bytes), (200, 6));
            *seen.entry(line.request).or_default() += 1;
        }
    }
    assert_eq!(seen.values().sum::<usize>(), REQUESTS, "{seen:?}");
    // Every client goes through the addresses in turn: each was asked for equally often, give or take a turn of each.
    assert!(seen.len() == 8 && seen.values().all(|count| count.abs_diff(REQUESTS / 8) <= 16), "{seen:?}");
    assert!(used > 5, "only {used} files were written to: the load ended too soon");
    assert!(!fs::read_to_string(server.home().join("error.log")).unwrap_or_default().contains("lost"));
}

#[test]
fn the_logrotate_file_of_the_package_rotates() {
    // 130
    needs_root!();
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let home = server.home();
    let shipped = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/logrotate/anchorite")).unwrap();
    let order = format!("{} reopen -c {}", env!("CARGO_BIN_EXE_anchorite"), server.configuration().display());
    let text = shipped
        .replace("/var/log/anchorite", &home.display().to_string())
        .replace("/run/anchorite/control.sock", &home.join("control_socket").display().to_string())
        .replace("/usr/bin/anchorite reopen", &order);
    let rotate = |text: &str| {
        fs::write(home.join("rotate"), text).unwrap();
        let output = Command::new("logrotate").arg("-f").arg("-s").arg(home.join("state")).arg(home.join("rotate")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    server.get("/before");
    server.wait_for_lines("access.log", 1);
    rotate(&text);
    server.get("/after");
    let lines = server.wait_for_lines("access.log", 1);
    assert!(lines.len() == 1 && lines[0].contains("/after"), "{lines:?}");
    assert!(fs::read_to_string(home.join("access.log.1")).unwrap().contains("/before"));
    // A file that is cut while it is written goes on at its new beginning, without a hole.
    rotate(&text.replace("create 0640 root adm", "copytruncate"));
    server.get("/last");
    let lines = server.wait_for_lines("access.log", 1);
    assert!(lines.len() == 1 && lines[0].contains("/last") && !lines[0].contains('\0'), "{lines:?}");
}
