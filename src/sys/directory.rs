//! Directories read batch by batch, with what a list shows of each entry. Runs in `files`.
//!
//! Between two batches nothing is held: the next one opens the directory again and goes on at the place that the file system gave. What a request for an
//! entry would be refused is left out, as far as the kernel decides it: special files, links that the policy does not follow, what
//! this process may not read or enter.

use super::file::{READ, Root, Stat};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, openat2};
use nix::libc;
use nix::sys::stat::{fstat, fstatat};
use nix::unistd::{Whence, lseek};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// A directory being read.
pub struct Directory {
    open: OwnedFd,
    /// Its own number and times.
    pub stat: Stat,
    /// Beneath its root.
    path: Vec<u8>,
}

/// Some entries, as the kernel packs them.
pub struct Batch {
    records: Vec<u8>,
    /// Where to go on; `None`: there are no more.
    pub next: Option<u64>,
}

/// One entry of a directory, never `.` or `..`.
pub struct DirectoryEntry {
    pub name: Vec<u8>,
    pub directory: bool,
    pub size: u64,
    pub modified: i64,
}

impl Directory {
    /// Opens the directory at `path`, which is relative, without dot segments; empty: the root itself.
    ///
    /// # Errors
    /// The errno of openat2(2).
    pub fn open(root: &Root, path: &[u8]) -> io::Result<Directory> {
        let open = root.open_directory(path)?;
        let stat = Stat::from(&fstat(&open)?);
        Ok(Directory { open, stat, path: path.to_vec() })
    }

    /// The entries from a place on that an earlier batch named, or from the first: as many as [`RECORDS`] bytes hold.
    ///
    /// # Errors
    /// The errno of lseek(2) or getdents64(2).
    pub fn batch(&self, from: Option<u64>) -> io::Result<Batch> {
        if let Some(from) = from {
            lseek(&self.open, i64::try_from(from).map_err(|_| io::ErrorKind::InvalidInput)?, Whence::SeekSet)?;
        }
        let (mut records, mut length, mut next) = (vec![0; RECORDS], 0, from);
        while let Some(room) = records.get_mut(length..).filter(|room| room.len() >= RECORD_MAX) {
            let count = match read_records(&self.open, room) {
                // Removed while it was read: nothing is in it any more.
                Err(Errno::ENOENT) => 0,
                result => result?,
            };
            if count == 0 {
                next = None;
                break;
            }
            next = last_offset(room.get(..count).unwrap_or_default());
            length += count;
        }
        records.truncate(length);
        Ok(Batch { records, next })
    }

    /// The entries of a batch that are shown.
    pub fn entries(&self, root: &Root, batch: &Batch) -> Vec<DirectoryEntry> {
        let names = names(&batch.records).filter(|name| *name != b"." && *name != b"..");
        names.filter_map(|name| self.describe(root, name)).collect()
    }

    /// One entry; `None` for what a request for it would be refused.
    fn describe(&self, root: &Root, name: &[u8]) -> Option<DirectoryEntry> {
        let full = || if self.path.is_empty() { name.to_vec() } else { [&self.path, &b"/"[..], name].concat() };
        let mut stat = fstatat(&self.open, OsStr::from_bytes(name), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        if stat.st_mode & libc::S_IFMT == libc::S_IFLNK {
            stat = fstat(root.resolve(&full(), OFlag::O_PATH).ok()?).ok()?;
        }
        let kind = stat.st_mode & libc::S_IFMT;
        let open_to_all = match kind {
            libc::S_IFREG => stat.st_mode & 0o444 == 0o444,
            libc::S_IFDIR => stat.st_mode & 0o111 == 0o111,
            _ => return None,
        };
        let directory = kind == libc::S_IFDIR;
        if !open_to_all && !permits(root, &full(), directory) {
            return None;
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Some(DirectoryEntry { name: name.to_vec(), directory, size, modified: stat.st_mtime })
    }
}

/// Whether this process may read a file or enter a directory, which only the kernel can say: by owner, groups and access control lists.
fn permits(root: &Root, path: &[u8], directory: bool) -> bool {
    if !directory {
        return root.resolve(path, READ).is_ok();
    }
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC);
    root.resolve(path, OFlag::O_PATH).and_then(|found| openat2(&found, ".", how)).is_ok()
}

/// Reads directory entries as the kernel packs them (getdents64(2)); 0: there are no more. The C library's directory streams would need
/// more system calls than this, and hold a buffer for each.
fn read_records(directory: &OwnedFd, records: &mut [u8]) -> nix::Result<usize> {
    // SAFETY: the kernel writes at most `records.len()` bytes at the address of `records`, which is exclusively borrowed.
    let result = unsafe { libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), records.as_mut_ptr(), records.len()) };
    Ok(usize::try_from(Errno::result(result)?).unwrap_or(0))
}

/// Where the directory goes on behind the last of such records.
fn last_offset(mut records: &[u8]) -> Option<u64> {
    let mut last = None;
    while let Some(bytes) = records.get(8..16) {
        last = bytes.try_into().ok().map(u64::from_ne_bytes);
        let length = usize::from(u16::from_ne_bytes([*records.get(16)?, *records.get(17)?]));
        records = records.get(length..).filter(|_| length > 0)?;
    }
    last
}

/// What the kernel says of a directory that may not be read.
pub fn refused() -> io::Error {
    Errno::EACCES.into()
}

/// The names in such records: inode (8 bytes), offset (8), record length (2), type (1), name, NUL.
fn names(mut records: &[u8]) -> impl Iterator<Item = &[u8]> {
    const NAME: usize = 19;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*records.get(16)?, *records.get(17)?]));
        let (record, rest) = records.split_at_checked(length).filter(|_| length > NAME)?;
        records = rest;
        record.get(NAME..)?.split(|byte| *byte == 0).next()
    })
}

/// Bytes of a batch: at most 256 entries, as the shortest record has 24, each of which costs a stat(2), some three calls more.
pub const RECORDS: usize = 256 * 24;

/// The longest record there is, of a name of 255 bytes: getdents64(2) fails with `EINVAL` where not one fits.
const RECORD_MAX: usize = 19 + 256 + 5;
