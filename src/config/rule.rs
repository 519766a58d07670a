//! The rules of a site as checked data: matchers, changes, acts. What they mean is decided in `site`, by these types alone.

use crate::proto::coding::Coding;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `[[site.rule]]`: all matchers that are present must match; then the changes are made, and the act, if there is one, is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub matchers: Matchers,
    pub changes: Changes,
    pub act: Option<Act>,
    /// Where the rule stands in its file, for `anchorite explain` and messages.
    pub place: RulePlace,
}

impl Rule {
    /// Whether it runs a program for each request.
    pub fn runs_programs(&self) -> bool {
        matches!(&self.act, Some(Act::Backend(to)) if to.cgi)
    }
}

/// `FILE:LINE` of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulePlace {
    pub file: String,
    pub line: u32,
}

/// When a rule applies. Empty lists and `None`: not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matchers {
    /// Any of these, exact or with `*`, on the decoded, normalised path; case-sensitive.
    pub path: Vec<String>,
    /// On the decoded path; compiles (crate `regex-automata`, bytes, linear time).
    pub regex: Option<String>,
    pub method: Vec<String>,
    pub client: Vec<Network>,
    /// Lower case; exact or `*.example.org`.
    pub host: Vec<String>,
    /// Name (lower case) and a pattern with `*` for its value; each must match one line of that name.
    pub request_header: Vec<(String, String)>,
    pub exists: Option<Exists>,
}

/// What must stand where the path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exists {
    File,
    Directory,
    None,
}

/// `ADDR` or `ADDR/BITS`; host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub address: IpAddr,
    pub bits: u8,
}

/// How often a client may ask: `requests` in each `period` for long, `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestRate {
    pub requests: u32,
    pub period: Duration,
    pub burst: u32,
}

/// What a rule changes in the handling of a request; changes of several rules add up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Set on the response, errors included; an empty value removes.
    pub header: Vec<(String, Template)>,
    /// `Expires` and `Cache-Control: max-age`.
    pub expires: Option<Duration>,
    pub allow: Vec<Network>,
    pub deny: Vec<Network>,
    /// Only users of this `[auth.NAME]`.
    pub auth: Option<AskedFor>,
    /// Bytes of a request body.
    pub body: Option<u64>,
    /// Of each client, for what the rule matches; beyond: 429.
    pub requests: Option<RequestRate>,
    pub listing: Option<bool>,
    pub index: Option<Vec<String>>,
    /// As the site's.
    pub compress: Option<Vec<Coding>>,
    /// How long what was looked up may be answered from memory.
    pub cache: Option<Duration>,
    /// Bytes per second of one response.
    pub rate: Option<u64>,
}

/// Whose users a rule asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedFor {
    /// Its number in [`Config::auths`](super::Config::auths).
    pub number: u16,
    pub name: String,
    pub realm: String,
}

/// What a rule does with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Serves from another root, by the whole path.
    Root(Directory),
    /// Serves what the path's star stands for beneath a directory; an exact path: the directory or file itself.
    Alias(Directory),
    Redirect {
        to: Template,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// Replaces the path, and the query if the template has one; goes on with the next rule.
    Rewrite(Template),
    /// Takes the first candidate that exists, the last unconditionally; goes on with the next rule. `=404` style is not known.
    Try(Vec<Template>),
    Respond {
        answer: Respond,
    },
    /// Hands the request to a backend.
    Backend(ToBackend),
}

impl Act {
    /// The directory of its own that the act has, if it has one.
    pub fn directory(&self) -> Option<&Directory> {
        match self {
            Act::Root(directory) | Act::Alias(directory) => Some(directory),
            Act::Backend(to) => to.place.as_ref().map(ScriptPlace::directory),
            Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. } => None,
        }
    }

    /// The directory of files that a backend's answers may name.
    pub fn sendfile(&self) -> Option<&PathBuf> {
        match self {
            Act::Backend(to) => to.sendfile.as_ref(),
            Act::Root(_) | Act::Alias(_) | Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. } => None,
        }
    }

    /// The same, to be resolved.
    pub fn sendfile_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Act::Backend(to) => to.sendfile.as_mut(),
            Act::Root(_) | Act::Alias(_) | Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. } => None,
        }
    }

    /// The same, to be resolved.
    pub fn directory_mut(&mut self) -> Option<&mut Directory> {
        match self {
            Act::Root(directory) | Act::Alias(directory) => Some(directory),
            Act::Backend(to) => to.place.as_mut().map(ScriptPlace::directory_mut),
            Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. } => None,
        }
    }
}

