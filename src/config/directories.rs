//! Every directory that the sites serve from, by number: the parent shows them to workers, which open them in this order.

use super::{Act, Site, Symlinks};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A directory beneath which files are looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    #[serde(with = "super::slice::path_bytes")]
    pub path: PathBuf,
    pub symlinks: Symlinks,
    /// Whether it may as well be a file, which an empty path then means: what an exact path is an alias of.
    pub may_be_file: bool,
}

/// Every directory that the sites serve from: first each site's root, in their order, then those of their rules, each once; and for
/// each rule of each site the number of its own.
pub fn directories(sites: &[Site]) -> (Vec<Base>, Vec<Vec<usize>>) {
    let mut bases: Vec<Base> =
        sites.iter().map(|site| Base { path: site.root.clone(), symlinks: site.symlinks, may_be_file: false }).collect();
    let mut known = BTreeMap::new();
    let mut numbers = Vec::new();
    for site in sites {
        let number = site.rules.iter().map(|rule| match &rule.act {
            Some(Act::Root(directory)) => Some((directory, false)),
            Some(Act::Alias(directory)) => {
                let starless = rule.matchers.regex.is_some() || rule.matchers.path.iter().any(|path| !path.contains('*'));
                Some((directory, starless))
            }
            None | Some(Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. }) => None,
        });
        let number = number.map(|directory| {
            let Some((directory, may_be_file)) = directory else {
                return 0;
            };
            let key = (directory.base.clone(), follows(site.symlinks), may_be_file);
            *known.entry(key).or_insert_with(|| {
                bases.push(Base { path: directory.base.clone(), symlinks: site.symlinks, may_be_file });
                bases.len() - 1
            })
        });
        numbers.push(number.collect());
    }
    (bases, numbers)
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
