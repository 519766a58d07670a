//! Lines on their way to `log`: access lines in batches, error lines at once, neither ever waiting for it.
//!
//! When `log` is behind or gone, packets wait here up to a bound; beyond it lines are dropped, counted, and the count is
//! logged once lines flow again.

use crate::config::Level;
use crate::ipc::Channel;
use crate::ipc::lines::{self, ACCESS, LINE_MAX, PACKET_MAX};
use crate::sys::panic;
use crate::sys::socket::UNIX_PEER;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

/// What an access line says of one exchange, in the combined format.
pub(super) struct Exchange<'a> {
    pub(super) client: IpAddr,
    pub(super) time: &'a [u8],
    pub(super) request_line: &'a [u8],
    pub(super) status: u16,
    /// Bytes of the body that were sent.
    pub(super) bytes: u64,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
}

/// The worker's end of the log.
pub(super) struct Log {
    channel: Option<Channel>,
    level: Level,
    access: bool,
    /// The packet being filled; empty or with its tag.
    batch: Vec<u8>,
    /// When the first line of the batch was written, in monotonic milliseconds.
    since: u64,
    /// Packets that `log` had no room for.
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    lost: u64,
}

impl Log {
    pub(super) fn new(channel: Option<Channel>, level: Level, access: bool) -> Log {
        Log {
            channel,
            level,
            access,
            batch: Vec::new(),
            since: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            lost: 0,
        }
    }

    /// A new `log` is there.
    pub(super) fn replace(&mut self, channel: Channel) {
        panic::send_to(channel.as_fd().as_raw_fd());
        self.channel = Some(channel);
    }

    /// Adds an access line.
    pub(super) fn access(&mut self, now: u64, exchange: &Exchange<'_>) {
        if !self.access {
            return;
        }
        if self.batch.is_empty() {
            self.batch.push(ACCESS);
            self.since = now;
        }
        write_combined(exchange, &mut self.batch);
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    /// Sends an error line.
    pub(super) fn error(&mut self, level: Level, text: &str) {
        if level <= self.level {
            self.send(lines::error_packet(level, text));
        }
    }

    /// Sends the batch and what waits.
    pub(super) fn flush(&mut self) {
        while let Some(packet) = self.waiting.front() {
            let sent = self.channel.as_ref().is_some_and(|channel| channel.send_lines(packet).is_ok());
            if !sent {
                break;
            }
            self.waiting_bytes -= packet.len();
            self.waiting.pop_front();
        }
        if !self.batch.is_empty()
            && self.waiting.is_empty()
            && self.channel.as_ref().is_some_and(|channel| channel.send_lines(&self.batch).is_ok())
        {
            self.batch.clear();
        }
        if !self.batch.is_empty() {
            let packet = std::mem::take(&mut self.batch);
            self.hold(packet);
        }
        if self.waiting.is_empty() && self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            self.send(lines::error_packet(
                Level::Warning,
                &format!("{lost} log lines were lost while \"log\" was behind"),
            ));
        }
    }

    /// Milliseconds until [`Log::flush`] should be called; `None`: nothing waits.
    pub(super) fn next_flush(&self, now: u64) -> Option<u64> {
        if !self.batch.is_empty() {
            return Some((self.since + DELAY_MS).saturating_sub(now));
        }
        (!self.waiting.is_empty()).then_some(DELAY_MS)
    }

    /// Sends a packet behind those that wait.
    fn send(&mut self, packet: Vec<u8>) {
        let sent = self.waiting.is_empty() && self.channel.as_ref().is_some_and(|channel| channel.send_lines(&packet).is_ok());
        if !sent {
            self.hold(packet);
        }
    }

    fn hold(&mut self, packet: Vec<u8>) {
        if self.waiting_bytes + packet.len() > WAITING_MAX {
            let lines = memchr::memchr_iter(b'\n', &packet).count().max(1);
            self.lost = self.lost.saturating_add(u64::try_from(lines).unwrap_or(u64::MAX));
        } else {
            self.waiting_bytes += packet.len();
            self.waiting.push_back(packet);
        }
    }
}

/// Appends one line in the combined format, foreign bytes escaped, cut to [`LINE_MAX`].
fn write_combined(exchange: &Exchange<'_>, line: &mut Vec<u8>) {
    let start = line.len();
    write_address(exchange.client, line);
    line.extend_from_slice(b" - - [");
    line.extend_from_slice(exchange.time);
    line.extend_from_slice(b"] \"");
    field(exchange.request_line, line);
    line.extend_from_slice(b"\" ");
    write_decimal(u64::from(exchange.status), line);
    line.push(b' ');
    write_decimal(exchange.bytes, line);
    for value in [exchange.referer, exchange.user_agent] {
        line.extend_from_slice(b" \"");
        field(value.unwrap_or(b"-"), line);
        line.push(b'"');
    }
    lines::cut(line, start);
    line.push(b'\n');
}

