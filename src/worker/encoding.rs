//! Which form of a file a request gets: the file itself, a sibling that holds it encoded, or what is made of it on the fly.
//!
//! Runs in the worker, as a part of [`Service`]; looks up siblings by the same rules as files, and opens nothing else.

use super::answer::{Answered, Incoming, Service, facts, hexadecimal};
use super::cache::FRESH_MS;
use super::choice::{Choice, Making};
use super::disk::{Question, Told};
use super::encoder::{self, Encoder};
use super::files;
use super::segment::{Produce, Produced};
use super::served::{Budget, Content, MADE_MAX, Served, Slot, Variants};
use crate::ipc::disk::{Act, Outcome, WARM_MAX};
use crate::proto::coding::{Coding, Wanted};
use crate::proto::head::Method;
use crate::site::form::{self, Form};
use crate::site::lookup::Lookup;
use crate::site::plan::{Answer, Plan};
use crate::sys::clock;
use crate::sys::file::{self, Opened, Stat};
use bytes::Bytes;
use std::cell::{OnceCell, RefCell};
use std::io;
use std::rc::Rc;

impl Service {
    /// Chooses among the forms of a file by what the client accepts. `permitted` says which siblings the access rules let this request have.
    pub(super) fn choose(&mut self, incoming: &Incoming<'_>, site: usize, original: &Rc<Served>, permitted: &[Coding]) -> Choice {
        let plain = |varies| Choice { file: Rc::clone(original), varies, making: None };
        let on_the_fly = original.may_be_encoded();
        if (!on_the_fly && !original.variants.has_siblings()) || self.codings(site).is_empty() || self.encoded_by_rule() {
            return plain(false);
        }
        let wanted = Wanted::of(incoming.request);
        if wanted.is_plain() {
            return plain(true);
        }
        let may = |coding: &&Coding| permitted.contains(coding);
        let found = self.codings(site).iter().filter(may).filter_map(|coding| Some((*coding, original.variants.sibling(*coding)?)));
        let siblings = found.map(|(coding, sibling)| (coding, sibling.length(), sibling)).collect();
        // A range is one of the form that is sent (RFC 9110, 14.2), and of what is made anew each time parts do not fit together.
        let on_the_fly = on_the_fly && incoming.request.field("range").is_none();
        let worth = |coding: &Coding| on_the_fly && original.variants.is_worth_making(*coding);
        let coding = match form::choose(&wanted, siblings, self.codings(site).iter().copied().filter(worth)) {
            Form::Itself => return plain(true),
            Form::Beside(_, sibling) => return Choice { file: sibling, varies: true, making: None },
            Form::Made(coding) => coding,
        };
        if let Some(made) = original.variants.made(coding) {
            return Choice { file: made, varies: true, making: None };
        }
        self.make(incoming, original, coding).unwrap_or_else(|| plain(true))
    }

    /// Looks for encoded siblings of a file that was looked up, unless that was done lately. `Some`: a disk would have to be waited for, and
    /// they come from `files` under this number.
    pub(super) fn look_for_siblings(
        &mut self,
        incoming: &Incoming<'_>,
        site: usize,
        lookup: Lookup<'_>,
        original: &Rc<Served>,
    ) -> Option<u32> {
        let now = self.clock.now;
        // It gets the file itself whatever stands beside it, and `Vary` is said of such a type anyway.
        if Wanted::of(incoming.request).is_plain() && original.may_be_encoded() {
            return None;
        }
        if lookup.path.is_empty() || original.coding.is_some() || original.coded_already || self.codings(site).is_empty() {
            original.variants.note_looked(now);
            return None;
        }
        let age = files::age(&self.changes);
        if original.variants.looked_within(now, age) {
            return None;
        }
        // Of a directory whose names are the same, what was missing is missing.
        let same = age >= FRESH_MS && original.variants.is_explored() && self.files.is_settled(original, now);
        original.variants.note_looked(now);
        let mut cold = false;
        for coding in Coding::ALL.into_iter().filter(|coding| !same || original.variants.sibling(*coding).is_some()) {
            match self.find_sibling(incoming, site, lookup, original, coding) {
                Some(answer) => self.keep_sibling(original, coding, answer),
                None => cold = true,
            }
        }
        if !cold {
            return None;
        }
        // Whatever comes of it is seen again from memory.
        original.variants.note_other();
        if self.disk.is_silent(now) { None } else { self.ask_of(lookup, Act::Beside).ok() }
    }

