//! Preconditions (RFC 9110, 13): whether a request goes on, or ends with 304 or 412.
//!
//! Runs in the `worker`; does no I/O. Work is linear in the fields, however many entity tags they list.

use super::date;
use super::head::{Method, Request};

/// What a representation is compared by.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity tag, with its quotes, without the mark of a weak one.
    pub etag: &'a [u8],
    pub weak: bool,
    /// The time of last modification, in seconds since 1970.
    pub modified: i64,
}

/// The outcome of a request's preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    Proceed,
    /// 304
    NotModified,
    /// 412
    Failed,
}

/// Evaluates the preconditions in the order of RFC 9110, 13.2.2. To be called only where the answer would otherwise be 200.
pub fn evaluate(request: &Request<'_, '_>, validators: &Validators<'_>) -> Precondition {
    if !request.may_be_conditional() {
        return Precondition::Proceed;
    }
    let reading = matches!(request.method, Method::Get | Method::Head);
    let holds = match any_tag(request, "if-match", validators, Comparison::Strong) {
        Some(matched) => matched,
        None => single_date(request, "if-unmodified-since").is_none_or(|date| validators.modified <= date),
    };
    if !holds {
        return Precondition::Failed;
    }
    match any_tag(request, "if-none-match", validators, Comparison::Weak) {
        Some(true) if reading => Precondition::NotModified,
        Some(true) => Precondition::Failed,
        // If-Modified-Since counts for nothing beside If-None-Match.
        Some(false) => Precondition::Proceed,
        None if reading && single_date(request, "if-modified-since").is_some_and(|date| validators.modified <= date) => {
            Precondition::NotModified
        }
        None => Precondition::Proceed,
    }
}

/// The same for what has neither tag nor date: only `*` says anything of it, and dates are to be ignored.
pub fn evaluate_without(request: &Request<'_, '_>) -> Precondition {
    // No tag of a request is empty: each has its quotes.
    const NONE: Validators<'_> = Validators { etag: b"", weak: false, modified: 0 };
    let reading = matches!(request.method, Method::Get | Method::Head);
    if any_tag(request, "if-match", &NONE, Comparison::Strong) == Some(false) {
        return Precondition::Failed;
    }
    match any_tag(request, "if-none-match", &NONE, Comparison::Weak) {
        Some(true) if reading => Precondition::NotModified,
        Some(true) => Precondition::Failed,
        Some(false) | None => Precondition::Proceed,
    }
}

/// Whether a `Range` field is to be heeded (RFC 9110, 13.1.5): there is no `If-Range`, or it holds this very tag or date. A weak tag
/// never does, since parts of two versions must not be joined. `now` is in seconds since the epoch.
pub fn if_range_holds(request: &Request<'_, '_>, validators: &Validators<'_>, now: i64) -> bool {
    let mut values = request.fields("if-range");
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(value), None) if value.ends_with(b"\"") => value == validators.etag && !validators.weak,
        // A second that is not over may still see another version (RFC 9110, 8.8.2.2).
        (Some(value), None) => validators.modified < now && date::parse(value) == Some(validators.modified),
        (Some(_), Some(_)) => false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Weak tags match nothing.
    Strong,
    /// Weak tags match their strong form.
    Weak,
}

/// Whether any tag in any field of that name matches; `None` if there is no such field. A list counts up to its first fault.
fn any_tag(request: &Request<'_, '_>, name: &str, validators: &Validators<'_>, comparison: Comparison) -> Option<bool> {
    let equal = |(weak, tag): (bool, &[u8])| tag == validators.etag && (comparison == Comparison::Weak || !(weak || validators.weak));
    let mut present = None;
    for value in request.fields(name) {
        if value == b"*" || tags(value).any(equal) {
            return Some(true);
        }
        present = Some(false);
    }
    present
}

/// The entity tags of a list, each with whether it is weak, and with its quotes.
fn tags(value: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = value;
    std::iter::from_fn(move || {
        // Empty elements are to be ignored (RFC 9110, 5.6.1.2).
        rest = &rest[rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b',')).count()..];
        let (weak, tag) = match rest.strip_prefix(b"W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        // A tag may hold commas, but no quote.
        let end = 2 + memchr::memchr(b'"', tag.strip_prefix(b"\"")?)?;
        rest = &tag[end..];
        Some((weak, &tag[..end]))
    })
}

