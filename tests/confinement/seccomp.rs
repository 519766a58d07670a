//! The filters as the kernel runs them: every rule of every role, every number that is in no rule, every door into the kernel.
//!
//! The compiled filters of the shipped program are installed in a child, which then makes one raw call. What should
//! happen is worked out here from the rules as they stand in `policy/`, not from the compiled filter.

use crate::syscall::{Entry, Outcome, attempt, confine};
use anchorite::role::Role;
use anchorite::sys::policy::{Call, Instruction, Policy};
use nix::libc;

/// What a filter should make of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passes,
    Enosys,
    Dies,
}

const CONFINED: [Role; 8] = [Role::Worker, Role::Log, Role::Files, Role::Connect, Role::ConnectTcp, Role::Spool, Role::Keys, Role::Auth];
const ZEROS: [u64; 6] = [0; 6];
const ONES: [u64; 6] = [u64::MAX; 6];
const X32: i64 = 0x4000_0000;
const ENOSYS: Outcome = Outcome::Returned(-(libc::ENOSYS as i64));
const EPERM: Outcome = Outcome::Returned(-(libc::EPERM as i64));

/// Highest system call number of the kernels this was written on.
const LAST: i64 = 469;

#[test]
fn every_rule_lets_its_call_pass_and_each_changed_argument_dies() {
    for role in CONFINED {
        for call in Policy::of(role).allow {
            let number = number(call.name);
            let right = right_arguments(call);
            expect(role, number, right, Verdict::Passes);
            for argument in call.arguments {
                let index = usize::from(argument.index);
                for bit in 0..u64::BITS {
                    let mut changed = right;
                    changed[index] ^= 1 << bit;
                    let dies = argument.mask & (1 << bit) != 0;
                    expect(role, number, changed, if dies { Verdict::Dies } else { Verdict::Passes });
                }
            }
        }
    }
}

#[test]
fn worker_every_number_that_is_in_no_rule_dies() {
    every_number(Role::Worker);
}

#[test]
fn log_every_number_that_is_in_no_rule_dies() {
    every_number(Role::Log);
}

#[test]
fn files_every_number_that_is_in_no_rule_dies() {
    every_number(Role::Files);
}

#[test]
fn connect_every_number_that_is_in_no_rule_dies() {
    every_number(Role::Connect);
}

#[test]
fn connect_tcp_every_number_that_is_in_no_rule_dies() {
    every_number(Role::ConnectTcp);
}

#[test]
fn spool_every_number_that_is_in_no_rule_dies() {
    every_number(Role::Spool);
}

#[test]
fn keys_every_number_that_is_in_no_rule_dies() {
    every_number(Role::Keys);
}

#[test]
fn auth_every_number_that_is_in_no_rule_dies() {
    every_number(Role::Auth);
}

#[test]
fn x32_forms_die_whatever_their_number() {
    for role in CONFINED {
        for number in (0..=LAST).chain(512..548) {
            assert!(attempt(&filters(role), Entry::Native, number | X32, ZEROS).is_refused(), "{role:?}: {number} in its x32 form");
        }
    }
}

#[test]
fn int_80_dies_whatever_its_number() {
    // exit, fork, read, write, open, execve, getpid, mmap, socketcall, clone, openat, exit_group, openat2 of the 32-bit table.
    for number in [1, 2, 3, 4, 5, 11, 20, 90, 102, 120, 295, 252, 437] {
        for role in Role::ALL {
            let outcome = attempt(&filters(role), Entry::Int80, number, ZEROS);
            // A kernel without the 32-bit table raises SIGSEGV at the instruction.
            assert!(outcome.is_refused() || outcome == Outcome::Killed(libc::SIGSEGV), "{role:?}: int 0x80 with {number}: {outcome:?}");
        }
    }
}

#[test]
fn parent_and_spawn_denied_calls_are_answered_with_eperm() {
    for role in [Role::Parent, Role::Spawn] {
        for call in Policy::of(role).deny {
            // All ones: no denied call does anything with them, should the filter fail to hold.
            let outcome = attempt(&filters(role), Entry::Native, number(call.name), ONES);
            assert_eq!(outcome, EPERM, "{role:?}: {}", call.name);
        }
    }
}

#[test]
fn parent_x32_forms_are_answered_with_enosys() {
    for number in (0..=LAST).chain(512..548) {
        let outcome = attempt(&filters(Role::Parent), Entry::Native, number | X32, ONES);
        assert_eq!(outcome, ENOSYS, "{number} in its x32 form");
    }
}

#[test]
fn parent_calls_that_are_not_listed_pass() {
    for number in [libc::SYS_getpid, libc::SYS_getuid, libc::SYS_gettid, libc::SYS_umask] {
        let outcome = attempt(&filters(Role::Parent), Entry::Native, number, ZEROS);
        assert!(matches!(outcome, Outcome::Returned(0..)), "{number}: {outcome:?}");
    }
    let outcome = attempt(&filters(Role::Parent), Entry::Native, libc::SYS_close, ONES);
    assert_eq!(outcome, Outcome::Returned(-i64::from(libc::EBADF)));
}

