//! A hijacked worker: the system calls that shell-code would make, made in a live worker, achieve nothing, and the service
//! goes on. Rows `K` of the cases the server is built against.
//!
//! A call that the filter refuses costs its worker, so each gets one of its own: the service is started with as many.

use crate::hijack::{Hijacked, number};
use crate::support::{Configuration, PATIENCE, Root, Server, is_alive, needs_root, signal, status_field, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::PathBuf;

/// What should become of an attempt.
#[derive(Clone, Copy, Debug)]
enum Right {
    /// The filter ends the worker.
    Dies,
    /// The worker goes on with one of these errnos.
    Fails(&'static [i32]),
}

type Make = Box<dyn Fn(&mut Hijacked) -> Outcome>;

struct Attempt {
    name: String,
    make: Make,
    right: Right,
}

fn attempt(name: impl Into<String>, right: Right, make: impl Fn(&mut Hijacked) -> Outcome + 'static) -> Attempt {
    Attempt {
        name: name.into(),
        make: Box::new(make),
        right,
    }
}

/// A call with these arguments, which must cost its worker.
fn dies(name: &str, call: i64, arguments: [u64; 6]) -> Attempt {
    attempt(name, Right::Dies, move |worker| worker.call(call, arguments))
}

/// Each of these calls, with zeros.
fn die(calls: &[(&str, i64)]) -> Vec<Attempt> {
    calls.iter().map(|(name, call)| dies(name, *call, [0; 6])).collect()
}

/// A service with a worker for each attempt and one that is left alone.
pub(crate) struct Target {
    pub(crate) root: Root,
    pub(crate) server: Server,
    pub(crate) workers: Vec<i32>,
}

impl Target {
    pub(crate) fn new(workers: usize) -> Target {
        let root = Root::with_index();
        let configuration = Configuration::of(&root.path()).server_also(&format!("workers = {workers}"));
        let server = Server::run(&configuration);
        let workers = server.workers();
        Target { root, server, workers }
    }

    /// Makes every attempt in a worker of its own, then looks whether anything but those workers has changed.
    fn withstands(&self, attempts: &[Attempt]) {
        assert!(self.workers.len() > attempts.len(), "a worker for each attempt, and one more");
        let (parent, log) = (self.server.parent(), self.server.log_process());
        let mut killed = BTreeSet::new();
        for (attempt, pid) in attempts.iter().zip(&self.workers) {
            let mut worker = Hijacked::take(*pid);
            let outcome = (attempt.make)(&mut worker);
            drop(worker);
            match attempt.right {
                Right::Dies => assert!(outcome.is_refused(), "{}: {outcome:?}", attempt.name),
                Right::Fails(errnos) => assert!(
                    errnos.iter().any(|errno| outcome == Outcome::Returned(-i64::from(*errno))),
                    "{}: {outcome:?}",
                    attempt.name
                ),
            }
            if outcome.is_refused() {
                killed.insert(*pid);
            }
        }
        self.goes_on(&killed);
        let errors = self.errors();
        assert_eq!(errors.matches("SIGSYS").count(), killed.len(), "{errors}");
        assert!(is_alive(parent));
        assert_eq!(self.server.log_process(), log);
    }

    /// All workers but these are the same ones, these are replaced, and the service answers.
    #[track_caller]
    pub(crate) fn goes_on(&self, killed: &BTreeSet<i32>) {
        let mut now = Vec::new();
        let replaced = wait_until(PATIENCE, || {
            now = self.server.workers();
            now.len() == self.workers.len() && !now.iter().any(|pid| killed.contains(pid))
        });
        assert!(replaced.is_some(), "not replaced: {:?}", self.server.processes());
        let untouched = self.workers.iter().filter(|pid| !killed.contains(pid));
        assert!(untouched.clone().all(|pid| now.contains(pid)), "another worker ended: {now:?}");
        assert_eq!(self.server.get("/").must_be(&[200]).text(), "index\n");
    }

    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.server.home().join("error.log")).unwrap()
    }
}

fn withstands(attempts: Vec<Attempt>) {
    needs_root!();
    Target::new(attempts.len() + 1).withstands(&attempts);
}

/// Nothing there, or no right to it.
const ABSENT: Right = Right::Fails(&[libc::ENOENT, libc::EACCES]);
const NO_CALL: Right = Right::Fails(&[libc::ENOSYS]);

fn opens(directory: impl Fn(&Hijacked) -> i32 + 'static, path: &str, flags: i32, right: Right) -> Attempt {
    let text = path.to_owned();
    attempt(format!("openat2 {path}"), right, move |worker| {
        let directory = directory(worker);
        worker.openat2(directory, &text, flags)
    })
}

