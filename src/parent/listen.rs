//! Listening sockets: bound once, kept through every worker's death and every reload that still names their address.

use super::report::announce;
use crate::config::Listen;
use crate::sys::socket;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A listening socket and the address it was configured with.
pub(super) struct Listener {
    pub(super) configured: Listen,
    pub(super) socket: OwnedFd,
}

/// Takes the sockets of `open` whose address is still wanted, and binds the others.
///
/// # Errors
/// The address that cannot be bound, with the errno; those that were bound for nothing are closed.
pub(super) fn listen(addresses: &[Listen], open: &[Rc<Listener>]) -> Result<Vec<Rc<Listener>>, String> {
    let known = |address: &Listen| {
        open.iter()
            .find(|listener| listener.configured == *address && socket::is_listening(&listener.socket))
    };
    addresses
        .iter()
        .map(|address| known(address).cloned().map_or_else(|| bind(address).map(Rc::new), Ok))
        .collect()
}

/// Binds an address; where the host has no IPv6, its wildcard falls back to that of IPv4.
fn bind(configured: &Listen) -> Result<Listener, String> {
    let fault = |fault| format!("listen on {configured}: {fault}");
    let socket = match configured {
        Listen::Unix(path) => socket::listen_unix(path).map_err(fault),
        Listen::Tcp(address) => match socket::listen(*address) {
            Err(fault) if address.is_ipv6() && address.ip().is_unspecified() && socket::is_without_ipv6(&fault) => {
                let instead = SocketAddr::from(([0, 0, 0, 0], address.port()));
                announce(&format!("this host has no IPv6: listening on {instead} in place of {address}"));
                socket::listen(instead).map_err(|fault| format!("listen on {instead}: {fault}"))
            }
            result => result.map_err(fault),
        },
    };
    socket.map(|socket| Listener {
        configured: configured.clone(),
        socket,
    })
}

impl Listener {
    /// The address it really has, with the port that the kernel chose for port 0.
    pub(super) fn address(&self) -> String {
        match &self.configured {
            Listen::Unix(_) => self.configured.to_string(),
            Listen::Tcp(configured) => socket::local_address(&self.socket).unwrap_or(*configured).to_string(),
        }
    }
}
