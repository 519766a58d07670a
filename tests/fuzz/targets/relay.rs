//! The head of a request on its way to a backend of HTTP: one request goes out where one came in, and it is that.

#![no_main]

use anchorite::proto::head::{self, Framing, HeadLimits, Request, Version};
use anchorite::proto::target::{self, Path};
use anchorite::site::facts::{Facts, Origin};
use anchorite::site::relay::{self, Relayed};
use std::net::{IpAddr, Ipv4Addr};

const LIMITS: HeadLimits = HeadLimits { request_line: 8192, header_bytes: 8192, header_count: 64 };
/// What the server writes is no longer than this beyond what the client wrote.
const WIDER: HeadLimits = HeadLimits { request_line: 32_768, header_bytes: 32_768, header_count: 80 };

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&flags, bytes)) = data.split_first() else { return };
    let mut space = head::field_space();
    let Ok(request) = head::parse(bytes, &mut space, &LIMITS) else { return };
    let mut path = Path::default();
    if target::parse_into(request.path, &mut path).is_err() {
        return;
    }
    let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let facts = Facts::of(&request, &path, Origin::direct(client));
    let upgrade = relay::upgrade(&facts, request.version == Version::Http11, request.framing);
    let relayed = Relayed {
        path: &path,
        query: request.query,
        server_name: b"s.test",
        framing: request.framing,
        upgrade,
        chain: &[client],
        trusted: flags & 1 == 1,
        keep: flags & 2 == 2,
    };
    let mut out = Vec::new();
    relay::head(&facts, &relayed, &mut out);
    assert_eq!(out.windows(4).position(|window| window == b"\r\n\r\n"), Some(out.len() - 4), "its end is the only one");
    let mut space = head::field_space();
    let told = head::parse(&out, &mut space, &WIDER).unwrap_or_else(|_| panic!("no request: {}", out.escape_ascii()));
    check(&request, &path, &relayed, &told);
});

fn check(request: &Request<'_, '_>, path: &Path, relayed: &Relayed<'_>, told: &Request<'_, '_>) {
    assert_eq!((told.method_name, told.query, told.version), (request.method_name, request.query, Version::Http11));
    let mut again = Path::default();
    assert!(target::parse_into(told.path, &mut again).is_ok() && again.bytes() == path.bytes(), "{}", told.path.escape_ascii());
    let all = |name: &str| told.fields(name).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_eq!(all("host"), [request.authority.unwrap_or(b"s.test").to_vec()]);
    // A method that means to send something is told that it does not.
    let is_same = told.framing == relayed.framing || (relayed.framing == Framing::None && told.framing == Framing::Length(0));
    assert!(is_same && all("content-length").len() + all("transfer-encoding").len() <= 1);
    assert_eq!(all("upgrade"), relayed.upgrade.iter().map(|protocol| protocol.to_vec()).collect::<Vec<_>>());
    assert_eq!(all("x-forwarded-for"), [b"192.0.2.1".to_vec()]);
    assert_eq!((all("x-forwarded-proto").len(), all("x-forwarded-host").len()), (1, 1));
    for name in ["te", "trailer", "keep-alive", "proxy", "proxy-authorization", "proxy-connection", "forwarded", "x-real-ip", "expect"] {
        assert!(all(name).is_empty(), "{name}");
    }
    let ours = ["host", "connection", "upgrade", "content-length", "transfer-encoding"];
    for (name, value) in told.all_fields() {
        let lower = name.to_ascii_lowercase();
        let is_ours = ours.contains(&lower.as_str()) || lower.starts_with("x-forwarded-");
        assert!(is_ours || request.fields(name).any(|known| known == value), "{name} is nobody's");
        assert!(!name.contains('_'), "{name} passes for another in many a program");
    }
}
