//! What users reported of programs behind servers of this kind, by the numbers of `user_reports.md`; and the cases `B21`, `C08`, `C12`.

use crate::fastcgi::{FakeBackend, Seen, Step, answer, end, record, stdout};
use crate::support::{Client, Configuration, PATIENCE, Root, Server, pattern, request, wait_until};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// What the backend was told, a line for each parameter.
fn told(seen: &Seen) -> Vec<Step> {
    let lines: String = seen.parameters.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    answer(format!("Content-Type: text/plain\r\n\r\n{lines}"))
}

/// Everything goes to a backend that answers so.
fn service(answer: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static, lines: &str) -> (FakeBackend, Root, Server) {
    let (backend, root) = (FakeBackend::new(answer), Root::new());
    let server = Server::run(&Configuration::of(&root.path()).backend(&backend.table(lines)).rule("backend = \"fake\""));
    (backend, root, server)
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|have| have == line), "{line}: {text}");
}

#[test]
fn ur_001_scripts_of_several_sites_in_one_jail_are_named_by_one_rule() {
    let (backend, root) = (FakeBackend::new(told), Root::new());
    let mut configuration = Configuration::new().backend(&backend.table(""));
    for name in ["a", "b", "c", "d"] {
        root.file(format!("{name}/t.php"), "<?php");
        let rule = "path = \"*.php\"\nbackend = \"fake\"";
        configuration = configuration.site(&root.at(name), &format!("name = [\"{name}.test\"]")).rule(rule);
    }
    let server = Server::run(&configuration);
    for name in ["a", "b", "c", "d"] {
        let text =
            server.exchange(format!("GET /t.php HTTP/1.1\r\nHost: {name}.test\r\nConnection: close\r\n\r\n"), "GET").must_be(&[200]).text();
        let directory = root.at(name).canonicalize().unwrap();
        has(&text, &format!("SCRIPT_FILENAME={}/t.php", directory.display()));
        has(&text, &format!("DOCUMENT_ROOT={}", directory.display()));
    }
}

#[test]
fn ur_040_a_rewritten_request_names_the_script_alone() {
    let (backend, root) = (FakeBackend::new(told), Root::new());
    root.file("index.php", "<?php");
    let configuration = Configuration::of(&root.path())
        .backend(&backend.table(""))
        .rule("path = \"/p/*\"\nrewrite = \"/index.php?q={1}&{query}\"")
        .rule("path = \"*.php\"\nbackend = \"fake\"");
    let text = Server::run(&configuration).get("/p/a?b=c").must_be(&[200]).text();
    has(&text, &format!("SCRIPT_FILENAME={}/index.php", root.path().canonicalize().unwrap().display()));
    has(&text, "QUERY_STRING=q=a&b=c");
    has(&text, "REQUEST_URI=/p/a?b=c");
}

#[test]
fn ur_046_ur_047_each_answer_is_that_of_its_own_request() {
    let answer_slowly = |seen: &Seen| {
        let text = seen.value("QUERY_STRING").unwrap_or_default().to_owned();
        vec![
            Step::Send(stdout("Content-Type: text/plain\r\n\r\n")),
            Step::Pause(Duration::from_millis(5)),
            Step::Send([stdout(&text), record(6, 1, b""), end(0)].concat()),
        ]
    };
    let (_backend, _root, server) = service(answer_slowly, "keep = 16\nkeep_idle = \"10s\"");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for number in 0..25 {
                    // Longer and shorter ones in turn; every tenth client leaves.
                    let token = format!("{thread}-{number}-{}", "x".repeat(number * 7 % 200));
                    let mut client = server.connect();
                    client.send(request("GET", format!("/?{token}"), &[]));
                    if number % 10 == 9 {
                        std::thread::sleep(Duration::from_millis(2));
                        continue;
                    }
                    assert_eq!(client.response("GET").must_be(&[200]).text(), token);
                }
            });
        }
    });
}

#[test]
fn ur_052_ur_053_the_length_that_a_backend_tells_is_kept() {
    let lengths = |seen: &Seen| match seen.path() {
        "/head" => answer("Content-Type: text/plain\r\nContent-Length: 1771\r\n\r\n"),
        "/long" => answer("Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello, you"),
        _ => answer("Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"),
    };
    let (_backend, _root, server) = service(lengths, "");
    let mut client = server.connect();
    for (method, target, length, text) in
        [("GET", "/x", 5, "hello"), ("HEAD", "/head", 1771, ""), ("GET", "/long", 5, "hello"), ("GET", "/x", 5, "hello")]
    {
        client.send(request(method, target, &[]));
        let response = client.response(method).must_be(&[200]);
        assert_eq!((response.length(), response.text().as_str()), (length, text), "{target}");
        assert_eq!((response.field("Cache-Control"), response.field("Pragma")), (None, None));
    }
}

