//! The part of a file that a `Range` field asks for (RFC 9110, 14).
//!
//! Runs in the `worker`; does no I/O.

/// What to send of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// All of it, with 200: the field is invalid, of another unit, or asks for several parts. A server may ignore `Range`
    /// (RFC 9110, 14.2), and one that never sends several parts cannot be made to send a file many times over (CVE-2011-3192).
    Whole,
    /// Bytes `first` to `last`, both included and both within the representation, with 206.
    Part { first: u64, last: u64 },
    /// Nothing that is there, with 416.
    Unsatisfiable,
}

/// Reads `value`, the content of a `Range` field, for a representation of `length` bytes. Numbers beyond 64 bits count as the
/// largest (CVE-2017-7529 was a sum that overflowed).
pub fn parse(value: &[u8], length: u64) -> Range {
    let Some((unit, set)) = split_once(value, b'=') else {
        return Range::Whole;
    };
    let Some((first, last)) = split_once(set, b'-') else {
        return Range::Whole;
    };
    if !unit.eq_ignore_ascii_case(b"bytes") || !digits(first) || !digits(last) {
        return Range::Whole;
    }
    match (first, last) {
        (b"", b"") => Range::Whole,
        (b"", suffix) => match number(suffix).min(length) {
            0 => Range::Unsatisfiable,
            count => Range::Part { first: length - count, last: length - 1 },
        },
        (first, b"") => part(number(first), u64::MAX, length),
        (first, last) => part(number(first), number(last), length),
    }
}

fn part(first: u64, last: u64, length: u64) -> Range {
    if first > last {
        Range::Whole
    } else if first >= length {
        Range::Unsatisfiable
    } else {
        Range::Part { first, last: last.min(length - 1) }
    }
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = memchr::memchr(at, bytes)?;
    Some((&bytes[..position], &bytes[position + 1..]))
}

fn digits(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_digit)
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value: u64, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &[(&str, u64, Range)]) {
        for (value, length, expected) in table {
            assert_eq!(parse(value.as_bytes(), *length), *expected, "{value} of {length}");
        }
    }

    #[test]
    fn parts_within_the_file() {
        check(&[
            ("bytes=0-9", 536, Range::Part { first: 0, last: 9 }),
            ("bytes=0-", 536, Range::Part { first: 0, last: 535 }),
            ("bytes=535-", 536, Range::Part { first: 535, last: 535 }),
            ("bytes=-1", 536, Range::Part { first: 535, last: 535 }),
            ("Bytes=007-008", 536, Range::Part { first: 7, last: 8 }),
            ("bytes=4294967290-4294967300", 5_368_709_120, Range::Part { first: 4_294_967_290, last: 4_294_967_300 }),
        ]);
    }

    #[test]
    fn range_beyond_end_is_cut() {
        check(&[
            ("bytes=50-99999", 536, Range::Part { first: 50, last: 535 }),
            ("bytes=-99999", 536, Range::Part { first: 0, last: 535 }),
            ("bytes=440-5000", 5001, Range::Part { first: 440, last: 5000 }),
            ("bytes=440-5000", 5000, Range::Part { first: 440, last: 4999 }),
        ]);
    }

    #[test]
    fn r01_r02_r08_several_ranges_are_ignored() {
        let many = format!("bytes={}", "0-,".repeat(1300));
        check(&[
            (&many, 536, Range::Whole),
            ("bytes=0-0,-1", 536, Range::Whole),
            ("bytes=0-0,x", 536, Range::Whole),
            ("bytes=0-0,", 536, Range::Whole),
            ("bytes=,0-0", 536, Range::Whole),
        ]);
    }

    #[test]
    fn r03_invalid_ranges_are_ignored() {
        check(&[
            ("bytes=-0", 536, Range::Unsatisfiable),
            ("bytes=5-4", 536, Range::Whole),
            ("bytes=-", 536, Range::Whole),
            ("bytes=a-b", 536, Range::Whole),
            ("bytes=0--1", 536, Range::Whole),
            ("bytes=--1", 536, Range::Whole),
            ("bytes=", 536, Range::Whole),
            ("bytes", 536, Range::Whole),
            ("", 536, Range::Whole),
            ("bytes=1", 536, Range::Whole),
            ("bytes= 0-1", 536, Range::Whole),
            ("bytes=0 - 1", 536, Range::Whole),
            ("bytes=+0-1", 536, Range::Whole),
            ("bytes=0x1-2", 536, Range::Whole),
            ("items=0-1", 536, Range::Whole),
            ("bytes =0-1", 536, Range::Whole),
            ("bytes=0-1=2", 536, Range::Whole),
        ]);
    }

    #[test]
    fn r04_large_numbers_do_not_overflow() {
        check(&[
            ("bytes=-9223372036854775608", 536, Range::Part { first: 0, last: 535 }),
            ("bytes=18446744073709551615-", 536, Range::Unsatisfiable),
            ("bytes=18446744073709551616-", 536, Range::Unsatisfiable),
            ("bytes=0-18446744073709551615", 536, Range::Part { first: 0, last: 535 }),
            ("bytes=0-99999999999999999999999999", 536, Range::Part { first: 0, last: 535 }),
            ("bytes=18446744073709551615-18446744073709551615", u64::MAX, Range::Unsatisfiable),
            ("bytes=-18446744073709551615", u64::MAX, Range::Part { first: 0, last: u64::MAX - 1 }),
        ]);
        let long = format!("bytes=0-{}", "9".repeat(100_000));
        check(&[(&long, 536, Range::Part { first: 0, last: 535 })]);
    }

    #[test]
    fn r05_nothing_there_is_unsatisfiable() {
        check(&[
            ("bytes=0-0", 0, Range::Unsatisfiable),
            ("bytes=0-", 0, Range::Unsatisfiable),
            ("bytes=-5", 0, Range::Unsatisfiable),
            ("bytes=536-", 536, Range::Unsatisfiable),
            ("bytes=536-600", 536, Range::Unsatisfiable),
        ]);
    }
}
