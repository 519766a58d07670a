//! The response to one request: from the parsed head through the plan to bytes, and a file where there is more to send.

use super::backend::{Backends, Handed};
use super::body::{self, Decided};
use super::boundary::Boundaries;
use super::choice::{Choice, Making};
use super::clients::{Clients, Refusals};
use super::clock::Clock;
use super::counters::Counters;
use super::disk::{Disk, Told};
use super::encoder::EncodedPages;
use super::fetched::Fetched;
use super::files::{self, Files, Manner};
use super::log::{Exchange, Log};
use super::logins::Logins;
use super::pace::Pace;
use super::pending::{Paused, Pending};
use super::response::{self, Head, Persistence};
use super::segment::{Delimiter, Rest, Segment};
use super::served::{Ahead, Content, Prepared, Served, Variants};
use super::state::Ticket;
use super::tls::identity::Identities;
use super::tls::link::Place;
use super::visit::{Line, User, Visit};
use crate::config::{Level, Limits, Listen, Proxies, WorkerSlice};
use crate::proto::coding::{Coding, Wanted};
use crate::proto::conditional::{self, Precondition, Validators};
use crate::proto::head::{self, Framing, HeadLimits, Method, Request, Version};
use crate::proto::range::{self, Range};
use crate::proto::status::{Reject, Status};
use crate::proto::target::{self, Path};
use crate::site::facts::Facts;
use crate::site::form;
use crate::site::mime::{self, Gain};
use crate::site::plan::{self, Outcome, Plan, Step};
use crate::site::{Door, ResponseChanges, Sites, https};
use crate::sys::file::Opened;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What all connections of a worker share.
pub(super) struct Service {
    pub(super) sites: Rc<Sites>,
    pub(super) place: Rc<Place>,
    pub(super) files: Files,
    pub(super) limits: Limits,
    pub(super) head_limits: HeadLimits,
    pub(super) clock: Clock,
    pub(super) log: Log,
    pub(super) disk: Disk,
    pub(super) backends: Backends,
    pub(super) logins: Logins,
    /// What `files` or `auth` said to the connection that is driven, and whom it is known to be from since.
    pub(super) told: Option<Told>,
    pub(super) user: Option<Rc<User>>,
    pub(super) counters: Counters,
    pub(super) clients: Clients,
    pub(super) refusals: Refusals,
    /// The same for handshakes that came to nothing.
    pub(super) handshakes: Refusals,
    pub(super) proxies: Proxies,
    /// Responses being made; emptied by whoever sends them.
    pub(super) out: Vec<u8>,
    /// Bytes that connections hold because their clients do not take them.
    pub(super) held: usize,
    /// Bytes of names that lists of directories hold to sort them.
    pub(super) listed: Rc<Cell<usize>>,
    /// No request is kept alive any more.
    pub(super) stopping: bool,
    pub(super) server: String,
    /// Whether connections without TLS may begin with HTTP/2.
    pub(super) http2_cleartext: bool,
    mime: Vec<(String, String)>,
    /// Where clients speak TLS.
    tls_listen: Vec<Listen>,
    /// By site: what its answers over https say of later visits.
    pub(super) hsts: Vec<Option<Arc<[u8]>>>,
    /// What the rules change in the response being made, and where that begins in `out`.
    pub(super) changes: ResponseChanges,
    start: usize,
    pub(super) uid: u32,
    pub(super) path: Path,
    pub(super) page: Vec<u8>,
    pub(super) encoded_pages: EncodedPages,
    /// Error lines of the last minute, to write each once.
    pub(super) said: HashMap<String, u64>,
    pub(super) boundaries: Boundaries,
}

/// What came of a request.
pub(super) enum Answered {
    /// The response is in [`Service::out`], and what is not copied goes behind it.
    Response { persistence: Persistence, rest: Option<Box<Rest>> },
    /// The plan asks something of the disk; the request has to be taken up again with [`Service::resume`], and with the same persistence.
    Asks(Box<Paused>),
    /// As that, when the answer of this number has come from `files` or `auth`.
    Waits(Box<Paused>, Ticket),
    /// A backend is asked; goes on with [`Service::respond`] when its answer has begun.
    Backend(Box<Handed>),
    /// What is to be done is decided; the body has to be read first, then [`Service::conclude`].
    Reads(Box<Decided>),
}

