//! Content codings put on: one interface to gzip, Brotli and Zstandard.
//!
//! Runs in the worker, on bytes of files that are served and never on a client's; makes no system call.

use crate::proto::coding::Coding;
use crate::proto::status::Status;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

/// A coding being put on content.
pub(super) enum Encoder {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
}

impl Encoder {
    /// For `length` bytes of content, if that is known.
    ///
    /// # Errors
    /// What the library says, which is that memory ran out.
    pub(super) fn new(coding: Coding, length: Option<u64>) -> io::Result<Encoder> {
        Ok(match coding {
            Coding::Gzip => Encoder::Gzip(Box::new(GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL)))),
            Coding::Brotli => {
                let window = brotli_window(length.unwrap_or(u64::MAX));
                Encoder::Brotli(Box::new(brotli::CompressorWriter::new(Vec::new(), BROTLI_BUFFER, BROTLI_QUALITY, window)))
            }
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                // Smaller tables for small content, and a window that every client has to have (RFC 9659: 8 MiB).
                encoder.set_pledged_src_size(length)?;
                Encoder::Zstd(Box::new(encoder))
            }
        })
    }

    /// Takes content.
    ///
    /// # Errors
    /// As [`Encoder::new`].
    pub(super) fn write(&mut self, content: &[u8]) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.write_all(content),
            Encoder::Brotli(encoder) => encoder.write_all(content),
            Encoder::Zstd(encoder) => encoder.write_all(content),
        }
    }

    /// Moves what has been made so far to the end of `out`.
    pub(super) fn drain(&mut self, out: &mut Vec<u8>) {
        out.append(match self {
            Encoder::Gzip(encoder) => encoder.get_mut(),
            Encoder::Brotli(encoder) => encoder.get_mut(),
            Encoder::Zstd(encoder) => encoder.get_mut(),
        });
    }

    /// Ends the content; what had not been drained.
    ///
    /// # Errors
    /// As [`Encoder::new`].
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Brotli(encoder) => Ok(encoder.into_inner()),
            Encoder::Zstd(encoder) => encoder.finish(),
        }
    }

    /// Bytes of memory that it holds, by estimate: window and tables at these levels, rather too many than too few.
    pub(super) fn memory(&self) -> usize {
        match self {
            Encoder::Gzip(_) => 300 * 1024,
            Encoder::Brotli(_) | Encoder::Zstd(_) => 4 * 1024 * 1024,
        }
    }
}

/// Encodes content that is whole in memory.
///
/// # Errors
/// As [`Encoder::new`].
pub(super) fn encode(coding: Coding, content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(coding, u64::try_from(content.len()).ok())?;
    encoder.write(content)?;
    encoder.finish()
}

/// Logarithm of a window that holds the content, if it is no larger than 1 MiB: it is allocated whole.
fn brotli_window(length: u64) -> u32 {
    (u64::BITS - length.leading_zeros()).clamp(16, 20)
}

/// Built-in pages, encoded: there is one for each status, and so few of them that all are kept.
#[derive(Default)]
pub(super) struct EncodedPages(HashMap<(Status, Coding), Option<Rc<[u8]>>>);

impl EncodedPages {
    /// The page of a status, encoded; `None`: it gains nothing.
    pub(super) fn of(&mut self, status: Status, coding: Coding, page: &[u8]) -> Option<Rc<[u8]>> {
        let encoded = || encode(coding, page).ok().filter(|encoded| encoded.len() < page.len()).map(Rc::from);
        self.0.entry((status, coding)).or_insert_with(encoded).clone()
    }
}

/// Where each library is about ten times as fast as at its best, and loses a few per cent of size to it.
const GZIP_LEVEL: u32 = 6;
const BROTLI_QUALITY: u32 = 5;
const ZSTD_LEVEL: i32 = 3;

const BROTLI_BUFFER: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap(),
            Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap(),
            Coding::Zstd => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut out).unwrap(),
        };
        out
    }

    /// Text that compresses about as prose does.
    fn text(length: usize) -> Vec<u8> {
        let mut seed = 1u32;
        let words = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("word{} ", seed >> 22)
        });
        words.flat_map(String::into_bytes).take(length).collect()
    }

    #[test]
    fn what_was_encoded_decodes_to_the_same() {
        for coding in Coding::ALL {
            for length in [0, 1, 1000, 70_000, 300_000] {
                let content = text(length);
                let encoded = encode(coding, &content).unwrap();
                assert!(decoded(coding, &encoded) == content, "{coding:?} {length}");
                assert!(length < 1000 || encoded.len() < length / 2, "{coding:?} {length}: {}", encoded.len());
            }
        }
    }

    #[test]
    fn content_may_come_in_pieces_and_leave_in_pieces() {
        for coding in Coding::ALL {
            let content = text(200_000);
            let mut encoder = Encoder::new(coding, Some(200_000)).unwrap();
            let mut encoded = Vec::new();
            for piece in content.chunks(7_777) {
                encoder.write(piece).unwrap();
                encoder.drain(&mut encoded);
            }
            encoded.append(&mut encoder.finish().unwrap());
            assert!(decoded(coding, &encoded) == content, "{coding:?}");
        }
    }

    #[test]
    fn zstd_windows_are_no_larger_than_clients_must_have() {
        let encoded = encode(Coding::Zstd, &vec![0; 16 << 20]).unwrap();
        let mut decoder = zstd::stream::read::Decoder::new(encoded.as_slice()).unwrap();
        decoder.window_log_max(23).unwrap();
        assert_eq!(decoder.read_to_end(&mut Vec::new()).unwrap(), 16 << 20);
    }
}
