//! `files`, hijacked, and what a hijacked worker asks of it. Rows `M` and `K29`, and those of the worker that the role shares.

use crate::hijack::{Hijacked, number};
use crate::hijacked::Target;
use crate::support::{Configuration, PATIENCE, Root, Server, is_alive, needs_root, signal, status_field, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const PARENT_CHANNEL: u64 = 3;

/// More than any answer has.
const ANSWER_MAX: usize = 100_000;

/// At which a worker has its channel to `files`.
const FILES_CHANNEL: u64 = 7;

fn write(pid: i32, channel: u64, packet: &[u8]) -> Outcome {
    let mut process = Hijacked::take(pid);
    let address = process.place(packet);
    process.call(libc::SYS_write, [channel, address, u64::try_from(packet.len()).unwrap(), 0, 0, 0])
}

/// What `files` answers to a question of a worker.
fn answer(worker: &mut Hijacked, packet: &[u8]) -> Vec<u8> {
    let address = worker.place(packet);
    let length = packet.len().try_into().unwrap();
    assert_eq!(worker.call(libc::SYS_write, [FILES_CHANNEL, address, length, 0, 0, 0]), Outcome::Returned(length.cast_signed()));
    let (data, space) = (worker.place(&[0; ANSWER_MAX]), ANSWER_MAX as u64);
    let part = worker.place(&[data, space].map(u64::to_ne_bytes).concat());
    let head = worker.place(&[0, 0, part, 1, 0, 0, 0].map(u64::to_ne_bytes).concat());
    let mut outcome = Outcome::Returned(0);
    let came = wait_until(PATIENCE, || {
        outcome = worker.call(libc::SYS_recvmsg, [FILES_CHANNEL, head, number(libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC), 0, 0, 0]);
        outcome != Outcome::Returned(-i64::from(libc::EAGAIN))
    });
    match outcome {
        Outcome::Returned(length @ 1..) if came.is_some() => worker.read(data, usize::try_from(length).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// A request to open, for as long as anyone may wait.
fn open(root: u16, path: &[u8]) -> Vec<u8> {
    [&[1u8][..], &9u32.to_le_bytes(), &u64::MAX.to_le_bytes(), &root.to_le_bytes(), path].concat()
}

fn warm(length: u32) -> Vec<u8> {
    let numbers = [1u64, 2, 3].map(u64::to_le_bytes).concat();
    let head = [&[2u8][..], &9u32.to_le_bytes(), &u64::MAX.to_le_bytes(), &0u16.to_le_bytes()].concat();
    [head, numbers, length.to_le_bytes().to_vec(), b"index.html".to_vec()].concat()
}

#[test]
fn m01_m02_m03_m04_what_files_may_not_be_asked_ends_its_sender() {
    needs_root!();
    let packets = [
        ("unknown tag 0", [&[0u8][..], &open(0, b"a")[1..]].concat()),
        ("unknown tag 6", [&[6u8][..], &open(0, b"a")[1..]].concat()),
        ("a list beneath a root that is none", [&[3u8][..], &open(1, b"a")[1..]].concat()),
        ("a list of what leads up", [&[3u8][..], &open(0, b"..")[1..]].concat()),
        ("a list that goes on nowhere", [&[4u8][..], &open(0, b"")[1..]].concat()),
        ("what stands beside what leads up", [&[5u8][..], &open(0, b"../a")[1..]].concat()),
        ("nothing but a tag", vec![1]),
        ("cut before its path", open(0, b"")[..14].to_vec()),
        ("a root that is none", open(1, b"a")),
        ("another root that is none", open(u16::MAX, b"")),
        ("a path that leads up", open(0, b"..")),
        ("a path that leads up within", open(0, b"dir/../../etc/passwd")),
        ("an absolute path", open(0, b"/etc/passwd")),
        ("a path with NUL", open(0, b"index.html\0")),
        ("a path that is too long", open(0, &[b'x'; 4096])),
        ("a path that is much too long", open(0, &[b'x'; 100_000])),
        ("nothing to read", warm(0)),
        ("too much to read", warm((1 << 20) + 1)),
    ];
    let target = Target::new(packets.len() + 1);
    let files = target.server.files();
    let mut killed = BTreeSet::new();
    for ((name, packet), pid) in packets.iter().zip(&target.workers) {
        let outcome = write(*pid, FILES_CHANNEL, packet);
        let sent = Outcome::Returned(i64::try_from(packet.len()).unwrap());
        assert!(outcome == sent || outcome == Outcome::Killed(libc::SIGKILL), "{name}: {outcome:?}");
        assert!(wait_until(PATIENCE, || !is_alive(*pid)).is_some(), "{name}: its sender lives on: {}", target.errors());
        killed.insert(*pid);
    }
    target.goes_on(&killed);
    assert_eq!(target.server.files(), files);
    let errors = target.errors();
    assert_eq!(errors.matches("asked files what it may not; it is ended").count(), packets.len(), "{errors}");
}

/// A site that lists gives no worker the names in the roots of others.
#[test]
fn m04_names_are_told_only_of_roots_that_a_site_lists() {
    needs_root!();
    let (root, other) = (Root::with_index(), Root::with_index());
    let rules = "name = [\"c\"]\n[[site.rule]]\npath = \"/x/*\"\nlisting = true";
    let configuration = Configuration::of(&root.path()).site(&other.path(), "name = [\"b\"]\nlisting = true").site(&other.path(), rules);
    let server = Server::run(&configuration.server_also("workers = 1"));
    crate::wait_for_listeners(&server);
    let (workers, files) = (server.workers(), server.files());
    let mut worker = Hijacked::take(workers[0]);
    let begins = |root: u16| [&[3u8][..], &open(root, b"")[1..]].concat();
    let goes_on = |root: u16| [&[4u8][..], &9u32.to_le_bytes(), &u64::MAX.to_le_bytes(), &root.to_le_bytes(), &[0; 24]].concat();
    let refused = [&[7u8][..], &9u32.to_le_bytes(), &u16::try_from(libc::EACCES).unwrap().to_le_bytes()].concat();
    for packet in [begins(0), goes_on(0)] {
        assert_eq!(answer(&mut worker, &packet), refused);
    }
    for root in [1, 2] {
        let told = answer(&mut worker, &begins(root));
        assert!(told[0] == 10 && told.windows(10).any(|name| name == b"index.html"), "{told:?}");
        // Another directory than it began in, which is looked at first.
        assert_eq!(answer(&mut worker, &goes_on(root))[0], 9);
    }
    drop(worker);
    server.must_be_well(&workers, "after questions for names");
    assert_eq!(server.files(), files);
}

/// Well-formed nonsense costs nobody anything: what is not there, a file that is another, and a moment that has passed.
#[test]
fn m03_well_formed_questions_harm_nobody() {
    needs_root!();
    let target = Target::new(2);
    let files = target.server.files();
    let mut worker = Hijacked::take(target.workers[0]);
    let mut packets = vec![open(0, b""), open(0, b"none"), open(0, &[b'x'; 4095]), warm(1 << 20)];
    let from = |offset: u64| [&[4u8][..], &open(0, b"")[1..], &[0; 16], &offset.to_le_bytes()].concat();
    packets.extend([[&[3u8][..], &open(0, b"")[1..]].concat(), from(0), from(u64::MAX), [&[5u8][..], &open(0, b"none")[1..]].concat()]);
    packets.push([&[1u8][..], &9u32.to_le_bytes(), &0u64.to_le_bytes(), &0u16.to_le_bytes(), b"index.html"].concat());
    for packet in packets {
        let address = worker.place(&packet);
        for _ in 0..200 {
            worker.call(libc::SYS_write, [FILES_CHANNEL, address, u64::try_from(packet.len()).unwrap(), 0, 0, 0]);
        }
    }
    drop(worker);
    target.server.must_be_well(&target.workers, "after nonsense to files");
    assert_eq!(target.server.files(), files);
}

/// What `files` answers nobody asked for, and what is no answer: the worker stays, `files` is replaced.
#[test]
fn m01_m02_files_that_send_a_worker_nonsense_are_replaced_and_the_worker_stays() {
    needs_root!();
    let target = Target::new(1);
    for (name, packet, is_stale) in [
        ("unknown tag", vec![0, 0, 0, 0, 0], false),
        ("short", vec![3], false),
        ("too long", vec![3; 600], false),
        ("a file without a descriptor", [&[1u8][..], &[0; 60]].concat(), false),
        ("an answer that nobody waits for", vec![3, 255, 255, 255, 255], true),
    ] {
        let before = confined(&target);
        let outcome = write(before[0], worker_channel(before[0]), &packet);
        let sent = Outcome::Returned(i64::try_from(packet.len()).unwrap());
        // The parent may be faster than the way out of the call.
        assert!(outcome == sent || outcome == Outcome::Killed(libc::SIGKILL), "{name}: {outcome:?}");
        if is_stale {
            target.server.must_be_well(&target.workers, name);
            assert_eq!(target.server.files(), before, "{name}");
            continue;
        }
        let replaced = || target.server.files().len() == 2 && target.server.files().iter().all(|pid| !before.contains(pid));
        assert!(wait_until(PATIENCE, replaced).is_some(), "{name}: {}", target.errors());
        target.server.must_be_well(&target.workers, name);
    }
    assert!(target.errors().contains("sent malformed answers; it is ended"), "{}", target.errors());
}

#[test]
fn files_that_send_the_parent_what_they_may_not_are_ended_and_replaced() {
    needs_root!();
    let target = Target::new(1);
    for packet in [vec![0], vec![1, 0], vec![2, 0, 255], vec![8], vec![9], vec![4, 1, 0, 0, 0, 1, 0, 28, 0], vec![5; 513]] {
        let before = confined(&target);
        write(before[0], PARENT_CHANNEL, &packet);
        let replaced = || target.server.files().len() == 2 && !target.server.files().contains(&before[0]);
        assert!(wait_until(PATIENCE, replaced).is_some(), "{packet:?}: {}", target.errors());
        target.server.must_be_well(&target.workers, "after files were replaced");
    }
}

/// K29: descriptors that nobody asked for are closed, however many.
#[test]
fn k29_a_worker_keeps_no_descriptor_that_it_did_not_ask_for() {
    needs_root!();
    let target = Target::new(1);
    let count = || std::fs::read_dir(format!("/proc/{}/fd", target.workers[0])).unwrap().count();
    let before = count();
    for descriptors in [1usize, 2, 64, 253] {
        let files = confined(&target)[0];
        let mut process = Hijacked::take(files);
        let message = message_with(&mut process, &vec![i32::try_from(worker_channel(files)).unwrap(); descriptors]);
        let sent = process.call(libc::SYS_sendmsg, [worker_channel(files), message, number(libc::MSG_NOSIGNAL), 0, 0, 0]);
        // The parent may be faster than the way out of the call.
        assert!([Outcome::Returned(5), Outcome::Killed(libc::SIGKILL)].contains(&sent), "{descriptors}: {sent:?}");
        drop(process);
        let same = wait_until(PATIENCE, || count() == before);
        assert!(same.is_some(), "{descriptors}: {} of {before}", count());
        target.server.must_be_well(&target.workers, "after descriptors");
    }
}

/// The attempts of a hijacked worker that matter, made by `files`.
#[test]
fn k_hijacked_files_neither_write_nor_dial_nor_execute() {
    needs_root!();
    let target = Target::new(1);
    let root = target.root.path();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o777)).unwrap();
    let inside = root.to_str().unwrap().to_owned();
    let refused = |process: &mut Hijacked, path: &str, flags: i32, errnos: &[i32]| {
        let outcome = process.openat2(libc::AT_FDCWD, path, flags);
        assert!(errnos.iter().any(|errno| outcome == Outcome::Returned(-i64::from(*errno))), "{path} {flags:o}: {outcome:?}");
    };
    let mut process = Hijacked::take(target.server.files()[0]);
    for path in ["/etc/passwd", "/proc/self/status", "/dev/null", "/", ".."] {
        refused(&mut process, path, libc::O_RDONLY, &[libc::ENOENT, libc::EACCES]);
    }
    for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_WRONLY | libc::O_TRUNC] {
        refused(&mut process, &format!("{inside}/index.html"), flags, &[libc::EROFS, libc::EACCES]);
    }
    refused(&mut process, &format!("{inside}/new"), libc::O_WRONLY | libc::O_CREAT, &[libc::EROFS, libc::EACCES]);
    refused(&mut process, &inside, libc::O_WRONLY | libc::O_TMPFILE, &[libc::EROFS, libc::EACCES]);
    drop(process);
    let calls = [
        ("socket", libc::SYS_socket),
        ("connect", libc::SYS_connect),
        ("sendto", libc::SYS_sendto),
        ("accept4", libc::SYS_accept4),
        ("execve", libc::SYS_execve),
        ("execveat", libc::SYS_execveat),
        ("clone", libc::SYS_clone),
        ("kill", libc::SYS_kill),
        ("ptrace", libc::SYS_ptrace),
        ("unlinkat", libc::SYS_unlinkat),
        ("renameat2", libc::SYS_renameat2),
        ("ftruncate", libc::SYS_ftruncate),
        ("mount", libc::SYS_mount),
        ("setitimer of another clock", libc::SYS_setitimer),
        ("sendmsg with other flags", libc::SYS_sendmsg),
        ("recvmsg on another channel", libc::SYS_recvmsg),
    ];
    // A replacement comes ever later: a few to a service.
    let mut target = target;
    for (index, (name, call)) in calls.into_iter().enumerate() {
        if index % 6 == 5 {
            target = Target::new(1);
        }
        let files = confined(&target);
        let outcome = Hijacked::take(files[0]).call(call, [1, 0, 0, 0, 0, 0]);
        assert_eq!(outcome, Outcome::Killed(libc::SIGSYS), "{name}");
    }
    target.server.must_be_well(&target.workers, "after attempts of files");
}

/// M05: neither a worker that does not read its answers nor one that is gone keeps `files`.
#[test]
fn m05_a_worker_that_does_not_read_stops_no_files() {
    needs_root!();
    let target = Target::new(2);
    let files = target.server.files();
    let mut worker = Hijacked::take(target.workers[0]);
    let packet = open(0, b"index.html");
    let address = worker.place(&packet);
    // Held by the tracer, it reads nothing; its channel fills in both directions.
    for _ in 0..3000 {
        worker.call(libc::SYS_write, [FILES_CHANNEL, address, u64::try_from(packet.len()).unwrap(), 0, 0, 0]);
    }
    for pid in &files {
        let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        assert!(wait_until(PATIENCE, || open() <= 12).is_some(), "{} descriptors", open());
    }
    target.server.get("/none").must_be(&[404]);
    drop(worker);
    target.server.must_be_well(&target.workers, "after a worker that did not read");
    assert_eq!(target.server.files(), files);
}

#[test]
fn m08_files_that_fault_or_end_are_replaced() {
    needs_root!();
    let target = Target::new(1);
    Hijacked::take(confined(&target)[0]).crash();
    assert!(wait_until(PATIENCE, || target.errors().contains("files 0") && target.errors().contains("SIGSEGV")).is_some());
    for which in [Signal::SIGTERM, Signal::SIGALRM, Signal::SIGKILL] {
        let before = confined(&target);
        signal(before[1], which);
        assert!(wait_until(PATIENCE, || target.server.files().len() == 2 && target.server.files() != before).is_some(), "{which}");
    }
    target.server.must_be_well(&target.workers, "after files ended");
}

/// A reload makes new ones, and the old end with their workers; so they do at a stop.
#[test]
fn a_reload_replaces_files_with_their_workers() {
    needs_root!();
    let target = Target::new(1);
    let before = target.server.files();
    for _ in 0..2 {
        target.server.order(&["reload"]).must_be_done();
        target.server.get("/none").must_be(&[404]);
    }
    assert!(wait_until(PATIENCE, || target.server.files().len() == 2).is_some(), "{:?}", target.server.processes());
    assert!(target.server.files().iter().all(|pid| !before.contains(pid)));
}

/// Both of them, once they are confined: one that was just started may do more. A replacement that follows another comes late.
fn confined(target: &Target) -> Vec<i32> {
    let filters = |pid: i32| status_field(pid, "Seccomp_filters").parse::<u32>().unwrap();
    let all = filters(target.server.parent()) + 2;
    let mut files = Vec::new();
    let are = wait_until(Duration::from_secs(70), || {
        files = target.server.files();
        files.len() == 2 && files.iter().all(|pid| is_alive(*pid) && filters(*pid) == all) && files.iter().all(|pid| has_channel(*pid))
    });
    assert!(are.is_some(), "{:?} {}", target.server.processes(), target.errors());
    files
}

/// Whether it was handed a worker's channel, and so is verified.
fn has_channel(files: i32) -> bool {
    sockets(files).iter().any(|number| *number > PARENT_CHANNEL)
}

/// The first socket above the parent's channel that is no listener: a worker's.
fn worker_channel(files: i32) -> u64 {
    sockets(files).into_iter().filter(|number| *number > PARENT_CHANNEL).min().unwrap()
}

fn sockets(pid: i32) -> Vec<u64> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path.to_str().unwrap().starts_with("socket:")));
    sockets.map(|entry| entry.file_name().to_str().unwrap().parse::<u64>().unwrap()).collect()
}

/// A message of five bytes, an answer that nobody waits for, with descriptors.
fn message_with(process: &mut Hijacked, descriptors: &[i32]) -> u64 {
    let data = process.place(&[3, 255, 255, 255, 255]);
    let part = process.place(&[data, 5].map(u64::to_ne_bytes).concat());
    let length = 16 + 4 * descriptors.len();
    let head = [&(length as u64).to_ne_bytes()[..], &libc::SOL_SOCKET.to_ne_bytes(), &libc::SCM_RIGHTS.to_ne_bytes()].concat();
    let list: Vec<u8> = descriptors.iter().flat_map(|descriptor| descriptor.to_ne_bytes()).collect();
    let control = process.place(&[head, list].concat());
    process.place(&[0, 0, part, 1, control, length as u64, 0].map(u64::to_ne_bytes).concat())
}
