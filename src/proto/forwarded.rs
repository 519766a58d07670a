//! For whom a proxy says that it asks: `X-Forwarded-For`, and `Forwarded` (RFC 7239).
//!
//! Runs in the worker and in `anchorite explain`; does no I/O. Each proxy on the way adds the address it was asked from at the end, so what
//! stands there is what the last proxy saw; further left, each is only as good as the one who says it. The lists are therefore walked from
//! the right, past addresses that are trusted themselves, to the first that is not. What cannot be read ends the walk without an answer:
//! nobody gets an address that a proxy did not vouch for.

use std::net::{IpAddr, Ipv6Addr};

/// How the client came to the first proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    Http,
    Https,
}

/// The client by the values of `X-Forwarded-For`, in the order of the lines; `None`: it cannot be told.
pub fn x_forwarded_for(values: &[&[u8]], trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let elements = values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    walk(elements.filter(|element| !element.is_empty()).map(|element| node(element).map(|client| (client, ()))), trusted)
        .map(|(client, ())| client)
}

/// As [`x_forwarded_for`], with the proxies between: from the client to the one nearest to here. `None`: it cannot be told.
pub fn x_forwarded_for_chain(values: &[&[u8]], trusted: impl Fn(IpAddr) -> bool) -> Option<Vec<IpAddr>> {
    let elements = values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut chain = Vec::new();
    for element in elements.filter(|element| !element.is_empty()) {
        let address = node(element)?;
        chain.push(address);
        if !trusted(address) {
            break;
        }
    }
    chain.reverse();
    (!chain.is_empty()).then_some(chain)
}

/// The client by the values of `Forwarded`, and how it came to the proxy that says so. A client may begin a quoted string and leave it
/// to its proxy to go on behind that: what the proxy adds has whole strings and no comma in them, so such a line is taken apart at all its
/// commas. Otherwise a client could hide its address, and be taken for the proxy.
pub fn forwarded(values: &[&[u8]], trusted: impl Fn(IpAddr) -> bool) -> Option<(IpAddr, Option<Proto>)> {
    let elements = values.iter().rev().flat_map(|value| split(value, b',').unwrap_or_else(|| at_commas(value)).into_iter().rev());
    walk(elements.filter(|element| !element.is_empty()).map(element), trusted)
}

/// `X-Forwarded-Proto`: what the last proxy says.
pub fn x_forwarded_proto(values: &[&[u8]]) -> Option<Proto> {
    values.last().and_then(|value| value.rsplit(|byte| *byte == b',').next()).and_then(|word| proto(word.trim_ascii()))
}

/// From the nearest to the first that is not trusted; where all are, the furthest.
fn walk<T>(nodes: impl Iterator<Item = Option<(IpAddr, T)>>, trusted: impl Fn(IpAddr) -> bool) -> Option<(IpAddr, T)> {
    let mut furthest = None;
    for node in nodes {
        let (client, more) = node?;
        let goes_on = trusted(client);
        furthest = Some((client, more));
        if !goes_on {
            break;
        }
    }
    furthest
}

/// One element of `Forwarded`: `for=192.0.2.1;proto=https`. Without `for` it says nothing of the client.
fn element(element: &[u8]) -> Option<(IpAddr, Option<Proto>)> {
    let (mut client, mut came) = (None, None);
    for pair in split(element, b';')? {
        // Nothing between two semicolons is no pair.
        if pair.is_empty() {
            continue;
        }
        let at = memchr::memchr(b'=', pair)?;
        let (name, value) = (pair.get(..at)?, pair.get(at + 1..)?);
        let value = unquoted(value)?;
        if name.eq_ignore_ascii_case(b"for") {
            // A name twice is an error of its sender (RFC 7239, 4).
            if client.replace(node(&value)?).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"proto") && came.replace(proto(&value)).is_some() {
            return None;
        }
    }
    Some((client?, came.flatten()))
}

