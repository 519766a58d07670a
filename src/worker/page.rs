//! Responses that the server makes itself: errors, redirects, texts, and what it tells of its own state.
//!
//! Runs in the worker, as a part of [`Service`]; opens no file, and reads one only as the page of an error.

use super::answer::{Answered, Body, Incoming, Service, count};
use super::choice::Choice;
use super::fetched::Fetched;
use super::files;
use super::response::{Head, Persistence};
use super::visit::Visit;
use crate::config::{Level, Page};
use crate::ipc::counters::{Counter, Gauge};
use crate::ipc::lines;
use crate::proto::status::{Reject, Status};
use crate::site::plan::{self, Forbidden, Outcome, Plan};
use crate::site::{error_page, look, status_page};

impl Service {
    /// Answers bytes that are no acceptable request; the connection ends.
    pub(super) fn reject(&mut self, visit: &Visit, reject: &Reject, line: &[u8]) {
        self.counters.count(Counter::Refused, 1);
        // No site, as no head was understood that names one.
        let shown = lines::escaped(line.get(..REJECTED_SHOWN).unwrap_or(line));
        self.log.error(Level::Info, &format!("client {}, request \"{shown}\": {} ({})", visit.client, reject.status, reject.why));
        self.page.clear();
        error_page::render(reject.status, &mut self.page);
        let mut out = std::mem::take(&mut self.out);
        let mut head = Head::begin(&mut out, reject.status, &self.server, &self.clock);
        self.secure_rejected(visit, &mut head);
        head.page(&look::MESSAGE, count(&self.page)).end(Persistence::Close);
        self.out = out;
        self.out.extend_from_slice(&self.page);
        let bytes = count(&self.page);
        self.write_line(None, None, visit, line, reject.status, bytes);
    }

    /// Writes an error line of a 403 that is the configuration's: the client is told nothing, and whoever looks for the reason looks there. What
    /// the disk denied has a line already.
    pub(super) fn tell_why_forbidden(&mut self, incoming: &Incoming<'_>, site: usize, plan: &mut Plan, outcome: &Outcome<Fetched>) {
        let why = match (plan.take_forbidden(), outcome) {
            (Some(Forbidden::ByRule), _) => {
                format!("the rules of the site keep {} out; \"anchorite explain\" tells which", incoming.visit.client)
            }
            (Some(Forbidden::NoIndex), _) => {
                format!("{} is a directory without an index file, and \"listing\" is off", self.files.name(plan.lookup()))
            }
            (None, Outcome::Source) => {
                format!("{} is the source of a script, and no rule hands it to a backend: not sent", self.files.name(plan.lookup()))
            }
            (None, _) => return,
        };
        self.complain(incoming, site, &why);
    }

    /// Writes an error line, each once a minute: a client that asks again and again does not fill the log.
    pub(super) fn complain(&mut self, incoming: &Incoming<'_>, site: usize, fault: &str) {
        const INTERVAL_MS: u64 = 60_000;
        const REMEMBERED: usize = 256;
        let now = self.clock.now;
        let key = format!("{site} {fault}");
        if self.said.get(&key).is_some_and(|said| now.saturating_sub(*said) < INTERVAL_MS) {
            return;
        }
        if self.said.len() >= REMEMBERED {
            self.said.retain(|_, said| now.saturating_sub(*said) < INTERVAL_MS);
        }
        if self.said.len() >= REMEMBERED {
            return;
        }
        self.said.insert(key, now);
        let name = self.sites.get(site).name.first().map_or("", String::as_str);
        let line = lines::escaped(incoming.request.line);
        let text = format!("client {}, site \"{name}\", request \"{line}\": {fault} (uid {})", incoming.visit.client, self.uid);
        self.log.error(Level::Error, &text);
    }

    /// A page of our own: an error or a redirect.
    pub(super) fn page(&mut self, incoming: &Incoming<'_>, site: usize, status: Status, fields: &[(&str, &[u8])]) -> Answered {
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        error_page::render(status, &mut page);
        let (chosen, encoded) = self.encoded_page(incoming, site, status, &page);
        let body = encoded.as_deref().unwrap_or(&page);
        let mut head = Head::begin(&mut self.out, status, &self.server, &self.clock);
        for (name, value) in fields {
            head = head.field(name, value);
        }
        head.encoded(chosen.coding).vary(chosen.varies).page(&look::MESSAGE, count(body)).end(incoming.persistence);
        let answered = self.finish(incoming, site, status, Body::Bytes(body));
        self.page = page;
        answered
    }

