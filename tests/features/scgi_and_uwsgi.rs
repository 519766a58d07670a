//! Backends by SCGI and uwsgi: a backend that shows what it was told, right or wrong; a program in Python; uWSGI as Debian has it.

use crate::fastcgi::Step;
use crate::plain::{PlainBackend, Told, Tongue};
use crate::support::{Configuration, PATIENCE, Root, Server, needs_root, pattern, request, wait_until};
use std::path::Path;
use std::time::Duration;

const BOTH: [Tongue; 2] = [Tongue::Scgi, Tongue::Uwsgi];

fn service(backend: &PlainBackend, root: &Root, lines: &str) -> Server {
    Server::run(&Configuration::of(&root.path()).backend(&backend.table(lines)).rule("backend = \"fake\""))
}

fn send(text: impl AsRef<[u8]>) -> Vec<Step> {
    vec![Step::Send(text.as_ref().to_vec())]
}

fn show(told: &Told) -> Vec<Step> {
    let text: String = told.parameters.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    send(format!("Content-Type: text/plain\r\n\r\n{text}BODY={}\n", told.body.len()))
}

#[test]
fn ur_175_a_netstring_begins_with_content_length_and_scgi() {
    let (backend, root) = (PlainBackend::new(Tongue::Scgi, show), Root::new());
    let configuration = Configuration::of(&root.path()).backend(&backend.table("")).rule("path = \"/rpc2/*\"\nbackend = \"fake\"");
    let server = Server::run(&configuration);
    let mut client = server.connect();
    client.send("POST /rpc2/a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
    let text = client.response("POST").must_be(&[200]).text();
    for line in ["CONTENT_LENGTH=10", "SCGI=1", "REQUEST_METHOD=POST", "SCRIPT_NAME=/rpc2", "PATH_INFO=/a", "QUERY_STRING=b", "BODY=10"] {
        assert_eq!(text.lines().filter(|have| *have == line).count(), 1, "{line}: {text}");
    }
    // The connection stays with the client, whatever the backend does with its own.
    client.send(request("GET", "/rpc2/", &[]));
    client.response("GET").must_be(&[200]);
    let told = backend.told.lock().unwrap();
    for (told, length) in told.iter().zip(["10", "0"]) {
        let start = format!("CONTENT_LENGTH\0{length}\0SCGI\x001\0");
        let behind = told.opening.iter().position(|byte| *byte == b':').unwrap() + 1;
        assert!(told.opening[behind..].starts_with(start.as_bytes()), "{}", told.opening.escape_ascii());
    }
}

#[test]
fn a_uwsgi_packet_holds_the_parameters_and_one_that_would_not_is_431() {
    let (backend, root) = (PlainBackend::new(Tongue::Uwsgi, show), Root::new());
    let configuration =
        Configuration::of(&root.path()).limits("header_bytes = \"128KiB\"").backend(&backend.table("")).rule("backend = \"fake\"");
    let server = Server::run(&configuration);
    let head = "POST /x?y HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
    let text = server.exchange(head, "POST").must_be(&[200]).text();
    for line in ["CONTENT_LENGTH=3", "REQUEST_METHOD=POST", "PATH_INFO=/x", "QUERY_STRING=y", "BODY=3"] {
        assert!(text.lines().any(|have| have == line), "{line}: {text}");
    }
    assert_eq!(backend.told.lock().unwrap()[0].opening[0], 0);
    server.ask("GET", "/", &[&format!("X-A: {}", "y".repeat(60_000))]).must_be(&[200]);
    let refused = server.ask("GET", "/", &[&format!("X-A: {}", "y".repeat(70_000))]);
    assert_eq!(refused.status, 431);
    assert_eq!(backend.told.lock().unwrap().len(), 2);
}

#[test]
fn answers_end_with_the_connection_or_where_they_say() {
    for tongue in BOTH {
        let answer = |told: &Told| match told.path() {
            "/plain" => send("Content-Type: text/plain\n\nplain"),
            "/length" => vec![Step::Send(b"Content-Length: 4\r\n\r\nfour and more".to_vec()), Step::Wait],
            "/status" => send("Status: 404 Nowhere\r\n\r\nstatus"),
            "/line" => send("HTTP/1.1 201 Made\r\nX-A: b\r\n\r\nline"),
            "/line-length" => vec![Step::Send(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nline".to_vec()), Step::Wait],
            "/chunks" => send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n"),
            "/bytes" => b"HTTP/1.1 200 OK\r\n\r\nslow".iter().map(|byte| Step::Send(vec![*byte])).collect(),
            "/location" => send("Location: /other?x\r\n\r\n"),
            "/cookies" => send("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Sendfile: /etc/passwd\r\nConnection: x-b\r\nX-B: c\r\n\r\n"),
            "/none" => send("Status: 204\r\n\r\nbody that is none"),
            "/early" => send("Status: 413\r\nContent-Length: 5\r\n\r\nearly"),
            _ => send("Content-Length: 6\r\n\r\nlength"),
        };
        let (backend, root) = (PlainBackend::new(tongue, answer), Root::new());
        let server = service(&backend, &root, "");
        let mut client = server.connect();
        for (target, status, text) in [
            ("/plain", 200, "plain"),
            ("/length", 200, "four"),
            ("/status", 404, "status"),
            ("/line", 201, "line"),
            ("/line-length", 200, "line"),
            ("/chunks", 200, "abcde"),
            ("/bytes", 200, "slow"),
            ("/location", 302, ""),
            ("/cookies", 200, ""),
            ("/none", 204, ""),
            ("/", 200, "length"),
        ] {
            client.send(request("GET", target, &[]));
            let response = client.response("GET");
            assert_eq!((response.status, response.text().as_str()), (status, text), "{tongue:?} {target}");
            let count = |name: &str| response.fields.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name)).count();
            assert_eq!(count("set-cookie"), if target == "/cookies" { 2 } else { 0 });
            assert_eq!(count("x-sendfile") + count("x-b"), 0);
        }
        client.send(request("HEAD", "/", &[]));
        let response = client.response("HEAD").must_be(&[200]);
        assert_eq!(response.length(), 6);
        client.send("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").send("hello");
        assert_eq!(client.response("POST").must_be(&[413]).text(), "early");
    }
}

#[test]
fn b05_b06_b07_b08_b09_b10_b12_b16_what_is_no_answer_is_told_so() {
    for tongue in BOTH {
        let answer = |told: &Told| match told.path() {
            "/b05" => vec![Step::Send(b"Content-".to_vec()), Step::Wait],
            "/b06/before" => vec![],
            "/b06/within" => send("Content-Type: text"),
            "/b08/word" => send("Content-Length: abc\r\n\r\n"),
            "/b08/two" => send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
            "/b08/both" => send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "/b09/status" => send("Status: 99\r\n\r\n"),
            "/b09/line" => send("HTTP/1.1 99 X\r\n\r\n"),
            "/b09/version" => send("HTTP/2.0 200 OK\r\n\r\n"),
            "/b10/100" => send("HTTP/1.1 100 Continue\r\n\r\n"),
            "/b10/101" => send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
            "/b12/cr" => send("A: b\rc\r\n\r\n"),
            "/b12/lf" => send("HTTP/1.1 200 OK\nA: b\n\n"),
            "/b12/colon" => send("no colon\r\n\r\n"),
            "/b16" => send("X: y\r\n".repeat(10_000) + "\r\n"),
            _ => send("Content-Type: text/plain\r\n\r\nfine"),
        };
        let (backend, root) = (PlainBackend::new(tongue, answer), Root::new());
        let server = service(&backend, &root, "read_timeout = \"5s\"");
        let workers = server.workers();
        let targets = [
            "/b06/before",
            "/b06/within",
            "/b08/word",
            "/b08/two",
            "/b08/both",
            "/b09/status",
            "/b09/line",
            "/b09/version",
            "/b10/100",
            "/b10/101",
            "/b12/cr",
            "/b12/lf",
            "/b12/colon",
            "/b16",
        ];
        for target in targets {
            assert_eq!(server.get(target).status, 502, "{tongue:?} {target}");
        }
        assert_eq!(server.get("/b05").status, 504);
        assert_eq!(server.get("/").must_be(&[200]).text(), "fine");
        server.must_be_well(&workers, "hostile backend");
    }
}

/// Once the answer has begun, only the end of the connection can tell.
#[test]
fn b06_b07_an_answer_that_is_cut_is_seen_to_be_by_whoever_has_its_beginning() {
    for tongue in BOTH {
        let answer = |told: &Told| {
            let head = match told.path() {
                "/length" => "Content-Length: 300000\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n",
            };
            vec![Step::Send([head.as_bytes(), &[b'x'; 100_000]].concat()), Step::Pause(Duration::from_millis(300)), Step::Close]
        };
        let (backend, root) = (PlainBackend::new(tongue, answer), Root::new());
        let server = service(&backend, &root, "buffer = 0");
        for target in ["/length", "/chunks"] {
            let mut client = server.connect();
            client.send(request("GET", target, &[]));
            // Where it had not begun, because this machine was slow, it is told.
            assert!(client.try_response("GET").map_or(true, |response| response.status == 502), "{tongue:?} {target}");
        }
    }
}

#[test]
fn large_bodies_are_byte_exact_both_ways() {
    for tongue in BOTH {
        let answer = |told: &Told| {
            let mut bytes = b"Content-Type: application/octet-stream\r\n\r\n".to_vec();
            bytes.extend_from_slice(&told.body);
            send(bytes)
        };
        let (backend, root) = (PlainBackend::new(tongue, answer), Root::new());
        let server = service(&backend, &root, "");
        let body = pattern(10_000_000);
        let mut client = server.connect();
        client.send(request("POST", "/", &[&format!("Content-Length: {}", body.len())])).send(&body);
        assert!(client.response("POST").must_be(&[200]).body == body, "{tongue:?}");
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
        assert_eq!(client.response("POST").must_be(&[200]).text(), "hello world", "{tongue:?}");
    }
}

#[test]
fn c14_a_client_that_leaves_ends_the_connection_to_the_backend() {
    for tongue in BOTH {
        let (backend, root) = (PlainBackend::new(tongue, |_| vec![Step::Wait]), Root::new());
        let server = service(&backend, &root, "");
        let mut client = server.connect();
        client.send(request("GET", "/", &[]));
        assert!(wait_until(PATIENCE, || backend.told.lock().unwrap().len() == 1).is_some());
        drop(client);
        assert!(wait_until(PATIENCE, || backend.told.lock().unwrap()[0].gone).is_some(), "{tongue:?}");
    }
}

/// An SCGI server as one writes it in Python, which accepts at its standard input.
const SCGI_IN_PYTHON: &str = r#"
import socket
listener = socket.socket(fileno=0)
while True:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        length = b""
        while not length.endswith(b":"):
            length += stream.read(1)
        texts = stream.read(int(length[:-1])).split(b"\0")
        assert stream.read(1) == b","
        environ = dict(zip(texts[::2], texts[1::2]))
        body = stream.read(int(environ[b"CONTENT_LENGTH"]))
        stream.write(b"Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        stream.write(environ[b"REQUEST_METHOD"] + b" " + environ[b"PATH_INFO"] + b" " + body)
        stream.flush()
"#;

fn spawned(root: &Root, socket: &Path, kind: &str, command: &[&str]) -> Server {
    let table = format!(
        "\n[backend.app]\ntype = \"{kind}\"\naddress = [\"unix:{}\"]\n[backend.app.spawn]\nuser = \"www-data\"\ncommand = {command:?}\n",
        socket.display()
    );
    std::fs::set_permissions(socket.parent().unwrap(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = Server::run(&Configuration::of(&root.path()).backend(&table).rule("path = \"/app/*\"\nbackend = \"app\""));
    assert!(wait_until(PATIENCE, || server.get("/app/x").status == 200).is_some(), "nobody listens");
    server
}

fn answers(server: &Server) {
    let mut client = server.connect();
    client.send(request("GET", "/app/x", &[]));
    assert_eq!(client.response("GET").must_be(&[200]).text(), "GET /x ");
    client.send(request("POST", "/app/y%20z", &["Content-Length: 5"])).send("hello");
    assert_eq!(client.response("POST").must_be(&[200]).text(), "POST /y z hello");
    client.send("POST /app/c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(client.response("POST").must_be(&[200]).text(), "POST /c abc");
}

#[test]
fn a_python_program_that_is_started_answers_by_scgi() {
    needs_root!();
    let (root, run) = (Root::new(), tempfile::tempdir().unwrap());
    let server = spawned(&root, &run.path().join("s"), "scgi", &["/usr/bin/python3", "-c", SCGI_IN_PYTHON]);
    answers(&server);
}

/// A WSGI application, as Django and Flask are.
const WSGI: &str = r#"
def application(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["REQUEST_METHOD"].encode(), b" ", environ["PATH_INFO"].encode(), b" ", body]
"#;

#[test]
fn uwsgi_of_debian_runs_a_wsgi_application() {
    needs_root!();
    if !Path::new("/usr/bin/uwsgi-core").exists() {
        eprintln!("skipped: this case needs uwsgi-core and uwsgi-plugin-python3");
        return;
    }
    let (root, run) = (Root::new(), tempfile::tempdir().unwrap());
    let application = run.path().join("application.py");
    std::fs::write(&application, WSGI).unwrap();
    let file = application.to_str().unwrap();
    let command = ["/usr/bin/uwsgi-core", "--plugin", "python3", "--protocol", "uwsgi", "--wsgi-file", file, "--master", "--die-on-term"];
    let server = spawned(&root, &run.path().join("s"), "uwsgi", &command);
    answers(&server);
}
