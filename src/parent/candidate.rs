//! The program that is to take this one's place, until it does: a child that checks the configuration, while everything else
//! goes on, and then waits for its turn. PRIVILEGED, as all of the parent; believes nothing of it but its exit status.

use crate::sys::process::Check;

/// How far the replacement of the program has come.
#[derive(Default)]
pub(super) enum Candidate {
    #[default]
    None,
    /// It reads the configuration.
    Checking(Check),
    /// It takes it, and its turn comes when no reload is under way.
    Waiting,
}

impl Candidate {
    /// When its check is ended, in monotonic milliseconds.
    pub(super) fn until(&self) -> Option<u64> {
        match self {
            Candidate::Checking(check) => Some(check.until),
            Candidate::None | Candidate::Waiting => None,
        }
    }

    /// The service ends: so does the check, for which nobody waits any more.
    pub(super) fn abandon(&mut self) {
        if let Candidate::Checking(check) = std::mem::take(self) {
            check.kill();
        }
    }
}