    /// Takes what `files` found beside a file; nothing, where it did not answer in time.
    pub(super) fn take_siblings(&mut self, site: usize, lookup: Lookup<'_>, original: &Rc<Served>) {
        let (found, opened) = match self.told.take() {
            Some(Told::Answer(Outcome::Beside(found), opened)) => (*found, opened),
            Some(Told::Answer(..) | Told::Verdict(_) | Told::Late) | None => ([None; Coding::ALL.len()], Vec::new()),
        };
        let mut opened = opened.into_iter();
        for (coding, found) in Coding::ALL.into_iter().zip(found) {
            let there = found.and_then(|_| opened.next()).filter(|_| !self.hides_sibling(site, lookup, coding));
            self.keep_sibling(original, coding, there.map_or(Answer::Missing, Answer::File));
        }
        original.variants.note_other();
    }

    /// Answers with a file or what was found beside it, as far as the rules let this request have that.
    pub(super) fn among_siblings(&mut self, incoming: &Incoming<'_>, site: usize, plan: &mut Plan, original: &Rc<Served>) -> Answered {
        let id = hexadecimal(incoming.visit.id);
        let (compiled, facts) = (self.sites.compiled(site), facts(incoming, &self.path, &id, &self.clock.log_time));
        let there = |coding: &Coding| original.variants.sibling(*coding).is_some();
        let permitted: Vec<Coding> =
            Coding::ALL.into_iter().filter(there).filter(|coding| plan.permits_beside(compiled, &facts, coding.suffix())).collect();
        self.file(incoming, site, original, &permitted)
    }

    /// The codings that may be sent.
    pub(super) fn codings(&self, site: usize) -> &[Coding] {
        form::codings(self.sites.get(site), &self.changes)
    }

    /// Whether a rule says that the file is encoded as it is.
    pub(super) fn encoded_by_rule(&self) -> bool {
        form::is_encoded_by_rule(&self.changes)
    }

    /// What stands beside a file for a coding. `None`: it, or what it holds, is not in memory.
    fn find_sibling(
        &mut self,
        incoming: &Incoming<'_>,
        site: usize,
        lookup: Lookup<'_>,
        original: &Served,
        coding: Coding,
    ) -> Option<Answer<Opened>> {
        if self.hides_sibling(site, lookup, coding) {
            return Some(Answer::Missing);
        }
        let path = [lookup.path, coding.suffix().as_bytes()].concat();
        let beside = Lookup { path: &path, ..lookup };
        let (answer, fault) = self.files.find(beside)?;
        if let Some(fault) = fault {
            self.complain(incoming, site, &fault);
        }
        match &answer {
            Answer::File(opened)
                if original.variants.sibling(coding).is_none_or(|known| known.stat != opened.stat) && self.is_cold(beside, opened) =>
            {
                None
            }
            Answer::File(_) | Answer::Missing | Answer::Directory | Answer::Denied | Answer::NotRegular | Answer::Busy | Answer::Failed => {
                Some(answer)
            }
        }
    }

    fn hides_sibling(&self, site: usize, lookup: Lookup<'_>, coding: Coding) -> bool {
        form::hides(self.sites.get(site), lookup.path, coding)
    }

