//! How a request is answered whose file would have to be waited for: it is asked of `files`, and taken up again with the answer.
//!
//! Runs in the worker, as a part of [`Service`]; what it reads is in memory.

use super::answer::{Incoming, Service};
use super::disk::{Ahead, LATE, Looked, Question, Refusal, Told};
use super::files::{self, Manner};
use super::served::Served;
use crate::config::Level;
use crate::ipc::disk::{Act, BEGINNING, Outcome};
use crate::site::lookup::{Lookup, RootRef};
use crate::site::plan::{Answer, Plan};
use crate::sys::file::{Opened, Stat};
use crate::sys::page_cache::{self, Residence};

impl Service {
    /// Answers what a plan asks: from memory, with what `files` just said, or by asking it.
    pub(super) fn look_up(&mut self, incoming: &Incoming<'_>, site: usize, plan: &Plan) -> Looked {
        let lookup = plan.lookup();
        let (found, is_read) = match self.told.take() {
            Some(Told::Late) => {
                let fault = format!("open {}: {LATE}", self.files.name(lookup));
                self.complain(incoming, site, &fault);
                return Looked::Unavailable;
            }
            Some(Told::Answer(Outcome::Warm | Outcome::Changed, _)) => (self.files.find(lookup), true),
            Some(Told::Answer(outcome, mut opened)) => (Some(self.files.told(lookup, outcome, opened.pop())), true),
            Some(Told::Verdict(_)) | None => (self.files.find(lookup), false),
        };
        let Some((answer, fault)) = found else {
            return self.ask(incoming, site, lookup, Act::Open);
        };
        if let Answer::File(opened) = &answer
            && !is_read
            && let Some(act) = self.cold(site, lookup, opened)
        {
            return self.ask(incoming, site, lookup, act);
        }
        if let Some(fault) = fault {
            self.complain(incoming, site, &fault);
        }
        Looked::Found(answer)
    }

    /// What has to be read first, of a small file whose content this worker does not have and the kernel neither.
    fn cold(&self, site: usize, lookup: Lookup<'_>, opened: &Opened) -> Option<Act> {
        let stat = opened.stat;
        if stat.size > BEGINNING || self.files.manner(lookup) == Manner::Blocking || self.is_known(site, lookup, &stat) {
            return None;
        }
        let length = u32::try_from(stat.size).ok().filter(|length| *length > 0)?;
        let act = Act::Warm { device: stat.device, inode: stat.inode, offset: 0, length };
        self.is_cold(lookup, opened).then_some(act)
    }

    /// Whether a small file would have to be read from a disk. Where the file system cannot say, it is one of local disks: read as it is, with
    /// the wait that this may mean.
    pub(super) fn is_cold(&self, lookup: Lookup<'_>, opened: &Opened) -> bool {
        opened.stat.size <= BEGINNING
            && self.files.manner(lookup) != Manner::Blocking
            && page_cache::residence(&opened.file, 0, opened.stat.size) == Residence::Disk
    }

    /// Whether the cache holds this file as it is.
    fn is_known(&self, site: usize, lookup: Lookup<'_>, stat: &Stat) -> bool {
        match self.sites.compiled(site).has_rules() {
            false => self.files.is_known(site, self.path.bytes(), stat),
            true => self.files.is_known(site, &files::key(lookup), stat),
        }
    }

    /// Has `files` bring a part of a file into memory. Where it is not asked, a local disk is waited for here; it may be slow, but
    /// is not likely to be dead.
    pub(super) fn ask_for_content(&mut self, file: &Served, offset: u64, length: u64) -> Ahead {
        let Some(ahead) = &file.ahead else { return Ahead::Direct };
        let (device, inode, length) = (file.stat.device, file.stat.inode, u32::try_from(length).unwrap_or(u32::MAX));
        let act = Act::Warm { device, inode, offset, length };
        match self.disk.ask(Question { root: ahead.root, path: ahead.path.clone(), act }, self.clock.now) {
            Ok(id) => Ahead::Waits(id),
            Err(_) if !ahead.is_remote => Ahead::Direct,
            Err(refusal) => {
                self.say_cut(ahead.root, &ahead.path, refusal.why());
                Ahead::Unavailable
            }
        }
    }

    /// Asks for what content that is made waits for; `goes_on` says whether it can be made all the same.
    pub(super) fn ask_for_more(&mut self, question: Question, goes_on: impl FnOnce() -> bool) -> Ahead {
        match self.disk.ask(question.clone(), self.clock.now) {
            Ok(id) => Ahead::Waits(id),
            Err(_) if goes_on() => Ahead::Direct,
            Err(refusal) => {
                self.say_cut(question.root, &question.path, refusal.why());
                Ahead::Unavailable
            }
        }
    }

    /// Says that a transfer is cut, and why.
    pub(super) fn say_cut(&mut self, root: u16, path: &[u8], why: &str) {
        let lookup = Lookup { root: RootRef(usize::from(root)), path };
        self.log.error(Level::Error, &format!("read {}: {why}; the transfer is cut", self.files.name(lookup)));
    }

    /// Asks for what a look-up leads to.
    pub(super) fn ask_of(&mut self, lookup: Lookup<'_>, act: Act) -> Result<u32, Refusal> {
        let question = Question { root: u16::try_from(lookup.root.0).unwrap_or(u16::MAX), path: lookup.path.into(), act };
        self.disk.ask(question, self.clock.now)
    }

    fn ask(&mut self, incoming: &Incoming<'_>, site: usize, lookup: Lookup<'_>, act: Act) -> Looked {
        match self.ask_of(lookup, act) {
            Ok(id) => Looked::Waits(id),
            Err(refusal) => {
                let fault = format!("open {}: {}", self.files.name(lookup), refusal.why());
                self.complain(incoming, site, &fault);
                Looked::Unavailable
            }
        }
    }
}
