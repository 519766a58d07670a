//! uwsgi: how a request is told (The uwsgi Protocol, uWSGI documentation). The answer is one of CGI or of HTTP/1.
//!
//! Runs in the `worker`; does no I/O.

use super::fault::Unencodable;

/// Appends the packet of a request's parameters; its body follows as it is.
///
/// # Errors
/// For parameters of more than [`PARAMETERS_MAX`] bytes together: the packet's size has 16 bits.
pub fn encode<'p>(out: &mut Vec<u8>, pairs: impl IntoIterator<Item = (&'p [u8], &'p [u8])>) -> Result<(), Unencodable> {
    let start = out.len();
    // Both modifiers 0: a WSGI request with its parameters.
    out.extend_from_slice(&[0; HEADER]);
    let encoded = push_all(out, start, pairs);
    if encoded.is_err() {
        out.truncate(start);
    }
    encoded
}

fn push_all<'p>(out: &mut Vec<u8>, start: usize, pairs: impl IntoIterator<Item = (&'p [u8], &'p [u8])>) -> Result<(), Unencodable> {
    for (name, value) in pairs {
        for text in [name, value] {
            let length = u16::try_from(text.len()).map_err(|_| Unencodable::TooLarge)?;
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(text);
        }
    }
    let size = u16::try_from(out.len() - start - HEADER).map_err(|_| Unencodable::TooLarge)?;
    out[start + 1..start + 3].copy_from_slice(&size.to_le_bytes());
    Ok(())
}

/// Modifier, size, modifier.
const HEADER: usize = 4;

/// Bytes of all parameters with their lengths.
pub const PARAMETERS_MAX: usize = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_little_endian_and_everything_has_its_length() {
        let mut out = b"x".to_vec();
        let long = vec![b'v'; 300];
        let pairs: [(&[u8], &[u8]); 2] = [(b"QUERY_STRING", b""), (b"A", &long)];
        assert_eq!(encode(&mut out, pairs), Ok(()));
        let expected = [b"x\0\x41\x01\0\x0c\0QUERY_STRING\0\0\x01\0A\x2c\x01".as_slice(), &long].concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn a_packet_is_full_at_its_limit_and_one_beyond_is_refused() {
        let with = |bytes: usize| {
            let value = vec![b'v'; bytes - 5];
            let mut out = b"x".to_vec();
            (encode(&mut out, [(b"A".as_slice(), value.as_slice())]), out.len())
        };
        assert_eq!(with(PARAMETERS_MAX), (Ok(()), 1 + HEADER + PARAMETERS_MAX));
        assert_eq!(with(PARAMETERS_MAX + 1), (Err(Unencodable::TooLarge), 1));
        assert_eq!(with(PARAMETERS_MAX + 10), (Err(Unencodable::TooLarge), 1));
    }
}