/// One request, with what is known of its connection.
#[derive(Clone, Copy)]
pub(super) struct Incoming<'r> {
    pub(super) request: &'r Request<'r, 'r>,
    pub(super) head: &'r [u8],
    pub(super) visit: &'r Visit,
    pub(super) persistence: Persistence,
}

impl Incoming<'_> {
    /// How the end of content is told whose length is not known, and the request so answered: a client of HTTP/1.0 knows no chunks, and
    /// sees it by the end of the connection (RFC 9112, 6.3).
    pub(super) fn without_length(&self) -> (Delimiter, Self) {
        match self.request.version {
            Version::Http11 => (Delimiter::Chunks, *self),
            // A stream has an end of its own.
            Version::Http2 => (Delimiter::None, *self),
            Version::Http10 => (Delimiter::None, Incoming { persistence: Persistence::Close, ..*self }),
        }
    }
}

/// What is written behind a head.
pub(super) enum Body<'b> {
    None,
    Bytes(&'b [u8]),
    File {
        file: Rc<Served>,
        offset: u64,
        length: u64,
    },
    /// What is sent bit by bit, in this order; the head has said how its end is told.
    Segments(VecDeque<Segment>),
}

impl Service {
    pub(super) fn new(
        slice: WorkerSlice,
        files: Files,
        (identities, log, disk, logins, backends): (Identities, Log, Disk, Logins, Backends),
        counters: Counters,
        clients: Clients,
        uid: u32,
    ) -> Service {
        let WorkerSlice { sites, limits, server_header, http2_cleartext, proxies, listen, tls_listen, mime, .. } = slice;
        let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let head_limits = HeadLimits {
            request_line: size(limits.request_line),
            header_bytes: size(limits.header_bytes),
            header_count: usize::from(limits.header_count),
        };
        let all_tls = tls_listen.iter().chain(sites.iter().flat_map(|site| &site.tls_listen)).cloned().collect();
        let hsts = sites.iter().map(|site| site.hsts.map(https::hsts)).collect();
        let sites = Rc::new(Sites::listening(sites, &listen, &tls_listen));
        Service {
            place: Rc::new(Place { sites: Rc::clone(&sites), identities }),
            sites,
            hsts,
            tls_listen: all_tls,
            mime,
            files,
            limits,
            head_limits,
            clock: Clock::new(),
            log,
            disk,
            backends,
            logins,
            told: None,
            user: None,
            counters,
            clients,
            refusals: Refusals::default(),
            handshakes: Refusals::default(),
            proxies,
            out: Vec::new(),
            held: 0,
            listed: Rc::default(),
            stopping: false,
            server: server_header,
            http2_cleartext,
            changes: ResponseChanges::default(),
            start: 0,
            uid,
            path: Path::default(),
            page: Vec::new(),
            encoded_pages: EncodedPages::default(),
            said: HashMap::new(),
            boundaries: Boundaries::default(),
        }
    }

    /// Whether the connection stays after this request, before anything else is known of the response.
    pub(super) fn persistence(&self, request: &Request<'_, '_>, requests: u32) -> Persistence {
        if body::is_worth_reading(request) { self.persistence_behind(request, requests) } else { Persistence::Close }
    }

    /// The same for a request whose body was read to its end.
    pub(super) fn persistence_behind(&self, request: &Request<'_, '_>, requests: u32) -> Persistence {
        if !request.keep_alive || self.stopping || requests >= self.limits.keepalive_requests {
            return Persistence::Close;
        }
        match request.version {
            Version::Http10 => Persistence::KeepAsked,
            Version::Http11 => Persistence::Keep,
            // A stream has one request; its connection is not of this concern.
            Version::Http2 => Persistence::Close,
        }
    }

