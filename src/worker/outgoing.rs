//! What a connection has to send: bytes that the socket did not take yet, and the content that follows them.
//!
//! Runs in the worker. Small responses are copied, one write(2) for head and body; larger ones from memory go out beside their head
//! with writev(2) and wait, where they must, as a reference; from a file with sendfile(2). So a slow client holds little memory.

mod sealed;
mod stream;

use super::disk::Question;
use super::segment::{Ready, Rest};
use super::served::Served;
use super::transport::Transport;
use crate::ipc::disk::Outcome;
use crate::sys::socket;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// What waits to be sent on one connection.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// Follows `bytes`.
    rest: Option<Box<Rest>>,
}

/// How far sending came.
pub(super) enum Sent {
    /// Everything is gone; with the content that was sent whole, if it was not copied.
    All(Option<Box<Rest>>),
    /// The socket is full; whether anything was sent before.
    Blocked { moved: bool },
    /// There is more, but others should have their turn.
    Turn,
    /// What comes next is not there yet; whether anything was sent before. Whoever brings it drives the connection.
    Wait { moved: bool },
    /// The response has a rate, and no more of it may be sent before that moment; whether anything was sent before.
    Paused { until: u64, moved: bool },
    /// What comes next of a file is not in memory: `files` has to be asked for it, see [`Outgoing::cold`].
    Cold,
    /// The file has become shorter, or a producer failed: what was promised cannot be sent, and only the end of the connection tells.
    Short,
}

/// What one call came to.
enum Step {
    Moved,
    Stop(Sent),
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.rest.is_none()
    }

    /// Whether content is made while it is sent.
    pub(super) fn is_making(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.is_making())
    }

    /// Bytes held in memory for this connection alone.
    pub(super) fn held(&self) -> usize {
        self.bytes.len() + self.rest.as_ref().map_or(0, |rest| rest.held())
    }

    /// The content that follows what is made next.
    pub(super) fn follow(&mut self, rest: Option<Box<Rest>>) {
        self.rest = rest;
    }

    /// The content of a response that was cut off.
    pub(super) fn abandon(&mut self) -> Option<Box<Rest>> {
        self.rest.take()
    }

    /// What of a file is to be brought into memory: offset and length.
    pub(super) fn cold(&self) -> Option<(&Rc<Served>, u64, u64)> {
        self.rest.as_ref().and_then(|rest| rest.unknown())
    }

    /// It is to be sent as it is.
    pub(super) fn brought(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.know();
        }
    }

    /// What the producer of what comes next waits for.
    pub(super) fn wants(&self) -> Option<Question> {
        self.rest.as_ref().and_then(|rest| rest.wants())
    }

    /// What came of that, or of [`Outgoing::cold`].
    pub(super) fn bring(&mut self, outcome: Outcome) {
        if let Some(rest) = &mut self.rest {
            rest.bring(outcome);
        }
    }

    /// The producer is told that nobody is asked; whether it goes on all the same.
    pub(super) fn go_on_without(&mut self) -> bool {
        self.rest.as_mut().is_some_and(|rest| rest.go_on_without())
    }

    /// Sends what waits and then `made`, which is emptied: what the socket does not take is kept here.
    ///
    /// # Errors
    /// The errno of write(2), writev(2), send(2) or sendfile(2) when the client is gone.
    pub(super) fn send(&mut self, transport: &mut Transport, made: &mut Vec<u8>, now: u64) -> io::Result<Sent> {
        match transport {
            Transport::Plain(socket) => self.send_to_socket(socket, made, now),
            Transport::Tls(tls) if tls.is_plain() => self.send_to_socket(tls.socket(), made, now),
            Transport::Tls(tls) => self.send_over_tls(tls, made, now),
            Transport::Stream(stream) => self.send_on_stream(stream, made, now),
        }
    }

    fn send_to_socket(&mut self, socket: &OwnedFd, made: &mut Vec<u8>, now: u64) -> io::Result<Sent> {
        let mut moved = false;
        if !self.bytes.is_empty() {
            self.bytes.append(made);
        }
        let waiting = if self.bytes.is_empty() { made.as_slice() } else { self.bytes.get(self.sent..).unwrap_or_default() };
        let mut sent = 0;
        if !waiting.is_empty() {
            sent = send_head(socket, waiting, self.rest.as_deref_mut(), now)?;
            moved = sent > 0;
            // Only a socket that takes nothing tells when it takes more.
            while let (true, Some(left)) = (sent > 0, waiting.get(sent..).filter(|left| !left.is_empty())) {
                match send_head(socket, left, self.rest.as_deref_mut(), now)? {
                    0 => break,
                    more => sent += more,
                }
            }
        }
        if !self.spend(made, sent) {
            return Ok(Sent::Blocked { moved });
        }
        self.send_rest(socket, moved, now)
    }

    /// So many bytes of what waited, or of `made` where nothing did, are sent; the others are kept. Whether there are none.
    fn spend(&mut self, made: &mut Vec<u8>, sent: usize) -> bool {
        let was_empty = self.bytes.is_empty();
        let left = if was_empty { made.get(sent..) } else { self.bytes.get(self.sent + sent..) }.unwrap_or_default();
        let is_all = left.is_empty();
        if is_all {
            (self.bytes, self.sent) = (Vec::new(), 0);
        } else if was_empty {
            self.bytes = left.to_vec();
        } else {
            self.sent += sent;
        }
        made.clear();
        is_all
    }

    fn send_rest(&mut self, socket: &OwnedFd, mut moved: bool, now: u64) -> io::Result<Sent> {
        let Some(rest) = self.rest.as_mut() else {
            return Ok(Sent::All(None));
        };
        for _ in 0..TURNS {
            match step(socket, rest, moved, now)? {
                Step::Moved => moved = true,
                Step::Stop(Sent::All(_)) => return Ok(Sent::All(self.rest.take())),
                Step::Stop(sent) => return Ok(sent),
            }
        }
        Ok(if rest.is_done() { Sent::All(self.rest.take()) } else { Sent::Turn })
    }
}

