//! Signatures by private keys that this process has not, and tickets: `keys` makes them.
//!
//! Runs in the worker, as a part of a handshake. It waits for an answer, which costs less than anything else would as long as `keys` answers
//! at once; where it once did not, handshakes fail without waiting until it has shown that it is there again, so that whatever else this
//! process serves goes on.

use crate::config::{KeyKind, Pair};
use crate::ipc::keys::{PLAIN_MAX, Reply, Request, TICKET_MAX};
use crate::ipc::messages::Message;
use crate::ipc::{Channel, Received};
use crate::sys::clock;
use crate::sys::epoll::{Interest, Poller};
use crate::tls::tickets;
use rustls::server::ProducesTickets;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use std::io;
use std::sync::{Arc, Mutex};

/// The way to `keys`.
pub(in crate::worker) struct Keeper(Mutex<State>);

struct State {
    channel: Channel,
    /// Waits for that alone.
    poller: Poller,
    /// Number of the last request.
    last: u32,
    /// `keys` owes the answer to this request, and is not waited for before it has come; when it was sent.
    owed: Option<(u32, u64)>,
    /// It sent what it may not; told to the parent once.
    accused: Option<bool>,
    /// Room for one answer.
    buffer: Vec<u8>,
}

impl Keeper {
    /// # Errors
    /// The errno of epoll_ctl(2).
    pub(in crate::worker) fn new(channel: Channel, poller: Poller) -> io::Result<Keeper> {
        poller.add(&channel, Interest::Input, 0)?;
        let buffer = vec![0; Reply::LENGTH_MAX + 1];
        Ok(Keeper(Mutex::new(State { channel, poller, last: 0, owed: None, accused: None, buffer })))
    }

    /// Whether the parent is to be told, which has not been, that `keys` sent what it may not.
    pub(in crate::worker) fn accuses(&self) -> bool {
        self.0.lock().is_ok_and(|mut state| state.accused.as_mut().is_some_and(|told| !std::mem::replace(told, true)))
    }

    fn sign(&self, key: u16, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = |why: &str| Error::General(format!("keys: {why}"));
        let scheme = u16::from(scheme);
        match self.ask(|id| Request::Sign { id, key, scheme, message: message.to_vec() }).map_err(failed)? {
            Reply::Signed { signature, .. } => Ok(signature),
            Reply::Refused { .. } => Err(failed("it refuses to sign")),
            Reply::Present { .. } | Reply::Sealed { .. } | Reply::Opened { .. } => Err(self.accuse(failed)),
        }
    }

    /// # Errors
    /// Why there is no answer.
    fn ask(&self, request: impl FnOnce(u32) -> Request) -> Result<Reply, &'static str> {
        let mut state = self.0.lock().map_err(|_| "gone")?;
        state.settle(clock::monotonic_ms());
        if state.owed.is_some() || state.accused.is_some() {
            return Err("it did not answer before, and is not waited for");
        }
        state.ask(request).ok_or("it does not answer")
    }

    /// It answered another question than it was asked.
    fn accuse<T>(&self, failed: impl FnOnce(&str) -> T) -> T {
        if let Ok(mut state) = self.0.lock() {
            state.accused.get_or_insert(false);
        }
        failed("its answer is none")
    }
}

/// Tickets that `keys` makes, and knows.
#[derive(Debug)]
pub(super) struct Tickets(pub(super) Arc<Keeper>);

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        tickets::LIFETIME
    }

    /// Without an answer there is no ticket, and the client comes as one that is new.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        if plain.is_empty() || plain.len() > PLAIN_MAX {
            return None;
        }
        match self.0.ask(|id| Request::Seal { id, plain: plain.to_vec() }).ok()? {
            Reply::Sealed { ticket, .. } => Some(ticket),
            Reply::Refused { .. } => None,
            Reply::Signed { .. } | Reply::Present { .. } | Reply::Opened { .. } => self.0.accuse(|_| None),
        }
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if ticket.is_empty() || ticket.len() > TICKET_MAX {
            return None;
        }
        match self.0.ask(|id| Request::Open { id, ticket: ticket.to_vec() }).ok()? {
            Reply::Opened { plain, .. } => Some(plain),
            Reply::Refused { .. } => None,
            Reply::Signed { .. } | Reply::Present { .. } | Reply::Sealed { .. } => self.0.accuse(|_| None),
        }
    }
}

