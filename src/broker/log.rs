//! `log`: appends the lines that workers send to the files that the parent opened. CONFINED: it sees an empty directory,
//! has no network, and cannot open anything; what it writes to was handed to it.
//!
//! A worker writes nothing itself, so a hijacked one cannot rewrite what was logged. The lines of each come over a channel
//! of its own, so that the sender of an error line is known and a malformed packet ends its sender.

use crate::config::{Level, LogSlice};
use crate::ipc::birth::{self, Born};
use crate::ipc::lines::{self, Lines};
use crate::ipc::messages::{ToLog, ToParent};
use crate::ipc::{Channel, Received};
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::{clock, log_file};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

/// Runs the role until the parent stops it; the exit status.
pub fn run() -> u8 {
    let born = match birth::begin::<LogSlice>(Role::Log) {
        Ok(born) if born.cell.proof => return birth::prove(&born),
        Ok(born) => born,
        Err(status) => return status,
    };
    match Log::new(born).and_then(Log::serve) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

struct Log {
    born: Born<LogSlice>,
    /// Access log and error log, once the parent has handed them over.
    files: Option<(OwnedFd, OwnedFd)>,
    /// By token: workers are replaced, so one number may stand for two processes for a moment.
    channels: BTreeMap<u64, (u16, Channel)>,
    next_token: u64,
    /// Error lines less severe are dropped.
    level: Level,
    lost: u32,
    /// When the loss was last reported, in monotonic milliseconds.
    reported: u64,
    stopping: bool,
}

impl Log {
    fn new(born: Born<LogSlice>) -> io::Result<Log> {
        born.poller.add(&born.parent, Interest::Input, PARENT)?;
        birth::report_ready(&born.parent, &born.confined)?;
        Ok(Log {
            level: born.slice.level,
            born,
            files: None,
            channels: BTreeMap::new(),
            next_token: PARENT + 1,
            lost: 0,
            reported: 0,
            stopping: false,
        })
    }

    /// The loop. Ends when the parent is gone, or after [`ToLog::Stop`] when every channel has ended.
    fn serve(mut self) -> io::Result<()> {
        let mut buffer = vec![0; lines::PACKET_MAX + 1];
        while !(self.stopping && self.channels.is_empty()) {
            let count = self.born.poller.wait(None)?;
            for index in 0..count {
                let Some(ready) = self.born.poller.ready(index) else { continue };
                if ready.token == PARENT {
                    if !self.obey()? {
                        return Ok(());
                    }
                } else {
                    self.take_lines(ready.token, &mut buffer);
                }
            }
            self.report_loss();
        }
        Ok(())
    }

    /// Takes one message of the parent; false: it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        match self.born.parent.receive_from_parent() {
            Received::Message(ToLog::Files { level }, descriptors) => {
                self.level = level;
                let mut descriptors = descriptors.into_iter();
                self.files = descriptors.next().zip(descriptors.next());
            }
            Received::Message(ToLog::Channel { worker }, descriptors) => {
                for channel in descriptors.into_iter().map(Channel::from) {
                    self.born.poller.add(&channel, Interest::Input, self.next_token)?;
                    self.channels.insert(self.next_token, (worker, channel));
                    self.next_token += 1;
                }
            }
            Received::Message(ToLog::Stop, _) => self.stopping = true,
            Received::Nothing => {}
            // Told to stop, it outlives the parent's end, as when the program is replaced: the channels still hold lines. Should
            // the parent really have died, the kernel ends this process.
            Received::Ended if self.stopping => self.born.poller.remove(&self.born.parent)?,
            Received::Ended => return Ok(false),
            // The parent is trusted; if it is not what it was, this process must not go on.
            Received::Malformed => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(true)
    }

    /// Takes packets of one worker, some at a time so that a busy one does not keep the others waiting.
    fn take_lines(&mut self, token: u64, buffer: &mut [u8]) {
        const TURN: usize = 16;
        for _ in 0..TURN {
            let Some((worker, channel)) = self.channels.get(&token) else {
                return;
            };
            let worker = *worker;
            let Some(length) = channel.receive_lines(buffer) else { return };
            if length == 0 {
                self.channels.remove(&token);
                return;
            }
            match buffer.get(..length).and_then(Lines::decode) {
                Some(Lines::Access(text)) => self.append_access(text),
                Some(Lines::Error(level, text)) => self.append_error(level, worker, text),
                None => {
                    self.channels.remove(&token);
                    let _ = self.born.parent.send(&ToParent::Malformed { worker }, &[]);
                    return;
                }
            }
        }
    }

    fn append_access(&mut self, text: &[u8]) {
        if !self.files.as_ref().is_some_and(|(access, _)| append_all(access, text)) {
            let lines = memchr::memchr_iter(b'\n', text).count();
            self.lost = self.lost.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        }
    }

    fn append_error(&mut self, level: Level, worker: u16, text: &[u8]) {
        if level > self.level {
            return;
        }
        let line = lines::error_line(level, &format!("worker {worker}"), text);
        if !self.files.as_ref().is_some_and(|(_, error)| append_all(error, &line)) {
            self.lost = self.lost.saturating_add(1);
        }
    }

    /// Tells the parent of lines that could not be written, at most once a minute.
    fn report_loss(&mut self) {
        const INTERVAL_MS: u64 = 60_000;
        let now = clock::monotonic_ms();
        let due = self.reported == 0 || now - self.reported >= INTERVAL_MS;
        if self.lost > 0 && due && self.born.parent.send(&ToParent::Lost { lines: self.lost }, &[]).is_ok() {
            self.lost = 0;
            self.reported = now;
        }
    }
}

/// Appends everything; a short write is continued, so that no line is torn. False: it could not be written.
fn append_all(file: &OwnedFd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match log_file::append(file, bytes) {
            Ok(0) => return false,
            Ok(count) => bytes = bytes.get(count..).unwrap_or(&[]),
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

/// Token of the parent's channel.
const PARENT: u64 = 0;