/// Sends with one call what is ready.
fn step(socket: &OwnedFd, rest: &mut Rest, moved: bool, now: u64) -> io::Result<Step> {
    let (more, allowed) = (rest.more_at_once(), rest.allowed(now));
    if allowed == 0 && !rest.is_done() {
        return Ok(Step::Stop(Sent::Paused { until: rest.next(), moved }));
    }
    if let Some((file, offset, length)) = rest.unknown() {
        if !file.is_in_memory(offset, length, now) {
            return Ok(Step::Stop(Sent::Cold));
        }
        rest.know();
    }
    let Ok(ready) = rest.ready() else {
        return Ok(Step::Stop(Sent::Short));
    };
    let result = match ready {
        Ready::Memory(bytes) if more => socket::send_more(socket, first(bytes, allowed)).map(count),
        Ready::Memory(bytes) => socket::send(socket, first(bytes, allowed)).map(count),
        Ready::File { file, offset, length } => socket::send_file(socket, file.as_fd(), offset, length.min(allowed)),
        Ready::Turn => return Ok(Step::Stop(Sent::Turn)),
        Ready::Wait => return Ok(Step::Stop(Sent::Wait { moved })),
        Ready::End => return Ok(Step::Stop(Sent::All(None))),
    };
    match result {
        Ok(0) => Ok(Step::Stop(Sent::Short)),
        Ok(sent) => {
            rest.advance(sent);
            Ok(Step::Moved)
        }
        Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(Step::Stop(Sent::Blocked { moved })),
        Err(fault) if fault.kind() == io::ErrorKind::Interrupted => Ok(Step::Moved),
        Err(fault) => Err(fault),
    }
}

/// Sends a head with as much of what follows as one call takes; how much of the head was sent.
fn send_head(socket: &OwnedFd, head: &[u8], rest: Option<&mut Rest>, now: u64) -> io::Result<usize> {
    let Some(rest) = rest else {
        return tried(|| socket::send(socket, head));
    };
    let allowed = rest.allowed(now);
    match rest.ready() {
        // Held back until the first bytes of the file come, to leave in one segment with them.
        Ok(Ready::File { .. }) => tried(|| socket::send_more(socket, head)),
        Ok(Ready::Memory(bytes)) => {
            let sent = tried(|| socket::send_both(socket, head, first(bytes, allowed)))?;
            rest.advance(count(sent.saturating_sub(head.len())));
            Ok(sent.min(head.len()))
        }
        // A producer that fails does so again, and then ends the connection.
        Ok(Ready::Turn | Ready::Wait | Ready::End) | Err(_) => tried(|| socket::send(socket, head)),
    }
}

/// A full socket takes nothing, which is no error. A call that a signal interrupted is made again: nobody would say that there is room.
fn tried(send: impl Fn() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match send() {
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            result => return result,
        }
    }
}

