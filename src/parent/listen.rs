//! Listening sockets: bound once, kept through every worker's death and every reload that still names their address.

use super::report::announce;
use crate::sys::socket;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A listening socket and the address it was configured with.
pub(super) struct Listener {
    pub(super) configured: SocketAddr,
    pub(super) socket: OwnedFd,
}

/// Takes the sockets of `open` whose address is still wanted, and binds the others.
///
/// # Errors
/// The address that cannot be bound, with the errno; those that were bound for nothing are closed.
pub(super) fn listen(addresses: &[SocketAddr], open: &[Rc<Listener>]) -> Result<Vec<Rc<Listener>>, String> {
    let known = |address: &SocketAddr| {
        open.iter()
            .find(|listener| listener.configured == *address && socket::is_listening(&listener.socket))
    };
    addresses
        .iter()
        .map(|address| known(address).cloned().map_or_else(|| bind(*address).map(Rc::new), Ok))
        .collect()
}

/// Binds an address; where the host has no IPv6, its wildcard falls back to that of IPv4.
fn bind(configured: SocketAddr) -> Result<Listener, String> {
    let socket = match socket::listen(configured) {
        Err(fault) if configured.is_ipv6() && configured.ip().is_unspecified() && socket::is_without_ipv6(&fault) => {
            let instead = SocketAddr::from(([0, 0, 0, 0], configured.port()));
            announce(&format!("this host has no IPv6: listening on {instead} in place of {configured}"));
            socket::listen(instead).map_err(|fault| format!("listen on {instead}: {fault}"))
        }
        result => result.map_err(|fault| format!("listen on {configured}: {fault}")),
    };
    socket.map(|socket| Listener { configured, socket })
}

impl Listener {
    /// The address it really has, with the port that the kernel chose for port 0.
    pub(super) fn address(&self) -> SocketAddr {
        socket::local_address(&self.socket).unwrap_or(self.configured)
    }
}
