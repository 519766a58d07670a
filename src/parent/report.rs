//! What the parent says: to standard error while it starts, to the error log once it serves. Printing never blocks or ends it.

use crate::config::Level;
use crate::ipc::lines;
use crate::sys::log_file;
use std::os::fd::OwnedFd;

/// Where the parent's own lines go.
pub(super) struct Report {
    error_log: OwnedFd,
    level: Level,
}

impl Report {
    pub(super) fn new(error_log: OwnedFd, level: Level) -> Report {
        Report { error_log, level }
    }

    /// Writes one line to the error log.
    pub(super) fn line(&self, level: Level, text: &str) {
        if level <= self.level {
            let _ = log_file::append(&self.error_log, &lines::error_line(level, "parent", text.as_bytes()));
        }
    }
}

/// Tells the operator who started the service; a closed standard error is no reason to stop.
pub(super) fn announce(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "anchorite: {text}");
}
