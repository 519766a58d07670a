//! `spawn` by itself: this test is its parent and its `log`. What programs get, what they may not do, and that they never outlive it.

use crate::support::{PATIENCE, is_alive, needs_root, signal, status_field, wait_until};
use anchorite::config::{self, Program, SpawnSlice};
use anchorite::ipc::Channel;
use anchorite::ipc::messages::{ToParent, ToSpawn};
use anchorite::ipc::{Received, lines::Lines};
use anchorite::role::Role;
use anchorite::sys::confine::Cell;
use anchorite::sys::jail::Tree;
use anchorite::sys::policy::Policy;
use anchorite::sys::privilege::Identity;
use anchorite::sys::process::{self, Executable, Start};
use anchorite::sys::withheld::Withheld;
use anchorite::sys::{memory, socket};
use nix::sys::signal::Signal;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A user that programs run as here, and the group that may connect to their sockets.
const NOBODY: u32 = 65_534;
const GROUP: u32 = 54_321;

pub(crate) struct Spawn {
    pub(crate) pid: i32,
    pub(crate) channel: Channel,
    log: Channel,
    pub(crate) said: Vec<String>,
    pub(crate) directory: TempDir,
}

impl Spawn {
    /// Starts the role and waits until it says that it is ready.
    pub(crate) fn start() -> Spawn {
        let directory = TempDir::new().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let cell = Cell {
            role: Role::Spawn,
            identity: Identity { uid: NOBODY, gid: NOBODY, rootless: false },
            tree: Tree::Shown(Vec::new()),
            paths: Vec::new(),
            rights: Vec::new(),
            ports: Vec::new(),
            groups: Vec::new(),
            withheld: Withheld::default(),
            local: Vec::new(),
            allow_missing: Vec::new(),
            proof: false,
            number: 0,
            parent: process::own_id(),
            last_descriptor: 4,
        };
        let slice = memory::sealed(&config::encode(&(cell, ()))).unwrap();
        let (channel, theirs) = Channel::pair().unwrap();
        let null = socket::null().unwrap();
        let executable = Executable::open(Path::new(env!("CARGO_BIN_EXE_anchorite"))).unwrap();
        let given = [theirs.as_fd(), slice.as_fd()];
        let start = Start { title: "anchorite: spawn", null: null.as_fd(), given: &given, user_namespace: false };
        let pid = process::start(&executable, &start).unwrap();
        drop(theirs);
        let mut heard = None;
        wait_until(PATIENCE, || {
            heard = match channel.receive() {
                Received::Message(message, _) => Some(message),
                _ => None,
            };
            heard.is_some()
        });
        assert_eq!(heard, Some(ToParent::Ready { missing: 0 }));
        let (log, to_log) = Channel::pair().unwrap();
        channel.send(&ToSpawn::Log, &[to_log.as_fd()]).unwrap();
        Spawn { pid, channel, log, said: Vec::new(), directory }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A program that is a shell script.
    fn script(&self, name: &str, script: &str) -> Program {
        Program {
            backend: name.to_owned(),
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            processes: 1,
            uid: NOBODY,
            gid: NOBODY,
            env: vec![("PHP_FCGI_CHILDREN".to_owned(), "2".to_owned())],
            socket: self.socket(name),
            socket_group: GROUP,
        }
    }

    fn run(&self, programs: Vec<Program>) {
        let table = memory::sealed(&config::encode(&SpawnSlice { programs })).unwrap();
        self.channel.send(&ToSpawn::Programs, &[table.as_fd()]).unwrap();
    }

    /// Waits for a line that holds this text; the line.
    #[track_caller]
    pub(crate) fn says(&mut self, text: &str) -> String {
        let mut buffer = vec![0; 64 * 1024];
        let found = wait_until(PATIENCE, || {
            while let Some(length) = self.log.receive_lines(&mut buffer).filter(|length| *length > 0) {
                match Lines::decode(&buffer[..length]) {
                    Some(Lines::Error(level, line)) => self.said.push(format!("{level:?} {}", String::from_utf8_lossy(line))),
                    other => panic!("{other:?}"),
                }
            }
            self.said.iter().any(|line| line.contains(text))
        });
        assert!(found.is_some(), "no {text:?} in {:#?}", self.said);
        self.said.iter().find(|line| line.contains(text)).unwrap().clone()
    }
}

impl Drop for Spawn {
    fn drop(&mut self) {
        process::kill(self.pid);
    }
}

/// The processes that run this script, as the host's namespace numbers them.
pub(crate) fn running(mark: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let runs = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(mark.len()).any(|window| window == mark.as_bytes()) && *pid != process::own_id() && is_alive(*pid)
    };
    all.filter(runs).collect()
}

