//! `spool`: keeps bodies of requests that are too large for memory, in unnamed files of one directory. CONFINED: it sees that directory and
//! nothing else, has no network, and waits for the disk in the workers' place.
//!
//! No worker ever has a descriptor of what lies here: bytes come and go by message and are counted as they come, so that all bodies together
//! never take more than `spool_max`, whatever a worker does that is taken over. What a worker left behind goes with its channel. A malformed
//! request ends its sender.

use crate::config::SpoolSlice;
use crate::ipc::birth::{self, Born};
use crate::ipc::messages::{Message, ToParent};
use crate::ipc::spool::{PIECE, Reply, Request};
use crate::ipc::{Channel, Received};
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::unnamed::Unnamed;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Runs the role until the parent stops it; the exit status.
pub fn run() -> u8 {
    birth::run(Role::Spool, |born| Spool::new(born)?.serve())
}

struct Spool {
    born: Born<SpoolSlice>,
    /// Where it lies in here; `None`: it was not there when this process started.
    directory: Option<PathBuf>,
    senders: BTreeMap<u64, Sender>,
    next_token: u64,
    /// Bytes that all bodies take.
    used: u64,
    stopping: bool,
    /// Room for one request.
    buffer: Vec<u8>,
}

/// A worker.
struct Sender {
    worker: u16,
    channel: Channel,
    bodies: BTreeMap<u32, Body>,
    /// An answer that it does not take at the moment: nothing more is done for it before it does.
    owed: Option<Reply>,
}

enum Body {
    Kept {
        file: Unnamed,
        length: u64,
    },
    /// What comes of it is dropped.
    Lost,
}

impl Spool {
    fn new(born: Born<SpoolSlice>) -> io::Result<Spool> {
        let directory = born.slice.directory.as_deref().map(|path| born.confined.inside.path(path));
        born.poller.add(&born.parent, Interest::Input, PARENT)?;
        birth::report_ready(&born.parent, &born.confined)?;
        let buffer = vec![0; Request::LENGTH_MAX + 1];
        Ok(Spool { born, directory, senders: BTreeMap::new(), next_token: PARENT + 1, used: 0, stopping: false, buffer })
    }

