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
    /// `None`: it lies behind a directory that this process cannot search.
    directory: Option<OwnedFd>,
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
    Missing,
    /// A link that the policy does not follow, or by that of [`Links::Any`] one that leads nowhere: for a client the same as nothing.
    Unfollowed(Unfollowed),
    /// The permissions refuse it (`EACCES`).
    Denied,
    /// A FIFO, device or socket.
    NotRegular,
    /// Renaming went on for as long as was tried (`EAGAIN`).
    Busy,
    Failed(io::Error),
}

/// A link that was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfollowed {
    /// How many bytes of the path name it.
    pub length: usize,
    pub why: Why,
}

/// Why a link is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Never,
    Owner,
    Leaves,
    Loop,
    Nowhere,
}

impl Why {
    /// In the order of their numbers in messages.
    pub const ALL: [Why; 5] = [Why::Never, Why::Owner, Why::Leaves, Why::Loop, Why::Nowhere];

    /// What is the matter with the link.
    pub fn text(self) -> &'static str {
        match self {
            Why::Never => "no symbolic link is followed here",
            Why::Owner => "the symbolic link and its target have different owners",
            Why::Leaves => "the symbolic link leads out of the directory that is served",
            Why::Loop => "the symbolic link leads over too many links, or into /proc",
            Why::Nowhere => "the symbolic link leads to nothing that the service sees",
        }
    }
}

impl Root {
    /// Opens a document root, `path` as this process sees it; `links` is the policy for everything beneath. One that cannot be reached
    /// refuses whatever is looked up, as one does that cannot be entered: others are served all the same.
    ///
    /// # Errors
    /// The errno of openat2(2).
    pub fn open(path: &Path, links: Links, rootless: bool) -> io::Result<Root> {
        let how = |flags| OpenHow::new().flags(flags | OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let (directory, file) = match openat2(nix::fcntl::AT_FDCWD, path, how(OFlag::O_DIRECTORY)) {
            Err(Errno::ENOTDIR) => {
                let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::ENOTDIR)?;
                (Some(openat2(nix::fcntl::AT_FDCWD, parent, how(OFlag::O_DIRECTORY))?), Some(name.as_bytes().to_vec()))
            }
            Err(Errno::EACCES) => (None, None),
            result => (Some(result?), None),
        };
        // /proc/sys/kernel/overflowuid is 65534 everywhere; inside the jail it cannot be read.
        Ok(Root { directory, file, path: path.to_owned(), links, nobody: rootless.then_some(65534) })
    }

