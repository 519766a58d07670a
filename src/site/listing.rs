//! The page that lists a directory.
//!
//! Runs in the `worker`; does no I/O. Names come from the disk, and whoever can create a file chooses them: in the page they are text and
//! links, never markup (CWE-79).

use super::pattern;
use crate::config::Site;
use crate::proto::date;
use crate::proto::target::{self, Path};
use std::cmp::Ordering;
use std::io::Write;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Any bytes but `/` and NUL.
    pub name: Vec<u8>,
    pub directory: bool,
    /// In bytes; not shown for a directory.
    pub size: u64,
    /// In seconds since 1970.
    pub modified: i64,
}

/// Whether a name matches one of the site's `hidden` patterns: a request for it is refused, and a listing leaves it out.
pub fn is_hidden(site: &Site, name: &[u8]) -> bool {
    site.hidden.iter().any(|hidden| pattern::matches(hidden.as_bytes(), name))
}

/// Appends the page (HTML, UTF-8, without scripts) for the directory `path`, and sorts `entries`: directories first, then by name without
/// regard to ASCII case. `truncated` says that there are more than these.
pub fn render(path: &Path, entries: &mut [Entry], truncated: bool, out: &mut Vec<u8>) {
    entries.sort_unstable_by(order);
    out.extend_from_slice(
        b"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
          <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
          <meta name=\"color-scheme\" content=\"light dark\">\n<title>Index of ",
    );
    text(path.bytes(), out);
    // Writing to a vector does not fail, here and below.
    let _ = write!(out, "</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n");
    heading(path, out);
    out.extend_from_slice(
        b"<table>\n<thead><tr><th scope=\"col\">Name</th><th scope=\"col\">Size</th><th scope=\"col\">Modified (UTC)</th></tr></thead>\n<tbody>\n",
    );
    if path.segments().next().is_some() {
        out.extend_from_slice(b"<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for entry in entries.iter() {
        row(entry, out);
    }
    out.extend_from_slice(b"</tbody>\n</table>\n");
    if truncated {
        let _ = writeln!(out, "<p>There are more names; only {} are shown.</p>", entries.len());
    } else if entries.is_empty() {
        out.extend_from_slice(b"<p>This directory is empty.</p>\n");
    }
    out.extend_from_slice(b"</main>\n</body>\n</html>\n");
}

fn order(a: &Entry, b: &Entry) -> Ordering {
    let folded = || a.name.iter().map(u8::to_ascii_lowercase).cmp(b.name.iter().map(u8::to_ascii_lowercase));
    b.directory.cmp(&a.directory).then_with(folded).then_with(|| a.name.cmp(&b.name))
}

/// The path, each directory above linked. Links are relative, so that they hold behind a proxy that serves this tree under a prefix.
fn heading(path: &Path, out: &mut Vec<u8>) {
    let depth = path.segments().count();
    out.extend_from_slice(b"<h1>Index of ");
    if depth == 0 || depth > LINKED_DEPTH {
        text(path.bytes(), out);
    } else {
        link_up(depth, b"/", out);
        for (at, segment) in path.segments().enumerate() {
            match depth - at - 1 {
                0 => name_text(segment, out),
                above => link_up(above, segment, out),
            }
            out.push(b'/');
        }
    }
    out.extend_from_slice(b"</h1>\n");
}

fn link_up(levels: usize, name: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<a href=\"");
    for _ in 0..levels {
        out.extend_from_slice(b"../");
    }
    out.extend_from_slice(b"\">");
    name_text(name, out);
    out.extend_from_slice(b"</a>");
}

fn row(entry: &Entry, out: &mut Vec<u8>) {
    // With "./" in front no name is a scheme (`javascript:x`) or a host; what `encode` leaves is harmless within quotes.
    out.extend_from_slice(b"<tr><td><a href=\"./");
    target::encode(&entry.name, out);
    out.extend_from_slice(if entry.directory { b"/\">" } else { b"\">" });
    name_text(&entry.name, out);
    out.extend_from_slice(if entry.directory { b"/</a></td><td></td><td>" } else { b"</a></td><td>" });
    if !entry.directory {
        size(entry.size, out);
        out.extend_from_slice(b"</td><td>");
    }
    time(entry.modified, out);
    out.extend_from_slice(b"</td></tr>\n");
}

