//! The page that tells the state of the server: numbers, and nothing that says which program or version this is.
//!
//! Runs in the `worker`; does no I/O.

use super::facts::Fields;
use super::look;
use crate::proto::accept::Preference;
use std::io::Write;

/// What the state is told as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line each, for terminals.
    Text,
    /// For browsers, which say that they would rather have it.
    Html,
    Json,
}

impl Format {
    /// What the client would rather have; text, where it does not matter to it.
    pub fn wanted(fields: &dyn Fields) -> Format {
        let mut preference = Preference::new(["text/plain", "text/html", "application/json"]);
        fields.any("accept", &mut |value| {
            preference.read(value);
            false
        });
        let [text, html, json] = preference.qualities();
        if json > text.max(html) {
            Format::Json
        } else if html > text {
            Format::Html
        } else {
            Format::Text
        }
    }
}

/// Appends the page (HTML, UTF-8): `now` are connections by their state, `since` is what was counted since the start.
pub fn render(now: &[(&str, u64)], since: &[(&str, u64)], out: &mut Vec<u8>) {
    look::begin(&look::STATUS, b"Status", "", out);
    out.extend_from_slice(b"<h1>Status</h1>\n<h2>Connections now</h2>\n<dl>\n");
    for (name, value) in now {
        // Writing to a vector does not fail, here and below.
        let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", grouped(*value));
    }
    out.extend_from_slice(b"</dl>\n<h2 id=\"since\">Since the start</h2>\n<table aria-labelledby=\"since\">\n<tbody>\n");
    for (name, value) in since {
        let _ = writeln!(out, "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>", grouped(*value));
    }
    out.extend_from_slice(b"</tbody>\n</table>\n");
    look::end(out);
}

/// Digits in groups of three, with a narrow space between that does not break.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (1_234_567, "1 234 567"), (u64::MAX, "18 446 744 073 709 551 615")] {
            assert_eq!(grouped(value).replace('\u{202f}', " "), text);
        }
    }

    #[test]
    fn every_number_stands_in_the_page() {
        let mut out = Vec::new();
        render(&[("Reading", 1)], &[("Requests answered", 23)], &mut out);
        let page = String::from_utf8(out).unwrap();
        assert!(page.contains("<dt>Reading</dt><dd>1</dd>"), "{page}");
        assert!(page.contains("Requests answered</th><td>23</td>"), "{page}");
        assert!(!page.contains("anchorite"), "{page}");
    }

    #[test]
    fn a_browser_gets_a_page_and_a_terminal_text() {
        for (accept, right) in [
            (None, Format::Text),
            (Some("*/*"), Format::Text),
            (Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), Format::Html),
            (Some("application/json"), Format::Json),
            (Some("application/json, text/*;q=0.5"), Format::Json),
            (Some("text/*"), Format::Text),
            (Some("image/png"), Format::Text),
        ] {
            let fields: Vec<(&'static str, Vec<u8>)> = accept.into_iter().map(|value| ("Accept", value.as_bytes().to_vec())).collect();
            assert_eq!(Format::wanted(&fields), right, "{accept:?}");
        }
    }
}
