//! How a request is answered: a resumable decision.
//!
//! Runs in the `worker`. Does no I/O: where it must know something of the disk it stops with [`Step::Ask`], and goes on with the
//! [`Answer`], whether that came from a cache at once or from another process later. First the rules of the site run; where none of them
//! answers, or one names a directory, a file is looked up.

mod outcome;

pub use super::lookup::{Lookup, RootRef};
pub use outcome::{Answer, Forbidden, Outcome, Step};

use super::Compiled;
use super::facts::Facts;
use super::https;
use super::listing::is_hidden;
use super::lookup::{Question, Stands};
use super::rules::{Lent, Next, Quota, ResponseChanges, Run};
use super::script::Script;
use super::trace::{Answered, Event, Silent, Trace};
use crate::config::Site;
use crate::proto::head::Method;
use crate::proto::status::Status;
use crate::proto::target::{self, Path};
use std::sync::Arc;
use std::time::Duration;

/// The methods of a file, for the `Allow` field.
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The state of one request's decision. Made to be used again: [`Plan::begin`] forgets the request before but keeps the memory.
#[derive(Debug, Default)]
pub struct Plan {
    /// The present question; its first `target` bytes are what was asked for first, without an index file.
    question: Question,
    target: usize,
    state: State,
    /// `None`: the site has no rules.
    run: Option<Box<Run>>,
    /// A plain request is sent to https.
    to_https: bool,
    limits: Limited,
    /// The limits that the request has been counted in.
    counted: Vec<Quota>,
    forbidden: Option<Forbidden>,
}

/// How the request stands with the limits of its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Limited {
    /// Those of the rules have not been looked at.
    #[default]
    NotYet,
    Within,
    /// For so many seconds.
    Beyond(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// A rule asked.
    Rules,
    /// What the request names was asked for.
    Target,
    /// The index file of that number was asked for.
    Index(usize),
    /// The page of that status was asked for.
    ErrorPage(Status),
    /// A file that a backend named was asked for; so many headers are the site's own.
    Named(usize),
}

impl Plan {
    /// Starts on a request.
    pub fn begin<F>(&mut self, site: &Compiled, facts: &Facts<'_>) -> Step<F> {
        self.begin_traced(site, facts, &mut Silent)
    }

    /// Starts again on the request, which is known to be a user's by now. What is counted of its client is not counted again.
    pub fn begin_again<F>(&mut self, site: &Compiled, facts: &Facts<'_>) -> Step<F> {
        let counted = std::mem::take(&mut self.counted);
        let step = self.begin(site, facts);
        self.counted = counted;
        step
    }

    /// Goes on with the answer to [`Plan::lookup`]; site and facts must be those of [`Plan::begin`].
    pub fn resume<F>(&mut self, site: &Compiled, facts: &Facts<'_>, answer: Answer<F>) -> Step<F> {
        self.resume_traced(site, facts, answer, &mut Silent)
    }

    /// [`Plan::begin`], telling each step.
    pub fn begin_traced<F>(&mut self, site: &Compiled, facts: &Facts<'_>, trace: &mut impl Trace) -> Step<F> {
        self.state = State::Idle;
        self.run = None;
        self.limits = Limited::NotYet;
        self.counted.clear();
        self.forbidden = None;
        self.to_https = https::redirects(&site.site, facts);
        if self.to_https {
            trace.record(|| Event::Plain);
            return match https::status(&site.site, facts) {
                Ok(code) => self.done(Outcome::Redirect(code)),
                Err(code) => self.end(code),
            };
        }
        if site.has_rules() {
            self.run = Some(Box::new(Run::new(&site.rules, facts)));
            return self.run_rules(site, facts, trace);
        }
        self.question.of_path(site.root, facts.path);
        self.serve(site, facts, trace)
    }

