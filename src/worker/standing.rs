//! Cached files that need no look-up to be believed again: what stands in a directory that has not changed is what stood there.
//!
//! Runs in the worker, and asks only what the kernel has in memory. A directory is looked at once a second for all files in it; of each
//! file that is asked for only its descriptor is looked at besides. A change of names, links or permissions on the way shows in the
//! directory, one of the file itself in its own times. Where descriptors are few, the file is found by its name for that.

use super::cache::FRESH_MS;
use crate::site::lookup::Lookup;
use crate::sys::file::{self, Root, Stat};
use crate::sys::place::{self, Place};
use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The directories in which cached files stand.
#[derive(Default)]
pub(super) struct Grounds {
    known: HashMap<(usize, Box<[u8]>), Rc<Ground>>,
    /// Descriptors of files whose content is in memory, and how many there may be.
    held: Rc<Cell<usize>>,
    held_max: usize,
    /// How many directories are remembered before those that nothing stands in are forgotten.
    room: usize,
}

/// A directory.
struct Ground {
    root: usize,
    path: Box<[u8]>,
    /// What it was when it was last looked at, and when that was (monotonic milliseconds).
    seen: Cell<(Option<Stat>, u64)>,
}

/// That a file stood in a directory.
pub(super) struct Standing {
    ground: Rc<Ground>,
    /// What the directory was then.
    then: Stat,
    file: File,
}

/// How a file is looked at.
enum File {
    Open { file: Rc<OwnedFd>, _held: Option<Held> },
    Name(Box<[u8]>),
}

/// One of the descriptors that are held.
struct Held(Rc<Cell<usize>>);

impl Grounds {
    pub(super) fn new(descriptors: usize) -> Grounds {
        Grounds { held_max: descriptors, room: ROOM_MIN, ..Grounds::default() }
    }

    /// In which directory a file stands that was just opened there, and is described by `file`; `keeps`: whether its descriptor is kept in any
    /// case. `None` of a directory that changed a moment ago: the next change might fall on the same tick of its clock.
    pub(super) fn note(
        &mut self,
        root: &Root,
        lookup: Lookup<'_>,
        file: (&Rc<OwnedFd>, &Stat),
        keeps: bool,
        time: (u64, i64),
    ) -> Option<Standing> {
        let ((now, unix), (path, name)) = (time, split(lookup.path));
        let ground = self.ground(lookup.root.0, path);
        let (seen, since) = ground.seen.get();
        if name.is_empty() || (now.saturating_sub(since) < FRESH_MS && !seen.is_some_and(|stat| is_settled(&stat, unix))) {
            return None;
        }
        let place = Place::open(root, path);
        ground.seen.set((place.as_ref().map(|place| place.stat), now));
        let place = place.filter(|place| is_settled(&place.stat, unix) && place.names(name, file.1))?;
        let file = match self.hold() {
            _ if keeps => File::Open { file: Rc::clone(file.0), _held: None },
            Some(held) => File::Open { file: Rc::clone(file.0), _held: Some(held) },
            None => File::Name(lookup.path.into()),
        };
        Some(Standing { ground, then: place.stat, file })
    }

    /// The right to one more descriptor.
    fn hold(&self) -> Option<Held> {
        let held = self.held.get();
        (held < self.held_max).then(|| {
            self.held.set(held + 1);
            Held(Rc::clone(&self.held))
        })
    }

    fn ground(&mut self, root: usize, path: &[u8]) -> Rc<Ground> {
        if self.known.len() >= self.room {
            self.known.retain(|_, ground| Rc::strong_count(ground) > 1);
            self.room = (self.known.len() * 2).max(ROOM_MIN);
        }
        let ground = || Rc::new(Ground { root, path: path.into(), seen: Cell::new((None, 0)) });
        Rc::clone(self.known.entry((root, path.into())).or_insert_with(ground))
    }
}

impl Standing {
    /// Since when the file is known to stand where it stood, and as it was: a moment within the last second. `None`: it has to be looked up.
    pub(super) fn since(&self, stat: &Stat, roots: &[Rc<Root>], now: u64) -> Option<u64> {
        let since = self.ground.unchanged(&self.then, roots, now)?;
        let found = match &self.file {
            File::Open { file, .. } => file::stat(file).ok()?,
            File::Name(path) => place::stat(roots.get(self.ground.root)?, path)?,
        };
        (found == *stat).then_some(since)
    }

    /// Whether no name beside it has changed since: what was missing is missing.
    pub(super) fn is_alone(&self, roots: &[Rc<Root>], now: u64) -> bool {
        self.ground.unchanged(&self.then, roots, now).is_some()
    }
}

impl Ground {
    /// When it was last seen to be as it was `then`, looking again if that was too long ago.
    fn unchanged(&self, then: &Stat, roots: &[Rc<Root>], now: u64) -> Option<u64> {
        let (mut seen, mut since) = self.seen.get();
        if now.saturating_sub(since) >= FRESH_MS {
            (seen, since) = (Place::open(roots.get(self.root)?, &self.path).map(|place| place.stat), now);
            self.seen.set((seen, since));
        }
        (seen.as_ref() == Some(then)).then_some(since)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', path) {
        Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default()),
        None => (&[], path),
    }
}

/// Whether its last change lies far enough back that the next one has another time, on file systems that count in two seconds (FAT) too.
fn is_settled(directory: &Stat, unix: i64) -> bool {
    unix.saturating_sub(directory.changed) > SETTLED_S
}

/// Seconds since a directory was changed before its times tell of the next change.
const SETTLED_S: i64 = 2;

/// Directories that are remembered in any case.
const ROOM_MIN: usize = 1024;
