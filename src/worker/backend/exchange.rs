//! One request with a backend: when it is sent, when what came back is read, and what is wrong with it.
//!
//! Runs in the worker, on bytes of a program that may be hostile. Reads and writes the one socket that it was given; what it holds of the
//! answer is limited, and what it does not take waits in the kernel, and then in the backend. `feed` is what goes out, `codec` how it is
//! spoken, `answer` what came back.

use super::answer::{Answer, Form, Head};
use super::codec::{Codec, End, Event};
use super::drain::Drain;
use super::feed::Feed;
use super::stderr::Stderr;
use crate::ipc::run::Run;
use crate::proto::environment::Refusal;
use crate::proto::fault::Fault;
use crate::proto::response_head::Asked;
use crate::sys::{clock, socket};
use crate::worker::segment::{Produce, Produced};
use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// An exchange as its connection, its producer and the loop share it; one thread.
pub(crate) type Shared = Rc<RefCell<Exchange>>;

/// How an exchange failed, which decides the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nobody could be connected to: 503.
    Unreachable(String),
    /// As many requests wait as may: 503.
    Full,
    /// The backend says that it has no room: 503.
    Overloaded(&'static str),
    /// The answer is none: 502.
    Bad(String),
    /// It said nothing for too long: 504.
    Late,
    /// Its protocol has no room for what the client sent: 431.
    TooLarge,
    /// The program does not run; the reason is in the log.
    NotRun(Refusal),
}

/// One request with a backend.
pub(crate) struct Exchange {
    /// The backend in the configuration, and which of its addresses.
    pub(crate) backend: usize,
    pub(crate) address: usize,
    /// The client's connection, by its token.
    pub(super) client: u64,
    /// Its address, which may decide which of the backend's is asked.
    pub(super) from: IpAddr,
    pub(super) socket: Option<Rc<OwnedFd>>,
    /// The link that the socket is one of.
    pub(super) link: Option<usize>,
    /// The connection was used before: the backend may have closed it a moment ago.
    pub(super) reused: bool,
    /// Addresses that were tried in vain, a bit for each.
    pub(super) tried: u64,
    /// The program that `spawn` runs for it, until the request is over.
    pub(crate) program: Option<Box<Run>>,
    feed: Feed,
    codec: Codec,
    answer: Answer,
    /// Nothing more is expected of this connection, or it cannot be told what would come.
    tainted: bool,
    ended: bool,
    pub(crate) failure: Option<Failure>,
    /// It is the backend's, for all that is known.
    faulty: bool,
    /// When the request was handed over, and when content last came, in monotonic milliseconds.
    pub(super) began: u64,
    progress: u64,
    stderr: Stderr,
    /// When nothing more is expected of the socket: who is told.
    pub(super) done: Rc<RefCell<Vec<Shared>>>,
    told: bool,
    /// Its turn was over before all was read, and whether the loop knows.
    unread: bool,
    queued: bool,
    /// Nobody takes the answer: how much of it is read all the same.
    drain: Option<Drain>,
    /// For how long it may be silent, in milliseconds.
    timeout: u64,
    /// Whose request it is, for the error log.
    pub(crate) origin: String,
}

/// What an exchange is bound to: bytes that it may hold, how long it may be silent (in milliseconds), and who is told when it is over.
pub(crate) struct Terms {
    pub(super) limit: usize,
    pub(super) timeout: u64,
    pub(super) done: Rc<RefCell<Vec<Shared>>>,
}

impl Exchange {
    pub(crate) fn new(backend: usize, client: u64, terms: Terms, now: u64) -> Exchange {
        Exchange {
            backend,
            address: 0,
            client,
            from: IpAddr::from([0; 4]),
            socket: None,
            link: None,
            reused: false,
            tried: 0,
            program: None,
            feed: Feed::default(),
            codec: Codec::Plain,
            answer: Answer::new(terms.limit),
            timeout: terms.timeout,
            origin: String::new(),
            tainted: false,
            ended: false,
            failure: None,
            faulty: false,
            began: now,
            progress: now,
            stderr: Stderr::default(),
            done: terms.done,
            told: false,
            unread: false,
            queued: false,
            drain: None,
        }
    }

    /// The request: how it is spoken and what it begins with; whether its body follows; how its answer is read.
    pub(crate) fn ask(&mut self, codec: Codec, opening: Vec<u8>, body: bool, (form, asked): (Form, Asked)) {
        self.feed.begin(opening, body, &codec);
        self.codec = codec;
        self.answer.expect(form, asked);
    }

