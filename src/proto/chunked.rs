//! The chunked transfer coding (RFC 9112, 7.1), read strictly.
//!
//! Runs in the `worker`, on bytes straight from the network; does no I/O, holds none of them and allocates nothing. Its own, since
//! readers that are lenient here are how requests are smuggled: lines end with CRLF and nothing else, a size is digits and nothing else,
//! no white space stands anywhere in a chunk's first line, and what would be passed over elsewhere (extensions, trailers) is checked
//! by its grammar and has a limit.

use super::piece::{BodyLimits, Piece, TOO_LARGE, take};
use super::request_line::is_token_byte;
use super::status::{Reject, Status};

/// A chunked body being read.
#[derive(Clone, Debug)]
pub struct Chunked {
    state: State,
    /// Bytes of content that may still be announced.
    allowed: u64,
    /// Bytes of extensions, and of the trailer section and its lines, that may still come.
    extensions: usize,
    trailer_bytes: usize,
    trailer_count: usize,
}

/// Which byte is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A digit of the size, or what ends it.
    Size {
        digits: u8,
        size: u64,
    },
    /// A byte of an extension, in a chunk of that size.
    Extension {
        part: Extension,
        size: u64,
    },
    /// The LF of a chunk's first line.
    SizeLf {
        size: u64,
    },
    /// Content, so many bytes of it.
    Data {
        remaining: u64,
    },
    /// The CR and the LF behind the content.
    DataCr,
    DataLf,
    /// A byte of the trailer section.
    Trailer(Trailer),
    /// The LF that ends the body.
    LastLf,
    Done,
}

/// Where in an extension: `";" name [ "=" ( token | quoted-string ) ]`. The grammar's white space is refused: it is there for what
/// old senders did (RFC 9110, 5.6.3), none of which send extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// The first byte of the name, then the others.
    Name,
    InName,
    /// The first byte of the value, then the others.
    Value,
    InValue,
    Quoted,
    /// Behind a backslash within quotes.
    Escaped,
    /// Behind the closing quote.
    Unquoted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trailer {
    /// The first byte of a line.
    Line,
    InName,
    InValue,
    Lf,
}

impl Chunked {
    pub fn new(limits: &BodyLimits) -> Chunked {
        Chunked {
            state: FIRST,
            allowed: limits.content,
            extensions: EXTENSIONS_MAX,
            trailer_bytes: limits.trailer_bytes,
            trailer_count: limits.trailer_count,
        }
    }

