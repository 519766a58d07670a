//! Whether a rule applies to a request.
//!
//! All matchers that are present must match; `exists` comes last, since it may have to ask the disk. Everything takes linear time, whatever a
//! client sends.

use super::super::facts::Facts;
use super::super::lookup::Stands;
use super::super::pattern::{Part, Pattern};
use super::super::script::{Cut, Patterns};
use super::super::template;
use super::super::trace::Mismatch;
use super::alias::{self, Found};
use crate::config::{Act, Exists, Network, Rule, compile_regex};
use crate::proto::head::Method;
use crate::proto::target::Path;
use regex_automata::meta::Regex;

/// The matchers of a rule, ready to be compared.
#[derive(Debug)]
pub(super) struct Compiled {
    path: Vec<Pattern>,
    regex: Option<Regex>,
    /// Whether anything of the rule looks at what the regular expression's groups stand for.
    captures: bool,
    method: Vec<Vec<u8>>,
    client: Vec<Network>,
    host: Vec<String>,
    request_header: Vec<(String, Pattern)>,
    pub(super) exists: Option<Exists>,
    /// Patterns of an `alias` hold at segment boundaries only.
    alias: bool,
    /// Those of a rule that runs scripts match by parts of the path.
    scripts: Option<Patterns>,
}

/// What a rule's matchers found.
#[derive(Debug, Default)]
pub(super) struct Match {
    /// What `{1}` and so on stand for, as parts of the path.
    pub(super) captures: Vec<Part>,
    /// With an `alias`, what is looked up.
    pub(super) found: Found,
    /// Where scripts are run, which part of the path is one.
    pub(super) cut: Cut,
}

impl Compiled {
    /// `None`: the regular expression does not compile.
    pub(super) fn new(rule: &Rule) -> Option<Compiled> {
        let matchers = &rule.matchers;
        let regex = match &matchers.regex {
            Some(text) => Some(compile_regex(text).ok()?),
            None => None,
        };
        let path: Vec<Pattern> = matchers.path.iter().map(|path| Pattern::new(path.as_bytes())).collect();
        Some(Compiled {
            scripts: matches!(rule.act, Some(Act::Backend(_))).then(|| Patterns::new(&path)),
            path,
            regex,
            captures: uses_captures(rule),
            method: matchers.method.iter().map(|method| method.as_bytes().to_vec()).collect(),
            client: matchers.client.clone(),
            host: matchers.host.clone(),
            request_header: matchers.request_header.iter().map(|(name, value)| (name.clone(), Pattern::new(value.as_bytes()))).collect(),
            exists: matchers.exists,
            alias: matches!(rule.act, Some(Act::Alias(_))),
        })
    }

    /// Compares all but `exists`; what was found is put into `found`.
    ///
    /// # Errors
    /// The first matcher that does not match.
    pub(super) fn matches(&self, facts: &Facts<'_>, path: &Path, found: &mut Match) -> Result<(), Mismatch> {
        found.captures.clear();
        found.found = Found::Itself;
        // HEAD is GET without content (RFC 9110, 9.3.2): what is refused to one must not be told to the other.
        let is_meant = |method: &Vec<u8>| method == facts.method_name || facts.method == Method::Head && method == b"GET";
        if !self.method.is_empty() && !self.method.iter().any(is_meant) {
            return Err(Mismatch::Method);
        }
        if !self.client.is_empty() && !self.client.iter().any(|network| network.contains(facts.client)) {
            return Err(Mismatch::Client);
        }
        if !self.host.is_empty() && !facts.host_name().is_some_and(|host| self.host.iter().any(|name| is_host(name, host))) {
            return Err(Mismatch::Host);
        }
        for (name, pattern) in &self.request_header {
            let mut stars = Vec::new();
            if !facts.fields.any(name, &mut |value| pattern.matches(value, &mut stars)) {
                return Err(Mismatch::RequestHeader(name.clone()));
            }
        }
        if let Some(scripts) = &self.scripts
            && !is_no_path(facts.raw_path)
        {
            found.cut = scripts.cut(self.regex.as_ref(), path, &mut found.captures);
            return match found.cut {
                Cut::Nothing if self.path.is_empty() => Err(Mismatch::Regex),
                Cut::Nothing => Err(Mismatch::Path),
                Cut::Mount(_) | Cut::Prefixes(_) => Ok(()),
            };
        }
        let text = match_text(facts, path);
        if !self.path_matches(text, found) {
            return Err(Mismatch::Path);
        }
        if !self.regex_matches(text, &mut found.captures) {
            return Err(Mismatch::Regex);
        }
        Ok(())
    }

