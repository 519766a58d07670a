//! Who asks, where proxies stand in front: what a trusted one says of its client.
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O.

use super::facts::{Origin, Scheme};
use crate::config::Network;
use crate::proto::forwarded::{self, Proto};
use crate::proto::head::Request;
use std::net::IpAddr;

/// For whom a trusted peer asks. `X-Forwarded-For` goes before `Forwarded`: proxies that write the former mostly pass the latter on as the
/// client sent it. What cannot be read leaves the peer, never the address that it would not vouch for; and it is forwarded all the same.
pub fn of(request: &Request<'_, '_>, peer: Origin, trusted: &[Network]) -> Origin {
    let values = |name| request.fields(name).collect::<Vec<&[u8]>>();
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let proto = values("x-forwarded-proto");
    let list = values("x-forwarded-for");
    if !list.is_empty() {
        return told(peer, forwarded::x_forwarded_for(&list, is_trusted), forwarded::x_forwarded_proto(&proto));
    }
    let list = values("forwarded");
    if !list.is_empty() {
        let (client, came) = forwarded::forwarded(&list, is_trusted).unzip();
        return told(peer, client, came.flatten());
    }
    if proto.is_empty() { peer } else { told(peer, None, forwarded::x_forwarded_proto(&proto)) }
}

/// From the client to this server, as far as it is vouched for: the client, then the proxies. `peer` is one that is believed, if there is one.
pub fn chain(request: &Request<'_, '_>, client: IpAddr, peer: Option<IpAddr>, trusted: &[Network]) -> Vec<IpAddr> {
    let Some(peer) = peer.filter(|peer| *peer != client) else { return vec![client] };
    let list: Vec<&[u8]> = request.fields("x-forwarded-for").collect();
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut chain = forwarded::x_forwarded_for_chain(&list, is_trusted).unwrap_or_else(|| vec![client]);
    chain.push(peer);
    chain
}

fn told(peer: Origin, client: Option<IpAddr>, proto: Option<Proto>) -> Origin {
    let scheme = proto.map_or(peer.scheme, |proto| match proto {
        Proto::Http => Scheme::Http,
        Proto::Https => Scheme::Https,
    });
    Origin { client: client.unwrap_or(peer.client), forwarded: true, scheme }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::head::{self, HeadLimits};

    fn origin(fields: &str) -> Origin {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut space = head::field_space();
        let limits = HeadLimits { request_line: 1000, header_bytes: 1000, header_count: 100 };
        let request = head::parse(head.as_bytes(), &mut space, &limits).unwrap();
        let trusted = [Network { address: [10, 0, 0, 0].into(), bits: 8 }];
        of(&request, Origin::direct([10, 0, 0, 1].into()), &trusted)
    }

    #[test]
    fn what_a_trusted_proxy_says_is_believed_and_nothing_else() {
        let http = Scheme::Http;
        for (fields, client, forwarded, scheme) in [
            ("", "10.0.0.1", false, http),
            ("X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1", true, http),
            ("X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 192.0.2.1, 10.0.0.2\r\n", "192.0.2.1", true, http),
            ("x-forwarded-for: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n", "192.0.2.1", true, Scheme::Https),
            ("Forwarded: for=192.0.2.1;proto=https\r\n", "192.0.2.1", true, Scheme::Https),
            // A client's own, which a proxy that writes the other passed on.
            ("Forwarded: for=127.0.0.1;proto=https\r\nX-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1", true, http),
            ("X-Forwarded-For: unknown\r\n", "10.0.0.1", true, http),
            ("X-Forwarded-For:\r\n", "10.0.0.1", true, http),
            ("X-Forwarded-For: junk\r\nForwarded: for=192.0.2.1\r\n", "10.0.0.1", true, http),
            ("Forwarded: for=_hidden\r\n", "10.0.0.1", true, http),
            ("X-Forwarded-Proto: https\r\n", "10.0.0.1", true, Scheme::Https),
            ("X-Forwarded-Host: b\r\nX-Real-IP: 192.0.2.1\r\n", "10.0.0.1", false, http),
            ("X_Forwarded-For: 192.0.2.1\r\n", "10.0.0.1", false, http),
        ] {
            assert_eq!(origin(fields), Origin { client: client.parse().unwrap(), forwarded, scheme }, "{fields:?}");
        }
    }
}
