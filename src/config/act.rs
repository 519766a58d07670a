//! What a rule of `[[site.rule]]` does with a request: its act, of which it has at most one, read and checked. Does no I/O.

use super::danger::Shown;
use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::template::{self, Captures, Purpose};
use super::{Act, Directory, Page, Part, Respond, Template, Variable, paths};
use std::ops::Range;

/// What the act needs to know of the rule's matchers.
pub(super) struct Patterns<'r> {
    /// `None`: the rule has no `path`, or a faulty one.
    pub(super) paths: Option<&'r [Text<'r>]>,
    pub(super) captures: &'r Captures,
    /// Whether captures are groups of a regular expression.
    pub(super) of_regex: bool,
}

pub(super) fn read(table: &Table<'_>, patterns: &Patterns<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Option<Act> {
    let mut acts: Vec<(&str, Item<'_>)> = Vec::new();
    for key in ACTS {
        acts.extend(table.item(key, faults).map(|item| (key, item)));
    }
    acts.sort_by_key(|(_, item)| item.key_at.start);
    if let Some(((first, first_item), others)) = acts.split_first() {
        for (key, item) in others {
            let place = faults.place_name(first_item.key_at.start);
            let help = format!("but it has {} at {place}", quoted(first));
            let what = format!("a rule does one thing: {} is a second act", quoted(key));
            faults.report(item.key_at.clone(), what, help);
        }
    }
    report_strays(table, &acts, faults);
    let mut read = acts.iter().map(|(key, item)| match *key {
        "root" => directory(item, patterns, shown, faults).map(Act::Root),
        "alias" => read_alias(table, item, patterns, shown, faults),
        "redirect" => read_redirect(table, item, patterns, faults),
        "rewrite" => path_template(&item.text(PATH_EXPECTED, faults)?, patterns, faults).map(Act::Rewrite),
        "try" => read_try(item, patterns, faults),
        _ => read_respond(table, item, patterns, faults),
    });
    let act = read.next().flatten();
    // The others are read for their faults.
    read.for_each(drop);
    act
}

/// Keys that only say more about an act which is not there.
fn report_strays(table: &Table<'_>, acts: &[(&str, Item<'_>)], faults: &mut Faults<'_>) {
    let has = |act| acts.iter().any(|(key, _)| *key == act);
    if let Some(item) = table.item("status", faults).filter(|_| !has("redirect")) {
        let help = if has("respond") {
            "expected the status as the value of \"respond\""
        } else {
            "expected \"redirect\" beside it, or respond = 404 instead"
        };
        faults.report(item.key_at, "\"status\" is only for \"redirect\"", help);
    }
    if let Some(item) = table.item("respond_body", faults).filter(|_| !has("respond")) {
        faults.report(
            item.key_at,
            "\"respond_body\" is only for \"respond\"",
            "expected a status beside it, such as respond = 200",
        );
    }
}

fn read_alias(table: &Table<'_>, item: &Item<'_>, patterns: &Patterns<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Option<Act> {
    for path in patterns.paths.into_iter().flatten() {
        let Some((what, help)) = no_prefix(path.value) else { continue };
        faults.report(path.at.clone(), what, help);
    }
    if table.item("path", faults).is_none() {
        faults.report(
            item.key_at.clone(),
            "\"alias\" needs a \"path\"",
            "expected path = \"/icons/*\", or \"root\" to look the whole path up in another directory",
        );
    }
    directory(item, patterns, shown, faults).map(Act::Alias)
}

/// Why a path says nothing that could be looked up beneath an alias.
fn no_prefix(path: &str) -> Option<(String, String)> {
    let (before, behind) = path.split_once('*')?;
    if behind.is_empty() && before.ends_with('/') {
        return None;
    }
    if behind.is_empty() && !before.is_empty() {
        // "/alias../secret" matches "/alias*", and beneath the directory "../secret" is what stands for the star.
        let what = format!(
            "{} with \"alias\" would also answer \"{before}../\", outside of the directory",
            quoted(path)
        );
        return Some((what, format!("expected \"{before}/*\"")));
    }
    let what = format!(
        "{} with \"alias\" does not say what is looked up beneath the directory",
        quoted(path)
    );
    Some((
        what,
        "expected an exact path, or one with its only \"*\" at its end behind \"/\"".to_owned(),
    ))
}

/// A directory, with captures only in what follows a literal one.
fn directory(item: &Item<'_>, patterns: &Patterns<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Option<Directory> {
    let text = item.text("a directory", faults)?;
    let template = template::read(&text, Purpose::Directory, patterns.captures, faults)?;
    let (literal, rest) = match template.parts.split_first() {
        Some((Part::Literal(literal), rest)) => (literal.as_str(), rest),
        _ => ("", template.parts.as_slice()),
    };
    let base = |literal: &str, faults: &mut Faults<'_>| {
        let text = Text {
            value: literal,
            at: text.at.clone(),
        };
        paths::directory(&text, faults)
    };
    let (base, rest) = if rest.is_empty() {
        (base(literal, faults)?, Template::default())
    } else {
        let cut = literal.rfind('/').filter(|cut| *cut > 0);
        let Some((literal, first)) = cut.and_then(|cut| literal.split_at_checked(cut)) else {
            let what = format!("{} begins with what a request chooses", quoted(text.value));
            faults.report(text.at, what, "expected a literal directory first, such as \"/srv/www/{1}\"");
            return None;
        };
        (base(literal, faults)?, beneath(first, rest, &text, faults)?)
    };
    shown.add(&base, text.at);
    Some(Directory { base, rest })
}

