//! The head of an HTTP backend's answer: the same answer however it arrives, and one end of its body at most.

#![no_main]

use anchorite::proto::response_head::{self, Asked, Fault, Framing, HEAD_MAX, Scan};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&asked, data)) = data.split_first() else { return };
    let asked = if asked & 1 == 1 { Asked::Head } else { Asked::Other };
    let whole = Scan::default().advance(data);
    assert_eq!(byte_by_byte(data).ok(), whole.ok(), "arrival changes the answer");
    let Ok(Some(length)) = whole else { return };
    assert!(length <= HEAD_MAX);
    let Ok(head) = response_head::parse(&data[..length], asked) else { return };
    let text: String = data[..length].iter().map(|&byte| char::from(byte)).collect();
    let text = text.strip_suffix("\r\n\r\n").expect("a head ends with an empty line");
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert!(lines.iter().all(|line| !line.is_empty() && !line.contains(['\r', '\n', '\0'])));
    assert!(lines[0].starts_with(&format!("HTTP/1.1 {}", head.code)) || lines[0].starts_with(&format!("HTTP/1.0 {}", head.code)));
    let values = |name: &str| -> Vec<&str> {
        let fields = lines[1..].iter().map(|line| line.split_once(':').expect("a field line has a colon"));
        fields.filter(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim_matches([' ', '\t'])).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "two framings");
    let bodiless = head.code < 200 || matches!(head.code, 204 | 304) || asked == Asked::Head;
    match head.framing {
        Framing::None => assert!(bodiless),
        Framing::Length(length) => assert!(!bodiless && lengths[0].parse() == Ok(length)),
        Framing::Chunked => assert!(!bodiless && codings[0].eq_ignore_ascii_case("chunked")),
        Framing::UntilClose => assert!(!bodiless && lengths.is_empty() && codings.is_empty() && !head.keep_alive),
    }
    assert_eq!(head.upgrade.is_some(), head.code == 101);
    for (name, value) in head.fields() {
        assert!(value.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)));
        assert!(!["connection", "content-length", "transfer-encoding", "upgrade"].contains(&name.to_ascii_lowercase().as_str()));
    }
});

fn byte_by_byte(data: &[u8]) -> Result<Option<usize>, Fault> {
    let mut scan = Scan::default();
    for end in 0..=data.len() {
        match scan.advance(&data[..end]) {
            Ok(None) => {}
            done => return done,
        }
    }
    Ok(None)
}
