//! Changes of messages, the same in every run.

use crate::seeds::PIECES;

/// Numbers that look random, from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// xorshift64*
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % bound
    }
}

/// One of the seeds with one to four changes, or now and then as it is.
pub(crate) fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(5) {
        change(&mut bytes, seeds, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(4)).min(bytes.len());
    let piece = PIECES[random.below(PIECES.len())];
    match random.below(9) {
        0 => drop(bytes.splice(at..end, [])),
        1 | 2 => drop(bytes.splice(at..at, piece.iter().copied())),
        3 => drop(bytes.splice(at..end, piece.iter().copied())),
        // A line again, gone, or of another message.
        4 => {
            let line = line_at(bytes, at);
            let again = bytes[line.clone()].to_vec();
            drop(bytes.splice(line.start..line.start, again));
        }
        5 => drop(bytes.splice(line_at(bytes, at), [])),
        6 => {
            let other = &seeds[random.below(seeds.len())];
            let line = other[line_at(other, random.below(other.len()))].to_vec();
            let start = line_at(bytes, at).start;
            drop(bytes.splice(start..start, line));
        }
        // Another byte, or the other case.
        7 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = u8::try_from(random.below(256)).unwrap();
            }
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 0x20;
            }
        }
    }
}

/// The line that a position lies in, with its end.
fn line_at(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let at = at.min(bytes.len());
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |after| at + after + 1);
    start..end
}
