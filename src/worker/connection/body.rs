//! The body of a request: taken as it comes, to nobody or to a backend.
//!
//! Runs in the worker, as a part of [`Connection`].

use super::{Connection, Fate, Progress};
use crate::proto::head;
use crate::worker::answer::{Incoming, Service};
use crate::worker::body::{Decided, Ended, Reading};
use crate::worker::conclude::CONTINUE;
use crate::worker::response::Persistence;
use std::io;

impl Connection {
    /// Takes what belongs to a body; how many bytes, and why the next request is not looked at yet.
    pub(super) fn take_body(
        &mut self,
        service: &mut Service,
        mut reading: Box<Reading>,
        input: &[u8],
    ) -> io::Result<(usize, Option<Progress>)> {
        let mut rest = input;
        if let Some(exchange) = reading.exchange().cloned() {
            if exchange.borrow().is_decided() {
                let progress = self.conclude(service, *reading, &Ended::Unwanted)?;
                return Ok((0, Some(progress)));
            }
            if reading.continues() {
                service.out.extend_from_slice(CONTINUE);
            }
        }
        rest = rest.get(..reading.room()).unwrap_or(rest);
        let offered = rest.len();
        let ended = reading.take(&mut rest, service.clock.now);
        let used = offered - rest.len();
        if let Some(exchange) = reading.exchange() {
            service.backends.send_on(exchange, service.clock.now);
        }
        let Some(ended) = service.kept(&reading, ended) else {
            // It answered just now, and nobody would say so again.
            if reading.exchange().is_some_and(|exchange| exchange.borrow().is_decided()) {
                let progress = self.conclude(service, *reading, &Ended::Unwanted)?;
                return Ok((used, Some(progress)));
            }
            let waits = reading.waits(service.clock.now);
            self.body = Some(reading);
            return Ok((used, Some(self.send_body_on(service, waits)?)));
        };
        let stopped = match self.conclude(service, *reading, &ended)? {
            Progress::NeedsMore => None,
            stopped @ Progress::Stopped(_) => Some(stopped),
        };
        Ok((used, stopped))
    }

    /// Answers the request whose body has ended.
    pub(super) fn conclude(&mut self, service: &mut Service, reading: Reading, ended: &Ended) -> io::Result<Progress> {
        let (bytes, decided) = Decided::of(reading);
        let mut space = head::field_space();
        let Ok(request) = head::parse(&bytes, &mut space, &service.head_limits) else {
            return Ok(Progress::Stopped(Fate::Close));
        };
        self.unread = !matches!(ended, Ended::Whole);
        let persistence = match ended {
            Ended::Whole => service.persistence_behind(&request, self.requests + 1),
            Ended::Unwanted | Ended::Broken(_) => Persistence::Close,
        };
        let visit = self.visit();
        let answered = service.conclude(&Incoming { request: &request, head: &bytes, visit: &visit, persistence }, decided, ended);
        self.take_up(service, answered, &bytes, true)
    }
}
