//! Which site, which file, and what answer: decisions without I/O.
//!
//! Runs in the confined `worker`. Nothing here opens a file or reads a clock: what must be known of the disk is asked of the worker
//! ([`plan::Step::Ask`]), and nothing panics on foreign bytes.

#![forbid(unsafe_code)]

pub mod error_page;
pub mod listing;
pub mod mime;
pub mod pattern;
pub mod plan;

use crate::config::Site;

/// The sites, with an index over their names.
///
/// Names lie in sorted tables and not in a hash table, so that no choice of `Host` makes a look-up slow (oCERT-2011-003) and none needs
/// random keys.
#[derive(Debug)]
pub struct Sites {
    sites: Vec<Site>,
    /// Whole names, sorted.
    exact: Vec<(Vec<u8>, usize)>,
    /// What stands behind the star of `*.example.org`, its dot included, sorted.
    wildcards: Vec<(Vec<u8>, usize)>,
    /// Where requests go that no name matches.
    default: usize,
}

impl Sites {
    /// Takes the configuration's sites, which are never none. Of two with the same name the first has it.
    pub fn new(sites: Vec<Site>) -> Sites {
        let names = || {
            sites
                .iter()
                .enumerate()
                .flat_map(|(at, site)| site.name.iter().map(move |name| (name.as_str(), at)))
        };
        let exact = table(names().filter(|(name, _)| !name.is_empty() && !name.starts_with("*.")));
        let wildcards = table(names().filter_map(|(name, at)| Some((name.strip_prefix('*').filter(|name| name.starts_with('.'))?, at))));
        let default = names().find(|(name, _)| name.is_empty()).map_or(0, |(_, at)| at);
        Sites {
            exact,
            wildcards,
            default,
            sites,
        }
    }

    /// The site for a host (without its port): that of the name, else of the longest wildcard, else the one named `""`, else the first.
    /// Case and one dot at the end do not matter (RFC 9110, 4.2.3).
    pub fn select(&self, host: Option<&[u8]>) -> usize {
        let Some(host) = host.filter(|_| self.sites.len() > 1) else {
            return self.default;
        };
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut lower = [0; NAME_MAX];
        // A longer one is no name of the domain name system.
        let Some(lower) = lower.get_mut(..host.len()) else {
            return self.default;
        };
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        find(&self.exact, lower).or_else(|| self.wildcard(lower)).unwrap_or(self.default)
    }

    /// The site that [`Sites::select`] gave the number of.
    pub fn get(&self, site: usize) -> &Site {
        &self.sites[site]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sites.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// From the first dot on the suffixes get shorter, so the first hit is the longest. What the star stands for is never empty.
    fn wildcard(&self, host: &[u8]) -> Option<usize> {
        if self.wildcards.is_empty() {
            return None;
        }
        memchr::memchr_iter(b'.', host)
            .filter(|&dot| dot > 0)
            .find_map(|dot| find(&self.wildcards, &host[dot..]))
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
    table
        .binary_search_by(|(entry, _)| entry.as_slice().cmp(name))
        .ok()
        .map(|at| table[at].1)
}

/// Bytes of the longest domain name in text form (RFC 1035, 2.3.4).
const NAME_MAX: usize = 255;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::Symlinks;

    /// A site with the defaults of the configuration.
    pub(crate) fn site(names: &[&str]) -> Site {
        let text = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Site {
            name: text(names),
            listen: Vec::new(),
            root: "/srv".into(),
            root_rest: Default::default(),
            index: text(&["index.html"]),
            listing: false,
            hidden: text(&[".*", "*~", "*.bak", "#*#"]),
            symlinks: Symlinks::Owner,
            error_pages: Vec::new(),
            charset: "utf-8".into(),
            access_log: None,
            rules: Vec::new(),
        }
    }

    #[test]
    fn h08_hosts_select_sites() {
        let sites = Sites::new(vec![
            site(&["a.test", "www.a.test"]),
            site(&["*.b.test"]),
            site(&["*.c.b.test", "b.test"]),
            site(&["", "xn--bcher-kva.test", "[::1]"]),
            site(&["a.test", ""]),
        ]);
        let table: &[(&str, usize)] = &[
            ("a.test", 0),
            ("WWW.A.Test.", 0),
            ("a.test..", 3),
            ("b.test", 2),
            ("x.b.test", 1),
            ("y.x.b.test", 1),
            ("c.b.test", 1),
            ("X.C.B.TEST", 2),
            ("y.x.c.b.test.", 2),
            (".b.test", 3),
            (".", 3),
            ("", 3),
            ("bb.test", 3),
            ("*.b.test", 1),
            ("XN--BCHER-KVA.test", 3),
            ("[::1]", 3),
            ("unknown", 3),
        ];
        for (host, expected) in table {
            assert_eq!(sites.select(Some(host.as_bytes())), *expected, "{host}");
        }
        assert_eq!(sites.select(None), 3);
        assert_eq!(sites.select(Some(&b"a.".repeat(10_000))), 3);
        assert_eq!(sites.get(1).name, ["*.b.test"]);
        assert_eq!(sites.len(), 5);
    }

    #[test]
    fn without_a_default_the_first_site_answers() {
        let sites = Sites::new(vec![site(&["a.test"]), site(&["b.test"])]);
        assert_eq!(sites.select(Some(b"c.test")), 0);
        assert_eq!(sites.select(Some(b"b.test")), 1);
        assert_eq!(sites.select(None), 0);
    }

    #[test]
    fn a_single_site_answers_every_host() {
        let sites = Sites::new(vec![site(&["a.test"])]);
        assert_eq!(sites.select(Some(b"b.test")), 0);
    }
}
