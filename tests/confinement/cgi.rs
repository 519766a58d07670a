//! `spawn` and workers that ask it for CGI programs: this test is its parent, its `log` and a worker that is taken over.

use crate::spawn::{Spawn, running};
use crate::support::{PATIENCE, needs_root, wait_until};
use anchorite::config::{self, RunLimits, RunSlice};
use anchorite::ipc::connect::{Outcome, Reply};
use anchorite::ipc::messages::{ToParent, ToSpawn};
use anchorite::ipc::run::{Request, Run};
use anchorite::ipc::{Channel, Received};
use anchorite::proto::environment;
use anchorite::sys::memory;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

const NOBODY: u32 = 65_534;
const SERVICE: u32 = 1001;

/// A worker, as `spawn` knows it.
struct Worker {
    channel: Channel,
    answers: Channel,
}

impl Worker {
    fn new(spawn: &Spawn, number: u16, max_programs: u32) -> Worker {
        let (channel, theirs) = Channel::pair().unwrap();
        let (answers, to_answer) = Channel::pair().unwrap();
        let limits = RunLimits { cpu: 10, memory: 1 << 30, file_size: 1 << 20, processes: 4_096 };
        let mut table = RunSlice {
            roots: Vec::new(),
            user: None,
            min_uid: 1000,
            service: SERVICE,
            rootless: false,
            max_programs,
            run_timeout_ms: 60_000,
            env: Vec::new(),
            limits,
        };
        // Of two directories only the second is one of programs.
        let text = format!(
            "[[site]]\nname = \"a\"\nroot = \"/usr\"\n[[site]]\nname = \"b\"\nroot = \"{}\"\n[[site.rule]]\npath = \"/p*\"\ncgi = true\n",
            programs(spawn).display()
        );
        let config = config::parse(&text, Path::new("/etc/anchorite/anchorite.toml")).unwrap();
        table.roots = config::run_roots(&config.sites);
        let table = memory::sealed(&config::encode(&table)).unwrap();
        let message = ToSpawn::Channel { worker: number };
        spawn.channel.send(&message, &[theirs.as_fd(), to_answer.as_fd(), table.as_fd()]).unwrap();
        Worker { channel, answers }
    }

    fn ask(&self, request: &Request) {
        assert!(wait_until(PATIENCE, || self.channel.send(request, &[]).is_ok()).is_some(), "the channel takes no more");
    }

    /// The next answer, and its socket.
    #[track_caller]
    fn answer(&self) -> (u32, Outcome, Option<UnixStream>) {
        let mut found = None;
        let mut buffer = [0; 64];
        wait_until(PATIENCE, || {
            if let Received::Message(Reply { id, outcome }, descriptors) = self.answers.receive_from_broker::<Reply>(&mut buffer) {
                found = Some((id, outcome, descriptors.into_iter().next().map(stream)));
            }
            found.is_some()
        });
        found.unwrap()
    }
}

fn stream(socket: OwnedFd) -> UnixStream {
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn programs(spawn: &Spawn) -> PathBuf {
    let path = spawn.directory.path().join("programs");
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// Makes a program of `nobody`; what a worker says of it.
fn program(spawn: &Spawn, id: u32, text: &str) -> Run {
    let path = programs(spawn).join("program");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    let seen = fs::metadata(&path).unwrap();
    Run {
        id,
        root: 1,
        path: b"program".to_vec(),
        device: seen.dev(),
        inode: seen.ino(),
        owner: seen.uid(),
        origin: b"client 1.2.3.4".to_vec(),
    }
}

fn environment(variables: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    environment::encode(&mut block, variables.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))).unwrap();
    block
}

