//! What is different over TLS: which site a request is for, whether it may come this way, and what browsers are told of later visits.
//!
//! Runs in the worker, as a part of [`Service`]; makes no system call but for its log lines, of which there is one a second at most.

use super::answer::{Answered, Incoming, Service};
use super::response::Head;
use super::tls::link::News;
use super::visit::Visit;
use crate::config::Level;
use crate::ipc::counters::Counter;
use crate::ipc::lines;
use crate::proto::head::Request;
use crate::proto::status::{Reject, Status};
use crate::site::facts::Scheme;
use crate::site::https::HSTS;
use std::sync::Arc;

impl Service {
    /// The site that a request is for: that of the host it names, else, over TLS, that of the connection.
    pub(super) fn site(&self, visit: &Visit, request: &Request<'_, '_>) -> usize {
        match (&visit.tls, request.host) {
            (Some(secured), None) => secured.site,
            (Some(_) | None, host) => self.sites.select_at(visit.door, host),
        }
    }

    /// Refuses a request for a site that its connection was not made with, where that proves itself with something else or asks clients for
    /// something else, and one for a site that is not served over TLS at all (RFC 9110, 15.5.20).
    pub(super) fn misdirected(&mut self, incoming: &Incoming<'_>, site: usize) -> Option<Answered> {
        let secured = incoming.visit.tls.as_ref()?;
        if self.place.identities.may_share(secured.site, site) {
            return None;
        }
        let (connected, why) = (secured.site, "another site than the connection was made with");
        Some(self.refuse(incoming, connected, Reject { status: Status::MISDIRECTED_REQUEST, why }))
    }

    /// Adds to an answer over https what the site says of later visits, unless a rule says something else.
    pub(super) fn secure(&mut self, visit: &Visit, site: usize) {
        if visit.scheme == Scheme::Https
            && let Some(Some(value)) = self.hsts.get(site)
            && !self.changes.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(HSTS))
        {
            self.changes.headers.push((HSTS.into(), Arc::clone(value)));
        }
    }

    /// The same for the answer to what is no request.
    pub(super) fn secure_rejected(&self, visit: &Visit, head: &mut Head<'_>) {
        if let Some(secured) = &visit.tls
            && let Some(Some(value)) = self.hsts.get(secured.site)
        {
            head.add(HSTS, value);
        }
    }

    /// Says what a handshake came to: one line a second, with the number of those that got none.
    pub(super) fn tell_of_handshake(&mut self, visit: &Visit, news: &News) {
        let client = visit.client;
        let text = match news {
            News::Plain => return,
            News::Unknown(name) => {
                let name = lines::escaped(name.as_bytes());
                format!("client {client} asks for \"{name}\" over TLS, which no site with a certificate is called: gets the default")
            }
            News::Failed(why) => {
                self.counters.count(Counter::Refused, 1);
                format!("client {client}: TLS handshake or record: {}", lines::escaped(why.as_bytes()))
            }
        };
        if self.clock.now.saturating_sub(self.handshakes.said) < INTERVAL_MS {
            self.handshakes.unsaid += 1;
            return;
        }
        let more = match std::mem::take(&mut self.handshakes.unsaid) {
            0 => String::new(),
            unsaid => format!(" ({unsaid} more since the last such line)"),
        };
        self.handshakes.said = self.clock.now;
        self.log.error(Level::Info, &format!("{text}{more}"));
    }
}

/// How often handshakes are told of.
const INTERVAL_MS: u64 = 1_000;