#[test]
fn ur_056_what_is_said_on_the_error_stream_is_in_the_error_log_alone() {
    let failing = |_: &Seen| {
        let complaint = record(7, 1, b"Primary script\x1b[31m unknown\n");
        vec![Step::Send(
            [complaint, stdout("Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\npage"), record(6, 1, b""), end(0)].concat(),
        )]
    };
    let (_backend, _root, server) = service(failing, "");
    assert_eq!(server.get("/x").must_be(&[404]).text(), "page");
    let log = || std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default();
    assert!(
        wait_until(PATIENCE, || log().contains("backend \"fake\"") && log().contains("Primary script\\x1B[31m unknown")).is_some(),
        "{}",
        log()
    );
}

#[test]
fn ur_064_ur_065_answers_of_any_size_and_padding_are_exact() {
    let padded = |seen: &Seen| {
        let size: usize = seen.value("QUERY_STRING").unwrap().parse().unwrap();
        let mut bytes = stdout("Content-Type: application/octet-stream\r\n\r\n");
        for (number, part) in pattern(size).chunks(31_592).enumerate() {
            let padding = u8::try_from(number * 85 % 256).unwrap();
            let [high, low] = u16::try_from(part.len()).unwrap().to_be_bytes();
            bytes.extend([1, 6, 0, 1, high, low, padding, 0]);
            bytes.extend_from_slice(part);
            bytes.extend(vec![0xAA; usize::from(padding)]);
        }
        bytes.extend([record(6, 1, b""), end(0)].concat());
        // The end comes with the close.
        vec![Step::Send(bytes), Step::Close]
    };
    let (_backend, _root, server) = service(padded, "keep = 0");
    let mut client = server.connect();
    for size in [0, 1, 31_592, 65_535, 65_536, 65_537, 223_000, 1_000_000, 1_000_000, 1_000_000] {
        client.send(request("GET", format!("/?{size}"), &[]));
        assert!(client.response("GET").must_be(&[200]).body == pattern(size), "{size}");
    }
}

#[test]
fn ur_076_nothing_is_not_compressed() {
    let (_backend, _root, server) = service(|_| answer("Status: 302\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"), "");
    let mut client = server.connect();
    for _ in 0..2 {
        client.send(request("GET", "/x", &["Accept-Encoding: gzip"]));
        let response = client.response("GET").must_be(&[302]);
        assert_eq!((response.field("Content-Encoding"), response.length(), response.field("Location")), (None, 0, Some("/there")));
    }
}

#[test]
fn b21_descriptors_that_a_backend_sends_are_not_taken() {
    let generous = |_: &Seen| {
        let whole = [stdout("Content-Type: text/plain\r\n\r\nfine"), record(6, 1, b""), end(0)].concat();
        vec![Step::SendWith(whole, 100)]
    };
    let (_backend, _root, server) = service(generous, "keep_idle = \"10s\"");
    server.get("/x").must_be(&[200]);
    let workers = server.workers();
    let held = || workers.iter().map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()).sum::<usize>();
    let before = held();
    for _ in 0..20 {
        assert_eq!(server.get("/x").must_be(&[200]).text(), "fine");
    }
    assert!(held() < before + 100, "{} and then {}", before, held());
    assert_eq!(server.workers(), workers);
}

#[test]
fn c08_ranges_and_conditions_are_the_scripts_to_heed() {
    let (backend, root) = (FakeBackend::new(told), Root::new());
    root.file("a.php", "<?php echo 'source';");
    let rule = "path = \"*.php\"\nbackend = \"fake\"";
    let server = Server::run(&Configuration::of(&root.path()).backend(&backend.table("")).rule(rule));
    for field in ["Range: bytes=0-3", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", "If-None-Match: *", "If-Match: \"x\""] {
        let response = server.ask("GET", "/a.php", &[field]).must_be(&[200]);
        let (name, value) = field.split_once(": ").unwrap();
        has(&response.text(), &format!("HTTP_{}={value}", name.to_uppercase().replace('-', "_")));
        assert_eq!((response.field("Content-Range"), response.field("ETag")), (None, None), "{field}");
    }
}

