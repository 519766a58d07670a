//! The PROXY protocol, versions 1 and 2: who stands behind a proxy, told before the first byte of the connection itself.
//!
//! Runs in the worker; does no I/O. <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Who the connection is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The proxy itself, as for its health checks (`LOCAL`).
    Proxy,
    /// Somebody behind the proxy, of whom it does not say an address (`UNKNOWN`, `AF_UNSPEC`, `AF_UNIX`).
    Unknown,
    Address(IpAddr),
}

/// Bytes that begin no header, or one that is not as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads the header at the front of what was received: whose connection it is and the length of the header. `None`: more is needed.
///
/// # Errors
/// Where there is no well-formed header: the peer is no proxy, or not the one that it should be.
pub fn parse(bytes: &[u8]) -> Result<Option<(Source, usize)>, Malformed> {
    let begins = |signature: &[u8]| bytes.iter().zip(signature).all(|(byte, expected)| byte == expected);
    if begins(SIGNATURE_2) {
        return if bytes.len() < FIXED_2 { Ok(None) } else { version_2(bytes) };
    }
    if !begins(SIGNATURE_1) {
        return Err(Malformed);
    }
    let line = bytes.get(..LINE_MAX).unwrap_or(bytes);
    match memchr::memmem::find(line, b"\r\n") {
        Some(end) => Ok(Some((version_1(line.get(SIGNATURE_1.len()..end).ok_or(Malformed)?)?, end + 2))),
        None if line.len() < LINE_MAX => Ok(None),
        None => Err(Malformed),
    }
}

/// What stands behind `PROXY `: `TCP4 192.0.2.1 192.0.2.2 56324 443`.
fn version_1(line: &[u8]) -> Result<Source, Malformed> {
    let line = std::str::from_utf8(line).map_err(|_| Malformed)?;
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        // What follows is to be ignored (2.1).
        return Ok(Source::Unknown);
    }
    let mut words = line.split(' ');
    let mut word = || words.next().ok_or(Malformed);
    let (family, source, destination) = (word()?, word()?, word()?);
    let _ports = (port(word()?)?, port(word()?)?);
    if words.next().is_some() {
        return Err(Malformed);
    }
    let address = match family {
        "TCP4" => both::<Ipv4Addr>(source, destination)?.into(),
        "TCP6" => both::<Ipv6Addr>(source, destination)?.into(),
        _ => return Err(Malformed),
    };
    Ok(Source::Address(canonical(address)))
}

/// The first of two addresses.
fn both<A: std::str::FromStr>(source: &str, destination: &str) -> Result<A, Malformed> {
    destination.parse::<A>().map_err(|_| Malformed)?;
    source.parse().map_err(|_| Malformed)
}

/// "an integer between 0 and 65535", without leading zeros.
fn port(text: &str) -> Result<u16, Malformed> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().map_err(|_| Malformed) } else { Err(Malformed) }
}

fn version_2(bytes: &[u8]) -> Result<Option<(Source, usize)>, Malformed> {
    let [command, family, high, low] = *bytes.get(SIGNATURE_2.len()..FIXED_2).and_then(|fixed| fixed.first_chunk()).ok_or(Malformed)?;
    let end = FIXED_2 + usize::from(u16::from_be_bytes([high, low]));
    if end > HEADER_MAX || !matches!(command, LOCAL | PROXY) {
        return Err(Malformed);
    }
    let size = match family {
        UNSPECIFIED => 0,
        TCP4 => 12,
        TCP6 => 36,
        UNIX_STREAM => 216,
        // Datagrams do not come over a stream; the rest is not assigned.
        _ => return Err(Malformed),
    };
    let Some(rest) = bytes.get(FIXED_2..end) else { return Ok(None) };
    if command == LOCAL {
        // Whatever it says is to be ignored (2.2).
        return Ok(Some((Source::Proxy, end)));
    }
    let (addresses, fields) = rest.split_at_checked(size).ok_or(Malformed)?;
    if family != UNSPECIFIED {
        skip_fields(fields)?;
    }
    let address = match family {
        TCP4 => addresses.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        TCP6 => addresses.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        _ => None,
    };
    Ok(Some((address.map_or(Source::Unknown, |address| Source::Address(canonical(address))), end)))
}

/// Type, length and value, again and again (2.2.1): nothing of it is used, but it has to add up.
fn skip_fields(mut fields: &[u8]) -> Result<(), Malformed> {
    while let Some((head, rest)) = fields.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
        fields = rest.get(length..).ok_or(Malformed)?;
    }
    if fields.is_empty() { Ok(()) } else { Err(Malformed) }
}

/// An IPv4 address counts as one whatever it is dressed in.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

