//! How soon what died is started again. Used by the parent for its roles, and by `spawn` for programs.

/// Deaths in a row, each soon after its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackOff {
    failures: u32,
}

impl BackOff {
    /// How long to wait before the next start, in milliseconds, after a life of `lived_ms`: not at all after a steady life, then from
    /// 100 ms doubling to a minute, so that a crash that repeats (or is repeated, to guess addresses) costs its cause more than us.
    pub fn next_delay(&mut self, lived_ms: u64) -> u64 {
        if lived_ms >= STEADY_MS {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        match self.failures {
            1 => 0,
            n => DELAY_MIN_MS.saturating_mul(1 << (n - 2).min(16)).min(DELAY_MAX_MS),
        }
    }
}

/// A process that lived this long did not die of its start.
pub const STEADY_MS: u64 = 10_000;
const DELAY_MIN_MS: u64 = 100;
const DELAY_MAX_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_is_immediate_once_then_backs_off_to_a_minute_and_recovers() {
        let mut back_off = BackOff::default();
        let delays: Vec<u64> = (0..13).map(|_| back_off.next_delay(5)).collect();
        assert_eq!(delays[..5], [0, 100, 200, 400, 800]);
        assert_eq!(delays.last(), Some(&60_000));
        assert_eq!(back_off.next_delay(STEADY_MS), 0);
    }
}
