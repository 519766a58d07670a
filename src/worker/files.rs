//! Files beneath the document roots: look-ups, and the cache of what was served last.
//!
//! An entry stands for what a path of a site led to, its index file included, and is believed for a second; then, and
//! for a site with rules at once, the look-up is made again and, where the file is the same, the content kept. Small
//! files are held in memory, large ones open. A changed file is never served with another's head: head and content are
//! made from one descriptor.

use super::cache::{Cache, Cost};
use super::served::{Budget, Content, Served};
use crate::config::{self, Site, WorkerSlice};
use crate::ipc::birth::Born;
use crate::ipc::disk::{Outcome, is_path, links};
use crate::ipc::lines;
use crate::ipc::messages::ToParent;
use crate::proto::status::Status;
use crate::site::plan::{Answer, Lookup};
use crate::sys::confine::Confined;
use crate::sys::directory::Directory;
use crate::sys::file::{self, Found, Opened, Root, Stat};
use std::io;
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
    cache: Cache<Rc<Served>>,
    /// Of the encoded forms of files.
    pub(super) budget: Rc<Budget>,
}

impl Files {
    /// Opens the directories that the sites serve from, in the order of their numbers.
    ///
    /// # Errors
    /// Names the root, with the errno.
    pub(super) fn open(sites: &[Site], confined: &Confined, rootless: bool, descriptors: usize) -> Result<Files, String> {
        let mut roots = Vec::new();
        let bases = config::directories(sites).0;
        for base in &bases {
            let path = confined.inside.path(&base.path);
            let root = Root::open(&path, links(base.symlinks), rootless);
            roots.push(Rc::new(root.map_err(|fault| format!("root \"{}\": {fault}", base.path.display()))?));
        }
        let manner =
            |root: &Rc<Root>| root.is_local().map_or(Manner::Blocking, |local| if local { Manner::Cached } else { Manner::Remote });
        let manners = roots.iter().map(manner).collect();
        let names = bases.into_iter().map(|base| base.path).collect();
        let for_siblings = descriptors / 4;
        let cache = Cache::new(sites.len(), Cost { bytes: BYTES_MAX, descriptors: descriptors - for_siblings });
        Ok(Files { roots, manners, names, cache, budget: Budget::new(for_siblings) })
    }

    /// Whether this process may look into the root of a site.
    pub(super) fn enter(&self, site: usize) -> io::Result<()> {
        self.roots.get(site).map_or(Ok(()), |root| root.enter())
    }

    /// What a path was found to lead to within the last second.
    pub(super) fn fresh(&self, site: usize, path: &[u8], now: u64) -> Option<&Rc<Served>> {
        self.cache.fresh(site, path, now, FRESH_MS)
    }

    /// Whether this file as it is was served under this path before.
    pub(super) fn is_known(&self, site: usize, path: &[u8], stat: &Stat) -> bool {
        self.cache.last(site, path).is_some_and(|file| file.stat == *stat)
    }

    /// The same file as it was served under this path before, if it has not changed since.
    pub(super) fn unchanged(&mut self, site: usize, path: &[u8], stat: &Stat, now: u64) -> Option<Rc<Served>> {
        let file = self.cache.last(site, path).filter(|file| file.stat == *stat).cloned()?;
        self.cache.validate(site, path, now);
        Some(file)
    }

    /// Remembers what a path led to.
    pub(super) fn remember(&mut self, site: usize, path: &[u8], file: &Rc<Served>, now: u64) {
        let descriptors = usize::from(matches!(file.content, Content::Open(_)));
        self.cache.insert(site, path, Rc::clone(file), Cost { bytes: file.memory(), descriptors }, now);
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
        let refusing = if matches!(found, Found::Denied) { root.refusing_component(lookup.path) } else { lookup.path };
        Some(self.answer(Lookup { path: refusing, ..lookup }, found))
    }

