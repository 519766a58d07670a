//! What workers ask of `files`, and its answers, with their exact encoding.
//!
//! All workers of a generation are asked for by all of its `files`: each worker has one channel, whose other end every `files`
//! holds, so that whichever is free takes the next request. Integers are little-endian. A path is bytes beneath a root that a
//! number stands for; both sides take it for hostile.

use super::entries::{self, Cursor, Entries};
use super::messages::Message;
use crate::config::Symlinks;
use crate::proto::coding::Coding;
use crate::sys::file::{Links, Stat, Why};

/// From `worker` to `files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back with the answer.
    pub id: u32,
    /// When nobody waits for the answer any more, in monotonic milliseconds.
    pub deadline: u64,
    /// Number of the directory, as the configuration counts them.
    pub root: u16,
    /// Beneath it; see [`is_path`].
    pub path: Vec<u8>,
    pub act: Act,
}

/// What is to be done with what stands at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Open it, and read its beginning into memory.
    Open,
    /// Read this part of it into memory, if it is still this file.
    Warm { device: u64, inode: u64, offset: u64, length: u32 },
    /// Read entries of this directory, from the first or from where an answer said that it goes on.
    List { from: Option<Cursor> },
    /// Open what stands beside it under its name and one of [`SUFFIXES`], as [`Act::Open`] does.
    Beside,
}

/// From `files` to `worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub id: u32,
    pub outcome: Outcome,
}

/// What stands at a path, or became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A regular file; its descriptor comes with the message.
    File(Stat),
    Directory,
    Missing,
    /// Permission is refused; by the directory or file that so many bytes of the path name.
    Denied {
        length: u16,
    },
    /// A symbolic link that so many bytes of the path name is not followed.
    Unfollowed {
        length: u16,
        why: Why,
    },
    NotRegular,
    Busy,
    Failed {
        errno: u16,
    },
    Entries(Entries),
    /// Regular files by [`SUFFIXES`]; their descriptors come with the message, in this order.
    Beside(Box<[Option<Stat>; SUFFIXES.len()]>),
    /// The part is in memory.
    Warm,
    /// Another file or none stands there now.
    Changed,
}

impl Message for Request {
    const LENGTH_MAX: usize = REQUEST_HEAD + PATH_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        packet.push(match self.act {
            Act::Open => 1,
            Act::Warm { .. } => 2,
            Act::List { from: None } => 3,
            Act::List { from: Some(_) } => 4,
            Act::Beside => 5,
        });
        packet.extend(self.id.to_le_bytes());
        packet.extend(self.deadline.to_le_bytes());
        packet.extend(self.root.to_le_bytes());
        match self.act {
            Act::Warm { device, inode, offset, length } => {
                [device, inode, offset].iter().for_each(|value| packet.extend(value.to_le_bytes()));
                packet.extend(length.to_le_bytes());
            }
            Act::List { from: Some(Cursor { device, inode, offset }) } => {
                [device, inode, offset].iter().for_each(|value| packet.extend(value.to_le_bytes()));
            }
            Act::Open | Act::List { from: None } | Act::Beside => {}
        }
        packet.extend(&self.path);
    }

    fn decode(packet: &[u8]) -> Option<Request> {
        let mut rest = Fields(packet);
        let [tag] = rest.take()?;
        let (id, deadline, root) = (rest.u32()?, rest.u64()?, u16::from_le_bytes(rest.take()?));
        let act = match tag {
            1 => Act::Open,
            2 => {
                let (device, inode, offset, length) = (rest.u64()?, rest.u64()?, rest.u64()?, rest.u32()?);
                if length == 0 || length > WARM_MAX || i64::try_from(offset.checked_add(u64::from(length))?).is_err() {
                    return None;
                }
                Act::Warm { device, inode, offset, length }
            }
            3 => Act::List { from: None },
            4 => Act::List { from: Some(Cursor { device: rest.u64()?, inode: rest.u64()?, offset: rest.u64()? }) },
            5 => Act::Beside,
            _ => return None,
        };
        is_path(rest.0).then(|| Request { id, deadline, root, path: rest.0.to_vec(), act })
    }

    fn descriptors(&self) -> usize {
        0
    }
}

