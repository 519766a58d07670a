//! The parent's loop: verifies what it started, replaces what died, reloads, stops on a signal.
//!
//! A listening socket stays open here through any worker's death, so no connection is refused meanwhile. A process that
//! sends something malformed is ended, not the parent. Respawn is at once the first time and slower each time after.

use super::cell::Birth;
use super::child::{Child, Ends, Nursery, STUCK_MS, State, Stuck};
use super::control::{Asked, Control};
use super::generation::{Generation, Phase};
use super::legacy::Found;
use super::listen::Listener;
use super::logs::Logs;
use super::prepare::{Pending, Prepared, Source};
use super::slot::{Place, Slot};
use crate::config::{Level, TicketSource};
use crate::ipc::control::Order;
use crate::ipc::messages::{Death, ToFiles, ToLog, ToParent, ToSpawn, ToWorker};
use crate::ipc::{Channel, Received};
use crate::role::Role;
use crate::sys::candidate::Candidate;
use crate::sys::clock;
use crate::sys::epoll::{Interest, Poller};
use crate::sys::manager::Manager;
use crate::sys::pid_file::PidFile;
use crate::sys::process::{self, Ended, SIGSYS};
use crate::sys::signal::{Arrived, Signals};
use crate::tls;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// The parent once it serves.
pub(super) struct Supervisor {
    pub(super) nursery: Nursery,
    pub(super) poller: Poller,
    signals: Signals,
    /// Removed before the control socket: when that is gone, nothing of the service is left.
    pub(super) pid_file: Option<PidFile>,
    pub(super) manager: Manager,
    /// The first generation serves and the pid file is written.
    pub(super) started: bool,
    /// `spawn` has made the sockets of the programs that it was told last, as far as it can.
    pub(super) programs_begun: bool,
    pub(super) next_log_number: u16,
    stopping: Stopping,
    pub(super) source: Source,
    pub(super) control: Control,
    pub(super) logs: Logs,
    /// That of `log` first, then oldest first.
    pub(super) generations: Vec<Generation>,
    pub(super) next_generation: u32,
    /// While this program starts: the generation that the one before left, and the channel to its `log`.
    pub(super) adopted: Option<u32>,
    pub(super) adopted_log: Option<Channel>,
    pub(super) pending: Option<Pending>,
    pub(super) candidate: Candidate,
    pub(super) stuck: Stuck,
    /// Who waits for the counters.
    pub(super) asked: Vec<Asked>,
    /// Processes that were ended by SIGSYS, until `log` is told.
    pub(super) refused: Vec<u32>,
    /// Processes that were replaced after they died, and log lines that were lost.
    pub(super) restarts: u32,
    pub(super) lost_lines: u64,
    /// When a worker last died, and the deaths that no worker has been told of.
    pub(super) last_death: u64,
    pub(super) untold: Vec<ToWorker>,
    /// Since 1970, in hours: when secrets of tickets were last forgotten.
    hour: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    No,
    /// Workers finish what runs.
    Workers,
    /// The workers are gone; `log` writes what is left until this moment.
    Log(u64),
}

impl Supervisor {
    /// One that has nothing to supervise yet.
    ///
    /// # Errors
    /// The errno of epoll_create1(2) or epoll_ctl(2).
    pub(super) fn new(
        nursery: Nursery,
        source: Source,
        signals: Signals,
        control: Control,
        manager: Manager,
        logs: Logs,
    ) -> Result<Supervisor, String> {
        let poller = Poller::new().map_err(|fault| format!("epoll: {fault}"))?;
        let add = |fd: BorrowedFd<'_>, token| poller.add(fd, Interest::Input, token).map_err(|fault| format!("epoll: {fault}"));
        add(signals.as_fd(), SIGNALS)?;
        if let Some(listener) = control.listener() {
            add(listener, CONTROL)?;
        }
        Ok(Supervisor {
            nursery,
            signals,
            pid_file: None,
            manager,
            started: false,
            programs_begun: false,
            poller,
            next_log_number: 0,
            stopping: Stopping::No,
            source,
            control,
            logs,
            generations: Vec::new(),
            adopted: None,
            adopted_log: None,
            next_generation: 1,
            pending: None,
            candidate: Candidate::None,
            stuck: Stuck::default(),
            asked: Vec::new(),
            refused: Vec::new(),
            restarts: 0,
            lost_lines: 0,
            last_death: 0,
            untold: Vec::new(),
            hour: 0,
        })
    }

