//! Every directory that the sites serve from, by number: the parent shows them to workers, which open them in this order.

use super::{Act, BackendAddress, Config, JailMode, ScriptPlace, Site, Symlinks};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A directory beneath which files are looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    #[serde(with = "super::slice::path_bytes")]
    pub path: PathBuf,
    pub symlinks: Symlinks,
    /// Whether it may as well be a file, which an empty path then means: what an exact path is an alias of.
    pub may_be_file: bool,
    /// Whether a site that serves from it shows directories to clients, by itself or by a rule: nobody else need learn their names.
    pub lists: bool,
}

/// Every directory that the sites serve from: first each site's root, in their order, then those of their rules, each once; and for
/// each rule of each site the number of its own.
pub fn directories(sites: &[Site]) -> (Vec<Base>, Vec<Vec<usize>>) {
    let of =
        |site: &Site, path: &Path, may_be_file| Base { path: path.to_owned(), symlinks: site.symlinks, may_be_file, lists: lists(site) };
    let mut bases: Vec<Base> = sites.iter().map(|site| of(site, &site.root, false)).collect();
    let mut known = BTreeMap::new();
    let mut numbers = Vec::new();
    for site in sites {
        let number = site.rules.iter().map(|rule| {
            if let Some(path) = rule.act.as_ref().and_then(Act::sendfile) {
                known.entry((path.to_owned(), follows(site.symlinks), false)).or_insert_with(|| {
                    bases.push(of(site, path, false));
                    bases.len() - 1
                });
            }
            let Some(directory) = rule.act.as_ref().and_then(Act::directory) else {
                return 0;
            };
            let may_be_file = rule.act.as_ref().is_some_and(is_alias)
                && (rule.matchers.regex.is_some() || rule.matchers.path.iter().any(|path| !path.contains('*')));
            let key = (directory.base.clone(), follows(site.symlinks), may_be_file);
            let number = *known.entry(key).or_insert_with(|| {
                bases.push(of(site, &directory.base, may_be_file));
                bases.len() - 1
            });
            // Another site may have brought it.
            bases[number].lists |= lists(site);
            number
        });
        numbers.push(number.collect());
    }
    (bases, numbers)
}

impl Config {
    /// Every path that is looked up before anything is served.
    pub fn paths(&self) -> BTreeSet<PathBuf> {
        let shown = directories(&self.sites).0.into_iter().map(|base| base.path).chain(self.jail.also.iter().cloned());
        let root = match &self.jail.mode {
            JailMode::Mount => None,
            JailMode::Chroot(root) => Some(root.clone()),
        };
        let sockets = self.backends.iter().flat_map(|backend| &backend.addresses).filter_map(|address| match address {
            BackendAddress::Unix(path) => Some(path.clone()),
            BackendAddress::Tcp { .. } | BackendAddress::Name { .. } => None,
        });
        let spool = Some(self.server.spool.clone()).filter(|_| !self.backends.is_empty());
        shown.chain(root).chain(sockets).chain(spool).chain(self.secrets.iter().map(|(file, _)| file.clone())).collect()
    }
}

fn lists(site: &Site) -> bool {
    site.listing || site.rules.iter().any(|rule| rule.changes.listing == Some(true))
}

/// Whether an exact path may be that of a file.
fn is_alias(act: &Act) -> bool {
    match act {
        Act::Alias(_) => true,
        Act::Backend(to) => matches!(to.place, Some(ScriptPlace::Alias(_))),
        Act::Root(_) | Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. } => false,
    }
}

/// A policy for links as something that can be ordered.
fn follows(symlinks: Symlinks) -> u8 {
    match symlinks {
        Symlinks::Never => 0,
        Symlinks::Owner => 1,
        Symlinks::Inside => 2,
        Symlinks::Any => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn a_directory_is_listed_where_a_site_that_serves_from_it_lists() {
        let rule = |path: &str, more: &str| format!("[[site.rule]]\npath = \"{path}\"\n{more}\n");
        let site = |name: &str, more: &str| format!("[[site]]\nname = \"{name}\"\nroot = \"/{name}\"\n{more}\n");
        let shared = rule("/s/*", "root = \"/shared\"");
        let text = [
            site("closed", &(shared.clone() + &rule("/o/*", "root = \"/only\""))),
            site("open", &format!("listing = true\n{shared}")),
            site("ruled", &rule("/x/*", "listing = true")),
            site("shut", &rule("/x/*", "listing = false")),
        ];
        let config = parse(&text.concat(), Path::new("/f.toml")).unwrap();
        let told = directories(&config.sites).0.into_iter().map(|base| (base.path.display().to_string(), base.lists));
        let expected = [("/closed", false), ("/open", true), ("/ruled", true), ("/shut", false), ("/shared", true), ("/only", false)];
        assert_eq!(told.collect::<Vec<_>>(), expected.map(|(path, lists)| (path.to_owned(), lists)));
    }
}
