//! What workers ask of `spawn`, with its exact encoding; the answers are those of `connect`, a socket each, and come over its channel.
//!
//! Integers are little-endian. A program is named by the number of a directory and a path beneath it, and by what the worker saw there: the
//! process that becomes it compares that with what it finds. Its environment and the body of the request go over the socket, and not here:
//! `spawn` has all rights, and reads no more than it must.

use super::disk::is_path;
use super::messages::Message;

/// From `worker` to `spawn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Run(Run),
    /// The request of this number is over; `ends`: nobody wants what its program still does.
    Over {
        id: u32,
        ends: bool,
    },
}

/// Start this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Comes back with the answer.
    pub id: u32,
    pub root: u16,
    /// Beneath that; empty: the root itself, which is a file.
    pub path: Vec<u8>,
    pub device: u64,
    pub inode: u64,
    pub owner: u32,
    /// Whose request it is, for the error log.
    pub origin: Vec<u8>,
}

impl Message for Request {
    const LENGTH_MAX: usize = HEAD + PATH_MAX + ORIGIN_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            Request::Run(run) => {
                packet.push(1);
                packet.extend(run.id.to_le_bytes());
                packet.extend(run.root.to_le_bytes());
                packet.extend(run.device.to_le_bytes());
                packet.extend(run.inode.to_le_bytes());
                packet.extend(run.owner.to_le_bytes());
                let origin = run.origin.get(..ORIGIN_MAX).unwrap_or(&run.origin);
                packet.extend(u16::try_from(origin.len()).unwrap_or(0).to_le_bytes());
                packet.extend_from_slice(origin);
                packet.extend_from_slice(&run.path);
            }
            Request::Over { id, ends } => {
                packet.extend([2, u8::from(*ends)]);
                packet.extend(id.to_le_bytes());
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<Request> {
        match *packet {
            [1, ref rest @ ..] => run(rest).map(Request::Run),
            [2, ends @ 0..=1, a, b, c, d] => Some(Request::Over { id: u32::from_le_bytes([a, b, c, d]), ends: ends == 1 }),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        0
    }
}

fn run(packet: &[u8]) -> Option<Run> {
    let (id, rest) = packet.split_first_chunk()?;
    let (root, rest) = rest.split_first_chunk()?;
    let (device, rest) = rest.split_first_chunk()?;
    let (inode, rest) = rest.split_first_chunk()?;
    let (owner, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let (origin, path) = rest.split_at_checked(length).filter(|_| length <= ORIGIN_MAX)?;
    if path.len() > PATH_MAX || !is_path(path) {
        return None;
    }
    Some(Run {
        id: u32::from_le_bytes(*id),
        root: u16::from_le_bytes(*root),
        path: path.to_vec(),
        device: u64::from_le_bytes(*device),
        inode: u64::from_le_bytes(*inode),
        owner: u32::from_le_bytes(*owner),
        origin: origin.to_vec(),
    })
}

/// Of the fields of a fixed length.
const HEAD: usize = 1 + 4 + 2 + 8 + 8 + 4 + 2;
/// As for `files`: the kernel takes no longer path (path_resolution(7)).
const PATH_MAX: usize = 4_095;
/// Bytes of the client and the site.
pub const ORIGIN_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::super::messages::survives;
    use super::*;

    #[test]
    fn requests_survive_their_bytes_and_nothing_else_does() {
        let run = Run { id: 1, root: 2, path: b"a/b.cgi".to_vec(), device: 3, inode: u64::MAX, owner: 5, origin: b"client".to_vec() };
        survives(&Request::Run(run.clone()));
        survives(&Request::Run(Run { path: Vec::new(), origin: Vec::new(), ..run.clone() }));
        survives(&Request::Run(Run { path: [b'x'; PATH_MAX].to_vec(), origin: [b'y'; ORIGIN_MAX].to_vec(), ..run.clone() }));
        let mut packet = survives(&Request::Over { id: 7, ends: true });
        packet.push(0);
        assert_eq!(Request::decode(&packet), None);
        for path in [&b"/etc/passwd"[..], b"../x", b"a/../b", b"a//b", b"a/", b".", b"a\0b", &[b'x'; PATH_MAX + 1]] {
            let mut packet = Vec::new();
            Request::Run(Run { path: path.to_vec(), ..run.clone() }).encode(&mut packet);
            assert_eq!(Request::decode(&packet), None, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn an_origin_that_is_too_long_is_cut_by_who_sends_it_and_refused_from_others() {
        let mut packet = Vec::new();
        Request::Run(Run { origin: vec![b'x'; ORIGIN_MAX + 1], ..Run::default() }).encode(&mut packet);
        let Some(Request::Run(run)) = Request::decode(&packet) else { panic!() };
        assert_eq!(run.origin.len(), ORIGIN_MAX);
        let length = HEAD - 2;
        packet[length..HEAD].copy_from_slice(&401_u16.to_le_bytes());
        packet.push(b'x');
        assert_eq!(Request::decode(&packet), None);
    }
}
