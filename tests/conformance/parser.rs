//! The parser of the program, driven as a connection drives it.

use crate::grammar::{self, Message};
use anchorite::proto::body::{Body, BodyLimits, Piece};
use anchorite::proto::head::{self, HeadLimits, Scan};
use anchorite::proto::status::Reject;

const HEAD: HeadLimits =
    HeadLimits { request_line: grammar::REQUEST_LINE, header_bytes: grammar::HEADER_BYTES, header_count: grammar::HEADER_COUNT };
const LIMITS: BodyLimits =
    BodyLimits { content: grammar::BODY, trailer_bytes: grammar::HEADER_BYTES, trailer_count: grammar::HEADER_COUNT };

/// The message that a buffer begins with; `Ok(None)` when more must come.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<Message>, Reject> {
    read_split(bytes, bytes.len())
}

/// The same, of bytes that come in two parts.
pub(crate) fn read_split(bytes: &[u8], cut: usize) -> Result<Option<Message>, Reject> {
    let mut scan = Scan::default();
    let length = match scan.advance(&bytes[..cut], &HEAD)? {
        Some(length) => length,
        None => match scan.advance(bytes, &HEAD)? {
            Some(length) => length,
            None => return Ok(None),
        },
    };
    let mut space = head::field_space();
    let request = head::parse(&bytes[..length], &mut space, &HEAD)?;
    let (first, second) = bytes[length..].split_at(cut.saturating_sub(length));
    let Some((body, used)) = read_body(Body::begin(request.framing, &LIMITS)?, [first, second])? else {
        return Ok(None);
    };
    Ok(Some(Message {
        method: request.method_name.to_vec(),
        target: request.target.to_vec(),
        host: request.host.map(<[u8]>::to_vec),
        fields: request.all_fields().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect(),
        body,
        length: length + used,
    }))
}

/// The content of a body, and the bytes it took.
fn read_body(body: Option<Body>, parts: [&[u8]; 2]) -> Result<Option<(Vec<u8>, usize)>, Reject> {
    let Some(mut body) = body else { return Ok(Some((Vec::new(), 0))) };
    let (mut content, mut used) = (Vec::new(), 0);
    for part in parts {
        let mut rest = part;
        loop {
            match body.read(&mut rest)? {
                Piece::Data(data) => content.extend_from_slice(data),
                Piece::More => break,
                Piece::End => return Ok(Some((content, used + part.len() - rest.len()))),
            }
        }
        used += part.len();
    }
    Ok(None)
}
