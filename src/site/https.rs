//! `https_redirect`: plain requests are sent to the same address with https; and `hsts`, by which browsers come so by themselves.
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O.

use super::facts::{Facts, Scheme};
use crate::config::Site;
use crate::proto::head::Method;
use crate::proto::status::Status;
use crate::proto::target;
use std::sync::Arc;
use std::time::Duration;

/// Whether a request is sent to https. Not where an authority for certificates looks (RFC 8555, 8.3: over plain HTTP, and there may be no
/// certificate yet), and not what has no path that another scheme could have (`*`, CONNECT).
pub(super) fn redirects(site: &Site, facts: &Facts<'_>) -> bool {
    let mut segments = facts.path.segments();
    let challenge = segments.next() == Some(b".well-known".as_slice()) && segments.next() == Some(b"acme-challenge".as_slice());
    site.https_redirect && facts.scheme == Scheme::Http && !challenge && facts.raw_path.starts_with(b"/")
}

/// The field by which browsers are told of later visits.
pub const HSTS: &str = "Strict-Transport-Security";

/// Its value, for so long (RFC 6797, 6.1).
pub fn hsts(age: Duration) -> Arc<[u8]> {
    format!("max-age={}", age.as_secs()).into_bytes().into()
}

/// How. 308 keeps method and body; for GET and HEAD there is nothing to keep, and every client knows 301. Where no host can be said, nothing
/// is served over the plain connection either.
///
/// # Errors
/// The status that is answered instead.
pub(super) fn status(site: &Site, facts: &Facts<'_>) -> Result<Status, Status> {
    if host(site, facts).is_none() {
        return Err(Status::BAD_REQUEST);
    }
    Ok(match facts.method {
        Method::Get | Method::Head => Status::MOVED_PERMANENTLY,
        Method::Post
        | Method::Put
        | Method::Delete
        | Method::Patch
        | Method::Options
        | Method::Trace
        | Method::Connect
        | Method::Extension => Status::PERMANENT_REDIRECT,
    })
}

/// The same host, without its port, and the same path, normalised, and query.
pub(super) fn location(site: &Site, facts: &Facts<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"https://");
    out.extend_from_slice(host(site, facts).unwrap_or_default());
    let mut segments = facts.path.segments().peekable();
    if segments.peek().is_none() {
        out.push(b'/');
    }
    while let Some(segment) = segments.next() {
        out.push(b'/');
        target::encode(segment, out);
        if segments.peek().is_none() && facts.path.is_directory() {
            out.push(b'/');
        }
    }
    if let Some(query) = facts.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// The host that the client named, if the site has it by name or takes every host, else the first name of the site: a host that the client
/// made up would be kept by a cache, and lead others there.
fn host<'a>(site: &'a Site, facts: &Facts<'a>) -> Option<&'a [u8]> {
    // A site for whatever has no other still has its own names, where it has any.
    let is_any = site.name.iter().all(String::is_empty);
    let has = |host: &[u8]| site.name.iter().any(|name| (is_any || !name.is_empty()) && fits(name, host));
    let named = facts.host_name().filter(|host| !host.is_empty() && has(host));
    let first = || site.name.iter().find(|name| !name.is_empty() && !name.starts_with('*'));
    named.or_else(|| first().map(|name| name.as_bytes()))
}

fn fits(name: &str, host: &[u8]) -> bool {
    match name.strip_prefix('*') {
        Some(behind) => host.len() > behind.len() && host[host.len() - behind.len()..].eq_ignore_ascii_case(behind.as_bytes()),
        None => name.is_empty() || name.as_bytes().eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::tests::Asked;
    use super::super::tests::site;
    use super::*;

    fn sent_to(names: &[&str], host: &'static str, target: &str, scheme: Scheme) -> Option<String> {
        let site = Site { https_redirect: true, ..site(names) };
        let mut asked = Asked::get(target);
        (asked.scheme, asked.host) = (scheme, Some(host));
        let facts = asked.facts();
        let mut out = Vec::new();
        let redirects = redirects(&site, &facts) && status(&site, &facts) == Ok(Status::MOVED_PERMANENTLY);
        redirects.then(|| location(&site, &facts, &mut out))?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn plain_requests_go_to_the_same_place_with_https() {
        for (target, expected) in [
            ("/", "https://a.test/"),
            ("/x/y.html?q=1&r", "https://a.test/x/y.html?q=1&r"),
            ("/x/", "https://a.test/x/"),
            ("//evil.test/%2e%2e/x", "https://a.test/x"),
            ("/a%20b%0d%0aX:%20y", "https://a.test/a%20b%0D%0AX:%20y"),
            ("/.well-known/acme-challenged", "https://a.test/.well-known/acme-challenged"),
            ("/.well-known/security.txt", "https://a.test/.well-known/security.txt"),
        ] {
            assert_eq!(sent_to(&["a.test"], "a.test", target, Scheme::Http).as_deref(), Some(expected), "{target}");
        }
    }

    #[test]
    fn challenges_and_what_is_https_already_are_not_sent_anywhere() {
        assert_eq!(sent_to(&["a.test"], "a.test", "/.well-known/acme-challenge/token", Scheme::Http), None);
        assert_eq!(sent_to(&["a.test"], "a.test", "/", Scheme::Https), None);
    }

    #[test]
    fn h08_the_host_is_one_of_the_sites() {
        for (names, host, expected) in [
            (&["a.test", "b.test"][..], "B.test", Some("https://B.test/")),
            (&["a.test"], "evil.test", Some("https://a.test/")),
            (&["*.a.test", "a.test"], "x.a.test", Some("https://x.a.test/")),
            (&["*.a.test"], "evil.test", None),
            (&[""], "any.test", Some("https://any.test/")),
            (&["a.test", ""], "any.test", Some("https://a.test/")),
        ] {
            assert_eq!(sent_to(names, host, "/", Scheme::Http).as_deref(), expected, "{names:?} {host}");
        }
    }
}
