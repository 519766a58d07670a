//! Password files: what is read is what `anchorite password` would write, and each line gives a user or a fault or nothing.
#![no_main]

use anchorite::config::htpasswd::{check_user, parse, scheme, user_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (entries, faults) = parse(data);
    let lines = data.split(|&byte| byte == b'\n').count();
    assert!(entries.len() + faults.len() <= lines);
    for fault in &faults {
        assert!((1..=lines).contains(&fault.line));
    }
    for (number, entry) in entries.iter().enumerate() {
        check_user(&entry.user).expect("a user that may be");
        assert_eq!(scheme(&entry.hash), Ok(entry.scheme));
        assert!(entries[..number].iter().all(|other| other.user != entry.user));
        let line = [entry.user.as_slice(), b":", entry.hash.as_bytes()].concat();
        assert_eq!(user_of(&line), Some(entry.user.as_slice()));
        assert_eq!(parse(&line).0, [entry.clone()]);
    }
});