/// What follows the literal directory, without a slash at either end.
fn beneath(first: &str, rest: &[Part], text: &Text<'_>, faults: &mut Faults<'_>) -> Option<Template> {
    let first = first.trim_start_matches('/');
    let mut parts = Vec::new();
    if !first.is_empty() {
        parts.push(Part::Literal(first.to_owned()));
    }
    parts.extend_from_slice(rest);
    if let Some(Part::Literal(last)) = parts.last_mut() {
        last.truncate(last.trim_end_matches('/').len());
    }
    parts.retain(|part| *part != Part::Literal(String::new()));
    // A capture may be empty; then nothing of what is literal may lead upwards.
    let literal = |part: &Part| match part {
        Part::Literal(text) => text.clone(),
        Part::Capture(_) | Part::Variable(_) | Part::Header(_) | Part::Query => String::new(),
    };
    let bare: String = parts.iter().map(literal).collect();
    if bare.split('/').any(|segment| segment == "." || segment == "..") {
        let what = format!("{} could leave its directory", quoted(text.value));
        faults.report(text.at.clone(), what, "expected no \".\" or \"..\" beside a capture");
        return None;
    }
    Some(Template { parts })
}

fn read_redirect(table: &Table<'_>, item: &Item<'_>, patterns: &Patterns<'_>, faults: &mut Faults<'_>) -> Option<Act> {
    let status = table.item("status", faults).map(|item| read_redirect_status(&item, faults));
    let text = item.text("where to, such as \"https://{host}{path}\"", faults)?;
    let to = template::read(&text, Purpose::Location, patterns.captures, faults)?;
    if let Err((what, help)) = check_location(&to, patterns.of_regex) {
        faults.report(text.at, format!("{} {what}", quoted(text.value)), help);
        return None;
    }
    let status = status.unwrap_or(Some(REDIRECT_DEFAULT))?;
    Some(Act::Redirect { to, status })
}

