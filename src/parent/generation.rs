//! A generation: the workers, `files`, `connect` and `spool` of one reading of the configuration. A reload makes a whole new one, proves it ready, gives it
//! the sockets, and only then lets the old one finish; a failed reload leaves the old one as it was.

use super::cell::Cells;
use super::listen::Listener;
use super::slot::Slot;
use crate::role::Role;
use std::rc::Rc;

/// The workers and `files` of one reading of the configuration.
pub(super) struct Generation {
    /// Counted from 1; 0 is that of `log`, which outlives reloads.
    pub(super) number: u32,
    pub(super) cells: Rc<Cells>,
    pub(super) listeners: Vec<Rc<Listener>>,
    pub(super) slots: Vec<Slot>,
    pub(super) phase: Phase,
    /// How long transfers may take to finish, in milliseconds.
    pub(super) drain_ms: u64,
}

/// How far a generation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its first workers confine themselves: a failure ends the generation.
    Starting,
    /// It has the sockets; a worker that dies is replaced.
    Serving,
    /// It accepts no more; what is left at this moment (monotonic milliseconds) is ended.
    Draining(u64),
}

impl Generation {
    pub(super) fn new(number: u32, cells: Rc<Cells>, listeners: Vec<Rc<Listener>>, workers: u16, drain_ms: u64) -> Generation {
        let files = if workers == 0 { 0 } else { workers.clamp(FILES_MIN, FILES_MAX) };
        let files = (0..files).map(|files| Slot::new(Role::Files, files, number));
        let others = cells.brokers().filter(|_| workers > 0).flat_map(|role| {
            let count = if role == Role::Keys { workers } else { 1 };
            (0..count).map(move |place| Slot::new(role, place, number))
        });
        let others: Vec<Slot> = others.collect();
        let slots = (0..workers).map(|worker| Slot::new(Role::Worker, worker, number)).chain(files).chain(others).collect();
        Generation { number, cells, listeners, slots, phase: Phase::Starting, drain_ms }
    }

    /// The generation of `log`.
    pub(super) fn of_log(cells: Rc<Cells>) -> Generation {
        let slots = vec![Slot::new(Role::Log, 0, 0)];
        Generation { number: 0, cells, listeners: Vec::new(), slots, phase: Phase::Starting, drain_ms: 0 }
    }

    /// Whether every worker has been verified.
    pub(super) fn is_ready(&self) -> bool {
        self.slots.iter().all(Slot::is_serving)
    }

    /// Its workers.
    pub(super) fn workers(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.role == Role::Worker)
    }

    /// Whether no process of it is left and none will be started.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Draining(_)) && self.slots.iter().all(|slot| slot.child.is_none())
    }
}

/// Processes that wait for disks, as many as workers within these: with one, a file that hangs would keep all others waiting.
const FILES_MIN: u16 = 2;
const FILES_MAX: u16 = 4;
