//! What `anchorite status` shows: generations and workers, from what the parent itself knows.

use super::generation::{Generation, Phase};
use super::supervise::Supervisor;
use crate::sys::process;

impl Supervisor {
    /// The state of the service, for people or for machines.
    pub(super) fn status(&self, json: bool) -> String {
        if json { self.status_json() } else { self.status_text() }
    }

    fn status_text(&self) -> String {
        let mut lines = vec![format!(
            "parent {}, {} restarts, {} log lines lost",
            process::own_id(),
            self.restarts,
            self.lost_lines
        )];
        for generation in self.workers() {
            let addresses: Vec<String> = generation.listeners.iter().map(|listener| listener.address().to_string()).collect();
            lines.push(format!(
                "generation {} {}: workers {}{}",
                generation.number,
                state(generation),
                pids(generation, " "),
                if addresses.is_empty() {
                    String::new()
                } else {
                    format!(", listening on {}", addresses.join(" "))
                }
            ));
        }
        lines.join("\n")
    }

    fn status_json(&self) -> String {
        let generations: Vec<String> = self
            .workers()
            .map(|generation| {
                let addresses: Vec<String> = generation
                    .listeners
                    .iter()
                    .map(|listener| format!("\"{}\"", listener.address()))
                    .collect();
                format!(
                    "{{\"generation\":{},\"state\":\"{}\",\"workers\":[{}],\"listen\":[{}]}}",
                    generation.number,
                    state(generation),
                    pids(generation, ","),
                    addresses.join(",")
                )
            })
            .collect();
        format!(
            "{{\"pid\":{},\"restarts\":{},\"lost_log_lines\":{},\"generations\":[{}]}}",
            process::own_id(),
            self.restarts,
            self.lost_lines,
            generations.join(",")
        )
    }

    fn workers(&self) -> impl Iterator<Item = &Generation> {
        self.generations.iter().filter(|generation| generation.number > 0)
    }
}

fn state(generation: &Generation) -> &'static str {
    match generation.phase {
        Phase::Starting => "starting",
        Phase::Serving => "serving",
        Phase::Draining(_) => "draining",
    }
}

fn pids(generation: &Generation, between: &str) -> String {
    let pids: Vec<String> = generation
        .slots
        .iter()
        .filter_map(|slot| slot.child.as_ref())
        .map(|child| child.pid.to_string())
        .collect();
    pids.join(between)
}
