//! Listening sockets: bound once or handed over by the service manager, kept through every worker's death and every reload
//! that still names their address.
//!
//! A new address may overlap one that is open, as 0.0.0.0 does 127.0.0.1: then both are bound to the port while the next generation
//! starts, and the new one listens when its workers are there. Not so where that is a socket of the service manager, which has it
//! before and after us: what was set on it would last.

use super::report::announce;
use crate::config::Listen;
use crate::ipc::status::OF_THE_MANAGER;
use crate::sys::port::Port;
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
    pub(super) socket: Port,
    /// Bound by the service, also by the program before this one. No option of another's socket is ever changed.
    bound: bool,
    /// Removed here if it has a name: bound by the service, and by no program that may come back.
    pub(super) own: Cell<bool>,
}

/// Who has an address that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The service, which can leave it.
    Service,
    /// The service too, but as the service manager handed it over, who would not take it back changed.
    Manager,
    Another,
}

/// The sockets that the service manager hands over; to be called first, see [`manager::inherited_listeners`].
///
/// # Errors
/// Says which descriptor is of no use.
pub(super) fn inherited() -> Result<Vec<Rc<Listener>>, String> {
    let sockets = manager::inherited_listeners()?;
    let listener = |socket| {
        let configured = address(&socket).ok_or("a socket that was handed over has an abstract address, which cannot be configured")?;
        Ok(Rc::new(Listener::inherited(configured, socket, false)))
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
    let known = |address: &Listen| {
        open.iter()
            .find(|listener| listener.configured == *address && !listener.socket.is_retired() && socket::is_listening(&listener.socket))
    };
    addresses.iter().map(|address| known(address).cloned().map_or_else(|| bind(address, open).map(Rc::new), Ok)).collect()
}

/// Who has an address, by the listeners of the service.
pub(super) fn owner(open: &[Rc<Listener>], address: &str) -> Owner {
    match open.iter().find(|open| open.address().to_string() == address) {
        Some(open) if open.is_handed_over() => Owner::Manager,
        Some(_) => Owner::Service,
        None => Owner::Another,
    }
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
fn bind(configured: &Listen, open: &[Rc<Listener>]) -> Result<Listener, String> {
    let port = |address| {
        let overlaps = |open: &&Rc<Listener>| open.bound && open.address().overlaps(&Listen::Tcp(address));
        Port::open(address, open.iter().filter(overlaps).map(|open| &open.socket))
    };
    let socket = match configured {
        Listen::Unix(path) => socket::listen_path(path).map(Port::from),
        Listen::Tcp(address) => match port(*address) {
            Err(fault) if address.is_ipv6() && address.ip().is_unspecified() && socket::is_without_ipv6(&fault) => {
                let instead = SocketAddr::from(([0, 0, 0, 0], address.port()));
                announce(&format!("this host has no IPv6: listening on {instead} in place of {address}"));
                port(instead)
            }
            result => result,
        },
    };
    let socket = socket.map_err(|fault| format!("listen on {configured}: {fault}"))?;
    Ok(Listener { configured: configured.clone(), socket, bound: true, own: Cell::new(true) })
}

fn address(socket: &OwnedFd) -> Option<Listen> {
    match socket::local_address(socket).ok()? {
        Address::Ip(address) => Some(Listen::Tcp(address)),
        Address::Path(path) => Some(Listen::Unix(path)),
    }
}

impl Listener {
    /// One from the service manager, or from the program before, which has `bound` it or not.
    pub(super) fn inherited(configured: Listen, socket: OwnedFd, bound: bool) -> Listener {
        Listener { configured, socket: Port::from(socket), bound, own: Cell::new(false) }
    }

    /// Listens, if it does not yet.
    pub(super) fn start(&self) -> Result<(), String> {
        self.socket.start().map_err(|fault| format!("listen on {}: {fault}", self.configured))
    }

    /// Retires it in favour of one of `next`, if it is not among them and one of them overlaps with it.
    pub(super) fn retire(self: &Rc<Listener>, next: &[Rc<Listener>]) -> bool {
        let stays = next.iter().any(|next| Rc::ptr_eq(next, self));
        self.bound && !stays && next.iter().any(|next| next.address().overlaps(&self.address())) && self.socket.retire()
    }

    /// Removes the name that an address has in the file system, if it has one.
    pub(super) fn forget(configured: &Listen) {
        if let Listen::Unix(path) = configured {
            let _ = std::fs::remove_file(path);
        }
    }

    /// What `check` is told of it.
    pub(super) fn told(&self) -> impl Iterator<Item = String> {
        let address = self.address().to_string();
        let handed_over = self.is_handed_over().then(|| format!("{OF_THE_MANAGER}{address}"));
        std::iter::once(address).chain(handed_over)
    }

    /// Whether it is the service manager's.
    pub(super) fn is_handed_over(&self) -> bool {
        !self.bound
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
