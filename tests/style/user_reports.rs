//! The table of `tests/features/user_reports.md`: no number twice, every test it names is there, and no test of a number is missing.

use crate::source::{files, read};
use std::collections::{BTreeMap, BTreeSet};

/// Number and what stands in its last cell.
fn table() -> Vec<(String, String)> {
    read("tests/features/user_reports.md")
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [number, _, by] = cells.as_slice() else { return None };
            number.bytes().all(|byte| byte.is_ascii_digit()).then(|| ((*number).to_owned(), (*by).to_owned()))
        })
        .collect()
}

/// Every function in tests and source.
fn functions() -> BTreeSet<String> {
    ["src", "tests/features", "tests/confinement"]
        .into_iter()
        .flat_map(|below| files(below, ".rs"))
        .flat_map(|path| {
            let text = read(path);
            text.lines().filter_map(|line| line.trim_start().strip_prefix("fn ")?.split('(').next().map(str::to_owned)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_number_stands_once_and_says_where_it_is_tested() {
    let (mut seen, functions) = (BTreeMap::new(), functions());
    let table = table();
    assert!(table.len() > 100, "{} rows", table.len());
    for (number, by) in &table {
        assert!(seen.insert(number.clone(), by.clone()).is_none(), "{number} stands twice");
        let named: Vec<&str> = by.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty() || by.contains("waits for: "), "{number} says neither where it is tested nor what it waits for");
        for name in named {
            // An id before a name that was there is no other test.
            let is_there =
                functions.iter().any(|function| function.strip_suffix(name).is_some_and(|id| id.is_empty() || id.ends_with('_')));
            assert!(is_there, "{number} names the test \"{name}\", which is not there");
        }
    }
    for name in functions.iter().filter(|name| name.starts_with("ur_")) {
        let number = name.get(3..6).unwrap_or("");
        let told = seen.get(number).is_some_and(|by| by.split('`').any(|named| named == name));
        assert!(told, "the row of {number:?} does not name \"{name}\"");
    }
}