    /// Whether this process may look into the root at all.
    ///
    /// # Errors
    /// The errno of openat2(2).
    pub fn enter(&self) -> io::Result<()> {
        Ok(openat2(self.directory()?, ".", OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC)).map(drop)?)
    }

    /// The directory itself.
    pub(super) fn directory(&self) -> nix::Result<BorrowedFd<'_>> {
        self.directory.as_ref().map(AsFd::as_fd).ok_or(Errno::EACCES)
    }

    /// The policy.
    pub(super) fn links(&self) -> Links {
        self.links
    }

    /// Whether links of whatever owners lead to something beneath the root.
    pub(super) fn leads_inside(&self, path: &[u8]) -> bool {
        self.open_with(path, OFlag::O_PATH, ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS).is_ok()
    }

    /// Whether [`Root::find_cached`] can be asked: the kernel knows RESOLVE_CACHED (since Linux 5.12).
    pub fn can_ask_memory(&self) -> bool {
        // Any other errno: not in memory, or not to be entered; the kernel has understood.
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(CACHED);
        self.directory().and_then(|directory| openat2(directory, ".", how)).err() != Some(Errno::EINVAL)
    }

    pub(super) fn look(&self, path: &[u8], also: ResolveFlag) -> nix::Result<Found> {
        let path = match &self.file {
            Some(name) if path.is_empty() => name.as_slice(),
            Some(_) => return Ok(Found::Missing),
            None if path.is_empty() => return self.directory().map(|_| Found::Directory),
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

    /// What a program is, whose file this process need not be able to read: device, inode and owner.
    ///
    /// # Errors
    /// The errno of openat2(2) or fstat(2).
    pub fn program(&self, path: &[u8]) -> io::Result<(u64, u64, u32)> {
        let path = if path.is_empty() { self.file.as_deref().unwrap_or(b".") } else { path };
        let stat = self.resolve(path, OFlag::O_PATH).and_then(fstat)?;
        Ok((stat.st_dev, stat.st_ino, stat.st_uid))
    }

    /// Opens a directory for reading its entries; empty: the root itself.
    pub(super) fn open_directory(&self, path: &[u8]) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        if path.is_empty() { openat2(self.directory()?, ".", OpenHow::new().flags(flags)) } else { self.resolve(path, flags) }
    }

    /// Opens `path` by the policy on links.
    pub(super) fn resolve(&self, path: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
        self.resolve_under(path, flags, ResolveFlag::empty())
    }

    /// The same under the restrictions of `also`.
    pub(super) fn resolve_under(&self, path: &[u8], flags: OFlag, also: ResolveFlag) -> nix::Result<OwnedFd> {
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
    pub(super) fn open_with(&self, path: &[u8], flags: OFlag, resolve: ResolveFlag) -> nix::Result<OwnedFd> {
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve);
        let tries = if resolve.contains(CACHED) { 1 } else { TRIES };
        for _ in 0..tries {
            match openat2(self.directory()?, OsStr::from_bytes(path), how) {
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                result => return result,
            }
        }
        Err(Errno::EAGAIN)
    }
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
                    let stat = reached.as_ref().map_or_else(|| fstat(self.here()?), |(file, _)| fstat(file))?;
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
        self.refuse_cold_link(name)?;
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

    /// Where only memory may be asked, readlink(2) could still wait for what a link says. Whoever follows it from memory is told `EAGAIN` then;
    /// whatever else comes of that is no matter here.
    fn refuse_cold_link(&self, name: &[u8]) -> nix::Result<()> {
        if !self.also.contains(CACHED) {
            return Ok(());
        }
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS | self.also);
        match openat2(self.here()?, OsStr::from_bytes(name), how) {
            Err(Errno::EAGAIN) => Err(Errno::EAGAIN),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Opens what was reached for use, by its name in the directory that is held, and makes sure that it is the same.
    fn reopen(&self, reached: Option<(OwnedFd, Vec<u8>)>, flags: OFlag) -> nix::Result<OwnedFd> {
        let Some((found, name)) = reached else {
            return openat2(self.here()?, ".", OpenHow::new().flags(flags | OFlag::O_CLOEXEC));
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
        openat2(self.here()?, OsStr::from_bytes(name), how)
    }

    fn here(&self) -> nix::Result<BorrowedFd<'_>> {
        self.entered.last().map_or_else(|| self.root.directory(), |directory| Ok(directory.as_fd()))
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
    Ok(pread(file, buffer, offset)?)
}

/// pread(2), again where a signal came in between, which a file system in user space or across a network lets it.
fn pread(file: &OwnedFd, buffer: &mut [u8], offset: i64) -> nix::Result<usize> {
    loop {
        match nix::sys::uio::pread(file, buffer, offset) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// Reads a whole small file; fewer bytes than `length` when it has become shorter.
///
/// # Errors
/// The errno of pread(2).
pub fn read(file: &OwnedFd, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let count = pread(file, rest, i64::try_from(filled).unwrap_or(i64::MAX))?;
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

pub(super) fn not_found(errno: Errno) -> Found {
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
pub(super) const CACHED: ResolveFlag = ResolveFlag::from_bits_retain(0x20).union(ResolveFlag::RESOLVE_NO_XDEV);

/// How often an open that met a renaming is tried.
const TRIES: u8 = 16;

/// Links followed for one path, as in the kernel (path_resolution(7)).
const LINKS_MAX: u8 = 40;
