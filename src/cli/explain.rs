//! `anchorite explain URL`: why a request is answered as it is, offline, with the code that serves.

mod eyes;
mod way;

pub(super) use way::client;

use crate::config;
use crate::parent;
use crate::proto::basic;
use crate::proto::coding::Wanted;
use crate::proto::head::{self, HeadLimits};
use crate::proto::status::Reject;
use crate::proto::target::{self, Path as Target};
use crate::site::Sites;
use crate::site::explain::{Behind, Circumstances, explain};
use crate::site::facts::{Facts, Origin, Scheme};
use crate::site::origin;
use crate::sys::clock;
use eyes::Eyes;
use std::net::IpAddr;
use std::path::Path;

/// What to explain.
pub(super) struct Question<'a> {
    pub(super) url: &'a str,
    pub(super) method: &'a str,
    /// Who asks; `None`: whoever comes that way.
    pub(super) client: Option<IpAddr>,
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
    let backends = config.backends;
    let sites = Sites::listening(config.sites, &config.server.listen, &[]);
    let scheme = if question.url.starts_with("https://") { Scheme::Https } else { Scheme::Http };
    let eyes = Eyes::open(identity, &config.jail, sites.directories());
    let way = way::to(&sites, &config.server.listen, host.as_deref(), request.host, question.client);
    let (peer, trusted) = (Origin { scheme, ..Origin::direct(way.client) }, &config.server.proxies.trusted);
    let is_proxy = trusted.iter().any(|network| network.contains(way.client));
    let asks = if is_proxy { origin::of(&request, peer, trusted) } else { peer };
    // What only a real request has stands as it was written.
    let credentials = request.only_field("authorization").and_then(basic::parse);
    // Whether the password is right is not looked at: it would stand in the history of a shell.
    let realms: Vec<u16> = if credentials.is_some() { (0..).take(config.auths.len()).collect() } else { Vec::new() };
    let user = credentials.as_ref().map_or(&b""[..], |credentials| &credentials.user);
    let facts = Facts { request_id: b"{request_id}", time: b"{time}", user, realms: &realms, ..Facts::of(&request, &path, asks) };
    let chain = origin::chain(&request, asks.client, is_proxy.then_some(way.client), trusted);
    let behind = Behind {
        now: clock::unix_seconds(),
        chain: &chain,
        trusted: is_proxy,
        backends: &backends,
        server: way.server,
        software: config.server.server_header.as_bytes(),
        examine: &|program| super::programs::examine(&config.cgi, identity, program),
        resolve: &|path| eyes.resolve(path),
        not_listed: &|base, lookup| eyes.not_listed(base, lookup),
    };
    let circumstances = Circumstances {
        framing: request.framing,
        body_max: config.limits.body,
        wanted: Wanted::of(&request),
        request: Some(&request),
        mime: &config.mime,
    };
    let explanation = explain(&sites, way.door, &facts, &circumstances, &behind, |base, lookup| eyes.look(base, lookup));
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

/// The request as a client would send it.
fn head_of(question: &Question<'_>, host: Option<&str>, target: &str) -> String {
    let has_host = question.headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:"));
    let host = if has_host { String::new() } else { format!("Host: {}\r\n", host.unwrap_or("localhost")) };
    let headers: String = question.headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("{} {target} HTTP/1.1\r\n{host}{headers}\r\n", question.method)
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
