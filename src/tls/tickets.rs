//! Keys of the tickets by which clients of TLS go on with what they agreed on before (RFC 8446, 4.6.1; RFC 5077): one for each hour, good for
//! sealing in that hour and for opening in the next as well. Does no I/O but for randomness.
//!
//! The parent makes a secret, and `keys` alone makes keys of it. The secret of an hour follows from that of the hour before and not the other
//! way round, so that every `keys` of a service has the same keys, whenever it was started, and none has those of hours that are over. Where
//! several machines share a file, the keys follow from it and the hour, which all of them know.

use crate::config::{Secret, TicketSource};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

/// Seconds that a ticket is good for at least.
pub const LIFETIME: u32 = 3_600;

/// Bytes that a file of several machines has at least: less is none that was made at random.
const FILE_MIN: usize = 32;

/// The hour of a moment in seconds since 1970, in hours since then.
pub fn hour(unix: u64) -> u64 {
    unix / u64::from(LIFETIME)
}

/// A new secret, from which the keys of this hour and of the one before follow.
///
/// # Errors
/// There is no randomness.
pub fn make(hour: u64) -> Result<TicketSource, String> {
    let mut secret = Secret([0; 32]);
    rand::fill(&mut secret.0).map_err(|_| "no randomness".to_owned())?;
    Ok(TicketSource::Made { hour: hour.saturating_sub(1), secret })
}

/// Forgets what only keys of hours follow from that are over: what a process that is started in this hour is to know stays.
pub fn forget(source: &mut TicketSource, now: u64) {
    if let TicketSource::Made { hour, secret } = source {
        while *hour < now.saturating_sub(1) {
            (*hour, *secret) = (*hour + 1, next(secret));
        }
    }
}

/// Makes sure that a file of several machines can be used.
///
/// # Errors
/// It cannot, and why.
pub fn check_file(content: &[u8]) -> Result<(), String> {
    if content.len() >= FILE_MIN { Ok(()) } else { Err(format!("it holds {} bytes, not {FILE_MIN} or more random ones", content.len())) }
}

/// The keys, in `keys`.
pub struct Keys {
    source: Source,
    hour: u64,
    current: Key,
    previous: Option<Key>,
}

enum Source {
    /// The secret of this hour.
    Made(Secret),
    /// The content of a file, extracted.
    Shared(Prk),
}

struct Key {
    /// The first bytes of its tickets.
    name: [u8; NAME],
    key: LessSafeKey,
}

