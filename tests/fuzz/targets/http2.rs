//! A request of HTTP/2 written down as one of HTTP/1.1: one request, and the one that it was.

#![no_main]

use anchorite::proto::head::{self, Framing, HeadLimits, Scan, Version};
use anchorite::proto::http2;
use http::{HeaderName, HeaderValue, Request};

const LIMITS: HeadLimits = HeadLimits { request_line: 8192, header_bytes: 8192, header_count: 64 };

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let (Some(method), Some(uri)) = (lines.next(), lines.next()) else { return };
    let Ok(mut request) = Request::builder().method(method).uri(uri).body(()) else { return };
    for line in lines {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let value = line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..]);
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..at]), HeaderValue::from_bytes(value)) else { continue };
        request.headers_mut().append(name, value);
    }
    let ends = data.len() % 2 == 0;
    let mut text = Vec::new();
    if http2::write_head(&request, ends, &mut text).is_err() {
        return;
    }
    assert_eq!(text.windows(4).position(|window| window == b"\r\n\r\n"), Some(text.len() - 4), "its end is the only one");
    // No socket can say it.
    assert!(Scan::default().advance(&text, &LIMITS).is_err());
    let Ok(Some(length)) = Scan::http2().advance(&text, &LIMITS) else { return };
    assert_eq!(length, text.len());
    let mut space = head::field_space();
    let Ok(read) = head::parse(&text, &mut space, &LIMITS) else { return };
    assert_eq!((read.version, read.method_name), (Version::Http2, request.method().as_str().as_bytes()));
    let has_length = request.headers().contains_key("content-length");
    assert_eq!(read.framing == Framing::Chunked, !ends && !has_length);
    // Every field is there with its value, and no other.
    let ours = |name: &str| matches!(name, "Host" | "host" | "cookie" | "transfer-encoding");
    let mut fields: Vec<_> = read.all_fields().filter(|(name, _)| !ours(name)).collect();
    let mut sent: Vec<_> = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).filter(|(name, _)| !ours(name)).collect();
    fields.sort_unstable();
    sent.sort_unstable();
    assert_eq!(fields, sent);
    let crumbs: Vec<_> = request.headers().get_all("cookie").iter().map(|value| value.as_bytes()).filter(|crumb| !crumb.is_empty()).collect();
    assert_eq!(read.field("cookie").unwrap_or_default(), crumbs.join(&b"; "[..]));
});
