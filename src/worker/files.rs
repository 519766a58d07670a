//! Files beneath the document roots: look-ups, and the cache of what was served last.
//!
//! An entry stands for what a path of a site led to, its index file included, or for a site with rules for what one look-up
//! led to. It is believed for a second, or for as long as a rule says; then the look-up is made again and, where the file is
//! the same, the content kept. Small files are held in memory, large ones open. A changed file is never served with another's
//! head: head and content are made from one descriptor.

use super::cache::{Cache, Cost, FRESH_MS};
use super::clock::millis;
use super::fetched::Known;
use super::served::{Budget, Content, Served};
use super::standing::Grounds;
use crate::config::{self, Site, WorkerSlice};
use crate::ipc::birth::Born;
use crate::ipc::disk::{Outcome, is_path, links};
use crate::ipc::lines;
use crate::ipc::messages::ToParent;
use crate::proto::status::Status;
use crate::site::ResponseChanges;
use crate::site::listing::{is_shortage, not_listed};
use crate::site::plan::{Answer, Lookup, RootRef};
use crate::sys::confine::{Cell, Confined};
use crate::sys::file::{self, Found, Opened, Root, Stat, Unfollowed};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How a root may be asked without waiting for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// What the kernel has in memory is said at once.
    Cached,
    /// Its file system may wait for a server or another process in any call: only `files` asks it.
    Remote,
    /// The kernel cannot be asked so (before Linux 5.12): it is asked as it is.
    Blocking,
}

/// The document roots and the cache.
pub(super) struct Files {
    roots: Vec<Rc<Root>>,
    /// How each may be asked.
    manners: Vec<Manner>,
    /// The roots by the names that the host has for them, for the error log.
    names: Vec<PathBuf>,
    /// By site and by the normalised path of the request, or another key.
    cache: Cache<Known>,
    /// Of the encoded forms of files.
    pub(super) budget: Rc<Budget>,
    grounds: Grounds,
}

impl Files {
    /// Opens the directories that the sites serve from, in the order of their numbers.
    ///
    /// # Errors
    /// Names the root, with the errno.
    pub(super) fn open(sites: &[Site], confined: &Confined, cell: &Cell, descriptors: usize) -> Result<Files, String> {
        let mut roots = Vec::new();
        let bases = config::directories(sites).0;
        for base in &bases {
            let path = confined.inside.path(&base.path);
            let root = Root::open(&path, links(base.symlinks), cell.identity.rootless);
            roots.push(Rc::new(root.map_err(|fault| format!("root \"{}\": {fault}", base.path.display()))?));
        }
        let local = cell.local.iter().copied().chain(std::iter::repeat(false));
        let manners = roots.iter().zip(local).map(|(root, local)| manner(root, local)).collect();
        let names = bases.into_iter().map(|base| base.path).collect();
        let (for_siblings, for_standing) = (descriptors / 4, descriptors / 2);
        let cache = Cache::new(sites.len(), Cost { bytes: BYTES_MAX, descriptors: descriptors - for_siblings - for_standing });
        Ok(Files { roots, manners, names, cache, budget: Budget::new(for_siblings), grounds: Grounds::new(for_standing) })
    }

    /// Whether this process may look into a root; one that a server keeps is not asked.
    pub(super) fn enter(&self, number: usize) -> io::Result<()> {
        let lookup = Lookup { root: RootRef(number), path: b"" };
        self.roots.get(number).filter(|_| self.manner(lookup) != Manner::Remote).map_or(Ok(()), |root| root.enter())
    }

    /// What a path is known to lead to: it was found to within the last second, or nothing there has changed since, nor beside it. What stands
    /// beside it does not matter to a client that takes only the file itself, which `is_plain` says.
    pub(super) fn fresh(&self, site: usize, path: &[u8], now: u64, is_plain: impl Fn() -> bool) -> Option<Rc<Served>> {
        match self.cache.fresh(site, path, now, FRESH_MS) {
            Some(Known::File(file)) if file.variants.looked_within(now, FRESH_MS) || is_plain() => return Some(Rc::clone(file)),
            Some(Known::Directory | Known::There) => return None,
            Some(Known::File(_)) | None => {}
        }
        self.last(site, path).filter(|file| is_alone(file) || is_plain())?;
        self.standing(site, path, now)
    }

