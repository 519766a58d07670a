//! The parts of a file that a `Range` field asks for (RFC 9110, 14).
//!
//! Runs in the `worker`; does no I/O.

/// What to send of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// All of it, with 200: the field is invalid, of another unit, or asks for more than [`PARTS_MAX`] parts. A server may ignore `Range`
    /// (RFC 9110, 14.2).
    Whole,
    /// These bytes, with 206.
    Part(Part),
    /// Two parts or more, with 206 as `multipart/byteranges`. No byte is in two of them, so that nobody gets a file many times over
    /// with one request (CVE-2011-3192).
    Parts(Vec<Part>),
    /// Nothing that is there, with 416.
    Unsatisfiable,
}

/// Bytes `first` to `last`, both included and both within the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub first: u64,
    pub last: u64,
}

impl Part {
    /// Never 0.
    pub const fn length(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Whether the two overlap, or one begins where the other ends.
    const fn touches(&self, other: &Part) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }
}

/// Reads `value`, the content of a `Range` field, for a representation of `length` bytes. Numbers beyond 64 bits count as the
/// largest (CVE-2017-7529 was a sum that overflowed). One range that is none makes the whole field none.
pub fn parse(value: &[u8], length: u64) -> Range {
    let Some((unit, set)) = split_once(value, b'=') else {
        return Range::Whole;
    };
    if !unit.eq_ignore_ascii_case(b"bytes") || memchr::memchr_iter(b',', set).count() >= PARTS_MAX {
        return Range::Whole;
    }
    if memchr::memchr(b',', set).is_none() {
        return match one(set, length) {
            One::Invalid => Range::Whole,
            One::Unsatisfiable => Range::Unsatisfiable,
            One::Part(part) => Range::Part(part),
        };
    }
    several(set, length)
}

/// The parts in the order they were asked for; parts that touch are joined (RFC 9110, 15.3.7.2).
fn several(set: &[u8], length: u64) -> Range {
    let mut parts = Vec::with_capacity(PARTS_MAX);
    for range in list(set) {
        match one(range, length) {
            One::Invalid => return Range::Whole,
            // Left out: the others are there.
            One::Unsatisfiable => {}
            One::Part(part) => join(&mut parts, part),
        }
    }
    match parts[..] {
        [] => Range::Unsatisfiable,
        [part] => Range::Part(part),
        [..] => Range::Parts(parts),
    }
}

/// Adds a part; those that it touches become one with it, in the place of the first of them.
fn join(parts: &mut Vec<Part>, mut part: Part) {
    let mut place = None;
    while let Some(index) = parts.iter().position(|other| other.touches(&part)) {
        let other = parts.remove(index);
        part = Part { first: part.first.min(other.first), last: part.last.max(other.last) };
        place = Some(place.map_or(index, |place: usize| place.min(index)));
    }
    parts.insert(place.unwrap_or(parts.len()), part);
}

/// What one range of the list says.
enum One {
    Invalid,
    Unsatisfiable,
    Part(Part),
}

fn one(range: &[u8], length: u64) -> One {
    let Some((first, last)) = split_once(range, b'-') else {
        return One::Invalid;
    };
    if !digits(first) || !digits(last) {
        return One::Invalid;
    }
    match (first, last) {
        (b"", b"") => One::Invalid,
        (b"", suffix) => match number(suffix).min(length) {
            0 => One::Unsatisfiable,
            count => One::Part(Part { first: length - count, last: length - 1 }),
        },
        (first, b"") => part(number(first), u64::MAX, length),
        (first, last) => part(number(first), number(last), length),
    }
}

fn part(first: u64, last: u64, length: u64) -> One {
    if first > last {
        One::Invalid
    } else if first >= length {
        One::Unsatisfiable
    } else {
        One::Part(Part { first, last: last.min(length - 1) })
    }
}

