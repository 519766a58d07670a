//! `connect`: connects to the backends that the configuration names, for workers, which may make no socket. CONFINED: it sees only the
//! directories of the backends' sockets; it has a network only as `connect-tcp`, where a backend has a TCP address.
//!
//! It sends and receives nothing over what it connects, and trusts no worker: an address is a number of the configuration, what a worker
//! asks for is limited, and a malformed request ends its sender.

use crate::config::{ConnectSlice, Target};
use crate::ipc::birth::{self, Born};
use crate::ipc::connect::{Outcome, Reply, Request};
use crate::ipc::messages::ToParent;
use crate::ipc::{Channel, Received};
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::privilege::Identity;
use crate::sys::socket::{self, Address, Dialled};
use crate::sys::{clock, resolve};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Runs the role until the parent stops it; the exit status.
pub fn run(role: Role) -> u8 {
    birth::run_prepared(role, look_up, |born| Connect::new(born)?.serve())
}

/// Looks the names of backends up: once confined there is nobody to ask. A name that is not known keeps a generation from starting; once it
/// serves, its own address alone fails, since DNS that is away shall not take every backend with it.
fn look_up(identity: Identity, slice: &mut ConnectSlice) -> Result<(), String> {
    let names: Vec<(String, u16)> = slice.targets.iter().filter_map(|target| target.name.clone()).collect();
    let named = slice.targets.iter_mut().filter(|target| target.name.is_some());
    for ((target, (name, port)), found) in named.zip(&names).zip(resolve::resolve(&names, identity)) {
        target.addresses = match found {
            Ok(addresses) => addresses,
            Err(_) if slice.again => Vec::new(),
            Err(why) => return Err(format!("address \"{name}:{port}\": {why}")),
        };
    }
    Ok(())
}

struct Connect {
    born: Born<ConnectSlice>,
    /// Where each number leads: a name may have several addresses, which are tried in this order.
    targets: Vec<Way>,
    senders: BTreeMap<u64, Sender>,
    pending: BTreeMap<u64, Pending>,
    next_token: u64,
    stopping: bool,
}

/// Where the number of an address leads.
struct Way {
    addresses: Vec<Address>,
    timeout_ms: u64,
    begins: bool,
}

/// A worker.
struct Sender {
    worker: u16,
    channel: Channel,
    pending: usize,
}

/// A connection that is not made yet.
struct Pending {
    sender: u64,
    request: Request,
    /// `None`: the other side takes none at the moment; tried again at `again`.
    socket: Option<OwnedFd>,
    /// Which of the addresses is tried, until when, and until when the others are.
    at: usize,
    turn: u64,
    until: u64,
    again: u64,
    pause: u64,
    /// Why it was put off.
    fault: Option<Outcome>,
    /// Until when a socket that is not there is waited for.
    patience: u64,
}

impl Connect {
    fn new(born: Born<ConnectSlice>) -> io::Result<Connect> {
        let inside = |path: &std::path::Path| Address::Path(born.confined.inside.path(path));
        let target = |target: &Target| {
            let addresses = target.addresses.iter().map(|ip| Address::Ip(*ip)).chain(target.path.as_deref().map(inside));
            Way { addresses: addresses.collect(), timeout_ms: target.timeout_ms, begins: target.begins }
        };
        let targets = born.slice.targets.iter().map(target).collect();
        born.poller.add(&born.parent, Interest::Input, PARENT)?;
        birth::report_ready(&born.parent, &born.confined)?;
        Ok(Connect { born, targets, senders: BTreeMap::new(), pending: BTreeMap::new(), next_token: PARENT + 1, stopping: false })
    }

