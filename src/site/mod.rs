//! Which site, which file, and what answer: decisions without I/O.
//!
//! Runs in the confined `worker`. Nothing here opens a file or reads a clock: what must be known of the disk is asked of the worker
//! ([`plan::Step::Ask`]), and nothing panics on foreign bytes.

#![forbid(unsafe_code)]

pub mod error_page;
pub mod explain;
pub mod facts;
pub mod form;
pub mod https;
pub mod listing;
pub mod log_format;
pub mod look;
pub mod lookup;
pub mod mime;
mod names;
pub mod origin;
pub mod parameters;
pub mod pattern;
pub mod plan;
pub mod relay;
mod rules;
pub mod script;
pub mod status_page;
pub mod template;
pub mod trace;

pub use names::Chosen;
pub use rules::{Quota, ResponseChanges};

use crate::config::{Listen, Site};
use lookup::{Base, RootRef};
use names::Names;
use rules::Rules;
use std::collections::BTreeMap;

/// The sites, with an index over their names.
#[derive(Debug)]
pub struct Sites {
    sites: Vec<Compiled>,
    directories: Vec<Base>,
    /// First that of all sites; then, where some site has addresses of its own, those that answer at each address.
    doors: Vec<(Option<Listen>, Names)>,
}

/// Which sites answer at the address that a connection was made to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Door(usize);

/// A site with its rules compiled.
#[derive(Debug)]
pub struct Compiled {
    pub site: Site,
    root: RootRef,
    rules: Rules,
}

impl Compiled {
    /// Whether there are rules; if not, what a path leads to depends on the path alone, so that an earlier answer may stand for it.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }
}

impl Sites {
    /// Takes the configuration's sites, which are never none, and compiles their rules. Of two with the same name the first has it.
    pub fn new(sites: Vec<Site>) -> Sites {
        Sites::listening(sites, &[], &[])
    }

    /// The same for a server that listens on these addresses, plain and for TLS, for the sites that have none of their own.
    pub fn listening(sites: Vec<Site>, server: &[Listen], tls: &[Listen]) -> Sites {
        let (directories, roots) = lookup::enumerate(&sites);
        let doors = doors(&sites, server, tls);
        let compile = |(number, (site, roots)): (usize, (Site, Vec<RootRef>))| Compiled {
            root: RootRef(number),
            rules: Rules::new(&site, RootRef(number), &roots),
            site,
        };
        Sites { sites: sites.into_iter().zip(roots).enumerate().map(compile).collect(), directories, doors }
    }

    /// Whether sites differ by the address that a connection was made to.
    pub fn has_doors(&self) -> bool {
        self.doors.len() > 1
    }

    /// The door of a connection that was made to an address of this machine.
    pub fn door(&self, local: &Listen) -> Door {
        let mut narrowest: Option<(usize, &Listen)> = None;
        for (at, (address, _)) in self.doors.iter().enumerate() {
            let Some(address) = address.as_ref().filter(|address| address.covers(local)) else {
                continue;
            };
            // At `0.0.0.0` the sites of `[::]` answer too, but not the other way round.
            if narrowest.is_none_or(|(_, other)| other.covers(address)) {
                narrowest = Some((at, address));
            }
        }
        Door(narrowest.map_or(0, |(at, _)| at))
    }

    /// The site for a host (without its port): that of the name, else of the longest wildcard, else the one named `""`, else the first.
    /// Case and one dot at the end do not matter (RFC 9110, 4.2.3).
    pub fn select(&self, host: Option<&[u8]>) -> usize {
        self.select_at(Door::default(), host)
    }

    /// The same among those that answer at a door.
    pub fn select_at(&self, door: Door, host: Option<&[u8]>) -> usize {
        self.doors.get(door.0).map_or(0, |(_, names)| names.select(host))
    }

    /// The same, and why.
    pub fn choose(&self, door: Door, host: Option<&[u8]>) -> (usize, Chosen) {
        self.doors.get(door.0).map_or((0, Chosen::Default), |(_, names)| names.choose(host))
    }

    /// The site that [`Sites::select`] gave the number of.
    pub fn get(&self, site: usize) -> &Site {
        &self.sites[site].site
    }

    /// The same with its rules, for a plan.
    pub fn compiled(&self, site: usize) -> &Compiled {
        &self.sites[site]
    }

    /// Every directory that is served from, by its number ([`RootRef`]).
    pub fn directories(&self) -> &[Base] {
        &self.directories
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sites.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }
}

/// The names of all sites, and those at each address if any site has addresses of its own.
fn doors(sites: &[Site], server: &[Listen], tls: &[Listen]) -> Vec<(Option<Listen>, Names)> {
    let all: Vec<usize> = (0..sites.len()).collect();
    let mut doors = vec![(None, Names::new(sites, &all))];
    if sites.iter().all(|site| site.listen.is_empty() && site.tls_listen.is_empty()) {
        return doors;
    }
    let own = sites.iter().flat_map(|site| site.listen.iter().chain(&site.tls_listen));
    let addresses: BTreeMap<String, &Listen> = server.iter().chain(tls).chain(own).map(|address| (address.to_string(), address)).collect();
    for address in addresses.into_values() {
        let answers = |number: &usize| {
            let Some(site) = sites.get(*number) else { return false };
            let plain = if site.listen.is_empty() { server } else { &site.listen };
            let tls = if site.tls_listen.is_empty() { tls } else { &site.tls_listen };
            plain.iter().chain(tls).any(|own| own.covers(address))
        };
        let numbers: Vec<usize> = all.iter().copied().filter(answers).collect();
        doors.push((Some(address.clone()), Names::new(sites, &numbers)));
    }
    doors
}

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
            compress: crate::config::Coding::ALL.to_vec(),
            https_redirect: false,
            tls_listen: Vec::new(),
            tls: None,
            http2: true,
            hsts: None,
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
    fn sites_answer_at_their_own_addresses_only() {
        let tcp = |text: &str| Listen::Tcp(text.parse().unwrap());
        let unix = Listen::Unix("/run/x".into());
        let mut admin = site(&["a.test"]);
        admin.listen = vec![tcp("127.0.0.1:81"), unix.clone()];
        let mut four = site(&["four.test", ""]);
        four.listen = vec![tcp("0.0.0.0:80")];
        let sites = Sites::listening(vec![admin, site(&["a.test", "b.test"]), four], &[tcp("[::]:80"), tcp("10.0.0.1:82")], &[]);
        let at = |local: &Listen, host: &str| sites.select_at(sites.door(local), Some(host.as_bytes()));
        for (local, host, expected) in [
            ("127.0.0.1:81", "a.test", 0),
            ("127.0.0.1:81", "b.test", 0),
            ("127.0.0.1:80", "a.test", 1),
            ("127.0.0.1:80", "four.test", 2),
            ("127.0.0.1:80", "x", 2),
            ("[::1]:80", "four.test", 1),
            ("10.0.0.1:82", "x", 1),
        ] {
            assert_eq!(at(&tcp(local), host), expected, "{local} {host}");
        }
        assert_eq!(at(&unix, "b.test"), 0);
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
