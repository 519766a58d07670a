//! Connections that are kept when an answer is over, and when they are given up: each holds a process of the backend that answers nobody.
//!
//! Runs in the worker. A small pool has fewer processes than workers want to keep, and then a request of one worker waits behind a
//! connection that another keeps. So a worker tells the others how many of its requests have not had a first word on a new connection for a
//! while, and meanwhile nothing is kept. A connection whose answer nobody takes is given up in time, or it would never be kept at all.

use super::{Backends, Link, STUCK_MS, Shared};
use crate::config::{Backend, Protocol};

impl Backends {
    /// For how long a backend's connections are kept, in milliseconds.
    pub(super) fn keep_idle(&self, backend: usize) -> u64 {
        self.all.get(backend).map_or(0, |backend| u64::try_from(backend.keep_idle.as_millis()).unwrap_or(u64::MAX))
    }

    /// Whether one idle connection more to an address may stay.
    pub(super) fn may_keep(&mut self, index: usize, now: u64) -> bool {
        let Some(link) = self.links.get(index) else { return false };
        let (number, backend) = (link.number, link.backend);
        let idle = self.links.iter().filter(|(_, other)| other.number == number && other.exchange.is_none()).count();
        let keep = self.all.get(backend).is_some_and(|backend| idle < usize::try_from(backend.keep).unwrap_or(0));
        keep && !self.has_stuck(backend, now)
    }

    /// Ends what was idle for too long, or stands in the way of others.
    pub(super) fn end_idle(&mut self, now: u64) {
        let idle: Vec<(usize, u64, usize)> =
            self.links.iter().filter(|(_, link)| link.exchange.is_none()).map(|(index, link)| (index, link.idle, link.backend)).collect();
        for (index, since, backend) in idle {
            if now >= since.saturating_add(self.keep_idle(backend)) || (now >= since + STUCK_MS && self.has_stuck(backend, now)) {
                self.drop_link(index);
            }
        }
    }

    /// When an idle connection is looked at again.
    pub(super) fn idle_until(&self, link: &Link, now: u64) -> u64 {
        let age = now.saturating_sub(link.idle);
        let look = now + (age / 4).clamp(STUCK_MS, LOOK_MAX_MS);
        link.idle.saturating_add(self.keep_idle(link.backend)).min(look)
    }

    /// Tells of the requests that had no word on a new connection for long enough.
    pub(super) fn tell_stuck(&mut self, now: u64) {
        for (_, link) in &mut self.links {
            let holds = self.all.get(link.backend).is_some_and(holds_a_process);
            if holds && !link.stuck && now >= link.idle + STUCK_MS && link.is_unheard() {
                link.stuck = true;
                self.counts.stuck(link.backend);
            }
        }
    }

    /// This one had, or needs none any more.
    pub(super) fn not_stuck(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        if std::mem::take(&mut link.stuck) {
            self.counts.stuck_no_more(link.backend);
        }
    }

    /// Whether a request of any worker is stuck. What was found is true for a moment, since this is asked for each answer.
    fn has_stuck(&mut self, backend: usize, now: u64) -> bool {
        let Some((until, found)) = self.looked.get_mut(backend) else { return false };
        if now >= *until {
            (*until, *found) = (now + LOOKED_MS, self.counts.all_stuck(backend) > 0);
        }
        *found
    }

    /// Nobody takes the content of this answer.
    pub(in crate::worker) fn discard(&mut self, exchange: &Shared, now: u64) {
        exchange.borrow_mut().discard(now);
        self.again = self.again.min(exchange.borrow().deadline());
    }

    /// Ends the exchanges whose answers nobody waits for, when their time is over.
    pub(super) fn end_drained(&mut self, now: u64) {
        let is_late = |link: &Link| {
            link.exchange.as_ref().is_some_and(|exchange| {
                let exchange = exchange.borrow();
                exchange.client == 0 && exchange.deadline() <= now
            })
        };
        let late: Vec<Shared> = self.links.iter().filter(|(_, link)| is_late(link)).filter_map(|(_, link)| link.exchange.clone()).collect();
        late.iter().for_each(|exchange| self.abandon(exchange));
    }

    /// Goes on with an exchange that has had its turn and has more to read.
    pub(super) fn go_on(&mut self, exchange: &Shared, now: u64) {
        self.pump(exchange, now);
        self.wake(exchange);
    }
}

/// Whether a connection that is kept takes a process from others. Servers of HTTP hold many connections at once, and a long answer of one
/// would have none of the others kept.
fn holds_a_process(backend: &Backend) -> bool {
    match backend.protocol {
        Protocol::FastCgi | Protocol::Scgi | Protocol::Uwsgi | Protocol::Cgi => true,
        Protocol::Http => false,
    }
}

impl Link {
    /// A new connection, on which nothing was said yet.
    pub(super) fn is_unheard(&self) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.borrow().is_unheard())
    }
}

/// The longest time between two looks at a connection that is idle.
const LOOK_MAX_MS: u64 = 250;
/// For how long what was found is believed.
const LOOKED_MS: u64 = 5;
