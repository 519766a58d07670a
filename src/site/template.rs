//! Templates: texts with variables and captures, put together for the place where they will stand.
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O. What is put in comes from the client, so each place has its own encoding: in a
//! path a value stays what it is, in a query or a `Location` it is percent-encoded, in a header it cannot leave its line.

use crate::config::{Part, Template, Variable};
use crate::proto::target::{self, Path};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::Duration;

/// What stands for a variable or a capture.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Not known here.
    Nothing,
    /// Of the response, which is not made yet: in a header, [`STATUS`] stands for it until then.
    Status,
    /// A part of a decoded path.
    Path(&'a Path, Range<usize>),
    /// A query as it was sent, already encoded.
    Query(&'a [u8]),
    /// A path and a query as they were sent.
    Uri(&'a [u8], Option<&'a [u8]>),
    /// A host name or address as it was sent.
    Host(&'a [u8]),
    Text(&'a [u8]),
    Number(u64),
    Seconds(Duration),
    Address(IpAddr),
}

/// Where values come from.
pub trait Values {
    fn variable(&self, variable: Variable) -> Value<'_>;
    /// The value of `{header.NAME}`; the name is in lower case.
    fn header(&self, name: &str) -> Option<&[u8]>;
    /// The value of `{1}` and so on.
    fn capture(&self, number: u8) -> Value<'_>;
}

/// Stands in a header's value for the status. Nothing else in such a value is a control character: [`header`] leaves none.
pub const STATUS: u8 = 0;

/// Nothing is known.
#[derive(Clone, Copy, Debug)]
pub struct Unknown;

impl Values for Unknown {
    fn variable(&self, _: Variable) -> Value<'_> {
        Value::Nothing
    }

    fn header(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn capture(&self, _: u8) -> Value<'_> {
        Value::Nothing
    }
}

/// The redirect would lead to a host that the client chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRedirect;

/// Appends the path of a template as a target's, for [`target::parse_into`]: encoded so that decoding it once gives back exactly what was put
/// in. It begins with a slash.
pub fn path(template: &Template, values: &dyn Values, out: &mut Vec<u8>) {
    let start = out.len();
    for part in split(template).0 {
        match piece(part, values) {
            Piece::Literal(text) => target::encode(text.as_bytes(), out),
            Piece::Query => {}
            Piece::Value(value) => encoded_path(&value, out),
        }
    }
    if out.get(start) != Some(&b'/') {
        out.insert(start, b'/');
    }
}

/// Appends the query of a template; false: it has none.
pub fn query(template: &Template, values: &dyn Values, out: &mut Vec<u8>) -> bool {
    let Some(parts) = split(template).1 else { return false };
    for part in parts {
        match piece(part, values) {
            Piece::Literal(text) => clean(text.as_bytes(), out),
            Piece::Query => out.push(b'?'),
            Piece::Value(value) => encoded_query(&value, out),
        }
    }
    true
}

/// Appends the value of a `Location` field.
///
/// # Errors
/// What the client sent would become part of the host's name. Where the template does not name a host itself, the result never does.
pub fn location(template: &Template, values: &dyn Values, out: &mut Vec<u8>) -> Result<(), OpenRedirect> {
    let start = out.len();
    let (parts, _) = split(template);
    let literal = match parts.first() {
        Some(Part::Literal(text)) => text.as_str(),
        _ => "",
    };
    let after_scheme = matches!(parts, [Part::Variable(Variable::Scheme), Part::Literal(next), ..] if next.starts_with("://"));
    let names_host = after_scheme || literal.starts_with("//") || literal.contains("://");
    let fixed = parts.iter().all(|part| matches!(part, Part::Literal(_)));
    if !names_host && !fixed && !literal.starts_with('/') {
        out.push(b'/');
    }
    for (number, part) in parts.iter().enumerate() {
        match piece(part, values) {
            Piece::Literal(text) => clean(text.as_bytes(), out),
            Piece::Query => {}
            Piece::Value(value) => {
                let at = out.len();
                encoded_path(&value, out);
                if names_host {
                    let within = matches!(parts.get(number + 1), Some(Part::Literal(next)) if is_domain(next));
                    check_authority(&out[start..], at - start, &value, within)?;
                }
            }
        }
    }
    if !names_host {
        // `//host` would be another host, and some clients take a backslash for a slash.
        let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
        while out.get(start).is_some_and(is_slash) && out.get(start + 1).is_some_and(is_slash) {
            out.remove(start + 1);
        }
    }
    let mark = out.len();
    out.push(b'?');
    if !query(template, values, out) || out.len() == mark + 1 {
        out.truncate(mark);
    }
    Ok(())
}

/// Appends the value of a response's header: visible ASCII and spaces only, everything else percent-encoded.
pub fn header(template: &Template, values: &dyn Values, out: &mut Vec<u8>) {
    for part in &template.parts {
        match piece(part, values) {
            Piece::Literal(text) => visible(text.as_bytes(), out),
            Piece::Query => out.push(b'?'),
            Piece::Value(Value::Path(path, range)) => path.encode_part(range, out),
            Piece::Value(Value::Status) => out.push(STATUS),
            Piece::Value(value) => {
                let mut text = Vec::new();
                raw(&value, &mut text);
                visible(&text, out);
            }
        }
    }
}

/// Appends the template as a text, for a body of type `text/plain`.
pub fn text(template: &Template, values: &dyn Values, out: &mut Vec<u8>) {
    for part in &template.parts {
        match piece(part, values) {
            Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Query => out.push(b'?'),
            Piece::Value(value) => raw(&value, out),
        }
    }
}

/// Appends what follows the literal part of a directory's name, without slashes at its ends; false: what would be put in is empty, holds a
/// slash or begins with a dot, and so could lead to another directory than was meant.
pub fn rest(template: &Template, values: &dyn Values, out: &mut Vec<u8>) -> bool {
    let mut text = Vec::new();
    for part in &template.parts {
        match piece(part, values) {
            Piece::Literal(literal) => text.extend_from_slice(literal.as_bytes()),
            Piece::Query => text.push(b'?'),
            Piece::Value(value) => {
                let at = text.len();
                raw(&value, &mut text);
                let put = &text[at..];
                if put.is_empty() || put.starts_with(b".") || put.iter().any(|byte| matches!(byte, b'/' | 0)) {
                    return false;
                }
            }
        }
    }
    for segment in text.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()) {
        // Not from what is put in, but two values may meet: `{1}` behind `.`.
        if matches!(segment, b"." | b"..") {
            return false;
        }
        if !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(segment);
    }
    true
}

/// Whether a template looks at captures.
pub fn has_captures(template: &Template) -> bool {
    template.parts.iter().any(|part| matches!(part, Part::Capture(_)))
}

/// Whether a template is one text, always the same.
pub fn is_fixed(template: &Template) -> bool {
    template.parts.iter().all(|part| matches!(part, Part::Literal(_) | Part::Query))
}

/// Appends a value as it is.
pub fn raw(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Nothing | Value::Status => {}
        Value::Path(path, range) => out.extend_from_slice(path.bytes().get(range.clone()).unwrap_or_default()),
        Value::Query(text) | Value::Text(text) => out.extend_from_slice(text),
        Value::Host(text) => out.extend(text.iter().map(u8::to_ascii_lowercase)),
        Value::Uri(path, query) => {
            out.extend_from_slice(path);
            if let Some(query) = query {
                out.push(b'?');
                out.extend_from_slice(query);
            }
        }
        // Writing to a vector does not fail.
        Value::Number(number) => drop(write!(out, "{number}")),
        Value::Seconds(time) => drop(write!(out, "{}.{:06}", time.as_secs(), time.subsec_micros())),
        Value::Address(address) => drop(write!(out, "{}", Client(*address))),
    }
}

