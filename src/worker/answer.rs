//! The response to one request: from the parsed head through the plan to bytes, and a file where there is more to send.

use super::clock::Clock;
use super::counters::Counters;
use super::files::{self, Content, Files, Served};
use super::log::{Exchange, Log};
use super::response::{self, Head, Persistence};
use crate::config::{Level, Limits, WorkerSlice};
use crate::ipc::counters::Counter;
use crate::ipc::lines;
use crate::proto::conditional::{self, Precondition, Validators};
use crate::proto::head::{Framing, HeadLimits, Method, Request, Version};
use crate::proto::range::{self, Range};
use crate::proto::status::{Reject, Status};
use crate::proto::target::{self, Path};
use crate::site::facts::Facts;
use crate::site::plan::{self, Outcome, Plan, Step};
use crate::site::{Sites, error_page, listing, mime};
use crate::sys::file::Opened;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

/// What all connections of a worker share.
pub(super) struct Service {
    pub(super) sites: Sites,
    pub(super) files: Files,
    pub(super) limits: Limits,
    pub(super) head_limits: HeadLimits,
    pub(super) clock: Clock,
    pub(super) log: Log,
    pub(super) counters: Counters,
    /// Responses being made; emptied by whoever sends them.
    pub(super) out: Vec<u8>,
    /// Bytes that connections hold because their clients do not take them.
    pub(super) held: usize,
    /// No request is kept alive any more.
    pub(super) stopping: bool,
    server: String,
    uid: u32,
    path: Path,
    page: Vec<u8>,
    /// Error lines of the last minute, to write each once.
    said: HashMap<String, u64>,
}

/// The part of a file that follows the head that was written.
pub(super) struct FileBody {
    pub(super) file: Rc<Served>,
    pub(super) offset: u64,
    pub(super) remaining: u64,
    line: Line,
}

/// An access line that waits for its response to end.
struct Line {
    site: usize,
    client: IpAddr,
    request_line: Vec<u8>,
    referer: Option<Vec<u8>>,
    user_agent: Option<Vec<u8>>,
    status: Status,
    sent: u64,
}

impl FileBody {
    /// Notes that so many bytes of it were sent.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
        self.remaining = self.remaining.saturating_sub(bytes);
    }
}

/// What came of a request.
pub(super) enum Answered {
    /// The response is in [`Service::out`], and the file goes behind it.
    Response { persistence: Persistence, file: Option<FileBody> },
    /// The plan asks something of the disk; the request has to be taken up again with [`Service::resume`].
    Asks(Plan),
}

/// One request, with what is known of its connection.
pub(super) struct Incoming<'r> {
    pub(super) request: &'r Request<'r, 'r>,
    pub(super) client: IpAddr,
    pub(super) persistence: Persistence,
}

/// What is written behind a head.
enum Body<'b> {
    None,
    Bytes(&'b [u8]),
    File { file: Rc<Served>, offset: u64, length: u64 },
}

impl Service {
    pub(super) fn new(slice: WorkerSlice, files: Files, log: Log, counters: Counters, uid: u32) -> Service {
        let WorkerSlice {
            sites,
            limits,
            server_header,
            ..
        } = slice;
        let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let head_limits = HeadLimits {
            request_line: size(limits.request_line),
            header_bytes: size(limits.header_bytes),
            header_count: usize::from(limits.header_count),
        };
        Service {
            sites: Sites::new(sites),
            files,
            limits,
            head_limits,
            clock: Clock::new(),
            log,
            counters,
            out: Vec::new(),
            held: 0,
            stopping: false,
            server: server_header,
            uid,
            path: Path::default(),
            page: Vec::new(),
            said: HashMap::new(),
        }
    }

