//! `[limits]`: read and checked. Does no I/O.

use super::Limits;
use super::diagnostic::Faults;
use super::document::Table;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) fn read(table: &Table<'_>, faults: &mut Faults<'_>) -> Limits {
    let default = default();
    let mut number = |key, range, default| table.item(key).and_then(|item| item.number(range, faults)).unwrap_or(default);
    let connections = number("connections", CONNECTIONS, default.connections);
    let header_count = number(
        "header_count",
        1..=u32::from(Limits::HEADER_COUNT_MAX),
        u32::from(default.header_count),
    );
    let keepalive_requests = number("keepalive_requests", KEEPALIVE_REQUESTS, default.keepalive_requests);
    let mut size = |key, range, default| table.item(key).and_then(|item| item.size(range, faults)).unwrap_or(default);
    let request_line = size("request_line", REQUEST_LINE, default.request_line);
    let header_bytes = size("header_bytes", HEADER_BYTES, default.header_bytes);
    let mut duration = |key, range, default| table.item(key).and_then(|item| item.duration(range, faults)).unwrap_or(default);
    Limits {
        connections,
        request_line,
        header_bytes,
        header_count: u16::try_from(header_count).unwrap_or(default.header_count),
        header_timeout: duration("header_timeout", HEADER_TIMEOUT, default.header_timeout),
        write_timeout: duration("write_timeout", TIMEOUT, default.write_timeout),
        keepalive_timeout: duration("keepalive_timeout", TIMEOUT, default.keepalive_timeout),
        keepalive_requests,
        drain_timeout: duration("drain_timeout", DRAIN_TIMEOUT, default.drain_timeout),
    }
}

pub(super) fn default() -> Limits {
    Limits {
        connections: 10_000,
        request_line: 8 << 10,
        header_bytes: 32 << 10,
        header_count: 100,
        header_timeout: Duration::from_secs(10),
        write_timeout: Duration::from_secs(60),
        keepalive_timeout: Duration::from_secs(15),
        keepalive_requests: 10_000,
        drain_timeout: Duration::from_secs(600),
    }
}

/// At most the descriptors that Linux lets a process have by default (`fs.nr_open`).
const CONNECTIONS: RangeInclusive<u32> = 1..=1_048_576;
/// Bytes: `GET / HTTP/1.1` with a short path, to what a client may make a worker hold.
const REQUEST_LINE: RangeInclusive<u32> = 64..=64 << 10;
/// Bytes, as above.
const HEADER_BYTES: RangeInclusive<u32> = 64..=1 << 20;
const KEEPALIVE_REQUESTS: RangeInclusive<u32> = 1..=1_000_000_000;
/// A slow head holds a connection, so an hour is generous.
const HEADER_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
/// From not at all to a week, for large files over slow lines.
const DRAIN_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(7 * 86_400);
