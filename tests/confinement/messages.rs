//! Messages that a confined process may not send: they end their sender, and nobody else. Rows `M`, and `K15`.
//!
//! They are written into the channels of live processes by the processes themselves, taken over by ptrace.

use crate::hijack::Hijacked;
use crate::hijacked::{LOG_CHANNEL, Target};
use crate::support::{PATIENCE, is_alive, needs_root, signal, wait_until};
use crate::syscall::Outcome;
use anchorite::ipc::counters::{Counter, Gauge};
use nix::libc;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const PARENT_CHANNEL: u64 = 3;

/// Writes a packet into a channel of a process.
fn write(pid: i32, channel: u64, packet: &[u8]) -> Outcome {
    let mut process = Hijacked::take(pid);
    let address = process.place(packet);
    let length = u64::try_from(packet.len()).unwrap();
    process.call(libc::SYS_write, [channel, address, length, 0, 0, 0])
}

/// Each packet from a worker of its own; every one of them is ended, and the log holds `why` for each.
fn ends_its_sender(channel: u64, packets: &[(&str, Vec<u8>)], why: &str) {
    needs_root!();
    let target = Target::new(packets.len() + 1);
    let log = target.server.log_process();
    let mut killed = BTreeSet::new();
    for ((name, packet), pid) in packets.iter().zip(&target.workers) {
        let outcome = write(*pid, channel, packet);
        // The parent may be faster than the way out of the call.
        let sent = Outcome::Returned(i64::try_from(packet.len()).unwrap());
        assert!(outcome == sent || outcome == Outcome::Killed(libc::SIGKILL), "{name}: {outcome:?}");
        let ended = wait_until(PATIENCE, || !is_alive(*pid));
        assert!(ended.is_some(), "{name}: its sender lives on: {}", target.errors());
        killed.insert(*pid);
    }
    target.goes_on(&killed);
    assert_eq!(target.server.log_process(), log);
    let errors = target.errors();
    assert_eq!(errors.matches(why).count(), packets.len(), "{errors}");
}

#[test]
fn m01_m02_m06_a_worker_that_sends_the_parent_what_it_may_not_is_ended() {
    let packets = [
        ("unknown tag 0", vec![0]),
        ("Counters, too short", vec![6, 0]),
        ("Counters, not asked for", [vec![6], vec![0; 8 * (Counter::ALL.len() + Gauge::ALL.len())]].concat()),
        ("unknown tag 255", vec![255; 4]),
        ("Ready, short", vec![1]),
        ("Ready with a byte too many", vec![1, 0, 0]),
        ("Ready with unknown layers", vec![1, 8]),
        ("Ready twice", vec![1, 0]),
        ("Ready twice, with a layer missing", vec![1, 1]),
        ("Proved", vec![2, 0, 255]),
        ("Proved, with an escape", vec![2, 0, 0]),
        ("Malformed, which only log may send", vec![3, 1, 0]),
        ("Lost, which only log may send", vec![4, 1, 0, 0, 0, 1, 0, 28, 0]),
        ("NoSyslog, which only log may send", vec![8]),
        ("Begun, which only spawn may send", vec![12]),
        ("Failed, after Ready", b"\x05why".to_vec()),
        ("Failed, not printable", b"\x05\x1b[2J".to_vec()),
        ("too long", vec![5; 513]),
        ("much too long", vec![b'a'; 100_000]),
    ];
    ends_its_sender(PARENT_CHANNEL, &packets, "sent a message that it may not send; it is ended");
}

#[test]
fn m02_an_empty_message_ends_its_sender() {
    ends_its_sender(PARENT_CHANNEL, &[("empty", Vec::new())], "ended: SIGKILL");
}

