//! What the streams of one session and the session tell each other.
//!
//! Runs in the worker; does nothing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Between a session and its streams.
pub(in crate::worker) struct Shared {
    /// The session's token.
    pub(in crate::worker) token: u64,
    /// Sessions that have something to send, of all of the worker.
    touched: Rc<RefCell<Vec<u64>>>,
    /// Whether this one is among them.
    is_touched: Cell<bool>,
    /// Bytes of content that streams may still give to `h2` before the session has sent some: all that it holds for a slow client.
    budget: Cell<usize>,
    /// Streams that wait for more of that, in their order.
    waiting: RefCell<VecDeque<u64>>,
    /// Streams that are open.
    open: Cell<usize>,
    /// Bytes of content that were sent and received, and responses that came to their end.
    pub(super) sent: Cell<u64>,
    pub(super) received: Cell<u64>,
    pub(super) finished: Cell<u64>,
}

impl Shared {
    pub(super) fn new(token: u64, touched: &Rc<RefCell<Vec<u64>>>) -> Shared {
        Shared {
            token,
            touched: Rc::clone(touched),
            is_touched: Cell::new(false),
            budget: Cell::new(BUDGET),
            waiting: RefCell::default(),
            open: Cell::new(0),
            sent: Cell::new(0),
            received: Cell::new(0),
            finished: Cell::new(0),
        }
    }

    /// The session has something to do.
    pub(in crate::worker) fn touch(&self) {
        if !self.is_touched.replace(true) {
            self.touched.borrow_mut().push(self.token);
        }
    }

    /// It does it now.
    pub(super) fn untouch(&self) {
        self.is_touched.set(false);
    }

    /// Streams that are open.
    pub(in crate::worker) fn open(&self) -> usize {
        self.open.get()
    }

    pub(super) fn opened(&self) {
        self.open.set(self.open.get() + 1);
    }

    pub(super) fn closed(&self) {
        self.open.set(self.open.get().saturating_sub(1));
    }

    /// Bytes that a stream may give to `h2` now; where there are none, it is told when there are.
    pub(super) fn room(&self, token: u64) -> usize {
        let budget = self.budget.get();
        let mut waiting = self.waiting.borrow_mut();
        if budget == 0 && !waiting.contains(&token) {
            waiting.push_back(token);
        }
        budget
    }

    pub(super) fn spend(&self, bytes: usize) {
        self.budget.set(self.budget.get().saturating_sub(bytes));
        self.sent.set(self.sent.get().saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX)));
        self.touch();
    }

    /// Everything that was given has been sent.
    pub(super) fn refill(&self) {
        self.budget.set(BUDGET);
    }

    /// Who waits for room, where there is some.
    pub(in crate::worker) fn take_waiting(&self) -> VecDeque<u64> {
        if self.budget.get() > 0 { std::mem::take(&mut *self.waiting.borrow_mut()) } else { VecDeque::new() }
    }
}

/// Bytes of content that a session holds at most that its client does not take: what streams gave to `h2` since all of it was sent.
const BUDGET: usize = 256 * 1024;
