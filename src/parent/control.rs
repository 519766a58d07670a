//! The control socket: an administrator's orders, a few at a time, each answered once.

use crate::config::Server;
use crate::ipc::clients::Clients;
use crate::sys::epoll::Poller;
use crate::sys::{clock, pid_file, socket};
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
    /// Its name stays at the end: the program before, which may come back, goes on with it.
    lent: bool,
    pub(super) clients: Clients,
}

/// Who asked for the status, and until when a worker may answer.
pub(super) struct Asked {
    pub(super) client: u64,
    pub(super) json: bool,
    pub(super) until: u64,
}

impl Control {
    /// Listens at `path`, in place of a socket that nobody listens at any more.
    ///
    /// # Errors
    /// Names the path and why: another service that runs, among others.
    pub(super) fn open(path: &Path) -> Result<Control, String> {
        let fault = |fault: String| format!("control socket \"{}\": {fault}", path.display());
        pid_file::prepare_directory(path).map_err(fault)?;
        let listener = socket::listen_local(path).map_err(|errno| fault(errno.to_string()))?;
        Ok(Control::at(path, listener, false))
    }

    /// Goes on with the socket of the program before.
    pub(super) fn inherit(path: &Path, listener: OwnedFd) -> Control {
        Control::at(path, listener, true)
    }

    fn at(path: &Path, listener: OwnedFd, lent: bool) -> Control {
        Control { listener: Some((listener, path.to_owned())), lent, clients: Clients::default() }
    }

    /// The socket is this program's own from now on.
    pub(super) fn settle(&mut self) {
        self.lent = false;
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.listener.as_ref().map(|(_, path)| path.as_path())
    }

    pub(super) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|(listener, _)| listener.as_fd())
    }

    /// Accepts one client, whose token becomes `tokens` and its number.
    pub(super) fn accept(&mut self, poller: &Poller, tokens: u64) {
        if let Some(Ok(client)) = self.listener.as_ref().map(|(listener, _)| socket::accept_local(listener)) {
            self.clients.admit(client, poller, tokens, clock::monotonic_ms());
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some((_, path)) = self.listener.take().filter(|_| !self.lent) {
            let _ = std::fs::remove_file(path);
        }
    }
}
