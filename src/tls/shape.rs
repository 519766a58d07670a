//! What a TLS server signs: the shapes that a message must have for a private key to be used on it. Does no I/O.
//!
//! Whoever takes over a worker can ask for signatures; that they are good for nothing but TLS handshakes of this server is made sure of here.

/// Whether this is what a server signs in a CertificateVerify of TLS 1.3 (RFC 8446, 4.4.3): 64 spaces, the context, a zero and the hash of
/// the transcript.
pub fn is_certificate_verify(message: &[u8]) -> bool {
    let context = |rest: &[u8]| rest.strip_prefix(CONTEXT.as_slice()).is_some_and(|hash| [32, 48].contains(&hash.len()));
    message.split_at_checked(SPACES).is_some_and(|(spaces, rest)| spaces.iter().all(|byte| *byte == b' ') && context(rest))
}

/// Whether this is what a server signs in a ServerKeyExchange of TLS 1.2 with ECDHE (RFC 8422, 5.4): both randoms, and a point on a named
/// curve that is offered here.
pub fn is_server_key_exchange(message: &[u8]) -> bool {
    let Some((_, parameters)) = message.split_at_checked(RANDOMS) else { return false };
    let [NAMED_CURVE, high, low, length, point @ ..] = parameters else { return false };
    if usize::from(*length) != point.len() {
        return false;
    }
    match u16::from_be_bytes([*high, *low]) {
        X25519 => point.len() == 32,
        P256 => point.len() == 65 && point.first() == Some(&UNCOMPRESSED),
        P384 => point.len() == 97 && point.first() == Some(&UNCOMPRESSED),
        _ => false,
    }
}

/// Bytes of the longest message of either shape.
pub const MESSAGE_MAX: usize = RANDOMS + 4 + 97;

const SPACES: usize = 64;
const CONTEXT: &[u8; 34] = b"TLS 1.3, server CertificateVerify\0";
const RANDOMS: usize = 64;
const NAMED_CURVE: u8 = 3;
const UNCOMPRESSED: u8 = 4;
/// RFC 8422, 5.1.1.
const X25519: u16 = 0x001d;
const P256: u16 = 0x0017;
const P384: u16 = 0x0018;

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(hash: usize) -> Vec<u8> {
        [&[b' '; 64][..], b"TLS 1.3, server CertificateVerify\0", &vec![0xab; hash]].concat()
    }

    fn exchange(curve: u16, point: &[u8]) -> Vec<u8> {
        let length = u8::try_from(point.len()).unwrap();
        [&[7; 64][..], &[3], &curve.to_be_bytes(), &[length], point].concat()
    }

    fn point(length: usize) -> Vec<u8> {
        let mut point = vec![9; length];
        point[0] = 4;
        point
    }

    #[test]
    fn what_a_server_signs_has_a_shape() {
        for hash in [32, 48] {
            assert!(is_certificate_verify(&verify(hash)) && !is_server_key_exchange(&verify(hash)), "{hash}");
        }
        for (curve, length) in [(0x1d, 32), (0x17, 65), (0x18, 97)] {
            let message = exchange(curve, &point(length));
            assert!(is_server_key_exchange(&message) && !is_certificate_verify(&message), "{curve}");
            assert!(message.len() <= MESSAGE_MAX);
        }
        assert!(verify(48).len() <= MESSAGE_MAX);
    }

    #[test]
    fn nothing_else_has_it() {
        let is_any = |message: &[u8]| is_certificate_verify(message) || is_server_key_exchange(message);
        for length in [0, 1, 31, 33, 47, 49, 64] {
            assert!(!is_any(&verify(length)), "{length}");
        }
        // Every byte of what is fixed matters.
        for at in 0..98 {
            let mut message = verify(32);
            message[at] ^= 1;
            assert!(!is_any(&message), "{at}");
        }
        // What a client signs, with its own context.
        let client = [&[b' '; 64][..], b"TLS 1.3, client CertificateVerify\0", &[0xab; 32]].concat();
        assert!(!is_any(&client));
        for (curve, length) in [(0x1d, 31), (0x1d, 33), (0x17, 64), (0x17, 33), (0x18, 65), (0x19, 133), (0x1e, 56), (0x100, 32), (0, 32)] {
            assert!(!is_any(&exchange(curve, &point(length))), "{curve} {length}");
        }
        let good = exchange(0x1d, &point(32));
        for cut in 0..good.len() {
            assert!(!is_any(&good[..cut]), "{cut}");
        }
        assert!(!is_any(&[&good[..], &[0]].concat()));
        // Explicit curves, and a compressed point.
        let mut explicit = good.clone();
        explicit[64] = 1;
        assert!(!is_any(&explicit));
        let mut compressed = exchange(0x17, &point(65));
        compressed[68] = 2;
        assert!(!is_any(&compressed));
        // A hash to be signed as it is, a certificate's beginning, a text.
        for other in [&[0; 32][..], &[0; 64], &[0x30; 300], b"hello"] {
            assert!(!is_any(other));
        }
    }
}