    /// Whether the connection stays after this request, before anything else is known of the response.
    pub(super) fn persistence(&self, request: &Request<'_, '_>, requests: u32) -> Persistence {
        let unread = match request.framing {
            Framing::None => false,
            Framing::Length(length) => request.expect_continue || length > DISCARD_MAX,
            Framing::Chunked => true,
        };
        if !request.keep_alive || unread || self.stopping || requests >= self.limits.keepalive_requests {
            return Persistence::Close;
        }
        match request.version {
            Version::Http10 => Persistence::KeepAsked,
            Version::Http11 => Persistence::Keep,
        }
    }

    /// Begins to answer a request.
    pub(super) fn answer(&mut self, incoming: &Incoming<'_>) -> Answered {
        let request = incoming.request;
        let site = self.sites.select(request.host);
        if let Err(reject) = target::parse_into(request.path, &mut self.path) {
            return self.refuse(incoming, reject);
        }
        // An encoded slash decodes to the same bytes as a path that may be known, and yet names no file.
        if matches!(request.method, Method::Get | Method::Head)
            && !self.sites.compiled(site).has_rules()
            && self.path.names_file()
            && let Some(file) = self.files.fresh(site, self.path.bytes(), self.clock.now)
        {
            let file = Rc::clone(file);
            return self.file(incoming, &file);
        }
        let mut plan = Plan::default();
        let facts = Facts::of(request, &self.path, incoming.client);
        match plan.begin(self.sites.compiled(site), &facts) {
            Step::Ask => Answered::Asks(plan),
            Step::Done(outcome) => self.carry_out(incoming, site, plan, outcome),
        }
    }

    /// Goes on with a request whose plan asked: looks up what it asks, and answers or asks again.
    pub(super) fn resume(&mut self, incoming: &Incoming<'_>, mut plan: Plan) -> Answered {
        let site = self.sites.select(incoming.request.host);
        if let Err(reject) = target::parse_into(incoming.request.path, &mut self.path) {
            return self.refuse(incoming, reject);
        }
        let (answer, fault) = self.files.find(plan.lookup());
        if let Some(fault) = fault {
            self.complain(incoming, site, &fault);
        }
        let facts = Facts::of(incoming.request, &self.path, incoming.client);
        match plan.resume(self.sites.compiled(site), &facts, answer) {
            Step::Ask => Answered::Asks(plan),
            Step::Done(outcome) => self.carry_out(incoming, site, plan, outcome),
        }
    }

    /// Answers bytes that are no acceptable request; the connection ends.
    pub(super) fn reject(&mut self, client: IpAddr, reject: &Reject, line: &[u8]) {
        self.counters.count(Counter::Refused, 1);
        self.log
            .error(Level::Info, &format!("client {client}: {} ({})", reject.status, reject.why));
        self.page.clear();
        error_page::render(reject.status, &mut self.page);
        Head::begin(&mut self.out, reject.status, &self.server, &self.clock)
            .field("Content-Type", HTML)
            .number("Content-Length", count(&self.page))
            .end(Persistence::Close);
        self.out.extend_from_slice(&self.page);
        let exchange = Exchange {
            site: None,
            client,
            time: &self.clock.log_time,
            request_line: line,
            status: reject.status.code(),
            bytes: count(&self.page),
            referer: None,
            user_agent: None,
        };
        self.counters.response(exchange.status, exchange.bytes);
        self.log.access(self.clock.now, &exchange);
    }

    /// Writes the access line of a file that was sent, or as much of it as was.
    pub(super) fn log_file(&mut self, body: &FileBody) {
        let line = &body.line;
        let exchange = Exchange {
            site: Some(line.site),
            client: line.client,
            time: &self.clock.log_time,
            request_line: &line.request_line,
            status: line.status.code(),
            bytes: line.sent - body.remaining,
            referer: line.referer.as_deref(),
            user_agent: line.user_agent.as_deref(),
        };
        self.counters.response(exchange.status, exchange.bytes);
        self.log.access(self.clock.now, &exchange);
    }