#[test]
fn a_program_gets_its_user_its_socket_its_variables_and_nothing_else() {
    needs_root!();
    let mut spawn = Spawn::start();
    let script = "echo ids $(id -u) $(id -g) [$(id -G)]; echo variables $(env | cut -d= -f1 | sort | tr '\\n' ' ')x; \
                  echo open $(ls /proc/self/fd | tr '\\n' ' ')x; echo zero $(readlink /proc/self/fd/0); echo session $(cut -d' ' -f6 /proc/$$/stat) $$; \
                  echo core $(ulimit -c) files $(ulimit -n) mask $(umask) directory $(pwd); echo done; exec sleep 80";
    spawn.run(vec![spawn.script("facts", script)]);
    spawn.says("done");
    for text in ["ids 65534 65534 [65534]", "core 0 files 1024 mask 0022 directory /", "zero socket:["] {
        spawn.says(text);
    }
    // What the shell sets by itself is no leak.
    let variables = spawn.says("variables");
    assert!(variables.contains("PATH PHP_FCGI_CHILDREN") && !variables.contains("CARGO"), "{variables}");
    // The fourth is the directory that ls reads.
    assert!(spawn.says("open ").ends_with("open 0 1 2 3 x"), "{:#?}", spawn.said);
    let pid = wait_until(PATIENCE, || running("sleep\x0080").len() == 1).map(|_| running("sleep\x0080")[0]).unwrap();
    assert_eq!(status_field(pid, "CapEff"), "0000000000000000");
    // The two above are the C library's own.
    for field in ["SigBlk", "SigIgn"] {
        assert_eq!(u64::from_str_radix(&status_field(pid, field), 16).unwrap() & 0x7fff_ffff, 0, "{field}");
    }
    let metadata = std::fs::symlink_metadata(spawn.socket("facts")).unwrap();
    assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o777), (0, GROUP, 0o660));
}

#[test]
fn spawn_has_the_capabilities_and_the_filter_of_its_policy() {
    needs_root!();
    let spawn = Spawn::start();
    let names: Vec<&str> = Policy::of(Role::Spawn).capabilities.iter().map(|grant| grant.name).collect();
    let wanted = format!("{:016x}", anchorite::sys::privilege::mask(&names));
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(status_field(spawn.pid, set), wanted, "{set}");
    }
    for set in ["CapInh", "CapAmb"] {
        assert_eq!(status_field(spawn.pid, set), "0000000000000000", "{set}");
    }
    assert_eq!((status_field(spawn.pid, "Seccomp"), status_field(spawn.pid, "Seccomp_filters")), ("2".to_owned(), "1".to_owned()));
    assert_eq!(status_field(spawn.pid, "NoNewPrivs"), "0");
}

#[test]
fn programs_may_not_make_the_calls_of_the_filter() {
    needs_root!();
    let mut spawn = Spawn::start();
    // Mounts and namespaces are refused to root too, which a program cannot become: what is seen here is the filter's EPERM, for a
    // namespace that every user may make.
    spawn.run(vec![spawn.script("calls", "unshare -Ur true 2>&1; echo unshare $?; exec sleep 60")]);
    assert!(!spawn.says("unshare ").contains("unshare 0"));
    spawn.says("Operation not permitted");
}

#[test]
fn a_program_accepts_at_its_socket() {
    needs_root!();
    let mut spawn = Spawn::start();
    let python = "import socket,os\nlistener=socket.socket(fileno=0)\nprint('accepting', flush=True)\nwhile True:\n  c,_=listener.accept()\n  c.send(b'pid %d' % os.getpid()); c.close()";
    let mut program = spawn.script("echo", "");
    program.command = ["/usr/bin/python3", "-c", python].map(str::to_owned).to_vec();
    program.processes = 2;
    spawn.run(vec![program]);
    spawn.says("accepting");
    let mut answer = String::new();
    UnixStream::connect(spawn.socket("echo")).unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("pid "), "{answer}");
    assert!(wait_until(PATIENCE, || running("listener.accept").len() == 2).is_some());
}

#[test]
fn a_program_that_dies_says_why_and_is_started_again_slower_each_time() {
    needs_root!();
    let mut spawn = Spawn::start();
    spawn.run(vec![spawn.script("dying", "echo my last words >&2; printf 'without an end \\033[1m'; exit 3")]);
    spawn.says("Warning backend \"dying\" (pid ");
    spawn.says("my last words");
    spawn.says("without an end \\x1B[1m");
    let ended = spawn.says("ended: exit status 3; a new one starts in 0 ms");
    assert!(ended.starts_with("Error backend \"dying\": \"/bin/sh -c echo my last words"), "{ended}");
    for delay in [100, 200, 400] {
        spawn.says(&format!("a new one starts in {delay} ms"));
    }
    spawn.run(vec![{
        let mut program = spawn.script("missing", "");
        program.command = vec!["/nonexistent/php-cgi".to_owned()];
        program
    }]);
    spawn.says("\"/nonexistent/php-cgi\" cannot be started: exec: No such file or directory (os error 2) (uid 65534)");
}

