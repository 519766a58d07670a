//! Preconditions: the order of RFC 9110, 13.2.2, holds whatever else a request says; dates that are read are written as the same.

#![no_main]

use anchorite::proto::conditional::{self, Precondition, Validators};
use anchorite::proto::date;
use anchorite::proto::head::{self, HeadLimits};

const LIMITS: HeadLimits = HeadLimits { request_line: 64, header_bytes: 4096, header_count: 64 };
const VALIDATORS: Validators<'_> = Validators { etag: b"\"5f.1-2\"", weak: false, modified: 784_111_777 };

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((method, fields)) = data.split_first() else { return };
    let method = ["GET", "HEAD", "POST", "PUT"][usize::from(*method) % 4];
    let lines: Vec<&[u8]> = fields.split(|byte| *byte == b'\n').collect();
    let Some((outcome, if_range)) = decide(method, &lines) else { return };
    let has = |name: &str| lines.iter().any(|line| is(line, name));
    let is_read = matches!(method, "GET" | "HEAD");
    match outcome {
        Precondition::NotModified => assert!(is_read && (has("if-none-match") || has("if-modified-since"))),
        Precondition::Failed => assert!(has("if-match") || has("if-unmodified-since") || (has("if-none-match") && !is_read)),
        Precondition::Proceed => {}
    }
    // A field that another one makes void changes nothing.
    for (stronger, void) in [("if-match", "if-unmodified-since"), ("if-none-match", "if-modified-since")] {
        if has(stronger) {
            let kept: Vec<&[u8]> = lines.iter().copied().filter(|line| !is(line, void)).collect();
            assert_eq!(decide(method, &kept), Some((outcome, if_range)), "{void} beside {stronger}");
        }
    }
    assert!(if_range || has("if-range"), "without If-Range a range holds");
    for line in &lines {
        if let Some(unix) = date::parse(line) {
            // RFC 9110, 5.6.7: what is written is the one preferred form.
            assert_eq!(date::parse(&date::imf_fixdate(unix)), Some(unix));
        }
    }
});

fn is(line: &[u8], name: &str) -> bool {
    line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes())) && line.get(name.len()) == Some(&b':')
}

/// `None`: no head can be made of these lines.
fn decide(method: &str, lines: &[&[u8]]) -> Option<(Precondition, bool)> {
    let mut text = format!("{method} / HTTP/1.1\r\nHost: a\r\n").into_bytes();
    for line in lines.iter().filter(|line| !line.is_empty()) {
        text.extend_from_slice(line);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    let mut space = head::field_space();
    let request = head::parse(&text, &mut space, &LIMITS).ok()?;
    Some((conditional::evaluate(&request, &VALIDATORS), conditional::if_range_holds(&request, &VALIDATORS, i64::MAX)))
}
