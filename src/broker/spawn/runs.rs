//! What `spawn` holds of CGI programs: the workers that may ask for them, those that run, those that wait; and of every program what it writes.
//! PRIVILEGED, as the rest of `spawn`; does nothing.

use crate::config::RunSlice;
use crate::ipc::Channel;
use crate::ipc::run::Run;
use crate::sys::program::End;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;

#[derive(Default)]
pub(super) struct Runs {
    pub(super) senders: BTreeMap<u64, Sender>,
    pub(super) running: Vec<One>,
    pub(super) waiting: VecDeque<(u64, Run)>,
    /// For one message of a worker.
    pub(super) buffer: Vec<u8>,
}

/// A worker, and what its generation runs.
pub(super) struct Sender {
    pub(super) worker: u16,
    pub(super) channel: Channel,
    /// That of `connect`.
    pub(super) answers: Channel,
    pub(super) table: Rc<RunSlice>,
}

/// A program that runs, or something of its session.
pub(super) struct One {
    pub(super) sender: u64,
    pub(super) id: u32,
    pub(super) pid: i32,
    /// Whose request it is, and the program's path, for the error log.
    pub(super) what: String,
    pub(super) report: Option<(OwnedFd, u64)>,
    pub(super) said: Said,
    pub(super) said_token: u64,
    /// Its first process has ended.
    pub(super) reaped: bool,
    /// The next signal, and when it is sent.
    pub(super) end: Option<(End, u64)>,
    /// Nobody waits for it any more.
    pub(super) over: bool,
}

/// What a program writes.
pub(super) struct Said {
    pub(super) pipe: Option<OwnedFd>,
    pub(super) line: Vec<u8>,
    /// Lines within the present second, and when that began.
    pub(super) lines: u32,
    pub(super) since: u64,
}

impl Runs {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn next_moment(&self) -> Option<u64> {
        self.running.iter().filter_map(|one| one.end).map(|(_, moment)| moment).min()
    }
}

impl Said {
    /// The lines that are complete with these bytes; in place of the first too many within a second `None`.
    pub(super) fn take(&mut self, bytes: &[u8], now: u64) -> Vec<Option<Vec<u8>>> {
        let mut complete = Vec::new();
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = LINE_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if text.len() == part.len() {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if now.saturating_sub(self.since) >= 1_000 {
                (self.since, self.lines) = (now, 0);
            }
            self.lines += 1;
            match self.lines {
                ..=LINES_A_SECOND if !line.is_empty() => complete.push(Some(line)),
                n if n == LINES_A_SECOND + 1 => complete.push(None),
                _ => {}
            }
        }
        complete
    }
}

/// Bytes of one line of a program, lines of one process within a second, and reads of one before others have their turn.
pub(super) const LINE_MAX: usize = 1_000;
const LINES_A_SECOND: u32 = 50;