/// The date in the only field of that name; a field that is there twice or holds no date is to be ignored (RFC 9110, 13.1.3, 13.1.4).
fn single_date(request: &Request<'_, '_>, name: &str) -> Option<i64> {
    let mut values = request.fields(name);
    match (values.next(), values.next()) {
        (Some(value), None) => date::parse(value),
        (None | Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::head::{HeadLimits, field_space, parse};

    const LIMITS: HeadLimits = HeadLimits { request_line: 8192, header_bytes: 1 << 20, header_count: 100 };
    /// Sun, 06 Nov 1994 08:49:37 GMT
    const VALIDATORS: Validators<'_> = Validators { etag: b"\"a-1\"", weak: false, modified: 784_111_777 };
    const NOW: i64 = VALIDATORS.modified + 1;
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn with<T>(method: &str, fields: &str, check: impl Fn(&Request<'_, '_>) -> T) -> T {
        let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut space = field_space();
        check(&parse(head.as_bytes(), &mut space, &LIMITS).unwrap())
    }

    fn check(table: &[(&str, Precondition)]) {
        for (fields, expected) in table {
            assert_eq!(with("GET", fields, |request| evaluate(request, &VALIDATORS)), *expected, "{fields}");
        }
    }

    #[test]
    fn without_validators_only_the_star_counts() {
        for (fields, right) in [
            ("", Precondition::Proceed),
            ("If-Match: *\r\n", Precondition::Proceed),
            ("If-Match: \"a-1\"\r\n", Precondition::Failed),
            ("If-None-Match: *\r\n", Precondition::NotModified),
            ("If-None-Match: \"a-1\"\r\n", Precondition::Proceed),
            ("If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT\r\n", Precondition::Proceed),
            ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", Precondition::Proceed),
        ] {
            assert_eq!(with("GET", fields, evaluate_without), right, "{fields}");
        }
        assert_eq!(with("POST", "If-None-Match: *\r\n", evaluate_without), Precondition::Failed);
    }

    #[test]
    fn without_preconditions_it_proceeds() {
        check(&[("", Precondition::Proceed), ("If: x\r\nIffy: y\r\nIf-Unheard-Of: z\r\n", Precondition::Proceed)]);
    }

    #[test]
    fn if_none_match_compares_weakly() {
        check(&[
            ("If-None-Match: \"a-1\"\r\n", Precondition::NotModified),
            ("If-None-Match: \"x\", W/\"a-1\"\r\n", Precondition::NotModified),
            ("if-none-match: \"x\"\r\nIF-NONE-MATCH: \"a-1\"\r\n", Precondition::NotModified),
            ("If-None-Match: ,, \"x\" ,\"a-1\"\r\n", Precondition::NotModified),
            ("If-None-Match: *\r\n", Precondition::NotModified),
            ("If-None-Match: \"x,y\",\"a-1\"\r\n", Precondition::NotModified),
            ("If-None-Match: \"x\"\r\n", Precondition::Proceed),
            ("If-None-Match: \"x,\"a-1\"\r\n", Precondition::Proceed),
            ("If-None-Match: a-1\r\n", Precondition::Proceed),
            ("If-None-Match: w/\"a-1\"\r\n", Precondition::Proceed),
            ("If-None-Match: \"\r\n", Precondition::Proceed),
            ("If-None-Match:\r\n", Precondition::Proceed),
        ]);
        let put = with("PUT", "If-None-Match: *\r\n", |request| evaluate(request, &VALIDATORS));
        assert_eq!(put, Precondition::Failed);
    }

    #[test]
    fn if_match_compares_strongly() {
        check(&[
            ("If-Match: \"a-1\"\r\n", Precondition::Proceed),
            ("If-Match: *\r\n", Precondition::Proceed),
            ("If-Match: \"x\"\r\nIf-Match: \"a-1\"\r\n", Precondition::Proceed),
            ("If-Match: W/\"a-1\"\r\n", Precondition::Failed),
            ("If-Match: \"x\"\r\n", Precondition::Failed),
            ("If-Match: \"a-1\"\r\nIf-None-Match: \"a-1\"\r\n", Precondition::NotModified),
        ]);
    }

    #[test]
    fn dates_compare_by_second() {
        for (name, date, expected) in [
            ("If-Modified-Since", EARLIER, Precondition::Proceed),
            ("If-Modified-Since", SAME, Precondition::NotModified),
            ("If-Modified-Since", LATER, Precondition::NotModified),
            ("If-Unmodified-Since", EARLIER, Precondition::Failed),
            ("If-Unmodified-Since", SAME, Precondition::Proceed),
            ("If-Unmodified-Since", LATER, Precondition::Proceed),
            ("If-Unmodified-Since", "yesterday", Precondition::Proceed),
            ("If-Modified-Since", "yesterday", Precondition::Proceed),
        ] {
            check(&[(&format!("{name}: {date}\r\n"), expected)]);
        }
        let put = with("PUT", &format!("If-Modified-Since: {LATER}\r\n"), |request| evaluate(request, &VALIDATORS));
        assert_eq!(put, Precondition::Proceed);
        check(&[(&format!("If-Modified-Since: {SAME}\r\nIf-Modified-Since: {SAME}\r\n"), Precondition::Proceed)]);
    }

    #[test]
    fn tags_go_before_dates() {
        check(&[
            (&format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {LATER}\r\n"), Precondition::Proceed),
            (&format!("If-None-Match: \"a-1\"\r\nIf-Modified-Since: {EARLIER}\r\n"), Precondition::NotModified),
            (&format!("If-Match: \"a-1\"\r\nIf-Unmodified-Since: {EARLIER}\r\n"), Precondition::Proceed),
            (&format!("If-Match: \"other\"\r\nIf-Unmodified-Since: {LATER}\r\n"), Precondition::Failed),
            (&format!("If-Unmodified-Since: {EARLIER}\r\nIf-None-Match: \"a-1\"\r\n"), Precondition::Failed),
        ]);
    }

    #[test]
    fn h07_ten_thousand_tags_are_read_once() {
        let many = "\"x\",".repeat(10_000);
        check(&[
            (&format!("If-None-Match: {many}\"a-1\"\r\n"), Precondition::NotModified),
            (&format!("If-None-Match: {}\r\n", "W/".repeat(20_000)), Precondition::Proceed),
            ("If-Modified-Since: Sun, 06 Nov 99999 08:49:37 GMT\r\n", Precondition::Proceed),
        ]);
    }

    #[test]
    fn r07_a_weak_tag_matches_only_where_a_weak_one_may() {
        let weak = Validators { weak: true, ..VALIDATORS };
        for (fields, expected) in [
            ("If-None-Match: \"a-1\"\r\n", Precondition::NotModified),
            ("If-None-Match: W/\"a-1\"\r\n", Precondition::NotModified),
            ("If-Match: W/\"a-1\"\r\n", Precondition::Failed),
            ("If-Match: \"a-1\"\r\n", Precondition::Failed),
            ("If-Match: *\r\n", Precondition::Proceed),
        ] {
            assert_eq!(with("GET", fields, |request| evaluate(request, &weak)), expected, "{fields}");
        }
        for tag in ["\"a-1\"", "W/\"a-1\""] {
            assert!(!with("GET", &format!("If-Range: {tag}\r\n"), |request| if_range_holds(request, &weak, NOW)), "{tag}");
        }
    }

    #[test]
    fn if_range_needs_the_same_version() {
        for (value, expected) in [
            ("\"a-1\"", true),
            ("\"other\"", false),
            ("W/\"a-1\"", false),
            (SAME, true),
            (EARLIER, false),
            (LATER, false),
            ("nonsense", false),
            ("", false),
        ] {
            let field = format!("If-Range: {value}\r\n");
            assert_eq!(with("GET", &field, |request| if_range_holds(request, &VALIDATORS, NOW)), expected, "{value}");
        }
        assert!(with("GET", "", |request| if_range_holds(request, &VALIDATORS, NOW)));
        // Within its second the date says too little; the tag does not.
        for (value, expected) in [(SAME, false), ("\"a-1\"", true)] {
            let field = format!("If-Range: {value}\r\n");
            assert_eq!(with("GET", &field, |request| if_range_holds(request, &VALIDATORS, NOW - 1)), expected, "{value}");
        }
        let twice = "If-Range: \"a-1\"\r\nIf-Range: \"a-1\"\r\n";
        assert!(!with("GET", twice, |request| if_range_holds(request, &VALIDATORS, NOW)));
    }
}
