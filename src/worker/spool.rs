//! The way to `spool`: sends what bodies have for it, takes its answers, and has it forget what nobody needs any more.
//!
//! Runs in the worker, which writes no file and holds none of these. Waits for nothing: what the channel does not take now is sent when an
//! answer has come.

use super::kept::{Spooled, State};
use crate::ipc::messages::Message;
use crate::ipc::spool::{Reply, Request};
use crate::ipc::{Channel, Received};
use crate::proto::status::Status;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::rc::{Rc, Weak};

/// The bodies of a worker that `spool` keeps.
pub(super) struct Spool {
    channel: Option<Channel>,
    /// What the configuration calls its directory, for the error log.
    path: PathBuf,
    bodies: BTreeMap<u32, Weak<RefCell<State>>>,
    last: u32,
    /// Room for one answer.
    buffer: Vec<u8>,
    /// Connections of clients that have something new, by their tokens.
    pub(super) woken: Vec<u64>,
    /// Lines for the error log.
    pub(super) lines: Vec<String>,
}

impl Spool {
    pub(super) fn new(channel: Option<Channel>, path: PathBuf) -> Spool {
        let buffer = vec![0; Reply::LENGTH_MAX + 1];
        Spool { channel, path, bodies: BTreeMap::new(), last: 0, buffer, woken: Vec::new(), lines: Vec::new() }
    }

    /// To wait for answers on.
    pub(super) fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(AsFd::as_fd)
    }

    /// Sends what a body has for it; the first time it gets a number.
    pub(super) fn pump(&mut self, body: &Spooled) {
        if body.borrow().id == 0 && body.borrow().failure.is_none() {
            if self.bodies.len() >= BODIES_MAX {
                return body.borrow_mut().fail(Status::SERVICE_UNAVAILABLE, "too many bodies are kept");
            }
            self.last = self.last.wrapping_add(1).max(1);
            body.borrow_mut().id = self.last;
            self.bodies.insert(self.last, Rc::downgrade(body));
        }
        self.send(&mut body.borrow_mut());
    }

    /// False: the channel takes no more at the moment.
    fn send(&self, body: &mut State) -> bool {
        let Some(channel) = &self.channel else {
            body.fail(Status::SERVICE_UNAVAILABLE, GONE);
            return true;
        };
        if body.failure.is_some() {
            return true;
        }
        while let Some(bytes) = body.piece() {
            let count = bytes.len();
            if !goes(channel, &Request::Write { id: body.id, at: body.sent, bytes }) {
                return false;
            }
            body.was_sent(count);
        }
        // What is read lies behind what is written, in the channel too.
        while let Some(at) = body.next_read().filter(|_| body.is_whole) {
            if !goes(channel, &Request::Read { id: body.id, at }) {
                return false;
            }
            body.was_asked();
        }
        true
    }

    /// Sends what has been waiting, and has forgotten what nobody has any more.
    pub(super) fn sweep(&mut self) {
        let Some(channel) = &self.channel else { return };
        self.bodies.retain(|id, body| body.strong_count() > 0 || !goes(channel, &Request::Forget { id: *id }));
        let bodies: Vec<Spooled> = self.bodies.values().filter_map(Weak::upgrade).collect();
        for body in bodies {
            if !self.send(&mut body.borrow_mut()) {
                return;
            }
        }
    }

    /// Takes answers, some at a time; false: it sent what it may not.
    pub(super) fn receive(&mut self) -> bool {
        for _ in 0..ANSWERS {
            let Some(channel) = &self.channel else { return true };
            match channel.receive_long::<Reply>(&mut self.buffer) {
                Received::Message(reply, _) => {
                    if !self.take(reply) {
                        return false;
                    }
                }
                Received::Nothing => return true,
                Received::Malformed => return false,
                Received::Ended => {
                    self.lose();
                    self.channel = None;
                    return true;
                }
            }
        }
        true
    }

    fn take(&mut self, reply: Reply) -> bool {
        let (Reply::Written { id, .. } | Reply::Content { id, .. } | Reply::Failed { id, .. } | Reply::Full { id }) = reply;
        // Nobody needs it any more.
        let Some(body) = self.bodies.get(&id).and_then(Weak::upgrade) else { return true };
        let mut body = body.borrow_mut();
        if body.failure.is_some() {
            return true;
        }
        self.woken.push(body.client);
        let path = self.path.display();
        match reply {
            Reply::Written { length, .. } => return body.was_written(length),
            Reply::Content { bytes, .. } => return body.came(bytes),
            Reply::Failed { errno, .. } => {
                let fault = io::Error::from_raw_os_error(i32::from(errno));
                let is_full = matches!(fault.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
                let status = if is_full { Status::INSUFFICIENT_STORAGE } else { Status::SERVICE_UNAVAILABLE };
                body.fail(status, "the spool directory cannot be used");
                self.lines.push(format!("spool \"{path}\": {fault}: a body cannot be kept ({status})"));
            }
            Reply::Full { .. } => {
                body.fail(Status::INSUFFICIENT_STORAGE, "all bodies that are kept would be larger than spool_max");
                let status = Status::INSUFFICIENT_STORAGE;
                self.lines.push(format!("spool \"{path}\": spool_max is used up: a body cannot be kept ({status})"));
            }
        }
        true
    }

    /// A new `spool` serves: what the one before kept is lost.
    pub(super) fn lose(&mut self) {
        for body in self.bodies.values().filter_map(Weak::upgrade) {
            let mut body = body.borrow_mut();
            body.fail(Status::SERVICE_UNAVAILABLE, GONE);
            self.woken.push(body.client);
        }
    }
}