    /// Begins to answer a request.
    pub(super) fn answer(&mut self, incoming: &Incoming<'_>) -> Answered {
        let request = incoming.request;
        let site = self.site(incoming.visit, request);
        self.begin_response();
        if let Some(answered) = self.misdirected(incoming, site) {
            return answered;
        }
        if let Err(reject) = target::parse_into(request.path, &mut self.path) {
            return self.refuse(incoming, site, reject);
        }
        if let Some(rate) = self.limits.requests
            && let Some(seconds) = self.exceeds(incoming, site, None, &rate)
        {
            let (id, mut plan) = (hexadecimal(incoming.visit.id), Plan::default());
            let step = plan.refuse(self.sites.compiled(site), &facts(incoming, &self.path, &id, &self.clock.log_time), seconds);
            return self.carry_on(incoming, site, plan, step);
        }
        let compiled = self.sites.compiled(site);
        // An encoded slash decodes to the same bytes as a path that may be known, and yet names no file.
        if matches!(request.method, Method::Get | Method::Head)
            && matches!(request.framing, Framing::None | Framing::Length(0))
            && !compiled.has_rules()
            && !compiled.site.https_redirect
            && self.path.names_file()
            && let Some(file) = self.files.fresh(site, self.path.bytes(), self.clock.now, || Wanted::of(request).is_plain())
        {
            return self.file(incoming, site, &file, &Coding::ALL);
        }
        let mut plan = Plan::default();
        let id = hexadecimal(incoming.visit.id);
        let step = plan.begin(compiled, &facts(incoming, &self.path, &id, &self.clock.log_time));
        self.carry_on(incoming, site, plan, step)
    }

    /// Which sites answer at an address of this machine, and whether that must be known.
    pub(super) fn door(&self, local: &Listen) -> Door {
        self.sites.door(local)
    }

    /// Whether clients speak TLS at an address of this machine.
    pub(super) fn is_tls(&self, local: &Listen) -> bool {
        !self.place.identities.is_empty() && self.tls_listen.iter().any(|address| address.covers(local))
    }

    /// Whether sites differ by the address that a client came to.
    pub(super) fn has_doors(&self) -> bool {
        self.sites.has_doors()
    }

    pub(super) fn begin_response(&mut self) {
        self.start = self.out.len();
        self.changes = ResponseChanges::default();
    }

    pub(super) fn carry_on(&mut self, incoming: &Incoming<'_>, site: usize, mut plan: Plan, step: Step<Fetched>) -> Answered {
        let outcome = match self.recall(incoming, site, &mut plan, step) {
            Step::Ask => return Answered::Asks(Paused::at_lookup(plan, incoming.persistence)),
            Step::Done(outcome) => outcome,
        };
        if plan.changes() != &self.changes {
            self.changes = plan.changes().clone();
        }
        let waits = plan.take_quotas().iter().filter_map(|of| self.exceeds(incoming, site, Some(of.rule), &of.rate)).max();
        if let Some(seconds) = waits {
            let id = hexadecimal(incoming.visit.id);
            let step = plan.refuse(self.sites.compiled(site), &facts(incoming, &self.path, &id, &self.clock.log_time), seconds);
            return self.carry_on(incoming, site, plan, step);
        }
        if let Outcome::Login(realm) = outcome {
            return self.log_in(incoming, site, plan, realm);
        }
        self.go_on(incoming, site, plan, outcome)
    }

    /// Answers a request, whose body is read as far as it is going to be.
    pub(super) fn decided(&mut self, incoming: &Incoming<'_>, site: usize, mut plan: Plan, outcome: Outcome<Fetched>) -> Answered {
        self.tell_why_forbidden(incoming, site, &mut plan, &outcome);
        if let Some(status) = plan.page_of(&outcome) {
            let id = hexadecimal(incoming.visit.id);
            if let Some(step) =
                plan.begin_error_page(self.sites.compiled(site), &facts(incoming, &self.path, &id, &self.clock.log_time), status)
            {
                return match self.recall(incoming, site, &mut plan, step) {
                    Step::Ask => Answered::Asks(Paused::at_lookup(plan, incoming.persistence)),
                    Step::Done(outcome) => self.carry_out(incoming, site, plan, outcome),
                };
            }
        }
        self.carry_out(incoming, site, plan, outcome)
    }

    /// Writes the access line of content that was sent, or as much of it as was.
    pub(super) fn log_sent(&mut self, rest: &Rest) {
        let Line { head, site, visit, status } = &rest.line;
        let mut space = head::field_space();
        if let Ok(request) = head::parse(head, &mut space, &self.head_limits) {
            self.write_line(Some(&request), Some(*site), visit, request.line, *status, rest.sent);
        }
    }

