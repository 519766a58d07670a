//! Entries of a directory as they go from `files` to `worker`, packed: many in a message, bounded by what one read of a directory
//! gives.

use std::rc::Rc;

/// Where reading a directory goes on, and which directory it was: another one may have its name by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    pub device: u64,
    pub inode: u64,
    /// As the file system counts; means nothing but to it.
    pub offset: u64,
}

/// A batch of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// `None`: there are no more.
    pub next: Option<Cursor>,
    packed: Rc<[u8]>,
}

/// One entry of a directory, never `.` or `..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'b> {
    pub name: &'b [u8],
    pub directory: bool,
    pub size: u64,
    pub modified: i64,
}

impl Entries {
    /// Packs entries; what no message has room for is left out.
    pub fn new<'e>(next: Option<Cursor>, entries: impl IntoIterator<Item = Entry<'e>>) -> Entries {
        let mut packed = Vec::new();
        for entry in entries {
            if let Some(length) = u8::try_from(entry.name.len()).ok().filter(|_| packed.len() + HEAD + entry.name.len() <= PACKED_MAX) {
                packed.push(u8::from(entry.directory));
                packed.extend(entry.size.to_le_bytes());
                packed.extend(entry.modified.to_le_bytes());
                packed.push(length);
                packed.extend_from_slice(entry.name);
            }
        }
        Entries { next, packed: packed.into() }
    }

    pub(super) fn encode(&self, packet: &mut Vec<u8>) {
        let Cursor { device, inode, offset } = self.next.unwrap_or(Cursor { device: 0, inode: 0, offset: 0 });
        packet.push(u8::from(self.next.is_some()));
        [device, inode, offset].iter().for_each(|value| packet.extend(value.to_le_bytes()));
        packet.extend_from_slice(&self.packed);
    }

    /// `None`: malformed.
    pub(super) fn decode(packet: &[u8]) -> Option<Entries> {
        let (more, rest) = packet.split_first()?;
        let (numbers, packed) = rest.split_at_checked(3 * 8)?;
        let mut numbers = numbers.chunks_exact(8).filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        let cursor = Cursor { device: numbers.next()?, inode: numbers.next()?, offset: numbers.next()? };
        let next = match more {
            0 if cursor == (Cursor { device: 0, inode: 0, offset: 0 }) => None,
            1 => Some(cursor),
            _ => return None,
        };
        let mut left = packed;
        while !left.is_empty() {
            take(&mut left).filter(|entry| is_name(entry.name))?;
        }
        (packed.len() <= PACKED_MAX).then(|| Entries { next, packed: packed.into() })
    }

    /// The entries, in the order of the directory.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut left = &*self.packed;
        std::iter::from_fn(move || take(&mut left))
    }
}

/// Takes the first entry off.
fn take<'b>(left: &mut &'b [u8]) -> Option<Entry<'b>> {
    let (directory, rest) = left.split_first()?;
    let (size, rest) = rest.split_first_chunk()?;
    let (modified, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    *left = rest;
    let entry = Entry { name, directory: *directory == 1, size: u64::from_le_bytes(*size), modified: i64::from_le_bytes(*modified) };
    (*directory <= 1).then_some(entry)
}

/// What can stand in a directory, without the directory itself and the one above.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// Bytes of an entry before its name.
const HEAD: usize = 1 + 8 + 8 + 1;

/// Bytes of the entries in one message: no more than the kernel needs for the same names.
pub(super) const PACKED_MAX: usize = crate::sys::directory::RECORDS;

/// Bytes of a batch as it is encoded, at most.
pub(super) const LENGTH_MAX: usize = 1 + 3 * 8 + PACKED_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8]) -> Entry<'_> {
        Entry { name, directory: name.len().is_multiple_of(2), size: u64::MAX, modified: -1 }
    }

    #[test]
    fn batches_survive_their_encoding_and_no_other_length_does() {
        let long = [b'x'; 255];
        let cursor = Some(Cursor { device: 1, inode: 2, offset: u64::MAX });
        for names in [&[][..], &[&b"a"[..]], &[b"a".as_slice(), &long, b"\xff\n", b"..."]] {
            for next in [None, cursor] {
                let batch = Entries::new(next, names.iter().map(|name| entry(name)));
                assert!(batch.iter().eq(names.iter().map(|name| entry(name))));
                let mut packet = Vec::new();
                batch.encode(&mut packet);
                assert!(packet.len() <= LENGTH_MAX);
                assert_eq!(Entries::decode(&packet), Some(batch));
                packet.push(0);
                assert_eq!(Entries::decode(&packet), None);
                for length in 0..1 + 3 * 8 {
                    assert_eq!(Entries::decode(&packet[..length]), None, "{length}");
                }
            }
        }
    }

    #[test]
    fn names_that_are_none_and_other_nonsense_are_malformed() {
        let head = [0; 1 + 3 * 8];
        let of = |kind: u8, name: &[u8]| [&head[..], &[kind], &[0; 16], &[u8::try_from(name.len()).unwrap()], name].concat();
        assert!(Entries::decode(&of(1, b"a")).is_some());
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
            assert_eq!(Entries::decode(&of(0, name)), None, "{name:?}");
        }
        assert_eq!(Entries::decode(&of(2, b"a")), None);
        for (more, cursor) in [(2, 0), (255, 0), (0, 1)] {
            assert_eq!(Entries::decode(&[&[more][..], &[cursor; 24]].concat()), None);
        }
    }

    #[test]
    fn the_last_entry_that_a_message_has_room_for_and_one_more() {
        let name = [b'n'; 238];
        let fit = PACKED_MAX / (HEAD + name.len());
        for (count, kept) in [(fit, fit), (fit + 1, fit)] {
            let batch = Entries::new(None, (0..count).map(|_| entry(&name)));
            let mut packet = Vec::new();
            batch.encode(&mut packet);
            assert_eq!((batch.iter().count(), Entries::decode(&packet)), (kept, Some(batch)));
        }
        assert_eq!(Entries::decode(&[&[0; 25][..], &[0; PACKED_MAX + 1]].concat()), None);
    }
}
