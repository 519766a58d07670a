//! What an explanation is made of: its lines, and what is known beside the facts.
//!
//! Used by `anchorite explain`; does no I/O.

use crate::config::Backend;
use crate::proto::coding::Wanted;
use crate::proto::head::{Framing, Request};
use crate::proto::status::Status;
use crate::site::lookup::{Base, Lookup};
use crate::site::{Compiled, Sites, log_format};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is known of a request beside its facts.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// Of its body.
    pub framing: Framing,
    /// Bytes of the longest body, unless a rule says otherwise.
    pub body_max: u64,
    /// What it accepts.
    pub wanted: Wanted,
    /// The request itself, for what it says of parts and of versions that its sender has; `None`: it says nothing of them.
    pub request: Option<&'a Request<'a, 'a>>,
    /// Media types of the configuration.
    pub mime: &'a [(String, String)],
}

/// What is known of the programs behind the sites, and of the connection.
pub struct Behind<'a> {
    pub backends: &'a [Backend],
    pub server: Option<(IpAddr, u16)>,
    pub software: &'a [u8],
    /// The client, and the proxies behind which it is; whether the peer is one that is believed.
    pub chain: &'a [IpAddr],
    pub trusted: bool,
    /// Where a directory is without links, as the service resolves it when it starts.
    pub resolve: &'a dyn Fn(&Path) -> PathBuf,
    /// The user id that a CGI program runs as, or why it does not run.
    pub examine: &'a dyn Fn(&Path) -> Result<u32, String>,
    /// The time, in seconds since the epoch.
    pub now: i64,
    /// Whether a directory cannot be listed: what is answered then, and why.
    pub not_listed: &'a NotListed<'a>,
}

/// The status that is answered where a directory cannot be listed, and why it cannot.
pub type NotListed<'a> = dyn Fn(&Base, Lookup<'_>) -> Option<(Status, String)> + 'a;

/// A file that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Bytes.
    pub size: u64,
    /// Seconds since the epoch, and nanoseconds beyond.
    pub modified: i64,
    pub modified_ns: i64,
}

/// One thing told: for people, and for programs.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) members: Vec<(&'static str, Member)>,
}

#[derive(Clone, Debug)]
pub(super) enum Member {
    Text(Vec<u8>),
    Number(u64),
    Truth(bool),
}

impl Member {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Member::Text(text) => {
                out.push(b'"');
                log_format::json_text(text, usize::MAX, out);
                out.push(b'"');
            }
            Member::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Member::Truth(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        }
    }
}

impl Line {
    pub(super) fn new(what: &'static str, text: String) -> Line {
        Line { text, members: vec![("what", Member::Text(what.into()))] }
    }

    pub(super) fn with(mut self, name: &'static str, text: impl AsRef<[u8]>) -> Line {
        self.members.push((name, Member::Text(text.as_ref().to_vec())));
        self
    }

    pub(super) fn number(mut self, name: &'static str, number: impl TryInto<u64>) -> Line {
        self.members.push((name, Member::Number(number.try_into().unwrap_or(u64::MAX))));
        self
    }

    pub(super) fn truth(mut self, name: &'static str, truth: bool) -> Line {
        self.members.push((name, Member::Truth(truth)));
        self
    }

    /// With the number of a rule, from 1, and where it stands.
    pub(super) fn rule(self, site: &Compiled, rule: usize) -> Line {
        let place = place(site, rule);
        self.number("rule", rule + 1).with("place", place)
    }
}

/// `FILE:LINE` of a rule.
pub(super) fn place(site: &Compiled, rule: usize) -> String {
    site.site.rules.get(rule).map_or_else(String::new, |rule| format!("{}:{}", rule.place.file, rule.place.line))
}

/// The whole path of a look-up.
pub(super) fn full(sites: &Sites, lookup: Lookup<'_>) -> Vec<u8> {
    let base = sites.directories().get(lookup.root.0);
    let mut path = base.map(|base| base.path.as_os_str().as_bytes().to_vec()).unwrap_or_default();
    if !lookup.path.is_empty() {
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(lookup.path);
    }
    path
}

/// As it may stand on a terminal.
pub fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .flat_map(|character| {
            let plain = !character.is_control() && character != '"' && character != '\\';
            plain.then_some(character).into_iter().chain(character.escape_default().filter(move |_| !plain))
        })
        .collect()
}