#[test]
fn filter_of_the_proof_answers_with_eperm_where_the_real_one_kills() {
    for role in CONFINED {
        let policy = Policy::of(role);
        let proof = [policy.answered, policy.proof];
        for number in 0..=LAST {
            match verdict(role, number, ZEROS) {
                Verdict::Dies => {
                    let outcome = attempt(&proof, Entry::Native, number, ZEROS);
                    assert!(outcome == EPERM || is_uprobe(number, outcome), "{role:?}: {number}: {outcome:?}");
                }
                Verdict::Enosys => assert_eq!(attempt(&proof, Entry::Native, number, ZEROS), ENOSYS, "{role:?}: {number}"),
                Verdict::Passes => {}
            }
        }
    }
}

/// A panic that no test can provoke from outside is provoked here in a process of its own (this test binary again), with
/// the program's own panic hook and the program's own filters: the difference to a worker is only who panics.
#[test]
fn a_panic_under_the_filter_ends_as_a_panic() {
    for role in CONFINED {
        for cause in CAUSES {
            for backtrace in ["0", "full"] {
                let mut command = std::process::Command::new(std::env::current_exe().unwrap());
                command
                    .args(["--exact", "seccomp::panicking_process", "--ignored", "--nocapture"])
                    .env("ANCHORITE_TEST_ROLE", role.name())
                    .env("ANCHORITE_TEST_CAUSE", cause)
                    .env("RUST_BACKTRACE", backtrace);
                let output = command.output().unwrap();
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(101), "{role:?}: {cause}: {:?} {stderr}", output.status);
                let stdout = String::from_utf8_lossy(&output.stdout);
                assert!(!stdout.contains("test result"), "the process outlived its panic: {stdout}");
                let lines = stderr.lines().filter(|line| line.contains("panicked at")).count();
                assert_eq!(lines, 1, "one line tells of it: {stderr}");
            }
        }
    }
}

const CAUSES: [&str; 4] = ["text", "index", "overflow", "unwrap"];

#[test]
#[ignore = "ends its process by a panic under a filter; started by a_panic_under_the_filter_ends_as_a_panic"]
fn panicking_process() {
    let role = std::env::var("ANCHORITE_TEST_ROLE").ok().and_then(|name| Role::from_name(&name));
    let Some(role) = role else { return };
    let cause = std::env::var("ANCHORITE_TEST_CAUSE").unwrap();
    anchorite::sys::panic::install(|text| format!("{text}\n").into_bytes());
    let nothing: &[u64] = std::hint::black_box(&[]);
    confine(&filters(role));
    let value = match cause.as_str() {
        "index" => nothing[nothing.len()],
        "overflow" => u64::MAX + std::hint::black_box(1 + u64::try_from(nothing.len()).unwrap()),
        "unwrap" => nothing.first().copied().unwrap(),
        _ => panic!("a text"),
    };
    std::hint::black_box(value);
}

/// Every number of the kernel and 20 beyond, with all arguments 0 and all ones.
fn every_number(role: Role) {
    for number in (0..=LAST + 20).chain([1000, i64::from(u32::MAX >> 2)]) {
        for arguments in [ZEROS, ONES] {
            expect(role, number, arguments, verdict(role, number, arguments));
        }
    }
}

#[track_caller]
fn expect(role: Role, number: i64, arguments: [u64; 6], right: Verdict) {
    let outcome = attempt(&filters(role), Entry::Native, number, arguments);
    let is_right = match right {
        Verdict::Dies => outcome.is_refused() || is_uprobe(number, outcome),
        Verdict::Enosys => outcome == ENOSYS,
        // The kernel itself answers ENOSYS to some arguments, as futex does to an operation that it does not know.
        Verdict::Passes => !outcome.is_refused() && (outcome != ENOSYS || attempt(&[], Entry::Native, number, arguments) == ENOSYS),
    };
    assert!(is_right, "{role:?}: call {number} with {arguments:x?}: {outcome:?}, expected: {right:?}");
}

/// uretprobe and uprobe, which Linux lets past every filter since 6.13: they are entered only from the trampoline that a
/// tracer with privilege placed, and from anywhere else do nothing but raise SIGILL or answer ENXIO.
fn is_uprobe(number: i64, outcome: Outcome) -> bool {
    let nothing = [Outcome::Killed(libc::SIGILL), Outcome::Returned(-i64::from(libc::ENXIO))];
    [335, 336].contains(&number) && nothing.contains(&outcome)
}

/// What the rules say of a call.
fn verdict(role: Role, number: i64, arguments: [u64; 6]) -> Verdict {
    let policy = Policy::of(role);
    let find = |calls: &'static [Call]| calls.iter().find(|call| self::number(call.name) == number);
    if let Some(call) = find(policy.allow) {
        let holds = call.arguments.iter().all(|argument| arguments[usize::from(argument.index)] & argument.mask == argument.value);
        return if holds { Verdict::Passes } else { Verdict::Dies };
    }
    if find(policy.enosys).is_some() { Verdict::Enosys } else { Verdict::Dies }
}