impl Message for Reply {
    const LENGTH_MAX: usize = 5 + entries::LENGTH_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        let mut with = |tag: u8, rest: &[u8]| {
            packet.push(tag);
            packet.extend(self.id.to_le_bytes());
            packet.extend(rest);
        };
        match &self.outcome {
            Outcome::File(stat) => with(1, &encoded(stat)),
            Outcome::Directory => with(2, &[]),
            Outcome::Missing => with(3, &[]),
            Outcome::Denied { length } => with(4, &length.to_le_bytes()),
            Outcome::NotRegular => with(5, &[]),
            Outcome::Busy => with(6, &[]),
            Outcome::Failed { errno } => with(7, &errno.to_le_bytes()),
            Outcome::Unfollowed { length, why } => {
                let why = Why::ALL.iter().position(|other| other == why).and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX);
                let [low, high] = length.to_le_bytes();
                with(12, &[low, high, why]);
            }
            Outcome::Warm => with(8, &[]),
            Outcome::Changed => with(9, &[]),
            Outcome::Entries(entries) => {
                with(10, &[]);
                entries.encode(packet);
            }
            Outcome::Beside(found) => {
                with(11, &[]);
                for stat in &**found {
                    packet.push(u8::from(stat.is_some()));
                    packet.extend(stat.as_ref().map_or_else(Vec::new, encoded));
                }
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<Reply> {
        let mut rest = Fields(packet);
        let ([tag], id) = (rest.take()?, rest.u32()?);
        let outcome = match tag {
            1 => Outcome::File(rest.stat()?),
            2 => Outcome::Directory,
            3 => Outcome::Missing,
            4 => Outcome::Denied { length: u16::from_le_bytes(rest.take()?) },
            5 => Outcome::NotRegular,
            6 => Outcome::Busy,
            7 => Outcome::Failed { errno: u16::from_le_bytes(rest.take()?) },
            8 => Outcome::Warm,
            9 => Outcome::Changed,
            10 => Outcome::Entries(Entries::decode(std::mem::take(&mut rest.0))?),
            11 => {
                let mut found = [None; SUFFIXES.len()];
                for stat in &mut found {
                    *stat = match rest.take()? {
                        [0] => None,
                        [1] => Some(rest.stat()?),
                        _ => return None,
                    };
                }
                Outcome::Beside(Box::new(found))
            }
            12 => {
                let length = u16::from_le_bytes(rest.take()?);
                let [why] = rest.take()?;
                Outcome::Unfollowed { length, why: *Why::ALL.get(usize::from(why))? }
            }
            _ => return None,
        };
        rest.0.is_empty().then_some(Reply { id, outcome })
    }

    fn descriptors(&self) -> usize {
        self.outcome.files().len()
    }
}

impl Outcome {
    /// What the files are that come with an answer, in their order.
    pub fn files(&self) -> Vec<Stat> {
        match self {
            Outcome::File(stat) => vec![*stat],
            Outcome::Beside(found) => found.iter().flatten().copied().collect(),
            Outcome::Directory
            | Outcome::Missing
            | Outcome::Denied { .. }
            | Outcome::Unfollowed { .. }
            | Outcome::NotRegular
            | Outcome::Busy
            | Outcome::Failed { .. }
            | Outcome::Entries(_)
            | Outcome::Warm
            | Outcome::Changed => Vec::new(),
        }
    }
}

/// What is left of a packet.
struct Fields<'p>(&'p [u8]);

impl Fields<'_> {
    fn take<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (field, rest) = self.0.split_first_chunk::<LENGTH>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn stat(&mut self) -> Option<Stat> {
        Some(Stat {
            device: self.u64()?,
            inode: self.u64()?,
            size: self.u64()?,
            modified: self.u64()?.cast_signed(),
            modified_ns: self.u64()?.cast_signed(),
            changed: self.u64()?.cast_signed(),
            changed_ns: self.u64()?.cast_signed(),
        })
    }
}

fn encoded(stat: &Stat) -> Vec<u8> {
    let Stat { device, inode, size, modified, modified_ns, changed, changed_ns } = *stat;
    let times = [modified, modified_ns, changed, changed_ns].map(i64::cast_unsigned);
    [[device, inode, size].as_slice(), &times].concat().iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What the configuration says of symbolic links, as a look-up wants it.
pub fn links(symlinks: Symlinks) -> Links {
    match symlinks {
        Symlinks::Never => Links::Never,
        Symlinks::Owner => Links::SameOwner,
        Symlinks::Inside => Links::Inside,
        Symlinks::Any => Links::Any,
    }
}

/// Whether a path may be asked for: empty for the root itself, else without a slash at either end, an empty, `.` or `..`
/// segment, or NUL, and no longer than the kernel takes.
pub fn is_path(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0);
    path.is_empty() || (path.len() <= PATH_MAX && path.split(|byte| *byte == b'/').all(is_name))
}

/// What the names of encoded siblings end with.
pub const SUFFIXES: [&str; Coding::ALL.len()] = [Coding::ALL[0].suffix(), Coding::ALL[1].suffix(), Coding::ALL[2].suffix()];

/// Longest path in bytes: PATH_MAX of the kernel counts a NUL too.
const PATH_MAX: usize = 4095;

