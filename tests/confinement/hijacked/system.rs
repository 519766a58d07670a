//! Everything else: programs, processes, memory, privilege, namespaces, the kernel's other doors and objects.

use super::{ABSENT, Attempt, NO_CALL, Right, Target, attempt, die, dies, here, opens, withstands};
use crate::hijack::{Hijacked, number};
use crate::support::{Configuration, PATIENCE, Root, Server, needs_root, signal, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn k09_no_program_is_executed() {
    let mut attempts = vec![
        attempt("execve /bin/sh", Right::Dies, |worker| {
            let path = worker.text("/bin/sh");
            worker.call(libc::SYS_execve, [path, 0, 0, 0, 0, 0])
        }),
        attempt("execveat", Right::Dies, |worker| {
            let path = worker.text("");
            worker.call(libc::SYS_execveat, [3, path, 0, 0, number(libc::AT_EMPTY_PATH), 0])
        }),
    ];
    attempts.extend(die(&[("uselib", libc::SYS_uselib), ("memfd_create", libc::SYS_memfd_create)]));
    withstands(attempts);
}

#[test]
fn k10_no_process_and_no_thread_is_made() {
    const THREAD: i32 = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    let mut attempts = die(&[("fork", libc::SYS_fork), ("vfork", libc::SYS_vfork), ("clone3", libc::SYS_clone3)]);
    attempts.push(dies("clone", libc::SYS_clone, [number(libc::SIGCHLD), 0, 0, 0, 0, 0]));
    attempts.push(dies("clone of a thread", libc::SYS_clone, [number(THREAD), 0, 0, 0, 0, 0]));
    withstands(attempts);
}

#[test]
fn k11_no_memory_becomes_executable() {
    const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;
    const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let map = |name: &str, access: u64| dies(name, libc::SYS_mmap, [0, 4096, access, number(ANONYMOUS), u64::MAX, 0]);
    let protect = |name: &'static str, call: i64, access: u64| {
        attempt(name, Right::Dies, move |worker| {
            let page = worker.place(&[0x90; 4096]) & !4095;
            worker.call(call, [page, 4096, access, 0, 0, 0])
        })
    };
    let attempts = vec![
        map("mmap", number(CODE)),
        map("mmap for writing as well", number(CODE | libc::PROT_WRITE)),
        map("mmap with high bits", number(CODE) | 1 << 40),
        protect("mprotect", libc::SYS_mprotect, number(CODE)),
        protect("mprotect with high bits", libc::SYS_mprotect, number(CODE) | 1 << 40),
        protect("pkey_mprotect", libc::SYS_pkey_mprotect, number(CODE)),
        protect("remap_file_pages", libc::SYS_remap_file_pages, number(CODE)),
        dies("shmat", libc::SYS_shmat, [0, 0, number(libc::SHM_EXEC), 0, 0, 0]),
        dies("READ_IMPLIES_EXEC", libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0, 0]),
    ];
    withstands(attempts);
}

#[test]
fn k12_other_processes_are_not_read_or_traced() {
    needs_root!();
    let target = Target::new(13);
    let sibling = *target.workers.last().unwrap();
    let mut attempts = Vec::new();
    for pid in [sibling, target.server.parent()] {
        let mut add = |name: &str, call, arguments| attempts.push(dies(name, call, arguments));
        add("ptrace", libc::SYS_ptrace, [u64::from(libc::PTRACE_ATTACH), number(pid), 0, 0, 0, 0]);
        add("process_vm_readv", libc::SYS_process_vm_readv, [number(pid), 0, 0, 0, 0, 0]);
        add("process_vm_writev", libc::SYS_process_vm_writev, [number(pid), 0, 0, 0, 0, 0]);
        add("pidfd_open", libc::SYS_pidfd_open, [number(pid), 0, 0, 0, 0, 0]);
        add("kcmp", libc::SYS_kcmp, [number(pid), number(pid), 0, 0, 0, 0]);
        attempts.push(opens(here, &format!("/proc/{pid}/mem"), libc::O_RDWR, ABSENT));
    }
    target.withstands(&attempts);
}

