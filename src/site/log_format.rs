//! Access lines in the formats of `[log] format`.
//!
//! Runs in the `worker`; does no I/O. A line is visible ASCII and spaces, whatever a client sends, so that it neither breaks nor drives a
//! terminal: bytes beyond become `\xHH`, in JSON `\uHHHH`.

use super::facts::{Fields, Scheme};
use super::template::{self, Client, Piece, Value, Values};
use crate::config::{LogFormat, Part, Template, Variable};
use crate::proto::decimal;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

/// What an access line says of a request and its response. Texts are as they were sent; empty: there was none.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    pub client: IpAddr,
    pub user: &'a [u8],
    /// `30/Nov/2026:10:00:00 +0100`
    pub time: &'a [u8],
    /// The same moment in seconds since 1970.
    pub unix: i64,
    pub request_line: &'a [u8],
    pub method: &'a [u8],
    /// The path as it was sent, and decoded.
    pub raw_path: &'a [u8],
    pub path: &'a [u8],
    pub query: Option<&'a [u8]>,
    pub host: &'a [u8],
    /// The first name of the site that answered.
    pub site: &'a [u8],
    /// Of the listener.
    pub port: u16,
    pub scheme: Scheme,
    pub status: u16,
    /// Bytes of the body that were sent.
    pub bytes: u64,
    /// From the first byte of the head to the last of the response.
    pub duration: Duration,
    pub request_id: &'a [u8],
    pub tls_version: &'a str,
    pub tls_sni: &'a str,
    /// Subject of the certificate that the client has shown, or empty.
    pub tls_client: &'a str,
    pub fields: &'a dyn Fields,
}

/// Appends one line, its LF included. Each text of the client gets at most `cap` bytes, after escaping, and three dots where it was cut.
pub fn render(format: &LogFormat, exchange: &Exchange<'_>, cap: usize, out: &mut Vec<u8>) {
    match format {
        LogFormat::Common => common(exchange, cap, out),
        LogFormat::Combined => combined(exchange, cap, out),
        LogFormat::VhostCombined => {
            // As Apache's "%v:%p": nothing that the client chose, so that lines can be split by it.
            word(exchange.site, cap, out);
            out.push(b':');
            decimal::write(exchange.port.into(), out);
            out.push(b' ');
            combined(exchange, cap, out);
        }
        LogFormat::Json => json(exchange, cap, out),
        LogFormat::Template(template) => line(template, exchange, cap, out),
    }
    out.push(b'\n');
}

/// Whether the lines of a format say how long an exchange took, which is measured only then.
pub fn says_duration(format: &LogFormat) -> bool {
    match format {
        LogFormat::Common | LogFormat::Combined | LogFormat::VhostCombined => false,
        LogFormat::Json => true,
        LogFormat::Template(template) => template.parts.contains(&Part::Variable(Variable::Duration)),
    }
}

/// Whether they say the path as it is decoded.
pub fn says_path(format: &LogFormat) -> bool {
    match format {
        LogFormat::Common | LogFormat::Combined | LogFormat::VhostCombined => false,
        LogFormat::Json => true,
        LogFormat::Template(template) => template.parts.contains(&Part::Variable(Variable::Path)),
    }
}

fn common(exchange: &Exchange<'_>, cap: usize, out: &mut Vec<u8>) {
    address(exchange.client.to_canonical(), out);
    out.extend_from_slice(b" - ");
    word(exchange.user, cap, out);
    out.extend_from_slice(b" [");
    escape(exchange.time, cap, is_plain, out);
    out.extend_from_slice(b"] ");
    quoted(exchange.request_line, cap, out);
    out.push(b' ');
    decimal::write(exchange.status.into(), out);
    out.push(b' ');
    decimal::write(exchange.bytes, out);
}

fn address(client: IpAddr, out: &mut Vec<u8>) {
    match client {
        IpAddr::V4(v4) if !v4.is_unspecified() => {
            for (index, octet) in v4.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                decimal::write(octet.into(), out);
            }
        }
        IpAddr::V4(_) | IpAddr::V6(_) => write(out, format_args!("{}", Client(client))),
    }
}

fn combined(exchange: &Exchange<'_>, cap: usize, out: &mut Vec<u8>) {
    common(exchange, cap, out);
    for name in ["referer", "user-agent"] {
        out.push(b' ');
        quoted(exchange.fields.first(name).unwrap_or_default(), cap, out);
    }
}