fn here(_: &Hijacked) -> i32 {
    libc::AT_FDCWD
}

#[test]
fn k01_k34_files_of_the_system_are_not_there() {
    let mut attempts: Vec<Attempt> = [
        "/etc/passwd",
        "/etc/shadow",
        "/proc/1/environ",
        "/proc/self/status",
        "/proc",
        "/sys",
        "/dev",
        "/dev/null",
        "/etc",
        "../../../../../../etc/passwd",
        "/proc/self/root/etc/passwd",
        "/",
    ]
    .into_iter()
    .map(|path| opens(here, path, libc::O_RDONLY, ABSENT))
    .collect();
    attempts.push(attempt("openat /etc/passwd", NO_CALL, |worker| {
        let path = worker.text("/etc/passwd");
        worker.call(libc::SYS_openat, [number(libc::AT_FDCWD), path, 0, 0, 0, 0])
    }));
    attempts.push(attempt("readlink /proc/self/exe", NO_CALL, |worker| {
        let path = worker.text("/proc/self/exe");
        let buffer = worker.place(&[0; 256]);
        worker.call(libc::SYS_readlink, [path, buffer, 256, 0, 0, 0])
    }));
    attempts.push(attempt("newfstatat /etc/passwd", ABSENT, |worker| {
        let path = worker.text("/etc/passwd");
        let buffer = worker.place(&[0; 256]);
        worker.call(libc::SYS_newfstatat, [number(libc::AT_FDCWD), path, buffer, 0, 0, 0])
    }));
    attempts.push(attempt("open /etc/passwd", Right::Dies, |worker| {
        let path = worker.text("/etc/passwd");
        worker.call(libc::SYS_open, [path, 0, 0, 0, 0, 0])
    }));
    attempts.extend(die(&[
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("name_to_handle_at", libc::SYS_name_to_handle_at),
    ]));
    withstands(attempts);
}

#[test]
fn k02_configuration_and_logs_are_not_there() {
    needs_root!();
    let target = Target::new(4);
    let files = ["anchorite.toml", "access.log", "error.log"].map(|name| target.server.home().join(name));
    let attempts = files.map(|path| {
        assert!(path.exists());
        opens(here, path.to_str().unwrap(), libc::O_RDONLY, ABSENT)
    });
    target.withstands(&attempts);
}

