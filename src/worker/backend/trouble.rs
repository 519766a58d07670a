//! Addresses of backends that fail, and for how long they are passed over.
//!
//! Runs in the worker; each learns by itself.

use std::collections::HashMap;

/// Addresses that failed, by number.
#[derive(Debug, Default)]
pub(super) struct Troubles(HashMap<usize, Trouble>);

#[derive(Debug, Default)]
struct Trouble {
    /// Until when it is passed over, and for how long that was (milliseconds).
    until: u64,
    pause: u64,
    /// Requests in a row that it took and gave no answer to.
    faults: u8,
}

impl Troubles {
    /// No connection to it could be made.
    pub(super) fn unreachable(&mut self, number: usize, now: u64) {
        self.0.entry(number).or_default().pass_over(now);
    }

    /// There is a connection to it. Of one that takes them and does not answer that says nothing.
    pub(super) fn connected(&mut self, number: usize) {
        if self.0.get(&number).is_some_and(|trouble| trouble.faults == 0) {
            self.0.remove(&number);
        }
    }

    /// What became of a request that it took: an answer, or nothing that is one. A single script may fail, and the next one does not.
    pub(super) fn answered(&mut self, number: usize, well: bool, now: u64) {
        if well {
            self.0.remove(&number);
            return;
        }
        let trouble = self.0.entry(number).or_default();
        trouble.faults = trouble.faults.saturating_add(1);
        if trouble.faults >= FAULTS && now >= trouble.until {
            trouble.pass_over(now);
        }
    }

    pub(super) fn is_well(&self, number: usize, now: u64) -> bool {
        self.0.get(&number).is_none_or(|trouble| now >= trouble.until)
    }
}

impl Trouble {
    fn pass_over(&mut self, now: u64) {
        self.pause = (self.pause * 2).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS);
        self.until = now + self.pause;
    }
}

/// So many requests in a row without an answer are the address's fault.
const FAULTS: u8 = 3;

/// How long an address that failed is passed over: the first time, and at most.
const PAUSE_MIN_MS: u64 = 1_000;
const PAUSE_MAX_MS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_passed_over_when_it_fails_and_each_time_for_longer() {
        let mut troubles = Troubles::default();
        assert!(troubles.is_well(1, 0));
        for (now, pause) in [(0, 1_000), (10_000, 2_000), (20_000, 4_000), (30_000, 8_000), (40_000, 10_000), (60_000, 10_000)] {
            troubles.unreachable(1, now);
            assert!(!troubles.is_well(1, now + pause - 1) && troubles.is_well(1, now + pause) && troubles.is_well(2, now));
        }
        troubles.connected(1);
        troubles.unreachable(1, 90_000);
        assert!(troubles.is_well(1, 91_000), "from the beginning");
    }

    #[test]
    fn one_that_takes_requests_and_answers_none_is_passed_over_after_the_third() {
        let mut troubles = Troubles::default();
        for (well, is_well) in [(false, true), (false, true), (true, true), (false, true), (false, true), (false, false)] {
            assert!(troubles.is_well(1, 5));
            troubles.answered(1, well, 5);
            assert_eq!(troubles.is_well(1, 5), is_well);
        }
        // Connections alone are not believed; one more try, and an answer is.
        troubles.connected(1);
        assert!(!troubles.is_well(1, 5) && troubles.is_well(1, 1_005));
        troubles.answered(1, false, 1_005);
        assert!(!troubles.is_well(1, 3_004) && troubles.is_well(1, 3_005));
        troubles.answered(1, true, 3_005);
        troubles.answered(1, false, 3_006);
        assert!(troubles.is_well(1, 3_006));
    }
}
