//! `Accept-Encoding`: nothing is chosen that the client does not want, and what stands on one line means the same on several.

#![no_main]

use anchorite::proto::coding::{Coding, Wanted};
use anchorite::proto::head::{self, HeadLimits};

const LIMITS: HeadLimits = HeadLimits { request_line: 64, header_bytes: 8192, header_count: 128 };

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(wanted) = wanted(&[data]) else { return };
    let members: Vec<&[u8]> = data.split(|byte| *byte == b',').collect();
    if members.len() < 100
        && let Some(apart) = self::wanted(&members)
    {
        assert_eq!(apart, wanted, "one line or several");
    }
    for coding in Coding::ALL {
        assert!(wanted.weight(coding) <= 1000);
        let named = contains(data, coding.name()) || (coding == Coding::Gzip && contains(data, "x-gzip")) || data.contains(&b'*');
        assert!(wanted.weight(coding) == 0 || named, "{coding:?} was not named");
    }
    let best = wanted.best(Coding::ALL);
    assert!(!wanted.is_plain() || best.is_none());
    if let Some(best) = best {
        assert!(wanted.weight(best) > 0 && Coding::ALL.iter().all(|other| wanted.weight(*other) <= wanted.weight(best)));
    }
});

fn contains(data: &[u8], name: &str) -> bool {
    data.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
}

/// `None`: no head can be made of these values.
fn wanted(values: &[&[u8]]) -> Option<Wanted> {
    let mut text = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for value in values {
        text.extend_from_slice(b"Accept-Encoding: ");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    let mut space = head::field_space();
    let request = head::parse(&text, &mut space, &LIMITS).ok()?;
    // A value with a line end in it would be several fields, perhaps of other names.
    (!values.iter().any(|value| value.contains(&b'\n'))).then(|| Wanted::of(&request))
}