/// A client in text. One at a path has no address: it is `unix:`, and `0.0.0.0` stands for it, which no client of the network has.
pub struct Client(pub IpAddr);

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Ipv4Addr::UNSPECIFIED { formatter.write_str("unix:") } else { write!(formatter, "{}", self.0) }
    }
}

/// A part with its value.
pub(super) enum Piece<'t, 'v> {
    Literal(&'t str),
    /// The template's own `?`.
    Query,
    Value(Value<'v>),
}

/// Looks up what a part stands for.
pub(super) fn piece<'t, 'v>(part: &'t Part, values: &'v dyn Values) -> Piece<'t, 'v> {
    match part {
        Part::Literal(text) => Piece::Literal(text),
        Part::Query => Piece::Query,
        Part::Capture(number) => Piece::Value(values.capture(*number)),
        Part::Variable(variable) => Piece::Value(values.variable(*variable)),
        Part::Header(name) => Piece::Value(values.header(name).map_or(Value::Nothing, Value::Text)),
    }
}

/// The parts before the template's own `?`, and those behind it.
fn split(template: &Template) -> (&[Part], Option<&[Part]>) {
    let parts = &template.parts;
    match parts.iter().position(|part| *part == Part::Query) {
        Some(at) => (&parts[..at], Some(&parts[at + 1..])),
        None => (parts, None),
    }
}

fn encoded_path(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Path(path, range) => path.encode_part(range.clone(), out),
        Value::Query(_) | Value::Uri(..) => {
            let mut text = Vec::new();
            raw(value, &mut text);
            clean(&text, out);
        }
        Value::Host(text) => {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(byte);
            out.extend(text.iter().filter(|byte| plain(byte)).map(u8::to_ascii_lowercase));
        }
        Value::Text(text) => target::encode(text, out),
        Value::Nothing | Value::Status | Value::Number(_) | Value::Seconds(_) | Value::Address(_) => raw(value, out),
    }
}

fn encoded_query(value: &Value<'_>, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    raw(value, &mut text);
    if matches!(value, Value::Query(_)) {
        return clean(&text, out);
    }
    for piece in percent_encode(&text, IN_QUERY) {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// Appends a text that is encoded already, but for bytes that no URL may hold.
fn clean(text: &[u8], out: &mut Vec<u8>) {
    for piece in percent_encode(text, NOT_IN_URL) {
        out.extend_from_slice(piece.as_bytes());
    }
}

fn visible(text: &[u8], out: &mut Vec<u8>) {
    for piece in percent_encode(text, percent_encoding::CONTROLS) {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// Whether a literal part names a domain that what stands before it lies within.
fn is_domain(text: &str) -> bool {
    matches!(text.as_bytes(), [b'.', first, ..] if first.is_ascii_alphanumeric())
}

/// What was put in at `at` may end the authority of `url`, or be labels in front of a literal domain (`within`); else the host would be the
/// client's choice. The host that the request itself names was chosen by nobody else.
fn check_authority(url: &[u8], at: usize, value: &Value<'_>, within: bool) -> Result<(), OpenRedirect> {
    let (before, put) = url.split_at(at);
    let Some(begin) = memchr::memmem::find(before, b"//").map(|slashes| slashes + 2) else {
        return Ok(());
    };
    let authority = &before[begin..];
    if put.is_empty() || authority.iter().any(|byte| matches!(byte, b'/' | b'?' | b'#')) {
        return Ok(());
    }
    let is_label = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let leads = authority.is_empty() || authority.ends_with(b".");
    let fine = match (value, put) {
        (Value::Host(_), _) => leads,
        (_, [b'/', ..]) => !authority.is_empty(),
        (_, label) => leads && within && label.iter().all(is_label) && !label.starts_with(b"."),
    };
    if fine { Ok(()) } else { Err(OpenRedirect) }
}

/// All but unreserved characters (RFC 3986, 2.3) and the slash, which a query may hold.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What is in no URL; `%` stays, as part of an escape.
const NOT_IN_URL: &AsciiSet =
    &percent_encoding::CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A template from its text; `?` is its own.
    pub(crate) fn template(text: &str) -> Template {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut query = false;
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix('{') {
                let (name, after) = behind.split_once('}').unwrap();
                parts.push(part(name));
                rest = after;
            } else if let Some(after) = rest.strip_prefix('?').filter(|_| !query) {
                parts.push(Part::Query);
                query = true;
                rest = after;
            } else {
                let end = rest[1..].find(['{', '?']).map_or(rest.len(), |at| at + 1);
                parts.push(Part::Literal(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        Template { parts }
    }

    fn part(name: &str) -> Part {
        if let Ok(number) = name.parse() {
            return Part::Capture(number);
        }
        if let Some(field) = name.strip_prefix("header.") {
            return Part::Header(field.to_owned());
        }
        Part::Variable(match name {
            "path" => Variable::Path,
            "query" => Variable::Query,
            "uri" => Variable::Uri,
            "host" => Variable::Host,
            "scheme" => Variable::Scheme,
            "method" => Variable::Method,
            "client" => Variable::Client,
            "user" => Variable::User,
            "status" => Variable::Status,
            "bytes" => Variable::Bytes,
            "time" => Variable::Time,
            "duration" => Variable::Duration,
            "request_id" => Variable::RequestId,
            "tls.version" => Variable::TlsVersion,
            "tls.sni" => Variable::TlsSni,
            "tls.client" => Variable::TlsClient,
            other => panic!("{other}"),
        })
    }

    struct Given {
        path: Path,
        raw: Vec<u8>,
        query: Option<Vec<u8>>,
        /// `{1}` is the path from here on.
        from: usize,
    }

    impl Values for Given {
        fn variable(&self, variable: Variable) -> Value<'_> {
            match variable {
                Variable::Path => Value::Path(&self.path, 0..self.path.bytes().len()),
                Variable::Query => self.query.as_deref().map_or(Value::Nothing, Value::Query),
                Variable::Uri => Value::Uri(&self.raw, self.query.as_deref()),
                Variable::Host => Value::Host(b"A.Test"),
                Variable::Scheme => Value::Text(b"http"),
                Variable::Client => Value::Address([192, 0, 2, 1].into()),
                Variable::Status => Value::Number(200),
                Variable::Method
                | Variable::User
                | Variable::Bytes
                | Variable::Time
                | Variable::Duration
                | Variable::RequestId
                | Variable::TlsVersion
                | Variable::TlsSni
                | Variable::TlsClient => Value::Nothing,
            }
        }

        fn header(&self, name: &str) -> Option<&[u8]> {
            (name == "x").then_some(b"a b\r\nc&\xff")
        }

        fn capture(&self, number: u8) -> Value<'_> {
            match number {
                1 => Value::Path(&self.path, self.from..self.path.bytes().len()),
                _ => Value::Nothing,
            }
        }
    }

    fn given(raw: &str, from: usize) -> Given {
        let (raw, query) = raw.split_once('?').map_or((raw, None), |(raw, query)| (raw, Some(query)));
        let mut path = Path::default();
        target::parse_into(raw.as_bytes(), &mut path).unwrap();
        Given { path, raw: raw.as_bytes().to_vec(), query: query.map(|query| query.as_bytes().to_vec()), from }
    }

    fn text_of(out: Vec<u8>) -> String {
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn paths_and_queries_are_split_before_anything_is_put_in() {
        for (text, raw, expected_path, expected_query) in [
            ("/index.php", "/a?x=1", "/index.php", None),
            ("/index.php?q={path}&{query}", "/a%20b%26c%3Fd?x=1&y=%2F", "/index.php", Some("q=/a%20b%26c%3Fd&x=1&y=%2F")),
            ("/index.php?{query}", "/a", "/index.php", Some("")),
            ("/x{path}", "/a%3Fb%2525", "/x/a%3Fb%2525", None),
            ("/x{path}", "/a%2Fb/c", "/x/a%2Fb/c", None),
            ("{1}", "/abc", "/bc", None),
            ("/?next={uri}", "/a?b=c&d", "/", Some("next=/a%3Fb%3Dc%26d")),
            ("/?h={header.x}", "/", "/", Some("h=a%20b%0D%0Ac%26%FF")),
            ("/100%?a?b", "/", "/100%25", Some("a?b")),
        ] {
            let given = given(raw, 2);
            let (mut path_out, mut query_out) = (Vec::new(), Vec::new());
            path(&template(text), &given, &mut path_out);
            let has_query = query(&template(text), &given, &mut query_out);
            assert_eq!(text_of(path_out), expected_path, "{text} {raw}");
            assert_eq!(has_query.then(|| text_of(query_out)).as_deref(), expected_query, "{text} {raw}");
        }
    }

    #[test]
    fn p09_p12_report_032_no_redirect_leads_to_a_host_that_the_client_chose() {
        let table: &[(&str, &str, usize, Option<&str>)] = &[
            ("https://{host}{path}", "/a%20b", 0, Some("https://a.test/a%20b")),
            ("https://{host}{path}?{query}", "/a", 0, Some("https://a.test/a")),
            ("https://{host}{uri}", "//evil.example/..?x=%0d", 0, Some("https://a.test//evil.example/..?x=%0d")),
            ("{uri}", "//evil.example/x?y", 0, Some("/evil.example/x?y")),
            ("{1}", "/go%2Fevil.example", 3, Some("/%2Fevil.example")),
            ("{1}", "/go/evil.example", 3, Some("/evil.example")),
            ("{1}", "/gohttp:evil", 3, Some("/http:evil")),
            ("/{path}", "/evil.example", 0, Some("/evil.example")),
            ("/{1}", "/go/evil.example", 3, Some("/evil.example")),
            ("/{1}", "/go%5Cevil.example", 3, Some("/%5Cevil.example")),
            ("/new{path}", "/a%0d%0aSet-Cookie:x", 0, Some("/new/a%0D%0ASet-Cookie:x")),
            ("/new\r\nx{path}", "/", 0, Some("/new%0D%0Ax/")),
            ("https://b.test{1}", "/go.evil.example", 3, None),
            ("https://b.test{1}", "/go@evil.example", 3, None),
            ("https://b.test{1}", "/go:1@evil.example", 3, None),
            ("https://b.test{1}", "/go/x", 3, Some("https://b.test/x")),
            ("https://b.test{1}", "/go", 3, Some("https://b.test")),
            ("https://{1}.b.test/", "/goalice", 3, Some("https://alice.b.test/")),
            ("https://{1}.b.test/", "/goevil.example/", 3, None),
            ("https://{1}.b.test/", "/goevil%23", 3, None),
            ("https://{1}", "/go/evil", 3, None),
            ("https://{1}", "/goevil.example", 3, None),
            ("https://{1}/", "/goevil.example", 3, None),
            ("https://www.{1}/", "/goevil.example", 3, None),
            ("https://{header.x}/", "/", 3, None),
            ("https://cdn.{1}.b.test/", "/goa", 3, Some("https://cdn.a.b.test/")),
            ("https://b.test/{1}", "/go@evil.example", 3, Some("https://b.test/@evil.example")),
            ("//b.test{1}", "/go.evil", 3, None),
            ("https://{host}:8443/", "/", 0, Some("https://a.test:8443/")),
            ("{scheme}://b.test{path}", "/x", 0, Some("http://b.test/x")),
            ("{scheme}://b.test{1}", "/go.evil", 3, None),
            ("/x?h={header.x}&u={uri}", "/", 0, Some("/x?h=a%20b%0D%0Ac%26%FF&u=/")),
            ("/x{header.x}", "/", 0, Some("/xa%20b%0D%0Ac%26%FF")),
            ("https://b.test/#top", "/", 0, Some("https://b.test/#top")),
        ];
        for (text, raw, from, expected) in table {
            let mut out = Vec::new();
            let result = location(&template(text), &given(raw, *from), &mut out);
            assert_eq!(result.ok().map(|()| text_of(out)).as_deref(), *expected, "{text} {raw}");
        }
    }

    #[test]
    fn a_header_stays_on_its_line() {
        for (text, raw, expected) in [
            ("{path}", "/a%0d%0ab%2Fc%ff", "/a%0D%0Ab%2Fc%FF"),
            ("{header.x};{status}", "/", "a b%0D%0Ac&%FF;200"),
            ("max-age=1\r\nX: y?", "/", "max-age=1%0D%0AX: y?"),
            ("{user}{duration}{2}", "/", ""),
            ("{client} {host} {scheme}", "/", "192.0.2.1 a.test http"),
        ] {
            let mut out = Vec::new();
            header(&template(text), &given(raw, 0), &mut out);
            assert_eq!(text_of(out), expected, "{text}");
        }
    }

    #[test]
    fn what_is_put_into_a_directory_is_one_ordinary_segment() {
        for (text, raw, expected) in [
            ("/{1}", "/xalice", Some("alice")),
            ("{1}/htdocs/", "/xalice", Some("alice/htdocs")),
            ("/home-{1}", "/xalice", Some("home-alice")),
            ("{1}", "/x", None),
            ("{1}", "/x.ssh", None),
            ("{1}", "/x..", None),
            ("{1}", "/xa/b", None),
            ("{1}", "/xa%2Fb", None),
            (".{1}", "/x.", None),
            ("", "/", Some("")),
        ] {
            let mut out = Vec::new();
            let fine = rest(&template(text), &given(raw, 2), &mut out);
            assert_eq!(fine.then(|| text_of(out)).as_deref(), expected, "{text} {raw}");
        }
    }
}
