//! The answer that lists a directory, made while it is sent.
//!
//! Runs in the worker. Names are collected and sorted, up to a number of them; a directory with more goes out as it is read, so
//! that it may hold any number. Each turn reads one batch or writes one piece: other clients are served in between.

use super::answer::{Answered, Body, Incoming, Service, count, facts, hexadecimal};
use super::response::{Head, Persistence};
use super::segment::{PIECE, Produce, Produced, Segment};
use super::visit::Visit;
use crate::proto::conditional::{self, Precondition};
use crate::proto::head::{self, HeadLimits, Method};
use crate::proto::status::Status;
use crate::proto::target::{self, Path};
use crate::site::facts::Facts;
use crate::site::listing::{Entries, Entry, Format, List, Order, Place};
use crate::site::plan::Plan;
use crate::site::{Sites, look};
use crate::sys::clock;
use crate::sys::directory::{Directory, DirectoryEntry};
use crate::sys::file::Root;
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
    root: Rc<Root>,
    directory: Directory,
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
                let head = Head::begin(&mut self.out, Status::NOT_MODIFIED, &self.server, &self.clock);
                head.field("Cache-Control", b"no-cache").field("Vary", b"Accept").end(incoming.persistence);
                return self.finish(incoming, site, Status::NOT_MODIFIED, Body::None);
            }
        }
        let (root, directory) = match self.files.open_directory(plan.lookup()) {
            Ok(opened) => opened,
            Err((status, fault)) => {
                self.complain(incoming, site, &fault);
                return self.page(incoming, site, status, &[]);
            }
        };
        let id = hexadecimal(incoming.visit.id);
        let facts = facts(incoming, &self.path, &id);
        let (format, order) = (Format::wanted(facts.fields), Order::of_query(plan.query(&facts)));
        if incoming.request.method == Method::Head {
            self.listing_head(format).end(incoming.persistence);
            return self.finish(incoming, site, Status::OK, Body::None);
        }
        let (head, visit, limits) = (incoming.head.to_vec(), incoming.visit, self.head_limits);
        let source = Source { root, directory, sites: Rc::clone(&self.sites), site, plan, head, visit, limits };
        let held = Held { all: Rc::clone(&self.listed), own: 0 };
        let list = List::new(format, order);
        self.send_listing(incoming, site, format, Listing { source, list, order, entries: Entries::default(), state: State::Reading, held })
    }

    /// Most directories have few entries: their list has a length. What is longer is sent while it is made.
    fn send_listing(&mut self, incoming: &Incoming<'_>, site: usize, format: Format, mut listing: Listing) -> Answered {
        let mut page = Vec::new();
        // Where many ask at once, the rest of them waits for its turn.
        let late = clock::monotonic_ms().saturating_sub(self.clock.now) > EAGER_MS;
        let begun = if late { Ok(false) } else { listing.begin(&mut page) };
        match begun {
            Ok(true) => {
                self.listing_head(format).number("Content-Length", count(&page)).end(incoming.persistence);
                self.finish(incoming, site, Status::OK, Body::Bytes(&page))
            }
            Ok(false) => {
                let (delimiter, incoming) = incoming.without_length();
                self.listing_head(format).delimited(delimiter).end(incoming.persistence);
                let segment = Segment::stream(Box::new(listing), delimiter);
                self.finish(&incoming, site, Status::OK, Body::Segments([segment].into()))
            }
            Err(fault) => {
                self.complain(incoming, site, &format!("list {}: {fault}", self.files.name(listing.source.plan.lookup())));
                self.page(incoming, site, Status::INTERNAL_SERVER_ERROR, &[])
            }
        }
    }

    /// A head that lacks how long the list is.
    fn listing_head(&mut self, format: Format) -> Head<'_> {
        let head = Head::begin(&mut self.out, Status::OK, &self.server, &self.clock)
            .field("Content-Type", format.content_type().as_bytes())
            // Nothing tells whether a list is still the same, not even the time of the directory: sizes change without it.
            .field("Cache-Control", b"no-cache")
            .field("Vary", b"Accept");
        match format {
            Format::Html => head.field("Content-Security-Policy", look::LISTING.policy.as_bytes()),
            Format::Json => head,
        }
    }
}

impl Listing {
    /// Reads the first entries. True: these are all, and the whole list stands in `out`.
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
    fn read(&mut self) -> io::Result<()> {
        if !matches!(self.state, State::Reading) {
            return Ok(());
        }
        let Some(batch) = self.source.next()? else {
            self.entries.sort(self.order);
            self.state = State::Writing { next: 0, more: false };
            return Ok(());
        };
        batch.iter().for_each(|entry| self.entries.push(&shown(entry)));
        let all = self.held.set(self.entries.memory());
        if self.entries.len() > SORTED_MAX || all > SORTED_MEMORY_MAX {
            self.list.forget_order();
            self.state = State::Writing { next: 0, more: true };
        }
        Ok(())
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
        self.state = State::Passing { rested: false };
        let Some(batch) = self.source.next()? else {
            self.list.end(out);
            return Ok(Produced::End);
        };
        batch.iter().for_each(|entry| self.list.entry(&shown(entry), out));
        Ok(Produced::More)
    }
}

impl Produce for Listing {
    fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
        match self.state {
            State::Reading => self.read().map(|()| Produced::More),
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
}

impl Source {
    /// The next entries that are shown, of one batch; `None`: there are no more.
    fn next(&mut self) -> io::Result<Option<Vec<DirectoryEntry>>> {
        let Some(mut entries) = self.directory.next(&self.root)? else {
            return Ok(None);
        };
        let (sites, site) = (Rc::clone(&self.sites), self.site);
        self.again(|plan, facts| entries.retain(|entry| plan.shows(sites.compiled(site), facts, &entry.name, entry.directory)))?;
        Ok(Some(entries))
    }

    /// Does something with the plan and the facts of the request, which is parsed again for it: it was well-formed before.
    fn again<R>(&mut self, act: impl FnOnce(&mut Plan, &Facts<'_>) -> R) -> io::Result<R> {
        let mut space = head::field_space();
        let request = head::parse(&self.head, &mut space, &self.limits).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut path = Path::default();
        target::parse_into(request.path, &mut path).map_err(|_| io::ErrorKind::InvalidData)?;
        let incoming = Incoming { request: &request, head: &self.head, visit: self.visit, persistence: Persistence::Close };
        let id = hexadecimal(self.visit.id);
        Ok(act(&mut self.plan, &facts(&incoming, &path, &id)))
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

fn shown(entry: &DirectoryEntry) -> Entry<'_> {
    Entry { name: &entry.name, directory: entry.directory, size: entry.size, modified: entry.modified }
}

/// Entries that are sorted, at most; a directory with more is sent in its own order. Sorting these takes a few milliseconds.
const SORTED_MAX: usize = 10_000;

/// Memory that entries being sorted may take in this process: where many large lists are asked for at once, some go out unsorted.
const SORTED_MEMORY_MAX: usize = 32 * 1024 * 1024;

/// How far into a round of the event loop a list is still begun at once.
const EAGER_MS: u64 = 4;
