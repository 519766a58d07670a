//! A second reader of heads, to compare the first with under mutation.

use super::*;

const LIMITS: HeadLimits = HeadLimits { request_line: 8192, header_bytes: 32768, header_count: 100 };

/// A second reader of the grammar, written for clearness alone, to compare with: the body's framing, or `None` for what is to be refused.
/// Takes heads of HTTP/1.1 and 1.0 that are complete.
fn grammar(head: &[u8]) -> Option<Framing> {
    // One char per byte.
    let text: String = head.iter().copied().map(char::from).collect();
    let text = text.strip_prefix("\r\n").unwrap_or(&text);
    let lines: Vec<&str> = text.strip_suffix("\r\n\r\n")?.split("\r\n").collect();
    if lines.iter().any(|line| line.contains(['\r', '\n'])) {
        return None;
    }
    let (request_line, field_lines) = lines.split_first()?;
    let [method, target, version] = request_line.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let token = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c));
    if !token(method) || !["HTTP/1.1", "HTTP/1.0"].contains(&version) {
        return None;
    }
    if target.chars().any(|c| !c.is_ascii_graphic() || "\"#<>\\^`{|}".contains(c)) {
        return None;
    }
    let mut fields = Vec::new();
    for line in field_lines {
        let (name, value) = line.split_once(':')?;
        if !token(name) || value.chars().any(|c| c != '\t' && (c < ' ' || c == '\x7f')) {
            return None;
        }
        fields.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_string()));
    }
    let all = |name: &str| fields.iter().filter(|field| field.0 == name).map(|field| field.1.as_str()).collect::<Vec<_>>();
    let authority = |text: &str| {
        let (host, port) = match text.rfind(':').filter(|&at| !text[at..].contains(']')) {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, ""),
        };
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~!$&'()*+;=".contains(c));
        let escaped = |text: &str| text.len() >= 2 && text.chars().take(2).all(|c| c.is_ascii_hexdigit()) && plain(text);
        let name = |host: &str| host.split('%').enumerate().all(|(at, text)| if at == 0 { plain(text) } else { escaped(text) });
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host_fits = match address {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && name(host),
        };
        let port_fits = port.is_empty() || (port.len() <= 5 && !port.starts_with('+') && port.parse::<u16>().is_ok());
        (host_fits && port_fits).then(|| port.to_string())
    };
    let lower = target.to_ascii_lowercase();
    let hosts = all("host");
    let mut bare = false;
    if method == "CONNECT" {
        if authority(target)?.is_empty() {
            return None;
        }
    } else if target == "*" {
        if method != "OPTIONS" {
            return None;
        }
        bare = true;
    } else if let Some(rest) = lower.strip_prefix("http://").or(lower.strip_prefix("https://")) {
        authority(rest.split(['/', '?']).next()?)?;
    } else if !target.starts_with('/') {
        return None;
    }
    match hosts[..] {
        [] if version == "HTTP/1.0" => {}
        [""] if bare => {}
        [host] => drop(authority(host)?),
        _ => return None,
    }
    if version == "HTTP/1.1" && !all("expect").iter().all(|value| value.eq_ignore_ascii_case("100-continue")) {
        return None;
    }
    match (&all("transfer-encoding")[..], &all("content-length")[..]) {
        ([], []) => Some(Framing::None),
        ([], [length]) if length.chars().all(|c| c.is_ascii_digit()) && (*length == "0" || !length.starts_with('0')) => {
            length.parse::<i64>().ok().map(|length| Framing::Length(length.unsigned_abs()))
        }
        ([coding], []) if version == "HTTP/1.1" && coding.eq_ignore_ascii_case("chunked") => Some(Framing::Chunked),
        _ => None,
    }
}

#[test]
fn f45_mutated_heads_are_read_as_the_grammar_says() {
    let seeds: [&[u8]; 7] = [
        b"GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
        b"\r\nPOST / HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: [::1]:8\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://b:1/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost:\r\nExpect: 100-continue\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ];
    let pieces: [&[u8]; 30] = [
        b"\r\n",
        b"\r",
        b"\n",
        b" ",
        b"\t",
        b":",
        b",",
        b"0",
        b"5",
        b"+",
        b"/",
        b"*",
        b"?",
        b"@",
        b"[",
        b"]",
        b"\0",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"chunked",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\n",
        b"Host: b\r\n",
        b"http://",
        b"HTTP/1.0",
        b"HTTP/1.1",
        b"#",
        b"\x0b",
        b"%",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        // xorshift64: the same run every time.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..60_000 {
        let mut bytes = seeds[random(seeds.len())].to_vec();
        for _ in 0..=random(3) {
            let at = random(bytes.len() + 1);
            let end = (at + random(3)).min(bytes.len());
            let piece = pieces[random(pieces.len())];
            match random(4) {
                0 => drop(bytes.splice(at..end, [])),
                1 => drop(bytes.splice(at..at, piece.iter().copied())),
                2 => drop(bytes.splice(at..end, piece.iter().copied())),
                // A line again, or elsewhere.
                _ => {
                    let start = bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |lf| lf + 1);
                    let line = bytes[start..at].to_vec();
                    drop(bytes.splice(start..start, line));
                }
            }
        }
        let mut scan = Scan::default();
        let ours = match scan.advance(&bytes, &LIMITS) {
            // More would have to come; what has come may be right or wrong.
            Ok(None) => continue,
            Ok(Some(length)) => parse(&bytes[..length], &mut field_space(), &LIMITS).map(|request| (length, request.framing)),
            Err(reject) => Err(reject),
        };
        // The first empty line ends the head for the grammar, one before the request line apart.
        let start = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
        let end = bytes[start..].windows(4).position(|window| window == b"\r\n\r\n").map(|at| start + at + 4);
        let theirs = end.and_then(|end| grammar(&bytes[..end]).map(|framing| (end, framing)));
        assert_eq!(ours.ok(), theirs, "{:?} {}", ours, bytes.escape_ascii());
        *(if ours.is_ok() { &mut accepted } else { &mut refused }) += 1;
    }
    // The mutations are neither so small nor so large that one side goes untested.
    assert!(accepted > 5_000 && refused > 5_000, "accepted {accepted}, refused {refused}");
}
