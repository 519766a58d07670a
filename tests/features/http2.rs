//! HTTP/2 without TLS, as clients of it see it: `curl`, `nghttp` and `h2load`, and frames by hand where those are too well-behaved.

use crate::fastcgi::{FakeBackend, Step, answer};
use crate::http2_frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, RawHttp2, SETTINGS, WINDOW_UPDATE, asks, frame,
};
use crate::plain::{PlainBackend, Told, Tongue};
use crate::support::{AccessLine, Configuration, PATIENCE, Root, Server, pattern, status_field, wait_until};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ENHANCE_YOUR_CALM: u32 = 11;
const PROTOCOL_ERROR: u32 = 1;

fn configuration(root: &Root) -> Configuration {
    Configuration::of(&root.path()).server_also("http2_cleartext = true\nworkers = 1")
}

fn curl(server: &Server, version: &str, path: &str, arguments: &[&str]) -> Vec<u8> {
    let url = format!("http://{}{path}", server.address());
    let output = Command::new("curl").args(["-s", "--max-time", "60", "--path-as-is", version, &url]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{path} {arguments:?}: {}", output.status);
    output.stdout
}

fn over_http2(server: &Server, path: &str, arguments: &[&str]) -> Vec<u8> {
    curl(server, "--http2-prior-knowledge", path, arguments)
}

/// Status, fields in lower case without those that may differ, and content.
fn parts(response: &[u8]) -> (String, Vec<String>, Vec<u8>) {
    let at = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(response[..at].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let mut fields: Vec<String> = lines
        .map(|line| line.split_once(':').map(|(name, value)| format!("{}:{value}", name.to_lowercase())).unwrap())
        .filter(|line| !["date:", "connection:", "transfer-encoding:"].iter().any(|name| line.starts_with(name)))
        .collect();
    fields.sort();
    (status, fields, response[at + 4..].to_vec())
}

fn access_lines(server: &Server, count: usize) -> Vec<AccessLine> {
    server.wait_for_lines("access.log", count).iter().map(|line| AccessLine::parse(line.as_bytes()).unwrap()).collect()
}

#[test]
fn everything_is_answered_as_in_http1() {
    let root = Root::with_index();
    root.file("small.txt", "0123456789".repeat(100));
    root.file("large.bin", pattern(3_000_000));
    root.file("text.html", "<p>text</p>".repeat(50_000));
    root.directory("list");
    root.file("list/a", "x");
    let configuration = configuration(&root)
        .site_also("listing = true\ncompress = [\"gzip\"]\nerror_pages = { 404 = \"/text.html\" }")
        .rule("path = \"/header\"\nheader = { X-Mine = \"1\" }\nrespond = 200\nrespond_body = \"hello\"")
        .rule("path = \"/away\"\nredirect = \"/there\"");
    let server = Server::run(&configuration);
    let cases: [(&str, &[&str]); 17] = [
        ("/", &[]),
        ("/small.txt", &[]),
        ("/small.txt", &["-I"]),
        ("/small.txt", &["-r", "5-9"]),
        ("/small.txt", &["-r", "5-9,20-29"]),
        ("/small.txt", &["-r", "5000-"]),
        ("/small.txt", &["-H", "If-None-Match: *"]),
        ("/small.txt", &["-H", "If-Match: \"x\""]),
        ("/large.bin", &[]),
        ("/large.bin", &["-r", "1000000-1999999"]),
        ("/text.html", &["-H", "Accept-Encoding: gzip"]),
        ("/list", &[]),
        ("/list/", &[]),
        ("/header", &[]),
        ("/away", &[]),
        ("/small.txt", &["-d", "content"]),
        ("/nothing", &[]),
    ];
    for (path, arguments) in cases {
        let arguments = [&["-i"][..], arguments].concat();
        // What is made of a file is kept, and then has a length.
        curl(&server, "--http1.1", path, &arguments);
        let mut first = parts(&curl(&server, "--http1.1", path, &arguments));
        let mut second = parts(&over_http2(&server, path, &arguments));
        // The boundaries between parts are drawn.
        for (_, fields, content) in [&mut first, &mut second] {
            if fields.iter().any(|field| field.starts_with("content-type: multipart")) {
                fields.retain(|field| !field.starts_with("content-type"));
                *content = content.len().to_string().into_bytes();
            }
        }
        assert_eq!((&first.0, &first.1), (&second.0, &second.1), "{path} {arguments:?}");
        assert!(first.2 == second.2, "{path} {arguments:?}: the content differs");
    }
    let lines = access_lines(&server, cases.len() * 3);
    assert_eq!(lines.len(), cases.len() * 3);
    for pair in lines.chunks(3).map(|lines| &lines[1..]) {
        assert_eq!(pair[0].request.replace("HTTP/1.1", "HTTP/2.0"), pair[1].request);
        assert_eq!((pair[0].status, pair[0].bytes), (pair[1].status, pair[1].bytes), "{}", pair[0].request);
    }
}

#[test]
fn it_is_not_spoken_unless_the_configuration_says_so() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let response = server.exchange("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI");
    assert_eq!(response.status, 505);
    // With it, other methods with such a beginning are what they were.
    let server = Server::run(&configuration(&root));
    for (text, status) in [
        ("PRI * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        ("P / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 501),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ] {
        assert_eq!(server.exchange(text, "GET").status, status, "{text:?}");
    }
    // Byte by byte.
    let mut client = RawHttp2 { socket: std::net::TcpStream::connect(server.address()).unwrap(), unread: Vec::new() };
    client.socket.set_nodelay(true).unwrap();
    for byte in [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, b"")[..]].concat() {
        assert!(client.send(&[byte]));
        std::thread::sleep(Duration::from_millis(2));
    }
    client.get(1, "/");
    assert!(client.until(PATIENCE, |frame| frame.kind == DATA).is_ok());
}

