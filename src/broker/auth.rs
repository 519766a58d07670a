//! `auth`: says whether a password is that of a user. CONFINED: it sees an empty directory, has no network, and opens nothing: the parent
//! opened the password files.
//!
//! A worker that is taken over learns of a password only what everybody learns who tries one, as fast as everybody: no hash leaves this
//! process. Hashes that are slow on purpose are made here, one at a time, so that no worker waits for one and all of them together take one
//! processor: whom the cache knows is answered before, then each client has its turn. A request that no worker in its senses sends ends its sender.

mod cache;
mod failures;
mod queue;

use crate::config::AuthSlice;
use crate::config::passwords::Users;
use crate::ipc::auth::{Reply, Request, Verdict};
use crate::ipc::birth::{self, Born};
use crate::ipc::messages::{Message, ToParent};
use crate::ipc::{Channel, Received};
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::file::{self, Stat};
use crate::sys::{clock, socket};
use cache::Cache;
use failures::Failures;
use queue::Queue;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

/// Runs the role until the parent stops it; the exit status.
pub fn run() -> u8 {
    birth::run(Role::Auth, |born| Auth::new(born)?.serve())
}

struct Auth {
    born: Born<AuthSlice>,
    /// By their numbers.
    realms: Vec<Realm>,
    senders: BTreeMap<u64, Sender>,
    queue: Queue<Job>,
    cache: Cache,
    failures: Failures,
    next_token: u64,
    stopping: bool,
    /// Room for one request.
    buffer: Vec<u8>,
}

/// A worker.
struct Sender {
    worker: u16,
    channel: Channel,
    /// Requests of it that wait.
    waiting: usize,
}

/// A request, and the token of the worker that waits for its answer.
struct Job {
    token: u64,
    request: Request,
}

/// A password file.
struct Realm {
    file: OwnedFd,
    /// What it was when it was read.
    stat: Stat,
    users: Users,
    /// When it was last looked at.
    looked: u64,
}

impl Auth {
    fn new(born: Born<AuthSlice>) -> io::Result<Auth> {
        let realms = match born.slice.files.iter().zip(birth::FIRST_FILE..).map(|(path, number)| Realm::open(path, number)).collect() {
            Ok(realms) => realms,
            Err(why) => {
                born.parent.send(&ToParent::Failed { why }, &[])?;
                return Err(io::ErrorKind::InvalidData.into());
            }
        };
        born.poller.add(&born.parent, Interest::Input, PARENT)?;
        birth::report_ready(&born.parent, &born.confined)?;
        Ok(Auth {
            born,
            realms,
            senders: BTreeMap::new(),
            queue: Queue::default(),
            cache: Cache::new(),
            failures: Failures::default(),
            next_token: PARENT + 1,
            stopping: false,
            buffer: vec![0; Request::LENGTH_MAX + 1],
        })
    }

    /// The loop. Ends when the parent is gone, or after [`Stop`](crate::ipc::messages::ToFiles::Stop) when every channel has ended.
    fn serve(mut self) -> io::Result<()> {
        while !(self.stopping && self.senders.is_empty()) {
            let count = self.born.poller.wait(if self.queue.is_empty() { None } else { Some(0) })?;
            for index in 0..count {
                let Some(ready) = self.born.poller.ready(index) else { continue };
                if ready.token != PARENT {
                    self.take_requests(ready.token);
                } else if !self.obey()? {
                    return Ok(());
                }
            }
            self.work();
        }
        Ok(())
    }

