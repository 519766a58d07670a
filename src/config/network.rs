//! Networks such as `10.0.0.0/8`, as `client`, `allow` and `deny` list them. Does no I/O.

use super::Network;
use super::diagnostic::{Faults, quoted};
use super::document::Item;
use std::fmt;
use std::net::IpAddr;

/// A network, or a list of at least one.
pub(super) fn read(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<Network> {
    let mut list = Vec::new();
    for text in item.text_or_texts(EXPECTED, faults).unwrap_or_default() {
        match network(text.value) {
            Ok(network) => list.push(network),
            Err(help) => faults.report(text.at.clone(), format!("{} is not a network", quoted(text.value)), help),
        }
    }
    if item.is_empty_list() {
        item.report("an empty list of networks", format!("expected {EXPECTED}"), faults);
    }
    list
}

fn network(written: &str) -> Result<Network, String> {
    if matches!(written, "all" | "any" | "*") {
        return Err("expected [\"0.0.0.0/0\", \"::/0\"] for every address".to_owned());
    }
    let (address, bits) = match written.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (written, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return Err(format!("expected {EXPECTED}"));
    };
    let width: u8 = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => width,
        Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
            bits.parse().ok().filter(|bits| *bits <= width).ok_or_else(|| format!("expected at most {width} bits"))?
        }
        Some(_) => return Err("expected the number of bits behind the \"/\"".to_owned()),
    };
    let meant = Network { address: masked(address, bits), bits };
    if meant.address == address {
        return canonical(meant);
    }
    Err(format!("its last bits are not zero: did you mean \"{meant}\", or the one address \"{address}\"?"))
}

/// A client's IPv4 address is compared as such, so a network of such addresses in IPv6 clothes is undressed too.
fn canonical(network: Network) -> Result<Network, String> {
    match network.address.to_canonical() {
        IpAddr::V4(address) if network.address.is_ipv6() => {
            let bits = network.bits.checked_sub(96).ok_or("expected IPv4 networks as such")?;
            Ok(Network { address: address.into(), bits })
        }
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(network),
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

const EXPECTED: &str = "an address or a network such as \"192.0.2.0/24\" or \"2001:db8::/32\", or a list of them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_shown_again() {
        for (written, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("::1", "::1/128"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ] {
            assert_eq!(network(written).map(|network| network.to_string()).as_deref(), Ok(shown));
        }
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_one_that_was_meant() {
        for (written, help) in [
            ("10.1.2.3/8", "its last bits are not zero: did you mean \"10.0.0.0/8\", or the one address \"10.1.2.3\"?"),
            ("2001:db8::1/32", "its last bits are not zero: did you mean \"2001:db8::/32\", or the one address \"2001:db8::1\"?"),
            ("10.0.0.0/33", "expected at most 32 bits"),
            ("::/129", "expected at most 128 bits"),
            ("::/999", "expected at most 128 bits"),
            ("10.0.0.0/+8", "expected the number of bits behind the \"/\""),
            ("10.0.0.0/255.0.0.0", "expected the number of bits behind the \"/\""),
            ("all", "expected [\"0.0.0.0/0\", \"::/0\"] for every address"),
        ] {
            assert_eq!(network(written).unwrap_err(), help, "{written}");
        }
        for written in ["", "10.0.0", "example.org", "[::1]", "10.0.0.0 /8", "010.0.0.0/8"] {
            assert_eq!(network(written).unwrap_err(), format!("expected {EXPECTED}"), "{written}");
        }
    }
}
