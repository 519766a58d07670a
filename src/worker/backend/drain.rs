//! Answers that nobody takes, as those to HEAD: read all the same, so that programs come to their end, but neither for long nor without a bound.
//!
//! Runs in the worker. Whoever asks so may be gone, and the program may never end: an endless answer would hold its connection for one packet
//! of a client, and a few of them every connection that the backend may have.

/// What is still read of such an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drain {
    until: u64,
    left: usize,
}

impl Drain {
    /// `timeout` is how long the backend may be silent; whatever it says does not put the end off.
    pub(super) fn new(now: u64, timeout: u64) -> Drain {
        Drain { until: now.saturating_add(timeout.min(DRAIN_MS)), left: DRAIN_MAX }
    }

    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// So much came; false: that was more than is worth reading.
    pub(super) fn take(&mut self, count: usize) -> bool {
        self.left.checked_sub(count).map(|left| self.left = left).is_some()
    }
}

/// How long an answer that nobody takes is read at most, and bytes of it.
const DRAIN_MS: u64 = 10_000;
const DRAIN_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_fixed_and_a_byte_beyond_the_bound_is_one_too_many() {
        for (timeout, until) in [(100, 1_100), (DRAIN_MS, 1_000 + DRAIN_MS), (60_000, 1_000 + DRAIN_MS), (u64::MAX, 1_000 + DRAIN_MS)] {
            assert_eq!(Drain::new(1_000, timeout).until(), until);
        }
        let mut drain = Drain::new(0, 1);
        assert!(drain.take(DRAIN_MAX - 1) && drain.take(1) && drain.take(0) && !drain.take(1));
    }
}
