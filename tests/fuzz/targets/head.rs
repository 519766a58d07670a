//! The head of a request: the same answer however it arrives, and nothing accepted that the strict checks forbid.

#![no_main]

use anchorite::proto::head::{self, Framing, HeadLimits, Reject, Request, Scan};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((size, data)) = data.split_first() else { return };
    let size = usize::from(*size);
    let limits = HeadLimits { request_line: 16 + size * 8, header_bytes: 16 + size * 16, header_count: 1 + size / 4 };
    let whole = Scan::default().advance(data, &limits);
    assert_eq!(answer(&whole), answer(&byte_by_byte(data, &limits)), "arrival changes the answer");
    let Ok(Some(length)) = whole else { return };
    assert!(length <= limits.head_max(), "{length} bytes, at most {}", limits.head_max());
    let bytes = &data[..length];
    let mut space = head::field_space();
    if let Ok(request) = head::parse(bytes, &mut space, &limits) {
        check(bytes, &request, &limits);
    }
});

/// What a scan said, without the text of its reason.
fn answer(result: &Result<Option<usize>, Reject>) -> Result<Option<usize>, u16> {
    result.as_ref().map(|length| *length).map_err(|reject| reject.status.code())
}

fn byte_by_byte(data: &[u8], limits: &HeadLimits) -> Result<Option<usize>, Reject> {
    let mut scan = Scan::default();
    for end in 0..=data.len() {
        match scan.advance(&data[..end], limits) {
            Ok(None) => {}
            done => return done,
        }
    }
    Ok(None)
}

/// Reads an accepted head again, in the plainest way there is, and compares.
fn check(bytes: &[u8], request: &Request<'_, '_>, limits: &HeadLimits) {
    let text = bytes.strip_prefix(b"\r\n").unwrap_or(bytes).strip_suffix(b"\r\n\r\n").expect("a head ends with an empty line");
    let lines: Vec<&[u8]> = split(text);
    assert!(lines.iter().all(|line| !line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))), "a line end or NUL within a line");
    assert_eq!(lines[0], request.line);
    assert!(lines[0].iter().all(|byte| matches!(byte, b' '..=b'~')) && lines[0].iter().filter(|byte| **byte == b' ').count() == 2);
    assert!(lines.len() - 1 <= limits.header_count);
    let fields: Vec<(&[u8], &[u8])> = lines[1..].iter().map(|line| field(line)).collect();
    let values = |name: &str| -> Vec<&[u8]> {
        fields.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value).collect()
    };
    for (name, _) in &fields {
        let name = std::str::from_utf8(name).expect("a name is a token");
        assert_eq!(request.fields(name).collect::<Vec<_>>(), values(name), "{name}");
    }
    assert!(values("host").len() <= 1 && (request.line.ends_with(b"HTTP/1.0") || values("host").len() == 1));
    match (values("content-length").as_slice(), values("transfer-encoding").as_slice(), request.framing) {
        ([], [], Framing::None) => {}
        ([length], [], Framing::Length(value)) => assert_eq!(*length, value.to_string().as_bytes()),
        ([], [coding], Framing::Chunked) => assert!(coding.eq_ignore_ascii_case(b"chunked") && request.line.ends_with(b"HTTP/1.1")),
        other => panic!("framing {other:?}"),
    }
    assert!(matches!(request.path, [b'/', ..] | b"*" | b""), "{:?}", request.path);
    assert!(!request.path.contains(&b'?') && !request.target.contains(&b'#') && request.host.is_none_or(|host| !host.is_empty()));
}

fn split(text: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(2).position(|pair| pair == b"\r\n") {
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    lines.push(rest);
    lines
}

fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = line.iter().position(|byte| *byte == b':').expect("a field line has a colon");
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    assert!(!name.is_empty() && name.iter().all(is_token), "field name {:?}", String::from_utf8_lossy(name));
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_space(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    (name, &value[start..end])
}