fn line(template: &Template, exchange: &Exchange<'_>, cap: usize, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    for part in &template.parts {
        match template::piece(part, exchange) {
            // A quote of the template is meant; what is put in cannot have one.
            Piece::Literal(literal) => escape(literal.as_bytes(), usize::MAX, |byte| matches!(byte, b' '..=b'~'), out),
            Piece::Query => out.push(b'?'),
            Piece::Value(value) => {
                text.clear();
                template::raw(&value, &mut text);
                escape(if text.is_empty() { b"-" } else { &text }, cap, is_plain, out);
            }
        }
    }
}

/// RFC 8259; the members and their order are fixed.
fn json(exchange: &Exchange<'_>, cap: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    rfc3339(exchange.unix, out);
    write(out, format_args!("\",\"client\":\"{}\"", Client(exchange.client.to_canonical())));
    let field = |name| exchange.fields.first(name).unwrap_or_default();
    let version = memchr::memrchr(b' ', exchange.request_line).map_or(&b""[..], |at| &exchange.request_line[at + 1..]);
    let mut uri = Vec::new();
    template::raw(&Value::Uri(exchange.raw_path, exchange.query), &mut uri);
    // Where nothing could be parsed the line itself is all there is.
    let request = if exchange.method.is_empty() { exchange.request_line } else { b"" };
    let texts: [(&str, &[u8]); 13] = [
        ("user", exchange.user),
        ("scheme", exchange.scheme.name().as_bytes()),
        ("host", exchange.host),
        ("method", exchange.method),
        ("uri", &uri),
        ("protocol", if exchange.method.is_empty() { b"" } else { version }),
        ("request", request),
        ("referer", field("referer")),
        ("user_agent", field("user-agent")),
        ("request_id", exchange.request_id),
        ("tls_version", exchange.tls_version.as_bytes()),
        ("tls_sni", exchange.tls_sni.as_bytes()),
        ("path", if exchange.method.is_empty() { b"" } else { exchange.path }),
    ];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        write(out, format_args!(",\"{name}\":\""));
        json_text(text, cap, out);
        out.push(b'"');
    }
    write(
        out,
        format_args!(
            ",\"port\":{},\"status\":{},\"bytes\":{},\"duration\":{}.{:06}}}",
            exchange.port,
            exchange.status,
            exchange.bytes,
            exchange.duration.as_secs(),
            exchange.duration.subsec_micros()
        ),
    );
}

/// Appends a text as the inside of a JSON string, in ASCII: what is no UTF-8 becomes U+FFFD.
pub fn json_text(text: &[u8], cap: usize, out: &mut Vec<u8>) {
    let start = out.len();
    if text.len() <= cap && text.iter().all(|&byte| is_plain(byte)) {
        out.extend_from_slice(text);
        return;
    }
    let mut units = [0; 2];
    for chunk in text.utf8_chunks() {
        let broken = if chunk.invalid().is_empty() { "" } else { "\u{fffd}" };
        for character in chunk.valid().chars().chain(broken.chars()) {
            let before = out.len();
            match character {
                '"' | '\\' => write(out, format_args!("\\{character}")),
                ' '..='~' => out.push(u8::try_from(character).unwrap_or(b'?')),
                other => other.encode_utf16(&mut units).iter().for_each(|unit| write(out, format_args!("\\u{unit:04x}"))),
            }
            if out.len() - start > cap {
                out.truncate(before);
                out.extend_from_slice(CUT);
                return;
            }
        }
    }
}