/// A name, kept from turning the direction of what stands around it.
fn name_text(name: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<bdi>");
    text(name, out);
    out.extend_from_slice(b"</bdi>");
}

/// Bytes as HTML text: escaped, with a replacement character for what is not UTF-8, what HTML does not allow, and what would reorder the
/// name so that it looks like another.
fn text(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '&' => out.extend_from_slice(b"&amp;"),
                '<' => out.extend_from_slice(b"&lt;"),
                '>' => out.extend_from_slice(b"&gt;"),
                '"' => out.extend_from_slice(b"&quot;"),
                '\'' => out.extend_from_slice(b"&#39;"),
                _ if is_unfit(character) => out.extend_from_slice(REPLACEMENT),
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(REPLACEMENT);
        }
    }
}

fn is_unfit(character: char) -> bool {
    let noncharacter = u32::from(character) & 0xfffe == 0xfffe || matches!(character, '\u{fdd0}'..='\u{fdef}');
    character.is_control() || noncharacter || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A size with one decimal in the largest unit of which there is at least one, and exactly in the markup.
fn size(bytes: u64, out: &mut Vec<u8>) {
    let _ = write!(out, "<data value=\"{bytes}\">");
    // In tenths of the unit; wide enough that the largest size does not overflow.
    let (mut tenths, mut unit) = (u128::from(bytes) * 10, 0);
    let mut divisor = 1;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        unit += 1;
        divisor *= 1024;
        tenths = (u128::from(bytes) * 10 + divisor / 2) / divisor;
    }
    let _ = match unit {
        0 => write!(out, "{bytes} {}", UNITS[unit]),
        _ => write!(out, "{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
    };
    out.extend_from_slice(b"</data>");
}

/// A time to the minute, taken from the one form of date there is.
fn time(unix: i64, out: &mut Vec<u8>) {
    let date = date::imf_fixdate(unix);
    let (day, month, year, clock) = (&date[5..7], &date[8..11], &date[12..16], &date[17..22]);
    let month = MONTHS.iter().find(|(name, _)| *name == month).map_or(b"01", |(_, number)| *number);
    for piece in [b"<time datetime=\"", year, b"-", month, b"-", day, b"T", clock, b"Z\">"] {
        out.extend_from_slice(piece);
    }
    for piece in [year, b"-", month, b"-", day, b" ", clock, b"</time>"] {
        out.extend_from_slice(piece);
    }
}

const MONTHS: [(&[u8], &[u8; 2]); 12] = [
    (b"Jan", b"01"),
    (b"Feb", b"02"),
    (b"Mar", b"03"),
    (b"Apr", b"04"),
    (b"May", b"05"),
    (b"Jun", b"06"),
    (b"Jul", b"07"),
    (b"Aug", b"08"),
    (b"Sep", b"09"),
    (b"Oct", b"10"),
    (b"Nov", b"11"),
    (b"Dec", b"12"),
];

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// U+FFFD
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Beyond this depth the heading is plain: the links grow with its square.
const LINKED_DEPTH: usize = 64;

const STYLE: &str = "body{margin:0 auto;max-width:60rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif}\
                     h1{font-size:1.25rem;font-weight:600;overflow-wrap:anywhere}\
                     a{text-decoration:none}a:hover,a:focus{text-decoration:underline}\
                     table{width:100%;border-collapse:collapse}\
                     th{font-size:.875rem;font-weight:normal;text-align:start;opacity:.7}\
                     th,td{padding:0;border-bottom:1px solid #8884}\
                     td:first-child{overflow-wrap:anywhere}\
                     td a{display:block;padding:.5rem 0;white-space:pre-wrap}\
                     th+th,td+td{width:1%;padding-left:1.5rem;text-align:end;white-space:nowrap;font-variant-numeric:tabular-nums}\
                     td+td{opacity:.8}\
                     @media(max-width:36rem){th:last-child,td:last-child{display:none}}";

#[cfg(test)]
mod tests;
