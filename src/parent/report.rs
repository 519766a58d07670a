//! What the parent says: to standard error while it starts, to the error log once it serves. Printing never blocks or ends it.

use crate::config::Level;
use crate::ipc::lines;
use crate::ipc::syslog::Syslog;
use crate::sys::{log_file, process, socket};
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

/// Where the parent's own lines go.
pub(super) struct Report {
    error_log: RefCell<OwnedFd>,
    /// The error log is the socket to syslog.
    syslog: Option<Syslog>,
    level: Level,
}

impl Report {
    /// Writes to this error log.
    pub(super) fn new(error_log: OwnedFd, is_syslog: bool, level: Level) -> Report {
        Report { error_log: RefCell::new(error_log), syslog: is_syslog.then(|| Syslog::new(process::own_id())), level }
    }

    /// Writes a text to the error log, each line of it as one, and to standard error where that cannot be written: a full disk
    /// shall be known.
    pub(super) fn line(&self, level: Level, text: &str) {
        if level <= self.level {
            text.lines().for_each(|line| self.write(level, line));
        }
    }

    fn write(&self, level: Level, text: &str) {
        let line = match &self.syslog {
            Some(syslog) => {
                let mut datagram = Vec::new();
                syslog.datagram(level, format!("parent: {text}").as_bytes(), &mut datagram);
                datagram
            }
            None => lines::error_line(level, "parent", text.as_bytes()),
        };
        let mut written = log_file::append_now(&*self.error_log.borrow(), &line);
        if self.syslog.is_some() && written.as_ref().is_err_and(|fault| fault.kind() != io::ErrorKind::WouldBlock) {
            // It was restarted, perhaps under another socket.
            if let Ok((socket, true)) = socket::syslog() {
                written = log_file::append_now(&socket, &line);
                self.error_log.replace(socket);
            }
        }
        if !written.is_ok_and(|count| count == line.len()) {
            announce(text);
        }
    }
}

/// Tells the operator who started the service; a standard error that is closed, or that nobody reads, is no reason to stop.
pub(super) fn announce(text: &str) {
    let _ = log_file::append_now(io::stderr(), format!("anchorite: {text}\n").as_bytes());
}
