//! Where a request begins and ends (RFC 9112), and attempts to make two readers disagree about it. One table: what is
//! sent, and the only answers that are right for a server of static files. After each row the next request on a new connection
//! is answered and the workers are the same; at the end there is one line in the access log for each response.

use crate::support::{Root, Server, shown};

/// What must come back.
enum Right {
    /// One response with one of these statuses and `Connection: close`, then the end; the rest of what was sent is never answered.
    Closes(&'static [u16]),
    /// A response with one of the statuses for each method, in order. After it the connection goes on, unless the last response says that it closes.
    Answers(&'static [(&'static str, &'static [u16])]),
}
use Right::{Answers, Closes};

const BAD: Right = Closes(&[400]);
const OK: Right = Answers(&[("GET", &[200])]);

struct Case {
    id: &'static str,
    sent: Vec<u8>,
    right: Right,
}

fn case(id: &'static str, sent: impl AsRef<[u8]>, right: Right) -> Case {
    Case { id, sent: sent.as_ref().to_vec(), right }
}

/// GET / with these lines behind `Host`.
fn get(lines: impl AsRef<[u8]>) -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost: a\r\n".as_slice(), lines.as_ref(), b"\r\n"].concat()
}

/// POST / with these lines behind `Host`, and what follows the head.
fn post(lines: impl AsRef<[u8]>, body: impl AsRef<[u8]>) -> Vec<u8> {
    [b"POST / HTTP/1.1\r\nHost: a\r\n".as_slice(), lines.as_ref(), b"\r\n", body.as_ref()].concat()
}

/// A request that would be answered if what stands before it were read in another way.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

fn lengths_and_codings() -> Vec<Case> {
    let mut cases = vec![
        case("F01 CL.TE", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", format!("0\r\n\r\n{SMUGGLED}")), BAD),
        case("F02 TE.CL", post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", format!("24\r\n{SMUGGLED}\r\n0\r\n\r\n")), BAD),
        case("F04 twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), BAD),
        case("F04 chunked, chunked", post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), BAD),
        case("F05 ,chunked", post("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n"), BAD),
        case("F05 chunked,", post("Transfer-Encoding: chunked,\r\n", "0\r\n\r\n"), BAD),
        case("F06 gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), Closes(&[501])),
        case("F06 chunked, gzip", post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"), BAD),
        case("F06 identity", post("Transfer-Encoding: identity\r\n", ""), BAD),
        case("F07 empty TE with CL", post("Transfer-Encoding:\r\nContent-Length: 5\r\n", "hello"), BAD),
        case("F08 equal twice", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), BAD),
        case("F08 5, 5", post("Content-Length: 5, 5\r\n", "hello"), BAD),
        case("F08 different", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), BAD),
        case("F11 leading zeros", post("Content-Length: 00005\r\n", format!("hello{SMUGGLED}")), BAD),
        case("F12 space before the colon", post("Content-Length : 5\r\n", "hello"), BAD),
        case("F12 tab before the colon", post("Content-Length\t: 5\r\n", "hello"), BAD),
        case("F12 space before the colon of TE", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), BAD),
        case("F13 Content_Length", get("Content_Length: 5\r\n"), OK),
        case("F13 Transfer_Encoding", get("Transfer_Encoding: chunked\r\n"), OK),
        case("F25 HTTP/1.0 with TE", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    ];
    for coding in [b"xchunked".as_slice(), b"\x0bchunked", b"chunked\0", b"\"chunked\"", b"chunked;q=1", b"chunked\x0b", b"Chunked x"] {
        let line = [b"Transfer-Encoding: ", coding, b"\r\n"].concat();
        cases.push(case("F03 TE.TE", post(line, format!("0\r\n\r\n{SMUGGLED}")), Closes(&[400, 501])));
    }
    for length in ["+5", "-5", "5 5", "0x5", "5_0", "1e1", "5;", "", "٥", "5.0", "five"] {
        cases.push(case("F09 no number", post(format!("Content-Length: {length}\r\n"), "hello"), BAD));
    }
    for length in ["18446744073709551616", "999999999999999999999999999999", "9223372036854775808"] {
        cases.push(case("F10 too large a number", post(format!("Content-Length: {length}\r\n"), "hello"), Closes(&[400, 413])));
    }
    cases
}

fn lines() -> Vec<Case> {
    let mut cases = vec![
        case("F14 folded", get("X: a\r\n b\r\n"), BAD),
        case("F14 folded with a tab", get("X: a\r\n\tb\r\n"), BAD),
        case("F14 folded TE", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), BAD),
        case("F15 space before the first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", BAD),
        case("F15 tab before the first line", "GET / HTTP/1.1\r\n\tX: a\r\nHost: a\r\n\r\n", BAD),
        case("F16 LF only", "GET / HTTP/1.1\nHost: a\n\n", BAD),
        case("F16 LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", BAD),
        case("F16 LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", BAD),
        case("F16 LF as the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\n", BAD),
        case("F16 LF before the request", format!("\n{}", SMUGGLED.replace("/smuggled", "/")), BAD),
        case("F17 CR in a value", get("X: a\rb\r\n"), BAD),
        case("F17 CR CR LF", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", BAD),
        case("F17 CR as line end", "GET / HTTP/1.1\rHost: a\r\r", BAD),
        case("F18 NUL in a value", get("X: a\0b\r\n"), BAD),
        case("F18 0x01 in a value", get("X: a\x01b\r\n"), BAD),
        case("F18 0x7f in a value", get("X: a\x7fb\r\n"), BAD),
        case("F18 obs-text in a name", get(b"X\xe9: a\r\n"), BAD),
        case("F18 0xff in a name", get(b"\xff: a\r\n"), BAD),
        case("F18 obs-text in a value", get(b"X: \xe9\r\n"), Answers(&[("GET", &[200, 400])])),
        case("F18 tab in a value", get("X: a\tb\r\n"), OK),
        case("F19 no colon", get("nocolon\r\n"), BAD),
        case("F19 empty name", get(": x\r\n"), BAD),
        case("F19 empty value", get("X:\r\n"), OK),
        case("F24 0.9", "GET /\r\n", BAD),
        case("F24 0.9 with an empty line", "GET /\r\n\r\n", BAD),
        case("F42 preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Closes(&[400, 505])),
    ];
    for byte in b"(),/:;<=>?@[\\]{} \"" {
        cases.push(case(
            "F18 byte that is no token in a name",
            get([b"X".as_slice(), &[*byte], b"Y: a\r\n"].concat()),
            if *byte == b':' { OK } else { BAD },
        ));
    }
    for version in [
        "HTTP/1.2",
        "HTTP/2.0",
        "HTTP/01.1",
        "HTTP/1.10",
        "http/1.1",
        "HTTP/1",
        "HTTP/",
        "HTTP",
        "HTTP/1.1x",
        "HTTP/1,1",
        "XTTP/1.1",
        "HTTP/0.9",
        "HTTP/3.0",
    ] {
        cases.push(case("F26 version", format!("GET / {version}\r\nHost: a\r\n\r\n"), Closes(&[400, 505])));
    }
    for line in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET\t/\tHTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET / HTTP/1.1\t",
        " GET / HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /a\tb HTTP/1.1",
        "GET /\nHTTP/1.1",
        "GET /\rx HTTP/1.1",
        "GET HTTP/1.1",
        "GET",
        " ",
        "/ HTTP/1.1",
    ] {
        cases.push(case("F27 request line", format!("{line}\r\nHost: a\r\n\r\n"), BAD));
    }
    for piece in [b"#fragment".as_slice(), b"\xe9", b"\"", b"<", b">", b"^", b"{", b"}", b"|", b"`", b"\x7f", b"\x01"] {
        cases.push(case("F28 byte in the target", [b"GET /a", piece, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat(), BAD));
    }
    cases
}

fn hosts_and_targets() -> Vec<Case> {
    let mut cases = vec![
        case("F20 no Host", "GET / HTTP/1.1\r\n\r\n", BAD),
        case("F20 two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BAD),
        case("F20 the same Host twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", BAD),
        case("F21 both name a host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", Answers(&[("GET", &[200, 400])])),
        case("F21 absolute target", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", OK),
        case("F21 absolute target without Host", "GET http://a/ HTTP/1.1\r\n\r\n", BAD),
        case("F23 OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Answers(&[("OPTIONS", &[200, 204])])),
        case("F23 CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", Answers(&[("CONNECT", &[405, 501])])),
        case("F23 TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\nCookie: c\r\n\r\n", Answers(&[("TRACE", &[405, 501])])),
    ];
    for host in
        ["a, b", "a/b", "u@a", "a:99999", "[::1", "", "a b", "a:b", "a:-1", "[::1]x", "[zz]", "a?b", "a#b", "a\\b", "%zz", ":80", "::1"]
    {
        cases.push(case("F20 Host", format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), BAD));
    }
    for host in ["a", "A.Test.", "a:80", "[::1]", "[::1]:8080", "127.0.0.1:1", "xn--bcher-kva.example"] {
        cases.push(case("F20 Host that is right", format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), OK));
    }
    for target in ["http://b:80@c/", "ftp://b/", "b/x", "*", "http://", "http:///x", "http:/x", "http://b:99999/", "?x", ""] {
        cases.push(case("F22 target", format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), BAD));
    }
    cases
}

fn bodies() -> Vec<Case> {
    let mut cases = vec![
        case(
            "F36 GET with a body",
            [get("Content-Length: 5\r\n"), b"hello".to_vec(), get("")].concat(),
            Answers(&[("GET", &[200]), ("GET", &[200])]),
        ),
        case(
            "F36 GET with a chunked body",
            [get("Transfer-Encoding: chunked\r\n"), b"5\r\nhello\r\n0\r\n\r\n".to_vec(), get("")].concat(),
            Answers(&[("GET", &[200]), ("GET", &[200])]),
        ),
        case(
            "F36 HEAD with bodies",
            [
                b"HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello".as_slice(),
                b"HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                &get(""),
            ]
            .concat(),
            Answers(&[("HEAD", &[200]), ("HEAD", &[200]), ("GET", &[200])]),
        ),
        case(
            "F37 a body that is a request, chunked",
            [post("Transfer-Encoding: chunked\r\n", format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len())), get("")].concat(),
            Answers(&[("POST", &[405]), ("GET", &[200])]),
        ),
        case(
            "F37 a chunked body too long to be read for nothing",
            [post("Transfer-Encoding: chunked\r\n", format!("{:x}\r\n{}\r\n", 200_000, SMUGGLED.repeat(6000))), get("")].concat(),
            Closes(&[405]),
        ),
        case("F36 GET with a body of none", [get("Content-Length: 0\r\n"), get("")].concat(), Answers(&[("GET", &[200]), ("GET", &[200])])),
        case(
            "F37 POST with a body",
            [post("Content-Length: 60000\r\n", &SMUGGLED.repeat(2000)[..60000]), get("")].concat(),
            Answers(&[("POST", &[405]), ("GET", &[200])]),
        ),
        case(
            "F37 POST with a body too long to be read for nothing",
            [post("Content-Length: 70000\r\n", &SMUGGLED.repeat(2200)[..70000]), get("")].concat(),
            Closes(&[405]),
        ),
        case("F38 continue", post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"), Closes(&[405])),
        case("F38 other expectation", get("Expect: x\r\n"), Answers(&[("GET", &[417])])),
        case(
            "F38 Expect with TE and CL",
            post("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", "hello"),
            BAD,
        ),
        case("F40 hop-by-hop list", get("Connection: close, x, Content-Length, Host\r\n"), Closes(&[200])),
        case("F40 list without close", get("Connection: x, Host\r\n"), OK),
        case("F41 h2c", get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), OK),
        case(
            "F41 websocket",
            get(
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            ),
            OK,
        ),
        case(
            "F43 HEAD, OPTIONS, 304",
            [
                b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
                b"OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
                get("If-None-Match: *\r\n"),
                b"HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
                get(""),
            ]
            .concat(),
            Answers(&[("HEAD", &[200]), ("OPTIONS", &[200, 204]), ("GET", &[304]), ("HEAD", &[404]), ("GET", &[200])]),
        ),
        case(
            "F44 NUL behind a request",
            [get(""), [b"\0".as_slice(), &get("")].concat()].concat(),
            Answers(&[("GET", &[200]), ("GET", &[400])]),
        ),
        case("F38 a body that is held back", post("Content-Length: 5\r\nExpect: 100-continue\r\n", ""), Closes(&[405])),
        case("F38 Expect without a body", get("Expect: 100-continue\r\n"), OK),
        case("F38 expectations in several lines", get("Expect: 100-continue\r\nExpect: x\r\n"), Closes(&[417])),
        case("F38 Expect of HTTP/1.0", "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", Closes(&[200])),
        case("F44 NUL behind a chunked body", chunked("POST", "1\r\na\r\n0\r\n\r\n\0"), Answers(&[("POST", &[405]), ("GET", &[400])])),
    ];
    for body in
        ["0\r\n\r\n", "1;a;b=c;d=\"e;\"\r\na\r\n0\r\n\r\n", "1\r\na\r\n0\r\nContent-Length: 5\r\nHost: b\r\nRange: bytes=0-0\r\n\r\n"]
    {
        // F34: what a trailer says changes nothing.
        cases.push(case("F34 right", chunked("POST", format!("{body}{SMUGGLED}")), Answers(&[("POST", &[405]), ("GET", &[404])])));
        cases.push(case("F34 right", chunked("GET", format!("{body}{SMUGGLED}")), Answers(&[("GET", &[200]), ("GET", &[404])])));
    }
    cases
}

/// A request with a chunked body.
fn chunked(method: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    [format!("{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(), body.as_ref()].concat()
}

/// Chunked bodies that are wrong. A method that a file does not have makes no difference: 405 is for requests that are right.
fn chunks() -> Vec<Case> {
    let mut bodies: Vec<(&'static str, Vec<u8>, &'static [u16])> = Vec::new();
    for size in ["0x1", "+1", "-1", "1_0", " 1", "1 ", "", ";x", "\t1", "1\t", "g", "1.0", "1,1", "\u{661}", "\0"] {
        bodies.push(("F29 size", format!("{size}\r\na\r\n0\r\n\r\n{SMUGGLED}").into_bytes(), &[400]));
    }
    let zeros = "0".repeat(100) + "1";
    for size in ["FFFFFFFFFFFFFFFF", "7FFFFFFFFFFFFFFF", "8000000000000000", "0FFFFFFFFFFFFFFFF", "10000000000000001", &zeros] {
        bodies.push(("F30 size", format!("{size}\r\na\r\n0\r\n\r\n{SMUGGLED}").into_bytes(), &[400, 413]));
    }
    for body in [
        "1\na\r\n0\r\n\r\n",
        "1\ra\r\n0\r\n\r\n",
        "1\r\r\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\na\r0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "3\r\na\r\n0\r\n\r\n",
        "1\r\na0\r\n\r\n",
        "1\r\na\r\n0\n\n",
        "1\r\na\r\n0\r\n\n",
        "1\r\na\r\n0\n\r\n",
        "1\r\na\r\n\r\n0\r\n\r\n",
    ] {
        bodies.push(("F31 ends", format!("{body}{SMUGGLED}").into_bytes(), &[400]));
    }
    for extension in [
        ";a\nb",
        ";a\rb",
        ";a\0b",
        ";a=\"b",
        ";a=\"b\nc\"",
        ";a=\"\x01\"",
        ";",
        ";a=",
        ";=b",
        ";a;",
        "; a",
        " ;a",
        ";a =b",
        ";a=b c",
        ";\u{e9}",
    ] {
        bodies.push(("F32 extension", format!("1{extension}\r\na\r\n0\r\n\r\n{SMUGGLED}").into_bytes(), &[400]));
    }
    let long = format!("1;{}\r\na\r\n0\r\n\r\n{SMUGGLED}", "x".repeat(65_536));
    bodies.push(("F33 extension of 64 KiB", long.into_bytes(), &[400, 413]));
    let many = format!("1;{}\r\na\r\n", "x".repeat(4096)).repeat(50);
    bodies.push(("F33 extensions of 4 KiB on every byte", many.into_bytes(), &[400, 413]));
    for trailer in ["X", " X: y", "X : y", ": y", "X: a\r\n b", "X: a\nY: b", "X: \0", "X: a\r", "X y: z"] {
        bodies.push(("F35 trailer that is none", format!("0\r\n{trailer}\r\n\r\n{SMUGGLED}").into_bytes(), &[400]));
    }
    bodies.push(("F35 trailer of 1 MiB", format!("0\r\nX: {}", "y".repeat(1 << 20)).into_bytes(), &[431]));
    bodies.push(("F35 10,000 trailers", format!("0\r\n{}\r\n", "X: y\r\n".repeat(10_000)).into_bytes(), &[431]));
    let both = |(id, body, right): (&'static str, Vec<u8>, &'static [u16])| {
        ["POST", "GET"].map(|method| case(id, chunked(method, &body), Closes(right)))
    };
    bodies.into_iter().flat_map(both).collect()
}

/// Plays one case; returns how many responses came, or what was wrong.
fn play(server: &Server, case: &Case) -> Result<usize, String> {
    let mut client = server.connect();
    // The server may refuse and close before it has all of it.
    let _ = client.try_send(&case.sent);
    match &case.right {
        Closes(statuses) => {
            let response = client.try_response(if case.sent.starts_with(b"HEAD") { "HEAD" } else { "GET" })?;
            if !statuses.contains(&response.status) {
                return Err(format!("status {} is not one of {statuses:?}", response.status));
            }
            if !response.closes() {
                return Err(format!("status {} without \"Connection: close\"", response.status));
            }
            let rest = client.rest()?;
            if rest.is_empty() { Ok(1) } else { Err(format!("after the response came {}", shown(&rest))) }
        }
        Answers(right) => {
            let mut count = 0;
            let mut closes = false;
            for (method, statuses) in *right {
                let response = client.try_response(method)?;
                if !statuses.contains(&response.status) {
                    return Err(format!("response {}: status {} is not one of {statuses:?}", count + 1, response.status));
                }
                count += 1;
                closes = response.closes();
            }
            if closes {
                let rest = client.rest()?;
                return if rest.is_empty() { Ok(count) } else { Err(format!("after the response came {}", shown(&rest))) };
            }
            client.send(get("Connection: close\r\n"));
            let status = client.try_response("GET")?.status;
            if status == 200 { Ok(count + 1) } else { Err(format!("the next request on the connection gave {status}")) }
        }
    }
}

fn play_all(cases: &[Case]) {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let mut wrong = Vec::new();
    let mut responses = 0;
    for case in cases {
        match play(&server, case) {
            Ok(count) => responses += count,
            Err(fault) => wrong.push(format!("{}: sent {}\n    {fault}", case.id, shown(&case.sent))),
        }
        server.must_be_well(&workers, case.id);
        responses += 1;
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(server.wait_for_access_lines(responses).len(), responses, "one access line for each response");
}

#[test]
fn f01_f13_lengths_and_codings_have_one_meaning() {
    play_all(&lengths_and_codings());
}

#[test]
fn f14_f28_lines_are_what_the_grammar_says() {
    play_all(&lines());
}

#[test]
fn f20_f23_hosts_and_targets_are_what_the_grammar_says() {
    play_all(&hosts_and_targets());
}

#[test]
fn f36_f44_bodies_are_never_requests() {
    play_all(&bodies());
}

#[test]
fn f29_f35_chunked_bodies_are_what_the_grammar_says() {
    play_all(&chunks());
}

#[test]
fn f39_what_is_refused_at_once_is_refused_byte_by_byte() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let mut wrong = Vec::new();
    // The refusals of the line grammar again, each byte in a segment of its own as far as the kernel keeps them apart.
    for case in lengths_and_codings().iter().chain(&hosts_and_targets()).chain(&chunks()).filter(|case| case.sent.len() < 500) {
        let Closes(statuses) = &case.right else { continue };
        let mut client = server.connect();
        for byte in &case.sent {
            if client.try_send([*byte]).is_err() {
                break;
            }
        }
        match client.try_response("GET") {
            Ok(response) if statuses.contains(&response.status) => {}
            Ok(response) => wrong.push(format!("{}: sent {}: {}", case.id, shown(&case.sent), response.status)),
            // What came in after the close may have turned it into a reset that ate the answer.
            Err(fault) if fault.contains("reset") => {}
            Err(fault) => wrong.push(format!("{}: sent {}: {fault}", case.id, shown(&case.sent))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.must_be_well(&workers, "byte by byte");
}
