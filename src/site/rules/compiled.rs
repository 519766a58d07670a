//! The rules of a site as they run: everything that can be decided before the first request. Does no I/O.

use super::super::lookup::RootRef;
use super::super::template;
use super::alias::{Alias, Place};
use super::matchers::Compiled;
use super::scripts::Backend;
use crate::config::{Act, Coding, Network, RequestRate, Rule, Site, Template};
use crate::proto::basic;
use crate::proto::target::Path;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// The rules of one site, ready to run.
#[derive(Debug, Default)]
pub(in crate::site) struct Rules {
    pub(super) rules: Vec<OneRule>,
    /// The numbers of those with `allow`, `deny` or `auth`.
    pub(super) access: Vec<usize>,
    /// What is looked up, and listed where nothing acts, lies beneath this.
    pub(super) place: Place,
    /// What stands behind the star of each of the site's names that has one, longest first, its dot included.
    pub(super) stars: Vec<Vec<u8>>,
    /// Names of the site without a star: what the star stands for is then nothing.
    exact: Vec<Vec<u8>>,
    /// A regular expression does not compile, which the configuration's reader refuses. Every request is then refused: a `deny` may be lost.
    pub(super) broken: bool,
    /// The numbers of those that run scripts.
    scripts: Vec<usize>,
}

/// One rule.
#[derive(Debug)]
pub(super) struct OneRule {
    pub(super) matchers: Compiled,
    pub(super) changes: Changes,
    pub(super) act: Option<Doing>,
    /// Whether `{1}` is of the site's name, since the rule itself has no captures.
    pub(super) of_name: bool,
}

/// How often a client may ask for what one rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Tells what is counted for this rule from all else.
    pub rule: u64,
    pub rate: RequestRate,
}

/// What a rule changes, ready to be put to use.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) header: Vec<(Arc<str>, Text)>,
    pub(super) expires: Option<Duration>,
    pub(super) allow: Vec<Network>,
    pub(super) deny: Vec<Network>,
    /// The number of the `[auth.NAME]`, and what asks for a user of it.
    pub(super) auth: Option<(u16, Arc<[u8]>)>,
    pub(super) body: Option<u64>,
    pub(super) requests: Option<Quota>,
    pub(super) listing: Option<bool>,
    pub(super) index: bool,
    pub(super) compress: Option<Arc<[Coding]>>,
    pub(super) cache: Option<Duration>,
    pub(super) rate: Option<u64>,
}

/// A header's value.
#[derive(Debug)]
pub(super) enum Text {
    Fixed(Arc<[u8]>),
    Template(Template),
}

/// An act, ready to be done.
#[derive(Debug)]
pub(super) enum Doing {
    Root(Place),
    Alias(Alias),
    Redirect { to: Template, status: u16 },
    Rewrite(Template),
    Try(Vec<Template>),
    Respond(crate::config::Respond),
    Backend(Backend),
}

impl Rules {
    /// Compiles the rules of a site. `root` is the number of its root, `roots` those of the directories of its rules.
    pub(in crate::site) fn new(site: &Site, root: RootRef, roots: &[RootRef]) -> Rules {
        let mut rules = Rules { place: Place::new(root, site.root_rest.clone()), ..Rules::default() };
        for name in site.name.iter().filter(|name| !name.is_empty()) {
            match name.strip_prefix('*') {
                Some(behind) => rules.stars.push(behind.as_bytes().to_vec()),
                None => rules.exact.push(name.as_bytes().to_vec()),
            }
        }
        rules.stars.sort_by_key(|behind| std::cmp::Reverse(behind.len()));
        for (number, rule) in site.rules.iter().enumerate() {
            match OneRule::new(rule, roots.get(number).copied().unwrap_or_default()) {
                Some(mut compiled) => {
                    compiled.changes.requests = rule.changes.requests.map(|rate| quota(site, number, rate));
                    rules.rules.push(compiled);
                }
                None => rules.broken = true,
            }
            if matches!(rule.act, Some(Act::Backend(_))) {
                rules.scripts.push(number);
            }
            if !(rule.changes.allow.is_empty() && rule.changes.deny.is_empty() && rule.changes.auth.is_none()) {
                rules.access.push(number);
            }
        }
        rules
    }

