//! `keys`: holds the private keys, and signs with them what workers need for TLS handshakes. CONFINED: it sees an empty directory, has no
//! network, and opens nothing: the parent opened the files that it reads once.
//!
//! A worker that is taken over can have handshakes signed as long as it lives, and gets nothing that is of use afterwards: no key, and no
//! signature of anything that is not shaped like what a server signs in a handshake. There is one of these for each worker, so that a worker
//! that asks without end keeps nobody else waiting. A request that no worker in its senses sends ends its sender.

use crate::config::{KeysSlice, TicketSource};
use crate::ipc::birth::{self, Born};
use crate::ipc::keys::{Reply, Request};
use crate::ipc::messages::{Message, ToParent};
use crate::ipc::{Channel, Received};
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::privilege::Identity;
use crate::sys::{clock, memory, socket};
use crate::tls::{self, private, shape, tickets};
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::SigningKey;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Runs the role until the parent stops it; the exit status.
pub fn run() -> u8 {
    birth::run_prepared(Role::Keys, prepare, |born| Keys::new(born)?.serve())
}

struct Keys {
    born: Born<KeysSlice>,
    /// By their numbers; `None`: no worker may ask for it.
    keys: Vec<Option<Arc<dyn SigningKey>>>,
    senders: BTreeMap<u64, Sender>,
    next_token: u64,
    stopping: bool,
    tickets: Option<tickets::Keys>,
    /// Signatures that may still be made in the second that began then.
    left: u32,
    second: u64,
    /// Room for one request.
    buffer: Vec<u8>,
}

/// A worker.
struct Sender {
    worker: u16,
    channel: Channel,
    /// Number of its last request. A `keys` that takes the place of another begins in the middle.
    last: Option<u32>,
}

/// The request is none that a worker in its senses sends.
struct Malformed;

impl Keys {
    fn new(born: Born<KeysSlice>) -> io::Result<Keys> {
        let (keys, tickets) = match read(&born.slice) {
            Ok(read) => read,
            Err(why) => {
                born.parent.send(&ToParent::Failed { why }, &[])?;
                return Err(io::ErrorKind::InvalidData.into());
            }
        };
        born.poller.add(&born.parent, Interest::Input, PARENT)?;
        birth::report_ready(&born.parent, &born.confined)?;
        let buffer = vec![0; Request::LENGTH_MAX + 1];
        Ok(Keys { born, keys, tickets, senders: BTreeMap::new(), next_token: PARENT + 1, stopping: false, left: 0, second: 0, buffer })
    }