/// Whether the channel has taken it; to one that has ended nothing goes, which is told where it is received.
fn goes(channel: &Channel, request: &Request) -> bool {
    !matches!(channel.send(request, &[]), Err(fault) if fault.kind() == io::ErrorKind::WouldBlock)
}

const GONE: &str = "the process that keeps bodies has ended";

/// Answers taken before others get their turn.
const ANSWERS: u8 = 32;

/// Bodies at a time: `spool` takes no more from one worker.
const BODIES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::super::kept::{Kept, MEMORY_MAX};
    use super::*;

    fn pair() -> (Channel, Spool) {
        let (theirs, ours) = Channel::pair().unwrap();
        (theirs, Spool::new(Some(ours), "/spool".into()))
    }

    fn body(spool: &mut Spool, length: usize) -> Spooled {
        let mut kept = Kept::new(7);
        kept.take(&vec![1; length]);
        kept.end();
        let body = kept.spooled().unwrap().clone();
        spool.pump(&body);
        body
    }

    fn requests(channel: &Channel) -> Vec<Request> {
        let mut buffer = vec![0; Request::LENGTH_MAX + 1];
        let next = || match channel.receive_long::<Request>(&mut buffer) {
            Received::Message(request, _) => Some(request),
            Received::Nothing | Received::Ended | Received::Malformed => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn what_the_channel_does_not_take_is_sent_later_and_a_body_that_is_dropped_is_forgotten() {
        let (theirs, mut spool) = pair();
        let length = 2 * MEMORY_MAX;
        let body = body(&mut spool, length);
        let mut written = 0;
        while written < length {
            let all = requests(&theirs);
            assert!(!all.is_empty());
            for request in all {
                let Request::Write { id: 1, at, bytes } = request else { panic!("{request:?}") };
                assert_eq!(at, written as u64);
                written += bytes.len();
                theirs.send(&Reply::Written { id: 1, length: written as u64 }, &[]).unwrap();
            }
            assert!(spool.receive());
            spool.sweep();
        }
        assert_eq!(spool.woken.pop(), Some(7));
        drop(body);
        spool.sweep();
        assert_eq!(requests(&theirs), [Request::Forget { id: 1 }]);
        spool.sweep();
        assert_eq!(requests(&theirs), []);
    }

    #[test]
    fn failures_have_their_status_and_a_line_with_the_path() {
        for (reply, status, said) in [
            (Reply::Failed { id: 1, errno: 28 }, 507, "spool \"/spool\": No space left on device"),
            (Reply::Failed { id: 1, errno: 122 }, 507, "spool \"/spool\": "),
            (Reply::Failed { id: 1, errno: 13 }, 503, "spool \"/spool\": Permission denied"),
            (Reply::Failed { id: 1, errno: 2 }, 503, "spool \"/spool\": No such file or directory"),
            (Reply::Full { id: 1 }, 507, "spool \"/spool\": spool_max is used up"),
        ] {
            let (theirs, mut spool) = pair();
            let body = body(&mut spool, MEMORY_MAX + 1);
            theirs.send(&reply, &[]).unwrap();
            assert!(spool.receive());
            assert_eq!(body.borrow().failure.unwrap().status.code(), status, "{reply:?}");
            assert!(spool.lines[0].starts_with(said), "{:?}", spool.lines);
        }
        let (_theirs, mut spool) = pair();
        let body = body(&mut spool, MEMORY_MAX + 1);
        spool.lose();
        assert_eq!(body.borrow().failure.unwrap().status.code(), 503);
    }

    #[test]
    fn m05_answers_that_cannot_be_are_malformed_and_those_to_nobody_are_not() {
        for reply in
            [Reply::Written { id: 1, length: 0 }, Reply::Written { id: 1, length: 1 << 40 }, Reply::Content { id: 1, bytes: vec![1] }]
        {
            let (theirs, mut spool) = pair();
            let _body = body(&mut spool, MEMORY_MAX + 1);
            theirs.send(&Reply::Written { id: 9, length: 5 }, &[]).unwrap();
            theirs.send(&reply, &[]).unwrap();
            assert!(!spool.receive(), "{reply:?}");
        }
    }

    #[test]
    fn no_more_bodies_are_kept_than_spool_takes() {
        let (_theirs, mut spool) = pair();
        let bodies: Vec<Spooled> = (0..=BODIES_MAX).map(|_| body(&mut spool, MEMORY_MAX + 1)).collect();
        assert!(bodies[BODIES_MAX - 1].borrow().failure.is_none());
        assert_eq!(bodies[BODIES_MAX].borrow().failure.unwrap().status.code(), 503);
    }
}