    /// A file that was looked up longer ago and is known to stand where it stood, as it was.
    pub(super) fn standing(&self, site: usize, key: &[u8], now: u64) -> Option<Rc<Served>> {
        let file = self.last(site, key)?;
        let since = file.standing.borrow().as_ref()?.since(&file.stat, &self.roots, now)?;
        self.cache.validate(site, key, since);
        if is_alone(file) {
            file.variants.note_looked(since);
        }
        Some(Rc::clone(file))
    }

    /// Notes where a file stands that was just opened, so that it need not be looked up again as long as nothing changes there.
    pub(super) fn settle(&mut self, lookup: Lookup<'_>, file: &Served, opened: &Rc<OwnedFd>, time: (u64, i64)) {
        let Some(root) = self.roots.get(lookup.root.0).filter(|_| self.manner(lookup) == Manner::Cached) else { return };
        if self.is_settled(file, time.0) {
            return;
        }
        let keeps = matches!(file.content, Content::Open(_));
        let standing = self.grounds.note(root, lookup, (opened, &file.stat), keeps, time);
        if standing.is_some() {
            // What was looked for before may have come since.
            file.variants.forget_look();
        }
        file.standing.replace(standing);
    }

    /// Whether no name beside a file has changed since it was noted where it stands.
    pub(super) fn is_settled(&self, file: &Served, now: u64) -> bool {
        file.standing.borrow().as_ref().is_some_and(|standing| standing.is_alone(&self.roots, now))
    }

    /// What a look-up was found to lead to within the last `age` milliseconds. A large file may be written to while it is held open,
    /// and what is then sent has the head of what was: that is never believed for longer than a second.
    pub(super) fn known(&self, site: usize, key: &[u8], now: u64, age: u64) -> Option<&Known> {
        let known = self.cache.fresh(site, key, now, age)?;
        match known {
            Known::File(file) if matches!(file.content, Content::Open(_)) => self.cache.fresh(site, key, now, age.min(FRESH_MS)),
            Known::File(_) | Known::Directory | Known::There => Some(known),
        }
    }

    /// Whether this file as it is was served under this path before.
    pub(super) fn is_known(&self, site: usize, path: &[u8], stat: &Stat) -> bool {
        self.last(site, path).is_some_and(|file| file.stat == *stat)
    }

    /// The same file as it was served under this path before, if it has not changed since.
    pub(super) fn unchanged(&mut self, site: usize, path: &[u8], stat: &Stat, now: u64) -> Option<Rc<Served>> {
        let file = self.last(site, path).filter(|file| file.stat == *stat).cloned()?;
        self.cache.validate(site, path, now);
        Some(file)
    }

    /// Remembers what a path led to.
    pub(super) fn remember(&mut self, site: usize, path: &[u8], file: &Rc<Served>, now: u64) {
        let descriptors = usize::from(matches!(file.content, Content::Open(_)));
        self.cache.insert(site, path, Known::File(Rc::clone(file)), Cost { bytes: file.memory(), descriptors }, now);
    }

    /// Remembers that a look-up led to a directory.
    pub(super) fn remember_directory(&mut self, site: usize, key: &[u8], now: u64) {
        self.cache.insert(site, key, Known::Directory, Cost::default(), now);
    }

    /// Remembers that a regular file is there. What is known of the file itself is worth more, and stays.
    pub(super) fn remember_there(&mut self, site: usize, key: &[u8], now: u64) {
        match self.cache.last(site, key) {
            Some(Known::File(_)) => {}
            Some(Known::There) => self.cache.validate(site, key, now),
            Some(Known::Directory) | None => self.cache.insert(site, key, Known::There, Cost::default(), now),
        }
    }

    fn last(&self, site: usize, path: &[u8]) -> Option<&Rc<Served>> {
        match self.cache.last(site, path)? {
            Known::File(file) => Some(file),
            Known::Directory | Known::There => None,
        }
    }

