//! The PROXY protocol: a header ends where it ends, whatever follows it and however it arrives, and what it says can be said again.

#![no_main]

use anchorite::proto::proxy_protocol::{self, Source};
use std::net::IpAddr;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let more = [data, b"GET / HTTP/1.1\r\n\r\n"].concat();
    match proxy_protocol::parse(data) {
        Ok(Some((source, length))) => {
            assert!((8..=data.len()).contains(&length), "{length}");
            assert_eq!(proxy_protocol::parse(&more), Ok(Some((source, length))), "what follows is nobody's business");
            assert_eq!(proxy_protocol::parse(&data[..length]), Ok(Some((source, length))));
            for end in 0..length {
                assert_eq!(proxy_protocol::parse(&data[..end]), Ok(None), "the first {end} bytes");
            }
            if let Source::Address(address) = source {
                assert_eq!(address, address.to_canonical());
                said_again(address);
            }
        }
        Ok(None) => assert!(data.len() < 4_096, "{} bytes and no end", data.len()),
        Err(malformed) => assert_eq!(proxy_protocol::parse(&more), Err(malformed), "what is malformed stays so"),
    }
});

fn said_again(address: IpAddr) {
    let (family, any) = if address.is_ipv4() { ("TCP4", "0.0.0.0") } else { ("TCP6", "::") };
    let line = format!("PROXY {family} {address} {any} 65535 0\r\n");
    assert_eq!(proxy_protocol::parse(line.as_bytes()), Ok(Some((Source::Address(address), line.len()))));
}
