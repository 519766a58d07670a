//! Clients over TLS that mean harm, or are broken: the cases T05 to T16.

use crate::fastcgi::{FakeBackend, answer};
use crate::support::{Client, Configuration, PATIENCE, Root, Server, pattern, wait_until};
use crate::tls_clients::{Authority, Manner, TlsClient, secured};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Service {
    authority: Authority,
    server: Server,
    address: SocketAddr,
    _root: Root,
}

fn service(more: impl Fn(Configuration) -> Configuration) -> Service {
    let (authority, root) = (Authority::new(), Root::with_index());
    root.file("large.bin", pattern(3_000_000));
    let files = authority.site("a", &["a.test"]);
    let configuration =
        Configuration::of(&root.path()).server_also("workers = 1").log("access = \"off\"\nerror = \"stderr\"\nlevel = \"info\"");
    let (configuration, address) = secured(more(configuration.site_also(&files.line())));
    Service { server: Server::run(&configuration), authority, address, _root: root }
}

impl Service {
    fn connect(&self) -> TlsClient {
        Manner::to("a.test").connect(&self.authority, self.address)
    }

    /// Serves as if nothing had happened, by the same process.
    #[track_caller]
    fn goes_on(&self, workers: &[i32]) {
        assert_eq!(self.connect().ask("a.test", "/").must_be(&[200]).text(), "index\n");
        assert_eq!(self.server.workers(), workers, "{}", self.server.stderr());
    }

    /// What comes back for these bytes, until the end.
    #[track_caller]
    fn answer_to(&self, bytes: &[u8]) -> Vec<u8> {
        let mut client = Client::connect(self.address);
        // It may be closed before all of it is taken.
        let _ = client.try_send(bytes);
        client.rest().unwrap()
    }
}

/// What of a hello of TLS 1.2 a test changes.
struct Hello {
    version: [u8; 2],
    suites: &'static [u8],
    signatures: &'static [u8],
    more: Vec<u8>,
}

const ECDSA_GCM: &[u8] = &[0xC0, 0x2B];
const ECDSA_SHA256: &[u8] = &[4, 3];

impl Default for Hello {
    fn default() -> Self {
        Self { version: [3, 3], suites: ECDSA_GCM, signatures: ECDSA_SHA256, more: Vec::new() }
    }
}

fn length(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).unwrap().to_be_bytes()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &length(data), data].concat()
}

impl Hello {
    /// The message, without a record about it.
    fn message(&self) -> Vec<u8> {
        let signatures = [&length(self.signatures)[..], self.signatures].concat();
        let name = [&[0, 9, 0, 0, 6], &b"a.test"[..]].concat();
        let extensions =
            [extension(0, &name), extension(10, &[0, 2, 0, 29]), extension(11, &[1, 0]), extension(13, &signatures), self.more.clone()]
                .concat();
        let suites = [&length(self.suites)[..], self.suites].concat();
        let body = [&self.version[..], &[7; 32], &[0], &suites, &[1, 0], &length(&extensions), &extensions].concat();
        let long = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1], &long[1..], &body].concat()
    }

    /// In records of so many bytes.
    fn records(&self, size: usize) -> Vec<u8> {
        self.message().chunks(size).flat_map(|part| [&[22, 3, 1], &length(part)[..], part].concat()).collect()
    }
}

const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const HANDSHAKE_FAILURE: u8 = 40;
const PROTOCOL_VERSION: u8 = 70;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// The code of the fatal alert that is all that came.
#[track_caller]
fn alert(came: &[u8]) -> u8 {
    match came {
        [ALERT, 3, _, 0, 2, 2, code] => *code,
        other => panic!("no alert: {other:?}"),
    }
}

