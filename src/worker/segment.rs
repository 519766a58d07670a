//! What follows a response's head: segments of bytes, of files, and streams that are made while they are sent.
//!
//! Runs in the worker; makes no system call. A stream is asked for more only when everything it gave before is sent, so that a
//! slow client holds one piece of it.

use super::disk::Question;
use super::pace::Pace;
use super::served::{Content, Served};
use super::visit::Line;
use crate::ipc::disk::{Outcome, WARM_MAX};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Something that makes content bit by bit.
pub(super) trait Produce {
    /// Appends some content, about [`PIECE`] bytes at most, to `out`, which is empty. It must not take long: others wait. With nothing
    /// appended and [`Produced::More`] it is asked again at the next turn.
    ///
    /// # Errors
    /// Whatever keeps it from going on: the response is cut off, and the client sees that it is not whole.
    fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced>;

    /// Bytes it holds in memory, about: slow clients are dropped when all of them hold too much.
    fn memory(&self) -> usize {
        0
    }

    /// What `files` has to be asked before it goes on, after [`Produced::Wait`].
    fn wants(&self) -> Option<Question> {
        None
    }

    /// Takes the answer.
    fn bring(&mut self, _outcome: Outcome) {}

    /// `files` is not asked; whether it goes on all the same.
    fn go_on_without(&mut self) -> bool {
        false
    }
}

/// What a producer says of what it will do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Produced {
    /// There is more.
    More,
    /// That was all.
    End,
    /// There is more later; whoever brings it drives the connection.
    Wait,
}

/// How the end of a stream is told (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delimiter {
    /// Chunks (RFC 9112, 7.1).
    Chunks,
    /// `Content-Length`, or the end of the connection: the content goes out as it is.
    None,
}

/// A part of the content. What has a head to it is sent beside it in one call where it can be.
pub(super) enum Segment {
    Bytes { bytes: Vec<u8>, sent: usize },
    File { file: Rc<Served>, offset: u64, remaining: u64 },
    Stream(Stream),
}

/// What of a segment can be sent now.
pub(super) enum Ready<'s> {
    Memory(&'s [u8]),
    File {
        file: &'s OwnedFd,
        offset: u64,
        length: u64,
    },
    /// Nothing yet; asked again at the next turn.
    Turn,
    /// Nothing until somebody else brings it.
    Wait,
    /// Everything is sent.
    End,
}

/// The content of one response, and the access line that is written at its end.
pub(super) struct Rest {
    current: Segment,
    following: VecDeque<Segment>,
    pub(super) line: Line,
    /// Bytes of content that were sent, without the framing of chunks.
    pub(super) sent: u64,
    /// `None`: as fast as the client takes it.
    pace: Option<Pace>,
    /// Up to here the file being sent is known to be in memory.
    known: u64,
}

/// Content that is made while it is sent.
pub(super) struct Stream {
    producer: Box<dyn Produce>,
    delimiter: Delimiter,
    /// The piece being sent, and where in it its content lies: before and behind that is the framing of its chunk.
    piece: Vec<u8>,
    content: std::ops::Range<usize>,
    sent: usize,
    /// What the producer said with that piece.
    produced: Produced,
}

impl Rest {
    pub(super) fn new(first: Segment, following: VecDeque<Segment>, line: Line) -> Rest {
        Rest { current: first, following, line, sent: 0, known: 0, pace: None }
    }

    /// The same at a pace.
    pub(super) fn at_pace(self, pace: Option<Pace>) -> Rest {
        Rest { pace, ..self }
    }

    /// Bytes that may be sent now.
    pub(super) fn allowed(&mut self, now: u64) -> u64 {
        self.pace.as_mut().map_or(u64::MAX, |pace| pace.allowed(now))
    }

    /// When some may be sent again, where none may.
    pub(super) fn next(&self) -> u64 {
        self.pace.map_or(0, |pace| pace.next())
    }

