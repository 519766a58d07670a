//! One request's run over the rules: a machine that can stop wherever the disk must be asked.

use super::super::facts::{Facts, Secured};
use super::super::lookup::{Question, Stands};
use super::super::script::Script;
use super::super::template::{self, Value, Values};
use super::super::trace::{Event, Mismatch, Trace};
use super::compiled::{Doing, OneRule, Quota, Rules, Text};
use super::matchers::{Match, is_no_path};
use crate::config::{Coding, Page, Site, Variable};
use crate::proto::status::Status;
use crate::proto::target::{self, Path};
use std::sync::Arc;
use std::time::Duration;

/// What the rules change in the response; the worker puts it to use on every response to the request, errors included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseChanges {
    /// Name and value of each header to set; an empty value removes it. A name stands once.
    pub headers: Vec<(Arc<str>, Arc<[u8]>)>,
    /// For `Expires` and `Cache-Control: max-age`.
    pub expires: Option<Duration>,
    /// Bytes of a request body.
    pub body: Option<u64>,
    /// How often each client may ask for what the rules matched: all of these hold.
    pub requests: Vec<Quota>,
    /// The content codings that may be sent, in place of the site's.
    pub compress: Option<Arc<[Coding]>>,
    /// How long what was looked up may be answered from memory.
    pub cache: Option<Duration>,
    /// Bytes per second.
    pub rate: Option<u64>,
}

impl ResponseChanges {
    /// Whether there is anything to change in a head.
    pub fn touch_head(&self) -> bool {
        !self.headers.is_empty() || self.expires.is_some()
    }
}

/// What the plan lends a run for one step.
pub(in crate::site) struct Lent<'a, T> {
    pub(in crate::site) site: &'a Site,
    pub(in crate::site) rules: &'a Rules,
    pub(in crate::site) facts: &'a Facts<'a>,
    /// Where a question is made.
    pub(in crate::site) question: &'a mut Question,
    pub(in crate::site) trace: &'a mut T,
}

/// How the run goes on, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::site) enum Next {
    /// The question is to be answered.
    Ask,
    /// What the question names is to be served.
    Serve,
    /// The path lacks the slash of a directory.
    Slash,
    /// Only methods can be told of.
    Methods,
    Status(Status),
    /// A user of that number of an `[auth.NAME]` is asked for.
    Login(u16),
    /// To [`Run::location`].
    Redirect(Status),
    /// With [`Run::body`].
    Respond(Status),
    Page(Page),
    /// To [`Run::script`].
    Backend,
}

/// The state of a run.
#[derive(Debug, Default)]
pub(in crate::site) struct Run {
    phase: Phase,
    /// The rule that is next.
    pub(super) next: usize,
    /// The candidate of `try` that is next.
    pub(super) candidate: usize,
    pub(super) current: Current,
    pub(super) found: Match,
    /// A path being made.
    pub(super) scratch: Path,
    /// Access was refused: only changes of the response are still collected.
    refused: Option<Refusal>,
    /// Whose look-up was asked for: that of the site, or of a rule with a directory of its own.
    asking: Option<usize>,
    /// What is known of what the present path leads to, by the same.
    known: Vec<(Option<usize>, Stands)>,
    /// The answer for a candidate.
    pub(super) answered: Option<Stands>,
    pub(in crate::site) changes: ResponseChanges,
    pub(in crate::site) listing: Option<bool>,
    /// The number of the rule whose `listing` holds.
    pub(in crate::site) listing_by: Option<usize>,
    /// The number of the rule whose `index` holds.
    pub(in crate::site) index: Option<usize>,
    pub(in crate::site) location: Vec<u8>,
    pub(in crate::site) body: Option<Vec<u8>>,
    pub(in crate::site) script: Script,
    /// The rules run a second time, for an index that is a script.
    again: bool,
}

/// The path and the query as rewriting has left them.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// `None`: those of the request.
    path: Option<Path>,
    query: Option<Vec<u8>>,
    star: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// `allow`, `deny` and `auth` of all rules are tried on the present path.
    #[default]
    Access,
    Rules,
    /// Within a `try`.
    Try,
    /// A script is looked up.
    Script,
}

enum Access {
    Permitted,
    Refused(Refusal),
    Ask,
}

