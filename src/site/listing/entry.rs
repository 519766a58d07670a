//! What is listed: a directory, and the entries in it.
//!
//! Runs in the `worker`; pure data.

use crate::proto::date;
use crate::proto::target::Path;

/// One name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'n> {
    /// Any bytes but `/` and NUL.
    pub name: &'n [u8],
    pub directory: bool,
    /// In bytes; of a directory it means nothing.
    pub size: u64,
    /// In seconds since 1970.
    pub modified: i64,
}

/// The directory that is listed, as the request named it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    pub path: &'p Path,
    /// As it was sent.
    pub raw: &'p [u8],
}

/// A time as RFC 3339 has it, in UTC: `1994-11-06T08:49:37Z`; made from the one form of date there is.
pub(super) fn timestamp(unix: i64) -> [u8; 20] {
    let date = date::imf_fixdate(unix);
    let (day, month, year, clock) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
    let month = MONTHS.iter().find(|(name, _)| *name == month).map_or(b"01", |(_, number)| *number);
    let mut text = *b"1970-01-01T00:00:00Z";
    for (at, piece) in [(0, year), (5, month), (8, day), (11, clock)] {
        text[at..at + piece.len()].copy_from_slice(piece);
    }
    text
}

const MONTHS: [(&[u8], &[u8; 2]); 12] = [
    (b"Jan", b"01"),
    (b"Feb", b"02"),
    (b"Mar", b"03"),
    (b"Apr", b"04"),
    (b"May", b"05"),
    (b"Jun", b"06"),
    (b"Jul", b"07"),
    (b"Aug", b"08"),
    (b"Sep", b"09"),
    (b"Oct", b"10"),
    (b"Nov", b"11"),
    (b"Dec", b"12"),
];
