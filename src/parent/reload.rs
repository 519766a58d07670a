//! Reload: a new generation from the file as it is now, or everything as it was.
//!
//! Nothing of the running generation is touched before the new one is ready: its configuration is read and checked, its
//! sockets bound, its logs opened, its workers confined and verified. Then it gets the sockets and the old one drains.

use super::check;
use super::generation::{Generation, Phase};
use super::listen::{self, Listener};
use super::prepare::{Fixed, Pending, Prepared, look_ahead, prepare};
use super::supervise::Supervisor;
use crate::config::{self, Level};
use crate::ipc::messages::ToWorker;
use crate::sys::clock;
use crate::sys::pid_file::PidFile;
use std::path::Path;
use std::rc::Rc;

impl Supervisor {
    /// Reads the file again and starts a new generation, after the one that starts now if there is one; the answer goes to
    /// `clients` when that has succeeded or failed.
    pub(super) fn reload(&mut self, clients: Vec<u64>) {
        if self.pending.is_some() && !self.is_stopping() {
            self.source.again.get_or_insert_default().extend(clients);
            return;
        }
        if !self.is_stopping() {
            self.manager.reloading();
        }
        if let Err(why) = self.try_reload(&clients) {
            self.close_ports();
            self.logs.report.line(Level::Error, &format!("reload: everything stays as it was: {why}"));
            self.answer_reload(clients, &Err(why));
        }
    }

    /// The service ends: whoever waits for a reload is told so.
    pub(super) fn abandon_reloads(&mut self) {
        let pending = self.pending.take().map(|pending| pending.clients);
        let again = self.source.again.take();
        for client in pending.into_iter().chain(again).flatten() {
            self.control.clients.answer(client, &Err("the service is stopping".to_owned()));
        }
    }

    fn answer_reload(&mut self, clients: Vec<u64>, outcome: &Result<String, String>) {
        for client in clients {
            self.control.clients.answer(client, outcome);
        }
        self.tell_manager();
    }

    /// Tells the service manager what serves, once the start itself is over.
    pub(super) fn tell_manager(&self) {
        if let Some(generation) = self.current().filter(|_| self.started && !self.is_stopping()) {
            self.manager.ready(&format!("generation {} serves, {} workers", generation.number, generation.workers().count()));
        }
    }

    fn try_reload(&mut self, clients: &[u64]) -> Result<(), String> {
        if self.is_stopping() {
            return Err("the service is stopping".to_owned());
        }
        let file = self.source.file.as_ref().ok_or("there is no configuration file to read again")?;
        look_ahead(file)?;
        let config = config::load(file).map_err(|faults| faults.to_string())?;
        if let Some(name) = self.source.fixed.difference(&Fixed::of(&config)) {
            return Err(format!("{name} was changed, which needs a restart"));
        }
        let open: Vec<Rc<Listener>> = self.generations.iter().flat_map(|generation| generation.listeners.clone()).collect();
        let owner = |address: &str| listen::owner(&open, address);
        let mut prepared = prepare(config, self.source.identity, &open, Some((&self.logs, &self.logs_in_use())))
            .map_err(|why| check::placed(file, self.source.identity, owner, why))?;
        let handed_over: Vec<_> = open.iter().filter(|open| open.is_handed_over()).cloned().collect();
        listen::refuse_unnamed(&handed_over, &prepared.listeners)?;
        Rc::make_mut(&mut prepared.cells).go_on_with(self.tickets());
        self.begin(prepared, clients)
    }

    /// Starts the workers of a new generation.
    pub(super) fn begin(&mut self, prepared: Prepared, clients: &[u64]) -> Result<(), String> {
        let Prepared { cells, listeners, workers, drain_ms, logs, watched, pid_file } = prepared;
        let number = self.next_generation;
        self.next_generation += 1;
        self.generations.push(Generation::new(number, cells, listeners, workers, drain_ms));
        self.pending = Some(Pending { number, clients: clients.to_vec(), logs, watched, pid_file });
        self.launch(number).map_err(|why| self.give_up(number, why))
    }

