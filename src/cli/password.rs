//! `anchorite password`: adds a user to a password file, or gives one another password.

use crate::config::htpasswd;
use crate::sys::replace::Replace;
use crate::sys::terminal;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Asks for the password on the terminal, or takes the first line of standard input; the exit status.
pub(super) fn main(file: &Path, user: &OsStr) -> u8 {
    match set(file, user.as_bytes()) {
        Ok(done) => {
            say!("{done}");
            0
        }
        Err(why) => {
            complain!("anchorite: {why}");
            1
        }
    }
}

fn set(file: &Path, user: &[u8]) -> Result<String, String> {
    let shown = String::from_utf8_lossy(user).escape_debug().to_string();
    htpasswd::check_user(user).map_err(|why| format!("\"{shown}\": {why}"))?;
    let named = |fault: io::Error| format!("password file \"{}\": {fault}", file.display());
    // What cannot be written to is found out before a person has typed anything, and not held while they do.
    drop(Replace::begin(file).map_err(named)?);
    let password = ask(&shown)?;
    check(&password)?;
    let parts = bcrypt::hash_with_result(&password, COST).map_err(|fault| format!("bcrypt: {fault}"))?;
    let hash = parts.format_for_version(bcrypt::Version::TwoY);
    let replace = Replace::begin(file).map_err(named)?;
    let before = replace.content(FILE_MAX).map_err(named)?.unwrap_or_default();
    let (after, known) = with_line(&before, user, hash.as_bytes());
    let (_, faults) = htpasswd::parse(&after);
    replace.with(&after).map_err(named)?;
    for fault in faults {
        complain!("{}:{}: {}", file.display(), fault.line, fault.what);
    }
    Ok(format!("user \"{shown}\": {} in \"{}\"", if known { "password changed" } else { "added" }, file.display()))
}

fn ask(shown: &str) -> Result<Vec<u8>, String> {
    if terminal::is_terminal() {
        let typed = |question: &str| terminal::ask_hidden(question).map_err(|fault| format!("nothing is changed: {fault}"));
        let password = typed(&format!("new password of \"{shown}\": "))?;
        if typed("the same again: ")? != password {
            return Err("nothing is changed: the two are not the same".to_owned());
        }
        return Ok(password);
    }
    let mut input = Vec::new();
    let limit = u64::try_from(PASSWORD_MAX).unwrap_or(u64::MAX) + 3;
    io::stdin().take(limit).read_to_end(&mut input).map_err(|fault| format!("standard input: {fault}"))?;
    let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
}

fn check(password: &[u8]) -> Result<(), String> {
    match password {
        [] => Err("the password is empty".to_owned()),
        _ if password.len() > PASSWORD_MAX => {
            Err(format!("a password has at most {PASSWORD_MAX} bytes: bcrypt would not see what follows"))
        }
        _ if password.iter().any(u8::is_ascii_control) => {
            Err("a password holds no control characters: no browser could send it".to_owned())
        }
        _ => Ok(()),
    }
}

/// The file with this hash for a user, all else as it was; and whether the user was there.
fn with_line(before: &[u8], user: &[u8], hash: &[u8]) -> (Vec<u8>, bool) {
    let line = [user, b":", hash, b"\n"].concat();
    let (mut after, mut known) = (Vec::with_capacity(before.len() + line.len()), false);
    for old in before.split_inclusive(|&byte| byte == b'\n') {
        if htpasswd::user_of(old) != Some(user) {
            after.extend_from_slice(old);
        } else if !std::mem::replace(&mut known, true) {
            after.extend_from_slice(&line);
        }
    }
    if !known {
        if after.last().is_some_and(|byte| *byte != b'\n') {
            after.push(b'\n');
        }
        after.extend_from_slice(&line);
    }
    (after, known)
}

/// Doubles the work with each one more; a check takes some 50 ms.
const COST: u32 = 10;

/// What bcrypt looks at.
const PASSWORD_MAX: usize = 72;

/// Bytes of a file.
const FILE_MAX: u64 = htpasswd::FILE_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_user_is_replaced_and_all_else_stays() {
        let set = |before: &str| {
            let (after, known) = with_line(before.as_bytes(), b"bob", b"NEW");
            (String::from_utf8(after).unwrap(), known)
        };
        assert_eq!(set(""), ("bob:NEW\n".to_owned(), false));
        assert_eq!(set("#bob:x\nbobby:x"), ("#bob:x\nbobby:x\nbob:NEW\n".to_owned(), false));
        assert_eq!(set("a:x\r\nbob:old\n\nb:y\nbob:older\n"), ("a:x\r\nbob:NEW\n\nb:y\n".to_owned(), true));
    }

    #[test]
    fn a_password_that_bcrypt_would_cut_is_refused() {
        assert!(check(&[b'x'; PASSWORD_MAX]).is_ok());
        for password in [[b'x'; PASSWORD_MAX + 1].as_slice(), b"", b"a\0b", b"a\tb"] {
            assert!(check(password).is_err(), "{password:?}");
        }
    }
}