    /// Looks up a path; what could not be opened comes with a text for the error log. `None`: a disk would have to be waited for.
    pub(super) fn find(&self, lookup: Lookup<'_>) -> Option<(Answer<Opened>, Option<String>)> {
        let Some(root) = self.roots.get(lookup.root.0).filter(|_| is_path(lookup.path)) else {
            return Some((Answer::Missing, None));
        };
        let found = match self.manner(lookup) {
            Manner::Cached => root.find_cached(lookup.path)?,
            Manner::Blocking => root.find(lookup.path),
            Manner::Remote => return None,
        };
        let refusing = match &found {
            Found::Denied => root.refusing_component(lookup.path).len(),
            Found::Unfollowed(link) => link.length,
            Found::File(_) | Found::Directory | Found::Missing | Found::NotRegular | Found::Busy | Found::Failed(_) => lookup.path.len(),
        };
        Some(self.answer(lookup, refusing, found))
    }

    /// What `files` says of a path.
    pub(super) fn told(&self, lookup: Lookup<'_>, outcome: Outcome, opened: Option<Opened>) -> (Answer<Opened>, Option<String>) {
        let refusing = match outcome {
            Outcome::Denied { length } | Outcome::Unfollowed { length, .. } => usize::from(length),
            Outcome::File(_)
            | Outcome::Directory
            | Outcome::Missing
            | Outcome::NotRegular
            | Outcome::Busy
            | Outcome::Failed { .. }
            | Outcome::Entries(_)
            | Outcome::Beside(_)
            | Outcome::Warm
            | Outcome::Changed => lookup.path.len(),
        };
        let found = match outcome {
            Outcome::File(_) => opened.map_or(Found::Busy, Found::File),
            Outcome::Directory => Found::Directory,
            Outcome::Missing | Outcome::Changed => Found::Missing,
            Outcome::Denied { .. } => Found::Denied,
            Outcome::Unfollowed { length, why } => Found::Unfollowed(Unfollowed { length: usize::from(length), why }),
            Outcome::NotRegular => Found::NotRegular,
            Outcome::Busy | Outcome::Warm | Outcome::Entries(_) | Outcome::Beside(_) => Found::Busy,
            Outcome::Failed { errno } => Found::Failed(io::Error::from_raw_os_error(i32::from(errno))),
        };
        self.answer(lookup, refusing, found)
    }

    /// What a program is: device, inode and owner.
    ///
    /// # Errors
    /// The errno of the look-up.
    pub(super) fn program(&self, lookup: Lookup<'_>) -> io::Result<(u64, u64, u32)> {
        self.roots.get(lookup.root.0).ok_or(io::ErrorKind::NotFound)?.program(lookup.path)
    }

    /// How the root of a look-up may be asked.
    pub(super) fn manner(&self, lookup: Lookup<'_>) -> Manner {
        self.manners.get(lookup.root.0).copied().unwrap_or(Manner::Blocking)
    }

    /// `refusing` bytes of the path name what refuses.
    fn answer(&self, lookup: Lookup<'_>, refusing: usize, found: Found) -> (Answer<Opened>, Option<String>) {
        let name = || self.name(Lookup { path: lookup.path.get(..refusing).unwrap_or(lookup.path), ..lookup });
        match found {
            Found::File(opened) => (Answer::File(opened), None),
            Found::Directory => (Answer::Directory, None),
            Found::Missing => (Answer::Missing, None),
            Found::Unfollowed(link) => (Answer::Missing, Some(format!("open {}: {}: not followed", name(), link.why.text()))),
            Found::Denied => (Answer::Denied, Some(format!("open {}: permission denied", name()))),
            Found::NotRegular => (Answer::NotRegular, Some(format!("open {}: not a regular file", name()))),
            Found::Busy => (Answer::Busy, Some(format!("open {}: renamed again and again while it was looked up", name()))),
            Found::Failed(fault) => {
                let text = format!("open {}: {fault}", name());
                (if is_shortage(&fault) { Answer::Busy } else { Answer::Failed }, Some(text))
            }
        }
    }

