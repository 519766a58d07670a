//! The hash `apr1` of Apache's htpasswd: MD5, a thousand times over.
//!
//! No crate that is kept has it. It is taken since files of old are full of it; new hashes are bcrypt's.

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

/// A hash with its salt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hash {
    salt: Box<[u8]>,
    /// In its own base 64.
    digest: [u8; DIGITS],
}

impl Hash {
    /// `$apr1$SALT$DIGEST`: at most 8 bytes of salt, 22 digits.
    pub(super) fn parse(text: &str) -> Option<Hash> {
        let (salt, digest) = text.strip_prefix("$apr1$")?.split_once('$')?;
        let is_of_digits = |part: &str| part.bytes().all(|byte| ALPHABET.contains(&byte));
        let is_whole = (1..=8).contains(&salt.len()) && is_of_digits(salt) && is_of_digits(digest);
        let digest = digest.as_bytes().try_into().ok().filter(|_| is_whole)?;
        Some(Hash { salt: salt.as_bytes().into(), digest })
    }

    pub(super) fn is_of(&self, password: &[u8]) -> bool {
        encoded(&digest(password, &self.salt)).ct_eq(&self.digest).into()
    }
}

fn digest(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let mut twice = Md5::new();
    twice.update(password);
    twice.update(salt);
    twice.update(password);
    let twice: [u8; 16] = twice.finalize().into();
    let mut first = Md5::new();
    first.update(password);
    first.update(b"$apr1$");
    first.update(salt);
    for part in password.chunks(16) {
        first.update(twice.get(..part.len()).unwrap_or_default());
    }
    let mut bits = password.len();
    while bits > 0 {
        first.update(if bits & 1 == 1 { &[0] } else { password.get(..1).unwrap_or_default() });
        bits >>= 1;
    }
    let mut result: [u8; 16] = first.finalize().into();
    for round in 0..1000 {
        let mut next = Md5::new();
        next.update(if round % 2 == 1 { password } else { &result });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if round % 2 == 1 { &result } else { password });
        result = next.finalize().into();
    }
    result
}

/// In the order and the digits of md5-crypt: five groups of three bytes, and one that is left, low bits first.
fn encoded(digest: &[u8; 16]) -> [u8; DIGITS] {
    let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15] = digest.map(u32::from);
    let groups = [(b0, b6, b12), (b1, b7, b13), (b2, b8, b14), (b3, b9, b15), (b4, b10, b5), (0, 0, b11)];
    let mut digits = [0; DIGITS];
    for (index, digit) in digits.iter_mut().enumerate() {
        let (high, middle, low) = groups.get(index / 4).copied().unwrap_or_default();
        let value = (high << 16 | middle << 8 | low) >> (6 * (index % 4)) & 63;
        *digit = usize::try_from(value).ok().and_then(|value| ALPHABET.get(value)).copied().unwrap_or_default();
    }
    digits
}

/// Digits of a hash.
const DIGITS: usize = 22;

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_openssl_are_the_same() {
        // openssl passwd -apr1 -salt SALT PASSWORD
        for (text, password) in [
            ("$apr1$a$CwOs8ZUV1Vmp.iAwImfTn1", "x"),
            ("$apr1$saltsalt$EGVZDNN6gOqijy.tv9axG/", "correct horse"),
            ("$apr1$./zZ09$BhezcaIWwPSk6ibAUgrne0", "ppppppppppppppp"),
            ("$apr1$12345678$Jo.nUw3490TpptiAqlvOf0", "pppppppppppppppp"),
            ("$apr1$12$zVZ6zY.ZA4AsmUOgxfWh.1", "ppppppppppppppppp"),
            ("$apr1$abc$Di3J4OzdBWzo8qehw9yHx.", "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"),
        ] {
            let hash = Hash::parse(text).unwrap();
            assert!(hash.is_of(password.as_bytes()), "{password:?}");
            assert!(!hash.is_of(format!("{password}x").as_bytes()));
        }
    }

    #[test]
    fn what_is_not_whole_is_none() {
        let digest = "a".repeat(22);
        assert!(Hash::parse(&format!("$apr1$s${digest}")).is_some());
        for text in [
            "",
            "$apr1$",
            "$apr1$s",
            "$apr1$s$",
            &format!("$apr1$${digest}"),
            &format!("$apr1$123456789${digest}"),
            &format!("$apr1$s${digest}a"),
            &format!("$apr1$s${}*", &digest[1..]),
            &format!("$1$s${digest}"),
        ] {
            assert!(Hash::parse(text).is_none(), "{text}");
        }
    }
}
