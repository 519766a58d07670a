//! Durations such as `"10s"`, sizes such as `"64KiB"` and rates such as `"1MiB/s"`, read and shown. Does no I/O.

use super::diagnostic::quoted;
use std::time::Duration;

/// What is wrong with a quantity, and what was expected.
pub(super) type Wrong = (String, String);

/// A whole number and one of `ms`, `s`, `m`, `h`, `d`.
pub(super) fn duration(text: &str) -> Result<Duration, Wrong> {
    let milliseconds = quantity(text, &DURATIONS).map_err(|wrong| wrong.explain(text, "a duration", DURATION_EXPECTED))?;
    Ok(Duration::from_millis(milliseconds))
}

/// Bytes: a whole number, alone or with `B`, a power of 1024 (`KiB`) or of 1000 (`KB`).
pub(super) fn size(text: &str) -> Result<u64, Wrong> {
    quantity(text, &SIZES).map_err(|wrong| wrong.explain(text, "a size", SIZE_EXPECTED))
}

/// Bytes a second: a size with `/s`.
pub(super) fn rate(text: &str) -> Result<u64, Wrong> {
    let read = text.strip_suffix("/s").ok_or(Fault::Malformed).and_then(|size| quantity(size, &SIZES));
    read.map_err(|wrong| wrong.explain(text, "a rate", RATE_EXPECTED))
}

/// A duration as a file would give it, in the largest unit that is exact.
pub(super) fn show_duration(duration: Duration) -> String {
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    show(milliseconds, &DURATIONS)
}

/// A size as a file would give it, in the largest unit that is exact.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, &SIZES)
}

/// A rate as a file would give it, in the largest unit that is exact.
pub(super) fn show_rate(bytes: u64) -> String {
    let size = show(bytes, &SIZES);
    // A bare number of something a second could be of requests.
    if size.ends_with(|last: char| last.is_ascii_digit()) { size + "B/s" } else { size + "/s" }
}

enum Fault {
    Malformed,
    TooLarge,
}

impl Fault {
    fn explain(self, text: &str, what: &str, expected: &str) -> Wrong {
        match self {
            Fault::Malformed => (format!("{} is not {what}", quoted(text)), format!("expected {expected}")),
            Fault::TooLarge => (format!("{} is too large for {what}", quoted(text)), String::new()),
        }
    }
}

fn quantity(text: &str, units: &[(&str, u64)]) -> Result<u64, Fault> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or(Fault::Malformed)?;
    if number.is_empty() {
        return Err(Fault::Malformed);
    }
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or(Fault::Malformed)?;
    // Only digits are left, so the one thing that can go wrong is that they are too many.
    let number: u64 = number.parse().map_err(|_| Fault::TooLarge)?;
    number.checked_mul(*factor).ok_or(Fault::TooLarge)
}

fn show(number: u64, units: &[(&str, u64)]) -> String {
    let exact = |(_, factor): &&(&str, u64)| number >= *factor && number.is_multiple_of(*factor);
    let (name, factor) = units.iter().find(exact).or(units.last()).copied().unwrap_or(("", 1));
    format!("{}{name}", number / factor)
}

/// Largest first; the factor is in milliseconds.
const DURATIONS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// In the order in which sizes are shown: whole KiB rather than thousands; the factor is in bytes.
const SIZES: [(&str, u64); 11] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("", 1),
    ("B", 1),
];

pub(super) const DURATION_EXPECTED: &str = r#"a whole number with "ms", "s", "m", "h" or "d", such as "10s""#;
pub(super) const SIZE_EXPECTED: &str =
    r#"a whole number of bytes, alone or with "B", "KiB", "MiB", "GiB", "KB", "MB" or "GB", such as "64KiB""#;
pub(super) const RATE_EXPECTED: &str = r#"a size a second, such as "240B/s" or "1MiB/s""#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, milliseconds) in
            [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("30d", 2_592_000_000), ("0s", 0), ("007s", 7_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("512", 512),
            ("512B", 512),
            ("64KiB", 65_536),
            ("10MB", 10_000_000),
            ("1KB", 1_000),
            ("1kB", 1_000),
            ("1MiB", 1 << 20),
            ("3GiB", 3 << 30),
            ("2GB", 2_000_000_000),
            ("1TiB", 1 << 40),
            ("1TB", 1_000_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn rates_are_read_and_shown() {
        for (text, bytes) in [("240B/s", 240), ("1MiB/s", 1 << 20), ("10kB/s", 10_000), ("0B/s", 0), ("7/s", 7), ("241B/s", 241)] {
            assert_eq!(rate(text), Ok(bytes), "{text}");
        }
        for text in ["", "/s", "240", "240B", "240B/", "240B / s", "240B/m", "-1B/s", "240B/s ", "240B/s/s"] {
            let (what, expected) = rate(text).unwrap_err();
            assert_eq!((what, expected), (format!("{text:?} is not a rate"), format!("expected {RATE_EXPECTED}")));
        }
        assert_eq!(rate("16777216TiB/s").unwrap_err().0, r#""16777216TiB/s" is too large for a rate"#);
        assert_eq!([show_rate(240), show_rate(1 << 20), show_rate(0)], ["240B/s", "1MiB/s", "0B/s"]);
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_was_expected() {
        for text in ["", "s", "10", "10 s", " 10s", "10s ", "1.5s", "-1s", "+1s", "10S", "10sec", "1_000s", "١s", "10s5m", "é", "1é"] {
            let (what, expected) = duration(text).unwrap_err();
            assert_eq!(what, format!("{text:?} is not a duration"));
            assert_eq!(expected, format!("expected {DURATION_EXPECTED}"));
        }
        for text in ["", "KiB", "8k", "8K", "8kib", "8 KiB", "-1", "1.5MiB", "0x10", "8KiB/s"] {
            let (what, _) = size(text).unwrap_err();
            assert_eq!(what, format!("{text:?} is not a size"));
        }
    }

    #[test]
    fn quantities_beyond_64_bits_are_too_large() {
        for text in ["18446744073709551616ms", "213503982335d", "99999999999999999999999999999999s"] {
            assert_eq!(duration(text).unwrap_err().0, format!("{text:?} is too large for a duration"));
        }
        assert_eq!(size("18446744073709551615"), Ok(u64::MAX));
        for text in ["18446744073709551616", "16777216TiB"] {
            assert_eq!(size(text).unwrap_err().0, format!("{text:?} is too large for a size"));
        }
    }

    #[test]
    fn quantities_are_shown_in_their_largest_exact_unit() {
        for text in ["500ms", "10s", "90s", "5m", "2h", "30d", "1500ms"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
        assert_eq!(show_duration(Duration::ZERO), "0ms");
        for text in ["512", "64KiB", "10MB", "1MiB", "1KB", "1025"] {
            assert_eq!(show_size(size(text).unwrap()), text);
        }
        assert_eq!(show_size(0), "0B");
    }
}
