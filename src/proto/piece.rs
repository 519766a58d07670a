//! What a body is handed out in, and how much of one there may be, however its end is told.
//!
//! Runs in the `worker`; does no I/O.

use super::status::{Reject, Status};

/// How large a body may be, with all that comes along with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes of content; beyond: 413.
    pub content: u64,
    /// Bytes of all field lines of a trailer section with their CRLFs; beyond: 431.
    pub trailer_bytes: usize,
    /// Field lines of a trailer section; beyond: 431.
    pub trailer_count: usize,
}

/// What a buffer holds next of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'b> {
    /// Content; there may be more in the same buffer.
    Data(&'b [u8]),
    /// The buffer is used up and the body goes on.
    More,
    /// The body is complete; what is left in the buffer does not belong to it.
    End,
}

/// Takes up to `remaining` bytes off the front of `input`, and counts them down.
pub(super) fn take<'b>(input: &mut &'b [u8], remaining: &mut u64) -> &'b [u8] {
    let count = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
    let (data, rest) = input.split_at(count);
    *input = rest;
    *remaining -= u64::try_from(count).unwrap_or(u64::MAX).min(*remaining);
    data
}

pub(super) const TOO_LARGE: Reject = Reject::new(Status::CONTENT_TOO_LARGE, "body beyond the limit");