    /// An answer without content: a client would take a body for the beginning of the next answer (RFC 9110, 15.3.5 and 15.3.6). Of a 205 it
    /// reads a length of none, of a 204 there must be no length (RFC 9110, 8.6).
    pub(super) fn nothing(&mut self, incoming: &Incoming<'_>, site: usize, status: Status) -> Answered {
        let head = Head::begin(&mut self.out, status, &self.server, &self.clock);
        let head = if status == Status::RESET_CONTENT { head.number("Content-Length", 0) } else { head };
        head.end(incoming.persistence);
        self.finish(incoming, site, status, Body::None)
    }

    /// A text that the configuration or the server itself answers with.
    pub(super) fn text(&mut self, incoming: &Incoming<'_>, site: usize, status: Status, content_type: &[u8], text: &[u8]) -> Answered {
        Head::begin(&mut self.out, status, &self.server, &self.clock).typed(content_type, count(text)).end(incoming.persistence);
        self.finish(incoming, site, status, Body::Bytes(text))
    }

    /// What the server tells of itself.
    pub(super) fn own_page(&mut self, incoming: &Incoming<'_>, site: usize, page: Page) -> Answered {
        self.counters.publish();
        self.changes.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("cache-control"));
        self.changes.headers.push(("Cache-Control".into(), b"no-store".as_slice().into()));
        match page {
            Page::Health => self.text(incoming, site, Status::OK, PLAIN, b"ok\n"),
            Page::Status => self.status_page(incoming, site),
            Page::Metrics => {
                let text = self.counters.totals().prometheus();
                self.text(incoming, site, Status::OK, b"text/plain; version=0.0.4; charset=utf-8", text.as_bytes())
            }
        }
    }

    fn status_page(&mut self, incoming: &Incoming<'_>, site: usize) -> Answered {
        let totals = self.counters.totals();
        let format = status_page::Format::wanted(incoming.request);
        let mut page = Vec::new();
        match format {
            status_page::Format::Text => page.extend_from_slice((totals.text() + "\n").as_bytes()),
            status_page::Format::Json => page.extend_from_slice(format!("{{{}}}\n", totals.json_members()).as_bytes()),
            status_page::Format::Html => {
                let now: Vec<(&str, u64)> = Gauge::ALL.iter().map(|gauge| gauge.name()).zip(totals.gauges).collect();
                let since: Vec<(&str, u64)> = Counter::ALL.iter().map(|counter| (counter.help(), totals.get(*counter))).collect();
                status_page::render(&now, &since, &mut page);
            }
        }
        let head = Head::begin(&mut self.out, Status::OK, &self.server, &self.clock).field("Vary", b"Accept");
        let head = match format {
            status_page::Format::Html => head.page(&look::STATUS, count(&page)),
            status_page::Format::Text => head.typed(PLAIN, count(&page)),
            status_page::Format::Json => head.typed(b"application/json", count(&page)),
        };
        head.end(incoming.persistence);
        self.finish(incoming, site, Status::OK, Body::Bytes(&page))
    }

    /// A file as the page of an error, with the error's status.
    pub(super) fn error_file(&mut self, incoming: &Incoming<'_>, site: usize, plan: &Plan, status: Status, fetched: Fetched) -> Answered {
        let file = match self.fetched(incoming, site, plan, &files::key(plan.lookup()), fetched) {
            Ok(file) => file,
            Err(answered) => return answered,
        };
        let Choice { file, varies, making } = self.choose(incoming, site, &file, &[]);
        let head = Head::begin(&mut self.out, status, &self.server, &self.clock);
        // RFC 9110, 15.5.6: a 405 says which methods there are.
        let head = if status == Status::METHOD_NOT_ALLOWED { head.field("Allow", plan::ALLOW.as_bytes()) } else { head };
        let head = match plan.retry_after() {
            Some(seconds) => head.number("Retry-After", seconds),
            None => head,
        };
        let head = head.field("Content-Type", &file.content_type).vary(varies);
        let Some(making) = making else {
            let length = file.length();
            head.encoded(file.coding).number("Content-Length", length).end(incoming.persistence);
            return self.finish(incoming, site, status, Body::File { file, offset: 0, length });
        };
        let (delimiter, incoming) = incoming.without_length();
        head.encoded(Some(making.coding)).delimited(delimiter).end(incoming.persistence);
        self.finish(&incoming, site, status, Body::Segments(making.segments(delimiter)))
    }
}

/// Bytes shown of what was no request.
const REJECTED_SHOWN: usize = 256;

const PLAIN: &[u8] = b"text/plain; charset=utf-8";
