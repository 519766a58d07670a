//! Counts the frames of a client that cost it nothing and the server something.
//!
//! Runs in the worker, on bytes from the network; does no I/O. `h2` bounds what it remembers, not how often it is asked: who sends pings,
//! settings, priorities, resets or empty frames and nothing else would keep the processor busy (CVE-2019-9511 to 9518, CVE-2023-44487).
//! What is useful earns the right to some: requests, content in either direction, time.

/// Follows the frames in a stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Of the header of the present frame.
    header: [u8; HEADER],
    filled: usize,
    /// Bytes of the present frame that are yet to come.
    remaining: usize,
    /// Frames that are no use in themselves.
    idle: u64,
    /// Requests that the client took back.
    resets: u64,
}

impl Meter {
    /// Takes in what has come.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.remaining > 0 {
                let skipped = self.remaining.min(bytes.len());
                self.remaining -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let count = (HEADER - self.filled).min(bytes.len());
            let (part, rest) = bytes.split_at(count);
            self.header[self.filled..self.filled + count].copy_from_slice(part);
            self.filled += count;
            bytes = rest;
            if self.filled == HEADER {
                self.filled = 0;
                self.frame();
            }
        }
    }

    /// Whether it is more than a client that means well sends in so many seconds, with so many requests and bytes of content.
    pub(super) fn is_flood(&self, seconds: u64, requests: u64, finished: u64, (sent, received): (u64, u64)) -> bool {
        let earned = requests * FRAMES_EACH + (sent / BYTES_SENT) + (received / BYTES_RECEIVED) + seconds * FRAMES_EACH;
        self.idle > FRAMES.saturating_add(earned) || self.resets > RESETS.saturating_add(finished)
    }

    fn frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.header;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.remaining = length;
        match kind {
            // Content with nothing in it, unless it is the end.
            DATA if length == 0 && flags & END_STREAM == 0 => self.idle += 1,
            DATA | HEADERS => {}
            RST_STREAM => {
                self.idle += 1;
                self.resets += 1;
            }
            _ => self.idle += 1,
        }
    }
}

/// Bytes of a frame's header: length, type, flags, stream (RFC 9113, 4.1).
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;

/// Frames that everybody has, and for each request and second more; and the bytes of content that earn one: windows are opened for what was
/// sent, and who sends pads as he likes.
const FRAMES: u64 = 1_000;
const FRAMES_EACH: u64 = 20;
const BYTES_SENT: u64 = 512;
const BYTES_RECEIVED: u64 = 64;

/// Requests that may be taken back beyond as many as were answered whole.
const RESETS: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let bytes = [frame(0, 0, b""), frame(0, 1, b""), frame(0, 0, b"123456789"), frame(1, 4, b"xyz"), frame(3, 0, b"1234")].concat();
        let bytes = [bytes, frame(6, 0, b"12345678"), frame(8, 0, b"1234"), frame(77, 0, b"")].concat();
        for step in 1..bytes.len() {
            let mut meter = Meter::default();
            bytes.chunks(step).for_each(|part| meter.take(part));
            assert_eq!((meter.idle, meter.resets, meter.remaining, meter.filled), (5, 1, 0, 0), "{step}");
        }
    }

    #[test]
    fn w04_w07_w08_w09_what_is_no_use_is_bounded_by_what_is() {
        let mut meter = Meter::default();
        meter.take(&frame(6, 0, b"12345678").repeat(1_000));
        assert!(!meter.is_flood(0, 0, 0, (0, 0)));
        meter.take(&frame(6, 0, b"12345678"));
        assert!(meter.is_flood(0, 0, 0, (0, 0)));
        assert!(!meter.is_flood(1, 0, 0, (0, 0)) && !meter.is_flood(0, 1, 0, (0, 0)) && !meter.is_flood(0, 0, 0, (512, 0)));
    }

    #[test]
    fn w01_who_takes_requests_back_has_to_let_some_be_answered() {
        let mut meter = Meter::default();
        meter.take(&frame(3, 0, b"1234").repeat(201));
        assert!(meter.is_flood(0, 1_000_000, 0, (0, 0)));
        assert!(!meter.is_flood(0, 1_000_000, 1, (0, 0)));
    }
}
