//! The list for people: a page with a table, readable on a phone and in the dark, without scripts.
//!
//! Links are relative, so that they hold behind a proxy that serves this tree under a prefix.

use super::entry::{Entry, Place, timestamp};
use super::order::{Key, Order};
use crate::proto::target;
use crate::site::look;
use std::io::Write;

/// Everything before the first row. Without an order there are too many entries to be sorted, and the page says so.
pub(super) fn begin(place: &Place<'_>, order: Option<Order>, out: &mut Vec<u8>) {
    let title = [b"Index of ", place.path.bytes()].concat();
    // The same list in another order is nothing new to a search engine.
    let further =
        if order.is_some_and(|order| order != Order::DEFAULT) { "<meta name=\"robots\" content=\"noindex,nofollow\">\n" } else { "" };
    look::begin(&look::LISTING, &title, further, out);
    heading(place, order, out);
    if order.is_none() {
        out.extend_from_slice(b"<p>This directory holds so many names that they are shown in no particular order.</p>\n");
    }
    out.extend_from_slice(b"<table>\n<thead><tr>");
    for (key, text) in Key::ALL.into_iter().zip(["Name", "Size", "Modified <small>(UTC)</small>"]) {
        column(key, text, order, out);
    }
    out.extend_from_slice(b"</tr></thead>\n<tbody>\n");
    if place.path.segments().next().is_some() {
        out.extend_from_slice(b"<tr><th scope=\"row\"><a rel=\"up\" href=\"");
        ancestor(place, depth(place).saturating_sub(1), out);
        query(order, out);
        out.extend_from_slice(b"\">Parent directory</a></th><td></td><td></td></tr>\n");
    }
}

/// A row of the table.
pub(super) fn row(entry: &Entry<'_>, order: Option<Order>, out: &mut Vec<u8>) {
    // With "./" in front no name is a scheme (`javascript:x`) or a host; what `encode` leaves is harmless within quotes.
    out.extend_from_slice(b"<tr><th scope=\"row\"><a href=\"./");
    target::encode(entry.name, out);
    if entry.directory {
        out.push(b'/');
        query(order, out);
    }
    out.extend_from_slice(b"\">");
    name(entry.name, out);
    if entry.directory {
        out.extend_from_slice(b"/</a></th><td></td><td>");
    } else {
        out.extend_from_slice(b"</a></th>");
        size(entry.size, "td", out);
        out.extend_from_slice(b"<td>");
    }
    time(entry.modified, out);
    out.extend_from_slice(b"</td></tr>\n");
}

/// Everything behind the last row.
pub(super) fn end(directories: u64, files: u64, bytes: u64, out: &mut Vec<u8>) {
    let counted = |count: u64, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let directories = Some(counted(directories, "directory", "directories")).filter(|_| directories > 0);
    let files = Some(counted(files, "file", "files")).filter(|_| files > 0);
    let text = [directories, files.clone()].into_iter().flatten().collect::<Vec<_>>().join(", ");
    out.extend_from_slice(b"</tbody>\n</table>\n<p>");
    out.extend_from_slice(if text.is_empty() { b"This directory is empty." } else { text.as_bytes() });
    if files.is_some() {
        out.extend_from_slice(b", ");
        size(bytes, "span", out);
    }
    out.extend_from_slice(b"</p>\n");
    look::end(out);
}

/// The path, each directory above linked.
fn heading(place: &Place<'_>, order: Option<Order>, out: &mut Vec<u8>) {
    let depth = depth(place);
    out.extend_from_slice(b"<nav aria-label=\"Breadcrumbs\"><h1><span>Index of </span>");
    if depth == 0 || depth.max(raw_depth(place.raw)) > LINKED_DEPTH {
        look::text(place.path.bytes(), out);
    } else {
        for (at, segment) in std::iter::once(&b"/"[..]).chain(place.path.segments()).enumerate() {
            if at == depth {
                name(segment, out);
            } else {
                out.extend_from_slice(b"<a href=\"");
                ancestor(place, at, out);
                query(order, out);
                out.extend_from_slice(b"\">");
                name(segment, out);
                out.extend_from_slice(b"</a>");
            }
            out.extend_from_slice(if at == 0 { b"" } else { b"/" });
        }
    }
    out.extend_from_slice(b"</h1></nav>\n");
}

