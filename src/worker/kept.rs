//! A body that has to be whole before it is of use: kept in memory as long as it is small, then by `spool`.
//!
//! Runs in the worker; sends nothing itself, [`Spool`](super::spool::Spool) does. What waits to be sent there is limited: where `spool` is
//! behind, no more of the body is read from its client.

use crate::ipc::spool::PIECE;
use crate::proto::status::{Reject, Status};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A body that comes in.
pub(super) struct Kept {
    /// The client's connection, by its token.
    client: u64,
    memory: Vec<u8>,
    spooled: Option<Spooled>,
}

/// A body that `spool` keeps, as its reader, its writer and the channel share it; it is forgotten there when nobody has it any more.
pub(super) type Spooled = Rc<RefCell<State>>;

/// How far a spooled body is.
pub(super) struct State {
    /// What `spool` knows it by; 0: nothing yet.
    pub(super) id: u32,
    pub(super) client: u64,
    /// Bytes that are not sent yet.
    pub(super) out: VecDeque<u8>,
    /// Bytes that came, that were sent, and that are written.
    length: u64,
    pub(super) sent: u64,
    pub(super) written: u64,
    /// No more comes.
    pub(super) is_whole: bool,
    pub(super) failure: Option<Reject>,
    /// Reading: bytes that are wanted, that were asked for, and answers that are under way; of those, what is of no use any more.
    pub(super) wanted: u64,
    pub(super) asked: u64,
    pub(super) under_way: u32,
    pub(super) stale: u32,
    /// What was read and not taken, and how many bytes were taken.
    read: VecDeque<Vec<u8>>,
    taken: u64,
}

/// What there is of the body of a request.
pub(super) enum Given<'b> {
    /// Nothing yet: it is handed on as it comes. Or it has none.
    Streams,
    /// All of it.
    Memory(&'b [u8]),
    /// All of it, where `spool` keeps it.
    Spooled(&'b Spooled),
}

impl Kept {
    pub(super) fn new(client: u64) -> Kept {
        Kept { client, memory: Vec::new(), spooled: None }
    }

    /// Takes a part of it.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if self.spooled.is_none() && self.memory.len() + bytes.len() <= MEMORY_MAX {
            return self.memory.extend_from_slice(bytes);
        }
        let memory = std::mem::take(&mut self.memory);
        let client = self.client;
        let mut spooled = self.spooled.get_or_insert_with(|| State::of(client, memory)).borrow_mut();
        spooled.length += u64::try_from(bytes.len()).unwrap_or(0);
        spooled.out.extend(bytes);
    }

    /// No more comes.
    pub(super) fn end(&self) {
        if let Some(spooled) = &self.spooled {
            spooled.borrow_mut().is_whole = true;
        }
    }

    pub(super) fn length(&self) -> u64 {
        match &self.spooled {
            Some(spooled) => spooled.borrow().length,
            None => u64::try_from(self.memory.len()).unwrap_or(0),
        }
    }

    /// Bytes that can be taken now.
    pub(super) fn room(&self) -> usize {
        self.spooled.as_ref().map_or(usize::MAX, |spooled| spooled.borrow().room())
    }

    pub(super) fn spooled(&self) -> Option<&Spooled> {
        self.spooled.as_ref()
    }

    /// Why nothing will come of it.
    pub(super) fn failure(&self) -> Option<Reject> {
        self.spooled.as_ref().and_then(|spooled| spooled.borrow().failure)
    }

    /// What is in memory, where all of it is.
    pub(super) fn memory(&self) -> &[u8] {
        &self.memory
    }
}

impl State {
    fn of(client: u64, memory: Vec<u8>) -> Spooled {
        Rc::new(RefCell::new(State {
            id: 0,
            client,
            length: u64::try_from(memory.len()).unwrap_or(0),
            out: memory.into(),
            sent: 0,
            written: 0,
            is_whole: false,
            failure: None,
            wanted: 0,
            asked: 0,
            under_way: 0,
            stale: 0,
            read: VecDeque::new(),
            taken: 0,
        }))
    }