#[test]
fn k15_malformed_log_lines_end_their_sender() {
    let long = access(ACCESS_LOG, &[[b'x'; 4096].as_slice(), b"\n"].concat());
    let packets = [
        ("unknown tag", b"Zforged\n".to_vec()),
        ("no tag but NUL", vec![0; 3]),
        ("access line without an end", access(ACCESS_LOG, b"forged")),
        ("access line with CR", access(ACCESS_LOG, b"forged\r\n")),
        ("access line with an escape sequence", access(ACCESS_LOG, b"\x1b[2Jforged\n")),
        ("access line beyond ASCII", access(ACCESS_LOG, b"\xffforged\n")),
        ("access line without its file", b"Aforged\n".to_vec()),
        ("access line that is shorter than it says", access(ACCESS_LOG, b"forged\n")[..9].to_vec()),
        ("access line for a file that is none", access(700, b"forged\n")),
        ("access line for the error log", access(ERROR_LOG, b"forged\n")),
        ("access line for syslog, which is not in use", access(0, b"forged\n")),
        ("access line that is too long", long),
        ("error line with a line break", b"efirst\nsecond".to_vec()),
        ("packet that is too long", access(ACCESS_LOG, &b"x\n".repeat(16 * 1024))),
        ("packet that is much too long", [access(ACCESS_LOG, b"").as_slice(), &b"x\n".repeat(50_000)].concat()),
    ];
    ends_its_sender(LOG_CHANNEL, &packets, "sent malformed log lines; it is ended");
}

/// The logs of the target, as they are numbered: by their names.
const ACCESS_LOG: u16 = 1;
const ERROR_LOG: u16 = 2;

/// A packet of access lines for one file.
fn access(file: u16, lines: &[u8]) -> Vec<u8> {
    let length = u16::try_from(lines.len()).unwrap();
    [b"A".as_slice(), &file.to_le_bytes(), &length.to_le_bytes(), lines].concat()
}

/// To `log` both look like the end of the worker: it takes nothing more from it, as from one that keeps silent by itself.
#[test]
fn k15_a_worker_can_silence_only_itself() {
    needs_root!();
    let target = Target::new(3);
    let log = target.server.log_process().unwrap();
    assert_eq!(write(target.workers[0], LOG_CHANNEL, b""), Outcome::Returned(0));
    let outcome = Hijacked::take(target.workers[1]).call(libc::SYS_shutdown, [LOG_CHANNEL, 1, 0, 0, 0, 0]);
    assert_eq!(outcome, Outcome::Returned(0));
    target.server.must_be_well(&target.workers, "after two workers fell silent");
    write(target.workers[2], LOG_CHANNEL, b"ethe third speaks");
    assert!(wait_until(PATIENCE, || target.errors().contains("the third speaks")).is_some());
    let before = cpu_ticks(log);
    std::thread::sleep(Duration::from_millis(300));
    assert!(cpu_ticks(log) - before < 10, "log spins");
    assert_eq!(target.server.log_process(), Some(log));
}

/// CPU time of a process in ticks of 10 ms (proc_pid_stat(5), fields 14 and 15).
fn cpu_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// What is well-formed is written, as nonsense by a worker that was named; no line is torn, and nobody waits.
#[test]
fn k15_a_flood_of_well_formed_lines_harms_nobody() {
    needs_root!();
    let target = Target::new(2);
    let log = target.server.log_process();
    let mut worker = Hijacked::take(target.workers[0]);
    let access = worker.place(&access(ACCESS_LOG, &b"forged\n".repeat(1000)));
    let error = worker.place(b"eforged error");
    let mut full = 0;
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        for arguments in [[LOG_CHANNEL, access, 7005, 0, 0, 0], [LOG_CHANNEL, error, 13, 0, 0, 0]] {
            match worker.call(libc::SYS_write, arguments) {
                Outcome::Returned(7005 | 13) => {}
                outcome => {
                    assert_eq!(outcome, Outcome::Returned(-i64::from(libc::EAGAIN)));
                    full += 1;
                }
            }
        }
    }
    drop(worker);
    eprintln!("the channel was full {full} times");
    target.server.must_be_well(&target.workers, "after a flood");
    assert_eq!(target.server.log_process(), log);
    let access = std::fs::read(target.server.home().join("access.log")).unwrap();
    assert!(access.iter().all(|byte| (b' '..=b'~').contains(byte) || *byte == b'\n'));
    assert!(access.split(|byte| *byte == b'\n').all(|line| line.len() < 4096));
    for line in target.errors().lines().filter(|line| line.contains("forged")) {
        assert!(line.contains("worker ") && line.ends_with(": forged error"), "{line}");
    }
}

