//! Bodies that have to be whole before a backend can be told how long they are: in memory, and beyond that in the spool directory.

use crate::fastcgi::{FakeBackend, Step, answer};
use crate::support::{Client, Configuration, Launch, PATIENCE, Root, Server, is_alive, needs_all, needs_root, pattern, signal, wait_until};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Bytes that are kept in memory.
const MEMORY_MAX: usize = 128 * 1024;
const HEAD: &str = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A directory of the user that tests run the service as, and the lines that name it.
struct Spool(tempfile::TempDir);

impl Spool {
    fn new() -> Self {
        let spool = Self(tempfile::Builder::new().prefix("anchorite-spool-").tempdir().unwrap());
        spool.give();
        spool
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("spool")
    }

    /// Makes it, as a package would.
    fn give(&self) {
        std::fs::create_dir_all(self.path()).unwrap();
        std::fs::set_permissions(self.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        chown(self.path(), Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    }

    fn lines(&self, more: &str) -> String {
        format!("spool = {:?}\n{more}", self.path())
    }
}

/// A file system of its own, as large as that.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, size: &str) -> Self {
        let status =
            std::process::Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "none"]).arg(&path).status();
        assert!(status.unwrap().success());
        Self(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The backend answers with what it was told of the length, and with the body itself.
fn echo() -> FakeBackend {
    FakeBackend::new(|seen| {
        let length = seen.value("CONTENT_LENGTH").unwrap_or("none").to_owned();
        answer([format!("X-Length: {length}\r\n\r\n").as_bytes(), &seen.body].concat())
    })
}

fn configuration(backend: &FakeBackend, root: &Root, spool: &Spool, more: &str) -> Configuration {
    let configuration = Configuration::of(&root.path()).server_also(&spool.lines(more)).backend(&backend.table(""));
    configuration.limits("body = \"100MiB\"").rule("backend = \"fake\"")
}

fn run(spool: &Spool, more: &str) -> (FakeBackend, Root, Server) {
    let (backend, root) = (echo(), Root::new());
    let server = Server::run(&configuration(&backend, &root, spool, more));
    (backend, root, server)
}

/// As chunks of different sizes.
fn chunked(body: &[u8]) -> Vec<u8> {
    let (mut out, mut rest, mut size) = (Vec::new(), body, 1);
    while !rest.is_empty() {
        let (chunk, others) = rest.split_at(size.min(rest.len()));
        out.extend(format!("{:x}\r\n", chunk.len()).bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        (rest, size) = (others, size * 3 % 50_021 + 1);
    }
    [out.as_slice(), b"0\r\n\r\n"].concat()
}

fn upload(client: &mut Client, body: &[u8]) -> crate::support::Response {
    // Where it is refused, the answer may come before the end.
    let _ = client.try_send([HEAD.as_bytes(), &chunked(body)].concat());
    client.response("POST")
}

fn errors(server: &Server) -> String {
    std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default()
}

fn must_say(server: &Server, what: &str) {
    assert!(wait_until(PATIENCE, || errors(server).contains(what)).is_some(), "{what}: {}", errors(server));
}

/// Bytes of the unnamed files that there are.
fn kept(server: &Server) -> u64 {
    let files = std::fs::read_dir(format!("/proc/{}/fd", role(server))).unwrap().flatten().map(|entry| entry.path());
    let unnamed = files.filter(|path| std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("(deleted)")));
    unnamed.filter_map(|path| std::fs::metadata(path).ok()).map(|metadata| metadata.len()).sum()
}

fn role(server: &Server) -> i32 {
    let processes = server.processes();
    processes.iter().find(|process| process.title.starts_with("anchorite: spool")).unwrap_or_else(|| panic!("{processes:?}")).pid
}

#[test]
fn ur_070_chunked_bodies_of_any_size_arrive_byte_exact_with_their_length() {
    needs_root!();
    let spool = Spool::new();
    let (_backend, _root, server) = run(&spool, "");
    let mut client = server.connect();
    for length in [0, 1, MEMORY_MAX, MEMORY_MAX + 1, 1 << 20, 10_000_000] {
        let body = pattern(length);
        let response = upload(&mut client, &body).must_be(&[200]);
        assert_eq!(response.field("x-length"), Some(length.to_string().as_str()));
        assert!(response.body == body && !response.closes(), "{length}");
    }
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 0, "they have no names");
}

