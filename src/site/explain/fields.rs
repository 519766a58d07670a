//! What the server says of a file that it sends whole, where no rule says something else.
//!
//! Used by `anchorite explain`; does no I/O.

use super::coding::Sent;
use super::line::{Circumstances, Line, full, shown};
use crate::proto::date;
use crate::site::form;
use crate::site::mime;
use crate::site::plan::Plan;
use crate::site::{Compiled, Sites};

/// Type, entity tag, and when it was changed; its length, where that is known before it is sent. `now` is in seconds since the epoch.
pub(super) fn of_file(
    (sites, site): (&Sites, &Compiled),
    plan: &Plan,
    circumstances: &Circumstances<'_>,
    sent: &Sent,
    now: i64,
) -> Vec<Line> {
    let seen = sent.seen;
    let mut media = Vec::new();
    mime::content_type(&full(sites, plan.lookup()), &site.site.charset, circumstances.mime, &mut media);
    let tag = form::tag(seen.modified, seen.modified_ns, seen.size, sent.beside);
    let tag = if sent.is_made { [b"W/", tag.as_slice()].concat() } else { tag };
    let fields = [
        ("Content-Type", media),
        ("ETag", tag),
        ("Last-Modified", date::imf_fixdate(seen.modified.min(now)).to_vec()),
        ("Content-Length", if sent.is_made { Vec::new() } else { seen.size.to_string().into_bytes() }),
    ];
    let by_rule = |name: &str| plan.changes().headers.iter().any(|(of, _)| of.eq_ignore_ascii_case(name));
    let told = fields.into_iter().filter(|(name, value)| !value.is_empty() && !by_rule(name));
    let line = |(name, value): (&'static str, Vec<u8>)| {
        // The quotes of a tag are its own.
        let text = format!("sends header {name}: {}", shown(&value).replace("\\\"", "\""));
        Line::new("header", text).with("name", name).with("value", value)
    };
    told.map(line).collect()
}