    /// Whether a path is that of a script, whoever asks for it.
    pub(super) fn is_source(&self, path: &Path, checks_mounts: bool) -> bool {
        self.scripts.as_ref().is_some_and(|scripts| scripts.is_source(self.regex.as_ref(), path, checks_mounts))
    }

    fn path_matches(&self, text: &[u8], found: &mut Match) -> bool {
        if self.path.is_empty() {
            if self.alias && self.regex.is_none() {
                found.found = Found::Beneath(0, text.len());
            }
            return true;
        }
        let Match { captures, found, cut: _ } = found;
        self.path.iter().any(|pattern| {
            if !self.alias {
                return pattern.matches(text, captures);
            }
            match alias::matches(pattern, text, captures) {
                Some(what) => {
                    *found = what;
                    true
                }
                None => false,
            }
        })
    }

    fn regex_matches(&self, text: &[u8], captures: &mut Vec<Part>) -> bool {
        let Some(regex) = &self.regex else { return true };
        if !self.captures {
            return regex.is_match(text);
        }
        let mut groups = regex.create_captures();
        regex.captures(text, &mut groups);
        captures.clear();
        captures.extend(groups.iter().skip(1).map(|group| group.map_or((0, 0), |span| (span.start, span.end))));
        groups.is_match()
    }
}

impl Stands {
    /// Whether this is what `exists` wants; of something that is neither file nor directory nothing can be said.
    pub(super) fn is(self, wanted: Exists) -> bool {
        match wanted {
            Exists::File => self == Stands::File,
            Exists::Directory => self == Stands::Directory,
            Exists::None => self == Stands::Nothing,
        }
    }
}

/// The text that `path` and `regex` are compared with: of `OPTIONS *` and of CONNECT it is no path, so that `/` does not match it.
fn match_text<'a>(facts: &Facts<'a>, path: &'a Path) -> &'a [u8] {
    if is_no_path(facts.raw_path) { facts.raw_path } else { path.bytes() }
}

/// Whether the request is for the server as a whole (RFC 9112, 3.2.3 and 3.2.4).
pub(super) fn is_no_path(raw_path: &[u8]) -> bool {
    !raw_path.starts_with(b"/")
}

/// `name` is in lower case, exact or `*.example.org`.
fn is_host(name: &str, host: &[u8]) -> bool {
    match name.strip_prefix('*') {
        Some(behind) => host.len().checked_sub(behind.len()).is_some_and(|at| at > 0 && host[at..].eq_ignore_ascii_case(behind.as_bytes())),
        None => host.eq_ignore_ascii_case(name.as_bytes()),
    }
}

fn uses_captures(rule: &Rule) -> bool {
    let act = rule.act.as_ref().is_some_and(|act| match act {
        Act::Root(directory) | Act::Alias(directory) => template::has_captures(&directory.rest),
        Act::Redirect { to, .. } | Act::Rewrite(to) => template::has_captures(to),
        Act::Backend(to) => to.place.as_ref().is_some_and(|place| template::has_captures(&place.directory().rest)),
        Act::Try(candidates) => candidates.iter().any(template::has_captures),
        Act::Respond { answer } => match answer {
            crate::config::Respond::Status { body, .. } => body.as_ref().is_some_and(template::has_captures),
            crate::config::Respond::Page(_) => false,
        },
    });
    act || rule.changes.header.iter().any(|(_, value)| template::has_captures(value))
}
