//! Short patterns in which `*` stands for any bytes or none. Runs in the `worker` and in `spawn`; does no I/O.

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
    fn a_star_stands_for_any_bytes_or_none() {
        for (pattern, text, expected) in [
            (".*", ".git", true),
            (".*", "a.b", false),
            ("*~", "~", true),
            ("*.bak", "a.bakk", false),
            ("a*b*c", "a1b2bc", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