/// The parts between separators that stand outside of quoted strings; `None`: a string has no end.
fn split(value: &[u8], separator: u8) -> Option<Vec<&[u8]>> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, &byte) in value.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            byte if byte == separator && !quoted => {
                parts.push(value.get(start..at)?.trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(value.get(start..)?.trim_ascii());
    (!quoted).then_some(parts)
}

/// A token, or the content of a quoted string (RFC 9110, 5.6.2 and 5.6.4).
fn unquoted(value: &[u8]) -> Option<Vec<u8>> {
    let Some(rest) = value.strip_prefix(b"\"") else {
        // A value with a colon or a bracket must be quoted, but many a proxy does not; nothing else could be meant by it.
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:[]".contains(byte);
        return (!value.is_empty() && value.iter().all(plain)).then(|| value.to_vec());
    };
    let inner = rest.strip_suffix(b"\"")?;
    let (mut text, mut bytes) = (Vec::new(), inner.iter());
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => text.push(*bytes.next()?),
            b'"' => return None,
            byte => text.push(byte),
        }
    }
    Some(text)
}

/// The parts between all commas.
fn at_commas(value: &[u8]) -> Vec<&[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect()
}

fn proto(word: &[u8]) -> Option<Proto> {
    if word.eq_ignore_ascii_case(b"https") {
        return Some(Proto::Https);
    }
    word.eq_ignore_ascii_case(b"http").then_some(Proto::Http)
}

/// An address, perhaps with a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. `unknown` and names that
/// a proxy made up (RFC 7239, 6.3) are none.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (address, behind) = rest.split_once(']')?;
        let good = behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port);
        return if good { address.parse::<Ipv6Addr>().ok().map(IpAddr::V6) } else { None }.map(|address| address.to_canonical());
    }
    let address = match text.split_once(':') {
        Some((address, port)) if !port.contains(':') => address.parse().ok().filter(|_| is_port(port)).map(IpAddr::V4),
        Some(_) | None => text.parse::<IpAddr>().ok(),
    };
    address.map(|address| address.to_canonical())
}

