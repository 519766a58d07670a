//! How the worker accepts: from which listeners, one connection at a time, and when it pauses.
//!
//! Runs in the worker, as a part of [`Worker`].

use super::{Gate, PARENT, Worker, pack};
use crate::config::{Level, Listen};
use crate::ipc::counters::{Counter, Gauge};
use crate::site::Door;
use crate::site::facts::Scheme;
use crate::sys::epoll::Interest;
use crate::sys::socket::{self, Address};
use crate::worker::clock::millis;
use crate::worker::connection::Connection;
use crate::worker::tls::link::Tls;
use crate::worker::transport::Transport;
use crate::worker::visit::Visit;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

impl Worker {
    pub(super) fn start_accepting(&mut self) -> io::Result<()> {
        if !self.accepting {
            // Whatever comes of the rest, those that are waited for have to be let go together.
            self.accepting = true;
            let mut listeners = self.listeners.iter().zip(PARENT + 1..);
            let added = listeners.try_for_each(|(listener, token)| self.poller.add(listener, Interest::SharedListener, token));
            if added.is_err() {
                self.stop_accepting();
            }
            return added;
        }
        Ok(())
    }

    pub(super) fn stop_accepting(&mut self) {
        if self.accepting {
            for listener in &self.listeners {
                let _ = self.poller.remove(listener);
            }
            self.accepting = false;
        }
    }

    /// What is known of every connection that comes from a listener.
    pub(super) fn gate(&self, listener: &OwnedFd) -> Gate {
        match socket::local_address(listener) {
            Ok(Address::Ip(address)) => Gate {
                door: self.service.door(&Listen::Tcp(address)),
                port: address.port(),
                tls: self.service.is_tls(&Listen::Tcp(address)),
                local: Some(address.ip()).filter(|ip| !ip.is_unspecified()),
                ask: address.ip().is_unspecified() && (self.service.has_doors() || !self.service.backends.all.is_empty()),
            },
            Ok(Address::Path(path)) => {
                let path = Listen::Unix(path);
                Gate { door: self.service.door(&path), port: 0, tls: self.service.is_tls(&path), local: None, ask: false }
            }
            Err(_) => Gate { door: Door::default(), port: 0, tls: false, local: None, ask: false },
        }
    }

    /// What is known of the requests of a new connection.
    fn visit(&self, connection: &OwnedFd, peer: SocketAddr, gate: Gate) -> Visit {
        // Sites may answer at one address of many that a listener takes: then each connection is asked for its own.
        let asked = if gate.ask { socket::local_address(connection).ok() } else { None };
        let asked = match asked {
            Some(Address::Ip(address)) => Some(address),
            Some(Address::Path(_)) | None => None,
        };
        Visit {
            client: peer.ip(),
            peer_port: peer.port(),
            forwarded: false,
            scheme: if gate.tls { Scheme::Https } else { Scheme::Http },
            proxy: None,
            door: asked.map_or(gate.door, |address| self.service.door(&Listen::Tcp(address))),
            port: gate.port,
            local: asked.map(|address| address.ip().to_canonical()).or(gate.local),
            id: u128::from(self.drawn) << 64 | u128::from(self.number) << 48 | u128::from(self.serial) << 16,
            began: self.service.clock.now,
            began_us: self.service.log.moment(),
            tls: None,
            user: None,
        }
    }

    /// Accepts one connection: another worker gets the next, so that the load spreads.
    pub(super) fn accept(&mut self, token: u64) {
        if self.sockets() >= self.connections_max && !self.make_room() {
            self.pause_accepting();
            return;
        }
        let index = usize::try_from(token - PARENT - 1).unwrap_or(usize::MAX);
        let (Some(listener), Some(gate)) = (self.listeners.get(index), self.gates.get(index).copied()) else {
            return;
        };
        match socket::accept(listener.as_fd()) {
            Ok((connection, peer)) => {
                // Closed at once, if it is one too many.
                let Some(admitted) = self.service.admit(peer.ip()) else { return };
                self.serial = self.serial.wrapping_add(1);
                let deadline = self.service.clock.now + millis(self.service.limits.header_timeout);
                let visit = self.visit(&connection, peer, gate);
                let transport = if gate.tls {
                    Transport::Tls(Box::new(Tls::new(connection, &self.service.place, visit.door, admitted.introduces)))
                } else {
                    Transport::Plain(connection)
                };
                let index = self.connections.insert(Connection::new(transport, visit, admitted, self.serial, deadline));
                self.gauges[Gauge::Reading as usize] += 1;
                self.service.counters.count(Counter::Accepted, 1);
                self.drive(pack(index, self.serial));
                if self.serial.is_multiple_of(IN_A_ROW) {
                    self.step_behind(token);
                }
            }
            Err(fault) => self.accept_failed(&fault),
        }
    }

