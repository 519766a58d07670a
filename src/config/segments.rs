//! Lists of what is compared with one segment of a path: names of index files, patterns of what is hidden. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::Item;

/// Names of index files.
pub(super) fn read_index(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<String> {
    read_list(item, "a list of file names", faults, check_index)
}

/// Patterns of what is hidden.
pub(super) fn read_hidden(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<String> {
    read_list(item, "a list of patterns", faults, check_hidden)
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
