//! Texts with variables and captures, such as `"https://{host}{path}"`: read and checked, and shown again. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::Text;
use super::mime::is_token;
use super::{Part, Template, Variable, names};
use std::fmt;
use std::ops::Range;

/// What a template is for, which decides what may stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// `redirect`
    Location,
    /// `rewrite` and `try`
    Path,
    /// `root` and `alias`
    Directory,
    /// A value of `header`.
    Header,
    /// `respond_body`
    Body,
    /// `[log] format`
    LogLine,
}

/// What `{1}`… may stand for.
#[derive(Clone, Debug)]
pub(super) struct Captures {
    pub(super) count: u8,
    /// Where they come from, as a message says it: `the regex has 2 groups`.
    pub(super) source: String,
}

/// A template; reported and `None` when it is none.
pub(super) fn read(text: &Text<'_>, purpose: Purpose, captures: &Captures, faults: &mut Faults<'_>) -> Option<Template> {
    match parse(text.value, purpose, captures) {
        Ok(template) => Some(template),
        Err(list) => {
            for fault in list {
                faults.report(text.part(fault.at, faults), fault.what, fault.help);
            }
            None
        }
    }
}

struct Fault {
    at: Range<usize>,
    what: String,
    help: String,
}

fn parse(text: &str, purpose: Purpose, captures: &Captures) -> Result<Template, Vec<Fault>> {
    let mut reader = Reader { text, purpose, captures, parts: Vec::new(), literal: String::new(), faults: Vec::new() };
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.chars().next()) {
        at = reader.step(at, next);
    }
    reader.end_literal();
    if reader.faults.is_empty() { Ok(Template { parts: reader.parts }) } else { Err(reader.faults) }
}

struct Reader<'t> {
    text: &'t str,
    purpose: Purpose,
    captures: &'t Captures,
    parts: Vec<Part>,
    literal: String,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    /// Reads what begins at an offset; the offset behind it.
    fn step(&mut self, at: usize, next: char) -> usize {
        let behind = at + next.len_utf8();
        let doubled = self.text.get(behind..).is_some_and(|rest| rest.starts_with(next));
        match next {
            '{' | '}' if doubled => {
                self.literal.push(next);
                behind + 1
            }
            '{' => self.variable(at),
            '}' => {
                self.fault(at..behind, "\"}\" without a \"{\" before it", "expected \"}}\" for a brace itself");
                behind
            }
            '?' if self.splits() => {
                self.end_literal();
                self.parts.push(Part::Query);
                behind
            }
            next => {
                if let Some(help) = self.forbids(next) {
                    self.fault(at..behind, format!("{} is not possible here", quoted(&next.to_string())), help);
                }
                self.literal.push(next);
                behind
            }
        }
    }

    /// Whether a `?` begins the query here.
    fn splits(&self) -> bool {
        matches!(self.purpose, Purpose::Location | Purpose::Path) && !self.parts.contains(&Part::Query)
    }

    fn forbids(&self, next: char) -> Option<&'static str> {
        match self.purpose {
            // The reader of a directory looks for what the kernel does not allow.
            Purpose::Body | Purpose::Directory => None,
            Purpose::Header if next == '\t' => None,
            // It goes into the header as it is: RFC 3986, section 2.
            Purpose::Location if !next.is_ascii_graphic() => Some("expected it percent-encoded"),
            Purpose::Location | Purpose::Path | Purpose::Header | Purpose::LogLine => {
                next.is_control().then_some("expected no control characters")
            }
        }
    }

    /// `{name}` at an offset; the offset behind it.
    fn variable(&mut self, at: usize) -> usize {
        let rest = self.text.get(at + 1..).unwrap_or("");
        let length = rest.find(['{', '}']).unwrap_or(rest.len());
        let (name, behind) = (rest.get(..length).unwrap_or(""), at + 1 + length);
        if !rest.get(length..).is_some_and(|rest| rest.starts_with('}')) {
            self.fault(
                at..behind,
                "\"{\" without a \"}\" behind it",
                "expected a variable such as \"{path}\", or \"{{\" for a brace itself",
            );
            return behind;
        }
        match self.part(name) {
            Ok(part) => {
                self.end_literal();
                self.parts.push(part);
            }
            Err((what, help)) => self.fault(at..behind + 1, what, help),
        }
        behind + 1
    }

    fn part(&self, name: &str) -> Result<Part, (String, String)> {
        let shown = quoted(&format!("{{{name}}}"));
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            return match name.parse::<u8>() {
                Ok(number) if number >= 1 && number <= self.captures.count => Ok(Part::Capture(number)),
                Ok(_) | Err(_) => Err((format!("{shown} stands for nothing"), self.captures.source.clone())),
            };
        }
        if self.purpose == Purpose::Directory {
            let what = format!("{shown} cannot be part of a directory");
            return Err((what, "expected only captures such as \"{1}\"".to_owned()));
        }
        if let Some(header) = name.strip_prefix("header.") {
            if is_token(header) {
                return Ok(Part::Header(header.to_ascii_lowercase()));
            }
            let what = format!("{} is not the name of a header", quoted(header));
            return Err((what, "expected one such as \"{header.user-agent}\"".to_owned()));
        }
        let Some((_, variable)) = VARIABLES.iter().find(|(known, _)| *known == name) else {
            let help = match names::nearest(name, VARIABLES.iter().map(|(known, _)| *known)) {
                Some(known) => format!("did you mean \"{{{known}}}\"?"),
                None => {
                    let known: Vec<String> = VARIABLES.iter().map(|(known, _)| format!("{{{known}}}")).collect();
                    format!("known are {{1}}, {{header.NAME}}, {}", known.join(", "))
                }
            };
            return Err((format!("unknown variable {shown}"), help));
        };
        match misplaced(*variable, self.purpose) {
            Some(why) => Err((format!("{shown} is not possible here"), why.to_owned())),
            None => Ok(Part::Variable(*variable)),
        }
    }

    fn end_literal(&mut self) {
        if !self.literal.is_empty() {
            self.parts.push(Part::Literal(std::mem::take(&mut self.literal)));
        }
    }

    fn fault(&mut self, at: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.faults.push(Fault { at, what: what.into(), help: help.into() });
    }
}

