//! Files beneath a document root: the one resolver for every look-up, and reading. Runs in workers and in `files`: the former ask for
//! what the kernel has in memory, the latter waits for the disk.
//!
//! openat2(2). The fast path refuses symbolic links in the kernel; only where it meets one (`ELOOP`) and the policy asks
//! about owners are the components walked one by one, each held open, so that no renaming changes what was checked.
//! Nothing here takes `.` or `..` from a request: `proto` has resolved them.

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::libc;
use nix::sys::stat::{FileStat, fstat};
use nix::sys::statfs::{Statfs, fstatfs, statfs};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Never,
    /// Link and target have the same owner, and the target lies beneath the root.
    SameOwner,
    /// The target lies beneath the root.
    Inside,
    /// Whatever this process can see.
    Any,
}

/// A document root, held open.
pub struct Root {
    directory: OwnedFd,
    /// Where the root is a single file: its name in `directory`.
    file: Option<Vec<u8>>,
    path: PathBuf,
    links: Links,
    /// The owner that stands for every user this process's namespace does not map, and so is nobody's.
    nobody: Option<u32>,
}

/// What the kernel says of a file, taken from its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Seconds since the epoch.
    pub modified: i64,
    pub modified_ns: i64,
    pub changed: i64,
    pub changed_ns: i64,
}

/// A regular file open for reading, by whoever asked for it at the same time.
#[derive(Clone, Debug)]
pub struct Opened {
    pub file: Rc<OwnedFd>,
    pub stat: Stat,
}

/// What stands at a path.
pub enum Found {
    File(Opened),
    Directory,
    /// Nothing, or a link that the policy does not follow.
    Missing,
    /// The permissions refuse it (`EACCES`).
    Denied,
    /// A FIFO, device or socket.
    NotRegular,
    /// Renaming went on for as long as was tried (`EAGAIN`).
    Busy,
    Failed(io::Error),
}

impl Root {
    /// Opens a document root, `path` as this process sees it; `links` is the policy for everything beneath.
    ///
    /// # Errors
    /// The errno of openat2(2).
    pub fn open(path: &Path, links: Links, rootless: bool) -> io::Result<Root> {
        let how = |flags| OpenHow::new().flags(flags | OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let (directory, file) = match openat2(nix::fcntl::AT_FDCWD, path, how(OFlag::O_DIRECTORY)) {
            Err(Errno::ENOTDIR) => {
                let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::ENOTDIR)?;
                (openat2(nix::fcntl::AT_FDCWD, parent, how(OFlag::O_DIRECTORY))?, Some(name.as_bytes().to_vec()))
            }
            result => (result?, None),
        };
        // /proc/sys/kernel/overflowuid is 65534 everywhere; inside the jail it cannot be read.
        Ok(Root { directory, file, path: path.to_owned(), links, nobody: rootless.then_some(65534) })
    }

