//! What workers ask of `connect`, and its answers, with their exact encoding.
//!
//! Integers are little-endian. An address is a number that the configuration counts: no worker names one.

use super::messages::Message;

/// From `worker` to `connect`: connect to the address of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back with the answer.
    pub id: u32,
    pub address: u16,
}

/// From `connect` to `worker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub id: u32,
    pub outcome: Outcome,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The socket comes with the message.
    Connected,
    Failed {
        errno: u16,
    },
    /// Not within the time that the configuration gives.
    Late,
    /// The worker asks for more than it may at a time.
    Busy,
}

impl Message for Request {
    const LENGTH_MAX: usize = 6;

    fn encode(&self, packet: &mut Vec<u8>) {
        packet.extend(self.id.to_le_bytes());
        packet.extend(self.address.to_le_bytes());
    }

    fn decode(packet: &[u8]) -> Option<Request> {
        let [a, b, c, d, e, f] = *packet else { return None };
        Some(Request { id: u32::from_le_bytes([a, b, c, d]), address: u16::from_le_bytes([e, f]) })
    }

    fn descriptors(&self) -> usize {
        0
    }
}

impl Message for Reply {
    const LENGTH_MAX: usize = 7;

    fn encode(&self, packet: &mut Vec<u8>) {
        packet.extend(self.id.to_le_bytes());
        match self.outcome {
            Outcome::Connected => packet.push(1),
            Outcome::Failed { errno } => {
                packet.push(2);
                packet.extend(errno.to_le_bytes());
            }
            Outcome::Late => packet.push(3),
            Outcome::Busy => packet.push(4),
        }
    }

    fn decode(packet: &[u8]) -> Option<Reply> {
        let (id, rest) = packet.split_first_chunk::<4>()?;
        let outcome = match *rest {
            [1] => Outcome::Connected,
            [2, a, b] => Outcome::Failed { errno: u16::from_le_bytes([a, b]) },
            [3] => Outcome::Late,
            [4] => Outcome::Busy,
            _ => return None,
        };
        Some(Reply { id: u32::from_le_bytes(*id), outcome })
    }

    fn descriptors(&self) -> usize {
        usize::from(self.outcome == Outcome::Connected)
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages;
    use super::*;

    fn survives<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
        let mut packet = messages::survives(message);
        packet.push(0);
        assert_eq!(M::decode(&packet), None);
    }

    #[test]
    fn messages_survive_their_bytes_and_nothing_else_does() {
        survives(&Request { id: 0x0102_0304, address: 0x0506 });
        for outcome in [Outcome::Connected, Outcome::Failed { errno: 111 }, Outcome::Late, Outcome::Busy] {
            survives(&Reply { id: 7, outcome });
        }
        for tag in (0..=255u8).filter(|tag| !(1..=4).contains(tag)) {
            assert_eq!(Reply::decode(&[0, 0, 0, 0, tag]), None);
        }
    }

    #[test]
    fn only_a_connection_comes_with_a_descriptor() {
        let count = |outcome| Reply { id: 0, outcome }.descriptors();
        assert_eq!(
            (count(Outcome::Connected), count(Outcome::Late), count(Outcome::Busy), count(Outcome::Failed { errno: 1 })),
            (1, 0, 0, 0)
        );
    }
}
