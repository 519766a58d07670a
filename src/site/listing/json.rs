//! The list for programs: an array with an object for each entry, in ASCII.

use super::entry::{Entry, timestamp};
use crate::proto::target;
use crate::site::log_format;
use std::io::Write;

/// An entry. `name` is for people: what is no UTF-8 in it is replaced. `href` is lossless, relative to the directory's URL.
pub(super) fn object(entry: &Entry<'_>, first: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if first { b"\n{\"name\":\"" } else { b",\n{\"name\":\"" });
    log_format::json_text(entry.name, usize::MAX, out);
    out.extend_from_slice(if entry.directory { b"\",\"type\":\"directory\"" } else { b"\",\"type\":\"file\"" });
    if !entry.directory {
        // Writing to a vector does not fail.
        let _ = write!(out, ",\"size\":{}", entry.size);
    }
    out.extend_from_slice(b",\"modified\":\"");
    out.extend_from_slice(&timestamp(entry.modified));
    out.extend_from_slice(b"\",\"href\":\"./");
    // Leaves nothing that means something within a JSON string.
    target::encode(entry.name, out);
    out.extend_from_slice(if entry.directory { b"/\"}" } else { b"\"}" });
}