/// A foreign value, cut so that what follows it on the line still finds room.
fn field(value: &[u8], line: &mut Vec<u8>) {
    let start = line.len();
    lines::escape(value.get(..FIELD_MAX).unwrap_or(value), line);
    if line.len() - start > FIELD_MAX || value.len() > FIELD_MAX {
        line.truncate((start + FIELD_MAX).min(line.len()));
        line.extend_from_slice(b"...");
    }
}

fn write_address(address: IpAddr, line: &mut Vec<u8>) {
    use std::io::Write;
    match address {
        UNIX_PEER => line.extend_from_slice(b"unix:"),
        IpAddr::V4(v4) => {
            for (index, octet) in v4.octets().into_iter().enumerate() {
                if index > 0 {
                    line.push(b'.');
                }
                write_decimal(u64::from(octet), line);
            }
        }
        // Writing to a vector does not fail.
        IpAddr::V6(v6) => drop(write!(line, "{v6}")),
    }
}

/// Appends a number in decimal: the formatting machinery of the standard library costs more than the rest of a line.
pub(super) fn write_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    for (index, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        first = index;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(first..).unwrap_or_default());
}

/// A batch is sent when it has this many bytes, or its first line this age.
const BATCH: usize = 16 * 1024;
const DELAY_MS: u64 = 50;

/// Bytes that wait for `log` at most, in one worker.
const WAITING_MAX: usize = 1024 * 1024;

/// Longest foreign field in bytes, after escaping; three of them and the rest of a line stay below [`LINE_MAX`].
const FIELD_MAX: usize = 1300;

const _: () = assert!(3 * (FIELD_MAX + 3) + 150 <= LINE_MAX && BATCH + LINE_MAX < PACKET_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::lines::Lines;

    fn line(request_line: &[u8], agent: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        let exchange = Exchange {
            client: IpAddr::from([192, 0, 2, 1]),
            time: b"03/Nov/2026:09:05:07 +0000",
            request_line,
            status: 200,
            bytes: u64::MAX,
            referer: None,
            user_agent: Some(agent),
        };
        write_combined(&exchange, &mut line);
        line
    }

    #[test]
    fn a_line_has_the_combined_format() {
        let wanted = "192.0.2.1 - - [03/Nov/2026:09:05:07 +0000] \"GET / HTTP/1.1\" 200 18446744073709551615 \"-\" \"a\\x22b\"\n";
        assert_eq!(String::from_utf8(line(b"GET / HTTP/1.1", b"a\"b")).unwrap(), wanted);
    }

    #[test]
    fn l03_the_longest_line_keeps_its_form_and_is_accepted() {
        for byte in [b'x', 0xFF] {
            let huge = vec![byte; 65536];
            let line = line(&huge, &huge);
            assert!(line.ends_with(b"...\"\n"), "{}", String::from_utf8_lossy(&line));
            assert!(Lines::decode(&[b"A", line.as_slice()].concat()).is_some(), "{}", line.len());
        }
    }

    #[test]
    fn decimals_are_written_whole() {
        for number in [0, 9, 10, 99, 100, 12345, u64::MAX] {
            let mut out = Vec::new();
            write_decimal(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    fn without_log_lines_wait_up_to_the_bound_and_are_then_counted() {
        let mut log = Log::new(None, Level::Notice, true);
        for _ in 0..20_000 {
            let exchange = Exchange {
                client: IpAddr::from([127, 0, 0, 1]),
                time: b"-",
                request_line: b"GET / HTTP/1.1",
                status: 200,
                bytes: 1,
                referer: None,
                user_agent: Some(&[b'x'; 100]),
            };
            log.access(0, &exchange);
        }
        assert!(log.waiting_bytes <= WAITING_MAX && log.lost > 0);
        let kept: usize = log
            .waiting
            .iter()
            .chain([&log.batch])
            .map(|packet| memchr::memchr_iter(b'\n', packet).count())
            .sum();
        assert_eq!(u64::try_from(kept).unwrap() + log.lost, 20_000);
        let (ours, theirs) = Channel::pair().unwrap();
        log.replace(theirs);
        let mut buffer = vec![0; PACKET_MAX + 1];
        let mut received = 0;
        for _ in 0..200 {
            log.flush();
            while let Some(length) = ours.receive_lines(&mut buffer) {
                match Lines::decode(&buffer[..length]) {
                    Some(Lines::Access(text)) => received += memchr::memchr_iter(b'\n', text).count(),
                    Some(Lines::Error(Level::Warning, text)) => {
                        assert!(text.ends_with(b"log lines were lost while \"log\" was behind"))
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(received, kept);
    }
}
