//! Which form of a file a request gets: the file itself, a sibling that holds it encoded, or what is made of it on the fly.
//!
//! Runs in the worker, as a part of [`Service`]; looks up siblings by the same rules as files, and opens nothing else.

use super::answer::{Incoming, Service, facts, hexadecimal};
use super::choice::{Choice, Making};
use super::encoder::{self, Encoder};
use super::files;
use super::segment::{Produce, Produced};
use super::served::{Budget, Content, MADE_MAX, Served, Slot, Variants};
use crate::proto::coding::{Coding, Wanted};
use crate::proto::head::Method;
use crate::site::listing::is_hidden;
use crate::site::lookup::Lookup;
use crate::site::plan::{Answer, Plan};
use crate::sys::file::{self, Opened};
use std::cell::OnceCell;
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
        let siblings = self.siblings(site, &original.variants, permitted);
        // A range is one of the form that is sent (RFC 9110, 14.2), and of what is made anew each time parts do not fit together.
        let on_the_fly = on_the_fly && incoming.request.field("range").is_none();
        let worth = |coding: &Coding| on_the_fly && original.variants.is_worth_making(*coding);
        let there = siblings.iter().map(|(coding, _)| *coding).chain(self.codings(site).iter().copied().filter(worth));
        let Some(coding) = wanted.best(there) else {
            return plain(true);
        };
        if let Some((_, sibling)) = siblings.into_iter().find(|(of, _)| *of == coding) {
            return Choice { file: sibling, varies: true, making: None };
        }
        if let Some(made) = original.variants.made(coding) {
            return Choice { file: made, varies: true, making: None };
        }
        self.make(incoming, original, coding).unwrap_or_else(|| plain(true))
    }

    /// Looks for encoded siblings of a file that was just looked up, and gives those that the rules let this request have.
    pub(super) fn look_for_siblings(
        &mut self,
        incoming: &Incoming<'_>,
        site: usize,
        plan: &mut Plan,
        original: &Rc<Served>,
    ) -> Vec<Coding> {
        let single = plan.lookup().path.is_empty();
        if single || original.coding.is_some() || original.coded_already || self.codings(site).is_empty() {
            return Vec::new();
        }
        if !original.variants.looked_since(self.clock.now.saturating_sub(files::FRESH_MS)) {
            original.variants.note_looked(self.clock.now);
            for coding in Coding::ALL {
                let sibling = self.find_sibling(incoming, site, plan.lookup(), original, coding);
                self.files.budget.keep_sibling(original, coding, sibling);
            }
        }
        let id = hexadecimal(incoming.visit.id);
        let (compiled, facts) = (self.sites.compiled(site), facts(incoming, &self.path, &id));
        let there = |coding: &Coding| original.variants.sibling(*coding).is_some();
        Coding::ALL.into_iter().filter(there).filter(|coding| plan.permits_beside(compiled, &facts, coding.suffix())).collect()
    }

    /// The codings that may be sent.
    fn codings(&self, site: usize) -> &[Coding] {
        self.changes.compress.as_deref().unwrap_or(&self.sites.get(site).compress)
    }

    /// Whether a rule says that the file is encoded as it is.
    fn encoded_by_rule(&self) -> bool {
        self.changes.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("content-encoding") && !value.is_empty())
    }

    /// Smallest first: at equal weight it is chosen.
    fn siblings(&self, site: usize, variants: &Variants, permitted: &[Coding]) -> Vec<(Coding, Rc<Served>)> {
        let may = |coding: &&Coding| permitted.contains(coding);
        let found = self.codings(site).iter().filter(may).filter_map(|coding| Some((*coding, variants.sibling(*coding)?)));
        let mut siblings: Vec<(Coding, Rc<Served>)> = found.collect();
        siblings.sort_by_key(|(_, sibling)| sibling.length());
        siblings
    }

    /// The sibling of a coding, if it may be served and is no older than the file: else the file was changed and the sibling forgotten.
    /// The time is compared in whole seconds, since compressors copy no more of it.
    fn find_sibling(
        &mut self,
        incoming: &Incoming<'_>,
        site: usize,
        lookup: Lookup<'_>,
        original: &Rc<Served>,
        coding: Coding,
    ) -> Option<Rc<Served>> {
        let path = [lookup.path, coding.suffix().as_bytes()].concat();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if is_hidden(self.sites.get(site), name) {
            return None;
        }
        let (answer, fault) = self.files.find_beside(Lookup { path: &path, ..lookup });
        if let Some(fault) = fault {
            self.complain(incoming, site, &fault);
        }
        let Answer::File(opened) = answer else { return None };
        if opened.stat.modified < original.stat.modified || opened.stat.size == 0 {
            return None;
        }
        if let Some(known) = original.variants.sibling(coding).filter(|known| known.stat == opened.stat) {
            return Some(known);
        }
        self.sibling(original, coding, opened).map(Rc::new)
    }

    fn sibling(&self, original: &Served, coding: Coding, opened: Opened) -> Option<Served> {
        let (content, stat) = files::content(opened).ok()?;
        Some(Served {
            content,
            stat,
            etag: format!("\"{:x}.{:x}-{:x}-{}\"", stat.modified, stat.modified_ns, stat.size, coding.name()).into_bytes(),
            modified: stat.modified.min(self.clock.unix),
            ..form(original, coding)
        })
    }

    /// Encodes a file: at once if it is in memory, else while it is sent. `None`: the client gets it as it is.
    fn make(&mut self, incoming: &Incoming<'_>, original: &Rc<Served>, coding: Coding) -> Option<Choice> {
        let making = match &original.content {
            Content::Memory(bytes) => {
                let made = encoder::encode(coding, bytes).ok()?;
                return keep(&self.files.budget, original, coding, made).map(|file| Choice { file, varies: true, making: None });
            }
            Content::Open(_) if incoming.request.method == Method::Head => Making { coding, producer: None },
            Content::Open(_) => {
                let slot = self.files.budget.slot()?;
                let encoder = Encoder::new(coding, original.length()).ok()?;
                let producer = EncodedFile {
                    original: Rc::clone(original),
                    offset: 0,
                    coding,
                    encoder: Some(encoder),
                    made: Some(Vec::new()),
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
fn form(original: &Served, coding: Coding) -> Served {
    Served {
        content: Content::Memory(Box::default()),
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
    }
}

/// Keeps what was made of a file, unless it is no smaller.
fn keep(budget: &Rc<Budget>, original: &Rc<Served>, coding: Coding, made: Vec<u8>) -> Option<Rc<Served>> {
    if u64::try_from(made.len()).unwrap_or(u64::MAX) >= original.length() {
        original.variants.note_useless(coding);
        return None;
    }
    let content = Content::Memory(made.into_boxed_slice());
    let file = Rc::new(Served { content, weak: true, ..form(original, coding) });
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
    _slot: Slot,
    budget: Rc<Budget>,
}

impl Produce for EncodedFile {
    fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
        let Some(encoder) = self.encoder.as_mut() else {
            return Ok(Produced::End);
        };
        let left = self.original.length().saturating_sub(self.offset);
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
}

impl EncodedFile {
    /// Gathers what was made, as long as it is little enough to be kept.
    fn note(&mut self, out: &[u8]) {
        match &mut self.made {
            Some(made) if made.len() + out.len() <= MADE_MAX => made.extend_from_slice(out),
            made => *made = None,
        }
    }

    /// Keeps the whole, if it is of one version: a file that was written to meanwhile is two.
    fn keep(&mut self) {
        let Content::Open(open) = &self.original.content else { return };
        let same = file::stat(open).is_ok_and(|stat| stat == self.original.stat);
        if let Some(made) = self.made.take().filter(|_| same) {
            keep(&self.budget, &self.original, self.coding, made);
        }
    }
}

/// The next bytes to encode.
fn read_slice(original: &Served, offset: u64, left: u64) -> io::Result<Vec<u8>> {
    let Content::Open(open) = &original.content else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut input = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(SLICE)];
    let count = file::read_at(open, offset, &mut input)?;
    if count == 0 && left > 0 {
        // It has become shorter, and what was promised cannot be sent.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    input.truncate(count);
    Ok(input)
}

/// Bytes encoded at one call: about a millisecond, for which the others wait.
const SLICE: usize = 32 * 1024;
