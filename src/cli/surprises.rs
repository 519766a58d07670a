//! What a start accepts and yet will surprise somebody: told by `anchorite check` as warnings.
//!
//! Error pages are looked up as the worker would, with the rights of its user. Files that other servers obey are looked for in each document
//! root and the directories in it, no deeper: a check must not read whole trees.

use crate::config::{Config, Site};
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

/// `.htaccess`, in a root and in the directories in it.
fn ignored_files(root: &Path, left: &mut usize, found: &mut Vec<String>) {
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
        }
    }
}

/// Directory entries that are looked at, over all sites.
const LOOKED_AT_MAX: usize = 20_000;
