//! A place for one process of a role, and how soon it is filled again.

use super::child::{Child, State};
use crate::ipc::Channel;
use crate::role::Role;

/// A place for one process, which is filled again when the process dies.
pub(super) struct Slot {
    pub(super) role: Role,
    /// Number among those of its role within its generation; 0 for `log`.
    pub(super) number: u16,
    /// Generation it belongs to; 0 for `log`.
    pub(super) generation: u32,
    pub(super) child: Option<Child>,
    /// What `log` knows the process by; every process has its own.
    pub(super) log_number: u16,
    /// How often it was asked for the counters and has not answered.
    pub(super) asked: u32,
    /// For a worker: `log`'s end of its log channel, until it can be handed over.
    pub(super) log_end: Option<Channel>,
    /// For a worker: the other end of its channel to `files`, which each of them gets, as long as it lives.
    pub(super) files_end: Option<Channel>,
    /// Deaths in a row, each within [`STEADY_MS`] of its start.
    failures: u32,
    /// When to start the next one, in monotonic milliseconds.
    pub(super) next_start: Option<u64>,
}

impl Slot {
    pub(super) fn new(role: Role, number: u16, generation: u32) -> Slot {
        Slot {
            role,
            number,
            generation,
            child: None,
            log_number: 0,
            asked: 0,
            log_end: None,
            files_end: None,
            failures: 0,
            next_start: None,
        }
    }

    pub(super) fn name(&self) -> String {
        match self.role {
            Role::Worker | Role::Files if self.generation <= 1 => format!("{} {}", self.role.name(), self.number),
            Role::Worker | Role::Files => format!("{} {}, generation {}", self.role.name(), self.number, self.generation),
            Role::Log | Role::Parent => self.role.name().to_owned(),
        }
    }

    pub(super) fn is_serving(&self) -> bool {
        self.child.as_ref().is_some_and(|child| child.state == State::Serving)
    }

    /// How long to wait before the next start, in milliseconds: not at all after a steady life, then from 100 ms doubling to
    /// a minute, so that a crash that repeats (or is repeated, to guess addresses) costs its cause more than us.
    pub(super) fn next_delay(&mut self, lived_ms: u64) -> u64 {
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

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) generation: u32,
    pub(super) slot: u32,
}

impl Place {
    pub(super) fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(super) fn of(token: u64) -> Place {
        let half = |value: u64| u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0);
        Place { generation: half(token >> 32), slot: half(token) }
    }

    pub(super) fn index(self) -> usize {
        usize::try_from(self.slot).unwrap_or(usize::MAX)
    }
}

/// A process that lived this long did not die of its start.
const STEADY_MS: u64 = 10_000;
const DELAY_MIN_MS: u64 = 100;
const DELAY_MAX_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_is_immediate_once_then_backs_off_to_a_minute_and_recovers() {
        let mut slot = Slot::new(Role::Worker, 0, 1);
        let delays: Vec<u64> = (0..13).map(|_| slot.next_delay(5)).collect();
        assert_eq!(delays[..5], [0, 100, 200, 400, 800]);
        assert_eq!(delays.last(), Some(&60_000));
        assert_eq!(slot.next_delay(STEADY_MS), 0);
    }
}