/// Why a path may not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::site) enum Refusal {
    /// `allow` or `deny` of the rule of that number.
    ByRule(usize),
    /// It asks for a user, and the request is not known to be one's.
    Login(usize),
}

impl Run {
    /// A run over a request.
    pub(in crate::site) fn new(rules: &Rules, facts: &Facts<'_>) -> Run {
        let mut run = Run::default();
        if !rules.stars.is_empty() {
            run.current.star = rules.star(facts.host_name());
        }
        run
    }

    /// Whether the question is for a program, which need be readable only for whom it runs as.
    pub(in crate::site) fn looks_for_program(&self, rules: &Rules) -> bool {
        let acts = || matches!(rules.rules.get(self.next).and_then(|rule| rule.act.as_ref()), Some(Doing::Backend(to)) if to.is_program);
        self.phase == Phase::Script && acts()
    }

    /// Takes the answer to the question.
    pub(in crate::site) fn answer(&mut self, stands: Stands, question: &Question) {
        // `/file.txt/` names nothing.
        let stands = if stands == Stands::File && question.directory { Stands::Nothing } else { stands };
        match self.phase {
            Phase::Access | Phase::Rules => self.known.push((self.asking, stands)),
            Phase::Try | Phase::Script => self.answered = Some(stands),
        }
    }

    /// Runs until the disk must be asked, or to the end.
    pub(in crate::site) fn go<T: Trace>(&mut self, lent: &mut Lent<'_, T>) -> Next {
        let (rules, facts) = (lent.rules, lent.facts);
        if rules.broken {
            return Next::Status(Status::INTERNAL_SERVER_ERROR);
        }
        loop {
            if self.phase == Phase::Access {
                match self.access(lent) {
                    Access::Ask => return Next::Ask,
                    Access::Refused(why) => self.refused = Some(why),
                    Access::Permitted => {}
                }
                self.phase = Phase::Rules;
            }
            let Some(rule) = rules.rules.get(self.next) else { break };
            if self.phase == Phase::Rules {
                match self.matches(self.next, rule, lent) {
                    None => return Next::Ask,
                    Some(mismatch) => {
                        let number = self.next;
                        let matched = mismatch.is_none();
                        lent.trace.record(|| Event::Rule { rule: number, mismatch });
                        if !matched {
                            self.next += 1;
                            continue;
                        }
                    }
                }
                self.change(self.next, rule, facts);
            }
            match &rule.act {
                Some(act) if !is_no_path(facts.raw_path) => {
                    if let Some(next) = self.act(act, rule, lent) {
                        return next;
                    }
                }
                Some(_) | None => self.next += 1,
            }
        }
        match self.refused {
            Some(why) => self.refuse(why, rules),
            None => self.ask_site(lent, false),
        }
    }

    /// The path as rewriting has left it.
    pub(in crate::site) fn path<'s>(&'s self, facts: &Facts<'s>) -> &'s Path {
        self.current.path(facts)
    }

    /// The query as rewriting has left it.
    pub(in crate::site) fn query<'s>(&'s self, facts: &Facts<'s>) -> Option<&'s [u8]> {
        self.current.query(facts)
    }

    /// Whether `allow`, `deny` and `auth` permit a path of which it is known what stands there.
    pub(in crate::site) fn permits(&mut self, rules: &Rules, facts: &Facts<'_>, path: &Path, stands: Stands) -> bool {
        self.refusal(rules, facts, path, stands).is_none()
    }

    /// Why such a path may not be had, if it may not: a rule that refuses comes before one that asks for a user.
    pub(in crate::site) fn refusal(&mut self, rules: &Rules, facts: &Facts<'_>, path: &Path, stands: Stands) -> Option<Refusal> {
        let mut login = None;
        for &number in &rules.access {
            let Some(rule) = rules.rules.get(number) else { return Some(Refusal::ByRule(number)) };
            let applies =
                rule.matchers.matches(facts, path, &mut self.found).is_ok() && rule.matchers.exists.is_none_or(|wanted| stands.is(wanted));
            if applies && !rule.changes.permits(facts.client) {
                return Some(Refusal::ByRule(number));
            }
            if applies && rule.changes.asks_for_user(facts) {
                login.get_or_insert(Refusal::Login(number));
            }
        }
        login
    }

