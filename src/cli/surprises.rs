//! What `anchorite check` warns of: nothing that is wrong, but what somebody who came from another server does not expect.
//!
//! Looks at the beginning of each document root only: enough to meet what lies openly there, in bounded time.

use crate::config::{Act, Config, Site};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

/// Every warning, a line each.
pub(super) fn surprises(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for site in &config.sites {
        warnings.extend(unreachable_rules(site));
        let found = look_around(&site.root);
        if let Some(path) = found.htaccess {
            warnings
                .push(format!("\"{}\" is not read: this server has no .htaccess files; its settings belong into rules", path.display()));
        }
        if let Some(path) = found.script {
            warnings
                .push(format!("\"{}\" is a script, and no rule has it run: clients would get its source; deny or hide it", path.display()));
        }
    }
    warnings
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

#[derive(Default)]
struct Found {
    htaccess: Option<PathBuf>,
    script: Option<PathBuf>,
}

/// Looks at the first entries of a directory and of those beneath it.
fn look_around(root: &Path) -> Found {
    let (mut found, mut looked) = (Found::default(), 0);
    let mut ahead = VecDeque::from([(root.to_owned(), 0)]);
    while let Some((directory, depth)) = ahead.pop_front() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            looked += 1;
            if looked > ENTRIES_MAX {
                return found;
            }
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if name == ".htaccess" {
                found.htaccess.get_or_insert(path);
            } else if SCRIPTS.iter().any(|end| name.ends_with(end)) && !name.starts_with('.') {
                found.script.get_or_insert(path);
            } else if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                ahead.push_back((path, depth + 1));
            }
        }
    }
    found
}

/// Files that other servers run.
const SCRIPTS: [&str; 6] = [".php", ".phtml", ".cgi", ".pl", ".fcgi", ".py"];

const ENTRIES_MAX: usize = 2_000;
const DEPTH_MAX: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_openly_in_a_root_is_told_once() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("blog")).unwrap();
        for name in [".htaccess", "blog/.htaccess", "blog/index.php", "a.html"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let text = format!(
            "[[site]]\nroot = {:?}\n[[site.rule]]\npath = \"/x\"\nrespond = 404\n[[site.rule]]\nrespond = 404\n[[site.rule]]\nexpires = \"1d\"\n",
            root.path()
        );
        let config = crate::config::parse(&text, Path::new("/f.toml")).unwrap();
        let warnings = surprises(&config);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].starts_with("/f.toml:8: this rule is never reached"), "{warnings:?}");
        assert!(warnings[1].contains(".htaccess") && warnings[2].contains("index.php"), "{warnings:?}");
    }

    #[test]
    fn an_ordinary_site_surprises_nobody() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("index.html"), "").unwrap();
        let text =
            format!("[[site]]\nroot = {:?}\n[[site.rule]]\nheader = {{ X = \"y\" }}\n[[site.rule]]\nredirect = \"/\"\n", root.path());
        assert_eq!(surprises(&crate::config::parse(&text, Path::new("/f.toml")).unwrap()), Vec::<String>::new());
    }
}
