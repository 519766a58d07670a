//! What rules with `cgi` can run at all: role `spawn` has no worker's word for it. Does no I/O.
//!
//! Made once for each generation. It says less than the rules, which look at more than paths: what it does not permit none of them runs.

use super::rule::Part;
use super::{Act, Rule, ScriptPlace, Site, Template, directories, wildcard};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A directory, or one program, as a path without links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRoot {
    #[serde(with = "super::slice::path_bytes")]
    pub path: PathBuf,
    /// What may be run beneath it: what any of these permits. Empty: nothing.
    pub scopes: Vec<Scope>,
}

/// What one path of one rule can run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// How a program's path beneath the directory begins, with a slash before it and, unless `exact`, one behind it.
    pub begins: String,
    /// How it ends.
    pub ends: String,
    /// It is `begins`, which is empty for the directory itself.
    pub exact: bool,
    /// The first segments that no request chooses, or only as a capture.
    pub given: usize,
    /// Whether what follows them is the path of a request, in which `.well-known` may stand first (RFC 8615).
    pub whole: bool,
    /// `hidden` of the site.
    pub hidden: Vec<String>,
    /// DOCUMENT_ROOT, or what it lies beneath.
    #[serde(with = "super::slice::path_bytes")]
    pub document: PathBuf,
}

impl RunRoot {
    /// The directories that may be a program's DOCUMENT_ROOT, or that it lies beneath; empty: no rule runs this path.
    pub fn documents(&self, path: &[u8]) -> Vec<&Path> {
        self.scopes.iter().filter(|scope| scope.permits(path)).map(|scope| scope.document.as_path()).collect()
    }
}

impl Scope {
    /// `path` has no slash at either end, and no empty, `.` or `..` segment; empty: the directory itself.
    fn permits(&self, path: &[u8]) -> bool {
        let text = if path.is_empty() { Vec::new() } else { [b"/", path].concat() };
        let is_named = if self.exact {
            text == self.begins.as_bytes()
        } else {
            [text.as_slice(), b"/"].concat().starts_with(self.begins.as_bytes()) && text.ends_with(self.ends.as_bytes())
        };
        is_named && !self.is_hidden(path)
    }

    /// As for requests: `.well-known` at the root is not hidden, but what lies beneath it may be.
    fn is_hidden(&self, path: &[u8]) -> bool {
        let mut chosen = path.split(|&byte| byte == b'/').skip(self.given).enumerate();
        let is_hidden = |name: &[u8]| self.hidden.iter().any(|hidden| wildcard::matches(hidden.as_bytes(), name));
        chosen.any(|(at, name)| !(at == 0 && self.whole && name == b".well-known") && is_hidden(name))
    }
}

/// The directories, by their numbers, beneath which rules of the sites run programs.
pub fn run_roots(sites: &[Site]) -> Vec<RunRoot> {
    let (bases, numbers) = directories(sites);
    let mut roots = vec![RunRoot::default(); bases.len()];
    for (at, (site, numbers)) in sites.iter().zip(numbers).enumerate() {
        for (rule, number) in site.rules.iter().zip(numbers).filter(|(rule, _)| rule.runs_programs()) {
            let place = place(rule);
            // Without a directory of its own, beneath that of the site.
            let number = if place.is_some() { number } else { at };
            let (Some(root), Some(base)) = (roots.get_mut(number), bases.get(number)) else { continue };
            root.path.clone_from(&base.path);
            for scope in scopes(site, rule, place) {
                if !root.scopes.contains(&scope) {
                    root.scopes.push(scope);
                }
            }
        }
    }
    roots
}

fn place(rule: &Rule) -> Option<&ScriptPlace> {
    match rule.act.as_ref()? {
        Act::Backend(to) => to.place.as_ref(),
        Act::Root(_) | Act::Alias(_) | Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. } => None,
    }
}

/// One for each path of the rule; without a path whatever lies there.
fn scopes(site: &Site, rule: &Rule, place: Option<&ScriptPlace>) -> Vec<Scope> {
    let (alias, document, rest) = match place {
        None => (false, &site.root, &site.root_rest),
        Some(ScriptPlace::Root(directory)) => (false, &directory.base, &directory.rest),
        Some(ScriptPlace::Alias(directory)) => (true, &site.root, &directory.rest),
    };
    let given = segments(rest);
    let whatever = Scope { given, whole: !alias, hidden: site.hidden.clone(), document: document.clone(), ..Scope::default() };
    if rule.matchers.path.is_empty() {
        return vec![whatever];
    }
    let paths = rule.matchers.path.iter();
    paths.map(|path| Scope { hidden: whatever.hidden.clone(), document: document.clone(), ..scope(path, alias, given) }).collect()
}

fn scope(path: &str, alias: bool, given: usize) -> Scope {
    let (first, last) = path.split_once('*').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let ends = last.and_then(|rest| rest.rsplit('*').next()).unwrap_or_default().trim_end_matches('/').to_owned();
    // What is before an alias's last star, or before what a capture leads to, is no part of the path beneath the directory.
    let begins = if alias || given > 0 { "" } else { first };
    let exact = last.is_none() && given == 0;
    let begins = if exact { begins.trim_end_matches('/') } else { begins };
    Scope { begins: begins.to_owned(), ends, exact, given, whole: !alias, ..Scope::default() }
}