#[test]
fn k03_no_way_leads_out_of_a_held_directory() {
    needs_root!();
    let target = Target::new(8);
    fs::write(target.root.base().join("secret"), "secret").unwrap();
    fs::set_permissions(
        target.root.base().join("secret"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    let secret = target.root.base().join("secret");
    let attempts = [
        opens(document_root, "../secret", libc::O_RDONLY, ABSENT),
        opens(document_root, "../../../../../../etc/passwd", libc::O_RDONLY, ABSENT),
        opens(document_root, "..", libc::O_RDONLY | libc::O_DIRECTORY, ABSENT),
        opens(here, secret.to_str().unwrap(), libc::O_RDONLY, ABSENT),
        opens(here, "/tmp", libc::O_RDONLY | libc::O_DIRECTORY, ABSENT),
        opens(here, "..", libc::O_RDONLY | libc::O_DIRECTORY, ABSENT),
        attempt("fchdir", Right::Dies, |worker| {
            let directory = document_root(worker);
            worker.call(libc::SYS_fchdir, [number(directory), 0, 0, 0, 0, 0])
        }),
    ];
    target.withstands(&attempts);
}

#[test]
fn k04_nothing_of_the_document_root_can_be_changed() {
    needs_root!();
    const READ_ONLY: Right = Right::Fails(&[libc::EROFS, libc::EACCES]);
    let target = Target::new(30);
    let file = target.root.file("own.txt", "unchanged");
    // As badly owned as can be: it and its directory are the worker's own, and writable.
    let uid: u32 = status_field(target.workers[0], "Uid")
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    for path in [file.clone(), target.root.path()] {
        chown(&path, Some(uid), None).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let path = file.to_str().unwrap().to_owned();
    let new = format!("{path}.new");
    let mut attempts = vec![
        opens(here, &path, libc::O_WRONLY, READ_ONLY),
        opens(here, &path, libc::O_RDWR, READ_ONLY),
        opens(here, &path, libc::O_RDONLY | libc::O_TRUNC, READ_ONLY),
        opens(here, &new, libc::O_WRONLY | libc::O_CREAT, READ_ONLY),
        opens(document_root, "new", libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, READ_ONLY),
        opens(document_root, ".", libc::O_TMPFILE | libc::O_RDWR, READ_ONLY),
    ];
    for (name, call) in [
        ("unlink", libc::SYS_unlink),
        ("rename", libc::SYS_rename),
        ("link", libc::SYS_link),
        ("symlink", libc::SYS_symlink),
        ("chmod", libc::SYS_chmod),
        ("chown", libc::SYS_chown),
        ("setxattr", libc::SYS_setxattr),
        ("truncate", libc::SYS_truncate),
        ("mkdir", libc::SYS_mkdir),
        ("mknod", libc::SYS_mknod),
        ("creat", libc::SYS_creat),
    ] {
        let (path, new) = (path.clone(), new.clone());
        attempts.push(attempt(name, Right::Dies, move |worker| {
            let (path, new) = (worker.text(&path), worker.text(&new));
            worker.call(call, [path, new, 0, 0, 0, 0])
        }));
    }
    for (name, call) in [
        ("unlinkat", libc::SYS_unlinkat),
        ("utimensat", libc::SYS_utimensat),
        ("fchmodat", libc::SYS_fchmodat),
        ("mkdirat", libc::SYS_mkdirat),
    ] {
        let path = path.clone();
        attempts.push(attempt(name, Right::Dies, move |worker| {
            let path = worker.text(&path);
            worker.call(call, [number(libc::AT_FDCWD), path, 0, 0, 0, 0])
        }));
    }
    attempts.extend(die(&[
        ("ftruncate", libc::SYS_ftruncate),
        ("fallocate", libc::SYS_fallocate),
        ("pwrite64", libc::SYS_pwrite64),
        ("copy_file_range", libc::SYS_copy_file_range),
        ("renameat2", libc::SYS_renameat2),
    ]));
    target.withstands(&attempts);
    assert_eq!(fs::read_to_string(&file).unwrap(), "unchanged");
    assert_eq!(fs::read_dir(target.root.path()).unwrap().count(), 2);
}

#[test]
fn k05_no_socket_of_any_family() {
    let families = [
        ("unix", libc::AF_UNIX, libc::SOCK_STREAM),
        ("inet", libc::AF_INET, libc::SOCK_STREAM),
        ("inet datagram", libc::AF_INET, libc::SOCK_DGRAM),
        ("inet6", libc::AF_INET6, libc::SOCK_STREAM),
        ("netlink", libc::AF_NETLINK, libc::SOCK_RAW),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM),
        ("xdp", libc::AF_XDP, libc::SOCK_RAW),
    ];
    let mut attempts: Vec<Attempt> = families
        .into_iter()
        .map(|(name, family, kind)| dies(name, libc::SYS_socket, [number(family), number(kind), 0, 0, 0, 0]))
        .collect();
    attempts.push(attempt("socketpair", Right::Dies, |worker| {
        let pair = worker.place(&[0; 8]);
        worker.call(
            libc::SYS_socketpair,
            [number(libc::AF_UNIX), number(libc::SOCK_STREAM), 0, pair, 0, 0],
        )
    }));
    withstands(attempts);
}

/// K06, K07 and the ways by which a listening socket becomes one that dials.
#[test]
fn k06_k07_a_listener_dials_nobody() {
    needs_root!();
    let target = Target::new(14);
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let address = stranger.local_addr().unwrap();
    let listener = listener(&target);
    let sends = move |name: &str, flags: i32| {
        attempt(name, Right::Dies, move |worker| {
            let (to, text) = (worker.place(&socket_address(address)), worker.text("stolen"));
            worker.call(libc::SYS_sendto, [number(listener), text, 6, number(flags), to, 16])
        })
    };
    let connects = move |name: &str, structure: Vec<u8>| {
        attempt(name, Right::Dies, move |worker| {
            let to = worker.place(&structure);
            worker.call(libc::SYS_connect, [number(listener), to, 16, 0, 0, 0])
        })
    };
    let shuts = |name: &str, how: i32| dies(name, libc::SYS_shutdown, [number(listener), number(how), 0, 0, 0, 0]);
    let attempts = [
        sends("sendto with MSG_FASTOPEN and an address", libc::MSG_FASTOPEN),
        sends("sendto with an address", 0),
        attempt("sendto with MSG_FASTOPEN alone", Right::Dies, move |worker| {
            let text = worker.text("stolen");
            worker.call(libc::SYS_sendto, [number(listener), text, 6, number(libc::MSG_FASTOPEN), 0, 0])
        }),
        connects("connect", socket_address(address)),
        connects("connect to AF_UNSPEC", vec![0; 16]),
        shuts("shutdown SHUT_RD", libc::SHUT_RD),
        shuts("shutdown SHUT_RDWR", libc::SHUT_RDWR),
        attempt("sendmsg", Right::Dies, move |worker| {
            worker.call(libc::SYS_sendmsg, [number(listener), 0, 0, 0, 0, 0])
        }),
        attempt("sendmmsg", Right::Dies, move |worker| {
            worker.call(libc::SYS_sendmmsg, [number(listener), 0, 0, 0, 0, 0])
        }),
        attempt("recvmsg on the listener", Right::Dies, move |worker| {
            worker.call(libc::SYS_recvmsg, [number(listener), 0, 0, 0, 0, 0])
        }),
        // Allowed, and without effect on a socket that listens.
        attempt("write", Right::Fails(&[libc::ENOTCONN, libc::EPIPE]), move |worker| {
            let text = worker.text("stolen");
            worker.call(libc::SYS_write, [number(listener), text, 6, 0, 0, 0])
        }),
        attempt(
            "sendto without an address",
            Right::Fails(&[libc::ENOTCONN, libc::EPIPE]),
            move |worker| {
                let text = worker.text("stolen");
                worker.call(libc::SYS_sendto, [number(listener), text, 6, number(libc::MSG_NOSIGNAL), 0, 0])
            },
        ),
    ];
    target.withstands(&attempts);
    let none = stranger.accept().map(|(_, from)| from).map_err(|error| error.kind());
    assert_eq!(none.unwrap_err(), std::io::ErrorKind::WouldBlock);
}

/// The one way of shutdown(2) that the filter lets pass does nothing to a socket that listens.
#[test]
fn k07_a_listener_listens_on_after_its_sending_side_was_shut() {
    needs_root!();
    let target = Target::new(2);
    let listener = listener(&target);
    for pid in &target.workers {
        let mut worker = Hijacked::take(*pid);
        let outcome = worker.call(libc::SYS_shutdown, [number(listener), number(libc::SHUT_WR), 0, 0, 0, 0]);
        assert_eq!(outcome, Outcome::Returned(0));
        let outcome = worker.call(libc::SYS_accept4, [number(listener), 0, 0, number(libc::SOCK_NONBLOCK), 0, 0]);
        assert_eq!(outcome, Outcome::Returned(-i64::from(libc::EAGAIN)));
    }
    target.server.must_be_well(&target.workers, "after SHUT_WR");
}

#[test]
fn k08_a_listener_is_not_bound_or_configured_anew() {
    needs_root!();
    let target = Target::new(9);
    let listener = listener(&target);
    let option = |name: &str, level: i32, option: i32| {
        dies(
            name,
            libc::SYS_setsockopt,
            [number(listener), number(level), number(option), 0, 0, 0],
        )
    };
    let attempts = [
        dies("bind", libc::SYS_bind, [number(listener), 0, 16, 0, 0, 0]),
        dies("listen", libc::SYS_listen, [number(listener), 1, 0, 0, 0, 0]),
        option("SO_ATTACH_FILTER", libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
        option("SO_BINDTODEVICE", libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
        option("TCP_ULP", libc::IPPROTO_TCP, libc::TCP_ULP),
        option("TCP_REPAIR", libc::IPPROTO_TCP, libc::TCP_REPAIR),
        option("TCP_FASTOPEN_CONNECT", libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
        dies("getsockopt", libc::SYS_getsockopt, [number(listener), 1, 1, 0, 0, 0]),
    ];
    target.withstands(&attempts);
}

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
        add(
            "ptrace",
            libc::SYS_ptrace,
            [u64::from(libc::PTRACE_ATTACH), number(pid), 0, 0, 0, 0],
        );
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
        attempts.push(attempt("tgkill", NO_CALL, move |worker| {
            worker.call(libc::SYS_tgkill, [pid, pid, kill, 0, 0, 0])
        }));
    }
    attempts.push(dies("kill all", libc::SYS_kill, [u64::MAX, kill, 0, 0, 0, 0]));
    attempts.push(dies(
        "F_SETOWN",
        libc::SYS_fcntl,
        [3, number(libc::F_SETOWN), number(sibling), 0, 0, 0],
    ));
    target.withstands(&attempts);
}

#[test]
fn k14_what_was_logged_stays() {
    needs_root!();
    let target = Target::new(8);
    target.server.get("/").must_be(&[200]);
    let before = target.server.wait_for_lines("access.log", 1);
    let attempts = [
        dies("ftruncate", libc::SYS_ftruncate, [LOG_CHANNEL, 0, 0, 0, 0, 0]),
        dies("pwrite64", libc::SYS_pwrite64, [LOG_CHANNEL, 0, 0, 0, 0, 0]),
        dies("pwritev2", libc::SYS_pwritev2, [LOG_CHANNEL, 0, 0, 0, 0, 0]),
        dies("fallocate", libc::SYS_fallocate, [LOG_CHANNEL, 0, 0, 4096, 0, 0]),
        dies("F_SETFL", libc::SYS_fcntl, [LOG_CHANNEL, number(libc::F_SETFL), 0, 0, 0, 0]),
        attempt("lseek", Right::Fails(&[libc::ESPIPE]), |worker| {
            worker.call(libc::SYS_lseek, [LOG_CHANNEL, 0, 0, 0, 0, 0])
        }),
        attempt("pread64", Right::Fails(&[libc::ESPIPE]), |worker| {
            let buffer = worker.place(&[0; 64]);
            worker.call(libc::SYS_pread64, [LOG_CHANNEL, buffer, 64, 0, 0, 0])
        }),
    ];
    target.withstands(&attempts);
    let after = target.server.wait_for_lines("access.log", 2);
    assert_eq!(after[..before.len()], before);
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
        attempts.push(attempt(name, NO_CALL, move |worker| {
            worker.call(libc::SYS_prctl, [number(option), number(argument), 0, 0, 0, 0])
        }));
    }
    withstands(attempts);
}

#[test]
fn k22_no_socket_of_another_service_is_reached() {
    withstands(vec![
        attempt("connect to an abstract name", Right::Dies, |worker| {
            let to = worker.place(b"\x01\0\0name");
            worker.call(libc::SYS_connect, [3, to, 7, 0, 0, 0])
        }),
        attempt("sendto a name", Right::Dies, |worker| {
            let to = worker.place(b"\x01\0/run/dbus/system_bus_socket\0");
            worker.call(libc::SYS_sendto, [3, to, 1, 0, to, 30])
        }),
        opens(here, "/run/dbus/system_bus_socket", libc::O_PATH, ABSENT),
        opens(here, "/var/run/docker.sock", libc::O_PATH, ABSENT),
    ]);
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
        assert_eq!(
            (attempt.make)(&mut worker),
            Outcome::Returned(-i64::from(libc::ENOSYS)),
            "{}",
            attempt.name
        );
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
    for call in [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_open,
        libc::SYS_close,
        libc::SYS_socket,
        520,
        521,
    ] {
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
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn k29_no_descriptor_is_passed_on() {
    needs_root!();
    let target = Target::new(5);
    let descriptors = |pid: i32| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let log = target.server.log_process().unwrap();
    let before = descriptors(log);
    let mut attempts = Vec::new();
    for channel in [3, LOG_CHANNEL] {
        for (name, call) in [("sendmsg", libc::SYS_sendmsg), ("sendmmsg", libc::SYS_sendmmsg)] {
            attempts.push(attempt(name, Right::Dies, move |worker| {
                // A `struct msghdr` of zeros: no filter looks into it.
                let message = worker.place(&[0; 56]);
                worker.call(call, [channel, message, 0, 0, 0, 0])
            }));
        }
    }
    target.withstands(&attempts);
    assert_eq!(descriptors(log), before);
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

/// The directory that a worker holds open: its document root.
fn document_root(worker: &Hijacked) -> i32 {
    let found = descriptors(worker.pid()).into_iter().find(|(_, target)| target.starts_with("/"));
    let held = found.filter(|(number, _)| *number > 2);
    held.unwrap_or_else(|| panic!("no directory among {:?}", descriptors(worker.pid())))
        .0
}

/// The listening socket in every worker: the descriptor that the parent has too.
fn listener(target: &Target) -> i32 {
    let parents: BTreeSet<PathBuf> = descriptors(target.server.parent()).into_iter().map(|(_, target)| target).collect();
    let shared = descriptors(target.workers[0])
        .into_iter()
        .find(|(_, target)| target.to_string_lossy().starts_with("socket:") && parents.contains(target));
    shared.expect("a listener").0
}

fn descriptors(pid: i32) -> Vec<(i32, PathBuf)> {
    let mut found: Vec<(i32, PathBuf)> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, fs::read_link(entry.path()).ok()?)))
        .filter(|(number, _)| *number > 2)
        .collect();
    found.sort();
    found
}

/// A `struct sockaddr_in`.
fn socket_address(address: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(address) = address else { panic!("IPv4") };
    let family = u16::try_from(libc::AF_INET).unwrap().to_ne_bytes();
    [&family[..], &address.port().to_be_bytes(), &address.ip().octets(), &[0; 8]].concat()
}

/// Number of the channel to `log` in a worker.
pub(crate) const LOG_CHANNEL: u64 = 5;