    /// The loop. Ends when the parent is gone, or after [`Stop`](crate::ipc::messages::ToFiles::Stop) when every channel has ended.
    fn serve(mut self) -> io::Result<()> {
        while !(self.stopping && self.senders.is_empty()) {
            let count = self.born.poller.wait(None)?;
            for index in 0..count {
                let Some(ready) = self.born.poller.ready(index) else { continue };
                if ready.token != PARENT {
                    self.take_requests(ready.token);
                } else if !self.obey()? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes what the parent has sent; false: it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        let senders = &mut self.senders;
        self.born.obey(&mut self.stopping, &mut self.next_token, |token, worker, channel| {
            senders.insert(token, Sender { worker, channel, last: None });
        })
    }

    /// Carries out requests of one worker, some at a time so that the parent is heard too.
    fn take_requests(&mut self, token: u64) {
        for _ in 0..TURN {
            let Some(sender) = self.senders.get_mut(&token) else { return };
            match sender.channel.receive_long::<Request>(&mut self.buffer) {
                Received::Message(request, _) => {
                    let is_next = sender.last.is_none_or(|last| request.id() == last.wrapping_add(1));
                    sender.last = Some(request.id());
                    let outcome = if is_next { self.carry_out(request) } else { Err(Malformed) };
                    match (outcome, self.senders.get(&token)) {
                        // A worker that takes no answers has none coming: it waits for each, and no longer than it can be of use.
                        (Ok(reply), Some(sender)) => drop(sender.channel.send(&reply, &[])),
                        (Err(Malformed), _) => return self.accuse(token),
                        (Ok(_), None) => return,
                    }
                }
                Received::Nothing => return,
                Received::Ended => drop(self.senders.remove(&token)),
                Received::Malformed => return self.accuse(token),
            }
        }
    }

    fn accuse(&mut self, token: u64) {
        let Some(sender) = self.senders.remove(&token) else { return };
        let _ = self.born.parent.send(&ToParent::Malformed { worker: sender.worker }, &[]);
    }

    fn carry_out(&mut self, request: Request) -> Result<Reply, Malformed> {
        let (id, key, scheme, message) = match request {
            Request::Probe { id } => return Ok(Reply::Present { id }),
            Request::Seal { id, plain } => {
                let plain = Zeroizing::new(plain);
                let ticket = self.tickets.as_mut().ok_or(Malformed)?.seal(&plain, tls::this_hour());
                return Ok(ticket.map_or(Reply::Refused { id }, |ticket| Reply::Sealed { id, ticket }));
            }
            Request::Open { id, ticket } => {
                let plain = self.tickets.as_mut().ok_or(Malformed)?.open(&ticket, tls::this_hour());
                return Ok(plain.map_or(Reply::Refused { id }, |plain| Reply::Opened { id, plain: plain.to_vec() }));
            }
            Request::Sign { id, key, scheme, message } => (id, key, SignatureScheme::from(scheme), message),
        };
        let key = self.keys.get(usize::from(key)).and_then(Option::as_ref).ok_or(Malformed)?;
        if !may_sign(scheme, &message) {
            return Err(Malformed);
        }
        let signer = key.choose_scheme(&[scheme]).ok_or(Malformed)?;
        let second = clock::monotonic_ms() / 1_000;
        if second != self.second {
            (self.second, self.left) = (second, SIGNATURES_PER_SECOND);
        }
        self.left = match self.left.checked_sub(1) {
            Some(left) => left,
            None => return Ok(Reply::Refused { id }),
        };
        Ok(signer.sign(&message).map_or(Reply::Refused { id }, |signature| Reply::Signed { id, signature }))
    }
}

/// Locks its memory before it has read a key. Has the source of randomness look at the machine while it may: whether it is one that is copied
/// while it runs, it asks the file system.
fn prepare(_: Identity, slice: &mut KeysSlice) -> Result<(), String> {
    // Where the limit does not let it, the parent has said so.
    if memory::may_lock(slice.memory()) {
        memory::lock().map_err(|fault| format!("mlock: {fault}"))?;
    }
    default_provider().secure_random.fill(&mut [0]).map_err(|_| "no randomness".to_owned())
}

/// Whether a message is what a server signs in a handshake, by a scheme that is used there: those with PKCS #1 padding are gone from
/// TLS 1.3 (RFC 8446, 4.2.3), and what is signed there may not be signed so.
fn may_sign(scheme: SignatureScheme, message: &[u8]) -> bool {
    let is_old =
        matches!(scheme, SignatureScheme::RSA_PKCS1_SHA256 | SignatureScheme::RSA_PKCS1_SHA384 | SignatureScheme::RSA_PKCS1_SHA512);
    (shape::is_certificate_verify(message) && !is_old) || shape::is_server_key_exchange(message)
}

/// Private keys by their numbers, and those of tickets.
type All = (Vec<Option<Arc<dyn SigningKey>>>, Option<tickets::Keys>);

/// Reads every key from the descriptors that the parent placed, which are closed, and makes sure that it is that of its certificate.
fn read(slice: &KeysSlice) -> Result<All, String> {
    let mut number = birth::FIRST_FILE;
    let mut keys = Vec::new();
    for key in &slice.keys {
        keys.push(match key {
            Some(key) => {
                let why = |why: String| format!("\"{}\": {why}", key.path);
                let file = socket::inherited(number).map_err(|fault| why(fault.to_string()))?;
                number += 1;
                Some(tls::read_all(&file).and_then(|pem| private::read(&pem, &key.public)).map_err(why)?)
            }
            None => None,
        });
    }
    let tickets = slice.tickets.as_ref().map(|source| match source {
        TicketSource::Made { .. } => tickets::Keys::new(source, None, tls::this_hour()),
        TicketSource::File(path) => {
            let why = |why: String| format!("\"{path}\": {why}");
            let file = socket::inherited(number).map_err(|fault| why(fault.to_string()))?;
            tls::read_all(&file).and_then(|content| tickets::Keys::new(source, Some(&content), tls::this_hour())).map_err(why)
        }
    });
    Ok((keys, tickets.transpose()?))
}

/// Token of the parent's channel.
const PARENT: u64 = 0;

/// Requests of one worker before the parent is heard.
const TURN: u8 = 16;

/// More than one worker on one processor can need.
const SIGNATURES_PER_SECOND: u32 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_for_one_version_is_not_signed_by_what_it_has_given_up() {
        let verify = [&[b' '; 64][..], b"TLS 1.3, server CertificateVerify\0", &[1; 32]].concat();
        let exchange = [&[7; 64][..], &[3, 0, 0x1d, 32], &[9; 32]].concat();
        let (pss, old) = (SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256);
        assert!(may_sign(pss, &verify) && may_sign(pss, &exchange) && may_sign(old, &exchange));
        assert!(!may_sign(old, &verify) && !may_sign(pss, b"a certificate"));
    }
}
