//! What the kernel knows of a path without asking whoever keeps its file system, and what kind of one that is: a server or a process that
//! does not answer keeps nobody here. Used by the parent, and by every role while its tree is built.
//!
//! statx(2) with AT_STATX_DONT_SYNC, and proc_pid_mountinfo(5) in place of statfs(2), which asks.

use nix::errno::Errno;
use nix::libc;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Of a file or directory.
pub struct Attributes {
    pub device: u64,
    pub inode: u64,
    pub is_directory: bool,
    /// The number of the mount that it lies on.
    pub(super) mount: u64,
}

impl Attributes {
    /// Of what a path leads to. The look-up of what lies beneath a mount asks its server all the same: only a mount itself is never asked about.
    ///
    /// # Errors
    /// The errno of statx(2).
    pub fn of(path: &Path) -> io::Result<Attributes> {
        Attributes::at(libc::AT_FDCWD, &CString::new(path.as_os_str().as_bytes())?, 0)
    }

    /// Of what is open, be it only as a place.
    ///
    /// # Errors
    /// As [`Attributes::of`].
    pub(super) fn of_open(file: &OwnedFd) -> io::Result<Attributes> {
        Attributes::at(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH)
    }

    fn at(directory: RawFd, name: &CStr, flags: i32) -> io::Result<Attributes> {
        let mut found = MaybeUninit::<libc::statx>::zeroed();
        let (flags, wanted) = (flags | libc::AT_STATX_DONT_SYNC, libc::STATX_BASIC_STATS | libc::STATX_MNT_ID);
        // SAFETY: the name ends with NUL, and the kernel writes one structure where there is room for it; all zeros is one too.
        let found = unsafe {
            Errno::result(libc::statx(directory, name.as_ptr(), flags, wanted, found.as_mut_ptr()))?;
            found.assume_init()
        };
        Ok(Attributes {
            device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            is_directory: u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFDIR,
            mount: found.stx_mnt_id,
        })
    }
}

/// The mounts of this process, as they are at one moment.
pub struct Mounts {
    text: String,
}

impl Mounts {
    /// None, where they cannot be read.
    pub fn read() -> Mounts {
        Mounts { text: std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default() }
    }

    /// Whether a path leads to a file system of local disks or memory, which no server can keep waiting. Yes, where it cannot be looked at:
    /// that fails at once; no, where its file system is not known here.
    pub fn is_on_local_disk(&self, path: &Path) -> bool {
        let Ok(attributes) = Attributes::of(path) else { return true };
        kind_of_mount(&self.text, attributes.mount).is_some_and(|kind| LOCAL.contains(&kind))
    }
}

/// The options of a mount by its number (proc_pid_mountinfo(5)).
pub(super) fn options_of_mount(mounts: &str, number: u64) -> Option<&str> {
    line_of_mount(mounts, number)?.split(' ').nth(5)
}

fn line_of_mount(mounts: &str, number: u64) -> Option<&str> {
    mounts.lines().find(|line| line.split(' ').next().is_some_and(|id| id.parse() == Ok(number)))
}

/// The type of a mount by its number; it stands behind a hyphen, as the fields before that are of no fixed count.
fn kind_of_mount(mounts: &str, number: u64) -> Option<&str> {
    line_of_mount(mounts, number)?.split_once(" - ")?.1.split(' ').next()
}

/// File systems whose look-ups and open(2) wait for a local disk at most.
const LOCAL: [&str; 19] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "tmpfs", "ramfs", "overlay", "squashfs", "erofs", "iso9660",
    "msdos", "vfat", "exfat", "ntfs3", "jfs",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_path_is_what_stat_says() {
        let base = tempfile::tempdir().unwrap();
        for path in [base.path(), Path::new("/proc"), Path::new("/dev/null")] {
            let (found, metadata) = (Attributes::of(path).unwrap(), std::fs::metadata(path).unwrap());
            assert_eq!((found.device, found.inode, found.is_directory), (metadata.dev(), metadata.ino(), metadata.is_dir()), "{path:?}");
        }
        assert_eq!(Attributes::of(&base.path().join("none")).err().unwrap().kind(), io::ErrorKind::NotFound);
        let mounts = Mounts::read();
        assert!(!mounts.is_on_local_disk(Path::new("/proc")) && mounts.is_on_local_disk(&base.path().join("none")));
    }

    #[test]
    fn the_type_of_a_mount_stands_behind_the_hyphen() {
        let mounts =
            "22 1 8:1 / / rw,relatime shared:1 master:7 - ext4 /dev/sda1 rw\n221 22 0:45 / /srv/a\\040-\\040b rw - nfs4 server:/a rw\n";
        assert_eq!(kind_of_mount(mounts, 22), Some("ext4"));
        assert_eq!(kind_of_mount(mounts, 221), Some("nfs4"));
        assert_eq!(kind_of_mount(mounts, 2), None);
        assert_eq!(options_of_mount(mounts, 22), Some("rw,relatime"));
    }
}
