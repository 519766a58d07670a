//! The service manager, where one started the service: told how it stands (sd_notify(3)), kept from taking it for stuck
//! (sd_watchdog_enabled(3)), and the sockets that it hands over (sd_listen_fds(3)). Used by the parent only.
//!
//! Written here and not taken from a crate: those that speak this protocol ask the environment, which is cleared, for each
//! message anew, and know no abstract address.

use super::{clock, process, socket};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Whoever started this service and wants to know how it stands; perhaps nobody.
#[derive(Default)]
pub struct Manager {
    socket: Option<UnixDatagram>,
    /// How often it wants a sign of life, in milliseconds, and when the next one is due.
    every_ms: Option<u64>,
    next_ms: u64,
    /// Its words, for the program that takes this one's place.
    environment: Vec<(OsString, OsString)>,
}

impl Manager {
    /// What the environment said of it before that was cleared.
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Reads `NOTIFY_SOCKET` and `WATCHDOG_USEC`; to be called before the environment is cleared.
    ///
    /// # Errors
    /// Names the socket and why it cannot be reached.
    pub fn open() -> Result<Manager, String> {
        let words = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"].map(OsString::from);
        let words: Vec<_> = words.into_iter().filter_map(|name| std::env::var_os(&name).map(|value| (name, value))).collect();
        Manager::of(&words)
    }

    /// The same, from the words that a program before had.
    ///
    /// # Errors
    /// As [`Manager::open`].
    pub fn of(environment: &[(OsString, OsString)]) -> Result<Manager, String> {
        let word = |name: &str| environment.iter().find(|(word, _)| word == name).map(|(_, value)| value.clone());
        let Some(address) = word("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else {
            return Ok(Manager::default());
        };
        let socket = connect(&address).map_err(|fault| format!("NOTIFY_SOCKET \"{}\": {fault}", address.display()))?;
        let number = |name| word(name).and_then(|text| text.to_str()?.parse::<u64>().ok());
        let for_us = number("WATCHDOG_PID").is_none_or(|pid| i32::try_from(pid) == Ok(process::own_id()));
        // Twice as often as it must be, as sd_watchdog_enabled(3) asks.
        let every_ms = number("WATCHDOG_USEC").filter(|usec| for_us && *usec > 0).map(|usec| (usec / 2000).max(1));
        Ok(Manager { socket: Some(socket), every_ms, next_ms: 0, environment: environment.to_vec() })
    }

    /// The service serves; after a reload, the new generation does.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nMAINPID={}\nSTATUS={status}\n", process::own_id()));
    }

    /// A reload begins; [`Manager::ready`] ends it, whatever comes of it.
    pub fn reloading(&self) {
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading\n", clock::monotonic_us()));
    }

    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping\n");
    }

    /// Gives a sign of life when one is due.
    pub fn beat(&mut self, now_ms: u64) {
        if let Some(every) = self.every_ms.filter(|_| now_ms >= self.next_ms) {
            self.next_ms = now_ms + every;
            self.tell("WATCHDOG=1\n");
        }
    }

    /// When the next sign of life is due, in monotonic milliseconds.
    pub fn next_beat(&self) -> Option<u64> {
        self.every_ms.map(|_| self.next_ms)
    }

    /// A manager that does not listen is no reason to stop or to wait.
    fn tell(&self, state: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(state.as_bytes());
        }
    }
}

/// An address that begins with `@` is an abstract one (unix(7)).
fn connect(address: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// The listening sockets that the service manager hands over: those from 3 on that `LISTEN_FDS` counts, when `LISTEN_PID` is
/// this process. Every other inherited descriptor is closed. To be called first, before this process opens anything.
///
/// # Errors
/// Names the descriptor that is no stream socket that listens.
pub fn inherited_listeners() -> Result<Vec<OwnedFd>, String> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let count = if number("LISTEN_PID") == Some(process::own_id()) { number("LISTEN_FDS").unwrap_or(0).clamp(0, LISTENERS_MAX) } else { 0 };
    process::close_above(FIRST + count - 1).map_err(|fault| format!("inherited descriptors: {fault}"))?;
    (FIRST..FIRST + count)
        .map(|number| {
            let fault = |fault: io::Error| format!("inherited descriptor {number}: {fault}");
            let descriptor = take(number).map_err(fault)?;
            socket::prepare_inherited(&descriptor).map_err(fault)?;
            Ok(descriptor)
        })
        .collect()
}

fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: borrowed only for fcntl(2), which says EBADF where there is no such descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    // SAFETY: it is open, and nothing in this process, which has opened nothing yet, owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    let flags = OFlag::from_bits_retain(fcntl(descriptor.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(descriptor.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(descriptor)
}

/// SD_LISTEN_FDS_START.
const FIRST: RawFd = 3;

/// What a worker can be handed in one packet.
const LISTENERS_MAX: i32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_an_abstract_address_are_reached() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("anchorite-test-{}", process::own_id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (receiver, address) in [(by_path, path.into_os_string()), (by_name, format!("@{name}").into())] {
            let manager = Manager { socket: Some(connect(&address).unwrap()), every_ms: Some(10), next_ms: 0, environment: Vec::new() };
            manager.ready("serving");
            let mut buffer = [0; 256];
            let length = receiver.recv(&mut buffer).unwrap();
            let expected = format!("READY=1\nMAINPID={}\nSTATUS=serving\n", process::own_id());
            assert_eq!(String::from_utf8_lossy(&buffer[..length]), expected);
        }
    }

    #[test]
    fn a_sign_of_life_is_given_when_it_is_due_and_not_before() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut manager = Manager { socket: Some(ours), every_ms: Some(10), next_ms: 0, environment: Vec::new() };
        let beats = || {
            let mut buffer = [0; 64];
            std::iter::from_fn(|| theirs.recv(&mut buffer).ok()).count()
        };
        for (now, expected) in [(100, 1), (105, 0), (110, 1), (111, 0)] {
            manager.beat(now);
            assert_eq!(beats(), expected, "{now}");
        }
        assert_eq!(manager.next_beat(), Some(120));
    }
}