    /// Lets other workers be woken first. The kernel wakes the one that has waited at a listener longest, counted from when it was added: always the
    /// same, which would hold nearly all connections that are kept. Nothing is lost: adding tells what is there.
    fn step_behind(&mut self, token: u64) {
        let index = usize::try_from(token - PARENT - 1).unwrap_or(usize::MAX);
        let Some(listener) = self.listeners.get(index).filter(|_| self.accepting) else { return };
        let _ = self.poller.remove(listener);
        if self.poller.add(listener, Interest::SharedListener, token).is_err() {
            self.pause_accepting();
        }
    }

    /// No connection waits, or one that did is gone again: nothing. Descriptors or memory ran out: a pause, without spinning.
    fn accept_failed(&mut self, fault: &io::Error) {
        let passing = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted, io::ErrorKind::ConnectionAborted];
        if passing.contains(&fault.kind()) {
            return;
        }
        if self.service.clock.now.saturating_sub(self.last_complaint) >= COMPLAINT_MS {
            self.last_complaint = self.service.clock.now;
            self.service.log.error(Level::Error, &format!("accept: {fault}; pausing"));
        }
        self.pause_accepting();
    }

    pub(super) fn pause_accepting(&mut self) {
        self.stop_accepting();
        self.accept_again = Some(self.service.clock.now + ACCEPT_PAUSE_MS);
    }

    pub(super) fn accept_again(&mut self) {
        if self.accept_again.is_some_and(|moment| moment <= self.service.clock.now) && (self.stop.is_none() || self.linger.is_some()) {
            self.accept_again = None;
            if self.sockets() < self.connections_max || self.make_room() {
                // Memory for the wait may be short as well: then later.
                if self.start_accepting().is_err() {
                    self.pause_accepting();
                }
            } else {
                self.pause_accepting();
            }
        }
    }

    /// Connections of clients; streams are none.
    fn sockets(&self) -> usize {
        self.connections.len() - self.sessions.streams + self.sessions.len()
    }

    /// Closes the connections that have been idle longest, a hundredth of all at once so that it is not done for each; false:
    /// none is idle.
    fn make_room(&mut self) -> bool {
        self.service.counters.count(Counter::LimitHit, 1);
        let mut idle: Vec<(u64, usize)> =
            self.connections.iter().filter(|(_, c)| c.is_idle()).map(|(index, c)| (c.deadline, index)).collect();
        idle.sort_unstable();
        let most = (self.connections_max / 100).max(1);
        let count = most.min(idle.len());
        for (_, index) in idle.iter().take(count) {
            self.close(*index);
        }
        count > 0 || self.close_idle_sessions(most) > 0
    }

    /// Accepts only from these listeners from now on, by their places, and not for long.
    pub(super) fn keep_listeners(&mut self, places: u64) {
        self.stop_accepting();
        let mut place = 0..u64::BITS;
        let mut kept = || place.next().is_some_and(|place| places >> place & 1 == 1);
        (self.listeners, self.gates) =
            std::mem::take(&mut self.listeners).into_iter().zip(std::mem::take(&mut self.gates)).filter(|_| kept()).unzip();
        self.linger = (!self.listeners.is_empty()).then_some(self.service.clock.now + socket::HELD_BACK_MS);
        if self.start_accepting().is_err() {
            self.pause_accepting();
        }
    }
}

/// Connections that a worker accepts before it steps behind the others: few, so that they spread; more than one, since it costs two
/// system calls.
const IN_A_ROW: u32 = 4;

/// How long accepting pauses when descriptors ran out or the limit is reached, unless a connection closes before.
const ACCEPT_PAUSE_MS: u64 = 100;

/// A shortage is logged at most this often.
const COMPLAINT_MS: u64 = 1_000;
