//! Sites over TLS, as clients see them: `curl`, `openssl s_client`, and a client that does exactly what it is told.

use crate::fastcgi::{FakeBackend, Step, answer};
use crate::plain::{PlainBackend, Told, Tongue};
use crate::support::{Client, Configuration, PATIENCE, Root, Server, free_port, pattern, status_field, wait_until};
use crate::tls_clients::{Authority, ED25519, Manner, P384, RSA, TlsClient, secured, secured_also};
use rustls::HandshakeKind;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// One site for every host, with a certificate for `a.test`.
fn service(authority: &Authority, root: &Root, more: impl Fn(Configuration) -> Configuration) -> (Server, SocketAddr) {
    let files = authority.site("a", &["a.test"]);
    let configuration = Configuration::new().server_also("workers = 1").site(&root.path(), "name = [\"a.test\", \"\"]");
    let (configuration, address) = secured(more(configuration.site_also(&files.line())));
    (Server::run(&configuration), address)
}

fn curl(authority: &Authority, address: SocketAddr, path: &str, arguments: &[&str]) -> Output {
    let ca = authority.certificate();
    let (to, url) = (format!("::{address}"), format!("https://a.test{path}"));
    let common = ["-s", "--max-time", "60", "--path-as-is", "--noproxy", "*", "--connect-to", &to, "--cacert", ca.to_str().unwrap()];
    Command::new("curl").args(common).args(arguments).arg(&url).output().unwrap()
}

#[track_caller]
fn got(authority: &Authority, address: SocketAddr, path: &str, arguments: &[&str]) -> Vec<u8> {
    let output = curl(authority, address, path, arguments);
    assert!(output.status.success(), "{path} {arguments:?}: {output:?}");
    output.stdout
}

