//! What a start accepts and yet will surprise somebody: told by `anchorite check` as warnings.
//!
//! Error pages are looked up as the worker would, with the rights of its user. Files that other servers obey are looked for in each document
//! root and the directories in it, no deeper: a check must not read whole trees.

use crate::config::{Act, Config, Site};
use crate::sys::file::{Found, Links, Root};
use crate::sys::privilege::{self, Identity};
use std::collections::HashSet;
use std::path::Path;

/// A text for each.
pub(super) fn find(config: &Config, identity: Identity) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = LOOKED_AT_MAX;
    let mut roots: HashSet<&Path> = HashSet::new();
    // Where captures follow, the root is another for each host.
    for site in config.sites.iter().filter(|site| site.root_rest.parts.is_empty()) {
        error_pages(site, identity, &mut found);
        found.extend(unreachable_rules(site));
        if roots.insert(&site.root) {
            ignored_files(&site.root, &mut left, &mut found);
        }
    }
    found
}

fn error_pages(site: &Site, identity: Identity, found: &mut Vec<String>) {
    if site.error_pages.is_empty() {
        return;
    }
    let root = std::fs::canonicalize(&site.root).and_then(|root| Root::open(&root, Links::Any, false));
    // A root that cannot be had is a fault, told elsewhere.
    let Ok(root) = root else { return };
    let name = site.name.first().map_or("", String::as_str);
    for (status, page) in &site.error_pages {
        let path = page.trim_start_matches('/').as_bytes();
        let why = match privilege::with_rights_of(identity, || root.find(path)) {
            Ok(Found::File(_)) => continue,
            Ok(Found::Directory | Found::NotRegular) => "is no regular file".to_owned(),
            Ok(Found::Missing) => "is not there".to_owned(),
            Ok(Found::Denied) => format!("may not be read by user id {}", identity.uid),
            Ok(Found::Busy) => "is being moved".to_owned(),
            Ok(Found::Failed(fault)) | Err(fault) => fault.to_string(),
        };
        found.push(format!("site \"{name}\": the page for {status}, \"{page}\" beneath \"{}\", {why}", site.root.display()));
    }
}

/// `.htaccess`, in a root and in the directories in it; and in the root the first script.
fn ignored_files(root: &Path, left: &mut usize, found: &mut Vec<String>) {
    let mut script = None;
    let mut look = |directory: &Path| {
        let file = directory.join(".htaccess");
        if file.is_file() {
            found.push(format!("\"{}\" has no effect: this server does not read it", file.display()));
        }
    };
    look(root);
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look(&entry.path());
        } else if SCRIPTS.iter().any(|end| entry.file_name().as_encoded_bytes().ends_with(end.as_bytes())) {
            script.get_or_insert(entry.path());
        }
    }
    if let Some(script) = script {
        found
            .push(format!("\"{}\" is a script, and nothing here runs it: clients would get its source; deny or hide it", script.display()));
    }
}

/// Rules behind one that matches everything and ends the run.
fn unreachable_rules(site: &Site) -> Option<String> {
    let ends = |act: &Option<Act>| matches!(act, Some(Act::Root(_) | Act::Alias(_) | Act::Redirect { .. } | Act::Respond { .. }));
    let all = |path: &String| path == "*";
    let position = site.rules.iter().position(|rule| {
        let matchers = &rule.matchers;
        let only_path = crate::config::Matchers { path: matchers.path.clone(), ..Default::default() } == *matchers;
        ends(&rule.act) && only_path && (matchers.path.is_empty() || matchers.path.iter().any(all))
    })?;
    let (last, next) = (site.rules.get(position)?, site.rules.get(position + 1)?);
    let place = |place: &crate::config::RulePlace| format!("{}:{}", place.file, place.line);
    Some(format!("{}: this rule is never reached: the one at {} takes every request", place(&next.place), place(&last.place)))
}

/// Files that other servers run.
const SCRIPTS: [&str; 6] = [".php", ".phtml", ".cgi", ".pl", ".fcgi", ".py"];

/// Directory entries that are looked at, over all sites.
const LOOKED_AT_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rules: &str, root: &Path) -> Vec<String> {
        let text = format!("[[site]]\nroot = {root:?}\n{rules}");
        let (uid, gid) = privilege::own_ids();
        find(&crate::config::parse(&text, Path::new("/f.toml")).unwrap(), Identity { uid, gid, rootless: true })
    }

    #[test]
    fn a_script_and_a_rule_that_is_never_reached_are_told() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("index.php"), "").unwrap();
        let never = "[[site.rule]]\npath = \"/x\"\nrespond = 404\n[[site.rule]]\nrespond = 404\n[[site.rule]]\nexpires = \"1d\"\n";
        let warnings = found(never, root.path());
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("/f.toml:8: this rule is never reached"), "{warnings:?}");
        assert!(warnings[1].contains("index.php"), "{warnings:?}");
    }

    #[test]
    fn an_ordinary_site_surprises_nobody() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("index.html"), "").unwrap();
        let rules = "[[site.rule]]\nheader = { X = \"y\" }\n[[site.rule]]\nredirect = \"/\"\n";
        assert_eq!(found(rules, root.path()), Vec::<String>::new());
    }
}