    /// Starts `log` and the workers and waits until each is verified and serves; when a signal stops the service meanwhile,
    /// until `log` does, so that no line is lost.
    ///
    /// # Errors
    /// The first failure; nothing that was started here is left running then.
    pub(super) fn start(&mut self, first: Prepared, before: Option<(Vec<Found>, Vec<Rc<Listener>>, u32)>) -> Result<(), String> {
        self.generations.push(Generation::of_log(first.cells.clone()));
        if let Some((children, listeners, generation)) = before {
            self.next_generation = generation;
            self.adopt(children, listeners, first.drain_ms).map_err(|fault| format!("epoll: {fault}"))?;
        }
        let outcome = self.start_first(first);
        if outcome.is_err() {
            self.undo_start();
        }
        outcome
    }

    fn start_first(&mut self, mut first: Prepared) -> Result<(), String> {
        self.launch(0)?;
        self.begin_programs(&mut first)?;
        self.begin(first, &[])?;
        let deadline = clock::monotonic_ms() + START_MS;
        while self.generations.iter().any(|generation| generation.phase == Phase::Starting) {
            if clock::monotonic_ms() >= deadline {
                return Err("a process did not confine itself in time".to_owned());
            }
            self.turn(deadline)?;
        }
        Ok(())
    }

    /// Serves until a signal ends it; the exit status.
    pub(super) fn supervise(mut self) -> u8 {
        loop {
            let now = clock::monotonic_ms();
            self.manager.beat(now);
            self.start_due(now);
            self.end_overdue(now);
            self.replace_stuck(now);
            self.forget_gone();
            if matches!(self.stopping, Stopping::Log(_)) && self.slots().all(|slot| slot.child.is_none()) {
                self.control.clients.answer_all(&Ok("stopped".to_owned()));
                return 0;
            }
            self.watch();
            self.go_on_upgrading(now);
            self.answer_overdue(now);
            self.control.clients.end_silent(now);
            self.forget_tickets();
            if let Err(why) = self.turn(self.next_moment(now)) {
                self.logs.report.line(Level::Error, &why);
            }
        }
    }

    /// Whence the keys of tickets come; what is prepared anew goes on with that.
    pub(super) fn tickets(&self) -> Option<&TicketSource> {
        self.generations.iter().rev().find_map(|generation| generation.cells.tickets())
    }

    /// Forgets secrets of hours that are over.
    fn forget_tickets(&mut self) {
        let hour = tls::this_hour();
        if std::mem::replace(&mut self.hour, hour) != hour {
            let having = self.generations.iter_mut().filter(|generation| generation.cells.tickets().is_some());
            having.for_each(|generation| Rc::make_mut(&mut generation.cells).forget_tickets(hour));
        }
    }

    /// Waits for what happens next, at most until `deadline`, and acts on it.
    ///
    /// # Errors
    /// While the service starts, whatever failed.
    pub(super) fn turn(&mut self, deadline: u64) -> Result<(), String> {
        let timeout = deadline.saturating_sub(clock::monotonic_ms());
        let count = self.poller.wait(Some(timeout)).map_err(|fault| format!("epoll: {fault}"))?;
        let tokens: Vec<u64> = (0..count).filter_map(|index| self.poller.ready(index)).map(|ready| ready.token).collect();
        for token in tokens {
            match token {
                SIGNALS => self.take_signals()?,
                CHECK => self.hear_check(),
                CONTROL => self.control.accept(&self.poller, CLIENTS),
                token if token >= CLIENTS => self.take_order(token - CLIENTS),
                token => self.take_message(Place::of(token))?,
            }
        }
        Ok(())
    }

    fn take_signals(&mut self) -> Result<(), String> {
        while let Some(signal) = self.signals.next() {
            match signal {
                Arrived::Child => {
                    while let Some((pid, ended)) = process::reap() {
                        self.end_check(pid, ended);
                        self.bury(pid, ended)?;
                    }
                    self.tell_refused();
                }
                Arrived::Stop => self.stop(STOP_GRACE_MS),
                Arrived::Drain => self.finish(),
                Arrived::Reload => self.reload(Vec::new()),
                Arrived::Upgrade => self.upgrade(),
                Arrived::Reopen => drop(self.reopen()),
            }
        }
        Ok(())
    }

