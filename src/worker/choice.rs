//! The form of a file that was chosen for a request.
//!
//! Runs in the worker; does nothing.

use super::segment::{Delimiter, Produce, Segment};
use super::served::Served;
use crate::proto::coding::Coding;
use std::collections::VecDeque;
use std::rc::Rc;

/// The form that is sent.
pub(super) struct Choice {
    pub(super) file: Rc<Served>,
    /// Whether another request may get another form (RFC 9110, 12.5.5).
    pub(super) varies: bool,
    /// What is being made of `file`.
    pub(super) making: Option<Making>,
}

/// A form that is made while it is sent.
pub(super) struct Making {
    pub(super) coding: Coding,
    /// `None`: only its head is wanted.
    pub(super) producer: Option<Box<dyn Produce>>,
}

impl Making {
    /// The content; none where only its head is wanted.
    pub(super) fn segments(self, delimiter: Delimiter) -> VecDeque<Segment> {
        self.producer.into_iter().map(|producer| Segment::stream(producer, delimiter)).collect()
    }
}