fn read_redirect_status(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<u16> {
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
fn check_location(to: &Template, of_regex: bool) -> Result<(), (&'static str, &'static str)> {
    match to.parts.as_slice() {
        [Part::Literal(text), ..] if text.starts_with("//") || text.starts_with("/\\") => {
            Err(("is an address of another host", "expected \"https://\" before it, or one \"/\""))
        }
        [Part::Literal(text), Part::Variable(Variable::Path | Variable::Uri), ..] if text == "/" => Err((
            "begins with two slashes, which is an address of another host",
            "expected \"{scheme}://{host}{path}\"",
        )),
        [Part::Literal(text), ..] if text.starts_with('/') => Ok(()),
        [Part::Variable(Variable::Scheme), Part::Literal(text), rest @ ..] if text.starts_with("://") => {
            check_authority(text.trim_start_matches("://"), rest, of_regex)
        }
        [Part::Literal(text), rest @ ..] => {
            let lower = text.to_ascii_lowercase();
            let scheme = ["https://", "http://"].into_iter().find(|scheme| lower.starts_with(scheme));
            match scheme.and_then(|scheme| text.get(scheme.len()..)) {
                Some(authority) => check_authority(authority, rest, of_regex),
                None => Err(NO_LOCATION),
            }
        }
        _ => Err(NO_LOCATION),
    }
}

/// What stands between `://` and the path. "https://example.org{1}" with ".example.net" for the star is another host.
fn check_authority(first: &str, rest: &[Part], of_regex: bool) -> Result<(), (&'static str, &'static str)> {
    let ends = |text: &str| text.contains(['/', '?', '#']);
    if first.is_empty() && rest.is_empty() || first.starts_with(['/', '?', '#']) {
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
            // Who writes a regular expression says what may stand there.
            Part::Capture(_) if of_regex => {}
            Part::Capture(_) | Part::Variable(_) | Part::Header(_) => {
                return Err(("would let a request choose the host", "expected a \"/\" behind the host"));
            }
        }
    }
    Ok(())
}

fn read_try(item: &Item<'_>, patterns: &Patterns<'_>, faults: &mut Faults<'_>) -> Option<Act> {
    let texts = item.texts(TRY_EXPECTED, faults)?;
    if texts.is_empty() {
        item.report("\"try\" has no candidate", format!("expected {TRY_EXPECTED}"), faults);
    }
    let mut candidates = Vec::new();
    for text in &texts {
        candidates.extend(path_template(text, patterns, faults));
    }
    (!candidates.is_empty()).then_some(Act::Try(candidates))
}

/// A path of this site. A capture may hold its slash, as the star of `*.html` does.
fn path_template(text: &Text<'_>, patterns: &Patterns<'_>, faults: &mut Faults<'_>) -> Option<Template> {
    let template = template::read(text, Purpose::Path, patterns.captures, faults)?;
    let help = match template.parts.first() {
        Some(Part::Literal(literal)) if literal.starts_with('/') => return Some(template),
        Some(Part::Variable(Variable::Path) | Part::Capture(_)) => return Some(template),
        Some(Part::Literal(literal)) if literal.starts_with('=') => {
            "expected a path; a rule behind this one can answer, such as respond = 404 with exists = \"none\""
        }
        Some(Part::Literal(literal)) if literal.contains("://") => "expected a path; for another address there is \"redirect\"",
        _ => "expected it to begin with \"/\", \"{path}\" or a capture",
    };
    faults.report(text.at.clone(), format!("{} is not a path", quoted(text.value)), help);
    None
}

fn read_respond(table: &Table<'_>, item: &Item<'_>, patterns: &Patterns<'_>, faults: &mut Faults<'_>) -> Option<Act> {
    let body_item = table.item("respond_body", faults);
    let body_at = body_item.as_ref().map(|item| item.key_at.clone());
    let body = match body_item {
        Some(item) => {
            let text = item.text("a string", faults);
            Some(text.and_then(|text| template::read(&text, Purpose::Body, patterns.captures, faults)))
        }
        None => None,
    };
    if let Some(word) = item.as_text() {
        return respond_page(&word, item, body_at, faults);
    }
    if !item.is_integer() {
        item.wrong_type(RESPOND_EXPECTED, faults);
        return None;
    }
    let status = respond_status(item, faults)?;
    if let Some(at) = body_at.filter(|_| BODILESS.contains(&status)) {
        faults.report(at, format!("a response with status {status} has no body"), "");
    }
    let body = match body {
        Some(body) => Some(body?),
        None => None,
    };
    Some(Act::Respond {
        answer: Respond::Status { status, body },
    })
}

fn respond_page(word: &Text<'_>, item: &Item<'_>, body_at: Option<Range<usize>>, faults: &mut Faults<'_>) -> Option<Act> {
    if !word.value.is_empty() && word.value.bytes().all(|byte| byte.is_ascii_digit()) {
        item.report(
            format!("{} is a string", quoted(word.value)),
            format!("expected it without quotes: respond = {}", word.value),
            faults,
        );
        return None;
    }
    let page = item.choice(&PAGES, faults)?;
    if let Some(at) = body_at {
        faults.report(at, format!("the page {} has a body of its own", quoted(word.value)), "");
    }
    Some(Act::Respond {
        answer: Respond::Page(page),
    })
}

/// A status that a rule can answer with, on its own.
fn respond_status(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<u16> {
    let help = match item.small_number() {
        Some(206 | 416) => "it answers a request for a range, which only the server can do",
        Some(304 | 412) => "it answers a conditional request, which only the server can do",
        Some(300..=399) => "it needs a Location; expected \"redirect\" with \"status\"",
        Some(status @ 200..=599) => return Some(status),
        Some(100..=199) => "it is not the end of an answer; expected 200 to 599",
        Some(_) | None => "expected 200 to 599",
    };
    item.report(
        format!("{} is not a status to respond with", faults.written(&item.at)),
        help,
        faults,
    );
    None
}

/// What a rule can do, by its key.
const ACTS: [&str; 6] = ["root", "alias", "redirect", "rewrite", "try", "respond"];
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
const REDIRECT_DEFAULT: u16 = 302;
/// RFC 9110, sections 15.3.5 and 15.3.6.
const BODILESS: [u16; 2] = [204, 205];
const PAGES: [(&str, Page); 3] = [("status", Page::Status), ("metrics", Page::Metrics), ("health", Page::Health)];
const PATH_EXPECTED: &str = "a path such as \"/index.html\" or \"/new{path}\"";
const TRY_EXPECTED: &str = "a list of paths, such as [\"{path}\", \"{path}/\", \"/index.html\"]";
const RESPOND_EXPECTED: &str = "a status such as 404, or \"status\", \"metrics\" or \"health\"";
const NO_LOCATION: (&str, &str) = (
    "is not where a redirect can lead",
    "expected it to begin with \"/\", \"http://\", \"https://\" or \"{scheme}://\"",
);