    /// The status whose page the site may have, to be sent in place of the built-in one.
    pub fn page_of<F>(&self, outcome: &Outcome<F>) -> Option<Status> {
        match outcome {
            Outcome::Status(status) => Some(*status),
            Outcome::MethodNotAllowed => Some(Status::METHOD_NOT_ALLOWED),
            Outcome::Source => Some(Status::FORBIDDEN),
            Outcome::Login(_) => Some(Status::UNAUTHORIZED),
            // `respond = 404` without a text means the page that the site has for it.
            Outcome::Respond(status) if status.code() >= 400 && self.body().is_none() => Some(*status),
            Outcome::File(_)
            | Outcome::Listing
            | Outcome::Redirect(_)
            | Outcome::ErrorPage(..)
            | Outcome::Respond(_)
            | Outcome::Page(_)
            | Outcome::Backend
            | Outcome::Allow => None,
        }
    }

    /// Looks for the page that the site has for a status, see [`Plan::page_of`]; ends with [`Outcome::ErrorPage`], or again with
    /// [`Outcome::Status`] where no file can be had. `None`: the site has none. What the rules change in the response stays.
    pub fn begin_error_page<F>(&mut self, site: &Compiled, facts: &Facts<'_>, code: Status) -> Option<Step<F>> {
        let (_, page) = site.site.error_pages.iter().find(|(status, _)| *status == code.code())?;
        let (mut raw, mut path) = (Vec::new(), Path::default());
        target::encode(page.as_bytes(), &mut raw);
        target::parse_into(&raw, &mut path).ok()?;
        if site.rules.is_source(&path) {
            return None;
        }
        match &self.run {
            Some(run) if !run.ask_path(&site.rules, facts, &path, &mut self.question) => return None,
            Some(_) => {}
            None => self.question.of_path(site.root, &path),
        }
        Some(self.ask(State::ErrorPage(code), &mut Silent))
    }

    /// Looks for a file that the backend named in place of its answer, beneath a directory of its own. What it said of the file in `headers`
    /// is said where the rules do not say something else; the response is [`Outcome::File`], or a status without them.
    pub fn begin_named<F>(&mut self, root: RootRef, path: &[u8], headers: impl Iterator<Item = (Arc<str>, Arc<[u8]>)>) -> Step<F> {
        self.question.at(root);
        self.question.path.extend_from_slice(path);
        let mut own = 0;
        if let Some(run) = &mut self.run {
            let changes = &mut run.changes.headers;
            own = changes.len();
            let said: Vec<_> = headers.filter(|(name, _)| !changes.iter().any(|(set, _)| set.eq_ignore_ascii_case(name))).collect();
            changes.extend(said);
        }
        self.ask(State::Named(own), &mut Silent)
    }

    /// Whether [`Plan::lookup`] is a file that a backend named.
    pub fn asks_named(&self) -> bool {
        matches!(self.state, State::Named(_))
    }

    /// What a backend named is not there, or not a file: what was said of it is not.
    fn not_named<F>(&mut self, own: usize, code: Status) -> Step<F> {
        if let Some(run) = &mut self.run {
            run.changes.headers.truncate(own);
        }
        self.end(code)
    }

    /// Whether [`Plan::lookup`] is the page of an error.
    pub fn asks_error_page(&self) -> bool {
        matches!(self.state, State::ErrorPage(_))
    }

    /// Whether [`Plan::lookup`] is to be known to stand, and nothing more of it: a rule asked.
    pub fn asks_whether(&self) -> bool {
        self.state == State::Rules
    }

