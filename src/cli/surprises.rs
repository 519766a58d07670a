//! What a start accepts and yet will surprise somebody: told by `anchorite check` as warnings.
//!
//! Error pages are looked up as the worker would, with the rights of its user. Files that other servers obey are looked for in each document
//! root and the directories in it, no deeper: a check must not read whole trees.

use super::{programs, sockets};
use crate::config::{Act, Config, Site};
use crate::proto::head;
use crate::proto::status::Status;
use crate::proto::target;
use crate::site::Sites;
use crate::site::facts::{Facts, Origin};
use crate::site::plan::{Answer, Lookup, Outcome, Plan, RootRef, Step};
use crate::sys::file::{Found, Links, Root};
use crate::sys::privilege::{self, Identity};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// A text for each.
pub(super) fn find(config: &Config, identity: Identity) -> Vec<String> {
    let mut found = sockets::find(config, identity);
    found.extend(programs::find(config));
    let mut left = LOOKED_AT_MAX;
    let mut roots: HashSet<&Path> = HashSet::new();
    // Made when the first script or page is found, which is never on most servers.
    let sites = OnceCell::new();
    let sites = || -> &Sites { sites.get_or_init(|| Sites::new(config.sites.clone())) };
    // Where captures follow, the root is another for each host.
    for (number, site) in config.sites.iter().enumerate().filter(|(_, site)| site.root_rest.parts.is_empty()) {
        error_pages(site, identity, |status| is_source(sites(), number, status), &mut found);
        found.extend(unreachable_rules(site));
        if site.rules.iter().any(|rule| matches!(rule.act, Some(Act::Backend(_)))) {
            unsent_sources(sites(), number, &mut left, &mut found);
        }
        if roots.insert(&site.root) {
            let served = |name: &[u8]| {
                let sites = sites();
                let mut same = (0..sites.len()).filter(|number| sites.get(*number).root == site.root);
                same.any(|number| is_served(sites, number, name))
            };
            ignored_files(&site.root, served, &mut left, &mut found);
        }
    }
    found
}

fn error_pages(site: &Site, identity: Identity, is_source: impl Fn(u16) -> bool, found: &mut Vec<String>) {
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
            Ok(Found::File(_)) if is_source(*status) => "is the source of a script, which is not sent: a page is a file".to_owned(),
            Ok(Found::File(_)) => continue,
            Ok(Found::Directory | Found::NotRegular) => "is no regular file".to_owned(),
            Ok(Found::Missing | Found::Unfollowed(_)) => "is not there".to_owned(),
            Ok(Found::Denied) => format!("may not be read by user id {}", identity.uid),
            Ok(Found::Busy) => "is being moved".to_owned(),
            Ok(Found::Failed(fault)) | Err(fault) => fault.to_string(),
        };
        found.push(format!("site \"{name}\": the page for {status}, \"{page}\" beneath \"{}\", {why}", site.root.display()));
    }
}

/// Whether a client of the network gets a file of this name in the root of the site: neither is it hidden nor does a rule keep it.
fn is_served(sites: &Sites, number: usize, name: &[u8]) -> bool {
    let mut target = b"/".to_vec();
    target::encode(name, &mut target);
    let served = |facts: &Facts<'_>| {
        let (outcome, plan) = outcome(sites, number, facts);
        matches!(outcome, Outcome::File(())) && plan.lookup() == Lookup { root: RootRef(number), path: name }
    };
    of_request(&target, served).unwrap_or(true)
}

/// Whether the site's page for an error is never sent, since it is a script.
fn is_source(sites: &Sites, number: usize, status: u16) -> bool {
    let is_looked_for = |facts: &Facts<'_>| {
        Status::of(status).is_none_or(|status| Plan::default().begin_error_page::<()>(sites.compiled(number), facts, status).is_some())
    };
    of_request(b"/", is_looked_for) == Some(false)
}

