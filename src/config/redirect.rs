//! `redirect` of a rule: where it leads, which no request may choose, and its status. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table};
use super::patterns::Patterns;
use super::template::{self, Purpose};
use super::{Act, Part, Template, Variable};

pub(super) fn read(table: &Table<'_>, item: &Item<'_>, patterns: &Patterns<'_>, faults: &mut Faults<'_>) -> Option<Act> {
    let status = table.item("status", faults).map(|item| read_status(&item, faults));
    let text = item.text("where to, such as \"https://{host}{path}\"", faults)?;
    let to = template::read(&text, Purpose::Location, patterns.captures, faults)?;
    if let Err((what, help)) = check_location(&to, patterns.may_be_host) {
        faults.report(text.at, format!("{} {what}", quoted(text.value)), help);
        return None;
    }
    let status = status.unwrap_or(Some(REDIRECT_DEFAULT))?;
    Some(Act::Redirect { to, status })
}

fn read_status(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<u16> {
    let expected = "301, 302, 303, 307 or 308";
    if !item.is_integer() {
        item.wrong_type(expected, faults);
        return None;
    }
    let status = item.small_number().filter(|status| REDIRECTS.contains(status));
    if status.is_none() {
        let what = format!("{} is not the status of a redirect", faults.written(&item.at));
        item.report(what, format!("expected {expected}"), faults);
    }
    status
}

/// A path of this host or a whole address, whose host no request can choose.
fn check_location(to: &Template, may_be_host: bool) -> Result<(), (&'static str, &'static str)> {
    match to.parts.as_slice() {
        [Part::Literal(text), ..] if text.starts_with("//") || text.starts_with("/\\") => {
            Err(("is an address of another host", "expected \"https://\" before it, or one \"/\""))
        }
        [Part::Literal(text), Part::Variable(Variable::Path | Variable::Uri), ..] if text == "/" => {
            Err(("begins with two slashes, which is an address of another host", "expected \"{scheme}://{host}{path}\""))
        }
        [Part::Literal(text), ..] if text.starts_with('/') => Ok(()),
        [Part::Variable(Variable::Scheme), Part::Literal(text), rest @ ..] if text.starts_with("://") => {
            check_authority(text.trim_start_matches("://"), rest, may_be_host)
        }
        [Part::Literal(text), rest @ ..] => {
            let lower = text.to_ascii_lowercase();
            let scheme = ["https://", "http://"].into_iter().find(|scheme| lower.starts_with(scheme));
            match scheme.and_then(|scheme| text.get(scheme.len()..)) {
                Some(authority) => check_authority(authority, rest, may_be_host),
                None => Err(NO_LOCATION),
            }
        }
        _ => Err(NO_LOCATION),
    }
}

/// What stands between `://` and the path. `https://example.org{1}` with `.example.net` for the star is another host.
fn check_authority(first: &str, rest: &[Part], may_be_host: bool) -> Result<(), (&'static str, &'static str)> {
    let ends = |text: &str| text.contains(['/', '?', '#']);
    if first.is_empty() && matches!(rest.first(), None | Some(Part::Query)) || first.starts_with(['/', '?', '#']) {
        return Err(("has no host", "expected one behind \"://\""));
    }
    if ends(first) {
        return Ok(());
    }
    for (number, part) in rest.iter().enumerate() {
        match part {
            Part::Literal(text) if ends(text) => return Ok(()),
            Part::Variable(Variable::Path | Variable::Uri) if number > 0 || !first.is_empty() => return Ok(()),
            Part::Query => return Ok(()),
            Part::Literal(_) | Part::Variable(Variable::Host) => {}
            Part::Capture(_) if may_be_host => {}
            Part::Capture(_) | Part::Variable(_) | Part::Header(_) => {
                return Err(("would let a request choose the host", "expected a \"/\" behind the host"));
            }
        }
    }
    Ok(())
}

/// RFC 9110, section 15.4: those that lead to another address at once.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
const REDIRECT_DEFAULT: u16 = 302;
const NO_LOCATION: (&str, &str) =
    ("is not where a redirect can lead", "expected it to begin with \"/\", \"http://\", \"https://\" or \"{scheme}://\"");

#[cfg(test)]
mod tests {
    use super::super::read::told;

    /// What is said about a rule; its first line is line 4.
    fn said(lines: &str) -> Vec<String> {
        told(&format!("[[site]]\nroot = \"/srv\"\n[[site.rule]]\n{lines}\n"))
    }

    #[test]
    fn a_redirect_leads_where_the_rule_says() {
        for to in [
            "/",
            "/a{path}",
            "/{1}",
            "{scheme}://{host}{uri}",
            "HTTPS://example.org{path}",
            "http://{host}:8080/{1}?{query}",
            "https://example.org",
            "https://www.{host}/{header.x}",
            "https://example.org?a={1}",
        ] {
            assert_eq!(said(&format!("path = \"/*\"\nredirect = \"{to}\"")), [""; 0], "{to}");
        }
        assert_eq!(said("regex = \"^/([a-z]+)\"\nredirect = \"https://{1}.example.org/\""), [""; 0]);
        let moved = "[[site]]\nname = \"*.old.example\"\nroot = \"/srv\"\n[[site.rule]]\nredirect = \"https://{1}.new.example{uri}\"\n";
        assert_eq!(told(moved), [""; 0]);
        let chosen = "would let a request choose the host, expected a \"/\" behind the host";
        let elsewhere = "is an address of another host, expected \"https://\" before it, or one \"/\"";
        let none = "is not where a redirect can lead, expected it to begin with \"/\", \"http://\", \"https://\" or \"{scheme}://\"";
        let slashes = "begins with two slashes, which is an address of another host, expected \"{scheme}://{host}{path}\"";
        let host = "has no host, expected one behind \"://\"";
        for (to, said_of_it) in [
            ("", none),
            ("a", none),
            ("{uri}", none),
            ("{1}", none),
            ("ftp://example.org/", none),
            ("javascript:1", none),
            ("//example.org/", elsewhere),
            ("/\\\\example.org/", elsewhere),
            ("/{path}", slashes),
            ("/{uri}", slashes),
            ("https://", host),
            ("https:///a", host),
            ("{scheme}://", host),
            ("https://?a", host),
            ("https://example.org{1}", chosen),
            ("https://{1}/", chosen),
            ("https://{path}", chosen),
            ("https://{header.x-host}/", chosen),
        ] {
            assert_eq!(said(&format!("path = \"/*\"\nredirect = \"{to}\"")), [format!("5:12: \"{to}\" {said_of_it}")]);
        }
        // A number of TOML's that the parser takes in pieces: what is shown of it is as printable as all else.
        assert!(!said("redirect = \"/a{{\"\nstatus = 3_A\0\x1b1").concat().contains(['\0', '\x1b']));
        assert_eq!(
            said("redirect = \"/a{{\"\nstatus = 200")[0],
            "5:10: 200 is not the status of a redirect, expected 301, 302, 303, 307 or 308"
        );
        assert_eq!(
            said("redirect = \"/a\"\nstatus = \"301\""),
            ["5:10: \"status\" in [[site.rule]] is a string, expected 301, 302, 303, 307 or 308"]
        );
        assert_eq!(said("redirect = \"/a b\""), ["4:15: \" \" is not possible here, expected it percent-encoded"]);
    }
}
