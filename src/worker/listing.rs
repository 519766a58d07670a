//! The answer that lists a directory, made while it is sent.
//!
//! Runs in the worker. Names are collected and sorted, up to a number of them; a directory with more goes out as it is read, so
//! that it may hold any number. Each turn reads one batch or writes one piece: other clients are served in between.

use super::answer::{Answered, Body, Incoming, Service, count, facts, hexadecimal};
use super::disk::{LATE, Question, Told};
use super::page_coding::{self, Encoded, PageCoding};
use super::pending::{Paused, Pending};
use super::response::{Head, Persistence};
use super::segment::{PIECE, Produce, Produced, Segment};
use super::state::Ticket;
use super::visit::Visit;
use crate::ipc::disk::{Act, Outcome as DiskOutcome};
use crate::ipc::entries::{Cursor, Entries as Batch};
use crate::proto::conditional::{self, Precondition};
use crate::proto::head::{self, HeadLimits, Method};
use crate::proto::status::Status;
use crate::proto::target::{self, Path};
use crate::site::facts::Facts;
use crate::site::listing::{Entries, Entry, Format, List, Order, Place};
use crate::site::plan::Plan;
use crate::site::{Sites, look};
use crate::sys::clock;
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// A list being made.
struct Listing {
    source: Source,
    list: List,
    order: Order,
    entries: Entries,
    state: State,
    held: Held,
}

enum State {
    /// Entries are collected.
    Reading,
    /// This entry of those collected is the next to be written; whether there are more in the directory than those.
    Writing { next: usize, more: bool },
    /// Entries are written as they are read, a batch at each other call: what is read costs more than what is written.
    Passing { rested: bool },
}

/// Where the entries come from, and what decides which of them are shown.
struct Source {
    /// What came from `files` and has not been taken yet.
    come: Option<Batch>,
    /// Where the directory goes on behind that.
    cursor: Option<Cursor>,
    fault: Option<io::Error>,
    sites: Rc<Sites>,
    site: usize,
    plan: Plan,
    /// The request, which is read again at each turn.
    head: Vec<u8>,
    visit: Visit,
    limits: HeadLimits,
}

/// Bytes of entries that one list holds, counted among those of all lists of this worker.
struct Held {
    all: Rc<Cell<usize>>,
    own: usize,
}

impl Service {
    /// Answers with the list of the directory that the plan found.
    pub(super) fn listing(&mut self, incoming: &Incoming<'_>, site: usize, plan: Plan) -> Answered {
        match conditional::evaluate_without(incoming.request) {
            Precondition::Proceed => {}
            Precondition::Failed => return self.page(incoming, site, Status::PRECONDITION_FAILED, &[]),
            Precondition::NotModified => {
                let vary = vary(self.page_coding(incoming, site));
                let head = Head::begin(&mut self.out, Status::NOT_MODIFIED, &self.server, &self.clock);
                head.field("Cache-Control", b"no-cache").field("Vary", vary).end(incoming.persistence);
                return self.finish(incoming, site, Status::NOT_MODIFIED, Body::None);
            }
        }
        let first = match self.told.take() {
            Some(Told::Verdict(_)) | None => {
                return match self.ask_of(plan.lookup(), Act::List { from: None }) {
                    Ok(id) => Answered::Waits(Paused::boxed(plan, Pending::Listing, incoming.persistence), Ticket::Disk(id)),
                    Err(refusal) => self.not_listed(incoming, site, &plan, refusal.why()),
                };
            }
            Some(Told::Answer(DiskOutcome::Entries(first), _)) => first,
            Some(Told::Answer(DiskOutcome::Failed { errno }, _)) => {
                let (status, fault) = self.files.not_listed(plan.lookup(), errno);
                self.complain(incoming, site, &fault);
                return self.page(incoming, site, status, &[]);
            }
            Some(Told::Answer(..) | Told::Late) => return self.not_listed(incoming, site, &plan, LATE),
        };
        let id = hexadecimal(incoming.visit.id);
        let facts = facts(incoming, &self.path, &id, &self.clock.log_time);
        let (format, order) = (Format::wanted(facts.fields), Order::of_query(plan.query(&facts)));
        if incoming.request.method == Method::Head {
            // How long it is, and so whether it is worth encoding, is known only when it is made (RFC 9110, 9.3.2).
            let coding = self.page_coding(incoming, site);
            self.listing_head(format, coding).end(incoming.persistence);
            return self.finish(incoming, site, Status::OK, Body::None);
        }
        let (head, visit, limits) = (incoming.head.to_vec(), incoming.visit.clone(), self.head_limits);
        let source =
            Source { cursor: first.next, come: Some(first), fault: None, sites: Rc::clone(&self.sites), site, plan, head, visit, limits };
        let held = Held { all: Rc::clone(&self.listed), own: 0 };
        let list = List::new(format, order);
        self.send_listing(incoming, site, format, Listing { source, list, order, entries: Entries::default(), state: State::Reading, held })
    }