#[test]
fn k13_other_processes_are_not_signalled() {
    needs_root!();
    let target = Target::new(16);
    let sibling = *target.workers.last().unwrap();
    let kill = number(libc::SIGKILL);
    let mut attempts = Vec::new();
    for pid in [sibling, target.server.parent()].map(number) {
        for (name, call, arguments) in [
            ("kill", libc::SYS_kill, [pid, kill, 0, 0, 0, 0]),
            ("tkill", libc::SYS_tkill, [pid, kill, 0, 0, 0, 0]),
            ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, [pid, kill, 0, 0, 0, 0]),
            ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo, [pid, pid, kill, 0, 0, 0]),
            ("pidfd_send_signal", libc::SYS_pidfd_send_signal, [3, kill, 0, 0, 0, 0]),
        ] {
            attempts.push(dies(name, call, arguments));
        }
        attempts.push(attempt("tgkill", NO_CALL, move |worker| worker.call(libc::SYS_tgkill, [pid, pid, kill, 0, 0, 0])));
    }
    attempts.push(dies("kill all", libc::SYS_kill, [u64::MAX, kill, 0, 0, 0, 0]));
    attempts.push(dies("F_SETOWN", libc::SYS_fcntl, [3, number(libc::F_SETOWN), number(sibling), 0, 0, 0]));
    target.withstands(&attempts);
}

#[test]
fn k18_no_ring_of_system_calls() {
    withstands(die(&[
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_uring_enter", libc::SYS_io_uring_enter),
        ("io_uring_register", libc::SYS_io_uring_register),
        ("io_setup", libc::SYS_io_setup),
        ("io_submit", libc::SYS_io_submit),
    ]));
}

#[test]
fn k19_no_program_keys_faults_or_rules_for_the_kernel() {
    withstands(die(&[
        ("bpf", libc::SYS_bpf),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("keyctl", libc::SYS_keyctl),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("seccomp", libc::SYS_seccomp),
        ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset),
        ("landlock_add_rule", libc::SYS_landlock_add_rule),
        ("landlock_restrict_self", libc::SYS_landlock_restrict_self),
    ]));
}

#[test]
fn k20_no_namespace_and_no_mount() {
    let mut attempts = die(&[
        ("setns", libc::SYS_setns),
        ("mount", libc::SYS_mount),
        ("umount2", libc::SYS_umount2),
        ("pivot_root", libc::SYS_pivot_root),
        ("chroot", libc::SYS_chroot),
        ("fsopen", libc::SYS_fsopen),
        ("fsconfig", libc::SYS_fsconfig),
        ("fsmount", libc::SYS_fsmount),
        ("move_mount", libc::SYS_move_mount),
        ("open_tree", libc::SYS_open_tree),
        ("mount_setattr", libc::SYS_mount_setattr),
    ]);
    attempts.push(dies("unshare", libc::SYS_unshare, [number(libc::CLONE_NEWUSER), 0, 0, 0, 0, 0]));
    withstands(attempts);
}

#[test]
fn k21_no_identity_and_no_capability_comes_back() {
    let mut attempts = die(&[
        ("setuid", libc::SYS_setuid),
        ("setgid", libc::SYS_setgid),
        ("setreuid", libc::SYS_setreuid),
        ("setregid", libc::SYS_setregid),
        ("setresuid", libc::SYS_setresuid),
        ("setresgid", libc::SYS_setresgid),
        ("setfsuid", libc::SYS_setfsuid),
        ("setfsgid", libc::SYS_setfsgid),
        ("setgroups", libc::SYS_setgroups),
        ("capset", libc::SYS_capset),
    ]);
    for (name, option, argument) in [
        ("PR_CAP_AMBIENT", libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE),
        ("PR_SET_KEEPCAPS", libc::PR_SET_KEEPCAPS, 1),
        ("PR_SET_SECUREBITS", libc::PR_SET_SECUREBITS, 0),
        ("PR_SET_DUMPABLE", libc::PR_SET_DUMPABLE, 1),
        ("PR_SET_PDEATHSIG", libc::PR_SET_PDEATHSIG, 0),
    ] {
        attempts.push(attempt(name, NO_CALL, move |worker| worker.call(libc::SYS_prctl, [number(option), number(argument), 0, 0, 0, 0])));
    }
    withstands(attempts);
}

