//! A file as it is served, and its encoded forms: siblings found beside it and what was made of it, kept within a budget.
//!
//! Runs in the worker; makes no system call but to ask whether a file is in memory. Forms live and die with the file that they are forms of, so that a changed file never
//! has another's.

use super::standing::Standing;
use crate::proto::coding::Coding;
use crate::site::form;
use crate::site::lookup::Lookup;
use crate::sys::file::Stat;
use crate::sys::page_cache::{self, Residence};
use bytes::Bytes;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

/// A file as it is served.
pub(super) struct Served {
    pub(super) content: Content,
    pub(super) stat: Stat,
    /// The opaque tag with its quotes, without what marks a weak one.
    pub(super) etag: Vec<u8>,
    /// Whether the tag is weak: the bytes may be others when it is made again.
    pub(super) weak: bool,
    /// Never in the future of the moment it was read (RFC 9110, 8.8.2.1).
    pub(super) modified: i64,
    pub(super) content_type: Vec<u8>,
    /// What the content is encoded with.
    pub(super) coding: Option<Coding>,
    /// The head of a whole answer, made when it is first needed.
    pub(super) head: OnceCell<Prepared>,
    /// Whether the type gains from being encoded on the fly.
    pub(super) compresses: bool,
    /// Whether the type is one that is compressed in itself, so that nothing encoded is looked for beside it.
    pub(super) coded_already: bool,
    pub(super) variants: Variants,
    /// Of one that is not held in memory: how it is read ahead.
    pub(super) ahead: Option<Ahead>,
    /// Where it stands, if it need not be looked up to be believed.
    pub(super) standing: RefCell<Option<Standing>>,
}

/// Where a large file stands, and how much of it the kernel had in memory lately.
pub(super) struct Ahead {
    pub(super) root: u16,
    pub(super) path: Box<[u8]>,
    /// Its file system may wait for a server: nothing of it is taken for being in memory that `files` has not read.
    pub(super) is_remote: bool,
    /// From the start to here, at this moment (monotonic milliseconds).
    seen: Cell<(u64, u64)>,
}

impl Ahead {
    pub(super) fn new(lookup: Lookup<'_>, is_remote: bool) -> Ahead {
        let root = u16::try_from(lookup.root.0).unwrap_or(u16::MAX);
        Ahead { root, path: lookup.path.into(), is_remote, seen: Cell::new((0, 0)) }
    }
}

/// A head that is sent again and again.
pub(super) struct Prepared {
    /// Up to, not including, `Vary`, `Connection` and the blank line.
    pub(super) bytes: Vec<u8>,
    /// Where in it the date stands.
    pub(super) date_at: usize,
}

/// The bytes of a file.
pub(super) enum Content {
    /// Counted, so that a stream of HTTP/2 is given it without a copy.
    Memory(Bytes),
    Open(Rc<OwnedFd>),
}

impl Served {
    /// Whether this part of it can be sent without waiting for a disk. What was found in memory is believed for a while, so that a
    /// file that is asked for again and again costs no further calls.
    pub(super) fn is_in_memory(&self, offset: u64, length: u64, now: u64) -> bool {
        let (Content::Open(file), Some(ahead)) = (&self.content, &self.ahead) else { return true };
        let (seen, since) = ahead.seen.get();
        let (seen, since) = if now.saturating_sub(since) < SEEN_MS { (seen, since) } else { (0, now) };
        if offset.saturating_add(length) <= seen {
            return true;
        }
        // A file system that cannot say, of a local disk: read as it is, with the wait that this may mean.
        if ahead.is_remote || page_cache::residence(file, offset, length) == Residence::Disk {
            return false;
        }
        if offset <= seen {
            ahead.seen.set((offset.saturating_add(length), since));
        }
        true
    }

    pub(super) fn length(&self) -> u64 {
        match &self.content {
            Content::Memory(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Content::Open(_) => self.stat.size,
        }
    }

    /// Bytes that it holds in memory, about, without its forms.
    pub(super) fn memory(&self) -> usize {
        let content = match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::Open(_) => 0,
        };
        content + self.etag.len() + self.content_type.len() + OVERHEAD
    }

    /// Whether it may be encoded on the fly.
    pub(super) fn may_be_encoded(&self) -> bool {
        self.compresses && self.coding.is_none() && form::is_worth_making(self.length())
    }

