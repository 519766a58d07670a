//! Regular expressions of rules: checked when the configuration is read, compiled by the worker, both here so that they agree. No I/O.
//!
//! They are matched against bytes, by an engine that takes linear time whatever the path, and speak of bytes and ASCII: `.` is one byte, `\w`
//! an ASCII letter, digit or `_`, `(?i)` ignores the case of ASCII letters. So no tables of Unicode are needed, and what
//! a pattern means does not change with their version.

use regex_automata::meta::{self, Regex};
use regex_automata::nfa::thompson::NFA;
use regex_automata::util::syntax;
use regex_syntax::hir::Hir;
use std::ops::Range;

/// Compiles a regular expression that the configuration has accepted.
///
/// # Errors
/// What is wrong with it; never for one that is part of a checked configuration.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let hir = parse(pattern).map_err(|fault| fault.message)?;
    let config = meta::Config::new().utf8_empty(false).nfa_size_limit(Some(SIZE_MAX));
    Regex::builder().configure(config).build_from_hir(&hir).map_err(|_| TOO_LARGE.to_owned())
}

/// What is wrong with a regular expression, and with which bytes of it.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) at: Range<usize>,
}

/// The number of groups of a regular expression: `{1}` is the first.
pub(super) fn groups(pattern: &str) -> Result<u8, Fault> {
    let whole = |message: &str| Fault { message: message.to_owned(), at: 0..pattern.len() };
    let hir = parse(pattern)?;
    let config = NFA::config().utf8(false).nfa_size_limit(Some(SIZE_MAX));
    NFA::compiler().configure(config).build_from_hir(&hir).map_err(|_| whole(TOO_LARGE))?;
    u8::try_from(hir.properties().explicit_captures_len()).map_err(|_| whole("more than 255 groups"))
}

fn parse(pattern: &str) -> Result<Hir, Fault> {
    let error = match syntax::parse_with(pattern, &syntax()) {
        Ok(hir) => return Ok(hir),
        Err(error) => error,
    };
    let (message, span) = match &error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), Some(error.span())),
        regex_syntax::Error::Translate(error) if *error.kind() == regex_syntax::hir::ErrorKind::UnicodeNotAllowed => {
            ("only ASCII can stand in a class".to_owned(), Some(error.span()))
        }
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), Some(error.span())),
        // The enumeration is not ours and may grow.
        other => (other.to_string(), None),
    };
    let at = span.map_or(0..pattern.len(), |span| span.start.offset..span.end.offset);
    Err(Fault { message, at })
}

/// A path is no sequence of lines: if `.` did not match an encoded line feed, such a byte would evade a `deny`.
fn syntax() -> syntax::Config {
    syntax::Config::new().unicode(false).utf8(false).dot_matches_new_line(true).nest_limit(NEST_MAX)
}

/// Bytes of a compiled expression: far more than one for paths needs, and little enough for thousands of rules.
const SIZE_MAX: usize = 256 << 10;
/// How deep groups may stand in each other.
const NEST_MAX: u32 = 50;
const TOO_LARGE: &str = "larger than 256 KiB when compiled";

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(pattern: &str) -> (String, Range<usize>) {
        let fault = groups(pattern).unwrap_err();
        assert_eq!(compile(pattern).unwrap_err(), fault.message);
        (fault.message, fault.at)
    }

    #[test]
    fn groups_are_counted() {
        for (pattern, count) in [("", 0), ("^/a$", 0), ("^/(a)(?:b)(?P<n>c)?", 2), (r"^/\d{4}/(\w+)/?$", 1), ("(?i)^/(é)?", 1)] {
            assert_eq!(groups(pattern).unwrap(), count, "{pattern}");
            assert!(compile(pattern).is_ok());
        }
    }

    #[test]
    fn faults_say_where_they_are() {
        assert_eq!(fault("^/(a"), ("unclosed group".to_owned(), 2..3));
        assert_eq!(fault("a**{").1, 3..4);
        assert_eq!(fault("a\\q").1, 1..3);
        assert_eq!(fault("(a)\\1").1, 3..5);
        assert_eq!(fault("(?=a)").1, 0..3);
        assert_eq!(fault("/[a\u{e9}]"), ("only ASCII can stand in a class".to_owned(), 3..5));
    }

    #[test]
    fn what_would_take_the_memory_is_refused() {
        assert_eq!(fault("(a{1000}){1000}"), (TOO_LARGE.to_owned(), 0..15));
        assert!(fault(&format!("{}{}", "(".repeat(60), ")".repeat(60))).0.contains("nest"));
        assert_eq!(groups(&"()".repeat(256)).unwrap_err().message, "more than 255 groups");
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_matched() {
        let regex = compile(r"^/(.)\xC3.$").unwrap();
        let mut captures = regex.create_captures();
        regex.captures(b"/\xff\xc3\xa9".as_slice(), &mut captures);
        assert_eq!(captures.get_group(1).map(|span| span.range()), Some(1..2));
    }
}
