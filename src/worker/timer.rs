//! A timer wheel: when to look at a connection again. Setting a later deadline costs nothing, which is what every request does.
//!
//! An entry is only a reminder; the connection holds the deadline. One that fires too early is put off, so a connection has
//! one live entry, and stale ones are dropped when their slot comes round.

use std::mem;

/// Width of a slot in milliseconds: how late a deadline may be noticed.
const SLOT_MS: u64 = 64;

/// Slots of the wheel; what lies further away than a round is put off when its slot comes.
const SLOTS: usize = 1024;

/// Reminders by the slot of their moment.
pub(super) struct Wheel {
    slots: Vec<Vec<u64>>,
    /// The slot that was emptied last, as a count since the monotonic clock's start.
    last: u64,
    waiting: usize,
}

impl Wheel {
    pub(super) fn new(now: u64) -> Wheel {
        Wheel { slots: vec![Vec::new(); SLOTS], last: now / SLOT_MS, waiting: 0 }
    }

    /// Reminds of `token` at `deadline` or, if that is far away, earlier.
    pub(super) fn remind(&mut self, token: u64, deadline: u64) {
        let round = u64::try_from(SLOTS).unwrap_or(u64::MAX) - 1;
        // A slot is due when it has passed as a whole.
        let slot = (deadline / SLOT_MS + 1).clamp(self.last + 1, self.last + round);
        let index = usize::try_from(slot).unwrap_or(0) % SLOTS;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.push(token);
            self.waiting += 1;
        }
    }

    /// Appends everything that is due.
    pub(super) fn due(&mut self, now: u64, due: &mut Vec<u64>) {
        let current = now / SLOT_MS;
        // After a long sleep one round empties every slot.
        let first = self.last + 1;
        let end = current.min(self.last + u64::try_from(SLOTS).unwrap_or(u64::MAX));
        for slot in first..=end {
            let index = usize::try_from(slot).unwrap_or(0) % SLOTS;
            if let Some(slot) = self.slots.get_mut(index) {
                self.waiting -= slot.len();
                due.append(&mut mem::take(slot));
            }
        }
        self.last = self.last.max(current);
    }

    /// Milliseconds until something may be due; `None`: nothing waits.
    pub(super) fn next(&self, now: u64) -> Option<u64> {
        if self.waiting == 0 {
            return None;
        }
        let slots = u64::try_from(SLOTS).unwrap_or(u64::MAX);
        let next = (self.last + 1..=self.last + slots)
            .find(|slot| self.slots.get(usize::try_from(*slot).unwrap_or(0) % SLOTS).is_some_and(|slot| !slot.is_empty()));
        next.map(|slot| (slot * SLOT_MS).saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reminder_comes_at_its_moment_and_at_most_a_slot_and_a_half_late() {
        let start = 1_000_003;
        let mut wheel = Wheel::new(start);
        for deadline in [start, start + 1, start + 63, start + 64, start + 10_000, start + 60_000] {
            wheel.remind(7, deadline);
            let mut now = start;
            let mut due = Vec::new();
            let mut wheel_now = Wheel { slots: wheel.slots.clone(), last: wheel.last, waiting: wheel.waiting };
            while due.is_empty() {
                let Some(wait) = wheel_now.next(now) else { panic!("lost") };
                now += wait;
                wheel_now.due(now, &mut due);
            }
            assert!(now >= deadline && now <= deadline + 2 * SLOT_MS, "{deadline} at {now}");
            wheel.due(start + 200_000, &mut Vec::new());
            wheel = Wheel::new(start);
        }
    }

    #[test]
    fn what_is_further_away_than_a_round_comes_early() {
        let mut wheel = Wheel::new(0);
        wheel.remind(1, 10_000_000);
        let mut due = Vec::new();
        wheel.due(70_000, &mut due);
        assert_eq!(due, [1]);
        assert_eq!(wheel.next(70_000), None);
    }

    #[test]
    fn a_clock_that_slept_for_days_loses_nothing() {
        let mut wheel = Wheel::new(0);
        for token in 0..5000 {
            wheel.remind(token, token * 13);
        }
        let mut due = Vec::new();
        wheel.due(1_000_000_000, &mut due);
        assert_eq!(due.len(), 5000);
    }
}
