//! `anchorite status`: generations and workers from what the parent itself knows, counters from any worker that answers.

use super::control::Asked;
use super::generation::{Generation, Phase};
use super::listen::Listener;
use super::slot::Place;
use super::supervise::Supervisor;
use crate::ipc::counters::Totals;
use crate::ipc::messages::ToWorker;
use crate::ipc::status::{GenerationStatus, Status};
use crate::role::Role;
use crate::sys::{clock, process};
use crate::tls;
use std::rc::Rc;

impl Supervisor {
    /// Asks the workers for the counters: the first answer, or none in time, answers the client. All of them are asked, since
    /// one may be stopped or stuck just when an administrator wants to know.
    pub(super) fn ask_status(&mut self, client: u64, json: bool) {
        self.asked.push(Asked { client, json, until: clock::monotonic_ms() + ANSWER_MS });
        for place in self.places(|slot| slot.role == Role::Worker && slot.is_serving()) {
            let Some(slot) = self.slot_mut(place) else { continue };
            if slot.child.as_ref().is_some_and(|child| child.channel.send(&ToWorker::Report, &[]).is_ok()) {
                slot.asked += 1;
            }
        }
    }

    /// The counters came from a worker. Where it owes more answers, this one is to an earlier question.
    pub(super) fn counters(&mut self, place: Place, totals: Totals) {
        let Some(slot) = self.slot_mut(place) else { return };
        slot.asked -= 1;
        if slot.asked == 0 {
            self.answer_status(Some(totals));
        }
    }

    /// No worker answered in time: the status goes without counters.
    pub(super) fn answer_overdue(&mut self, now: u64) {
        if self.asked.first().is_some_and(|asked| asked.until <= now) {
            self.answer_status(None);
        }
    }

    /// Answers everyone who waits.
    pub(super) fn answer_status(&mut self, totals: Option<Totals>) {
        let status = Status {
            parent: process::own_id(),
            restarts: self.restarts,
            lost_lines: self.lost_lines,
            generations: self.generations.iter().filter(|generation| generation.number > 0).map(of).collect(),
            totals,
        };
        for asked in std::mem::take(&mut self.asked) {
            let text = if asked.json { status.json() } else { status.text() };
            self.control.clients.answer(asked.client, &Ok(text));
        }
    }
}

fn of(generation: &Generation) -> GenerationStatus {
    let addresses = |which: fn(&&Rc<Listener>) -> bool| {
        generation.listeners.iter().filter(which).map(|listener| listener.address().to_string()).collect()
    };
    GenerationStatus {
        number: generation.number,
        state: match generation.phase {
            Phase::Starting => "starting",
            Phase::Serving => "serving",
            Phase::Draining(_) => "draining",
        },
        workers: generation.workers().filter_map(|slot| slot.child.as_ref()).map(|child| child.pid).collect(),
        addresses: addresses(|_| true),
        warnings: if generation.phase == Phase::Serving { tls::expiring(&generation.cells.ends) } else { Vec::new() },
        handed_over: addresses(|listener| listener.is_handed_over()),
    }
}

/// How long a worker may take to answer.
const ANSWER_MS: u64 = 1_000;
