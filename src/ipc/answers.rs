//! What `files` answers: from what the kernel says of a path to what a message can say of it. Runs in `files`, which waits for disks.

use super::disk::{Act, BEGINNING, Outcome, Request, SUFFIXES};
use super::entries::{Cursor, Entries, Entry};
use crate::sys::directory::{self, Directory};
use crate::sys::file::{Found, Opened, Root, Stat, Unfollowed};
use crate::sys::page_cache;
use std::io;

/// Carries out a request; what it opened is sent with the answer, in this order. No names are told of a root that no site lists: only
/// a worker that was taken over asks for them.
pub fn of(root: &Root, lists: bool, request: &Request) -> (Outcome, Vec<Opened>) {
    match request.act {
        Act::Open => open(root, &request.path),
        Act::Warm { device, inode, offset, length } => (warm(root, &request.path, (device, inode), offset, u64::from(length)), Vec::new()),
        Act::List { .. } if !lists => (failed(&directory::refused()), Vec::new()),
        Act::List { from } => (list(root, &request.path, from), Vec::new()),
        Act::Beside => beside(root, &request.path),
    }
}

/// Opens what stands at a path, and reads its beginning into memory.
fn open(root: &Root, path: &[u8]) -> (Outcome, Vec<Opened>) {
    let outcome = match root.find(path) {
        Found::File(opened) => {
            // What cannot be read, the worker finds out itself.
            let _ = page_cache::bring(&opened.file, 0, opened.stat.size.min(BEGINNING));
            return (Outcome::File(opened.stat), vec![opened]);
        }
        Found::Directory => Outcome::Directory,
        Found::Missing => Outcome::Missing,
        Found::Unfollowed(Unfollowed { length, why }) => Outcome::Unfollowed { length: u16::try_from(length).unwrap_or(u16::MAX), why },
        Found::Denied => Outcome::Denied { length: u16::try_from(root.refusing_component(path).len()).unwrap_or(u16::MAX) },
        Found::NotRegular => Outcome::NotRegular,
        Found::Busy => Outcome::Busy,
        Found::Failed(fault) => failed(&fault),
    };
    (outcome, Vec::new())
}

/// Opens what stands beside a file under its name and a suffix.
fn beside(root: &Root, path: &[u8]) -> (Outcome, Vec<Opened>) {
    let mut opened = Vec::new();
    let found = SUFFIXES.map(|suffix| {
        let sibling = open(root, &[path, suffix.as_bytes()].concat()).1.pop()?;
        opened.push(sibling);
        opened.last().map(|sibling| sibling.stat)
    });
    (Outcome::Beside(Box::new(found)), opened)
}

/// Reads a batch of entries, if it is still the same directory.
fn list(root: &Root, path: &[u8], from: Option<Cursor>) -> Outcome {
    let read = Directory::open(root, path).and_then(|directory| {
        let Stat { device, inode, .. } = directory.stat;
        if from.is_some_and(|from| (from.device, from.inode) != (device, inode)) {
            return Ok(Outcome::Changed);
        }
        let batch = directory.batch(from.map(|from| from.offset))?;
        let next = batch.next.map(|offset| Cursor { device, inode, offset });
        let entries = directory.entries(root, &batch);
        let shown =
            entries.iter().map(|entry| Entry { name: &entry.name, directory: entry.directory, size: entry.size, modified: entry.modified });
        Ok(Outcome::Entries(Entries::new(next, shown)))
    });
    read.unwrap_or_else(|fault| failed(&fault))
}

/// Reads a part of the file that a worker has open into memory, if it still stands at its path.
fn warm(root: &Root, path: &[u8], file: (u64, u64), offset: u64, length: u64) -> Outcome {
    let Found::File(opened) = root.find(path) else { return Outcome::Changed };
    if (opened.stat.device, opened.stat.inode) != file {
        return Outcome::Changed;
    }
    match page_cache::bring(&opened.file, offset, length) {
        Ok(()) => Outcome::Warm,
        Err(fault) => failed(&fault),
    }
}

fn failed(fault: &io::Error) -> Outcome {
    Outcome::Failed { errno: fault.raw_os_error().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0) }
}
