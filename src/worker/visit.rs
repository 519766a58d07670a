//! What is known of a request beside its head, and the access line that waits for its response to end.
//!
//! Runs in the worker; does nothing.

use crate::proto::status::Status;
use crate::site::Door;
use crate::site::facts::{Origin, Scheme, Secured};
use std::net::IpAddr;
use std::rc::Rc;

/// What is known of a request beside its head.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) client: IpAddr,
    /// The port of the peer; 0 where it has none.
    pub(super) peer_port: u16,
    /// Whether a proxy asks for it, and how it came there.
    pub(super) forwarded: bool,
    pub(super) scheme: Scheme,
    /// The proxy that is the peer, where its word for that is believed.
    pub(super) proxy: Option<IpAddr>,
    /// Which sites answer where the connection came in, and the port there.
    pub(super) door: Door,
    pub(super) port: u16,
    /// The address that it came to, where that is known.
    pub(super) local: Option<IpAddr>,
    /// Tells this request from all others: in the upper half what the process drew when it started, so that none before had it either.
    pub(super) id: u128,
    /// When its first byte came, in monotonic milliseconds.
    pub(super) began: u64,
    /// The same in microseconds, where an access line says how long it took.
    pub(super) began_us: u64,
    /// `None` for plain connections.
    pub(super) tls: Option<Rc<Secured>>,
    /// Whom the request is known to be from.
    pub(super) user: Option<Rc<User>>,
}

/// Whoever has logged in.
#[derive(Debug)]
pub(super) struct User {
    pub(super) name: Vec<u8>,
    /// The numbers of the `[auth.NAME]` that it is a user of.
    pub(super) realms: Vec<u16>,
}

impl User {
    /// A user of one more realm.
    pub(super) fn also(before: Option<&User>, name: Vec<u8>, realm: u16) -> User {
        let mut realms = before.filter(|user| user.name == name).map_or_else(Vec::new, |user| user.realms.clone());
        realms.push(realm);
        User { name, realms }
    }
}

impl Visit {
    /// Its name; empty without.
    pub(super) fn user(&self) -> &[u8] {
        self.user.as_ref().map_or(b"", |user| &user.name)
    }

    pub(super) fn origin(&self) -> Origin {
        Origin { client: self.client, forwarded: self.forwarded, scheme: self.scheme }
    }

    pub(super) fn set_origin(&mut self, origin: Origin) {
        Origin { client: self.client, forwarded: self.forwarded, scheme: self.scheme } = origin;
    }
}

/// An access line that waits for its response to end.
pub(super) struct Line {
    /// The head, which is read again when the line is written.
    pub(super) head: Vec<u8>,
    pub(super) site: usize,
    pub(super) visit: Visit,
    pub(super) status: Status,
}

#[cfg(test)]
impl Line {
    pub(super) fn for_tests() -> Line {
        let client = std::net::Ipv4Addr::LOCALHOST.into();
        let visit = Visit {
            client,
            peer_port: 0,
            forwarded: false,
            scheme: Scheme::Http,
            proxy: None,
            door: Door::default(),
            port: 0,
            local: None,
            id: 0,
            began: 0,
            began_us: 0,
            tls: None,
            user: None,
        };
        Line { head: Vec::new(), site: 0, visit, status: Status::OK }
    }
}