fn rest(mut stream: UnixStream) -> String {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[track_caller]
fn condemns(spawn: &Spawn, worker: u16, name: &str) {
    let mut heard = None;
    wait_until(PATIENCE, || {
        if let Received::Message(message, _) = spawn.channel.receive::<ToParent>() {
            heard = Some(message);
        }
        heard.is_some()
    });
    assert_eq!(heard, Some(ToParent::Malformed { worker }), "{name}");
}

#[test]
fn a_program_runs_with_what_its_worker_says_and_ends_when_that_is_gone() {
    needs_root!();
    let spawn = Spawn::start();
    let worker = Worker::new(&spawn, 7, 4);
    worker.ask(&Request::Run(program(&spawn, 1, "#!/bin/sh\necho \"$QUERY_STRING $(cat) $(id -u)\"\n")));
    let (id, outcome, socket) = worker.answer();
    assert_eq!((id, outcome), (1, Outcome::Connected));
    let mut socket = socket.unwrap();
    socket.write_all(&[environment(&[("QUERY_STRING", "a b")]), b"body".to_vec()].concat()).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(rest(socket), "a b body 65534\n");
    worker.ask(&Request::Run(program(&spawn, 2, "#!/bin/sh\ntrap '' TERM\nsleep 71; sleep 71\n")));
    let mut socket = worker.answer().2.unwrap();
    socket.write_all(&environment(&[])).unwrap();
    assert!(wait_until(PATIENCE, || !running("sleep\x0071").is_empty()).is_some());
    drop(worker);
    assert!(wait_until(PATIENCE, || running("sleep\x0071").is_empty()).is_some());
}

#[test]
fn c11_a_program_is_told_its_own_path_whatever_its_worker_leaves_out() {
    needs_root!();
    let spawn = Spawn::start();
    let worker = Worker::new(&spawn, 7, 4);
    let path = programs(&spawn).join("program").display().to_string();
    for (id, sent) in [(1, &[][..]), (2, &[("SCRIPT_FILENAME", path.as_str())])] {
        worker.ask(&Request::Run(program(&spawn, id, "#!/bin/sh\nenv | grep -c ^SCRIPT_FILENAME=; echo \"$SCRIPT_FILENAME\"\n")));
        let mut socket = worker.answer().2.unwrap();
        socket.write_all(&environment(sent)).unwrap();
        assert_eq!(rest(socket), format!("1\n{path}\n"), "{sent:?}");
    }
}

#[test]
fn m01_m02_m03_what_spawn_may_not_be_asked_ends_its_sender() {
    needs_root!();
    let spawn = Spawn::start();
    let good = program(&spawn, 1, "#!/bin/sh\nexec sleep 72\n");
    let encoded = |run: &Run| {
        let mut packet = Vec::new();
        anchorite::ipc::messages::Message::encode(&Request::Run(run.clone()), &mut packet);
        packet
    };
    let whole = encoded(&good);
    for (number, (name, packet)) in [
        ("no tag", vec![0]),
        ("an unknown tag", vec![3, 0, 0, 0, 0]),
        ("short", whole[..20].to_vec()),
        ("too long", vec![1; 6_000]),
        ("a path that climbs", encoded(&Run { path: b"../program".to_vec(), ..good.clone() })),
        ("an absolute path", encoded(&Run { path: b"/bin/sh".to_vec(), ..good.clone() })),
        ("a directory that there is not", encoded(&Run { root: 9, ..good.clone() })),
        ("a directory of which nothing is run", encoded(&Run { root: 0, path: b"bin/true".to_vec(), ..good.clone() })),
        ("an end of neither kind", vec![2, 2, 0, 0, 0, 0]),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u16::try_from(number).unwrap();
        let worker = Worker::new(&spawn, number, 4);
        worker.channel.send_lines(&packet).unwrap();
        condemns(&spawn, number, name);
    }
    let worker = Worker::new(&spawn, 50, 4);
    worker.ask(&Request::Run(good.clone()));
    worker.ask(&Request::Run(good));
    condemns(&spawn, 50, "the same number twice");
    assert!(wait_until(PATIENCE, || running("sleep\x0072").is_empty()).is_some());
}

#[test]
fn c01_c11_an_environment_that_is_none_runs_nothing_and_ends_its_sender() {
    needs_root!();
    let mut spawn = Spawn::start();
    let mark = spawn.directory.path().join("ran");
    for (number, (name, block)) in [
        ("LD_PRELOAD", b"\x0e\0\0\0LD_PRELOAD=/x\0".to_vec()),
        ("HTTP_PROXY", b"\x10\0\0\0HTTP_PROXY=a://b\0".to_vec()),
        ("PATH", b"\x08\0\0\0PATH=/x\0".to_vec()),
        ("twice", b"\x10\0\0\0HTTP_A=\0HTTP_A=\0".to_vec()),
        ("too long", u32::MAX.to_le_bytes().to_vec()),
        ("no end", b"\x08\0\0\0HTTP_A=x".to_vec()),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u16::try_from(number).unwrap();
        let worker = Worker::new(&spawn, number, 4);
        worker.ask(&Request::Run(program(&spawn, 1, &format!("#!/bin/sh\ntouch {}\n", mark.display()))));
        let mut socket = worker.answer().2.unwrap();
        socket.write_all(&block).unwrap();
        condemns(&spawn, number, name);
        assert_eq!(rest(socket), "\u{0}\u{5}", "{name}");
    }
    spawn.says("client 1.2.3.4, program");
    // An interpreter would run, in place of the program or for it, what these name.
    let root = programs(&spawn).display().to_string();
    for (number, variables) in (20_u16..).zip([
        &[("SCRIPT_FILENAME", "/etc/passwd")][..],
        &[("SCRIPT_FILENAME", "php://stdin")],
        &[("DOCUMENT_ROOT", "/")],
        &[("DOCUMENT_ROOT", &root), ("PATH_TRANSLATED", "/etc/passwd")],
        &[("DOCUMENT_ROOT", &root), ("PATH_INFO", "/../x"), ("PATH_TRANSLATED", &format!("{root}/../x"))],
    ]) {
        let worker = Worker::new(&spawn, number, 4);
        worker.ask(&Request::Run(program(&spawn, 1, &format!("#!/bin/sh\ntouch {}\n", mark.display()))));
        let mut socket = worker.answer().2.unwrap();
        socket.write_all(&environment(variables)).unwrap();
        condemns(&spawn, number, &format!("{variables:?}"));
        assert_eq!(rest(socket), "\u{0}\u{5}", "{variables:?}");
    }
    spawn.says("variables that are those of another program: not run");
    assert!(!mark.exists());
}

#[test]
fn what_a_worker_lies_about_is_not_run() {
    needs_root!();
    let mut spawn = Spawn::start();
    let worker = Worker::new(&spawn, 7, 4);
    let real = |id| program(&spawn, id, "#!/bin/sh\necho ran\n");
    let cases = [
        (Run { inode: 1, ..real(1) }, "\u{0}\u{4}", "it is another file than a moment ago"),
        (Run { device: 1, ..real(2) }, "\u{0}\u{4}", "it is another file than a moment ago"),
        (Run { owner: 33, ..real(3) }, "\u{0}\u{1}", "its owner, user id 33, is below min_uid"),
        (Run { owner: 0, ..real(4) }, "\u{0}\u{1}", "it belongs to root"),
        (Run { owner: SERVICE, ..real(12) }, "\u{0}\u{1}", "it belongs to the user of the service"),
        (Run { owner: 54_321, ..real(5) }, "\u{0}\u{1}", "has no account"),
        (Run { owner: u32::MAX, ..real(6) }, "\u{0}\u{1}", "has no account"),
        (Run { path: b"p-nothing".to_vec(), ..real(7) }, "\u{0}\u{3}", "it is not there any more"),
        (Run { path: b"other".to_vec(), ..real(8) }, "\u{0}\u{1}", "no rule runs what lies there"),
        (Run { path: Vec::new(), ..real(9) }, "\u{0}\u{1}", "no rule runs what lies there"),
        (Run { path: b"p/.git/hooks/program".to_vec(), ..real(10) }, "\u{0}\u{1}", "no rule runs what lies there"),
        (Run { path: b"program~".to_vec(), ..real(11) }, "\u{0}\u{1}", "no rule runs what lies there"),
    ];
    for (run, answer, why) in cases {
        worker.ask(&Request::Run(run));
        let mut socket = worker.answer().2.unwrap();
        let _ = socket.write_all(&environment(&[]));
        assert_eq!(rest(socket), answer, "{why}");
        spawn.says(why);
    }
}

#[test]
fn no_more_run_than_may_and_what_waits_goes_with_its_worker() {
    needs_root!();
    let spawn = Spawn::start();
    let (one, other) = (Worker::new(&spawn, 1, 2), Worker::new(&spawn, 2, 2));
    let sleeps = program(&spawn, 0, "#!/bin/sh\nexec sleep 73\n");
    let run = |id| Run { id, ..sleeps.clone() };
    let mut sockets = Vec::new();
    for id in [1, 2] {
        one.ask(&Request::Run(run(id)));
        let mut socket = one.answer().2.unwrap();
        socket.write_all(&environment(&[])).unwrap();
        sockets.push(socket);
    }
    for id in 3..=700 {
        one.ask(&Request::Run(run(id)));
        if id > 514 {
            let (busy, outcome, socket) = one.answer();
            assert_eq!((busy, outcome, socket.is_some()), (id, Outcome::Busy, false));
        }
    }
    assert!(wait_until(PATIENCE, || running("sleep\x0073").len() == 2).is_some());
    drop(one);
    other.ask(&Request::Run(run(1)));
    let (id, outcome, socket) = other.answer();
    assert_eq!((id, outcome), (1, Outcome::Connected), "its place is free again");
    drop(socket);
    assert!(wait_until(PATIENCE, || running("sleep\x0073").is_empty()).is_some());
}
