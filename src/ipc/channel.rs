//! One end of a channel: sends messages, receives packets that are exactly one message or an end.

use super::messages::Message;
use crate::sys::socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One end of a SOCK_SEQPACKET pair.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// What came over a channel.
#[derive(Debug)]
pub enum Received<M> {
    Message(M, Vec<OwnedFd>),
    /// Nothing is waiting.
    Nothing,
    /// The other side is gone.
    Ended,
    /// Not a message: the sender must end.
    Malformed,
}

impl Channel {
    /// Both ends of a new channel.
    ///
    /// # Errors
    /// The errno of socketpair(2).
    pub fn pair() -> io::Result<(Channel, Channel)> {
        socket::packet_pair().map(|(one, other)| (Channel(one), Channel(other)))
    }

    /// Sends a message; never blocks.
    ///
    /// # Errors
    /// `WouldBlock` when the receiver is behind, `BrokenPipe` or `ConnectionReset` when it is gone.
    pub fn send<M: Message>(&self, message: &M, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut packet = Vec::with_capacity(M::LENGTH_MAX.min(BUFFER));
        message.encode(&mut packet);
        if descriptors.is_empty() { socket::send_packet(&self.0, &packet) } else { socket::send_packet_with(&self.0, &packet, descriptors) }
    }

    /// Sends a packet of log lines; never blocks.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn send_lines(&self, packet: &[u8]) -> io::Result<()> {
        socket::send_packet(&self.0, packet)
    }

    /// Receives from a process that is trusted less: takes no descriptors.
    pub fn receive<M: Message>(&self) -> Received<M> {
        let mut buffer = [0; BUFFER];
        let length = match socket::receive_packet(&self.0, &mut buffer) {
            Ok(0) => return Received::Ended,
            Ok(length) => length,
            Err(fault) => return Self::unsuccessful(&fault),
        };
        Self::decode(buffer.get(..length), Vec::new())
    }

    /// Receives from the parent: takes the descriptors that belong to the message.
    pub fn receive_from_parent<M: Message>(&self) -> Received<M> {
        let mut buffer = [0; BUFFER];
        match socket::receive_packet_with(&self.0, &mut buffer) {
            Ok((0, _)) => Received::Ended,
            Ok((length, descriptors)) => Self::decode(buffer.get(..length), descriptors),
            Err(fault) => Self::unsuccessful(&fault),
        }
    }

    /// As [`Channel::receive`], for messages that may be longer than most; `buffer` must be longer than each of them.
    pub fn receive_long<M: Message>(&self, buffer: &mut [u8]) -> Received<M> {
        match socket::receive_packet(&self.0, buffer) {
            Ok(0) => Received::Ended,
            Ok(length) => Self::decode(buffer.get(..length), Vec::new()),
            Err(fault) => Self::unsuccessful(&fault),
        }
    }

    /// Receives from a broker that may send descriptors, into `buffer`, which must be longer than each of its messages. A packet whose descriptors were lost on the way, because this process may
    /// have no more or more came than there is room for, is nothing.
    pub fn receive_from_broker<M: Message>(&self, buffer: &mut [u8]) -> Received<M> {
        match socket::receive_packet_with(&self.0, buffer) {
            Ok((0, _)) => Received::Ended,
            Ok((length, descriptors)) => Self::decode(buffer.get(..length), descriptors),
            Err(fault) if socket::is_without_descriptors(&fault) => Received::Nothing,
            Err(fault) => Self::unsuccessful(&fault),
        }
    }

    /// Receives a packet of log lines into `buffer`. `None`: nothing is waiting; 0: the other side is gone; more than the
    /// buffer holds: the packet was longer and is lost.
    pub fn receive_lines(&self, buffer: &mut [u8]) -> Option<usize> {
        match socket::receive_packet(&self.0, buffer) {
            Ok(length) => Some(length),
            Err(fault) if is_transient(&fault) => None,
            Err(_) => Some(0),
        }
    }

    fn decode<M: Message>(packet: Option<&[u8]>, descriptors: Vec<OwnedFd>) -> Received<M> {
        match packet.and_then(M::decode) {
            Some(message) if message.descriptors() == descriptors.len() => Received::Message(message, descriptors),
            _ => Received::Malformed,
        }
    }

    fn unsuccessful<M>(fault: &io::Error) -> Received<M> {
        if is_transient(fault) { Received::Nothing } else { Received::Ended }
    }
}

fn is_transient(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl From<OwnedFd> for Channel {
    fn from(descriptor: OwnedFd) -> Channel {
        Channel(descriptor)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Longer than every message but log lines; what is longer is malformed.
const BUFFER: usize = 512;
