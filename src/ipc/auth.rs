//! What workers ask of `auth`, and its answers, with their exact encoding. Integers are little-endian.

use super::messages::Message;
use std::net::{IpAddr, Ipv6Addr};
use zeroize::Zeroizing;

/// From `worker` to `auth`: whether this is the password of that user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back with the answer.
    pub id: u32,
    /// When nobody waits for the answer any more, in monotonic milliseconds.
    pub deadline: u64,
    /// Number of the `[auth.NAME]`, as the configuration counts them.
    pub realm: u16,
    /// Who asks; an IPv4 address stands in its mapped form.
    pub client: Ipv6Addr,
    pub user: Vec<u8>,
    pub password: Zeroizing<Vec<u8>>,
}

/// From `auth` to `worker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub id: u32,
    pub verdict: Verdict,
}

/// What `auth` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Yes,
    /// It is not, or there is no such user.
    No,
    /// It was not looked at: there were too many wrong ones. So many seconds are to be waited for.
    Wait(u16),
}

/// Bytes of a user's name and of a password.
pub const USER_MAX: usize = crate::config::htpasswd::USER_MAX;
pub const PASSWORD_MAX: usize = crate::config::passwords::PASSWORD_MAX;

impl Request {
    /// An address as it stands in a request.
    pub fn client_of(address: IpAddr) -> Ipv6Addr {
        match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        }
    }
}

impl Message for Request {
    const LENGTH_MAX: usize = 4 + 8 + 2 + 16 + 1 + USER_MAX + PASSWORD_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        packet.extend(self.id.to_le_bytes());
        packet.extend(self.deadline.to_le_bytes());
        packet.extend(self.realm.to_le_bytes());
        packet.extend(self.client.octets());
        packet.push(u8::try_from(self.user.len()).unwrap_or(u8::MAX));
        packet.extend_from_slice(&self.user);
        packet.extend_from_slice(&self.password);
    }

    fn decode(packet: &[u8]) -> Option<Request> {
        let (id, rest) = packet.split_first_chunk()?;
        let (deadline, rest) = rest.split_first_chunk()?;
        let (realm, rest) = rest.split_first_chunk()?;
        let (client, rest) = rest.split_first_chunk::<16>()?;
        let (length, rest) = rest.split_first()?;
        let (user, password) = rest.split_at_checked(usize::from(*length))?;
        if user.is_empty() || password.len() > PASSWORD_MAX {
            return None;
        }
        Some(Request {
            id: u32::from_le_bytes(*id),
            deadline: u64::from_le_bytes(*deadline),
            realm: u16::from_le_bytes(*realm),
            client: Ipv6Addr::from(*client),
            user: user.to_vec(),
            password: Zeroizing::new(password.to_vec()),
        })
    }

    fn descriptors(&self) -> usize {
        0
    }
}

impl Message for Reply {
    const LENGTH_MAX: usize = 4 + 1 + 2;

    fn encode(&self, packet: &mut Vec<u8>) {
        packet.extend(self.id.to_le_bytes());
        match self.verdict {
            Verdict::Yes => packet.push(1),
            Verdict::No => packet.push(2),
            Verdict::Wait(seconds) => {
                packet.push(3);
                packet.extend(seconds.to_le_bytes());
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<Reply> {
        let (id, verdict) = packet.split_first_chunk()?;
        let verdict = match *verdict {
            [1] => Verdict::Yes,
            [2] => Verdict::No,
            [3, a, b] => Verdict::Wait(u16::from_le_bytes([a, b])),
            _ => return None,
        };
        Some(Reply { id: u32::from_le_bytes(*id), verdict })
    }

    fn descriptors(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages;
    use super::*;

    #[test]
    fn messages_survive_their_bytes() {
        let long = Request {
            id: 0x0102_0304,
            deadline: u64::MAX,
            realm: 7,
            client: Request::client_of([192, 0, 2, 1].into()),
            user: vec![b'u'; USER_MAX],
            password: Zeroizing::new(vec![b'p'; PASSWORD_MAX]),
        };
        for request in [long.clone(), Request { user: vec![b'u'], password: Zeroizing::default(), ..long }] {
            let mut packet = Vec::new();
            request.encode(&mut packet);
            assert!(packet.len() <= Request::LENGTH_MAX);
            assert_eq!(Request::decode(&packet), Some(request));
        }
        for verdict in [Verdict::Yes, Verdict::No, Verdict::Wait(300)] {
            messages::survives(&Reply { id: 9, verdict });
        }
    }

    #[test]
    fn what_no_worker_sends_is_malformed() {
        let mut packet = Vec::new();
        let client = Ipv6Addr::LOCALHOST;
        Request { id: 1, deadline: 2, realm: 3, client, user: b"user".to_vec(), password: Zeroizing::new(b"secret".to_vec()) }
            .encode(&mut packet);
        for length in 0..packet.len() - b"secret".len() {
            assert_eq!(Request::decode(&packet[..length]), None, "{length} bytes");
        }
        packet[30] = 0;
        assert_eq!(Request::decode(&packet), None, "no user");
        packet[30] = 11;
        assert_eq!(Request::decode(&packet), None, "a user beyond the end");
        packet[30] = 4;
        packet.resize(packet.len() + PASSWORD_MAX, b'x');
        assert_eq!(Request::decode(&packet), None, "too long a password");
        for reply in [&[][..], &[1, 0, 0, 0], &[1, 0, 0, 0, 4], &[1, 0, 0, 0, 1, 0], &[1, 0, 0, 0, 3, 0]] {
            assert_eq!(Reply::decode(reply), None, "{reply:?}");
        }
    }
}
