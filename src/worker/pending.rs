//! A request that waits for the disk, as far as it has come.
//!
//! Runs in the worker; does nothing.

use super::response::Persistence;
use super::served::Served;
use crate::site::plan::Plan;
use std::rc::Rc;

/// The request, to be taken up again.
pub(super) struct Paused {
    pub(super) plan: Plan,
    pub(super) pending: Pending,
    /// What its response has to say of the connection.
    pub(super) persistence: Persistence,
}

/// What it waits for.
pub(super) enum Pending {
    /// What its plan asks.
    Lookup,
    /// The first entries of the directory that its plan found.
    Listing,
    /// Whether its client is a user of the `[auth.NAME]` of that number.
    Login(u16),
    /// What stands beside the file that its plan found.
    Beside(Rc<Served>),
}

impl Paused {
    pub(super) fn boxed(plan: Plan, pending: Pending, persistence: Persistence) -> Box<Paused> {
        Box::new(Paused { plan, pending, persistence })
    }

    pub(super) fn at_lookup(plan: Plan, persistence: Persistence) -> Box<Paused> {
        Paused::boxed(plan, Pending::Lookup, persistence)
    }
}
