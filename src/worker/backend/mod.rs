//! Backends: connections to them that are handed over by `connect`, which of several addresses is asked, who has to wait.
//!
//! Runs in the worker, which can make no connection itself. `exchange` is one request and its answer, spoken by a `codec`: `feed` what goes
//! out, `answer` what comes back, `stderr` what is for the error log. `handed` is a request that waits, `balance` which address is asked, `trouble` which is not,
//! `kept` what becomes of a connection then, `drain` of an answer that nobody takes, `counts` what all workers have together, `spooled` bodies that `spool` keeps.

mod answer;
mod balance;
mod codec;
mod counts;
mod drain;
mod exchange;
mod feed;
mod handed;
mod kept;
mod programs;
mod spooled;
mod stderr;
mod trouble;

pub(super) use answer::{Form, Head};
pub(super) use codec::Codec;
pub(super) use exchange::{Content, Exchange, Failure, Shared};
pub(super) use handed::Handed;

use crate::config::{Backend, Balance, address_number};
use crate::ipc::connect::{Outcome, Reply, Request};
use crate::ipc::lines;
use crate::ipc::messages::Message;
use crate::ipc::{Channel, Received};
use crate::sys::epoll::{Interest, Poller};
use crate::sys::{shared, socket};
use crate::worker::kept::Spooled;
use crate::worker::spool::Spool;
use counts::Counts;
use exchange::Terms;
use programs::Programs;
use slab::Slab;
use spooled::Feeds;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use trouble::Troubles;

/// The backends of a worker.
pub(super) struct Backends {
    pub(super) all: Vec<Backend>,
    channel: Option<Channel>,
    pub(super) spool: Spool,
    /// Bodies that it keeps, on their way to backends.
    feeds: Feeds,
    counts: Counts,
    links: Slab<Link>,
    serial: u32,
    programs: Programs,
    /// What `connect` or `spawn` was asked for, by the number of the question.
    asked: HashMap<u32, Asked>,
    unsent: VecDeque<u32>,
    last: u32,
    /// Those that wait until fewer are open, by backend.
    queues: Vec<VecDeque<Shared>>,
    troubles: Troubles,
    /// Exchanges that need their socket no more, or have more to read than they may at once.
    done: Rc<RefCell<Vec<Shared>>>,
    /// Connections of clients that have something new, by their tokens.
    pub(super) woken: Vec<u64>,
    /// Lines for the error log.
    pub(super) lines: Vec<String>,
    /// When queues are looked at again: other workers tell nobody.
    again: u64,
    /// Whether requests of a backend were stuck, and until when that is believed, by backend.
    looked: Vec<(u64, bool)>,
}

/// A connection to a backend.
struct Link {
    socket: Rc<OwnedFd>,
    /// The number of its address among those of all backends.
    number: usize,
    backend: usize,
    address: usize,
    serial: u32,
    /// `None`: idle since that moment.
    exchange: Option<Shared>,
    idle: u64,
    /// The others were told that nothing came of it yet.
    stuck: bool,
}

struct Asked {
    exchange: Shared,
    number: usize,
    address: usize,
    until: u64,
}

impl Backends {
    pub(super) fn new(
        all: Vec<Backend>,
        (channel, spool, spawn): (Option<Channel>, Spool, Option<Channel>),
        shared: shared::Shared,
        number: u16,
    ) -> Backends {
        let queues = all.iter().map(|_| VecDeque::new()).collect();
        let looked = vec![(0, false); all.len()];
        let backends = all.len();
        let addresses = all.iter().map(|backend| backend.addresses.len()).sum();
        Backends {
            channel,
            spool,
            programs: Programs::new(spawn),
            feeds: Feeds::default(),
            all,
            counts: Counts::new(shared, number, (addresses, backends)),
            links: Slab::new(),
            serial: 0,
            asked: HashMap::new(),
            unsent: VecDeque::new(),
            last: 0,
            queues,
            troubles: Troubles::default(),
            done: Rc::default(),
            woken: Vec::new(),
            lines: Vec::new(),
            again: u64::MAX,
            looked,
        }
    }