    #[cfg(test)]
    fn for_tests(content: Content) -> Served {
        let stat = Stat { device: 0, inode: 0, size: 0, modified: 0, modified_ns: 0, changed: 0, changed_ns: 0 };
        Served {
            content,
            stat,
            etag: Vec::new(),
            weak: false,
            modified: 0,
            content_type: Vec::new(),
            coding: None,
            head: OnceCell::new(),
            compresses: true,
            coded_already: false,
            variants: Variants::default(),
            ahead: None,
            standing: RefCell::default(),
        }
    }
}

/// The forms of one file.
#[derive(Default)]
pub(super) struct Variants {
    /// When siblings were last looked for, in monotonic milliseconds.
    looked: Cell<Option<u64>>,
    /// Something stood there that is none, or may not be had: that may change by itself.
    others: Cell<bool>,
    siblings: RefCell<[Option<Kept>; Coding::ALL.len()]>,
    made: RefCell<[Made; Coding::ALL.len()]>,
}

/// What came of making a form.
#[derive(Default)]
enum Made {
    /// Not tried, or not kept.
    #[default]
    Not,
    /// It is no smaller than the file.
    Useless,
    Kept(Kept),
}

/// A form that counts in the budget as long as it is here.
struct Kept {
    file: Rc<Served>,
    budget: Rc<Budget>,
}

/// What the forms of all files may hold together.
#[derive(Default)]
pub(super) struct Budget {
    bytes: Cell<usize>,
    descriptors: Cell<usize>,
    /// Forms being made, each with an encoder that holds memory.
    encoders: Cell<usize>,
    descriptors_max: usize,
    /// Files with forms, those that got theirs first at the front; some may be gone.
    order: RefCell<VecDeque<Weak<Served>>>,
}

/// The right to hold one encoder.
pub(super) struct Slot(Rc<Budget>);

impl Variants {
    /// Whether siblings were looked for less than `age` ago.
    pub(super) fn looked_within(&self, now: u64, age: u64) -> bool {
        self.looked.get().is_some_and(|looked| now.saturating_sub(looked) < age)
    }

    /// Whether siblings were looked for, and where there is none now none comes without a change of names.
    pub(super) fn is_explored(&self) -> bool {
        self.looked.get().is_some() && !self.others.get()
    }

    pub(super) fn note_other(&self) {
        self.others.set(true);
    }

    pub(super) fn forget_look(&self) {
        self.looked.set(None);
    }

    pub(super) fn note_looked(&self, now: u64) {
        self.looked.set(Some(now));
        self.others.set(false);
    }

    pub(super) fn sibling(&self, coding: Coding) -> Option<Rc<Served>> {
        self.siblings.borrow().get(coding as usize)?.as_ref().map(|kept| Rc::clone(&kept.file))
    }

    pub(super) fn has_siblings(&self) -> bool {
        self.siblings.borrow().iter().any(Option::is_some)
    }

    /// What was made, if it was.
    pub(super) fn made(&self, coding: Coding) -> Option<Rc<Served>> {
        match self.made.borrow().get(coding as usize)? {
            Made::Kept(kept) => Some(Rc::clone(&kept.file)),
            Made::Not | Made::Useless => None,
        }
    }

    /// Whether it is not known to be pointless.
    pub(super) fn is_worth_making(&self, coding: Coding) -> bool {
        self.made.borrow().get(coding as usize).is_some_and(|made| !matches!(made, Made::Useless))
    }

    pub(super) fn note_useless(&self, coding: Coding) {
        if let Some(made) = self.made.borrow_mut().get_mut(coding as usize) {
            *made = Made::Useless;
        }
    }

    fn clear(&self) {
        *self.siblings.borrow_mut() = Default::default();
        *self.made.borrow_mut() = Default::default();
        self.looked.set(None);
    }
}

impl Budget {
    /// `descriptors`: how many may be held.
    pub(super) fn new(descriptors: usize) -> Rc<Budget> {
        Rc::new(Budget { descriptors_max: descriptors, ..Budget::default() })
    }

    /// Keeps what stands beside `original` for a coding; `None`: nothing.
    pub(super) fn keep_sibling(self: &Rc<Self>, original: &Rc<Served>, coding: Coding, sibling: Option<Rc<Served>>) {
        let kept = sibling.map(|file| self.take_in(original, file));
        if let Some(sibling) = original.variants.siblings.borrow_mut().get_mut(coding as usize) {
            *sibling = kept;
        }
    }

    /// Keeps what was made of `original`.
    pub(super) fn keep_made(self: &Rc<Self>, original: &Rc<Served>, coding: Coding, file: Rc<Served>) {
        let kept = self.take_in(original, file);
        if let Some(made) = original.variants.made.borrow_mut().get_mut(coding as usize) {
            *made = Made::Kept(kept);
        }
    }

