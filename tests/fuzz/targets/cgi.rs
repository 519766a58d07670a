//! The head of a CGI program's answer: the same answer however it arrives, and nothing for the client that it must not see.

#![no_main]

use anchorite::proto::cgi::{self, HEAD_MAX, Scan};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let whole = Scan::default().advance(data);
    assert_eq!(byte_by_byte(data).ok(), whole.ok(), "arrival changes the answer");
    let Ok(Some(length)) = whole else { return };
    assert!(length <= HEAD_MAX);
    let Ok(head) = cgi::parse(&data[..length]) else { return };
    assert!((200..600).contains(&head.status.code()));
    let lines: Vec<&[u8]> = data[..length].split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    assert!(lines[..lines.len() - 2].iter().all(|line| !line.is_empty()), "an empty line within a head");
    let mut from = 0;
    for (name, value) in head.fields() {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)));
        assert!(value.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)), "{:?}", value.escape_ascii().to_string());
        let lower = name.to_ascii_lowercase();
        assert!(!["connection", "content-length", "status", "transfer-encoding", "upgrade", "date", "server"].contains(&lower.as_str()));
        assert!(!lower.starts_with("x-sendfile") && !lower.starts_with("x-accel-") && !lower.starts_with("proxy-"));
        let is = |line: &&[u8]| line.starts_with(name.as_bytes()) && line.get(name.len()) == Some(&b':');
        from += 1 + lines[from..].iter().position(is).expect("it stands in the head, behind the one before");
    }
});

fn byte_by_byte(data: &[u8]) -> Result<Option<usize>, cgi::Fault> {
    let mut scan = Scan::default();
    for end in 0..=data.len() {
        match scan.advance(&data[..end]) {
            Ok(None) => {}
            done => return done,
        }
    }
    Ok(None)
}
