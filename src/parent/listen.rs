//! Listening sockets: bound once or handed over by the service manager, kept through every worker's death and every reload
//! that still names their address.

use super::report::announce;
use crate::config::Listen;
use crate::sys::privilege::Identity;
use crate::sys::socket::{self, Address};
use crate::sys::{log_file, manager};
use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

/// A listening socket and the address it was configured with.
pub(super) struct Listener {
    pub(super) configured: Listen,
    pub(super) socket: OwnedFd,
    /// Bound here, and so removed here if it has a name.
    pub(super) own: Cell<bool>,
}

/// The sockets that the service manager hands over; to be called first, see [`manager::inherited_listeners`].
///
/// # Errors
/// Says which descriptor is of no use.
pub(super) fn inherited() -> Result<Vec<Rc<Listener>>, String> {
    let sockets = manager::inherited_listeners()?;
    let listener = |socket| {
        let configured = address(&socket).ok_or("a socket that was handed over has an abstract address, which cannot be configured")?;
        let own = Cell::new(false);
        Ok(Rc::new(Listener { configured, socket, own }))
    };
    sockets.into_iter().map(listener).collect()
}

/// Makes sure that every socket which was handed over is among those of `used`: somebody means it to be served.
///
/// # Errors
/// Names the address that the configuration does not.
pub(super) fn refuse_unnamed(inherited: &[Rc<Listener>], used: &[Rc<Listener>]) -> Result<(), String> {
    let unnamed = |listener: &&Rc<Listener>| !used.iter().any(|used| Rc::ptr_eq(used, listener));
    inherited.iter().find(unnamed).map_or(Ok(()), |listener| {
        Err(format!(
            "the service manager hands over a socket at \"{0}\", which no \"listen\" names: add it, or take it out of the socket unit",
            listener.configured
        ))
    })
}

/// Takes the sockets of `open` whose address is still wanted, and binds the others.
///
/// # Errors
/// The address that cannot be bound, with the errno; those that were bound for nothing are closed.
pub(super) fn listen(addresses: &[Listen], open: &[Rc<Listener>], identity: Identity) -> Result<Vec<Rc<Listener>>, String> {
    addresses.iter().try_for_each(|address| refuse_unsafe(address, identity))?;
    let known = |address: &Listen| open.iter().find(|listener| listener.configured == *address && socket::is_listening(&listener.socket));
    addresses.iter().map(|address| known(address).cloned().map_or_else(|| bind(address).map(Rc::new), Ok)).collect()
}

/// Refuses a socket in a directory that the user of the service can write: a worker that is taken over could put its own in
/// the place of it.
///
/// # Errors
/// Names the directory.
pub(super) fn refuse_unsafe(address: &Listen, identity: Identity) -> Result<(), String> {
    let Listen::Unix(path) = address else { return Ok(()) };
    if identity.rootless {
        return Ok(());
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    log_file::refuse_writable(directory, (identity.uid, identity.gid)).map_err(|fault| format!("listen on {address}: {fault}"))
}

/// Binds an address; where the host has no IPv6, its wildcard falls back to that of IPv4.
fn bind(configured: &Listen) -> Result<Listener, String> {
    let socket = match configured {
        Listen::Unix(path) => socket::listen_path(path),
        Listen::Tcp(address) => match socket::listen(*address) {
            Err(fault) if address.is_ipv6() && address.ip().is_unspecified() && socket::is_without_ipv6(&fault) => {
                let instead = SocketAddr::from(([0, 0, 0, 0], address.port()));
                announce(&format!("this host has no IPv6: listening on {instead} in place of {address}"));
                socket::listen(instead)
            }
            result => result,
        },
    };
    Ok(Listener {
        configured: configured.clone(),
        socket: socket.map_err(|fault| format!("listen on {configured}: {fault}"))?,
        own: Cell::new(true),
    })
}

fn address(socket: &OwnedFd) -> Option<Listen> {
    match socket::local_address(socket).ok()? {
        Address::Ip(address) => Some(Listen::Tcp(address)),
        Address::Path(path) => Some(Listen::Unix(path)),
    }
}

impl Listener {
    /// Removes the name that an address has in the file system, if it has one.
    pub(super) fn forget(configured: &Listen) {
        if let Listen::Unix(path) = configured {
            let _ = std::fs::remove_file(path);
        }
    }

    /// The address it really has, with the port that the kernel chose for port 0.
    pub(super) fn address(&self) -> Listen {
        address(&self.socket).unwrap_or_else(|| self.configured.clone())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.own.get() {
            Listener::forget(&self.configured);
        }
    }
}