/// Status, fields in lower case without those that may differ, and content.
fn parts(response: &[u8]) -> (String, Vec<String>, Vec<u8>) {
    let at = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(response[..at].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let name_lower = |line: &str| line.split_once(':').map(|(name, value)| format!("{}:{value}", name.to_lowercase())).unwrap();
    let differs = |line: &String| ["date:", "connection:", "transfer-encoding:"].iter().any(|name| line.starts_with(name));
    let mut fields: Vec<String> = lines.map(name_lower).filter(|line| !differs(line)).collect();
    fields.sort();
    (status, fields, response[at + 4..].to_vec())
}

/// `openssl s_client`, to which this is said; what it prints.
fn s_client(address: SocketAddr, arguments: &[&str], says: &[u8]) -> String {
    let to = address.to_string();
    let mut child = Command::new("timeout")
        .args(["30", "openssl", "s_client", "-connect", &to])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have ended already, with an alert.
    let _ = std::io::Write::write_all(&mut stdin, says);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

#[test]
fn everything_is_answered_as_without_tls() {
    let (authority, root) = (Authority::new(), Root::with_index());
    root.file("small.txt", "0123456789".repeat(100));
    root.file("large.bin", pattern(3_000_000));
    root.file("text.html", "<p>text</p>".repeat(50_000));
    root.directory("list");
    root.file("list/a", "x");
    let (server, address) = service(&authority, &root, |configuration| {
        configuration
            .site_also("listing = true\ncompress = [\"gzip\"]\nerror_pages = { 404 = \"/text.html\" }")
            .rule("path = \"/header\"\nheader = { X-Mine = \"1\" }\nrespond = 200\nrespond_body = \"hello\"")
            .rule("path = \"/away\"\nredirect = \"/there\"")
    });
    let cases: [(&str, &[&str]); 15] = [
        ("/", &[]),
        ("/small.txt", &[]),
        ("/small.txt", &["-I"]),
        ("/small.txt", &["-r", "5-9"]),
        ("/small.txt", &["-r", "5000-"]),
        ("/small.txt", &["-H", "If-None-Match: *"]),
        ("/large.bin", &[]),
        ("/large.bin", &["-r", "70000-2999999"]),
        ("/text.html", &["-H", "Accept-Encoding: gzip"]),
        ("/none", &[]),
        ("/list/", &[]),
        ("/list", &[]),
        ("/header", &[]),
        ("/away", &[]),
        ("/small.txt", &["-X", "OPTIONS"]),
    ];
    let plain = |path: &str, arguments: &[&str]| {
        let url = format!("http://{}{path}", server.address());
        let output = Command::new("curl").args(["-si", "--max-time", "60", "-H", "Host: a.test", &url]).args(arguments).output().unwrap();
        output.stdout
    };
    for (path, arguments) in cases {
        // What is encoded while it is sent has no length yet; the second time it has.
        plain(path, arguments);
        let expected = parts(&plain(path, arguments));
        for version in [&["--http1.1", "--tlsv1.3"][..], &["--http1.1", "--tls-max", "1.2"], &["--http2"]] {
            let response = got(&authority, address, path, &[version, &["-i"], arguments].concat());
            let (status, fields, content) = parts(&response);
            assert_eq!((status, &fields), (expected.0.clone(), &expected.1), "{path} {arguments:?} {version:?}");
            assert!(content == expected.2, "{path} {arguments:?} {version:?}: {} bytes", content.len());
        }
    }
}

/// Real clients of HTTP/2 over TLS, which choose it in the handshake.
#[test]
fn nghttp_and_h2load_speak_http2() {
    let (authority, root) = (Authority::new(), Root::with_index());
    root.file("large.bin", pattern(1_000_000));
    let (_server, address) = service(&authority, &root, |configuration| configuration);
    let (url, large) = (format!("https://{address}/"), format!("https://{address}/large.bin"));
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new("timeout").args(["60", program]).args(arguments).output().unwrap();
        (output.status.success(), output.stdout)
    };
    let (done, said) = run("nghttp", &["-v", "-n", "-H", ":authority: a.test", "-H", "accept-encoding: gzip", &url, &large]);
    let said = String::from_utf8_lossy(&said);
    assert!(done && said.contains("The negotiated protocol: h2") && said.matches(":status: 200").count() == 2, "{said}");
    let (done, content) = run("nghttp", &["-w", "20", "-W", "20", &large]);
    assert!(done && content == pattern(1_000_000), "{} bytes", content.len());
    let (done, said) = run("h2load", &["-n", "2000", "-c", "10", "-m", "32", &url]);
    let said = String::from_utf8_lossy(&said);
    assert!(done && said.contains("Application protocol: h2") && said.contains("2000 succeeded, 0 failed"), "{said}");
}

#[test]
fn a_connection_serves_many_requests_and_takes_them_all_at_once() {
    let (authority, root) = (Authority::new(), Root::with_index());
    root.file("part.bin", pattern(20_000));
    let (_server, address) = service(&authority, &root, |configuration| configuration);
    for manner in [Manner::to("a.test"), Manner::to("a.test").tls12()] {
        let mut client = manner.connect(&authority, address);
        for _ in 0..50 {
            assert_eq!(client.ask("a.test", "/").must_be(&[200]).text(), "index\n");
        }
        client.send("GET /part.bin HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(100));
        for _ in 0..100 {
            assert!(client.response().must_be(&[200]).body == pattern(20_000));
        }
        // A head in as many records as it has bytes.
        for byte in GET {
            client.send([*byte]);
        }
        assert_eq!(client.response().must_be(&[200]).text(), "index\n");
        // The end is told, which only TLS can.
        assert_eq!(client.rest(), (Vec::new(), true));
    }
}

#[test]
fn ur_086_a_range_over_tls_has_exactly_its_bytes() {
    let (authority, root) = (Authority::new(), Root::new());
    root.file("f", pattern(6_000));
    let (_server, address) = service(&authority, &root, |configuration| configuration);
    let mut client = Manner::to("a.test").connect(&authority, address);
    for (range, expected) in [("0-9", 0..10), ("440-5000", 440..5001), ("5999-", 5999..6000)] {
        let head = format!("GET /f HTTP/1.1\r\nHost: a.test\r\nRange: bytes={range}\r\n\r\n");
        let response = client.send(head).response().must_be(&[206]);
        assert!(response.body == pattern(6_000)[expected], "{range}");
    }
}

/// A file that is larger than what may lie in memory, to a client that takes a rest.
#[test]
fn a_slow_reader_gets_all_of_a_large_file_and_keeps_nobody_waiting() {
    let (authority, root) = (Authority::new(), Root::with_index());
    root.file("large.bin", pattern(40_000_000));
    let (server, address) = service(&authority, &root, |configuration| configuration);
    let mut slow: Vec<TlsClient> = (0..4).map(|_| Manner::to("a.test").connect(&authority, address)).collect();
    for client in &mut slow {
        client.send("GET /large.bin HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    }
    let mut other = Manner::to("a.test").connect(&authority, address);
    for _ in 0..20 {
        assert_eq!(other.ask("a.test", "/").must_be(&[200]).text(), "index\n");
    }
    let held: u64 =
        server.workers().iter().map(|pid| status_field(*pid, "VmRSS").trim_end_matches(" kB").trim().parse::<u64>().unwrap()).sum();
    assert!(held < 60_000, "{held} KiB while four clients take nothing");
    for client in &mut slow {
        assert!(client.response().must_be(&[200]).body == pattern(40_000_000));
    }
}

#[test]
fn bodies_reach_backends_and_their_answers_come_back() {
    let (authority, root) = (Authority::new(), Root::new());
    let backend = FakeBackend::new(|seen| {
        let told = ["HTTPS", "REQUEST_SCHEME", "SERVER_PORT", "SSL_PROTOCOL", "SSL_TLS_SNI", "SSL_CLIENT_VERIFY"];
        let told = told.map(|name| format!("{name}={}", seen.value(name).unwrap_or("-"))).join(" ");
        answer(format!("Content-Type: text/plain\r\n\r\n{} {told}\n{}", seen.body.len(), "x".repeat(300_000)))
    });
    let spool = tempfile::Builder::new().prefix("anchorite-spool-").tempdir().unwrap();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    std::os::unix::fs::chown(spool.path(), Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    let (_server, address) = service(&authority, &root, |configuration| {
        configuration
            .server_also(&format!("spool = {:?}", spool.path()))
            .backend(&backend.table(""))
            .rule("path = \"/app\"\nbackend = \"fake\"\ncheck = false")
    });
    let body = authority.path("body");
    std::fs::write(&body, pattern(5_000_000)).unwrap();
    let data = format!("@{}", body.display());
    for version in [&["--http1.1"][..], &["--http1.1", "--tls-max", "1.2"], &["--http2"]] {
        for framing in [&["--data-binary", &data][..], &["-H", "Transfer-Encoding: chunked", "--data-binary", &data]] {
            let answer = String::from_utf8(got(&authority, address, "/app", &[version, framing].concat())).unwrap();
            let port = address.port();
            let protocol = if version.contains(&"1.2") { "TLSv1.2" } else { "TLSv1.3" };
            let expected = format!(
                "5000000 HTTPS=on REQUEST_SCHEME=https SERVER_PORT={port} SSL_PROTOCOL={protocol} SSL_TLS_SNI=a.test SSL_CLIENT_VERIFY=-"
            );
            let (told, rest) = answer.split_once('\n').unwrap();
            assert_eq!((told, rest.len()), (expected.as_str(), 300_000), "{version:?} {framing:?}");
        }
    }
}

#[test]
fn websockets_go_through() {
    const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let (authority, root) = (Authority::new(), Root::new());
    let backend = PlainBackend::new(Tongue::Http, |_told: &Told| vec![Step::Send(SWITCH.into()), Step::Echo]);
    let (_server, address) =
        service(&authority, &root, |configuration| configuration.backend(&backend.table("")).rule("path = \"/ws\"\nbackend = \"fake\""));
    let mut client = Manner::to("a.test").connect(&authority, address);
    client.send("GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut come = Vec::new();
    while !come.ends_with(b"\r\n\r\n") {
        come.extend(client.receive().unwrap());
    }
    assert!(come.starts_with(b"HTTP/1.1 101 "), "{come:?}");
    for size in [1, 100, 70_000, 300_000] {
        let sent = pattern(size);
        client.send(&sent);
        let mut back = Vec::new();
        while back.len() < size {
            back.extend(client.receive().unwrap());
        }
        assert!(back == sent, "{size}");
    }
    // It has said all that it will; the other end says good-bye.
    client.session.send_close_notify();
    assert_eq!(client.rest(), (b"end".to_vec(), true));
}

fn sites(authority: &Authority, root: &Root) -> (Configuration, SocketAddr) {
    let a = authority.site("a", &["a.test"]);
    let wild = authority.site("wild", &["*.w.test"]);
    let (one, two) = (authority.site("ec", &["two.test"]), authority.site_with("rsa", &["two.test"], RSA));
    let rule = |name: &str| format!("[[site.rule]]\nrespond = 200\nrespond_body = \"{name}\"");
    let configuration = Configuration::new()
        .server_also("workers = 1")
        .log("access = \"off\"\nerror = \"stderr\"\nlevel = \"info\"")
        .site(&root.path(), &format!("name = [\"a.test\", \"also.a.test\"]\n{}\n{}", a.line(), rule("a")))
        .site(&root.path(), &format!("name = [\"*.w.test\"]\n{}\n{}", wild.line(), rule("wild")))
        .site(&root.path(), &format!("name = [\"two.test\"]\ntls = [{}, {}]\n{}", two.pair(), one.pair(), rule("two")))
        .site(&root.path(), &format!("name = [\"plain.test\"]\n{}", rule("plain")));
    secured(configuration)
}

/// The subject of the certificate that a client of `openssl` gets.
fn subject(address: SocketAddr, arguments: &[&str]) -> String {
    let said = s_client(address, arguments, b"");
    let line = said.lines().find_map(|line| line.strip_prefix("subject=")).unwrap_or_else(|| panic!("{arguments:?}: {said}"));
    line.replace(' ', "").trim_start_matches("CN=").to_owned()
}

/// The longest that a name's label may be.
const LABEL: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

#[test]
fn t01_ur_140_a_name_leads_to_its_certificate_and_no_name_to_the_default() {
    let (authority, root) = (Authority::new(), Root::new());
    let (configuration, address) = sites(&authority, &root);
    let server = Server::run(&configuration);
    for (arguments, expected) in [
        (&["-servername", "a.test"][..], "a"),
        (&["-servername", "A.Test"], "a"),
        (&["-servername", "x.w.test"], "wild"),
        (&["-servername", "unknown.test"], "a"),
        (&["-servername", "plain.test"], "a"),
        (&["-servername", "w.test"], "a"),
        (&["-servername", &[LABEL; 4].join(".")], "a"),
        (&["-noservername"], "a"),
        // What the client can do decides between two.
        (&["-servername", "two.test"], "ec"),
        (&["-servername", "two.test", "-tls1_2"], "ec"),
        (&["-servername", "two.test", "-sigalgs", "RSA-PSS+SHA256"], "rsa"),
        (&["-servername", "two.test", "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"], "rsa"),
        (&["-servername", "two.test", "-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], "ec"),
    ] {
        assert_eq!(subject(address, arguments), expected, "{arguments:?}");
    }
    // An address is no name, and a client that sends one is one without.
    let output = Command::new("curl").args(["-sk", "--max-time", "30", &format!("https://{address}/")]).output().unwrap();
    assert_eq!(output.stdout, b"a", "{output:?}");
    // Health checks by address: the site by Host, where it has the certificate that was shown.
    let said = s_client(address, &["-noservername", "-quiet"], GET);
    assert!(said.contains("HTTP/1.1 200 OK") && said.contains("\r\n\r\na"), "{said}");
    let come = wait_until(PATIENCE, || server.stderr().contains("asks for \"unknown.test\" over TLS"));
    assert!(come.is_some(), "{}", server.stderr());
    // Names that are none: an alert, or the default; never a crash.
    let pid = server.workers();
    for name in [&b"a\0.test"[..], b"", &[b'x'; 255], b"\xff\xfe", b"a..test", b"-"] {
        let mut raw = Client::connect(address);
        raw.send(hello_naming(&[name]));
        assert!(!raw.rest().unwrap().is_empty(), "{name:?}");
    }
    let mut raw = Client::connect(address);
    raw.send(hello_naming(&[b"a.test", b"x.w.test"]));
    assert!(!raw.rest().unwrap().is_empty());
    assert_eq!(server.workers(), pid);
}

/// A hello of TLS 1.2 with these names in one extension.
fn hello_naming(names: &[&[u8]]) -> Vec<u8> {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    let list: Vec<u8> = names.iter().flat_map(|name| [&[0], &length(name)[..], name].concat()).collect();
    let names = [&length(&list)[..], &list].concat();
    let extension = |kind: u16, data: &[u8]| [&kind.to_be_bytes()[..], &length(data), data].concat();
    let extensions =
        [extension(0, &names), extension(10, &[0, 2, 0, 29]), extension(11, &[1, 0]), extension(13, &[0, 4, 4, 3, 8, 4])].concat();
    let body = [&[3, 3], &[7; 32][..], &[0], &[0, 2, 0xC0, 0x2B], &[1, 0], &length(&extensions), &extensions].concat();
    let message = [&[1, 0], &length(&body)[..], &body].concat();
    [&[22, 3, 1], &length(&message)[..], &message].concat()
}

/// A connection that was made with one site brings no request to another that proves itself, or asks its clients, otherwise.
#[test]
fn t02_a_request_for_another_site_is_misdirected() {
    let (authority, root) = (Authority::new(), Root::new());
    let a = authority.site("a", &["a.test", "b.test", "asks.test"]);
    let other = authority.site("other", &["other.test"]);
    let rule = |name: &str| format!("[[site.rule]]\nrespond = 200\nrespond_body = \"{name}\"");
    let asks = a.pair().replace('}', &format!(", client_ca = {:?}, client_auth = \"optional\" }}", authority.certificate()));
    let configuration = Configuration::new()
        .server_also("workers = 1")
        .site(&root.path(), &format!("name = [\"a.test\"]\n{}\n{}", a.line(), rule("a")))
        .site(&root.path(), &format!("name = [\"b.test\"]\n{}\n{}", a.line(), rule("b")))
        .site(&root.path(), &format!("name = [\"other.test\"]\n{}\n{}", other.line(), rule("other")))
        .site(&root.path(), &format!("name = [\"asks.test\"]\ntls = {asks}\n{}", rule("asks")))
        .site(&root.path(), &format!("name = [\"plain.test\"]\n{}", rule("plain")));
    let (configuration, address) = secured(configuration);
    let server = Server::run(&configuration);
    for (host, right) in
        [("a.test", 200), ("b.test", 200), ("other.test", 421), ("asks.test", 421), ("plain.test", 421), ("none.test", 200)]
    {
        let mut client = Manner::to("a.test").connect(&authority, address);
        let response = client.ask(host, "/").must_be(&[right]);
        assert_eq!(response.text() == host.trim_end_matches(".test"), right == 200 && host != "none.test", "{host}");
        let code = got(&authority, address, "/", &["--http2", "-o", "/dev/null", "-w", "%{http_code}", "-H", &format!("Host: {host}")]);
        assert_eq!(code, right.to_string().as_bytes(), "{host} by HTTP/2");
    }
    // Of HTTP/1.0 without a host the name that the connection was made with is all there is.
    let mut client = Manner::to("other.test").connect(&authority, address);
    assert_eq!(client.send("GET / HTTP/1.0\r\n\r\n").response().must_be(&[200]).text(), "other");
    // Without TLS nothing of this is of concern.
    let plain = server.exchange("GET / HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n", "GET");
    assert_eq!(plain.must_be(&[200]).text(), "other");
}

#[test]
fn the_server_chooses_the_cipher() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (_server, address) = service(&authority, &root, |configuration| configuration);
    for (option, order, chosen) in [
        ("-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        ("-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
        ("-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ] {
        let version = if option == "-cipher" { "-tls1_2" } else { "-tls1_3" };
        let said = s_client(address, &[version, option, order], GET);
        assert!(said.contains(&format!("Cipher is {chosen}")), "{order}: {said}");
    }
}

#[test]
fn keys_of_every_kind_serve() {
    let (authority, root) = (Authority::new(), Root::with_index());
    for (name, kind) in [("p384", P384), ("rsa", RSA), ("ed25519", ED25519)] {
        let files = authority.site_with(name, &["a.test"], kind);
        let configuration = Configuration::of(&root.path()).server_also("workers = 1").site_also(&files.line());
        let (configuration, address) = secured(configuration);
        let _server = Server::run(&configuration);
        for manner in [Manner::to("a.test"), Manner::to("a.test").tls12()] {
            assert_eq!(manner.connect(&authority, address).ask("a.test", "/").must_be(&[200]).text(), "index\n", "{name}");
        }
        assert_eq!(got(&authority, address, "/", &["--tls-max", "1.2"]), b"index\n", "{name}");
    }
}

#[test]
fn a_lowest_version_holds_for_its_site() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let a = authority.site("a", &["a.test", "new.test"]);
    let new = a.pair().replace('}', ", min_version = \"1.3\" }");
    let (configuration, address) = secured(
        Configuration::new()
            .site(&root.path(), &format!("name = [\"a.test\"]\n{}", a.line()))
            .site(&root.path(), &format!("name = [\"new.test\"]\ntls = {new}")),
    );
    let _server = Server::run(&configuration);
    Manner::to("a.test").tls12().connect(&authority, address);
    Manner::to("new.test").connect(&authority, address);
    let fault = Manner::to("new.test").tls12().try_connect(&authority, address).err().unwrap();
    assert!(fault.to_string().contains("ProtocolVersion"), "{fault}");
    // Nor is the connection of another site a way in.
    Manner::to("a.test").tls12().connect(&authority, address).ask("new.test", "/").must_be(&[421]);
}

#[test]
fn clients_show_certificates_and_applications_are_told_whose() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let stranger = Authority::new();
    let a = authority.site("a", &["may.test", "must.test"]);
    let backend = FakeBackend::new(|seen| {
        let told = ["SSL_CLIENT_VERIFY", "SSL_CLIENT_S_DN", "SSL_CLIENT_I_DN"];
        answer(format!("Content-Type: text/plain\r\n\r\n{}", told.map(|name| seen.value(name).unwrap_or("-").to_owned()).join("|")))
    });
    let asks = |how: &str| a.pair().replace('}', &format!(", client_ca = {:?}, client_auth = \"{how}\" }}", authority.certificate()));
    let rule =
        "[[site.rule]]\nheader = { X-Client = \"<{tls.client}>\" }\n[[site.rule]]\npath = \"/app\"\nbackend = \"fake\"\ncheck = false";
    let configuration = Configuration::new()
        .server_also("workers = 1")
        .log("access = \"stderr\"\nerror = \"stderr\"\nformat = \"by <{tls.client}> {status}\"")
        .backend(&backend.table(""))
        .site(&root.path(), &format!("name = [\"may.test\"]\ntls = {}\n{rule}", asks("optional")))
        .site(&root.path(), &format!("name = [\"must.test\"]\ntls = {}\n{rule}", asks("required")));
    let (configuration, address) = secured(configuration);
    let server = Server::run(&configuration);
    let ann = authority.client("ann", "/O=Example, Inc./CN=ann");
    let mallory = stranger.client("mallory", "/CN=mallory");
    let told = "SUCCESS|CN=ann,O=Example\\, Inc.|CN=Test Authority";
    for twelve in [false, true] {
        let manner = |name| if twelve { Manner::to(name).tls12() } else { Manner::to(name) };
        let ask = |manner: Manner, host: &str| manner.connect(&authority, address).ask(host, "/app").must_be(&[200]).text();
        assert_eq!(ask(manner("may.test"), "may.test"), "NONE|-|-");
        assert_eq!(ask(manner("may.test").shows(&ann), "may.test"), told);
        assert_eq!(ask(manner("must.test").shows(&ann), "must.test"), told);
        let named = |manner: Manner| manner.connect(&authority, address).ask("may.test", "/app").field("X-Client").map(str::to_owned);
        assert_eq!(named(manner("may.test")).as_deref(), Some("<>"));
        assert_eq!(named(manner("may.test").shows(&ann)).as_deref(), Some("<CN=ann,O=Example\\, Inc.>"));
        for manner in [manner("must.test"), manner("must.test").shows(&mallory), manner("may.test").shows(&mallory)] {
            // In TLS 1.3 the client has its part of the handshake behind it when it hears of this.
            let refused = match manner.try_connect(&authority, address) {
                Ok(mut client) => client.try_send(GET).and_then(|()| client.receive().map(drop)).is_err(),
                Err(_) => true,
            };
            assert!(refused);
        }
    }
    for line in ["by <CN=ann,O=Example\\x5C, Inc.> 200", "by <-> 200"] {
        assert!(wait_until(PATIENCE, || server.stderr().contains(line)).is_some(), "{line}: {}", server.stderr());
    }
    // What was proven is remembered with the session.
    let configuration = Manner::to("must.test").shows(&ann).configuration(&authority);
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut client = TlsClient::try_connect(configuration.clone(), "must.test", address).unwrap();
        assert_eq!(client.ask("must.test", "/app").must_be(&[200]).text(), told);
        assert_eq!(client.session.handshake_kind(), Some(kind));
    }
}

#[test]
fn what_was_agreed_on_holds_for_its_site_and_where_tickets_are_given() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (a, b) = (authority.site("a", &["a.test", "b.test"]), authority.site("b", &["b.test", "a.test"]));
    let sites = |tickets: &str| {
        secured_also(
            Configuration::new()
                .server_also("workers = 1")
                .site(&root.path(), &format!("name = [\"a.test\"]\n{}", a.line()))
                .site(&root.path(), &format!("name = [\"b.test\"]\n{}", b.line())),
            tickets,
        )
    };
    for twelve in [false, true] {
        let manner = |name| if twelve { Manner::to(name).tls12() } else { Manner::to(name) };
        let (configuration, address) = sites("");
        let _server = Server::run(&configuration);
        let client = manner("a.test").configuration(&authority);
        let kind = |name: &'static str| {
            let mut client = TlsClient::try_connect(client.clone(), name, address).unwrap();
            client.ask(name, "/").must_be(&[200]);
            client.session.handshake_kind().unwrap()
        };
        assert_eq!([kind("a.test"), kind("a.test"), kind("b.test")], [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Full]);
        let (configuration, address) = sites("session_tickets = false");
        let _server = Server::run(&configuration);
        let client = manner("a.test").configuration(&authority);
        for _ in 0..3 {
            let mut client = TlsClient::try_connect(client.clone(), "a.test", address).unwrap();
            client.ask("a.test", "/").must_be(&[200]);
            assert_eq!(client.session.handshake_kind(), Some(HandshakeKind::Full));
        }
    }
}

/// A ticket that one site gave is none for another, though both names lead to the same machine.
#[test]
fn t03_t04_a_ticket_of_another_site_or_of_nobody_is_a_full_handshake() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (configuration, address) = sites(&authority, &root);
    let _server = Server::run(&configuration);
    for version in ["-tls1_2", "-tls1_3"] {
        let session = authority.path("session");
        let path = session.to_str().unwrap();
        let said = s_client(address, &[version, "-servername", "a.test", "-sess_out", path, "-ign_eof"], GET);
        assert!(said.contains("New, TLSv"), "{said}");
        let how = |arguments: &[&str]| {
            let said = s_client(address, &[&[version, "-ign_eof"], arguments].concat(), GET);
            (said.contains("Reused, TLSv"), said.contains("New, TLSv"))
        };
        let mut bytes = std::fs::read(&session).unwrap();
        assert_eq!(how(&["-servername", "a.test", "-sess_in", path]), (true, false), "{version}");
        assert_eq!(how(&["-servername", "two.test", "-sess_in", path]), (false, true), "{version}");
        // Bits of the ticket are changed, wherever in the file it is: OpenSSL's own framing stays.
        let text = String::from_utf8(bytes.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let middle = lines.len() / 2;
        let flipped: Vec<String> = lines
            .iter()
            .enumerate()
            .map(|(at, line)| {
                let ticket = at == middle && !line.starts_with('-');
                if ticket {
                    line.chars()
                        .map(|c| {
                            if c == 'A' {
                                'B'
                            } else if c.is_ascii_lowercase() {
                                'q'
                            } else {
                                c
                            }
                        })
                        .collect()
                } else {
                    (*line).to_owned()
                }
            })
            .collect();
        bytes = flipped.join("\n").into_bytes();
        bytes.push(b'\n');
        std::fs::write(&session, bytes).unwrap();
        let (reused, _) = how(&["-servername", "a.test", "-sess_in", path]);
        assert!(!reused, "{version}: a ticket that was changed");
    }
}

#[test]
fn ur_148_ur_149_browsers_are_told_to_come_by_tls_once_and_always() {
    let (authority, root) = (Authority::new(), Root::with_index());
    root.directory("dir");
    let backend = FakeBackend::new(|_| answer("Strict-Transport-Security: max-age=1\r\nContent-Type: text/plain\r\n\r\nx"));
    let (server, address) = service(&authority, &root, |configuration| {
        configuration
            .backend(&backend.table(""))
            .site_also("hsts = \"365d\"")
            .rule("path = \"/app\"\nbackend = \"fake\"\ncheck = false")
            .rule("path = \"/own\"\nheader = { Strict-Transport-Security = \"max-age=5\" }\nrespond = 204")
            .rule("path = \"/none\"\nheader = { strict-transport-security = \"\" }\nrespond = 204")
    });
    let ask = |path: &str, more: &str| {
        let mut client = Manner::to("a.test").connect(&authority, address);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{more}\r\n")).response()
    };
    for (path, more, right) in [
        ("/", "", 200),
        ("/dir", "", 301),
        ("/", "If-None-Match: *\r\n", 304),
        ("/%zz", "", 400),
        ("/", "Bad Field: x\r\n", 400),
        ("/missing", "", 404),
        ("/app", "", 200),
    ] {
        let response = ask(path, more).must_be(&[right]);
        assert_eq!(response.field("Strict-Transport-Security"), Some("max-age=31536000"), "{path} {more:?}");
    }
    assert_eq!(ask("/own", "").must_be(&[204]).field("Strict-Transport-Security"), Some("max-age=5"));
    assert_eq!(ask("/none", "").must_be(&[204]).field("Strict-Transport-Security"), None);
    let response = server.exchange("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", "GET");
    assert_eq!(response.must_be(&[200]).field("Strict-Transport-Security"), None);
    let explained = |url: &str| server.order(&["explain", url]).must_be_done().stdout;
    assert!(explained("https://a.test/").contains("sets header Strict-Transport-Security: max-age=31536000\n"));
    assert!(!explained("http://a.test/").contains("Strict-Transport-Security"));
    let own = explained("https://a.test/own");
    assert!(own.contains("sets header Strict-Transport-Security: max-age=5\n") && !own.contains("31536000"), "{own}");
    // Of another's word that it was TLS as well, and of HTTP/2.
    let head = String::from_utf8(got(&authority, address, "/", &["--http2", "-I"])).unwrap();
    assert!(head.contains("\r\nstrict-transport-security: max-age=31536000\r\n"), "{head}");
}

#[test]
fn plain_requests_are_sent_to_https_and_what_came_by_it_is_served() {
    let (authority, root) = (Authority::new(), Root::with_index());
    root.file(".well-known/acme-challenge/token", "proof");
    let (server, address) = service(&authority, &root, |configuration| configuration.site_also("https_redirect = true"));
    let plain = |path: &str| server.exchange(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"), "GET");
    assert_eq!(plain("/x?y").must_be(&[301]).field("Location"), Some("https://a.test/x?y"));
    assert_eq!(plain("/.well-known/acme-challenge/token").must_be(&[200]).text(), "proof");
    assert_eq!(got(&authority, address, "/", &[]), b"index\n");
    assert_eq!(got(&authority, address, "/.well-known/acme-challenge/token", &[]), b"proof");
}

#[test]
fn lines_and_rules_know_version_and_name() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let files = authority.site("a", &["a.test"]);
    let configuration = Configuration::new()
        .server_also("workers = 1")
        .log("access = \"stderr\"\nerror = \"stderr\"\nformat = \"line {scheme} {tls.version} {tls.sni} {status}\"")
        .site(&root.path(), &format!("name = [\"a.test\", \"\"]\n{}", files.line()))
        .rule("path = \"/r\"\nredirect = \"/{tls.version}/{tls.sni}/{scheme}\"");
    let (configuration, address) = secured(configuration);
    let server = Server::run(&configuration);
    let mut client = Manner::to("a.test").connect(&authority, address);
    assert_eq!(client.ask("a.test", "/r").must_be(&[302]).field("Location"), Some("/TLSv1.3/a.test/https"));
    Manner::to("a.test").tls12().connect(&authority, address).ask("a.test", "/").must_be(&[200]);
    server.get("/").must_be(&[200]);
    for line in ["line https TLSv1.3 a.test 302", "line https TLSv1.2 a.test 200", "line http - - 200"] {
        assert!(wait_until(PATIENCE, || server.stderr().lines().any(|have| have.ends_with(line))).is_some(), "{line}: {}", server.stderr());
    }
}

/// A proxy says who the client is before the client says hello.
#[test]
fn a_header_of_the_proxy_protocol_comes_before_the_handshake() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (server, address) =
        service(&authority, &root, |configuration| configuration.server_also("proxy_protocol_from = [\"127.0.0.0/8\"]"));
    for cut in [false, true] {
        let mut client = TlsClient::begin(Manner::to("a.test").configuration(&authority), "a.test", address);
        let mut first = b"PROXY TCP4 192.0.2.7 192.0.2.80 4711 443\r\n".to_vec();
        if cut {
            let (one, two) = first.split_at(20);
            std::io::Write::write_all(&mut client.socket, one).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            std::io::Write::write_all(&mut client.socket, two).unwrap();
        } else {
            client.session.write_tls(&mut first).unwrap();
            std::io::Write::write_all(&mut client.socket, &first).unwrap();
        }
        assert_eq!(client.ask("a.test", "/").must_be(&[200]).text(), "index\n");
    }
    for line in server.wait_for_lines("access.log", 2) {
        assert!(line.starts_with("192.0.2.7 "), "{line}");
    }
}

#[test]
fn ur_136_tls_is_spoken_at_ipv6_too_and_http_there_gets_no_page() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let files = authority.site("a", &["a.test"]);
    let port = free_port();
    let configuration = Configuration::new()
        .server_also(&format!("tls_listen = [\"[::]:{port}\"]\nworkers = 1"))
        .backend("[tls]\nkey_isolation = false\n")
        .site(&root.path(), &format!("name = [\"a.test\", \"\"]\n{}", files.line()));
    let _server = Server::run(&configuration);
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let address: SocketAddr = address.parse().unwrap();
        assert_eq!(Manner::to("a.test").connect(&authority, address).ask("a.test", "/").must_be(&[200]).text(), "index\n");
        let mut plain = Client::connect(address);
        plain.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let response = plain.response("GET").must_be(&[400]);
        assert!(!response.text().contains("index"));
        plain.expect_end();
    }
}

#[test]
fn idle_connections_are_closed_with_a_word() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (_server, address) = service(&authority, &root, |configuration| configuration.limits("keepalive_timeout = \"1s\""));
    for manner in [Manner::to("a.test"), Manner::to("a.test").tls12()] {
        let mut client = manner.connect(&authority, address);
        client.ask("a.test", "/").must_be(&[200]);
        assert_eq!(client.rest(), (Vec::new(), true));
    }
}

/// Nothing of a certificate's key, and little of anything else, is held for a connection that does nothing.
#[test]
fn an_idle_connection_takes_little_memory() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (server, address) = service(&authority, &root, |configuration| configuration.limits("keepalive_timeout = \"10m\""));
    let held = || status_field(server.workers()[0], "VmRSS").trim_end_matches(" kB").trim().parse::<u64>().unwrap();
    let configuration = Manner::to("a.test").configuration(&authority);
    let connect = |count: usize| -> Vec<TlsClient> {
        let one = || {
            let mut client = TlsClient::try_connect(configuration.clone(), "a.test", address).unwrap();
            client.ask("a.test", "/").must_be(&[200]);
            client
        };
        (0..count).map(|_| one()).collect()
    };
    let _some = connect(100);
    let before = held();
    let _more = connect(400);
    let each = (held() - before) * 1024 / 400;
    assert!(each <= 16 * 1024, "{each} bytes");
}
