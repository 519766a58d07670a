//! Lines as syslog takes them: one datagram a line (RFC 3164). Made by `log`, and by the parent for its own lines.
//!
//! Only the formatter of the crate is used: its loggers open sockets themselves and wait when syslog is slow.

use crate::config::Level;
use std::borrow::Cow;
use syslog::{Facility, Formatter3164, LogFormat, Severity};

/// Makes datagrams.
#[derive(Debug)]
pub struct Syslog {
    formatter: Formatter3164,
}

impl Syslog {
    /// For the process with this id.
    pub fn new(pid: i32) -> Syslog {
        Syslog {
            formatter: Formatter3164 {
                facility: Facility::LOG_DAEMON,
                hostname: None,
                process: "anchorite".to_owned(),
                pid: pid.unsigned_abs(),
            },
        }
    }

    /// The datagram of a line without its end, into a buffer in place of what it holds. The line is printable already: the
    /// formatter escapes nothing. It is cut so that the datagram stays below `DATAGRAM_MAX`.
    pub fn datagram(&self, level: Level, line: &[u8], datagram: &mut Vec<u8>) {
        datagram.clear();
        let line = line.get(..TEXT_MAX).unwrap_or(line);
        let text: Cow<'_, str> = String::from_utf8_lossy(line);
        // Writing to a vector does not fail.
        let _ = self.formatter.format(datagram, severity(level), text);
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::Error => Severity::LOG_ERR,
        Level::Warning => Severity::LOG_WARNING,
        Level::Notice => Severity::LOG_NOTICE,
        Level::Info => Severity::LOG_INFO,
        Level::Debug => Severity::LOG_DEBUG,
    }
}

/// Longest datagram in bytes: what every syslog takes.
const DATAGRAM_MAX: usize = 8192;

/// Longest text; priority, time and name need less than the rest.
const TEXT_MAX: usize = DATAGRAM_MAX - 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_the_form_of_rfc_3164_and_is_cut() {
        let mut datagram = b"before".to_vec();
        Syslog::new(42).datagram(Level::Error, b"worker 1: text", &mut datagram);
        let text = String::from_utf8(datagram.clone()).unwrap();
        // 3 * 8 + 3: daemon, error.
        assert!(text.starts_with("<27>") && text.ends_with(" anchorite[42]: worker 1: text"), "{text}");
        Syslog::new(i32::MAX).datagram(Level::Debug, &[b'x'; 100_000], &mut datagram);
        assert!(datagram.len() > 8000 && datagram.len() <= DATAGRAM_MAX, "{}", datagram.len());
    }
}