    /// Answers as a refusal has it. What asks for a user is said in the response, unless a rule says something else.
    pub(in crate::site) fn refuse(&mut self, why: Refusal, rules: &Rules) -> Next {
        const ASKS: &str = "WWW-Authenticate";
        let Refusal::Login(number) = why else { return Next::Status(Status::FORBIDDEN) };
        let Some((realm, challenge)) = rules.rules.get(number).and_then(|rule| rule.changes.auth.as_ref()) else {
            return Next::Status(Status::FORBIDDEN);
        };
        let headers = &mut self.changes.headers;
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(ASKS)) {
            headers.push((ASKS.into(), Arc::clone(challenge)));
        }
        Next::Login(*realm)
    }

    /// Goes on with the next rule on another path.
    pub(super) fn replace(&mut self, path: Path, query: Option<Vec<u8>>) {
        self.current.path = Some(path);
        if query.is_some() {
            self.current.query = query;
        }
        self.known.clear();
        self.phase = Phase::Access;
        self.next += 1;
    }

    /// Makes the site's own question of a path; `candidate`: of the one being made.
    pub(super) fn ask_site<T>(&mut self, lent: &mut Lent<'_, T>, candidate: bool) -> Next {
        let path = if candidate { &self.scratch } else { self.current.path(lent.facts) };
        if self.ask_path(lent.rules, lent.facts, path, lent.question) { Next::Serve } else { Next::Status(Status::NOT_FOUND) }
    }

    /// Makes a question of a path beneath the site's root; false: no such directory can be.
    pub(in crate::site) fn ask_path(&self, rules: &Rules, facts: &Facts<'_>, path: &Path, question: &mut Question) -> bool {
        rules.place.ask(path, &Inputs::of_name(facts, &self.current), question)
    }

    /// Runs the rules again for an index that is a script, as if its own path had been asked for; false: they have run again already.
    pub(in crate::site) fn begin_again(&mut self, path: Path) -> bool {
        if self.again {
            return false;
        }
        self.replace(path, None);
        (self.again, self.next) = (true, 0);
        true
    }

    fn access<T: Trace>(&mut self, lent: &mut Lent<'_, T>) -> Access {
        let (rules, mut login) = (lent.rules, None);
        for &number in &rules.access {
            let Some(rule) = rules.rules.get(number) else { continue };
            match self.matches(number, rule, lent) {
                None => return Access::Ask,
                Some(Some(_)) => {}
                Some(None) => {
                    let refuses = !rule.changes.permits(lent.facts.client);
                    if rule.changes.limits_clients() {
                        lent.trace.record(|| Event::Access { rule: number, refuses });
                    }
                    if refuses {
                        return Access::Refused(Refusal::ByRule(number));
                    }
                    if rule.changes.asks_for_user(lent.facts) {
                        lent.trace.record(|| Event::Login { rule: number });
                        login.get_or_insert(Refusal::Login(number));
                    }
                }
            }
        }
        login.map_or(Access::Permitted, Access::Refused)
    }

    /// Why a rule does not match, if it does not; `None`: the disk must be asked.
    fn matches<T>(&mut self, number: usize, rule: &OneRule, lent: &mut Lent<'_, T>) -> Option<Option<Mismatch>> {
        if let Err(mismatch) = rule.matchers.matches(lent.facts, self.current.path(lent.facts), &mut self.found) {
            return Some(Some(mismatch));
        }
        let Some(wanted) = rule.matchers.exists else {
            return Some(None);
        };
        let stands = self.stands(number, rule, lent)?;
        Some((!stands.is(wanted)).then_some(Mismatch::Exists))
    }

    /// What stands where the path leads: beneath the rule's own directory if it has one, else beneath the site's.
    fn stands<T>(&mut self, number: usize, rule: &OneRule, lent: &mut Lent<'_, T>) -> Option<Stands> {
        let own = matches!(rule.act, Some(Doing::Root(_) | Doing::Alias(_))).then_some(number);
        if let Some((_, stands)) = self.known.iter().find(|(whose, _)| *whose == own) {
            return Some(*stands);
        }
        let asked = match &rule.act {
            Some(act @ (Doing::Root(_) | Doing::Alias(_))) => self.ask_own(act, rule, lent),
            Some(Doing::Redirect { .. } | Doing::Rewrite(_) | Doing::Try(_) | Doing::Respond(_) | Doing::Backend(_)) | None => {
                self.ask_site(lent, false) == Next::Serve
            }
        };
        if asked && lent.question.named && !lent.question.is_hidden(lent.site) && !is_no_path(lent.facts.raw_path) {
            self.asking = own;
            return None;
        }
        self.known.push((own, Stands::Nothing));
        Some(Stands::Nothing)
    }

    /// Makes the question of a rule with a directory of its own; false: no such directory can be.
    fn ask_own<T>(&self, act: &Doing, rule: &OneRule, lent: &mut Lent<'_, T>) -> bool {
        let (path, values) = (self.current.path(lent.facts), Inputs::new(rule, lent.facts, &self.current, &self.found));
        match act {
            Doing::Root(place) => place.ask(path, &values, lent.question),
            Doing::Alias(alias) => alias.ask(self.found.found, path, &values, lent.question),
            Doing::Redirect { .. } | Doing::Rewrite(_) | Doing::Try(_) | Doing::Respond(_) | Doing::Backend(_) => false,
        }
    }

    fn change(&mut self, number: usize, rule: &OneRule, facts: &Facts<'_>) {
        let changes = &rule.changes;
        for (name, text) in &changes.header {
            let value = match text {
                Text::Fixed(value) => Arc::clone(value),
                Text::Template(template) => {
                    let mut value = Vec::new();
                    template::header(template, &Inputs::new(rule, facts, &self.current, &self.found), &mut value);
                    value.trim_ascii().into()
                }
            };
            let headers = &mut self.changes.headers;
            match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some(header) => header.1 = value,
                None => headers.push((Arc::clone(name), value)),
            }
        }
        self.changes.expires = changes.expires.or(self.changes.expires);
        self.changes.body = changes.body.or(self.changes.body);
        self.changes.cache = changes.cache.or(self.changes.cache);
        self.changes.rate = changes.rate.or(self.changes.rate);
        if let Some(codings) = &changes.compress {
            self.changes.compress = Some(Arc::clone(codings));
        }
        if let Some(quota) = changes.requests.filter(|quota| !self.changes.requests.contains(quota)) {
            self.changes.requests.push(quota);
        }
        if changes.listing.is_some() {
            (self.listing, self.listing_by) = (changes.listing, Some(number));
        }
        if changes.index {
            self.index = Some(number);
        }
    }

    /// Does the act of a rule that matched; `None`: the run goes on.
    fn act<T: Trace>(&mut self, act: &Doing, rule: &OneRule, lent: &mut Lent<'_, T>) -> Option<Next> {
        if let Some(why) = self.refused {
            return match act {
                Doing::Rewrite(_) | Doing::Try(_) => {
                    self.next += 1;
                    None
                }
                Doing::Root(_) | Doing::Alias(_) | Doing::Redirect { .. } | Doing::Respond(_) | Doing::Backend(_) => {
                    Some(self.refuse(why, lent.rules))
                }
            };
        }
        let (number, facts) = (self.next, lent.facts);
        let name = act.name();
        if self.phase == Phase::Rules {
            lent.trace.record(|| Event::Act { rule: number, act: name });
        }
        let values = Inputs::new(rule, facts, &self.current, &self.found);
        match act {
            Doing::Root(_) | Doing::Alias(_) => Some(if !self.ask_own(act, rule, lent) {
                lent.trace.record(|| Event::NamesNoFile);
                Next::Status(Status::NOT_FOUND)
            } else if self.found.found == super::alias::Found::WithoutSlash && matches!(act, Doing::Alias(_)) {
                Next::Slash
            } else {
                Next::Serve
            }),
            Doing::Redirect { to, status } => Some(Run::redirect(&mut self.location, to, *status, &values)),
            Doing::Respond(respond) => Some(Run::respond(&mut self.body, respond, &rule.changes, facts, values)),
            Doing::Rewrite(to) => {
                let next = self.rewrite(to, rule, facts);
                self.trace_path(number, next.is_none(), lent);
                next
            }
            Doing::Backend(backend) => {
                self.phase = Phase::Script;
                Some(self.backend(backend, rule, lent))
            }
            Doing::Try(candidates) => {
                self.phase = Phase::Try;
                let next = self.try_(candidates, rule, lent);
                self.trace_path(number, next.is_none(), lent);
                next
            }
        }
    }

    fn trace_path<T: Trace>(&self, rule: usize, changed: bool, lent: &mut Lent<'_, T>) {
        if changed {
            lent.trace.record(|| Event::Rewritten {
                rule,
                path: self.path(lent.facts).bytes().to_vec(),
                query: self.query(lent.facts).map(<[u8]>::to_vec),
            });
        }
    }

    /// Nothing could be tried: the rule is as if it had no act.
    pub(super) fn pass(&mut self) {
        self.phase = Phase::Rules;
        self.candidate = 0;
        self.next += 1;
    }
}

