//! Patterns in which `*` stands for any bytes or none.
//!
//! Runs in the `worker`; does no I/O. [`matches()`] is for short patterns of one path segment and allocates nothing; a [`Pattern`] is split once
//! and then compared in linear time with texts of any length, and says what its stars stand for.

pub use crate::config::wildcard::matches;
use memchr::memmem::Finder;

/// A pattern split at its stars.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// What stands before the first star; without stars everything.
    first: Vec<u8>,
    /// What stands between two stars, ready to be searched.
    middle: Vec<Finder<'static>>,
    /// What stands behind the last star; `None`: there is none.
    last: Option<Vec<u8>>,
}

/// A part of a text: its first byte and the one behind its last.
pub type Part = (usize, usize);

impl Pattern {
    /// Splits a pattern.
    pub fn new(pattern: &[u8]) -> Pattern {
        let mut pieces = pattern.split(|&byte| byte == b'*');
        let first = pieces.next().unwrap_or_default().to_vec();
        let last = pieces.next_back().map(<[u8]>::to_vec);
        let middle = pieces.map(|piece| Finder::new(piece).into_owned()).collect();
        Pattern { first, middle, last }
    }

    /// The text that alone matches; `None` with a star.
    pub fn exact(&self) -> Option<&[u8]> {
        self.last.is_none().then_some(&self.first)
    }

    /// What stands before the first star, and whether nothing stands behind it.
    pub fn prefix(&self) -> (&[u8], bool) {
        (&self.first, self.middle.is_empty() && self.last.as_ref().is_some_and(Vec::is_empty))
    }

    /// Whether a star stands at the end.
    pub fn is_open(&self) -> bool {
        self.last.as_ref().is_some_and(Vec::is_empty)
    }

    /// What stands behind the last star; empty without one.
    pub fn suffix(&self) -> &[u8] {
        self.last.as_deref().unwrap_or_default()
    }

    /// Whether all of `text` matches; if so, `stars` becomes what each star stands for. All but the last one stand for as little as possible.
    pub fn matches(&self, text: &[u8], stars: &mut Vec<Part>) -> bool {
        stars.clear();
        let Some(last) = &self.last else { return text == self.first };
        if text.len() < self.first.len() + last.len() || !text.starts_with(&self.first) || !text.ends_with(last) {
            return false;
        }
        let (mut at, end) = (self.first.len(), text.len() - last.len());
        for piece in &self.middle {
            let Some(offset) = piece.find(&text[at..end]) else { return false };
            stars.push((at, at + offset));
            at += offset + piece.needle().len();
        }
        stars.push((at, end));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_bytes_or_none() {
        let table = [
            (".*", ".git", true),
            (".*", ".", true),
            (".*", "a.b", false),
            ("*~", "x~", true),
            ("*~", "~", true),
            ("*~", "~x", false),
            ("*.bak", "x.bak", true),
            ("*.bak", "x.bak.bak", true),
            ("*.bak", "x.bakk", false),
            ("#*#", "#x#", true),
            ("#*#", "##", true),
            ("#*#", "#", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("**", "a", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "axxbyybzzc", true),
            ("a*b*c", "acb", false),
            ("name", "name", true),
            ("name", "names", false),
            ("name", "NAME", false),
            ("a?", "ab", false),
            ("a?", "a?", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
            let split = Pattern::new(pattern.as_bytes());
            assert_eq!(split.matches(text.as_bytes(), &mut Vec::new()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_are_not_exponential() {
        let pattern = b"a*".repeat(100);
        let text = b"a".repeat(4000);
        assert!(matches(&pattern, &text));
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
        assert!(Pattern::new(&pattern).matches(&text, &mut Vec::new()));
        assert!(!Pattern::new(&[&pattern[..], b"b"].concat()).matches(&text, &mut Vec::new()));
    }

    #[test]
    fn stars_say_what_they_stand_for() {
        for (pattern, text, expected) in [
            ("/a", "/a", vec![]),
            ("/x/*", "/x/", vec![""]),
            ("/x/*", "/x/y/z", vec!["y/z"]),
            ("*.php", "/a.php.php", vec!["/a.php"]),
            ("/*/b/*", "/1/b/2/b/3", vec!["1", "2/b/3"]),
            ("**", "ab", vec!["", "ab"]),
        ] {
            let mut stars = Vec::new();
            assert!(Pattern::new(pattern.as_bytes()).matches(text.as_bytes(), &mut stars), "{pattern}");
            let found: Vec<&str> = stars.iter().map(|&(from, to)| &text[from..to]).collect();
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }
}
