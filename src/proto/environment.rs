//! What a worker and the process that becomes a CGI program say to each other first: its environment (RFC 3875, section 4.1), or why it
//! does not run.
//!
//! Written in the `worker`; read in a child of `spawn` that has given up its rights, and that believes no worker: a variable that CGI does not
//! have could be one that the dynamic loader, a shell or an interpreter obeys. Does no I/O.

use super::fault::Unencodable;

/// The variables that a worker may set beside those of fields, in alphabetical order.
const NAMES: [&str; 24] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
];

/// Longest environment in bytes: twice the longest head, and what the server says beside it. One string has 128 KiB in the kernel (execve(2)).
pub const LENGTH_MAX: usize = 256 * 1024;

/// Appends the environment: its length as four bytes, little-endian, then each variable with a NUL behind it.
///
/// # Errors
/// When it is too long, or a value holds NUL.
pub fn encode<'p>(out: &mut Vec<u8>, variables: impl IntoIterator<Item = (&'p [u8], &'p [u8])>) -> Result<(), Unencodable> {
    let start = out.len();
    out.extend([0; 4]);
    for (name, value) in variables {
        if value.contains(&0) {
            return Err(Unencodable::Nul);
        }
        for part in [name, b"=", value, b"\0"] {
            out.extend_from_slice(part);
        }
    }
    let length = out.len() - start - 4;
    if let (Some(place), Ok(number)) = (out.get_mut(start..start + 4), u32::try_from(length)) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    if length <= LENGTH_MAX { Ok(()) } else { Err(Unencodable::TooLarge) }
}

/// The length that the first four bytes say; `None`: longer than an environment may be.
pub fn length(prefix: [u8; 4]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(prefix)).ok().filter(|length| *length <= LENGTH_MAX)
}

/// The variables of an environment, name and value. `None`: it holds what no worker may set.
pub fn decode(block: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut variables: Vec<(&[u8], &[u8])> = Vec::new();
    let mut rest = block;
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == 0)?;
        let equals = rest[..end].iter().position(|&byte| byte == b'=')?;
        let (name, value) = (&rest[..equals], &rest[equals + 1..end]);
        // What reads the first of two, and what the second, would not agree.
        if !is_variable(name) || variables.iter().any(|(known, _)| *known == name) {
            return None;
        }
        variables.push((name, value));
        rest = &rest[end + 1..];
    }
    Some(variables)
}

/// Whether a worker may set a variable: those of CGI, and those of a request's fields, but for `HTTP_PROXY`, which is taken for the address
/// of a proxy (CVE-2016-5385).
pub fn is_variable(name: &[u8]) -> bool {
    let fine = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    match name.strip_prefix(b"HTTP_") {
        Some(rest) => !rest.is_empty() && rest.iter().all(fine) && name != b"HTTP_PROXY",
        None => name == b"SERVER_SOFTWARE" || NAMES.iter().any(|known| known.as_bytes() == name),
    }
}

/// Whether variables say of the program what its process knows: an interpreter runs what SCRIPT_FILENAME, or a path beside it, names.
///
/// `file` is the program; `documents` are the directories of which one is DOCUMENT_ROOT, or holds it.
pub fn agrees(variables: &[(&[u8], &[u8])], file: &[u8], documents: &[&[u8]]) -> bool {
    let value = |name: &str| variables.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| *value);
    let is_document = |path: &[u8]| documents.iter().any(|document| is_beneath(document, path));
    let document = value("DOCUMENT_ROOT");
    let translated = |path: &[u8]| {
        let beneath = document.and_then(|document| path.strip_prefix(document));
        beneath.is_some_and(|beneath| Some(beneath) == value("PATH_INFO") && is_beneath(b"", beneath))
    };
    value("SCRIPT_FILENAME").is_none_or(|path| path == file)
        && document.is_none_or(is_document)
        && value("PATH_TRANSLATED").is_none_or(translated)
}

/// Whether a path is that of the directory, or leads to what lies beneath it.
fn is_beneath(directory: &[u8], path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(directory) else { return false };
    (rest.is_empty() || rest.starts_with(b"/")) && !rest.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b".."))
}

/// What a program's process sends before it has become the program, in place of a head, which never begins so: [`REFUSED`] and why.
pub const REFUSED: u8 = 0;

/// Why no program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its owner, its mode or its place is not as it must be: 403.
    Denied = 1,
    /// It cannot be executed: 500.
    Failed = 2,
    /// It is not there any more: 404.
    Gone = 3,
    /// It is another file than a moment ago: 503.
    Changed = 4,
    /// What the worker sent is no environment.
    Malformed = 5,
}