impl State {
    /// Sends a request and waits for its answer. `None`: none came in time; from then on it is owed.
    fn ask(&mut self, request: impl FnOnce(u32) -> Request) -> Option<Reply> {
        let began = clock::monotonic_ms();
        let id = self.send(request);
        self.owed = Some((id, began));
        let deadline = began + PATIENCE_MS;
        loop {
            if let Some(reply) = self.receive() {
                if reply.id() == id {
                    self.owed = None;
                    return Some(reply);
                }
                continue;
            }
            let now = clock::monotonic_ms();
            if now >= deadline || self.accused.is_some() || self.poller.wait(Some(deadline - now)).is_err() {
                return None;
            }
        }
    }

    /// Takes what is owed, if it has come; where it has not for long, asks again: another may have taken the place of the one that was asked.
    fn settle(&mut self, now: u64) {
        let Some((owed, since)) = self.owed else { return };
        while let Some(reply) = self.receive() {
            if reply.id() == owed {
                self.owed = None;
                return;
            }
        }
        if now.saturating_sub(since) >= PROBE_MS {
            let id = self.send(|id| Request::Probe { id });
            self.owed = Some((id, now));
        }
    }

    /// The number that the request has. One that the channel does not take now is one that is not answered.
    fn send(&mut self, request: impl FnOnce(u32) -> Request) -> u32 {
        let id = self.last.wrapping_add(1);
        if self.channel.send(&request(id), &[]).is_ok() {
            self.last = id;
        }
        id
    }

    fn receive(&mut self) -> Option<Reply> {
        match self.channel.receive_long::<Reply>(&mut self.buffer) {
            Received::Message(reply, _) => Some(reply),
            Received::Nothing | Received::Ended => None,
            Received::Malformed => {
                self.accused.get_or_insert(false);
                None
            }
        }
    }
}

/// A private key that `keys` has.
pub(super) struct Remote {
    keeper: Arc<Keeper>,
    number: u16,
    kind: KeyKind,
}

impl Remote {
    pub(super) fn new(keeper: &Arc<Keeper>, pair: &Pair) -> Remote {
        Remote { keeper: Arc::clone(keeper), number: pair.key, kind: pair.kind }
    }
}

impl SigningKey for Remote {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *schemes(self.kind).iter().find(|scheme| offered.contains(scheme))?;
        Some(Box::new(RemoteSigner { keeper: Arc::clone(&self.keeper), number: self.number, scheme }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.kind {
            KeyKind::Ecdsa256 | KeyKind::Ecdsa384 | KeyKind::Ecdsa521 => SignatureAlgorithm::ECDSA,
            KeyKind::Ed25519 => SignatureAlgorithm::ED25519,
            KeyKind::Rsa => SignatureAlgorithm::RSA,
        }
    }
}

/// What a key can do, what is preferred first.
fn schemes(kind: KeyKind) -> &'static [SignatureScheme] {
    match kind {
        KeyKind::Ecdsa256 => &[SignatureScheme::ECDSA_NISTP256_SHA256],
        KeyKind::Ecdsa384 => &[SignatureScheme::ECDSA_NISTP384_SHA384],
        KeyKind::Ecdsa521 => &[SignatureScheme::ECDSA_NISTP521_SHA512],
        KeyKind::Ed25519 => &[SignatureScheme::ED25519],
        KeyKind::Rsa => &[
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
        ],
    }
}

struct RemoteSigner {
    keeper: Arc<Keeper>,
    number: u16,
    scheme: SignatureScheme,
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.keeper.sign(self.number, self.scheme, message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("keys")
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "key {} of keys", self.number)
    }
}

impl std::fmt::Debug for RemoteSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "key {} of keys, {:?}", self.number, self.scheme)
    }
}

/// How long a handshake waits for a signature, in milliseconds, and everything that this worker serves with it.
const PATIENCE_MS: u64 = 100;
/// How long an answer may be owed before there is a new question.
const PROBE_MS: u64 = 1_000;
