//! F45: the parser and the grammar on the same bytes.

use crate::grammar::{self, Verdict};
use crate::mutation::{Random, mutated};
use crate::{everything, parser, seeds};

/// Compares what both make of a buffer, message after message; how many there were.
fn compare(bytes: &[u8], cut: Option<usize>) -> usize {
    let mut rest = bytes;
    for count in 0..4 {
        let ours = parser::read(rest);
        if let Some(cut) = cut {
            let split = parser::read_split(rest, cut.min(rest.len()));
            assert_eq!(split, ours, "cut at {cut}: {}", rest.escape_ascii());
        }
        match (ours, grammar::read(rest)) {
            (Ok(Some(ours)), Verdict::Message(theirs)) => {
                assert_eq!(ours, theirs, "read otherwise: {}", rest.escape_ascii());
                rest = &rest[ours.length..];
            }
            (Err(_) | Ok(None), Verdict::None) => return count,
            (ours, theirs) => panic!("{ours:?} but the grammar {theirs:?}: {}", rest.escape_ascii()),
        }
    }
    4
}

#[test]
fn f45_mutations_of_the_catalogue_are_read_as_the_grammar_says() {
    let count = if everything() { 1_000_000 } else { 100_000 };
    println!("seed {SEED:#x}, {count} mutations");
    let (seeds, mut random) = (seeds::seeds(), Random::new(SEED));
    let (mut accepted, mut refused, mut several) = (0, 0, 0);
    for _ in 0..count {
        let bytes = mutated(&seeds, &mut random);
        let cut = (random.below(4) == 0).then(|| random.below(bytes.len() + 1));
        match compare(&bytes, cut) {
            0 => refused += 1,
            1 => accepted += 1,
            _ => several += 1,
        }
    }
    println!("{accepted} accepted, {several} with another behind them, {refused} not");
    // The changes are neither so small nor so large that one side goes untested.
    assert!(accepted > count / 10 && refused > count / 10 && several > count / 50, "{accepted} {several} {refused}");
}

#[test]
fn f39_f45_every_seed_is_read_the_same_however_it_is_cut() {
    for seed in seeds::seeds() {
        for cut in 0..=seed.len() {
            compare(&seed, Some(cut));
            compare(&seed[..cut], None);
        }
    }
}

const SEED: u64 = 0x0a9c_1e57_2026_0045;