/// Scripts that lie where files are served and that no rule runs: the first in each such directory, or in the directories in it.
fn unsent_sources(sites: &Sites, number: usize, left: &mut usize, found: &mut Vec<String>) {
    let site = sites.get(number);
    let mut places: Vec<(&Path, Vec<u8>)> = vec![(&site.root, b"/".to_vec())];
    for rule in &site.rules {
        match &rule.act {
            Some(Act::Root(directory)) if directory.rest.parts.is_empty() => places.push((&directory.base, b"/".to_vec())),
            Some(Act::Alias(directory)) if directory.rest.parts.is_empty() => {
                let stems = rule.matchers.path.iter().filter_map(|path| path.strip_suffix('*')).filter(|stem| !stem.contains('*'));
                places.extend(stems.map(|stem| (directory.base.as_path(), stem.as_bytes().to_vec())));
            }
            _ => {}
        }
    }
    places.sort();
    places.dedup();
    for (directory, stem) in places {
        let is_unsent = |path: &[u8]| is_script(path) && ends_as_source(sites, number, directory, &stem, path);
        if let Some(script) = first_beneath(directory, is_unsent, left) {
            let text = format!("\"{}\" is the source of a script, and no rule of its site runs it: clients get 403", script.display());
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
}

/// The first file in a directory, or in the directories in it, whose path beneath it is so.
fn first_beneath(directory: &Path, mut is_so: impl FnMut(&[u8]) -> bool, left: &mut usize) -> Option<PathBuf> {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries(directory) {
        *left = left.checked_sub(1)?;
        let name = entry.file_name();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                for inner in entries(&entry.path()) {
                    *left = left.checked_sub(1)?;
                    let path = [name.as_encoded_bytes(), b"/", inner.file_name().as_encoded_bytes()].concat();
                    if inner.file_type().is_ok_and(|kind| kind.is_file()) && is_so(&path) {
                        return Some(inner.path());
                    }
                }
            }
            Ok(kind) if kind.is_file() && is_so(name.as_encoded_bytes()) => return Some(entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
    None
}

/// Whether a request for what lies beneath a directory is answered 403, since it is the source of a script.
fn ends_as_source(sites: &Sites, number: usize, directory: &Path, stem: &[u8], path: &[u8]) -> bool {
    let mut target = Vec::new();
    target::encode(stem, &mut target);
    target::encode(path, &mut target);
    let ends = |facts: &Facts<'_>| {
        let (outcome, plan) = outcome(sites, number, facts);
        let lookup = plan.lookup();
        let is_there = sites.directories().get(lookup.root.0).is_some_and(|base| base.path == directory) && lookup.path == path;
        matches!(outcome, Outcome::Source) && is_there
    };
    of_request(&target, ends) == Some(true)
}

/// What comes of a request where every file is there.
fn outcome(sites: &Sites, number: usize, facts: &Facts<'_>) -> (Outcome<()>, Plan) {
    let (site, mut plan) = (sites.compiled(number), Plan::default());
    let mut step = plan.begin(site, facts);
    loop {
        match step {
            Step::Ask => step = plan.resume(site, facts, Answer::File(())),
            Step::Done(outcome) => return (outcome, plan),
        }
    }
}

/// What is so of a request of a client of the network; `None`: there can be no such request.
fn of_request(target: &[u8], what: impl FnOnce(&Facts<'_>) -> bool) -> Option<bool> {
    let request = [b"GET ", target, b" HTTP/1.0\r\n\r\n"].concat();
    let limits = head::HeadLimits { request_line: 4096, header_bytes: 4096, header_count: 1 };
    let (mut space, mut path) = (head::field_space(), target::Path::default());
    let request = head::parse(&request, &mut space, &limits).ok()?;
    target::parse_into(request.path, &mut path).ok()?;
    let client = Ipv4Addr::new(192, 0, 2, 1);
    Some(what(&Facts::of(&request, &path, Origin::direct(client.into()))))
}

/// `.htaccess`, in a root and in the directories in it; and in the root the first script that would be `served`.
fn ignored_files(root: &Path, served: impl Fn(&[u8]) -> bool, left: &mut usize, found: &mut Vec<String>) {
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
        } else if script.is_none() && is_script(entry.file_name().as_encoded_bytes()) && served(entry.file_name().as_encoded_bytes()) {
            script = Some(entry.path());
        }
    }
    if let Some(script) = script {
        found
            .push(format!("\"{}\" is a script, and nothing here runs it: clients would get its source; deny or hide it", script.display()));
    }
}

fn is_script(name: &[u8]) -> bool {
    SCRIPTS.iter().any(|end| name.ends_with(end.as_bytes()))
}

/// Rules behind one that matches everything and ends the run.
fn unreachable_rules(site: &Site) -> Option<String> {
    let ends = |act: &Option<Act>| {
        matches!(act, Some(Act::Root(_) | Act::Alias(_) | Act::Redirect { .. } | Act::Respond { .. } | Act::Backend(_)))
    };
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
    fn a_rule_that_is_never_reached_is_told() {
        let root = tempfile::tempdir().unwrap();
        let never = "[[site.rule]]\npath = \"/x\"\nrespond = 404\n[[site.rule]]\nrespond = 404\n[[site.rule]]\nexpires = \"1d\"\n";
        let warnings = found(never, root.path());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("/f.toml:8: this rule is never reached"), "{warnings:?}");
    }

    #[test]
    fn a_script_is_told_unless_no_client_gets_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a b.php"), "").unwrap();
        for kept in [
            "hidden = [\"*.php\"]\n",
            "[[site.rule]]\npath = \"*.php\"\nrespond = 404\n",
            "[[site.rule]]\npath = \"*.php\"\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n",
            "[[site.rule]]\npath = \"*.php\"\nroot = \"/elsewhere\"\n",
        ] {
            assert_eq!(found(kept, root.path()), Vec::<String>::new(), "{kept}");
        }
        for served in ["", "[[site.rule]]\npath = \"*.php\"\nallow = \"0.0.0.0/0\"\n", "[[site.rule]]\npath = \"*.php4\"\nrespond = 404\n"]
        {
            let told = found(served, root.path());
            assert!(told.len() == 1 && told[0].contains("a b.php"), "{served}: {told:?}");
        }
    }

    #[test]
    fn a_page_that_is_a_script_is_told() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("error.php"), "").unwrap();
        std::fs::write(root.path().join("error.html"), "").unwrap();
        let rules = "error_pages = { 404 = \"/error.php\", 403 = \"/error.html\" }\n[[site.rule]]\npath = \"*.php\"\nbackend = \"b\"\n\
                     [backend.b]\ntype = \"http\"\naddress = [\"127.0.0.1:1\"]\n";
        let warnings = found(rules, root.path());
        let told = warnings.iter().filter(|line| line.contains("the page for")).collect::<Vec<_>>();
        assert!(told.len() == 1 && told[0].contains("the page for 404") && told[0].contains("source of a script"), "{warnings:?}");
    }

    #[test]
    fn a_script_that_no_rule_runs_is_told_where_it_lies() {
        let root = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("up")).unwrap();
        std::fs::write(root.path().join("index.php"), "").unwrap();
        std::fs::write(root.path().join("up/x y.php"), "").unwrap();
        std::fs::write(other.path().join("z.php"), "").unwrap();
        let backend = "[backend.b]\ntype = \"http\"\naddress = [\"127.0.0.1:1\"]\n";
        let run = "[[site.rule]]\npath = \"*.php\"\nbackend = \"b\"\n";
        let told = |rules: String| {
            let warnings = found(&format!("{rules}{backend}"), root.path());
            warnings.into_iter().filter(|line| line.contains("is the source of a script")).collect::<Vec<_>>()
        };
        assert_eq!(told(run.to_owned()), [""; 0]);
        let up = format!("[[site.rule]]\npath = \"/up/*\"\nroot = {:?}\n", root.path());
        let warnings = told(format!("{up}{run}"));
        assert!(warnings.len() == 1 && warnings[0].contains("up/x y.php\" is"), "{warnings:?}");
        let alias = format!("[[site.rule]]\npath = [\"/o/*\", \"/p/*\"]\nalias = {:?}\n", other.path());
        let warnings = told(format!("{alias}{run}"));
        assert!(warnings.len() == 1 && warnings[0].contains("z.php\" is"), "{warnings:?}");
        assert_eq!(told(format!("{run}{up}{alias}")), [""; 0]);
        assert_eq!(told(format!("[[site.rule]]\npath = \"/up/*\"\ndeny = \"0.0.0.0/0\"\n{up}{run}")), [""; 0]);
    }

    #[test]
    fn an_ordinary_site_surprises_nobody() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("index.html"), "").unwrap();
        let rules = "[[site.rule]]\nheader = { X = \"y\" }\n[[site.rule]]\nredirect = \"/\"\n";
        assert_eq!(found(rules, root.path()), Vec::<String>::new());
    }
}
