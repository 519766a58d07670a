//! Questions about the disk, and the directories beneath which they are asked.
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O.

pub use crate::config::Base;
use crate::config::Site;
use crate::proto::target::Path;

/// The number of a directory in [`Sites::directories`](super::Sites::directories).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootRef(pub usize);

/// A question about the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup<'p> {
    /// The directory.
    pub root: RootRef,
    /// Beneath it: no slash at either end, no empty, `.` or `..` segment, no NUL; empty for the directory itself. Which symbolic links may
    /// be followed is the directory's to say.
    pub path: &'p [u8],
}

/// What stands where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    File,
    Directory,
    Nothing,
    /// A FIFO, a device or a socket.
    Other,
}

/// A look-up being made.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    pub(super) root: RootRef,
    pub(super) path: Vec<u8>,
    /// Whether the path asked for a directory, by a slash at its end.
    pub(super) directory: bool,
    /// False where no file can be meant.
    pub(super) named: bool,
    /// How many bytes of `path` the configuration chose, not the request.
    pub(super) chosen: usize,
    /// Whether the rest is a request's whole path, in which `.well-known` may stand first (RFC 8615).
    pub(super) whole: bool,
}

impl Question {
    /// Starts beneath another directory.
    pub(super) fn at(&mut self, root: RootRef) {
        self.root = root;
        self.path.clear();
        (self.directory, self.named, self.whole, self.chosen) = (false, true, false, 0);
    }

    /// The whole path of a request.
    pub(super) fn of_path(&mut self, root: RootRef, path: &Path) {
        self.at(root);
        (self.directory, self.named, self.whole) = (path.is_directory(), path.names_file(), true);
        for segment in path.segments() {
            self.push(segment);
        }
    }

    /// Adds a segment.
    pub(super) fn push(&mut self, segment: &[u8]) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(segment);
    }

    /// Whether any segment that the request chose is hidden; `.well-known` at the root is not, but what lies beneath it may be.
    pub(super) fn is_hidden(&self, site: &Site) -> bool {
        let chosen = self.path.get(self.chosen..).unwrap_or_default();
        !site.hidden.is_empty()
            && chosen
                .split(|&byte| byte == b'/')
                .filter(|segment| !segment.is_empty())
                .enumerate()
                .any(|(at, name)| !(at == 0 && self.whole && name == b".well-known") && super::listing::is_hidden(site, name))
    }
}

/// The directories, and for each rule of each site the number of its own.
pub(super) fn enumerate(sites: &[Site]) -> (Vec<Base>, Vec<Vec<RootRef>>) {
    let (bases, numbers) = crate::config::directories(sites);
    (bases, numbers.into_iter().map(|numbers| numbers.into_iter().map(RootRef).collect()).collect())
}