#[test]
fn t05_ur_169_old_versions_hear_which_are_spoken_and_http_is_told_so() {
    let service = service(|configuration| configuration);
    let workers = service.server.workers();
    for version in [[3, 0], [3, 1], [3, 2]] {
        let hello = Hello { version, ..Hello::default() };
        assert_eq!(alert(&service.answer_to(&hello.records(16_000))), PROTOCOL_VERSION, "{version:?}");
    }
    // A hello of SSL 2 with the ciphers of its time.
    let old = [
        &[0x80, 46, 1, 0, 2, 0, 21, 0, 0, 0, 16][..],
        &[1, 0, 0x80, 2, 0, 0x80, 3, 0, 0x80, 4, 0, 0x80, 5, 0, 0x80, 6, 0, 0x40, 7, 0, 0xC0],
        &[9; 16],
    ]
    .concat();
    let came = service.answer_to(&old);
    assert!(came.is_empty() || came[0] == ALERT, "{came:?}");
    for text in [&b"hello\r\n"[..], b"\0\0\0\0\0\0\0\0", b"SSH-2.0-x\r\n"] {
        let came = service.answer_to(text);
        assert!(came.is_empty() || came[0] == ALERT || came.starts_with(b"HTTP/1.1 400 "), "{text:?}: {came:?}");
    }
    for text in ["GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"] {
        let came = String::from_utf8(service.answer_to(text.as_bytes())).unwrap();
        assert!(came.starts_with("HTTP/1.1 400 ") && !came.contains("index"), "{came}");
    }
    for (option, works) in [("-tls1_2", true), ("-tls1_3", true)] {
        let to = service.address.to_string();
        let output = Command::new("openssl").args(["s_client", "-connect", &to, option]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.success(), works, "{option}");
    }
    // A thousand of them: a line a second at most, none of them an error.
    let hello = Hello { version: [3, 1], ..Hello::default() }.records(16_000);
    let begun = Instant::now();
    for _ in 0..1_000 {
        assert_eq!(alert(&service.answer_to(&hello)), PROTOCOL_VERSION);
    }
    let told = || service.server.stderr().lines().filter(|line| line.contains("offers TLS 1.0 at most")).count();
    // What was said of others within the same second may have taken their place.
    let come = wait_until(PATIENCE, || {
        service.answer_to(&hello);
        told() > 0
    });
    assert!(come.is_some(), "{}", service.server.stderr());
    service.goes_on(&workers);
    let lines = told();
    let most = usize::try_from(begun.elapsed().as_secs()).unwrap() + 3;
    let stderr = service.server.stderr();
    assert!((1..=most).contains(&lines), "{lines} lines, not {most}: {stderr}");
    assert!(
        !stderr.contains("[error]") && stderr.contains(": client 127.0.0.1: TLS handshake or record: offers TLS 1.0 at most"),
        "{stderr}"
    );
}

#[test]
fn t06_only_weak_ciphers_or_signatures_is_no_handshake() {
    let service = service(|configuration| configuration);
    let workers = service.server.workers();
    let hellos: [(&'static [u8], &'static [u8], &str); 6] = [
        (&[0xC0, 0x09, 0xC0, 0x0A, 0xC0, 0x23], ECDSA_SHA256, "CBC"),
        (&[0x00, 0x05, 0xC0, 0x07], ECDSA_SHA256, "RC4"),
        (&[0x00, 0x2F, 0x00, 0x9C], ECDSA_SHA256, "the key exchange of RSA"),
        (&[0x00, 0x03, 0x00, 0x08], ECDSA_SHA256, "export"),
        (&[0x00, 0x00, 0x00, 0x3B], ECDSA_SHA256, "none"),
        (ECDSA_GCM, &[2, 3, 2, 1], "SHA-1"),
    ];
    for (suites, signatures, what) in hellos {
        let hello = Hello { suites, signatures, ..Hello::default() };
        assert_eq!(alert(&service.answer_to(&hello.records(16_000))), HANDSHAKE_FAILURE, "{what}");
    }
    service.goes_on(&workers);
}

