//! What this worker asks `auth` for: who waits, until when, and what comes back.
//!
//! Runs in the worker. A password is held no longer than its request is on its way to `auth`.

use crate::ipc::auth::{Reply, Request, Verdict};
use crate::ipc::messages::Message;
use crate::ipc::{Channel, Received};
use crate::proto::basic::Credentials;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// The requests of a worker that wait for `auth`.
pub(super) struct Logins {
    channel: Option<Channel>,
    asked: HashMap<u32, Asked>,
    /// Those that the channel did not take yet.
    unsent: VecDeque<Request>,
    last: u32,
    /// Room for one answer.
    buffer: [u8; Reply::LENGTH_MAX + 1],
}

struct Asked {
    /// The connection, by its token.
    token: u64,
    client: Ipv6Addr,
    deadline: u64,
}

/// What came over the channel.
pub(super) enum Came {
    Nothing,
    /// For the connection of that token, under the number that it was asked with.
    Verdict {
        id: u32,
        token: u64,
        verdict: Verdict,
    },
    /// Nobody waits for it any more.
    Stale,
    Malformed,
}

/// As many wait as may, of this client or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Logins {
    pub(super) fn new(channel: Option<Channel>) -> Logins {
        Logins { channel, asked: HashMap::new(), unsent: VecDeque::new(), last: 0, buffer: [0; Reply::LENGTH_MAX + 1] }
    }

    /// To wait for answers on.
    pub(super) fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(AsFd::as_fd)
    }

    /// Asks for a connection, by its token; the number that the answer comes under, within [`LOGIN_MS`] or not at all.
    ///
    /// # Errors
    /// It is not asked.
    pub(super) fn ask(&mut self, token: u64, realm: u16, client: IpAddr, credentials: Credentials, now: u64) -> Result<u32, Full> {
        let client = Request::client_of(client);
        let of_client = |asked: &HashMap<u32, Asked>| asked.values().filter(|asked| asked.client == client).count();
        if self.asked.len() >= LIMIT || of_client(&self.asked) >= LIMIT_OF_CLIENT {
            self.asked.retain(|_, asked| now < asked.deadline);
        }
        if self.channel.is_none() || self.asked.len() >= LIMIT || of_client(&self.asked) >= LIMIT_OF_CLIENT {
            return Err(Full);
        }
        let (id, deadline) = (self.last.wrapping_add(1), now + LOGIN_MS);
        self.last = id;
        self.asked.insert(id, Asked { token, client, deadline });
        let Credentials { user, password } = credentials;
        self.unsent.push_back(Request { id, deadline, realm, client, user, password });
        self.send(now);
        Ok(id)
    }

    /// Sends what waits, as much as the channel takes; the rest follows when answers come.
    fn send(&mut self, now: u64) {
        let Some(channel) = &self.channel else { return };
        while let Some(request) = self.unsent.front() {
            if now < request.deadline
                && self.asked.contains_key(&request.id)
                && channel.send(request, &[]).is_err_and(|fault| fault.kind() == io::ErrorKind::WouldBlock)
            {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// Takes one answer.
    pub(super) fn receive(&mut self, now: u64) -> Came {
        let Some(channel) = &self.channel else { return Came::Nothing };
        match channel.receive_long::<Reply>(&mut self.buffer) {
            Received::Message(Reply { id, verdict }, _) => {
                self.send(now);
                self.asked.remove(&id).map_or(Came::Stale, |Asked { token, .. }| Came::Verdict { id, token, verdict })
            }
            Received::Nothing => Came::Nothing,
            Received::Malformed => Came::Malformed,
            Received::Ended => {
                self.channel = None;
                Came::Nothing
            }
        }
    }

    /// The deadline of a connection has passed without an answer.
    pub(super) fn give_up(&mut self, id: u32) {
        self.asked.remove(&id);
    }
}

/// How long a request waits for `auth`, in milliseconds.
pub(super) const LOGIN_MS: u64 = 10_000;

/// Requests of this worker that wait at a time, and those of one client: as many as one connection of HTTP/2 may have, and some more.
const LIMIT: usize = 1024;
const LIMIT_OF_CLIENT: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    const CLIENT: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    fn credentials() -> Credentials {
        Credentials { user: b"u".to_vec(), password: Zeroizing::new(b"p".to_vec()) }
    }

    #[test]
    fn an_answer_is_for_whoever_asked_and_comes_once() {
        let (worker, auth) = Channel::pair().unwrap();
        let mut logins = Logins::new(Some(worker));
        let id = logins.ask(7, 3, CLIENT, credentials(), 5).unwrap();
        let Received::Message(request, _) = auth.receive_long::<Request>(&mut [0; 2048]) else { panic!("no request") };
        assert_eq!((request.id, request.deadline, request.realm, request.client), (id, 5 + LOGIN_MS, 3, Ipv6Addr::LOCALHOST));
        for _ in 0..2 {
            auth.send(&Reply { id, verdict: Verdict::Yes }, &[]).unwrap();
        }
        assert!(matches!(logins.receive(6), Came::Verdict { id: of, token: 7, verdict: Verdict::Yes } if of == id));
        assert!(matches!(logins.receive(6), Came::Stale));
        assert!(matches!(logins.receive(6), Came::Nothing));
        auth.send_lines(&[0; 5]).unwrap();
        assert!(matches!(logins.receive(6), Came::Malformed));
    }

    #[test]
    fn one_client_does_not_take_the_room_of_all() {
        let (worker, _auth) = Channel::pair().unwrap();
        let mut logins = Logins::new(Some(worker));
        for _ in 0..LIMIT_OF_CLIENT {
            logins.ask(1, 0, CLIENT, credentials(), 0).unwrap();
        }
        assert_eq!(logins.ask(1, 0, CLIENT, credentials(), LOGIN_MS - 1), Err(Full));
        logins.ask(1, 0, [192, 0, 2, 1].into(), credentials(), 1).unwrap();
        logins.ask(1, 0, CLIENT, credentials(), LOGIN_MS).unwrap();
    }
}