/// How many segments a template makes, at most.
fn segments(template: &Template) -> usize {
    let slashes = template.parts.iter().map(|part| match part {
        Part::Literal(text) => text.matches('/').count(),
        Part::Capture(_) | Part::Variable(_) | Part::Header(_) | Part::Query => 0,
    });
    if template.parts.is_empty() { 0 } else { slashes.sum::<usize>() + 1 }
}

#[cfg(test)]
mod tests {
    use super::super::read::with_a_site;
    use super::*;

    #[test]
    fn only_directories_of_programs_have_scopes() {
        let text = "[[site]]\nname = \"a\"\nroot = \"/a\"\n[[site.rule]]\npath = \"/i/*\"\nalias = \"/i\"\n[[site.rule]]\npath = \"/x/*\"\ncgi = \"/x\"\n\
                    [[site]]\nname = \"b\"\nroot = \"/b\"\n[[site.rule]]\npath = \"*.cgi\"\ncgi = true\n\
                    [[site]]\nname = \"c\"\nroot = \"/c\"\n[[site.rule]]\npath = \"*.cgi\"\nroot = \"/d\"\ncgi = true\n";
        let roots = run_roots(&with_a_site(text).sites);
        let roots: Vec<_> = roots.iter().map(|root| (root.path.to_str().unwrap(), root.scopes.len())).collect();
        assert_eq!(roots, [("", 0), ("/b", 1), ("", 0), ("", 0), ("", 0), ("/x", 1), ("/d", 1)]);
    }

    #[test]
    fn what_lies_outside_or_is_hidden_is_not_run() {
        let scope = |begins: &str, ends: &str, exact, given, whole| Scope {
            begins: begins.to_owned(),
            ends: ends.to_owned(),
            exact,
            given,
            whole,
            hidden: vec![".*".to_owned(), "*~".to_owned()],
            ..Scope::default()
        };
        let (prefix, suffix, exact) = (scope("/x/", "", false, 0, true), scope("", ".cgi", false, 0, true), scope("/x", "", true, 0, true));
        let (file, alias, given) = (scope("", "", true, 0, false), scope("", "", false, 0, false), scope("", "", false, 1, true));
        for (scope, path, expected) in [
            (&prefix, "x/a", true),
            (&prefix, "x/b/a", true),
            // A mount may be a program itself.
            (&prefix, "x", true),
            (&prefix, "y/a", false),
            (&prefix, "xa", false),
            (&prefix, "", false),
            (&prefix, "x/.git/hooks/a", false),
            (&prefix, "x/a~", false),
            (&suffix, "a/b.cgi", true),
            (&suffix, "a/b.sh", false),
            (&suffix, ".cgi", false),
            (&suffix, ".well-known/a.cgi", true),
            (&suffix, "a/.well-known/a.cgi", false),
            (&suffix, ".well-known/.a.cgi", false),
            (&exact, "x", true),
            (&exact, "x/a", false),
            (&file, "", true),
            (&file, "a", false),
            (&alias, "a/b", true),
            (&alias, ".well-known", false),
            (&given, ".config/a", true),
            (&given, ".config/.a", false),
            (&given, "a/.well-known/b", true),
        ] {
            assert_eq!(scope.permits(path.as_bytes()), expected, "{path} by {scope:?}");
        }
    }

    #[test]
    fn a_scope_says_what_the_path_of_its_rule_says() {
        for (path, act, begins, ends, exact, given) in [
            ("/x/*", "cgi = true", "/x/", "", false, 0),
            ("*.cgi", "cgi = true", "", ".cgi", false, 0),
            ("/a/*/b*.pl", "cgi = true", "/a/", ".pl", false, 0),
            ("/x", "cgi = true", "/x", "", true, 0),
            ("/x/", "cgi = true", "/x", "", true, 0),
            ("/x/*.cgi", "cgi = \"/d\"", "", ".cgi", false, 0),
            ("/x", "cgi = \"/d/x.cgi\"", "", "", true, 0),
            ("/x/*.cgi", "cgi = true\nroot = \"/d\"", "/x/", ".cgi", false, 0),
            ("/x/*/y/*.cgi", "cgi = true\nroot = \"/d/{1}/e\"", "", ".cgi", false, 2),
        ] {
            let text = format!("[[site]]\nname = \"a\"\nroot = \"/a\"\nhidden = [\"h\"]\n[[site.rule]]\npath = \"{path}\"\n{act}\n");
            let roots = run_roots(&with_a_site(&text).sites);
            let scopes: Vec<&Scope> = roots.iter().flat_map(|root| &root.scopes).collect();
            let document = if act.contains("root = ") { "/d" } else { "/a" };
            let expected = Scope {
                begins: begins.to_owned(),
                ends: ends.to_owned(),
                exact,
                given,
                whole: !act.contains("\"/d") || act.contains("root"),
                hidden: vec!["h".to_owned()],
                document: PathBuf::from(document),
            };
            assert_eq!(scopes, [&expected], "{path} {act}");
        }
    }
}
