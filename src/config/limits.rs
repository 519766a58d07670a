//! `[limits]`: read and checked. Does no I/O.

use super::diagnostic::Faults;
use super::document::Table;
use super::{Limits, requests};
use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) fn read(table: &Table<'_>, faults: &mut Faults<'_>) -> Limits {
    let default = default();
    let mut number = |key, range, default| table.item(key, faults).and_then(|item| item.number(range, faults)).unwrap_or(default);
    let connections = number("connections", CONNECTIONS, default.connections);
    let connections_per_client = number("connections_per_client", CONNECTIONS, default.connections_per_client);
    let header_count = number("header_count", 1..=u32::from(Limits::HEADER_COUNT_MAX), u32::from(default.header_count));
    let keepalive_requests = number("keepalive_requests", KEEPALIVE_REQUESTS, default.keepalive_requests);
    let mut size = |key, range, default| table.item(key, faults).and_then(|item| item.size(range, faults)).unwrap_or(default);
    let request_line = size("request_line", REQUEST_LINE, default.request_line);
    let header_bytes = size("header_bytes", HEADER_BYTES, default.header_bytes);
    let body = table.item("body", faults).and_then(|item| item.large_size(BODY, faults)).unwrap_or(default.body);
    let min_rate = table.item("min_rate", faults).and_then(|item| item.rate(MIN_RATE, faults)).unwrap_or(default.min_rate);
    let requests = table.item("requests", faults).and_then(|item| requests::read(&item, faults)).flatten();
    let mut duration = |key, range, default| table.item(key, faults).and_then(|item| item.duration(range, faults)).unwrap_or(default);
    Limits {
        requests,
        connections,
        connections_per_client,
        request_line,
        header_bytes,
        header_count: u16::try_from(header_count).unwrap_or(default.header_count),
        body,
        header_timeout: duration("header_timeout", HEADER_TIMEOUT, default.header_timeout),
        body_timeout: duration("body_timeout", TIMEOUT, default.body_timeout),
        min_rate,
        write_timeout: duration("write_timeout", TIMEOUT, default.write_timeout),
        keepalive_timeout: duration("keepalive_timeout", TIMEOUT, default.keepalive_timeout),
        keepalive_requests,
        drain_timeout: duration("drain_timeout", DRAIN_TIMEOUT, default.drain_timeout),
    }
}

pub(super) fn default() -> Limits {
    Limits {
        connections: 10_000,
        connections_per_client: 200,
        request_line: 8 << 10,
        header_bytes: 32 << 10,
        header_count: 100,
        body: 16 << 20,
        header_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(30),
        min_rate: 240,
        write_timeout: Duration::from_secs(60),
        keepalive_timeout: Duration::from_secs(15),
        keepalive_requests: 10_000,
        drain_timeout: Duration::from_secs(600),
        requests: None,
    }
}

/// At most the descriptors that Linux lets a process have by default (`fs.nr_open`).
const CONNECTIONS: RangeInclusive<u32> = 1..=1_048_576;
/// Bytes: `GET / HTTP/1.1` with a short path, to what a client may make a worker hold.
const REQUEST_LINE: RangeInclusive<u32> = 64..=64 << 10;
/// Bytes, as above.
const HEADER_BYTES: RangeInclusive<u32> = 64..=1 << 20;
/// Bytes of a request body: up to what a file system holds.
pub(super) const BODY: RangeInclusive<u64> = 0..=16 << 40;
const KEEPALIVE_REQUESTS: RangeInclusive<u32> = 1..=1_000_000_000;
/// A slow head holds a connection, so an hour is generous.
const HEADER_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);
/// Bytes a second: from any to what no client on the internet would manage for long.
const MIN_RATE: RangeInclusive<u64> = 0..=1 << 20;
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
/// From not at all to a week, for large files over slow lines.
const DRAIN_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(7 * 86_400);

#[cfg(test)]
mod tests {
    use super::super::quantity::{DURATION_EXPECTED, SIZE_EXPECTED};
    use super::super::read::{told, with_a_site};
    use super::*;

    fn said(line: &str) -> Vec<String> {
        told(&format!("[limits]\n{line}\n[[site]]\nroot = \"/srv/www\"\n"))
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let text = "[limits]\nconnections = 10000\nconnections_per_client = 200\nrequest_line = \"8KiB\"\nheader_bytes = \"32KiB\"\nheader_count = 100\n\
                    body = \"16MiB\"\n                    header_timeout = \"10s\"\nbody_timeout = \"30s\"\nmin_rate = \"240B/s\"\nwrite_timeout = \"60s\"\nkeepalive_timeout = \"15s\"\nkeepalive_requests = 10000\n\
                    drain_timeout = \"10m\"\nrequests = \"\"";
        assert_eq!(with_a_site("").limits, with_a_site(text).limits);
        assert_eq!(with_a_site("[limits]").limits, default());
    }