/// Bytes of a request before its path.
const REQUEST_HEAD: usize = 1 + 4 + 8 + 2 + 3 * 8 + 4;

/// Most bytes that are read into memory for one request.
pub const WARM_MAX: u32 = 1 << 20;

/// What an opened file is read of at once: as much as a worker holds in memory of one file.
pub const BEGINNING: u64 = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        let warm = |offset, length| Act::Warm { device: 1, inode: u64::MAX, offset, length };
        let request = |path: &[u8], act| Request { id: 7, deadline: 1 << 40, root: 300, path: path.to_vec(), act };
        vec![
            request(b"", Act::Open),
            request(b"a/b\xff c/...", Act::Open),
            request(&[b'x'; PATH_MAX], Act::Open),
            request(b"a", warm(0, 1)),
            request(&[b'x'; PATH_MAX], warm(u64::MAX / 2 - u64::from(WARM_MAX), WARM_MAX)),
            request(b"", Act::List { from: None }),
            request(b"a", Act::List { from: Some(Cursor { device: 1, inode: u64::MAX, offset: 3 }) }),
            request(&[b'x'; PATH_MAX], Act::Beside),
        ]
    }

    #[test]
    fn requests_survive_their_encoding() {
        for request in requests() {
            let mut packet = Vec::new();
            request.encode(&mut packet);
            assert!(packet.len() <= Request::LENGTH_MAX);
            assert_eq!(Request::decode(&packet), Some(request));
        }
    }

    #[test]
    fn requests_that_are_cut_or_out_of_bounds_are_malformed() {
        for request in requests() {
            let mut packet = Vec::new();
            request.encode(&mut packet);
            for length in 0..packet.len() - request.path.len() {
                assert_eq!(Request::decode(&packet[..length]), None, "{length}");
            }
        }
        for path in ["/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\0"] {
            assert!(!is_path(path.as_bytes()), "{path:?}");
            let mut packet = Vec::new();
            Request { id: 0, deadline: 0, root: 0, path: path.into(), act: Act::Open }.encode(&mut packet);
            assert_eq!(Request::decode(&packet), None, "{path:?}");
        }
        assert!(!is_path(&[b'x'; PATH_MAX + 1]));
        for (offset, length) in [(0, 0), (0, WARM_MAX + 1), (u64::MAX, 1), (u64::MAX / 2, 1)] {
            let mut packet = Vec::new();
            let act = Act::Warm { device: 0, inode: 0, offset, length };
            Request { id: 0, deadline: 0, root: 0, path: b"a".to_vec(), act }.encode(&mut packet);
            assert_eq!(Request::decode(&packet), None, "{offset} {length}");
        }
        for tag in (0..=u8::MAX).filter(|tag| !(1..=5).contains(tag)) {
            assert_eq!(Request::decode(&[[tag].as_slice(), &[0; 50]].concat()), None, "{tag}");
        }
    }

    #[test]
    fn replies_survive_their_encoding_and_no_other_length_does() {
        let stat = Stat { device: 1, inode: 2, size: u64::MAX, modified: -1, modified_ns: 5, changed: i64::MIN, changed_ns: 7 };
        let outcomes = [
            Outcome::File(stat),
            Outcome::Directory,
            Outcome::Missing,
            Outcome::Denied { length: 4095 },
            Outcome::Unfollowed { length: 4095, why: Why::Never },
            Outcome::Unfollowed { length: 0, why: Why::Nowhere },
            Outcome::NotRegular,
            Outcome::Busy,
            Outcome::Failed { errno: 5 },
            Outcome::Warm,
            Outcome::Changed,
            Outcome::Beside(Box::new([None; 3])),
            Outcome::Beside(Box::new([Some(stat), None, Some(stat)])),
        ];
        for outcome in outcomes {
            let reply = Reply { id: u32::MAX, outcome: outcome.clone() };
            let mut packet = Vec::new();
            reply.encode(&mut packet);
            assert!(packet.len() <= Reply::LENGTH_MAX);
            for length in 0..packet.len() {
                assert_eq!(Reply::decode(&packet[..length]), None, "{outcome:?} cut at {length}");
            }
            assert_eq!(Reply::decode(&packet), Some(reply));
            packet.push(0);
            assert_eq!(Reply::decode(&packet), None, "{outcome:?} with a byte too many");
        }
        for tag in (0..=u8::MAX).filter(|tag| !(1..=9).contains(tag) && *tag != 11) {
            assert_eq!(Reply::decode(&[tag, 0, 0, 0, 0]), None);
        }
        assert_eq!(Reply::decode(&[12, 0, 0, 0, 0, 0, 0, 5]), None, "one reason too many");
    }
}
