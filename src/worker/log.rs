//! Lines on their way to `log`: access lines in batches, error lines at once, neither ever waiting for it.
//!
//! When `log` is behind or gone, packets wait here up to a bound; beyond it lines are dropped, counted, and the count is
//! logged once lines flow again.

use crate::config::{Level, LogFormat, LogNumbers, Site, WorkerSlice};
use crate::ipc::Channel;
use crate::ipc::lines::{self, Batch, LINE_MAX, PACKET_MAX};
use crate::proto::head::Request;
use crate::proto::target::{self, Path};
use crate::site::facts::{Fields, Scheme, Secured};
use crate::site::log_format;
use crate::sys::{clock, panic};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What an access line says of one exchange. Never what a client proves itself with: neither `Authorization` nor `Cookie` gets here.
pub(super) struct Exchange<'a> {
    /// The site that answered; `None` where no request was understood.
    pub(super) site: Option<usize>,
    pub(super) client: IpAddr,
    pub(super) time: &'a [u8],
    pub(super) request_line: &'a [u8],
    pub(super) status: u16,
    /// Bytes of the body that were sent.
    pub(super) bytes: u64,
    /// The request, where there was one.
    pub(super) request: Option<&'a Request<'a, 'a>>,
    pub(super) unix: i64,
    /// From the first byte of the head to the last of the response; see [`Log::moment`].
    pub(super) duration: Duration,
    pub(super) request_id: &'a [u8],
    /// Port of the listener; 0 for one that has none.
    pub(super) port: u16,
    pub(super) scheme: Scheme,
    pub(super) tls: Option<&'a Secured>,
    /// Whom it is known to be from; empty without.
    pub(super) user: &'a [u8],
}

/// The worker's end of the log.
pub(super) struct Log {
    channel: Option<Channel>,
    level: Level,
    format: LogFormat,
    numbers: LogNumbers,
    /// Whether it says how long an exchange took.
    timed: bool,
    /// By site, for formats that say it; empty for one that has none.
    names: Vec<String>,
    /// The packet being filled.
    batch: Batch,
    /// When the first line of the batch was written, in monotonic milliseconds.
    since: u64,
    /// When packets that wait were last offered.
    offered: u64,
    /// Packets that `log` had no room for.
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    lost: u64,
    /// Those of them that were not yet counted.
    uncounted: u64,
}

impl Log {
    pub(super) fn new(slice: &WorkerSlice) -> Log {
        let name = |site: &Site| site.name.iter().find(|name| !name.is_empty()).cloned();
        Log {
            channel: None,
            level: slice.level,
            format: slice.format.clone(),
            timed: log_format::says_duration(&slice.format) && slice.logs.sites.iter().chain([&slice.logs.service]).any(Option::is_some),
            numbers: slice.logs.clone(),
            names: slice.sites.iter().map(|site| name(site).unwrap_or_default()).collect(),
            batch: Batch::default(),
            since: 0,
            offered: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            lost: 0,
            uncounted: 0,
        }
    }

    /// A new `log` is there.
    pub(super) fn replace(&mut self, channel: Channel) {
        panic::send_to(channel.as_fd().as_raw_fd());
        self.channel = Some(channel);
    }

    /// The moment in microseconds for the time that an exchange takes, which the clock of a turn is too coarse for; 0 where no line says it.
    pub(super) fn moment(&self) -> u64 {
        if self.timed { clock::monotonic_us() } else { 0 }
    }

    /// Adds an access line, for the log of its site.
    pub(super) fn access(&mut self, now: u64, exchange: &Exchange<'_>) {
        let number = match exchange.site {
            Some(site) => self.numbers.sites.get(site).copied().flatten(),
            None => self.numbers.service,
        };
        let Some(number) = number else { return };
        if self.batch.is_empty() {
            self.since = now;
        }
        let (format, names) = (&self.format, &self.names);
        let name = exchange.site.and_then(|site| names.get(site)).map_or("", String::as_str);
        self.batch.line(number, |line| write_line(format, exchange, name, line));
        if self.batch.len() >= BATCH {
            self.flush(now);
        }
    }

    /// Sends an error line.
    pub(super) fn error(&mut self, level: Level, text: &str) {
        if level <= self.level {
            self.send(lines::error_packet(level, text));
        }
    }

