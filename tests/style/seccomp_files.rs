//! The seccomp files of the architectures say the same, and give a reason for everything they say.

use crate::source::{files, read};
use serde_json::Value;
use std::collections::BTreeMap;

/// System calls that have another name on aarch64, which never had the older one.
const RENAMED: [(&str, &str); 2] = [("epoll_wait", "epoll_pwait"), ("readlink", "readlinkat")];

/// System calls that aarch64 does not have.
const ONLY_X86_64: [&str; 7] = ["iopl", "ioperm", "modify_ldt", "uselib", "ustat", "sysfs", "_sysctl"];

const LISTS: [&str; 3] = ["allow", "enosys", "deny"];

fn document(architecture: &str, role: &str) -> Value {
    let path = format!("policy/seccomp/{architecture}/{role}.json");
    serde_json::from_str(&read(&path)).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

fn roles() -> Vec<String> {
    let name = |path: std::path::PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    files("policy/seccomp/x86_64", ".json").into_iter().filter_map(name).collect()
}

/// Every rule by its call: the list it stands in and its conditions. The first list wins, as it does for `readlinkat`, which is
/// both allowed and the new name of what is answered ENOSYS.
fn rules(document: &Value, rename: bool) -> BTreeMap<String, (String, Value)> {
    let mut rules = BTreeMap::new();
    for list in LISTS {
        for rule in document[list].as_array().into_iter().flatten() {
            let name = rule["syscall"].as_str().expect("a call has a name");
            if rename && ONLY_X86_64.contains(&name) {
                continue;
            }
            let other = RENAMED.iter().find(|(old, _)| rename && *old == name).map_or(name, |(_, new)| new);
            rules.entry(other.to_owned()).or_insert_with(|| (list.to_owned(), rule["args"].clone()));
        }
    }
    rules
}

#[test]
fn both_architectures_have_a_file_for_the_same_roles() {
    let names = |architecture: &str| -> Vec<_> {
        let paths = files(&format!("policy/seccomp/{architecture}"), ".json").into_iter();
        paths.filter_map(|path| Some(path.file_name()?.to_owned())).collect()
    };
    assert_eq!(names("x86_64"), names("aarch64"));
    assert_eq!(roles().len(), anchorite::role::Role::ALL.len());
}

#[test]
fn both_architectures_have_the_same_rules() {
    for role in roles() {
        let (x86_64, aarch64) = (document("x86_64", &role), document("aarch64", &role));
        assert_eq!(rules(&x86_64, true), rules(&aarch64, false), "{role}; left: x86_64, renamed; right: aarch64");
    }
}

#[test]
fn every_rule_and_every_condition_has_a_comment() {
    for path in files("policy/seccomp", ".json") {
        let document: Value = serde_json::from_str(&read(&path)).expect("JSON");
        for rule in LISTS.iter().flat_map(|list| document[*list].as_array().into_iter().flatten()) {
            for place in std::iter::once(rule).chain(rule["args"].as_array().into_iter().flatten()) {
                let comment = place["comment"].as_str().unwrap_or("");
                assert!(!comment.trim().is_empty(), "{}: {rule}", path.display());
            }
        }
    }
}