impl Doing {
    /// Its word in the configuration.
    fn name(&self) -> &'static str {
        match self {
            Doing::Root(_) => "root",
            Doing::Alias(_) => "alias",
            Doing::Redirect { .. } => "redirect",
            Doing::Rewrite(_) => "rewrite",
            Doing::Try(_) => "try",
            Doing::Respond(_) => "respond",
            Doing::Backend(_) => "backend",
        }
    }
}

impl Current {
    pub(super) fn path<'s>(&'s self, facts: &Facts<'s>) -> &'s Path {
        self.path.as_ref().unwrap_or(facts.path)
    }

    pub(super) fn query<'s>(&'s self, facts: &Facts<'s>) -> Option<&'s [u8]> {
        self.query.as_deref().or(facts.query)
    }
}

/// What a rule's templates may be filled with.
pub(super) struct Inputs<'a> {
    facts: &'a Facts<'a>,
    current: &'a Current,
    captures: &'a [super::super::pattern::Part],
    of_name: bool,
    /// Of the response, where it is known.
    status: Option<Status>,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(rule: &OneRule, facts: &'a Facts<'a>, current: &'a Current, found: &'a Match) -> Inputs<'a> {
        Inputs { facts, current, captures: &found.captures, of_name: rule.of_name, status: None }
    }

    /// The same for a response of that status.
    pub(super) fn with_status(self, status: Status) -> Inputs<'a> {
        Inputs { status: Some(status), ..self }
    }

    pub(super) fn of_name(facts: &'a Facts<'a>, current: &'a Current) -> Inputs<'a> {
        Inputs { facts, current, captures: &[], of_name: true, status: None }
    }
}

