//! `Range`: parts lie within the file, no byte is in two of them, and together they are what was asked for, read in the plainest way.

#![no_main]

use anchorite::proto::range::{self, Part, Range};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, value)) = data.split_first_chunk::<8>() else { return };
    // Lengths of real files, and all others.
    let length = u64::from_le_bytes(*length) >> (length[0] % 64);
    match range::parse(value, length) {
        Range::Part(part) => check(value, length, &[part]),
        Range::Parts(parts) => {
            assert!(parts.len() > 1);
            check(value, length, &parts);
        }
        Range::Unsatisfiable => assert!(value.len() > 6 && value[..6].eq_ignore_ascii_case(b"bytes=")),
        Range::Whole => {}
    }
});

fn check(value: &[u8], length: u64, parts: &[Part]) {
    let shown = String::from_utf8_lossy(value);
    let asked: Vec<(u64, u64)> = plainly(value, length);
    for (at, part) in parts.iter().enumerate() {
        assert!(part.first <= part.last && part.last < length, "{part:?} of {length}: {shown}");
        let apart = |other: &Part| part.last < other.first || other.last < part.first;
        assert!(parts.iter().skip(at + 1).all(apart), "{parts:?}: {shown}");
        let begins = asked.iter().any(|(first, _)| *first == part.first);
        let ends = asked.iter().any(|(_, last)| *last == part.last);
        assert!(begins && ends, "{part:?} was not asked for: {shown}");
    }
    for (first, last) in asked {
        assert!(parts.iter().any(|part| part.first <= first && last <= part.last), "{first}-{last} is missing: {shown}");
    }
}

/// RFC 9110, 14.1.2: the ranges of a value that can be satisfied.
fn plainly(value: &[u8], length: u64) -> Vec<(u64, u64)> {
    let text = value.get(6..).and_then(|set| std::str::from_utf8(set).ok()).unwrap_or("");
    // Beyond u64 is beyond any file.
    let number = |digits: &str| digits.parse::<u64>().unwrap_or(u64::MAX);
    let range = |text: &str| -> Option<(u64, u64)> {
        let end = length.checked_sub(1)?;
        let (first, last) = match text.trim_matches([' ', '\t']).split_once('-')? {
            ("", suffix) if number(suffix) == 0 => return None,
            ("", suffix) => (length.saturating_sub(number(suffix)), end),
            (first, "") => (number(first), end),
            (first, last) => (number(first), number(last).min(end)),
        };
        (first <= end).then_some((first, last))
    };
    text.split(',').filter_map(range).collect()
}