/// The head of a column, with a link that sorts by it: in the present direction, or the other one where it is sorted by it already.
fn column(key: Key, text: &str, order: Option<Order>, out: &mut Vec<u8>) {
    // Writing to a vector does not fail, here and below.
    let _ = match order {
        None => write!(out, "<th scope=\"col\"><span>{text}</span></th>"),
        Some(order) => {
            let is_current = order.key == key;
            let next = Order { key, descending: order.descending != is_current };
            let sorted = match (is_current, order.descending) {
                (false, _) => "",
                (true, false) => " aria-sort=\"ascending\"",
                (true, true) => " aria-sort=\"descending\"",
            };
            write!(
                out,
                "<th scope=\"col\"{sorted}><a rel=\"nofollow\" href=\"?sort={}&amp;order={}\">{text}</a></th>",
                key.word(),
                next.word()
            )
        }
    };
}

/// What links to other directories carry on, so that these are shown in the same order.
fn query(order: Option<Order>, out: &mut Vec<u8>) {
    if let Some(order) = order.filter(|order| *order != Order::DEFAULT) {
        let _ = write!(out, "?sort={}&amp;order={}", order.key.word(), order.word());
    }
}

/// A link to the directory of the first `kept` segments of the path.
fn ancestor(place: &Place<'_>, kept: usize, out: &mut Vec<u8>) {
    let (depth, raw_depth) = (depth(place), raw_depth(place.raw));
    let plain = depth == raw_depth;
    let up = if plain { depth - kept } else { raw_depth };
    out.extend_from_slice(if up == 0 { b"./" } else { b"" });
    (0..up).for_each(|_| out.extend_from_slice(b"../"));
    // Each slash of `//a//` is a level for who resolves the link, and none for the path: down again from the top.
    for segment in place.path.segments().take(if plain { 0 } else { kept }) {
        target::encode(segment, out);
        out.push(b'/');
    }
}

fn depth(place: &Place<'_>) -> usize {
    place.path.segments().count()
}

/// How many levels beneath the root a relative link on this page starts (RFC 3986, 5.2.3 and 5.2.4).
fn raw_depth(raw: &[u8]) -> usize {
    let end = memchr::memrchr(b'/', raw).unwrap_or(0);
    let above = raw.get(1..end).unwrap_or_default();
    let levels = above.split(|byte| *byte == b'/').skip(usize::from(above.is_empty() && end == 0));
    levels.fold(0usize, |depth, segment| match segment {
        b"." => depth,
        b".." => depth.saturating_sub(1),
        _ => depth + 1,
    })
}

/// A name, kept from turning the direction of what stands around it.
fn name(name: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<bdi>");
    look::text(name, out);
    out.extend_from_slice(b"</bdi>");
}

/// An element with a size: one decimal in the largest unit of which there is at least one, and exactly in its title.
fn size(bytes: u64, element: &str, out: &mut Vec<u8>) {
    // In tenths of the unit; wide enough that the largest size does not overflow.
    let (mut tenths, mut unit) = (u128::from(bytes) * 10, 0);
    let mut divisor = 1;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        unit += 1;
        divisor *= 1024;
        tenths = (u128::from(bytes) * 10 + divisor / 2) / divisor;
    }
    let _ = match unit {
        0 => write!(out, "<{element}>{bytes} B</{element}>"),
        _ => write!(out, "<{element} title=\"{bytes} bytes\">{}.{} {}</{element}>", tenths / 10, tenths % 10, UNITS[unit]),
    };
}

/// A time to the minute, and to the second in the markup. A narrow screen shows the date alone.
fn time(unix: i64, out: &mut Vec<u8>) {
    let text = timestamp(unix);
    for piece in [b"<time datetime=\"", &text[..], b"\">", &text[..10], b"<span> ", &text[11..16], b"</span></time>"] {
        out.extend_from_slice(piece);
    }
}

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Beyond this depth the heading is plain: the links grow with its square.
const LINKED_DEPTH: usize = 64;
