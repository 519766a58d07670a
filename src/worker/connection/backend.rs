//! A request whose answer comes from a backend: waiting for it, taking it up, and what its client does meanwhile.
//!
//! Runs in the worker, as a part of [`Connection`].

use super::{Connection, Fate, Flushed, Progress, Waiting};
use crate::proto::head;
use crate::worker::answer::{Incoming, Service};
use std::io;
use std::rc::Rc;

impl Connection {
    /// Answers the request that waits, if its backend has begun to.
    pub(super) fn go_on_backend(&mut self, service: &mut Service, buffer: &mut [u8]) -> io::Result<Progress> {
        match self.go_on_waiting(service)? {
            Progress::Stopped(Fate::Keep) if self.backend.is_some() => Ok(Progress::Stopped(self.hear_client(buffer)?)),
            // What the client sent meanwhile is for the other end.
            Progress::Stopped(Fate::Keep) if self.tunnel().is_some() => Ok(Progress::Stopped(Fate::Again)),
            progress @ (Progress::NeedsMore | Progress::Stopped(_)) => Ok(progress),
        }
    }

    /// The same without looking at what the client does.
    pub(super) fn go_on_waiting(&mut self, service: &mut Service) -> io::Result<Progress> {
        let decided = self.backend.as_ref().is_some_and(|handed| handed.exchange.borrow().is_decided());
        if !decided {
            self.wait_for_backend();
            return Ok(Progress::Stopped(Fate::Keep));
        }
        let Some(handed) = self.backend.take() else { return Ok(Progress::NeedsMore) };
        let bytes = handed.head.clone();
        let mut space = head::field_space();
        let Ok(request) = head::parse(&bytes, &mut space, &service.head_limits) else {
            return Ok(Progress::Stopped(Fate::Close));
        };
        let exchange = Rc::clone(&handed.exchange);
        // Whoever speaks another protocol may still do so when the other end has nothing more to say.
        self.unread |= exchange.borrow().is_input_open();
        let visit = self.visit();
        let incoming = Incoming { request: &request, head: &bytes, visit: &visit, persistence: handed.persistence };
        let answered = service.respond(&incoming, *handed);
        self.stream = Some(exchange);
        let progress = self.take_up(service, answered, &bytes, true);
        if self.outgoing.is_empty() {
            self.stream = None;
        }
        if self.asking.is_none() && self.backend.is_none() {
            self.next_head(service);
        }
        match progress? {
            Progress::NeedsMore => self.send_made(service),
            stopped @ Progress::Stopped(_) => Ok(stopped),
        }
    }

    /// What has come of a body was handed on; where no more is taken at the moment, no more is read.
    pub(super) fn send_body_on(&mut self, service: &mut Service, waits: Option<u64>) -> io::Result<Progress> {
        let Some(deadline) = waits else { return self.send_made(service) };
        match self.flush(service)? {
            Flushed::Stopped(fate) => Ok(Progress::Stopped(fate)),
            Flushed::All => {
                self.waiting = Waiting::Backend;
                self.deadline = deadline;
                Ok(Progress::Stopped(Fate::Keep))
            }
        }
    }

    /// Only the backend helps now.
    pub(super) fn wait_for_backend(&mut self) {
        let waiting = self.backend.as_ref().map(|handed| &handed.exchange).or(self.stream.as_ref());
        if let Some(exchange) = waiting {
            self.waiting = Waiting::Backend;
            self.deadline = exchange.borrow().deadline();
        }
    }

    /// The client has left, or sends the next request meanwhile: that has to wait.
    pub(super) fn hear_client(&mut self, buffer: &mut [u8]) -> io::Result<Fate> {
        while self.input.len() < AHEAD_MAX {
            match self.transport.receive(buffer) {
                Ok(0) => return Ok(Fate::Close),
                Ok(count) => self.input.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => break,
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(Fate::Keep)
    }

    /// The backend has been silent for too long.
    pub(super) fn backend_is_late(&mut self, service: &mut Service) -> Fate {
        let refused = if let Some(handed) = &self.backend {
            handed.exchange.borrow_mut().is_late();
            self.go_on_waiting(service)
        } else if let Some(reading) = self.body.take() {
            let ended = reading.is_late();
            self.conclude(service, *reading, &ended)
        } else {
            // What was promised cannot be sent: only the end of the connection tells.
            return Fate::Close;
        };
        match refused {
            Ok(Progress::Stopped(fate)) => fate,
            Ok(Progress::NeedsMore) => Fate::Again,
            Err(_) => Fate::Close,
        }
    }

    /// Nobody waits for a backend any more.
    pub(super) fn abandon_backend(&mut self, service: &mut Service) {
        let waiting = self.backend.take().map(|handed| handed.exchange);
        for exchange in waiting.into_iter().chain(self.stream.take()) {
            service.backends.abandon(&exchange);
        }
    }
}

/// Bytes of further requests that are taken in while one waits for its backend.
const AHEAD_MAX: usize = 64 * 1024;
