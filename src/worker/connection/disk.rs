//! A connection that waits for `files`: for the answer to its request, or for content that is being sent.
//!
//! Runs in the worker, as a part of [`Connection`].

use super::{Asking, Connection, Fate, Flushed, Progress, Waiting};
use crate::worker::answer::Service;
use crate::worker::disk::{Ahead, BESIDE_MS, LATE, PATIENCE_MS, Told};
use crate::worker::logins::LOGIN_MS;
use crate::worker::pending::{Paused, Pending};
use crate::worker::state::Ticket;
use std::io;

impl Connection {
    /// Answers the request that asked something of the disk, then goes on.
    pub(in crate::worker) fn resume(&mut self, service: &mut Service, buffer: &mut [u8]) -> Fate {
        self.ticket = None;
        let Some(asking) = self.asking.take() else {
            return self.resume_content(service, buffer);
        };
        match self.answer_again(service, *asking) {
            Ok(Progress::Stopped(fate)) => fate,
            Ok(Progress::NeedsMore) => self.drive(service, buffer),
            Err(_) => Fate::Close,
        }
    }

    /// The same for the content being sent.
    fn resume_content(&mut self, service: &mut Service, buffer: &mut [u8]) -> Fate {
        match service.told.take() {
            Some(Told::Answer(outcome, _)) => self.outgoing.bring(outcome),
            Some(Told::Late) => {
                if let Some(question) = self.outgoing.wants() {
                    service.say_cut(question.root, &question.path, LATE);
                } else if let Some(ahead) = self.outgoing.cold().and_then(|(file, ..)| file.ahead.as_ref()) {
                    service.say_cut(ahead.root, &ahead.path, LATE);
                }
                return Fate::Close;
            }
            Some(Told::Verdict(_)) | None => self.outgoing.brought(),
        }
        self.waiting = Waiting::Request;
        self.drive(service, buffer)
    }

    /// A request waits for an answer of `files` or `auth`: all its waits for disks together have one deadline. What may stand beside a file that is at hand is
    /// not worth much of that.
    pub(super) fn wait_for_answer(
        &mut self,
        service: &mut Service,
        paused: Box<Paused>,
        head: Option<Box<[u8]>>,
        ticket: Ticket,
    ) -> io::Result<Progress> {
        let deadline = *self.patience.get_or_insert(service.clock.now + PATIENCE_MS);
        self.deadline = match paused.pending {
            Pending::Beside(_) => deadline.min(service.clock.now + BESIDE_MS),
            Pending::Login(_) => service.clock.now + LOGIN_MS,
            Pending::Lookup | Pending::Listing => deadline,
        };
        self.asking = Some(Box::new(Asking { paused, head }));
        self.ticket = Some(ticket);
        self.waiting = Waiting::Disk;
        match self.flush(service)? {
            Flushed::All => Ok(Progress::Stopped(Fate::Keep)),
            Flushed::Stopped(fate) => Ok(Progress::Stopped(fate)),
        }
    }

    /// What comes next of a file, or what its producer wants, would have to be waited for: `files` does.
    pub(super) fn read_ahead(&mut self, service: &mut Service) -> io::Result<Flushed> {
        let asked = match self.outgoing.wants() {
            Some(question) => Some(service.ask_for_more(question, || self.outgoing.go_on_without())),
            None => self.outgoing.cold().map(|(file, offset, length)| service.ask_for_content(file, offset, length)),
        };
        match asked {
            Some(Ahead::Waits(id)) => {
                self.ticket = Some(Ticket::Disk(id));
                self.waiting = Waiting::Disk;
                self.deadline = service.clock.now + PATIENCE_MS;
                Ok(Flushed::Stopped(Fate::Keep))
            }
            Some(Ahead::Unavailable) => Ok(Flushed::Stopped(Fate::Close)),
            Some(Ahead::Direct) | None => {
                self.outgoing.brought();
                self.flush(service)
            }
        }
    }

    /// Everything is sent: only an answer from `files` helps now.
    pub(super) fn wait_for_disk(&mut self, service: &Service) {
        if self.waiting != Waiting::Disk {
            self.waiting = Waiting::Disk;
            self.deadline = self.patience.unwrap_or(service.clock.now + PATIENCE_MS);
        }
    }
}
