//! What carries the bytes of one client: a socket, TLS over one, or a stream of HTTP/2 that is taken for one.
//!
//! Runs in the worker.

use super::http2::stream::Stream;
use super::tls::link::{News, Tls};
use crate::site::facts::Secured;
use crate::sys::socket;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Bytes in and out, without waiting.
pub(super) enum Transport {
    Plain(OwnedFd),
    Tls(Box<Tls>),
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
            Transport::Tls(tls) => tls.receive(buffer),
            Transport::Stream(stream) => stream.receive(buffer),
        }
    }

    /// Whether nothing more can be received until the loop is told, after so many bytes were, and there was room for so many.
    pub(super) fn is_drained(&self, count: usize, room: usize) -> bool {
        match self {
            // A short count means that the socket is empty.
            Transport::Plain(_) | Transport::Stream(_) => count < room,
            Transport::Tls(tls) => tls.is_drained(),
        }
    }

    /// Sends some of these bytes, which are of a session. Over TLS what was taken may still wait, see [`Transport::flush`].
    ///
    /// # Errors
    /// The errno of write(2) or writev(2).
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket::send(socket, bytes),
            Transport::Tls(tls) => {
                if !tls.flush()? {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let count = tls.seal(bytes, &[])?;
                tls.flush()?;
                Ok(count)
            }
            Transport::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends what was taken and waits; whether nothing does any more.
    ///
    /// # Errors
    /// The errno of writev(2).
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Transport::Plain(_) | Transport::Stream(_) => Ok(true),
            Transport::Tls(tls) => tls.flush(),
        }
    }

    /// Bytes that were taken and wait.
    pub(super) fn held(&self) -> usize {
        match self {
            Transport::Plain(_) | Transport::Stream(_) => 0,
            Transport::Tls(tls) => tls.held(),
        }
    }

    /// Ends the sending side.
    ///
    /// # Errors
    /// The errno of shutdown(2); a stream has nothing to be ended that way.
    pub(super) fn end_sending(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket::end_sending(socket),
            Transport::Tls(tls) => {
                tls.part();
                socket::end_sending(tls.socket())
            }
            Transport::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Everything that was begun is sent, and nothing will be any more: says so where that can be said.
    pub(super) fn part(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.part();
        }
    }

    /// The client that a proxy has introduced begins with these bytes; false: they are the connection's own to take.
    pub(super) fn introduced(&mut self, rest: &[u8]) -> bool {
        let Transport::Tls(tls) = self else { return false };
        tls.introduced(rest);
        true
    }

    /// Goes on without TLS, which its client does not speak; what that has sent.
    pub(super) fn give_up_tls(&mut self) -> Vec<u8> {
        if let Transport::Tls(tls) = self { tls.give_up() } else { Vec::new() }
    }

    /// What is known of TLS, once its handshake is whole.
    pub(super) fn secured(&self) -> Option<&Rc<Secured>> {
        match self {
            Transport::Tls(tls) => tls.secured().filter(|secured| !secured.version.is_empty()),
            Transport::Plain(_) | Transport::Stream(_) => None,
        }
    }

    /// What came of a handshake and is to be said.
    pub(super) fn take_news(&mut self) -> Option<News> {
        match self {
            Transport::Tls(tls) => tls.take_news(),
            Transport::Plain(_) | Transport::Stream(_) => None,
        }
    }

    /// Whether its client speaks HTTP/2 from the beginning; `http2_cleartext`: those without TLS may.
    pub(super) fn may_be_http2(&self, http2_cleartext: bool) -> bool {
        match self {
            Transport::Plain(_) => http2_cleartext,
            Transport::Tls(tls) => tls.is_http2(),
            Transport::Stream(_) => false,
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Transport::Stream(_))
    }

    /// What the event loop waits for; a stream has none of its own.
    pub(super) fn socket(&self) -> Option<&OwnedFd> {
        match self {
            Transport::Plain(socket) => Some(socket),
            Transport::Tls(tls) => Some(tls.socket()),
            Transport::Stream(_) => None,
        }
    }

    /// Sees to it that the loop is told when a stream is reset.
    ///
    /// # Errors
    /// It is already.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) | Transport::Tls(_) => Ok(()),
            Transport::Stream(stream) => stream.watch(),
        }
    }
}