/// FastCGI and HTTP behind it, content with and without a length both ways.
#[test]
fn ur_049_ur_145_backends_hear_and_say_all_of_it() {
    let (root, sent) = (Root::new(), pattern(20 << 20));
    let file = root.base().join("sent");
    std::fs::write(&file, &sent).unwrap();
    let http = PlainBackend::new(Tongue::Http, |told: &Told| {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Length: {:?}\r\n\r\n", told.body.len(), told.value("Content-Length"));
        vec![Step::Send([head.as_bytes(), &told.body].concat())]
    });
    let fastcgi = FakeBackend::new(|seen| {
        let said = ["SERVER_PROTOCOL", "HTTP_COOKIE", "REQUEST_METHOD", "CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING", "HTTP_HOST"];
        let said: Vec<String> = said.iter().map(|name| format!("{name}={}", seen.value(name).unwrap_or("-"))).collect();
        answer(format!("Content-Type: text/plain\r\n\r\n{} {}", said.join(" "), seen.body.len()))
    });
    let configuration = configuration(&root)
        .limits("body = \"64MiB\"")
        .backend(&http.table(""))
        .backend(&fastcgi.table("").replace("backend.fake", "backend.other"))
        .rule("path = \"/http\"\nbackend = \"fake\"")
        .rule("path = \"/fastcgi/*\"\nbackend = \"other\"");
    let server = Server::run(&configuration);
    let upload = format!("@{}", file.display());
    for arguments in [&["--data-binary", &upload][..], &["-T", &file.display().to_string()]] {
        assert!(over_http2(&server, "/http", arguments) == sent, "{arguments:?}");
    }
    // From a pipe: no length.
    let command = format!("cat {} | curl -s --http2-prior-knowledge -T - http://{}/http", file.display(), server.address());
    assert!(Command::new("sh").args(["-c", &command]).output().unwrap().stdout == sent);
    let text = over_http2(&server, "/fastcgi/x", &["-H", "cookie: a=1", "-H", "cookie: b=2", "-d", "12345"]);
    let expected = format!(
        "SERVER_PROTOCOL=HTTP/2.0 HTTP_COOKIE=a=1; b=2 REQUEST_METHOD=POST CONTENT_LENGTH=5 HTTP_TRANSFER_ENCODING=- HTTP_HOST={} 5",
        server.address()
    );
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[test]
fn ur_074_events_come_one_by_one() {
    let root = Root::new();
    let backend = PlainBackend::new(Tongue::Http, |_told: &Told| {
        let event = |number: u8| Step::Send(format!("8\r\ndata: {number}\n\r\n").into_bytes());
        let mut steps =
            vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec())];
        for number in 1..=3 {
            steps.extend([event(number), Step::Pause(Duration::from_millis(1500))]);
        }
        steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
        steps
    });
    let server = Server::run(&configuration(&root).backend(&backend.table("")).rule("backend = \"fake\""));
    let url = format!("http://{}/", server.address());
    // Two streams of one connection.
    let mut curl = Command::new("curl")
        .args(["-sN", "--http2-prior-knowledge", "--parallel", "--parallel-immediate", &format!("{url}a"), &format!("{url}b")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (begun, mut lines) = (Instant::now(), BufReader::new(curl.stdout.take().unwrap()).lines());
    for (number, latest) in [(1, 1400), (1, 1400), (2, 2900), (2, 2900), (3, 4400), (3, 4400)] {
        assert_eq!(lines.next().unwrap().unwrap(), format!("data: {number}"));
        assert!(begun.elapsed() < Duration::from_millis(latest), "event {number} after {:?}", begun.elapsed());
    }
    assert!(curl.wait().unwrap().success());
}

#[test]
fn ur_143_fields_about_a_connection_are_not_passed_on() {
    let root = Root::new();
    let backend = PlainBackend::new(Tongue::Http, |_told: &Told| {
        let head = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\nX-Test: 1\r\n";
        vec![Step::Send(format!("{head}Set-Cookie: a\r\nSet-Cookie: b\r\n\r\n1\r\nx\r\n0\r\n\r\n").into_bytes())]
    });
    let server = Server::run(&configuration(&root).backend(&backend.table("")).rule("backend = \"fake\""));
    let text = String::from_utf8(over_http2(&server, "/", &["-i"])).unwrap();
    for absent in ["connection", "keep-alive", "transfer-encoding"] {
        assert!(!text.to_lowercase().contains(absent), "{text}");
    }
    assert!(text.contains("\r\nx-test: 1\r\nset-cookie: a\r\nset-cookie: b\r\n") && text.ends_with("\r\n\r\nx"), "{text}");
}

/// What cannot be a request is reset, and no backend hears of it; the connection goes on.
#[test]
fn w12_w13_w14_w15_what_is_malformed_reaches_nobody() {
    let root = Root::new();
    let backend = PlainBackend::new(Tongue::Http, |told: &Told| {
        vec![Step::Send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", told.line.len(), told.line).into_bytes())]
    });
    let server = Server::run(&configuration(&root).backend(&backend.table("")).rule("backend = \"fake\""));
    let get = |more: &[(&str, &str)]| asks("GET", "/bad", more);
    for block in [
        get(&[("connection", "close")]),
        get(&[("transfer-encoding", "chunked")]),
        get(&[("upgrade", "h2c")]),
        get(&[("te", "gzip")]),
        get(&[("host", "b")]),
        get(&[("x", " y")]),
        get(&[("x", "y ")]),
        get(&[(":path", "/again")]),
        get(&[(":unknown", "x")]),
        get(&[("x", "a\r\nb: c")]),
        get(&[("x", "a\0")]),
        get(&[("X", "y")]),
        get(&[("content-length", "1")]),
        asks("GET", "http://a/bad", &[]),
        asks("GET", "*", &[]),
        asks("GET", "", &[]),
        asks("GET", "/bad bad", &[]),
    ] {
        let mut client = RawHttp2::connect(server.address(), &[]);
        client.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &block));
        let is_refused = |frame: &Frame| {
            let is_4xx = frame.kind == HEADERS && frame.payload.windows(3).any(|text| text == b"400");
            ((frame.kind == RST_STREAM || frame.kind == GOAWAY) && frame.code() == PROTOCOL_ERROR)
                || (frame.kind == GOAWAY && frame.code() == 9)
                || is_4xx
                || (frame.kind == HEADERS && frame.payload.first() == Some(&0x8c))
        };
        assert!(client.until(PATIENCE, is_refused).is_ok(), "{}", block.escape_ascii());
    }
    // Content of another length than was said: the backend never sees the end of it.
    for content in [&b"123"[..], b"123456"] {
        let mut client = RawHttp2::connect(server.address(), &[]);
        client.send(&frame(HEADERS, END_HEADERS, 1, &asks("POST", "/bad", &[("content-length", "5")])));
        client.send(&frame(DATA, END_STREAM, 1, content));
        let is_reset = |frame: &Frame| frame.kind == RST_STREAM && frame.code() == PROTOCOL_ERROR;
        assert!(client.until(PATIENCE, is_reset).is_ok(), "{content:?}");
    }
    assert_eq!(over_http2(&server, "/good", &[]), b"GET /good HTTP/1.1");
    let told = backend.told.lock().unwrap();
    assert_eq!(told.iter().map(Told::path).collect::<Vec<_>>(), ["/good"]);
}