#[test]
fn k23_no_device_request() {
    let requests = [0x5412, 0x541C, 0x5452, 0x8901, 0x8902, 0x8927, 0x5421];
    let mut attempts = Vec::new();
    for request in requests {
        for high in [0, 1 << 32, 1 << 63] {
            attempts.push(attempt(format!("ioctl {request:#x} with {high:#x}"), NO_CALL, move |worker| {
                worker.call(libc::SYS_ioctl, [0, request | high, 0, 0, 0, 0])
            }));
        }
    }
    // They cost no worker: one is enough.
    needs_root!();
    let target = Target::new(2);
    let mut worker = Hijacked::take(target.workers[0]);
    for attempt in attempts {
        assert_eq!((attempt.make)(&mut worker), Outcome::Returned(-i64::from(libc::ENOSYS)), "{}", attempt.name);
    }
    drop(worker);
    target.goes_on(&BTreeSet::new());
}

#[test]
fn k24_other_doors_into_the_kernel_are_shut() {
    const X32: i64 = 0x4000_0000;
    // Of the 32-bit table: open, execve, fork, ptrace, socketcall, kill, write, exit, openat2.
    let mut attempts: Vec<Attempt> = [5, 11, 2, 26, 102, 37, 4, 1, 437]
        .into_iter()
        .map(|call| {
            attempt(format!("int 0x80: {call}"), Right::Dies, move |worker| {
                // A kernel without that table faults instead: no door either.
                match worker.call_int80(call, [0; 6]) {
                    Outcome::Killed(libc::SIGSEGV) => Outcome::Killed(libc::SIGSYS),
                    outcome => outcome,
                }
            })
        })
        .collect();
    for call in [libc::SYS_read, libc::SYS_write, libc::SYS_open, libc::SYS_close, libc::SYS_socket, 520, 521] {
        attempts.push(dies(&format!("x32: {call}"), call | X32, [0; 6]));
    }
    withstands(attempts);
}

#[test]
fn k25_no_shared_kernel_object() {
    withstands(die(&[
        ("shmget", libc::SYS_shmget),
        ("semget", libc::SYS_semget),
        ("msgget", libc::SYS_msgget),
        ("mq_open", libc::SYS_mq_open),
        ("inotify_init1", libc::SYS_inotify_init1),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("signalfd4", libc::SYS_signalfd4),
        ("timerfd_create", libc::SYS_timerfd_create),
        ("timer_create", libc::SYS_timer_create),
        ("eventfd2", libc::SYS_eventfd2),
        ("pipe2", libc::SYS_pipe2),
        ("epoll_create1", libc::SYS_epoll_create1),
        ("dup2", libc::SYS_dup2),
    ]));
}

#[test]
fn k27_a_worker_that_never_answers_is_ended_after_its_grace() {
    let root = Root::with_index();
    let mut server = Server::run(&Configuration::of(&root.path()));
    signal(server.workers()[0], Signal::SIGSTOP);
    let start = std::time::Instant::now();
    let status = server.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{status:?}");
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
}

#[test]
fn k31_every_new_worker_has_other_addresses() {
    needs_root!();
    let target = Target::new(20);
    let mut seen: Vec<Vec<String>> = target.workers.iter().map(|pid| bases(*pid)).collect();
    let killed: BTreeSet<i32> = target.workers.iter().copied().collect();
    for pid in &killed {
        signal(*pid, Signal::SIGKILL);
    }
    let back = wait_until(PATIENCE, || {
        let now = target.server.workers();
        now.len() == 20 && !now.iter().any(|pid| killed.contains(pid))
    });
    assert!(back.is_some(), "{:?}", target.server.processes());
    target.server.get("/").must_be(&[200]);
    seen.extend(target.server.workers().into_iter().map(bases));
    for index in 0..3 {
        let distinct: BTreeSet<&String> = seen.iter().map(|bases| &bases[index]).collect();
        assert_eq!(distinct.len(), seen.len(), "{seen:?}");
    }
}

/// Where the program, the C library and the stack of a process begin.
fn bases(pid: i32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    ["/anchorite", "/libc.so", "[stack]"]
        .iter()
        .map(|part| {
            let line = maps.lines().find(|line| line.contains(part));
            let line = line.unwrap_or_else(|| panic!("no {part} in {maps}"));
            line.split('-').next().unwrap().to_owned()
        })
        .collect()
}