    /// What can be sent now. A producer is asked for it when nothing is left of its last piece.
    ///
    /// # Errors
    /// Those of [`Produce::produce`].
    pub(super) fn ready(&mut self) -> io::Result<Ready<'_>> {
        self.current.prepare()?;
        while self.current.is_done() {
            let Some(next) = self.following.pop_front() else {
                return Ok(Ready::End);
            };
            self.current = next;
            self.known = 0;
            self.current.prepare()?;
        }
        Ok(match self.current.ready() {
            Ready::File { file, offset, length } if self.known > offset => {
                Ready::File { file, offset, length: length.min(self.known - offset) }
            }
            ready @ (Ready::File { .. } | Ready::Memory(_) | Ready::Turn | Ready::Wait | Ready::End) => ready,
        })
    }

    /// What of a large file is sent next, if it is not known to be in memory: offset and length.
    pub(super) fn unknown(&self) -> Option<(&Rc<Served>, u64, u64)> {
        match &self.current {
            Segment::File { file, offset, remaining } if *remaining > 0 && *offset >= self.known && file.ahead.is_some() => {
                Some((file, *offset, (*remaining).min(u64::from(WARM_MAX))))
            }
            Segment::File { .. } | Segment::Bytes { .. } | Segment::Stream(_) => None,
        }
    }

    /// What is sent next is in memory, or is to be sent as if it were.
    pub(super) fn know(&mut self) {
        if let Some((_, offset, length)) = self.unknown() {
            self.known = offset.saturating_add(length);
        }
    }

    /// What the producer of what comes next waits for.
    pub(super) fn wants(&self) -> Option<Question> {
        if let Segment::Stream(stream) = &self.current { stream.producer.wants() } else { None }
    }

    /// What came of that, or of [`Rest::unknown`].
    pub(super) fn bring(&mut self, outcome: Outcome) {
        match &mut self.current {
            Segment::Stream(stream) => stream.producer.bring(outcome),
            Segment::File { .. } | Segment::Bytes { .. } => self.know(),
        }
    }

    pub(super) fn go_on_without(&mut self) -> bool {
        if let Segment::Stream(stream) = &mut self.current { stream.producer.go_on_without() } else { false }
    }

    /// What is ready, if it is of a file in memory: without a copy.
    pub(super) fn shared(&self) -> Option<Bytes> {
        let Segment::File { file, offset, remaining } = &self.current else { return None };
        let Content::Memory(bytes) = &file.content else { return None };
        let start = index(*offset);
        let end = start.checked_add(index(*remaining))?;
        (end <= bytes.len()).then(|| bytes.slice(start..end))
    }

    /// Whether something follows the current segment at once.
    pub(super) fn more_at_once(&self) -> bool {
        matches!(self.following.front(), Some(Segment::Bytes { .. } | Segment::File { .. }))
    }

    /// Whether what comes next is made while it is sent.
    pub(super) fn is_making(&self) -> bool {
        matches!(self.current, Segment::Stream(_))
    }

    /// Whether everything is sent.
    pub(super) fn is_done(&self) -> bool {
        self.current.is_done() && self.following.iter().all(Segment::is_done)
    }

    /// Notes that so many bytes of what was ready were sent.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.sent += self.current.advance(bytes);
        if let Some(pace) = &mut self.pace {
            pace.spend(bytes);
        }
    }

    /// Bytes of memory that only this response needs.
    pub(super) fn held(&self) -> usize {
        self.current.held() + self.following.iter().map(Segment::held).sum::<usize>()
    }
}

impl Segment {
    pub(super) fn bytes(bytes: Vec<u8>) -> Segment {
        Segment::Bytes { bytes, sent: 0 }
    }

    /// A stream; one whose end chunks tell has to be the only segment.
    pub(super) fn stream(producer: Box<dyn Produce>, delimiter: Delimiter) -> Segment {
        Segment::Stream(Stream { producer, delimiter, piece: Vec::new(), content: 0..0, sent: 0, produced: Produced::More })
    }

    fn is_done(&self) -> bool {
        match self {
            Segment::Bytes { bytes, sent } => *sent >= bytes.len(),
            Segment::File { remaining, .. } => *remaining == 0,
            Segment::Stream(stream) => stream.produced == Produced::End && stream.sent >= stream.piece.len(),
        }
    }

    /// Makes what is to be sent next.
    fn prepare(&mut self) -> io::Result<()> {
        match self {
            Segment::Stream(stream) if stream.sent >= stream.piece.len() && stream.produced != Produced::End => stream.fill(),
            Segment::Stream(_) | Segment::Bytes { .. } | Segment::File { .. } => Ok(()),
        }
    }

    fn ready(&self) -> Ready<'_> {
        match self {
            Segment::Bytes { bytes, sent } => Ready::Memory(bytes.get(*sent..).unwrap_or_default()),
            Segment::File { file, offset, remaining } => match &file.content {
                Content::Memory(bytes) => Ready::Memory(slice(bytes, *offset, *remaining)),
                Content::Open(open) => Ready::File { file: open, offset: *offset, length: *remaining },
            },
            Segment::Stream(stream) => stream.ready(),
        }
    }

    /// Bytes of content among so many that were sent.
    fn advance(&mut self, count: u64) -> u64 {
        match self {
            Segment::Bytes { sent, .. } => {
                *sent = sent.saturating_add(index(count));
                count
            }
            Segment::File { offset, remaining, .. } => {
                *offset += count;
                *remaining = remaining.saturating_sub(count);
                count
            }
            Segment::Stream(stream) => stream.advance(index(count)),
        }
    }

    fn held(&self) -> usize {
        match self {
            Segment::Bytes { bytes, .. } => bytes.capacity(),
            Segment::File { .. } => 0,
            Segment::Stream(stream) => stream.piece.capacity() + stream.producer.memory(),
        }
    }
}