    /// Whether this process may look into the root at all.
    ///
    /// # Errors
    /// The errno of openat2(2).
    pub fn enter(&self) -> io::Result<()> {
        Ok(openat2(&self.directory, ".", OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC)).map(drop)?)
    }

    /// What stands at `path`, which is relative, without dot segments; empty: the root itself.
    pub fn find(&self, path: &[u8]) -> Found {
        self.look(path, ResolveFlag::empty()).unwrap_or_else(not_found)
    }

    /// As [`Root::find`], from what the kernel has in memory. `None`: a disk would have to be waited for, or the path leads
    /// over a mount, behind which another file system may be one that does not answer.
    pub fn find_cached(&self, path: &[u8]) -> Option<Found> {
        match self.look(path, CACHED) {
            Err(Errno::EAGAIN | Errno::EXDEV) => None,
            result => Some(result.unwrap_or_else(not_found)),
        }
    }

    /// Whether [`Root::find_cached`] can be asked: the file system is one of local disks or memory, whose open(2) itself waits
    /// for nobody. One that is not known here may ask a server or another process.
    ///
    /// # Errors
    /// `EINVAL`: the kernel is older than Linux 5.12, which brings RESOLVE_CACHED; or the errno of fstatfs(2).
    pub fn is_local(&self) -> io::Result<bool> {
        // Any other errno: not in memory, or not to be entered; the kernel has understood.
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(CACHED);
        if openat2(&self.directory, ".", how).err() == Some(Errno::EINVAL) {
            return Err(Errno::EINVAL.into());
        }
        Ok(is_local(&fstatfs(&self.directory)?))
    }

    fn look(&self, path: &[u8], also: ResolveFlag) -> nix::Result<Found> {
        let path = match &self.file {
            Some(name) if path.is_empty() => name.as_slice(),
            Some(_) => return Ok(Found::Missing),
            None if path.is_empty() => return Ok(Found::Directory),
            None => path,
        };
        match self.resolve_under(path, READ, also) {
            Ok(file) => Ok(regular(file)),
            // Without the right to read directories one is refused like a file without permission; and a device like either.
            Err(Errno::EACCES) => self.look_refused(path, also),
            Err(Errno::ENXIO) => Ok(Found::NotRegular),
            Err(errno) => Err(errno),
        }
    }

    fn look_refused(&self, path: &[u8], also: ResolveFlag) -> nix::Result<Found> {
        let kind = self.resolve_under(path, OFlag::O_PATH, also).and_then(fstat).map(|stat| stat.st_mode & libc::S_IFMT)?;
        Ok(match kind {
            libc::S_IFDIR => Found::Directory,
            libc::S_IFREG => Found::Denied,
            _ => Found::NotRegular,
        })
    }

    /// The longest leading part of `path` that this process may enter or see: what to name where permission is refused.
    pub fn refusing_component<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            let part = path.get(..end).unwrap_or(path);
            let Ok(found) = self.resolve(part, OFlag::O_PATH) else {
                return part;
            };
            if fstat(&found).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
                && openat2(&found, ".", OpenHow::new().flags(OFlag::O_PATH)).is_err()
            {
                return part;
            }
        }
        path
    }

    /// Opens a directory for reading its entries; empty: the root itself.
    pub(super) fn open_directory(&self, path: &[u8]) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        if path.is_empty() { openat2(&self.directory, ".", OpenHow::new().flags(flags)) } else { self.resolve(path, flags) }
    }

    /// Opens `path` by the policy on links.
    pub(super) fn resolve(&self, path: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
        self.resolve_under(path, flags, ResolveFlag::empty())
    }

    /// The same under the restrictions of `also`.
    fn resolve_under(&self, path: &[u8], flags: OFlag, also: ResolveFlag) -> nix::Result<OwnedFd> {
        let beneath = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS | also;
        match self.links {
            Links::Never => self.open_with(path, flags, beneath | ResolveFlag::RESOLVE_NO_SYMLINKS),
            Links::Inside => self.open_with(path, flags, beneath),
            Links::Any => self.open_with(path, flags, ResolveFlag::RESOLVE_NO_MAGICLINKS | also),
            Links::SameOwner => match self.open_with(path, flags, beneath | ResolveFlag::RESOLVE_NO_SYMLINKS) {
                Err(Errno::ELOOP) => Walk::new(self, also).to(path, flags),
                result => result,
            },
        }
    }

    /// A link with `..` in it is answered with `EAGAIN` while anyone renames anything on the system: tried again, unless the same
    /// errno says that the disk would have to be waited for.
    fn open_with(&self, path: &[u8], flags: OFlag, resolve: ResolveFlag) -> nix::Result<OwnedFd> {
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve);
        let tries = if resolve.contains(CACHED) { 1 } else { TRIES };
        for _ in 0..tries {
            match openat2(&self.directory, OsStr::from_bytes(path), how) {
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                result => return result,
            }
        }
        Err(Errno::EAGAIN)
    }
}

/// Whether a path leads to a file system of local disks or memory, which no server can keep waiting.
pub fn is_on_local_disk(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| is_local(&found))
}

fn is_local(found: &Statfs) -> bool {
    // The word is signed on some architectures, and wider than the numbers.
    u64::try_from(found.filesystem_type().0 & 0xFFFF_FFFF).is_ok_and(|kind| LOCAL.contains(&kind))
}

/// A walk from component to component that follows a link only where link and target have the same owner.
struct Walk<'r> {
    root: &'r Root,
    also: ResolveFlag,
    /// Directories entered, beneath the root.
    entered: Vec<OwnedFd>,
    /// Components still to go, last first.
    ahead: Vec<Ahead>,
    followed: u8,
}

enum Ahead {
    Component(Vec<u8>),
    /// All of a link's target has been walked: what was reached must have this owner.
    EndOfLink(u32),
}

impl<'r> Walk<'r> {
    fn new(root: &'r Root, also: ResolveFlag) -> Walk<'r> {
        Walk { root, also, entered: Vec::new(), ahead: Vec::new(), followed: 0 }
    }

    fn to(mut self, path: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
        self.push(path);
        // What the last component named, still as an O_PATH descriptor, and the directory and name it was found by.
        let mut reached: Option<(OwnedFd, Vec<u8>)> = None;
        while let Some(next) = self.ahead.pop() {
            match next {
                Ahead::EndOfLink(owner) => {
                    let stat = reached.as_ref().map_or_else(|| fstat(self.here()), |(file, _)| fstat(file))?;
                    if stat.st_uid != owner || self.root.nobody == Some(owner) {
                        return Err(Errno::ELOOP);
                    }
                }
                Ahead::Component(name) => {
                    if let Some((file, _)) = reached.take() {
                        self.entered.push(file);
                    }
                    reached = self.step(&name)?;
                }
            }
        }
        self.reopen(reached, flags)
    }

    /// Takes one component. `None`: a link whose target is now ahead, or a step upwards.
    fn step(&mut self, name: &[u8]) -> nix::Result<Option<(OwnedFd, Vec<u8>)>> {
        if name == b".." {
            return self.entered.pop().map(|_| None).ok_or(Errno::EXDEV);
        }
        let file = self.open_component(name, OFlag::O_PATH)?;
        let stat = fstat(&file)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
            return Ok(Some((file, name.to_vec())));
        }
        self.followed += 1;
        if self.followed > LINKS_MAX {
            return Err(Errno::ELOOP);
        }
        // Read from the very link that was looked at, not by its name again.
        let target = readlinkat(&file, "")?.into_vec();
        self.ahead.push(Ahead::EndOfLink(stat.st_uid));
        if target.first() == Some(&b'/') {
            let rest = Path::new(OsStr::from_bytes(&target)).strip_prefix(&self.root.path).map_err(|_| Errno::EXDEV)?;
            self.entered.clear();
            self.push(rest.as_os_str().as_bytes());
        } else {
            self.push(&target);
        }
        Ok(None)
    }

