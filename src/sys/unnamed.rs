//! Files without a name (O_TMPFILE of open(2)): nobody can open them, and they are gone with their last descriptor, however that ends. Made by
//! `spool` alone.

use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, openat2};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An unnamed file.
#[derive(Debug)]
pub struct Unnamed(File);

impl Unnamed {
    /// A new one in this directory, empty, and its owner's alone.
    ///
    /// # Errors
    /// The errno of openat2(2); `EOPNOTSUPP` where the file system has no such files.
    pub fn new(directory: &Path) -> io::Result<Unnamed> {
        // With O_EXCL the kernel lets nobody give it a name later (linkat(2) of /proc/self/fd/N).
        let flags = OFlag::O_TMPFILE | OFlag::O_EXCL | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let how = OpenHow::new().flags(flags).mode(Mode::S_IRUSR | Mode::S_IWUSR);
        Ok(Unnamed(File::from(openat2(AT_FDCWD, directory, how)?)))
    }

    /// # Errors
    /// The errno of pwrite64(2); then only a part may have been written.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// How many bytes were read; 0 behind the end.
    ///
    /// # Errors
    /// The errno of pread64(2).
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_unnamed_file_holds_what_was_written_and_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = Unnamed::new(directory.path()).unwrap();
        file.write(0, b"abc").unwrap();
        file.write(3, b"def").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(file.read(1, &mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"bcdef");
        assert_eq!(file.read(6, &mut buffer).unwrap(), 0);
        assert_eq!(file.0.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_unnamed_file_is_given_no_name_by_anybody() {
        use std::os::fd::AsRawFd;
        let directory = tempfile::tempdir().unwrap();
        let file = Unnamed::new(directory.path()).unwrap();
        let (from, to) = (format!("/proc/self/fd/{}", file.0.as_raw_fd()), directory.path().join("named"));
        let follow = nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW;
        let linked = nix::unistd::linkat(AT_FDCWD, from.as_str(), AT_FDCWD, &to, follow);
        assert_eq!((linked, to.exists()), (Err(nix::errno::Errno::ENOENT), false));
    }

    #[test]
    fn a_directory_that_is_not_there_says_so() {
        assert_eq!(Unnamed::new(Path::new("/nonexistent/spool")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