    /// Writes an access line, and counts.
    pub(super) fn write_line(
        &mut self,
        request: Option<&Request<'_, '_>>,
        site: Option<usize>,
        visit: &Visit,
        line: &[u8],
        status: Status,
        bytes: u64,
    ) {
        self.counters.response(status.code(), bytes);
        let exchange = Exchange {
            site,
            client: visit.client,
            time: &self.clock.log_time,
            request_line: line,
            status: status.code(),
            bytes,
            request,
            unix: self.clock.unix,
            duration: Duration::from_micros(self.log.moment().saturating_sub(visit.began_us)),
            request_id: &hexadecimal(visit.id),
            port: visit.port,
            scheme: visit.scheme,
            tls: visit.tls.as_deref(),
            user: visit.user(),
        };
        self.log.access(self.clock.now, &exchange);
    }

    pub(super) fn carry_out(&mut self, incoming: &Incoming<'_>, site: usize, plan: Plan, outcome: Outcome<Fetched>) -> Answered {
        match outcome {
            Outcome::File(fetched) => self.found(incoming, site, plan, fetched),
            Outcome::ErrorPage(status, fetched) => self.error_file(incoming, site, &plan, status, fetched),
            Outcome::Listing => self.listing(incoming, site, plan),
            Outcome::Redirect(status) => {
                let mut location = Vec::new();
                let id = hexadecimal(incoming.visit.id);
                plan.location(self.sites.compiled(site), &facts(incoming, &self.path, &id, &self.clock.log_time), &mut location);
                self.page(incoming, site, status, &[("Location", &location)])
            }
            Outcome::Respond(status) => match plan.body() {
                Some(text) => self.text(incoming, site, status, b"text/plain; charset=utf-8", text),
                None if matches!(status, Status::NO_CONTENT | Status::RESET_CONTENT) => self.nothing(incoming, site, status),
                None => self.page(incoming, site, status, &[]),
            },
            Outcome::Page(page) => self.own_page(incoming, site, page),
            Outcome::Backend => {
                let exchange = self.hand_over_head(incoming, site, &plan);
                Answered::Backend(Handed::boxed(incoming.head, incoming.persistence, site, plan, exchange))
            }
            Outcome::Source => self.page(incoming, site, Status::FORBIDDEN, &[]),
            Outcome::Login(_) => self.page(incoming, site, Status::UNAUTHORIZED, &[]),
            Outcome::Status(status) => match plan.retry_after() {
                Some(seconds) => self.page(incoming, site, status, &[("Retry-After", seconds.to_string().as_bytes())]),
                None => self.page(incoming, site, status, &[]),
            },
            Outcome::MethodNotAllowed => self.page(incoming, site, Status::METHOD_NOT_ALLOWED, &[("Allow", plan::ALLOW.as_bytes())]),
            Outcome::Allow => {
                let head = Head::begin(&mut self.out, Status::NO_CONTENT, &self.server, &self.clock);
                head.field("Allow", plan::ALLOW.as_bytes()).end(incoming.persistence);
                self.finish(incoming, site, Status::NO_CONTENT, Body::None)
            }
        }
    }

    pub(super) fn refuse(&mut self, incoming: &Incoming<'_>, site: usize, reject: Reject) -> Answered {
        let incoming = Incoming { persistence: Persistence::Close, ..*incoming };
        self.page(&incoming, site, reject.status, &[])
    }

    /// Reads a file that was opened, with its type.
    ///
    /// # Errors
    /// The answer instead.
    pub(super) fn read(&mut self, incoming: &Incoming<'_>, site: usize, plan: &Plan, opened: Opened) -> Result<Served, Answered> {
        let ahead = Ahead::new(plan.lookup(), self.files.manner(plan.lookup()) == Manner::Remote);
        let (content, stat) = match files::content(opened) {
            Ok(read) => read,
            Err(fault) => {
                self.complain(incoming, site, &format!("read {}: {fault}", self.files.name(plan.lookup())));
                return Err(self.page(incoming, site, Status::INTERNAL_SERVER_ERROR, &[]));
            }
        };
        let mut content_type = Vec::new();
        let name = self.files.file_name(plan.lookup());
        mime::content_type(&name, &self.sites.get(site).charset, &self.mime, &mut content_type);
        let gain = mime::gain(&content_type);
        Ok(Served {
            ahead: matches!(content, Content::Open(_)).then_some(ahead),
            content,
            stat,
            etag: form::tag(stat.modified, stat.modified_ns, stat.size, None),
            weak: false,
            modified: stat.modified.min(self.clock.unix),
            compresses: gain == Gain::Text,
            coded_already: gain == Gain::None,
            content_type,
            coding: mime::coding(&name),
            head: OnceCell::new(),
            variants: Variants::default(),
            standing: RefCell::default(),
        })
    }