#[test]
fn t07_nothing_is_negotiated_again() {
    let service = service(|configuration| configuration);
    let workers = service.server.workers();
    for count in [1, 1_000] {
        let to = service.address.to_string();
        let mut client = Command::new("timeout")
            .args(["30", "openssl", "s_client", "-connect", &to, "-servername", "a.test", "-tls1_2", "-legacy_renegotiation"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = client.stdin.take().unwrap();
        for _ in 0..count {
            std::thread::sleep(Duration::from_millis(if count == 1 { 300 } else { 0 }));
            if stdin.write_all(b"R\n").is_err() {
                break;
            }
        }
        drop(stdin);
        let output = client.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(count > 1 || said.contains("no renegotiation"), "{said}");
    }
    service.goes_on(&workers);
}

#[test]
fn t08_a_client_of_tls_1_2_can_see_that_more_was_to_be_had() {
    let service = service(|configuration| configuration);
    let mut client = Client::connect(service.address);
    client.send(Hello::default().records(16_000));
    let came = client.exactly(5 + 4 + 2 + 32).unwrap();
    assert_eq!((came[0], came[5], &came[9..11]), (HANDSHAKE, 2, &[3, 3][..]));
    assert_eq!(&came[35..43], b"DOWNGRD\x01");
}

#[test]
fn t09_ur_169_a_protocol_is_agreed_on_or_none_is_spoken() {
    let service = service(|configuration| configuration);
    let workers = service.server.workers();
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&["foo", "http/1.1"], Some("http/1.1")),
        (&["http/1.0"], Some("http/1.0")),
        (&[], None),
    ] {
        let client = Manner::to("a.test").protocols(offered).connect(&service.authority, service.address);
        assert_eq!(client.session.alpn_protocol(), chosen.map(str::as_bytes), "{offered:?}");
    }
    for offered in [&["h3"][..], &["spdy/3"], &["foo", "ftp", "imap", "pop3", "smtp"]] {
        let fault = Manner::to("a.test").protocols(offered).try_connect(&service.authority, service.address).err().unwrap();
        assert!(fault.to_string().contains("NoApplicationProtocol"), "{fault}");
    }
    // By hand: none in the list, a name without letters, and a thousand of them.
    let offer = |list: &[u8]| Hello { more: extension(16, &[&length(list)[..], list].concat()), ..Hello::default() };
    let many: Vec<u8> = (0..1_000).flat_map(|number| [&[4], format!("{number:04}").as_bytes()].concat()).collect();
    for (list, expected) in
        [(&b""[..], None), (b"\0", None), (b"\x02h3", Some(NO_APPLICATION_PROTOCOL)), (&many, Some(NO_APPLICATION_PROTOCOL))]
    {
        let code = alert(&service.answer_to(&offer(list).records(16_000)));
        assert!(expected.is_none_or(|expected| expected == code), "{code}");
    }
    service.goes_on(&workers);
}

#[test]
fn a_site_without_http2_does_not_offer_it() {
    let service = service(|configuration| configuration.site_also("http2 = false"));
    let client = Manner::to("a.test").protocols(&["h2", "http/1.1"]).connect(&service.authority, service.address);
    assert_eq!(client.session.alpn_protocol(), Some(b"http/1.1".as_slice()));
    let refused = Manner::to("a.test").protocols(&["h2"]).try_connect(&service.authority, service.address);
    assert!(refused.is_err());
}

#[test]
fn t10_who_speaks_what_was_not_agreed_on_is_not_understood() {
    let service = service(|configuration| configuration.server_also("http2_cleartext = true"));
    let workers = service.server.workers();
    let mut client = Manner::to("a.test").protocols(&["h2"]).connect(&service.authority, service.address);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let (came, said) = client.rest();
    assert!(came.is_empty() && said, "{came:?}");
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for protocols in [&["http/1.1"][..], &[]] {
        let mut client = Manner::to("a.test").protocols(protocols).connect(&service.authority, service.address);
        client.send(preface);
        let came = String::from_utf8_lossy(&client.rest().0).into_owned();
        assert!(came.starts_with("HTTP/1.1 400 ") || came.starts_with("HTTP/1.1 505 "), "{came}");
    }
    service.goes_on(&workers);
}