    /// Keeps what stands beside a file if it may be served and is of the file as it is.
    fn keep_sibling(&self, original: &Rc<Served>, coding: Coding, answer: Answer<Opened>) {
        let is_missing = matches!(answer, Answer::Missing);
        let sibling = match answer {
            Answer::File(opened) if form::is_of(original.stat.modified, opened.stat.modified, opened.stat.size) => {
                let known = original.variants.sibling(coding).filter(|known| known.stat == opened.stat);
                known.or_else(|| self.sibling(original, coding, opened).map(Rc::new))
            }
            Answer::File(_) | Answer::Missing | Answer::Directory | Answer::Denied | Answer::NotRegular | Answer::Busy | Answer::Failed => {
                None
            }
        };
        if sibling.is_none() && !is_missing {
            original.variants.note_other();
        }
        self.files.budget.keep_sibling(original, coding, sibling);
    }

    fn sibling(&self, original: &Served, coding: Coding, opened: Opened) -> Option<Served> {
        let (content, stat) = files::content(opened).ok()?;
        Some(Served {
            content,
            stat,
            etag: form::tag(stat.modified, stat.modified_ns, stat.size, Some(coding)),
            modified: stat.modified.min(self.clock.unix),
            ..encoded(original, coding)
        })
    }

    /// Encodes a file: at once if it is in memory, else while it is sent. `None`: the client gets it as it is.
    fn make(&mut self, incoming: &Incoming<'_>, original: &Rc<Served>, coding: Coding) -> Option<Choice> {
        let making = match &original.content {
            Content::Memory(bytes) if bytes.len() <= AT_ONCE => {
                let made = encoder::encode(coding, bytes).ok()?;
                return keep(&self.files.budget, original, coding, made).map(|file| Choice { file, varies: true, making: None });
            }
            Content::Memory(_) | Content::Open(_) if incoming.request.method == Method::Head => Making { coding, producer: None },
            Content::Memory(_) | Content::Open(_) => {
                let slot = self.files.budget.slot()?;
                let encoder = Encoder::new(coding, Some(original.length())).ok()?;
                let producer = EncodedFile {
                    original: Rc::clone(original),
                    offset: 0,
                    coding,
                    encoder: Some(encoder),
                    made: Some(Vec::new()),
                    known: 0,
                    _slot: slot,
                    budget: Rc::clone(&self.files.budget),
                };
                Making { coding, producer: Some(Box::new(producer)) }
            }
        };
        Some(Choice { file: Rc::clone(original), varies: true, making: Some(making) })
    }
}

/// What a form has of its original; the tag is weak, since encoding it again may give other bytes.
fn encoded(original: &Served, coding: Coding) -> Served {
    Served {
        content: Content::Memory(Bytes::new()),
        stat: original.stat,
        etag: original.etag.clone(),
        weak: false,
        modified: original.modified,
        content_type: original.content_type.clone(),
        coding: Some(coding),
        head: OnceCell::new(),
        compresses: false,
        coded_already: true,
        variants: Variants::default(),
        ahead: None,
        standing: RefCell::default(),
    }
}

/// Keeps what was made of a file, unless it is no smaller.
fn keep(budget: &Rc<Budget>, original: &Rc<Served>, coding: Coding, made: Vec<u8>) -> Option<Rc<Served>> {
    if u64::try_from(made.len()).unwrap_or(u64::MAX) >= original.length() {
        original.variants.note_useless(coding);
        return None;
    }
    let content = Content::Memory(made.into_boxed_slice().into());
    let file = Rc::new(Served { content, weak: true, ..encoded(original, coding) });
    budget.keep_made(original, coding, Rc::clone(&file));
    Some(file)
}

/// An open file being encoded, a little at each turn.
struct EncodedFile {
    original: Rc<Served>,
    offset: u64,
    coding: Coding,
    encoder: Option<Encoder>,
    /// What was made so far, unless it is too much to keep.
    made: Option<Vec<u8>>,
    /// Up to here the file is known to be in memory, or is read as if it were.
    known: u64,
    _slot: Slot,
    budget: Rc<Budget>,
}