/// Arguments that a rule lets pass, everything else 0.
fn right_arguments(call: &Call) -> [u64; 6] {
    let mut arguments = ZEROS;
    for argument in call.arguments {
        arguments[usize::from(argument.index)] = argument.value;
    }
    arguments
}

/// The filters in the order in which the program installs them.
fn filters(role: Role) -> Vec<&'static [Instruction]> {
    let policy = Policy::of(role);
    [policy.answered, policy.list].into_iter().filter(|filter| !filter.is_empty()).collect()
}

/// The number of a system call by its name, from the C library's headers: not from the compiler of the filters.
fn number(name: &str) -> i64 {
    let found = NUMBERS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("add \"{name}\" to the numbers of this test")).1
}

macro_rules! numbers {
    ($($name:ident $constant:ident,)*) => { &[$((stringify!($name), libc::$constant)),*] };
}

#[rustfmt::skip]
const NUMBERS: &[(&str, i64)] = numbers! {
    epoll_wait SYS_epoll_wait, epoll_ctl SYS_epoll_ctl, accept4 SYS_accept4, getsockname SYS_getsockname, recvfrom SYS_recvfrom, read SYS_read, write SYS_write,
    writev SYS_writev, sendto SYS_sendto, sendfile SYS_sendfile, shutdown SYS_shutdown, close SYS_close, recvmsg SYS_recvmsg,
    openat2 SYS_openat2, newfstatat SYS_newfstatat, fstat SYS_fstat, pread64 SYS_pread64, pwrite64 SYS_pwrite64, readlinkat SYS_readlinkat,
    getdents64 SYS_getdents64, lseek SYS_lseek, fcntl SYS_fcntl, brk SYS_brk, mmap SYS_mmap, mprotect SYS_mprotect,
    munmap SYS_munmap, mremap SYS_mremap, madvise SYS_madvise, futex SYS_futex, getrandom SYS_getrandom,
    clock_gettime SYS_clock_gettime, rt_sigprocmask SYS_rt_sigprocmask, rt_sigreturn SYS_rt_sigreturn,
    sigaltstack SYS_sigaltstack, restart_syscall SYS_restart_syscall, exit SYS_exit, exit_group SYS_exit_group,
    openat SYS_openat, getpid SYS_getpid, gettid SYS_gettid, tgkill SYS_tgkill, rt_sigaction SYS_rt_sigaction,
    socket SYS_socket, connect SYS_connect, getsockopt SYS_getsockopt, setsockopt SYS_setsockopt,
    prctl SYS_prctl, getcwd SYS_getcwd, readlink SYS_readlink, ioctl SYS_ioctl,
    ptrace SYS_ptrace, process_vm_readv SYS_process_vm_readv, process_vm_writev SYS_process_vm_writev, kcmp SYS_kcmp,
    pidfd_getfd SYS_pidfd_getfd, bpf SYS_bpf, perf_event_open SYS_perf_event_open, kexec_load SYS_kexec_load,
    kexec_file_load SYS_kexec_file_load, reboot SYS_reboot, init_module SYS_init_module, finit_module SYS_finit_module,
    delete_module SYS_delete_module, open_by_handle_at SYS_open_by_handle_at, name_to_handle_at SYS_name_to_handle_at,
    userfaultfd SYS_userfaultfd, io_uring_setup SYS_io_uring_setup, io_uring_enter SYS_io_uring_enter,
    io_uring_register SYS_io_uring_register, keyctl SYS_keyctl, add_key SYS_add_key, request_key SYS_request_key,
    swapon SYS_swapon, swapoff SYS_swapoff, acct SYS_acct, quotactl SYS_quotactl, settimeofday SYS_settimeofday,
    clock_settime SYS_clock_settime, clock_adjtime SYS_clock_adjtime, adjtimex SYS_adjtimex, sethostname SYS_sethostname,
    setdomainname SYS_setdomainname, syslog SYS_syslog, vhangup SYS_vhangup, personality SYS_personality, fstatfs SYS_fstatfs, preadv2 SYS_preadv2, sendmsg SYS_sendmsg, setitimer SYS_setitimer,
    move_pages SYS_move_pages, migrate_pages SYS_migrate_pages, mbind SYS_mbind, lookup_dcookie SYS_lookup_dcookie,
    nfsservctl SYS_nfsservctl, fanotify_init SYS_fanotify_init, iopl SYS_iopl, ioperm SYS_ioperm, modify_ldt SYS_modify_ldt,
    mount SYS_mount, umount2 SYS_umount2, pivot_root SYS_pivot_root, chroot SYS_chroot, unshare SYS_unshare, fsopen SYS_fsopen,
    fsconfig SYS_fsconfig, fsmount SYS_fsmount, fspick SYS_fspick, open_tree SYS_open_tree, move_mount SYS_move_mount,
    mount_setattr SYS_mount_setattr, fanotify_mark SYS_fanotify_mark, quotactl_fd SYS_quotactl_fd,
    process_madvise SYS_process_madvise, process_mrelease SYS_process_mrelease,
    uselib SYS_uselib, ustat SYS_ustat, sysfs SYS_sysfs, _sysctl SYS__sysctl, setns SYS_setns,
};
