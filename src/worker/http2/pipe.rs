//! What `h2` takes for its socket: bytes that have come, and bytes that are to go. The session moves both.
//!
//! Runs in the worker; makes no system call. `h2` flushes after each of its turns, which would be a call and a TLS record for every response:
//! here flushing does nothing, and what has gathered leaves at once when the event is handled. When more has gathered than is worth keeping,
//! it is told to wait.

use super::meter::Meter;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Both directions.
#[derive(Default)]
pub(super) struct Pipe {
    incoming: Vec<u8>,
    taken: usize,
    /// The client has ended its side.
    pub(super) ended: bool,
    pub(super) outgoing: Vec<u8>,
    /// Bytes of it that are sent.
    pub(super) sent: usize,
    /// `h2` had more to say than there was room for.
    pub(super) is_full: bool,
    pub(super) meter: Meter,
}

impl Pipe {
    pub(super) fn bring(&mut self, bytes: &[u8], preface: usize) {
        self.meter.take(bytes.get(preface..).unwrap_or_default());
        self.incoming.extend_from_slice(bytes);
    }

    /// Bytes that `h2` has not read.
    pub(super) fn unread(&self) -> usize {
        self.incoming.len() - self.taken
    }

    /// Gives back what is empty.
    pub(super) fn release(&mut self) {
        if self.incoming.is_empty() {
            self.incoming = Vec::new();
        }
        if self.outgoing.is_empty() {
            self.outgoing = Vec::new();
        }
    }
}

/// The end that `h2` has.
pub(super) struct End(pub(super) Rc<RefCell<Pipe>>);

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let pipe = &mut *self.0.borrow_mut();
        let unread = pipe.incoming.get(pipe.taken..).unwrap_or_default();
        if unread.is_empty() {
            return if pipe.ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let count = unread.len().min(buffer.remaining());
        buffer.put_slice(unread.get(..count).unwrap_or_default());
        pipe.taken += count;
        if pipe.taken == pipe.incoming.len() {
            pipe.incoming.clear();
            pipe.taken = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(self: Pin<&mut Self>, _: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.borrow_mut();
        if pipe.outgoing.len() >= GATHERED {
            pipe.is_full = true;
            return Poll::Pending;
        }
        parts.iter().for_each(|part| pipe.outgoing.extend_from_slice(part));
        Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Bytes that gather before they are really sent.
const GATHERED: usize = 128 * 1024;