impl Values for Inputs<'_> {
    fn variable(&self, variable: Variable) -> Value<'_> {
        let facts = self.facts;
        match variable {
            Variable::Path => {
                let path = self.current.path(facts);
                Value::Path(path, 0..path.bytes().len())
            }
            Variable::Query => self.current.query(facts).map_or(Value::Nothing, Value::Query),
            Variable::Uri => Value::Uri(facts.raw_path, facts.query),
            Variable::Host => facts.host_name().map_or(Value::Nothing, Value::Host),
            Variable::Scheme => Value::Text(facts.scheme.name().as_bytes()),
            Variable::Method => Value::Text(facts.method_name),
            Variable::Client => Value::Address(facts.client.to_canonical()),
            Variable::User => Value::Text(facts.user),
            Variable::RequestId => Value::Text(facts.request_id),
            Variable::Time => Value::Text(facts.time),
            Variable::TlsVersion => Value::Text(facts.tls.map_or("", |tls| tls.version).as_bytes()),
            Variable::TlsSni => Value::Text(facts.tls.map_or("", |tls| &tls.sni).as_bytes()),
            Variable::TlsClient => Value::Text(facts.tls.map_or("", Secured::subject).as_bytes()),
            Variable::Status => self.status.map_or(Value::Status, |status| Value::Number(u64::from(status.code()))),
            // Of access lines alone.
            Variable::Bytes | Variable::Duration => Value::Nothing,
        }
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.facts.fields.first(name)
    }

    fn capture(&self, number: u8) -> Value<'_> {
        if self.of_name {
            return match number {
                1 => Value::Text(&self.current.star),
                _ => Value::Nothing,
            };
        }
        let part = usize::from(number).checked_sub(1).and_then(|at| self.captures.get(at));
        part.map_or(Value::Nothing, |&(from, to)| Value::Path(self.current.path(self.facts), from..to))
    }
}

/// Reads a path that a template gave.
pub(super) fn parse(text: &[u8], path: &mut Path) -> bool {
    target::parse_into(text, path).is_ok()
}