#[test]
fn a_flood_of_lines_is_cut_and_harms_nobody() {
    needs_root!();
    let mut spawn = Spawn::start();
    spawn.run(vec![spawn.script("flood", "head -c 5000 /dev/zero | tr '\\0' x; echo; yes spam | head -n 200000; echo >&2; exec sleep 60")]);
    let long = spawn.says("xxxx");
    assert!(long.len() < 1_100, "{}", long.len());
    spawn.says("writes too much");
    assert!(spawn.said.iter().filter(|line| line.contains("spam")).count() < 1_000, "{}", spawn.said.len());
}

#[test]
fn a_change_replaces_what_was_changed_and_nothing_else() {
    needs_root!();
    let mut spawn = Spawn::start();
    let (one, two) = (spawn.script("one", "echo one $$ runs; exec sleep 61"), spawn.script("two", "echo two $$ runs; exec sleep 62"));
    spawn.run(vec![one.clone(), two.clone()]);
    spawn.says("one ");
    spawn.says("two ");
    let before =
        wait_until(PATIENCE, || running("sleep\x0061").len() == 1 && running("sleep\x0062").len() == 1).map(|_| running("sleep\x0062"));
    let mut changed = one;
    changed.env.push(("B".to_owned(), "c".to_owned()));
    changed.command = ["/bin/sh", "-c", "echo changed $B; exec sleep 63"].map(str::to_owned).to_vec();
    spawn.run(vec![changed, two]);
    spawn.says("changed c");
    assert!(wait_until(PATIENCE, || running("sleep\x0061").is_empty()).is_some());
    assert_eq!(before, Some(running("sleep\x0062")));
    // Without programs nothing runs, and no socket is left.
    spawn.run(Vec::new());
    assert!(wait_until(PATIENCE, || running("sleep\x0062").is_empty() && running("sleep\x0063").is_empty()).is_some());
    assert!(!spawn.socket("one").exists() && !spawn.socket("two").exists());
}

#[test]
fn nothing_outlives_it_not_even_what_left_its_session() {
    needs_root!();
    for end in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut spawn = Spawn::start();
        let script = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; (setsid sleep 71 & ) ; exec sleep 72' & echo started; sleep 73; sleep 74";
        spawn.run(vec![spawn.script("stubborn", script)]);
        spawn.says("started");
        let all = || ["sleep\x0071", "sleep\x0072", "sleep\x0073"].into_iter().flat_map(running).count();
        assert!(wait_until(PATIENCE, || all() == 3).is_some(), "{end}: {}", all());
        signal(spawn.pid, end);
        assert!(wait_until(PATIENCE, || all() == 0).is_some(), "{end}: {} are left", all());
        // This test reaps what it started.
        while process::reap().is_some() {}
    }
}

#[test]
fn when_its_parent_is_gone_it_ends() {
    needs_root!();
    let mut spawn = Spawn::start();
    spawn.run(vec![spawn.script("orphan", "echo started; exec sleep 75")]);
    spawn.says("started");
    let (other, _) = Channel::pair().unwrap();
    drop(std::mem::replace(&mut spawn.channel, other));
    assert!(wait_until(PATIENCE, || running("sleep\x0075").is_empty()).is_some());
}

#[test]
fn m01_m02_a_malformed_message_ends_it_since_its_parent_is_not_what_it_was() {
    needs_root!();
    for packet in [b"\0".as_slice(), b"\x01", b"\x02", b"\x04", b"\x03\0", b"\x01\x01"] {
        let spawn = Spawn::start();
        spawn.channel.send_lines(packet).unwrap();
        let ended = wait_until(PATIENCE, || process::reap().is_some_and(|(pid, _)| pid == spawn.pid));
        assert!(ended.is_some(), "{packet:?}");
    }
    // A table that is none.
    let spawn = Spawn::start();
    let table = memory::sealed(b"\xff\xff\xff").unwrap();
    spawn.channel.send(&ToSpawn::Programs, &[table.as_fd()]).unwrap();
    assert!(wait_until(PATIENCE, || process::reap().is_some_and(|(pid, _)| pid == spawn.pid)).is_some());
}

#[test]
fn zombies_are_reaped_its_own_and_those_of_others() {
    needs_root!();
    let mut spawn = Spawn::start();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.01 & ) ; done; echo forked; exec sleep 76";
    spawn.run(vec![spawn.script("forks", script)]);
    spawn.says("forked");
    let zombies = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        all.filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|s| s.contains("State:\tZ") && s.contains("Name:\tsleep"))
        })
        .count()
    };
    assert!(wait_until(PATIENCE, || zombies() == 0).is_some(), "{} zombies", zombies());
}