    /// A file that a plan found.
    fn found(&mut self, incoming: &Incoming<'_>, site: usize, mut plan: Plan, fetched: Fetched) -> Answered {
        // With rules the path alone does not say what it leads to.
        let key = match self.sites.compiled(site).has_rules() {
            false => self.path.bytes().to_vec(),
            true => files::key(plan.lookup()),
        };
        let file = match self.fetched(incoming, site, &plan, &key, fetched) {
            Ok(file) => file,
            Err(answered) => return answered,
        };
        match self.look_for_siblings(incoming, site, plan.lookup(), &file) {
            Some(id) => Answered::Waits(Paused::boxed(plan, Pending::Beside(file), incoming.persistence), Ticket::Disk(id)),
            None => self.among_siblings(incoming, site, &mut plan, &file),
        }
    }

    /// Makes the head of a whole answer, once for the life of a file.
    fn prepare_head(&self, file: &Served) -> Prepared {
        let mut bytes = Vec::new();
        let head = Head::begin(&mut bytes, Status::OK, &self.server, &self.clock);
        let head = head.field("Content-Type", &file.content_type).number("Content-Length", file.length()).of_file(file, file.weak);
        // Of what is made anew each time there are no parts.
        let head = if file.weak { head } else { head.field("Accept-Ranges", b"bytes") };
        head.end(Persistence::Keep);
        // Without the blank line: `Connection` may come before it.
        bytes.truncate(bytes.len() - 2);
        let date_at = memchr::memmem::find(&bytes, b"\r\nDate: ").map_or(0, |at| at + 8);
        Prepared { bytes, date_at }
    }

    pub(super) fn file(&mut self, incoming: &Incoming<'_>, site: usize, original: &Rc<Served>, permitted: &[Coding]) -> Answered {
        let request = incoming.request;
        let Choice { file, varies, making } = self.choose(incoming, site, original, permitted);
        let weak = file.weak || making.is_some();
        let validators = Validators { etag: &file.etag, weak, modified: file.modified };
        match conditional::evaluate(request, &validators) {
            Precondition::Proceed => {}
            Precondition::NotModified => {
                let head = Head::begin(&mut self.out, Status::NOT_MODIFIED, &self.server, &self.clock);
                head.validators(&file, weak).vary(varies).end(incoming.persistence);
                return self.finish(incoming, site, Status::NOT_MODIFIED, Body::None);
            }
            Precondition::Failed => return self.page(incoming, site, Status::PRECONDITION_FAILED, &[]),
        }
        if let Some(making) = making {
            return self.made(incoming, site, &file, making);
        }
        if request.method == Method::Get
            && let Some(value) = request.only_field("range")
            && conditional::if_range_holds(request, &validators, self.clock.unix)
        {
            match range::parse(value, file.length()) {
                Range::Part(part) => return self.part(incoming, site, &file, varies, part),
                Range::Parts(parts) if self.can_be_parts(&file) => return self.parts(incoming, site, &file, varies, &parts),
                Range::Whole | Range::Parts(_) => {}
                Range::Unsatisfiable => return self.unsatisfiable(incoming, site, file.length()),
            }
        }
        let start = self.out.len();
        let head = file.head.get_or_init(|| self.prepare_head(&file));
        self.out.extend_from_slice(&head.bytes);
        if let Some(date) = self.out.get_mut(start + head.date_at..start + head.date_at + self.clock.date.len()) {
            date.copy_from_slice(&self.clock.date);
        }
        response::end(&mut self.out, varies, incoming.persistence);
        let length = file.length();
        self.finish(incoming, site, Status::OK, Body::File { file, offset: 0, length })
    }

