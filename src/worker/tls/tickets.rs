//! Tickets hold to the site that they were made with: what a client proved there, and to whom, is not to count for another
//! (CVE-2014-3616, CVE-2025-23419).
//!
//! Runs in the worker, as a part of a handshake.

use rustls::server::ProducesTickets;
use std::sync::Arc;

/// Tickets of one group of sites, under keys that all groups share.
#[derive(Debug)]
pub(super) struct Bound {
    inner: Arc<dyn ProducesTickets>,
    /// Names what the group proves itself with, and what it asks of clients.
    group: [u8; GROUP],
}

/// Bytes of a group's name.
pub(super) const GROUP: usize = 32;

impl Bound {
    pub(super) fn new(inner: Arc<dyn ProducesTickets>, group: [u8; GROUP]) -> Bound {
        Bound { inner, group }
    }
}

impl ProducesTickets for Bound {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&[&self.group, plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let mut plain = self.inner.decrypt(cipher)?;
        let is_ours = plain.starts_with(&self.group);
        is_ours.then(|| plain.split_off(GROUP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seals nothing.
    #[derive(Debug)]
    struct Open;

    impl ProducesTickets for Open {
        fn enabled(&self) -> bool {
            true
        }

        fn lifetime(&self) -> u32 {
            7
        }

        fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
            Some(plain.to_vec())
        }

        fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
            Some(cipher.to_vec())
        }
    }

    #[test]
    fn t03_a_ticket_of_one_group_is_none_of_another() {
        let (a, b) = (Bound::new(Arc::new(Open), [1; GROUP]), Bound::new(Arc::new(Open), [2; GROUP]));
        let ticket = a.encrypt(b"session").unwrap();
        assert_eq!(a.decrypt(&ticket).as_deref(), Some(b"session".as_slice()));
        assert_eq!(b.decrypt(&ticket), None);
        assert_eq!(a.decrypt(b"short"), None);
        assert_eq!(a.lifetime(), 7);
    }
}
