//! Who is in a password file, and whether a password is somebody's. Used by `auth`; does no I/O.

use super::apr1;
use super::htpasswd::{self, Fault, Scheme};
use sha_crypt::{PasswordVerifier, ShaCrypt};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Users and the hashes of their passwords.
#[derive(Debug, Default)]
pub struct Users {
    users: BTreeMap<Vec<u8>, Kept>,
    /// Chooses whose hash stands for that of somebody who is not there: the same one's for a name as long as the process lives.
    decoys: RandomState,
}

#[derive(Debug)]
struct Kept {
    hash: String,
    scheme: Scheme,
}

impl Users {
    /// The users of a file, and what is wrong with its other lines: nobody gets in by those.
    pub fn parse(text: &[u8]) -> (Users, Vec<Fault>) {
        let (entries, faults) = htpasswd::parse(text);
        let users = entries.into_iter().map(|entry| (entry.user, Kept { hash: entry.hash, scheme: entry.scheme })).collect();
        (Users { users, decoys: RandomState::new() }, faults)
    }

    /// Whether this is the password of that user. It takes as long for a name that is not there: its password is compared with the hash of
    /// somebody else, and is wrong whatever comes of that.
    pub fn check(&self, name: &[u8], password: &[u8]) -> bool {
        let known = self.users.get(name);
        let Some(kept) = known.or_else(|| self.decoy(name)) else { return false };
        kept.is_of(password) && known.is_some()
    }

    fn decoy(&self, name: &[u8]) -> Option<&Kept> {
        let count = u64::try_from(self.users.len()).ok().filter(|count| *count > 0)?;
        self.users.values().nth(usize::try_from(self.decoys.hash_one(name) % count).ok()?)
    }
}

impl Kept {
    fn is_of(&self, password: &[u8]) -> bool {
        // bcrypt would end at a NUL, and whoever knows what stands before it would get in.
        if password.contains(&0) || password.len() > PASSWORD_MAX {
            return false;
        }
        match self.scheme {
            Scheme::Bcrypt => bcrypt::verify(password, &self.hash).unwrap_or(false),
            Scheme::Sha256 | Scheme::Sha512 => ShaCrypt::SHA512.verify_password(password, self.hash.as_str()).is_ok(),
            Scheme::Apr1 => apr1::Hash::parse(&self.hash).is_some_and(|hash| hash.is_of(password)),
        }
    }
}

/// Bytes of a password: the work of SHA-crypt grows with them.
pub const PASSWORD_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    // Each was made by another program: htpasswd -nbB -C 5, openssl passwd -5, -6, -apr1.
    const BCRYPT: &str = "$2y$05$EFcLPdyc3hze4sON.lTwP.l6UveDk60l7dT5YULWIaI4qJnYlroDy";
    const SHA256: &str = "$5$saltsalt$myjXcpMpE2Ofk7fj9hqyNYSn6lmWG4Mqnjx.KIRRr4/";
    const SHA512: &str = "$6$saltsalt$hRM5XZ86KXEw9UOmjigeVqFgULtFB2sgpC9lXQDfMib3Zgw7mEiUvBJI2EplzfAqxL5Vvwp2scFtv/uamSo5z0";
    const APR1: &str = "$apr1$saltsalt$EGVZDNN6gOqijy.tv9axG/";

    #[test]
    fn passwords_of_every_kind_are_told_from_others() {
        let (users, faults) = Users::parse(format!("alice:{BCRYPT}\nbob:{SHA256}\ncarol:{SHA512}\ndave:{APR1}\n").as_bytes());
        assert_eq!(faults, []);
        for name in ["alice", "bob", "carol", "dave"] {
            assert!(users.check(name.as_bytes(), b"correct horse"), "{name}");
            for wrong in ["", "correct", "correct horse ", "Correct horse", "correct horse\0", &"x".repeat(600)] {
                assert!(!users.check(name.as_bytes(), wrong.as_bytes()), "{name} {wrong:?}");
            }
        }
        // Whoever is compared with somebody else does not get in with that one's password.
        for number in 0..20 {
            assert!(!users.check(format!("nobody{number}").as_bytes(), b"correct horse"));
        }
        assert!(!Users::default().check(b"alice", b""));
    }

    #[test]
    fn the_rounds_are_those_of_the_hash() {
        // crypt(3) of the C library made it.
        let hash = "$5$rounds=1400$anotherlongsalt$MfMmx75s1RRYBW4vGZOqQtiJpBiiLOC3zpvEcfmhKc2";
        let (users, faults) = Users::parse(format!("a:{hash}\n").as_bytes());
        assert!(faults.is_empty() && users.check(b"a", b"correct horse") && !users.check(b"a", b"x"));
    }
}
