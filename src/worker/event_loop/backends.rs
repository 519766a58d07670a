//! What the loop does for backends: takes the connections that `connect` made, wakes who waits, writes what they say.
//!
//! Runs in the worker, as a part of its loop.

use super::Worker;
use crate::config::Level;
use crate::ipc::messages::ToParent;
use crate::worker::disk::Told;
use crate::worker::logins::Came;
use crate::worker::state::Ticket;

impl Worker {
    /// Takes connections to backends that `connect` made.
    pub(super) fn take_connections(&mut self) {
        if !self.service.backends.receive(&self.poller, self.service.clock.now) {
            let _ = self.parent.send(&ToParent::MalformedConnect, &[]);
        }
    }

    /// Takes what `spool` has to say of bodies.
    pub(super) fn take_spooled(&mut self) {
        if !self.service.backends.spool.receive() {
            let _ = self.parent.send(&ToParent::MalformedSpool, &[]);
        }
    }

    /// Takes what `auth` has to say of users, and goes on with those who wait for it.
    pub(super) fn take_verdicts(&mut self) {
        for _ in 0..VERDICTS {
            match self.service.logins.receive(self.service.clock.now) {
                Came::Verdict { id, token, verdict } => self.tell(token, Ticket::Login(id), Told::Verdict(verdict)),
                Came::Stale => {}
                Came::Malformed => {
                    let _ = self.parent.send(&ToParent::MalformedAuth, &[]);
                }
                Came::Nothing => return,
            }
        }
    }

    /// Tells the parent if `keys` sent what it may not.
    pub(super) fn accuse_keys(&mut self) {
        if self.service.place.identities.accuses_keys() {
            let _ = self.parent.send(&ToParent::MalformedKeys, &[]);
        }
    }

    /// Wakes the clients whose backends have something new, and sees to the connections to backends.
    pub(super) fn sweep_backends(&mut self) {
        let now = self.service.clock.now;
        self.service.backends.feed(now);
        if self.service.backends.next_moment().is_some_and(|moment| moment <= now) {
            self.service.backends.sweep(now);
        }
        for token in std::mem::take(&mut self.service.backends.woken) {
            self.wake(token);
        }
        for line in std::mem::take(&mut self.service.backends.lines) {
            self.service.log.error(Level::Error, &line);
        }
    }
}

/// Answers of `auth` taken before others get their turn.
const VERDICTS: u8 = 64;