    /// Opens what was reached for use, by its name in the directory that is held, and makes sure that it is the same.
    fn reopen(&self, reached: Option<(OwnedFd, Vec<u8>)>, flags: OFlag) -> nix::Result<OwnedFd> {
        let Some((found, name)) = reached else {
            return openat2(self.here(), ".", OpenHow::new().flags(flags | OFlag::O_CLOEXEC));
        };
        if flags.contains(OFlag::O_PATH) {
            return Ok(found);
        }
        let opened = self.open_component(&name, flags)?;
        let same = |a: FileStat, b: FileStat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        if same(fstat(&found)?, fstat(&opened)?) { Ok(opened) } else { Err(Errno::EAGAIN) }
    }

    fn open_component(&self, name: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
        let how = OpenHow::new()
            .flags(flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS | self.also);
        openat2(self.here(), OsStr::from_bytes(name), how)
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.entered.last().map_or_else(|| self.root.directory.as_fd(), AsFd::as_fd)
    }

    fn push(&mut self, path: &[u8]) {
        let components = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
        self.ahead.extend(components.rev().map(|name| Ahead::Component(name.to_vec())));
    }
}

/// What the kernel says now of a file that is open.
///
/// # Errors
/// The errno of fstat(2).
pub fn stat(file: &OwnedFd) -> io::Result<Stat> {
    Ok(Stat::from(&fstat(file)?))
}

/// Reads from a place of a file; 0: it is not that long.
///
/// # Errors
/// The errno of pread(2).
pub fn read_at(file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(nix::sys::uio::pread(file, buffer, offset)?)
}

/// Reads a whole small file; fewer bytes than `length` when it has become shorter.
///
/// # Errors
/// The errno of pread(2).
pub fn read(file: &OwnedFd, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let count = nix::sys::uio::pread(file, rest, i64::try_from(filled).unwrap_or(i64::MAX))?;
        if count == 0 {
            break;
        }
        filled += count;
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn regular(file: OwnedFd) -> Found {
    let stat = match fstat(&file) {
        Ok(stat) => stat,
        Err(errno) => return Found::Failed(errno.into()),
    };
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => Found::File(Opened { file: Rc::new(file), stat: Stat::from(&stat) }),
        libc::S_IFDIR => Found::Directory,
        _ => Found::NotRegular,
    }
}

fn not_found(errno: Errno) -> Found {
    #[expect(clippy::wildcard_enum_match_arm, reason = "errno is the kernel's enumeration, and grows with it")]
    match errno {
        // A link that the policy refuses is not there, as far as a client can tell (ELOOP, EXDEV).
        Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG | Errno::ELOOP | Errno::EXDEV | Errno::EINVAL => Found::Missing,
        Errno::EACCES | Errno::EPERM => Found::Denied,
        Errno::EAGAIN => Found::Busy,
        errno => Found::Failed(errno.into()),
    }
}

impl From<&FileStat> for Stat {
    fn from(stat: &FileStat) -> Stat {
        Stat {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: stat.st_mtime,
            modified_ns: stat.st_mtime_nsec,
            changed: stat.st_ctime,
            changed_ns: stat.st_ctime_nsec,
        }
    }
}

/// For reading: a FIFO must not block the worker, a terminal not become its own.
pub(super) const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);

/// Only from memory, and on the file system of the root: what openat2(2) calls RESOLVE_CACHED, which nix has no name for.
const CACHED: ResolveFlag = ResolveFlag::from_bits_retain(0x20).union(ResolveFlag::RESOLVE_NO_XDEV);

/// File systems whose look-ups and open(2) wait for a local disk at most (linux/magic.h): ext2 to ext4, xfs, btrfs, f2fs, zfs,
/// bcachefs, tmpfs, ramfs, overlayfs, squashfs, erofs, isofs, msdos, exfat, ntfs3, jfs.
const LOCAL: [u64; 16] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0xCA45_1A4E,
    0x0102_1994,
    0x8584_58F6,
    0x794C_7630,
    0x7371_7368,
    0xE0F5_E1E2,
    0x9660,
    0x4D44,
    0x2011_BAB0,
    0x7366_746E,
    0x3153_464A,
];

/// How often an open that met a renaming is tried.
const TRIES: u8 = 16;

/// Links followed for one path, as in the kernel (path_resolution(7)).
const LINKS_MAX: u8 = 40;
