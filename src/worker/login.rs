//! How a request is answered that only users may make: `auth` is asked whether its client is one, and it is taken up again with the answer.
//!
//! Runs in the worker, as a part of [`Service`]; knows no password and no hash.

use super::answer::{Answered, Incoming, Service, facts, hexadecimal};
use super::disk::Told;
use super::fetched::Fetched;
use super::pending::{Paused, Pending};
use super::state::Ticket;
use super::visit::{User, Visit};
use crate::ipc::auth::{PASSWORD_MAX, USER_MAX, Verdict};
use crate::proto::basic::{self, Credentials};
use crate::proto::head::Framing;
use crate::proto::status::Status;
use crate::site::plan::{Outcome, Plan};
use std::rc::Rc;

impl Service {
    /// A rule asks for a user of a realm: `auth` is asked if the client says that it is one, else the client is.
    pub(super) fn log_in(&mut self, incoming: &Incoming<'_>, site: usize, mut plan: Plan, realm: u16) -> Answered {
        let Some(credentials) = credentials(incoming) else {
            return self.go_on(incoming, site, plan, Outcome::Login(realm));
        };
        let asked = self.logins.ask(self.disk.asker, realm, incoming.visit.client, credentials, self.clock.now);
        match asked {
            Ok(id) => Answered::Waits(Paused::boxed(plan, Pending::Login(realm), incoming.persistence), Ticket::Login(id)),
            Err(_) => {
                self.complain(incoming, site, "too many requests wait for a password to be looked at");
                plan.wait(1);
                self.go_on(incoming, site, plan, Outcome::Status(Status::SERVICE_UNAVAILABLE))
            }
        }
    }

    /// `auth` has said whether the client is a user of that realm.
    pub(super) fn logged_in(&mut self, incoming: &Incoming<'_>, site: usize, mut plan: Plan, realm: u16) -> Answered {
        self.changes = plan.changes().clone();
        let user = credentials(incoming).map(|credentials| credentials.user).unwrap_or_default();
        let shown = || user.escape_ascii().to_string();
        match self.told.take() {
            Some(Told::Verdict(Verdict::Yes)) => {
                let user = Rc::new(User::also(incoming.visit.user.as_deref(), user, realm));
                let visit = Visit { user: Some(Rc::clone(&user)), ..incoming.visit.clone() };
                self.user = Some(user);
                let (incoming, id) = (Incoming { visit: &visit, ..*incoming }, hexadecimal(visit.id));
                let step = plan.begin_again(self.sites.compiled(site), &facts(&incoming, &self.path, &id, &self.clock.log_time));
                self.carry_on(&incoming, site, plan, step)
            }
            Some(Told::Verdict(Verdict::No)) => {
                let fault = format!("user \"{}\": no such user, or not the password", shown());
                self.complain(incoming, site, &fault);
                self.go_on(incoming, site, plan, Outcome::Login(realm))
            }
            Some(Told::Verdict(Verdict::Wait(seconds))) => {
                let fault = format!("user \"{}\": not looked at, there were too many wrong passwords", shown());
                self.complain(incoming, site, &fault);
                plan.wait(seconds.into());
                self.go_on(incoming, site, plan, Outcome::Status(Status::TOO_MANY_REQUESTS))
            }
            Some(Told::Late | Told::Answer(..)) | None => {
                self.complain(incoming, site, "\"auth\" did not answer in 10 s");
                plan.wait(1);
                self.go_on(incoming, site, plan, Outcome::Status(Status::SERVICE_UNAVAILABLE))
            }
        }
    }

    /// Goes on with what is decided.
    pub(super) fn go_on(&mut self, incoming: &Incoming<'_>, site: usize, plan: Plan, outcome: Outcome<Fetched>) -> Answered {
        match incoming.request.framing {
            Framing::None => self.decided(incoming, site, plan, outcome),
            Framing::Length(_) | Framing::Chunked => self.before_body(incoming, site, plan, outcome),
        }
    }
}

/// Who the client says that it is. What no password file could hold is nobody.
fn credentials(incoming: &Incoming<'_>) -> Option<Credentials> {
    let credentials = basic::parse(incoming.request.only_field("authorization")?)?;
    (credentials.user.len() <= USER_MAX && credentials.password.len() <= PASSWORD_MAX).then_some(credentials)
}
