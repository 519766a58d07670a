//! Log files: opened by the parent, appended to by `log` (open(2), write(2)).

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens a log for appending and makes it if there is none: never through a link at its end, and only a regular file with
/// one name, so that nobody who can write the directory makes root append to something else.
///
/// # Errors
/// The errno of open(2), or a text.
pub fn open_for_appending(path: &Path) -> io::Result<OwnedFd> {
    // O_NONBLOCK: a FIFO without a reader must not stop the start.
    let flags =
        OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = open(path, flags, Mode::from_bits_truncate(0o640))?;
    let stat = fstat(&file)?;
    if stat.st_mode & nix::libc::S_IFMT != nix::libc::S_IFREG {
        return Err(io::Error::other("not a regular file"));
    }
    if stat.st_nlink > 1 {
        return Err(io::Error::other("it has another name (hard link)"));
    }
    Ok(file)
}

/// Whether [`open_for_appending`] would succeed; makes and changes nothing.
///
/// # Errors
/// As [`open_for_appending`].
pub fn could_append(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => open_for_appending(path).map(drop),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            Ok(nix::unistd::access(
                directory,
                nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK,
            )?)
        }
        Err(fault) => Err(fault),
    }
}

/// Appends to a file; the number of bytes written.
///
/// # Errors
/// The errno of write(2).
pub fn append(file: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(nix::unistd::write(file, bytes)?)
}