impl Stream {
    fn ready(&self) -> Ready<'_> {
        match (self.piece.get(self.sent..), self.produced) {
            (Some(piece), _) if !piece.is_empty() => Ready::Memory(piece),
            (_, Produced::More) => Ready::Turn,
            (_, Produced::Wait) => Ready::Wait,
            (_, Produced::End) => Ready::End,
        }
    }

    /// Makes the next piece.
    fn fill(&mut self) -> io::Result<()> {
        (self.sent, self.content) = (0, 0..0);
        self.piece.clear();
        self.produced = self.producer.produce(&mut self.piece)?;
        let length = self.piece.len();
        self.content = 0..length;
        if self.delimiter == Delimiter::Chunks {
            if length > 0 {
                let size = format!("{length:x}\r\n");
                self.piece.splice(0..0, size.bytes());
                self.content = size.len()..size.len() + length;
                self.piece.extend_from_slice(b"\r\n");
            }
            if self.produced == Produced::End {
                self.piece.extend_from_slice(b"0\r\n\r\n");
            }
        }
        Ok(())
    }

    fn advance(&mut self, count: usize) -> u64 {
        let before = self.sent.clamp(self.content.start, self.content.end);
        self.sent = self.sent.saturating_add(count);
        let after = self.sent.clamp(self.content.start, self.content.end);
        u64::try_from(after - before).unwrap_or(u64::MAX)
    }
}

fn slice(bytes: &[u8], offset: u64, length: u64) -> &[u8] {
    bytes.get(index(offset)..index(offset.saturating_add(length))).unwrap_or_default()
}

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Bytes that a producer makes at once, about: a few segments of TCP, and little enough to hold for each slow client.
pub(super) const PIECE: usize = 32 * 1024;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Gives these pieces, one at each call; an empty one stands for a call that finds nothing yet.
    pub(in super::super) struct Pieces(pub(in super::super) Vec<&'static [u8]>, pub(in super::super) Produced);

    impl Produce for Pieces {
        fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
            if self.0.is_empty() {
                return Ok(Produced::End);
            }
            let piece = self.0.remove(0);
            out.extend_from_slice(piece);
            Ok(if piece.is_empty() { self.1 } else { Produced::More })
        }
    }

    /// Everything, taken `step` bytes at a time; with how often there was nothing to take, and how many bytes of content it was.
    fn all(rest: &mut Rest, step: usize) -> (Vec<u8>, usize, u64) {
        let (mut bytes, mut pauses) = (Vec::new(), 0);
        loop {
            let count = match rest.ready().unwrap() {
                Ready::Memory(ready) => {
                    let count = ready.len().min(step);
                    bytes.extend_from_slice(&ready[..count]);
                    count
                }
                Ready::Turn | Ready::Wait => {
                    pauses += 1;
                    assert!(pauses < 100);
                    0
                }
                Ready::End => return (bytes, pauses, rest.sent),
                Ready::File { .. } => unreachable!(),
            };
            rest.advance(count as u64);
        }
    }

    fn of(segments: Vec<Segment>) -> Rest {
        let mut segments = VecDeque::from(segments);
        let first = segments.pop_front().unwrap();
        Rest::new(first, segments, Line::for_tests())
    }

    #[test]
    fn streams_are_framed_as_chunks_however_little_is_sent_at_once() {
        for step in [1, 2, 3, 7, 1000] {
            for produced in [Produced::More, Produced::Wait] {
                let pieces = Pieces(vec![b"hello", b"", b"0123456789abcdefg", b""], produced);
                let mut rest = of(vec![Segment::stream(Box::new(pieces), Delimiter::Chunks)]);
                let expected = b"5\r\nhello\r\n11\r\n0123456789abcdefg\r\n0\r\n\r\n".to_vec();
                assert_eq!(all(&mut rest, step), (expected, 2, 22), "{step}");
            }
        }
    }

    #[test]
    fn an_empty_stream_is_its_last_chunk() {
        let mut rest = of(vec![Segment::stream(Box::new(Pieces(Vec::new(), Produced::End)), Delimiter::Chunks)]);
        assert_eq!(all(&mut rest, 1), (b"0\r\n\r\n".to_vec(), 0, 0));
        let mut rest = of(vec![Segment::stream(Box::new(Pieces(Vec::new(), Produced::End)), Delimiter::None)]);
        assert_eq!(all(&mut rest, 1), (Vec::new(), 0, 0));
    }

    #[test]
    fn segments_go_out_in_their_order() {
        for step in [1, 3, 1000] {
            let mut rest = of(vec![
                Segment::bytes(b"--a\r\n".to_vec()),
                Segment::bytes(Vec::new()),
                Segment::stream(Box::new(Pieces(vec![b"made", b"", b" later"], Produced::Wait)), Delimiter::None),
                Segment::bytes(b"\r\n--a--".to_vec()),
            ]);
            assert_eq!(all(&mut rest, step), (b"--a\r\nmade later\r\n--a--".to_vec(), 1, 22));
            assert!(matches!(rest.ready().unwrap(), Ready::End));
        }
    }

    #[test]
    fn a_producer_is_asked_again_only_when_its_piece_is_sent() {
        let mut rest = of(vec![Segment::stream(Box::new(Pieces(vec![b"one", b"two"], Produced::More)), Delimiter::None)]);
        for _ in 0..3 {
            assert!(matches!(rest.ready().unwrap(), Ready::Memory(b"one")));
        }
        rest.advance(2);
        assert!(matches!(rest.ready().unwrap(), Ready::Memory(b"e")));
        rest.advance(1);
        assert!(matches!(rest.ready().unwrap(), Ready::Memory(b"two")));
    }
}
