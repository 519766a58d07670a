//! `X-Forwarded-For` and `Forwarded`: what the nearest proxy vouches for holds, whatever its client wrote before, on the same line or another.

#![no_main]

use anchorite::proto::forwarded::{forwarded, x_forwarded_for, x_forwarded_proto};
use std::net::IpAddr;

fn trusted(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets()[0] == 10)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let client: IpAddr = [192, 0, 2, 1].into();
    // Appended to the last line, as most proxies do, and as a line of its own.
    for (vouched, both) in
        [("192.0.2.1", true), ("\"192.0.2.1:80\"", false), ("192.0.2.1, for=10.0.0.1", false), ("192.0.2.1, 10.0.0.1", true)]
    {
        let element = format!("for={vouched};proto=https");
        let last = [lines[lines.len() - 1], b", ", element.as_bytes()].concat();
        let (before, same) = (&lines[..lines.len() - 1], [&lines[..lines.len() - 1], &[last.as_slice()]].concat());
        let apart = [before, &[lines[lines.len() - 1], element.as_bytes()]].concat();
        if !vouched.contains(", 10") {
            assert_eq!(forwarded(&same, trusted).map(|(address, _)| address), Some(client), "{same:?}");
            assert_eq!(forwarded(&apart, trusted).map(|(address, _)| address), Some(client), "{apart:?}");
        }
        if both {
            let last = [lines[lines.len() - 1], b", ", vouched.as_bytes()].concat();
            assert_eq!(x_forwarded_for(&[before, &[last.as_slice()]].concat(), trusted), Some(client));
            assert_eq!(x_forwarded_for(&[lines.as_slice(), &[vouched.as_bytes()]].concat(), trusted), Some(client));
        }
    }
    // An address that is told stands there; of those that are not trusted it is the last.
    if let Some(address) = x_forwarded_for(&lines, trusted) {
        assert_eq!(address, address.to_canonical());
    }
    if let Some((address, _)) = forwarded(&lines, trusted) {
        assert_eq!(address, address.to_canonical());
    }
    let _ = x_forwarded_proto(&lines);
});