    /// [`Plan::resume`], telling each step.
    pub fn resume_traced<F>(&mut self, site: &Compiled, facts: &Facts<'_>, answer: Answer<F>, trace: &mut impl Trace) -> Step<F> {
        trace.record(|| Event::Answered(answer.kind()));
        if self.state == State::Rules {
            let runs = answer.kind() == Answered::Denied && self.run.as_ref().is_some_and(|run| run.looks_for_program(&site.rules));
            return match if runs { Answered::Stands(Stands::File) } else { answer.kind() } {
                Answered::Stands(stands) => {
                    if let Some(run) = &mut self.run {
                        run.answer(stands, &self.question);
                    }
                    self.run_rules(site, facts, trace)
                }
                Answered::Denied => self.end(Status::FORBIDDEN),
                Answered::Busy => self.end(Status::SERVICE_UNAVAILABLE),
                Answered::Failed => self.end(Status::INTERNAL_SERVER_ERROR),
            };
        }
        match (self.state, answer) {
            // Not reachable by a request: there was no question.
            (State::Idle | State::Rules, _) => status(Status::INTERNAL_SERVER_ERROR),
            (State::ErrorPage(code), Answer::File(file)) => self.done(Outcome::ErrorPage(code, file)),
            (State::ErrorPage(code), _) => self.end(code),
            (State::Named(_), Answer::File(file)) => self.done(Outcome::File(file)),
            (State::Named(own), Answer::Directory | Answer::Missing | Answer::NotRegular) => self.not_named(own, Status::NOT_FOUND),
            (State::Named(own), Answer::Denied) => self.not_named(own, Status::FORBIDDEN),
            (State::Named(own), Answer::Busy) => self.not_named(own, Status::SERVICE_UNAVAILABLE),
            (State::Named(own), Answer::Failed) => self.not_named(own, Status::INTERNAL_SERVER_ERROR),
            // `/file.txt/` is not `/file.txt`: relative links in it would lead elsewhere.
            (State::Target, Answer::File(_)) if self.question.directory => self.end(Status::NOT_FOUND),
            (State::Target, Answer::File(_)) if site.rules.is_source(self.path(facts)) => self.done(Outcome::Source),
            (State::Target, Answer::File(file)) => self.done(Outcome::File(file)),
            (State::Index(index), Answer::File(_)) if self.is_script_index(site, facts, index) => self.run_index(site, facts, index, trace),
            // A method that does not read files could only have been meant for a script.
            (State::Index(_), Answer::File(_)) if self.method::<F>(facts).is_some() => self.refuse_method(facts),
            (State::Index(index), Answer::File(file)) => match self.index_refusal(site, facts, index) {
                None => self.done(Outcome::File(file)),
                Some(Next::Login(realm)) => self.done(Outcome::Login(realm)),
                Some(_) => self.forbid(Forbidden::ByRule),
            },
            (State::Target, Answer::Directory) if !self.question.directory => self.done(Outcome::Redirect(Status::MOVED_PERMANENTLY)),
            (State::Target, Answer::Directory) => self.ask_index(&site.site, facts, 0, trace),
            (State::Target, Answer::Missing) => self.end(Status::NOT_FOUND),
            (State::Target, Answer::NotRegular) => self.end(Status::FORBIDDEN),
            (State::Index(index), Answer::Directory | Answer::Missing | Answer::NotRegular) => {
                self.ask_index(&site.site, facts, index + 1, trace)
            }
            // An index that may not be read is not passed over: what a listing shows then was not meant to be shown.
            (State::Target | State::Index(_), Answer::Denied) => self.end(Status::FORBIDDEN),
            (State::Target | State::Index(_), Answer::Busy) => self.end(Status::SERVICE_UNAVAILABLE),
            (State::Target | State::Index(_), Answer::Failed) => self.end(Status::INTERNAL_SERVER_ERROR),
        }
    }

    /// Why it ended with 403, told once.
    pub fn take_forbidden(&mut self) -> Option<Forbidden> {
        self.forbidden.take()
    }