    /// To wait for answers on.
    pub(super) fn channel(&self) -> Option<BorrowedFd<'_>> {
        // Without backends it is held, so that no other descriptor gets its number, and nothing comes.
        self.channel.as_ref().filter(|_| !self.all.is_empty()).map(AsFd::as_fd)
    }

    /// To wait for answers of `spool` on.
    pub(super) fn spool_channel(&self) -> Option<BorrowedFd<'_>> {
        self.spool.channel().filter(|_| !self.all.is_empty())
    }

    /// A worker has died: what it had does not count any more.
    pub(super) fn worker_died(&self, number: u16) {
        self.counts.clear(number);
    }

    /// What an exchange with a backend is bound to.
    pub(super) fn terms(&self, backend: usize) -> Terms {
        let limit = self.all.get(backend).map_or(0, |backend| usize::try_from(backend.buffer).unwrap_or(usize::MAX));
        Terms { limit, timeout: self.timeout(backend), done: Rc::clone(&self.done) }
    }

    /// For how long a backend may be silent, in milliseconds.
    fn timeout(&self, backend: usize) -> u64 {
        self.all.get(backend).map_or(0, |backend| u64::try_from(backend.read_timeout.as_millis()).unwrap_or(u64::MAX))
    }

    /// Has an exchange connected, or queued, or failed.
    pub(super) fn begin(&mut self, exchange: &Shared, client: IpAddr, now: u64) {
        let number = exchange.borrow().backend;
        let Some((most, queue)) = self.all.get(number).map(|backend| (u64::from(backend.max_connections), u64::from(backend.queue))) else {
            return;
        };
        exchange.borrow_mut().from = client;
        if let Some(link) = self.idle(number, Some(client), now) {
            return self.give(link, exchange, now);
        }
        if self.open(number) >= most {
            if self.counts.waiting(number) >= queue {
                exchange.borrow_mut().failure = Some(Failure::Full);
                return;
            }
            self.counts.waits(number);
            if let Some(queue) = self.queues.get_mut(number) {
                queue.push_back(Rc::clone(exchange));
            }
            self.again = self.again.min(now + LOOK_AGAIN_MS);
            return;
        }
        self.dial(exchange, now);
    }

    /// Connections of all workers to a backend.
    fn open(&self, backend: usize) -> u64 {
        let addresses = self.all.get(backend).map_or(0, |backend| backend.addresses.len());
        (0..addresses).map(|address| self.counts.open(usize::from(address_number(&self.all, backend, address)))).sum()
    }

    /// A connection that was kept, the last one used first: the others may end. Where the client decides which address is asked, to that one.
    fn idle(&mut self, backend: usize, client: Option<IpAddr>, now: u64) -> Option<usize> {
        let by_client = self.all.get(backend).is_some_and(|backend| backend.balance == Balance::HashClient);
        let address = client.filter(|_| by_client).and_then(|client| self.choose(backend, 0, client, now));
        let fits =
            |link: &Link| link.backend == backend && link.exchange.is_none() && address.is_none_or(|address| link.address == address);
        let keep = self.keep_idle(backend);
        loop {
            let idle = self.links.iter().filter(|(_, link)| fits(link));
            let (index, since) = idle.map(|(index, link)| (index, link.idle)).max_by_key(|(_, since)| *since)?;
            // One that was closed meanwhile says so; what says anything else is of no use either.
            let socket = self.links.get(index).map(|link| Rc::clone(&link.socket))?;
            if is_quiet(&socket) && now < since.saturating_add(keep) {
                return Some(index);
            }
            self.drop_link(index);
        }
    }

    fn give(&mut self, index: usize, exchange: &Shared, now: u64) {
        let Some(link) = self.links.get_mut(index) else { return };
        link.exchange = Some(Rc::clone(exchange));
        exchange.borrow_mut().address = link.address;
        exchange.borrow_mut().connected(Rc::clone(&link.socket), index, true, now);
        self.again = self.again.min(exchange.borrow().deadline());
        self.send_on(exchange, now);
    }

    /// Asks `connect` for a connection to the address whose turn it is.
    fn dial(&mut self, exchange: &Shared, now: u64) {
        let (number, tried, from) = (exchange.borrow().backend, exchange.borrow().tried, exchange.borrow().from);
        let Some(address) = self.choose(number, tried, from, now) else {
            exchange.borrow_mut().failure.get_or_insert(Failure::Unreachable("no address is left".to_owned()));
            return;
        };
        let place = usize::from(address_number(&self.all, number, address));
        exchange.borrow_mut().address = address;
        if self.channel.is_none() || self.asked.len() >= ASKED_MAX {
            exchange.borrow_mut().failure = Some(Failure::Unreachable("too many connections are being made".to_owned()));
            return;
        }
        let timeout = self.all.get(number).map_or(0, |backend| u64::try_from(backend.connect_timeout.as_millis()).unwrap_or(u64::MAX));
        self.counts.opened(place);
        self.last = self.last.wrapping_add(1);
        let until = now.saturating_add(timeout).saturating_add(GRACE_MS);
        self.again = self.again.min(until);
        self.asked.insert(self.last, Asked { exchange: Rc::clone(exchange), number: place, address, until });
        if !self.programs.run(exchange, self.last) {
            self.unsent.push_back(self.last);
            self.send();
        }
    }

    fn send(&mut self) {
        let Some(channel) = &self.channel else { return };
        while let Some(id) = self.unsent.front() {
            if let Some(asked) = self.asked.get(id) {
                let address = u16::try_from(asked.number).unwrap_or(u16::MAX);
                match channel.send(&Request { id: *id, address }, &[]) {
                    Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return,
                    Ok(()) | Err(_) => {}
                }
            }
            self.unsent.pop_front();
        }
    }

    /// A new `connect` serves: what the one before took is asked again.
    pub(super) fn ask_again(&mut self) {
        let mut ids: Vec<u32> =
            self.asked.iter().filter(|(_, asked)| asked.exchange.borrow().program.is_none()).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        self.unsent = ids.into();
        self.send();
    }

    /// `spawn` has ended. What it took and did not answer is lost; should the next one take it from the channel, it is told nothing more, and so
    /// runs nothing.
    pub(super) fn programs_are_lost(&mut self, now: u64) {
        let lost: Vec<u32> = self.asked.iter().filter(|(_, asked)| asked.exchange.borrow().program.is_some()).map(|(id, _)| *id).collect();
        for asked in lost.iter().filter_map(|id| self.asked.remove(id)).collect::<Vec<_>>() {
            self.unreachable(asked, "the process that starts programs has ended", now);
        }
    }

    /// Takes answers of `connect` and `spawn`, some at a time; false: it sent what it may not.
    pub(super) fn receive(&mut self, poller: &Poller, now: u64) -> bool {
        for _ in 0..ANSWERS {
            let Some(channel) = &self.channel else { return true };
            let mut buffer = [0; Reply::LENGTH_MAX + 1];
            match channel.receive_from_broker::<Reply>(&mut buffer) {
                Received::Message(reply, descriptors) => {
                    self.send();
                    self.programs.send();
                    self.take_answer(reply, descriptors, poller, now);
                }
                Received::Nothing => return true,
                Received::Malformed => return false,
                Received::Ended => {
                    self.channel = None;
                    return true;
                }
            }
        }
        true
    }

    fn take_answer(&mut self, reply: Reply, mut descriptors: Vec<OwnedFd>, poller: &Poller, now: u64) {
        let Some(asked) = self.asked.remove(&reply.id) else { return };
        match (reply.outcome, descriptors.pop()) {
            (Outcome::Connected, Some(socket)) => self.connected(asked, socket, poller, now),
            (Outcome::Failed { errno }, _) => {
                let fault = io::Error::from_raw_os_error(i32::from(errno));
                let full = if fault.kind() == io::ErrorKind::WouldBlock { "its queue is full: " } else { "" };
                self.unreachable(asked, &format!("connect: {full}{fault}"), now);
            }
            (Outcome::Late, _) => self.unreachable(asked, "connect: it takes no connection (connect_timeout)", now),
            (Outcome::Busy | Outcome::Connected, _) => self.unreachable(asked, "too many connections are being made", now),
        }
    }

    fn connected(&mut self, asked: Asked, socket: OwnedFd, poller: &Poller, now: u64) {
        self.troubles.connected(asked.number);
        let backend = asked.exchange.borrow().backend;
        self.serial = self.serial.wrapping_add(1);
        let socket = Rc::new(socket);
        let link = Link {
            socket: Rc::clone(&socket),
            number: asked.number,
            backend,
            address: asked.address,
            serial: self.serial,
            exchange: Some(Rc::clone(&asked.exchange)),
            idle: now,
            stuck: false,
        };
        let index = self.links.insert(link);
        if poller.add(socket.as_fd(), Interest::Connection, token(index, self.serial)).is_err() {
            self.drop_link(index);
            asked.exchange.borrow_mut().failure = Some(Failure::Unreachable("no memory to wait for it".to_owned()));
            return self.wake(&asked.exchange);
        }
        // Whoever asked may have gone meanwhile.
        if asked.exchange.borrow().failure().is_some() {
            if !self.may_keep(index, now) {
                self.drop_link(index);
            } else if let Some(link) = self.links.get_mut(index) {
                link.exchange = None;
                self.again = self.again.min(now + STUCK_MS);
            }
            return self.next(backend, now);
        }
        asked.exchange.borrow_mut().connected(socket, index, false, now);
        self.again = self.again.min(asked.exchange.borrow().deadline()).min(now + STUCK_MS);
        self.send_on(&asked.exchange, now);
        self.wake(&asked.exchange);
    }

    fn unreachable(&mut self, asked: Asked, why: &str, now: u64) {
        self.counts.closed(asked.number);
        self.troubles.unreachable(asked.number, now);
        if asked.exchange.borrow().failure().is_some() {
            return;
        }
        let (backend, tried) = {
            let mut exchange = asked.exchange.borrow_mut();
            exchange.tried |= bit(asked.address);
            (exchange.backend, exchange.tried)
        };
        let left = self.all.get(backend).is_some_and(|backend| (0..backend.addresses.len()).any(|address| tried & bit(address) == 0));
        if left {
            self.dial(&asked.exchange, now);
        } else {
            asked.exchange.borrow_mut().failure = Some(Failure::Unreachable(why.to_owned()));
        }
        if asked.exchange.borrow().failure().is_some() {
            self.wake(&asked.exchange);
        }
    }

    /// The socket of a link is ready.
    pub(super) fn ready(&mut self, token: u64, now: u64) {
        let (index, serial) = split(token);
        let Some(link) = self.links.get(index).filter(|link| link.serial == serial) else { return };
        match link.exchange.clone() {
            None if is_quiet(&link.socket) => {}
            // Closed, or it says what nobody asked.
            None => self.drop_link(index),
            Some(exchange) => {
                self.pump(&exchange, now);
                self.wake(&exchange);
                if !exchange.borrow().is_unheard() {
                    self.not_stuck(index);
                }
            }
        }
    }

    /// The body of this exchange comes from `spool`.
    pub(super) fn feed_from(&mut self, exchange: &Shared, body: Spooled) {
        self.feeds.add(exchange, body);
    }

    /// Hands on what has come of bodies that `spool` keeps, and asks for more.
    pub(super) fn feed(&mut self, now: u64) {
        for exchange in self.feeds.advance() {
            self.pump(&exchange, now);
            self.wake(&exchange);
        }
        self.spool.sweep();
        self.woken.append(&mut self.spool.woken);
        self.lines.append(&mut self.spool.lines);
    }

    /// Sends and receives.
    pub(super) fn pump(&mut self, exchange: &Shared, now: u64) {
        let another = exchange.borrow_mut().pump(now);
        self.pumped(exchange, another, now);
    }

    /// Only sends: an answer is told by the loop, whose registration tells of all that comes after this.
    pub(super) fn send_on(&mut self, exchange: &Shared, now: u64) {
        let another = exchange.borrow_mut().send(now);
        self.pumped(exchange, another, now);
    }

    fn pumped(&mut self, exchange: &Shared, another: bool, now: u64) {
        if another {
            let link = exchange.borrow_mut().link.take();
            if let Some(index) = link {
                self.drop_link(index);
            }
            // A connection that was kept says nothing of its address; one that was new does.
            let (number, address, reused) = (exchange.borrow().backend, exchange.borrow().address, exchange.borrow().reused);
            if !reused && self.all.get(number).is_some_and(|backend| backend.addresses.len() > 1) {
                exchange.borrow_mut().tried |= bit(address);
                self.troubles.answered(usize::from(address_number(&self.all, number, address)), false, now);
            }
            self.dial(exchange, now);
        }
        self.note_lines(exchange);
        Exchange::tell_done(exchange);
    }

    /// What the backend said on its error stream.
    fn note_lines(&mut self, exchange: &Shared) {
        let mut exchange = exchange.borrow_mut();
        let (lines, left_out) = exchange.take_lines();
        for line in lines {
            self.lines.push(format!("{}: {}", exchange.origin, lines::escaped(&line)));
        }
        if left_out > 0 {
            self.lines.push(format!("{}: {left_out} more lines", exchange.origin));
        }
    }

    fn wake(&mut self, exchange: &Shared) {
        let client = exchange.borrow().client;
        if client != 0 {
            self.woken.push(client);
        }
    }

    /// Nobody waits for an exchange any more.
    pub(super) fn abandon(&mut self, exchange: &Shared) {
        exchange.borrow_mut().abandon();
        Exchange::tell_done(exchange);
        let backend = exchange.borrow().backend;
        if let Some(queue) = self.queues.get_mut(backend) {
            let before = queue.len();
            queue.retain(|queued| !Rc::ptr_eq(queued, exchange));
            (queue.len()..before).for_each(|_| self.counts.waits_no_more(backend));
        }
    }

    /// Takes back what is not needed any more, ends what was idle for too long, and gives queued requests their turn.
    pub(super) fn sweep(&mut self, now: u64) {
        let done = std::mem::take(&mut *self.done.borrow_mut());
        for exchange in done {
            if exchange.borrow_mut().takes_turn() {
                self.go_on(&exchange, now);
                continue;
            }
            self.note_lines(&exchange);
            self.programs.over(&exchange);
            let link = exchange.borrow_mut().link.take();
            let Some(index) = link else { continue };
            let backend = exchange.borrow().backend;
            self.not_stuck(index);
            if let Some((number, answered)) = self.links.get(index).map(|link| link.number).zip(exchange.borrow().verdict()) {
                self.troubles.answered(number, answered, now);
            }
            if exchange.borrow().is_reusable() && self.may_keep(index, now) {
                if let Some(link) = self.links.get_mut(index) {
                    (link.exchange, link.idle) = (None, now);
                }
            } else {
                self.drop_link(index);
            }
            self.next(backend, now);
        }
        if self.again <= now {
            self.again = u64::MAX;
            self.tell_stuck(now);
            self.end_idle(now);
            (0..self.all.len()).for_each(|backend| self.next(backend, now));
            self.end_silent(now);
        }
        let next = self.links.iter().filter(|(_, link)| link.exchange.is_none()).map(|(_, link)| self.idle_until(link, now));
        let unheard = self.links.iter().filter(|(_, link)| !link.stuck && link.is_unheard()).map(|(_, link)| link.idle + STUCK_MS);
        let queued = self.queues.iter().any(|queue| !queue.is_empty()).then_some(now + LOOK_AGAIN_MS);
        let asked = self.asked.values().map(|asked| asked.until);
        // Whether its answer is still waited for then is not known now.
        let silent = self.links.iter().filter_map(|(_, link)| Some(link.exchange.as_ref()?.borrow().deadline().max(now + LOOK_AGAIN_MS)));
        self.again = next.chain(unheard).chain(queued).chain(asked).chain(silent).min().unwrap_or(u64::MAX);
    }

    /// When [`Backends::sweep`] has something to do.
    pub(super) fn next_moment(&self) -> Option<u64> {
        if !self.done.borrow().is_empty() {
            return Some(0);
        }
        (self.again != u64::MAX).then_some(self.again)
    }

    fn end_silent(&mut self, now: u64) {
        self.end_drained(now);
        let lost: Vec<u32> = self.asked.iter().filter(|(_, asked)| asked.until <= now).map(|(id, _)| *id).collect();
        for asked in lost.iter().filter_map(|id| self.asked.remove(id)).collect::<Vec<_>>() {
            self.unreachable(asked, "connect: no answer", now);
        }
    }

    /// Gives the next request of a queue its connection, if there may be one more.
    fn next(&mut self, backend: usize, now: u64) {
        while self.queues.get(backend).is_some_and(|queue| !queue.is_empty()) {
            let may = self.all.get(backend).is_some_and(|known| self.open(backend) < u64::from(known.max_connections));
            let from = self.queues.get(backend).and_then(VecDeque::front).map(|exchange| exchange.borrow().from);
            let idle = self.idle(backend, from, now);
            if !may && idle.is_none() {
                return;
            }
            let Some(exchange) = self.queues.get_mut(backend).and_then(VecDeque::pop_front) else { return };
            self.counts.waits_no_more(backend);
            match idle {
                Some(link) => {
                    self.give(link, &exchange, now);
                    self.wake(&exchange);
                }
                None => {
                    self.dial(&exchange, now);
                    if exchange.borrow().failure().is_some() {
                        self.wake(&exchange);
                    }
                }
            }
        }
    }

    fn drop_link(&mut self, index: usize) {
        self.not_stuck(index);
        if let Some(link) = self.links.try_remove(index) {
            self.counts.closed(link.number);
        }
    }
}

