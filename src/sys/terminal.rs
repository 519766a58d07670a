//! A line that is typed without being shown (termios(3)). Used by `anchorite password`.

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal, Read, Stdin, Write};

/// Asks on the terminal that standard input is; what is typed is not shown.
///
/// # Errors
/// `Interrupted`: it was broken off, by Ctrl-C, Ctrl-D or the end of the terminal.
pub fn ask_hidden(question: &str) -> io::Result<Vec<u8>> {
    let (mut out, input) = (io::stderr(), io::stdin());
    let hidden = Hidden::begin(&input)?;
    // Asked when nothing is shown any more.
    write!(out, "{question}")?;
    let line = read_keys(input.lock());
    drop(hidden);
    let _ = writeln!(out);
    line
}

/// Whether a person sits there.
pub fn is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// The terminal as it was, put back when this is dropped. Keys come one by one, those that would end this process too: it ends with the
/// terminal as it was.
struct Hidden<'t> {
    terminal: &'t Stdin,
    before: Termios,
}

impl Hidden<'_> {
    fn begin(terminal: &Stdin) -> io::Result<Hidden<'_>> {
        let before = tcgetattr(terminal)?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL | LocalFlags::ICANON | LocalFlags::ISIG);
        tcsetattr(terminal, SetArg::TCSAFLUSH, &hidden)?;
        Ok(Hidden { terminal, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, SetArg::TCSAFLUSH, &self.before);
    }
}

/// Keys up to the end of the line.
fn read_keys(mut input: impl Read) -> io::Result<Vec<u8>> {
    let (mut line, mut key) = (Vec::new(), [0]);
    loop {
        if input.read(&mut key)? == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match key[0] {
            b'\n' | b'\r' => return Ok(line),
            INTERRUPT | END => return Err(io::ErrorKind::Interrupted.into()),
            KILL => line.clear(),
            BACKSPACE | DELETE => {
                // The whole character, in UTF-8.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte => line.push(byte),
        }
    }
}

/// Ctrl-C, Ctrl-D, Ctrl-U, and the keys that take the last character back.
const INTERRUPT: u8 = 3;
const END: u8 = 4;
const KILL: u8 = 21;
const BACKSPACE: u8 = 8;
const DELETE: u8 = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_line() {
        assert_eq!(read_keys(b"abc\nd".as_slice()).unwrap(), b"abc");
        assert_eq!(read_keys("wrong\u{15}a\u{e4}\u{8}b\u{7f}c\r".as_bytes()).unwrap(), b"ac");
        for keys in [b"ab\x03\n".as_slice(), b"\x04", b"ab"] {
            assert_eq!(read_keys(keys).unwrap_err().kind(), io::ErrorKind::Interrupted, "{keys:?}");
        }
    }
}
