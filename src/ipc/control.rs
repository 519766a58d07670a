//! What the commands and the parent say to each other over the control socket (SOCK_SEQPACKET, 0600).
//!
//! The command sends one order of one byte. The answer is text in packets: `.` more follows, `+` the last of a success,
//! `-` the last of a failure. Both ends bound what they take.

/// What an administrator may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Reload,
    Reopen,
    Stop,
    Status { json: bool },
}

impl Order {
    /// The packet of an order.
    pub const fn encode(self) -> [u8; 1] {
        match self {
            Order::Reload => [b'r'],
            Order::Reopen => [b'o'],
            Order::Stop => [b's'],
            Order::Status { json: false } => [b't'],
            Order::Status { json: true } => [b'j'],
        }
    }

    /// `None`: no order.
    pub fn decode(packet: &[u8]) -> Option<Order> {
        [Order::Reload, Order::Reopen, Order::Stop, Order::Status { json: false }, Order::Status { json: true }]
            .into_iter()
            .find(|order| order.encode() == packet)
    }
}

/// The packets of an answer.
pub fn packets(outcome: &Result<String, String>) -> Vec<Vec<u8>> {
    let (text, last) = match outcome {
        Ok(text) => (text, b'+'),
        Err(text) => (text, b'-'),
    };
    let mut chunks: Vec<&[u8]> = text.as_bytes().chunks(PACKET_MAX - 1).collect();
    let end = chunks.pop().unwrap_or_default();
    let mut packets: Vec<Vec<u8>> = chunks.into_iter().map(|chunk| [b".", chunk].concat()).collect();
    packets.push([&[last], end].concat());
    packets
}

/// Takes one packet of an answer into `text`. `None`: more follows; else whether the order was carried out.
pub fn take(packet: &[u8], text: &mut Vec<u8>) -> Option<bool> {
    let (tag, chunk) = packet.split_first()?;
    text.extend_from_slice(chunk);
    match tag {
        b'.' => None,
        tag => Some(*tag == b'+'),
    }
}

/// Longest packet in bytes, either way.
pub const PACKET_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_answers_survive_their_encoding() {
        for order in [Order::Reload, Order::Reopen, Order::Stop, Order::Status { json: false }, Order::Status { json: true }] {
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        for packet in [b"".as_slice(), b"x", b"rr", b"\0"] {
            assert_eq!(Order::decode(packet), None);
        }
        for length in [0, 1, PACKET_MAX - 1, PACKET_MAX, 100_000] {
            for outcome in [Ok("x".repeat(length)), Err("y".repeat(length))] {
                let mut text = Vec::new();
                let packets = packets(&outcome);
                let ends: Vec<Option<bool>> = packets.iter().map(|packet| take(packet, &mut text)).collect();
                assert!(packets.iter().all(|packet| packet.len() <= PACKET_MAX));
                assert_eq!(ends.last(), Some(&Some(outcome.is_ok())));
                assert!(ends[..ends.len() - 1].iter().all(Option::is_none));
                assert_eq!(text.len(), length);
            }
        }
    }
}
