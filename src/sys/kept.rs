//! Descriptors that stay open over execve(2), for the program that takes this one's place. Used by the parent only.

use super::{process, socket};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// Numbers that stay open over exec; closed again when nothing came of it.
#[derive(Default)]
pub struct Kept(Vec<RawFd>);

impl Kept {
    /// Keeps a copy of a descriptor open over exec; its number.
    ///
    /// # Errors
    /// The errno of fcntl(2).
    pub fn keep(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<RawFd> {
        let number = descriptor.try_clone_to_owned().and_then(process::keep_over_exec)?;
        self.0.push(number);
        Ok(number)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for number in &self.0 {
            drop(socket::inherited(*number));
        }
    }
}

/// A copy, closed on exec, of what was kept under a number.
///
/// # Errors
/// Names the number, with the errno.
pub fn copy(number: RawFd) -> Result<OwnedFd, String> {
    socket::copy_of(number).map_err(|fault| format!("resume: descriptor {number}: {fault}"))
}
