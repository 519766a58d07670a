//! The worker's loop: waits, drives connections, keeps their deadlines, obeys the parent. How it accepts stands in `accepting`.

mod accepting;

mod backends;
mod gate;
mod sessions;
mod table;

use gate::Gate;
use table::{SESSION, Sessions};

use super::answer::Service;
use super::backend::{Backends, LINK};
use super::clients::Clients;
use super::connection::Connection;
use super::counters::Counters;
use super::disk::{self, Came, Disk, Told};
use super::files::Files;
use super::log::Log;
use super::logins::Logins;
use super::spool::Spool;
use super::state::{Fate, Ticket, Waiting};
use super::timer::Wheel;
use super::tls::identity::Identities;
use super::tls::signer::Keeper;
use crate::config::WorkerSlice;
use crate::ipc::birth::{self, Born};
use crate::ipc::counters::{Counter, Gauge};
use crate::ipc::messages::{ToParent, ToWorker};
use crate::ipc::{Channel, Received};
use crate::sys::clock;
use crate::sys::confine::Confined;
use crate::sys::epoll::{Interest, Poller};
use slab::Slab;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The worker, which exists only confined.
struct Worker {
    _confined: Confined,
    parent: Channel,
    poller: Poller,
    service: Service,
    listeners: Vec<OwnedFd>,
    /// What is known of connections by the listener they come from.
    gates: Vec<Gate>,
    /// Whether the listeners are waited for; not at the connection limit, nor without descriptors.
    accepting: bool,
    /// When to try to accept again.
    accept_again: Option<u64>,
    connections: Slab<Connection>,
    connections_max: usize,
    /// Connections of HTTP/2.
    sessions: Sessions,
    serial: u32,
    /// Drawn at the start, for the names of requests.
    drawn: u64,
    /// What the parent knows this process by.
    number: u16,
    wheel: Wheel,
    /// Connections whose plan asks something of the disk, and those that have more to do.
    asking: VecDeque<u64>,
    again: VecDeque<u64>,
    /// Scratch space for receiving, shared by all connections.
    buffer: Vec<u8>,
    /// When to leave, after [`ToWorker::Stop`].
    stop: Option<u64>,
    /// What [`ToWorker::Linger`] named, and then until when these are accepted from.
    lingering: u64,
    linger: Option<u64>,
    /// Connections by [`Gauge`].
    gauges: [u64; Gauge::ALL.len()],
    last_complaint: u64,
}

