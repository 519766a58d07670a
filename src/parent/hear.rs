//! What the parent's children say: that they are confined, what failed, who sent something malformed. Each is believed only what its role may
//! say, and its confinement only when the kernel says so too.

use super::child::{Nursery, State};
use super::generation::Phase;
use super::slot::Place;
use super::supervise::Supervisor;
use crate::config::Level;
use crate::ipc::messages::ToParent;
use crate::ipc::{Received, birth};
use crate::role::{Layer, Role};
use crate::sys::{clock, process};

impl Supervisor {
    /// Takes one message of a child.
    pub(super) fn take_message(&mut self, place: Place) -> Result<(), String> {
        let Some(slot) = self.slot(place) else { return Ok(()) };
        let Some(child) = slot.child.as_ref() else { return Ok(()) };
        let (role, state) = (slot.role, child.state);
        match child.channel.receive() {
            Received::Nothing => Ok(()),
            Received::Ended => {
                // It is dead or about to be; its end is reported when it is reaped. A process that only closed its channel
                // is of no use any more, and is ended if it is still there in a moment; at once while it starts, as it may have
                // left the reason in the channel, which is read then.
                let _ = self.poller.remove(&child.channel);
                if state == State::Starting {
                    process::kill(child.pid);
                } else if let Some(child) = self.slot_mut(place).and_then(|slot| slot.child.as_mut()).filter(|_| state == State::Serving) {
                    child.state = State::Leaving(clock::monotonic_ms() + LEAVE_MS);
                }
                Ok(())
            }
            Received::Message(ToParent::Ready { missing }, _) if state == State::Starting => {
                let missing: Vec<Layer> = birth::missing(missing).collect();
                self.admit(place, &missing)
            }
            Received::Message(ToParent::Failed { why }, _) if state == State::Starting => {
                self.condemn(place, &format!("did not start: {why}"))
            }
            Received::Message(ToParent::Malformed { worker }, _) if !matches!(role, Role::Worker | Role::Parent) => {
                self.condemn_worker(place, role, worker)
            }
            Received::Message(ToParent::MalformedFiles, _) if role == Role::Worker => self.condemn_files(place),
            Received::Message(ToParent::MalformedConnect, _) if role == Role::Worker => self.condemn_broker(place, Role::is_connect),
            Received::Message(ToParent::MalformedSpool, _) if role == Role::Worker => self.condemn_broker(place, Role::is_spool),
            Received::Message(ToParent::MalformedKeys, _) if role == Role::Worker => self.condemn_keys(place),
            Received::Message(ToParent::MalformedAuth, _) if role == Role::Worker => self.condemn_broker(place, Role::is_auth),
            Received::Message(ToParent::Lost { lines, file, errno }, _) if role == Role::Log => {
                self.lost_lines += u64::from(lines);
                self.logs.report.line(Level::Error, &self.logs.loss(lines, file, errno));
                Ok(())
            }
            // Only who was asked, or a worker that is taken over could keep this process busy.
            Received::Message(ToParent::Counters(totals), _) if slot.asked > 0 => {
                self.counters(place, totals);
                Ok(())
            }
            Received::Message(ToParent::NoSyslog, _) if role == Role::Log => self.give_syslog(),
            Received::Message(ToParent::Begun, _) if role == Role::Spawn => {
                self.programs_begun = true;
                Ok(())
            }
            Received::Message(
                ToParent::Ready { .. }
                | ToParent::Counters(_)
                | ToParent::Failed { .. }
                | ToParent::Proved { .. }
                | ToParent::Unusable { .. }
                | ToParent::Malformed { .. }
                | ToParent::MalformedFiles
                | ToParent::MalformedConnect
                | ToParent::MalformedSpool
                | ToParent::MalformedKeys
                | ToParent::MalformedAuth
                | ToParent::Lost { .. }
                | ToParent::NoSyslog
                | ToParent::Begun,
                _,
            )
            | Received::Malformed => self.condemn(place, "sent a message that it may not send"),
        }
    }

    /// A child says that it is confined: believes it if `/proc` says so too, and gives it its work. The workers of a new
    /// generation get theirs together, when the last of them is ready.
    fn admit(&mut self, place: Place, missing: &[Layer]) -> Result<(), String> {
        let Some(generation) = self.generations.iter_mut().find(|generation| generation.number == place.generation) else {
            return Ok(());
        };
        let (cells, phase) = (generation.cells.clone(), generation.phase);
        let Some(slot) = generation.slots.get_mut(place.index()) else {
            return Ok(());
        };
        let Some(child) = slot.child.as_mut() else { return Ok(()) };
        if let Err(why) = Nursery::verify(&cells, slot.role, child, missing) {
            return self.condemn(place, &format!("is not confined: {why}"));
        }
        child.state = State::Serving;
        if slot.role == Role::Log {
            if phase == Phase::Starting {
                generation.phase = Phase::Serving;
            }
            return self.give_logs();
        }
        if slot.role == Role::Spawn {
            return self.admit_spawn();
        }
        let (role, is_ready) = (slot.role, generation.is_ready());
        if role.is_shared() {
            self.admit_broker(place, role)?;
        }
        match phase {
            Phase::Starting if is_ready => self.succeed(place.generation),
            Phase::Starting | Phase::Draining(_) => Ok(()),
            Phase::Serving => self.give_listeners(place),
        }
    }

    /// Ends a child for a reason that is logged. In a generation that starts, that ends the generation.
    pub(super) fn condemn(&mut self, place: Place, why: &str) -> Result<(), String> {
        let Some(slot) = self.slot_mut(place) else { return Ok(()) };
        let why = format!("{} {why}", slot.name());
        if let Some(child) = slot.child.as_mut() {
            child.condemn();
        }
        if self.is_starting(place.generation) {
            return self.fail(place.generation, why);
        }
        self.logs.report.line(Level::Error, &format!("{why}; it is ended"));
        Ok(())
    }
}

/// How long a process may live after its channel has ended.
const LEAVE_MS: u64 = 100;