#[test]
fn expect_is_answered_before_a_chunked_body() {
    needs_root!();
    let spool = Spool::new();
    let (_backend, _root, server) = run(&spool, "");
    let body = pattern(3 * MEMORY_MAX);
    let mut client = server.connect();
    client.send(HEAD.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(client.head().unwrap().status, 100);
    client.send(chunked(&body));
    assert!(client.response("POST").must_be(&[200]).body == body);
}

#[test]
fn s11_a_chunked_body_beyond_the_limit_is_refused_while_it_is_counted() {
    needs_root!();
    let spool = Spool::new();
    let (backend, root) = (echo(), Root::new());
    let rule = "backend = \"fake\"\nbody = \"300KiB\"";
    let server = Server::run(&Configuration::of(&root.path()).server_also(&spool.lines("")).backend(&backend.table("")).rule(rule));
    assert_eq!(upload(&mut server.connect(), &pattern(300 << 10)).status, 200);
    assert_eq!(upload(&mut server.connect(), &pattern((300 << 10) + 1)).status, 413);
    assert_eq!(backend.seen.lock().unwrap().len(), 1);
}

/// a body that cannot be kept is refused and never handed on, and what can be kept in memory is.
#[test]
fn ur_068_a_spool_directory_that_is_not_there_is_503_and_told_with_its_path() {
    needs_root!();
    let spool = Spool::new();
    std::fs::remove_dir(spool.path()).unwrap();
    let (backend, _root, server) = run(&spool, "");
    assert_eq!(upload(&mut server.connect(), &pattern(MEMORY_MAX)).status, 200);
    assert_eq!(upload(&mut server.connect(), &pattern(MEMORY_MAX + 1)).status, 503);
    must_say(&server, &format!("spool {:?}: No such file or directory", spool.path()));
    assert_eq!(backend.seen.lock().unwrap().len(), 1);
    // Made later, it is used without a word.
    spool.give();
    let used = wait_until(PATIENCE, || upload(&mut server.connect(), &pattern(MEMORY_MAX + 1)).status == 200);
    assert!(used.is_some(), "{}", errors(&server));
}

#[test]
fn ur_068_a_spool_directory_that_cannot_be_written_is_503_and_told_with_its_path() {
    needs_root!();
    let spool = Spool::new();
    chown(spool.path(), Some(0), Some(0)).unwrap();
    let (backend, _root, server) = run(&spool, "");
    assert_eq!(upload(&mut server.connect(), &pattern(1 << 20)).status, 503);
    must_say(&server, &format!("spool {:?}: Permission denied", spool.path()));
    assert!(backend.seen.lock().unwrap().is_empty());
}

/// Answers need no spool: they are streamed, and who reads slowly holds the backend back.
#[test]
fn ur_067_a_large_answer_needs_no_spool_directory() {
    needs_root!();
    let (spool, root) = (Spool::new(), Root::new());
    std::fs::set_permissions(spool.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    let backend = FakeBackend::new(|_| answer([b"Content-Type: text/plain\r\n\r\n", pattern(10 << 20).as_slice()].concat()));
    let server = Server::run(&configuration(&backend, &root, &spool, ""));
    let mut client = server.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(client.response("GET").must_be(&[200]).body == pattern(10 << 20));
}

#[test]
fn ur_068_a_full_disk_is_507_and_what_was_kept_is_given_back() {
    needs_root!();
    let spool = Spool::new();
    let _small = Small::mount(spool.path(), "1m");
    spool.give();
    let (backend, _root, server) = run(&spool, "");
    for _ in 0..3 {
        assert_eq!(upload(&mut server.connect(), &pattern(2 << 20)).status, 507);
        assert_eq!(upload(&mut server.connect(), &pattern(900 << 10)).status, 200);
    }
    must_say(&server, &format!("spool {:?}: No space left on device", spool.path()));
    assert_eq!(backend.seen.lock().unwrap().len(), 3);
}

#[test]
fn spool_max_holds_for_all_clients_together_and_who_leaves_gives_back() {
    needs_root!();
    let spool = Spool::new();
    let (backend, _root, server) = run(&spool, "spool_max = \"2MiB\"");
    let body = pattern(900 << 10);
    let part = [HEAD.as_bytes(), b"e1000\r\n", &body[..0xe_1000], b"\r\n"].concat();
    let mut holding = [server.connect(), server.connect()];
    for client in &mut holding {
        client.send(&part);
    }
    // All but what is less than a message.
    let both = wait_until(PATIENCE, || kept(&server) > 2 * (0xe_1000 - 32 * 1024));
    assert!(both.is_some(), "{} {}", kept(&server), errors(&server));
    assert_eq!(upload(&mut server.connect(), &body).status, 507);
    must_say(&server, "spool_max is used up");
    // Those that were there are not the ones that pay for it.
    let [mut first, second] = holding;
    first.send("0\r\n\r\n");
    assert!(first.response("POST").must_be(&[200]).body == body[..0xe_1000]);
    drop(second);
    let free = wait_until(PATIENCE, || upload(&mut server.connect(), &pattern(1900 << 10)).status == 200);
    assert!(free.is_some(), "{}", errors(&server));
    let seen = backend.seen.lock().unwrap();
    assert!(seen.iter().all(|seen| seen.value("CONTENT_LENGTH") == Some(seen.body.len().to_string().as_str())));
}

#[test]
fn a_reload_with_a_body_half_spooled_loses_nothing() {
    needs_root!();
    let spool = Spool::new();
    let (_backend, _root, server) = run(&spool, "");
    let body = pattern(1 << 20);
    let sent = chunked(&body);
    let mut client = server.connect();
    client.send(HEAD).send(&sent[..600_000]);
    server.order(&["reload"]).must_be_done();
    client.send(&sent[600_000..]);
    assert!(client.response("POST").must_be(&[200]).body == body);
    assert!(upload(&mut server.connect(), &body).must_be(&[200]).body == body);
}

#[test]
fn a_spool_that_ends_costs_the_bodies_it_kept_and_no_others() {
    needs_root!();
    let spool = Spool::new();
    let (backend, _root, server) = run(&spool, "");
    let body = pattern(1 << 20);
    let sent = chunked(&body);
    let mut client = server.connect();
    client.send(HEAD).send(&sent[..600_000]);
    assert!(wait_until(PATIENCE, || kept(&server) > 0).is_some());
    let pid = role(&server);
    signal(pid, Signal::SIGKILL);
    assert!(wait_until(PATIENCE, || !is_alive(pid)).is_some());
    let _ = client.try_send(&sent[600_000..]);
    assert_eq!(client.response("POST").status, 503);
    assert!(backend.seen.lock().unwrap().is_empty());
    assert!(upload(&mut server.connect(), &body).must_be(&[200]).body == body);
    assert_ne!(role(&server), pid);
}

/// The backend closes the connection that was kept when the second request has come: it is asked once more, with the whole body.
#[test]
fn a_spooled_body_is_sent_once_more_on_a_fresh_connection() {
    needs_root!();
    let spool = Spool::new();
    let root = Root::new();
    let calls = std::sync::Mutex::new(0);
    let backend = FakeBackend::new(move |seen| {
        let mut calls = calls.lock().unwrap();
        *calls += 1;
        if *calls == 2 { vec![Step::Close] } else { answer([b"A: b\r\n\r\n".as_slice(), &seen.body].concat()) }
    });
    let table = backend.table("keep_idle = \"30s\"");
    let configuration = Configuration::of(&root.path()).server_also(&spool.lines("workers = 1")).backend(&table).rule("backend = \"fake\"");
    let server = Server::run(&configuration);
    let mut client = server.connect();
    let body = pattern(1 << 20);
    assert!(upload(&mut client, b"first").must_be(&[200]).body == b"first");
    client.send(HEAD.replace("POST", "PUT")).send(chunked(&body));
    assert!(client.response("PUT").must_be(&[200]).body == body);
    let seen = backend.seen.lock().unwrap();
    assert_eq!(seen.iter().map(|seen| seen.body.len()).collect::<Vec<_>>(), [5, body.len(), body.len()]);
}

#[test]
fn a_spool_directory_that_others_can_write_or_a_link_is_refused_with_its_place() {
    needs_root!();
    let spool = Spool::new();
    let (link, file) = (spool.0.path().join("link"), spool.0.path().join("file"));
    std::os::unix::fs::symlink(spool.path(), &link).unwrap();
    std::fs::write(&file, "").unwrap();
    let (backend, root) = (echo(), Root::new());
    let refused = |path: &Path, why: &str| {
        let lines = format!("spool = {path:?}");
        let configuration = Configuration::of(&root.path()).server_also(&lines).backend(&backend.table("")).rule("backend = \"fake\"");
        let launch = Launch::new();
        let text = configuration.text(launch.home());
        let started = launch.run_to_end(&text);
        assert!(started.stderr.contains(why), "{why}: {}", started.stderr);
        started.must_fail();
        let checked = launch.to_end(&["check".into(), "-c".into(), launch.write_configuration(&text).into()]);
        let line = 1 + text.lines().position(|line| line.starts_with("spool = ")).unwrap();
        assert!(checked.stderr.contains(&format!(":{line}:9: spool {path:?} {why}")), "{}", checked.stderr);
        checked.must_fail();
    };
    refused(&link, "is a symbolic link");
    refused(&file, "is not a directory");
    std::fs::set_permissions(spool.path(), std::fs::Permissions::from_mode(0o702)).unwrap();
    refused(&spool.path(), "can be written by others than its owner (mode 0702)");
    spool.give();
    chown(spool.path(), Some(1), Some(1)).unwrap();
    refused(&spool.path(), "belongs to user id 1");
}

/// A backend that compares what comes with what should, and keeps nothing of it; answers with the length it was told and the one that came.
struct Comparing(tempfile::TempDir);

impl Comparing {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("anchorite-backend-").tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        std::fs::set_permissions(directory.path().join("socket"), std::fs::Permissions::from_mode(0o666)).unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(compare(stream))));
        Self(directory)
    }

    fn table(&self) -> String {
        let socket = self.0.path().join("socket");
        format!("\n[backend.fake]\ntype = \"fastcgi\"\naddress = [\"unix:{}\"]\nread_timeout = \"10m\"\nkeep = 0\n", socket.display())
    }
}