const SIGNATURE_1: &[u8] = b"PROXY ";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, command, family and length.
const FIXED_2: usize = 16;
/// Bytes of a line of version 1 at most, its CRLF included (2.1).
const LINE_MAX: usize = 107;
/// Bytes of a header of version 2 at most. It could say 64 KiB; what proxies send has a few hundred.
const HEADER_MAX: usize = 4_096;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Source {
        Source::Address(text.parse().unwrap())
    }

    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut header = SIGNATURE_2.to_vec();
        header.extend([command, family]);
        header.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
        header.extend_from_slice(rest);
        header
    }

    /// The outcome with more behind it, and that no part of the header is enough.
    fn whole_and_split(header: &[u8], source: Source) {
        for behind in ["", "G", "GET / HTTP/1.1\r\n\r\n", "\r\nPROXY UNKNOWN\r\n"] {
            let bytes = [header, behind.as_bytes()].concat();
            assert_eq!(parse(&bytes), Ok(Some((source, header.len()))), "{}", header.escape_ascii());
        }
        for length in 0..header.len() {
            assert_eq!(parse(&header[..length]), Ok(None), "{length} of {}", header.escape_ascii());
        }
    }

    #[test]
    fn version_1_is_read_whole_and_split() {
        for (line, source) in [
            ("PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n", address("192.0.2.1")),
            ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", address("255.255.255.255")),
            ("PROXY TCP4 0.0.0.0 1.1.1.1 0 1\r\n", address("0.0.0.0")),
            ("PROXY TCP6 2001:db8::1 ::1 1 2\r\n", address("2001:db8::1")),
            ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", address("192.0.2.1")),
            (
                "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
                address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ),
            ("PROXY UNKNOWN\r\n", Source::Unknown),
            ("PROXY UNKNOWN ffff::1 any thing 1\r\n", Source::Unknown),
        ] {
            whole_and_split(line.as_bytes(), source);
        }
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_MAX - 16));
        assert_eq!(longest.len(), LINE_MAX);
        whole_and_split(longest.as_bytes(), Source::Unknown);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "PROXY\r\n",
            "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 \r\n",
            "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 ::1 1 2\r\n",
            "PROXY TCP4 ::1 192.0.2.2 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
            "PROXY TCP6 [::1] ::1 1 2\r\n",
            "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UNKNOWNS\r\n",
            "PROXY TCP4 \u{661}.0.2.1 192.0.2.2 1 2\r\n",
        ] {
            assert_eq!(parse(line.as_bytes()), Err(Malformed), "{line:?}");
        }
        assert_eq!(parse(b"PROXY TCP4 \xff\r\n"), Err(Malformed));
        assert_eq!(parse(&[b"PROXY UNKNOWN ".as_slice(), &[b'x'; LINE_MAX]].concat()), Err(Malformed), "too long");
        assert_eq!(parse(format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_MAX - 15)).as_bytes()), Err(Malformed), "one too long");
        // Refused with the first byte that cannot be of a header.
        assert_eq!(parse(b"PROXX"), Err(Malformed));
        assert_eq!(parse(b"\r\n\r\nG"), Err(Malformed));
    }

    #[test]
    fn version_2_is_read_whole_and_split() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2];
        let mut v6 = [0; 36];
        v6[..16].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        let fields = |addresses: &[u8], fields: &[u8]| [addresses, fields].concat();
        for (command, family, rest, source) in [
            (PROXY, TCP4, v4.to_vec(), address("192.0.2.1")),
            (PROXY, TCP6, v6.to_vec(), address("2001:db8::1")),
            (PROXY, TCP4, fields(&v4, &[4, 0, 0]), address("192.0.2.1")),
            (PROXY, TCP4, fields(&v4, &[1, 0, 2, b'h', b'2', 0x20, 0, 5, 1, 0, 0, 0, 0]), address("192.0.2.1")),
            (PROXY, TCP6, fields(&v6, &[0xEA, 1, 0].into_iter().chain([7; 256]).collect::<Vec<u8>>()), address("2001:db8::1")),
            (PROXY, UNIX_STREAM, vec![b'/'; 216], Source::Unknown),
            (PROXY, UNSPECIFIED, vec![], Source::Unknown),
            (PROXY, UNSPECIFIED, vec![1, 2, 3, 4, 5], Source::Unknown),
            (LOCAL, UNSPECIFIED, vec![], Source::Proxy),
            (LOCAL, TCP4, v4.to_vec(), Source::Proxy),
            (LOCAL, TCP4, vec![1, 2, 3], Source::Proxy),
            (LOCAL, UNSPECIFIED, vec![0; HEADER_MAX - FIXED_2], Source::Proxy),
        ] {
            whole_and_split(&version_2(command, family, &rest), source);
        }
        let mut mapped = [0; 36];
        mapped[..16].copy_from_slice(&"::ffff:192.0.2.1".parse::<Ipv6Addr>().unwrap().octets());
        whole_and_split(&version_2(PROXY, TCP6, &mapped), address("192.0.2.1"));
    }

    #[test]
    fn version_2_that_does_not_add_up_is_refused() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2];
        for (command, family, rest) in [
            (0x11, TCP4, v4.to_vec()),
            (0x22, TCP4, v4.to_vec()),
            (0x2F, TCP4, v4.to_vec()),
            (PROXY, 0x12, v4.to_vec()),
            (PROXY, 0x10, v4.to_vec()),
            (PROXY, 0x41, v4.to_vec()),
            (LOCAL, 0xFF, vec![]),
            (PROXY, TCP4, v4[..11].to_vec()),
            (PROXY, TCP4, vec![]),
            (PROXY, TCP6, v4.to_vec()),
            (PROXY, UNIX_STREAM, vec![0; 215]),
            (PROXY, TCP4, [&v4[..], &[4]].concat()),
            (PROXY, TCP4, [&v4[..], &[4, 0]].concat()),
            (PROXY, TCP4, [&v4[..], &[4, 0, 1]].concat()),
            (PROXY, TCP4, [&v4[..], &[4, 0xFF, 0xFF, 0]].concat()),
            (PROXY, TCP4, [&v4[..], &[4, 0, 0, 4]].concat()),
            (LOCAL, UNSPECIFIED, vec![0; HEADER_MAX - FIXED_2 + 1]),
        ] {
            assert_eq!(parse(&version_2(command, family, &rest)), Err(Malformed), "{command:#x} {family:#x} {rest:?}");
        }
    }
}
