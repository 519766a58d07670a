//! What running children are handed: workers their listening sockets, `log` its files and the channel of every worker, the brokers of
//! a generation the channels of its workers.

use super::generation::Generation;
use super::logs::Logs;
use super::slot::{Place, Slot, next_number};
use super::supervise::{LOG, Supervisor};
use crate::config::Level;
use crate::ipc::Channel;
use crate::ipc::messages::{Death, ToFiles, ToLog, ToSpawn, ToWorker};
use crate::role::Role;
use crate::sys::{clock, socket};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};

impl Supervisor {
    /// A number that `log` knows no living worker by.
    pub(super) fn free_log_number(&mut self) -> u16 {
        let living: Vec<u16> = self.slots().filter(|slot| slot.child.is_some()).map(|slot| slot.log_number).collect();
        self.next_log_number = next_number(self.next_log_number, &living);
        self.next_log_number
    }

    /// Hands the workers of a generation their sockets.
    pub(super) fn give_generation_its_listeners(&mut self, number: u32) -> Result<(), String> {
        let count = self.generations.iter().find(|known| known.number == number).map_or(0, |known| known.slots.len());
        (0..u32::try_from(count).unwrap_or(0)).try_for_each(|slot| self.give_listeners(Place { generation: number, slot }))
    }

    /// Hands the listening sockets of its generation to a worker. One that no longer listens was turned into something else
    /// by a hijacked worker: it is not handed out again.
    pub(super) fn give_listeners(&mut self, place: Place) -> Result<(), String> {
        let Some(generation) = self.generations.iter().find(|generation| generation.number == place.generation) else {
            return Ok(());
        };
        if generation.slots.get(place.index()).is_none_or(|slot| slot.role != Role::Worker) {
            return Ok(());
        }
        let sockets = generation.listeners.iter().map(|listener| &listener.socket);
        let listening: Vec<BorrowedFd<'_>> = sockets.filter(|socket| socket::is_listening(socket)).map(AsFd::as_fd).collect();
        if listening.len() < generation.listeners.len() {
            self.logs.report.line(Level::Error, "a listening socket was tampered with and is not handed out again");
        }
        let count = u8::try_from(listening.len()).map_err(|_| "too many listening sockets".to_owned())?;
        let child = generation.slots.get(place.index()).and_then(|slot| slot.child.as_ref());
        // What the only worker left behind, its replacement is told before it has a connection.
        for message in self.untold.drain(..) {
            let _ = child.map(|child| child.channel.send(&message, &[]));
        }
        if let Some(Err(fault)) = child.map(|child| child.channel.send(&ToWorker::Listen { count }, &listening)) {
            return self.condemn(place, &format!("could not be handed its sockets: {fault}"));
        }
        self.hand_over_log_end(place)
    }

    /// Hands the log files to `log`, and with a new `log` the channel of every worker.
    pub(super) fn give_logs(&mut self) -> Result<(), String> {
        self.give_files()?;
        self.give_log_ends()
    }

    /// Hands `log` the channel of every worker, but of those whose lines the `log` of the program before still takes.
    pub(super) fn give_log_ends(&mut self) -> Result<(), String> {
        let adopted = self.adopted;
        let places = self.places(|slot| matches!(slot.role, Role::Worker | Role::Spawn) && slot.is_serving());
        for place in places.into_iter().filter(|place| Some(place.generation) != adopted) {
            self.renew_log_channel(place)?;
            self.hand_over_log_end(place)?;
        }
        self.tell_refused();
        Ok(())
    }

    /// Has `log` say for which system calls processes were ended, once it serves and if it can know.
    pub(super) fn tell_refused(&mut self) {
        if self.nursery.kernel_log.is_err() {
            return self.refused.clear();
        }
        let Some(log) = self.slot(LOG).filter(|slot| slot.is_serving()).and_then(|slot| slot.child.as_ref()) else { return };
        let left = self.refused.iter().copied().filter(|pid| log.channel.send(&ToLog::Refused { pid: *pid }, &[]).is_err());
        self.refused = left.collect();
    }

    /// Hands the log files to `log`, in place of those it has.
    fn give_files(&mut self) -> Result<(), String> {
        let log = self.slot(LOG).filter(|slot| slot.is_serving()).and_then(|slot| slot.child.as_ref());
        match log.map(|log| self.logs.hand_over(&log.channel)) {
            Some(Err(fault)) => self.condemn(LOG, &format!("could not be handed its files: {fault}")),
            _ => Ok(()),
        }
    }

    /// Connects to syslog anew for `log`, which asks again while nobody listens there.
    pub(super) fn give_syslog(&mut self) -> Result<(), String> {
        let Some(socket) = self.logs.renew_syslog().and_then(|socket| socket.try_clone_to_owned().ok()) else {
            return Ok(());
        };
        let log = self.slot(LOG).and_then(|slot| slot.child.as_ref());
        match log.map(|log| log.channel.send(&ToLog::Syslog, &[socket.as_fd()])) {
            Some(Err(fault)) => self.condemn(LOG, &format!("does not take its messages: {fault}")),
            _ => Ok(()),
        }
    }

    /// Writes to these logs from now on.
    pub(super) fn take_logs(&mut self, logs: Logs) -> Result<(), String> {
        self.logs = logs;
        self.give_files()
    }

    /// Lets go of generations that are gone, and of the logs that they alone used.
    pub(super) fn forget_gone(&mut self) {
        let count = self.generations.len();
        self.generations.retain(|generation| !generation.is_gone());
        if self.generations.len() == count || self.pending.is_some() || self.is_stopping() {
            return;
        }
        if self.logs.close_unused(&self.logs_in_use())
            && let Err(why) = self.give_files()
        {
            self.logs.report.line(Level::Error, &why);
        }
    }

