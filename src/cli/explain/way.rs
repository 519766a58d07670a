//! Where the connection comes in that a request to explain would be sent over, and who asks.
//!
//! Used by `anchorite explain`; does no I/O.

use crate::config::Listen;
use crate::site::{Chosen, Door, Sites};
use crate::sys::socket::UNIX_PEER;
use std::net::{IpAddr, SocketAddr};

/// The way that a request takes to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) door: Door,
    /// The address and port there; `None`: a socket in the file system, or nobody listens at the port.
    pub(super) server: Option<(IpAddr, u16)>,
    pub(super) client: IpAddr,
}

/// Who asks, as `--client` says it.
///
/// # Errors
/// What was expected.
pub(in crate::cli) fn client(text: &str) -> Result<IpAddr, String> {
    if text == "unix:" {
        return Ok(UNIX_PEER);
    }
    text.parse().map_err(|_| "expected an IP address, or \"unix:\" for who comes over a socket in the file system".to_owned())
}

/// The way to an authority, for a request that names a host. It leads to the address that the authority names, else to the first of its port at
/// which a site has the host's name, else to the first of its port; where nobody listens at that port and only a socket in the file system leads
/// to the site, or who asks comes over such a socket, to that.
pub(super) fn to(sites: &Sites, server: &[Listen], authority: Option<&str>, host: Option<&[u8]>, client: Option<IpAddr>) -> Way {
    // Those too that a wider one takes the connections of: sites may answer at them alone.
    let addresses: Vec<&Listen> = server.iter().chain((0..sites.len()).flat_map(|number| &sites.get(number).listen)).collect();
    let port = port_of(authority);
    let asks = client.unwrap_or(LOOPBACK);
    let named = authority.map(str::as_bytes).or(host).and_then(address_of);
    if let Some(address) = named.filter(|_| asks != UNIX_PEER) {
        let address = SocketAddr::new(address, port);
        return Way { door: sites.door(&Listen::Tcp(address)), server: Some((address.ip(), port)), client: asks };
    }
    let at_port = addresses.iter().copied().filter(|listen| matches!(listen, Listen::Tcp(address) if address.port() == port));
    let sockets = addresses.iter().copied().filter(|listen| matches!(listen, Listen::Unix(_)));
    let by_socket = asks == UNIX_PEER || client.is_none() && at_port.clone().next().is_none() && only_sockets_lead_to(sites, server, host);
    if by_socket {
        return Way { door: first_with_the_name(sites, sockets, host), server: None, client: UNIX_PEER };
    }
    let server = at_port.clone().next().and_then(ip_of).map(|ip| (if ip.is_unspecified() { LOOPBACK } else { ip }, port));
    Way { door: first_with_the_name(sites, at_port, host), server, client: asks }
}

/// The first door at which a site has the host's name, else the first, else that of all sites.
fn first_with_the_name<'l>(sites: &Sites, addresses: impl Iterator<Item = &'l Listen> + Clone, host: Option<&[u8]>) -> Door {
    let mut doors = addresses.map(|address| sites.door(address));
    let first = doors.clone().next().unwrap_or_default();
    doors.find(|door| !matches!(sites.choose(*door, host).1, Chosen::Default)).unwrap_or(first)
}

/// Whether the site of a host listens at sockets in the file system and nowhere else.
fn only_sockets_lead_to(sites: &Sites, server: &[Listen], host: Option<&[u8]>) -> bool {
    let own = &sites.get(sites.select(host)).listen;
    let addresses = if own.is_empty() { server } else { own };
    addresses.iter().all(|address| ip_of(address).is_none())
}

fn ip_of(listen: &Listen) -> Option<IpAddr> {
    match listen {
        Listen::Tcp(address) => Some(address.ip()),
        Listen::Unix(_) => None,
    }
}

/// The port of a URL's authority.
fn port_of(authority: Option<&str>) -> u16 {
    let behind = authority.and_then(|authority| authority.rsplit_once(':')).map(|(_, port)| port);
    behind.and_then(|port| port.parse().ok()).unwrap_or(80)
}