/// Serves until the parent ends it; the exit status.
pub(super) fn serve(born: Born<WorkerSlice>) -> u8 {
    match Worker::new(born).and_then(Worker::run) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

impl Worker {
    fn new(born: Born<WorkerSlice>) -> io::Result<Worker> {
        let identity = born.cell.identity;
        let descriptors = born.descriptors;
        let wanted = usize::try_from(born.slice.limits.connections).unwrap_or(usize::MAX);
        // Answers of `files` come with descriptors; a connection may need one for its file as well; the cache gets what is left.
        let questions = disk::LIMIT.min(descriptors / 8);
        let free = descriptors.saturating_sub(RESERVED + questions);
        let connections_max = wanted.min(free / 2).max(1);
        let for_cache = free.saturating_sub(connections_max);
        let mut log = Log::new(&born.slice);
        if let Some(channel) = born.log {
            log.replace(channel);
        }
        let files = match Files::open(&born.slice.sites, &born.confined, &born.cell, for_cache) {
            Ok(files) => files,
            Err(why) => {
                let _ = born.parent.send(&ToParent::Failed { why }, &[]);
                return Err(io::ErrorKind::NotFound.into());
            }
        };
        let poller = born.poller;
        poller.add(&born.parent, Interest::Input, PARENT)?;
        let shared = born.shared.ok_or(io::ErrorKind::NotFound)?;
        let counters = Counters::new(shared, born.cell.number);
        let clients = Clients::new(shared, born.cell.number, born.slice.limits.connections_per_client);
        let disk = Disk::new(born.files, questions);
        if let Some(channel) = disk.channel() {
            poller.add(channel, Interest::Input, FILES)?;
        }
        let logins = Logins::new(born.auth);
        if let Some(channel) = logins.channel() {
            poller.add(channel, Interest::Input, AUTH)?;
        }
        let spool = Spool::new(born.spool, born.slice.spool.clone());
        let backends = Backends::new(born.slice.backends.clone(), (born.connect, spool, born.spawn), shared, born.cell.number);
        if let Some(channel) = backends.channel() {
            poller.add(channel, Interest::Input, CONNECT)?;
        }
        if let Some(channel) = backends.spool_channel() {
            poller.add(channel, Interest::Input, SPOOL)?;
        }
        let keeper = born.keys.map(|(channel, poller)| Keeper::new(channel, poller)).transpose()?;
        let identities = match Identities::new(&born.slice, keeper.map(Arc::new)) {
            Ok(identities) => identities,
            Err(why) => {
                let _ = born.parent.send(&ToParent::Failed { why }, &[]);
                return Err(io::ErrorKind::InvalidData.into());
            }
        };
        let service = Service::new(born.slice, files, (identities, log, disk, logins, backends), counters, clients, identity.uid);
        let worker = Worker {
            wheel: Wheel::new(service.clock.now),
            parent: born.parent,
            poller,
            service,
            listeners: Vec::new(),
            gates: Vec::new(),
            accepting: false,
            accept_again: None,
            connections: Slab::new(),
            connections_max,
            sessions: Sessions::default(),
            serial: 0,
            drawn: RandomState::new().hash_one(()),
            number: born.cell.number,
            asking: VecDeque::new(),
            again: VecDeque::new(),
            buffer: vec![0; BUFFER],
            stop: None,
            lingering: 0,
            linger: None,
            gauges: [0; Gauge::ALL.len()],
            last_complaint: 0,
            _confined: born.confined,
        };
        birth::report_ready(&worker.parent, &worker._confined)?;
        Ok(worker)
    }

    fn run(mut self) -> io::Result<()> {
        let mut due = Vec::new();
        while !self.is_done() {
            let count = self.poller.wait(self.timeout())?;
            self.service.clock.tick();
            for index in 0..count {
                let Some(ready) = self.poller.ready(index) else { continue };
                match ready.token {
                    PARENT => {
                        if !self.obey()? {
                            return Ok(());
                        }
                    }
                    FILES => self.take_answers(),
                    CONNECT => self.take_connections(),
                    SPOOL => self.take_spooled(),
                    AUTH => self.take_verdicts(),
                    token if token & LINK != 0 => self.service.backends.ready(token, self.service.clock.now),
                    token if token & SESSION != 0 => self.drive_session(token),
                    token if token < FIRST_CONNECTION => self.accept(token),
                    token => self.wake(token),
                }
            }
            self.accuse_keys();
            self.sweep_backends();
            self.carry_on();
            self.sweep_backends();
            self.carry_sessions_on();
            if self.service.clients.is_behind(self.service.clock.now) {
                self.count_connections_again();
            }
            self.wheel.due(self.service.clock.now, &mut due);
            for token in due.drain(..) {
                if token & SESSION != 0 { self.remind_session(token) } else { self.remind(token) }
            }
            if self.service.log.next_flush(self.service.clock.now) == Some(0) {
                self.service.log.flush(self.service.clock.now);
            }
            self.accept_again();
            if self.linger.is_some_and(|until| until <= self.service.clock.now) {
                self.keep_listeners(0);
            }
            self.service.counters.count(Counter::LinesLost, self.service.log.newly_lost());
            self.service.counters.publish();
            self.service.counters.set_gauges(self.gauges);
        }
        self.close_all_sessions();
        // What its time did not suffice for is cut off, and has its line in the log all the same.
        for index in self.connections.iter().map(|(index, _)| index).collect::<Vec<_>>() {
            self.close(index);
        }
        self.service.log.flush(self.service.clock.now);
        Ok(())
    }

    fn is_done(&self) -> bool {
        let is_idle = self.connections.is_empty() && self.sessions.len() == 0 && self.linger.is_none();
        self.stop.is_some_and(|deadline| is_idle || self.service.clock.now >= deadline)
    }

    /// How long to wait; 0 while something is left to do.
    fn timeout(&self) -> Option<u64> {
        if !self.asking.is_empty() || !self.again.is_empty() || self.sessions.is_busy() {
            return Some(0);
        }
        let now = self.service.clock.now;
        let until = |moment: Option<u64>| moment.map(|moment| moment.saturating_sub(now));
        let moments = [
            until(self.service.backends.next_moment()),
            self.wheel.next(now),
            self.service.log.next_flush(now),
            until(self.accept_again),
            until(self.stop),
            until(self.linger),
        ];
        moments.into_iter().flatten().min()
    }

    /// Takes one message of the parent; false: it is gone, and so is the reason to be.
    fn obey(&mut self) -> io::Result<bool> {
        match self.parent.receive_from_parent() {
            Received::Message(ToWorker::Listen { .. }, listeners) if self.listeners.is_empty() => {
                self.gates = listeners.iter().map(|listener| self.gate(listener)).collect();
                self.listeners = listeners;
                self.start_accepting()?;
                self.service.check_roots();
            }
            Received::Message(ToWorker::Log, channels) => {
                for channel in channels {
                    self.service.log.replace(channel.into());
                }
            }
            Received::Message(ToWorker::Linger { listeners }, _) => self.lingering = listeners,
            Received::Message(ToWorker::Stop { grace_ms, idle }, _) => self.wind_up(u64::from(grace_ms), idle),
            Received::Message(ToWorker::Report, _) => {
                self.service.counters.publish();
                let totals = self.service.counters.totals();
                let _ = self.parent.send(&ToParent::Counters(totals), &[]);
            }
            Received::Message(ToWorker::Files, _) => self.service.disk.ask_again(self.service.clock.now),
            Received::Message(ToWorker::Connect, _) => self.service.backends.ask_again(),
            Received::Message(ToWorker::Spool, _) => self.service.backends.spool.lose(),
            Received::Message(ToWorker::Spawn, _) => self.service.backends.programs_are_lost(self.service.clock.now),
            Received::Message(ToWorker::Gone { worker, moment, death }, _) => {
                if self.service.worker_died(worker, moment, death) {
                    self.count_connections_again();
                }
            }
            Received::Nothing => {}
            Received::Ended => return Ok(false),
            Received::Message(ToWorker::Listen { .. }, _) | Received::Malformed => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(true)
    }

    /// An epoch of the table of clients has begun: what is open here is entered anew.
    fn count_connections_again(&mut self) {
        for (_, connection) in &mut self.connections {
            connection.seat = connection.seat.and_then(|seat| self.service.clients.enter_again(seat, self.service.clock.now));
        }
        for session in self.sessions.all() {
            session.seat = session.seat.and_then(|seat| self.service.clients.enter_again(seat, self.service.clock.now));
        }
    }

    /// Accepts no more, closes what is idle if it should, and gives the rest until its deadline.
    fn wind_up(&mut self, grace_ms: u64, idle: bool) {
        let deadline = self.service.clock.now.saturating_add(grace_ms);
        // What waits at a place that has gone is taken even if something else ends meanwhile, but not when everything does.
        if self.stop.is_none() || idle {
            let places = std::mem::take(&mut self.lingering);
            self.keep_listeners(places);
        }
        self.stop = Some(self.stop.map_or(deadline, |earlier| earlier.min(deadline)));
        self.service.stopping = true;
        self.wind_up_sessions();
        if !idle {
            return;
        }
        let idle: Vec<usize> =
            self.connections.iter_mut().filter_map(|(index, connection)| connection.wind_up().then_some(index)).collect();
        for index in idle {
            self.close(index);
        }
    }

    /// The socket of a connection is ready. Where a response is on its way, it waits for its turn: many such connections, ready at once, would
    /// hold up all others, who wait for an answer and not for more of it.
    fn wake(&mut self, token: u64) {
        match find(&mut self.connections, token) {
            Some((_, connection)) if connection.is_sending() && connection.queued => {}
            Some((_, connection)) if connection.is_sending() => {
                connection.queued = true;
                self.again.push_back(token);
            }
            Some(_) => self.drive(token),
            None => {}
        }
    }

    /// Takes answers of `files`, some at a time and not for long, and goes on with the connections that wait for them: a list is made of what
    /// comes, which takes its time. What is left is told again.
    fn take_answers(&mut self) {
        let begun = clock::monotonic_us();
        for _ in 0..ANSWERS {
            if clock::monotonic_us().saturating_sub(begun) > TURN_US {
                return;
            }
            match self.service.disk.receive(self.service.clock.now) {
                Came::Answer { id, waiting, told } => {
                    waiting.into_iter().for_each(|token| self.tell(token, Ticket::Disk(id), told.clone()))
                }
                Came::Stale => {}
                Came::Malformed => {
                    let _ = self.parent.send(&ToParent::MalformedFiles, &[]);
                }
                Came::Nothing | Came::Ended => return,
            }
        }
    }

    /// Goes on with a connection, if it is there and still waits for this.
    fn tell(&mut self, token: u64, ticket: Ticket, told: Told) {
        let Some((index, connection)) = find(&mut self.connections, token).filter(|(_, connection)| connection.ticket == Some(ticket))
        else {
            return;
        };
        self.service.told = Some(told);
        self.service.clients.handles(connection.client);
        self.service.disk.asker = token;
        let fate = connection.resume(&mut self.service, &mut self.buffer);
        self.service.told = None;
        self.settle(index, token, fate);
    }

    /// Lets a connection do what it can.
    fn drive(&mut self, token: u64) {
        let Some((index, connection)) = find(&mut self.connections, token) else {
            return;
        };
        self.service.clients.handles(connection.client);
        self.service.disk.asker = token;
        let fate = connection.drive(&mut self.service, &mut self.buffer);
        self.settle(index, token, fate);
    }

    /// Answers what plans asked of the disk, and drives what has more to do: each once, but not for long. Who had no turn keeps the place
    /// in the queue.
    fn carry_on(&mut self) {
        let begun = clock::monotonic_us();
        for _ in 0..self.again.len() {
            let Some(token) = self.again.pop_front() else { break };
            if let Some((_, connection)) = find(&mut self.connections, token) {
                connection.queued = false;
            }
            self.drive(token);
            if clock::monotonic_us().saturating_sub(begun) > TURN_US {
                break;
            }
        }
        for _ in 0..self.asking.len() {
            let Some(token) = self.asking.pop_front() else { return };
            // It is here twice if its socket was ready meanwhile, and may have its answer by now, or wait for `files`.
            let Some((index, connection)) = find(&mut self.connections, token).filter(|(_, connection)| connection.is_asking()) else {
                continue;
            };
            self.service.clients.handles(connection.client);
            self.service.disk.asker = token;
            let fate = connection.resume(&mut self.service, &mut self.buffer);
            self.settle(index, token, fate);
        }
    }

    fn settle(&mut self, index: usize, token: u64, fate: Fate) {
        self.service.clients.handles(None);
        // What a connection made and could not send is its own by now.
        self.service.out.clear();
        if self.service.out.capacity() > OUT_KEPT {
            self.service.out = Vec::new();
        }
        if fate == Fate::Close {
            return self.close(index);
        }
        if fate == Fate::Http2 {
            return self.become_session(index);
        }
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        match fate {
            // Once: else every packet of a client would give it one turn more in each round.
            Fate::Again if !std::mem::replace(&mut connection.queued, true) => self.again.push_back(token),
            Fate::Ask => self.asking.push_back(token),
            Fate::Again | Fate::Keep | Fate::Close | Fate::Http2 => {}
        }
        if connection.transport().is_stream() {
            return self.remind_of(index, token);
        }
        let gauge = connection.waiting.gauge();
        if gauge == Gauge::Idle {
            connection.release(&self.service.clients);
        }
        if gauge != connection.gauge {
            self.gauges[connection.gauge as usize] -= 1;
            self.gauges[gauge as usize] += 1;
            connection.gauge = gauge;
        }
        if fate == Fate::Keep && !connection.registered {
            let added = connection.transport().socket().map(|socket| self.poller.add(socket, Interest::Connection, token));
            if !matches!(added, Some(Ok(()))) {
                return self.close(index);
            }
            connection.registered = true;
        }
        self.remind_of(index, token);
    }

    /// Has the loop reminded of the next moment that a connection waits for.
    fn remind_of(&mut self, index: usize, token: u64) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let next = connection.deadline.min(connection.wake);
        if next < connection.reminder {
            connection.reminder = next;
            self.wheel.remind(token, next);
        }
    }

    /// A reminder came: the deadline has passed, or was put off since.
    fn remind(&mut self, token: u64) {
        let now = self.service.clock.now;
        let Some((index, connection)) = find(&mut self.connections, token) else {
            return;
        };
        if connection.deadline <= now
            && connection.waiting == Waiting::Disk
            && let Some(ticket) = connection.ticket
        {
            connection.reminder = u64::MAX;
            self.service.counters.count(Counter::TimedOut, 1);
            match ticket {
                Ticket::Disk(id) => self.service.disk.give_up(id, now),
                Ticket::Login(id) => self.service.logins.give_up(id),
            }
            return self.tell(token, ticket, Told::Late);
        }
        if connection.deadline <= now {
            self.service.counters.count(Counter::TimedOut, 1);
            let fate = connection.time_out(&mut self.service);
            connection.reminder = u64::MAX;
            return self.settle(index, token, fate);
        }
        if connection.reminder <= now {
            connection.reminder = u64::MAX;
            if connection.wake <= now {
                return self.drive(token);
            }
            connection.reminder = connection.deadline.min(connection.wake);
            self.wheel.remind(token, connection.reminder);
        }
    }

    fn close(&mut self, index: usize) {
        if let Some(mut connection) = self.connections.try_remove(index) {
            if connection.transport().is_stream() {
                self.sessions.streams -= 1;
            } else {
                self.gauges[connection.gauge as usize] -= 1;
            }
            if let Some(seat) = connection.seat {
                self.service.clients.leave(seat);
            }
            connection.abandon(&mut self.service);
        }
        if self.accept_again.is_some() {
            self.accept_again = Some(self.service.clock.now);
        }
    }
}

/// The connection that a token means, if it is still there.
fn find(connections: &mut Slab<Connection>, token: u64) -> Option<(usize, &mut Connection)> {
    let index = usize::try_from((token & u64::from(u32::MAX)) - FIRST_CONNECTION).ok()?;
    let connection = connections.get_mut(index)?;
    (u64::from(connection.serial) == token >> 32).then_some((index, connection))
}

/// A connection's token: its place, and in the upper half the serial number that tells it from the next in that place.
fn pack(index: usize, serial: u32) -> u64 {
    u64::from(serial) << 32 | (u64::try_from(index).unwrap_or(0) + FIRST_CONNECTION)
}

/// Tokens: the parent's channel, then the listeners (fewer than 256), that of `files`, then connections.
const PARENT: u64 = 0;
const FILES: u64 = FIRST_CONNECTION - 1;
const CONNECT: u64 = FIRST_CONNECTION - 2;
const SPOOL: u64 = FIRST_CONNECTION - 3;
const AUTH: u64 = FIRST_CONNECTION - 4;
const FIRST_CONNECTION: u64 = 512;

/// Answers of `files` taken before others get their turn.
const ANSWERS: u8 = 64;

/// Bytes taken from a socket at once: of a body, what one record of FastCGI holds.
const BUFFER: usize = 64 * 1024 - 8;

/// Room for responses that is kept between connections; a large listing needs more for a moment.
const OUT_KEPT: usize = 256 * 1024;

/// Descriptors that are neither connections nor files: channels, listeners, roots.
const RESERVED: usize = 64;

/// How long connections that have more to do may take in a round, together, before others are served, and those for which answers came. One
/// of them may take a little longer.
const TURN_US: u64 = 400;
