//! What workers ask of `keys`, and its answers, with their exact encoding. Integers are little-endian.
//!
//! Requests of one worker are numbered without a gap; an answer has the number of its request.

use super::messages::Message;

/// From `worker` to `keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Sign this with the key of that number, by a scheme of TLS (RFC 8446, 4.2.3).
    Sign { id: u32, key: u16, scheme: u16, message: Vec<u8> },
    /// Say that you are there.
    Probe { id: u32 },
    /// Make a ticket of this, for a client that is to go on with it later.
    Seal { id: u32, plain: Vec<u8> },
    /// Say what a ticket was made of.
    Open { id: u32, ticket: Vec<u8> },
}

/// From `keys` to `worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The signature.
    Signed { id: u32, signature: Vec<u8> },
    /// It was asked too often, the key cannot do that, or the ticket is none, or one that is over.
    Refused { id: u32 },
    /// It is there.
    Present { id: u32 },
    /// The ticket.
    Sealed { id: u32, ticket: Vec<u8> },
    /// What it was made of.
    Opened { id: u32, plain: Vec<u8> },
}

/// Bytes of a message that is signed: more than either shape has.
pub const MESSAGE_MAX: usize = 256;
/// Bytes of what a ticket is made of, the chain of a client's certificates included, or nothing is remembered.
pub const PLAIN_MAX: usize = 8 * 1024;
/// Bytes of a ticket: more than sealing adds.
pub const TICKET_MAX: usize = PLAIN_MAX + 64;
/// Bytes of a signature: of a key of RSA with 16,384 bits.
pub const SIGNATURE_MAX: usize = 2048;

impl Request {
    pub fn id(&self) -> u32 {
        let (Request::Sign { id, .. } | Request::Probe { id } | Request::Seal { id, .. } | Request::Open { id, .. }) = self;
        *id
    }
}

impl Reply {
    pub fn id(&self) -> u32 {
        let (Reply::Signed { id, .. }
        | Reply::Refused { id }
        | Reply::Present { id }
        | Reply::Sealed { id, .. }
        | Reply::Opened { id, .. }) = self;
        *id
    }
}

impl Message for Request {
    const LENGTH_MAX: usize = 1 + 4 + TICKET_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            Request::Sign { id, key, scheme, message } => {
                packet.push(1);
                packet.extend(id.to_le_bytes());
                packet.extend(key.to_le_bytes());
                packet.extend(scheme.to_le_bytes());
                packet.extend_from_slice(message);
            }
            Request::Probe { id } => {
                packet.push(2);
                packet.extend(id.to_le_bytes());
            }
            Request::Seal { id, plain } => {
                packet.push(3);
                packet.extend(id.to_le_bytes());
                packet.extend_from_slice(plain);
            }
            Request::Open { id, ticket } => {
                packet.push(4);
                packet.extend(id.to_le_bytes());
                packet.extend_from_slice(ticket);
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<Request> {
        let (tag, rest) = packet.split_first()?;
        let (id, rest) = rest.split_first_chunk().map(|(id, rest)| (u32::from_le_bytes(*id), rest))?;
        match (tag, rest) {
            (1, [a, b, c, d, message @ ..]) if (1..=MESSAGE_MAX).contains(&message.len()) => {
                let (key, scheme) = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
                Some(Request::Sign { id, key, scheme, message: message.to_vec() })
            }
            (2, []) => Some(Request::Probe { id }),
            (3, plain) if (1..=PLAIN_MAX).contains(&plain.len()) => Some(Request::Seal { id, plain: plain.to_vec() }),
            (4, ticket) if (1..=TICKET_MAX).contains(&ticket.len()) => Some(Request::Open { id, ticket: ticket.to_vec() }),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        0
    }
}

impl Message for Reply {
    const LENGTH_MAX: usize = 1 + 4 + TICKET_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            Reply::Signed { id, signature } => {
                packet.push(1);
                packet.extend(id.to_le_bytes());
                packet.extend_from_slice(signature);
            }
            Reply::Refused { id } => {
                packet.push(2);
                packet.extend(id.to_le_bytes());
            }
            Reply::Present { id } => {
                packet.push(3);
                packet.extend(id.to_le_bytes());
            }
            Reply::Sealed { id, ticket } => {
                packet.push(4);
                packet.extend(id.to_le_bytes());
                packet.extend_from_slice(ticket);
            }
            Reply::Opened { id, plain } => {
                packet.push(5);
                packet.extend(id.to_le_bytes());
                packet.extend_from_slice(plain);
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<Reply> {
        let (tag, rest) = packet.split_first()?;
        let (id, rest) = rest.split_first_chunk().map(|(id, rest)| (u32::from_le_bytes(*id), rest))?;
        match (tag, rest) {
            (1, signature) if (1..=SIGNATURE_MAX).contains(&signature.len()) => Some(Reply::Signed { id, signature: signature.to_vec() }),
            (2, []) => Some(Reply::Refused { id }),
            (3, []) => Some(Reply::Present { id }),
            (4, ticket) if (1..=TICKET_MAX).contains(&ticket.len()) => Some(Reply::Sealed { id, ticket: ticket.to_vec() }),
            (5, plain) if (1..=PLAIN_MAX).contains(&plain.len()) => Some(Reply::Opened { id, plain: plain.to_vec() }),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages;
    use super::*;

    #[test]
    fn messages_survive_their_bytes_and_nothing_else_does() {
        for length in [1, 2, MESSAGE_MAX] {
            messages::survives(&Request::Sign { id: 0x0102_0304, key: 7, scheme: 0x0403, message: vec![7; length] });
        }
        for length in [1, SIGNATURE_MAX] {
            messages::survives(&Reply::Signed { id: 9, signature: vec![1; length] });
        }
        for length in [1, PLAIN_MAX] {
            messages::survives(&Request::Seal { id: 2, plain: vec![3; length] });
            messages::survives(&Reply::Opened { id: 2, plain: vec![3; length] });
        }
        for length in [1, TICKET_MAX] {
            messages::survives(&Request::Open { id: 2, ticket: vec![3; length] });
            messages::survives(&Reply::Sealed { id: 2, ticket: vec![3; length] });
        }
        messages::survives(&Request::Probe { id: u32::MAX });
        messages::survives(&Reply::Refused { id: 1 });
        messages::survives(&Reply::Present { id: 1 });
    }

    #[test]
    fn no_bytes_and_too_many_are_malformed() {
        for length in [0, MESSAGE_MAX + 1] {
            let mut packet = Vec::new();
            Request::Sign { id: 1, key: 0, scheme: 0, message: vec![1; length] }.encode(&mut packet);
            assert!(Request::decode(&packet).is_none(), "{length}");
        }
        for length in [0, SIGNATURE_MAX + 1] {
            let mut packet = Vec::new();
            Reply::Signed { id: 1, signature: vec![1; length] }.encode(&mut packet);
            assert!(Reply::decode(&packet).is_none(), "{length}");
        }
        for tag in 0..=255u8 {
            assert_eq!(Request::decode(&[tag, 0, 0, 0, 0]).is_some(), tag == 2);
            assert_eq!(Reply::decode(&[tag, 0, 0, 0, 0]).is_some(), tag == 2 || tag == 3);
            let long = [tag, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(Request::decode(&long).is_some(), tag == 3 || tag == 4);
            assert_eq!(Reply::decode(&long).is_some(), [1, 4, 5].contains(&tag));
            assert!(Request::decode(&[tag, 0, 0, 0]).is_none() && Reply::decode(&[tag, 0, 0, 0]).is_none());
        }
    }
}
