//! Where a file stands: the directory that names it, asked from what the kernel has in memory. Runs in workers.
//!
//! A directory whose times and number are the same names the same files as before, so that whoever remembers what they were need not
//! look up each of them again. Only for file systems of local disks: others may leave the times of a directory as they are.

use super::file::{CACHED, Root, Stat};
use nix::fcntl::{AtFlags, OFlag, OpenHow, openat2};
use nix::libc;
use nix::sys::stat::{fstat, fstatat};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// A directory, held open.
pub struct Place {
    directory: OwnedFd,
    /// Its own number and times.
    pub stat: Stat,
}

impl Place {
    /// The directory at `path`, reached by the policy of the root; empty: the root itself. `None`: it is not there, not in memory, or on another
    /// file system.
    pub fn open(root: &Root, path: &[u8]) -> Option<Place> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = if path.is_empty() {
            openat2(root.directory().ok()?, ".", OpenHow::new().flags(flags).resolve(CACHED))
        } else {
            root.resolve_under(path, flags, CACHED)
        };
        let directory = directory.ok()?;
        let stat = Stat::from(&fstat(&directory).ok()?);
        Some(Place { directory, stat })
    }

    /// Whether a name in it stands for this very file, and not for a link to it. To be asked right after the file was opened by
    /// that name: all of it is in memory then.
    pub fn names(&self, name: &[u8], file: &Stat) -> bool {
        fstatat(&self.directory, OsStr::from_bytes(name), AtFlags::AT_SYMLINK_NOFOLLOW)
            .is_ok_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFREG && (found.st_dev, found.st_ino) == (file.device, file.inode))
    }
}

/// What stands at a path beneath a root, no link on the way, from what the kernel has in memory. It is not opened: no permission of its own is
/// asked for.
pub fn stat(root: &Root, path: &[u8]) -> Option<Stat> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let found = root.resolve_under(path, flags, CACHED).ok()?;
    Some(Stat::from(&fstat(&found).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::file::{Found, Links};
    use super::*;

    #[test]
    fn a_place_is_another_after_every_change_of_its_names() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        std::fs::create_dir(at("dir")).unwrap();
        std::fs::write(at("dir/file"), "1").unwrap();
        let root = Root::open(base.path(), Links::Inside, false).unwrap();
        if !super::super::attributes::Mounts::read().is_on_local_disk(base.path()) {
            return;
        }
        let stat = |path: &[u8]| {
            let Found::File(opened) = root.find(path) else { panic!() };
            opened.stat
        };
        let file = stat(b"dir/file");
        let place = || Place::open(&root, b"dir").unwrap();
        assert!(place().names(b"file", &file) && !place().names(b"other", &file));
        let changes: [&dyn Fn(); 6] = [
            &|| std::fs::write(at("dir/file.gz"), "2").unwrap(),
            &|| std::fs::rename(at("dir/file"), at("dir/moved")).unwrap(),
            &|| std::os::unix::fs::symlink("moved", at("dir/file")).unwrap(),
            &|| std::fs::remove_file(at("dir/file")).unwrap(),
            &|| std::fs::hard_link(at("dir/moved"), at("dir/file")).unwrap(),
            &|| {
                std::fs::rename(at("dir"), at("before")).unwrap();
                std::fs::create_dir(at("dir")).unwrap();
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let before = place().stat;
            // The clock of a file system goes in steps of some milliseconds.
            std::thread::sleep(std::time::Duration::from_millis(20));
            change();
            assert_ne!(place().stat, before, "{number}");
            assert_eq!(place().names(b"file", &file), [0, 4].contains(&number), "{number}");
            let inode = super::stat(&root, b"dir/file").map(|stat| stat.inode);
            assert_eq!(inode == Some(file.inode), [0, 4].contains(&number), "{number}");
        }
        assert!(Place::open(&root, b"none").is_none());
        assert!(Place::open(&root, b"before/file").is_none());
    }
}
