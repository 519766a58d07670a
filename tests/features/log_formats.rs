//! The formats of `[log] format` with whatever a client sends.

use crate::support::{Configuration, Launch, Root, Server, request};

fn with_format(root: &Root, format: &str) -> Server {
    let launch = Launch::new();
    let home = launch.home().to_owned();
    let log = format!("format = {format:?}\naccess = {:?}\nerror = {:?}", home.join("access.log"), home.join("error.log"));
    launch.run(&Configuration::of(&root.path()).log(&log))
}

/// Requests with bytes that would break a line, a quote or a terminal; returns how many.
fn send_hostile(server: &Server) -> usize {
    let requests: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: \"\\x\\\\\xff\xfe\x80\r\nReferer: \"}{\r\n",
        b"GET /%0d%0aFAKE%20LINE?\"'<>\\ HTTP/1.1\r\nHost: a\r\n",
        b"GET /%00%1b[31m HTTP/1.1\r\nHost: a\r\n",
        b"GET /\xc3\xa9\xff HTTP/1.1\r\nHost: a\r\n",
        b"GET /%22%5C%7F?%E2%80%A8 HTTP/1.1\r\nHost: \"a\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: \t\xe2\x80\xa8\xed\xa0\x80\r\n",
        b"\x16\x03\x01\x02 \"{}\" \\\r\nHost: a\r\n",
        b"BR\"EW / HTTP/1.1\r\nHost: a\r\n",
    ];
    for request in requests {
        let mut client = server.connect();
        client.send(request);
        let _ = client.try_send("Connection: close\r\n\r\n");
        let _ = client.rest();
    }
    requests.len()
}

#[test]
fn a_json_line_is_json_whatever_was_sent() {
    // L04, 125
    let root = Root::with_index();
    let server = with_format(&root, "json");
    let count = send_hostile(&server);
    let lines = server.wait_for_lines("access.log", count);
    assert_eq!(lines.len(), count, "{lines:#?}");
    let read: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    for (line, value) in lines.iter().zip(&read) {
        assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line}");
        assert!(value["status"].is_u64() && value["client"] == "127.0.0.1", "{line}");
    }
}

#[test]
fn a_template_is_one_line_of_its_variables() {
    let root = Root::with_index();
    let format = "{client} [{time}] {method} {host} {path} {query} {uri} {status} {bytes} {duration} {request_id} {scheme} {header.x-id}";
    let server = with_format(&root, format);
    server.ask("GET", "/index.html?a=b", &["X-Id: seven"]).must_be(&[200]);
    let line = server.wait_for_lines("access.log", 1)[0].clone();
    assert!(line.starts_with("127.0.0.1 [") && line.contains("] GET a /index.html a=b /index.html?a=b 200 6 "), "{line}");
    assert!(line.ends_with(" http seven"), "{line}");
    let count = send_hostile(&server);
    let lines = server.wait_for_lines("access.log", count + 1);
    assert_eq!(lines.len(), count + 1, "{lines:#?}");
    assert!(lines.iter().all(|line| line.bytes().all(|byte| (0x20..0x7f).contains(&byte))), "{lines:#?}");
}

/// A clock that is read once in a turn of the loop would show nothing of most requests.
#[test]
fn what_was_no_request_has_no_path() {
    let root = Root::with_index();
    let server = with_format(&root, "{method}|{path}|{uri}|{status}");
    server.exchange(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".as_slice(), "GET").must_be(&[400]);
    server.exchange(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(10_000)), "GET").must_be(&[414]);
    server.exchange("GET / HTTP/3.0\r\nHost: a\r\n\r\n", "GET").must_be(&[505]);
    server.get("/").must_be(&[200]);
    let mut lines = server.wait_for_lines("access.log", 4);
    lines.sort();
    assert_eq!(lines, ["-|-|-|400", "-|-|-|414", "-|-|-|505", "GET|/|/|200"]);
}

#[test]
fn no_two_requests_have_the_same_name_after_a_restart_either() {
    let root = Root::with_index();
    let mut names = std::collections::HashSet::new();
    for _ in 0..2 {
        let server = with_format(&root, "{request_id}");
        for _ in 0..4 {
            let mut client = server.connect();
            for _ in 0..3 {
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                client.response("GET").must_be(&[200]);
            }
        }
        names.extend(server.wait_for_lines("access.log", 12));
    }
    assert_eq!(names.len(), 24, "{names:?}");
    assert!(names.iter().all(|name| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())), "{names:?}");
}

#[test]
fn the_duration_is_measured() {
    let root = Root::with_index();
    let server = with_format(&root, "{uri} {duration}");
    let mut client = server.connect();
    for _ in 0..20 {
        client.send(request("GET", "/", &[]));
        client.response("GET").must_be(&[200]);
    }
    // Sent in two pieces, between which the client waits.
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n");
    std::thread::sleep(std::time::Duration::from_millis(120));
    client.send("\r\n");
    client.response("GET").must_be(&[404]);
    let lines = server.wait_for_lines("access.log", 21);
    let seconds = |line: &String| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    assert!(lines[..20].iter().all(|line| seconds(line) > 0.0 && seconds(line) < 1.0), "{lines:#?}");
    assert!(seconds(&lines[20]) >= 0.119, "{lines:#?}");
}

#[test]
fn vhost_combined_begins_with_the_name_of_the_site_and_the_port() {
    let root = Root::with_index();
    let launch = Launch::new();
    let home = launch.home().to_owned();
    let log = format!("format = \"vhost_combined\"\naccess = {:?}\nerror = {:?}", home.join("access.log"), home.join("error.log"));
    let sites = Configuration::of(&root.path()).site(&root.path(), "name = [\"a.test\", \"www.a.test\"]");
    let server = launch.run(&sites.log(&log));
    for host in ["WWW.a.test:1", "other"] {
        server.exchange(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), "GET").must_be(&[200]);
    }
    server.exchange("broken\r\n\r\n", "GET").must_be(&[400]);
    let (lines, port) = (server.wait_for_lines("access.log", 3), server.address().port());
    for (line, name) in lines.iter().zip(["a.test", "-", "-"]) {
        assert!(line.starts_with(&format!("{name}:{port} 127.0.0.1 - - [")), "{lines:#?}");
    }
}

#[test]
fn a_client_at_a_socket_in_the_file_system_is_named_so_in_every_format() {
    for format in ["common", "combined", "vhost_combined", "json", "{client} {status}"] {
        let root = Root::with_index();
        let launch = Launch::new();
        let home = launch.home().to_owned();
        let socket = root.base().join("web.sock");
        let log = format!("format = {format:?}\naccess = {:?}\nerror = {:?}", home.join("access.log"), home.join("error.log"));
        let user = if crate::support::is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" };
        let listen = format!("{user}listen = [\"127.0.0.1:0\", \"unix:{}\"]", socket.display());
        let server = launch.run(&Configuration::new().server(&listen).log(&log).site(&root.path(), "name = [\"\"]"));
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
        let lines = server.wait_for_lines("access.log", 1);
        assert!(lines[0].contains("unix:") && !lines[0].contains("0.0.0.0"), "{format}: {lines:?}");
    }
}
