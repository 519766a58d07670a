//! `[[site]]`: read and checked. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::names;
use super::{Site, Symlinks, paths};
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
    if tables.is_empty() && top.item("site").is_none() {
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
    Read { site, root_at }
}

/// The names of a site, each on no other site.
fn read_names(table: &Table<'_>, taken: &mut HashMap<String, usize>, faults: &mut Faults<'_>) -> Option<Vec<String>> {
    let Some(item) = table.item("name") else {
        take(String::new(), table.at.clone(), taken, faults);
        return None;
    };
    let texts = item.text_or_texts("a host name or a list of them", faults)?;
    if texts.is_empty() {
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
            let what = if name.is_empty() {
                "a second site for requests that match no name".to_owned()
            } else {
                format!("{} names a second site", quoted(&name))
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
