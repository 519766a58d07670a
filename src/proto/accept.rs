//! The field `Accept` (RFC 9110, 12.5.1): which of a few media types a client would rather have.
//!
//! Runs in the `worker`; does no I/O. Work is linear in the field lines, however many ranges they list.

/// What a client says of `N` media types, such as `text/html`.
#[derive(Clone, Copy, Debug)]
pub struct Preference<const N: usize> {
    types: [&'static str; N],
    /// How closely the closest range fits each type, and its quality in thousandths.
    found: [(Fit, u16); N],
    present: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    None,
    /// `*/*`
    Any,
    /// `text/*`
    Type,
    Exact,
}

impl<const N: usize> Preference<N> {
    pub fn new(types: [&'static str; N]) -> Preference<N> {
        Preference { types, found: [(Fit::None, 0); N], present: false }
    }

    /// Takes in the value of one field line. A range that is malformed counts for nothing.
    pub fn read(&mut self, value: &[u8]) {
        self.present = true;
        for (range, quality) in value.split(|byte| *byte == b',').filter_map(range) {
            for (media, found) in self.types.iter().zip(&mut self.found) {
                // The closest range decides, whatever else is wider; of two that fit alike the better.
                let fit = fit(range, media);
                if fit != Fit::None {
                    *found = (*found).max((fit, quality));
                }
            }
        }
    }

    /// The quality of each type in thousandths: 1000 for all without such a field, 0 for what was not named.
    pub fn qualities(&self) -> [u16; N] {
        self.found.map(|(_, quality)| if self.present { quality } else { 1000 })
    }
}

/// A media range without its parameters, and its quality.
fn range(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let range = parts.next().filter(|range| range.contains(&b'/'))?;
    let quality = parts.find_map(|parameter| match parameter {
        [b'q' | b'Q', b'=', value @ ..] => Some(thousandths(value)),
        _ => None,
    });
    Some((range, quality.unwrap_or(Some(1000))?))
}

fn fit(range: &[u8], media: &str) -> Fit {
    let media = media.as_bytes();
    if range == b"*/*" {
        return Fit::Any;
    }
    if range.eq_ignore_ascii_case(media) {
        return Fit::Exact;
    }
    let kind = media.split_inclusive(|byte| *byte == b'/').next().unwrap_or_default();
    match range.strip_suffix(b"*") {
        Some(start) if start.eq_ignore_ascii_case(kind) => Fit::Type,
        Some(_) | None => Fit::None,
    }
}

/// `0`, `0.5`, `1.000`: one digit, and at most three behind a point (RFC 9110, 12.4.2).
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let digits = decimals.iter().copied().chain([b'0'; 3]).take(3);
    let quality = std::iter::once(*whole).chain(digits).try_fold(0u16, |sum, digit| match digit {
        b'0'..=b'9' => Some(sum * 10 + u16::from(digit - b'0')),
        _ => None,
    })?;
    (quality <= 1000).then_some(quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qualities(values: &[&str]) -> [u16; 2] {
        let mut preference = Preference::new(["text/html", "application/json"]);
        values.iter().for_each(|value| preference.read(value.as_bytes()));
        preference.qualities()
    }

    #[test]
    fn the_closest_range_says_how_much_a_type_is_wanted() {
        let table: &[(&[&str], [u16; 2])] = &[
            (&[], [1000, 1000]),
            (&[""], [0, 0]),
            (&["*/*"], [1000, 1000]),
            (&["application/json"], [0, 1000]),
            (&["APPLICATION/Json"], [0, 1000]),
            (&["application/json;charset=utf-8 ; q=0.5"], [0, 500]),
            (&["application/json;Q=0.25, text/html;q=0.3"], [300, 250]),
            (&["application/*, */*;q=0.1"], [100, 1000]),
            (&["application/json;q=0, */*"], [1000, 0]),
            (&["*/*, application/json;q=0"], [1000, 0]),
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], [1000, 800]),
            (&["text/html;q=0.5", "application/json;q=0.7"], [500, 700]),
            (&["text/html;q=0.5, text/html;q=0.7"], [700, 0]),
            (&["image/png"], [0, 0]),
            (&["text/*;q=1.000"], [1000, 0]),
            (&["text/*;q=0.001"], [1, 0]),
            (&["tex/*, text/htm, json, /json, application/"], [0, 0]),
        ];
        for (values, right) in table {
            assert_eq!(qualities(values), *right, "{values:?}");
        }
    }

    #[test]
    fn a_malformed_quality_leaves_the_range_out() {
        for quality in ["", "2", "1.001", "0.1234", "-1", "0,5", ".5", "1.", "0x1", "q", "\u{661}"] {
            let right = if quality == "1." { 1000 } else { 0 };
            assert_eq!(qualities(&[&format!("text/html;q={quality}")])[0], right, "{quality:?}");
        }
    }

    #[test]
    fn any_bytes_are_read() {
        let mut preference = Preference::new(["text/html"]);
        for byte in 0..=255u8 {
            preference.read(&[byte, b'/', byte, b';', b'q', b'=', byte, b',', byte]);
        }
        preference.read(&b"*/*;q=0.5,".repeat(10_000));
        assert_eq!(preference.qualities(), [500]);
    }
}
