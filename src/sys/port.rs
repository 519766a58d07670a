//! A listening socket that may share its port for a while, so that one whose address overlaps can take its place (SO_REUSEPORT and
//! SO_BINDTOIFINDEX, socket(7)). Used by the parent.

use super::{clock, socket};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A listening socket.
#[derive(Debug)]
pub struct Port {
    socket: OwnedFd,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Alone,
    /// Another may be bound beside it.
    Shared,
    /// It is such another, and does not listen yet: connections would come to it that nobody takes if its start fails.
    Bound,
    /// It gets no connections any more, and is of no use after this moment (monotonic milliseconds). It goes on sharing the port, since
    /// its address can be wanted again before.
    Retired(u64),
}

impl Port {
    /// Opens a TCP listener; where its address is in use by those of `open` that overlap with it, it is bound beside them and listens
    /// after [`Port::start`].
    ///
    /// # Errors
    /// The errno of socket(2), setsockopt(2), bind(2) or listen(2).
    pub fn open<'p>(address: SocketAddr, open: impl Iterator<Item = &'p Port>) -> io::Result<Port> {
        let listener = socket::listen(address);
        if listener.as_ref().err().is_none_or(|fault| fault.kind() != io::ErrorKind::AddrInUse) {
            return listener.map(Port::from);
        }
        // Where it is another program's too it still is in use after this. With nothing of our own there, one that shares its port
        // with whoever asks would be joined.
        if open.map(Port::share).collect::<io::Result<Vec<()>>>()?.is_empty() {
            return listener.map(Port::from);
        }
        let port = Port::from(socket::bind_beside(address)?);
        port.state.set(State::Bound);
        Ok(port)
    }

    fn share(&self) -> io::Result<()> {
        if self.state.get() == State::Alone && !socket::shares_port(&self.socket) {
            socket::share_port(&self.socket, true)?;
            self.state.set(State::Shared);
        }
        Ok(())
    }

    /// Listens, if it does not yet.
    ///
    /// # Errors
    /// The errno of listen(2).
    pub fn start(&self) -> io::Result<()> {
        if self.state.get() == State::Bound {
            socket::start_listening(&self.socket)?;
            self.state.set(State::Shared);
        }
        Ok(())
    }

    /// Permits nobody else beside it any more.
    pub fn stand_alone(&self) {
        if matches!(self.state.get(), State::Shared | State::Bound) {
            let _ = socket::share_port(&self.socket, false);
            self.state.set(State::Alone);
        }
    }

    /// Leaves new connections to another whose address overlaps; true: what it has can still be accepted.
    pub fn retire(&self) -> bool {
        let retires = socket::retire(&self.socket).is_ok();
        if retires {
            self.state.set(State::Retired(clock::monotonic_ms() + socket::HELD_BACK_MS + LATER_MS));
        }
        retires
    }

    pub fn is_retired(&self) -> bool {
        self.is_waiting(0)
    }

    /// Whether it is retired and something may still wait in it.
    pub fn is_waiting(&self, now: u64) -> bool {
        matches!(self.state.get(), State::Retired(until) if now < until)
    }
}

impl From<OwnedFd> for Port {
    fn from(socket: OwnedFd) -> Port {
        Port { socket, state: Cell::new(State::Alone) }
    }
}

impl Deref for Port {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.socket
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Another program may have it too, which goes on with it as it was.
        self.stand_alone();
    }
}

/// How much longer it is known here than workers have it: they count from when they are told, and an address must not be taken by a
/// listener that nobody here knows any more.
const LATER_MS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::socket::Address;

    #[test]
    fn an_address_that_overlaps_listens_when_told_and_leaves_the_ports_as_they_were() {
        let old = Port::open("127.0.0.1:0".parse().unwrap(), std::iter::empty()).unwrap();
        let Ok(Address::Ip(address)) = socket::local_address(&old) else { panic!() };
        let wide = SocketAddr::from(([0, 0, 0, 0], address.port()));
        for shares in [true, false] {
            socket::share_port(&old, shares).unwrap();
            assert!(Port::open(wide, std::iter::empty()).is_err(), "of another program, which shares: {shares}");
        }
        // The start fails.
        let next = Port::open(wide, std::iter::once(&old)).unwrap();
        assert!(socket::shares_port(&old) && !socket::is_listening(&next));
        drop(next);
        old.stand_alone();
        assert!(!socket::shares_port(&old));
        // It succeeds.
        let next = Port::open(wide, std::iter::once(&old)).unwrap();
        next.start().unwrap();
        assert!(socket::is_listening(&next) && !old.is_retired());
        assert!(old.retire() && old.is_retired() && old.is_waiting(clock::monotonic_ms()) && !old.is_waiting(u64::MAX));
        next.stand_alone();
        assert!(!socket::shares_port(&next));
        // Back again, while connections may still wait in the one that was left.
        let again = Port::open(address, [&next, &old].into_iter()).unwrap();
        again.start().unwrap();
    }
}