    #[test]
    fn every_key_is_read() {
        let text = "[limits]\nconnections = 1\nconnections_per_client = 2\nrequest_line = \"2KiB\"\nheader_bytes = \"3000\"\nheader_count = 4\n\
                    body = \"5KiB\"\n                    header_timeout = \"5s\"\nbody_timeout = \"9s\"\nmin_rate = \"2KiB/s\"\nwrite_timeout = \"6m\"\nkeepalive_timeout = \"700ms\"\nkeepalive_requests = 8\n\
                    drain_timeout = \"0s\"\nrequests = \"9/s burst 10\"";
        let expected = Limits {
            connections: 1,
            connections_per_client: 2,
            request_line: 2048,
            header_bytes: 3000,
            header_count: 4,
            body: 5 << 10,
            header_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(9),
            min_rate: 2048,
            write_timeout: Duration::from_secs(360),
            keepalive_timeout: Duration::from_millis(700),
            keepalive_requests: 8,
            drain_timeout: Duration::ZERO,
            requests: Some(super::super::RequestRate { requests: 9, period: Duration::from_secs(1), burst: 10 }),
        };
        assert_eq!(with_a_site(text).limits, expected);
    }

    #[test]
    fn at_a_limit_is_accepted_and_one_beyond_gives_the_range() {
        for (key, within, beyond, expected) in [
            ("connections", ["1", "1048576"], ["0", "1048577"], "an integer from 1 to 1048576"),
            ("connections_per_client", ["1", "1048576"], ["0", "1048577"], "an integer from 1 to 1048576"),
            ("header_count", ["1", "256"], ["0", "257"], "an integer from 1 to 256"),
            ("keepalive_requests", ["1", "1000000000"], ["0", "1000000001"], "an integer from 1 to 1000000000"),
            ("request_line", ["\"64\"", "\"64KiB\""], ["\"63\"", "\"65537B\""], "\"64\" to \"64KiB\""),
            ("header_bytes", ["\"64\"", "\"1MiB\""], ["\"63\"", "\"1048577\""], "\"64\" to \"1MiB\""),
            ("body", ["\"0\"", "\"16TiB\""], ["\"16385GiB\"", "\"17TiB\""], "\"0B\" to \"16TiB\""),
            ("header_timeout", ["\"100ms\"", "\"1h\""], ["\"99ms\"", "\"3601s\""], "\"100ms\" to \"1h\""),
            ("body_timeout", ["\"100ms\"", "\"1d\""], ["\"99ms\"", "\"86401s\""], "\"100ms\" to \"1d\""),
            ("min_rate", ["\"0B/s\"", "\"1MiB/s\""], ["\"1025KiB/s\"", "\"2MiB/s\""], "\"0B/s\" to \"1MiB/s\""),
            ("write_timeout", ["\"100ms\"", "\"1d\""], ["\"99ms\"", "\"86401s\""], "\"100ms\" to \"1d\""),
            ("keepalive_timeout", ["\"100ms\"", "\"1d\""], ["\"0s\"", "\"86401s\""], "\"100ms\" to \"1d\""),
            ("drain_timeout", ["\"0s\"", "\"7d\""], ["\"604800001ms\"", "\"8d\""], "\"0ms\" to \"7d\""),
        ] {
            for value in within {
                assert_eq!(said(&format!("{key} = {value}")), [""; 0]);
            }
            for value in beyond {
                let column = key.len() + 4;
                let message = format!("2:{column}: \"{key}\" in [limits] is {value}, expected {expected}");
                assert_eq!(said(&format!("{key} = {value}")), [message]);
            }
        }
    }

    #[test]
    fn a_quantity_is_told_from_a_number() {
        assert_eq!(said("request_line = 8192"), [format!("2:16: \"request_line\" in [limits] is an integer, expected {SIZE_EXPECTED}")]);
        assert_eq!(said("header_timeout = \"10 s\""), [format!("2:18: \"10 s\" is not a duration, expected {DURATION_EXPECTED}")]);
        assert_eq!(said("header_bytes = \"99999999999999999999\""), ["2:16: \"99999999999999999999\" is too large for a size"]);
    }
}
