//! Patterns for one path segment.
//!
//! Runs in the `worker`; does no I/O and allocates nothing.

/// Whether `pattern`, in which each `*` stands for any bytes or none and every other byte for itself, matches all of `text`. Takes at
/// most the product of the lengths in steps: of several stars only the last one's extent is ever reconsidered.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    // Behind the last star, and the text it has not been tried on yet.
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, position));
            }
            Some(&byte) if byte == text[position] => {
                at += 1;
                position += 1;
            }
            Some(_) | None => {
                let Some((behind, start)) = star else { return false };
                star = Some((behind, start + 1));
                (at, position) = (behind, start + 1);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
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
        }
    }

    #[test]
    fn many_stars_are_not_exponential() {
        let pattern = b"a*".repeat(100);
        let text = b"a".repeat(4000);
        assert!(matches(&pattern, &text));
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
    }
}
