//! What stands at a path beneath a root, and where nothing does for a client, which symbolic link is the reason. Runs in workers, in `files` and
//! in commands.

use super::file::{CACHED, Found, Links, Root, Unfollowed, Why, not_found};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::libc;
use nix::sys::stat::fstat;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

impl Root {
    /// What stands at `path`, which is relative, without dot segments; empty: the root itself.
    pub fn find(&self, path: &[u8]) -> Found {
        self.look(path, ResolveFlag::empty()).unwrap_or_else(|errno| self.not_found(path, errno))
    }

    /// As [`Root::find`], from what the kernel has in memory. `None`: a disk would have to be waited for, or the path leads
    /// over a mount, behind which another file system may be one that does not answer.
    pub fn find_cached(&self, path: &[u8]) -> Option<Found> {
        match self.look(path, CACHED) {
            Err(Errno::EAGAIN | Errno::EXDEV) => None,
            result => Some(result.unwrap_or_else(|errno| self.not_found(path, errno))),
        }
    }

    fn not_found(&self, path: &[u8], errno: Errno) -> Found {
        #[expect(clippy::wildcard_enum_match_arm, reason = "errno is the kernel's enumeration, and grows with it")]
        let met_link = match errno {
            Errno::ELOOP | Errno::EXDEV => true,
            // Only this policy is for links to what the process may not see.
            Errno::ENOENT | Errno::ENOTDIR if self.links() == Links::Any => {
                self.open_with(path, OFlag::O_PATH, ResolveFlag::RESOLVE_NO_SYMLINKS).err() == Some(Errno::ELOOP)
            }
            _ => false,
        };
        let link = if met_link { self.unfollowed(path) } else { None };
        link.map_or_else(|| not_found(errno), Found::Unfollowed)
    }

    /// The first link on a path that leads to nothing by the policy.
    pub fn unfollowed(&self, path: &[u8]) -> Option<Unfollowed> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end).chain([path.len()]);
        for length in ends {
            let part = path.get(..length).filter(|part| !part.is_empty())?;
            self.itself(part)?;
            if self.target(part).is_some()
                && let Err(errno) = self.resolve(part, OFlag::O_PATH)
            {
                return Some(Unfollowed { length, why: self.why(part, errno)? });
            }
        }
        None
    }

    /// What stands in the link at a path; `None`: none is there.
    pub fn target(&self, path: &[u8]) -> Option<Vec<u8>> {
        let link = self.itself(path)?;
        let is_link = fstat(&link).ok()?.st_mode & libc::S_IFMT == libc::S_IFLNK;
        if is_link { Some(readlinkat(&link, "").ok()?.into_vec()) } else { None }
    }

    /// What stands at a path, without following it if it is a link.
    fn itself(&self, path: &[u8]) -> Option<OwnedFd> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (Some(self.resolve(path.get(..at)?, OFlag::O_PATH | OFlag::O_DIRECTORY).ok()?), path.get(at + 1..)?),
            None => (None, path),
        };
        let above = above.as_ref().map_or_else(|| self.directory(), |above| Ok(above.as_fd())).ok()?;
        openat2(above, OsStr::from_bytes(name), how).ok()
    }

    fn why(&self, path: &[u8], errno: Errno) -> Option<Why> {
        match (self.links(), errno) {
            (Links::Never, _) => Some(Why::Never),
            (Links::SameOwner | Links::Inside, Errno::EXDEV) => Some(Why::Leaves),
            // Were it not for the owners, it would be followed.
            (Links::SameOwner, Errno::ELOOP) => Some(if self.leads_inside(path) { Why::Owner } else { Why::Loop }),
            (Links::Inside | Links::Any, Errno::ELOOP) => Some(Why::Loop),
            (_, Errno::ENOENT | Errno::ENOTDIR) => Some(Why::Nowhere),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_first_link_that_is_not_followed_is_named_with_its_reason() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        std::fs::create_dir_all(at("root/dir")).unwrap();
        std::fs::write(at("root/file"), "").unwrap();
        std::fs::write(at("outside"), "").unwrap();
        for (target, name) in [
            ("dir", "in"),
            ("../file", "dir/up"),
            ("../outside", "out"),
            ("nowhere", "gone"),
            ("loop", "loop"),
            ("/proc/self/root", "proc"),
            ("in", "again"),
        ] {
            symlink(target, at("root").join(name)).unwrap();
        }
        for (links, cases) in [
            (Links::Never, [Some((2, Why::Never)), Some((3, Why::Never)), Some((4, Why::Never)), Some((4, Why::Never))]),
            (Links::Inside, [None, Some((3, Why::Leaves)), Some((4, Why::Nowhere)), Some((4, Why::Loop))]),
            (Links::SameOwner, [None, Some((3, Why::Leaves)), Some((4, Why::Nowhere)), Some((4, Why::Loop))]),
            (Links::Any, [None, None, Some((4, Why::Nowhere)), Some((4, Why::Loop))]),
        ] {
            let root = Root::open(&at("root"), links, false).unwrap();
            for (path, right) in ["in/up", "out", "gone/x", "loop"].into_iter().zip(cases) {
                let found = root.unfollowed(path.as_bytes());
                assert_eq!(found, right.map(|(length, why)| Unfollowed { length, why }), "{links:?} {path}");
            }
            for path in ["", "file", "dir", "none", "dir/none", "file/x"] {
                assert_eq!(root.unfollowed(path.as_bytes()), None, "{links:?} {path}");
            }
        }
        let root = Root::open(&at("root"), Links::Any, false).unwrap();
        assert_eq!(root.unfollowed(b"proc").map(|found| found.why), Some(Why::Loop));
        assert_eq!(root.target(b"again/up").as_deref(), Some(&b"../file"[..]));
        assert_eq!(root.target(b"file"), None);
    }
}
