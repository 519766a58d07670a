//! The environment of a CGI program: what no worker may say is refused, and what is taken has one encoding and names one program.

#![no_main]

use anchorite::proto::environment::{self, LENGTH_MAX, Refusal};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&number, data)) = data.split_first() else { return };
    assert!(Refusal::of(number).is_none_or(|refusal| refusal as u8 == number));
    if let Some((prefix, _)) = data.split_first_chunk::<4>() {
        assert!(environment::length(*prefix).is_none_or(|length| length <= LENGTH_MAX));
    }
    let Some(variables) = environment::decode(data) else { return };
    for (at, (name, value)) in variables.iter().enumerate() {
        assert!(!value.contains(&0) && !name.is_empty());
        assert!(name.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_'), "{}", name.escape_ascii());
        assert!(!variables[..at].iter().any(|(known, _)| known == name), "{} twice", name.escape_ascii());
        // What loaders, shells and libraries obey.
        let obeyed = [&b"LD_"[..], b"PATH=", b"BASH", b"PERL", b"PYTHON", b"GLIBC", b"MALLOC", b"HTTP_PROXY="];
        let whole = [name, &b"="[..]].concat();
        assert!(!obeyed.iter().any(|begin| whole.starts_with(begin)), "{}", name.escape_ascii());
    }
    let mut again = Vec::new();
    environment::encode(&mut again, variables.iter().copied()).expect("it was one");
    assert_eq!(&again[4..], data);
    agrees(&variables);
});

/// Whatever agrees names this program, and paths beneath this root.
fn agrees(variables: &[(&[u8], &[u8])]) {
    if !environment::agrees(variables, b"/srv/a/x.cgi", &[b"/srv/a"]) {
        return;
    }
    for (name, value) in variables {
        match *name {
            b"SCRIPT_FILENAME" => assert_eq!(*value, b"/srv/a/x.cgi"),
            b"DOCUMENT_ROOT" | b"PATH_TRANSLATED" => {
                assert!(*value == b"/srv/a" || value.starts_with(b"/srv/a/"), "{}", value.escape_ascii());
                assert!(!value.split(|&byte| byte == b'/').any(|segment| segment == b".."), "{}", value.escape_ascii());
            }
            _ => {}
        }
    }
}
