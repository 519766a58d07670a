//! Rates of requests such as `"20/s burst 40"`, read and shown. Does no I/O.

use super::RequestRate;
use super::diagnostic::{Faults, quoted};
use super::document::Item;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A rate; `Some(None)` where `""` stands.
pub(super) fn read(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<Option<RequestRate>> {
    let text = item.text(EXPECTED, faults)?;
    if text.value.is_empty() {
        return Some(None);
    }
    match rate(text.value) {
        Ok(rate) => Some(Some(rate)),
        Err(help) => {
            item.report(format!("{} is not a rate of requests", quoted(text.value)), help, faults);
            None
        }
    }
}

fn rate(text: &str) -> Result<RequestRate, String> {
    let mut words = text.split(' ');
    let (number, unit) = words.next().unwrap_or("").split_once('/').ok_or_else(expected)?;
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?;
    let requests = count(number)?;
    let burst = match (words.next(), words.next(), words.next()) {
        (None, None, None) => requests,
        (Some("burst"), Some(number), None) => count(number)?,
        (Some(_), _, _) | (None, _, _) => return Err(expected()),
    };
    let rate = RequestRate { requests, period: Duration::from_secs(*seconds), burst };
    let fills = Duration::from_secs(seconds * u64::from(burst) / u64::from(requests));
    if fills > FILLS_MAX {
        Err(format!("such a burst would come back in {} days, at most 30 are possible", fills.as_secs() / 86_400))
    } else {
        Ok(rate)
    }
}

fn count(number: &str) -> Result<u32, String> {
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(expected());
    }
    number.parse().ok().filter(|number| REQUESTS.contains(number)).ok_or_else(|| format!("expected 1 to {} requests", REQUESTS.end()))
}

fn expected() -> String {
    format!("expected {EXPECTED}")
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, seconds)| *seconds == self.period.as_secs()).map_or("s", |(name, _)| name);
        write!(f, "{}/{unit} burst {}", self.requests, self.burst)
    }
}

/// In seconds.
const UNITS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3_600)];
const REQUESTS: RangeInclusive<u32> = 1..=1_000_000;
/// What a client has used up is remembered at most this long.
const FILLS_MAX: Duration = Duration::from_secs(30 * 86_400);
const EXPECTED: &str = r#"a number of requests with "/s", "/m" or "/h", and perhaps a burst, such as "20/s burst 40", or "" for none"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_shown_again() {
        for (text, shown) in [
            ("20/s burst 40", "20/s burst 40"),
            ("100/s", "100/s burst 100"),
            ("5/m burst 1", "5/m burst 1"),
            ("1/h", "1/h burst 1"),
            ("1000000/s burst 1000000", "1000000/s burst 1000000"),
            ("1/h burst 720", "1/h burst 720"),
        ] {
            let read = rate(text).unwrap();
            assert_eq!(read.to_string(), shown);
            assert_eq!(rate(shown), Ok(read));
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_was_expected() {
        for text in [
            "20",
            "20/",
            "/s",
            "20/d",
            "20 /s",
            "20/s  burst 40",
            "20/s burst",
            "20/s 40",
            "20/s burst 40 x",
            "20/s burst=40",
            "-1/s",
            "+1/s",
            "1.5/s",
            "20r/s",
            " 20/s",
            "20/s ",
            "20/s burst -1",
            "1KiB/s",
            "２/s",
        ] {
            assert_eq!(rate(text), Err(expected()), "{text:?}");
        }
        for text in ["0/s", "1000001/s", "1/s burst 0", "1/s burst 1000001", "99999999999999999999/s"] {
            assert_eq!(rate(text), Err("expected 1 to 1000000 requests".to_owned()), "{text:?}");
        }
        assert_eq!(rate("1/h burst 744").unwrap_err(), "such a burst would come back in 31 days, at most 30 are possible");
    }
}
