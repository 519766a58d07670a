//! `auth`: what it sees and holds, and what a worker that is taken over may not ask it.

use crate::hijack::Hijacked;
use crate::support::{Configuration, PATIENCE, Root, Server, is_alive, needs_root, status_field, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use std::collections::BTreeSet;

/// At which a worker has its channel to `auth`.
const AUTH_CHANNEL: u64 = 12;

struct Service {
    server: Server,
    files: tempfile::TempDir,
    _root: Root,
}

/// The password of alice is "correct horse".
const USERS: &str = "alice:$2y$05$EFcLPdyc3hze4sON.lTwP.l6UveDk60l7dT5YULWIaI4qJnYlroDy\n";

fn run(workers: usize) -> Service {
    let (files, root) = (tempfile::Builder::new().prefix("anchorite-auth-").tempdir().unwrap(), Root::with_index());
    let path = files.path().join("users");
    std::fs::write(&path, USERS).unwrap();
    let configuration = Configuration::of(&root.path())
        .server_also(&format!("workers = {workers}"))
        .backend(&format!("[auth.staff]\ntype = \"basic\"\nfile = {path:?}\n"))
        .rule("path = \"/staff/*\"\nauth = \"staff\"");
    Service { server: Server::run(&configuration), files, _root: root }
}

impl Service {
    fn auth(&self) -> i32 {
        let processes = self.server.processes();
        processes.iter().find(|process| process.title == "anchorite: auth").unwrap_or_else(|| panic!("{processes:?}")).pid
    }
}

fn check(id: u32, realm: u16, user: &[u8], password: &[u8]) -> Vec<u8> {
    let mut packet = [&id.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &realm.to_le_bytes(), &[0; 16]].concat();
    packet.push(u8::try_from(user.len()).unwrap());
    packet.extend_from_slice(user);
    packet.extend_from_slice(password);
    packet
}

#[test]
fn auth_sees_an_empty_directory_has_no_network_and_holds_the_password_file_alone() {
    needs_root!();
    let service = run(2);
    let pid = service.auth();
    let network = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    assert_ne!(network(pid), network(service.server.parent()));
    assert_eq!(std::fs::read_dir(format!("/proc/{pid}/root/")).unwrap().count(), 0);
    assert_eq!((status_field(pid, "Seccomp").trim(), status_field(pid, "CapEff").trim()), ("2", "0000000000000000"));
    assert_eq!(status_field(pid, "Groups").trim(), "");
    let held: BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap().to_string_lossy().split(':').next().unwrap().to_owned())
        .collect();
    let file = service.files.path().join("users").to_string_lossy().into_owned();
    let file = if held.contains(&file) { file } else { "/users".to_owned() };
    assert_eq!(held, ["/dev/null", "anon_inode", "socket", file.as_str()].map(str::to_owned).into());
    // For reading alone, and no worker has it.
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap() {
        let path = entry.unwrap().path();
        let target = std::fs::read_link(format!("/proc/{pid}/fd/{}", path.file_name().unwrap().to_str().unwrap())).unwrap();
        if target.to_string_lossy().ends_with("users") {
            let info = std::fs::read_to_string(&path).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
            assert_eq!(i32::from_str_radix(flags, 8).unwrap() & libc::O_ACCMODE, libc::O_RDONLY);
        }
    }
    for worker in service.server.workers() {
        for entry in std::fs::read_dir(format!("/proc/{worker}/fd")).unwrap() {
            let target = std::fs::read_link(entry.unwrap().path()).unwrap();
            assert!(!target.to_string_lossy().ends_with("users"), "{target:?}");
        }
    }
    for row in crate::audit::rows(&service.server) {
        assert_eq!(row["faults"], serde_json::Value::Array(Vec::new()), "{row}");
    }
}

#[test]
fn m01_m02_m03_what_auth_may_not_be_asked_ends_its_sender() {
    needs_root!();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("short", vec![1, 0, 0]),
        ("no user", check(1, 0, b"", b"secret")),
        ("a user beyond the end", [&check(1, 0, b"user", b"")[..30], &[200, b'u']].concat()),
        ("a realm that is not there", check(1, 1, b"alice", b"secret")),
        ("too long a password", check(1, 0, b"alice", &[b'x'; 513])),
        ("much too long", vec![1; 60_000]),
    ];
    let service = run(cases.len() + 1);
    let auth = service.auth();
    let mut killed = BTreeSet::new();
    let send = |worker: i32, packets: &[Vec<u8>]| {
        let mut process = Hijacked::take(worker);
        for packet in packets {
            let (address, length) = (process.place(packet), u64::try_from(packet.len()).unwrap());
            process.call(libc::SYS_write, [AUTH_CHANNEL, address, length, 0, 0, 0]);
        }
        process
    };
    for (name, packet) in cases {
        let Some(worker) = service.server.workers().into_iter().find(|pid| !killed.contains(pid)) else { panic!("{name}: no worker") };
        drop(send(worker, &[packet]));
        assert!(wait_until(PATIENCE, || !is_alive(worker)).is_some(), "{name}: its sender lives on");
        killed.insert(worker);
    }
    // What a worker in its senses asks for is answered with a word, and with nothing of the file.
    let Some(worker) = service.server.workers().into_iter().find(|pid| !killed.contains(pid)) else { panic!("no worker") };
    let asked = [(1u32, &b"correct horse"[..], 1), (2, b"wrong", 2), (3, b"", 2)];
    let packets: Vec<Vec<u8>> = asked.iter().map(|(id, password, _)| check(*id, 0, b"alice", password)).collect();
    let mut process = send(worker, &packets);
    let room = process.place(&[0; 512]);
    for (id, _, answer) in asked {
        let mut received = None;
        wait_until(PATIENCE, || match process.call(libc::SYS_recvfrom, [AUTH_CHANNEL, room, 512, 0, 0, 0]) {
            Outcome::Returned(count) if count > 0 => {
                received = Some(process.read(room, usize::try_from(count).unwrap()));
                true
            }
            _ => false,
        });
        let expected = [&id.to_le_bytes()[..], &[answer]].concat();
        assert_eq!(received.unwrap_or_else(|| panic!("{id}: no answer")), expected);
    }
    drop(process);
    assert!(is_alive(worker) && is_alive(auth));
    assert_eq!(service.server.get("/").status, 200);
}

#[test]
fn another_takes_the_place_of_an_auth_that_ends() {
    needs_root!();
    let service = run(1);
    let before = service.auth();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(before), nix::sys::signal::Signal::SIGKILL).unwrap();
    let authorization = format!("Authorization: Basic {}", "YWxpY2U6Y29ycmVjdCBob3JzZQ==");
    let is_back = wait_until(PATIENCE, || {
        let others = service.server.processes();
        others.iter().any(|process| process.title == "anchorite: auth" && process.pid != before)
    });
    assert!(is_back.is_some());
    assert!(wait_until(PATIENCE, || service.server.ask("GET", "/staff/", &[&authorization]).status == 404).is_some());
    assert_eq!(service.server.get("/staff/").status, 401);
}
