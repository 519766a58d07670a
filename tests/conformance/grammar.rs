//! A strict reader of HTTP/1.1 requests: the ABNF of RFC 9112, 9110 and 3986 by recursive descent, without speed or memory in mind, and
//! with the readings that the catalogue of attacks demands where the standard leaves a choice. It shares no code with `src/proto`.

/// What a buffer begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Message(Message),
    /// No continuation that the grammar has is at hand: wrong, or cut short.
    None,
}

/// A request, as far as two readers could differ about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) method: Vec<u8>,
    pub(crate) target: Vec<u8>,
    /// The host that is asked for.
    pub(crate) host: Option<Vec<u8>>,
    /// Names in lower case, in the order of the message.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Bytes of all of it.
    pub(crate) length: usize,
}

/// The limits of a default configuration.
pub(crate) const REQUEST_LINE: usize = 8 << 10;
pub(crate) const HEADER_BYTES: usize = 32 << 10;
pub(crate) const HEADER_COUNT: usize = 100;
pub(crate) const BODY: u64 = 16 << 20;
pub(crate) const EXTENSION_BYTES: usize = 16 << 10;

/// Reads one message off the front.
pub(crate) fn read(bytes: &[u8]) -> Verdict {
    let mut input = Input { bytes, at: 0 };
    match input.message() {
        Some(message) => Verdict::Message(message),
        None => Verdict::None,
    }
}

struct Input<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Input<'b> {
    fn message(&mut self) -> Option<Message> {
        // RFC 9112, 2.2: one empty line before the request line is ignored.
        let _ = self.literal(b"\r\n");
        let (method, target, one_one) = self.request_line()?;
        let fields = self.field_section(HEADER_BYTES, HEADER_COUNT)?;
        let all = |name: &str| fields.iter().filter(|field| field.0 == name).map(|field| field.1.as_slice()).collect::<Vec<_>>();
        let host = asked_host(&method, &target, &all("host"), one_one)?;
        // RFC 9110, 10.1.1; HTTP/1.0 does not have it.
        if one_one && !all("expect").iter().all(|value| value.eq_ignore_ascii_case(b"100-continue")) {
            return None;
        }
        let body = match (&all("transfer-encoding")[..], &all("content-length")[..]) {
            ([], []) => Vec::new(),
            ([], [length]) => self.octets(content_length(length)?)?,
            ([coding], []) if one_one && coding.eq_ignore_ascii_case(b"chunked") => self.chunked_body()?,
            // RFC 9112, 6.1 and 6.3: both, several, other codings, HTTP/1.0.
            _ => return None,
        };
        Some(Message { method, target, host, fields, body, length: self.at })
    }

    /// `method SP request-target SP HTTP-version CRLF`
    fn request_line(&mut self) -> Option<(Vec<u8>, Vec<u8>, bool)> {
        let start = self.at;
        let method = self.token()?;
        self.literal(b" ")?;
        let target = self.some(|byte| (0x21..0x7f).contains(&byte) && !b"\"#<>\\^`{|}".contains(&byte))?;
        self.literal(b" HTTP/1.")?;
        let one_one = match self.any()? {
            b'1' => true,
            b'0' => false,
            _ => return None,
        };
        if self.at - start > REQUEST_LINE {
            return None;
        }
        self.literal(b"\r\n")?;
        Some((method, target, one_one))
    }

    /// `*( field-line CRLF ) CRLF`
    fn field_section(&mut self, bytes: usize, count: usize) -> Option<Vec<(String, Vec<u8>)>> {
        let (start, mut fields) = (self.at, Vec::new());
        while self.literal(b"\r\n").is_none() {
            let name = self.token()?;
            self.literal(b":")?;
            let value = self.many(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
            self.literal(b"\r\n")?;
            fields.push((String::from_utf8(name).ok()?.to_ascii_lowercase(), trimmed(&value).to_vec()));
            if self.at - start > bytes || fields.len() > count {
                return None;
            }
        }
        Some(fields)
    }

    /// `*chunk last-chunk trailer-section CRLF`
    fn chunked_body(&mut self) -> Option<Vec<u8>> {
        let (mut body, mut extensions) = (Vec::new(), 0);
        loop {
            let digits = self.some(|byte| byte.is_ascii_hexdigit())?;
            if digits.len() > 16 {
                return None;
            }
            let size = u64::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?;
            let start = self.at;
            let mut count = 0;
            while self.literal(b";").is_some() {
                self.extension()?;
                count += 1;
            }
            // The semicolon that begins them is not one of their bytes.
            extensions += (self.at - start).saturating_sub(usize::from(count > 0));
            self.literal(b"\r\n")?;
            if extensions > EXTENSION_BYTES {
                return None;
            }
            if size == 0 {
                self.field_section(HEADER_BYTES, HEADER_COUNT)?;
                return Some(body);
            }
            if size > BODY - u64::try_from(body.len()).unwrap() {
                return None;
            }
            body.extend(self.octets(size)?);
            self.literal(b"\r\n")?;
        }
    }

    /// `chunk-ext-name [ "=" ( token / quoted-string ) ]`, without the white space that only old senders may put there.
    fn extension(&mut self) -> Option<()> {
        self.token()?;
        if self.literal(b"=").is_none() {
            return Some(());
        }
        if self.literal(b"\"").is_none() {
            return self.token().map(drop);
        }
        loop {
            match self.any()? {
                b'"' => return Some(()),
                b'\\' => {
                    let quoted = self.any()?;
                    (quoted == b'\t' || (quoted >= b' ' && quoted != 0x7f)).then_some(())?;
                }
                b'\t' | b' '..=b'~' | 0x80.. => {}
                _ => return None,
            }
        }
    }

    fn octets(&mut self, count: u64) -> Option<Vec<u8>> {
        if count > BODY {
            return None;
        }
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        let octets = self.bytes.get(self.at..end)?.to_vec();
        self.at = end;
        Some(octets)
    }

    fn token(&mut self) -> Option<Vec<u8>> {
        self.some(
            |byte| matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'^'..=b'z' | b'|' | b'~'),
        )
    }

    fn some(&mut self, accepts: impl Fn(u8) -> bool) -> Option<Vec<u8>> {
        let bytes = self.many(accepts);
        (!bytes.is_empty()).then_some(bytes)
    }

    fn many(&mut self, accepts: impl Fn(u8) -> bool) -> Vec<u8> {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().take_while(|byte| accepts(**byte)).count();
        self.at += count;
        rest[..count].to_vec()
    }

    fn any(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(literal).then(|| self.at += literal.len())
    }
}