/// Whether a connection that nobody uses is as it should be: open, and without a word.
fn is_quiet(socket: &OwnedFd) -> bool {
    matches!(socket::receive(socket, &mut [0]), Err(fault) if fault.kind() == io::ErrorKind::WouldBlock)
}

/// Beyond 64 several share one: a request may then pass over an address that was not tried.
fn bit(address: usize) -> u64 {
    1 << (address % 64)
}

/// A link's token: as those of connections, with a bit that none of them has.
fn token(index: usize, serial: u32) -> u64 {
    u64::from(serial) << 32 | LINK | (u64::try_from(index).unwrap_or(0) & (LINK - 1))
}

fn split(token: u64) -> (usize, u32) {
    (usize::try_from(token & (LINK - 1)).unwrap_or(usize::MAX), u32::try_from(token >> 32).unwrap_or(0))
}

/// The bit of the lower half of a token that tells links from connections.
pub(super) const LINK: u64 = 1 << 31;

/// Answers of `connect` taken before others get their turn.
const ANSWERS: u8 = 64;
/// Connections that are being made at a time.
const ASKED_MAX: usize = 256;
/// How often a queue is looked at when another worker may have let a connection go.
const LOOK_AGAIN_MS: u64 = 25;
/// How long a request may be without a first word before others make room for it; and the least time between two looks.
const STUCK_MS: u64 = 25;
/// How much longer than `connect_timeout` an answer of `connect` is waited for.
const GRACE_MS: u64 = 1_000;
