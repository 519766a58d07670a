//! A chunked body: the same content and the same end however it arrives, and within its limits.

#![no_main]

use anchorite::proto::body::{Body, BodyLimits, Piece};
use anchorite::proto::head::Framing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[size, step], data)) = data.split_first_chunk::<2>() else { return };
    let limits = BodyLimits { content: u64::from(size) * 16, trailer_bytes: 200, trailer_count: 4 };
    let whole = read(data, data.len().max(1), &limits);
    for step in [1, usize::from(step % 17) + 1] {
        assert_eq!(read(data, step, &limits), whole, "in steps of {step}");
    }
    if let End::At { used, content } = whole {
        assert!(content.len() as u64 <= limits.content && used <= data.len());
        assert_eq!(plainly(&data[..used]), content, "read in the plainest way");
        assert!(data[..used].ends_with(b"\r\n"));
    }
});

#[derive(Debug, PartialEq, Eq)]
enum End {
    At { used: usize, content: Vec<u8> },
    Open { content: Vec<u8> },
    /// The status; how much was handed out before depends on how it came.
    Refused(u16),
}

/// Hands in so many bytes at a time.
fn read(data: &[u8], step: usize, limits: &BodyLimits) -> End {
    let Ok(Some(mut body)) = Body::begin(Framing::Chunked, limits) else { panic!("chunks have no length to refuse") };
    let (mut content, mut used) = (Vec::new(), 0);
    for part in data.chunks(step) {
        let mut input = part;
        loop {
            match body.read(&mut input) {
                Ok(Piece::Data(bytes)) => content.extend_from_slice(bytes),
                Ok(Piece::More) => break,
                Ok(Piece::End) => return End::At { used: used + part.len() - input.len(), content },
                Err(reject) => return End::Refused(reject.status.code()),
            }
        }
        assert!(input.is_empty(), "asks for more before it has used what is there");
        used += part.len();
    }
    End::Open { content }
}

/// RFC 9112, 7.1, without limits, for a body that was accepted.
fn plainly(data: &[u8]) -> Vec<u8> {
    let (mut content, mut rest) = (Vec::new(), data);
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a size has a line");
        let digits = rest[..end].split(|byte| *byte == b';').next().unwrap_or_default();
        let line = std::str::from_utf8(digits).expect("a size is ASCII");
        let size = usize::from_str_radix(line, 16).expect("a size is hexadecimal");
        assert!(line.bytes().all(|byte| byte.is_ascii_hexdigit()));
        rest = &rest[end + 2..];
        if size == 0 {
            assert!(rest == b"\r\n" || rest.ends_with(b"\r\n\r\n"), "the trailer section ends with an empty line");
            return content;
        }
        content.extend_from_slice(&rest[..size]);
        assert_eq!(&rest[size..size + 2], b"\r\n");
        rest = &rest[size + 2..];
    }
}
