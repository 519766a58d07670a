//! Probes of the kind that suites for HTTP/1.1 servers send, from the RFCs: each with every answer that is right here. What the cases
//! `F01` to `F44` hold already is not repeated; each response is the last of its connection, and nothing behind it is answered.

use crate::support::{Configuration, Root, Server, is_all, request, shown};

const BAD: &[u16] = &[400];

/// Its name, what is sent, and the statuses that are right for each response.
type Probe = (&'static str, Vec<u8>, &'static [&'static [u16]]);

/// What is sent, and the statuses of the responses to it, in order. With a closing one nothing more may come.
fn probes() -> Vec<Probe> {
    let one = |text: &str| text.as_bytes().to_vec();
    let post = |fields: &str, body: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").into_bytes();
    let get = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
    let next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
    vec![
        // RFC 9112, 2.2: the request line and what stands around it.
        ("two empty lines before", one("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("space before", one(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("byte order mark before", one("\u{feff}GET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[BAD]),
        ("vertical tab as a separator", one("GET\x0b/ HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("form feed as a separator", one("GET /\x0cHTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("no target", one("GET HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("method in lower case", one("get / HTTP/1.1\r\nHost: a\r\n\r\n"), &[&[501]]),
        ("unknown method", one("FOO / HTTP/1.1\r\nHost: a\r\n\r\n"), &[&[501]]),
        ("method that is no token", one("G@T / HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("method with a colon", one("GET: / HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("protocol in lower case", one("GET / Http/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("version with a space", one("GET / HTTP/ 1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("version with a sign", one("GET / HTTP/+1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("version with a comma", one("GET / HTTP/1,1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("version with zeros", one("GET / HTTP/1.01\r\nHost: a\r\n\r\n"), &[BAD]),
        ("target with user information", one("GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("target with an empty host", one("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("target with a space, encoded", one("GET /a%20b HTTP/1.1\r\nHost: a\r\n\r\n"), &[&[404]]),
        ("target of UTF-8", one("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("asterisk with GET", one("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("asterisk with more behind it", one("OPTIONS */x HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("authority with OPTIONS", one("OPTIONS a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("CONNECT without a port", one("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        ("CONNECT with a path", one("CONNECT /x HTTP/1.1\r\nHost: a\r\n\r\n"), &[BAD]),
        // RFC 9112, 5 and RFC 9110, 5.5 and 5.6: field lines.
        ("name with a slash", get("X/Y: a\r\n"), &[BAD]),
        ("name with a space inside", get("X Y: a\r\n"), &[BAD]),
        ("name with a tab before the colon", get("X\t: a\r\n"), &[BAD]),
        ("name with a vertical tab", get("X\x0b: a\r\n"), &[BAD]),
        ("line of spaces", get("   \r\n"), &[BAD]),
        ("only a colon", get(":\r\n"), &[BAD]),
        ("escape sequence in a value", get("X: \x1b[31m\r\n"), &[BAD]),
        ("backspace in a value", get("X: a\x08b\r\n"), &[BAD]),
        ("vertical tab in a value", get("X: a\x0bb\r\n"), &[BAD]),
        ("white space around a value", get("X: \t a \t \r\n"), &[&[200]]),
        ("empty line of CR and LF apart", one("GET / HTTP/1.1\r\nHost: a\r\n\r\r\n"), &[BAD]),
        ("LF CR as a line end", one("GET / HTTP/1.1\n\rHost: a\n\r\n\r"), &[BAD]),
        // RFC 9112, 3.2: Host.
        ("Host with a space before the colon", one("GET / HTTP/1.1\r\nHost : a\r\n\r\n"), &[BAD]),
        ("Host folded", one("GET / HTTP/1.1\r\nHost:\r\n a\r\n\r\n"), &[BAD]),
        ("Host with a path", one("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), &[BAD]),
        ("Host with a scheme", one("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n"), &[BAD]),
        ("Host with two ports", one("GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n"), &[BAD]),
        ("Host with a sign in its port", one("GET / HTTP/1.1\r\nHost: a:+80\r\n\r\n"), &[BAD]),
        ("Host of a zone", one("GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n"), &[BAD]),
        ("Host of two, other case", one("GET / HTTP/1.1\r\nhost: a\r\nHOST: a\r\n\r\n"), &[BAD]),
        ("Host missing with an absolute target", one("GET http://a/ HTTP/1.1\r\n\r\n"), &[BAD]),
        ("Host empty", one("GET / HTTP/1.1\r\nHost:\r\n\r\n"), &[BAD]),
        // RFC 9112, 6: lengths and codings.
        ("Content-Length with a comma", post("Content-Length: 5,\r\n", "hello"), &[BAD]),
        ("Content-Length of spaces", post("Content-Length:  \r\n", "hello"), &[BAD]),
        ("Content-Length in hexadecimal", post("Content-Length: 0x5\r\n", "hello"), &[BAD]),
        ("Content-Length in octal", post("Content-Length: 0o5\r\n", "hello"), &[BAD]),
        ("Content-Length with a fraction", post("Content-Length: 5.0\r\n", "hello"), &[BAD]),
        ("Content-Length minus zero", post("Content-Length: -0\r\n", ""), &[BAD]),
        ("Content-Length with quotes", post("Content-Length: \"5\"\r\n", "hello"), &[BAD]),
        ("Content-Length with a vertical tab", post("Content-Length: \x0b5\r\n", "hello"), &[BAD]),
        ("Content-Length of 0 with a body", [post("Content-Length: 0\r\n", ""), next.into()].concat(), &[&[405], &[404]]),
        ("Content-Length, other case", [post("CONTENT-LENGTH: 5\r\n", "hello"), next.into()].concat(), &[&[405], &[404]]),
        ("Content-Length twice, other case", post("Content-length: 5\r\nCONTENT-LENGTH: 5\r\n", "hello"), &[BAD]),
        ("no length, no body", [post("", ""), next.into()].concat(), &[&[405], &[404]]),
        ("coding with a space behind", [post("Transfer-Encoding: chunked \r\n", "0\r\n\r\n"), next.into()].concat(), &[&[405], &[404]]),
        ("coding, other case", [post("TRANSFER-ENCODING: ChUnKeD\r\n", "0\r\n\r\n"), next.into()].concat(), &[&[405], &[404]]),
        ("coding after a tab", [post("Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n"), next.into()].concat(), &[&[405], &[404]]),
        ("coding after LF", post("Transfer-Encoding:\n chunked\r\n", "0\r\n\r\n"), &[BAD]),
        ("coding with a CR", post("Transfer-Encoding: chunked\r\r\n", "0\r\n\r\n"), &[BAD]),
        ("coding with a line of spaces", post("Transfer-Encoding: chunked\r\n \r\n", "0\r\n\r\n"), &[BAD]),
        ("coding with a parameter", post("Transfer-Encoding: chunked; q=0\r\n", "0\r\n\r\n"), &[BAD]),
        ("coding unknown", post("Transfer-Encoding: x\r\n", "0\r\n\r\n"), &[&[400, 501]]),
        ("coding in two lines", post("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), &[&[400, 501]]),
        ("coding and length, the length first", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), &[BAD]),
        ("coding of a name with an underscore", [get("Transfer_Encoding: chunked\r\n"), next.into()].concat(), &[&[200], &[404]]),
        ("coding of a GET", [get("Transfer-Encoding: chunked\r\n"), b"0\r\n\r\n".to_vec(), next.into()].concat(), &[&[200], &[404]]),
        // RFC 9112, 7.1: chunks.
        ("chunk size with a plus", post("Transfer-Encoding: chunked\r\n", "+1\r\na\r\n0\r\n\r\n"), &[BAD]),
        ("chunk size with a letter behind", post("Transfer-Encoding: chunked\r\n", "1x\r\na\r\n0\r\n\r\n"), &[BAD]),
        ("chunk size with an apostrophe", post("Transfer-Encoding: chunked\r\n", "1'0\r\na\r\n0\r\n\r\n"), &[BAD]),
        ("chunk after an empty line", post("Transfer-Encoding: chunked\r\n", "\r\n1\r\na\r\n0\r\n\r\n"), &[BAD]),
        ("last chunk with a sign", post("Transfer-Encoding: chunked\r\n", "-0\r\n\r\n"), &[BAD]),
        ("last chunk of spaces", post("Transfer-Encoding: chunked\r\n", "0 \r\n\r\n"), &[BAD]),
        ("trailer that is a request", [post("Transfer-Encoding: chunked\r\n", "0\r\n"), next.into()].concat(), &[BAD]),
        (
            "trailer of a length",
            [post("Transfer-Encoding: chunked\r\n", "0\r\nContent-Length: 50\r\n\r\n"), next.into()].concat(),
            &[&[405], &[404]],
        ),
        // RFC 9110, 7.6.1, 10.1.1 and 7.8: connection, expectation, upgrade.
        ("Connection of empty elements", [get("Connection: , ,\r\n"), next.into()].concat(), &[&[200], &[404]]),
        ("Connection close within a list", [get("Connection: x,close ,y\r\n"), next.into()].concat(), &[&[200]]),
        ("Connection of two lines", [get("Connection: x\r\nConnection: close\r\n"), next.into()].concat(), &[&[200]]),
        ("Connection of a name that holds close", [get("Connection: closed\r\n"), next.into()].concat(), &[&[200], &[404]]),
        ("Keep-Alive", [get("Keep-Alive: timeout=5\r\n"), next.into()].concat(), &[&[200], &[404]]),
        ("Expect of two, one unknown", get("Expect: 100-continue, x\r\n"), &[&[417]]),
        ("Expect, other case", [get("Expect: 100-CONTINUE\r\n"), next.into()].concat(), &[&[200], &[404]]),
        ("Upgrade to TLS", [get("Upgrade: TLS/1.0\r\nConnection: Upgrade\r\n"), next.into()].concat(), &[&[200], &[404]]),
        ("Max-Forwards", [one("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n"), next.into()].concat(), &[&[200, 204], &[404]]),
        ("TE and Trailer", [get("TE: trailers\r\nTrailer: X\r\n"), next.into()].concat(), &[&[200], &[404]]),
    ]
}

#[test]
fn probes_of_suites_get_the_one_right_answer() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, sent, right) in probes() {
        let mut client = server.connect();
        let _ = client.try_send(&sent);
        let mut seen = Vec::new();
        for statuses in right {
            match client.try_response("GET") {
                Ok(response) if statuses.contains(&response.status) => seen.push(response),
                Ok(response) => wrong.push(format!("{name}: {} is not one of {statuses:?}: {}", response.status, shown(&sent))),
                Err(fault) => wrong.push(format!("{name}: {fault}: {}", shown(&sent))),
            }
        }
        client.half_close();
        match client.rest() {
            Ok(rest) if rest.is_empty() => {}
            Ok(rest) => wrong.push(format!("{name}: afterwards came {}", shown(&rest))),
            Err(fault) => wrong.push(format!("{name}: {fault}")),
        }
        // What is refused ends the connection, and says so.
        if seen.last().is_some_and(|response| [400, 413, 417, 431].contains(&response.status) && !response.closes()) {
            wrong.push(format!("{name}: a refusal that does not close"));
        }
        count += right.len() + 1;
        server.must_be_well(&workers, name);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(server.wait_for_access_lines(count).len(), count, "one access line for each response");
}

#[test]
fn h03_h04_h07_floods_within_a_head_cost_little_and_change_nothing() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let long = |name: &str, value: String| format!("{name}: {value}");
    let parameters: String = (0..1_000).map(|number| format!("a{number}=1&")).collect();
    for field in [
        long("Cookie", "a=b; ".repeat(6_000)),
        long("Accept-Encoding", vec!["gzip;q=0.5"; 1_000].join(", ")),
        long("Accept-Encoding", "\"".repeat(20_000)),
        long("Connection", ",".repeat(30_000)),
        long("Connection", "x,".repeat(15_000)),
        long("If-None-Match", "\"x\",".repeat(7_000)),
        long("If-None-Match", "W/".repeat(15_000)),
        long("If-Modified-Since", "9".repeat(30_000)),
        long("Range", format!("bytes={}", "1-1,".repeat(7_000))),
    ] {
        server.ask("GET", format!("/?{parameters}"), &[&field]).must_be(&[200]);
    }
    // One more than fits.
    server.ask("GET", "/", &[&long("Cookie", "a".repeat(33_000))]).must_be(&[431]);
    // H03: ninety names of fields, all different, in each of many requests on one connection.
    let names: Vec<String> = (0..90).map(|number| format!("X-{number}: y")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut client = server.connect();
    for _ in 0..200 {
        client.send(request("GET", "/", &names));
        client.response("GET").must_be(&[200]);
    }
    server.must_be_well(&workers, "floods within a head");
}

#[test]
fn s10_requests_on_one_connection_end_at_their_limit() {
    let root = Root::with_index();
    // The limit as it is set, and the largest there is.
    for limit in if is_all() { [2_000, 1_000_000].as_slice() } else { &[2_000] } {
        let server = Server::run(&Configuration::of(&root.path()).limits(&format!("keepalive_requests = {limit}")));
        let workers = server.workers();
        let mut client = server.connect();
        let mut number = 0;
        while number < limit + 500 {
            // A few at a time, so that neither side waits for the other to read.
            client.send(request("GET", "/", &[]).repeat(100));
            for _ in 0..100 {
                number += 1;
                if number <= *limit {
                    assert_eq!(client.response("GET").must_be(&[200]).closes(), number == *limit, "request {number}");
                }
            }
            if number >= *limit {
                break;
            }
        }
        client.expect_end();
        server.must_be_well(&workers, "many requests");
    }
}

#[test]
fn h05_credentials_that_nobody_asked_for_are_read_within_the_limits_and_never_shown() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let basic = |value: &str| format!("Authorization: Basic {value}");
    // User names with NUL, without a colon and with markup; padding that is wrong; what is no base64 at all.
    for value in ["AAAA", "YWJj", "PHNjcmlwdD46eA==", "YQ=", "====", "!", "", "dTpw dTpw", &"QUFB".repeat(7_000)] {
        server.ask("GET", "/", &[&basic(value)]).must_be(&[200]);
    }
    server.ask("GET", "/", &[&basic("dTpw"), &basic("dTpw")]).must_be(&[200, 400]);
    server.ask("GET", "/", &[&basic("dT\x01pw")]).must_be(&[400]);
    server.ask("GET", "/", &[&basic("dT\0pw")]).must_be(&[400]);
    let mut client = server.connect();
    let _ = client.try_send(request("GET", "/", &[&basic(&"QUFB".repeat(1 << 18))]));
    assert!(client.try_response("GET").map_or_else(|fault| fault.contains("reset"), |response| response.status == 431));
    server.must_be_well(&workers, "credentials");
    let lines: String = server.wait_for_access_lines(10).iter().map(|line| format!("{line:?}\n")).collect();
    assert!(!lines.contains("QUFB") && !lines.contains("script"), "{lines}");
}