    fn room(&self) -> usize {
        let waiting = self.length.saturating_sub(self.written);
        usize::try_from(WINDOW.saturating_sub(waiting)).unwrap_or(0)
    }

    /// The next message for `spool`, if there is enough for one: small parts are put together.
    pub(super) fn piece(&self) -> Option<Vec<u8>> {
        let is_enough = self.out.len() >= PIECE || (self.is_whole && !self.out.is_empty());
        is_enough.then(|| {
            let (front, back) = self.out.as_slices();
            let mut piece = Vec::with_capacity(PIECE);
            piece.extend_from_slice(front.get(..PIECE).unwrap_or(front));
            let left = PIECE - piece.len();
            piece.extend_from_slice(back.get(..left).unwrap_or(back));
            piece
        })
    }

    /// That piece was sent.
    pub(super) fn was_sent(&mut self, count: usize) {
        self.out.drain(..count);
        self.sent += u64::try_from(count).unwrap_or(0);
    }

    /// `spool` says that so many bytes are written; false: it cannot be.
    pub(super) fn was_written(&mut self, length: u64) -> bool {
        let fits = length > self.written && length <= self.sent;
        self.written = length;
        fits
    }

    /// A part that was read has come; false: it was not asked for, or is not as long as it has to be.
    pub(super) fn came(&mut self, bytes: Vec<u8>) -> bool {
        let Some(left) = self.under_way.checked_sub(1) else { return false };
        self.under_way = left;
        if self.stale > 0 {
            self.stale -= 1;
            return true;
        }
        let fits = u64::try_from(bytes.len()).is_ok_and(|count| count == self.size_at(self.taken + self.held()));
        self.read.push_back(bytes);
        fits
    }

    /// Where the next part to ask for begins: as far ahead as is wanted.
    pub(super) fn next_read(&self) -> Option<u64> {
        (self.asked < self.wanted.min(self.length)).then_some(self.asked)
    }

    pub(super) fn was_asked(&mut self) {
        self.asked += self.size_at(self.asked);
        self.under_way += 1;
    }

    fn size_at(&self, at: u64) -> u64 {
        self.length.saturating_sub(at).min(PIECE as u64)
    }

    fn held(&self) -> u64 {
        self.read.iter().map(|part| u64::try_from(part.len()).unwrap_or(0)).sum()
    }

    /// The next part for whoever reads it, who has room for so many bytes; what follows is asked for ahead.
    pub(super) fn next(&mut self, room: usize) -> Option<Vec<u8>> {
        self.wanted = self.taken + READ_AHEAD;
        let fits = self.read.front().is_some_and(|part| part.len() <= room);
        let part = if fits { self.read.pop_front() } else { None }?;
        self.taken += u64::try_from(part.len()).unwrap_or(0);
        self.wanted = self.taken + READ_AHEAD;
        Some(part)
    }

    /// All of it has been taken.
    pub(super) fn is_read(&self) -> bool {
        self.is_whole && self.taken == self.length
    }

    /// It is read from its beginning.
    pub(super) fn rewind(&mut self) {
        (self.wanted, self.asked, self.taken, self.stale) = (0, 0, 0, self.under_way);
        self.read.clear();
    }

    pub(super) fn fail(&mut self, status: Status, why: &'static str) {
        self.failure.get_or_insert(Reject { status, why });
        self.out = VecDeque::new();
        self.read = VecDeque::new();
    }
}

/// Bytes of a body that are kept in memory: beyond, `spool` gets them.
pub(super) const MEMORY_MAX: usize = 128 * 1024;

/// Bytes of a body that may be on their way to `spool`, the first ones apart, which are all in memory.
const WINDOW: u64 = 2 * MEMORY_MAX as u64;

