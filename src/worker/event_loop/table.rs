//! The connections of HTTP/2 of a worker, by their tokens.
//!
//! Runs in the worker, as a part of its loop.

use crate::worker::http2::bell::Bell;
use crate::worker::http2::session::Session;
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// The sessions of a worker.
#[derive(Default)]
pub(super) struct Sessions {
    pub(super) all: Slab<Session>,
    /// Streams among the connections.
    pub(super) streams: usize,
    /// Those that have something to send, and those that have more to read.
    pub(super) touched: Rc<RefCell<Vec<u64>>>,
    pub(super) again: VecDeque<u64>,
    pub(super) bell: Arc<Bell>,
    /// Scratch space for a head.
    pub(super) head: Vec<u8>,
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.again.is_empty() || !self.touched.borrow().is_empty()
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Session> {
        self.all.iter_mut().map(|(_, session)| session)
    }

    pub(super) fn find(&mut self, token: u64) -> Option<(usize, &mut Session)> {
        let index = usize::try_from(token & (SESSION - 1)).ok()?;
        let session = self.all.get_mut(index)?;
        (u64::from(session.serial) == token >> 32).then_some((index, session))
    }
}

/// Marks the token of a session, among those of connections.
pub(super) const SESSION: u64 = 1 << 30;