impl Produce for EncodedFile {
    fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
        let (left, piece) = (self.original.length().saturating_sub(self.offset), self.piece());
        let Some(encoder) = self.encoder.as_mut() else {
            return Ok(Produced::End);
        };
        if self.offset + piece > self.known && !self.original.is_in_memory(self.offset, piece, clock::monotonic_ms()) {
            return Ok(Produced::Wait);
        }
        self.known = self.known.max(self.offset + piece);
        let input = read_slice(&self.original, self.offset, left)?;
        encoder.write(&input)?;
        encoder.drain(out);
        self.offset += u64::try_from(input.len()).unwrap_or(0);
        if self.offset < self.original.length() {
            self.note(out);
            return Ok(Produced::More);
        }
        if let Some(encoder) = self.encoder.take() {
            out.append(&mut encoder.finish()?);
        }
        self.note(out);
        self.keep();
        Ok(Produced::End)
    }

    fn memory(&self) -> usize {
        self.encoder.as_ref().map_or(0, Encoder::memory) + self.made.as_ref().map_or(0, Vec::capacity)
    }

    fn wants(&self) -> Option<Question> {
        let (ahead, length) = (self.original.ahead.as_ref()?, self.ahead_length());
        let Stat { device, inode, .. } = self.original.stat;
        let act = Act::Warm { device, inode, offset: self.offset, length };
        (self.offset + self.piece() > self.known && length > 0).then(|| Question { root: ahead.root, path: ahead.path.clone(), act })
    }

    /// Where another file has taken the place of this one, its own content is read as it is.
    fn bring(&mut self, _outcome: Outcome) {
        self.known = self.offset + u64::from(self.ahead_length());
    }

    /// A local disk is waited for here: it may be slow, but is not likely to be dead.
    fn go_on_without(&mut self) -> bool {
        self.bring(Outcome::Warm);
        self.original.ahead.as_ref().is_none_or(|ahead| !ahead.is_remote)
    }
}

impl EncodedFile {
    /// How much is read next.
    fn piece(&self) -> u64 {
        self.original.length().saturating_sub(self.offset).min(u64::from(SLICE))
    }

    /// Bytes that are brought into memory at once.
    fn ahead_length(&self) -> u32 {
        u32::try_from(self.original.length().saturating_sub(self.offset)).unwrap_or(WARM_MAX).min(WARM_MAX)
    }

    /// Gathers what was made, as long as it is little enough to be kept.
    fn note(&mut self, out: &[u8]) {
        match &mut self.made {
            Some(made) if made.len() + out.len() <= MADE_MAX => made.extend_from_slice(out),
            made => *made = None,
        }
    }

    /// Keeps the whole, if it is of one version: a file that was written to meanwhile is two.
    fn keep(&mut self) {
        let same = match &self.original.content {
            Content::Memory(_) => true,
            Content::Open(open) => file::stat(open).is_ok_and(|stat| stat == self.original.stat),
        };
        if let Some(made) = self.made.take().filter(|_| same) {
            keep(&self.budget, &self.original, self.coding, made);
        }
    }
}

/// The next bytes to encode.
fn read_slice(original: &Served, offset: u64, left: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(usize::from(SLICE));
    let open = match &original.content {
        Content::Memory(bytes) => {
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            return Ok(bytes.get(from..from.saturating_add(length)).unwrap_or_default().to_vec());
        }
        Content::Open(open) => open,
    };
    let mut input = vec![0; length];
    let count = file::read_at(open, offset, &mut input)?;
    if count == 0 && left > 0 {
        // It has become shorter, and what was promised cannot be sent.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    input.truncate(count);
    Ok(input)
}

/// Content of so many bytes in memory is encoded at once, when it is first asked for.
const AT_ONCE: usize = 64 * 1024;

/// Bytes encoded at one call: about a millisecond, for which the others wait.
const SLICE: u16 = 32 * 1024;