    /// Does what an administrator asked over the control socket, or says why not.
    fn take_order(&mut self, client: u64) {
        match self.control.clients.receive(client) {
            None => {}
            Some(Order::Reload) => self.reload(vec![client]),
            Some(Order::Reopen) => {
                let outcome = self.reopen();
                self.control.clients.answer(client, &outcome.map(|()| "log files reopened".to_owned()));
            }
            Some(Order::Stop) => self.finish(),
            Some(Order::Status { json }) => self.ask_status(client, json),
        }
    }

    /// Starts the process of a slot.
    fn launch_at(&mut self, place: Place) -> Result<(), String> {
        let log_number = self.free_log_number();
        let Some(generation) = self.generations.iter_mut().find(|generation| generation.number == place.generation) else {
            return Ok(());
        };
        let Some(slot) = generation.slots.get_mut(place.index()) else {
            return Ok(());
        };
        slot.next_start = None;
        let ends = if slot.role == Role::Worker { Some(Ends::pairs()?) } else { None };
        let birth = if generation.phase == Phase::Starting { Birth::First } else { Birth::Again };
        let slice = generation.cells.encode(slot.role, log_number, birth);
        let files = generation.cells.given_files(slot.role);
        let child = self.nursery.start(slot.role, &slice, &slot.name(), &files, ends.as_ref().map(|(ends, _)| ends))?;
        self.poller.add(&child.channel, Interest::Input, place.token()).map_err(|fault| format!("epoll: {fault}"))?;
        slot.child = Some(child);
        slot.asked = 0;
        if let Some((_, brokers)) = ends {
            (slot.log_end, slot.ends) = (Some(brokers.log), Some(brokers.brokers));
        }
        slot.log_number = log_number;
        self.share(place)?;
        self.share_spawn(place)
    }

    /// Starts every process of a generation.
    pub(super) fn launch(&mut self, generation: u32) -> Result<(), String> {
        let count = self.generations.iter().find(|known| known.number == generation).map_or(0, |known| known.slots.len());
        (0..u32::try_from(count).unwrap_or(0)).try_for_each(|slot| self.launch_at(Place { generation, slot }))
    }

    /// A child has ended: logs it and plans its replacement.
    fn bury(&mut self, pid: i32, ended: Ended) -> Result<(), String> {
        let now = clock::monotonic_ms();
        let Some(place) = self.places(|slot| slot.child.as_ref().is_some_and(|child| child.pid == pid)).pop() else {
            self.stuck.forget(pid);
            return Ok(());
        };
        let how = self.nursery.describe(ended);
        if ended == Ended::Signalled(SIGSYS) {
            self.refused.push(pid.unsigned_abs());
        }
        let starting = self.is_starting(place.generation);
        let replace = self.is_replaced(place);
        let Some(slot) = self.slot_mut(place) else { return Ok(()) };
        let Some(child) = slot.child.take() else { return Ok(()) };
        (slot.log_end, slot.ends) = (None, None);
        let (role, number) = (slot.role, slot.log_number);
        // What it said before it died is worth more than how it died.
        let said = match child.channel.receive() {
            Received::Message(ToParent::Failed { why }, _) if child.state == State::Starting => Some(format!("did not start: {why}")),
            Received::Message(..) | Received::Nothing | Received::Ended | Received::Malformed => None,
        };
        let why = format!("{} (pid {pid}) {}", slot.name(), said.unwrap_or_else(|| format!("ended: {how}")));
        let lived = now.saturating_sub(child.started_ms);
        let delay = replace.then(|| slot.next_delay(lived));
        slot.next_start = delay.map(|delay| now + delay);
        if role == Role::Worker {
            let death = match ended {
                Ended::Exited(0) => Death::Orderly,
                fault if fault.is_own_fault() => Death::Fault,
                Ended::Exited(_) | Ended::Signalled(_) => Death::Ended,
            };
            self.tell_of_death(number, death);
        } else if role == Role::Spawn {
            self.tell_of_lost_programs();
        }
        if starting {
            return self.fail(place.generation, why);
        }
        if let Some(delay) = delay {
            self.restarts += 1;
            if child.state != State::Condemned {
                self.logs.report.line(Level::Error, &format!("{why}; a new one starts in {delay} ms"));
            }
        }
        Ok(())
    }

