//! The worker's loop: waits, accepts, drives connections, keeps their deadlines, obeys the parent.

use super::answer::Service;
use super::clients::Clients;
use super::clock::millis;
use super::connection::Connection;
use super::counters::Counters;
use super::disk::{self, Came, Disk, Told};
use super::files::Files;
use super::log::Log;
use super::state::{Fate, Waiting};
use super::timer::Wheel;
use super::visit::Visit;
use crate::config::{Level, Listen, WorkerSlice};
use crate::ipc::birth::{self, Born};
use crate::ipc::counters::{Counter, Gauge};
use crate::ipc::messages::{ToParent, ToWorker};
use crate::ipc::{Channel, Received};
use crate::site::Door;
use crate::site::facts::Scheme;
use crate::sys::clock;
use crate::sys::confine::Confined;
use crate::sys::epoll::{Interest, Poller};
use crate::sys::socket::{self, Address};
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

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
    serial: u32,
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
        let files = match Files::open(&born.slice.sites, &born.confined, identity.rootless, for_cache) {
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
        let service = Service::new(born.slice, files, log, disk, counters, clients, identity.uid);
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
            serial: 0,
            number: born.cell.number,
            asking: VecDeque::new(),
            again: VecDeque::new(),
            buffer: vec![0; BUFFER],
            stop: None,
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
                    token if token < FIRST_CONNECTION => self.accept(token),
                    token => self.wake(token),
                }
            }
            self.carry_on();
            if self.service.clients.is_behind(self.service.clock.now) {
                self.count_connections_again();
            }
            self.wheel.due(self.service.clock.now, &mut due);
            for token in due.drain(..) {
                self.remind(token);
            }
            if self.service.log.next_flush(self.service.clock.now) == Some(0) {
                self.service.log.flush(self.service.clock.now);
            }
            self.accept_again();
            self.service.counters.count(Counter::LinesLost, self.service.log.newly_lost());
            self.service.counters.publish();
            self.service.counters.set_gauges(self.gauges);
        }
        // What its time did not suffice for is cut off, and has its line in the log all the same.
        for index in self.connections.iter().map(|(index, _)| index).collect::<Vec<_>>() {
            self.close(index);
        }
        self.service.log.flush(self.service.clock.now);
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.stop.is_some_and(|deadline| self.connections.is_empty() || self.service.clock.now >= deadline)
    }

    /// How long to wait; 0 while something is left to do.
    fn timeout(&self) -> Option<u64> {
        if !self.asking.is_empty() || !self.again.is_empty() {
            return Some(0);
        }
        let now = self.service.clock.now;
        let until = |moment: Option<u64>| moment.map(|moment| moment.saturating_sub(now));
        let moments = [self.wheel.next(now), self.service.log.next_flush(now), until(self.accept_again), until(self.stop)];
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
            Received::Message(ToWorker::Stop { grace_ms, idle }, _) => self.wind_up(u64::from(grace_ms), idle),
            Received::Message(ToWorker::Report, _) => {
                self.service.counters.publish();
                let totals = self.service.counters.totals();
                let _ = self.parent.send(&ToParent::Counters(totals), &[]);
            }
            Received::Message(ToWorker::Files, _) => self.service.disk.ask_again(self.service.clock.now),
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
    }

    /// Accepts no more, closes what is idle if it should, and gives the rest until its deadline.
    fn wind_up(&mut self, grace_ms: u64, idle: bool) {
        let deadline = self.service.clock.now.saturating_add(grace_ms);
        self.stop = Some(self.stop.map_or(deadline, |earlier| earlier.min(deadline)));
        self.service.stopping = true;
        self.stop_accepting();
        self.listeners.clear();
        if !idle {
            return;
        }
        let idle: Vec<usize> =
            self.connections.iter_mut().filter_map(|(index, connection)| connection.wind_up().then_some(index)).collect();
        for index in idle {
            self.close(index);
        }
    }

    fn start_accepting(&mut self) -> io::Result<()> {
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

    fn stop_accepting(&mut self) {
        if self.accepting {
            for listener in &self.listeners {
                let _ = self.poller.remove(listener);
            }
            self.accepting = false;
        }
    }

    /// What is known of every connection that comes from a listener.
    fn gate(&self, listener: &OwnedFd) -> Gate {
        match socket::local_address(listener) {
            Ok(Address::Ip(address)) => Gate {
                door: self.service.door(&Listen::Tcp(address)),
                port: address.port(),
                ask: address.ip().is_unspecified() && self.service.has_doors(),
            },
            Ok(Address::Path(path)) => Gate { door: self.service.door(&Listen::Unix(path)), port: 0, ask: false },
            Err(_) => Gate { door: Door::default(), port: 0, ask: false },
        }
    }

    /// What is known of the requests of a new connection.
    fn visit(&self, connection: &OwnedFd, client: IpAddr, gate: Gate) -> Visit {
        // Sites may answer at one address of many that a listener takes: then each connection is asked for its own.
        let asked = if gate.ask { socket::local_address(connection).ok() } else { None };
        let asked = match asked {
            Some(Address::Ip(address)) => Some(address),
            Some(Address::Path(_)) | None => None,
        };
        Visit {
            client,
            forwarded: false,
            scheme: Scheme::Http,
            door: asked.map_or(gate.door, |address| self.service.door(&Listen::Tcp(address))),
            port: gate.port,
            id: u64::from(self.number) << 48 | u64::from(self.serial) << 16,
            began: self.service.clock.now,
        }
    }

    /// Accepts one connection: another worker gets the next, so that the load spreads.
    fn accept(&mut self, token: u64) {
        if self.connections.len() >= self.connections_max && !self.make_room() {
            self.pause_accepting();
            return;
        }
        let index = usize::try_from(token - PARENT - 1).unwrap_or(usize::MAX);
        let (Some(listener), Some(gate)) = (self.listeners.get(index), self.gates.get(index).copied()) else {
            return;
        };
        match socket::accept(listener.as_fd()) {
            Ok((connection, client)) => {
                // Closed at once, if it is one too many.
                let Some(admitted) = self.service.admit(client) else { return };
                self.serial = self.serial.wrapping_add(1);
                let deadline = self.service.clock.now + millis(self.service.limits.header_timeout);
                let visit = self.visit(&connection, client, gate);
                let index = self.connections.insert(Connection::new(connection, visit, admitted, self.serial, deadline));
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

    fn pause_accepting(&mut self) {
        self.stop_accepting();
        self.accept_again = Some(self.service.clock.now + ACCEPT_PAUSE_MS);
    }

    fn accept_again(&mut self) {
        if self.accept_again.is_some_and(|moment| moment <= self.service.clock.now) && self.stop.is_none() {
            self.accept_again = None;
            if self.connections.len() < self.connections_max || self.make_room() {
                // Memory for the wait may be short as well: then later.
                if self.start_accepting().is_err() {
                    self.pause_accepting();
                }
            } else {
                self.pause_accepting();
            }
        }
    }

    /// Closes the connections that have been idle longest, a hundredth of all at once so that it is not done for each; false:
    /// none is idle.
    fn make_room(&mut self) -> bool {
        self.service.counters.count(Counter::LimitHit, 1);
        let mut idle: Vec<(u64, usize)> =
            self.connections.iter().filter(|(_, c)| c.is_idle()).map(|(index, c)| (c.deadline, index)).collect();
        idle.sort_unstable();
        let count = (self.connections_max / 100).max(1).min(idle.len());
        for (_, index) in idle.iter().take(count) {
            self.close(*index);
        }
        count > 0
    }

    /// The socket of a connection is ready. Where content is made while it is sent, it waits for its turn: many such connections, ready at
    /// once, would hold up all others.
    fn wake(&mut self, token: u64) {
        match find(&mut self.connections, token) {
            Some((_, connection)) if connection.is_making() && connection.queued => {}
            Some((_, connection)) if connection.is_making() => {
                connection.queued = true;
                self.again.push_back(token);
            }
            Some(_) => self.drive(token),
            None => {}
        }
    }

    /// Takes answers of `files`, some at a time, and goes on with the connections that wait for them.
    fn take_answers(&mut self) {
        for _ in 0..ANSWERS {
            match self.service.disk.receive(self.service.clock.now) {
                Came::Answer { id, waiting, told } => waiting.into_iter().for_each(|token| self.tell(token, id, told.clone())),
                Came::Stale => {}
                Came::Malformed => {
                    let _ = self.parent.send(&ToParent::MalformedFiles, &[]);
                }
                Came::Nothing | Came::Ended => return,
            }
        }
    }

    /// Goes on with a connection, if it is there and still waits for this.
    fn tell(&mut self, token: u64, id: u32, told: Told) {
        let Some((index, connection)) = find(&mut self.connections, token).filter(|(_, connection)| connection.ticket == Some(id)) else {
            return;
        };
        self.service.told = Some(told);
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
            let Some((index, connection)) = find(&mut self.connections, token) else {
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
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        match fate {
            // Once: else every packet of a client would give it one turn more in each round.
            Fate::Again if !std::mem::replace(&mut connection.queued, true) => self.again.push_back(token),
            Fate::Ask => self.asking.push_back(token),
            Fate::Again | Fate::Keep | Fate::Close => {}
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
            if self.poller.add(&*connection, Interest::Connection, token).is_err() {
                return self.close(index);
            }
            connection.registered = true;
        }
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
            && let Some(id) = connection.ticket
        {
            connection.reminder = u64::MAX;
            self.service.counters.count(Counter::TimedOut, 1);
            self.service.disk.give_up(id, now);
            return self.tell(token, id, Told::Late);
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
            self.gauges[connection.gauge as usize] -= 1;
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

/// What is known of connections by the listener they come from.
#[derive(Clone, Copy)]
struct Gate {
    door: Door,
    port: u16,
    /// Whether the address that a client came to says which sites answer.
    ask: bool,
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
const FIRST_CONNECTION: u64 = 512;

/// Answers of `files` taken before others get their turn.
const ANSWERS: u8 = 64;

/// Bytes taken from a socket at once.
const BUFFER: usize = 32 * 1024;

/// Room for responses that is kept between connections; a large listing needs more for a moment.
const OUT_KEPT: usize = 256 * 1024;

/// Descriptors that are neither connections nor files: channels, listeners, roots.
const RESERVED: usize = 64;

/// How long connections that have more to do may take in a round, together, before others are served. One of them may take a little longer.
const TURN_US: u64 = 2_000;

/// Connections that a worker accepts before it steps behind the others: few, so that they spread; more than one, since it costs two
/// system calls.
const IN_A_ROW: u32 = 4;

/// How long accepting pauses when descriptors ran out or the limit is reached, unless a connection closes before.
const ACCEPT_PAUSE_MS: u64 = 100;

/// A shortage is logged at most this often.
const COMPLAINT_MS: u64 = 1_000;
