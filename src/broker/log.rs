//! `log`: writes the lines that workers send to the files that the parent opened, or to syslog. CONFINED: it sees an empty
//! directory, has no network, and cannot open anything; what it writes to was handed to it.
//!
//! A worker writes nothing itself, so a hijacked one cannot rewrite what was logged. The lines of each come over a channel
//! of its own, so that the sender of an error line is known, one that sends too many is cut off alone, and a malformed packet
//! ends its sender. What cannot be written is dropped and counted; every batch tries again.

use super::refusals::Refusals;
use super::sink::{Loss, Sink};
use crate::config::{Level, LogSlice, SYSLOG};
use crate::ipc::Channel;
use crate::ipc::birth::{self, Born, Order};
use crate::ipc::lines::{self, Lines};
use crate::ipc::messages::{ToLog, ToParent};
use crate::role::Role;
use crate::sys::clock;
use crate::sys::epoll::Interest;
use crate::sys::kernel_log::KernelLog;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Runs the role until the parent stops it; the exit status.
pub fn run() -> u8 {
    birth::run(Role::Log, |born| Log::new(born)?.serve())
}

struct Log {
    born: Born<LogSlice>,
    /// By the numbers that workers know them by.
    sinks: BTreeMap<u16, Sink>,
    /// Those that came since the last [`ToLog::InForce`].
    fresh: BTreeSet<u16>,
    /// Where error lines go, and whether access lines may.
    error: u16,
    shared: bool,
    /// By token: workers are replaced, so one number may stand for two processes for a moment.
    senders: BTreeMap<u64, Sender>,
    next_token: u64,
    /// Error lines less severe are dropped.
    level: Level,
    lost: u32,
    /// Where and why the last line was lost.
    why: (u16, u16),
    /// When the loss was last reported, and a new socket asked for, in monotonic milliseconds.
    reported: Option<u64>,
    asked: Option<u64>,
    refusals: Refusals,
    stopping: bool,
}

/// A worker, or another role that has error lines.
struct Sender {
    worker: u16,
    role: Role,
    channel: Channel,
    /// The second that is counted, its error lines, and how many of them were suppressed.
    since: u64,
    lines: u32,
    suppressed: u32,
}

impl Log {
    fn new(mut born: Born<LogSlice>) -> io::Result<Log> {
        born.poller.add(&born.parent, Interest::Input, PARENT)?;
        birth::report_ready(&born.parent, &born.confined)?;
        Ok(Log {
            level: born.slice.level,
            refusals: Refusals::new(KernelLog::new(born.kernel_log.take(), born.cell.identity.uid)),
            born,
            sinks: BTreeMap::new(),
            fresh: BTreeSet::new(),
            error: SYSLOG,
            shared: false,
            senders: BTreeMap::new(),
            next_token: PARENT + 1,
            lost: 0,
            why: (SYSLOG, 0),
            reported: None,
            asked: None,
            stopping: false,
        })
    }

    /// The loop. Ends when the parent is gone, or after [`ToLog::Stop`] when every channel has ended.
    fn serve(mut self) -> io::Result<()> {
        let mut buffer = vec![0; lines::PACKET_MAX + 1];
        while !(self.stopping && self.senders.is_empty()) {
            let count = self.born.poller.wait(self.timeout())?;
            for index in 0..count {
                let Some(ready) = self.born.poller.ready(index) else { continue };
                let goes_on = if ready.token == PARENT { self.obey()? } else { self.take_lines(ready.token, &mut buffer)? };
                if !goes_on {
                    return Ok(());
                }
            }
            let now = clock::monotonic_ms();
            self.report_suppressed(now);
            self.report_loss(now);
            for line in self.refusals.look(now) {
                self.append_error(Level::Error, "log", line.as_bytes());
            }
        }
        // The last word: whatever was not yet due.
        self.reported = None;
        self.report_loss(clock::monotonic_ms());
        Ok(())
    }

