//! `spool`: what it sees, what it may not be asked, and what nobody can make it or a worker do to its directory.

use crate::fastcgi::{FakeBackend, answer};
use crate::hijack::Hijacked;
use crate::support::{Configuration, PATIENCE, Root, Server, is_alive, needs_root, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;

/// At which a worker has its channel to `spool`.
const SPOOL_CHANNEL: u64 = 9;
const PIECE: usize = 32 * 1024;

struct Service {
    server: Server,
    directory: tempfile::TempDir,
    _root: Root,
    _backend: FakeBackend,
}

fn run() -> Service {
    with_workers(2)
}

fn with_workers(workers: usize) -> Service {
    let directory = tempfile::Builder::new().prefix("anchorite-spool-").tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    chown(directory.path(), Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    let (root, backend) = (Root::with_index(), FakeBackend::new(|_| answer("A: b\r\n\r\nfine")));
    let lines = format!("spool = {:?}\nspool_max = \"1MiB\"\nworkers = {workers}", directory.path());
    let configuration = Configuration::of(&root.path()).server_also(&lines).backend(&backend.table(""));
    let server = Server::run(&configuration.rule("path = \"/b/*\"\nbackend = \"fake\""));
    Service { server, directory, _root: root, _backend: backend }
}

impl Service {
    fn pid(&self) -> i32 {
        let processes = self.server.processes();
        processes.iter().find(|process| process.title == "anchorite: spool").unwrap_or_else(|| panic!("{processes:?}")).pid
    }

    /// Bytes of the unnamed files that it has.
    fn kept(&self) -> u64 {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().flatten().map(|entry| entry.path());
        let unnamed = files.filter(|path| std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("(deleted)")));
        unnamed.filter_map(|path| std::fs::metadata(path).ok()).map(|metadata| metadata.len()).sum()
    }
}

fn write(id: u32, at: u64, bytes: &[u8]) -> Vec<u8> {
    [&[1], id.to_le_bytes().as_slice(), &at.to_le_bytes(), bytes].concat()
}

fn read(id: u32, at: u64) -> Vec<u8> {
    [&[2], id.to_le_bytes().as_slice(), &at.to_le_bytes()].concat()
}

#[test]
fn spool_sees_its_directory_alone_and_has_no_network() {
    needs_root!();
    let service = run();
    let pid = service.pid();
    let network = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    assert_ne!(network(pid), network(service.server.parent()));
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let inside = root.join(service.directory.path().strip_prefix("/").unwrap());
    assert_eq!(inside.metadata().unwrap().ino(), service.directory.path().metadata().unwrap().ino());
    assert!(!root.join("etc").exists());
    // The directory can be written, what it lies in cannot.
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let options: Vec<Vec<&str>> = mounts.lines().map(|line| line.split(' ').nth(5).unwrap().split(',').collect()).collect();
    assert!(options.iter().all(|options| ["nosuid", "nodev", "noexec"].iter().all(|flag| options.contains(flag))), "{mounts}");
    assert_eq!(options.iter().filter(|options| options.contains(&"rw")).count(), 1, "{mounts}");
    for row in crate::audit::rows(&service.server) {
        assert_eq!(row["faults"], serde_json::Value::Array(Vec::new()), "{row}");
    }
}

#[test]
fn m01_m02_m03_what_spool_may_not_be_asked_ends_its_sender() {
    needs_root!();
    // One for each, as a worker that takes the place of one that ended comes later each time.
    let service = with_workers(12);
    let pid = service.pid();
    let mut killed = BTreeSet::new();
    for (name, packets) in [
        ("unknown tag", vec![vec![4, 0, 0, 0, 0]]),
        ("short", vec![vec![1, 0, 0, 0]]),
        ("nothing to write", vec![write(1, 0, b"")]),
        ("a piece that is too long", vec![write(1, 0, &[0; PIECE + 1])]),
        ("much too long", vec![vec![1; 60_000]]),
        ("a read with a byte too many", vec![[read(1, 0), vec![0]].concat()]),
        ("a gap", vec![write(1, 0, b"abc"), write(1, 4, b"abc")]),
        ("what is written already", vec![write(1, 0, b"abc"), write(1, 0, b"abc")]),
        ("behind the end", vec![write(1, 0, b"abc"), read(1, 3)]),
        ("far behind the end", vec![write(1, 0, b"abc"), read(1, u64::MAX)]),
        ("too many bodies", (1..=257).map(|id| write(id, 0, b"a")).collect()),
    ] {
        let Some(worker) = service.server.workers().into_iter().find(|pid| !killed.contains(pid)) else { panic!("{name}: no worker") };
        let mut process = Hijacked::take(worker);
        for packet in packets {
            let address = process.place(&packet);
            let length = u64::try_from(packet.len()).unwrap();
            // The parent may be faster than the way out of the call; a full channel is emptied soon.
            let mut write = || process.call(libc::SYS_write, [SPOOL_CHANNEL, address, length, 0, 0, 0]);
            let taken = wait_until(PATIENCE, || write() != Outcome::Returned(-i64::from(libc::EAGAIN)));
            assert!(taken.is_some(), "{name}");
        }
        drop(process);
        let errors = || std::fs::read_to_string(service.server.home().join("error.log")).unwrap_or_default();
        assert!(wait_until(PATIENCE, || !is_alive(worker)).is_some(), "{name}: its sender lives on: {}", errors());
        killed.insert(worker);
    }
    assert_eq!(service.pid(), pid);
    assert!(wait_until(PATIENCE, || service.kept() == 0).is_some(), "what the ended had is given back");
    assert_eq!(service.server.get("/b/x").text(), "fine");
}

/// Whatever a worker sends, all bodies together stay within `spool_max`, and it gets no descriptor to go beyond it.
#[test]
fn a_hijacked_worker_never_gets_more_than_spool_max() {
    needs_root!();
    let service = run();
    let worker = service.server.workers()[0];
    for round in 0..100u32 {
        // Bodies of 128 KiB each.
        let packet = write(1000 + round / 4, u64::from(round % 4) * PIECE as u64, &[7; PIECE]);
        let mut process = Hijacked::take(worker);
        let address = process.place(&packet);
        let length = packet.len();
        let mut write = || process.call(libc::SYS_write, [SPOOL_CHANNEL, address, u64::try_from(length).unwrap(), 0, 0, 0]);
        let sent = Outcome::Returned(i64::try_from(length).unwrap());
        assert!(wait_until(PATIENCE, || write() == sent).is_some());
        assert!(service.kept() <= 1 << 20, "{}", service.kept());
    }
    let full = wait_until(PATIENCE, || service.kept() == 1 << 20);
    assert!(full.is_some(), "{}", service.kept());
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(service.kept(), 1 << 20);
    crate::support::signal(worker, nix::sys::signal::Signal::SIGKILL);
    assert!(wait_until(PATIENCE, || service.kept() == 0).is_some());
}

#[test]
fn a_hijacked_spool_opens_nothing_else() {
    needs_root!();
    let service = run();
    let mut process = Hijacked::take(service.pid());
    // `struct open_how`: flags, mode, resolve.
    let mut open = |path: &str, flags: i32| {
        let path = process.place(format!("{path}\0").as_bytes());
        let how = process.place(&[u64::try_from(flags).unwrap().to_le_bytes(), 0u64.to_le_bytes(), 0u64.to_le_bytes()].concat());
        let here = u64::from_le_bytes(i64::from(libc::AT_FDCWD).to_le_bytes());
        process.call(libc::SYS_openat2, [here, path, how, 24, 0, 0])
    };
    let fails = |outcome: Outcome| matches!(outcome, Outcome::Returned(..0));
    assert!(fails(open("/etc/passwd", libc::O_RDONLY)));
    assert!(fails(open("/", libc::O_RDONLY | libc::O_DIRECTORY)));
    let name = service.directory.path().join("named");
    assert!(fails(open(name.to_str().unwrap(), libc::O_WRONLY | libc::O_CREAT)));
    assert!(!name.exists());
}
