//! `backend`: the script is looked up, and the request handed on with what was found.
//!
//! The shortest prefix that may be the script is asked for first: where a regular file stands nothing can lie beneath it, and where nothing
//! stands nothing does either, so that a client cannot have more asked than there are directories.

use super::super::lookup::{RootRef, Stands};
use super::super::script::{Cut, Script};
use super::super::trace::{Event, Trace};
use super::compiled::{OneRule, Rules};
use super::run::{Inputs, Lent, Next, Refusal, Run, parse};
use super::scripts::Backend;
use crate::proto::head::Method;
use crate::proto::status::Status;
use crate::proto::target::Path;
use crate::site::facts::Facts;

impl Run {
    /// Looks the script up, prefix by prefix.
    pub(super) fn backend<T: Trace>(&mut self, backend: &Backend, rule: &OneRule, lent: &mut Lent<'_, T>) -> Next {
        if lent.facts.method == Method::Trace {
            // It would echo the request, cookies and all.
            return Next::Methods;
        }
        match std::mem::take(&mut self.found.cut) {
            Cut::Nothing => Next::Status(Status::NOT_FOUND),
            Cut::Mount(mount) if backend.checks_mounts() => {
                let path = self.current.path(lent.facts);
                let beneath = path
                    .ends()
                    .map(|(end, _)| end)
                    .filter(|end| *end > mount || (backend.is_program && *end == mount))
                    .take(MOUNT_SEGMENTS_MAX)
                    .collect();
                self.try_scripts(beneath, backend, rule, lent)
            }
            // What is mounted is no script: a rule for the mount alone, as for `/app`, says nothing of what lies beneath.
            Cut::Mount(mount) => self.hand_over(mount, false, backend, rule, lent),
            Cut::Prefixes(prefixes) if backend.checks() => self.try_scripts(prefixes, backend, rule, lent),
            Cut::Prefixes(prefixes) => self.hand_over_script(prefixes.first().copied().unwrap_or_default(), false, backend, rule, lent),
        }
    }

    fn try_scripts<T: Trace>(&mut self, prefixes: Vec<usize>, backend: &Backend, rule: &OneRule, lent: &mut Lent<'_, T>) -> Next {
        while let Some(&end) = prefixes.get(self.candidate) {
            match self.answered.take() {
                None => {
                    let asked = self.ask_script(end, backend, rule, lent);
                    if !asked || !lent.question.named || lent.question.is_hidden(lent.site) {
                        break;
                    }
                    self.found.cut = Cut::Prefixes(prefixes);
                    return Next::Ask;
                }
                Some(Stands::File) => return self.hand_over_script(end, true, backend, rule, lent),
                Some(Stands::Directory) => self.candidate += 1,
                Some(Stands::Nothing | Stands::Other) => break,
            }
        }
        self.candidate = 0;
        Next::Status(Status::NOT_FOUND)
    }

    fn ask_script<T>(&self, end: usize, backend: &Backend, rule: &OneRule, lent: &mut Lent<'_, T>) -> bool {
        let path = self.current.path(lent.facts);
        backend.ask(path, end, &Inputs::new(rule, lent.facts, &self.current, &self.found), &lent.rules.place, lent.question)
    }

    /// [`Run::hand_over`], where the script has a path of its own. With a slash and anything behind it the path is another, but the same program
    /// runs: who may not ask for `/login.php`, or only so often, may not ask for `/login.php/x` either.
    fn hand_over_script<T: Trace>(
        &mut self,
        name: usize,
        checked: bool,
        backend: &Backend,
        rule: &OneRule,
        lent: &mut Lent<'_, T>,
    ) -> Next {
        let next = self.hand_over(name, checked, backend, rule, lent);
        let path = self.current.path(lent.facts);
        if next != Next::Backend || name == path.bytes().len() {
            return next;
        }
        let (mut raw, mut own) = (Vec::new(), Path::default());
        path.encode_part(0..name, &mut raw);
        if !parse(&raw, &mut own) {
            return Next::Status(Status::NOT_FOUND);
        }
        if let Some(why) = self.refusal(lent.rules, lent.facts, &own, Stands::File) {
            lent.trace.record(|| match why {
                Refusal::ByRule(rule) => Event::Access { rule, refuses: true },
                Refusal::Login(rule) => Event::Login { rule },
            });
            return self.refuse(why, lent.rules);
        }
        self.count_script(lent.rules, lent.facts, &own);
        next
    }

    /// Adds how often a client may ask for a script by its own path, as the rules down to the one that runs it say.
    fn count_script(&mut self, rules: &Rules, facts: &Facts<'_>, own: &Path) {
        for rule in rules.rules.iter().take(self.next + 1) {
            let Some(quota) = rule.changes.requests.filter(|quota| !self.changes.requests.contains(quota)) else { continue };
            let is_file = rule.matchers.exists.is_none_or(|wanted| Stands::File.is(wanted));
            if is_file && rule.matchers.matches(facts, own, &mut self.found).is_ok() {
                self.changes.requests.push(quota);
            }
        }
    }

    fn hand_over<T: Trace>(&mut self, name: usize, checked: bool, backend: &Backend, rule: &OneRule, lent: &mut Lent<'_, T>) -> Next {
        let document = self.document_root(backend, rule, lent);
        if !self.ask_script(name, backend, rule, lent) {
            return Next::Status(Status::NOT_FOUND);
        }
        let Some((document_root, document_rest)) = document else { return Next::Status(Status::NOT_FOUND) };
        let (root, file) = (lent.question.root, lent.question.path.clone());
        self.script = Script { backend: backend.number, name, root, file, document_root, document_rest, checked };
        let number = self.next;
        lent.trace.record(|| {
            let path = self.current.path(lent.facts).bytes();
            let (name, info) = path.split_at_checked(name).unwrap_or((path, b""));
            Event::Script { rule: number, backend: backend.name.clone(), name: name.to_vec(), info: info.to_vec(), checked }
        });
        Next::Backend
    }

    /// The directory that scripts are told of as the root: that of `root`, else the site's.
    fn document_root<T>(&self, backend: &Backend, rule: &OneRule, lent: &mut Lent<'_, T>) -> Option<(RootRef, Vec<u8>)> {
        let values = Inputs::new(rule, lent.facts, &self.current, &self.found);
        let of_name = Inputs::of_name(lent.facts, &self.current);
        let begun = match backend.root() {
            Some(place) => place.begin(&values, lent.question),
            None => lent.rules.place.begin(&of_name, lent.question),
        };
        begun.then(|| (lent.question.root, lent.question.path.clone()))
    }
}

/// Segments beneath a mount that are tried as its program.
const MOUNT_SEGMENTS_MAX: usize = 32;