#[test]
fn w01_w04_ur_146_floods_end_the_connection_and_are_told_once() {
    let root = Root::with_index();
    let floods: [(&str, Vec<u8>); 6] = [
        (
            "resets",
            (0..5_000)
                .flat_map(|n| {
                    [frame(HEADERS, 5, 2 * n + 1, &asks("GET", "/", &[])), frame(RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8])].concat()
                })
                .collect(),
        ),
        ("pings", frame(6, 0, 0, b"12345678").repeat(5_000)),
        ("settings", frame(SETTINGS, 0, 0, b"").repeat(5_000)),
        ("priorities", frame(2, 0, 1, &[0, 0, 0, 0, 16]).repeat(5_000)),
        ("unknown frames", frame(77, 0, 0, b"").repeat(5_000)),
        ("empty data", [frame(HEADERS, END_HEADERS, 1, &asks("POST", "/", &[])), frame(DATA, 0, 1, b"").repeat(5_000)].concat()),
    ];
    for (name, flood) in floods {
        let server = Server::run(&configuration(&root));
        let mut client = RawHttp2::connect(server.address(), &[]);
        for part in flood.chunks(16 * 1024) {
            if !client.send(part) {
                break;
            }
        }
        let calms = |frame: &Frame| frame.kind == GOAWAY && frame.code() == ENHANCE_YOUR_CALM;
        assert!(client.until(PATIENCE, calms).is_ok(), "{name}");
        assert!(client.until(PATIENCE, |_| false).is_err(), "{name}: the connection ends");
        let lines = server.wait_for_lines("error.log", 2);
        let told = lines.iter().filter(|line| line.contains("client 127.0.0.1: more frames")).count();
        assert_eq!(told, 1, "{name}: {lines:?}");
        // Nobody else is the worse for it.
        assert_eq!(over_http2(&server, "/", &["-o", "/dev/null", "-w", "%{http_code}"]), b"200");
    }
    // Who cancels many of many is no flood.
    let server = Server::run(&configuration(&root));
    let mut client = RawHttp2::connect(server.address(), &[]);
    for number in 0..200 {
        client.get(2 * number + 1, "/");
        if number % 2 == 0 {
            client.send(&frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(client.until(PATIENCE, |frame| frame.stream == 399 && frame.flags & END_STREAM != 0).is_ok());
}

/// Windows of 65,535 bytes, twenty streams: all is complete. One that is not read does not hold up the others, and ends when its time is over.
#[test]
fn w06_ur_145_a_stopped_stream_stops_no_other() {
    let root = Root::with_index();
    root.file("large", pattern(5 << 20));
    let server = Server::run(&configuration(&root).limits("write_timeout = \"3s\""));
    let load = ["-n40", "-c2", "-m20", "-w16", "-W16", &format!("http://{}/large", server.address())].map(str::to_owned);
    let told = Command::new("h2load").args(load).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("40 succeeded, 0 failed"), "{told}");
    // No window on any stream, as long as it takes; one is opened.
    let mut client = RawHttp2::connect(server.address(), &[(4, 0)]);
    for number in 0..100 {
        client.get(2 * number + 1, "/large");
    }
    client.get(201, "/");
    client.send(&frame(WINDOW_UPDATE, 0, 201, &[0, 0, 4, 0]));
    assert!(client.until(PATIENCE, |frame| frame.stream == 201 && frame.flags & END_STREAM != 0).is_ok());
    let worker = server.workers()[0];
    let memory = || status_field(worker, "VmRSS").split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(memory() < 100_000, "{} kB", memory());
    let mut reset = 0;
    let is_last = |frame: &Frame| {
        reset += usize::from(frame.kind == RST_STREAM);
        reset == 100
    };
    assert!(client.until(PATIENCE, is_last).is_ok(), "{reset} streams were reset");
    // The connection stays.
    client.get(203, "/");
    client.send(&frame(WINDOW_UPDATE, 0, 203, &[0, 0, 4, 0]));
    assert!(client.until(PATIENCE, |frame| frame.stream == 203 && frame.flags & END_STREAM != 0).is_ok());
}

/// A client that takes nothing from its socket at all.
#[test]
fn s14_a_client_that_reads_nothing_holds_little_and_is_let_go() {
    let root = Root::with_index();
    root.file("large", pattern(64 << 20));
    let server = Server::run(&configuration(&root).limits("write_timeout = \"3s\""));
    let worker = server.workers()[0];
    let memory = || status_field(worker, "VmRSS").split(' ').next().unwrap().parse::<u64>().unwrap();
    let before = memory();
    let mut client = RawHttp2::connect(server.address(), &[(4, 0x7fff_ffff)]);
    client.send(&frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]));
    for number in 0..100 {
        client.get(2 * number + 1, "/large");
    }
    std::thread::sleep(Duration::from_secs(1));
    assert!(memory() < before + 8_000, "{before} kB grew to {} kB", memory());
    let lines = access_lines(&server, 100);
    assert!(lines.len() == 100 && lines.iter().all(|line| line.bytes < 64 << 20), "{} were cut off", lines.len());
}

