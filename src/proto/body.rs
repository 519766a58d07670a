//! The body of a request as it comes: how far it goes, and what of the bytes received is content (RFC 9112, 6).
//!
//! Runs in the `worker`, on bytes straight from the network; does no I/O, holds none of them and allocates nothing. What becomes of the
//! content is for the caller to say: it is handed out piece by piece where it lies in the buffer. Whoever has room for no more than so
//! many bytes hands in no more than so many, since framing only ever makes them fewer; whoever has no room hands in none.

pub use super::piece::{BodyLimits, Piece};

use super::chunked::Chunked;
use super::head::Framing;
use super::piece::{TOO_LARGE, take};
use super::status::Reject;

/// A body of which something is still to come.
///
/// ```text
/// begin ── None: there is no body
///   └── Some(Body) ── read ── Piece::Data*, Piece::More (receive again)
///                       ├── Piece::End: the next byte is the next request's
///                       └── Reject: where the next request begins cannot be known
/// ```
#[derive(Clone, Debug)]
pub enum Body {
    /// Content-Length said how many bytes; so many are still to come.
    Counted(u64),
    /// It says itself where it ends.
    Chunked(Chunked),
}

impl Body {
    /// The body that follows a head; `None` where there is none.
    ///
    /// # Errors
    /// 413 for a length beyond the limit, before a byte of it is read.
    pub fn begin(framing: Framing, limits: &BodyLimits) -> Result<Option<Body>, Reject> {
        match framing {
            Framing::None | Framing::Length(0) => Ok(None),
            Framing::Length(length) if length > limits.content => Err(TOO_LARGE),
            Framing::Length(length) => Ok(Some(Body::Counted(length))),
            Framing::Chunked => Ok(Some(Body::Chunked(Chunked::new(limits)))),
        }
    }

    /// Takes the next piece off the front of `input`. To be called again until it says [`Piece::More`] or [`Piece::End`].
    ///
    /// # Errors
    /// As the reading of chunks.
    pub fn read<'b>(&mut self, input: &mut &'b [u8]) -> Result<Piece<'b>, Reject> {
        match self {
            Body::Counted(0) => Ok(Piece::End),
            Body::Counted(_) if input.is_empty() => Ok(Piece::More),
            Body::Counted(remaining) => Ok(Piece::Data(take(input, remaining))),
            Body::Chunked(chunked) => chunked.read(input),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::Status;
    use super::*;

    const LIMITS: BodyLimits = BodyLimits { content: 10, trailer_bytes: 100, trailer_count: 3 };

    #[test]
    fn without_length_or_with_a_length_of_none_there_is_no_body() {
        assert!(matches!(Body::begin(Framing::None, &LIMITS), Ok(None)));
        assert!(matches!(Body::begin(Framing::Length(0), &LIMITS), Ok(None)));
    }

    #[test]
    fn s11_a_length_at_the_limit_is_read_and_one_beyond_is_413_at_once() {
        assert!(matches!(Body::begin(Framing::Length(10), &LIMITS), Ok(Some(Body::Counted(10)))));
        assert_eq!(Body::begin(Framing::Length(11), &LIMITS).unwrap_err().status, Status::CONTENT_TOO_LARGE);
        assert_eq!(Body::begin(Framing::Length(i64::MAX.unsigned_abs()), &LIMITS).unwrap_err().status, Status::CONTENT_TOO_LARGE);
    }

    #[test]
    fn a_counted_body_ends_where_it_said_however_it_is_split() {
        let bytes = b"0123456789GET /";
        for at in 0..=bytes.len() {
            let mut body = Body::begin(Framing::Length(10), &LIMITS).unwrap().unwrap();
            let (mut content, mut left, mut ended) = (Vec::new(), Vec::new(), false);
            for mut part in [&bytes[..at], &bytes[at..]] {
                loop {
                    match body.read(&mut part).unwrap() {
                        Piece::Data(data) => content.extend_from_slice(data),
                        Piece::More => break assert!(part.is_empty()),
                        Piece::End => break ended = true,
                    }
                }
                left.extend_from_slice(part);
            }
            assert!(ended && content == b"0123456789" && left == b"GET /", "split at {at}: {}", content.escape_ascii());
        }
    }
}