    /// Every worker of a new generation is verified: it gets the sockets, and the one before it drains.
    pub(super) fn succeed(&mut self, number: u32) -> Result<(), String> {
        if let Err(why) = self.listeners_of(number).iter().try_for_each(|listener| listener.start()) {
            return self.fail(number, why);
        }
        let Some(mut pending) = self.pending.take_if(|pending| pending.number == number) else {
            return Ok(());
        };
        if let Some(logs) = pending.logs.take() {
            self.take_logs(logs)?;
        }
        let mut before = Vec::new();
        for generation in &mut self.generations {
            match generation.phase {
                Phase::Starting if generation.number == number => generation.phase = Phase::Serving,
                Phase::Serving if generation.number > 0 => before.push((generation.number, generation.drain_ms)),
                Phase::Starting | Phase::Serving | Phase::Draining(_) => {}
            }
        }
        self.give_generation_its_listeners(number)?;
        let next = self.listeners_of(number);
        for (old, drain_ms) in before {
            self.retire(old, &next);
            self.drain(old, drain_ms);
        }
        self.close_ports();
        self.end_oldest();
        self.give_programs()?;
        self.source.watched = pending.watched;
        // The first one is written when the whole service is ready.
        if self.started
            && let Err(why) = self.write_pid_file(pending.pid_file.as_deref())
        {
            self.logs.report.line(Level::Error, &why);
        }
        let text = format!("generation {number} serves");
        self.logs.report.line(Level::Notice, &text);
        self.answer_reload(pending.clients, &Ok(text));
        Ok(())
    }

    fn listeners_of(&self, number: u32) -> Vec<Rc<Listener>> {
        let generation = self.generations.iter().find(|generation| generation.number == number);
        generation.map(|generation| generation.listeners.clone()).unwrap_or_default()
    }

    /// New connections come to the sockets of the next generation from now on; the old workers take those that wait in their own.
    fn retire(&self, old: u32, next: &[Rc<Listener>]) {
        let Some(generation) = self.generations.iter().find(|generation| generation.number == old) else { return };
        let retired = (0..).zip(&generation.listeners).filter(|(_, listener)| listener.retire(next));
        let listeners = retired.fold(0, |all, (place, _)| all | 1 << place);
        if listeners != 0 {
            for child in generation.workers().filter_map(|slot| slot.child.as_ref()) {
                let _ = child.channel.send(&ToWorker::Linger { listeners }, &[]);
            }
        }
    }

    /// Nobody binds beside a listener any more.
    fn close_ports(&self) {
        self.generations.iter().flat_map(|generation| &generation.listeners).for_each(|listener| listener.socket.stand_alone());
    }

    /// Writes the pid file, and removes one that was elsewhere.
    ///
    /// # Errors
    /// Names the file and why.
    pub(super) fn write_pid_file(&mut self, path: Option<&Path>) -> Result<(), String> {
        if self.pid_file.as_ref().map(PidFile::path) != path {
            self.pid_file = path.map(PidFile::write).transpose()?;
        }
        Ok(())
    }

    /// A new generation did not come to serve: ends it. While the service itself starts, that is its end.
    pub(super) fn fail(&mut self, number: u32, why: String) -> Result<(), String> {
        let why = self.give_up(number, why);
        if !self.started {
            return Err(why);
        }
        self.logs.report.line(Level::Error, &format!("reload: everything stays as it was: {why}"));
        Ok(())
    }

    fn give_up(&mut self, number: u32, why: String) -> String {
        self.drain(number, 0);
        self.close_ports();
        if let Some(Pending { clients, .. }) = self.pending.take_if(|pending| pending.number == number) {
            self.answer_reload(clients, &Err(why.clone()));
        }
        why
    }

    /// At most so many old generations finish their transfers at a time.
    fn end_oldest(&mut self) {
        let draining = |generation: &&Generation| matches!(generation.phase, Phase::Draining(_));
        let count = self.generations.iter().filter(draining).count();
        let oldest: Vec<u32> =
            self.generations.iter().filter(draining).take(count.saturating_sub(OLD_MAX)).map(|generation| generation.number).collect();
        for number in oldest {
            self.drain(number, 0);
        }
    }

    /// Makes a new generation when a directory that is shown was replaced: a mount keeps showing the old one.
    pub(super) fn watch(&mut self) {
        let now = clock::monotonic_ms();
        if self.is_stopping() || self.pending.is_some() {
            return;
        }
        if let Some(clients) = self.source.again.take() {
            return self.reload(clients);
        }
        if let Some(path) = self.source.file.is_some().then(|| self.source.watched.replaced(now)).flatten() {
            self.logs.report.line(Level::Notice, &format!("\"{}\" was replaced: reloading", path.display()));
            self.reload(Vec::new());
        }
    }
}

/// Old generations that may drain at a time.
const OLD_MAX: usize = 4;