    fn carry_out(&mut self, incoming: &Incoming<'_>, site: usize, mut plan: Plan, outcome: Outcome<Opened>) -> Answered {
        match outcome {
            Outcome::File(opened) => self.opened(incoming, site, &plan, opened),
            Outcome::Listing => self.listing(incoming, site, &mut plan),
            Outcome::Redirect(status) => {
                let mut location = Vec::new();
                plan.location(&Facts::of(incoming.request, &self.path, incoming.client), &mut location);
                self.page(incoming, status, &[("Location", &location)])
            }
            Outcome::Respond(status) => match plan.body() {
                Some(text) => self.text(incoming, status, text),
                None => self.page(incoming, status, &[]),
            },
            Outcome::Page(_) => self.page(incoming, Status::NOT_FOUND, &[]),
            Outcome::Status(status) | Outcome::ErrorPage(status, _) => self.page(incoming, status, &[]),
            Outcome::MethodNotAllowed => self.page(incoming, Status::METHOD_NOT_ALLOWED, &[("Allow", plan::ALLOW.as_bytes())]),
            Outcome::Allow => {
                let head = Head::begin(&mut self.out, Status::NO_CONTENT, &self.server, &self.clock);
                head.field("Allow", plan::ALLOW.as_bytes()).end(incoming.persistence);
                self.finish(incoming, Status::NO_CONTENT, Body::None)
            }
        }
    }

    fn refuse(&mut self, incoming: &Incoming<'_>, reject: Reject) -> Answered {
        let incoming = Incoming {
            persistence: Persistence::Close,
            ..*incoming
        };
        self.page(&incoming, reject.status, &[])
    }

    /// A page of our own: an error or a redirect.
    fn page(&mut self, incoming: &Incoming<'_>, status: Status, fields: &[(&str, &[u8])]) -> Answered {
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        error_page::render(status, &mut page);
        let mut head = Head::begin(&mut self.out, status, &self.server, &self.clock);
        for (name, value) in fields {
            head = head.field(name, value);
        }
        head.field("Content-Type", HTML)
            .number("Content-Length", count(&page))
            .end(incoming.persistence);
        let answered = self.finish(incoming, status, Body::Bytes(&page));
        self.page = page;
        answered
    }

    /// A text that the configuration answers with.
    fn text(&mut self, incoming: &Incoming<'_>, status: Status, text: &[u8]) -> Answered {
        Head::begin(&mut self.out, status, &self.server, &self.clock)
            .field("Content-Type", b"text/plain; charset=utf-8")
            .number("Content-Length", count(text))
            .field("X-Content-Type-Options", b"nosniff")
            .end(incoming.persistence);
        self.finish(incoming, status, Body::Bytes(text))
    }

    fn listing(&mut self, incoming: &Incoming<'_>, site: usize, plan: &mut Plan) -> Answered {
        let (found, truncated) = match self.files.list(plan.lookup()) {
            Ok(found) => found,
            Err((status, fault)) => {
                self.complain(incoming, site, &fault);
                return self.page(incoming, status, &[]);
            }
        };
        let configured = self.sites.compiled(site);
        let facts = Facts::of(incoming.request, &self.path, incoming.client);
        let mut entries: Vec<listing::Entry> = found
            .into_iter()
            .filter(|entry| plan.shows(configured, &facts, &entry.name, entry.directory))
            .map(|entry| listing::Entry {
                name: entry.name,
                directory: entry.directory,
                size: entry.size,
                modified: entry.modified,
            })
            .collect();
        let mut page = Vec::new();
        listing::render(&self.path, &mut entries, truncated, &mut page);
        Head::begin(&mut self.out, Status::OK, &self.server, &self.clock)
            .field("Content-Type", HTML)
            .number("Content-Length", count(&page))
            .field("X-Content-Type-Options", b"nosniff")
            .end(incoming.persistence);
        self.finish(incoming, Status::OK, Body::Bytes(&page))
    }

