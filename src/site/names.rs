//! Which of several sites a host name means.
//!
//! Runs in the `worker`; does no I/O. Names lie in sorted tables and not in a hash table, so that no choice of `Host` makes a look-up slow
//! (oCERT-2011-003) and none needs random keys.

use crate::config::Site;

/// Why a site answers a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    Name,
    Wildcard,
    Default,
}

/// An index over the names of some sites.
#[derive(Debug)]
pub(super) struct Names {
    /// Whole names, sorted.
    exact: Vec<(Vec<u8>, usize)>,
    /// What stands behind the star of `*.example.org`, its dot included, sorted.
    wildcards: Vec<(Vec<u8>, usize)>,
    /// Where requests go that no name matches.
    default: usize,
    /// There is one site only, which answers every host.
    single: bool,
}

impl Names {
    /// Of the sites with these numbers; of two with the same name the first has it.
    pub(super) fn new(sites: &[Site], numbers: &[usize]) -> Names {
        let names = || {
            let named = numbers.iter().filter_map(|&number| Some((number, sites.get(number)?)));
            named.flat_map(|(number, site)| site.name.iter().map(move |name| (name.as_str(), number)))
        };
        let behind_star = |name: &'_ str| name.strip_prefix('*').is_some_and(|name| name.starts_with('.'));
        let default = names().find(|(name, _)| name.is_empty()).map(|(_, number)| number);
        Names {
            exact: table(names().filter(|(name, _)| !name.is_empty() && !name.starts_with("*."))),
            wildcards: table(names().filter(|(name, _)| behind_star(name)).map(|(name, number)| (&name[1..], number))),
            default: default.or(numbers.first().copied()).unwrap_or(0),
            single: numbers.len() == 1,
        }
    }

    /// Case and one dot at the end do not matter (RFC 9110, 4.2.3).
    pub(super) fn choose(&self, host: Option<&[u8]>) -> (usize, Chosen) {
        let default = (self.default, Chosen::Default);
        let Some(host) = host else { return default };
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut lower = [0; NAME_MAX];
        // A longer one is no name of the domain name system.
        let Some(lower) = lower.get_mut(..host.len()) else {
            return default;
        };
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        let name = find(&self.exact, lower).map(|site| (site, Chosen::Name));
        name.or_else(|| Some((self.wildcard(lower)?, Chosen::Wildcard))).unwrap_or(default)
    }

    /// The same without the reason; nothing need be looked up where there is one site.
    pub(super) fn select(&self, host: Option<&[u8]>) -> usize {
        if self.single { self.default } else { self.choose(host).0 }
    }

    /// From the first dot on the suffixes get shorter, so the first hit is the longest. What the star stands for is never empty.
    fn wildcard(&self, host: &[u8]) -> Option<usize> {
        if self.wildcards.is_empty() {
            return None;
        }
        memchr::memchr_iter(b'.', host).filter(|&dot| dot > 0).find_map(|dot| find(&self.wildcards, &host[dot..]))
    }
}

fn table<'a>(names: impl Iterator<Item = (&'a str, usize)>) -> Vec<(Vec<u8>, usize)> {
    let mut table: Vec<_> = names.map(|(name, at)| (name.as_bytes().to_ascii_lowercase(), at)).collect();
    // By name, then by site: the first of a name stays.
    table.sort();
    table.dedup_by(|later, first| later.0 == first.0);
    table
}

fn find(table: &[(Vec<u8>, usize)], name: &[u8]) -> Option<usize> {
    table.binary_search_by(|(entry, _)| entry.as_slice().cmp(name)).ok().map(|at| table[at].1)
}

/// Bytes of the longest domain name in text form (RFC 1035, 2.3.4).
const NAME_MAX: usize = 255;