/// Why a variable has no value yet, or a wrong one, where a template of this purpose is filled in.
fn misplaced(variable: Variable, purpose: Purpose) -> Option<&'static str> {
    let before_answer = matches!(purpose, Purpose::Location | Purpose::Path | Purpose::Directory);
    match variable {
        Variable::Bytes | Variable::Duration if purpose != Purpose::LogLine => Some("it is known only when the response has been sent"),
        Variable::Status if before_answer => Some("it is known only when the response is made"),
        Variable::Uri if purpose == Purpose::Path => Some("it is the raw target with its query; expected \"{path}\" and \"{query}\""),
        Variable::Path
        | Variable::Query
        | Variable::Uri
        | Variable::Host
        | Variable::Scheme
        | Variable::Method
        | Variable::Client
        | Variable::User
        | Variable::Status
        | Variable::Bytes
        | Variable::Time
        | Variable::Duration
        | Variable::RequestId
        | Variable::TlsVersion
        | Variable::TlsSni
        | Variable::TlsClient => None,
    }
}

/// As a file would give it.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Literal(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}"))?,
                Part::Capture(number) => write!(f, "{{{number}}}")?,
                Part::Variable(variable) => {
                    let name = VARIABLES.iter().find(|(_, known)| known == variable).map_or("", |(name, _)| name);
                    write!(f, "{{{name}}}")?;
                }
                Part::Header(name) => write!(f, "{{header.{name}}}")?,
                Part::Query => f.write_str("?")?,
            }
        }
        Ok(())
    }
}