    /// The host's name of a path, quoted, for the error log.
    pub(super) fn name(&self, lookup: Lookup<'_>) -> String {
        use std::os::unix::ffi::OsStrExt;
        let path = lookup.path;
        let root = self.names.get(lookup.root.0).map_or(Path::new("/"), PathBuf::as_path);
        let full = if path.is_empty() { root.to_owned() } else { root.join(std::ffi::OsStr::from_bytes(path)) };
        format!("\"{}\"", lines::escaped(full.as_os_str().as_bytes()))
    }

    /// The last segment of what a question names: what its type follows from.
    pub(super) fn file_name(&self, lookup: Lookup<'_>) -> Vec<u8> {
        if !lookup.path.is_empty() {
            return lookup.path.to_vec();
        }
        let base = self.names.get(lookup.root.0).and_then(|path| path.file_name());
        base.map_or_else(Vec::new, |name| name.as_encoded_bytes().to_vec())
    }

    /// Why a directory could not be listed: the status to answer and a text for the error log.
    pub(super) fn not_listed(&self, lookup: Lookup<'_>, errno: u16) -> (Status, String) {
        let fault = io::Error::from_raw_os_error(i32::from(errno));
        (not_listed(&fault), format!("list {}: {fault}", self.name(lookup)))
    }
}

fn manner(root: &Root, local: bool) -> Manner {
    match (local, root.can_ask_memory()) {
        (false, _) => Manner::Remote,
        (true, true) => Manner::Cached,
        (true, false) => Manner::Blocking,
    }
}

/// In a process that proves the sandbox: tells the parent which document roots cannot be looked into, so that it can say so
/// before a client meets it.
pub(super) fn try_roots(born: &Born<WorkerSlice>) {
    for (directory, base) in (0..).zip(config::directories(&born.slice.sites).0) {
        if born.cell.local.get(usize::from(directory)) != Some(&true) {
            continue;
        }
        let path = born.confined.inside.path(&base.path);
        let tried = Root::open(&path, links(base.symlinks), born.cell.identity.rootless).and_then(|root| root.enter());
        if let Err(fault) = tried {
            let errno = fault.raw_os_error().unwrap_or(0);
            let _ = born.parent.send(&ToParent::Unusable { directory, errno }, &[]);
        }
    }
}

/// The key of what a look-up led to, where the path of the request does not say it: no path holds NUL, nor do keys meet.
pub(super) fn key(lookup: Lookup<'_>) -> Vec<u8> {
    let mut key = vec![0];
    key.extend_from_slice(&lookup.root.0.to_ne_bytes());
    key.extend_from_slice(lookup.path);
    key
}

/// Reads a file that was opened, if it is small enough for memory. What was read is of one version: where the file was written to
/// meanwhile, it is read again.
///
/// # Errors
/// The errno of pread(2) or fstat(2); `ResourceBusy` for a file that is written to all the time.
pub(super) fn content(opened: Opened) -> io::Result<(Content, Stat)> {
    let Opened { file, mut stat } = opened;
    for _ in 0..READ_TRIES {
        let Some(size) = usize::try_from(stat.size).ok().filter(|size| *size <= MEMORY_MAX) else {
            return Ok((Content::Open(file), stat));
        };
        let bytes = file::read(&file, size)?;
        let after = file::stat(&file)?;
        if after == stat {
            return Ok((Content::Memory(bytes.into_boxed_slice().into()), stat));
        }
        stat = after;
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// How long what a look-up led to is believed, in milliseconds.
pub(super) fn age(changes: &ResponseChanges) -> u64 {
    changes.cache.map_or(FRESH_MS, millis)
}

/// Whether nothing stood beside a file: nothing does as long as its directory is as it was. What stands there is another file, which may change
/// by itself.
fn is_alone(file: &Served) -> bool {
    file.variants.is_explored() && !file.variants.has_siblings()
}

/// Largest file held in memory. Up to here one writev(2) of head and content costs less than to have the kernel send page by page with
/// sendfile(2).
const MEMORY_MAX: usize = 128 * 1024;

/// How often a file that is being written to is read.
const READ_TRIES: u8 = 8;

/// Bytes of all that is remembered, without encoded forms. A file larger than [`MEMORY_MAX`] holds a descriptor besides.
const BYTES_MAX: usize = 32 * 1024 * 1024;
