//! Shared memory among workers (memfd_create(2), mmap(2)): one sealed file of atomic integers, mapped by every living
//! worker and by nobody else. There are no pointers and no locks in it, and what is read is believed by nobody: a hijacked
//! worker can write any number.

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Atomic integers that all workers see.
#[derive(Clone, Copy)]
pub struct Shared {
    cells: &'static [AtomicU64],
}

/// Integers in the file: counters and gauges, the table of clients, connections to backends. Pages that nobody touched take no memory.
pub const CELLS: usize = COUNTER_CELLS + CLIENT_CELLS + BACKEND_CELLS;
/// What is counted, and a row for each worker.
pub const COUNTER_CELLS: usize = 16 * 1024;
/// 65,536 clients of four integers each.
pub const CLIENT_CELLS: usize = 256 * 1024;
/// Connections to backends, requests that wait for them and those that had no word yet, of each worker.
pub const BACKEND_CELLS: usize = 192 * 1024;
pub const BACKEND_FIRST: usize = COUNTER_CELLS + CLIENT_CELLS;

/// A new file of zeros, whose size nobody can change. The parent keeps it and does not map it.
///
/// # Errors
/// The errno of memfd_create(2), ftruncate(2) or fcntl(2).
pub fn create() -> io::Result<OwnedFd> {
    let file = memfd_create(c"anchorite counters", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    nix::unistd::ftruncate(&file, i64::try_from(size()).map_err(|_| io::ErrorKind::FileTooLarge)?)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL))?;
    Ok(file)
}

impl Shared {
    /// Maps the file; the descriptor is not needed any more.
    ///
    /// # Errors
    /// The errno of fstat(2) or mmap(2); `InvalidInput` for a file of another size.
    pub fn map(file: OwnedFd) -> io::Result<Shared> {
        let length = usize::try_from(nix::sys::stat::fstat(&file)?.st_size).unwrap_or(0);
        let seals = SealFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GET_SEALS)?);
        if length != size() || !seals.contains(SealFlag::F_SEAL_SHRINK) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let length = NonZeroUsize::new(length).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = nix::sys::mman::ProtFlags::PROT_READ | nix::sys::mman::ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe { nix::sys::mman::mmap(None, length, protection, nix::sys::mman::MapFlags::MAP_SHARED, &file, 0)? };
        // SAFETY: the mapping is page-aligned, `CELLS` integers long, never unmapped, and cannot fault: the file is sealed
        // against shrinking. Other processes change it, which is what atomics are for.
        let cells = unsafe { std::slice::from_raw_parts(address.cast::<AtomicU64>().as_ptr(), CELLS) };
        Ok(Shared { cells })
    }

    /// Adds to an integer; one that does not exist is left out.
    pub fn add(&self, cell: usize, value: u64) {
        if let Some(cell) = self.cells.get(cell) {
            cell.fetch_add(value, Ordering::Relaxed);
        }
    }

    pub fn set(&self, cell: usize, value: u64) {
        if let Some(cell) = self.cells.get(cell) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Sets an integer and returns what it was.
    pub fn swap(&self, cell: usize, value: u64) -> u64 {
        self.cells.get(cell).map_or(0, |cell| cell.swap(value, Ordering::Relaxed))
    }

    /// Sets an integer if it is what it was believed to be; whether it was.
    pub fn exchange(&self, cell: usize, old: u64, new: u64) -> bool {
        self.cells.get(cell).is_some_and(|cell| cell.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok())
    }

    /// Changes an integer to what `next` makes of it, or leaves it where that is `None`; what it was. Tried again a few times where others
    /// change it meanwhile, then left: nobody can keep a worker here.
    pub fn update(&self, cell: usize, next: impl Fn(u64) -> Option<u64>) -> u64 {
        let mut old = self.get(cell);
        for _ in 0..TRIES {
            match next(old) {
                Some(new) if !self.exchange(cell, old, new) => old = self.get(cell),
                Some(_) | None => return old,
            }
        }
        old
    }

    pub fn get(&self, cell: usize) -> u64 {
        self.cells.get(cell).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }
}

/// Whether a file is of the size that this version uses: one that another version left may not be.
pub fn fits(file: &OwnedFd) -> bool {
    nix::sys::stat::fstat(file).is_ok_and(|stat| usize::try_from(stat.st_size).is_ok_and(|found| found == size()))
}

/// How often a change is tried against others: more than there can be workers at it at the same moment.
const TRIES: u32 = 10_000;

const fn size() -> usize {
    CELLS * size_of::<libc::c_ulonglong>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_see_the_same_integers() {
        let file = create().unwrap();
        let (one, other) = (Shared::map(file.try_clone().unwrap()).unwrap(), Shared::map(file).unwrap());
        one.add(3, 5);
        other.add(3, 2);
        other.set(CELLS - 1, 9);
        assert_eq!((one.get(3), one.get(CELLS - 1), one.get(CELLS)), (7, 9, 0));
        one.add(CELLS, 1);
        assert_eq!((one.swap(3, 1), other.exchange(3, 7, 8), other.exchange(3, 1, 8)), (7, false, true));
        assert_eq!((one.update(3, |value| Some(value + 1)), one.update(3, |_| None), one.get(3)), (8, 9, 9));
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let file = memfd_create(c"x", MFdFlags::MFD_CLOEXEC).unwrap();
        assert!(!fits(&file));
        assert!(Shared::map(file).is_err());
    }
}