    /// The loop. Ends when the parent is gone, or after [`Stop`](crate::ipc::messages::ToFiles::Stop) when every channel has ended.
    fn serve(mut self) -> io::Result<()> {
        while !(self.stopping && self.senders.is_empty()) {
            let moments = self.pending.values().map(|pending| if pending.socket.is_some() { pending.turn } else { pending.again });
            let timeout = moments.min().map(|moment| moment.saturating_sub(clock::monotonic_ms()));
            let count = self.born.poller.wait(timeout)?;
            for index in 0..count {
                let Some(ready) = self.born.poller.ready(index) else { continue };
                if ready.token == PARENT {
                    if !self.obey()? {
                        return Ok(());
                    }
                } else if self.senders.contains_key(&ready.token) {
                    self.take_requests(ready.token);
                } else if ready.output || ready.hung_up {
                    self.conclude(ready.token);
                }
            }
            self.go_on(clock::monotonic_ms());
        }
        Ok(())
    }

    /// Takes what the parent has sent; false: it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        let senders = &mut self.senders;
        self.born.obey(&mut self.stopping, &mut self.next_token, |token, worker, channel| {
            senders.insert(token, Sender { worker, channel, pending: 0 });
        })
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token - 1
    }

    /// Carries out requests of one worker, some at a time.
    fn take_requests(&mut self, token: u64) {
        for _ in 0..TURN {
            let Some(sender) = self.senders.get(&token) else { return };
            match sender.channel.receive::<Request>() {
                Received::Message(request, _) if usize::from(request.address) < self.targets.len() => {
                    if sender.pending >= PENDING_MAX {
                        self.answer(token, request.id, Outcome::Busy, None);
                    } else {
                        self.begin(token, request);
                    }
                }
                Received::Nothing => return,
                Received::Ended => return self.forget(token),
                Received::Message(..) | Received::Malformed => {
                    let worker = sender.worker;
                    self.forget(token);
                    let _ = self.born.parent.send(&ToParent::Malformed { worker }, &[]);
                }
            }
        }
    }

    /// A worker is gone, and with it who waits for its connections.
    fn forget(&mut self, token: u64) {
        self.senders.remove(&token);
        self.pending.retain(|_, pending| pending.sender != token);
    }

    fn begin(&mut self, sender: u64, request: Request) {
        let now = clock::monotonic_ms();
        let (timeout, begins) = self.targets.get(usize::from(request.address)).map_or((0, false), |way| (way.timeout_ms, way.begins));
        let (until, patience) = (now.saturating_add(timeout), if begins { now + BEGIN_MS } else { 0 });
        let pending =
            Pending { sender, request, socket: None, at: 0, turn: 0, until, again: 0, pause: PAUSE_MIN_MS, fault: None, patience };
        if let Some(sender) = self.senders.get_mut(&sender) {
            sender.pending += 1;
        }
        self.dial(pending);
    }

    /// Tries the present address of a request, and the next ones where it fails at once.
    fn dial(&mut self, mut pending: Pending) {
        loop {
            let addresses = &self.targets[usize::from(pending.request.address)].addresses;
            let Some(address) = addresses.get(pending.at) else {
                return self.end(&pending, Outcome::Failed { errno: NO_ADDRESS }, None);
            };
            // One that does not answer leaves the others their part of the time.
            let now = clock::monotonic_ms();
            let left = u64::try_from(addresses.len() - pending.at).unwrap_or(1);
            pending.turn = now + pending.until.saturating_sub(now) / left.max(1);
            match socket::dial(address) {
                Ok(Dialled { socket, pending: false }) => return self.end(&pending, Outcome::Connected, Some(&socket)),
                Ok(Dialled { socket, pending: true }) => {
                    let token = self.token();
                    if self.born.poller.add(&socket, Interest::Connection, token).is_err() {
                        return self.end(&pending, Outcome::Busy, None);
                    }
                    (pending.socket, pending.fault) = (Some(socket), None);
                    self.pending.insert(token, pending);
                    return;
                }
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock || (is_absent(&fault) && now < pending.patience) => {
                    // The queue of the backend's socket is full (unix(7)), and nothing tells when it is not any more; or `spawn` is about to
                    // make the socket, of a program that came with a reload.
                    pending.fault = Some(failed(&fault));
                    pending.again = clock::monotonic_ms() + pending.pause;
                    pending.pause = (pending.pause * 2).min(PAUSE_MAX_MS);
                    let token = self.token();
                    self.pending.insert(token, pending);
                    return;
                }
                Err(_) if pending.at + 1 < addresses.len() => pending.at += 1,
                Err(fault) => return self.end(&pending, failed(&fault), None),
            }
        }
    }

    /// A connection that was under way has come to an end.
    fn conclude(&mut self, token: u64) {
        let Some(mut pending) = self.pending.remove(&token) else { return };
        let Some(socket) = pending.socket.take() else { return };
        // The worker's copy is the same open file: it would go on to be waited for here.
        let _ = self.born.poller.remove(&socket);
        let more = self.targets.get(usize::from(pending.request.address)).is_some_and(|way| pending.at + 1 < way.addresses.len());
        match socket::outcome(&socket) {
            Ok(()) => self.end(&pending, Outcome::Connected, Some(&socket)),
            Err(_) if more => {
                pending.at += 1;
                self.dial(pending);
            }
            Err(fault) => self.end(&pending, failed(&fault), None),
        }
    }

    /// Tries again what was put off, and ends what takes too long.
    fn go_on(&mut self, now: u64) {
        let is_due = |pending: &Pending| now >= pending.turn || (pending.socket.is_none() && now >= pending.again);
        let due: Vec<u64> = self.pending.iter().filter(|(_, pending)| is_due(pending)).map(|(token, _)| *token).collect();
        for mut pending in due.iter().filter_map(|token| self.pending.remove(token)).collect::<Vec<_>>() {
            if let Some(socket) = pending.socket.take() {
                let _ = self.born.poller.remove(&socket);
                pending.at += 1;
            }
            if now >= pending.until || pending.at >= self.count(&pending) {
                self.end(&pending, pending.fault.unwrap_or(Outcome::Late), None);
            } else {
                self.dial(pending);
            }
        }
    }

    /// How many addresses there are to try.
    fn count(&self, pending: &Pending) -> usize {
        self.targets.get(usize::from(pending.request.address)).map_or(0, |way| way.addresses.len())
    }

    fn end(&mut self, pending: &Pending, outcome: Outcome, socket: Option<&OwnedFd>) {
        if let Some(sender) = self.senders.get_mut(&pending.sender) {
            sender.pending = sender.pending.saturating_sub(1);
        }
        self.answer(pending.sender, pending.request.id, outcome, socket);
    }

    /// A worker that does not take its answers loses them.
    fn answer(&self, sender: u64, id: u32, outcome: Outcome, socket: Option<&OwnedFd>) {
        let Some(sender) = self.senders.get(&sender) else { return };
        let descriptors: Vec<_> = socket.iter().map(|socket| socket.as_fd()).collect();
        let _ = sender.channel.send(&Reply { id, outcome }, &descriptors);
    }
}

/// Whether there is no socket, or nobody who listens at it.
fn is_absent(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn failed(fault: &io::Error) -> Outcome {
    Outcome::Failed { errno: fault.raw_os_error().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0) }
}

/// Token of the parent's channel.
const PARENT: u64 = 0;

/// Requests of one worker before others get their turn.
const TURN: u8 = 16;

/// Connections of one worker that may be under way: a taken-over one shall not use up the descriptors.
const PENDING_MAX: usize = 256;

/// How soon a full queue is tried again.
const PAUSE_MIN_MS: u64 = 1;
const PAUSE_MAX_MS: u64 = 50;

/// How long `spawn` may need to make a socket.
const BEGIN_MS: u64 = 1_000;

/// ENXIO: a name that could not be looked up when this process was started.
const NO_ADDRESS: u16 = 6;