    /// Takes what the parent has sent; false: it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        let senders = &mut self.senders;
        self.born.obey(&mut self.stopping, &mut self.next_token, |token, worker, channel| {
            senders.insert(token, Sender { worker, channel, waiting: 0 });
        })
    }

    /// Takes requests of one worker, some at a time so that the others are heard too.
    fn take_requests(&mut self, token: u64) {
        for _ in 0..TURN {
            let Some(sender) = self.senders.get_mut(&token) else { return };
            match sender.channel.receive_long::<Request>(&mut self.buffer) {
                // A worker asks for no more than that at a time, and for no file that is not there.
                Received::Message(request, _) if sender.waiting < WAITING_MAX && usize::from(request.realm) < self.realms.len() => {
                    self.take(token, request);
                }
                Received::Message(..) | Received::Malformed => {
                    let worker = sender.worker;
                    self.senders.remove(&token);
                    let _ = self.born.parent.send(&ToParent::Malformed { worker }, &[]);
                    return;
                }
                Received::Nothing => return,
                Received::Ended => drop(self.senders.remove(&token)),
            }
        }
    }

    /// Answers what is known already; all else waits for its turn.
    fn take(&mut self, token: u64, request: Request) {
        let now = clock::monotonic_ms();
        let realm = usize::from(request.realm);
        if self.realms.get_mut(realm).is_some_and(|realm| realm.look_again(now)) {
            self.cache.forget(request.realm);
        }
        if self.cache.knows(&request, now) {
            return self.answer(token, request.id, Verdict::Yes);
        }
        if let Some(seconds) = self.failures.wait(request.client, &request.user, now) {
            return self.answer(token, request.id, Verdict::Wait(seconds));
        }
        if let Some(sender) = self.senders.get_mut(&token) {
            sender.waiting += 1;
            self.queue.push(request.client, Job { token, request });
        }
    }

    /// Looks at one password: the hash takes its time.
    fn work(&mut self) {
        while let Some(Job { token, request }) = self.queue.pop() {
            let Some(sender) = self.senders.get_mut(&token) else { continue };
            sender.waiting = sender.waiting.saturating_sub(1);
            let now = clock::monotonic_ms();
            if now >= request.deadline {
                continue;
            }
            // Other requests of the same client may have shown it meanwhile, or been wrong.
            if self.cache.knows(&request, now) {
                self.answer(token, request.id, Verdict::Yes);
                continue;
            }
            if let Some(seconds) = self.failures.wait(request.client, &request.user, now) {
                self.answer(token, request.id, Verdict::Wait(seconds));
                continue;
            }
            let users = self.realms.get(usize::from(request.realm)).map(|realm| &realm.users);
            let right = users.is_some_and(|users| users.check(&request.user, &request.password));
            let now = clock::monotonic_ms();
            if right {
                self.cache.keep(&request, now);
                self.failures.clear(request.client, &request.user);
            } else {
                self.failures.count(request.client, &request.user, now);
            }
            return self.answer(token, request.id, if right { Verdict::Yes } else { Verdict::No });
        }
    }

    fn answer(&self, token: u64, id: u32, verdict: Verdict) {
        // A worker that takes no answers has none coming: its requests have deadlines.
        let _ = self.senders.get(&token).map(|sender| sender.channel.send(&Reply { id, verdict }, &[]));
    }
}

impl Realm {
    fn open(path: &str, number: i32) -> Result<Realm, String> {
        let why = |fault: io::Error| format!("\"{path}\": {fault}");
        let file = socket::inherited(number).map_err(why)?;
        let stat = file::stat(&file).map_err(why)?;
        let users = read(&file, &stat).map_err(why)?;
        Ok(Realm { file, stat, users, looked: clock::monotonic_ms() })
    }

    /// Reads the file again where it is not what it was; whether that is so. One that cannot be read lets nobody in.
    fn look_again(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.looked) < LOOK_MS {
            return false;
        }
        self.looked = now;
        let stat = file::stat(&self.file).unwrap_or(self.stat);
        if stat == self.stat {
            return false;
        }
        self.users = read(&self.file, &stat).unwrap_or_default();
        self.stat = stat;
        true
    }
}

fn read(file: &OwnedFd, stat: &Stat) -> io::Result<Users> {
    if stat.size > FILE_MAX {
        return Err(io::Error::other("it is too large for a password file"));
    }
    Ok(Users::parse(&file::read(file, usize::try_from(stat.size).unwrap_or(0))?).0)
}

/// Token of the parent's channel.
const PARENT: u64 = 0;

/// Requests of one worker before others are heard.
const TURN: u8 = 64;

/// Requests of one worker that wait: what it may ask for, and what it gave up meanwhile.
const WAITING_MAX: usize = 4096;

/// How often a file is looked at, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// Bytes of a password file.
const FILE_MAX: u64 = crate::config::htpasswd::FILE_MAX;
