//! `spawn` being told: which programs to run, where their lines go, and when to stop.

use super::child::Brokers;
use super::prepare::Prepared;
use super::slot::{Place, Slot};
use super::supervise::Supervisor;
use crate::config;
use crate::ipc::messages::{ToSpawn, ToWorker};
use crate::role::Role;
use crate::sys::{clock, memory};
use std::os::fd::AsFd;
use std::rc::Rc;

impl Supervisor {
    /// While the service starts: has `spawn` start the programs of the first generation, and waits until their sockets are there, so that the
    /// first request finds them. What cannot be made now is tried again later, and no reason not to serve.
    pub(super) fn begin_programs(&mut self, first: &mut Prepared) -> Result<(), String> {
        if first.cells.programs.programs.is_empty() {
            return Ok(());
        }
        self.give_programs()?;
        let until = clock::monotonic_ms() + BEGIN_MS;
        while !self.programs_begun && !self.is_stopping() && clock::monotonic_ms() < until {
            self.start_due(clock::monotonic_ms());
            self.turn(until)?;
        }
        Rc::make_mut(&mut first.cells).see_sockets();
        first.watched.look_again(clock::monotonic_ms());
        Ok(())
    }

    /// Has `spawn` run the programs of the generation that serves, or will be the first to; it is started with the first of them.
    pub(super) fn give_programs(&mut self) -> Result<(), String> {
        let serving = self.current().or(self.generations.first());
        let Some(cells) = serving.map(|generation| generation.cells.clone()) else { return Ok(()) };
        if self.slot(SPAWN).is_none() {
            if let Some(generation) = self.generations.first_mut().filter(|_| cells.needs_spawn()) {
                let mut slot = Slot::new(Role::Spawn, 0, 0);
                slot.next_start = Some(clock::monotonic_ms());
                generation.slots.push(slot);
            }
            return Ok(());
        }
        let Some(child) = self.slot(SPAWN).filter(|slot| slot.is_serving()).and_then(|slot| slot.child.as_ref()) else { return Ok(()) };
        let table = memory::sealed(&config::encode(&cells.programs)).map_err(|fault| format!("table of programs: {fault}"))?;
        match child.channel.send(&ToSpawn::Programs, &[table.as_fd()]) {
            Ok(()) => Ok(()),
            Err(fault) => self.condemn(SPAWN, &format!("does not take its messages: {fault}")),
        }
    }

    /// `spawn` is verified: it gets a way to `log`, and its programs.
    pub(super) fn admit_spawn(&mut self) -> Result<(), String> {
        self.renew_log_channel(SPAWN)?;
        self.hand_over_log_end(SPAWN)?;
        self.give_programs()?;
        self.share_spawn(SPAWN)
    }

    /// `spawn` has ended, and with it all that it ran: workers are told, since what it took and did not answer is lost.
    pub(super) fn tell_of_lost_programs(&self) {
        for worker in self.slots().filter(|slot| slot.ends.is_some()) {
            // One that is behind waits for its requests' deadlines instead.
            let _ = worker.child.as_ref().map(|child| child.channel.send(&ToWorker::Spawn, &[]));
        }
    }

    /// Hands the channels of workers to `spawn`, as far as `one` is either of the two, with what their generation runs.
    pub(super) fn share_spawn(&mut self, one: Place) -> Result<(), String> {
        let Some(spawn) = self.slot(SPAWN).filter(|slot| slot.is_serving()).and_then(|slot| slot.child.as_ref()) else { return Ok(()) };
        let mut fault = None;
        for place in self.places(|slot| slot.ends.is_some()).into_iter().filter(|place| one == SPAWN || one == *place) {
            let generation = self.generations.iter().find(|known| known.number == place.generation);
            let runs = generation.and_then(|generation| generation.cells.runs.as_ref());
            let Some((runs, slot)) = runs.zip(self.slot(place)) else { continue };
            let Some(Brokers { spawn: end, connect: answers, .. }) = &slot.ends else { continue };
            let table = memory::sealed(&config::encode(runs)).map_err(|fault| format!("table of programs: {fault}"))?;
            let message = ToSpawn::Channel { worker: slot.log_number };
            fault = fault.or(spawn.channel.send(&message, &[end.as_fd(), answers.as_fd(), table.as_fd()]).err());
        }
        match fault {
            Some(fault) => self.condemn(SPAWN, &format!("does not take its messages: {fault}")),
            None => Ok(()),
        }
    }

    /// The service ends: so do the programs, which the workers needed until now.
    pub(super) fn stop_programs(&self) {
        if let Some(child) = self.slot(SPAWN).and_then(|slot| slot.child.as_ref()) {
            let _ = child.channel.send(&ToSpawn::Stop, &[]);
        }
    }
}

/// Where `spawn` stands, beside `log`, once there was something for it to start.
const SPAWN: Place = Place { generation: 0, slot: 1 };

/// How long a start waits for the sockets of programs.
const BEGIN_MS: u64 = 5_000;
