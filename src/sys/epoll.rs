//! One epoll instance (epoll(7)) with tokens in place of descriptors. Used by every role's loop.

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io;
use std::os::fd::AsFd;

/// What is waited for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Input, told again as long as there is some.
    Input,
    /// Room for output, told again as long as there is some.
    Output,
    /// A listener shared with other processes: one of them is woken for a connection.
    SharedListener,
    /// Input and output, told once per change; registered once for a connection's whole life.
    Connection,
}

/// One descriptor that is ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub token: u64,
    pub input: bool,
    pub output: bool,
    /// The other side is gone, or the descriptor failed.
    pub hung_up: bool,
}

/// An epoll instance and room for one batch of events.
pub struct Poller {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Poller {
    /// # Errors
    /// The errno of epoll_create1(2).
    pub fn new() -> io::Result<Poller> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Poller { epoll, events: vec![EpollEvent::empty(); BATCH] })
    }

    /// # Errors
    /// The errno of epoll_ctl(2).
    pub fn add(&self, descriptor: impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        let flags = match interest {
            Interest::Input => EpollFlags::EPOLLIN,
            Interest::Output => EpollFlags::EPOLLOUT,
            Interest::SharedListener => EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE,
            Interest::Connection => EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET,
        };
        Ok(self.epoll.add(descriptor, EpollEvent::new(flags, token))?)
    }

    /// # Errors
    /// The errno of epoll_ctl(2).
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.delete(descriptor)?)
    }

    /// Waits for at most `timeout_ms` (`None`: without end) and returns how many are ready; see [`Poller::ready`].
    ///
    /// # Errors
    /// The errno of epoll_wait(2), `EINTR` excepted.
    pub fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<usize> {
        let timeout = timeout_ms.map_or(EpollTimeout::NONE, |ms| EpollTimeout::from(u16::try_from(ms).unwrap_or(u16::MAX)));
        match self.epoll.wait(&mut self.events, timeout) {
            Err(nix::errno::Errno::EINTR) => Ok(0),
            result => Ok(result?),
        }
    }

    /// The `index`-th event of the last [`Poller::wait`].
    pub fn ready(&self, index: usize) -> Option<Ready> {
        let event = self.events.get(index)?;
        let flags = event.events();
        Some(Ready {
            token: event.data(),
            input: flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR),
            output: flags.contains(EpollFlags::EPOLLOUT),
            hung_up: flags.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR),
        })
    }
}

/// Events taken per wait: enough that a busy worker rarely waits twice, few enough that the last one does not starve.
const BATCH: usize = 256;
