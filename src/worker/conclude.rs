//! The answer to a request that has a body: before it, or when as much of it was read as is going to be.
//!
//! Runs in the worker, as a part of [`Service`]; opens no file and reads no socket. What a body goes through stands in `body`.

use super::answer::{Answered, Incoming, Service};
use super::backend::Handed;
use super::body::{Decided, Ended, Reading, Uptake, is_worth_reading};
use super::fetched::Fetched;
use super::kept::{Given, Kept};
use super::response::Persistence;
use super::visit::Visit;
use crate::config::Level;
use crate::ipc::counters::Counter;
use crate::proto::body::{Body, BodyLimits};
use crate::proto::head::{self, Framing};
use crate::proto::status::Status;
use crate::proto::target;
use crate::site::plan::{Outcome, Plan};

impl Service {
    /// A request that is decided: its body comes first if there is one that is worth reading.
    pub(super) fn before_body(&mut self, incoming: &Incoming<'_>, site: usize, plan: Plan, outcome: Outcome<Fetched>) -> Answered {
        let limits = BodyLimits {
            content: self.changes.body.unwrap_or(self.limits.body),
            trailer_bytes: self.head_limits.header_bytes,
            trailer_count: self.head_limits.header_count,
        };
        let for_backend = matches!(outcome, Outcome::Backend);
        match Body::begin(incoming.request.framing, &limits) {
            Ok(Some(body)) if for_backend => Answered::Reads(Box::new(self.for_backend(incoming, site, plan, outcome, body))),
            Ok(None) => self.decided(incoming, site, plan, outcome),
            // No 100 is sent for a body that nobody wants: the client is spared it (RFC 9110, 10.1.1).
            Ok(Some(_)) if !is_worth_reading(incoming.request) => self.decided(&ending(incoming), site, plan, outcome),
            Ok(Some(body)) => Answered::Reads(Box::new(Decided { plan, outcome, body, uptake: Uptake::Dropped })),
            Err(reject) => self.decided(&ending(incoming), site, plan, Outcome::Status(reject.status)),
        }
    }

    /// The body goes to the backend as it comes, or when its length is known.
    fn for_backend(&mut self, incoming: &Incoming<'_>, site: usize, plan: Plan, outcome: Outcome<Fetched>, body: Body) -> Decided {
        let uptake = match incoming.request.framing {
            Framing::Length(length) => {
                let exchange = self.hand_over(incoming, site, &plan, Some(length), Given::Streams);
                Uptake::Backend { exchange, continues: incoming.request.expect_continue }
            }
            Framing::Chunked if self.takes_chunks(&plan) => {
                let exchange = self.hand_over(incoming, site, &plan, None, Given::Streams);
                Uptake::Backend { exchange, continues: incoming.request.expect_continue }
            }
            Framing::None | Framing::Chunked => {
                if incoming.request.expect_continue {
                    self.out.extend_from_slice(CONTINUE);
                }
                Uptake::Kept(Kept::new(self.disk.asker))
            }
        };
        Decided { plan, outcome, body, uptake }
    }

    /// Answers a request whose body was read as far as it is.
    pub(super) fn conclude(&mut self, incoming: &Incoming<'_>, decided: Decided, ended: &Ended) -> Answered {
        let site = self.site(incoming.visit, incoming.request);
        self.begin_response();
        if let Err(reject) = target::parse_into(incoming.request.path, &mut self.path) {
            return self.refuse(incoming, site, reject);
        }
        let Decided { plan, outcome, uptake, .. } = decided;
        self.changes = plan.changes().clone();
        match (uptake, ended) {
            (Uptake::Backend { exchange, .. }, Ended::Whole) => {
                exchange.borrow_mut().end_input();
                self.backends.send_on(&exchange, self.clock.now);
                return Answered::Backend(Handed::boxed(incoming.head, incoming.persistence, site, plan, exchange));
            }
            (Uptake::Backend { exchange, .. }, Ended::Unwanted) => {
                return Answered::Backend(Handed::boxed(incoming.head, Persistence::Close, site, plan, exchange));
            }
            (Uptake::Backend { exchange, .. }, Ended::Broken(_)) => self.backends.abandon(&exchange),
            (Uptake::Kept(kept), Ended::Whole) => {
                let given = kept.spooled().map_or(Given::Memory(kept.memory()), Given::Spooled);
                let exchange = self.hand_over(incoming, site, &plan, Some(kept.length()), given);
                return Answered::Backend(Handed::boxed(incoming.head, incoming.persistence, site, plan, exchange));
            }
            (Uptake::Kept(_) | Uptake::Dropped, _) => {}
        }
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

    /// Hands on what is kept of a body; what came of that.
    pub(super) fn kept(&mut self, reading: &Reading, ended: Option<Ended>) -> Option<Ended> {
        let Some(kept) = reading.kept() else { return ended };
        if let Some(Ended::Whole) = ended {
            kept.end();
        }
        if let Some(spooled) = kept.spooled() {
            self.backends.spool.pump(spooled);
        }
        kept.failure().map(Ended::Broken).or(ended)
    }

    /// Writes the access line of a request whose client went away before its body had come.
    pub(super) fn log_cut(&mut self, reading: &Reading, visit: &Visit) {
        let mut space = head::field_space();
        if let Ok(request) = head::parse(&reading.head, &mut space, &self.head_limits) {
            let site = self.site(visit, &request);
            self.write_line(Some(&request), Some(site), visit, request.line, Status::BAD_REQUEST, 0);
        }
    }
}

/// Tells a client that waits to be told that its body is wanted (RFC 9110, 15.2.1).
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The same request, as the last on its connection.
fn ending<'r>(incoming: &Incoming<'r>) -> Incoming<'r> {
    Incoming { persistence: Persistence::Close, ..*incoming }
}
