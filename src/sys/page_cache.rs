//! What of a file the kernel has in memory: asked without waiting by workers, brought there by `files`, which waits.
//!
//! preadv2(2) with RWF_NOWAIT, pread(2). A read that finds a page missing waits for the disk, for as long as that takes.

use nix::errno::Errno;
use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Whether a part of a file can be read without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    Memory,
    Disk,
    /// The file system cannot say.
    Unknown,
}

/// Whether a part of a file is in memory: its first and its last byte stand for all of it, since pages come and go in runs. Where both lie
/// in the same page, one says what the other would.
pub fn residence(file: &OwnedFd, offset: u64, length: u64) -> Residence {
    let Some(last) = length.checked_sub(1) else { return Residence::Memory };
    match residence_of_byte(file, offset) {
        Residence::Memory if offset / PAGE != offset.saturating_add(last) / PAGE => residence_of_byte(file, offset.saturating_add(last)),
        residence @ (Residence::Memory | Residence::Disk | Residence::Unknown) => residence,
    }
}

fn residence_of_byte(file: &OwnedFd, offset: u64) -> Residence {
    let mut byte = 0u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let Ok(offset) = i64::try_from(offset) else { return Residence::Memory };
    // SAFETY: one part of one byte, which is live and exclusively borrowed.
    let result = unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) };
    match Errno::result(result) {
        Err(Errno::EAGAIN) => Residence::Disk,
        Err(Errno::EOPNOTSUPP) => Residence::Unknown,
        // The end of the file; or a fault, which the read that follows meets too and answers for.
        Ok(_) | Err(_) => Residence::Memory,
    }
}

/// Brings a part of a file into memory, up to its end, and waits for it.
///
/// # Errors
/// The errno of pread(2).
pub fn bring(file: &OwnedFd, offset: u64, length: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut at = offset;
    let end = offset.saturating_add(length);
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let Some(room) = piece.get_mut(..wanted) else { break };
        let count = nix::sys::uio::pread(file, room, i64::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?)?;
        if count == 0 {
            break;
        }
        at += u64::try_from(count).unwrap_or(u64::MAX);
    }
    Ok(())
}

/// The smallest page there is, in bytes.
const PAGE: u64 = 4096;

/// Bytes read at once.
const PIECE: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_brought_is_in_memory_and_a_part_beyond_the_end_is_no_fault() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 300_000]).unwrap();
        let file = OwnedFd::from(file);
        for (offset, length) in [(0, 0), (0, 1), (0, 300_000), (299_999, 1), (300_000, 1), (1 << 40, 1 << 20), (u64::MAX, 1)] {
            if i64::try_from(offset).is_ok() {
                bring(&file, offset, length).unwrap();
            }
            assert_ne!(residence(&file, offset, length), Residence::Disk, "{offset} {length}");
        }
    }
}
