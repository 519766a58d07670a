//! Proxies in front: the PROXY protocol, `X-Forwarded-For` and `Forwarded`, by hand and by the proxies that people run.

use crate::support::{Client, Configuration, PATIENCE, Response, Root, Server, free_port, request, wait_until};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PAGES: &str = "name = [\"\"]\n[[site.rule]]\npath = \"/status\"\nrespond = \"status\"\n\
                     [[site.rule]]\npath = \"/private\"\ndeny = \"192.0.2.66\"\n\
                     [[site.rule]]\npath = \"/for-some\"\nclient = \"192.0.2.0/24\"\nrespond = 204\n\
                     [[site.rule]]\npath = \"/secure\"\nredirect = \"{scheme}://{host}/{client}\"\n";

fn server(root: &Root, proxies: &str, limits: &str) -> Server {
    root.file("private", "private\n");
    Server::run(&Configuration::new().site(&root.path(), PAGES).server_also(proxies).limits(limits))
}

const SPEAKING: &str = "proxy_protocol_from = [\"127.0.0.0/8\"]";
const TRUSTED: &str = "trusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]";

fn introduced(client: &str) -> Vec<u8> {
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let to = if client.contains(':') { "::1" } else { "127.0.0.1" };
    format!("PROXY {family} {client} {to} 50000 80\r\n").into_bytes()
}

fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n".as_slice(), &[command, family], &length, rest].concat()
}

fn after(server: &Server, header: impl AsRef<[u8]>, target: &str) -> Response {
    server.exchange([header.as_ref(), &request("GET", target, &["Connection: close"])].concat(), "GET")
}

fn clients_in_log(server: &Server, lines: usize) -> Vec<String> {
    let lines = server.wait_for_lines("access.log", lines);
    let mut clients: Vec<String> = lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    // Each worker sends its lines when it has gathered some.
    clients.sort();
    clients
}

