//! What the error log says of a process that a filter ended: which system call it was, from the kernel's log, and nothing
//! that anybody else wrote there.

use crate::hijack::Hijacked;
use crate::hijacked::Target;
use crate::support::{Launch, PATIENCE, Root, Server, is_alive, needs_root, signal, wait_until};
use nix::libc;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

/// Has a process make a call that its filter refuses; what the error log says of it then.
fn refused(target: &Target, pid: i32) -> String {
    let outcome = Hijacked::take(pid).call(libc::SYS_socket, [2, 1, 0, 0, 0, 0]);
    assert!(outcome.is_refused(), "{outcome:?}");
    line_of(pid, || target.errors())
}

/// The line of `log` about a process.
fn line_of(pid: i32, errors: impl Fn() -> String) -> String {
    let line = || errors().lines().find(|line| line.contains(&format!("log: pid {pid} was ended by SIGSYS"))).map(str::to_owned);
    wait_until(PATIENCE, || line().is_some()).unwrap_or_else(|| panic!("no line of {pid}: {}", errors()));
    line().unwrap()
}

fn has_kernel_log() -> bool {
    let opened = fs::File::open("/dev/kmsg");
    if let Err(fault) = &opened {
        eprintln!("skipped: /dev/kmsg: {fault}");
    }
    opened.is_ok()
}

/// The kernel tells no more than ten such records in five seconds (kernel.printk_ratelimit), over all programs of the machine:
/// tries again until it tells one of ours.
fn told(target: &Target, process: impl Fn() -> i32) -> String {
    let start = Instant::now();
    loop {
        let line = refused(target, process());
        if !line.contains("does not tell") {
            return line;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{line}");
        std::thread::sleep(Duration::from_secs(3));
    }
}

#[test]
fn o02_the_error_log_names_the_call_that_a_worker_was_ended_for() {
    needs_root!();
    if !has_kernel_log() {
        return;
    }
    let target = Target::new(3);
    let line = told(&target, || target.server.workers()[0]);
    assert!(line.contains("[error]") && line.ends_with(" for the system call 41 (socket)"), "{line}");
    assert!(target.errors().contains("ended: SIGSYS: it made a system call that its filter refuses; a new one starts in"));
}

#[test]
fn o02_the_next_log_names_the_call_that_log_was_ended_for() {
    needs_root!();
    if !has_kernel_log() {
        return;
    }
    let target = Target::new(1);
    let log = || {
        let mut found = None;
        wait_until(PATIENCE, || {
            found = target.server.log_process();
            found.is_some()
        });
        // A new one says that it is ready before it waits.
        std::thread::sleep(Duration::from_millis(200));
        found.unwrap()
    };
    let line = told(&target, log);
    assert!(line.ends_with(" for the system call 41 (socket)"), "{line}");
}

/// A signal that somebody sent leaves no record, and what root or a firewall writes into the kernel's log is none.
#[test]
fn o02_a_forged_record_is_not_believed() {
    needs_root!();
    if !has_kernel_log() {
        return;
    }
    let target = Target::new(2);
    let pid = target.workers[0];
    let uid = crate::support::status_field(pid, "Uid");
    let uid = uid.split_whitespace().next().unwrap();
    let record = format!(
        "audit: type=1326 audit(1796042687.105:1): auid=0 uid={uid} gid=0 ses=1 pid={pid} comm=\"x\" exe=\"/x\" sig=31 \
         arch=c000003e syscall=59 compat=0 ip=0x0 code=0x80000000"
    );
    let mut log = OpenOptions::new().write(true).open("/dev/kmsg").unwrap();
    for text in [record.clone(), format!("<5>{record}"), format!("<0>{record}"), format!("IN=eth0 {record}"), format!("x\n{record}")] {
        log.write_all(text.as_bytes()).unwrap();
    }
    signal(pid, Signal::SIGSYS);
    let line = line_of(pid, || target.errors());
    assert!(line.contains("does not tell the system call") && line.ends_with("an audit record of type SECCOMP (1326)"), "{line}");
    target.goes_on(&[pid].into());
    assert!(!target.errors().contains("execve"), "{}", target.errors());
}

#[test]
fn o02_without_the_right_to_the_kernels_log_the_line_says_so() {
    needs_root!();
    let root = Root::with_index();
    let launch = Launch::new().user(1000);
    let readable = std::process::Command::new("setpriv")
        .args(["--reuid=1000", "--regid=1000", "--clear-groups", "head", "-c0", "/dev/kmsg"])
        .output()
        .unwrap();
    let server: Server = launch.start(&[OsString::from("serve"), root.path().into(), "--listen".into(), "127.0.0.1:0".into()]);
    let pid = server.workers()[0];
    signal(pid, Signal::SIGSYS);
    assert!(wait_until(PATIENCE, || !is_alive(pid)).is_some());
    if readable.status.success() {
        line_of(pid, || server.stderr());
        return;
    }
    let said = || server.stderr().contains("type SECCOMP (1326): \"/dev/kmsg\" is not to be had: ");
    assert!(wait_until(PATIENCE, said).is_some(), "{}", server.stderr());
}
