//! Connections that change to another protocol: WebSocket and whatever else a client and its backend agree on.

use crate::fastcgi::Step;
use crate::plain::{PlainBackend, Told, Tongue};
use crate::support::{Client, Configuration, PATIENCE, Root, Server, pattern, request, wait_until};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
const ASK: [&str; 3] = ["Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];

fn service(root: &Root, lines: &str, answer: impl Fn(&Told) -> Vec<Step> + Send + Sync + 'static) -> (PlainBackend, Server) {
    let backend = PlainBackend::new(Tongue::Http, answer);
    let configuration = Configuration::of(&root.path())
        .server_also("workers = 1")
        .backend(&backend.table(lines))
        .rule("path = [\"/ws\", \"/ws/*\"]\nbackend = \"fake\"");
    let server = Server::run(&configuration);
    (backend, server)
}

fn echo(_told: &Told) -> Vec<Step> {
    vec![Step::Send(SWITCH.into()), Step::Echo]
}

fn upgraded(server: &Server) -> Client {
    let mut client = server.connect();
    client.send(request("GET", "/ws", &ASK));
    let head = client.head().unwrap();
    assert_eq!(head.status, 101, "{head:?}");
    assert_eq!((head.field("Connection"), head.field("Upgrade")), (Some("Upgrade"), Some("websocket")));
    assert_eq!(head.field("Sec-WebSocket-Accept"), Some("x"));
    client
}

#[test]
fn bytes_go_both_ways_and_a_client_that_ends_its_side_hears_the_rest() {
    let root = Root::new();
    let (backend, server) = service(&root, "", echo);
    let mut client = upgraded(&server);
    for text in ["hello", "x", "GET /not/a/request HTTP/1.1\r\n\r\n"] {
        client.send(text);
        assert_eq!(client.exactly(text.len()).unwrap(), text.as_bytes());
    }
    client.half_close();
    assert_eq!(client.rest().unwrap(), b"end");
    let told = backend.told.lock().unwrap();
    assert_eq!((told[0].value("Connection"), told[0].value("Upgrade")), (Some("Upgrade"), Some("websocket")));
    assert_eq!(told[0].value("Sec-WebSocket-Key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
    drop(told);
    let lines = server.wait_for_lines("access.log", 1);
    assert!(lines[0].contains("\"GET /ws HTTP/1.1\" 101 40 "), "{lines:?}");
}

/// There is no content in which another protocol could be spoken, and no connection to the backend may be left over.
#[test]
fn head_changes_to_no_protocol_whatever_the_backend_says() {
    let root = Root::new();
    let (backend, server) = service(&root, "max_connections = 1\nqueue = 0\nkeep = 0", |told| {
        if told.value("X-Last").is_some() { vec![Step::Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into())] } else { echo(told) }
    });
    for _ in 0..3 {
        let mut client = server.connect();
        client.send(request("HEAD", "/ws", &ASK));
        client.response("HEAD").must_be(&[502]);
    }
    assert!(backend.told.lock().unwrap().iter().all(|told| told.value("Upgrade").is_none()));
    let mut client = server.connect();
    client.send(request("GET", "/ws", &["X-Last: yes"]));
    client.response("GET").must_be(&[200]);
}

/// Neither side reads faster than the other takes it, and nothing is lost.
#[test]
fn large_transfers_both_ways_at_once_are_byte_exact() {
    let root = Root::new();
    let (_backend, server) = service(&root, "buffer = 0", echo);
    let mut client = upgraded(&server);
    let sent = pattern(8_000_000);
    let (mut writer, copy) = (client.stream().try_clone().unwrap(), sent.clone());
    let sending = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    // The other end can say no more until this one reads.
    std::thread::sleep(Duration::from_millis(300));
    let received = client.exactly(sent.len()).unwrap();
    assert!(received == sent);
    assert_eq!(client.rest().unwrap(), b"end");
    sending.join().unwrap();
}

#[test]
fn what_comes_with_the_head_is_for_the_other_end() {
    let root = Root::new();
    let (_backend, server) = service(&root, "", |_| vec![Step::Send([SWITCH, "first"].concat().into()), Step::Echo]);
    let mut client = server.connect();
    client.send([request("GET", "/ws", &ASK).as_slice(), b"early"].concat());
    assert_eq!(client.head().unwrap().status, 101);
    assert_eq!(client.exactly(10).unwrap(), b"firstearly");
}

#[test]
fn the_end_of_the_backend_is_the_end_of_the_connection() {
    let root = Root::new();
    let (_backend, server) = service(&root, "", |_| vec![Step::Send([SWITCH, "bye"].concat().into()), Step::Close]);
    let mut client = upgraded(&server);
    assert_eq!(client.rest().unwrap(), b"bye");
    // And the other way round.
    let (backend, server) = service(&root, "", |_| vec![Step::Send(SWITCH.into()), Step::Wait]);
    drop(upgraded(&server));
    assert!(wait_until(PATIENCE, || backend.told.lock().unwrap()[0].gone).is_some());
}

#[test]
fn f41_only_what_was_asked_for_is_changed_to() {
    let root = Root::new();
    let (backend, server) = service(&root, "", |told| match told.path() {
        "/ws/refuse" => vec![Step::Send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".to_vec())],
        "/ws/other" => vec![Step::Send(SWITCH.replace("websocket", "other").into()), Step::Wait],
        "/ws/always" => vec![Step::Send(SWITCH.into()), Step::Wait],
        _ => vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())],
    });
    let mut client = server.connect();
    // A backend that does not want to answers as to any other request, and the connection goes on.
    client.send(request("GET", "/ws/refuse", &ASK));
    assert_eq!(client.response("GET").must_be(&[403]).text(), "no");
    client.send(request("GET", "/ws/ok", &ASK));
    assert_eq!(client.response("GET").must_be(&[200]).text(), "ok");
    assert_eq!(server.ask("GET", "/ws/other", &ASK).status, 502);
    for fields in [&[][..], &["Upgrade: websocket"], &["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"]] {
        assert_eq!(server.ask("GET", "/ws/always", fields).status, 502, "{fields:?}");
    }
    assert_eq!(
        server.exchange("GET /ws/always HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", "GET").status,
        502
    );
    let told = backend.told.lock().unwrap();
    assert_eq!(told.iter().filter(|told| told.value("Upgrade").is_some()).count(), 3);
    drop(told);
    // A file has nothing to change to.
    root.file("x.txt", "file");
    assert_eq!(server.ask("GET", "/x.txt", &ASK).must_be(&[200]).text(), "file");
}

#[test]
fn silence_both_ways_ends_it_and_a_word_from_either_side_does_not() {
    let root = Root::new();
    let (_backend, server) = service(&root, "read_timeout = \"4s\"", echo);
    let mut client = upgraded(&server);
    for _ in 0..10 {
        client.send("x");
        assert_eq!(client.exactly(1).unwrap(), b"x");
        std::thread::sleep(Duration::from_millis(500));
    }
    client.expect_end();
}

/// It would keep a service from ending for as long as somebody looks at a page.
#[test]
fn a_service_that_stops_does_not_wait_for_it_and_a_reload_leaves_it() {
    let root = Root::new();
    let (_backend, mut server) = service(&root, "", echo);
    let mut client = upgraded(&server);
    server.order(&["reload"]).must_be_done();
    client.send("after");
    assert_eq!(client.exactly(5).unwrap(), b"after");
    let began = Instant::now();
    let status = server.end(Signal::SIGQUIT);
    assert!(status.success() && began.elapsed() < PATIENCE, "{status}");
    let _ = client.rest();
}

/// The server and the client of python3-websockets, which check each other's frames.
#[test]
fn a_websocket_of_python_works_through_it() {
    const BACKEND: &str = "import asyncio,websockets\n\
        async def echo(socket, *_):\n\
        \tasync for message in socket: await socket.send(message)\n\
        async def main():\n\
        \tasync with websockets.serve(echo, '127.0.0.1', 0, max_size=None) as server:\n\
        \t\tprint(server.sockets[0].getsockname()[1], flush=True)\n\
        \t\tawait asyncio.Future()\n\
        asyncio.run(main())\n";
    let mut backend =
        std::process::Command::new("/usr/bin/python3").args(["-c", BACKEND]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut port = [0; 16];
    let count = backend.stdout.as_mut().unwrap().read(&mut port).unwrap();
    let port = std::str::from_utf8(&port[..count]).unwrap().trim();
    let root = Root::new();
    let table = format!("\n[backend.real]\ntype = \"http\"\naddress = [\"127.0.0.1:{port}\"]\n");
    let server = Server::run(&Configuration::of(&root.path()).backend(&table).rule("backend = \"real\""));
    let client = format!(
        "import asyncio,os,websockets\n\
         async def main():\n\
         \tasync with websockets.connect('ws://{}/chat?x', max_size=None) as socket:\n\
         \t\tfor size in (0, 1, 125, 126, 65535, 65536, 1000000):\n\
         \t\t\tdata = os.urandom(size)\n\
         \t\t\tawait socket.send(data)\n\
         \t\t\tassert await socket.recv() == data, size\n\
         \t\tawait (await socket.ping())\n\
         asyncio.run(main())\n",
        server.address()
    );
    let said = std::process::Command::new("/usr/bin/python3").args(["-c", &client]).output().unwrap();
    let _ = backend.kill();
    let _ = backend.wait();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