/// As many bytes as may be sent.
fn first(bytes: &[u8], allowed: u64) -> &[u8] {
    bytes.get(..usize::try_from(allowed).unwrap_or(usize::MAX)).unwrap_or(bytes)
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Calls for one connection before others get their turn.
const TURNS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::super::segment::{Delimiter, Produce, Produced, Segment, tests::Pieces};
    use super::super::visit::Line;
    use super::*;
    use std::collections::VecDeque;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// A producer of so many bytes, a piece at a time, that fails at the end if it should.
    struct Numbers(usize, bool);

    impl Produce for Numbers {
        fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
            if self.0 == 0 && self.1 {
                return Err(io::ErrorKind::Other.into());
            }
            let length = self.0.min(30_000);
            self.0 -= length;
            out.resize(length, b'x');
            Ok(if self.0 == 0 && !self.1 { Produced::End } else { Produced::More })
        }
    }

    fn pair() -> (OwnedFd, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        (ours.into(), theirs)
    }

    fn outgoing(segments: Vec<Segment>) -> Outgoing {
        let mut segments = VecDeque::from(segments);
        let first = segments.pop_front().unwrap();
        let mut outgoing = Outgoing::default();
        outgoing.follow(Some(Box::new(Rest::new(first, segments, Line::for_tests()))));
        outgoing
    }

    /// Sends all, reading whenever the socket is full; what came, and how it ended, with the bytes of content that were counted.
    fn exchange(outgoing: &mut Outgoing, mut head: Vec<u8>, most_held: usize) -> (Vec<u8>, &'static str, u64) {
        let (ours, mut theirs) = pair();
        let mut ours = Transport::Plain(ours);
        let mut received = Vec::new();
        loop {
            let sent = outgoing.send(&mut ours, &mut head, 0).unwrap();
            assert!(outgoing.held() <= most_held, "{} held", outgoing.held());
            let mut buffer = vec![0; 1 << 20];
            while let Ok(count) = theirs.read(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
            }
            match sent {
                Sent::All(rest) => return (received, "all", rest.map_or(0, |rest| rest.sent)),
                Sent::Short => return (received, "short", outgoing.abandon().map_or(0, |rest| rest.sent)),
                Sent::Blocked { .. } | Sent::Turn | Sent::Wait { .. } | Sent::Paused { .. } | Sent::Cold => {}
            }
        }
    }

    #[test]
    fn a_head_and_what_is_at_hand_are_one_message() {
        let mut outgoing = outgoing(vec![Segment::stream(Box::new(Pieces(vec![b"abc"], Produced::Wait)), Delimiter::Chunks)]);
        let (received, how, sent) = exchange(&mut outgoing, b"head\r\n\r\n".to_vec(), 1000);
        assert_eq!((received.as_slice(), how, sent), (b"head\r\n\r\n3\r\nabc\r\n0\r\n\r\n".as_slice(), "all", 3));
    }

    #[test]
    fn s14_a_slow_client_holds_one_piece_of_a_large_stream() {
        let mut outgoing = outgoing(vec![Segment::stream(Box::new(Numbers(10_000_000, false)), Delimiter::None)]);
        let (received, how, sent) = exchange(&mut outgoing, b"h".to_vec(), 100_000);
        assert_eq!((received.len(), how, sent), (10_000_001, "all", 10_000_000));
    }

    #[test]
    fn a_producer_that_fails_cuts_the_response_off_without_a_last_chunk() {
        let mut outgoing = outgoing(vec![Segment::stream(Box::new(Numbers(60_000, true)), Delimiter::Chunks)]);
        let (received, how, sent) = exchange(&mut outgoing, b"h".to_vec(), 100_000);
        assert_eq!((how, sent), ("short", 60_000));
        assert!(received.ends_with(b"xx\r\n"));
    }

    #[test]
    fn many_segments_go_out_whole() {
        let segments = (0..100).flat_map(|_| [Segment::bytes(vec![b'-'; 100]), Segment::bytes(vec![b'+'; 9_900])]).collect();
        let (received, how, sent) = exchange(&mut outgoing(segments), Vec::new(), 2_000_000);
        assert_eq!((received.len(), how, sent), (1_000_000, "all", 1_000_000));
        assert!(received.chunks(10_000).all(|part| part[..100].iter().all(|byte| *byte == b'-') && part[100] == b'+'));
    }
}
