//! What is not a plain file that may be read: refused at once, and opened without side effects.

use crate::support::{Configuration, PATIENCE, Root, Server, is_root, needs_root, pattern, request};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::time::Instant;

#[test]
fn a_fifo_is_403_at_once_with_and_without_a_writer() {
    let root = Root::with_index();
    let fifo = root.fifo("pipe");
    let server = Server::serve(&root.path());
    let workers = server.workers();
    // U04
    let start = Instant::now();
    for _ in 0..100 {
        server.get("/pipe").must_be(&[403]);
    }
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    // With a reader of ours, so that a writer can be there too; what is written stays in the pipe.
    let mut reader = std::fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&fifo).unwrap();
    let mut writer = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    std::io::Write::write_all(&mut writer, b"kept").unwrap();
    server.get("/pipe").must_be(&[403]);
    let mut kept = [0; 4];
    reader.read_exact(&mut kept).unwrap();
    assert_eq!(&kept, b"kept", "the server must not read from it");
    server.must_be_well(&workers, "FIFO");
}

#[test]
fn sockets_and_odd_indexes_are_refused() {
    let root = Root::with_index();
    let listener = UnixListener::bind(root.at("socket")).unwrap();
    listener.set_nonblocking(true).unwrap();
    root.directory("a/index.html");
    root.directory("b");
    root.fifo("b/index.html");
    let server = Server::run(&Configuration::of(&root.path()));
    let workers = server.workers();
    // U05
    server.get("/socket").must_be(&[403, 404]);
    server.get("/a/").must_be(&[403, 404]);
    server.get("/b/").must_be(&[403, 404]);
    server.get("/a/index.html").must_be(&[301, 308]);
    assert!(listener.accept().is_err(), "nobody may connect to it");
    server.must_be_well(&workers, "sockets");
}

#[test]
fn device_nodes_are_refused() {
    needs_root!();
    let root = Root::with_index();
    // U05: /dev/zero and a null device.
    let made = [("zero", 5), ("null", 3)].map(|(name, minor)| {
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
        nix::sys::stat::mknod(&root.at(name), nix::sys::stat::SFlag::S_IFCHR, mode, nix::sys::stat::makedev(1, minor))
    });
    if made.iter().any(Result::is_err) {
        eprintln!("skipped: no device nodes can be made here: {made:?}");
        return;
    }
    let server = Server::serve(&root.path());
    let workers = server.workers();
    for target in ["/zero", "/null"] {
        server.get(target).must_be(&[403, 404]);
    }
    server.must_be_well(&workers, "device nodes");
}

#[test]
fn a_file_cut_while_it_is_sent_ends_the_connection() {
    let root = Root::with_index();
    let path = root.sparse("big.bin", 256 * 1024 * 1024);
    let server = Server::serve(&root.path());
    let workers = server.workers();
    // U06
    let mut client = server.connect();
    client.send(request("GET", "/big.bin", &[]));
    let head = client.head().unwrap();
    assert_eq!(head.length(), 256 * 1024 * 1024);
    client.exactly(1024 * 1024).unwrap();
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
    let rest = client.rest().expect("the connection must end, not hang");
    assert!(rest.len() < 255 * 1024 * 1024, "{} bytes more of a file that was cut", rest.len());
    server.must_be_well(&workers, "a file cut while it was sent");
}

#[test]
fn a_file_that_grows_while_it_is_sent_keeps_its_announced_length() {
    let root = Root::with_index();
    let path = root.file("a.bin", pattern(8 * 1024 * 1024));
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    client.send(request("GET", "/a.bin", &[]));
    let head = client.head().unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, &vec![b'x'; 1024 * 1024]).unwrap();
    assert_eq!(head.length(), 8 * 1024 * 1024);
    assert!(client.exactly(8 * 1024 * 1024).unwrap() == pattern(8 * 1024 * 1024));
    client.send(request("GET", "/", &[]));
    assert_eq!(client.response("GET").must_be(&[200]).text(), "index\n");
}

#[test]
fn a_file_replaced_while_it_is_sent_is_sent_whole() {
    let root = Root::with_index();
    let body = pattern(8 * 1024 * 1024);
    let path = root.file("a.bin", &body);
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    client.send(request("GET", "/a.bin", &[]));
    client.head().unwrap();
    // U07
    let other = root.file("other.bin", vec![b'x'; 8 * 1024 * 1024]);
    std::fs::rename(other, path).unwrap();
    assert!(client.exactly(body.len()).unwrap() == body);
}

#[test]
fn what_the_server_may_not_read_is_403() {
    let root = Root::with_index();
    root.file("private.txt", "private");
    root.mode("private.txt", 0o600);
    root.file("closed/a.txt", "a");
    root.file("passable/a.txt", "a");
    root.mode("closed", 0o000);
    root.mode("passable", 0o711);
    if !is_root() {
        eprintln!("skipped: the files of an ordinary user can be read by a server of that user");
        return;
    }
    let server = Server::serve(&root.path());
    // U10: the worker has no power over the modes of files, whoever started it.
    let private = server.get("/private.txt").must_be(&[403]);
    let closed = server.get("/closed/a.txt").must_be(&[403]);
    assert_eq!(private.body, closed.body);
    server.get("/closed/").must_be(&[403]);
    server.get("/passable/a.txt").must_be(&[200]);
    server.get("/passable/").must_be(&[403]);
    root.mode("closed", 0o755);
}
