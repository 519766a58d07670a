//! Log lines on their way from a worker to `log`: one packet holds a batch of access lines, for one file or several, or one
//! error line.
//!
//! Foreign bytes are escaped where a line is made, here; `log` refuses what is not printable, so that a hijacked worker can
//! write nonsense but neither forge a line break nor drive a terminal.

use crate::config::Level;
use crate::sys::clock::{self, Local};
use std::fmt::Write as _;

/// What a packet on a log channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines<'p> {
    /// Pieces of whole lines, each piece for one file.
    Access(Pieces<'p>),
    /// One line without its end, time and sender: `log` adds those, so that they cannot be forged.
    Error(Level, &'p [u8]),
}

/// The pieces of a packet of access lines: number of the file and lines, each ended by LF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces<'p>(&'p [u8]);

/// A packet of access lines being made. Lines for one file that follow each other are one piece: its number and its length,
/// two bytes each, then the lines.
#[derive(Debug, Default)]
pub struct Batch {
    /// Empty, or with its tag.
    packet: Vec<u8>,
    /// Where the last piece begins.
    piece: usize,
    file: u16,
}

/// Longest packet in bytes.
pub const PACKET_MAX: usize = 32 * 1024;

/// Longest line in bytes, its LF included; what is longer is cut, with a mark.
pub const LINE_MAX: usize = 4096;

/// The first byte of a packet of access lines.
const ACCESS: u8 = b'A';

/// Bytes of number and length before each piece.
const PIECE_HEAD: usize = 4;

impl<'p> Lines<'p> {
    /// `None`: malformed.
    pub fn decode(packet: &'p [u8]) -> Option<Lines<'p>> {
        if packet.len() > PACKET_MAX {
            return None;
        }
        let (tag, text) = packet.split_first()?;
        match *tag {
            ACCESS => Pieces::decode(text).map(Lines::Access),
            tag if text.len() < LINE_MAX && is_printable(text) => Some(Lines::Error(level(tag)?, text)),
            _ => None,
        }
    }
}

impl<'p> Pieces<'p> {
    fn decode(text: &'p [u8]) -> Option<Pieces<'p>> {
        let mut rest = text;
        while !rest.is_empty() {
            let (_, lines, after) = first_piece(rest)?;
            if !are_lines(lines) {
                return None;
            }
            rest = after;
        }
        Some(Pieces(text))
    }
}

impl<'p> Iterator for Pieces<'p> {
    type Item = (u16, &'p [u8]);

    fn next(&mut self) -> Option<(u16, &'p [u8])> {
        let (file, lines, after) = first_piece(self.0)?;
        self.0 = after;
        Some((file, lines))
    }
}

fn first_piece(text: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (head, rest) = text.split_first_chunk::<PIECE_HEAD>()?;
    let [a, b, c, d] = *head;
    let (lines, after) = rest.split_at_checked(usize::from(u16::from_le_bytes([c, d])))?;
    Some((u16::from_le_bytes([a, b]), lines, after))
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.packet.is_empty()
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.packet.len()
    }

    /// The packet, to be sent.
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    pub fn clear(&mut self) {
        self.packet.clear();
    }

    /// The packet, to be kept; the batch is empty then.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.packet)
    }

    /// Adds a line for a file: `write` appends it without its end, foreign bytes escaped; it is cut to [`LINE_MAX`].
    pub fn line(&mut self, file: u16, write: impl FnOnce(&mut Vec<u8>)) {
        if self.packet.is_empty() || self.file != file {
            if self.packet.is_empty() {
                self.packet.push(ACCESS);
            }
            self.piece = self.packet.len();
            self.file = file;
            self.packet.extend_from_slice(&file.to_le_bytes());
            self.packet.extend_from_slice(&[0; 2]);
        }
        let start = self.packet.len();
        write(&mut self.packet);
        cut(&mut self.packet, start);
        self.packet.push(b'\n');
        let length = self.packet.len() - self.piece - PIECE_HEAD;
        // A packet is sent long before it has as many bytes as the length can say.
        let length = u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
        if let Some(bytes) = self.packet.get_mut(self.piece + 2..self.piece + PIECE_HEAD) {
            bytes.copy_from_slice(&length);
        }
    }
}

/// How many lines a packet holds, of either kind.
pub fn lines_in(packet: &[u8]) -> usize {
    match Lines::decode(packet) {
        Some(Lines::Access(pieces)) => pieces.map(|(_, lines)| memchr::memchr_iter(b'\n', lines).count()).sum(),
        Some(Lines::Error(..)) | None => 1,
    }
}

/// The packet of an error line. Foreign parts of the text were escaped when it was made, by [`escaped`]; here nothing is left
/// that could leave its line.
pub fn error_packet(level: Level, text: &str) -> Vec<u8> {
    let mut packet = vec![tag(level)];
    escape_where(text.as_bytes(), &mut packet, |byte| matches!(byte, b' '..=b'~'));
    cut(&mut packet, 0);
    packet
}

/// Foreign bytes for a place within quotes in the text of an error line.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    escape(bytes, &mut text);
    text.into_iter().map(char::from).collect()
}

/// Appends foreign bytes so that they stay on their line and within their quotes: control bytes, quote, backslash and
/// everything beyond ASCII become `\xHH`.
pub fn escape(bytes: &[u8], line: &mut Vec<u8>) {
    escape_where(bytes, line, is_plain);
}

fn escape_where(bytes: &[u8], line: &mut Vec<u8>, is_plain: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = bytes;
    // Most of what comes is plain: copied in runs.
    while let Some(end) = rest.iter().position(|byte| !is_plain(*byte)) {
        let (plain, special) = rest.split_at(end);
        line.extend_from_slice(plain);
        if let Some((byte, after)) = special.split_first() {
            let digit = |value: u8| HEX.get(usize::from(value)).copied().unwrap_or(b'0');
            line.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
            rest = after;
        }
    }
    line.extend_from_slice(rest);
}

/// Cuts what was appended since `start` to [`LINE_MAX`], with room for an LF, and marks the cut.
pub fn cut(line: &mut Vec<u8>, start: usize) {
    const MARK: &[u8] = b"...";
    if line.len() - start >= LINE_MAX {
        line.truncate(start + LINE_MAX - 1 - MARK.len());
        line.extend_from_slice(MARK);
    }
}

/// A whole error line as it stands in the file: time, level, sender, text, LF.
pub fn error_line(level: Level, sender: &str, text: &[u8]) -> Vec<u8> {
    let now = clock::local(clock::unix_seconds());
    let mut line = format!("{} [{}] {sender}: ", timestamp(now), name(level)).into_bytes();
    line.extend_from_slice(text);
    line.push(b'\n');
    line
}

/// `2026-11-30T10:00:00+01:00` (RFC 3339)
fn timestamp(now: Local) -> String {
    let mut text = String::with_capacity(25);
    let Local { year, month, day, hour, minute, second, offset_minutes } = now;
    let (sign, offset) = if offset_minutes < 0 { ('-', -offset_minutes) } else { ('+', offset_minutes) };
    let _ = write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{sign}{:02}:{:02}", offset / 60, offset % 60);
    text
}

fn are_lines(text: &[u8]) -> bool {
    let whole = text.is_empty() || text.ends_with(b"\n");
    whole
        && text
            .split_inclusive(|byte| *byte == b'\n')
            .all(|line| line.len() <= LINE_MAX && is_printable(line.strip_suffix(b"\n").unwrap_or(line)))
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// The byte that stands for a level in a packet.
pub(super) fn tag(level: Level) -> u8 {
    match level {
        Level::Error => b'e',
        Level::Warning => b'w',
        Level::Notice => b'n',
        Level::Info => b'i',
        Level::Debug => b'd',
    }
}

/// The level of such a byte.
pub(super) fn level(tag: u8) -> Option<Level> {
    [Level::Error, Level::Warning, Level::Notice, Level::Info, Level::Debug].into_iter().find(|level| self::tag(*level) == tag)
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
        Level::Info => "info",
        Level::Debug => "debug",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l01_foreign_bytes_stay_on_their_line() {
        let mut line = Vec::new();
        escape(b"a\r\nb\x1b[31m\"\\\x7f\xc3\xa9 z", &mut line);
        assert_eq!(line, br#"a\x0D\x0Ab\x1B[31m\x22\x5C\x7F\xC3\xA9 z"#);
    }

    #[test]
    fn k15_what_is_not_printable_is_malformed() {
        assert!(Lines::decode(b"A\x01\0\x08\0ok\nfine\n").is_some());
        assert!(Lines::decode(b"A").is_some());
        for packet in [
            b"A\x01\0\x06\0no end".as_slice(),
            b"A\x01\0\x05\0\x1b[0m\n",
            b"A\x01\0\x02\0\xc3\n",
            b"A\x01\0\x02\0\0\n",
            b"A\x01\0\x04\0ok\n",
            b"A\x01\0\x02\0ok\n",
            b"A\x01\0\x03",
            b"Aok\n",
            b"",
            b"x",
            b"e\n",
            b"ebad\tline",
        ] {
            assert_eq!(Lines::decode(packet), None, "{packet:?}");
        }
        assert_eq!(Lines::decode(b"wlow"), Some(Lines::Error(Level::Warning, b"low")));
    }

    #[test]
    fn lines_come_out_as_they_went_in_each_at_its_file() {
        let mut batch = Batch::default();
        for (file, text) in [(1, "a"), (1, "b"), (700, "c"), (1, "d")] {
            batch.line(file, |line| line.extend_from_slice(text.as_bytes()));
        }
        let Some(Lines::Access(pieces)) = Lines::decode(batch.packet()) else { panic!("{batch:?}") };
        let pieces: Vec<_> = pieces.collect();
        assert_eq!(pieces, [(1, b"a\nb\n".as_slice()), (700, b"c\n"), (1, b"d\n")]);
        assert_eq!(lines_in(batch.packet()), 4);
        batch.clear();
        batch.line(1, |line| line.extend_from_slice(b"e"));
        assert_eq!(batch.packet(), b"A\x01\0\x02\0e\n");
    }

    #[test]
    fn l03_a_line_is_cut_at_the_limit_and_not_one_before() {
        for (length, cut_off) in [(LINE_MAX - 2, false), (LINE_MAX - 1, true), (65536, true)] {
            let packet = error_packet(Level::Error, &"x".repeat(length));
            assert_eq!(packet.ends_with(b"..."), cut_off, "{length}");
            assert!(Lines::decode(&packet).is_some());
        }
        let mut packet = b"A\x01\0\x01\x10".to_vec();
        packet.extend(vec![b'x'; LINE_MAX]);
        packet.push(b'\n');
        assert_eq!(Lines::decode(&packet), None, "a line one too long");
        let mut batch = Batch::default();
        batch.line(1, |line| line.extend(vec![b'x'; 10_000]));
        assert!(batch.packet().ends_with(b"...\n") && Lines::decode(batch.packet()).is_some());
    }

    #[test]
    fn timestamps_have_the_form_of_rfc_3339() {
        let moment = Local { year: 2026, month: 1, day: 2, hour: 3, minute: 4, second: 5, offset_minutes: -210 };
        assert_eq!(timestamp(moment), "2026-01-02T03:04:05-03:30");
    }
}