    pub(super) fn start_due(&mut self, now: u64) {
        for place in self.places(|slot| slot.child.is_none() && slot.next_start.is_some_and(|moment| moment <= now)) {
            if let Err(why) = self.launch_at(place) {
                self.logs.report.line(Level::Error, &why);
                if let Some(slot) = self.slot_mut(place) {
                    slot.next_start = Some(now + slot.next_delay(0));
                }
            }
        }
    }

    /// Ends what should have confined itself, or finished, by now.
    fn end_overdue(&mut self, now: u64) {
        let stuck = |child: &Child| child.state == State::Starting && now.saturating_sub(child.started_ms) > START_MS;
        for place in self.places(|slot| slot.child.as_ref().is_some_and(stuck)) {
            let _ = self.condemn(place, "did not confine itself in time");
        }
        let left = |child: &Child| matches!(child.state, State::Leaving(deadline) if now >= deadline);
        self.kill(|slot| slot.child.as_ref().is_some_and(left));
        for generation in &mut self.generations {
            if let Phase::Draining(_) = generation.phase {
                generation.listeners.retain(|listener| listener.socket.is_waiting(now));
            }
            if matches!(generation.phase, Phase::Draining(deadline) if now >= deadline) {
                generation.slots.iter().filter_map(|slot| slot.child.as_ref()).for_each(|child| process::kill(child.pid));
            }
        }
        let workers_left = self.slots().any(|slot| slot.role == Role::Worker && slot.child.is_some());
        match self.stopping {
            Stopping::Workers if !workers_left => {
                self.stopping = Stopping::Log(now + LOG_GRACE_MS);
                if let Some(log) = self.slot(LOG).and_then(|slot| slot.child.as_ref()) {
                    let _ = log.channel.send(&ToLog::Stop, &[]);
                }
                self.stop_programs();
            }
            Stopping::Log(deadline) if now >= deadline => self.kill(|slot| matches!(slot.role, Role::Log | Role::Spawn)),
            Stopping::No | Stopping::Workers | Stopping::Log(_) => {}
        }
    }

    fn kill(&self, which: impl Fn(&Slot) -> bool) {
        self.slots().filter(|slot| which(slot)).filter_map(|slot| slot.child.as_ref()).for_each(|child| process::kill(child.pid));
    }

    /// Tells the workers to finish within `grace_ms`; a second signal can only shorten that.
    /// Lets transfers finish and stops; asked again, goes on. Who asks is answered by the end of the connection, when nothing is left.
    fn finish(&mut self) {
        if !self.is_stopping() {
            self.stop(self.current().map_or(STOP_GRACE_MS, |generation| generation.drain_ms));
        }
    }

    fn stop(&mut self, grace_ms: u64) {
        if matches!(self.stopping, Stopping::Log(_)) {
            return;
        }
        self.logs.report.line(Level::Notice, "stopping");
        self.manager.stopping();
        self.abandon_reloads();
        self.candidate.abandon();
        self.stopping = Stopping::Workers;
        for number in self.generations.iter().map(|generation| generation.number).filter(|number| *number > 0).collect::<Vec<_>>() {
            self.drain(number, grace_ms);
        }
        for slot in self.generations.iter_mut().take(1).flat_map(|generation| &mut generation.slots) {
            slot.next_start = None;
        }
    }

    /// Lets the workers of a generation finish what runs and take no more. Its listening sockets are closed here too; those
    /// that a newer generation has as well stay open, and those in which something may wait.
    pub(super) fn drain(&mut self, number: u32, grace_ms: u64) {
        let Some(generation) = self.generations.iter_mut().find(|generation| generation.number == number) else {
            return;
        };
        let deadline = clock::monotonic_ms().saturating_add(grace_ms).saturating_add(KILL_AFTER_MS);
        generation.phase = match generation.phase {
            Phase::Draining(earlier) => Phase::Draining(deadline.min(earlier)),
            Phase::Starting | Phase::Serving => Phase::Draining(deadline),
        };
        generation.listeners.retain(|listener| listener.socket.is_retired());
        let message =
            ToWorker::Stop { grace_ms: u32::try_from(grace_ms).unwrap_or(u32::MAX), idle: self.stopping != Stopping::No || grace_ms == 0 };
        for slot in &mut generation.slots {
            slot.next_start = None;
            let send = |child: &&Child| match slot.role {
                Role::Files | Role::Connect | Role::ConnectTcp | Role::Spool | Role::Keys | Role::Auth => {
                    child.channel.send(&ToFiles::Stop, &[]).is_err()
                }
                Role::Spawn => child.channel.send(&ToSpawn::Stop, &[]).is_err(),
                Role::Worker | Role::Log | Role::Parent => child.channel.send(&message, &[]).is_err(),
            };
            if let Some(child) = slot.child.as_ref().filter(send) {
                process::kill(child.pid);
            }
        }
    }

