//! Reload: a new generation from the file as it is now, or everything as it was.
//!
//! Nothing of the running generation is touched before the new one is ready: its configuration is read and checked, its
//! sockets bound, its logs opened, its workers confined and verified. Then it gets the sockets and the old one drains.

use super::cell::Cells;
use super::control;
use super::generation::{Generation, Phase};
use super::listen::{Listener, listen};
use super::logs::Logs;
use super::supervise::Supervisor;
use crate::config::{self, Config, Level};
use crate::sys::pid_file::{self, PidFile};
use crate::sys::privilege::Identity;
use crate::sys::{clock, proc, process};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Where the configuration comes from, and what of it a reload may not change.
pub(super) struct Source {
    /// `None`: `anchorite serve`, which has no file.
    pub(super) file: Option<PathBuf>,
    /// Where the program lay when the service started: what USR2 runs.
    pub(super) program: PathBuf,
    pub(super) identity: Identity,
    pub(super) fixed: Fixed,
    /// Directories by the names the configuration has for them, and what they were when they were shown.
    pub(super) watched: Vec<(PathBuf, Option<(u64, u64)>)>,
    pub(super) looked: u64,
    /// What those directories were when a reload was last tried for their sake.
    pub(super) tried: Vec<Option<(u64, u64)>>,
    /// Another reload was asked for while one was under way, by these clients: the file may have changed since it was read.
    pub(super) again: Option<Vec<u64>>,
}

/// Settings that need a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    user: Option<String>,
    group: Option<String>,
    mode: config::JailMode,
    control_socket: Option<PathBuf>,
}

/// Everything a generation needs before its workers start.
pub(super) struct Prepared {
    pub(super) cells: Rc<Cells>,
    pub(super) listeners: Vec<Rc<Listener>>,
    pub(super) workers: u16,
    pub(super) drain_ms: u64,
    /// Taken by whoever writes to them.
    pub(super) logs: Option<Logs>,
    pub(super) watched: Vec<(PathBuf, Option<(u64, u64)>)>,
    pub(super) pid_file: Option<PathBuf>,
}

/// A generation that starts, and what comes into force with it.
pub(super) struct Pending {
    number: u32,
    clients: Vec<u64>,
    logs: Option<Logs>,
    watched: Vec<(PathBuf, Option<(u64, u64)>)>,
    pid_file: Option<PathBuf>,
}

impl Fixed {
    pub(super) fn of(config: &Config) -> Fixed {
        Fixed {
            user: config.server.user.clone(),
            group: config.server.group.clone(),
            mode: config.jail.mode.clone(),
            control_socket: config.server.control_socket.clone(),
        }
    }

    /// The first setting in which two configurations differ.
    fn difference(&self, other: &Fixed) -> Option<&'static str> {
        [
            (self.user != other.user, "[server] user"),
            (self.group != other.group, "[server] group"),
            (self.mode != other.mode, "[jail] mode"),
            (self.control_socket != other.control_socket, "[server] control_socket"),
        ]
        .into_iter()
        .find_map(|(differs, name)| differs.then_some(name))
    }
}

/// Binds, opens and resolves what a configuration names.
///
/// # Errors
/// Names what cannot be had, with the errno.
pub(super) fn prepare(
    mut config: Config,
    identity: Identity,
    open: &[Rc<Listener>],
    logs: Option<(&Logs, &BTreeSet<u16>)>,
) -> Result<Prepared, String> {
    control::leave_out_of_reach(&mut config.server, identity.rootless);
    let pid_file = config.server.pid_file.clone();
    pid_file.as_deref().map(pid_file::refuse_other).transpose()?;
    let listeners = listen(&config.addresses(), open)?;
    let (logs, numbers) = Logs::open(&config, identity, logs)?;
    let watched =
        config.sites.iter().map(|site| &site.root).chain(&config.jail.also).map(|path| (path.clone(), proc::inode(path))).collect();
    let cells = Rc::new(Cells::new(&mut config, identity, numbers)?);
    Ok(Prepared {
        cells,
        listeners,
        workers: if config.server.workers == 0 { process::cpus() } else { config.server.workers },
        drain_ms: u64::try_from(config.limits.drain_timeout.as_millis()).unwrap_or(u64::MAX),
        logs: Some(logs),
        watched,
        pid_file,
    })
}

