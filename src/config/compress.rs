//! `compress`: a list of content codings. Does no I/O.

use super::Coding;
use super::diagnostic::{Faults, quoted};
use super::document::Item;

/// Content codings, each once.
pub(super) fn read(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<Coding> {
    let codings = item.choices(&CODINGS, faults).unwrap_or_default();
    if let Some(twice) = codings.iter().enumerate().find_map(|(at, coding)| codings.get(..at)?.contains(coding).then_some(coding)) {
        item.report(format!("{} stands twice in \"compress\"", quoted(twice.name())), "expected each coding once", faults);
    }
    codings
}

const CODINGS: [(&str, Coding); 3] =
    [(Coding::Gzip.name(), Coding::Gzip), (Coding::Brotli.name(), Coding::Brotli), (Coding::Zstd.name(), Coding::Zstd)];

#[cfg(test)]
mod tests {
    use super::super::read::told;

    #[test]
    fn a_coding_that_is_unknown_or_stands_twice_is_refused() {
        let said = |list: &str| told(&format!("[[site]]\nroot = \"/srv/www\"\ncompress = {list}\n"));
        assert!(said("[]").is_empty());
        assert!(said("[\"zstd\", \"gzip\", \"br\"]").is_empty());
        for list in ["[\"deflate\"]", "[\"gzip\", \"br\", \"gzip\"]", "\"gzip\"", "true", "[\"GZIP\"]", "[1]"] {
            assert_eq!(said(list).len(), 1, "{list}");
        }
    }
}
