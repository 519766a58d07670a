//! `Range`: a part lies within the file and is what the one range of the value says, read in the plainest way.

#![no_main]

use anchorite::proto::range::{self, Range};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, value)) = data.split_first_chunk::<8>() else { return };
    // Lengths of real files, and all others.
    let length = u64::from_le_bytes(*length) >> (length[0] % 64);
    match range::parse(value, length) {
        Range::Part { first, last } => {
            assert!(first <= last && last < length, "{first}-{last}/{length}");
            assert_eq!(plainly(value, length), Some((first, last)), "{}", String::from_utf8_lossy(value));
        }
        Range::Unsatisfiable => assert!(value.len() > 6 && value[..6].eq_ignore_ascii_case(b"bytes=")),
        Range::Whole => {}
    }
});

/// RFC 9110, 14.1.2, for a value that is one range which can be satisfied.
fn plainly(value: &[u8], length: u64) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(value.get(6..)?).ok()?;
    let text = text.trim_matches([' ', '\t', ',']);
    // Beyond u64 is beyond any file.
    let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() {
        true => Some(digits.parse::<u64>().unwrap_or(u64::MAX)),
        false => None,
    };
    let (first, last) = text.split_once('-')?;
    match (first, last) {
        ("", suffix) => Some((length.saturating_sub(number(suffix)?), length.checked_sub(1)?)),
        (first, "") => Some((number(first)?, length.checked_sub(1)?)),
        (first, last) => Some((number(first)?, number(last)?.min(length.checked_sub(1)?))),
    }
}