impl Refusal {
    /// The refusal of that number.
    pub fn of(number: u8) -> Option<Refusal> {
        [Refusal::Denied, Refusal::Failed, Refusal::Gone, Refusal::Changed, Refusal::Malformed]
            .into_iter()
            .find(|known| *known as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_survives_its_bytes_and_no_part_of_it_is_one() {
        let variables: [(&[u8], &[u8]); 3] =
            [(b"QUERY_STRING", b""), (b"HTTP_X_Y2", b"() { :; }; echo"), (b"SERVER_SOFTWARE", b"a=b\n\xff")];
        let mut out = b"x".to_vec();
        encode(&mut out, variables).unwrap();
        let (prefix, block) = (out[1..5].try_into().unwrap(), &out[5..]);
        assert_eq!(length(prefix), Some(block.len()));
        assert_eq!(decode(block), Some(variables.to_vec()));
        for end in 0..block.len() {
            let whole = block[..end].is_empty() || block[..end].ends_with(b"\0");
            assert_eq!(decode(&block[..end]).is_some(), whole, "{end}");
        }
    }

    #[test]
    fn c01_and_what_no_worker_may_set_is_no_environment() {
        for name in [
            "HTTP_PROXY",
            "LD_PRELOAD",
            "PATH",
            "HTTP_",
            "HTTP_a",
            "HTTP_A-B",
            "http_a",
            "IFS",
            "BASH_ENV",
            "PERL5LIB",
            "PYTHONPATH",
            "ENV",
            "GLIBC_TUNABLES",
            "MALLOC_CHECK_",
            "",
            "HTTP_A=B\u{0}LD_PRELOAD",
            "SCRIPT_NAME ",
            "BASH_FUNC_x%%",
        ] {
            assert_eq!(decode(format!("{name}=x\0").as_bytes()), None, "{name}");
        }
        assert_eq!(decode(b"QUERY_STRING\0"), None, "no value");
        assert_eq!(decode(b"HTTP_A=1\0HTTP_A=2\0"), None, "twice");
        assert_eq!(decode(b"HTTP_A=1\0\0"), None, "an empty one");
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn c11_another_program_than_the_one_that_runs_is_a_contradiction() {
        let file: &[u8] = b"/srv/a/x.cgi";
        let says = |variables: &[(&str, &str)]| {
            let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            agrees(&variables, file, &[b"/srv/a", b"/srv/b"])
        };
        let root = ("DOCUMENT_ROOT", "/srv/a");
        for fine in [
            &[][..],
            &[("SCRIPT_FILENAME", "/srv/a/x.cgi"), root],
            &[("DOCUMENT_ROOT", "/srv/b/c")],
            &[root, ("PATH_INFO", "/p"), ("PATH_TRANSLATED", "/srv/a/p")],
            // What is no path is not translated.
            &[root, ("PATH_INFO", "/../p")],
        ] {
            assert!(says(fine), "{fine:?}");
        }
        for wrong in [
            &[("SCRIPT_FILENAME", "/srv/a/y.cgi")][..],
            &[("SCRIPT_FILENAME", "/srv/a/x.cgi/")],
            &[("SCRIPT_FILENAME", "php://stdin")],
            &[("SCRIPT_FILENAME", "")],
            &[("DOCUMENT_ROOT", "/srv")],
            &[("DOCUMENT_ROOT", "/srv/ab")],
            &[("DOCUMENT_ROOT", "/srv/a/../c")],
            &[("DOCUMENT_ROOT", "")],
            &[("PATH_INFO", "/p"), ("PATH_TRANSLATED", "/p")],
            &[root, ("PATH_TRANSLATED", "/srv/a/p")],
            &[root, ("PATH_INFO", "/q"), ("PATH_TRANSLATED", "/srv/a/p")],
            &[root, ("PATH_INFO", "/../p"), ("PATH_TRANSLATED", "/srv/a/../p")],
            &[root, ("PATH_INFO", "p"), ("PATH_TRANSLATED", "/srv/ap")],
        ] {
            assert!(!says(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn one_byte_beyond_the_limit_and_a_nul_are_refused() {
        let value = vec![b'x'; LENGTH_MAX - "HTTP_A=".len() - 1];
        encode(&mut Vec::new(), [(&b"HTTP_A"[..], &value[..])]).unwrap();
        assert_eq!(encode(&mut Vec::new(), [(&b"HTTP_AB"[..], &value[..])]), Err(Unencodable::TooLarge));
        assert_eq!(encode(&mut Vec::new(), [(&b"HTTP_A"[..], &b"\0"[..])]), Err(Unencodable::Nul));
        assert_eq!(length(u32::try_from(LENGTH_MAX).unwrap().to_le_bytes()), Some(LENGTH_MAX));
        assert_eq!(length(u32::try_from(LENGTH_MAX + 1).unwrap().to_le_bytes()), None);
    }

    #[test]
    fn every_refusal_has_a_number_of_its_own() {
        for number in 0..=255 {
            assert_eq!(Refusal::of(number).map(|refusal| refusal as u8), (1..=5).contains(&number).then_some(number));
        }
    }
}