#[test]
fn a_log_that_sends_the_parent_what_it_may_not_is_ended_and_replaced() {
    needs_root!();
    let target = Target::new(2);
    for packet in [vec![9], vec![1, 0], vec![2, 0, 255]] {
        let log = target.server.log_process().unwrap();
        write(log, PARENT_CHANNEL, &packet);
        let replaced = wait_until(PATIENCE, || target.server.log_process().is_some_and(|now| now != log));
        assert!(replaced.is_some(), "{packet:?}: {}", target.errors());
        // Waits until it was handed its files: only then does it wait for more.
        let before = std::fs::read_to_string(target.server.home().join("access.log")).unwrap().lines().count();
        target.server.get("/").must_be(&[200]);
        let lines = target.server.wait_for_lines("access.log", before + 1);
        assert!(lines.len() > before, "{packet:?}: no line reaches the new log");
        target.server.must_be_well(&target.workers, "after a log was replaced");
    }
    assert_eq!(target.errors().matches("log sent a message that it may not send").count(), 3);
}

#[test]
fn a_log_that_accuses_a_worker_that_is_none_changes_nothing() {
    needs_root!();
    let target = Target::new(2);
    let log = target.server.log_process().unwrap();
    for packet in [[3, 200, 0], [3, 255, 255]] {
        assert_eq!(write(log, PARENT_CHANNEL, &packet), Outcome::Returned(3));
    }
    write(log, PARENT_CHANNEL, &[4, 7, 0, 0, 0, 1, 0, 28, 0]);
    let told = wait_until(PATIENCE, || target.errors().contains("7 log lines could not be written"));
    assert!(told.is_some(), "{}", target.errors());
    target.server.must_be_well(&target.workers, "after nonsense of log");
    assert_eq!(target.server.log_process(), Some(log));
}

/// M05: the parent never waits for a process that does not read.
#[test]
fn m05_a_worker_that_does_not_read_stops_nobody() {
    needs_root!();
    let target = Target::new(2);
    let log = target.server.log_process().unwrap();
    signal(target.workers[0], Signal::SIGSTOP);
    signal(log, Signal::SIGKILL);
    let replaced = wait_until(PATIENCE, || target.server.log_process().is_some_and(|now| now != log));
    assert!(replaced.is_some());
    signal(target.workers[1], Signal::SIGKILL);
    let replaced = wait_until(PATIENCE, || target.server.workers().len() == 2 && !target.server.workers().contains(&target.workers[1]));
    assert!(replaced.is_some());
    signal(target.workers[0], Signal::SIGCONT);
    target.server.get("/").must_be(&[200]);
}

/// A crash must not become a loop: a handler that returns to the fault under the filter would make it one.
#[test]
fn m08_a_worker_or_log_that_faults_ends() {
    needs_root!();
    let target = Target::new(2);
    Hijacked::take(target.workers[0]).crash();
    let ended = wait_until(PATIENCE, || target.errors().contains("ended: SIGSEGV"));
    assert!(ended.is_some(), "{:?} {}", target.server.processes(), target.errors());
    let log = target.server.log_process().unwrap();
    Hijacked::take(log).crash();
    let ended = wait_until(PATIENCE, || target.server.log_process().is_some_and(|now| now != log));
    assert!(ended.is_some(), "{:?}", target.server.processes());
    target.server.get("/").must_be(&[200]);
}

/// M08: however a worker ends, a new one comes.
#[test]
fn m08_every_way_to_end_leads_to_a_new_worker() {
    needs_root!();
    let statuses = [0i32, 1, 2, 101, 127, 255];
    let signals = [
        Signal::SIGTERM,
        Signal::SIGSEGV,
        Signal::SIGABRT,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGSYS,
        Signal::SIGKILL,
        Signal::SIGXFSZ,
    ];
    let target = Target::new(statuses.len() + signals.len() + 1);
    let mut ended = BTreeSet::new();
    let (first, rest) = target.workers.split_at(statuses.len());
    for (status, pid) in statuses.into_iter().zip(first) {
        let outcome = Hijacked::take(*pid).call(libc::SYS_exit_group, [u64::from(status.unsigned_abs()), 0, 0, 0, 0, 0]);
        assert_eq!(outcome, Outcome::Exited(status));
        ended.insert(*pid);
    }
    for (which, pid) in signals.into_iter().zip(rest) {
        signal(*pid, which);
        ended.insert(*pid);
    }
    target.goes_on(&ended);
    let errors = target.errors();
    assert_eq!(errors.matches("a new one starts in").count(), ended.len(), "{errors}");
}
