//! Sealed memory files (memfd_create(2)): how a role's slice of the configuration reaches it unchanged. And memory that is never written to
//! a swap area (mlock(2)).

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MlockAllFlags, mlock, mlockall};
use nix::sys::resource::{Resource, getrlimit};
use std::ffi::c_void;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

/// A memory file of this content, sealed: nobody can change it any more.
///
/// # Errors
/// The errno of memfd_create(2), write(2) or fcntl(2).
pub fn sealed(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"anchorite slice", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(content)?;
    file.rewind()?;
    let seals = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

/// The whole content of a memory file, read from its start without moving the position that all holders share.
///
/// # Errors
/// The errno of read(2).
pub fn content(file: OwnedFd) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let file = File::from(file);
    let length = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut content = vec![0; length];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

/// Whether so many bytes may be locked in memory, by the limit of this process and of those that it starts (`RLIMIT_MEMLOCK`).
pub fn may_lock(bytes: u64) -> bool {
    getrlimit(Resource::RLIMIT_MEMLOCK).is_ok_and(|(limit, _)| bytes <= limit)
}

/// Locks the heap, the stack and whatever this process maps from now on in memory: what it writes there is never written to a swap area. The
/// program's text and what it maps already are not, since they would count against the limit and hold no secret.
///
/// # Errors
/// The errno of open(2), mlock(2) or mlockall(2).
pub fn lock() -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/maps")?.lines().filter(|line| line.ends_with("[heap]") || line.ends_with("[stack]")) {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let (start, end) = range.and_then(|(start, end)| Some((number(start)?, number(end)?))).ok_or(io::ErrorKind::InvalidData)?;
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut::<c_void>(start)).ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: nothing is changed in that memory; a range that is none is an error.
        unsafe { mlock(start, end.saturating_sub(start.addr().get())) }?;
    }
    Ok(mlockall(MlockAllFlags::MCL_FUTURE)?)
}
