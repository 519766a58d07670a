//! A request whose plan asked something of the disk, taken up again with what the disk said.
//!
//! Runs in the worker, as a part of [`Service`]; reads no socket.

use super::answer::{Answered, Incoming, Service, facts, hexadecimal};
use super::disk::Looked;
use super::pending::{Paused, Pending};
use super::state::Ticket;
use crate::proto::status::Status;
use crate::proto::target;
use crate::site::plan::Step;

impl Service {
    /// Goes on with a request whose plan asked: looks up what it asks, and answers or asks again.
    pub(super) fn resume(&mut self, incoming: &Incoming<'_>, paused: Paused) -> Answered {
        let site = self.site(incoming.visit, incoming.request);
        self.begin_response();
        if let Err(reject) = target::parse_into(incoming.request.path, &mut self.path) {
            return self.refuse(incoming, site, reject);
        }
        let Paused { mut plan, pending, .. } = paused;
        match pending {
            Pending::Lookup => {}
            Pending::Login(realm) => return self.logged_in(incoming, site, plan, realm),
            Pending::Listing => {
                self.changes = plan.changes().clone();
                return self.listing(incoming, site, plan);
            }
            Pending::Beside(file) => {
                self.changes = plan.changes().clone();
                self.take_siblings(site, plan.lookup(), &file);
                return self.among_siblings(incoming, site, &mut plan, &file);
            }
        }
        let answer = match self.look_up(incoming, site, &plan) {
            Looked::Found(answer) => self.note(site, &plan, answer),
            Looked::Waits(id) => return Answered::Waits(Paused::at_lookup(plan, incoming.persistence), Ticket::Disk(id)),
            Looked::Unavailable => return self.page(incoming, site, Status::SERVICE_UNAVAILABLE, &[]),
        };
        let id = hexadecimal(incoming.visit.id);
        let (of_error_page, of_named) = (plan.asks_error_page(), plan.asks_named());
        match plan.resume(self.sites.compiled(site), &facts(incoming, &self.path, &id, &self.clock.log_time), answer) {
            // Not decided again, or a page that cannot be had would be asked for for ever.
            Step::Done(outcome) if of_named => self.send_named(incoming, site, plan, outcome),
            Step::Done(outcome) if of_error_page => {
                self.changes = plan.changes().clone();
                self.carry_out(incoming, site, plan, outcome)
            }
            step @ (Step::Ask | Step::Done(_)) => self.carry_on(incoming, site, plan, step),
        }
    }
}