/// Bytes that are read before they are wanted.
const READ_AHEAD: u64 = 4 * PIECE as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn send_all(state: &mut State) -> Vec<u8> {
        let mut sent = Vec::new();
        while let Some(piece) = state.piece() {
            state.was_sent(piece.len());
            sent.extend(piece);
        }
        sent
    }

    #[test]
    fn a_body_is_kept_in_memory_up_to_the_limit_and_spooled_one_byte_beyond() {
        let mut kept = Kept::new(1);
        kept.take(&vec![1; MEMORY_MAX]);
        assert!(kept.spooled().is_none() && kept.room() == usize::MAX);
        assert_eq!((kept.memory().len(), kept.length()), (MEMORY_MAX, MEMORY_MAX as u64));
        kept.take(&[2]);
        assert_eq!((kept.memory().len(), kept.length()), (0, MEMORY_MAX as u64 + 1));
        let spooled = kept.spooled().unwrap();
        assert_eq!(send_all(&mut spooled.borrow_mut()).len(), MEMORY_MAX, "what is less than a piece waits for more");
        kept.end();
        assert_eq!(send_all(&mut spooled.borrow_mut()), [2]);
    }

    #[test]
    fn no_more_is_taken_than_may_be_on_its_way() {
        let mut kept = Kept::new(1);
        let count = usize::try_from(WINDOW).unwrap();
        kept.take(&vec![0; count]);
        assert_eq!(kept.room(), 0);
        let spooled = kept.spooled().unwrap().clone();
        send_all(&mut spooled.borrow_mut());
        assert_eq!(kept.room(), 0, "sent is not written");
        assert!(spooled.borrow_mut().was_written(PIECE as u64));
        assert_eq!(kept.room(), PIECE);
        assert!(!spooled.borrow_mut().was_written(PIECE as u64), "no progress");
        assert!(!spooled.borrow_mut().was_written(WINDOW + 1), "more than was sent");
    }

    #[test]
    fn what_is_read_comes_in_order_and_once_more_behind_a_rewind() {
        let length = MEMORY_MAX + PIECE + 5;
        let bytes: Vec<u8> = (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect();
        let mut kept = Kept::new(1);
        kept.take(&bytes);
        kept.end();
        let spooled = kept.spooled().unwrap().clone();
        let mut state = spooled.borrow_mut();
        let stored = send_all(&mut state);
        assert_eq!(stored, bytes);
        assert_eq!(state.next_read(), None, "nobody wants it");
        for round in 0..2 {
            let mut read = Vec::new();
            let mut asked = VecDeque::new();
            while !state.is_read() {
                if let Some(part) = state.next(usize::MAX) {
                    read.extend(part);
                    // The first reader gives up in the middle.
                    if round == 0 && read.len() > PIECE {
                        break;
                    }
                    continue;
                }
                while let Some(at) = state.next_read() {
                    asked.push_back(usize::try_from(at).unwrap());
                    state.was_asked();
                }
                let at = asked.pop_front().unwrap();
                assert!(state.came(stored[at..(at + PIECE).min(length)].to_vec()));
            }
            assert_eq!(read, bytes[..read.len()]);
            assert_eq!(read.len() == length, round == 1);
            state.rewind();
            for at in asked {
                assert!(state.came(stored[at..(at + PIECE).min(length)].to_vec()), "asked for before");
            }
            assert_eq!(state.next(usize::MAX), None);
        }
        assert!(!state.came(vec![0]), "nobody asked");
    }

    #[test]
    fn a_part_of_another_length_is_noticed() {
        let mut kept = Kept::new(1);
        kept.take(&vec![0; MEMORY_MAX + 1]);
        kept.end();
        let spooled = kept.spooled().unwrap().clone();
        let mut state = spooled.borrow_mut();
        send_all(&mut state);
        assert_eq!(state.next(usize::MAX), None);
        assert_eq!(state.next_read(), Some(0));
        state.was_asked();
        assert!(!state.came(vec![0; PIECE - 1]));
    }
}