    /// Sends the batch and what waits.
    pub(super) fn flush(&mut self, now: u64) {
        self.offered = now;
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
            && self.channel.as_ref().is_some_and(|channel| channel.send_lines(self.batch.packet()).is_ok())
        {
            self.batch.clear();
        }
        if !self.batch.is_empty() {
            let packet = self.batch.take();
            self.hold(packet);
        }
        if self.waiting.is_empty() && self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            self.send(lines::error_packet(Level::Warning, &format!("{lost} log lines were lost while \"log\" was behind")));
        }
    }

    /// Lines that were lost since this was last asked.
    pub(super) fn newly_lost(&mut self) -> u64 {
        std::mem::take(&mut self.uncounted)
    }

    /// Milliseconds until [`Log::flush`] should be called; `None`: nothing waits.
    pub(super) fn next_flush(&self, now: u64) -> Option<u64> {
        if !self.batch.is_empty() {
            return Some((self.since + DELAY_MS).saturating_sub(now));
        }
        (!self.waiting.is_empty()).then(|| (self.offered + DELAY_MS).saturating_sub(now))
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
            let lines = u64::try_from(lines::lines_in(&packet)).unwrap_or(u64::MAX);
            self.lost = self.lost.saturating_add(lines);
            self.uncounted = self.uncounted.saturating_add(lines);
        } else {
            self.waiting_bytes += packet.len();
            self.waiting.push_back(packet);
        }
    }
}

/// Appends one line, without its LF, as the batch ends each line itself.
fn write_line(format: &LogFormat, exchange: &Exchange<'_>, name: &str, line: &mut Vec<u8>) {
    let start = line.len();
    let (request, mut path) = (exchange.request, Path::default());
    let raw_path = request.map_or(b"".as_slice(), |request| request.path);
    // Bytes that were no request have no path: the empty one would be that of the home page.
    let parsed = request.is_some() && log_format::says_path(format) && target::parse_into(raw_path, &mut path).is_ok();
    let decoded = if parsed { path.bytes() } else { b"" };
    let whole = log_format::Exchange {
        client: exchange.client,
        user: exchange.user,
        time: exchange.time,
        unix: exchange.unix,
        request_line: exchange.request_line,
        method: request.map_or(b"", |request| request.method_name),
        raw_path,
        path: decoded,
        query: request.and_then(|request| request.query),
        host: request.and_then(|request| request.host).unwrap_or(name.as_bytes()),
        site: name.as_bytes(),
        port: exchange.port,
        scheme: exchange.scheme,
        status: exchange.status,
        bytes: exchange.bytes,
        duration: exchange.duration,
        request_id: exchange.request_id,
        tls_version: exchange.tls.map_or("", |tls| tls.version),
        tls_sni: exchange.tls.map_or("", |tls| &tls.sni),
        tls_client: exchange.tls.map_or("", Secured::subject),
        fields: request.map_or(&NoFields, |request| request),
    };
    // A template may name any number of fields: shorter ones are tried until the whole keeps within a line.
    for cap in [FIELD_MAX, 300, 60] {
        line.truncate(start);
        log_format::render(format, &whole, cap, line);
        line.pop();
        if line.len() - start < LINE_MAX {
            return;
        }
    }
}

/// The fields of what was no request.
struct NoFields;

impl Fields for NoFields {
    fn any(&self, _: &str, _: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        false
    }

    fn first(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn each<'f>(&'f self, _: &mut dyn FnMut(&'f str, &'f [u8])) {}
}

/// A batch is sent when it has this many bytes, or its first line this age.
const BATCH: usize = 16 * 1024;
const DELAY_MS: u64 = 50;

/// Bytes that wait for `log` at most, in one worker.
const WAITING_MAX: usize = 1024 * 1024;

/// Longest foreign field in bytes, after escaping; three of them, the name of a site and the rest of a line stay below [`LINE_MAX`].
const FIELD_MAX: usize = 1200;