/// The address that a host or an authority is.
fn address_of(host: &[u8]) -> Option<IpAddr> {
    let host = std::str::from_utf8(host).ok()?;
    let with_port = host.parse().ok().map(|address: SocketAddr| address.ip());
    with_port.or_else(|| host.trim_matches(['[', ']']).parse().ok())
}

/// Who asks unless it is said, and where everybody is asked at every address.
const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use std::path::Path;

    const ALL: usize = 0;
    const OWN: usize = 1;
    const SOCKET: usize = 2;

    fn found(listen: &str, authority: Option<&str>, host: &str, client: Option<&str>) -> (usize, Way) {
        let text = format!(
            "[server]\nlisten = [{listen}]\n[[site]]\nname = \"\"\nroot = \"/a\"\n\
             [[site]]\nname = \"own.test\"\nroot = \"/b\"\nlisten = [\"127.0.0.2:80\", \"127.0.0.3:81\"]\n\
             [[site]]\nname = \"socket.test\"\nroot = \"/c\"\nlisten = [\"unix:/run/c\"]\n"
        );
        let config = config::parse(&text, Path::new("/etc/a.toml")).unwrap_or_else(|faults| panic!("{faults}"));
        let sites = Sites::listening(config.sites, &config.server.listen, &[]);
        let client = client.map(|text| super::client(text).unwrap());
        let way = to(&sites, &config.server.listen, authority, Some(host.as_bytes()), client);
        (sites.choose(way.door, Some(host.as_bytes())).0, way)
    }

    #[test]
    fn the_address_of_the_url_says_where_and_the_host_says_which() {
        let all = "\"0.0.0.0:80\"";
        for (authority, host, site, server) in [
            (Some("127.0.0.1"), "own.test", ALL, Some("127.0.0.1:80")),
            (Some("127.0.0.1:80"), "own.test", ALL, Some("127.0.0.1:80")),
            (Some("127.0.0.2"), "own.test", OWN, Some("127.0.0.2:80")),
            (Some("127.0.0.2"), "other", ALL, Some("127.0.0.2:80")),
            (Some("127.0.0.3:81"), "127.0.0.2", OWN, Some("127.0.0.3:81")),
            (Some("own.test"), "own.test", OWN, Some("127.0.0.1:80")),
            (Some("own.test"), "127.0.0.1", ALL, Some("127.0.0.1:80")),
            (None, "own.test", OWN, Some("127.0.0.1:80")),
            (None, "127.0.0.2", ALL, Some("127.0.0.2:80")),
            (Some("x.test:81"), "other", OWN, Some("127.0.0.3:81")),
            (Some("x.test:82"), "other", ALL, None),
        ] {
            let (chosen, way) = found(all, authority, host, None);
            let server = server.map(|server| server.parse::<SocketAddr>().unwrap());
            let expected = (site, server.map(|server| (server.ip(), server.port())), LOOPBACK);
            assert_eq!((chosen, way.server, way.client), expected, "{authority:?} {host}");
        }
        let (chosen, way) = found("\"[::]:80\"", Some("[::1]"), "own.test", None);
        assert_eq!((chosen, way.server), (ALL, Some(("::1".parse().unwrap(), 80))));
        assert_eq!(found("\"[::]:80\"", Some("[::1]:80"), "own.test", None).0, ALL);
    }

    #[test]
    fn who_comes_over_a_socket_has_no_address() {
        let (elsewhere, here) = ("\"127.0.0.1:8080\"", "\"127.0.0.1:82\"");
        for (listen, client, site, asks) in [
            (elsewhere, None, SOCKET, "unix:"),
            (elsewhere, Some("127.0.0.1"), SOCKET, "127.0.0.1"),
            (elsewhere, Some("unix:"), SOCKET, "unix:"),
            // Whom the name leads to that port finds another site there.
            (here, None, ALL, "127.0.0.1"),
            (here, Some("unix:"), SOCKET, "unix:"),
        ] {
            let (chosen, way) = found(listen, Some("socket.test:82"), "socket.test", client);
            assert_eq!((chosen, way.client), (site, super::client(asks).unwrap()), "{listen} {client:?}");
        }
        assert_eq!(found(here, Some("127.0.0.1"), "other", Some("unix:")).0, SOCKET);
        assert!(client("unix").unwrap_err().contains("\"unix:\""));
    }
}