    /// The backend may change to another protocol.
    pub(crate) fn may_upgrade(&mut self, protocol: &[u8]) {
        self.answer.expect_upgrade(protocol);
    }

    /// Both sides speak another protocol now: what the client sends goes to the backend, and the other way round.
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(self.codec, Codec::Tunnel)
    }

    /// There is content that nobody took yet, or none will come.
    pub(crate) fn has_news(&self) -> bool {
        self.is_over() || self.answer.is_waiting()
    }

    /// The request may be sent once more, if a connection that was kept turns out to be closed.
    pub(crate) fn may_repeat(&mut self) {
        self.feed.remember();
    }

    /// Its body may have to be given once more.
    pub(super) fn may_begin_again(&self) -> bool {
        self.feed.is_remembered() && !self.is_over()
    }

    /// Once: its body is given from the beginning.
    pub(super) fn begins_again(&mut self) -> bool {
        self.feed.take_rewound()
    }

    /// Nothing will come of it, for a reason on this side.
    pub(super) fn breaks(&mut self, failure: Failure) {
        self.tainted = true;
        self.failure.get_or_insert(failure);
    }

    /// Bytes of the body that can be taken now: none while the backend does not take those before.
    pub(crate) fn room(&self) -> usize {
        if self.socket.is_none() || self.is_over() { 0 } else { self.feed.room() }
    }

    /// A part of the body, no longer than [`Exchange::room`].
    pub(crate) fn input(&mut self, content: &[u8]) {
        match &self.socket {
            Some(socket) => self.feed.push_through(socket, content, &self.codec),
            None => self.feed.push(content, &self.codec),
        }
    }

    /// The body is complete.
    pub(crate) fn end_input(&mut self) {
        self.feed.end(&self.codec);
    }

    pub(crate) fn is_input_open(&self) -> bool {
        self.feed.is_open()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// On a connection of its own nothing was said yet: perhaps nobody has taken it.
    pub(super) fn is_unheard(&self) -> bool {
        !self.reused && self.socket.is_some() && !self.is_over() && self.answer.is_untouched()
    }

    /// The answer's head has come whole, or there will be none.
    pub(crate) fn is_decided(&self) -> bool {
        self.failure.is_some()
            || (self.answer.has_head() && (!self.feed.is_open() || self.is_over() || self.answer.is_full() || self.is_tunnel()))
    }

    /// Nothing more comes.
    fn is_over(&self) -> bool {
        self.ended || self.failure.is_some()
    }

    /// The head; `None` before it has come.
    pub(crate) fn head(&self) -> Option<&[u8]> {
        self.answer.head()
    }

    /// Reads what [`Exchange::head`] gave.
    ///
    /// # Errors
    /// Never, for what was read before.
    pub(crate) fn read_head<'b>(&self, head: &'b [u8]) -> Result<Head<'b>, Fault> {
        self.answer.read_head(head)
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Everything that will come, if it has all come.
    pub(crate) fn whole(&mut self) -> Option<Vec<u8>> {
        (self.ended && self.failure.is_none()).then(|| self.answer.take_all())
    }

    /// The content is not wanted; it is read all the same, so that the program comes to its end, if that is soon.
    pub(super) fn discard(&mut self, now: u64) {
        self.client = 0;
        self.drain = Some(Drain::new(now, self.timeout));
        self.answer.discard();
    }

    /// Nobody waits for the answer any more: the backend is told.
    pub(crate) fn abandon(&mut self) {
        if self.told {
            return;
        }
        let whole = self.feed.is_sent() && !self.codec.abort().is_empty();
        if let Some(socket) = self.socket.as_ref().filter(|_| whole && !self.is_over()) {
            let _ = socket::send(socket, self.codec.abort());
        }
        self.tainted = true;
        self.client = 0;
        self.failure.get_or_insert(Failure::Late);
    }

    /// It has been silent for too long.
    pub(crate) fn is_late(&mut self) {
        if !self.is_over() {
            self.tainted = true;
            let waited = Failure::Unreachable("no connection was free within read_timeout".to_owned());
            self.faulty = self.socket.is_some();
            self.failure = Some(if self.faulty { Failure::Late } else { waited });
        }
    }

    /// Whether the backend has answered; `None`: it was not to blame that it did not, or it is not known yet.
    pub(super) fn verdict(&self) -> Option<bool> {
        if self.answer.has_head() { Some(true) } else { self.faulty.then_some(false) }
    }

    /// When it has been silent for too long: the whole head has one time, each part of the content another, what nobody takes one for all of it.
    pub(crate) fn deadline(&self) -> u64 {
        if let Some(drain) = &self.drain {
            return drain.until();
        }
        let since = if self.answer.has_head() { self.progress } else { self.began };
        since.saturating_add(self.timeout)
    }

    /// The socket is still good for another request.
    pub(super) fn is_reusable(&self) -> bool {
        self.failure.is_none() && !self.tainted && self.codec.is_reusable() && self.feed.is_sent() && self.answer.keeps_connection()
    }

    /// Lines of the error stream, and how many more there were.
    pub(super) fn take_lines(&mut self) -> (Vec<Vec<u8>>, usize) {
        if self.is_over() {
            self.stderr.end_line();
        }
        self.stderr.lines()
    }

    /// A connection for it.
    pub(super) fn connected(&mut self, socket: Rc<OwnedFd>, link: usize, reused: bool, now: u64) {
        (self.socket, self.link, self.reused) = (Some(socket), Some(link), reused);
        (self.began, self.progress) = (now, now);
    }

    /// Sends what can be sent now. The loop tells what comes back; true: as for [`Exchange::pump`].
    pub(super) fn send(&mut self, now: u64) -> bool {
        let Some(socket) = self.socket.clone() else { return false };
        // What may have come before a failure is looked at.
        let Ok(moved) = self.feed.write(&socket) else { return self.pump(now) };
        self.note_sent(moved, now);
        self.end_sending(&socket);
        false
    }

    /// As long as it takes more of the request it is not silent; and a tunnel is in use whichever way.
    fn note_sent(&mut self, moved: bool, now: u64) {
        if moved {
            self.began = now;
            if self.is_tunnel() {
                self.progress = now;
            }
        }
    }

    fn end_sending(&mut self, socket: &OwnedFd) {
        if self.codec.ends_with_input() && self.feed.has_ended() {
            let _ = socket::end_sending(socket);
        }
    }

    /// Sends and receives what can be now; true: it wants another connection, since this one ended without a word.
    pub(super) fn pump(&mut self, now: u64) -> bool {
        BUFFER.with_borrow_mut(|buffer| self.pump_through(buffer, now))
    }

    fn pump_through(&mut self, buffer: &mut [u8], now: u64) -> bool {
        let Some(socket) = self.socket.clone() else { return false };
        let written = self.feed.write(&socket);
        self.note_sent(matches!(written, Ok(true)), now);
        if let Err(fault) = written {
            // It may have answered all the same, and closed: that it is overloaded, for one, which a second request would make no better.
            self.tainted = true;
            self.feed.close();
            if !self.read(&socket, buffer, now) && !self.is_over() {
                self.repeats_or_fails(format!("write: {fault}"));
            }
        } else {
            self.end_sending(&socket);
            self.read(&socket, buffer, now);
        }
        self.failure == Some(AGAIN) && {
            self.failure = None;
            true
        }
    }

    /// Whether anything came. A backend that writes as fast as it is read from has its turn, as others have theirs.
    fn read(&mut self, socket: &OwnedFd, buffer: &mut [u8], now: u64) -> bool {
        let (mut any, mut reads) = (false, 0);
        while !self.is_over() && !self.answer.is_full() {
            if reads == READS {
                self.unread = true;
                break;
            }
            reads += 1;
            match socket::receive(socket, buffer) {
                Ok(0) => {
                    self.closed();
                    break;
                }
                Ok(count) => {
                    any = true;
                    self.feed.forget();
                    // On after a short count too: the end of the connection may have come with these bytes, and is told only once.
                    self.take(buffer.get(..count).unwrap_or_default(), now);
                    if self.drain.as_mut().is_some_and(|drain| !drain.take(count)) {
                        self.abandon();
                    }
                }
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => break,
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                // So the kernel tells that a program has ended without having read all of its input (unix(7)).
                Err(fault) if fault.kind() == io::ErrorKind::ConnectionReset && self.codec.ends_with_input() => {
                    self.closed();
                    break;
                }
                Err(fault) => {
                    self.repeats_or_fails(format!("read: {fault}"));
                    break;
                }
            }
        }
        any
    }

    /// The backend has ended the connection.
    fn closed(&mut self) {
        self.tainted = true;
        if self.answer.is_whole() || (self.answer.ends_with_connection() && self.codec.ends_with_content()) {
            // All of it has come.
            self.end(End::Complete { app_status: 0 });
        } else {
            self.repeats_or_fails("closed the connection before the end of its answer".to_owned());
        }
    }

    fn repeats_or_fails(&mut self, why: String) {
        if self.repeats() {
            self.failure = Some(AGAIN);
        } else {
            self.fail(why);
        }
    }

    /// Whether it is sent again, once: nothing has come, and on another connection it may. So a backend that is started anew, or one of
    /// several that dies, costs only what may not be done twice.
    fn repeats(&mut self) -> bool {
        if !self.answer.is_untouched() || !self.feed.rewind() {
            return false;
        }
        (self.socket, self.tainted) = (None, false);
        self.codec.begin_again();
        true
    }

    fn fail(&mut self, why: String) {
        (self.tainted, self.faulty) = (true, true);
        self.failure = Some(Failure::Bad(why));
    }

    /// Takes what has come.
    fn take(&mut self, mut input: &[u8], now: u64) {
        loop {
            match self.codec.read(&mut input) {
                Ok(Event::Answer(bytes)) => {
                    self.progress = now;
                    if let Err(fault) = self.answer.take(bytes) {
                        return self.fail(fault.to_owned());
                    }
                    if self.answer.is_upgraded() && !self.is_tunnel() {
                        self.codec = Codec::Tunnel;
                        self.feed.reopen();
                    }
                    if self.codec.ends_with_content() && self.answer.is_whole() {
                        return self.end(End::Complete { app_status: 0 });
                    }
                }
                Ok(Event::Stderr(bytes)) => self.stderr.take(bytes),
                Ok(Event::End(end)) => self.end(end),
                Ok(Event::More) => return,
                // What comes behind the end is nobody's, and so is this connection.
                Err(_) if self.ended => return self.tainted = true,
                Err(fault) => return self.fail(fault.why.to_owned()),
            }
        }
    }

    fn end(&mut self, end: End) {
        self.ended = true;
        // A script may end without having read its whole input.
        self.tainted |= !self.feed.is_sent() || self.feed.is_open();
        self.feed.close();
        match end {
            End::NotRun(refusal) => self.failure = Some(Failure::NotRun(refusal)),
            End::Refused(why) if !self.answer.has_head() => self.failure = Some(Failure::Overloaded(why)),
            End::Complete { app_status } if !self.answer.has_head() => {
                self.fail(format!("ended without an answer (application status {app_status})"));
            }
            End::Complete { .. } | End::Refused(_) => {
                if let Err(why) = self.answer.end() {
                    self.fail(why.to_owned());
                }
            }
        }
    }

    fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
        self.pump(clock::monotonic_ms());
        let (count, empty) = self.answer.take_some(out);
        let whole = self.ended && self.failure.is_none();
        match (count, empty) {
            (0, _) if self.failure.is_some() => Err(io::ErrorKind::UnexpectedEof.into()),
            (0, _) if whole => Ok(Produced::End),
            (0, _) => Ok(Produced::Wait),
            (_, true) if whole => Ok(Produced::End),
            (_, _) => Ok(Produced::More),
        }
    }

    /// Whether it was told of since it has more to read, and not since it is over.
    pub(super) fn takes_turn(&mut self) -> bool {
        std::mem::take(&mut self.queued) && !self.is_over()
    }

    /// Tells, once, that the socket is not needed any more; or that there is more to read, which the kernel does not tell again.
    pub(super) fn tell_done(this: &Shared) {
        let mut exchange = this.borrow_mut();
        let more = std::mem::take(&mut exchange.unread) && !exchange.is_over() && !std::mem::replace(&mut exchange.queued, true);
        if more || exchange.is_over() && !std::mem::replace(&mut exchange.told, true) {
            let done = Rc::clone(&exchange.done);
            drop(exchange);
            done.borrow_mut().push(Rc::clone(this));
        }
    }
}

/// The content of an answer, as its client takes it.
pub(crate) struct Content(pub(crate) Shared);

impl Produce for Content {
    fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
        let produced = self.0.borrow_mut().produce(out);
        Exchange::tell_done(&self.0);
        produced
    }

    fn memory(&self) -> usize {
        self.0.borrow().answer.memory()
    }
}

/// Stands for: on another connection. Never seen outside.
const AGAIN: Failure = Failure::Full;

/// Bytes read from a backend at once, and how often, before others get their turn.
const READ: usize = 64 * 1024;
const READS: u8 = 16;

thread_local! {
    /// What is received passes through here, whichever backend's it is: nothing is cleared or allotted each time.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into_boxed_slice());
}