fn trimmed(value: &[u8]) -> &[u8] {
    let mut value = value;
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// `1*DIGIT`, without leading zeros, that a signed number of 64 bits holds.
fn content_length(text: &[u8]) -> Option<u64> {
    let zeros = text.len() > 1 && text.starts_with(b"0");
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit) && !zeros;
    if !digits {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse::<i64>().ok()?.try_into().ok()
}

/// The host that a request is for, `Some(None)` where it says none; `None` where target and `Host` are not as RFC 9112, 3.2 says.
fn asked_host(method: &[u8], target: &[u8], hosts: &[&[u8]], one_one: bool) -> Option<Option<Vec<u8>>> {
    let in_target = match (method, target) {
        (b"CONNECT", _) => {
            let (host, port) = authority(target)?;
            port.filter(|port| !port.is_empty())?;
            Some(host)
        }
        (b"OPTIONS", b"*") | (_, [b'/', ..]) => None,
        (_, target) => {
            let text = std::str::from_utf8(target).ok()?;
            let (scheme, rest) = text.split_once("://")?;
            if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
                return None;
            }
            Some(authority(rest.split(['/', '?']).next()?.as_bytes())?.0)
        }
    };
    let host = match hosts {
        [] if !one_one => None,
        [b""] if target == b"*" => None,
        [value] => Some(authority(value)?.0),
        _ => return None,
    };
    Some(in_target.or(host))
}

/// `uri-host [ ":" port ]`, without user information. Host and port.
fn authority(text: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let text = std::str::from_utf8(text).ok()?;
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        address.parse::<std::net::Ipv6Addr>().ok()?;
        let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
        (format!("[{address}]"), port)
    } else {
        let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        reg_name(host)?;
        (host.to_owned(), port)
    };
    if let Some(port) = port {
        let fits = port.len() <= 5 && port.chars().all(|c| c.is_ascii_digit()) && port.parse::<u32>().unwrap_or(0) <= 65_535;
        fits.then_some(())?;
    }
    Some((host.into_bytes(), port.map(|port| port.as_bytes().to_vec())))
}

/// `1*( unreserved / pct-encoded / sub-delims )` without the comma, which is what two joined `Host` lines would have.
fn reg_name(text: &str) -> Option<()> {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = if first == '%' {
            let digits = rest.get(1..3)?;
            digits.chars().all(|c| c.is_ascii_hexdigit()).then(|| &rest[3..])?
        } else {
            (first.is_ascii_alphanumeric() || "-._~!$&'()*+;=".contains(first)).then(|| &rest[first.len_utf8()..])?
        };
    }
    (!text.is_empty()).then_some(())
}

#[test]
fn the_grammar_reads_what_is_right_and_nothing_else() {
    let message = |text: &str| match read(text.as_bytes()) {
        Verdict::Message(message) => Some((String::from_utf8(message.body).unwrap(), message.length)),
        Verdict::None => None,
    };
    assert_eq!(message("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Some((String::new(), 27)));
    assert_eq!(message("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi!"), Some(("hi".to_owned(), 49)));
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(message(&format!("{chunked}2;a=\"b\"\r\nhi\r\n0\r\nX: y\r\n\r\n")).unwrap().0, "hi");
    for wrong in ["2\nhi\r\n0\r\n\r\n", "2 \r\nhi\r\n0\r\n\r\n", "3\r\nhi\r\n0\r\n\r\n", "2\r\nhi\r\n0\r\n", "2;a=\"\r\nhi\r\n0\r\n\r\n"] {
        assert_eq!(message(&format!("{chunked}{wrong}")), None, "{wrong}");
    }
    for wrong in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
    ] {
        assert_eq!(message(wrong), None, "{wrong}");
    }
}
