//! A file that is replaced as a whole: whoever reads it sees what it was or what it is, and never a part (rename(2)). Used by
//! `anchorite password`.

use nix::fcntl::{Flock, FlockArg, OFlag, open};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{Gid, Uid, fchown};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// A file to be replaced, and nobody else who does it this way does at the same time.
pub struct Replace {
    path: PathBuf,
    /// `None`: there is none yet.
    before: Option<(Flock<File>, nix::sys::stat::FileStat)>,
}

impl Replace {
    /// Waits for others who replace it.
    ///
    /// # Errors
    /// The errno of open(2); `InvalidInput` for what is no regular file.
    pub fn begin(path: &Path) -> io::Result<Replace> {
        // The file that a link names is replaced, not the link.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        for _ in 0..TRIES {
            let file = match open(&path, OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(nix::errno::Errno::ENOENT) => return Ok(Replace { path, before: None }),
                Err(errno) => return Err(errno.into()),
            };
            let stat = fstat(&file)?;
            if stat.st_mode & nix::libc::S_IFMT != nix::libc::S_IFREG {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
            }
            let locked = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
            // Whoever held the lock has put another file in its place.
            if nix::sys::stat::stat(&path).is_ok_and(|now| (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino)) {
                return Ok(Replace { path, before: Some((locked, stat)) });
            }
        }
        Err(io::Error::other("others keep replacing it"))
    }

    /// What it holds; `None`: it is not there.
    ///
    /// # Errors
    /// The errno of read(2); `InvalidData`: more than `limit` bytes.
    pub fn content(&self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((file, _)) = &self.before else { return Ok(None) };
        let mut content = Vec::new();
        let mut file: &File = file;
        file.rewind()?;
        file.take(limit + 1).read_to_end(&mut content)?;
        if u64::try_from(content.len()).unwrap_or(u64::MAX) > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {limit} bytes")));
        }
        Ok(Some(content))
    }

    /// Puts this in its place, with the same owner, group and mode; a file that was not there is its owner's alone.
    ///
    /// # Errors
    /// The errno of what failed; then the file is as it was.
    pub fn with(self, content: &[u8]) -> io::Result<()> {
        let beside = beside(&self.path)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = open(&beside, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let outcome = self.fill(file.into(), content).and_then(|()| std::fs::rename(&beside, &self.path));
        if outcome.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        outcome
    }

    fn fill(&self, mut file: File, content: &[u8]) -> io::Result<()> {
        file.write_all(content)?;
        if let Some((_, stat)) = &self.before {
            // The owner first: it takes bits of the mode away.
            fchown(&file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
            fchmod(&file, Mode::from_bits_truncate(stat.st_mode & 0o777))?;
        }
        file.sync_all()
    }
}

/// The name that the new file has until it is whole.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    Ok(path.with_file_name(beside))
}

/// How often the file may be another one when it is locked.
const TRIES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_file_keeps_its_mode_and_a_link_stays_one() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        Replace::begin(&file).unwrap().with(b"one").unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let replace = Replace::begin(&link).unwrap();
        assert_eq!(replace.content(3).unwrap().unwrap(), b"one");
        assert_eq!(replace.content(2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        replace.with(b"two").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!((std::fs::read(&file).unwrap().as_slice(), file.metadata().unwrap().mode() & 0o777), (b"two".as_slice(), 0o640));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left beside it");
        assert_eq!(Replace::begin(directory.path()).err().unwrap().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn none_of_those_who_replace_it_at_once_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, b"").unwrap();
        std::thread::scope(|scope| {
            for one in 0..8u8 {
                let file = &file;
                scope.spawn(move || {
                    let replace = Replace::begin(file).unwrap();
                    let mut content = replace.content(100).unwrap().unwrap();
                    content.push(one);
                    // Threads share the process's number, and the lock keeps them apart.
                    replace.with(&content).unwrap();
                });
            }
        });
        let mut content = std::fs::read(&file).unwrap();
        content.sort_unstable();
        assert_eq!(content, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
