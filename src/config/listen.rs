//! Addresses to listen on, as `[server]` and a site give them. Does no I/O: that an address is free is found out where it is bound.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Text};
use super::paths;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;

/// Where connections are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Listen {
    /// `[::]` also takes IPv4.
    Tcp(SocketAddr),
    /// The socket's path, absolute and short enough for one.
    Unix(#[serde(with = "super::slice::path_bytes")] PathBuf),
}

impl Listen {
    /// Whether every connection to `other` is one to this: the same, or the wildcard address with the same port.
    pub fn covers(&self, other: &Listen) -> bool {
        match (self, other) {
            (Listen::Tcp(all), Listen::Tcp(part)) => all.port() == part.port() && takes(*all, *part),
            (Listen::Unix(one), Listen::Unix(other)) => one == other,
            (Listen::Tcp(_), Listen::Unix(_)) | (Listen::Unix(_), Listen::Tcp(_)) => false,
        }
    }

    /// Whether a connection may be one to both.
    pub fn overlaps(&self, other: &Listen) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The wildcard addresses that would cover this one.
    fn wider(&self) -> Vec<Listen> {
        let wildcard = |address: IpAddr, port| Listen::Tcp(SocketAddr::new(address, port));
        match self {
            Listen::Tcp(address) => {
                vec![wildcard(Ipv6Addr::UNSPECIFIED.into(), address.port()), wildcard(Ipv4Addr::UNSPECIFIED.into(), address.port())]
            }
            Listen::Unix(_) => Vec::new(),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A list of addresses, each given once. Both wildcards may stand beside each other, as many are used to write them: the one for IPv6 takes
/// IPv4 too, and is then bound alone.
pub(super) fn read(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<Listen> {
    let texts = item.texts(EXPECTED, faults).unwrap_or_default();
    let mut taken: Vec<(Listen, Text<'_>)> = Vec::new();
    for text in texts {
        let Some(address) = read_one(&text, faults) else { continue };
        match taken.iter().find(|(other, _)| other.overlaps(&address) && !are_wildcards(other, &address)) {
            Some((other, first)) => {
                let help = format!("given as \"{other}\" at {}", faults.place_name(first.at.start));
                faults.report(text.at.clone(), format!("{} is already listened on", quoted(text.value)), help);
            }
            None => taken.push((address, text)),
        }
    }
    if let Some((_, first)) = taken.get(ADDRESSES_MAX) {
        report_too_many(first.at.clone(), faults);
    }
    taken.into_iter().map(|(address, _)| address).collect()
}

/// What stands at `at` is beyond the addresses that there may be.
pub(super) fn report_too_many(at: Range<usize>, faults: &mut Faults<'_>) {
    let what = format!("more than {ADDRESSES_MAX} addresses to listen on");
    faults.report(at, what, "expected fewer, or one that takes connections to all of them, such as \"[::]:80\"");
}

pub(super) fn read_one(text: &Text<'_>, faults: &mut Faults<'_>) -> Option<Listen> {
    if let Some(path) = text.value.strip_prefix("unix:") {
        let text = Text { value: path, at: text.at.clone() };
        return paths::socket(&text, faults).map(Listen::Unix);
    }
    match text.value.parse::<SocketAddr>() {
        // An IPv4 address in IPv6 clothes is that IPv4 address.
        Ok(address) => Some(Listen::Tcp(match address.ip().to_canonical() {
            IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
            IpAddr::V6(_) => address,
        })),
        Err(_) => {
            faults.report(text.at.clone(), format!("{} is not an address with a port", quoted(text.value)), HELP);
            None
        }
    }
}

/// The addresses, each once, without those that another of them covers; the order is kept.
pub(super) fn without_covered<'l>(addresses: impl Iterator<Item = &'l Listen>) -> Vec<Listen> {
    let mut seen = HashSet::new();
    let list: Vec<&Listen> = addresses.filter(|address| seen.insert(*address)).collect();
    let is_covered = |address: &Listen| {
        let wider = address.wider();
        wider.iter().any(|wide| wide != address && seen.contains(wide) && wide.covers(address))
    };
    list.into_iter().filter(|address| !is_covered(address)).cloned().collect()
}

/// Whether a socket bound to `all` gets the connections to `part`: `[::]` also takes IPv4.
fn takes(all: SocketAddr, part: SocketAddr) -> bool {
    match (all.ip().to_canonical(), part.ip().to_canonical()) {
        (IpAddr::V6(all), _) if all.is_unspecified() => true,
        (IpAddr::V4(all), IpAddr::V4(_)) if all.is_unspecified() => true,
        (IpAddr::V4(one), IpAddr::V4(other)) => one == other,
        (IpAddr::V6(one), IpAddr::V6(other)) => one == other && scope(all) == scope(part),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// Whether these are `0.0.0.0` and `[::]`.
fn are_wildcards(one: &Listen, other: &Listen) -> bool {
    match (one, other) {
        (Listen::Tcp(one), Listen::Tcp(other)) => {
            one.ip().is_unspecified() && other.ip().is_unspecified() && one.is_ipv4() != other.is_ipv4()
        }
        (Listen::Tcp(_) | Listen::Unix(_), Listen::Unix(_)) | (Listen::Unix(_), Listen::Tcp(_)) => false,
    }
}

/// A link-local address is another on each interface.
fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// Addresses of one service, those of its sites included: a worker is handed all of them in one packet.
pub const ADDRESSES_MAX: usize = 64;

pub(super) const EXPECTED: &str = "a list of addresses with ports, such as [\"[::]:80\"]";
pub(super) const HELP: &str =
    "expected an address with a port, such as \"[::]:80\" or \"127.0.0.1:8080\", or a socket such as \"unix:/run/x.sock\"";

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;

    fn said(line: &str) -> Vec<String> {
        told(&format!("[server]\n{line}\n[[site]]\nroot = \"/srv/www\"\n"))
    }

    fn listen(address: &str) -> Listen {
        with_a_site(&format!("[server]\nlisten = [\"{address}\"]")).server.listen[0].clone()
    }

    #[test]
    fn addresses_and_sockets_are_read_and_shown_again() {
        for address in ["[::]:80", "127.0.0.1:0", "[fe80::1%2]:80", "unix:/run/x.sock"] {
            assert_eq!(listen(address).to_string(), address);
        }
        assert_eq!(listen("unix:x.sock"), Listen::Unix("/etc/anchorite/x.sock".into()));
        assert_eq!(listen("[::ffff:127.0.0.1]:80").to_string(), "127.0.0.1:80");
    }

    #[test]
    fn an_address_needs_a_port() {
        for address in ["80", ":80", "[::]", "127.0.0.1", "localhost:80", "*:80", "127.0.0.1:65536", "::1:80", "", "UNIX:/run/x"] {
            assert_eq!(said(&format!("listen = [\"{address}\"]")), [format!("2:11: \"{address}\" is not an address with a port, {HELP}")],);
        }
        assert_eq!(said("listen = \"[::]:80\""), [format!("2:10: \"listen\" in [server] is a string, expected {EXPECTED}")]);
        assert_eq!(said("listen = [80]"), [format!("2:11: \"listen\" in [server] holds an integer, expected {EXPECTED}")]);
        assert_eq!(said("listen = []"), [format!("2:10: \"listen\" in [server] has no address, {HELP}")]);
    }

    #[test]
    fn a_socket_needs_a_path_that_fits() {
        assert_eq!(said("listen = [\"unix:\"]"), ["2:11: \"\" is not a path, expected a path"]);
        assert_eq!(said("listen = [\"unix:/\"]"), ["2:11: \"/\" is a directory, expected the path of a socket"]);
        let longest = format!("/{}", "a".repeat(paths::SOCKET_PATH_MAX - 1));
        assert_eq!(said(&format!("listen = [\"unix:{longest}\"]")), [""; 0]);
        let said = said(&format!("listen = [\"unix:{longest}a\"]"));
        assert!(said[0].ends_with("is too long for a socket, expected at most 107 bytes"), "{said:?}");
    }

    #[test]
    fn an_address_given_twice_is_told_with_both_places() {
        for (first, second) in [
            ("[::]:80", "[::]:80"),
            ("[::]:80", "10.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "0.0.0.0:80"),
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80"),
            ("unix:/etc/anchorite/x", "unix:x"),
        ] {
            let shown = if first.ends_with('x') { "unix:/etc/anchorite/x" } else { first };
            assert_eq!(
                said(&format!("listen = [\n\"{first}\",\n\"{second}\"]")),
                [format!("4:1: \"{second}\" is already listened on, given as \"{shown}\" at /etc/anchorite/anchorite.toml:3:1")]
            );
        }
        for (first, second) in [
            ("[::]:80", "[::]:81"),
            ("[::]:80", "0.0.0.0:80"),
            ("0.0.0.0:80", "[::]:80"),
            ("0.0.0.0:80", "[::1]:80"),
            ("[fe80::1%1]:80", "[fe80::1%2]:80"),
            ("127.0.0.1:80", "127.0.0.2:80"),
            ("unix:/a", "unix:/b"),
        ] {
            assert_eq!(said(&format!("listen = [\"{first}\", \"{second}\"]")), [""; 0]);
        }
    }

    #[test]
    fn what_a_wider_address_takes_is_not_bound_again() {
        let config = with_a_site(
            "[server]\nlisten = [\"0.0.0.0:80\", \"[::1]:80\"]\n[[site]]\nname = \"a\"\nroot = \"/a\"\nlisten = [\"10.0.0.1:80\", \"unix:/u\"]\n\
             [[site]]\nname = \"b\"\nroot = \"/b\"\nlisten = [\"[::1]:80\", \"[::]:81\", \"unix:/u\"]\n\
             [[site]]\nname = \"c\"\nroot = \"/c\"\nlisten = [\"0.0.0.0:81\"]",
        );
        let shown: Vec<String> = config.addresses().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["0.0.0.0:80", "[::1]:80", "unix:/u", "[::]:81"]);
    }

    #[test]
    fn as_many_addresses_as_a_worker_can_be_handed_and_none_beyond() {
        let list = |from: usize, to: usize| (from..to).map(|port| format!("\"127.0.0.1:{port}\"")).collect::<Vec<_>>().join(",\n");
        let one = |to| said(&format!("listen = [\n{}]", list(1, to)));
        assert_eq!(one(65), [""; 0]);
        let help = "expected fewer, or one that takes connections to all of them, such as \"[::]:80\"";
        assert_eq!(one(70), [format!("67:1: more than 64 addresses to listen on, {help}")]);
        let both = |to| {
            let (server, site) = (list(1, 61), list(100, to));
            told(&format!(
                "[server]\nlisten = [{server}]\n[[site]]\nroot = \"/a\"\n[[site]]\nname = \"b\"\nroot = \"/b\"\nlisten = [{site}]"
            ))
        };
        assert_eq!(both(104), [""; 0]);
        assert_eq!(both(105), [format!("67:1: more than 64 addresses to listen on, {help}")]);
    }
}
