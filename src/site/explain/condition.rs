//! Whether a file is sent whole: what a request says of the version that its sender has, and of parts.
//!
//! Used by `anchorite explain`; does no I/O.

use super::coding::Sent;
use super::line::Circumstances;
use crate::proto::conditional::{self, Precondition, Validators};
use crate::proto::head::Method;
use crate::proto::range::{self, Range};
use crate::proto::status::Status;
use crate::site::ResponseChanges;
use crate::site::form;

/// The status in place of 200, as the worker finds it, and what the request said; `None`: 200. `now` is in seconds since the epoch.
pub(super) fn of_file(
    circumstances: &Circumstances<'_>,
    changes: &ResponseChanges,
    sent: &Sent,
    now: i64,
) -> Option<(Status, &'static str)> {
    let request = circumstances.request?;
    let seen = sent.seen;
    let etag = form::tag(seen.modified, seen.modified_ns, seen.size, sent.beside);
    let validators = Validators { etag: &etag, weak: sent.is_made, modified: seen.modified.min(now) };
    match conditional::evaluate(request, &validators) {
        Precondition::Proceed => {}
        Precondition::NotModified => return Some((Status::NOT_MODIFIED, "the client has it as it is")),
        Precondition::Failed => return Some((Status::PRECONDITION_FAILED, "it is not as the client has it")),
    }
    if request.method != Method::Get || sent.is_made || !conditional::if_range_holds(request, &validators, now) {
        return None;
    }
    let has_type = changes.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    match range::parse(request.only_field("range")?, seen.size) {
        Range::Part(_) => Some((Status::PARTIAL_CONTENT, "a part of it, as Range says")),
        Range::Parts(_) if sent.beside.is_none() && !has_type => Some((Status::PARTIAL_CONTENT, "parts of it, as Range says")),
        Range::Parts(_) | Range::Whole => None,
        Range::Unsatisfiable => Some((Status::RANGE_NOT_SATISFIABLE, "it has none of the parts that Range says")),
    }
}
