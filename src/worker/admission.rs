//! Who is let in: the limits of one client over all workers, and what is said of those that are refused.
//!
//! Runs in the worker, as a part of [`Service`]; makes no system call but for its log lines, of which there is one a second at most.

use super::answer::{Incoming, Service};
use super::clients::{Client, Entry, Seat, Taken};
use crate::config::{Level, Network, RequestRate};
use crate::ipc::counters::Counter;
use crate::ipc::lines;
use crate::ipc::messages::Death;
use crate::sys::socket::UNIX_PEER;
use std::net::IpAddr;

/// How a connection was let in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Admitted {
    /// Who has to answer for it; `None`: its peer is exempt.
    pub(super) client: Option<Client>,
    /// Where it is counted.
    pub(super) seat: Option<Seat>,
    /// Whether it starts with a header of the PROXY protocol, and whether what its requests say of their clients is believed.
    pub(super) introduces: bool,
    pub(super) trusted: bool,
}

impl Service {
    /// Lets a new connection in, or not.
    pub(super) fn admit(&mut self, peer: IpAddr) -> Option<Admitted> {
        let (introduces, trusted) = (is_in(&self.proxies.speaking, peer), self.is_trusted(peer));
        if introduces || trusted || peer.is_loopback() || peer == UNIX_PEER {
            return Some(Admitted { introduces, trusted, ..Admitted::default() });
        }
        self.admit_client(peer)
    }

    /// Counts a connection for a client, whether it came itself or a proxy says that it asks for it. `None`: not one more.
    pub(super) fn admit_client(&mut self, address: IpAddr) -> Option<Admitted> {
        let client = Client::of(address);
        let seat = match self.clients.enter(client, self.clock.now) {
            Entry::Counted(seat) => Some(seat),
            Entry::Uncounted => {
                self.counters.count(Counter::Uncounted, 1);
                None
            }
            Entry::TooMany => {
                self.counters.count(Counter::ClientConnections, 1);
                let most = self.limits.connections_per_client;
                self.say_refused(|| format!("client {client} has {most} connections already: closed"));
                return None;
            }
            Entry::Penalised(milliseconds) => {
                self.counters.count(Counter::Penalised, 1);
                self.say_refused(|| {
                    format!("client {client} is refused for {} s more: a request of it ended a worker", milliseconds.div_ceil(1000))
                });
                return None;
            }
        };
        Some(Admitted { client: Some(client), seat, ..Admitted::default() })
    }

    /// Whether what a peer says of its clients is believed.
    pub(super) fn is_trusted(&self, peer: IpAddr) -> bool {
        is_in(&self.proxies.trusted, peer)
    }

    /// Says of a connection that was to start with a header of the PROXY protocol that it does not.
    pub(super) fn complain_of_proxy(&mut self, peer: IpAddr) {
        self.counters.count(Counter::Refused, 1);
        self.say_refused(|| format!("proxy {peer}: no header of the PROXY protocol, or a malformed one: closed"));
    }

    /// Takes a request off what its client may send, of all or of what one rule matches; how many seconds it should wait where that was
    /// used up.
    pub(super) fn exceeds(&mut self, incoming: &Incoming<'_>, site: usize, rule: Option<u64>, rate: &RequestRate) -> Option<u64> {
        // Whoever comes to a socket with a path is no one client.
        let address = incoming.visit.client;
        if address == UNIX_PEER {
            return None;
        }
        let client = Client::of(address);
        match self.clients.take(client, rule, rate, self.clock.now) {
            Taken::Yes => None,
            Taken::Uncounted => {
                self.counters.count(Counter::Uncounted, 1);
                None
            }
            Taken::Wait(milliseconds) => {
                self.counters.count(Counter::TooManyRequests, 1);
                let of = if rule.is_some() { " for what a rule matches" } else { "" };
                let name = self.sites.get(site).name.first().cloned().unwrap_or_default();
                let line = incoming.request.line;
                self.say_refused(|| {
                    let line = lines::escaped(line);
                    format!("client {client}, site \"{name}\", request \"{line}\": more than {rate} requests{of}: 429")
                });
                Some(milliseconds.div_ceil(1000).max(1))
            }
        }
    }

    /// A worker has died: what it counted is not there any more, and whoever made it crash is refused for a while. Whether all
    /// connections have to be counted again.
    pub(super) fn worker_died(&mut self, number: u16, moment: u64, death: Death) -> bool {
        self.counters.clear_row(number);
        self.backends.worker_died(number);
        if death == Death::Orderly {
            return false;
        }
        if let Some((client, length)) = self.clients.worker_died(number, moment, death == Death::Fault, self.clock.now) {
            let text = format!("client {client} is refused for {} s: a worker died while it handled a request of it", length / 1000);
            self.log.error(Level::Warning, &text);
        }
        true
    }

    /// One line a second, with the number of those that got none: a flood shall not fill the log.
    pub(super) fn say_refused(&mut self, text: impl FnOnce() -> String) {
        if self.clock.now.saturating_sub(self.refusals.said) < REFUSALS_MS {
            self.refusals.unsaid += 1;
            return;
        }
        let more = match std::mem::take(&mut self.refusals.unsaid) {
            0 => String::new(),
            unsaid => format!(" ({unsaid} more connections or requests were refused since the last such line)"),
        };
        self.refusals.said = self.clock.now;
        self.log.error(Level::Warning, &format!("{}{more}", text()));
    }
}

fn is_in(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// How often refusals are told of.
const REFUSALS_MS: u64 = 1_000;
