//! `[[site]]`: read and checked. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::names;
use super::{Site, Symlinks, log, paths};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A site, and where its root stands if it is given.
pub(super) struct Read {
    pub(super) site: Site,
    pub(super) root_at: std::ops::Range<usize>,
}

/// Every site of the document, in order.
pub(super) fn read(top: &Table<'_>, base: &Path, faults: &mut Faults<'_>) -> Vec<Read> {
    let mut taken = HashMap::new();
    let tables = top.tables(&names::SITE, faults);
    if top.item("site").is_none_or(|item| item.is_empty_list()) {
        faults.report_missing(0..0, "no site is configured", "expected at least one [[site]] with a \"root\"");
    }
    tables.iter().map(|table| read_one(table, base, &mut taken, faults)).collect()
}

/// What a site is when only its root is given.
pub(super) fn with_defaults(root: PathBuf) -> Site {
    Site {
        name: vec![String::new()],
        root,
        index: vec!["index.html".to_owned()],
        listing: false,
        hidden: HIDDEN.map(str::to_owned).to_vec(),
        symlinks: Symlinks::Owner,
        charset: "utf-8".to_owned(),
        access_log: None,
        rules: Vec::new(),
    }
}

fn read_one(table: &Table<'_>, base: &Path, taken: &mut HashMap<String, usize>, faults: &mut Faults<'_>) -> Read {
    let root = table.item("root");
    if root.is_none() {
        faults.report_missing(
            table.at.clone(),
            "this site has no \"root\"",
            "expected the directory to serve, such as root = \"/var/www/html\"",
        );
    }
    let root_at = root.as_ref().map_or(table.at.clone(), |item| item.at.clone());
    let path = root
        .and_then(|item| item.text("a directory", faults))
        .and_then(|text| paths::directory(&text, base, faults));
    let mut site = with_defaults(path.unwrap_or_default());
    site.name = read_names(table, taken, faults).unwrap_or(site.name);
    if let Some(item) = table.item("index") {
        site.index = read_list(&item, "a list of file names", faults, check_index);
    }
    if let Some(item) = table.item("hidden") {
        site.hidden = read_list(&item, "a list of patterns", faults, check_hidden);
    }
    if let Some(listing) = table.item("listing").and_then(|item| item.boolean(faults)) {
        site.listing = listing;
    }
    if let Some(symlinks) = table.item("symlinks").and_then(|item| item.choice(&SYMLINKS, faults)) {
        site.symlinks = symlinks;
    }
    if let Some(charset) = table
        .item("charset")
        .and_then(|item| item.text("the name of a character set, or \"\"", faults))
    {
        site.charset = read_charset(&charset, faults);
    }
    if let Some(item) = table.item("access_log") {
        site.access_log = log::read_access_log(&item, base, faults);
    }
    Read { site, root_at }
}

/// The names of a site, each on no other site.
fn read_names(table: &Table<'_>, taken: &mut HashMap<String, usize>, faults: &mut Faults<'_>) -> Option<Vec<String>> {
    let Some(item) = table.item("name") else {
        take(String::new(), table.at.clone(), taken, faults);
        return None;
    };
    let texts = item.text_or_texts("a host name or a list of them", faults)?;
    if item.is_empty_list() {
        item.report(
            "\"name\" in [[site]] is empty",
            "expected a host name, or \"\" for requests that match no other site",
            faults,
        );
    }
    let mut list = Vec::new();
    for text in &texts {
        match host_name(text.value) {
            Ok(name) => {
                take(name.clone(), text.at.clone(), taken, faults);
                list.push(name);
            }
            Err(help) => faults.report(text.at.clone(), format!("{} is not a host name", quoted(text.value)), help),
        }
    }
    Some(list)
}

fn take(name: String, at: std::ops::Range<usize>, taken: &mut HashMap<String, usize>, faults: &mut Faults<'_>) {
    match taken.get(&name) {
        Some(first) => {
            let help = format!("first given at {}", faults.place_name(*first));
            let what = match name.as_str() {
                "" => "requests that match no name have a site already".to_owned(),
                name => format!("{} is already the name of a site", quoted(name)),
            };
            faults.report(at, what, help);
        }
        None => {
            taken.insert(name, at.start);
        }
    }
}