#[test]
fn c12_parameters_of_every_length_arrive_and_those_beyond_the_limit_are_431() {
    let (backend, root) = (FakeBackend::new(told), Root::new());
    let configuration =
        Configuration::of(&root.path()).limits("header_bytes = \"256KiB\"").backend(&backend.table("")).rule("backend = \"fake\"");
    let server = Server::run(&configuration);
    // With "HTTP_" and "=", names of 127 and 128 bytes.
    for (name, value) in [
        ("a".repeat(122), 127),
        ("a".repeat(123), 128),
        ("b".repeat(300), 1),
        ("c".repeat(5), 65_535),
        ("c".repeat(5), 65_536),
        ("c".repeat(5), 200_000),
    ] {
        let field = format!("{name}: {}", "v".repeat(value));
        let text = server.ask("GET", "/x", &[&field]).must_be(&[200]).text();
        has(&text, &format!("HTTP_{}={}", name.to_uppercase(), "v".repeat(value)));
    }
    let field = format!("c: {}", "v".repeat(256 * 1024));
    server.ask("GET", "/x", &[&field]).must_be(&[431]);
    assert!(backend.seen.lock().unwrap().iter().all(|seen| seen.value("HTTP_C").is_none()));
}

/// A socket whose queue has room for next to nobody, of a program that is busy for two seconds: who waits that long is answered, who does not is
/// told to come again, and the error log says what it was.
#[test]
fn ur_061_a_full_queue_is_waited_for_and_told() {
    for (timeout, statuses) in [("10s", &[200][..]), ("1s", &[503])] {
        let (root, directory) = (Root::new(), tempfile::tempdir().unwrap());
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().join("busy.sock");
        let socket = socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        socket::bind(socket.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        socket::listen(&socket, Backlog::new(1).unwrap()).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let table = format!(
            "\n[backend.busy]\ntype = \"fastcgi\"\naddress = [\"unix:{}\"]\nkeep = 0\nconnect_timeout = \"{timeout}\"\n",
            path.display()
        );
        let server = Server::run(&Configuration::of(&root.path()).backend(&table).rule("backend = \"busy\""));
        let begin = Instant::now();
        let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(request("GET", "/", &["Connection: close"]));
        }
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(2).saturating_sub(begin.elapsed()));
            for stream in UnixListener::from(socket).incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(&[stdout("Content-Type: text/plain\r\n\r\ndone"), record(6, 1, b""), end(0)].concat());
            }
        });
        let responses: Vec<_> = clients.iter_mut().map(|client| client.response("GET").must_be(&[200, 503])).collect();
        // The two whom the queue took are connected, whatever the time for that is.
        let others = responses.iter().filter(|response| statuses.contains(&response.status)).count();
        assert!(others >= 18, "{timeout}: {:?}", responses.iter().map(|response| response.status).collect::<Vec<_>>());
        for response in responses.iter().filter(|response| response.status == 503) {
            assert!(response.field("Retry-After").is_some());
        }
        let log = || std::fs::read_to_string(server.home().join("error.log")).unwrap();
        let says = |line: &str| ["busy.sock", "its queue is full", "os error 11"].iter().all(|part| line.contains(part));
        let is_told = || log().lines().any(says);
        if statuses == [503] {
            assert!(wait_until(PATIENCE, is_told).is_some(), "{}", log());
        } else {
            assert!(!is_told(), "{}", log());
        }
    }
}

/// The port of the peer, as long as that is the client.
#[test]
fn a_client_has_its_port_and_one_behind_a_proxy_has_none() {
    for trusted in [false, true] {
        let (backend, root) = (FakeBackend::new(told), Root::new());
        let trust = if trusted { "trusted_proxies = [\"127.0.0.1\"]" } else { "" };
        let configuration = Configuration::of(&root.path()).server_also(trust).backend(&backend.table("")).rule("backend = \"fake\"");
        let server = Server::run(&configuration);
        let mut client = server.connect();
        for fields in [&["X-Forwarded-For: 192.0.2.7"][..], &[]] {
            client.send(request("GET", "/", fields));
            let text = client.response("GET").must_be(&[200]).text();
            let port = text.lines().find_map(|line| line.strip_prefix("REMOTE_PORT="));
            let own = client.port().to_string();
            let expected = if trusted && !fields.is_empty() { None } else { Some(own.as_str()) };
            assert_eq!(port, expected, "{text}");
        }
    }
}