    /// As [`Files::find`], where a disk has just answered for what stands beside: waits for it.
    pub(super) fn find_beside(&self, lookup: Lookup<'_>) -> (Answer<Opened>, Option<String>) {
        self.find(lookup).unwrap_or_else(|| match self.roots.get(lookup.root.0) {
            Some(root) => self.answer(lookup, root.find(lookup.path)),
            None => (Answer::Missing, None),
        })
    }

    /// What `files` says of a path.
    pub(super) fn told(&self, lookup: Lookup<'_>, outcome: Outcome, opened: Option<Opened>) -> (Answer<Opened>, Option<String>) {
        let found = match outcome {
            Outcome::File(_) => opened.map_or(Found::Busy, Found::File),
            Outcome::Directory => Found::Directory,
            Outcome::Missing | Outcome::Changed => Found::Missing,
            Outcome::Denied { .. } => Found::Denied,
            Outcome::NotRegular => Found::NotRegular,
            Outcome::Busy | Outcome::Warm => Found::Busy,
            Outcome::Failed { errno } => Found::Failed(io::Error::from_raw_os_error(i32::from(errno))),
        };
        let refusing = match outcome {
            Outcome::Denied { length } => lookup.path.get(..usize::from(length)).unwrap_or(lookup.path),
            Outcome::File(_)
            | Outcome::Directory
            | Outcome::Missing
            | Outcome::NotRegular
            | Outcome::Busy
            | Outcome::Failed { .. }
            | Outcome::Warm
            | Outcome::Changed => lookup.path,
        };
        self.answer(Lookup { path: refusing, ..lookup }, found)
    }

    /// How the root of a look-up may be asked.
    pub(super) fn manner(&self, lookup: Lookup<'_>) -> Manner {
        self.manners.get(lookup.root.0).copied().unwrap_or(Manner::Blocking)
    }

    fn answer(&self, lookup: Lookup<'_>, found: Found) -> (Answer<Opened>, Option<String>) {
        let name = || self.name(lookup);
        match found {
            Found::File(opened) => (Answer::File(opened), None),
            Found::Directory => (Answer::Directory, None),
            Found::Missing => (Answer::Missing, None),
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

    /// Opens a directory for reading its entries; its root comes with it.
    ///
    /// # Errors
    /// The status to answer and a text for the error log.
    pub(super) fn open_directory(&self, lookup: Lookup<'_>) -> Result<(Rc<Root>, Directory), (Status, String)> {
        let root = self.roots.get(lookup.root.0).ok_or_else(|| (Status::NOT_FOUND, format!("list {}: no such root", self.name(lookup))))?;
        let directory = Directory::open(root, lookup.path).map_err(|fault| {
            let kind = fault.kind();
            let status = if kind == io::ErrorKind::PermissionDenied {
                Status::FORBIDDEN
            } else if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                // Gone since it was looked up.
                Status::NOT_FOUND
            } else if is_shortage(&fault) {
                Status::SERVICE_UNAVAILABLE
            } else {
                Status::INTERNAL_SERVER_ERROR
            };
            (status, format!("list {}: {fault}", self.name(lookup)))
        })?;
        Ok((Rc::clone(root), directory))
    }
}

/// In a process that proves the sandbox: tells the parent which document roots cannot be looked into, so that it can say so
/// before a client meets it.
pub(super) fn try_roots(born: &Born<WorkerSlice>) {
    for (directory, base) in (0..).zip(config::directories(&born.slice.sites).0) {
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
            return Ok((Content::Memory(bytes.into_boxed_slice()), stat));
        }
        stat = after;
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Descriptors or memory ran out: not the file's fault, and over soon.
fn is_shortage(fault: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(fault.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE))
}

/// How long a look-up is believed.
pub(super) const FRESH_MS: u64 = 1_000;

/// Largest file held in memory.
const MEMORY_MAX: usize = 64 * 1024;

/// How often a file that is being written to is read.
const READ_TRIES: u8 = 8;

/// Bytes of all that is remembered, without encoded forms. A file larger than [`MEMORY_MAX`] holds a descriptor besides.
const BYTES_MAX: usize = 32 * 1024 * 1024;