impl Source {
    /// How often the directories are looked at, in milliseconds.
    pub(super) fn watch_ms(&self) -> u64 {
        if self.file.is_some() { WATCH_MS } else { u64::MAX / 2 }
    }

    /// A directory that is another one than when it was shown: replaced by renaming, or a link that leads elsewhere now.
    fn replaced(&mut self, now: u64) -> Option<PathBuf> {
        if now.saturating_sub(self.looked) < self.watch_ms() {
            return None;
        }
        self.looked = now;
        let found: Vec<_> = self.watched.iter().map(|(path, _)| proc::inode(path)).collect();
        let changed = |((_, shown), found): &(&(PathBuf, _), &Option<_>)| found.is_some() && *found != shown;
        let (path, _) = self.watched.iter().zip(&found).find(changed).map(|(watched, _)| watched)?;
        let path = path.clone();
        // What a reload failed for is not tried again before something changes.
        (self.tried != found).then(|| {
            self.tried = found;
            path
        })
    }
}

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
            self.logs.report.line(Level::Error, &format!("reload: {why}; everything stays as it was"));
            self.answer_reload(clients, &Err(why));
        }
    }

    /// The service ends: whoever waits for a reload is told so.
    pub(super) fn abandon_reloads(&mut self) {
        let pending = self.pending.take().map(|pending| pending.clients);
        let again = self.source.again.take();
        for client in pending.into_iter().chain(again).flatten() {
            self.control.answer(client, &Err("the service is stopping".to_owned()));
        }
    }

    fn answer_reload(&mut self, clients: Vec<u64>, outcome: &Result<String, String>) {
        for client in clients {
            self.control.answer(client, outcome);
        }
        self.tell_manager();
    }

    /// Tells the service manager what serves, once the start itself is over.
    pub(super) fn tell_manager(&self) {
        if let Some(generation) = self.current().filter(|_| self.started && !self.is_stopping()) {
            self.manager.ready(&format!("generation {} serves, {} workers", generation.number, generation.slots.len()));
        }
    }

    fn try_reload(&mut self, clients: &[u64]) -> Result<(), String> {
        if self.is_stopping() {
            return Err("the service is stopping".to_owned());
        }
        let file = self.source.file.as_ref().ok_or("there is no configuration file to read again")?;
        let config = config::load(file).map_err(|faults| faults.to_string())?;
        if let Some(name) = self.source.fixed.difference(&Fixed::of(&config)) {
            return Err(format!("{name} was changed, which needs a restart"));
        }
        let open: Vec<Rc<Listener>> = self.generations.iter().flat_map(|generation| generation.listeners.clone()).collect();
        let living = self.generations.iter().filter(|generation| generation.number > 0);
        let in_use: BTreeSet<u16> = living.flat_map(|generation| generation.cells.log_numbers()).collect();
        let prepared = prepare(config, self.source.identity, &open, Some((&self.logs, &in_use)))?;
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
        for (old, drain_ms) in before {
            self.drain(old, drain_ms);
        }
        self.end_oldest();
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
        if self.current().is_none() {
            return Err(why);
        }
        self.logs.report.line(Level::Error, &format!("reload: {why}; everything stays as it was"));
        Ok(())
    }

    fn give_up(&mut self, number: u32, why: String) -> String {
        self.drain(number, 0);
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
        if let Some(path) = self.source.replaced(now) {
            self.logs.report.line(Level::Notice, &format!("\"{}\" was replaced: reloading", path.display()));
            self.reload(Vec::new());
        }
    }
}

/// How often the shown directories are looked at.
const WATCH_MS: u64 = 2_000;

/// Old generations that may drain at a time.
const OLD_MAX: usize = 4;