    /// The right to make a form; `None`: as many are being made as may be.
    pub(super) fn slot(self: &Rc<Self>) -> Option<Slot> {
        if self.encoders.get() >= ENCODERS_MAX {
            return None;
        }
        self.encoders.set(self.encoders.get() + 1);
        Some(Slot(Rc::clone(self)))
    }

    fn take_in(self: &Rc<Self>, original: &Rc<Served>, file: Rc<Served>) -> Kept {
        let (bytes, descriptors) = weight(&file);
        while self.bytes.get() + bytes > BYTES_MAX || self.descriptors.get() + descriptors > self.descriptors_max {
            let Some(oldest) = self.order.borrow_mut().pop_front() else { break };
            if let Some(oldest) = oldest.upgrade() {
                oldest.variants.clear();
            }
        }
        self.bytes.set(self.bytes.get() + bytes);
        self.descriptors.set(self.descriptors.get() + descriptors);
        let mut order = self.order.borrow_mut();
        if order.len() >= ORDER_MAX {
            order.retain(|file| file.strong_count() > 0);
        }
        order.push_back(Rc::downgrade(original));
        Kept { file, budget: Rc::clone(self) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let (bytes, descriptors) = weight(&self.file);
        self.budget.bytes.set(self.budget.bytes.get().saturating_sub(bytes));
        self.budget.descriptors.set(self.budget.descriptors.get().saturating_sub(descriptors));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.encoders.set(self.0.encoders.get().saturating_sub(1));
    }
}

/// Bytes and descriptors that a form holds.
fn weight(file: &Served) -> (usize, usize) {
    (file.memory(), usize::from(matches!(file.content, Content::Open(_))))
}

/// Largest form that is kept when it was made, so that it is made once.
pub(super) const MADE_MAX: usize = 2 * 1024 * 1024;

/// Bytes of all forms in memory.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Forms being made at the same time, for clients as slow as they like; who comes then gets the file as it is.
pub(super) const ENCODERS_MAX: usize = 8;

/// How long a large file is believed to be in memory.
const SEEN_MS: u64 = 10_000;

/// About what a file costs beside its content, its head included.
const OVERHEAD: usize = 1000;

/// Files in the order of their forms before those that are gone are looked for.
const ORDER_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: usize) -> Rc<Served> {
        Rc::new(Served::for_tests(Content::Memory(vec![0; bytes].into())))
    }

    #[test]
    fn s14_forms_are_dropped_first_come_first_gone_when_they_hold_too_much() {
        let budget = Budget::new(0);
        let files: Vec<Rc<Served>> = (0..40).map(|_| of(1)).collect();
        for file in &files {
            budget.keep_made(file, Coding::Brotli, of(1 << 20));
            assert!(budget.bytes.get() <= BYTES_MAX);
        }
        let kept: Vec<bool> = files.iter().map(|file| file.variants.made(Coding::Brotli).is_some()).collect();
        assert!(!kept[0] && !kept[7] && kept[39] && kept[10], "{kept:?}");
        drop(files);
        assert_eq!(budget.bytes.get(), 0);
    }

    #[test]
    fn a_form_replaced_or_gone_counts_no_longer() {
        let budget = Budget::new(0);
        let file = of(1);
        budget.keep_sibling(&file, Coding::Gzip, Some(of(1000)));
        budget.keep_sibling(&file, Coding::Gzip, Some(of(10)));
        assert_eq!(budget.bytes.get(), 10 + OVERHEAD);
        assert!(file.variants.has_siblings());
        budget.keep_sibling(&file, Coding::Gzip, None);
        assert_eq!(budget.bytes.get(), 0);
        assert!(!file.variants.has_siblings());
    }

    #[test]
    fn s14_no_more_encoders_than_the_limit() {
        let budget = Budget::new(0);
        let mut slots: Vec<Slot> = (0..ENCODERS_MAX).filter_map(|_| budget.slot()).collect();
        assert_eq!(slots.len(), ENCODERS_MAX);
        assert!(budget.slot().is_none());
        slots.pop();
        assert!(budget.slot().is_some());
    }

    #[test]
    fn what_is_useless_is_not_made_again() {
        let file = of(1);
        assert!(file.variants.is_worth_making(Coding::Zstd));
        file.variants.note_useless(Coding::Zstd);
        assert!(!file.variants.is_worth_making(Coding::Zstd));
        assert!(file.variants.is_worth_making(Coding::Gzip));
    }
}