    /// A file that was just opened: what the cache holds of it if it is the same, else read anew.
    fn opened(&mut self, incoming: &Incoming<'_>, site: usize, plan: &Plan, opened: Opened) -> Answered {
        let lookup = plan.lookup();
        // With rules the path alone does not say what it leads to; what is beneath the directory of a rule, several sites may share.
        let key = match self.sites.compiled(site).has_rules() {
            false => Some(self.path.bytes()),
            true => (lookup.root.0 == site).then_some(lookup.path),
        };
        if let Some(file) = key.and_then(|path| self.files.unchanged(site, path, &opened.stat, self.clock.now)) {
            return self.file(incoming, &file);
        }
        let stat = opened.stat;
        let content = match files::content(opened) {
            Ok(content) => content,
            Err(fault) => {
                self.complain(incoming, site, &format!("read {}: {fault}", self.files.name(plan.lookup())));
                return self.page(incoming, Status::INTERNAL_SERVER_ERROR, &[]);
            }
        };
        let mut content_type = Vec::new();
        mime::content_type(plan.lookup().path, &self.sites.get(site).charset, &mut content_type);
        let mut file = Served {
            content,
            stat,
            etag: format!("\"{:x}.{:x}-{:x}\"", stat.modified, stat.modified_ns, stat.size).into_bytes(),
            modified: stat.modified.min(self.clock.unix),
            content_type,
            head: Vec::new(),
            date_at: 0,
        };
        self.prepare_head(&mut file);
        let file = Rc::new(file);
        let key = match self.sites.compiled(site).has_rules() {
            false => Some(self.path.bytes()),
            true => (lookup.root.0 == site).then_some(lookup.path),
        };
        if let Some(path) = key {
            self.files.remember(site, path, &file, self.clock.now);
        }
        self.file(incoming, &file)
    }

    /// Makes the head of a whole answer once for the life of the entry.
    fn prepare_head(&self, file: &mut Served) {
        let mut head = Vec::new();
        let started = Head::begin(&mut head, Status::OK, &self.server, &self.clock);
        started
            .field("Content-Type", &file.content_type)
            .number("Content-Length", file.length())
            .validators(file.modified, &file.etag)
            .field("Accept-Ranges", b"bytes")
            .field("X-Content-Type-Options", b"nosniff")
            .end(Persistence::Keep);
        // Without the blank line: `Connection` may come before it.
        head.truncate(head.len() - 2);
        file.date_at = memchr::memmem::find(&head, b"\r\nDate: ").map_or(0, |at| at + 8);
        file.head = head;
    }

    fn file(&mut self, incoming: &Incoming<'_>, file: &Rc<Served>) -> Answered {
        let request = incoming.request;
        let validators = Validators {
            etag: &file.etag,
            modified: file.modified,
        };
        match conditional::evaluate(request, &validators) {
            Precondition::Proceed => {}
            Precondition::NotModified => {
                let head = Head::begin(&mut self.out, Status::NOT_MODIFIED, &self.server, &self.clock);
                head.validators(file.modified, &file.etag).end(incoming.persistence);
                return self.finish(incoming, Status::NOT_MODIFIED, Body::None);
            }
            Precondition::Failed => return self.page(incoming, Status::PRECONDITION_FAILED, &[]),
        }
        if request.method == Method::Get
            && let Some(value) = request.field("range")
            && conditional::if_range_holds(request, &validators)
        {
            match range::parse(value, file.length()) {
                Range::Whole => {}
                Range::Part { first, last } => return self.part(incoming, file, first, last),
                Range::Unsatisfiable => return self.unsatisfiable(incoming, file.length()),
            }
        }
        let start = self.out.len();
        self.out.extend_from_slice(&file.head);
        if let Some(date) = self.out.get_mut(start + file.date_at..start + file.date_at + self.clock.date.len()) {
            date.copy_from_slice(&self.clock.date);
        }
        response::end(&mut self.out, incoming.persistence);
        self.finish(
            incoming,
            Status::OK,
            Body::File {
                file: Rc::clone(file),
                offset: 0,
                length: file.length(),
            },
        )
    }

