//! Boundaries of multipart responses (RFC 2046, 5.1.1).
//!
//! Runs in the worker; makes no system call after the first.

use std::hash::{BuildHasher, RandomState};

/// Makes boundaries that nobody can foresee: a file that held one could pass off its content as other parts.
///
/// Two SipHashes of a counter, with keys from getrandom(2) that this process alone has: it was executed, not only forked.
#[derive(Default)]
pub(super) struct Boundaries {
    keys: [RandomState; 2],
    count: u64,
}

impl Boundaries {
    /// Another boundary each time: 32 hexadecimal digits.
    pub(super) fn next(&mut self) -> [u8; LENGTH] {
        self.count += 1;
        let mut boundary = [b'0'; LENGTH];
        for (half, keys) in boundary.chunks_mut(LENGTH / 2).zip(&self.keys) {
            let hash = keys.hash_one(self.count);
            for (digit, shift) in half.iter_mut().zip((0..64).step_by(4)) {
                *digit = DIGITS[usize::from((hash >> shift).to_le_bytes()[0] & 15)];
            }
        }
        boundary
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Bytes of a boundary; at most 70 are allowed.
pub(super) const LENGTH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn r06_no_boundary_comes_twice_and_no_two_processes_have_the_same() {
        let mut all = HashSet::new();
        for _ in 0..4 {
            let mut boundaries = Boundaries::default();
            for _ in 0..1000 {
                assert!(all.insert(boundaries.next()));
            }
        }
        assert!(all.iter().flatten().all(u8::is_ascii_hexdigit));
    }
}
