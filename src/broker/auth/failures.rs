//! Wrong passwords, of whom and how many: who has had some that were wrong waits before another is looked at, ever longer.
//!
//! A client is slowed for a user, and for all users; a user is never slowed for everybody, since whoever knows a name could then keep its owner
//! out. Clients of this machine are not slowed: behind a proxy that is not named as one, all of them would be one.

use std::collections::HashMap;
use std::net::Ipv6Addr;

#[derive(Default)]
pub(super) struct Failures {
    counts: HashMap<Whose, Count>,
}

/// A client and a user; without one, a client and any.
type Whose = (Ipv6Addr, Option<Box<[u8]>>);

#[derive(Clone, Copy)]
struct Count {
    wrong: u32,
    /// When the last was wrong, in monotonic milliseconds.
    last: u64,
}

impl Failures {
    /// How long a client is to wait before a password for that user is looked at, in seconds; `None`: it need not.
    pub(super) fn wait(&self, client: Ipv6Addr, user: &[u8], now: u64) -> Option<u16> {
        let client = network(client);
        let left = |user: Option<Box<[u8]>>, free: u32| {
            let count = self.counts.get(&(client, user))?;
            let over = count.wrong.checked_sub(free)?;
            let pause = (1_000 << over.min(16)).min(LONGEST_MS);
            (count.last + pause).checked_sub(now).filter(|left| *left > 0)
        };
        let left = left(Some(user.into()), FREE_OF_USER).max(left(None, FREE_OF_CLIENT))?;
        Some(u16::try_from(left.div_ceil(1_000)).unwrap_or(u16::MAX))
    }

    /// A password was wrong.
    pub(super) fn count(&mut self, client: Ipv6Addr, user: &[u8], now: u64) {
        if client.to_canonical().is_loopback() {
            return;
        }
        let client = network(client);
        for key in [(client, Some(user.into())), (client, None)] {
            if self.counts.len() >= COUNTS_MAX {
                self.counts.retain(|_, count| now.saturating_sub(count.last) < FORGOTTEN_MS);
            }
            if self.counts.len() >= COUNTS_MAX && !self.counts.contains_key(&key) {
                continue;
            }
            let count = self.counts.entry(key).or_insert(Count { wrong: 0, last: now });
            // Whoever has long been quiet begins anew.
            let wrong = if now.saturating_sub(count.last) < FORGOTTEN_MS { count.wrong } else { 0 };
            *count = Count { wrong: wrong.saturating_add(1), last: now };
        }
    }

    /// One was right: its client has found it.
    pub(super) fn clear(&mut self, client: Ipv6Addr, user: &[u8]) {
        if !self.counts.is_empty() {
            self.counts.remove(&(network(client), Some(user.into())));
        }
    }
}

/// Whom a client counts as: of IPv6 it has as many addresses as it likes (RFC 6177).
pub(super) fn network(client: Ipv6Addr) -> Ipv6Addr {
    if client.to_ipv4_mapped().is_some() { client } else { Ipv6Addr::from_bits(client.to_bits() >> 64 << 64) }
}

/// Wrong passwords of a client for one user, and for any, that cost no wait: people mistype.
const FREE_OF_USER: u32 = 5;
const FREE_OF_CLIENT: u32 = 20;

/// The longest wait, in milliseconds.
const LONGEST_MS: u64 = 60_000;

/// After which what was wrong is forgotten, in milliseconds.
const FORGOTTEN_MS: u64 = 900_000;

/// What is remembered at most; beyond, nobody more is slowed.
const COUNTS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);

    #[test]
    fn some_may_be_wrong_then_each_doubles_the_wait() {
        let mut failures = Failures::default();
        for _ in 0..FREE_OF_USER - 1 {
            failures.count(CLIENT, b"ann", 0);
            assert_eq!(failures.wait(CLIENT, b"ann", 0), None);
        }
        for (wrong, seconds) in [(5, 1), (6, 2), (7, 4), (8, 8), (9, 16), (10, 32), (11, 60), (12, 60)] {
            failures.count(CLIENT, b"ann", 0);
            assert_eq!(failures.wait(CLIENT, b"ann", 0), Some(seconds), "{wrong}");
            assert_eq!(failures.wait(CLIENT, b"ann", u64::from(seconds) * 1_000), None);
        }
        let same_network = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 9, 9, 9, 9);
        assert_eq!(failures.wait(same_network, b"ann", 0), Some(60));
        // Neither another user nor another client is slowed by it.
        assert_eq!((failures.wait(CLIENT, b"bob", 0), failures.wait(OTHER, b"ann", 0)), (None, None));
        failures.clear(CLIENT, b"ann");
        assert_eq!(failures.wait(CLIENT, b"ann", 0), None);
    }

    #[test]
    fn many_names_of_one_client_slow_it_for_every_name() {
        let mut failures = Failures::default();
        for number in 0..FREE_OF_CLIENT {
            assert_eq!(failures.wait(CLIENT, b"ann", 0), None, "{number}");
            failures.count(CLIENT, number.to_string().as_bytes(), 0);
        }
        assert_eq!((failures.wait(CLIENT, b"ann", 0), failures.wait(OTHER, b"ann", 0)), (Some(1), None));
        // A quarter of an hour later it begins anew.
        failures.count(CLIENT, b"x", FORGOTTEN_MS);
        assert_eq!(failures.wait(CLIENT, b"ann", FORGOTTEN_MS), None);
    }

    #[test]
    fn this_machine_is_not_slowed_and_nothing_grows_without_end() {
        let mut failures = Failures::default();
        for _ in 0..100 {
            failures.count(Ipv6Addr::LOCALHOST, b"ann", 0);
            failures.count(std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped(), b"ann", 0);
        }
        assert!(failures.counts.is_empty());
        for number in 0..COUNTS_MAX + 10 {
            failures.count(CLIENT, number.to_string().as_bytes(), 0);
        }
        assert_eq!(failures.counts.len(), COUNTS_MAX);
    }
}
