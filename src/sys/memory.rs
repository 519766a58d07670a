//! Sealed memory files (memfd_create(2)): how a role's slice of the configuration reaches it unchanged.

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;

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
