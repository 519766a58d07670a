//! Processes that should have ended and hang in the kernel: a disk or server keeps `files` in a wait that not even SIGKILL ends.
//! Another takes their place; they end when they are let go, and are reaped then. Also, which of those that
//! end have one that takes their place, and which end because another says so.

use super::child::STUCK_MS;
use super::generation::{Generation, Phase};
use super::slot::{Place, Slot};
use super::supervise::Supervisor;
use crate::config::Level;
use crate::role::Role;
use crate::sys::proc;

impl Supervisor {
    /// Gives up what was found dying twice, and starts another in its place unless too many hang already.
    pub(super) fn replace_stuck(&mut self, now: u64) {
        // Who stops the service waits for it.
        let stopping = self.is_stopping();
        let pause = if stopping { STUCK_MS / 4 } else { STUCK_MS };
        if now.saturating_sub(self.stuck.looked) < pause {
            return;
        }
        self.stuck.looked = now;
        for place in self.places(|slot| (slot.role == Role::Files || stopping) && slot.child.is_some()) {
            let is_replaced = self.is_replaced(place);
            let may = self.stuck.pids.len() < STUCK_MAX || !is_replaced;
            let Some(slot) = self.slot_mut(place) else { continue };
            let Some(child) = slot.child.as_mut() else { continue };
            let was_dying = std::mem::replace(&mut child.dying, proc::is_dying(child.pid));
            if !(was_dying && child.dying && may) {
                continue;
            }
            let (pid, lived) = (child.pid, now.saturating_sub(child.started_ms));
            slot.child = None;
            slot.next_start = is_replaced.then(|| now + slot.next_delay(lived));
            let text = format!(
                "{} (pid {pid}) hangs in the kernel and cannot be ended{}",
                slot.name(),
                if is_replaced { "; another takes its place" } else { "" }
            );
            self.stuck.pids.push(pid);
            self.restarts += u32::from(is_replaced);
            self.logs.report.line(Level::Error, &text);
        }
    }

    /// Whether what ends there is started anew.
    pub(super) fn is_replaced(&self, place: Place) -> bool {
        let serves = |known: &Generation| known.number == place.generation && known.phase == Phase::Serving;
        !self.is_stopping() && self.generations.iter().any(serves)
    }

    /// A broker says of a worker that it sent what it may not; `files` of one of its own generation.
    pub(super) fn condemn_worker(&mut self, accuser: Place, role: Role, worker: u16) -> Result<(), String> {
        let is_meant = |slot: &Slot| slot.log_number == worker && (role == Role::Log || slot.generation == accuser.generation);
        let why = match role {
            Role::Log => "sent malformed log lines",
            Role::Spool => "asked spool what it may not",
            Role::Keys => "asked keys for what it may not have",
            Role::Auth => "asked auth what it may not",
            Role::Connect | Role::ConnectTcp => "asked connect what it may not",
            Role::Files | Role::Worker | Role::Spawn | Role::Parent => "asked files what it may not",
        };
        self.condemn_all(Role::Worker, is_meant, why)?;
        self.condemn_all(Role::Spawn, is_meant, why)
    }

    /// A worker says of its `files` that one of them sent what it may not: which, nobody can tell.
    pub(super) fn condemn_files(&mut self, accuser: Place) -> Result<(), String> {
        let is_meant = |slot: &Slot| slot.generation == accuser.generation;
        self.condemn_all(Role::Files, is_meant, "or another of its generation sent malformed answers")
    }

    /// A worker says that its `keys` sent what it may not.
    pub(super) fn condemn_keys(&mut self, accuser: Place) -> Result<(), String> {
        let Some(number) = self.slot(accuser).map(|slot| slot.number) else { return Ok(()) };
        let is_meant = |slot: &Slot| slot.generation == accuser.generation && slot.number == number;
        self.condemn_all(Role::Keys, is_meant, "sent malformed answers")
    }

    /// A worker says that its `connect`, `spool` or `auth` sent what it may not.
    pub(super) fn condemn_broker(&mut self, accuser: Place, is_it: fn(Role) -> bool) -> Result<(), String> {
        let is_meant = |slot: &Slot| slot.generation == accuser.generation;
        let role = self.slots().find(|slot| is_it(slot.role) && is_meant(slot)).map(|slot| slot.role);
        match role {
            Some(role) => self.condemn_all(role, is_meant, "sent malformed answers"),
            None => Ok(()),
        }
    }

    fn condemn_all(&mut self, role: Role, which: impl Fn(&Slot) -> bool, why: &str) -> Result<(), String> {
        let places = self.places(|slot| slot.role == role && slot.child.is_some() && which(slot));
        places.into_iter().try_for_each(|place| self.condemn(place, why))
    }
}

/// Processes that may hang at a time while others take their places.
const STUCK_MAX: usize = 8;
