//! Which of several certificates of a site a client gets: the first that it can verify, keys of elliptic curves before those of RSA, which
//! cost the server ten times as much.
//!
//! Runs in the worker, as a part of a handshake.

use crate::config::KeyKind;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// The certificates of a site, in the order of preference.
#[derive(Debug)]
pub(super) struct Choice(Vec<Arc<CertifiedKey>>);

impl Choice {
    pub(super) fn new(mut pairs: Vec<(KeyKind, Arc<CertifiedKey>)>) -> Choice {
        pairs.sort_by_key(|(kind, _)| match kind {
            KeyKind::Ecdsa256 => 0,
            KeyKind::Ed25519 => 1,
            KeyKind::Ecdsa384 => 2,
            KeyKind::Ecdsa521 => 3,
            KeyKind::Rsa => 4,
        });
        Choice(pairs.into_iter().map(|(_, pair)| pair).collect())
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let suits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(hello.signature_schemes()).is_some();
        // Where none suits, the handshake says so of the first.
        self.0.iter().find(suits).or(self.0.first()).cloned()
    }
}
