//! A connection whose peer is a proxy: whose it is, by the PROXY protocol or by what each request says.
//!
//! Runs in the worker, as a part of [`Connection`]; reads no socket.

use super::{Connection, Fate};
use crate::proto::head::Request;
use crate::proto::proxy_protocol::{self, Source};
use crate::site::facts::Origin;
use crate::site::origin;
use crate::worker::answer::Service;
use crate::worker::clients::{Client, Clients};

impl Connection {
    /// Takes the header of the PROXY protocol at the front of the input; its length, or `None` while it is not whole.
    ///
    /// # Errors
    /// The connection ends: there is no such header, or whoever it names may not have one connection more.
    pub(super) fn introduce(&mut self, service: &mut Service, input: &[u8]) -> Result<Option<usize>, Fate> {
        let (source, length) = match proxy_protocol::parse(input) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(None),
            Err(proxy_protocol::Malformed) => {
                service.complain_of_proxy(self.visit.client);
                return Err(Fate::Close);
            }
        };
        self.introduces = false;
        self.visit.forwarded = source != Source::Proxy;
        if let Source::Address(client) = source {
            self.visit.client = client;
            // A proxy behind a proxy: what it says is believed, if it is one of ours.
            self.proxy = service.is_trusted(client).then(|| self.visit.origin());
            if self.proxy.is_none() {
                let admitted = service.admit_client(client).ok_or(Fate::Close)?;
                (self.client, self.seat) = (admitted.client, admitted.seat);
                service.clients.handles(self.client);
            }
        } else if self.proxy.is_some() {
            self.proxy = Some(self.visit.origin());
        }
        Ok(Some(length))
    }

    /// Finds out for whom a proxy asks, and counts the connection for that client while its request is answered; false: not one more.
    pub(super) fn attribute(&mut self, service: &mut Service, request: &Request<'_, '_>, proxy: Origin) -> bool {
        let origin = origin::of(request, proxy, &service.proxies.trusted);
        self.visit.set_origin(origin);
        if origin.client == proxy.client {
            return true;
        }
        let client = Client::of(origin.client);
        if self.seat.is_none() || self.client != Some(client) {
            self.release(&service.clients);
            let Some(admitted) = service.admit_client(origin.client) else { return false };
            (self.client, self.seat) = (admitted.client, admitted.seat);
        }
        service.clients.handles(self.client);
        true
    }

    /// No request is under way: a connection that a proxy keeps is no client's.
    pub(in crate::worker) fn release(&mut self, clients: &Clients) {
        if self.proxy.is_some()
            && let Some(seat) = self.seat.take()
        {
            clients.leave(seat);
        }
    }
}
