//! The parent's loop: verifies what it started, hands out sockets, replaces what died, stops on a signal.
//!
//! A listening socket stays open here through any worker's death, so no connection is refused meanwhile. A process that
//! sends something malformed is ended, not the parent. Respawn is at once the first time and slower each time after.

use super::child::{Child, Nursery, State};
use super::report::Report;
use super::slot::Slot;
use crate::config::{Level, Limits};
use crate::ipc::messages::{ToLog, ToParent, ToWorker};
use crate::ipc::{Channel, Received, birth};
use crate::role::{Layer, Role};
use crate::sys::epoll::{Interest, Poller};
use crate::sys::panic;
use crate::sys::process::{self, Ended};
use crate::sys::signal::{Arrived, Signals};
use crate::sys::{clock, socket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The parent once it serves.
pub(super) struct Supervisor {
    nursery: Nursery,
    signals: Signals,
    listeners: Vec<OwnedFd>,
    /// Access log, error log.
    logs: (OwnedFd, OwnedFd),
    report: Report,
    drain_ms: u64,
    poller: Poller,
    /// `log` first, then the workers: [`LOG`], [`FIRST_WORKER`] and up.
    slots: Vec<Slot>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first processes are starting: a failure ends the service.
    Starting,
    Serving,
    /// Workers finish what runs until this moment.
    StoppingWorkers(u64),
    /// The workers are gone; `log` writes what is left until this moment.
    StoppingLog(u64),
}

impl Supervisor {
    pub(super) fn new(
        nursery: Nursery,
        signals: Signals,
        listeners: Vec<OwnedFd>,
        logs: (OwnedFd, OwnedFd),
        report: Report,
        limits: &Limits,
    ) -> Result<Supervisor, String> {
        let poller = Poller::new().map_err(|fault| format!("epoll: {fault}"))?;
        poller
            .add(&signals, Interest::Input, SIGNALS)
            .map_err(|fault| format!("epoll: {fault}"))?;
        let drain_ms = u64::try_from(limits.drain_timeout.as_millis()).unwrap_or(u64::MAX);
        Ok(Supervisor {
            nursery,
            signals,
            listeners,
            logs,
            report,
            drain_ms,
            poller,
            slots: Vec::new(),
            phase: Phase::Starting,
        })
    }

    pub(super) fn listeners(&self) -> &[OwnedFd] {
        &self.listeners
    }

    /// Starts `log` and the workers and waits until each is verified and serves.
    ///
    /// # Errors
    /// The first failure; nothing is left running then.
    pub(super) fn start_all(&mut self, workers: u16) -> Result<(), String> {
        self.slots.push(Slot::new(Role::Log, 0));
        self.slots.extend((0..workers).map(|number| Slot::new(Role::Worker, number)));
        for index in 0..self.slots.len() {
            self.start(index)?;
        }
        let outcome = self.wait_for_all();
        if outcome.is_err() {
            self.slots
                .iter_mut()
                .filter_map(|slot| slot.child.as_mut())
                .for_each(Child::condemn);
        } else {
            self.phase = Phase::Serving;
            self.report.line(Level::Notice, &format!("serving, workers: {workers}"));
        }
        outcome
    }

    fn wait_for_all(&mut self) -> Result<(), String> {
        let deadline = clock::monotonic_ms() + START_MS;
        while !self.slots.iter().all(Slot::is_serving) {
            if clock::monotonic_ms() >= deadline {
                return Err("a process did not confine itself in time".to_owned());
            }
            self.turn(deadline)?;
            if self.phase != Phase::Starting {
                return Err("stopped by a signal while starting".to_owned());
            }
        }
        Ok(())
    }

    /// Serves until a signal ends it; the exit status.
    pub(super) fn supervise(mut self) -> u8 {
        loop {
            let now = clock::monotonic_ms();
            self.start_due(now);
            self.end_overdue(now);
            if self.slots.iter().all(|slot| slot.child.is_none()) && matches!(self.phase, Phase::StoppingLog(_)) {
                return 0;
            }
            if let Err(why) = self.turn(self.next_moment()) {
                self.report.line(Level::Error, &why);
            }
        }
    }

    /// Waits for what happens next, at most until `deadline`, and acts on it.
    ///
    /// # Errors
    /// While starting, whatever failed.
    fn turn(&mut self, deadline: u64) -> Result<(), String> {
        let timeout = deadline.saturating_sub(clock::monotonic_ms());
        let count = self.poller.wait(Some(timeout)).map_err(|fault| format!("epoll: {fault}"))?;
        let tokens: Vec<u64> = (0..count)
            .filter_map(|index| self.poller.ready(index))
            .map(|ready| ready.token)
            .collect();
        for token in tokens {
            if token == SIGNALS {
                self.take_signals()?;
            } else if let Ok(index) = usize::try_from(token) {
                self.take_message(index)?;
            }
        }
        Ok(())
    }

    fn take_signals(&mut self) -> Result<(), String> {
        while let Some(signal) = self.signals.next() {
            match signal {
                Arrived::Child => {
                    while let Some((pid, ended)) = process::reap() {
                        self.bury(pid, ended)?;
                    }
                }
                Arrived::Stop => self.stop(STOP_GRACE_MS),
                Arrived::Drain => self.stop(self.drain_ms),
            }
        }
        Ok(())
    }

    /// Starts the process of a slot.
    fn start(&mut self, index: usize) -> Result<(), String> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        slot.next_start = None;
        let (log_end, worker_end) = match slot.role {
            Role::Worker => Channel::pair()
                .map(|(ours, theirs)| (Some(ours), Some(theirs)))
                .map_err(|fault| format!("log channel: {fault}"))?,
            Role::Log | Role::Parent => (None, None),
        };
        let child = self.nursery.start(slot.role, &slot.name(), false, worker_end.as_ref())?;
        let token = u64::try_from(index).unwrap_or(u64::MAX);
        self.poller
            .add(&child.channel, Interest::Input, token)
            .map_err(|fault| format!("epoll: {fault}"))?;
        slot.child = Some(child);
        slot.log_end = log_end;
        Ok(())
    }

    /// Takes one message of a child.
    fn take_message(&mut self, index: usize) -> Result<(), String> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let Some(child) = slot.child.as_mut() else { return Ok(()) };
        let (role, state) = (slot.role, child.state);
        match child.channel.receive() {
            Received::Nothing => Ok(()),
            Received::Ended => {
                // It is dead or about to be; its end is reported when it is reaped. A process that only closed its channel
                // is of no use any more.
                let _ = self.poller.remove(&child.channel);
                process::kill(child.pid);
                Ok(())
            }
            Received::Message(ToParent::Ready { missing }, _) if state == State::Starting => {
                let missing: Vec<Layer> = birth::missing(missing).collect();
                self.admit(index, &missing)
            }
            Received::Message(ToParent::Failed { why }, _) if state == State::Starting => {
                self.condemn(index, &format!("did not start: {why}"))
            }
            Received::Message(ToParent::Malformed { worker }, _) if role == Role::Log => {
                self.condemn(FIRST_WORKER + usize::from(worker), "sent malformed log lines")
            }
            Received::Message(ToParent::Lost { lines }, _) if role == Role::Log => {
                self.report
                    .line(Level::Error, &format!("{lines} log lines could not be written and are lost"));
                Ok(())
            }
            Received::Message(
                ToParent::Ready { .. }
                | ToParent::Failed { .. }
                | ToParent::Proved { .. }
                | ToParent::Malformed { .. }
                | ToParent::Lost { .. },
                _,
            )
            | Received::Malformed => self.condemn(index, "sent a message that it may not send"),
        }
    }

    /// A child says that it is confined: gives it its work if `/proc` says so too.
    fn admit(&mut self, index: usize, missing: &[Layer]) -> Result<(), String> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let Some(child) = slot.child.as_mut() else { return Ok(()) };
        if let Err(why) = self.nursery.verify(slot.role, child, missing) {
            return self.condemn(index, &format!("is not confined: {why}"));
        }
        child.state = State::Serving;
        match slot.role {
            Role::Worker => self.give_listeners(index),
            Role::Log => self.give_logs(),
            Role::Parent => Ok(()),
        }
    }

    /// Hands the listening sockets to a worker. One that no longer listens was turned into something else by a worker
    /// before: the service cannot go on with it.
    fn give_listeners(&mut self, index: usize) -> Result<(), String> {
        let listeners: Vec<BorrowedFd<'_>> = self
            .listeners
            .iter()
            .filter(|listener| socket::is_listening(listener))
            .map(AsFd::as_fd)
            .collect();
        if listeners.len() < self.listeners.len() {
            self.report
                .line(Level::Error, "a listening socket was tampered with and is not handed out again");
        }
        let count = u8::try_from(listeners.len()).map_err(|_| "too many listening sockets".to_owned())?;
        let sent = self
            .slots
            .get(index)
            .and_then(|slot| slot.child.as_ref())
            .map(|child| child.channel.send(&ToWorker::Listen { count }, &listeners));
        if let Some(Err(fault)) = sent {
            return self.condemn(index, &format!("could not be handed its sockets: {fault}"));
        }
        self.hand_over_log_end(index)
    }

    /// Hands the log files to a new `log`, and the channel of every worker that has one waiting.
    fn give_logs(&mut self) -> Result<(), String> {
        let files = [self.logs.0.as_fd(), self.logs.1.as_fd()];
        if let Some(log) = self.slots.get(LOG).and_then(|slot| slot.child.as_ref())
            && let Err(fault) = log.channel.send(&ToLog::Files, &files)
        {
            return self.condemn(LOG, &format!("could not be handed its files: {fault}"));
        }
        for index in FIRST_WORKER..self.slots.len() {
            self.renew_log_channel(index)?;
            self.hand_over_log_end(index)?;
        }
        Ok(())
    }

    /// A worker whose channel led to a `log` that died gets a new one.
    fn renew_log_channel(&mut self, index: usize) -> Result<(), String> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let Some(child) = slot.child.as_ref().filter(|child| child.state == State::Serving) else {
            return Ok(());
        };
        if slot.log_end.is_some() {
            return Ok(());
        }
        let (ours, theirs) = Channel::pair().map_err(|fault| format!("log channel: {fault}"))?;
        match child.channel.send(&ToWorker::Log, &[theirs.as_fd()]) {
            Ok(()) => slot.log_end = Some(ours),
            Err(fault) => return self.condemn(index, &format!("does not take its messages: {fault}")),
        }
        Ok(())
    }

    fn hand_over_log_end(&mut self, index: usize) -> Result<(), String> {
        if !self.slots.get(LOG).is_some_and(Slot::is_serving) {
            return Ok(());
        }
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let Some(end) = slot.log_end.take() else { return Ok(()) };
        let message = ToLog::Channel { worker: slot.number };
        let log = self.slots.get(LOG).and_then(|slot| slot.child.as_ref());
        match log.map(|log| log.channel.send(&message, &[end.as_fd()])) {
            Some(Err(fault)) => self.condemn(LOG, &format!("does not take its messages: {fault}")),
            _ => Ok(()),
        }
    }

    /// Ends a child for a reason that is logged; while starting, that ends the start.
    fn condemn(&mut self, index: usize, why: &str) -> Result<(), String> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let why = format!("{} {why}", slot.name());
        if let Some(child) = slot.child.as_mut() {
            child.condemn();
        }
        if self.phase == Phase::Starting {
            return Err(why);
        }
        self.report.line(Level::Error, &format!("{why}; it is ended"));
        Ok(())
    }

    /// A child has ended: logs it and plans its replacement.
    fn bury(&mut self, pid: i32, ended: Ended) -> Result<(), String> {
        let now = clock::monotonic_ms();
        let Some(slot) = self
            .slots
            .iter_mut()
            .find(|slot| slot.child.as_ref().is_some_and(|child| child.pid == pid))
        else {
            return Ok(());
        };
        let Some(mut child) = slot.child.take() else { return Ok(()) };
        slot.log_end = None;
        // What it said before it died is worth more than how it died.
        let said = if child.state == State::Starting {
            child.channel.receive()
        } else {
            Received::Nothing
        };
        if let Received::Message(ToParent::Failed { why }, _) = said {
            child.state = State::Condemned;
            let why = format!("{} did not start: {why}", slot.name());
            if self.phase == Phase::Starting {
                return Err(why);
            }
            self.report.line(Level::Error, &why);
        }
        if matches!(self.phase, Phase::StoppingWorkers(_) | Phase::StoppingLog(_)) {
            return Ok(());
        }
        if self.phase == Phase::Starting {
            return Err(format!("{} ended while starting: {}", slot.name(), describe(ended)));
        }
        let delay = slot.next_delay(now.saturating_sub(child.started_ms));
        slot.next_start = Some(now + delay);
        if child.state != State::Condemned {
            let text = format!(
                "{} (pid {pid}) ended: {}; a new one starts in {delay} ms",
                slot.name(),
                describe(ended)
            );
            self.report.line(Level::Error, &text);
        }
        Ok(())
    }

    fn start_due(&mut self, now: u64) {
        for index in 0..self.slots.len() {
            let due = self
                .slots
                .get(index)
                .is_some_and(|slot| slot.child.is_none() && slot.next_start.is_some_and(|moment| moment <= now));
            if due && let Err(why) = self.start(index) {
                self.report.line(Level::Error, &why);
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.next_start = Some(now + slot.next_delay(0));
                }
            }
        }
    }

    /// Ends what should have confined itself, or finished, by now.
    fn end_overdue(&mut self, now: u64) {
        for index in 0..self.slots.len() {
            let stuck = |child: &Child| child.state == State::Starting && now.saturating_sub(child.started_ms) > START_MS;
            if self.slots.get(index).and_then(|slot| slot.child.as_ref()).is_some_and(stuck) {
                let _ = self.condemn(index, "did not confine itself in time");
            }
        }
        let workers_left = self.slots.iter().skip(FIRST_WORKER).any(|slot| slot.child.is_some());
        match self.phase {
            Phase::StoppingWorkers(_) if !workers_left => {
                self.phase = Phase::StoppingLog(now + LOG_GRACE_MS);
                if let Some(log) = self.slots.get(LOG).and_then(|slot| slot.child.as_ref()) {
                    let _ = log.channel.send(&ToLog::Stop, &[]);
                }
            }
            Phase::StoppingWorkers(deadline) if now >= deadline => self.kill_all(FIRST_WORKER),
            Phase::StoppingLog(deadline) if now >= deadline => self.kill_all(LOG),
            Phase::Starting | Phase::Serving | Phase::StoppingWorkers(_) | Phase::StoppingLog(_) => {}
        }
    }

    fn kill_all(&mut self, from: usize) {
        self.slots
            .iter()
            .skip(from)
            .filter_map(|slot| slot.child.as_ref())
            .for_each(|child| process::kill(child.pid));
    }

    /// Tells the workers to finish within `grace_ms`; a second signal can only shorten that.
    fn stop(&mut self, grace_ms: u64) {
        let mut deadline = clock::monotonic_ms().saturating_add(grace_ms).saturating_add(KILL_AFTER_MS);
        if let Phase::StoppingWorkers(earlier) = self.phase {
            deadline = deadline.min(earlier);
        } else if matches!(self.phase, Phase::StoppingLog(_)) {
            return;
        }
        self.report.line(Level::Notice, "stopping");
        self.phase = Phase::StoppingWorkers(deadline);
        // No new connection is taken: closing them here and in the workers frees the ports at once.
        self.listeners.clear();
        let grace_ms = u32::try_from(grace_ms).unwrap_or(u32::MAX);
        for slot in self.slots.iter_mut() {
            slot.next_start = None;
            let Some(child) = slot.child.as_ref().filter(|_| slot.role == Role::Worker) else {
                continue;
            };
            if child.channel.send(&ToWorker::Stop { grace_ms }, &[]).is_err() {
                process::kill(child.pid);
            }
        }
    }

    /// When there is something to do even if nothing happens.
    fn next_moment(&self) -> u64 {
        let starts = self.slots.iter().filter_map(|slot| slot.next_start);
        let stuck = self
            .slots
            .iter()
            .filter_map(|slot| slot.child.as_ref())
            .filter(|child| child.state == State::Starting)
            .map(|c| c.started_ms + START_MS + 1);
        let stopping = match self.phase {
            Phase::StoppingWorkers(deadline) | Phase::StoppingLog(deadline) => Some(deadline.max(clock::monotonic_ms() + KILL_AGAIN_MS)),
            Phase::Starting | Phase::Serving => None,
        };
        starts.chain(stuck).chain(stopping).min().unwrap_or(u64::MAX)
    }
}

fn describe(ended: Ended) -> String {
    match ended {
        Ended::Exited(panic::EXIT_STATUS) => "panic (see the line before)".to_owned(),
        Ended::Signalled(SIGSYS) => "SIGSYS: it made a system call that its filter refuses (see the kernel log)".to_owned(),
        Ended::Exited(_) | Ended::Signalled(_) => ended.to_string(),
    }
}

/// Index of the slot of `log`, and of the first worker.
const LOG: usize = 0;
const FIRST_WORKER: usize = 1;

/// Token of the signals; those of the children are the indexes of their slots.
const SIGNALS: u64 = u64::MAX;

/// How long a process may take to confine itself.
pub(super) const START_MS: u64 = 10_000;

/// TERM and INT: how long responses that are under way may take.
const STOP_GRACE_MS: u64 = 2_000;

/// How long after its grace a worker is ended, and how long `log` may write what is left.
const KILL_AFTER_MS: u64 = 500;
const LOG_GRACE_MS: u64 = 2_000;
const KILL_AGAIN_MS: u64 = 20;

/// signal(7); the same number on every architecture here.
const SIGSYS: i32 = 31;