#[test]
fn a_header_of_the_proxy_protocol_says_who_the_client_is() {
    let root = Root::with_index();
    let server = server(&root, SPEAKING, "");
    let v4 = [192, 0, 2, 7, 127, 0, 0, 1, 1, 1, 0, 80];
    let headers = [
        (introduced("192.0.2.1"), "192.0.2.1"),
        (introduced("2001:db8::1"), "2001:db8::1"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (version_2(0x21, 0x11, &v4), "192.0.2.7"),
        (version_2(0x21, 0x11, &[&v4[..], &[4, 0, 3, 0, 0, 0]].concat()), "192.0.2.7"),
        (version_2(0x20, 0, &[]), "127.0.0.1"),
    ];
    for (header, _) in &headers {
        after(&server, header, "/").must_be(&[200]);
    }
    let mut right: Vec<&str> = headers.iter().map(|(_, client)| *client).collect();
    right.sort_unstable();
    assert_eq!(clients_in_log(&server, headers.len()), right);
    // However it is cut, and with the requests behind it in the same segment or not.
    let whole = [introduced("192.0.2.1"), request("GET", "/", &["Connection: close"])].concat();
    for at in 1..whole.len() {
        let mut client = server.connect();
        client.send(&whole[..at]);
        client.send(&whole[at..]);
        client.response("GET").must_be(&[200]);
    }
    // One header a connection: the client stays.
    let mut client = server.connect();
    client.send(introduced("192.0.2.66"));
    for _ in 0..2 {
        client.send(request("GET", "/private", &[]));
        client.response("GET").must_be(&[403]);
    }
    after(&server, introduced("192.0.2.1"), "/private").must_be(&[200]);
    after(&server, introduced("192.0.2.1"), "/for-some").must_be(&[204]);
    after(&server, introduced("198.51.100.1"), "/for-some").must_be(&[404]);
}

#[test]
fn without_a_well_formed_header_a_proxys_connection_is_closed_without_a_word() {
    let root = Root::with_index();
    let server = server(&root, SPEAKING, "header_timeout = \"1s\"");
    let workers = server.workers();
    let v4 = [192, 0, 2, 7, 127, 0, 0, 1, 1, 1, 0, 80];
    for bytes in [
        request("GET", "/", &[]),
        b"PROXY TCP4 192.0.2.1 127.0.0.1 1\r\n".to_vec(),
        [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat(),
        version_2(0x21, 0x11, &v4[..11]),
        version_2(0x31, 0x11, &v4),
        version_2(0x21, 0x11, &[&v4[..], &[4, 255, 255]].concat()),
        // Never whole.
        b"PROXY TCP4 192.0".to_vec(),
        version_2(0x21, 0x11, &v4)[..20].to_vec(),
    ] {
        let mut client = server.connect();
        client.send(&bytes);
        let rest = client.rest().unwrap_or_default();
        assert!(rest.is_empty(), "{}: {}", bytes.escape_ascii(), rest.escape_ascii());
    }
    let mut client = server.connect();
    client.send("PROXY");
    client.half_close();
    assert!(client.rest().unwrap_or_default().is_empty());
    assert_eq!(server.workers(), workers);
    after(&server, introduced("192.0.2.1"), "/").must_be(&[200]);
}

#[test]
fn from_others_a_header_is_a_bad_request() {
    let root = Root::with_index();
    let server = server(&root, "proxy_protocol_from = [\"192.0.2.0/24\"]", "");
    let mut client = server.connect();
    client.send([introduced("192.0.2.1"), request("GET", "/", &[])].concat());
    client.response("GET").must_be(&[400]);
    server.get("/").must_be(&[200]);
}

#[test]
fn pages_of_the_server_are_never_for_a_forwarded_client() {
    let root = Root::with_index();
    let speaking = server(&root, SPEAKING, "");
    for header in [introduced("127.0.0.1"), introduced("192.0.2.1"), b"PROXY UNKNOWN\r\n".to_vec()] {
        after(&speaking, header, "/status").must_be(&[403]);
    }
    after(&speaking, version_2(0x20, 0, &[]), "/status").must_be(&[200]);
    let trusting = server(&root, TRUSTED, "");
    for field in
        ["X-Forwarded-For: 127.0.0.1", "X-Forwarded-For: junk", "Forwarded: for=127.0.0.1", "Forwarded: for=_x", "X-Forwarded-Proto: http"]
    {
        trusting.ask("GET", "/status", &[field]).must_be(&[403]);
    }
    trusting.get("/status").must_be(&[200]);
}

#[test]
fn what_a_trusted_proxy_says_is_believed() {
    let root = Root::with_index();
    let server = server(&root, TRUSTED, "");
    let cases = [
        (vec!["X-Forwarded-For: 192.0.2.1"], "192.0.2.1"),
        (vec!["X-Forwarded-For: 198.51.100.9, 192.0.2.2, 10.1.1.1"], "192.0.2.2"),
        (vec!["X-Forwarded-For: [2001:db8::1]:4711, 192.0.2.9"], "192.0.2.9"),
        (vec!["X-Forwarded-For: [2001:db8::1]:4711"], "2001:db8::1"),
        (vec!["Forwarded: for=192.0.2.3;proto=https;by=10.0.0.1"], "192.0.2.3"),
        (vec!["Forwarded: for=198.51.100.9", "X-Forwarded-For: 192.0.2.4"], "192.0.2.4"),
        (vec!["X-Forwarded-For: 192.0.2.5, unknown"], "127.0.0.1"),
        (vec!["X-Real-IP: 192.0.2.6"], "127.0.0.1"),
        (vec![], "127.0.0.1"),
    ];
    // On one connection: each request is of its own client.
    let mut connection = server.connect();
    for (fields, _) in &cases {
        connection.send(request("GET", "/", fields));
        connection.response("GET").must_be(&[200]);
    }
    let mut right: Vec<&str> = cases.iter().map(|(_, client)| *client).collect();
    right.sort_unstable();
    assert_eq!(clients_in_log(&server, cases.len()), right);
    server.ask("GET", "/private", &["X-Forwarded-For: 192.0.2.66"]).must_be(&[403]);
    server.ask("GET", "/private", &["X-Forwarded-For: 192.0.2.66, 192.0.2.1"]).must_be(&[200]);
    server.ask("GET", "/for-some", &["X-Forwarded-For: 192.0.2.1"]).must_be(&[204]);
    for (fields, location) in [
        (&["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https"][..], "https://a/192.0.2.1"),
        (&["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Host: evil"], "http://a/192.0.2.1"),
        (&["Forwarded: for=192.0.2.1;proto=https;host=evil"], "https://a/192.0.2.1"),
    ] {
        assert_eq!(server.ask("GET", "/secure", fields).must_be(&[302]).field("Location"), Some(location));
    }
    // A body between the head and the answer does not make it another client's.
    let mut client = server.connect();
    client.send("POST /private HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.66\r\nContent-Length: 3\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    client.send("abc");
    client.response("POST").must_be(&[403]);
    let lines = server.wait_for_lines("access.log", 16);
    assert!(lines.iter().any(|line| line.starts_with("192.0.2.66 ") && line.contains("POST /private")), "{lines:?}");
}

#[test]
fn what_others_say_is_not_believed() {
    let root = Root::with_index();
    let server = server(&root, "trusted_proxies = [\"192.0.2.0/24\"]", "");
    for field in ["X-Forwarded-For: 192.0.2.66", "Forwarded: for=192.0.2.66", "X-Forwarded-For: 192.0.2.66, 192.0.2.1"] {
        server.ask("GET", "/private", &[field]).must_be(&[200]);
        server.ask("GET", "/status", &[field]).must_be(&[200]);
    }
    let secure = server.ask("GET", "/secure", &["X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.66"]);
    assert_eq!(secure.must_be(&[302]).field("Location"), Some("http://a/127.0.0.1"));
}

#[test]
fn s09_connections_are_counted_for_the_client_behind_the_proxy_protocol() {
    let root = Root::with_index();
    let server = server(&root, SPEAKING, "connections_per_client = 3");
    let open = |client: &str| {
        let mut connection = server.connect();
        connection.try_send([introduced(client), request("GET", "/", &[])].concat()).ok()?;
        connection.try_response("GET").ok().map(|_| connection)
    };
    let mut held: Vec<Client> = (0..3).map(|_| open("192.0.2.1").expect("within the limit")).collect();
    assert!(open("192.0.2.1").is_none());
    assert!(open("192.0.2.2").is_some());
    drop(held.pop());
    assert!(wait_until(PATIENCE, || open("192.0.2.1").is_some()).is_some());
}

#[test]
fn s09_connections_of_a_trusted_proxy_are_counted_for_whom_it_asks_while_it_asks() {
    let root = Root::with_index();
    root.sparse("big.bin", 1 << 30);
    let server = server(&root, TRUSTED, "connections_per_client = 2");
    let ask = |client: &mut Client, of: &str, target: &str| {
        client.send(request("GET", target, &[&format!("X-Forwarded-For: {of}")])).head().unwrap()
    };
    // What a proxy keeps open is nobody's.
    let mut kept: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for client in &mut kept {
        client.send(request("GET", "/", &["X-Forwarded-For: 192.0.2.1"]));
        client.response("GET").must_be(&[200]);
    }
    let mut busy: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut busy {
        assert_eq!(ask(client, "192.0.2.1", "/big.bin").status, 200);
    }
    kept[0].send(request("GET", "/", &["X-Forwarded-For: 192.0.2.1"]));
    let refused = kept[0].response("GET").must_be(&[429]);
    assert!(refused.closes());
    kept[1].send(request("GET", "/", &["X-Forwarded-For: 192.0.2.2"]));
    kept[1].response("GET").must_be(&[200]);
    drop(busy);
    let again = wait_until(PATIENCE, || server.ask("GET", "/", &["X-Forwarded-For: 192.0.2.1"]).must_be(&[200, 429]).status == 200);
    assert!(again.is_some());
}

#[test]
fn requests_are_counted_for_the_forwarded_client() {
    let root = Root::with_index();
    let server = server(&root, TRUSTED, "requests = \"1/m burst 2\"");
    for client in ["192.0.2.1", "192.0.2.2", "2001:db8::1"] {
        let field = format!("X-Forwarded-For: {client}");
        let statuses = [(); 3].map(|()| server.ask("GET", "/", &[&field]).status);
        assert_eq!(statuses, [200, 200, 429], "{client}");
    }
}

#[test]
fn explain_looks_at_the_client_that_a_trusted_proxy_tells() {
    let root = Root::with_index();
    let server = server(&root, TRUSTED, "");
    let explain = |client: &str| {
        let told = server.order(&["explain", "/private", "--client", client, "--header", "X-Forwarded-For: 192.0.2.66"]);
        format!("{}{}", told.stdout, told.stderr)
    };
    let told = explain("10.0.0.1");
    assert!(told.contains("asked by 192.0.2.66 over http, as a trusted proxy says") && told.contains("answers 403"), "{told}");
    let told = explain("198.51.100.1");
    assert!(!told.contains("asked by") && !told.contains("403"), "{told}");
}

/// A program that serves until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a proxy with its configuration on a free port and waits until it listens.
fn proxy(program: &str, arguments: &[&str], directory: &std::path::Path, text: &str, port: u16) -> Running {
    let file = directory.join("proxy.conf");
    std::fs::write(&file, text).unwrap();
    let child = Command::new(program).args(arguments).arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = Running(child);
    let listens = wait_until(PATIENCE, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert!(listens.is_some(), "{program} does not listen");
    running
}

#[test]
fn nginx_in_front_tells_the_client() {
    let root = Root::with_index();
    let server = server(&root, TRUSTED, "");
    let (directory, port) = (tempfile::tempdir().unwrap(), free_port());
    let text = format!(
        "daemon off; master_process off; pid {0}/pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off; client_body_temp_path {0}/b;\n\
         proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;\n\
         server {{ listen 127.0.0.1:{port};\nlocation / {{ proxy_pass http://{1}; proxy_http_version 1.1; proxy_set_header Host a;\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto https; }} }} }}\n",
        directory.path().display(),
        server.address()
    );
    let _nginx = proxy("nginx", &["-c"], directory.path(), &text, port);
    let ask = |target: &str, fields: &[&str]| {
        let mut client = Client::connect(([127, 0, 0, 1], port).into());
        client.send(request("GET", target, fields));
        client.response("GET")
    };
    // The proxy adds the loopback address that it was asked from, which is trusted, so what stands before it counts; nothing does here.
    ask("/status", &[]).must_be(&[403]);
    ask("/private", &["X-Forwarded-For: 192.0.2.66"]).must_be(&[403]);
    ask("/private", &["X-Forwarded-For: 192.0.2.66, 192.0.2.1"]).must_be(&[200]);
    // The client's own Forwarded passes the proxy, and is not believed.
    ask("/private", &["Forwarded: for=192.0.2.66"]).must_be(&[200]);
    let secure = ask("/secure", &["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: http"]).must_be(&[302]);
    assert_eq!(secure.field("Location"), Some("https://a/192.0.2.1"));
}

#[test]
fn haproxy_in_front_introduces_the_client_in_both_versions() {
    let root = Root::with_index();
    let server = server(&root, SPEAKING, "");
    let (directory, ports) = (tempfile::tempdir().unwrap(), [free_port(), free_port()]);
    let listen = |port: u16, option: &str| {
        format!("listen l{port}\n bind 127.0.0.1:{port} accept-proxy\n mode tcp\n server s {} {option}\n", server.address())
    };
    let text = format!(
        "defaults\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n{}{}",
        listen(ports[0], "send-proxy"),
        listen(ports[1], "send-proxy-v2 proxy-v2-options unique-id,crc32c")
    );
    let _haproxy = proxy("haproxy", &["-db", "-f"], directory.path(), &text, ports[1]);
    for (port, client) in [(ports[0], "192.0.2.1"), (ports[1], "192.0.2.66"), (ports[1], "2001:db8::1")] {
        let mut connection = Client::connect(([127, 0, 0, 1], port).into());
        connection.send([introduced(client), request("GET", "/private", &["Connection: close"])].concat());
        let right = if client == "192.0.2.66" { 403 } else { 200 };
        connection.response("GET").must_be(&[right]);
    }
    assert_eq!(clients_in_log(&server, 3), ["192.0.2.1", "192.0.2.66", "2001:db8::1"]);
}

#[test]
fn curl_introduces_itself() {
    let root = Root::with_index();
    let server = server(&root, SPEAKING, "");
    let url = format!("http://{}/", server.address());
    let output = Command::new("curl").args(["-sS", "--haproxy-protocol", &url]).output().unwrap();
    assert_eq!(output.stdout, b"index\n", "{output:?}");
    let output = Command::new("curl").args(["-sS", &url]).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "without a header: {output:?}");
}