/// A name as it is compared with a request's: lower case, without the root's dot. RFC 1123, section 2.1, and `_`, which is in use.
fn host_name(written: &str) -> Result<String, &'static str> {
    let name = written.to_ascii_lowercase();
    if name.is_empty() {
        return Ok(name);
    }
    let name = name.strip_suffix('.').unwrap_or(&name);
    let host = name.strip_prefix("*.").unwrap_or(name);
    if name == "*" {
        return Err("expected \"\" for requests that match no other site");
    }
    if !host.is_ascii() {
        return Err("expected its ASCII form, which begins with \"xn--\"");
    }
    if host.contains('*') {
        return Err("expected \"*\" only as the whole first label, such as \"*.example.org\"");
    }
    if host.contains(':') {
        return Err("expected a name without a port");
    }
    if name.len() > NAME_MAX {
        return Err("expected at most 253 characters");
    }
    if !host.split('.').all(is_label) {
        return Err("expected labels of 1 to 63 letters, digits, \"-\" and \"_\" with dots between them");
    }
    Ok(name.to_owned())
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_MAX).contains(&label.len())
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn read_list(item: &Item<'_>, expected: &str, faults: &mut Faults<'_>, check: fn(&str) -> Result<(), &'static str>) -> Vec<String> {
    let mut list = Vec::new();
    for text in item.texts(expected, faults).unwrap_or_default() {
        match check(text.value) {
            Ok(()) => list.push(text.value.to_owned()),
            Err(help) => faults.report(text.at.clone(), format!("{} is not possible here", quoted(text.value)), help),
        }
    }
    list
}

/// An index file is looked up in the directory itself and nowhere else.
fn check_index(name: &str) -> Result<(), &'static str> {
    match name {
        "" | "." | ".." => Err("expected the name of a file"),
        _ if name.contains(['/', '\0']) => Err("expected the name of a file, without \"/\""),
        _ => Ok(()),
    }
}

/// A pattern is compared with one segment of a path, so one with a slash would hide nothing, silently.
fn check_hidden(pattern: &str) -> Result<(), &'static str> {
    if pattern.is_empty() {
        return Err("expected a pattern, such as \".*\"");
    }
    if pattern.contains(['/', '\0']) {
        return Err("expected a pattern for one segment of a path, without \"/\"");
    }
    Ok(())
}

/// It stands in a response header unquoted: RFC 9110, section 5.6.2, token.
fn read_charset(text: &Text<'_>, faults: &mut Faults<'_>) -> String {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !text.value.bytes().all(is_token) {
        let help = "expected a token such as \"utf-8\", or \"\" to send none";
        faults.report(
            text.at.clone(),
            format!("{} is not the name of a character set", quoted(text.value)),
            help,
        );
    }
    text.value.to_owned()
}