    /// The loop. Ends when the parent is gone, or after [`Stop`](crate::ipc::messages::ToFiles::Stop) when every channel has ended.
    fn serve(mut self) -> io::Result<()> {
        while !(self.stopping && self.senders.is_empty()) {
            let count = self.born.poller.wait(None)?;
            for index in 0..count {
                let Some(ready) = self.born.poller.ready(index) else { continue };
                if ready.token != PARENT {
                    self.take_requests(ready.token)?;
                } else if !self.obey()? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes what the parent has sent; false: it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        let senders = &mut self.senders;
        self.born.obey(&mut self.stopping, &mut self.next_token, |token, worker, channel| {
            senders.insert(token, Sender { worker, channel, bodies: BTreeMap::new(), owed: None });
        })
    }

    /// Carries out requests of one worker, some at a time so that a busy one does not keep the others waiting.
    fn take_requests(&mut self, token: u64) -> io::Result<()> {
        if !self.pay(token)? {
            return Ok(());
        }
        for _ in 0..TURN {
            let Some(sender) = self.senders.get(&token) else { break };
            match sender.channel.receive_long::<Request>(&mut self.buffer) {
                Received::Message(request, _) => match self.carry_out(token, request) {
                    Ok(Some(reply)) => {
                        if !self.answer(token, reply)? {
                            break;
                        }
                    }
                    Ok(None) => {}
                    Err(Malformed) => self.accuse(token),
                },
                Received::Nothing => break,
                Received::Ended => self.forget(token),
                Received::Malformed => self.accuse(token),
            }
        }
        Ok(())
    }

    fn accuse(&mut self, token: u64) {
        let Some(worker) = self.senders.get(&token).map(|sender| sender.worker) else { return };
        self.forget(token);
        let _ = self.born.parent.send(&ToParent::Malformed { worker }, &[]);
    }

    /// A worker is gone, and with it all that was kept for it.
    fn forget(&mut self, token: u64) {
        let Some(sender) = self.senders.remove(&token) else { return };
        let sizes = sender.bodies.values().map(Body::size);
        self.used = self.used.saturating_sub(sizes.sum());
    }

    fn carry_out(&mut self, token: u64, request: Request) -> Result<Option<Reply>, Malformed> {
        let Some(sender) = self.senders.get_mut(&token) else { return Ok(None) };
        match request {
            Request::Write { id, at, bytes } => self.write(token, id, at, &bytes),
            Request::Read { id, at } => match sender.bodies.get(&id) {
                Some(Body::Kept { length, .. }) if at >= *length => Err(Malformed),
                Some(Body::Kept { file, .. }) => Ok(Some(read(file, id, at))),
                // A `spool` before this one had it.
                Some(Body::Lost) | None => Ok(Some(Reply::Failed { id, errno: STALE })),
            },
            Request::Forget { id } => {
                let size = sender.bodies.remove(&id).map_or(0, |body| body.size());
                self.used = self.used.saturating_sub(size);
                Ok(None)
            }
        }
    }

    fn write(&mut self, token: u64, id: u32, at: u64, bytes: &[u8]) -> Result<Option<Reply>, Malformed> {
        let Some(sender) = self.senders.get_mut(&token) else { return Ok(None) };
        if let Some(Body::Lost) = sender.bodies.get(&id) {
            return Ok(None);
        }
        if !sender.bodies.contains_key(&id) {
            if sender.bodies.len() >= BODIES_MAX {
                return Err(Malformed);
            }
            let body = begin(self.directory.as_deref(), at);
            let failed = body.as_ref().err().copied();
            sender.bodies.insert(id, body.unwrap_or(Body::Lost));
            if let Some(errno) = failed {
                return Ok(Some(Reply::Failed { id, errno }));
            }
        }
        let Some(Body::Kept { file, length }) = sender.bodies.get_mut(&id) else { return Ok(None) };
        if at != *length {
            return Err(Malformed);
        }
        let before = size(*length);
        let longer = length.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let used = self.used.saturating_sub(before).saturating_add(size(longer));
        let written = if used > self.born.slice.max { Ok(false) } else { file.write(at, bytes).map(|()| true) };
        if let Ok(true) = written {
            (*length, self.used) = (longer, used);
            return Ok(Some(Reply::Written { id, length: longer }));
        }
        self.used = self.used.saturating_sub(before);
        sender.bodies.insert(id, Body::Lost);
        Ok(Some(written.map_or_else(|fault| Reply::Failed { id, errno: number(&fault) }, |_| Reply::Full { id })))
    }

    /// Sends an answer; false: the worker does not take it yet, and until it does no more of it is asked for.
    fn answer(&mut self, token: u64, reply: Reply) -> io::Result<bool> {
        let Some(sender) = self.senders.get_mut(&token) else { return Ok(false) };
        match sender.channel.send(&reply, &[]) {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {
                sender.owed = Some(reply);
                self.born.poller.remove(&sender.channel)?;
                self.born.poller.add(&sender.channel, Interest::Output, token)?;
                Ok(false)
            }
            // Its end is told where it is received.
            Ok(()) | Err(_) => Ok(true),
        }
    }

    /// Sends the answer that is owed to a worker; false: it still does not take it.
    fn pay(&mut self, token: u64) -> io::Result<bool> {
        let Some(sender) = self.senders.get_mut(&token) else { return Ok(false) };
        let Some(reply) = sender.owed.take() else { return Ok(true) };
        self.born.poller.remove(&sender.channel)?;
        self.born.poller.add(&sender.channel, Interest::Input, token)?;
        self.answer(token, reply)
    }
}

impl Body {
    /// What it takes of the directory.
    fn size(&self) -> u64 {
        match self {
            Body::Kept { length, .. } => size(*length),
            Body::Lost => 0,
        }
    }
}

/// The request is none that a worker in its senses sends.
struct Malformed;

/// A new body, or the errno.
fn begin(directory: Option<&std::path::Path>, at: u64) -> Result<Body, u16> {
    if at > 0 {
        return Err(STALE);
    }
    let directory = directory.ok_or(NO_DIRECTORY)?;
    Unnamed::new(directory).map(|file| Body::Kept { file, length: 0 }).map_err(|fault| number(&fault))
}

fn read(file: &Unnamed, id: u32, at: u64) -> Reply {
    let mut bytes = vec![0; PIECE];
    match file.read(at, &mut bytes) {
        Ok(0) => Reply::Failed { id, errno: INPUT_OUTPUT },
        Ok(count) => {
            bytes.truncate(count);
            Reply::Content { id, bytes }
        }
        Err(fault) => Reply::Failed { id, errno: number(&fault) },
    }
}

/// What a body of this length takes: whole blocks.
fn size(length: u64) -> u64 {
    length.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

fn number(fault: &io::Error) -> u16 {
    fault.raw_os_error().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(INPUT_OUTPUT)
}

/// Token of the parent's channel.
const PARENT: u64 = 0;

/// Requests of one worker before others get their turn.
const TURN: u8 = 16;

/// Bodies of one worker at a time: a taken-over one shall not use up the descriptors. A worker begins no more.
pub const BODIES_MAX: usize = 256;

/// Blocks of most file systems.
const BLOCK: u64 = 4_096;

/// ENOENT: the directory was not there at the start. ESTALE: of a body that this process knows nothing of. EIO: it is shorter than it was.
const NO_DIRECTORY: u16 = 2;
const STALE: u16 = 116;
const INPUT_OUTPUT: u16 = 5;
