//! Access lines: one line of printable ASCII in every format, whatever a client sends; JSON that a parser takes.

#![no_main]

use anchorite::config::{self, LogFormat};
use anchorite::site::facts::{Fields, Scheme};
use anchorite::site::log_format::{self, Exchange};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

static FORMATS: LazyLock<Vec<LogFormat>> = LazyLock::new(|| {
    let every = "{method} {path} {query} {host} {status} {bytes} {header.user-agent} {client} {request_line} \\\" {duration}";
    ["common", "combined", "vhost_combined", "json", every]
        .into_iter()
        .filter_map(|format| {
            let text = format!("[log]\nformat = \"{format}\"\n[[site]]\nroot = \"/srv/www\"\n");
            config::parse(&text, Path::new("/nowhere/a.toml")).ok().map(|config| config.log.format)
        })
        .collect()
});

struct One<'a>(&'a [u8]);

impl Fields for One<'_> {
    fn any(&self, _: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        test(self.0)
    }

    fn first(&self, _: &str) -> Option<&[u8]> {
        Some(self.0)
    }

    fn each<'f>(&'f self, visit: &mut dyn FnMut(&'f str, &'f [u8])) {
        visit("X", self.0);
    }
}

libfuzzer_sys::fuzz_target!(|data: (u8, u16, u64, &[u8])| {
    let (cap, status, bytes, text) = data;
    assert!(FORMATS.len() >= 4);
    let mut parts = text.split(|byte| *byte == 0xFF);
    let mut part = || parts.next().unwrap_or_default();
    let agent = part();
    let exchange = Exchange {
        client: IpAddr::V6(Ipv6Addr::from(u128::from(bytes))),
        user: part(),
        time: b"30/Nov/2026:10:00:00 +0100",
        unix: i64::from(status),
        request_line: part(),
        method: part(),
        raw_path: part(),
        path: part(),
        query: Some(part()),
        host: part(),
        site: part(),
        port: status,
        scheme: Scheme::Http,
        status,
        bytes,
        duration: Duration::from_millis(bytes),
        request_id: b"0123456789abcdef",
        tls_version: "",
        tls_sni: "",
        tls_client: "",
        fields: &One(agent),
    };
    for format in FORMATS.iter() {
        let mut line = Vec::new();
        log_format::render(format, &exchange, usize::from(cap), &mut line);
        let line = line.strip_suffix(b"\n").expect("a line ends");
        assert!(line.iter().all(|byte| matches!(byte, b' '..=b'~')), "{format:?}: {}", String::from_utf8_lossy(line));
        if matches!(format, LogFormat::Json) {
            serde_json::from_slice::<serde_json::Value>(line).unwrap_or_else(|fault| panic!("{fault}: {}", String::from_utf8_lossy(line)));
        }
    }
});
