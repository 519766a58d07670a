//! How the pages look that the server makes for people: their frame, their style, and bytes as text in them.
//!
//! Runs in the `worker`; does no I/O. A page has no script, loads nothing, and its only style is the one whose hash its policy names, so
//! that markup which slipped in would do nothing (CSP Level 3).

use std::io::Write;

/// The style of a kind of page, with the policy that allows this style and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    style: &'static str,
    /// The value of `Content-Security-Policy`.
    pub policy: &'static str,
}

/// A policy that allows the style of this hash (base64 of SHA-256) and nothing else; a test compares hash and style.
macro_rules! policy {
    ($hash:literal) => {
        concat!("default-src 'none'; style-src 'sha256-", $hash, "'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
    };
}

/// The beginning of a page, up to its first heading; `further` is markup for its `<head>`.
pub(super) fn begin(look: &Look, title: &[u8], further: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
          <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
          <meta name=\"color-scheme\" content=\"light dark\">\n",
    );
    out.extend_from_slice(further.as_bytes());
    out.extend_from_slice(b"<title>");
    text(title, out);
    // Writing to a vector does not fail.
    let _ = write!(out, "</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n", look.style);
}

/// The end of a page.
pub(super) fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"</main>\n</body>\n</html>\n");
}

/// Bytes as HTML text: escaped, with a replacement character for what is not UTF-8, what HTML does not allow, and what would reorder the
/// text so that a name looks like another.
pub(super) fn text(bytes: &[u8], out: &mut Vec<u8>) {
    // Most names are plain.
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && !b"&<>\"'".contains(byte)) {
        out.extend_from_slice(bytes);
        return;
    }
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
    character.is_control()
        || noncharacter
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// U+FFFD
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// One short message: errors, redirects.
pub const MESSAGE: Look = Look {
    style: concat!(include_str!("look/base.css"), include_str!("look/message.css")),
    policy: policy!("6imtl6yJ6WJdXHfjPClZ7MV5XZgXNY27m8zWdkakrPE="),
};

/// The list of what is in a directory.
pub const LISTING: Look = Look {
    style: concat!(include_str!("look/base.css"), include_str!("look/table.css"), include_str!("look/listing.css")),
    policy: policy!("8H8chHUImVLjAGDwoZVgg0h04ul1oLgeuHxQM1eSBT8="),
};

/// What the server tells of its state.
pub const STATUS: Look = Look {
    style: concat!(include_str!("look/base.css"), include_str!("look/table.css"), include_str!("look/status.css")),
    policy: policy!("wZ+HgszIFN8UxuWfzApT5XkEg0B5eCZBdvjFnjQjqrk="),
};
