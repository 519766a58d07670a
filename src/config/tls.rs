//! TLS: what is configured, and what a worker is told once the parent has read the files. Does no I/O.

use serde::{Deserialize, Serialize};

/// What a worker needs to serve one site over TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTls {
    /// In the order of the file; never empty.
    pub pairs: Vec<Pair>,
    pub min_version: TlsVersion,
    pub client_auth: ClientAuth,
    /// DER, of those who vouch for clients; empty only without client certificates.
    pub client_ca: Vec<Vec<u8>>,
}

/// A certificate and what signs for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// DER, the site's own certificate first, each of the others vouching for the one before it.
    pub chain: Vec<Vec<u8>>,
    /// The number of the private key; sites with the same key file share it.
    pub key: u16,
    pub kind: KeyKind,
    /// PKCS#8, PKCS#1 or SEC1 as DER, only with `key_isolation = false`.
    pub private: Option<Vec<u8>>,
}

/// The algorithm of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    Ecdsa256,
    Ecdsa384,
    Ecdsa521,
    Ed25519,
    Rsa,
}

/// The lowest version that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClientAuth {
    None,
    Optional,
    Required,
}