#[test]
fn t11_a_hello_may_come_in_pieces_and_be_long() {
    let service = service(|configuration| configuration);
    let workers = service.server.workers();
    let plain = Hello::default();
    // In records of one byte, of seven, and in one that comes in three segments.
    for bytes in [plain.records(1), plain.records(7)] {
        let mut client = Client::connect(service.address);
        client.send(bytes);
        assert_eq!(client.exactly(1).unwrap(), [HANDSHAKE]);
    }
    let mut client = Client::connect(service.address);
    for part in plain.records(16_000).chunks(50) {
        client.send(part);
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(client.exactly(1).unwrap(), [HANDSHAKE]);
    // Padding (RFC 7685) up to what the length of a hello can say.
    for padding in [20_000, 60_000] {
        let hello = Hello { more: extension(21, &vec![0; padding]), ..Hello::default() };
        let mut client = Client::connect(service.address);
        client.send(hello.records(16_000));
        let first = client.exactly(1).unwrap()[0];
        assert!(first == HANDSHAKE || first == ALERT, "{padding}: {first}");
    }
    // A message of 16 MiB that never ends, and records that say more than there may be.
    let endless: Vec<u8> = std::iter::once([&[22, 3, 1, 0x40, 0, 1, 0xFF, 0xFF, 0xFF][..], &[0; 16_380]].concat())
        .chain((0..40).map(|_| [&[22, 3, 1, 0x40, 0][..], &[0; 16_384]].concat()))
        .flatten()
        .collect();
    for bytes in [&endless[..], &[22, 3, 1, 0xFF, 0xFF, 1, 2, 3], &[22, 3, 1, 0x48, 1, 1]] {
        let came = service.answer_to(bytes);
        assert!(came.is_empty() || came[0] == ALERT, "{came:?}");
    }
    // The share of a key exchange that quantum computers do not break makes a hello larger than a packet.
    let client = service.connect();
    let group = client.session.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(format!("{group:?}"), "X25519MLKEM768");
    service.goes_on(&workers);
}

#[test]
fn t12_records_that_say_nothing_are_taken_for_a_while_only() {
    let service = service(|configuration| configuration);
    let workers = service.server.workers();
    let hello = Hello::default().records(16_000);
    for (before, record) in [
        (&[][..], &[22, 3, 3, 0, 0][..]),
        (&hello, &[22, 3, 3, 0, 0]),
        (&hello, &[20, 3, 3, 0, 1, 1]),
        (&[], &[21, 3, 3, 0, 2, 1, 90]),
        (&hello, &[21, 3, 3, 0, 2, 1, 90]),
        (&hello, &[23, 3, 3, 0, 0]),
    ] {
        let mut client = TcpStream::connect(service.address).unwrap();
        client.write_all(before).unwrap();
        let many = record.repeat(2_000);
        let begun = Instant::now();
        // Whatever the kernel may hold on the way, it comes to an end.
        let ended = (0..2_000).any(|_| client.write_all(&many).is_err() || begun.elapsed() > PATIENCE);
        assert!(ended && begun.elapsed() < PATIENCE, "{record:?}");
    }
    // Keys that are changed again and again, for nothing.
    let mut client = service.connect();
    let mut refused = false;
    for _ in 0..1_000 {
        client.session.refresh_traffic_keys().unwrap();
        while client.session.wants_write() && !refused {
            refused = client.session.write_tls(&mut client.socket).is_err();
        }
        if refused {
            break;
        }
    }
    assert!(refused || client.receive().map_or(true, |piece| piece.is_empty()));
    service.goes_on(&workers);
}

#[test]
fn t13_an_end_without_a_word_is_a_cut() {
    let backend = FakeBackend::new(|_| answer("Content-Type: text/plain\r\n\r\nx"));
    let service = service(|configuration| configuration.backend(&backend.table("")).rule("path = \"/app\"\nbackend = \"fake\""));
    let workers = service.server.workers();
    let mut client = service.connect();
    client.send("POST /app HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    client.socket.shutdown(Shutdown::Write).unwrap();
    let (came, _) = client.rest();
    assert!(!came.starts_with(b"HTTP/1.1 200 "), "{came:?}");
    // Nobody has taken the half for the whole.
    let whole = wait_until(Duration::from_millis(500), || backend.seen.lock().unwrap().iter().any(|seen| !seen.aborted && !seen.gone));
    assert!(whole.is_none());
    // Between requests it is nothing to speak of.
    let mut client = service.connect();
    client.ask("a.test", "/");
    client.socket.shutdown(Shutdown::Write).unwrap();
    assert!(client.rest().0.is_empty());
    service.goes_on(&workers);
    assert!(!service.server.stderr().contains("[error]"), "{}", service.server.stderr());
}

#[test]
fn t14_a_client_that_has_said_goodbye_is_not_waited_for_but_served() {
    let service = service(|configuration| configuration);
    let workers = service.server.workers();
    let mut client = service.connect();
    client.send("GET /large.bin HTTP/1.1\r\nHost: a.test\r\n\r\n");
    client.session.send_close_notify();
    client.session.complete_io(&mut client.socket).unwrap();
    assert!(client.response().must_be(&[200]).body == pattern(3_000_000));
    assert_eq!(client.rest(), (Vec::new(), true));
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", workers[0])).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    for _ in 0..20 {
        let mut client = service.connect();
        client.session.send_close_notify();
        client.session.complete_io(&mut client.socket).unwrap();
        assert_eq!(client.rest(), (Vec::new(), true));
    }
    // Nobody turns round and round on them: of a second nearly all is left.
    std::thread::sleep(Duration::from_millis(1_000));
    assert!(ticks() - before < 60, "{} ticks", ticks() - before);
    service.goes_on(&workers);
}

#[test]
fn t15_nothing_is_taken_before_the_handshake_is_whole() {
    let service = service(|configuration| configuration);
    let mut configuration = (*Manner::to("a.test").configuration(&service.authority)).clone();
    configuration.enable_early_data = true;
    let configuration = std::sync::Arc::new(configuration);
    for _ in 0..2 {
        let mut client = TlsClient::begin(configuration.clone(), "a.test", service.address);
        assert!(client.session.early_data().is_none());
        client.ask("a.test", "/").must_be(&[200]);
        assert!(!client.session.is_early_data_accepted());
    }
}

#[test]
fn t16_a_handshake_that_stands_still_has_an_end() {
    let service = service(|configuration| configuration.limits("header_timeout = \"1s\""));
    let workers = service.server.workers();
    let hello = Hello::default().records(16_000);
    let (first, _) = hello.split_at(60);
    let begun = Instant::now();
    let mut clients: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut client = TcpStream::connect(service.address).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            // Before a hello is whole, and before the client says that it has its keys.
            client.write_all(if number % 2 == 0 { first } else { &hello }).unwrap();
            client
        })
        .collect();
    // One byte now and then does not put it off.
    let mut slow = TcpStream::connect(service.address).unwrap();
    let dripped = hello.iter().take_while(|byte| {
        std::thread::sleep(Duration::from_millis(40));
        begun.elapsed() < PATIENCE && slow.write_all(&[**byte]).is_ok()
    });
    assert!(dripped.count() < hello.len(), "a hello may take as long as it likes");
    for client in &mut clients {
        let mut come = Vec::new();
        client.read_to_end(&mut come).unwrap();
    }
    service.goes_on(&workers);
}
