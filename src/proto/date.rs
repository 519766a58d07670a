//! Dates as HTTP writes them (RFC 9110, 5.6.7).
//!
//! Runs in the `worker`; reads no clock.

use std::io::Write;
use std::time::{Duration, SystemTime};

/// `unix` (seconds since 1970, UTC) as an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`. The form has four digits for the
/// year and files may claim any time, so times before 1970 and after 9999 are shown as the first and the last second of that span.
pub fn imf_fixdate(unix: i64) -> [u8; 29] {
    let seconds = u64::try_from(unix).unwrap_or(0).min(LAST_SECOND);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let date = httpdate::HttpDate::from(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    // Exactly 29 bytes are written, which is what fits; were it ever less, a well-formed date would stand there still.
    let _ = write!(&mut text[..], "{date}");
    text
}

/// The time that a date in any of HTTP's three forms means, in seconds since 1970; `None` if it is none of them, or before 1970.
pub fn parse(text: &[u8]) -> Option<i64> {
    if text.len() > LONGEST {
        return None;
    }
    let time = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    i64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// 9999-12-31 23:59:59.
const LAST_SECOND: u64 = 253_402_300_799;

/// The longest form is RFC 850's, with `Wednesday`: 33 bytes.
const LONGEST: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_written_without_panic() {
        let table: [(i64, &[u8; 29]); 7] = [
            (784_111_777, b"Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, b"Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, b"Thu, 01 Jan 1970 00:00:00 GMT"),
            (i64::MIN, b"Thu, 01 Jan 1970 00:00:00 GMT"),
            (i64::MAX, b"Fri, 31 Dec 9999 23:59:59 GMT"),
            (253_402_300_800, b"Fri, 31 Dec 9999 23:59:59 GMT"),
            (951_782_400, b"Tue, 29 Feb 2000 00:00:00 GMT"),
        ];
        for (unix, text) in table {
            assert_eq!(&imf_fixdate(unix), text, "{unix}");
        }
    }

    #[test]
    fn the_three_forms_are_read() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn h07_other_dates_are_none() {
        let table = [
            "",
            "now",
            "0",
            "Sun, 06 Nov 99999 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, 00 Jan 0000 00:00:00 GMT",
            "Thu, 01 Jan 1969 00:00:00 GMT",
            "\u{e9}un, 06 Nov 1994 08:49:37 GMT",
        ];
        for text in table {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&[b'S'; 100_000]), None);
    }

    #[test]
    fn what_is_written_is_read_back_the_same() {
        for unix in (0..253_402_300_799).step_by(86_399 * 997) {
            assert_eq!(parse(&imf_fixdate(unix)), Some(unix));
        }
    }

    #[test]
    fn no_changed_byte_of_a_date_panics() {
        for form in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            for at in 0..form.len() {
                for byte in 0..=255 {
                    let mut text = form.as_bytes().to_vec();
                    text[at] = byte;
                    let _ = parse(&text);
                    let _ = parse(&text[..at]);
                }
            }
        }
    }
}