/// Asks so often, sixteen requests at a time; what the server says that it did not look at is asked for again on another connection.
fn ask_many(address: std::net::SocketAddr, mut left: usize) -> usize {
    let mut connections = 0;
    while left > 0 {
        connections += 1;
        let mut client = RawHttp2::connect(address, &[]);
        let (mut next, mut last, mut pending) = (1, None::<u32>, std::collections::BTreeSet::new());
        loop {
            while last.is_none() && pending.len() < 16.min(left) {
                client.get(next, "/");
                pending.insert(next);
                next += 2;
            }
            if pending.is_empty() {
                break;
            }
            let frame = client.next(PATIENCE).unwrap_or_else(|| panic!("{pending:?} of {next} were lost, {last:?}"));
            assert!(frame.kind != RST_STREAM, "{frame:?}");
            if frame.kind == GOAWAY {
                let until = u32::from_be_bytes(frame.payload[..4].try_into().unwrap());
                pending.retain(|stream| *stream <= until);
                last = Some(until);
            } else if frame.stream != 0 && frame.flags & END_STREAM != 0 && pending.remove(&frame.stream) {
                left -= 1;
            }
        }
    }
    connections
}

#[test]
fn a_reload_and_a_limit_of_requests_lose_none() {
    let root = Root::with_index();
    let server = Server::run(&configuration(&root).limits("keepalive_requests = 300"));
    let address = server.address();
    let asking: Vec<_> = (0..4).map(|_| std::thread::spawn(move || ask_many(address, 1_500))).collect();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(150));
        server.order(&["reload"]).must_be_done();
    }
    let connections: usize = asking.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(connections >= 20, "{connections} connections: no limit was met");
    // What was under way when it began goes on; the client is told to ask elsewhere next time.
    root.sparse("huge", 200 << 20);
    let mut client = RawHttp2::connect(server.address(), &[]);
    client.get(1, "/huge");
    assert!(client.until(PATIENCE, |frame| frame.kind == DATA).is_ok());
    server.order(&["reload"]).must_be_done();
    assert_eq!(client.until(PATIENCE, |frame| frame.kind == GOAWAY).unwrap().code(), 0);
    client.send(&frame(WINDOW_UPDATE, 0, 1, &[0, 1, 0, 0]));
    client.send(&frame(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]));
    assert!(client.until(PATIENCE, |frame| frame.kind == DATA).is_ok());
}