    fn part(&mut self, incoming: &Incoming<'_>, file: &Rc<Served>, first: u64, last: u64) -> Answered {
        let length = last - first + 1;
        Head::begin(&mut self.out, Status::PARTIAL_CONTENT, &self.server, &self.clock)
            .field("Content-Type", &file.content_type)
            .number("Content-Length", length)
            .content_range(Some((first, last)), file.length())
            .validators(file.modified, &file.etag)
            .field("Accept-Ranges", b"bytes")
            .field("X-Content-Type-Options", b"nosniff")
            .end(incoming.persistence);
        self.finish(
            incoming,
            Status::PARTIAL_CONTENT,
            Body::File {
                file: Rc::clone(file),
                offset: first,
                length,
            },
        )
    }

    fn unsatisfiable(&mut self, incoming: &Incoming<'_>, length: u64) -> Answered {
        let head = Head::begin(&mut self.out, Status::RANGE_NOT_SATISFIABLE, &self.server, &self.clock);
        head.content_range(None, length)
            .number("Content-Length", 0)
            .end(incoming.persistence);
        self.finish(incoming, Status::RANGE_NOT_SATISFIABLE, Body::None)
    }

    /// Writes the body, or hands it over where it comes from an open file; writes the access line when the response is whole.
    fn finish(&mut self, incoming: &Incoming<'_>, status: Status, body: Body<'_>) -> Answered {
        let persistence = incoming.persistence;
        let whole = |bytes: u64| (bytes, Answered::Response { persistence, file: None });
        let (bytes, answered) = match body {
            _ if incoming.request.method == Method::Head => whole(0),
            Body::None => whole(0),
            Body::Bytes(bytes) => {
                self.out.extend_from_slice(bytes);
                whole(count(bytes))
            }
            Body::File { file, offset, length } => match &file.content {
                Content::Memory(bytes) if length <= COPY_MAX => {
                    let range = usize::try_from(offset).unwrap_or(usize::MAX)..usize::try_from(offset + length).unwrap_or(usize::MAX);
                    self.out.extend_from_slice(bytes.get(range).unwrap_or_default());
                    whole(length)
                }
                Content::Memory(_) | Content::Open(_) => {
                    let line = Line::of(incoming, self.sites.select(incoming.request.host), status, length);
                    let body = FileBody {
                        file,
                        offset,
                        remaining: length,
                        line,
                    };
                    return Answered::Response {
                        persistence,
                        file: Some(body),
                    };
                }
            },
        };
        let site = self.sites.select(incoming.request.host);
        let exchange = Exchange {
            site: Some(site),
            client: incoming.client,
            time: &self.clock.log_time,
            request_line: incoming.request.line,
            status: status.code(),
            bytes,
            referer: incoming.request.field("referer"),
            user_agent: incoming.request.field("user-agent"),
        };
        self.counters.response(exchange.status, exchange.bytes);
        self.log.access(self.clock.now, &exchange);
        answered
    }

    /// Writes an error line, each once a minute: a client that asks again and again does not fill the log.
    fn complain(&mut self, incoming: &Incoming<'_>, site: usize, fault: &str) {
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
        let text = format!(
            "client {}, site \"{name}\", request \"{line}\": {fault} (uid {})",
            incoming.client, self.uid
        );
        self.log.error(Level::Error, &text);
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

impl Line {
    fn of(incoming: &Incoming<'_>, site: usize, status: Status, length: u64) -> Line {
        let field = |name| incoming.request.field(name).map(<[u8]>::to_vec);
        Line {
            site,
            client: incoming.client,
            request_line: incoming.request.line.to_vec(),
            referer: field("referer"),
            user_agent: field("user-agent"),
            status,
            sent: length,
        }
    }
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// For pages of our own.
const HTML: &[u8] = b"text/html; charset=utf-8";

/// A body from memory up to this size is copied behind its head: one buffer, one write(2).
const COPY_MAX: u64 = 16 * 1024;

/// A request body that nobody wants is read and dropped up to this many bytes to keep the connection; a longer one ends it.
pub(super) const DISCARD_MAX: u64 = 64 * 1024;
