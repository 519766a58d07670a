//! The bandwidth that one response may have: how much of it may have been sent by now.
//!
//! Runs in the worker; does no I/O and reads no clock.

/// Credit that grows with time and is spent by sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Bytes per second, never 0.
    rate: u64,
    /// In thousandths of bytes, so that no fraction is lost however often it is looked at.
    credit: u64,
    /// When it was last looked at, in monotonic milliseconds.
    at: u64,
}

impl Pace {
    /// Begins with a burst.
    pub(super) fn new(rate: u64, now: u64) -> Pace {
        let rate = rate.clamp(1, RATE_MAX);
        Pace { rate, credit: (rate / STEPS).max(1).saturating_mul(1000), at: now }
    }

    /// Bytes that may be sent now; 0 as long as it would be so few that the call is not worth it.
    pub(super) fn allowed(&mut self, now: u64) -> u64 {
        let grown = self.rate.saturating_mul(now.saturating_sub(self.at));
        self.credit = self.credit.saturating_add(grown).min(self.step().saturating_mul(1000 * BURST));
        self.at = now;
        let bytes = self.credit / 1000;
        if bytes >= self.step() { bytes } else { 0 }
    }

    /// So many bytes were sent.
    pub(super) fn spend(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_sub(bytes.saturating_mul(1000));
    }

    /// When some may be sent again.
    pub(super) fn next(&self) -> u64 {
        let lacking = self.step().saturating_mul(1000).saturating_sub(self.credit);
        self.at.saturating_add(lacking.div_ceil(self.rate).max(1))
    }

    /// The least that is sent at once, but for the end.
    fn step(&self) -> u64 {
        (self.rate / STEPS).max(1)
    }
}

/// The largest rate, above what any network carries, so that thousandths of bytes fit their type.
const RATE_MAX: u64 = 1 << 40;

/// Steps in a second: few enough that a slow rate does not mean many tiny segments.
const STEPS: u64 = 16;

/// Steps that may be sent at once after waiting, a quarter of a second's: a reminder comes up to two slots of the timer late (128 ms), and
/// what was not sent until then is made up for.
const BURST: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent in so many milliseconds by who looks when the pace says, but always up to `late` milliseconds later.
    fn sent(rate: u64, milliseconds: u64, late: u64) -> u64 {
        let (mut now, mut sent) = (1_000_000, 0);
        let end = now + milliseconds;
        let mut pace = Pace::new(rate, now);
        while now <= end {
            let bytes = pace.allowed(now);
            pace.spend(bytes);
            sent += bytes;
            now = pace.next() + late;
        }
        sent
    }

    #[test]
    fn the_rate_is_kept_within_a_tenth_over_three_seconds() {
        for rate in [100, 1_000, 65_536, 1 << 20, 1 << 30] {
            for late in [0, 1, 30, 63, 128] {
                let (sent, right) = (sent(rate, 3000, late), rate * 3);
                assert!(sent.abs_diff(right) <= right / 10, "{rate} late by {late}: {sent} instead of {right}");
            }
        }
    }

    #[test]
    fn after_a_long_wait_comes_a_quarter_of_a_seconds_bytes_and_no_more() {
        let mut pace = Pace::new(16_000, 0);
        assert_eq!(pace.allowed(100_000), 4_000);
        pace.spend(4_000);
        assert_eq!(pace.allowed(100_000), 0);
        assert_eq!(pace.next(), 100_063);
        assert_eq!(pace.allowed(100_063), 1_008);
    }

    #[test]
    fn extremes_neither_overflow_nor_stop() {
        for rate in [0, 1, u64::MAX] {
            let mut pace = Pace::new(rate, u64::MAX - 10);
            assert!(pace.allowed(u64::MAX) > 0);
            pace.spend(u64::MAX);
            assert_eq!(pace.allowed(u64::MAX), 0);
            assert!(pace.next() >= u64::MAX - 10);
        }
        assert!((2..=4).contains(&sent(1, 3000, 0)));
    }
}