/// Digits, or a name that a proxy made up (RFC 7239, 6).
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)),
        None => (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10.0.0.0/8 and fd00::/8 are trusted.
    fn trusted(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address.octets()[0] == 10,
            IpAddr::V6(address) => address.octets()[0] == 0xFD,
        }
    }

    #[test]
    fn x_forwarded_for_is_walked_from_the_right_past_trusted_addresses() {
        for (values, client) in [
            (&["192.0.2.1"][..], Some("192.0.2.1")),
            (&["198.51.100.7, 192.0.2.1"], Some("192.0.2.1")),
            (&["198.51.100.7, 192.0.2.1, 10.0.0.1"], Some("192.0.2.1")),
            (&["198.51.100.7", "192.0.2.1", "10.0.0.1 ,10.0.0.2"], Some("192.0.2.1")),
            (&["10.0.0.3, 10.0.0.2"], Some("10.0.0.3")),
            (&["junk, 192.0.2.1"], Some("192.0.2.1")),
            (&["192.0.2.1, junk"], None),
            (&["192.0.2.1, junk, 10.0.0.1"], None),
            (&["192.0.2.1,,10.0.0.1,"], Some("192.0.2.1")),
            (&["[2001:db8::1]:4711, 192.0.2.9"], Some("192.0.2.9")),
            (&["[2001:db8::1]:4711"], Some("2001:db8::1")),
            (&["[2001:db8::1]"], Some("2001:db8::1")),
            (&["2001:db8::1"], Some("2001:db8::1")),
            (&["2001:db8::1, [fd00::1]:80"], Some("2001:db8::1")),
            (&["192.0.2.1:80"], Some("192.0.2.1")),
            (&["::ffff:192.0.2.1"], Some("192.0.2.1")),
            (&["::ffff:10.0.0.1"], Some("10.0.0.1")),
            (&[""], None),
            (&[" , "], None),
            (&[], None),
        ] {
            let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(x_forwarded_for(&values, trusted), client.map(|client| client.parse().unwrap()), "{values:?}");
            let chain = x_forwarded_for_chain(&values, trusted);
            assert_eq!(chain.as_ref().map(|chain| chain[0]), client.map(|client| client.parse().unwrap()), "{values:?}");
            assert!(chain.is_none_or(|chain| chain.iter().skip(1).all(|proxy| trusted(*proxy))), "{values:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "unknown",
            "_hidden",
            "192.0.2",
            "192.0.2.1:",
            "192.0.2.1:x",
            "192.0.2.1:123456",
            "192.0.2.01",
            "192.0.2.1 ",
            "[192.0.2.1]",
            "[2001:db8::1",
            "[2001:db8::1]x",
            "[2001:db8::1]:",
            "2001:db8::1]",
            "fe80::1%eth0",
            "[fe80::1%eth0]",
            "example.org",
            "192.0.2.1;x",
            "\u{661}.0.2.1",
            "192.0.2.0/24",
            "[]",
            ":80",
            "2001:db8:::1",
        ] {
            assert_eq!(node(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(node(b"192.0.2.1\xff"), None);
        for (text, address) in [("192.0.2.1:_x.1-", "192.0.2.1"), ("[2001:db8::1]:_p", "2001:db8::1"), ("192.0.2.1:0", "192.0.2.1")] {
            assert_eq!(node(text.as_bytes()), Some(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn forwarded_is_read_with_its_quoted_strings() {
        use Proto::{Http, Https};
        for (values, right) in [
            (&["for=192.0.2.1"][..], Some(("192.0.2.1", None))),
            (&["For=\"[2001:db8:cafe::17]:4711\""], Some(("2001:db8:cafe::17", None))),
            (&["for=192.0.2.60;proto=http;by=203.0.113.43"], Some(("192.0.2.60", Some(Http)))),
            (&["proto=HTTPS; for=192.0.2.1 ;host=\"a,b;c=\\\"d\""], Some(("192.0.2.1", Some(Https)))),
            (&["for=198.51.100.7;proto=https, for=192.0.2.1;proto=http, for=10.0.0.1;proto=https"], Some(("192.0.2.1", Some(Http)))),
            (&["for=192.0.2.1;proto=https", "for=\"10.0.0.1:_x\""], Some(("192.0.2.1", Some(Https)))),
            (&["for=192.0.2.1;proto=ftp"], Some(("192.0.2.1", None))),
            (&["for=\"1\\92.0.2.1\""], Some(("192.0.2.1", None))),
            (&["for=2001:db8::1"], Some(("2001:db8::1", None))),
            (&["for=192.0.2.1, for=unknown"], None),
            (&["for=192.0.2.1, for=_hidden, for=10.0.0.1"], None),
            (&["for=192.0.2.1, proto=https"], None),
            (&["for=192.0.2.1, by=10.0.0.1"], None),
            (&["for=192.0.2.1;for=192.0.2.2"], None),
            (&["for=192.0.2.1;proto=http;proto=https"], None),
            (&["for=192.0.2.1;"], Some(("192.0.2.1", None))),
            (&["for=192.0.2.1;=x"], Some(("192.0.2.1", None))),
            (&["for=\"192.0.2.1"], None),
            (&["for=\"192.0.2.1\\\""], None),
            (&["for=192.0.2.1\""], None),
            (&["for=\"192.0.2.1\"x"], None),
            (&["for=192.0.2.1 proto=http"], None),
            (&["for =192.0.2.1"], None),
            (&["for="], None),
            (&["192.0.2.1"], None),
            // What a client leaves open does not swallow what its proxy says.
            (&["for=\"198.51.100.7, for=192.0.2.1"], Some(("192.0.2.1", None))),
            (&["for=\"\\, for=\"192.0.2.1:80\";host=\"a\""], Some(("192.0.2.1", None))),
            (&["for=\"", "for=192.0.2.1"], Some(("192.0.2.1", None))),
            (&["for=\"", "for=192.0.2.1;proto=https, for=10.0.0.1"], Some(("192.0.2.1", Some(Https)))),
            // A string that is open in one line would swallow what the next says.
            (&["for=\"192.0.2.1", "for=10.0.0.1"], None),
            (&[""], None),
        ] {
            let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
            let right = right.map(|(client, proto)| (client.parse().unwrap(), proto));
            assert_eq!(
                forwarded(&values, trusted),
                right,
                "{:?}",
                values.iter().map(|value| value.escape_ascii().to_string()).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn the_last_proxy_says_how_the_client_came() {
        for (values, right) in [
            (&["https"][..], Some(Proto::Https)),
            (&["HTTP"], Some(Proto::Http)),
            (&["https, http"], Some(Proto::Http)),
            (&["http", "https"], Some(Proto::Https)),
            (&["https,"], None),
            (&["wss"], None),
            (&[], None),
        ] {
            let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(x_forwarded_proto(&values), right, "{values:?}");
        }
    }
}
