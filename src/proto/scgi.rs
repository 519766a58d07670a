//! SCGI: how a request is told (Simple Common Gateway Interface, Neil Schemenauer, 2006). The answer is one of CGI.
//!
//! Runs in the `worker`; does no I/O.

use super::fault::Unencodable;

/// Appends the netstring of a request's parameters; its body follows as it is. `CONTENT_LENGTH` comes first and is always there, then
/// `SCGI`, as the specification demands; parameters of these names among `pairs` are left out.
///
/// # Errors
/// For a NUL in a parameter: what follows it would be read as another one.
pub fn encode<'p, I>(out: &mut Vec<u8>, content_length: u64, pairs: I) -> Result<(), Unencodable>
where
    I: Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
{
    let length = content_length.to_string();
    let first: [(&[u8], &[u8]); 2] = [(CONTENT_LENGTH, length.as_bytes()), (SCGI, b"1")];
    let others =
        pairs.filter(|(name, _)| *name != CONTENT_LENGTH && *name != SCGI).map(|(name, value)| -> (&[u8], &[u8]) { (name, value) });
    let all = || first.into_iter().chain(others.clone());
    if all().any(|(name, value)| memchr::memchr(0, name).or(memchr::memchr(0, value)).is_some()) {
        return Err(Unencodable::Nul);
    }
    let size: usize = all().map(|(name, value)| name.len() + value.len() + 2).sum();
    out.extend_from_slice(size.to_string().as_bytes());
    out.push(b':');
    for (name, value) in all() {
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(value);
        out.push(0);
    }
    out.push(b',');
    Ok(())
}

const CONTENT_LENGTH: &[u8] = b"CONTENT_LENGTH";
const SCGI: &[u8] = b"SCGI";

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(length: u64, pairs: &[(&[u8], &[u8])]) -> Result<Vec<u8>, Unencodable> {
        let mut out = Vec::new();
        encode(&mut out, length, pairs.iter().copied())?;
        Ok(out)
    }

    #[test]
    fn the_example_of_the_specification() {
        let pairs: [(&[u8], &[u8]); 2] = [(b"REQUEST_METHOD", b"POST"), (b"REQUEST_URI", b"/deepthought")];
        let netstring = b"70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,";
        assert_eq!(encoded(27, &pairs), Ok(netstring.to_vec()));
    }

    #[test]
    fn the_length_is_first_and_once() {
        let pairs: [(&[u8], &[u8]); 4] = [(b"A", b""), (b"CONTENT_LENGTH", b"9"), (b"SCGI", b"2"), (b"CONTENT_LENGTH_", b"x")];
        let netstring = b"45:CONTENT_LENGTH\x000\0SCGI\x001\0A\0\0CONTENT_LENGTH_\0x\0,";
        assert_eq!(encoded(0, &pairs).map(|bytes| bytes.escape_ascii().to_string()), Ok(netstring.escape_ascii().to_string()));
    }

    #[test]
    fn nul_cannot_be_told() {
        for pair in [(b"A\0".as_slice(), b"b".as_slice()), (b"A", b"b\0C\0d")] {
            assert_eq!(encoded(0, &[pair]), Err(Unencodable::Nul));
        }
    }
}