fn compare(stream: UnixStream) -> std::io::Result<()> {
    let (block, mut at, mut told) = (pattern(BLOCK), 0u64, Vec::new());
    let mut input = std::io::BufReader::with_capacity(1 << 20, stream.try_clone()?);
    loop {
        let mut header = [0; 8];
        input.read_exact(&mut header)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        input.read_exact(&mut content)?;
        content.truncate(length);
        match header[1] {
            4 => told.extend(content),
            5 if length == 0 => break,
            5 => {
                let mut rest = content.as_slice();
                while !rest.is_empty() {
                    let place = usize::try_from(at % BLOCK as u64).unwrap();
                    let count = rest.len().min(BLOCK - place);
                    assert!(rest[..count] == block[place..place + count], "byte {at} and on");
                    (rest, at) = (&rest[count..], at + count as u64);
                }
            }
            _ => {}
        }
    }
    let name = b"CONTENT_LENGTH";
    let found = told.windows(name.len()).position(|window| window == name).map(|at| &told[at + name.len()..]);
    let digits: Vec<u8> = found.unwrap_or_default().iter().copied().take_while(u8::is_ascii_digit).collect();
    let text = format!("A: b\r\n\r\n{} {at}", String::from_utf8_lossy(&digits));
    let crate::fastcgi::Step::Send(bytes) = answer(text).remove(0) else { return Ok(()) };
    (&stream).write_all(&bytes)
}

