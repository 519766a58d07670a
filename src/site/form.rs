//! Which form of a file or a page a client gets: itself, what stands beside it encoded, or what is made of it on the fly. The worker sends
//! what is said here, and `explain` tells it.

use super::ResponseChanges;
use super::listing::is_hidden;
use super::mime::{ENCODED_MAX, ENCODED_MIN, Gain};
use crate::config::Site;
use crate::proto::coding::{Coding, Wanted};

/// The codings that may be sent, unless [`is_encoded_by_rule`].
pub fn codings<'c>(site: &'c Site, changes: &'c ResponseChanges) -> &'c [Coding] {
    changes.compress.as_deref().unwrap_or(&site.compress)
}

/// Whether a rule says that the content is encoded as it is.
pub fn is_encoded_by_rule(changes: &ResponseChanges) -> bool {
    changes.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("content-encoding") && !value.is_empty())
}

/// Whether a file of this type and size is encoded on the fly.
pub fn is_made(gain: Gain, size: u64) -> bool {
    gain == Gain::Text && is_worth_making(size)
}

/// Whether so many bytes are.
pub fn is_worth_making(size: u64) -> bool {
    (ENCODED_MIN..=ENCODED_MAX).contains(&size)
}

/// Whether the site hides what stands beside the file of this path for a coding.
pub fn hides(site: &Site, path: &[u8], coding: Coding) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    is_hidden(site, &[name, coding.suffix().as_bytes()].concat())
}

/// Whether what stands beside a file is of the file as it is: one that is older was forgotten when the file was changed. In whole seconds,
/// since compressors copy no more of a time.
pub fn is_of(original_modified: i64, modified: i64, size: u64) -> bool {
    modified >= original_modified && size > 0
}

/// The entity tag of a file with its quotes: of what stands beside another, with its coding.
pub fn tag(modified: i64, modified_ns: i64, size: u64, coding: Option<Coding>) -> Vec<u8> {
    let (dash, coding) = coding.map_or(("", ""), |coding| ("-", coding.name()));
    format!("\"{modified:x}.{modified_ns:x}-{size:x}{dash}{coding}\"").into_bytes()
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form<T> {
    /// The content as it is.
    Itself,
    Beside(Coding, T),
    Made(Coding),
}

/// The form that the client wants most: of those that it wants alike, the smallest that stands beside the file, before any that is made.
/// `beside` has each with its size.
pub fn choose<T>(wanted: &Wanted, mut beside: Vec<(Coding, u64, T)>, made: impl IntoIterator<Item = Coding>) -> Form<T> {
    beside.sort_by_key(|(_, size, _)| *size);
    let Some(coding) = wanted.best(beside.iter().map(|(coding, ..)| *coding).chain(made)) else {
        return Form::Itself;
    };
    let found = beside.into_iter().find(|(of, ..)| *of == coding);
    found.map_or(Form::Made(coding), |(coding, _, what)| Form::Beside(coding, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::head::{HeadLimits, field_space, parse};

    fn wanted(accept: &str) -> Wanted {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n");
        let limits = HeadLimits { request_line: 4096, header_bytes: 4096, header_count: 9 };
        let mut space = field_space();
        Wanted::of(&parse(head.as_bytes(), &mut space, &limits).unwrap())
    }

    #[test]
    fn the_weight_decides_then_the_size_of_what_is_there_then_what_is_made() {
        use Coding::{Brotli, Gzip, Zstd};
        let beside = || vec![(Gzip, 30, "gz"), (Brotli, 20, "br")];
        for (accept, made, form) in [
            ("gzip, br", vec![], Form::Beside(Brotli, "br")),
            ("gzip, br;q=0.5", vec![], Form::Beside(Gzip, "gz")),
            ("gzip, br, zstd", vec![Zstd], Form::Beside(Brotli, "br")),
            ("zstd, br;q=0.9", vec![Zstd, Brotli], Form::Made(Zstd)),
            ("zstd", vec![], Form::Itself),
            ("", vec![Zstd], Form::Itself),
            ("identity, gzip;q=0.5", vec![Gzip], Form::Itself),
        ] {
            assert_eq!(choose(&wanted(accept), beside(), made), form, "{accept}");
        }
    }
}