const VARIABLES: [(&str, Variable); 16] = [
    ("path", Variable::Path),
    ("query", Variable::Query),
    ("uri", Variable::Uri),
    ("host", Variable::Host),
    ("scheme", Variable::Scheme),
    ("method", Variable::Method),
    ("client", Variable::Client),
    ("user", Variable::User),
    ("status", Variable::Status),
    ("bytes", Variable::Bytes),
    ("time", Variable::Time),
    ("duration", Variable::Duration),
    ("request_id", Variable::RequestId),
    ("tls.version", Variable::TlsVersion),
    ("tls.sni", Variable::TlsSni),
    ("tls.client", Variable::TlsClient),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn captures(count: u8) -> Captures {
        Captures { count, source: format!("the regex has {count} groups") }
    }

    fn told(text: &str, purpose: Purpose) -> Vec<String> {
        let faults = parse(text, purpose, &captures(2)).err().unwrap_or_default();
        faults.iter().map(|fault| format!("{}..{}: {}, {}", fault.at.start, fault.at.end, fault.what, fault.help)).collect()
    }

    #[test]
    fn templates_are_read_and_shown_again() {
        let parts = |text: &str, purpose| parse(text, purpose, &captures(2)).map(|template| template.parts).ok().unwrap();
        assert_eq!(
            parts("https://{host}{path}?a={1}?{query}", Purpose::Location),
            [
                Part::Literal("https://".into()),
                Part::Variable(Variable::Host),
                Part::Variable(Variable::Path),
                Part::Query,
                Part::Literal("a=".into()),
                Part::Capture(1),
                Part::Literal("?".into()),
                Part::Variable(Variable::Query),
            ]
        );
        assert_eq!(
            parts("{{\"{header.X-Y}\"}}?", Purpose::Body),
            [Part::Literal("{\"".into()), Part::Header("x-y".into()), Part::Literal("\"}?".into())]
        );
        assert_eq!(parts("", Purpose::Header), []);
        for (name, _) in VARIABLES {
            for text in [format!("{{{name}}}"), format!("a?{{{{{{{name}}}é}}}}{{2}}{{header.a}}?")] {
                let template = parse(&text, Purpose::LogLine, &captures(2)).ok().unwrap();
                assert_eq!(template.to_string(), text);
            }
        }
    }

    #[test]
    fn braces_and_names_are_checked_where_they_stand() {
        let known = "known are {1}, {header.NAME}, {path}, {query}, {uri}, {host}, {scheme}, {method}, {client}, {user}, {status}, {bytes}, \
                     {time}, {duration}, {request_id}, {tls.version}, {tls.sni}, {tls.client}";
        let open = "\"{\" without a \"}\" behind it, expected a variable such as \"{path}\", or \"{{\" for a brace itself";
        for (text, said) in [
            ("é{path", format!("2..7: {open}")),
            ("{a{path}", format!("0..2: {open}")),
            ("a}b", "1..2: \"}\" without a \"{\" before it, expected \"}}\" for a brace itself".to_owned()),
            ("{}", format!("0..2: unknown variable \"{{}}\", {known}")),
            ("/{pth}", "1..6: unknown variable \"{pth}\", did you mean \"{path}\"?".to_owned()),
            ("{remote_addr}", format!("0..13: unknown variable \"{{remote_addr}}\", {known}")),
            ("{3}", "0..3: \"{3}\" stands for nothing, the regex has 2 groups".to_owned()),
            ("{0}", "0..3: \"{0}\" stands for nothing, the regex has 2 groups".to_owned()),
            ("{999}", "0..5: \"{999}\" stands for nothing, the regex has 2 groups".to_owned()),
            ("{header.}", "0..9: \"\" is not the name of a header, expected one such as \"{header.user-agent}\"".to_owned()),
        ] {
            assert_eq!(told(text, Purpose::LogLine), [said], "{text}");
        }
        assert_eq!(told("{a}{b", Purpose::Body).len(), 2);
    }

    #[test]
    fn what_a_template_may_hold_depends_on_its_purpose() {
        for (text, purpose, said) in [
            ("/{status}", Purpose::Location, "1..9: \"{status}\" is not possible here, it is known only when the response is made"),
            ("{bytes}", Purpose::Header, "0..7: \"{bytes}\" is not possible here, it is known only when the response has been sent"),
            (
                "{uri}",
                Purpose::Path,
                "0..5: \"{uri}\" is not possible here, it is the raw target with its query; expected \"{path}\" and \"{query}\"",
            ),
            ("/a/{host}", Purpose::Directory, "3..9: \"{host}\" cannot be part of a directory, expected only captures such as \"{1}\""),
            ("/a b", Purpose::Location, "2..3: \" \" is not possible here, expected it percent-encoded"),
            ("/\u{e9}", Purpose::Location, "1..3: \"é\" is not possible here, expected it percent-encoded"),
            ("a\r", Purpose::Header, "1..2: \"\\r\" is not possible here, expected no control characters"),
            ("a\n", Purpose::LogLine, "1..2: \"\\n\" is not possible here, expected no control characters"),
            ("/a\0", Purpose::Path, "2..3: \"\\0\" is not possible here, expected no control characters"),
        ] {
            assert_eq!(told(text, purpose), [said], "{text}");
        }
        assert_eq!(told("a\tb", Purpose::Header), [""; 0]);
        assert_eq!(told("a\r\n", Purpose::Body), [""; 0]);
    }
}
