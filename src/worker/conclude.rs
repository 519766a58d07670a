//! The answer to a request that has a body: before it, or when as much of it was read as is going to be.
//!
//! Runs in the worker, as a part of [`Service`]; opens no file and reads no socket. What a body goes through stands in `body`.

use super::answer::{Answered, Incoming, Service};
use super::body::{Decided, Ended, Reading, is_worth_reading};
use super::response::Persistence;
use super::visit::Visit;
use crate::config::Level;
use crate::ipc::counters::Counter;
use crate::proto::body::{Body, BodyLimits};
use crate::proto::head;
use crate::proto::status::Status;
use crate::proto::target;
use crate::site::plan::{Outcome, Plan};
use crate::sys::file::Opened;

impl Service {
    /// A request that is decided: its body comes first if there is one that is worth reading.
    pub(super) fn before_body(&mut self, incoming: &Incoming<'_>, site: usize, plan: Plan, outcome: Outcome<Opened>) -> Answered {
        let limits = BodyLimits {
            content: self.changes.body.unwrap_or(self.limits.body),
            trailer_bytes: self.head_limits.header_bytes,
            trailer_count: self.head_limits.header_count,
        };
        match Body::begin(incoming.request.framing, &limits) {
            Ok(None) => self.decided(incoming, site, plan, outcome),
            // No 100 is sent for a body that nobody wants: the client is spared it (RFC 9110, 10.1.1).
            Ok(Some(_)) if !is_worth_reading(incoming.request) => self.decided(&ending(incoming), site, plan, outcome),
            Ok(Some(body)) => Answered::Reads(Box::new(Decided { plan, outcome, body })),
            Err(reject) => self.decided(&ending(incoming), site, plan, Outcome::Status(reject.status)),
        }
    }

    /// Answers a request whose body was read as far as it is.
    pub(super) fn conclude(&mut self, incoming: &Incoming<'_>, decided: Decided, ended: &Ended) -> Answered {
        let site = self.sites.select_at(incoming.visit.door, incoming.request.host);
        self.begin_response();
        if let Err(reject) = target::parse_into(incoming.request.path, &mut self.path) {
            return self.refuse(incoming, site, reject);
        }
        let Decided { plan, outcome, .. } = decided;
        self.changes = plan.changes().clone();
        match ended {
            Ended::Whole => self.decided(incoming, site, plan, outcome),
            Ended::Unwanted => self.decided(&ending(incoming), site, plan, outcome),
            Ended::Broken(reject) => {
                self.counters.count(Counter::Refused, 1);
                self.log.error(Level::Info, &format!("client {}: {} ({})", incoming.visit.client, reject.status, reject.why));
                self.decided(&ending(incoming), site, plan, Outcome::Status(reject.status))
            }
        }
    }

    /// Writes the access line of a request whose client went away before its body had come.
    pub(super) fn log_cut(&mut self, reading: &Reading, visit: Visit) {
        let mut space = head::field_space();
        if let Ok(request) = head::parse(&reading.head, &mut space, &self.head_limits) {
            let site = self.sites.select_at(visit.door, request.host);
            self.write_line(Some(&request), Some(site), visit, request.line, Status::BAD_REQUEST, 0);
        }
    }
}

/// The same request, as the last on its connection.
fn ending<'r>(incoming: &Incoming<'r>) -> Incoming<'r> {
    Incoming { persistence: Persistence::Close, ..*incoming }
}
