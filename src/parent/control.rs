//! The control socket: an administrator's orders, a few at a time, each answered once.

use crate::config::Server;
use crate::ipc::control::{self, Order};
use crate::sys::epoll::{Interest, Poller};
use crate::sys::{pid_file, socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Leaves out the places in `/run/anchorite`, which are defaults, where an ordinary user runs the service who cannot write
/// there; true: it did. Places that somebody chose are kept, and fail where they cannot be had.
pub(super) fn leave_out_of_reach(server: &mut Server, rootless: bool) -> bool {
    let mut places = [&mut server.control_socket, &mut server.pid_file];
    let out_of_reach = |place: &&mut &mut Option<PathBuf>| {
        let path = place.as_deref().filter(|path| rootless && path.starts_with("/run/anchorite"));
        path.is_some_and(|path| !pid_file::is_within_reach(path))
    };
    let left = places.iter_mut().filter(out_of_reach).map(|place| **place = None);
    left.count() > 0
}

/// The listening end, and who is connected.
#[derive(Default)]
pub(super) struct Control {
    listener: Option<(OwnedFd, PathBuf)>,
    clients: [Option<OwnedFd>; CLIENTS_MAX],
}

impl Control {
    /// Listens at `path`, with the socket of the program before or in place of one that nobody listens at any more.
    ///
    /// # Errors
    /// Names the path and why: another service that runs, among others.
    pub(super) fn open(path: &Path, inherited: Option<OwnedFd>) -> Result<Control, String> {
        let fault = |fault: String| format!("control socket \"{}\": {fault}", path.display());
        pid_file::prepare_directory(path).map_err(fault)?;
        let listener = inherited
            .map_or_else(|| socket::listen_local(path), Ok)
            .map_err(|errno| fault(errno.to_string()))?;
        Ok(Control {
            listener: Some((listener, path.to_owned())),
            clients: Default::default(),
        })
    }

    pub(super) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|(listener, _)| listener.as_fd())
    }

    /// Accepts one client, whose token becomes `tokens` and its place; one too many is turned away.
    pub(super) fn accept(&mut self, poller: &Poller, tokens: u64) {
        let Some(Ok(client)) = self.listener.as_ref().map(|(listener, _)| socket::accept_local(listener)) else {
            return;
        };
        if let Some((place, free)) = (0..).zip(&mut self.clients).find(|(_, client)| client.is_none())
            && poller.add(&client, Interest::Input, tokens + place).is_ok()
        {
            *free = Some(client);
        }
    }

    /// The order of a client; what is no order, or the client's end, ends the connection.
    pub(super) fn receive(&mut self, client: u64) -> Option<Order> {
        let place = usize::try_from(client).ok()?;
        let mut buffer = [0; 16];
        let result = socket::receive_packet(self.clients.get(place)?.as_ref()?, &mut buffer);
        if matches!(&result, Err(fault) if fault.kind() == io::ErrorKind::WouldBlock) {
            return None;
        }
        let order = result.ok().and_then(|length| Order::decode(buffer.get(..length)?));
        if order.is_none() {
            self.clients[place] = None;
        }
        order
    }

    /// Answers a client and ends its connection. One that does not take its answer loses it: nothing waits for it.
    pub(super) fn answer(&mut self, client: u64, outcome: &Result<String, String>) {
        let place = usize::try_from(client).ok();
        let Some(client) = place.and_then(|place| self.clients.get_mut(place)).and_then(Option::take) else {
            return;
        };
        for packet in control::packets(outcome) {
            if socket::send_packet(&client, &packet).is_err() {
                return;
            }
        }
    }

    /// Answers everyone who is still connected: the service ends.
    pub(super) fn answer_all(&mut self, outcome: &Result<String, String>) {
        (0..).zip(0..CLIENTS_MAX).for_each(|(client, _)| self.answer(client, outcome));
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some((_, path)) = self.listener.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Clients at a time.
const CLIENTS_MAX: usize = 16;