    /// Whether a path alone says what is looked up beneath the site's root.
    pub(in crate::site) fn is_empty(&self) -> bool {
        self.rules.is_empty() && !self.broken && self.place.is_literal()
    }

    /// Whether any rule has `allow`, `deny` or `auth`.
    pub(in crate::site) fn limits_access(&self) -> bool {
        !self.access.is_empty()
    }

    /// Whether any rule runs scripts.
    pub(in crate::site) fn run_scripts(&self) -> bool {
        !self.scripts.is_empty()
    }

    /// Whether a path is that of a script of any rule: such a file is never sent as it is, whichever rule acts.
    pub(in crate::site) fn is_source(&self, path: &Path) -> bool {
        self.scripts.iter().filter_map(|number| self.rules.get(*number)).any(|rule| rule.is_source(path))
    }

    /// What the star of the site's name stands for, in lower case; empty for a name without one.
    pub(super) fn star(&self, host: Option<&[u8]>) -> Vec<u8> {
        let Some(host) = host.map(<[u8]>::to_ascii_lowercase) else {
            return Vec::new();
        };
        if self.exact.contains(&host) {
            return Vec::new();
        }
        let star = self.stars.iter().find_map(|behind| host.strip_suffix(behind.as_slice()));
        star.map(<[u8]>::to_vec).unwrap_or_default()
    }
}

/// All workers must give a rule the same number, also those of another generation if it has not changed: this hash has a fixed key.
fn quota(site: &Site, number: usize, rate: RequestRate) -> Quota {
    let mut hasher = std::hash::DefaultHasher::new();
    (&site.name, number, rate).hash(&mut hasher);
    Quota { rule: hasher.finish(), rate }
}

impl OneRule {
    fn is_source(&self, path: &Path) -> bool {
        match &self.act {
            Some(Doing::Backend(backend)) => self.matchers.is_source(path, backend.checks_mounts()),
            Some(Doing::Root(_) | Doing::Alias(_) | Doing::Redirect { .. } | Doing::Rewrite(_) | Doing::Try(_) | Doing::Respond(_))
            | None => false,
        }
    }

    fn new(rule: &Rule, root: RootRef) -> Option<OneRule> {
        let act = rule.act.as_ref().map(|act| match act {
            Act::Root(directory) => Doing::Root(Place::new(root, directory.rest.clone())),
            Act::Alias(directory) => Doing::Alias(Alias::new(root, directory.rest.clone())),
            Act::Redirect { to, status } => Doing::Redirect { to: to.clone(), status: *status },
            Act::Rewrite(to) => Doing::Rewrite(to.clone()),
            Act::Try(candidates) => Doing::Try(candidates.clone()),
            Act::Respond { answer } => Doing::Respond(answer.clone()),
            Act::Backend(to) => Doing::Backend(Backend::new(to, rule, root)),
        });
        let of_name = rule.matchers.regex.is_none() && !rule.matchers.path.iter().any(|path| path.contains('*'));
        Some(OneRule { matchers: Compiled::new(rule)?, changes: Changes::new(&rule.changes), act, of_name })
    }
}

impl Changes {
    fn new(changes: &crate::config::Changes) -> Changes {
        let text = |value: &Template| {
            if !template::is_fixed(value) {
                return Text::Template(value.clone());
            }
            let mut out = Vec::new();
            template::header(value, &template::Unknown, &mut out);
            Text::Fixed(out.into())
        };
        Changes {
            header: changes.header.iter().map(|(name, value)| (Arc::from(name.as_str()), text(value))).collect(),
            expires: changes.expires,
            allow: changes.allow.clone(),
            deny: changes.deny.clone(),
            auth: changes.auth.as_ref().map(|auth| (auth.number, basic::challenge(&auth.realm).into_bytes().into())),
            body: changes.body,
            requests: None,
            listing: changes.listing,
            index: changes.index.is_some(),
            compress: changes.compress.as_deref().map(Arc::from),
            cache: changes.cache,
            rate: changes.rate,
        }
    }
}
