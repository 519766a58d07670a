//! The time as this turn of the loop sees it, and its text forms, made once a second.

use crate::proto::date;
use crate::sys::clock::{self, Local};
use std::time::Duration;

/// Time, read once per turn of the loop.
pub(super) struct Clock {
    /// Monotonic milliseconds: what deadlines are compared with.
    pub(super) now: u64,
    /// Seconds since the epoch.
    pub(super) unix: i64,
    /// For the `Date` header (RFC 9110, 5.6.7).
    pub(super) date: [u8; 29],
    /// For access lines: `30/Nov/2026:10:00:00 +0100`.
    pub(super) log_time: Vec<u8>,
}

impl Clock {
    pub(super) fn new() -> Clock {
        let mut clock = Clock { now: 0, unix: i64::MIN, date: [b' '; 29], log_time: Vec::new() };
        clock.tick();
        clock
    }

    /// Reads the time again.
    pub(super) fn tick(&mut self) {
        self.now = clock::monotonic_ms();
        let unix = clock::unix_seconds();
        if unix != self.unix {
            self.unix = unix;
            self.date = date::imf_fixdate(unix);
            self.log_time = log_time(clock::local(unix));
        }
    }
}

/// A duration of the configuration in milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn log_time(now: Local) -> Vec<u8> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Local { year, month, day, hour, minute, second, offset_minutes } = now;
    let month = usize::from(month).checked_sub(1).and_then(|index| MONTHS.get(index)).unwrap_or(&"Jan");
    let (sign, offset) = if offset_minutes < 0 { ('-', -offset_minutes) } else { ('+', offset_minutes) };
    format!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} {sign}{:02}{:02}", offset / 60, offset % 60).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_time_has_the_form_of_the_combined_format() {
        let moment = Local { year: 2026, month: 11, day: 3, hour: 9, minute: 5, second: 7, offset_minutes: -210 };
        assert_eq!(log_time(moment), b"03/Nov/2026:09:05:07 -0330");
    }
}