    /// No disk answers.
    fn not_listed(&mut self, incoming: &Incoming<'_>, site: usize, plan: &Plan, why: &str) -> Answered {
        self.complain(incoming, site, &format!("list {}: {why}", self.files.name(plan.lookup())));
        self.page(incoming, site, Status::SERVICE_UNAVAILABLE, &[])
    }

    /// Most directories have few entries: their list has a length. What is longer is sent while it is made.
    fn send_listing(&mut self, incoming: &Incoming<'_>, site: usize, format: Format, mut listing: Listing) -> Answered {
        let mut page = Vec::new();
        // Where many ask at once, the rest of them waits for its turn.
        let late = clock::monotonic_ms().saturating_sub(self.clock.now) > EAGER_MS;
        let begun = if late { Ok(false) } else { listing.begin(&mut page) };
        let coding = self.page_coding(incoming, site);
        match begun {
            Ok(true) => {
                let encoded = coding.coding.and_then(|coding| page_coding::encode(coding, &page));
                let body = encoded.as_deref().unwrap_or(&page);
                let head = self.listing_head(format, coding).encoded(coding.coding.filter(|_| encoded.is_some()));
                head.number("Content-Length", count(body)).end(incoming.persistence);
                self.finish(incoming, site, Status::OK, Body::Bytes(body))
            }
            Ok(false) => self.stream_listing(incoming, site, format, coding, Box::new(listing)),
            Err(fault) => {
                self.complain(incoming, site, &format!("list {}: {fault}", self.files.name(listing.source.plan.lookup())));
                self.page(incoming, site, Status::INTERNAL_SERVER_ERROR, &[])
            }
        }
    }

    /// Sends a list while it is made, encoded unless as many encoders as may be are at work.
    fn stream_listing(&mut self, incoming: &Incoming<'_>, site: usize, format: Format, coding: PageCoding, list: Box<Listing>) -> Answered {
        let slot = coding.coding.and_then(|coding| Some((coding, self.files.budget.slot()?)));
        let (encoded, producer): (_, Box<dyn Produce>) = match slot {
            Some((coding, slot)) => match Encoded::new(coding, list, slot) {
                Ok(encoded) => (Some(coding), Box::new(encoded)),
                // Memory ran out, and the list went with it.
                Err(_) => return self.page(incoming, site, Status::SERVICE_UNAVAILABLE, &[]),
            },
            None => (None, list),
        };
        let (delimiter, incoming) = incoming.without_length();
        self.listing_head(format, coding).encoded(encoded).delimited(delimiter).end(incoming.persistence);
        self.finish(&incoming, site, Status::OK, Body::Segments([Segment::stream(producer, delimiter)].into()))
    }

    /// A head that lacks how long the list is.
    fn listing_head(&mut self, format: Format, coding: PageCoding) -> Head<'_> {
        let head = Head::begin(&mut self.out, Status::OK, &self.server, &self.clock)
            .field("Content-Type", format.content_type().as_bytes())
            // Nothing tells whether a list is still the same, not even the time of the directory: sizes change without it.
            .field("Cache-Control", b"no-cache")
            .field("Vary", vary(coding));
        match format {
            Format::Html => head.field("Content-Security-Policy", look::LISTING.policy.as_bytes()),
            Format::Json => head,
        }
    }
}

impl Listing {
    /// Takes the first entries. True: these are all, and the whole list stands in `out`.
    fn begin(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        // The second read finds the end of a directory that fits into one batch.
        for _ in 0..2 {
            self.read()?;
        }
        if !matches!(self.state, State::Writing { .. }) {
            return Ok(false);
        }
        while self.produce(out)? != Produced::End {}
        Ok(true)
    }

    /// Collects a batch. Where these were all they are sorted, where they become too many they will not be.
    fn read(&mut self) -> io::Result<Produced> {
        if !matches!(self.state, State::Reading) {
            return Ok(Produced::More);
        }
        let entries = &mut self.entries;
        match self.source.next(|entry| entries.push(entry))? {
            Produced::More => {}
            Produced::Wait => return Ok(Produced::Wait),
            Produced::End => {
                self.entries.sort(self.order);
                self.state = State::Writing { next: 0, more: false };
                return Ok(Produced::More);
            }
        }
        let all = self.held.set(self.entries.memory());
        if self.entries.len() > SORTED_MAX || all > SORTED_MEMORY_MAX {
            self.list.forget_order();
            self.state = State::Writing { next: 0, more: true };
        }
        Ok(Produced::More)
    }

    /// Writes a piece of what was collected.
    fn write(&mut self, mut next: usize, more: bool, out: &mut Vec<u8>) -> io::Result<Produced> {
        if next == 0 {
            let list = &self.list;
            self.source.again(|_, facts| list.begin(&Place { path: facts.path, raw: facts.raw_path }, out))?;
        }
        while let Some(entry) = self.entries.get(next).filter(|_| out.len() < PIECE) {
            self.list.entry(&entry, out);
            next += 1;
        }
        self.state = State::Writing { next, more };
        if next < self.entries.len() {
            return Ok(Produced::More);
        }
        self.entries = Entries::default();
        self.held.set(0);
        if more {
            self.state = State::Passing { rested: true };
            return Ok(Produced::More);
        }
        self.list.end(out);
        Ok(Produced::End)
    }