    /// Until something has to be reported even if no more lines come.
    fn timeout(&self) -> Option<u64> {
        let now = clock::monotonic_ms();
        let suppressing = self.senders.values().filter(|sender| sender.suppressed > 0);
        let loss = (self.lost > 0).then(|| self.reported.map_or(now, |reported| reported + REPORT_MS));
        let due = suppressing.map(|sender| sender.since + SECOND_MS).chain(loss).chain(self.refusals.due(now)).min();
        due.map(|moment| moment.saturating_sub(now))
    }

    /// Takes what the parent has sent; false: it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        loop {
            match self.born.order(self.stopping)? {
                Order::Given(ToLog::Files { numbers }, descriptors) => {
                    for (number, descriptor) in numbers.into_iter().zip(descriptors) {
                        let sink = if number == SYSLOG { Sink::syslog(descriptor, self.born.cell.parent) } else { Sink::file(descriptor) };
                        self.put(number, sink);
                    }
                }
                Order::Given(ToLog::InForce { level, error, shared }, _) => {
                    (self.level, self.error, self.shared) = (level, error, shared);
                    let fresh = std::mem::take(&mut self.fresh);
                    self.sinks.retain(|number, _| fresh.contains(number));
                }
                Order::Given(ToLog::Syslog, sockets) => {
                    for socket in sockets {
                        self.put(SYSLOG, Sink::syslog(socket, self.born.cell.parent));
                    }
                }
                Order::Given(ToLog::Channel { worker, role }, descriptors) => {
                    for channel in descriptors.into_iter().map(Channel::from) {
                        self.born.poller.add(&channel, Interest::Input, self.next_token)?;
                        let sender = Sender { worker, role, channel, since: 0, lines: 0, suppressed: 0 };
                        self.senders.insert(self.next_token, sender);
                        self.next_token += 1;
                    }
                }
                Order::Given(ToLog::Refused { pid }, _) => self.refusals.want(pid, clock::monotonic_ms()),
                Order::Given(ToLog::Stop, _) => self.stopping = true,
                Order::Nothing => return Ok(true),
                Order::Gone => return Ok(false),
            }
        }
    }

    fn put(&mut self, number: u16, mut sink: Sink) {
        if let Some(before) = self.sinks.remove(&number) {
            sink.succeed(before);
        }
        self.sinks.insert(number, sink);
        self.fresh.insert(number);
    }

    /// Takes packets of one worker, some at a time so that a busy one does not keep the others waiting. False: the parent is gone.
    fn take_lines(&mut self, token: u64, buffer: &mut [u8]) -> io::Result<bool> {
        const TURN: usize = 16;
        for _ in 0..TURN {
            let Some(sender) = self.senders.get(&token) else { break };
            let Some(length) = sender.channel.receive_lines(buffer) else {
                break;
            };
            if length == 0 {
                self.part_from(token);
                break;
            }
            let packet = buffer.get(..length).and_then(Lines::decode);
            let known = |log: &Log| match packet {
                Some(Lines::Access(mut pieces)) => pieces.all(|(number, _)| log.takes_access(number)),
                Some(Lines::Error(..)) => true,
                None => false,
            };
            // A number may be of a log that the parent has sent meanwhile: it sends logs before it lets workers use them.
            if packet.is_some() && !known(self) && !self.obey()? {
                return Ok(false);
            }
            match packet.filter(|_| known(self)) {
                Some(Lines::Access(pieces)) => pieces.for_each(|(number, lines)| self.append(number, Level::Info, lines)),
                Some(Lines::Error(level, text)) => self.take_error(token, level, text),
                None => {
                    let worker = self.part_from(token);
                    let _ = self.born.parent.send(&ToParent::Malformed { worker }, &[]);
                    break;
                }
            }
        }
        Ok(true)
    }

    fn takes_access(&self, number: u16) -> bool {
        self.sinks.contains_key(&number) && (number != self.error || self.shared)
    }

    /// Forgets a worker; its number.
    fn part_from(&mut self, token: u64) -> u16 {
        let Some(sender) = self.senders.remove(&token) else { return 0 };
        if sender.suppressed > 0 {
            self.tell_suppressed(&sender.name(), sender.suppressed);
        }
        sender.worker
    }

    /// Writes an error line, unless its sender has written too many this second.
    fn take_error(&mut self, token: u64, level: Level, text: &[u8]) {
        if level > self.level {
            return;
        }
        let now = clock::monotonic_ms();
        let Some(sender) = self.senders.get_mut(&token) else { return };
        let name = sender.name();
        let over = now.saturating_sub(sender.since) >= SECOND_MS;
        let suppressed = if over { std::mem::take(&mut sender.suppressed) } else { 0 };
        if over {
            (sender.since, sender.lines) = (now, 0);
        }
        sender.lines += 1;
        let is_too_many = sender.lines > ERRORS_PER_SECOND;
        if is_too_many {
            sender.suppressed += 1;
        }
        if suppressed > 0 {
            self.tell_suppressed(&name, suppressed);
        }
        if !is_too_many {
            self.append_error(level, &name, text);
        }
    }

    fn report_suppressed(&mut self, now: u64) {
        let is_due = |sender: &Sender| sender.suppressed > 0 && now.saturating_sub(sender.since) >= SECOND_MS;
        let due: Vec<(String, u32)> = self
            .senders
            .values_mut()
            .filter(|sender| is_due(sender))
            .map(|sender| (sender.name(), std::mem::take(&mut sender.suppressed)))
            .collect();
        for (name, suppressed) in due {
            self.tell_suppressed(&name, suppressed);
        }
    }

    fn tell_suppressed(&mut self, sender: &str, suppressed: u32) {
        let text = format!("{suppressed} more lines of this process were suppressed, beyond {ERRORS_PER_SECOND} a second");
        self.append_error(Level::Warning, sender, text.as_bytes());
    }

    fn append_error(&mut self, level: Level, sender: &str, text: &[u8]) {
        if self.error == SYSLOG {
            // It adds time and level itself.
            let line = [sender.as_bytes(), b": ", text, b"\n"].concat();
            self.append(SYSLOG, level, &line);
        } else {
            self.append(self.error, level, &lines::error_line(level, sender, text));
        }
    }

    fn append(&mut self, number: u16, level: Level, lines: &[u8]) {
        let Some(sink) = self.sinks.get_mut(&number) else { return };
        if let Err(Loss { lines, errno }) = sink.append(level, lines) {
            self.lost = self.lost.saturating_add(lines);
            self.why = (number, errno);
            if sink.is_dead() {
                self.ask_for_syslog();
            }
        }
    }

    /// Asks the parent to connect to syslog anew, at most once a second.
    fn ask_for_syslog(&mut self) {
        let now = clock::monotonic_ms();
        let is_due = self.asked.is_none_or(|asked| now.saturating_sub(asked) >= SECOND_MS);
        if is_due && self.born.parent.send(&ToParent::NoSyslog, &[]).is_ok() {
            self.asked = Some(now);
        }
    }

    /// Tells the parent of lines that could not be written, at most once a minute.
    fn report_loss(&mut self, now: u64) {
        let is_due = self.reported.is_none_or(|reported| now.saturating_sub(reported) >= REPORT_MS);
        if self.lost == 0 || !is_due {
            return;
        }
        let (file, errno) = self.why;
        let message = ToParent::Lost { lines: self.lost, file, errno };
        if self.born.parent.send(&message, &[]).is_ok() {
            self.lost = 0;
        }
        // Not at once again in either case: a parent that is behind is not helped by being asked.
        self.reported = Some(now);
    }
}

impl Sender {
    /// How it is named in its error lines: of workers there are several.
    fn name(&self) -> String {
        let role = self.role.name();
        if self.role == Role::Worker { format!("{role} {}", self.worker) } else { role.to_owned() }
    }
}

/// Token of the parent's channel.
const PARENT: u64 = 0;

/// Error lines of one worker in a second; a hijacked one fills the disk no faster.
const ERRORS_PER_SECOND: u32 = 200;
const SECOND_MS: u64 = 1_000;

/// How often losses are reported.
const REPORT_MS: u64 = 60_000;