/// The act of a rule that hands requests to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToBackend {
    /// Its number in [`Config::backends`](super::Config::backends).
    pub backend: u16,
    pub name: String,
    /// Runs a program for each request: `cgi` in place of `backend`.
    pub cgi: bool,
    /// Where scripts are looked up; `None`: beneath the site's root.
    pub place: Option<ScriptPlace>,
    /// `check`; `None`: as the pattern says, see [`site`](crate::site).
    pub check: Option<bool>,
    /// `sendfile` of the backend, links followed once it is shown.
    #[serde(with = "super::backend::optional_path")]
    pub sendfile: Option<PathBuf>,
}

/// `root` or `alias` beside an act that runs scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptPlace {
    Root(Directory),
    Alias(Directory),
}

impl ScriptPlace {
    /// The directory, whichever key named it.
    pub fn directory(&self) -> &Directory {
        match self {
            ScriptPlace::Root(directory) | ScriptPlace::Alias(directory) => directory,
        }
    }

    /// The same, to be resolved.
    pub fn directory_mut(&mut self) -> &mut Directory {
        match self {
            ScriptPlace::Root(directory) | ScriptPlace::Alias(directory) => directory,
        }
    }
}

/// What `respond` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Respond {
    Status {
        status: u16,
        body: Option<Template>,
    },
    /// Pages of the server itself: from loopback only unless the rule has `allow`.
    Page(Page),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Page {
    Status,
    Metrics,
    Health,
}

/// A directory (or for an exact alias, a file), perhaps with captures behind a literal directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// The literal directory that the jail shows: the whole path where there is no capture.
    #[serde(with = "super::slice::path_bytes")]
    pub base: PathBuf,
    /// What follows it, with captures; empty where there is none.
    pub rest: Template,
}

/// A text with variables and captures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    pub parts: Vec<Part>,
}

/// One part of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    Literal(String),
    /// `{1}`…: in a rule its regex's groups, else what its stars stand for; in a site the name's star.
    Capture(u8),
    Variable(Variable),
    /// `{header.NAME}`, lower case.
    Header(String),
    /// The template's own `?`, at which it is split before anything is put in.
    Query,
}

/// The variables that a template may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variable {
    Path,
    Query,
    Uri,
    Host,
    Scheme,
    Method,
    Client,
    User,
    Status,
    Bytes,
    Time,
    Duration,
    RequestId,
    TlsVersion,
    TlsSni,
    /// Subject of the certificate that the client has shown.
    TlsClient,
}

/// `access_log` of a site, `format` of `[log]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFormat {
    Common,
    Combined,
    VhostCombined,
    Json,
    Template(Template),
}

impl Network {
    /// Whether an address lies in the network; IPv4 in its mapped IPv6 form counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shared = |network: u128, address: u128, width: u8| {
            let shift = u32::from(width.saturating_sub(self.bits));
            network.checked_shr(shift).unwrap_or(0) == address.checked_shr(shift).unwrap_or(0)
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => shared(u128::from(network.to_bits()), u128::from(address.to_bits()), 32),
            (IpAddr::V6(network), IpAddr::V6(address)) => shared(network.to_bits(), address.to_bits(), 128),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        let network = |address: &str, bits| Network { address: address.parse().unwrap(), bits };
        for (address, bits, inside, outside) in [
            ("10.0.0.0", 8, "10.255.0.1", "11.0.0.0"),
            ("0.0.0.0", 0, "255.255.255.255", "::1"),
            ("192.0.2.1", 32, "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8::", 32, "2001:db8:ffff::", "2001:db9::"),
            ("::", 0, "ffff::", "127.0.0.1"),
        ] {
            assert!(network(address, bits).contains(inside.parse().unwrap()), "{address}/{bits} {inside}");
            assert!(!network(address, bits).contains(outside.parse().unwrap()), "{address}/{bits} {outside}");
        }
    }
}
