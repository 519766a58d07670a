//! Directories read batch by batch, with what a list shows of each entry. Runs in workers.
//!
//! Between two batches nothing is held but a descriptor: the kernel keeps the place. What a request for an entry would be refused is left
//! out, as far as the kernel decides it: special files, links that the policy does not follow, what this process may not read or enter.

use super::file::{READ, Root};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, openat2};
use nix::libc;
use nix::sys::stat::{fstat, fstatat};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// A directory being read.
pub struct Directory {
    open: OwnedFd,
    /// Beneath its root.
    path: Vec<u8>,
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
        Ok(Directory { open, path: path.to_vec() })
    }

    /// The next entries, at most [`BATCH`], perhaps none of those that were read; `None`: there are no more. `root` is that of
    /// [`Directory::open`].
    ///
    /// # Errors
    /// The errno of getdents64(2).
    pub fn next(&mut self, root: &Root) -> io::Result<Option<Vec<DirectoryEntry>>> {
        let mut records = [0; BATCH * RECORD_MIN];
        let length = match read_records(&self.open, &mut records) {
            // Removed while it was read: nothing is in it any more.
            Err(Errno::ENOENT) => 0,
            result => result?,
        };
        let names = names(records.get(..length).unwrap_or_default()).filter(|name| *name != b"." && *name != b"..");
        Ok((length > 0).then(|| names.filter_map(|name| self.describe(root, name)).collect()))
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

/// Entries in a batch at most: each costs a stat(2), some three calls more, and other clients wait.
pub const BATCH: usize = 256;

/// The shortest record there is: the kernel pads to eight bytes. Room for the longest one is there as well: getdents64(2) fails
/// with `EINVAL` where not one fits.
const RECORD_MIN: usize = 24;
