//! What carries the bytes of one client: a socket, or a stream of HTTP/2 that is taken for one.
//!
//! Runs in the worker.

use super::http2::stream::Stream;
use crate::sys::socket;
use std::io;
use std::os::fd::OwnedFd;

/// Bytes in and out, without waiting.
pub(super) enum Transport {
    Plain(OwnedFd),
    Stream(Box<Stream>),
}

impl Transport {
    /// Receives what the client sent; 0: it has ended its side.
    ///
    /// # Errors
    /// The errno of recv(2); `WouldBlock` where nothing has come, and anything else when the client is gone.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket::receive(socket, buffer),
            Transport::Stream(stream) => stream.receive(buffer),
        }
    }

    /// Sends some of these bytes, which are of a session.
    ///
    /// # Errors
    /// The errno of write(2).
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket::send(socket, bytes),
            Transport::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Ends the sending side.
    ///
    /// # Errors
    /// The errno of shutdown(2); a stream has nothing to be ended that way.
    pub(super) fn end_sending(&self) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket::end_sending(socket),
            Transport::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Transport::Stream(_))
    }

    /// What the event loop waits for; a stream has none of its own.
    pub(super) fn socket(&self) -> Option<&OwnedFd> {
        match self {
            Transport::Plain(socket) => Some(socket),
            Transport::Stream(_) => None,
        }
    }

    /// Sees to it that the loop is told when a stream is reset.
    ///
    /// # Errors
    /// It is already.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) => Ok(()),
            Transport::Stream(stream) => stream.watch(),
        }
    }
}