    /// When there is something to do even if nothing happens.
    fn next_moment(&self, now: u64) -> u64 {
        let starts = self.slots().filter_map(|slot| slot.next_start);
        let starting = self.slots().filter_map(|slot| slot.child.as_ref()).filter(|child| child.state == State::Starting);
        let stuck = starting.map(|child| child.started_ms + START_MS + 1);
        let leaving = self.slots().filter_map(|slot| slot.child.as_ref()).filter_map(|child| match child.state {
            State::Leaving(deadline) => Some(deadline.max(now + KILL_AGAIN_MS)),
            State::Starting | State::Serving | State::Condemned => None,
        });
        let draining = self.generations.iter().filter_map(|generation| match generation.phase {
            Phase::Draining(deadline) => Some(deadline),
            Phase::Starting | Phase::Serving => None,
        });
        let log = match self.stopping {
            Stopping::Log(deadline) => Some(deadline),
            Stopping::No | Stopping::Workers => None,
        };
        // What was told to end and has not yet is looked at again soon.
        let again = draining.chain(log).chain(self.candidate.until()).map(|deadline| deadline.max(now + KILL_AGAIN_MS));
        let beat = self.manager.next_beat();
        let watch = (self.stopping == Stopping::No).then_some(now + STUCK_MS);
        let status = self.asked.first().map(|asked| asked.until);
        let silent = self.control.clients.next_end();
        starts.chain(stuck).chain(leaving).chain(again).chain(watch).chain(status).chain(silent).chain(beat).min().unwrap_or(u64::MAX)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping != Stopping::No
    }

    /// The generation that serves.
    pub(super) fn current(&self) -> Option<&Generation> {
        self.generations.iter().rfind(|generation| generation.number > 0 && generation.phase == Phase::Serving)
    }

    pub(super) fn is_starting(&self, number: u32) -> bool {
        self.generations.iter().any(|generation| generation.number == number && generation.phase == Phase::Starting)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.generations.iter().flat_map(|generation| &generation.slots)
    }

    pub(super) fn slot(&self, place: Place) -> Option<&Slot> {
        self.generations.iter().find(|generation| generation.number == place.generation)?.slots.get(place.index())
    }

    pub(super) fn slot_mut(&mut self, place: Place) -> Option<&mut Slot> {
        self.generations.iter_mut().find(|generation| generation.number == place.generation)?.slots.get_mut(place.index())
    }

    /// Where the slots are that answer a question.
    pub(super) fn places(&self, which: impl Fn(&Slot) -> bool) -> Vec<Place> {
        let all = self
            .generations
            .iter()
            .flat_map(|generation| (0..).zip(&generation.slots).map(|(slot, found)| (generation.number, slot, found)));
        all.filter(|(_, _, found)| which(found)).map(|(generation, slot, _)| Place { generation, slot }).collect()
    }
}

/// Where `log` stands.
pub(super) const LOG: Place = Place { generation: 0, slot: 0 };

/// Tokens above those of places: signals, the control socket, the check of the next program, clients of the control socket.
const SIGNALS: u64 = u64::MAX;
const CONTROL: u64 = u64::MAX - 1;
pub(super) const CHECK: u64 = u64::MAX - 2;
const CLIENTS: u64 = u64::MAX - 256;

/// How long a process may take to confine itself.
pub(super) const START_MS: u64 = 30_000;

/// TERM and INT: how long responses that are under way may take.
const STOP_GRACE_MS: u64 = 2_000;

/// How long after its grace a worker is ended, and how long `log` may write what is left.
const KILL_AFTER_MS: u64 = 500;
const LOG_GRACE_MS: u64 = 2_000;
const KILL_AGAIN_MS: u64 = 20;