    /// The logs that living generations write to, by number.
    pub(super) fn logs_in_use(&self) -> BTreeSet<u16> {
        let living = self.generations.iter().filter(|generation| generation.number > 0);
        living.flat_map(|generation| generation.cells.log_numbers()).collect()
    }

    /// Opens the log files again by their names: what was renamed meanwhile is let go.
    pub(super) fn reopen(&mut self) -> Result<(), String> {
        let outcome = self.logs.reopened().and_then(|logs| self.take_logs(logs));
        if let Err(why) = &outcome {
            self.logs.report.line(Level::Error, &format!("reopen: {why}; the old files stay in use"));
        }
        outcome
    }

    /// Hands the channels of workers to the brokers of their generation, as far as `one` is either of the two.
    pub(super) fn share(&mut self, one: Place) -> Result<(), String> {
        let of = |slot: &Slot, role| slot.role == role && slot.generation == one.generation;
        let files = self.places(|slot| slot.generation == one.generation && slot.role.is_shared() && slot.is_serving());
        let workers = self.places(|slot| of(slot, Role::Worker) && slot.ends.is_some());
        for (files, worker) in files.iter().flat_map(|files| workers.iter().map(move |worker| (*files, *worker))) {
            let role = self.slot(files).map(|slot| slot.role);
            let channel = self.slot(files).and_then(|slot| slot.child.as_ref()).map(|child| &child.channel);
            let worker = self.slot(worker).filter(|_| one == files || one == worker);
            // Each worker has a `keys` of its own.
            let number = self.slot(files).filter(|slot| slot.role == Role::Keys).map(|slot| slot.number);
            let worker = worker.filter(|worker| number.is_none_or(|number| number == worker.number));
            let end = worker.and_then(|slot| Some((slot.log_number, slot.ends.as_ref()?.of(role?)?)));
            let sent = channel.zip(end).map(|(channel, (worker, end))| channel.send(&ToFiles::Channel { worker }, &[end.as_fd()]));
            if let Some(Err(fault)) = sent {
                self.condemn(files, &format!("does not take its messages: {fault}"))?;
            }
        }
        Ok(())
    }

    /// A new broker of a generation serves: it gets the channels of the workers, and they are told, since what the one before took is lost.
    pub(super) fn admit_broker(&mut self, place: Place, role: Role) -> Result<(), String> {
        self.share(place)?;
        let message = match role {
            Role::Connect | Role::ConnectTcp => ToWorker::Connect,
            Role::Spool => ToWorker::Spool,
            // Its worker finds out by itself, and what waits for `auth` by its deadline.
            Role::Keys | Role::Auth => return Ok(()),
            Role::Files | Role::Parent | Role::Worker | Role::Log | Role::Spawn => ToWorker::Files,
        };
        for worker in self.generations.iter().filter(|known| known.number == place.generation).flat_map(Generation::workers) {
            // One that is behind waits for its requests' deadlines instead.
            let _ = worker.child.as_ref().map(|child| child.channel.send(&message, &[]));
        }
        Ok(())
    }

    /// A worker whose channel led to a `log` that died gets a new one.
    pub(super) fn renew_log_channel(&mut self, place: Place) -> Result<(), String> {
        let Some(slot) = self.slot_mut(place) else { return Ok(()) };
        let Some(child) = slot.child.as_ref().filter(|_| slot.log_end.is_none()) else {
            return Ok(());
        };
        let (ours, theirs) = Channel::pair().map_err(|fault| format!("log channel: {fault}"))?;
        let sent = match slot.role {
            Role::Spawn => child.channel.send(&ToSpawn::Log, &[theirs.as_fd()]),
            Role::Worker
            | Role::Log
            | Role::Files
            | Role::Connect
            | Role::ConnectTcp
            | Role::Spool
            | Role::Keys
            | Role::Auth
            | Role::Parent => child.channel.send(&ToWorker::Log, &[theirs.as_fd()]),
        };
        match sent {
            Ok(()) => slot.log_end = Some(ours),
            // It has just ended; that is told elsewhere.
            Err(fault) if fault.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(fault) => return self.condemn(place, &format!("does not take its messages: {fault}")),
        }
        Ok(())
    }

    pub(super) fn hand_over_log_end(&mut self, place: Place) -> Result<(), String> {
        if !self.slot(LOG).is_some_and(Slot::is_serving) {
            return Ok(());
        }
        let Some(slot) = self.slot_mut(place) else { return Ok(()) };
        let (message, end) = (ToLog::Channel { worker: slot.log_number, role: slot.role }, slot.log_end.take());
        let log = self.slot(LOG).and_then(|slot| slot.child.as_ref());
        match log.zip(end).map(|(log, end)| log.channel.send(&message, &[end.as_fd()])) {
            Some(Err(fault)) => self.condemn(LOG, &format!("does not take its messages: {fault}")),
            _ => Ok(()),
        }
    }

    /// Tells every worker that one has died, so that its connections do not stay counted; where none lives, the next one is told.
    pub(super) fn tell_of_death(&mut self, worker: u16, death: Death) {
        self.last_death = clock::monotonic_ms().max(self.last_death + 1);
        let message = ToWorker::Gone { worker, moment: self.last_death, death };
        let workers = self.slots().filter(|slot| slot.role == Role::Worker && slot.is_serving()).filter_map(|slot| slot.child.as_ref());
        if workers.filter(|child| child.channel.send(&message, &[]).is_ok()).count() == 0 && self.untold.len() < UNTOLD_MAX {
            self.untold.push(message);
        }
    }
}

/// Deaths without a survivor that are remembered: what they had open has been closed by the second.
const UNTOLD_MAX: usize = 16;
