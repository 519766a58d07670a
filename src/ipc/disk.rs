//! What workers ask of `files`, and its answers, with their exact encoding.
//!
//! All workers of a generation are asked for by all of its `files`: each worker has one channel, whose other end every `files`
//! holds, so that whichever is free takes the next request. Integers are little-endian. A path is bytes beneath a root that a
//! number stands for; both sides take it for hostile.

use super::messages::Message;
use crate::config::Symlinks;
use crate::sys::file::{Links, Stat};

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
}

/// From `files` to `worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub id: u32,
    pub outcome: Outcome,
}

/// What stands at a path, or became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A regular file; its descriptor comes with the message.
    File(Stat),
    Directory,
    Missing,
    /// Permission is refused; by the directory or file that so many bytes of the path name.
    Denied {
        length: u16,
    },
    NotRegular,
    Busy,
    Failed {
        errno: u16,
    },
    /// The part is in memory.
    Warm,
    /// Another file or none stands there now.
    Changed,
}

impl Message for Request {
    const LENGTH_MAX: usize = REQUEST_HEAD + PATH_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        packet.push(if self.act == Act::Open { 1 } else { 2 });
        packet.extend(self.id.to_le_bytes());
        packet.extend(self.deadline.to_le_bytes());
        packet.extend(self.root.to_le_bytes());
        if let Act::Warm { device, inode, offset, length } = self.act {
            [device, inode, offset].iter().for_each(|value| packet.extend(value.to_le_bytes()));
            packet.extend(length.to_le_bytes());
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
            _ => return None,
        };
        is_path(rest.0).then(|| Request { id, deadline, root, path: rest.0.to_vec(), act })
    }

    fn descriptors(&self) -> usize {
        0
    }
}

impl Message for Reply {
    const LENGTH_MAX: usize = 5 + 7 * 8;

    fn encode(&self, packet: &mut Vec<u8>) {
        let mut with = |tag: u8, rest: &[u8]| {
            packet.push(tag);
            packet.extend(self.id.to_le_bytes());
            packet.extend(rest);
        };
        match self.outcome {
            Outcome::File(Stat { device, inode, size, modified, modified_ns, changed, changed_ns }) => {
                let times = [modified, modified_ns, changed, changed_ns].map(i64::cast_unsigned);
                let values = [[device, inode, size].as_slice(), &times].concat();
                with(1, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
            }
            Outcome::Directory => with(2, &[]),
            Outcome::Missing => with(3, &[]),
            Outcome::Denied { length } => with(4, &length.to_le_bytes()),
            Outcome::NotRegular => with(5, &[]),
            Outcome::Busy => with(6, &[]),
            Outcome::Failed { errno } => with(7, &errno.to_le_bytes()),
            Outcome::Warm => with(8, &[]),
            Outcome::Changed => with(9, &[]),
        }
    }

    fn decode(packet: &[u8]) -> Option<Reply> {
        let mut rest = Fields(packet);
        let ([tag], id) = (rest.take()?, rest.u32()?);
        let outcome = match tag {
            1 => Outcome::File(Stat {
                device: rest.u64()?,
                inode: rest.u64()?,
                size: rest.u64()?,
                modified: rest.u64()?.cast_signed(),
                modified_ns: rest.u64()?.cast_signed(),
                changed: rest.u64()?.cast_signed(),
                changed_ns: rest.u64()?.cast_signed(),
            }),
            2 => Outcome::Directory,
            3 => Outcome::Missing,
            4 => Outcome::Denied { length: u16::from_le_bytes(rest.take()?) },
            5 => Outcome::NotRegular,
            6 => Outcome::Busy,
            7 => Outcome::Failed { errno: u16::from_le_bytes(rest.take()?) },
            8 => Outcome::Warm,
            9 => Outcome::Changed,
            _ => return None,
        };
        rest.0.is_empty().then_some(Reply { id, outcome })
    }

    fn descriptors(&self) -> usize {
        usize::from(matches!(self.outcome, Outcome::File(_)))
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

/// Longest path in bytes: PATH_MAX of the kernel counts a NUL too.
const PATH_MAX: usize = 4095;

/// Bytes of a request before its path.
const REQUEST_HEAD: usize = 1 + 4 + 8 + 2 + 3 * 8 + 4;

/// Most bytes that are read into memory for one request.
pub const WARM_MAX: u32 = 1 << 20;

/// What an opened file is read of at once: as much as a worker holds in memory of one file.
pub const BEGINNING: u64 = 64 * 1024;

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
        for tag in (0..=u8::MAX).filter(|tag| ![1, 2].contains(tag)) {
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
            Outcome::NotRegular,
            Outcome::Busy,
            Outcome::Failed { errno: 5 },
            Outcome::Warm,
            Outcome::Changed,
        ];
        for outcome in outcomes {
            let reply = Reply { id: u32::MAX, outcome };
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
        for tag in (0..=u8::MAX).filter(|tag| !(1..=9).contains(tag)) {
            assert_eq!(Reply::decode(&[tag, 0, 0, 0, 0]), None);
        }
    }
}
