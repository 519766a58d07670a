//! `anchorite status`: generations and workers from what the parent itself knows, counters from any worker that answers.

use super::control::Asked;
use super::generation::{Generation, Phase};
use super::supervise::Supervisor;
use crate::ipc::counters::Totals;
use crate::ipc::messages::ToWorker;
use crate::sys::{clock, process};

impl Supervisor {
    /// Asks a worker for the counters; its answer, or none in time, answers the client.
    pub(super) fn ask_status(&mut self, client: u64, json: bool) {
        self.asked.push(Asked { client, json, until: clock::monotonic_ms() + ANSWER_MS });
        self.ask_a_worker(&ToWorker::Report);
    }

    /// No worker answered in time: the status goes without counters.
    pub(super) fn answer_overdue(&mut self, now: u64) {
        if self.asked.first().is_some_and(|asked| asked.until <= now) {
            self.answer_status(None);
        }
    }

    /// Answers everyone who waits.
    pub(super) fn answer_status(&mut self, totals: Option<&Totals>) {
        for asked in std::mem::take(&mut self.asked) {
            let text = if asked.json { self.status_json(totals) } else { self.status_text(totals) };
            self.control.answer(asked.client, &Ok(text));
        }
    }

    fn status_text(&self, totals: Option<&Totals>) -> String {
        let mut text = format!("parent {}, {} restarts, {} log lines lost\n", process::own_id(), self.restarts, self.lost_lines);
        for generation in self.generations.iter().filter(|generation| generation.number > 0) {
            let addresses = addresses(generation).join(" ");
            let (number, state, pids) = (generation.number, state(generation), pids(generation, " "));
            text.push_str(&format!("generation {number} {state}: workers {pids}, listening on {addresses}\n"));
        }
        text + &totals.map_or_else(|| "no worker answered".to_owned(), Totals::text)
    }

    fn status_json(&self, totals: Option<&Totals>) -> String {
        let workers = self.generations.iter().filter(|generation| generation.number > 0);
        let generations: Vec<String> = workers
            .map(|generation| {
                let addresses: Vec<String> = addresses(generation).iter().map(|address| format!("\"{address}\"")).collect();
                let (number, state, pids) = (generation.number, state(generation), pids(generation, ","));
                format!("{{\"generation\":{number},\"state\":\"{state}\",\"workers\":[{pids}],\"listen\":[{}]}}", addresses.join(","))
            })
            .collect();
        let counters = totals.map_or_else(String::new, |totals| format!(",{}", totals.json_members()));
        format!(
            "{{\"pid\":{},\"restarts\":{},\"log_lines_unwritten\":{},\"generations\":[{}]{counters}}}",
            process::own_id(),
            self.restarts,
            self.lost_lines,
            generations.join(",")
        )
    }
}

fn state(generation: &Generation) -> &'static str {
    match generation.phase {
        Phase::Starting => "starting",
        Phase::Serving => "serving",
        Phase::Draining(_) => "draining",
    }
}

fn addresses(generation: &Generation) -> Vec<String> {
    generation.listeners.iter().map(|listener| listener.address().to_string()).collect()
}

fn pids(generation: &Generation, between: &str) -> String {
    let pids: Vec<String> = generation.slots.iter().filter_map(|slot| slot.child.as_ref()).map(|child| child.pid.to_string()).collect();
    pids.join(between)
}

/// How long a worker may take to answer.
const ANSWER_MS: u64 = 1_000;