/// Content of any length: this block again and again.
const BLOCK: usize = 1_000_003;
const LARGE: u64 = 5 << 30;

/// 5 GiB: beyond 32 bits, and streamed or spooled, byte for byte.
#[test]
fn uploads_of_5_gib_are_byte_exact_streamed_and_spooled() {
    needs_root!();
    needs_all!();
    let (spool, backend, root) = (Spool::new(), Comparing::new(), Root::new());
    let lines = spool.lines("spool_max = \"6GiB\"");
    let configuration = Configuration::of(&root.path()).server_also(&lines).backend(&backend.table()).limits("body = \"6GiB\"");
    let server = Server::run(&configuration.rule("backend = \"fake\""));
    let block = pattern(BLOCK);
    for chunked in [false, true] {
        let mut client = server.connect();
        client.read_timeout(std::time::Duration::from_secs(600));
        let framing = if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {LARGE}") };
        client.send(format!("PUT /x HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        let mut left = LARGE;
        while left > 0 {
            let part = &block[..usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK)];
            if chunked {
                client.send(format!("{:x}\r\n", part.len())).send(part).send("\r\n");
            } else {
                client.send(part);
            }
            left -= part.len() as u64;
        }
        if chunked {
            client.send("0\r\n\r\n");
        }
        assert_eq!(client.response("PUT").must_be(&[200]).text(), format!("{LARGE} {LARGE}"), "chunked: {chunked}");
    }
    assert!(wait_until(PATIENCE, || kept(&server) == 0).is_some());
}

#[test]
fn without_backends_there_is_no_spool_and_its_directory_is_not_looked_at() {
    needs_root!();
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).server_also("spool = \"/etc/passwd\""));
    assert_eq!(server.get("/").status, 200);
    assert!(!server.processes().iter().any(|process| process.title.contains("spool")));
}
