//! A request that waits for the head of its backend's answer.
//!
//! Runs in the worker; does nothing.

use super::exchange::Shared;
use crate::site::plan::Plan;
use crate::worker::response::Persistence;

/// A request that waits for the head of its backend's answer.
pub(in crate::worker) struct Handed {
    /// The request's head, which is read again when it is answered.
    pub(in crate::worker) head: Box<[u8]>,
    pub(in crate::worker) persistence: Persistence,
    pub(in crate::worker) exchange: Shared,
    pub(in crate::worker) plan: Plan,
    pub(in crate::worker) site: usize,
}

impl Handed {
    pub(in crate::worker) fn boxed(head: &[u8], persistence: Persistence, site: usize, plan: Plan, exchange: Shared) -> Box<Handed> {
        Box::new(Handed { head: head.into(), persistence, exchange, plan, site })
    }
}