    /// Writes a batch as it is read.
    fn pass(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
        let list = &mut self.list;
        let produced = self.source.next(|entry| list.entry(entry, out))?;
        match produced {
            Produced::More => self.state = State::Passing { rested: false },
            Produced::Wait => {}
            Produced::End => self.list.end(out),
        }
        Ok(produced)
    }
}

impl Produce for Listing {
    fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
        match self.state {
            State::Reading => self.read(),
            State::Writing { next, more } => self.write(next, more, out),
            State::Passing { rested: true } => self.pass(out),
            State::Passing { rested: false } => {
                self.state = State::Passing { rested: true };
                Ok(Produced::More)
            }
        }
    }

    fn memory(&self) -> usize {
        self.entries.memory()
    }

    fn wants(&self) -> Option<Question> {
        let lookup = self.source.plan.lookup();
        let from = self.source.cursor.filter(|_| self.source.come.is_none() && self.source.fault.is_none())?;
        let root = u16::try_from(lookup.root.0).unwrap_or(u16::MAX);
        Some(Question { root, path: lookup.path.into(), act: Act::List { from: Some(from) } })
    }

    fn bring(&mut self, outcome: DiskOutcome) {
        self.source.bring(outcome);
    }
}

impl Source {
    /// Gives the entries that are shown of the batch that came. `Wait`: none has, `End`: there are no more.
    fn next(&mut self, mut take: impl FnMut(&Entry<'_>)) -> io::Result<Produced> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let Some(batch) = self.come.take() else {
            return Ok(if self.cursor.is_some() { Produced::Wait } else { Produced::End });
        };
        let (sites, site) = (Rc::clone(&self.sites), self.site);
        self.again(|plan, facts| {
            let shown = batch.iter().filter(|entry| plan.shows(sites.compiled(site), facts, entry.name, entry.directory));
            shown.for_each(|entry| {
                take(&Entry { name: entry.name, directory: entry.directory, size: entry.size, modified: entry.modified })
            });
        })?;
        Ok(Produced::More)
    }

    /// Takes the batch that comes next.
    fn bring(&mut self, outcome: DiskOutcome) {
        const ENOENT: u16 = 2;
        const ENOTDIR: u16 = 20;
        match outcome {
            DiskOutcome::Entries(batch) => {
                self.cursor = batch.next;
                self.come = Some(batch);
            }
            DiskOutcome::Failed { errno } if ![ENOENT, ENOTDIR].contains(&errno) => {
                self.fault = Some(io::Error::from_raw_os_error(i32::from(errno)));
            }
            // It is gone, or another stands there now: what was read is all there is.
            DiskOutcome::Failed { .. }
            | DiskOutcome::Changed
            | DiskOutcome::File(_)
            | DiskOutcome::Directory
            | DiskOutcome::Missing
            | DiskOutcome::Denied { .. }
            | DiskOutcome::Unfollowed { .. }
            | DiskOutcome::NotRegular
            | DiskOutcome::Busy
            | DiskOutcome::Beside(_)
            | DiskOutcome::Warm => self.cursor = None,
        }
    }

    /// Does something with the plan and the facts of the request, which is parsed again for it: it was well-formed before.
    fn again<R>(&mut self, act: impl FnOnce(&mut Plan, &Facts<'_>) -> R) -> io::Result<R> {
        let mut space = head::field_space();
        let request = head::parse(&self.head, &mut space, &self.limits).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut path = Path::default();
        target::parse_into(request.path, &mut path).map_err(|_| io::ErrorKind::InvalidData)?;
        let incoming = Incoming { request: &request, head: &self.head, visit: &self.visit, persistence: Persistence::Close };
        let id = hexadecimal(self.visit.id);
        // The head was made long ago: nothing asks for the time.
        Ok(act(&mut self.plan, &facts(&incoming, &path, &id, b"")))
    }
}

impl Held {
    /// Notes how much this list holds; what all hold.
    fn set(&mut self, bytes: usize) -> usize {
        let all = self.all.get().saturating_sub(self.own).saturating_add(bytes);
        self.own = bytes;
        self.all.set(all);
        all
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// What the forms of a list are chosen by (RFC 9110, 12.5.5).
fn vary(coding: PageCoding) -> &'static [u8] {
    if coding.varies { b"Accept, Accept-Encoding" } else { b"Accept" }
}

/// Entries that are sorted, at most; a directory with more is sent in its own order. Sorting these takes a few milliseconds.
const SORTED_MAX: usize = 10_000;

/// Memory that entries being sorted may take in this process: where many large lists are asked for at once, some go out unsorted.
const SORTED_MEMORY_MAX: usize = 32 * 1024 * 1024;

/// How far into a round of the event loop a list is still begun at once.
const EAGER_MS: u64 = 4;
