//! Pages that the server makes itself, encoded: errors from a table, lists of directories while they are made.
//!
//! Runs in the worker, as a part of [`Service`]; makes no system call. A page of our own holds nothing that is secret, so that what a
//! client puts into its target cannot find anything out by how well the answer is compressed.

use super::answer::{Incoming, Service, count};
use super::disk::Question;
use super::encoder::{self, Encoder};
use super::segment::{Produce, Produced};
use super::served::Slot;
use crate::ipc::disk::Outcome;
use crate::proto::coding::{Coding, Wanted};
use crate::proto::status::Status;
use crate::site::mime::ENCODED_MIN;
use std::io;
use std::rc::Rc;

/// How a page goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageCoding {
    pub(super) coding: Option<Coding>,
    /// Whether another request may get another form.
    pub(super) varies: bool,
}

impl Service {
    /// What a client wants a page of our own encoded with.
    pub(super) fn page_coding(&self, incoming: &Incoming<'_>, site: usize) -> PageCoding {
        let codings = self.codings(site);
        if codings.is_empty() || self.encoded_by_rule() {
            return PageCoding { coding: None, varies: false };
        }
        PageCoding { coding: Wanted::of(incoming.request).best(codings.iter().copied()), varies: true }
    }

    /// A built-in page as it goes out.
    pub(super) fn encoded_page(
        &mut self,
        incoming: &Incoming<'_>,
        site: usize,
        status: Status,
        page: &[u8],
    ) -> (PageCoding, Option<Rc<[u8]>>) {
        if count(page) < ENCODED_MIN {
            return (PageCoding { coding: None, varies: false }, None);
        }
        let chosen = self.page_coding(incoming, site);
        let encoded = chosen.coding.and_then(|coding| self.encoded_pages.of(status, coding, page));
        (PageCoding { coding: chosen.coding.filter(|_| encoded.is_some()), ..chosen }, encoded)
    }
}

/// A whole page of our own, encoded; `None`: it is too small to gain, or gains nothing.
pub(super) fn encode(coding: Coding, page: &[u8]) -> Option<Vec<u8>> {
    let is_worth = count(page) >= ENCODED_MIN;
    encoder::encode(coding, page).ok().filter(|encoded| is_worth && encoded.len() < page.len())
}

/// Content being encoded while something makes it. What is made at one call is encoded at that call, so that a slow client holds one piece
/// and the encoder's window, of however much there is.
pub(super) struct Encoded {
    source: Box<dyn Produce>,
    made: Vec<u8>,
    encoder: Option<Encoder>,
    _slot: Slot,
}

impl Encoded {
    /// # Errors
    /// Those of [`Encoder::new`].
    pub(super) fn new(coding: Coding, source: Box<dyn Produce>, slot: Slot) -> io::Result<Encoded> {
        Ok(Encoded { source, made: Vec::new(), encoder: Some(Encoder::new(coding, None)?), _slot: slot })
    }
}

impl Produce for Encoded {
    fn produce(&mut self, out: &mut Vec<u8>) -> io::Result<Produced> {
        self.made.clear();
        let Some(encoder) = self.encoder.as_mut() else {
            return Ok(Produced::End);
        };
        let produced = self.source.produce(&mut self.made)?;
        encoder.write(&self.made)?;
        encoder.drain(out);
        if produced == Produced::End
            && let Some(encoder) = self.encoder.take()
        {
            out.append(&mut encoder.finish()?);
        }
        Ok(produced)
    }

    fn memory(&self) -> usize {
        self.source.memory() + self.made.capacity() + self.encoder.as_ref().map_or(0, Encoder::memory)
    }

    fn wants(&self) -> Option<Question> {
        self.source.wants()
    }

    fn bring(&mut self, outcome: Outcome) {
        self.source.bring(outcome);
    }

    fn go_on_without(&mut self) -> bool {
        self.source.go_on_without()
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::tests::Pieces;
    use super::super::served::Budget;
    use super::*;
    use std::io::Read;

    #[test]
    fn s14_what_a_producer_makes_comes_encoded_however_it_comes() {
        let budget = Budget::new(0);
        for coding in Coding::ALL {
            let pieces: Vec<&'static [u8]> = vec![b"one ", b"", b"two ", b"three"];
            let slot = budget.slot().unwrap();
            let mut encoded = Encoded::new(coding, Box::new(Pieces(pieces, Produced::Wait)), slot).unwrap();
            let (mut all, mut waited) = (Vec::new(), 0);
            loop {
                let mut out = Vec::new();
                let produced = encoded.produce(&mut out).unwrap();
                all.append(&mut out);
                match produced {
                    Produced::More => {}
                    Produced::Wait => waited += 1,
                    Produced::End => break,
                }
            }
            assert_eq!(waited, 1);
            assert_eq!(encoded.produce(&mut all).unwrap(), Produced::End);
            let mut text = String::new();
            match coding {
                Coding::Gzip => flate2::read::GzDecoder::new(all.as_slice()).read_to_string(&mut text).unwrap(),
                Coding::Brotli => brotli::Decompressor::new(all.as_slice(), 4096).read_to_string(&mut text).unwrap(),
                Coding::Zstd => zstd::stream::read::Decoder::new(all.as_slice()).unwrap().read_to_string(&mut text).unwrap(),
            };
            assert_eq!(text, "one two three", "{coding:?}");
        }
        // Each gives its place back.
        assert!((0..super::super::served::ENCODERS_MAX).map(|_| budget.slot()).all(|slot| slot.is_some()));
    }

    #[test]
    fn a_small_page_is_not_encoded() {
        let page = vec![b'a'; usize::try_from(ENCODED_MIN).unwrap()];
        assert!(encode(Coding::Gzip, &page).is_some());
        assert!(encode(Coding::Gzip, &page[1..]).is_none());
    }
}