impl Values for Exchange<'_> {
    fn variable(&self, variable: Variable) -> Value<'_> {
        match variable {
            Variable::Path => Value::Text(self.path),
            Variable::Query => self.query.map_or(Value::Nothing, Value::Query),
            Variable::Uri => Value::Uri(self.raw_path, self.query),
            Variable::Host => Value::Host(self.host),
            Variable::Scheme => Value::Text(self.scheme.name().as_bytes()),
            Variable::Method => Value::Text(self.method),
            Variable::Client => Value::Address(self.client.to_canonical()),
            Variable::User => Value::Text(self.user),
            Variable::Status => Value::Number(u64::from(self.status)),
            Variable::Bytes => Value::Number(self.bytes),
            Variable::Time => Value::Text(self.time),
            Variable::Duration => Value::Seconds(self.duration),
            Variable::RequestId => Value::Text(self.request_id),
            Variable::TlsVersion => Value::Text(self.tls_version.as_bytes()),
            Variable::TlsSni => Value::Text(self.tls_sni.as_bytes()),
            Variable::TlsClient => Value::Text(self.tls_client.as_bytes()),
        }
    }

    /// What a client proves itself with is in no line, even where a template asks for it.
    fn header(&self, name: &str) -> Option<&[u8]> {
        let is_secret = SECRET.iter().any(|secret| secret.eq_ignore_ascii_case(name));
        if is_secret { None } else { self.fields.first(name) }
    }

    fn capture(&self, _: u8) -> Value<'_> {
        Value::Nothing
    }
}

const SECRET: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Between quotes.
fn quoted(text: &[u8], cap: usize, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(if text.is_empty() { b"-" } else { text }, cap, is_plain, out);
    out.push(b'"');
}

/// Between spaces, so without any.
fn word(text: &[u8], cap: usize, out: &mut Vec<u8>) {
    escape(if text.is_empty() { b"-" } else { text }, cap, |byte| is_plain(byte) & (byte != b' '), out);
}