impl Keys {
    /// Of a secret that the parent made, or the content of a file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn new(source: &TicketSource, file: Option<&[u8]>, now: u64) -> Result<Keys, String> {
        match (source, file) {
            (TicketSource::Made { hour, secret }, _) => {
                let mut secret = secret.clone();
                let mut hour = *hour;
                while hour < now.saturating_sub(1) {
                    (hour, secret) = (hour + 1, next(&secret));
                }
                let first = Key::new(&Prk::new_less_safe(HKDF_SHA256, &secret.0), hour)?;
                let mut keys = Keys { source: Source::Made(secret), hour, current: first, previous: None };
                keys.turn(now)?;
                Ok(keys)
            }
            (TicketSource::File(_), Some(content)) => {
                check_file(content)?;
                let shared = Salt::new(HKDF_SHA256, b"anchorite ticket keys").extract(content);
                let (current, previous) = (Key::new(&shared, now)?, Key::new(&shared, now.saturating_sub(1))?);
                Ok(Keys { source: Source::Shared(shared), hour: now, current, previous: Some(previous) })
            }
            (TicketSource::File(_), None) => Err("it was not handed over".to_owned()),
        }
    }

    /// Goes on to the keys of this hour. A clock that was put back changes nothing.
    fn turn(&mut self, now: u64) -> Result<(), String> {
        while self.hour < now {
            self.hour += 1;
            let key = match &mut self.source {
                Source::Made(secret) => {
                    *secret = next(secret);
                    Key::new(&Prk::new_less_safe(HKDF_SHA256, &secret.0), self.hour)?
                }
                Source::Shared(shared) => Key::new(shared, self.hour)?,
            };
            self.previous = Some(std::mem::replace(&mut self.current, key));
        }
        Ok(())
    }

    /// The ticket of what was agreed on; `None`: there is no randomness.
    pub fn seal(&mut self, plain: &[u8], now: u64) -> Option<Vec<u8>> {
        self.turn(now).ok()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = [&self.current.name[..], &nonce].concat();
        let mut sealed = Zeroizing::new(plain.to_vec());
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.current.key.seal_in_place_append_tag(nonce, Aad::from(self.current.name), &mut *sealed).ok()?;
        ticket.extend_from_slice(&sealed);
        Some(ticket)
    }

    /// What was agreed on with whoever has this ticket; `None`: it is none, or one of hours that are over.
    pub fn open(&mut self, ticket: &[u8], now: u64) -> Option<Zeroizing<Vec<u8>>> {
        self.turn(now).ok()?;
        let (name, rest) = ticket.split_first_chunk::<NAME>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = [Some(&self.current), self.previous.as_ref()].into_iter().flatten().find(|key| key.name == *name)?;
        let mut plain = Zeroizing::new(sealed.to_vec());
        let length = key.key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(*name), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

impl Key {
    fn new(secret: &Prk, hour: u64) -> Result<Key, String> {
        let hour = hour.to_be_bytes();
        let (mut name, mut key) = ([0; NAME], Zeroizing::new([0; 32]));
        expand(secret, &[b"anchorite ticket name", &hour], &mut name)?;
        expand(secret, &[b"anchorite ticket key", &hour], &mut *key)?;
        let key = UnboundKey::new(&AES_256_GCM, &*key).map_err(|_| "a key of tickets cannot be made".to_owned())?;
        Ok(Key { name, key: LessSafeKey::new(key) })
    }
}

/// The secret of the hour after.
fn next(secret: &Secret) -> Secret {
    let mut next = Secret([0; 32]);
    // The only fault is a length that is too large.
    let _ = expand(&Prk::new_less_safe(HKDF_SHA256, &secret.0), &[b"anchorite ticket secret"], &mut next.0);
    next
}

/// RFC 5869, 2.3.
fn expand(secret: &Prk, info: &[&[u8]], out: &mut [u8]) -> Result<(), String> {
    let fault = |_| "keys of tickets cannot be derived".to_owned();
    secret.expand(info, Length(out.len())).and_then(|material| material.fill(out)).map_err(fault)
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Bytes of a key's name.
const NAME: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(source: &TicketSource, now: u64) -> Keys {
        Keys::new(source, None, now).unwrap()
    }

    #[test]
    fn every_process_of_a_service_opens_what_another_sealed() {
        let source = make(1_000).unwrap();
        let ticket = keys(&source, 1_000).seal(b"agreed", 1_000).unwrap();
        for started in [1_000, 1_001] {
            let mut of_parent = source.clone();
            forget(&mut of_parent, started);
            assert_eq!(keys(&of_parent, started).open(&ticket, started).unwrap().as_slice(), b"agreed", "{started}");
        }
        assert!(keys(&make(1_000).unwrap(), 1_000).open(&ticket, 1_000).is_none());
    }

    #[test]
    fn t04_a_ticket_is_good_for_its_hour_and_the_next_and_no_bit_of_it_may_differ() {
        let source = make(7).unwrap();
        let mut of_one = keys(&source, 7);
        let ticket = of_one.seal(b"agreed", 7).unwrap();
        assert!(of_one.open(&ticket, 7).is_some() && of_one.open(&ticket, 8).is_some());
        assert!(of_one.open(&ticket, 9).is_none());
        // The clock goes back, the keys do not come back.
        assert!(of_one.open(&ticket, 7).is_none());
        let mut of_one = keys(&source, 7);
        for at in 0..ticket.len() * 8 {
            let mut other = ticket.clone();
            other[at / 8] ^= 1 << (at % 8);
            assert!(of_one.open(&other, 7).is_none(), "{at}");
        }
        for length in 0..ticket.len() {
            assert!(of_one.open(&ticket[..length], 7).is_none(), "{length}");
        }
        assert!(of_one.open(&[ticket.as_slice(), b"x"].concat(), 7).is_none());
        assert!(of_one.open(&[0; 16_384], 7).is_none());
        assert_ne!(of_one.seal(b"agreed", 7), of_one.seal(b"agreed", 7));
    }

    #[test]
    fn the_parent_forgets_what_is_over() {
        let mut source = make(100).unwrap();
        let (before, ticket) = (source.clone(), keys(&source, 100).seal(b"x", 100).unwrap());
        forget(&mut source, 102);
        assert_ne!(source, before);
        assert!(keys(&source, 102).open(&ticket, 102).is_none() && keys(&source, 101).open(&ticket, 101).is_none());
        let (mut early, mut late) = (keys(&before, 103), keys(&source, 103));
        let ticket = early.seal(b"same", 103).unwrap();
        assert!(late.open(&ticket, 103).is_some());
    }

    #[test]
    fn machines_that_share_a_file_open_each_others_and_no_other_does() {
        let source = TicketSource::File("/etc/tickets".into());
        let keys = |file: &[u8], now| Keys::new(&source, Some(file), now).unwrap();
        let ticket = keys(&[7; 48], 50).seal(b"agreed", 50).unwrap();
        assert_eq!(keys(&[7; 48], 51).open(&ticket, 51).unwrap().as_slice(), b"agreed");
        // A clock that is behind, by less than an hour.
        assert!(keys(&[7; 48], 49).open(&ticket, 49).is_none() && keys(&[7; 48], 52).open(&ticket, 52).is_none());
        assert!(keys(&[8; 48], 50).open(&ticket, 50).is_none());
        assert!(Keys::new(&source, Some(&[7; 31]), 50).is_err() && Keys::new(&source, None, 50).is_err());
    }
}