    /// Takes the next piece off the front of `input`. Extensions are passed over; trailers too, whatever they claim, since fields
    /// that decide how a request is read, or who sent it, may not come behind it (RFC 9110, 6.5.1).
    ///
    /// # Errors
    /// 400 for what the grammar does not have; 413 as soon as a chunk announces more content than the limit allows, and for extensions
    /// of more than [`EXTENSIONS_MAX`] bytes in all; 431 for a trailer section beyond its limits. It is not to be called again.
    pub fn read<'b>(&mut self, input: &mut &'b [u8]) -> Result<Piece<'b>, Reject> {
        loop {
            match &mut self.state {
                State::Data { remaining: 0 } => self.state = State::DataCr,
                State::Data { .. } if input.is_empty() => return Ok(Piece::More),
                State::Data { remaining } => return Ok(Piece::Data(take(input, remaining))),
                State::Done => return Ok(Piece::End),
                State::Size { .. }
                | State::Extension { .. }
                | State::SizeLf { .. }
                | State::DataCr
                | State::DataLf
                | State::Trailer(_)
                | State::LastLf => {
                    let Some((&byte, rest)) = input.split_first() else { return Ok(Piece::More) };
                    *input = rest;
                    self.state = self.framing(byte)?;
                }
            }
        }
    }

    /// The state behind a byte that is no content.
    fn framing(&mut self, byte: u8) -> Result<State, Reject> {
        match (self.state, byte) {
            (State::Size { digits, size }, _) => size_byte(digits, size, byte),
            (State::Extension { part, size }, _) => self.extension(part, size, byte),
            (State::SizeLf { size }, b'\n') => self.begin_chunk(size),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(FIRST),
            (State::DataCr, _) => Err(Reject::bad("chunk longer than its size")),
            (State::Trailer(part), _) => self.trailer(part, byte),
            (State::LastLf, b'\n') => Ok(State::Done),
            (State::SizeLf { .. } | State::DataLf | State::LastLf, _) => Err(Reject::bad("CR without LF in a chunked body")),
            // Not framing; `read` does not come here with them.
            (State::Data { .. } | State::Done, _) => Err(Reject::bad("malformed chunk")),
        }
    }

    fn begin_chunk(&mut self, size: u64) -> Result<State, Reject> {
        if size == 0 {
            return Ok(State::Trailer(Trailer::Line));
        }
        self.allowed = self.allowed.checked_sub(size).ok_or(TOO_LARGE)?;
        Ok(State::Data { remaining: size })
    }

    fn extension(&mut self, part: Extension, size: u64, byte: u8) -> Result<State, Reject> {
        use Extension::{Escaped, InName, InValue, Name, Quoted, Unquoted, Value};
        let next = match (part, byte) {
            (InName | InValue | Unquoted, b'\r') => return Ok(State::SizeLf { size }),
            (InName | InValue | Unquoted, b';') => Name,
            (InName, b'=') => Value,
            (Name | InName, byte) if is_token_byte(byte) => InName,
            (Value, b'"') => Quoted,
            (Value | InValue, byte) if is_token_byte(byte) => InValue,
            (Quoted, b'"') => Unquoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, byte) if is_text(byte) => Quoted,
            (Name | InName | Value | InValue | Quoted | Escaped | Unquoted, _) => return Err(Reject::bad("malformed chunk extension")),
        };
        self.extensions = self.extensions.checked_sub(1).ok_or(EXTENSIONS_TOO_LARGE)?;
        Ok(State::Extension { part: next, size })
    }

    fn trailer(&mut self, part: Trailer, byte: u8) -> Result<State, Reject> {
        let next = match (part, byte) {
            (Trailer::Line, b'\r') => return Ok(State::LastLf),
            (Trailer::Line, byte) if is_token_byte(byte) => {
                self.trailer_count = self.trailer_count.checked_sub(1).ok_or(TRAILERS_TOO_LARGE)?;
                Trailer::InName
            }
            (Trailer::InName, b':') => Trailer::InValue,
            (Trailer::InName, byte) if is_token_byte(byte) => Trailer::InName,
            (Trailer::InValue, b'\r') => Trailer::Lf,
            (Trailer::InValue, byte) if is_text(byte) => Trailer::InValue,
            (Trailer::Lf, b'\n') => Trailer::Line,
            (Trailer::Line | Trailer::InName | Trailer::InValue | Trailer::Lf, _) => return Err(Reject::bad("malformed trailer")),
        };
        self.trailer_bytes = self.trailer_bytes.checked_sub(1).ok_or(TRAILERS_TOO_LARGE)?;
        Ok(State::Trailer(next))
    }
}

/// 1*HEXDIG. Leading zeros are part of the digits that are counted, so that no number of them is endless.
fn size_byte(digits: u8, size: u64, byte: u8) -> Result<State, Reject> {
    if let Some(digit) = char::from(byte).to_digit(16) {
        if digits == SIZE_DIGITS_MAX {
            return Err(Reject::bad("chunk size of too many digits"));
        }
        return Ok(State::Size { digits: digits + 1, size: size << 4 | u64::from(digit) });
    }
    match byte {
        b'\r' if digits > 0 => Ok(State::SizeLf { size }),
        b';' if digits > 0 => Ok(State::Extension { part: Extension::Name, size }),
        _ => Err(Reject::bad("malformed chunk size")),
    }
}

/// What may stand in quotes and in a field's value: HTAB, SP, VCHAR and obs-text (RFC 9110, 5.5 and 5.6.4).
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

const FIRST: State = State::Size { digits: 0, size: 0 };

/// Digits of a chunk's size: as many as 64 bits have.
const SIZE_DIGITS_MAX: u8 = 16;

/// Bytes of the extensions of all chunks of a body, without their first semicolons. Nobody uses them, but a sender could make a
/// reader work through far more of them than content (RFC 9112, 7.1.1; CVE-2023-39326).
pub const EXTENSIONS_MAX: usize = 16 * 1024;

const EXTENSIONS_TOO_LARGE: Reject = Reject::new(Status::CONTENT_TOO_LARGE, "chunk extensions beyond the limit");
const TRAILERS_TOO_LARGE: Reject = Reject::new(Status::REQUEST_HEADER_FIELDS_TOO_LARGE, "trailer section beyond the limit");

#[cfg(test)]
mod tests;
