//! What a look-up gave: from the disk just now, or from memory.
//!
//! Runs in the worker; does nothing.

use super::served::Served;
use crate::sys::file::Opened;
use std::rc::Rc;

/// What a path led to.
pub(super) enum Known {
    File(Rc<Served>),
    Directory,
    /// A regular file, of which nothing was read: a script, say.
    There,
}

/// A file that a plan found.
pub(super) enum Fetched {
    /// On the disk, just now.
    Opened(Opened),
    /// In memory.
    Known(Rc<Served>),
    /// It was there a moment ago, and no more is to be known: see [`crate::site::plan::Plan::asks_whether`].
    There,
}
