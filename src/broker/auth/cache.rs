//! Passwords that were right a moment ago, so that a page with fifty pictures costs one hash. No password is kept: only a keyed hash of what was
//! asked and by whom, whose key this process has drawn and nobody else knows. By whom, since another client must not find out at once, however
//! slowed it is, that a guess is right.

use super::failures::network;
use crate::ipc::auth::Request;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

pub(super) struct Cache {
    key: [u64; 8],
    /// Until when, in monotonic milliseconds, and of which realm.
    known: HashMap<[u8; 32], (u64, u16)>,
}

impl Cache {
    pub(super) fn new() -> Cache {
        // Each draws on the randomness of the kernel.
        Cache { key: std::array::from_fn(|at| RandomState::new().hash_one(at)), known: HashMap::new() }
    }

    pub(super) fn knows(&self, request: &Request, now: u64) -> bool {
        !self.known.is_empty() && self.known.get(&self.hash(request)).is_some_and(|(until, _)| now < *until)
    }

    /// That password was right.
    pub(super) fn keep(&mut self, request: &Request, now: u64) {
        if self.known.len() >= KNOWN_MAX {
            self.known.retain(|_, (until, _)| now < *until);
        }
        if self.known.len() < KNOWN_MAX {
            self.known.insert(self.hash(request), (now + KEPT_MS, request.realm));
        }
    }

    /// The file of a realm has changed.
    pub(super) fn forget(&mut self, realm: u16) {
        self.known.retain(|_, (_, of)| *of != realm);
    }

    fn hash(&self, request: &Request) -> [u8; 32] {
        let mut hash = Sha256::new();
        self.key.iter().for_each(|word| hash.update(word.to_le_bytes()));
        hash.update(network(request.client).octets());
        hash.update(request.realm.to_le_bytes());
        hash.update(request.user.len().to_le_bytes());
        hash.update(&request.user);
        hash.update(request.password.as_slice());
        hash.finalize().into()
    }
}

/// For how long a password is known, in milliseconds, however often it is asked for.
const KEPT_MS: u64 = 60_000;

const KNOWN_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use zeroize::Zeroizing;

    fn request(realm: u16, user: &str, password: &str) -> Request {
        let password = Zeroizing::new(password.as_bytes().to_vec());
        Request { id: 0, deadline: 0, realm, client: Ipv6Addr::LOCALHOST, user: user.as_bytes().to_vec(), password }
    }

    #[test]
    fn only_what_was_right_is_known_and_not_for_long() {
        let mut cache = Cache::new();
        cache.keep(&request(0, "ab", "c"), 0);
        assert!(cache.knows(&request(0, "ab", "c"), KEPT_MS - 1));
        for (realm, user, password) in [(1, "ab", "c"), (0, "a", "bc"), (0, "ab", "d"), (0, "ab", ""), (0, "abc", "")] {
            assert!(!cache.knows(&request(realm, user, password), 0), "{realm} {user} {password}");
        }
        assert!(!cache.knows(&request(0, "ab", "c"), KEPT_MS));
        let other = Request { client: Ipv6Addr::UNSPECIFIED, ..request(0, "ab", "c") };
        cache.keep(&other, 0);
        assert!(cache.knows(&other, 0) && !cache.knows(&Request { client: Ipv6Addr::new(1, 0, 0, 0, 0, 0, 0, 0), ..other }, 0));
        cache.keep(&request(1, "ab", "c"), 0);
        cache.forget(0);
        assert!(!cache.knows(&request(0, "ab", "c"), 0) && cache.knows(&request(1, "ab", "c"), 0));
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let mut cache = Cache::new();
        for number in 0..KNOWN_MAX + 10 {
            cache.keep(&request(0, &number.to_string(), ""), 0);
        }
        assert_eq!(cache.known.len(), KNOWN_MAX);
        cache.keep(&request(0, "late", ""), KEPT_MS);
        assert!(cache.knows(&request(0, "late", ""), KEPT_MS));
    }
}
