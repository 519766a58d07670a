//! What `log` writes to: a file that the parent opened, or a socket that it connected to syslog. CONFINED like `log`, which
//! alone runs it; nothing here opens or connects, and nothing here waits.

use crate::config::Level;
use crate::ipc::syslog::Syslog;
use crate::sys::log_file;
use std::io;
use std::os::fd::OwnedFd;

/// One log.
pub(super) enum Sink {
    File {
        file: OwnedFd,
        /// The end of a line whose beginning was written when the disk was full: it goes before anything else.
        rest: Vec<u8>,
    },
    Syslog {
        socket: OwnedFd,
        syslog: Syslog,
        datagram: Vec<u8>,
        /// Nobody listens at it any more.
        dead: Option<u16>,
    },
}

/// Lines that could not be written, and why.
pub(super) struct Loss {
    pub(super) lines: u32,
    /// errno(3); 0: the file took nothing.
    pub(super) errno: u16,
}

impl Sink {
    pub(super) fn file(file: OwnedFd) -> Sink {
        Sink::File { file, rest: Vec::new() }
    }

    /// `pid` is the one that syslog is told.
    pub(super) fn syslog(socket: OwnedFd, pid: i32) -> Sink {
        Sink::Syslog { socket, syslog: Syslog::new(pid), datagram: Vec::new(), dead: None }
    }

    /// Whether the parent has to connect anew.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self, Sink::Syslog { dead: Some(_), .. })
    }

    /// Writes whole lines, each ended by LF. Whatever was lost, the next call tries again.
    pub(super) fn append(&mut self, level: Level, lines: &[u8]) -> Result<(), Loss> {
        match self {
            Sink::File { file, rest } => {
                if let Some(errno) = finish(file, rest) {
                    return Err(Loss { lines: count(lines), errno });
                }
                let (written, fault) = write_all(file, lines);
                let Some(errno) = fault else { return Ok(()) };
                let (written, left) = lines.split_at_checked(written).unwrap_or((lines, &[]));
                let torn = if written.is_empty() || written.ends_with(b"\n") {
                    0
                } else {
                    memchr::memchr(b'\n', left).map_or(left.len(), |end| end + 1)
                };
                let (torn, lost) = left.split_at_checked(torn).unwrap_or((left, &[]));
                rest.extend_from_slice(torn);
                Err(Loss { lines: count(lost), errno })
            }
            Sink::Syslog { socket, syslog, datagram, dead } => {
                let mut loss = Loss { lines: 0, errno: 0 };
                for line in lines.split_inclusive(|byte| *byte == b'\n') {
                    let errno = dead.or_else(|| {
                        syslog.datagram(level, line.strip_suffix(b"\n").unwrap_or(line), datagram);
                        let fault = log_file::append(socket, datagram).err()?;
                        let errno = errno_of(&fault);
                        // Full: syslog is slow, and the next line may find room. Anything else lasts until a new socket comes.
                        if fault.kind() != io::ErrorKind::WouldBlock {
                            *dead = Some(errno);
                        }
                        Some(errno)
                    });
                    if let Some(errno) = errno {
                        loss.lines += 1;
                        loss.errno = errno;
                    }
                }
                if loss.lines == 0 { Ok(()) } else { Err(loss) }
            }
        }
    }

    /// Takes over from the log that had its number. A line that was torn there and cannot be finished is ended here by an LF:
    /// this may be the same file.
    pub(super) fn succeed(&mut self, before: Sink) {
        if let (Sink::File { rest, .. }, Sink::File { file, rest: mut torn }) = (self, before)
            && finish(&file, &mut torn).is_some()
        {
            rest.push(b'\n');
        }
    }
}

/// Writes the end of a torn line; the errno where that fails.
fn finish(file: &OwnedFd, rest: &mut Vec<u8>) -> Option<u16> {
    let (written, fault) = write_all(file, rest);
    rest.drain(..written.min(rest.len()));
    fault
}

/// Appends everything; a short write is continued. How much was written, and the errno where that is not all.
fn write_all(file: &OwnedFd, bytes: &[u8]) -> (usize, Option<u16>) {
    let mut written = 0;
    while let Some(left) = bytes.get(written..).filter(|left| !left.is_empty()) {
        match log_file::append(file, left) {
            Ok(0) => return (written, Some(0)),
            Ok(count) => written += count,
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => return (written, Some(errno_of(&fault))),
        }
    }
    (written, None)
}

fn errno_of(fault: &io::Error) -> u16 {
    fault.raw_os_error().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0)
}

fn count(lines: &[u8]) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', lines).count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    #[test]
    fn a_torn_line_is_completed_before_the_next() {
        // A pipe-like end that takes only so much stands for a disk that is full for a while.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut sink = Sink::file(ours.into());
        let line = format!("{}\n", "x".repeat(4000));
        let batch = line.repeat(8);
        let (mut sent, mut lost) = (0, 0);
        while lost == 0 {
            sent += 8;
            lost += sink.append(Level::Info, batch.as_bytes()).map_or_else(|loss| loss.lines, |()| 0);
        }
        let mut received = Vec::new();
        let mut drain = |received: &mut Vec<u8>| while theirs.by_ref().take(1 << 20).read_to_end(received).is_ok_and(|count| count > 0) {};
        drain(&mut received);
        sink.append(Level::Info, line.as_bytes()).unwrap_or_else(|_| panic!("there is room again"));
        drain(&mut received);
        let text = String::from_utf8(received).unwrap();
        assert!(text.split_inclusive('\n').all(|found| found == line), "a torn line");
        assert_eq!(u32::try_from(text.lines().count()).unwrap(), sent - lost + 1);
    }

    #[test]
    fn l08_a_full_socket_loses_lines_and_a_dead_one_says_so() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut sink = Sink::syslog(ours.into(), 7);
        let batch = "line\n".repeat(100_000);
        let loss = sink.append(Level::Error, batch.as_bytes()).err().unwrap();
        assert!(loss.lines > 0 && loss.lines < 100_000 && !sink.is_dead());
        let mut buffer = [0; 100];
        let length = theirs.recv(&mut buffer).unwrap();
        assert!(buffer[..length].starts_with(b"<27>") && buffer[..length].ends_with(b"anchorite[7]: line"));
        assert!(sink.append(Level::Error, b"again\n").is_ok());
        drop(theirs);
        assert_eq!(sink.append(Level::Error, b"a\nb\n").err().unwrap().lines, 2);
        assert!(sink.is_dead());
    }
}