/// A request whose client goes away costs its backend nothing more, and leaves nothing behind.
#[test]
fn c14_a_reset_ends_the_request_at_its_backend() {
    let root = Root::new();
    let backend = FakeBackend::new(|_seen| vec![Step::Wait]);
    let server = Server::run(&configuration(&root).backend(&backend.table("")).rule("backend = \"fake\""));
    let mut client = RawHttp2::connect(server.address(), &[]);
    client.get(1, "/x");
    assert!(wait_until(PATIENCE, || backend.seen.lock().unwrap().len() == 1).is_some());
    client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    assert!(wait_until(PATIENCE, || backend.seen.lock().unwrap()[0].gone).is_some());
    // And with the whole connection.
    client.get(3, "/y");
    assert!(wait_until(PATIENCE, || backend.seen.lock().unwrap().len() == 2).is_some());
    drop(client);
    assert!(wait_until(PATIENCE, || backend.seen.lock().unwrap()[1].gone).is_some());
}

/// A client that never reads, and sends more than is taken of such a one: the worker waits for it, and does nothing meanwhile.
#[test]
fn w04_a_client_that_asks_and_does_not_listen_costs_no_time() {
    let root = Root::with_index();
    let server = Server::run(&configuration(&root).limits("write_timeout = \"4s\""));
    let worker = server.workers()[0];
    let ticks = || {
        let text = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
        let fields: Vec<u64> = text.rsplit(')').next().unwrap().split(' ').skip(12).take(2).map(|field| field.parse().unwrap()).collect();
        fields[0] + fields[1]
    };
    root.file("large", pattern(64 << 20));
    let mut client = RawHttp2::connect(server.address(), &[(4, 0x7fff_ffff)]);
    client.send(&frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]));
    for number in 0..50 {
        client.get(2 * number + 1, "/large");
    }
    std::thread::sleep(Duration::from_millis(500));
    // Its answer finds no room, and behind it comes more than is kept.
    client.send(&[frame(6, 0, 0, b"12345678").repeat(2), frame(HEADERS, END_HEADERS, 101, &asks("POST", "/", &[]))].concat());
    client.send(&frame(DATA, 0, 101, &[b'x'; 16_000]).repeat(60));
    std::thread::sleep(Duration::from_millis(500));
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    assert!(ticks() - before < 50, "{} ticks of 200", ticks() - before);
    assert_eq!(over_http2(&server, "/", &["-o", "/dev/null", "-w", "%{http_code}"]), b"200");
}

