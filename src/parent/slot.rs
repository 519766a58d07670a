//! A place for one process of a role, and how soon it is filled again.

use super::child::{Brokers, Child, State};
use crate::ipc::Channel;
use crate::ipc::back_off::BackOff;
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
    /// For a worker: the other ends of its channels to the brokers of its generation, which each of them gets, as long as it lives.
    pub(super) ends: Option<Brokers>,
    back_off: BackOff,
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
            ends: None,
            back_off: BackOff::default(),
            next_start: None,
        }
    }

    pub(super) fn name(&self) -> String {
        match self.role {
            Role::Worker | Role::Files | Role::Keys if self.generation <= 1 => format!("{} {}", self.role.name(), self.number),
            Role::Worker | Role::Files | Role::Keys => format!("{} {}, generation {}", self.role.name(), self.number, self.generation),
            Role::Connect | Role::ConnectTcp | Role::Spool | Role::Auth if self.generation > 1 => {
                format!("{}, generation {}", self.role.name(), self.generation)
            }
            Role::Log | Role::Connect | Role::ConnectTcp | Role::Spool | Role::Auth | Role::Spawn | Role::Parent => {
                self.role.name().to_owned()
            }
        }
    }

    pub(super) fn is_serving(&self) -> bool {
        self.child.as_ref().is_some_and(|child| child.state == State::Serving)
    }

    /// How long to wait before the next start, in milliseconds.
    pub(super) fn next_delay(&mut self, lived_ms: u64) -> u64 {
        self.back_off.next_delay(lived_ms)
    }
}

/// The next number behind `last` that no living process has. Workers count in rows that their numbers share modulo [`ROWS`]: as long as there
/// are fewer processes, none gets the row of another, which would be emptied when one of the two starts or ends.
pub(super) fn next_number(last: u16, living: &[u16]) -> u16 {
    let mut apart =
        (1..=ROWS).map(|step| last.wrapping_add(step)).filter(|number| living.iter().all(|other| other % ROWS != number % ROWS));
    let mut free = (1..=u16::MAX).map(|step| last.wrapping_add(step)).filter(|number| !living.contains(number));
    apart.next().or_else(|| free.next()).unwrap_or(last)
}

/// No fewer than the rows of any table that workers share; a power of two.
const ROWS: u16 = 256;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_process_never_gets_the_row_of_a_living_one() {
        let living = [3, 300];
        let mut last = 0;
        for _ in 0..70_000 {
            let next = next_number(last, &living);
            assert!(next != last && living.iter().all(|other| other % ROWS != next % ROWS), "{next}");
            last = next;
        }
        // With more processes than rows at least the numbers differ.
        let many: Vec<u16> = (0..300).collect();
        assert_eq!(next_number(10, &many), 300);
        assert_eq!(next_number(u16::MAX, &many), 300);
    }
}