    /// A file that is encoded while it is sent: how long it will be is not known yet.
    fn made(&mut self, incoming: &Incoming<'_>, site: usize, file: &Served, making: Making) -> Answered {
        let (delimiter, incoming) = incoming.without_length();
        Head::begin(&mut self.out, Status::OK, &self.server, &self.clock)
            .field("Content-Type", &file.content_type)
            .encoded(Some(making.coding))
            .delimited(delimiter)
            .validators(file, true)
            .vary(true)
            .end(incoming.persistence);
        self.finish(&incoming, site, Status::OK, Body::Segments(making.segments(delimiter)))
    }

    /// Writes the body, or hands it over where it is not copied; writes the access line when the response is whole.
    pub(super) fn finish(&mut self, incoming: &Incoming<'_>, site: usize, status: Status, body: Body<'_>) -> Answered {
        self.secure(incoming.visit, site);
        if self.changes.touch_head() {
            response::change(&mut self.out, self.start, &self.changes, &self.clock);
        }
        let persistence = incoming.persistence;
        let pace = self.changes.rate.map(|rate| Pace::new(rate, self.clock.now));
        let whole = |bytes: u64| (bytes, Answered::Response { persistence, rest: None });
        let line = || Line { head: incoming.head.to_vec(), site, visit: incoming.visit.clone(), status };
        let (bytes, answered) = match body {
            _ if incoming.request.method == Method::Head => whole(0),
            Body::None => whole(0),
            Body::Bytes(bytes) if self.changes.rate.is_some() => {
                let rest = Rest::new(Segment::bytes(bytes.to_vec()), VecDeque::new(), line()).at_pace(pace);
                return Answered::Response { persistence, rest: Some(Box::new(rest)) };
            }
            Body::Bytes(bytes) => {
                self.out.extend_from_slice(bytes);
                whole(count(bytes))
            }
            Body::File { file, offset, length } => match &file.content {
                Content::Memory(bytes) if length <= COPY_MAX && self.changes.rate.is_none() => {
                    let range = usize::try_from(offset).unwrap_or(usize::MAX)..usize::try_from(offset + length).unwrap_or(usize::MAX);
                    self.out.extend_from_slice(bytes.get(range).unwrap_or_default());
                    whole(length)
                }
                Content::Memory(_) | Content::Open(_) => {
                    let rest = Rest::new(Segment::File { file, offset, remaining: length }, VecDeque::new(), line()).at_pace(pace);
                    return Answered::Response { persistence, rest: Some(Box::new(rest)) };
                }
            },
            Body::Segments(mut segments) => match segments.pop_front() {
                None => whole(0),
                Some(first) => {
                    return Answered::Response { persistence, rest: Some(Box::new(Rest::new(first, segments, line()).at_pace(pace))) };
                }
            },
        };
        self.write_line(Some(incoming.request), Some(site), incoming.visit, incoming.request.line, status, bytes);
        answered
    }

    /// Says at the start which roots this process cannot look into; a client then only sees 403.
    pub(super) fn check_roots(&mut self) {
        for (number, base) in self.sites.directories().iter().enumerate() {
            if let Err(fault) = self.files.enter(number) {
                let root = base.path.display();
                let text = format!("root \"{root}\": {fault} (uid {}): nothing of it can be served", self.uid);
                self.log.error(Level::Error, &text);
            }
        }
    }
}

/// What the rules may look at.
pub(super) fn facts<'a>(incoming: &Incoming<'a>, path: &'a Path, id: &'a [u8], time: &'a [u8]) -> Facts<'a> {
    let visit = incoming.visit;
    let realms = visit.user.as_ref().map_or(&[][..], |user| &user.realms);
    Facts {
        request_id: id,
        time,
        tls: visit.tls.as_deref(),
        user: visit.user(),
        realms,
        ..Facts::of(incoming.request, path, visit.origin())
    }
}

pub(super) fn hexadecimal(number: u128) -> [u8; 32] {
    let mut digits = [b'0'; 32];
    for (digit, shift) in digits.iter_mut().zip((0..128).step_by(4).rev()) {
        let value = u8::try_from((number >> shift) & 15).unwrap_or(0);
        *digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
    }
    digits
}

pub(super) fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// A body from memory up to this size is copied behind its head: one buffer, one write(2).
const COPY_MAX: u64 = 16 * 1024;
