//! What is wrong with what a backend sent, or cannot be told to it.
//!
//! Runs in the `worker`; does no I/O. A backend is as foreign as a client: what it may not send ends its connection, and its client is
//! told that the answer failed, never what of it came.

/// Bytes of a backend that its protocol does not allow: 502, and the connection to it is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What was wrong, for the log; never holds bytes of the backend.
    pub why: &'static str,
}

impl Fault {
    pub(super) const fn new(why: &'static str) -> Fault {
        Fault { why }
    }
}

/// Why a request cannot be told to a backend in its protocol; the backend never hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unencodable {
    /// A parameter that holds NUL, which in this protocol ends it: 400.
    Nul,
    /// More bytes of parameters than the protocol has room for: 431.
    TooLarge,
}
