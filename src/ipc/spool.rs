//! What workers ask of `spool`, and its answers, with their exact encoding.
//!
//! Integers are little-endian. A body has a number that its worker gives it; bytes go through the messages and no descriptor does: who holds
//! one of an unnamed file can write to it, and nobody would count what.

use super::messages::Message;

/// From `worker` to `spool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The next bytes of a body, which begin at `at`; with the first, at 0, the body begins.
    Write { id: u32, at: u64, bytes: Vec<u8> },
    /// What lies at `at`, at most [`PIECE`] bytes of it.
    Read { id: u32, at: u64 },
    /// The body is not needed any more.
    Forget { id: u32 },
}

/// From `spool` to `worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// So many bytes of the body are there.
    Written { id: u32, length: u64 },
    /// What was read.
    Content { id: u32, bytes: Vec<u8> },
    /// What there was of the body is gone.
    Failed { id: u32, errno: u16 },
    /// So too: with it all bodies would be larger than they may be.
    Full { id: u32 },
}

/// Bytes of a body in one message.
pub const PIECE: usize = 32 * 1024;

impl Message for Request {
    const LENGTH_MAX: usize = 1 + 4 + 8 + PIECE;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            Request::Write { id, at, bytes } => {
                packet.push(1);
                packet.extend(id.to_le_bytes());
                packet.extend(at.to_le_bytes());
                packet.extend_from_slice(bytes);
            }
            Request::Read { id, at } => {
                packet.push(2);
                packet.extend(id.to_le_bytes());
                packet.extend(at.to_le_bytes());
            }
            Request::Forget { id } => {
                packet.push(3);
                packet.extend(id.to_le_bytes());
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<Request> {
        let (tag, rest) = packet.split_first()?;
        let (id, rest) = rest.split_first_chunk().map(|(id, rest)| (u32::from_le_bytes(*id), rest))?;
        match (tag, rest) {
            (1, rest) => {
                let (at, bytes) = rest.split_first_chunk()?;
                is_piece(bytes).then(|| Request::Write { id, at: u64::from_le_bytes(*at), bytes: bytes.to_vec() })
            }
            (2, at) => Some(Request::Read { id, at: u64::from_le_bytes(at.try_into().ok()?) }),
            (3, []) => Some(Request::Forget { id }),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        0
    }
}

impl Message for Reply {
    const LENGTH_MAX: usize = 1 + 4 + PIECE;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            Reply::Written { id, length } => {
                packet.push(1);
                packet.extend(id.to_le_bytes());
                packet.extend(length.to_le_bytes());
            }
            Reply::Content { id, bytes } => {
                packet.push(2);
                packet.extend(id.to_le_bytes());
                packet.extend_from_slice(bytes);
            }
            Reply::Failed { id, errno } => {
                packet.push(3);
                packet.extend(id.to_le_bytes());
                packet.extend(errno.to_le_bytes());
            }
            Reply::Full { id } => {
                packet.push(4);
                packet.extend(id.to_le_bytes());
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<Reply> {
        let (tag, rest) = packet.split_first()?;
        let (id, rest) = rest.split_first_chunk().map(|(id, rest)| (u32::from_le_bytes(*id), rest))?;
        match (tag, rest) {
            (1, length) => Some(Reply::Written { id, length: u64::from_le_bytes(length.try_into().ok()?) }),
            (2, bytes) => is_piece(bytes).then(|| Reply::Content { id, bytes: bytes.to_vec() }),
            (3, errno) => Some(Reply::Failed { id, errno: u16::from_le_bytes(errno.try_into().ok()?) }),
            (4, []) => Some(Reply::Full { id }),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        0
    }
}

fn is_piece(bytes: &[u8]) -> bool {
    (1..=PIECE).contains(&bytes.len())
}

#[cfg(test)]
mod tests {
    use super::super::messages;
    use super::*;

    fn survives<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
        let mut packet = messages::survives(message);
        packet.push(0);
        assert_ne!(M::decode(&packet).as_ref(), Some(message));
    }

    #[test]
    fn messages_survive_their_bytes_and_nothing_else_does() {
        for length in [1, 2, PIECE] {
            survives(&Request::Write { id: 0x0102_0304, at: u64::MAX - 1, bytes: vec![7; length] });
            survives(&Reply::Content { id: 1, bytes: vec![0; length] });
        }
        survives(&Request::Read { id: 7, at: 1 << 40 });
        survives(&Request::Forget { id: u32::MAX });
        survives(&Reply::Written { id: 7, length: 1 << 40 });
        survives(&Reply::Failed { id: 7, errno: 28 });
        survives(&Reply::Full { id: 7 });
    }

    #[test]
    fn no_bytes_and_too_many_are_malformed() {
        for length in [0, PIECE + 1] {
            let mut packet = Vec::new();
            Request::Write { id: 1, at: 0, bytes: vec![1; length] }.encode(&mut packet);
            assert_eq!(Request::decode(&packet), None, "{length}");
            packet.clear();
            Reply::Content { id: 1, bytes: vec![1; length] }.encode(&mut packet);
            assert_eq!(Reply::decode(&packet), None, "{length}");
        }
        for tag in (0..=255u8).filter(|tag| !(1..=4).contains(tag)) {
            assert_eq!((Request::decode(&[tag, 0, 0, 0, 0]), Reply::decode(&[tag, 0, 0, 0, 0])), (None, None));
        }
    }
}