const _: () = assert!(3 * (FIELD_MAX + 3) + 256 + 160 <= LINE_MAX && BATCH + LINE_MAX + 16 < PACKET_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Config};
    use crate::ipc::lines::Lines;
    use std::path::Path;

    /// A request of this agent, for the life of the test.
    fn request(agent: &[u8]) -> &'static Request<'static, 'static> {
        let head: &'static [u8] = Vec::leak([b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: ", agent, b"\r\n\r\n"].concat());
        let space = Box::leak(Box::new(crate::proto::head::field_space()));
        let limits = crate::proto::head::HeadLimits { request_line: 1 << 20, header_bytes: 1 << 20, header_count: 9 };
        Box::leak(Box::new(crate::proto::head::parse(head, space, &limits).unwrap()))
    }

    fn exchange<'a>(site: Option<usize>, request_line: &'a [u8], agent: &'a [u8]) -> Exchange<'a> {
        Exchange {
            site,
            client: IpAddr::from([192, 0, 2, 1]),
            time: b"03/Nov/2026:09:05:07 +0000",
            request_line,
            status: 200,
            bytes: u64::MAX,
            request: Some(request(agent)),
            unix: 0,
            duration: Duration::ZERO,
            request_id: b"",
            port: 80,
            scheme: Scheme::Http,
            tls: None,
            user: b"",
        }
    }

    /// A log of two sites, the first of them with a file of its own.
    fn log(format: &str) -> Log {
        let text = format!(
            "[log]\nformat = {format:?}\n[[site]]\nname = \"a.example\"\nroot = \"/a\"\naccess_log = \"/a.log\"\n[[site]]\nroot = \"/b\"\n"
        );
        let config: Config = config::parse(&text, Path::new("/f.toml")).unwrap();
        let logs = LogNumbers { service: Some(1), sites: vec![Some(2), Some(1)] };
        Log::new(&config.worker_slice(logs))
    }

    fn pieces(log: &Log) -> Vec<(u16, String)> {
        match Lines::decode(log.batch.packet()) {
            Some(Lines::Access(pieces)) => pieces.map(|(number, lines)| (number, String::from_utf8(lines.to_vec()).unwrap())).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_has_its_format_and_goes_to_the_log_of_its_site() {
        let common = "192.0.2.1 - - [03/Nov/2026:09:05:07 +0000] \"GET / HTTP/1.1\" 200 18446744073709551615";
        let combined = format!("{common} \"-\" \"a\\x22b\"");
        for (format, first, second) in [
            ("common", common.to_owned(), common.to_owned()),
            ("combined", combined.clone(), combined.clone()),
            ("vhost_combined", format!("a.example:80 {combined}"), format!("-:80 {combined}")),
        ] {
            let mut log = log(format);
            for site in [Some(0), Some(0), Some(1), None] {
                log.access(0, &exchange(site, b"GET / HTTP/1.1", b"a\"b"));
            }
            let wanted = [(2, format!("{first}\n{first}\n")), (1, format!("{second}\n{second}\n"))];
            assert_eq!(pieces(&log), wanted, "{format}");
        }
    }

    #[test]
    fn l03_the_longest_line_keeps_its_form_and_is_accepted() {
        for format in ["combined", "vhost_combined"] {
            for byte in [b'x', 0xFF] {
                let huge = vec![byte; 65536];
                let mut log = log(format);
                log.access(0, &exchange(Some(0), &huge, &huge));
                let pieces = pieces(&log);
                assert!(pieces[0].1.ends_with("...\"\n"), "{pieces:?}");
            }
        }
    }

    #[test]
    fn without_log_lines_wait_up_to_the_bound_and_are_then_counted() {
        let mut log = log("combined");
        for number in 0..20_000 {
            log.access(0, &exchange(Some(number % 2), b"GET / HTTP/1.1", &[b'x'; 100]));
        }
        assert!(log.waiting_bytes <= WAITING_MAX && log.lost > 0);
        let kept: usize = log.waiting.iter().map(Vec::as_slice).chain([log.batch.packet()]).map(lines::lines_in).sum();
        assert_eq!(u64::try_from(kept).unwrap() + log.lost, 20_000);
        let (ours, theirs) = Channel::pair().unwrap();
        log.replace(theirs);
        let mut buffer = vec![0; PACKET_MAX + 1];
        let (mut received, mut now) = (0, 0);
        for _ in 0..200 {
            // What waits is offered again although no new line comes.
            now += log.next_flush(now).unwrap_or(0);
            log.flush(now);
            while let Some(length) = ours.receive_lines(&mut buffer) {
                match Lines::decode(&buffer[..length]) {
                    Some(Lines::Access(_)) => received += lines::lines_in(&buffer[..length]),
                    Some(Lines::Error(Level::Warning, text)) => {
                        assert!(text.ends_with(b"log lines were lost while \"log\" was behind"))
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(received, kept);
        assert_eq!(log.next_flush(now), None);
    }
}
