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
    /// Each with its number: that of its place, plus a multiple of [`CLIENTS_MAX`] which changes with each one that takes it,
    /// so that nobody gets the answer of one who has gone.
    clients: [Option<(u64, OwnedFd)>; CLIENTS_MAX],
    taken: u64,
}

/// Who asked for the status, and until when a worker may answer.
pub(super) struct Asked {
    pub(super) client: u64,
    pub(super) json: bool,
    pub(super) until: u64,
}

impl Control {
    /// Listens at `path`, with the socket of the program before or in place of one that nobody listens at any more.
    ///
    /// # Errors
    /// Names the path and why: another service that runs, among others.
    pub(super) fn open(path: &Path, inherited: Option<OwnedFd>) -> Result<Control, String> {
        let fault = |fault: String| format!("control socket \"{}\": {fault}", path.display());
        pid_file::prepare_directory(path).map_err(fault)?;
        let listener = inherited.map_or_else(|| socket::listen_local(path), Ok).map_err(|errno| fault(errno.to_string()))?;
        Ok(Control { listener: Some((listener, path.to_owned())), clients: Default::default(), taken: 0 })
    }

    pub(super) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|(listener, _)| listener.as_fd())
    }

    /// Accepts one client, whose token becomes `tokens` and its number, below [`NUMBERS`]; one too many is turned away.
    pub(super) fn accept(&mut self, poller: &Poller, tokens: u64) {
        let Some(Ok(client)) = self.listener.as_ref().map(|(listener, _)| socket::accept_local(listener)) else {
            return;
        };
        let Some((place, free)) = (0..).zip(&mut self.clients).find(|(_, client)| client.is_none()) else {
            return;
        };
        self.taken += 1;
        let number = (self.taken * PLACES + place) % NUMBERS;
        if poller.add(&client, Interest::Input, tokens + number).is_ok() {
            *free = Some((number, client));
        }
    }

    /// The order of a client; what is no order, or the client's end, ends the connection.
    pub(super) fn receive(&mut self, client: u64) -> Option<Order> {
        let place = self.place(client)?;
        let mut buffer = [0; 16];
        let (_, socket) = place.as_ref()?;
        let result = socket::receive_packet(socket, &mut buffer);
        if matches!(&result, Err(fault) if fault.kind() == io::ErrorKind::WouldBlock) {
            return None;
        }
        let order = result.ok().and_then(|length| Order::decode(buffer.get(..length)?));
        if order.is_none() {
            *place = None;
        }
        order
    }

    /// Answers a client and ends its connection. One that does not take its answer loses it: nothing waits for it.
    pub(super) fn answer(&mut self, client: u64, outcome: &Result<String, String>) {
        let Some((_, client)) = self.place(client).and_then(Option::take) else {
            return;
        };
        for packet in control::packets(outcome) {
            if socket::send_packet(&client, &packet).is_err() {
                return;
            }
        }
    }

    /// Where a client is, unless it has gone.
    fn place(&mut self, client: u64) -> Option<&mut Option<(u64, OwnedFd)>> {
        let is_it = |place: &&mut Option<(u64, OwnedFd)>| place.as_ref().is_some_and(|(number, _)| *number == client);
        self.clients.iter_mut().find(is_it)
    }

    /// Answers everyone who is still connected: the service ends.
    pub(super) fn answer_all(&mut self, outcome: &Result<String, String>) {
        (0..NUMBERS).for_each(|client| self.answer(client, outcome));
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
const PLACES: u64 = 16;

/// Numbers of clients: so many tokens lie free for them.
const NUMBERS: u64 = 15 * PLACES;