fn escape(text: &[u8], cap: usize, plain: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    let start = out.len();
    // Most of what comes is plain and short. Looked at to the end, without a branch for each byte, it takes a vector of them at a time.
    if text.len() <= cap && text.iter().fold(true, |all, &byte| all & plain(byte)) {
        out.extend_from_slice(text);
        return;
    }
    for &byte in text {
        let size = if plain(byte) { 1 } else { 4 };
        if (out.len() - start).saturating_add(size) > cap {
            out.extend_from_slice(CUT);
            return;
        }
        if plain(byte) {
            out.push(byte);
        } else {
            write(out, format_args!("\\x{byte:02X}"));
        }
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') & (byte != b'"') & (byte != b'\\')
}

/// `2026-11-30T09:00:00Z` (RFC 3339), by the proleptic Gregorian calendar; years beyond four digits are shown as the nearest that has them.
fn rfc3339(unix: i64, out: &mut Vec<u8>) {
    let unix = unix.clamp(0, LAST_SECOND);
    let (days, second) = (unix / 86_400, unix % 86_400);
    // Years are counted from March on, so that the leap day is the last of its year; day 0 is 0000-03-01.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let day = day - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    write(out, format_args!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"));
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector does not fail.
    let _ = out.write_fmt(text);
}

/// Stands where a text was cut.
const CUT: &[u8] = b"...";

/// 9999-12-31 23:59:59.
const LAST_SECOND: i64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::template::tests::template;

    fn with<T>(agent: &[u8], line: &[u8], run: impl Fn(&Exchange<'_>) -> T) -> T {
        let fields = vec![("User-Agent", agent.to_vec()), ("X-Y", b"z \"q\"".to_vec())];
        run(&Exchange {
            client: "::ffff:192.0.2.1".parse().unwrap(),
            user: b"a b",
            time: b"30/Nov/2026:10:00:00 +0100",
            unix: 1_796_029_200,
            request_line: line,
            method: b"GET",
            raw_path: b"/a%20b",
            path: b"/a b\n",
            query: Some(b"x=1"),
            host: b"A.test",
            site: b"a.test",
            port: 443,
            scheme: Scheme::Https,
            status: 200,
            bytes: 12,
            duration: Duration::from_micros(1_002_003),
            request_id: b"id1",
            tls_version: "TLSv1.3",
            tls_sni: "a.test",
            tls_client: "",
            fields: &fields,
        })
    }

    fn rendered(format: &LogFormat, agent: &[u8], cap: usize) -> String {
        with(agent, b"GET /a%20b?x=1 HTTP/1.1", |exchange| {
            let mut out = Vec::new();
            render(format, exchange, cap, &mut out);
            assert!(out[..out.len() - 1].iter().all(|byte| matches!(byte, b' '..=b'~')));
            String::from_utf8(out).unwrap()
        })
    }

    #[test]
    fn l01_l02_foreign_bytes_stay_in_their_place() {
        let common = "192.0.2.1 - a\\x20b [30/Nov/2026:10:00:00 +0100] \"GET /a%20b?x=1 HTTP/1.1\" 200 12";
        assert_eq!(rendered(&LogFormat::Common, b"x", 100), format!("{common}\n"));
        assert_eq!(
            rendered(&LogFormat::Combined, b"a\"b\\\r\n\x1b[2J\xff", 100),
            format!("{common} \"-\" \"a\\x22b\\x5C\\x0D\\x0A\\x1B[2J\\xFF\"\n")
        );
        assert_eq!(rendered(&LogFormat::VhostCombined, b"", 100), format!("a.test:443 {common} \"-\" \"-\"\n"));
    }

    #[test]
    fn l09_a_template_cannot_ask_for_secrets() {
        let fields = vec![
            ("Authorization", b"Basic c2VjcmV0".to_vec()),
            ("Cookie", b"s=hidden".to_vec()),
            ("Proxy-Authorization", b"Basic c2VjcmV0".to_vec()),
        ];
        let format = LogFormat::Template(template("{header.authorization} {header.cookie} {header.proxy-authorization}"));
        let line = with(b"", b"GET / HTTP/1.1", |exchange| {
            let mut out = Vec::new();
            render(&format, &Exchange { fields: &fields, ..*exchange }, 100, &mut out);
            out
        });
        assert_eq!(line, b"- - -\n");
    }

    #[test]
    fn l04_json_is_always_json() {
        let every: Vec<u8> = (0..=255).collect();
        let agents: [&[u8]; 6] =
            [b"plain", b"a\"b\\c\r\n\t\x00\x7f", "\u{e9}\u{2028}\u{2029}\u{1f600}".as_bytes(), b"\xed\xa0\x80 \xff\xfe \xc3", &every, b""];
        for agent in agents {
            for cap in [0, 1, 5, 6, 7, 11, 12, 50, 2000] {
                let line = rendered(&LogFormat::Json, agent, cap);
                let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|fault| panic!("{line}: {fault}"));
                if cap == 2000 {
                    assert_eq!(value["user_agent"].as_str().unwrap_or(""), String::from_utf8_lossy(agent));
                    assert_eq!(value["status"], 200);
                    assert_eq!(value["duration"].as_f64(), Some(1.002_003));
                    assert_eq!(value["time"], "2026-11-30T09:00:00Z");
                    assert_eq!(value["uri"], "/a%20b?x=1");
                    assert_eq!(value["path"], "/a b\n");
                    assert_eq!(value["protocol"], "HTTP/1.1");
                }
            }
        }
        // What could not be parsed stands there as it came.
        let line = with(b"", b"\x16\x03\x01", |exchange| {
            let mut out = Vec::new();
            let broken = Exchange { method: b"", ..*exchange };
            render(&LogFormat::Json, &broken, 100, &mut out);
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        });
        assert_eq!((line["request"].as_str(), line.get("protocol")), (Some("\u{16}\u{3}\u{1}"), None));
    }

    #[test]
    fn l03_long_fields_are_cut_whole() {
        for (agent, cap, expected) in [
            (&b"abcdef"[..], 6, "abcdef"),
            (b"abcdefg", 6, "abcdef..."),
            (b"ab\xff\xff", 7, "ab\\xFF..."),
            (b"\xff\xff", 7, "\\xFF..."),
            (b"\xff", 3, "..."),
        ] {
            let format = LogFormat::Template(template("<{header.user-agent}>"));
            assert_eq!(rendered(&format, agent, cap), format!("<{expected}>\n"));
        }
    }

    #[test]
    fn templates_have_every_variable() {
        let text = "{path} {query} {uri} {host} {scheme} {method} {client} {user} {status} {bytes} [{time}] {duration} {request_id} \
                    {header.x-y} {header.none} {tls.version} {tls.sni} {1} \"\u{e9}\"";
        assert_eq!(
            rendered(&LogFormat::Template(template(text)), b"x", 100),
            "/a b\\x0A x=1 /a%20b?x=1 a.test https GET 192.0.2.1 a b 200 12 [30/Nov/2026:10:00:00 +0100] 1.002003 id1 \
             z \\x22q\\x22 - TLSv1.3 a.test - \"\\xC3\\xA9\"\n"
        );
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (unix, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (i64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            let mut out = Vec::new();
            rfc3339(unix, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{unix}");
        }
    }
}