#[test]
fn idle_connections_are_told_and_closed() {
    let root = Root::with_index();
    let server = Server::run(&configuration(&root).limits("keepalive_timeout = \"1s\"\nheader_timeout = \"2s\""));
    let mut client = RawHttp2::connect(server.address(), &[]);
    client.get(1, "/");
    assert!(client.until(PATIENCE, |frame| frame.flags & END_STREAM != 0 && frame.stream == 1).is_ok());
    assert_eq!(client.until(PATIENCE, |frame| frame.kind == GOAWAY).unwrap().code(), 0);
    // A preface and then nothing.
    let mut silent = RawHttp2::connect(server.address(), &[]);
    let begun = Instant::now();
    while silent.next(PATIENCE).is_some() {}
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// RFC 9113, 8.1: trailers are read and dropped, and what they end is whole.
#[test]
fn trailers_end_a_request_and_reach_nobody() {
    let root = Root::new();
    let backend = PlainBackend::new(Tongue::Http, |told: &Told| {
        vec![Step::Send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", told.line.len(), told.line).into_bytes())]
    });
    let server = Server::run(&configuration(&root).backend(&backend.table("")).rule("backend = \"fake\""));
    let mut client = RawHttp2::connect(server.address(), &[]);
    client.send(&frame(HEADERS, END_HEADERS, 1, &asks("POST", "/", &[("trailer", "x-sum"), ("content-length", "7")])));
    client.send(&frame(DATA, 0, 1, b"content"));
    client.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &crate::http2_frames::block(&[("x-sum", "secret")])));
    assert!(client.until(PATIENCE, |frame| frame.stream == 1 && frame.kind == HEADERS && frame.payload.contains(&0x88)).is_ok());
    let told = backend.told.lock().unwrap();
    assert_eq!((told.len(), told[0].body.as_slice(), told[0].value("x-sum")), (1, &b"content"[..], None));
    assert!(!told[0].opening.windows(6).any(|window| window == b"secret"));
}