/// The elements of a list without the white space around its commas.
fn list(set: &[u8]) -> impl Iterator<Item = &[u8]> {
    let white = |byte: &u8| matches!(byte, b' ' | b'\t');
    let count = set.iter().filter(|byte| **byte == b',').count();
    set.split(|byte| *byte == b',').enumerate().map(move |(index, element)| {
        let start = if index == 0 { 0 } else { element.iter().take_while(|byte| white(byte)).count() };
        let element = &element[start..];
        let end = if index == count { 0 } else { element.iter().rev().take_while(|byte| white(byte)).count() };
        &element[..element.len() - end]
    })
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

/// Ranges of one field; more are taken for an attack and ignored. Readers of PDF files and of archives ask for a handful.
pub const PARTS_MAX: usize = 32;

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
            ("bytes=0-9", 536, Range::Part(Part { first: 0, last: 9 })),
            ("bytes=0-", 536, Range::Part(Part { first: 0, last: 535 })),
            ("bytes=535-", 536, Range::Part(Part { first: 535, last: 535 })),
            ("bytes=-1", 536, Range::Part(Part { first: 535, last: 535 })),
            ("Bytes=007-008", 536, Range::Part(Part { first: 7, last: 8 })),
            ("bytes=4294967290-4294967300", 5_368_709_120, Range::Part(Part { first: 4_294_967_290, last: 4_294_967_300 })),
        ]);
    }

    #[test]
    fn range_beyond_end_is_cut() {
        check(&[
            ("bytes=50-99999", 536, Range::Part(Part { first: 50, last: 535 })),
            ("bytes=-99999", 536, Range::Part(Part { first: 0, last: 535 })),
            ("bytes=440-5000", 5001, Range::Part(Part { first: 440, last: 5000 })),
            ("bytes=440-5000", 5000, Range::Part(Part { first: 440, last: 4999 })),
        ]);
    }

    fn parts(value: &str, length: u64) -> Vec<(u64, u64)> {
        match parse(value.as_bytes(), length) {
            Range::Parts(parts) => parts.iter().map(|part| (part.first, part.last)).collect(),
            Range::Part(part) => vec![(part.first, part.last)],
            Range::Whole | Range::Unsatisfiable => panic!("{value} of {length}"),
        }
    }

    #[test]
    fn several_ranges_are_parts_in_the_order_asked_for() {
        assert_eq!(parts("bytes=0-0,-1", 536), [(0, 0), (535, 535)]);
        assert_eq!(parts("bytes=500-,0-9, 20-29\t,\t40-49", 536), [(500, 535), (0, 9), (20, 29), (40, 49)]);
        // What is not there is left out.
        assert_eq!(parts("bytes=600-700,0-0", 536), [(0, 0)]);
        assert_eq!(parts("bytes=600-700,0-0,-0,2-2", 536), [(0, 0), (2, 2)]);
    }

    #[test]
    fn r01_r02_parts_that_touch_are_joined_so_that_no_byte_goes_out_twice() {
        assert_eq!(parts("bytes=0-9,5-14", 536), [(0, 14)]);
        assert_eq!(parts("bytes=0-9,10-19", 536), [(0, 19)]);
        assert_eq!(parts("bytes=10-19,0-9", 536), [(0, 19)]);
        assert_eq!(parts("bytes=0-9,11-19", 536), [(0, 9), (11, 19)]);
        assert_eq!(parts("bytes=100-,0-,5-5", 536), [(0, 535)]);
        assert_eq!(parts("bytes=0-0,20-29,2-2,40-49,1-1", 536), [(0, 2), (20, 29), (40, 49)]);
        assert_eq!(parts("bytes=-1,0-18446744073709551615", u64::MAX), [(0, u64::MAX - 1)]);
        // Whatever is asked for: disjoint, and so never more than the file.
        let mut state = 7_u64;
        for _ in 0..2_000 {
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let set: Vec<String> = (0..=random(8))
                .map(|_| {
                    let first = random(90);
                    format!("{first}-{}", first + random(20))
                })
                .collect();
            let value = format!("bytes={}", set.join(","));
            let mut seen = [0_u8; 100];
            if let Range::Parts(parts) = parse(value.as_bytes(), 100) {
                parts.iter().flat_map(|part| part.first..=part.last).for_each(|at| seen[usize::try_from(at).unwrap()] += 1);
                let wanted: Vec<u64> = set
                    .iter()
                    .flat_map(|range| {
                        let (first, last) = range.split_once('-').unwrap();
                        first.parse::<u64>().unwrap()..=last.parse::<u64>().unwrap().min(99)
                    })
                    .collect();
                assert!(
                    (0..100).all(|at| usize::from(seen[usize::try_from(at).unwrap()]) == usize::from(wanted.contains(&at))),
                    "{value}: {parts:?}"
                );
            }
        }
    }

    #[test]
    fn r01_r02_more_ranges_than_the_limit_are_ignored() {
        let with = |count: u64| format!("bytes={}", (0..count).map(|at| format!("{}-{}", at * 2, at * 2)).collect::<Vec<_>>().join(","));
        assert_eq!(parts(&with(32), 536).len(), PARTS_MAX);
        let many = format!("bytes={}", vec!["0-"; 1300].join(","));
        check(&[(&with(33), 536, Range::Whole), (&many, 536, Range::Whole), (&with(200), 536, Range::Whole)]);
    }

    #[test]
    fn r08_one_range_that_is_none_makes_the_field_none() {
        check(&[
            ("bytes=0-0,x", 536, Range::Whole),
            ("bytes=0-0,", 536, Range::Whole),
            ("bytes=,0-0", 536, Range::Whole),
            ("bytes=0-0,,1-1", 536, Range::Whole),
            ("bytes=0-0,5-4", 536, Range::Whole),
            ("bytes=0-0;1-1", 536, Range::Whole),
            ("bytes=0-0 1-1,2-2", 536, Range::Whole),
            ("bytes=600-,x", 536, Range::Whole),
            ("bytes=600-,700-", 536, Range::Unsatisfiable),
            ("bytes=0-0,1-1", 0, Range::Unsatisfiable),
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
            ("bytes=-9223372036854775608", 536, Range::Part(Part { first: 0, last: 535 })),
            ("bytes=18446744073709551615-", 536, Range::Unsatisfiable),
            ("bytes=18446744073709551616-", 536, Range::Unsatisfiable),
            ("bytes=0-18446744073709551615", 536, Range::Part(Part { first: 0, last: 535 })),
            ("bytes=0-99999999999999999999999999", 536, Range::Part(Part { first: 0, last: 535 })),
            ("bytes=18446744073709551615-18446744073709551615", u64::MAX, Range::Unsatisfiable),
            ("bytes=-18446744073709551615", u64::MAX, Range::Part(Part { first: 0, last: u64::MAX - 1 })),
        ]);
        let long = format!("bytes=0-{}", "9".repeat(100_000));
        check(&[(&long, 536, Range::Part(Part { first: 0, last: 535 }))]);
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
