//! `anchorite explain URL`: why a request is answered as it is, offline, with the code that serves.
//!
//! Look-ups are made on the real tree as the worker would make them in its jail: by root with the rights of the worker's user,
//! but for the way to a document root, which the jail shows whatever stands above it; by others with their own.

use crate::config::{self, Listen};
use crate::ipc::disk::links;
use crate::parent;
use crate::proto::head::{self, HeadLimits};
use crate::proto::status::Reject;
use crate::proto::target::{self, Path as Target};
use crate::site::explain::explain;
use crate::site::facts::{Facts, Origin, Scheme};
use crate::site::lookup::{Base, Lookup};
use crate::site::origin;
use crate::site::plan::Answer;
use crate::site::{Chosen, Door, Sites};
use crate::sys::file::{Found, Root};
use crate::sys::privilege::{self, Identity};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// What to explain.
pub(super) struct Question<'a> {
    pub(super) url: &'a str,
    pub(super) method: &'a str,
    pub(super) client: IpAddr,
    pub(super) headers: &'a [String],
    pub(super) json: bool,
}

pub(super) fn main(file: &Path, question: &Question<'_>) -> u8 {
    match answer(file, question) {
        Ok((text, answered)) => {
            say!("{}", text.trim_end());
            u8::from(!answered)
        }
        Err(why) => {
            complain!("{why}");
            1
        }
    }
}

fn answer(file: &Path, question: &Question<'_>) -> Result<(String, bool), String> {
    let config = config::load(file).map_err(|faults| faults.to_string())?;
    let (host, target) = split(question.url);
    let head = head_of(question, host.as_deref(), &target);
    let mut space = head::field_space();
    let limits = HeadLimits { request_line: 65536, header_bytes: 1 << 20, header_count: 256 };
    let mut path = Target::default();
    let request = head::parse(head.as_bytes(), &mut space, &limits);
    let request = match request.and_then(|request| target::parse_into(request.path, &mut path).map(|()| request)) {
        Ok(request) => request,
        Err(Reject { status, why }) if question.json => {
            return Ok((
                format!("{{\"what\":\"answer\",\"status\":{},\"because\":\"{}\"}}", status.code(), why.replace('"', "\\\"")),
                false,
            ));
        }
        Err(Reject { status, why }) => return Err(format!("{status}: {why}")),
    };
    // Where the worker's user does not exist yet, with the rights of whoever asks.
    let identity = parent::identity(&config).inspect_err(|why| complain!("anchorite: {why}: looking with your own rights")).ok();
    // Those too that a wider one takes the connections of: sites may answer at them alone.
    let addresses: Vec<Listen> = config.server.listen.iter().chain(config.sites.iter().flat_map(|site| &site.listen)).cloned().collect();
    let sites = Sites::listening(config.sites, &config.server.listen);
    let scheme = if question.url.starts_with("https://") { Scheme::Https } else { Scheme::Http };
    let (peer, trusted) = (Origin { scheme, ..Origin::direct(question.client) }, &config.server.proxies.trusted);
    let is_proxy = trusted.iter().any(|network| network.contains(question.client));
    let asks = if is_proxy { origin::of(&request, peer, trusted) } else { peer };
    let facts = Facts::of(&request, &path, asks);
    let explanation = explain(&sites, door(&sites, &addresses, port_of(host.as_deref()), request.host), &facts, |base, lookup| {
        look(identity, base, lookup)
    });
    let text = if question.json { explanation.json() } else { explanation.text() };
    Ok((text, explanation.is_answered()))
}

/// The host and the target of a URL; a path alone has no host.
fn split(url: &str) -> (Option<String>, String) {
    let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
        return (None, url.to_owned());
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    (Some(host.to_owned()), target)
}

/// The port of a URL's authority.
fn port_of(authority: Option<&str>) -> u16 {
    let behind = authority.and_then(|authority| authority.rsplit_once(':')).map(|(_, port)| port);
    behind.and_then(|port| port.parse().ok()).unwrap_or(80)
}

/// Where a connection for a URL comes in: at the address that it names, else at the first of its port at which a site has the host's name,
/// else at the first of its port. Where no address has the port, all sites are looked at.
fn door(sites: &Sites, addresses: &[Listen], port: u16, host: Option<&[u8]>) -> Door {
    let named = host.and_then(|host| std::str::from_utf8(host).ok()).map(|host| host.trim_matches(['[', ']']));
    if let Some(address) = named.and_then(|host| host.parse::<IpAddr>().ok()) {
        return sites.door(&Listen::Tcp(SocketAddr::new(address, port)));
    }
    let has_port = |address: &&Listen| matches!(address, Listen::Tcp(address) if address.port() == port);
    let mut doors = addresses.iter().filter(has_port).map(|address| sites.door(address));
    let first = doors.clone().next().unwrap_or_default();
    doors.find(|door| !matches!(sites.choose(*door, host).1, Chosen::Default)).unwrap_or(first)
}

/// The request as a client would send it.
fn head_of(question: &Question<'_>, host: Option<&str>, target: &str) -> String {
    let has_host = question.headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:"));
    let host = if has_host { String::new() } else { format!("Host: {}\r\n", host.unwrap_or("localhost")) };
    let headers: String = question.headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("{} {target} HTTP/1.1\r\n{host}{headers}\r\n", question.method)
}

/// Answers a look-up from the disk.
fn look(identity: Option<Identity>, base: &Base, lookup: Lookup<'_>) -> (Answer<()>, Option<String>) {
    let resolved = std::fs::canonicalize(&base.path).unwrap_or_else(|_| base.path.clone());
    let root = match Root::open(&resolved, links(base.symlinks), false) {
        Ok(root) => root,
        Err(fault) => return (Answer::Missing, Some(format!("\"{}\": {fault}", base.path.display()))),
    };
    let Some(identity) = identity else { return found(&root, base, lookup) };
    let found = privilege::with_rights_of(identity, || found(&root, base, lookup));
    found.unwrap_or_else(|fault| (Answer::Failed, Some(format!("the rights of user id {}: {fault}", identity.uid))))
}

fn found(root: &Root, base: &Base, lookup: Lookup<'_>) -> (Answer<()>, Option<String>) {
    match root.find(lookup.path) {
        Found::File(_) => (Answer::File(()), None),
        Found::Directory => (Answer::Directory, None),
        Found::Missing => (Answer::Missing, None),
        Found::Denied => {
            let part = String::from_utf8_lossy(root.refusing_component(lookup.path)).into_owned();
            (Answer::Denied, Some(format!("\"{}\" refuses user id {}", base.path.join(part).display(), privilege::own_ids().0)))
        }
        Found::NotRegular => (Answer::NotRegular, None),
        Found::Busy => (Answer::Busy, None),
        Found::Failed(fault) => (Answer::Failed, Some(fault.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_host_and_target() {
        for (url, host, target) in [
            ("http://a.test/x?y", Some("a.test"), "/x?y"),
            ("https://a.test:8443", Some("a.test:8443"), "/"),
            ("http://a.test?q", Some("a.test"), "/?q"),
            ("/x", None, "/x"),
        ] {
            assert_eq!(split(url), (host.map(str::to_owned), target.to_owned()), "{url}");
        }
    }
}
