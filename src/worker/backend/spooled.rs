//! Bodies that `spool` keeps, on their way to backends: as much as a backend takes is asked for, and no more.
//!
//! Runs in the worker; sends and receives nothing itself.

use super::exchange::{Failure, Shared};
use crate::worker::kept::Spooled;

/// The bodies that are on their way.
#[derive(Default)]
pub(super) struct Feeds(Vec<Feed>);

/// A body, and the exchange that it belongs to.
struct Feed {
    exchange: Shared,
    body: Spooled,
}

impl Feeds {
    /// The body of this exchange comes from `spool`.
    pub(super) fn add(&mut self, exchange: &Shared, body: Spooled) {
        self.0.push(Feed { exchange: exchange.clone(), body });
    }

    /// Hands on what has come, and lets go of what is needed no more; the exchanges that have something new.
    pub(super) fn advance(&mut self) -> Vec<Shared> {
        let mut advanced = Vec::new();
        self.0.retain(|feed| {
            if feed.advance() {
                advanced.push(feed.exchange.clone());
            }
            let exchange = feed.exchange.borrow();
            exchange.failure().is_none() && (exchange.is_input_open() || exchange.may_begin_again())
        });
        advanced
    }
}

impl Feed {
    /// Whether anything is new.
    fn advance(&self) -> bool {
        let (mut exchange, mut body) = (self.exchange.borrow_mut(), self.body.borrow_mut());
        if exchange.begins_again() {
            body.rewind();
        }
        if !exchange.is_input_open() || exchange.failure().is_some() {
            return false;
        }
        if let Some(reject) = body.failure {
            exchange.breaks(Failure::Unreachable(reject.why.to_owned()));
            return true;
        }
        let mut moved = false;
        while let Some(part) = body.next(exchange.room()) {
            exchange.input(&part);
            moved = true;
        }
        if body.is_read() {
            exchange.end_input();
            moved = true;
        }
        moved
    }
}