    /// The present question; when done, the path of what was found.
    pub fn lookup(&self) -> Lookup<'_> {
        Lookup { root: self.question.root, path: &self.question.path }
    }

    /// The request is one too many of its client, which is told to wait for so many seconds: ends with 429, whatever was to be answered.
    pub fn refuse<F>(&mut self, site: &Compiled, facts: &Facts<'_>, seconds: u64) -> Step<F> {
        if self.run.is_none() && site.has_rules() {
            // None of them has run, but the page is looked for as they would.
            self.run = Some(Box::new(Run::new(&site.rules, facts)));
        }
        self.limits = Limited::Beyond(seconds);
        self.end(Status::TOO_MANY_REQUESTS)
    }

    /// How long the client is told to wait after [`Plan::refuse`], in seconds.
    pub fn retry_after(&self) -> Option<u64> {
        match self.limits {
            Limited::Beyond(seconds) => Some(seconds),
            Limited::NotYet | Limited::Within => None,
        }
    }

    /// The client is told to wait for so many seconds with whatever error it gets.
    pub fn wait(&mut self, seconds: u64) {
        self.limits = Limited::Beyond(seconds);
    }

    /// How often a client may ask for this, by the rules that matched; each of them once for a request.
    pub fn take_quotas(&mut self) -> Vec<Quota> {
        match (self.limits, &self.run) {
            (Limited::NotYet, Some(run)) => {
                self.limits = Limited::Within;
                let new: Vec<Quota> = run.changes.requests.iter().filter(|quota| !self.counted.contains(quota)).copied().collect();
                self.counted.extend_from_slice(&new);
                new
            }
            (Limited::NotYet | Limited::Within | Limited::Beyond(_), _) => Vec::new(),
        }
    }

    /// What the rules that ran change in the response, whatever it is.
    pub fn changes(&self) -> &ResponseChanges {
        const NONE: &ResponseChanges = &ResponseChanges {
            headers: Vec::new(),
            expires: None::<Duration>,
            body: None,
            requests: Vec::new(),
            compress: None,
            cache: None,
            rate: None,
        };
        self.run.as_ref().map_or(NONE, |run| &run.changes)
    }

    /// The script of [`Outcome::Backend`].
    pub fn script(&self) -> Option<&Script> {
        self.run.as_ref().map(|run| &run.script)
    }

    /// The number of the rule that says whether directories are listed; `None`: the site does.
    pub fn listing_rule(&self) -> Option<usize> {
        self.run.as_ref()?.listing_by
    }

    /// The text that a rule answers with, `text/plain; charset=utf-8`.
    pub fn body(&self) -> Option<&[u8]> {
        self.run.as_ref()?.body.as_deref()
    }

    /// The path as rules have rewritten it.
    pub fn path<'p>(&'p self, facts: &Facts<'p>) -> &'p Path {
        self.run.as_ref().map_or(facts.path, |run| run.path(facts))
    }

    /// The query as rules have rewritten it.
    pub fn query<'p>(&'p self, facts: &Facts<'p>) -> Option<&'p [u8]> {
        self.run.as_ref().map_or(facts.query, |run| run.query(facts))
    }

    /// Appends the target of [`Outcome::Redirect`]: that of a rule, else the path with a slash at its end, and the query. The latter is
    /// path-only, so that scheme and host before a proxy stay, and begins with exactly one slash, so that it names no other host.
    pub fn location(&self, site: &Compiled, facts: &Facts<'_>, out: &mut Vec<u8>) {
        if self.to_https {
            return https::location(&site.site, facts, out);
        }
        if let Some(run) = self.run.as_ref().filter(|run| !run.location.is_empty()) {
            out.extend_from_slice(&run.location);
            return;
        }
        out.push(b'/');
        for segment in self.path(facts).segments() {
            target::encode(segment, out);
            out.push(b'/');
        }
        if let Some(query) = self.query(facts) {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }

    /// Whether a listing shows a name: it leaves out what a request for it would be refused.
    pub fn shows(&mut self, site: &Compiled, facts: &Facts<'_>, name: &[u8], directory: bool) -> bool {
        !is_hidden(&site.site, name) && self.permits(site, facts, name, directory)
    }

    fn run_rules<F>(&mut self, site: &Compiled, facts: &Facts<'_>, trace: &mut impl Trace) -> Step<F> {
        let Some(run) = &mut self.run else {
            return status(Status::INTERNAL_SERVER_ERROR);
        };
        let next = run.go(&mut Lent { site: &site.site, rules: &site.rules, facts, question: &mut self.question, trace });
        match next {
            Next::Ask => self.ask(State::Rules, trace),
            Next::Serve => self.serve(site, facts, trace),
            Next::Slash => match self.method(facts) {
                None => self.done(Outcome::Redirect(Status::MOVED_PERMANENTLY)),
                Some(outcome) => self.done(outcome),
            },
            Next::Methods => match self.method(facts) {
                None => self.end(Status::NOT_FOUND),
                Some(outcome) => self.done(outcome),
            },
            // No other 403 comes of rules.
            Next::Status(Status::FORBIDDEN) => self.forbid(Forbidden::ByRule),
            Next::Status(code) => self.end(code),
            Next::Login(realm) => self.done(Outcome::Login(realm)),
            Next::Redirect(code) => self.done(Outcome::Redirect(code)),
            Next::Respond(code) => self.done(Outcome::Respond(code)),
            Next::Page(page) => self.done(Outcome::Page(page)),
            Next::Backend => self.done(Outcome::Backend),
        }
    }

    /// Looks for the file that the question names.
    fn serve<F>(&mut self, compiled: &Compiled, facts: &Facts<'_>, trace: &mut impl Trace) -> Step<F> {
        let site = &compiled.site;
        self.target = self.question.path.len();
        if let Some(outcome) = self.method(facts) {
            // The index of a directory may be a script, which other methods are for too.
            let for_index = self.question.directory && compiled.rules.run_scripts() && is_for_scripts(facts.method);
            if !for_index {
                return self.done(outcome);
            }
        }
        if !self.question.named {
            trace.record(|| Event::NamesNoFile);
            return self.end(Status::NOT_FOUND);
        }
        if self.question.is_hidden(site) {
            trace.record(|| Event::Hidden);
            return self.end(Status::NOT_FOUND);
        }
        self.ask(State::Target, trace)
    }

    /// The path of an index file.
    fn index_path(&self, site: &Compiled, facts: &Facts<'_>, number: usize) -> Option<Path> {
        let mut raw = self.encoded(facts);
        raw.push(b'/');
        target::encode(self.index(&site.site).get(number)?.as_bytes(), &mut raw);
        let mut path = Path::default();
        target::parse_into(&raw, &mut path).ok()?;
        Some(path)
    }

    fn is_script_index(&self, site: &Compiled, facts: &Facts<'_>, number: usize) -> bool {
        site.rules.run_scripts() && self.index_path(site, facts, number).is_some_and(|path| site.rules.is_source(&path))
    }

    /// Goes on as if the path of the index had been asked for: a rule hands it to its backend.
    fn run_index<F>(&mut self, site: &Compiled, facts: &Facts<'_>, number: usize, trace: &mut impl Trace) -> Step<F> {
        let Some(path) = self.index_path(site, facts, number) else { return self.end(Status::NOT_FOUND) };
        trace.record(|| Event::ScriptIndex { path: path.bytes().to_vec() });
        let begun = self.run.as_mut().is_some_and(|run| run.begin_again(path));
        if begun { self.run_rules(site, facts, trace) } else { self.done(Outcome::Source) }
    }

    fn refuse_method<F>(&mut self, facts: &Facts<'_>) -> Step<F> {
        let outcome = self.method(facts).unwrap_or(Outcome::MethodNotAllowed);
        self.done(outcome)
    }

    /// What a file answers to a method that does not read it.
    fn method<F>(&self, facts: &Facts<'_>) -> Option<Outcome<F>> {
        match facts.method {
            Method::Get | Method::Head => None,
            Method::Options => Some(Outcome::Allow),
            Method::Extension => Some(Outcome::Status(Status::NOT_IMPLEMENTED)),
            // TRACE would echo the request, cookies and all; CONNECT is for proxies.
            Method::Post | Method::Put | Method::Delete | Method::Patch | Method::Trace | Method::Connect => {
                Some(Outcome::MethodNotAllowed)
            }
        }
    }

    fn ask_index<F>(&mut self, site: &Site, facts: &Facts<'_>, number: usize, trace: &mut impl Trace) -> Step<F> {
        self.question.path.truncate(self.target);
        match self.index(site).get(number) {
            Some(name) => {
                self.question.push(name.as_bytes());
                self.ask(State::Index(number), trace)
            }
            None if self.method::<F>(facts).is_some() => self.refuse_method(facts),
            None if self.run.as_ref().and_then(|run| run.listing).unwrap_or(site.listing) => self.done(Outcome::Listing),
            None => self.forbid(Forbidden::NoIndex),
        }
    }

    /// The names of index files: those of the last rule that says so, else the site's.
    fn index<'s>(&self, site: &'s Site) -> &'s [String] {
        let rule = self.run.as_ref().and_then(|run| run.index).and_then(|rule| site.rules.get(rule));
        rule.and_then(|rule| rule.changes.index.as_ref()).unwrap_or(&site.index)
    }

    /// What may not be had by its own path is not had as an index either.
    fn index_refusal(&mut self, site: &Compiled, facts: &Facts<'_>, number: usize) -> Option<Next> {
        if !site.rules.limits_access() || self.run.is_none() {
            return None;
        }
        let path = self.index_path(site, facts, number);
        let run = self.run.as_mut()?;
        let Some(path) = path else { return Some(Next::Status(Status::FORBIDDEN)) };
        let why = run.refusal(&site.rules, facts, &path, Stands::File)?;
        Some(run.refuse(why, &site.rules))
    }

    /// Whether access rules permit a name in the directory that the path names.
    fn permits(&mut self, site: &Compiled, facts: &Facts<'_>, name: &[u8], directory: bool) -> bool {
        if !site.rules.limits_access() || self.run.is_none() {
            return true;
        }
        let mut raw = self.encoded(facts);
        raw.push(b'/');
        target::encode(name, &mut raw);
        if directory {
            raw.push(b'/');
        }
        self.permits_path(site, facts, &raw, if directory { Stands::Directory } else { Stands::File })
    }

    /// Whether a file may be sent that stands beside the one that was found and has its name with `suffix` behind it: only if a request for it
    /// by its own path would be permitted.
    pub fn permits_beside(&mut self, site: &Compiled, facts: &Facts<'_>, suffix: &str) -> bool {
        if !site.rules.limits_access() || self.run.is_none() {
            return true;
        }
        let mut raw = self.encoded(facts);
        if self.path(facts).is_directory() {
            raw.push(b'/');
            let index = self.question.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            target::encode(index, &mut raw);
        }
        raw.extend_from_slice(suffix.as_bytes());
        self.permits_path(site, facts, &raw, Stands::File)
    }

    /// The path, encoded, without a slash at its end.
    fn encoded(&self, facts: &Facts<'_>) -> Vec<u8> {
        let (path, mut raw) = (self.path(facts), Vec::new());
        path.encode_part(0..path.bytes().len(), &mut raw);
        raw
    }

    fn permits_path(&mut self, site: &Compiled, facts: &Facts<'_>, raw: &[u8], stands: Stands) -> bool {
        let mut path = Path::default();
        let Some(run) = &mut self.run else { return true };
        target::parse_into(raw, &mut path).is_ok() && run.permits(&site.rules, facts, &path, stands)
    }

    fn ask<F>(&mut self, state: State, trace: &mut impl Trace) -> Step<F> {
        trace.record(|| Event::Asked { root: self.question.root, path: self.question.path.clone() });
        self.state = state;
        Step::Ask
    }

    fn done<F>(&mut self, outcome: Outcome<F>) -> Step<F> {
        self.state = State::Idle;
        Step::Done(outcome)
    }

    fn end<F>(&mut self, code: Status) -> Step<F> {
        self.done(Outcome::Status(code))
    }

    fn forbid<F>(&mut self, why: Forbidden) -> Step<F> {
        self.forbidden = Some(why);
        self.end(Status::FORBIDDEN)
    }
}

/// Whether scripts are asked with a method that no file is.
fn is_for_scripts(method: Method) -> bool {
    match method {
        Method::Post | Method::Put | Method::Delete | Method::Patch => true,
        Method::Get | Method::Head | Method::Options | Method::Trace | Method::Connect | Method::Extension => false,
    }
}

fn status<F>(code: Status) -> Step<F> {
    Step::Done(Outcome::Status(code))
}

#[cfg(test)]
mod tests;