/// Characters of a host name without its last dot: RFC 1035, section 2.3.4.
const NAME_MAX: usize = 253;
/// Characters of a label, from the same section.
const LABEL_MAX: usize = 63;
/// Dot files, editors' backups and autosaves.
const HIDDEN: [&str; 4] = [".*", "*~", "*.bak", "#*#"];
const SYMLINKS: [(&str, Symlinks); 4] = [
    ("never", Symlinks::Never),
    ("owner", Symlinks::Owner),
    ("inside", Symlinks::Inside),
    ("any", Symlinks::Any),
];

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::read::told;
    use super::*;

    fn sites(text: &str) -> Vec<Site> {
        parse(text, Path::new("/etc/anchorite/anchorite.toml")).unwrap().sites
    }

    fn said(line: &str) -> Vec<String> {
        told(&format!("[[site]]\nroot = \"/srv/www\"\n{line}\n"))
    }

    fn named(name: &str) -> Vec<String> {
        sites(&format!("[[site]]\nroot = \"/srv/www\"\nname = {name}\n"))[0].name.clone()
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let expected = Site {
            name: vec![String::new()],
            root: PathBuf::from("/srv/www"),
            index: vec!["index.html".to_owned()],
            listing: false,
            hidden: vec![".*".to_owned(), "*~".to_owned(), "*.bak".to_owned(), "#*#".to_owned()],
            symlinks: Symlinks::Owner,
            charset: "utf-8".to_owned(),
            access_log: None,
            rules: Vec::new(),
        };
        assert_eq!(sites("[[site]]\nroot = \"/srv/www\"\n"), [expected]);
    }

    #[test]
    fn every_key_is_read() {
        let text = "[[site]]\nname = [\"a.example\", \"*.b.example\"]\nroot = \"www\"\nindex = [\"a.html\", \"b.html\"]\nlisting = true\n\
                    hidden = []\nsymlinks = \"any\"\ncharset = \"\"\n[[site]]\nname = \"b\"\nroot = \"../www\"\nsymlinks = \"never\"\n";
        let expected = Site {
            name: vec!["a.example".to_owned(), "*.b.example".to_owned()],
            root: PathBuf::from("/etc/anchorite/www"),
            index: vec!["a.html".to_owned(), "b.html".to_owned()],
            listing: true,
            hidden: Vec::new(),
            symlinks: Symlinks::Any,
            charset: String::new(),
            access_log: None,
            rules: Vec::new(),
        };
        let read = sites(text);
        assert_eq!(read[0], expected);
        assert_eq!((read[1].root.as_path(), read[1].symlinks), (Path::new("/etc/www"), Symlinks::Never));
        assert_eq!(read[1].name, ["b"]);
    }

    #[test]
    fn names_are_compared_as_requests_are() {
        assert_eq!(named("\"Example.ORG.\""), ["example.org"]);
        let plain = ["", "*.a.example", "a_b.example", "127.0.0.1", "xn--bcher-kva.example"];
        assert_eq!(
            named("[\"\", \"*.A.example\", \"a_b.example\", \"127.0.0.1\", \"xn--bcher-kva.example\"]"),
            plain
        );
        let longest = format!("{}.{}", ["a".repeat(63).as_str(); 3].join("."), "a".repeat(61));
        assert_eq!(named(&format!("\"{longest}.\"")), [longest.as_str()]);
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        let labels = "expected labels of 1 to 63 letters, digits, \"-\" and \"_\" with dots between them";
        let star = "expected \"*\" only as the whole first label, such as \"*.example.org\"";
        let label = "a".repeat(64);
        for (name, help) in [
            ("*", "expected \"\" for requests that match no other site"),
            ("bücher.example", "expected its ASCII form, which begins with \"xn--\""),
            ("a.*.example", star),
            ("*a.example", star),
            ("example.org:80", "expected a name without a port"),
            ("a..b", labels),
            (".", labels),
            ("-a.example", labels),
            ("a-.example", labels),
            ("a b", labels),
            ("http//a", labels),
            (&label, labels),
        ] {
            assert_eq!(
                said(&format!("name = [\"{name}\"]")),
                [format!("3:9: {name:?} is not a host name, {help}")]
            );
        }
        let long = ["a".repeat(60).as_str(); 5].join(".");
        assert!(said(&format!("name = \"{long}\""))[0].ends_with("is not a host name, expected at most 253 characters"));
        assert_eq!(
            said("name = 1"),
            ["3:8: \"name\" in [[site]] is an integer, expected a host name or a list of them"]
        );
        assert_eq!(
            said("name = [1]"),
            ["3:9: \"name\" in [[site]] holds an integer, expected a host name or a list of them"]
        );
        assert_eq!(
            said("name = []"),
            ["3:8: \"name\" in [[site]] is empty, expected a host name, or \"\" for requests that match no other site"]
        );
    }

    #[test]
    fn a_name_on_two_sites_is_told_with_both_places() {
        let file = "/etc/anchorite/anchorite.toml";
        assert_eq!(
            told("[[site]]\nname = \"a.example\"\nroot = \"/a\"\n[[site]]\nname = [\"b\", \"A.Example.\"]\nroot = \"/b\"\n"),
            [format!(
                "5:14: \"a.example\" is already the name of a site, first given at {file}:2:8"
            )]
        );
        assert_eq!(
            told("[[site]]\nroot = \"/a\"\n[[site]]\nroot = \"/b\"\n"),
            [format!(
                "3:1: requests that match no name have a site already, first given at {file}:1:1"
            )]
        );
    }

    #[test]
    fn a_site_needs_a_root_and_a_file_needs_a_site() {
        assert_eq!(
            told("[[site]]\nname = \"a\"\n"),
            ["1:1: this site has no \"root\", expected the directory to serve, such as root = \"/var/www/html\""]
        );
        for text in ["", "# nothing\n", "[server]\n", "site = []\n"] {
            assert_eq!(
                told(text),
                ["1:1: no site is configured, expected at least one [[site]] with a \"root\""],
                "{text:?}"
            );
        }
        assert_eq!(
            told("site = [1]\n"),
            ["1:9: \"site\" holds an integer, expected only tables, each begun with [[site]]"]
        );
        assert_eq!(
            told("[site]\nroot = \"/a\"\n"),
            ["1:2: \"site\" is a table, expected a list of tables, each begun with [[site]]"]
        );
    }

    #[test]
    fn a_root_is_a_directory_beneath_the_root_of_all() {
        for (root, said_of_it) in [
            ("\"/\"", "2:8: \"/\" is the whole file system, expected a directory beneath \"/\""),
            ("\"\"", "2:8: \"\" is not a path, expected a path"),
            (
                "\"/a/../..\"",
                "2:8: \"/a/../..\" has \"..\" after a name, expected \"..\" only at the beginning",
            ),
            ("\"a\\u0000\"", "2:8: \"a\\0\" holds a NUL, expected a path"),
            ("1", "2:8: \"root\" in [[site]] is an integer, expected a directory"),
        ] {
            assert_eq!(told(&format!("[[site]]\nroot = {root}\n")), [said_of_it]);
        }
    }

    #[test]
    fn the_other_keys_are_checked() {
        for (line, said_of_it) in [
            (
                "index = \"a\"",
                "3:9: \"index\" in [[site]] is a string, expected a list of file names",
            ),
            ("index = [\"\"]", "3:10: \"\" is not possible here, expected the name of a file"),
            (
                "index = [\"a\", \"..\"]",
                "3:15: \"..\" is not possible here, expected the name of a file",
            ),
            ("index = [\".\"]", "3:10: \".\" is not possible here, expected the name of a file"),
            (
                "index = [\"a/b\"]",
                "3:10: \"a/b\" is not possible here, expected the name of a file, without \"/\"",
            ),
            (
                "hidden = [\"\"]",
                "3:11: \"\" is not possible here, expected a pattern, such as \".*\"",
            ),
            (
                "hidden = [\"a/*\"]",
                "3:11: \"a/*\" is not possible here, expected a pattern for one segment of a path, without \"/\"",
            ),
            (
                "hidden = false",
                "3:10: \"hidden\" in [[site]] is a boolean, expected a list of patterns",
            ),
            (
                "listing = \"yes\"",
                "3:11: \"listing\" in [[site]] is a string, expected true or false",
            ),
            (
                "symlinks = \"onwer\"",
                "3:12: \"symlinks\" in [[site]] is \"onwer\", did you mean \"owner\"?",
            ),
            (
                "symlinks = \"x\"",
                "3:12: \"symlinks\" in [[site]] is \"x\", expected \"never\", \"owner\", \"inside\" or \"any\"",
            ),
            (
                "charset = \"utf-8\\r\\nX: y\"",
                "3:11: \"utf-8\\r\\nX: y\" is not the name of a character set, expected a token such as \"utf-8\", or \"\" to send none",
            ),
            (
                "charset = 8",
                "3:11: \"charset\" in [[site]] is an integer, expected the name of a character set, or \"\"",
            ),
        ] {
            assert_eq!(said(line), [said_of_it]);
        }
    }
}
