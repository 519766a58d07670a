//! What a rule of `[[site.rule]]` does with a request: its act, of which it has at most one, read and checked. Does no I/O.

use super::danger::Shown;
use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::patterns::Patterns;
use super::template::{self, Purpose};
use super::{Act, Directory, Page, Part, Respond, Template, Variable, directory, redirect, run};
use std::ops::Range;

pub(super) fn read(table: &Table<'_>, patterns: &Patterns<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Option<Act> {
    let mut acts: Vec<(&str, Item<'_>)> = Vec::new();
    for key in ACTS {
        acts.extend(table.item(key, faults).map(|item| (key, item)));
    }
    // Beside one that runs scripts, a directory says where they are looked up.
    let place = acts
        .iter()
        .position(|(key, _)| matches!(*key, "root" | "alias"))
        .filter(|_| acts.iter().any(|(key, _)| matches!(*key, "backend" | "cgi")));
    let place = place.map(|at| acts.remove(at));
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
        "backend" => run::read(table, item, place.as_ref(), patterns, shown, faults),
        "cgi" => run::read_cgi(item, place.as_ref(), patterns, shown, faults),
        "root" => read_directory(item, patterns, shown, faults).map(Act::Root),
        "alias" => read_alias(table, item, patterns, shown, faults),
        "redirect" => redirect::read(table, item, patterns, faults),
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
    if let Some(item) = table.item("check", faults).filter(|_| !has("backend")) {
        faults.report(item.key_at, "\"check\" is only for \"backend\"", "expected \"backend\" beside it");
    }
    if let Some(item) = table.item("respond_body", faults).filter(|_| !has("respond")) {
        faults.report(item.key_at, "\"respond_body\" is only for \"respond\"", "expected a status beside it, such as respond = 200");
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
    read_directory(item, patterns, shown, faults).map(Act::Alias)
}

/// Why a path says nothing that could be looked up beneath an alias.
fn no_prefix(path: &str) -> Option<(String, String)> {
    // What the last star stands for is looked up; others before it are captures.
    let (before, behind) = path.rsplit_once('*')?;
    if behind.is_empty() && before.ends_with('/') {
        return None;
    }
    if behind.is_empty() && !before.is_empty() {
        // "/alias../secret" matches "/alias*", and beneath the directory "../secret" is what stands for the star.
        let what = format!("{} with \"alias\" would also answer \"{before}../\", outside of the directory", quoted(path));
        return Some((what, format!("expected \"{before}/*\"")));
    }
    let what = format!("{} with \"alias\" does not say what is looked up beneath the directory", quoted(path));
    Some((what, "expected an exact path, or one that ends in \"/*\"".to_owned()))
}

fn read_directory(item: &Item<'_>, patterns: &Patterns<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Option<Directory> {
    let text = item.text("a directory", faults)?;
    directory::read(&text, patterns.captures, shown, faults)
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
    Some(Act::Respond { answer: Respond::Status { status, body } })
}

fn respond_page(word: &Text<'_>, item: &Item<'_>, body_at: Option<Range<usize>>, faults: &mut Faults<'_>) -> Option<Act> {
    if !word.value.is_empty() && word.value.bytes().all(|byte| byte.is_ascii_digit()) {
        item.report(format!("{} is a string", quoted(word.value)), format!("expected it without quotes: respond = {}", word.value), faults);
        return None;
    }
    let page = item.choice(&PAGES, faults)?;
    if let Some(at) = body_at {
        faults.report(at, format!("the page {} has a body of its own", quoted(word.value)), "");
    }
    Some(Act::Respond { answer: Respond::Page(page) })
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
    item.report(format!("{} is not a status to respond with", faults.written(&item.at)), help, faults);
    None
}

/// What a rule can do, by its key.
const ACTS: [&str; 8] = ["backend", "cgi", "root", "alias", "redirect", "rewrite", "try", "respond"];
/// RFC 9110, sections 15.3.5 and 15.3.6.
const BODILESS: [u16; 2] = [204, 205];
const PAGES: [(&str, Page); 3] = [("status", Page::Status), ("metrics", Page::Metrics), ("health", Page::Health)];
const PATH_EXPECTED: &str = "a path such as \"/index.html\" or \"/new{path}\"";
const TRY_EXPECTED: &str = "a list of paths, such as [\"{path}\", \"{path}/\", \"/index.html\"]";
const RESPOND_EXPECTED: &str = "a status such as 404, or \"status\", \"metrics\" or \"health\"";

#[cfg(test)]
pub(super) mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;

    /// What is said about a rule; its first line is line 4.
    pub(in crate::config) fn said(lines: &str) -> Vec<String> {
        told(&format!("[[site]]\nroot = \"/srv\"\n[[site.rule]]\n{lines}\n"))
    }

    /// The act of a rule that is accepted.
    pub(in crate::config) fn act(lines: &str) -> Act {
        let text = format!("[[site]]\nname = \"a\"\nroot = \"/srv\"\n[[site.rule]]\n{lines}\n");
        with_a_site(&text).sites[0].rules[0].act.clone().unwrap()
    }

    fn literal(text: &str) -> Template {
        Template { parts: vec![Part::Literal(text.to_owned())] }
    }

    #[test]
    fn every_act_is_read() {
        let plain = |base: &str| Directory { base: base.into(), rest: Template::default() };
        assert_eq!(act("root = \"/usr/share/\""), Act::Root(plain("/usr/share")));
        assert_eq!(act("root = \"a{{b}}\""), Act::Root(plain("/etc/anchorite/a{b}")));
        for path in ["/x/*", "/x", "/x/", "/*", "/x/*/y/*"] {
            assert_eq!(act(&format!("path = \"{path}\"\nalias = \"/usr/x\"")), Act::Alias(plain("/usr/x")));
        }
        let to = literal("https://example.org/");
        for status in [301, 302, 303, 307, 308] {
            let expected = Act::Redirect { to: to.clone(), status };
            assert_eq!(act(&format!("redirect = \"https://example.org/\"\nstatus = {status}")), expected);
        }
        assert_eq!(act("redirect = \"https://example.org/\""), Act::Redirect { to, status: 302 });
        assert_eq!(act("rewrite = \"/a\""), Act::Rewrite(literal("/a")));
        let parts = vec![Part::Variable(Variable::Path), Part::Literal("/".to_owned())];
        assert_eq!(act("try = [\"{path}/\", \"/b\"]"), Act::Try(vec![Template { parts }, literal("/b")]));
        let status = |status, body| Act::Respond { answer: Respond::Status { status, body } };
        assert_eq!(act("respond = 200\nrespond_body = \"ok\""), status(200, Some(literal("ok"))));
        for number in [200, 204, 401, 404, 451, 503, 599] {
            assert_eq!(act(&format!("respond = {number}")), status(number, None));
        }
        for (word, page) in PAGES {
            let answer = Respond::Page(page);
            assert_eq!(act(&format!("respond = {word:?}")), Act::Respond { answer });
        }
    }

    #[test]
    fn a_second_act_is_told_with_both_places() {
        let file = "/etc/anchorite/anchorite.toml";
        assert_eq!(
            said("respond = 404\nroot = \"/a\"\ntry = [\"/a\"]"),
            [
                format!("5:1: a rule does one thing: \"root\" is a second act, but it has \"respond\" at {file}:4:1"),
                format!("6:1: a rule does one thing: \"try\" is a second act, but it has \"respond\" at {file}:4:1"),
            ]
        );
    }

    #[test]
    fn an_alias_needs_a_path_that_cannot_climb_out() {
        let unclear = "with \"alias\" does not say what is looked up beneath the directory, \
                       expected an exact path, or one that ends in \"/*\"";
        for (path, said_of_it) in [
            (
                "/alias*",
                "\"/alias*\" with \"alias\" would also answer \"/alias../\", outside of the directory, expected \"/alias/*\"".to_owned(),
            ),
            ("*.png", format!("\"*.png\" {unclear}")),
            ("*", format!("\"*\" {unclear}")),
            ("/a/*/b", format!("\"/a/*/b\" {unclear}")),
            (
                "/a/*/b*",
                "\"/a/*/b*\" with \"alias\" would also answer \"/a/*/b../\", outside of the directory, expected \"/a/*/b/*\"".to_owned(),
            ),
        ] {
            assert_eq!(said(&format!("path = [\"/x/*\", \"{path}\"]\nalias = \"/usr/a\"")), [format!("4:17: {said_of_it}")]);
        }
        assert_eq!(
            said("alias = \"/usr/a\""),
            ["4:1: \"alias\" needs a \"path\", expected path = \"/icons/*\", or \"root\" to look the whole path up in another directory"]
        );
    }

    #[test]
    fn what_belongs_to_another_act_is_told() {
        for (lines, said_of_it) in [
            (
                "status = 301\nheader = { A = \"b\" }",
                "4:1: \"status\" is only for \"redirect\", expected \"redirect\" beside it, or respond = 404 instead",
            ),
            ("respond = 404\nstatus = 404", "5:1: \"status\" is only for \"redirect\", expected the status as the value of \"respond\""),
            ("respond_body = \"a\"", "4:1: \"respond_body\" is only for \"respond\", expected a status beside it, such as respond = 200"),
            ("respond = \"health\"\nrespond_body = \"a\"", "5:1: the page \"health\" has a body of its own"),
            ("respond = 204\nrespond_body = \"a\"", "5:1: a response with status 204 has no body"),
        ] {
            assert_eq!(said(lines), [said_of_it]);
        }
    }

    #[test]
    fn a_rule_responds_only_with_what_stands_alone() {
        let range = "it answers a request for a range, which only the server can do";
        let condition = "it answers a conditional request, which only the server can do";
        let all = "expected 200 to 599";
        for (status, help) in [
            ("206", range),
            ("416", range),
            ("304", condition),
            ("412", condition),
            ("301", "it needs a Location; expected \"redirect\" with \"status\""),
            ("100", "it is not the end of an answer; expected 200 to 599"),
            ("0", all),
            ("600", all),
            ("-1", all),
            ("0x1_0000", all),
        ] {
            assert_eq!(said(&format!("respond = {status}")), [format!("4:11: {status} is not a status to respond with, {help}")]);
        }
        for (value, said_of_it) in [
            ("\"404\"", "4:11: \"404\" is a string, expected it without quotes: respond = 404"),
            ("\"heath\"", "4:11: \"respond\" in [[site.rule]] is \"heath\", did you mean \"health\"?"),
            ("\"\"", "4:11: \"respond\" in [[site.rule]] is \"\", expected \"status\", \"metrics\" or \"health\""),
            (
                "true",
                "4:11: \"respond\" in [[site.rule]] is a boolean, expected a status such as 404, or \"status\", \"metrics\" or \"health\"",
            ),
        ] {
            assert_eq!(said(&format!("respond = {value}")), [said_of_it]);
        }
    }

    #[test]
    fn rewrites_and_candidates_are_paths() {
        for path in ["/a?b={query}", "{path}", "{1}.html", "/{host}"] {
            assert_eq!(said(&format!("path = \"*.x\"\nrewrite = \"{path}\"")), [""; 0], "{path}");
        }
        let begin = "expected it to begin with \"/\", \"{path}\" or a capture";
        for (path, help) in [
            ("", begin),
            ("a", begin),
            ("{host}/", begin),
            ("=404", "expected a path; a rule behind this one can answer, such as respond = 404 with exists = \"none\""),
            ("https://a/", "expected a path; for another address there is \"redirect\""),
        ] {
            let help = format!("\"{path}\" is not a path, {help}");
            assert_eq!(said(&format!("rewrite = \"{path}\"")), [format!("4:11: {help}")]);
            assert_eq!(said(&format!("try = [\"/a\", \"{path}\"]")), [format!("4:14: {help}")]);
        }
        assert_eq!(said("try = []"), [format!("4:7: \"try\" has no candidate, expected {TRY_EXPECTED}")]);
        assert_eq!(said("try = \"/a\""), [format!("4:7: \"try\" in [[site.rule]] is a string, expected {TRY_EXPECTED}")]);
        assert_eq!(said("path = \"/a\"\nrewrite = \"/{1}\""), ["5:13: \"{1}\" stands for nothing, the path \"/a\" has no star"]);
    }
}
