//! What a backend says on its error stream, by lines.
//!
//! Runs in the worker, on bytes of a program that may be hostile; does no I/O.

/// The error stream, by lines.
#[derive(Default)]
pub(super) struct Stderr {
    partial: Vec<u8>,
    lines: Vec<Vec<u8>>,
    left_out: usize,
}

impl Stderr {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                b'\r' => {}
                byte if self.partial.len() < LINE_MAX => self.partial.push(*byte),
                _ => {}
            }
        }
    }

    /// Nothing more comes: what is there is a line.
    pub(super) fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if line.is_empty() {
            return;
        }
        if self.lines.len() < LINES_MAX { self.lines.push(line) } else { self.left_out += 1 }
    }

    /// The lines that have come, and how many more there were.
    pub(super) fn lines(&mut self) -> (Vec<Vec<u8>>, usize) {
        (std::mem::take(&mut self.lines), std::mem::take(&mut self.left_out))
    }
}

/// What is kept of one line, and how many lines at a time.
const LINE_MAX: usize = 1_024;
const LINES_MAX: usize = 32;
