//! What this worker knows of the disk without asking it again, for sites whose rules decide what is looked up.
//!
//! Runs in the worker, as a part of [`Service`]; opens nothing. The rules run for each request, since they may depend on its client, its
//! fields or anything else of it: only what a look-up led to is believed for a while, which depends on the look-up alone. So this is safe
//! for all rules, not only for those that are functions of the path.

use super::answer::{Answered, Incoming, Service, facts, hexadecimal};
use super::cache::FRESH_MS;
use super::fetched::{Fetched, Known};
use super::files;
use super::served::Served;
use crate::proto::status::Status;
use crate::site::plan::{Answer, Plan, Step};
use crate::sys::file::Opened;
use std::rc::Rc;

impl Service {
    /// Goes on with a plan as long as what it asks is known.
    pub(super) fn recall(&self, incoming: &Incoming<'_>, site: usize, plan: &mut Plan, mut step: Step<Fetched>) -> Step<Fetched> {
        while let Step::Ask = step {
            let Some(answer) = self.known(site, plan) else { return Step::Ask };
            let id = hexadecimal(incoming.visit.id);
            step = plan.resume(self.sites.compiled(site), &facts(incoming, &self.path, &id, &self.clock.log_time), answer);
        }
        step
    }

    /// Takes what the disk said: a directory is remembered here, and that a file is there; the file itself when it has been read.
    pub(super) fn note(&mut self, site: usize, plan: &Plan, answer: Answer<Opened>) -> Answer<Fetched> {
        if matches!(answer, Answer::Directory) && self.sites.compiled(site).has_rules() {
            self.files.remember_directory(site, &files::key(plan.lookup()), self.clock.now);
        }
        if matches!(answer, Answer::File(_)) && plan.asks_whether() {
            self.files.remember_there(site, &files::key(plan.lookup()), self.clock.now);
        }
        answer.map(Fetched::Opened)
    }

    /// The file that was fetched: where it was opened, what the cache holds under `key` if it is the same, else read anew.
    ///
    /// # Errors
    /// The answer instead.
    pub(super) fn fetched(
        &mut self,
        incoming: &Incoming<'_>,
        site: usize,
        plan: &Plan,
        key: &[u8],
        fetched: Fetched,
    ) -> Result<Rc<Served>, Answered> {
        let opened = match fetched {
            Fetched::Known(file) => return Ok(file),
            // Not reachable: a plan that only asks whether sends nothing of it.
            Fetched::There => return Err(self.page(incoming, site, Status::INTERNAL_SERVER_ERROR, &[])),
            Fetched::Opened(opened) => opened,
        };
        let descriptor = Rc::clone(&opened.file);
        let file = match self.files.unchanged(site, key, &opened.stat, self.clock.now) {
            Some(file) => file,
            None => {
                let file = Rc::new(self.read(incoming, site, plan, opened)?);
                self.files.remember(site, key, &file, self.clock.now);
                file
            }
        };
        self.files.settle(plan.lookup(), &file, &descriptor, (self.clock.now, self.clock.unix));
        Ok(file)
    }

    fn known(&self, site: usize, plan: &Plan) -> Option<Answer<Fetched>> {
        // Without rules the path of a request says all, and was looked for before there was a plan.
        if !self.sites.compiled(site).has_rules() && !plan.asks_error_page() {
            return None;
        }
        let (key, now, age) = (files::key(plan.lookup()), self.clock.now, files::age(plan.changes()));
        match self.files.known(site, &key, now, age) {
            Some(Known::File(file)) => Some(Answer::File(Fetched::Known(Rc::clone(file)))),
            Some(Known::Directory) => Some(Answer::Directory),
            Some(Known::There) => plan.asks_whether().then_some(Answer::File(Fetched::There)),
            // Of a directory, what was seen within the last second is believed.
            None if age < FRESH_MS => None,
            None => self.files.standing(site, &key, now).map(|file| Answer::File(Fetched::Known(file))),
        }
    }
}
