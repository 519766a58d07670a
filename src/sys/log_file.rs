//! Log files: opened by the parent, appended to by `log` (openat(2), fstat(2), write(2)).
//!
//! Root appends to whatever these names lead to, so nobody else may decide where that is (CVE-2016-1247).

use super::privilege;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl, open, openat, readlinkat};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use nix::unistd::{AccessFlags, faccessat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Opens a log for appending and makes it if there is none.
///
/// Every directory on the way must belong to root or the caller, and others may write into it only where they cannot replace
/// what is not theirs (sticky); the last may be writable for no group either. Links are followed only where such a directory
/// holds them and they belong to root or the caller, at the end of the path never. The file must be a regular one with one
/// name, of root or the caller, which nobody else can write. Nothing of it may be writable for the user (id and group) that
/// confined roles run as; `None`: they run as the caller.
///
/// # Errors
/// The errno of openat(2), or a text that says what is not safe.
pub fn open_for_appending(path: &Path, service: Option<(u32, u32)>) -> io::Result<OwnedFd> {
    let (trust, directory, name, _) = find(path, service)?;
    // O_NONBLOCK: a FIFO without a reader that comes here this moment must not stop the start.
    let flags =
        OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = openat(&directory, name, flags, Mode::from_bits_truncate(0o640))?;
    trust.check_file(&fstat(&file)?)?;
    Ok(file)
}

/// Whether [`open_for_appending`] would succeed; makes and changes nothing.
///
/// # Errors
/// As [`open_for_appending`].
pub fn could_append(path: &Path, service: Option<(u32, u32)>) -> io::Result<()> {
    let (_, directory, _, exists) = find(path, service)?;
    if exists {
        return open_for_appending(path, service).map(drop);
    }
    let needed = AccessFlags::W_OK | AccessFlags::X_OK;
    Ok(faccessat(&directory, ".", needed, AtFlags::AT_EACCESS)?)
}

/// Opens a file for reading that says what root does: a certificate or, `private`, a key. On the way to it nobody but root and the caller
/// may have the say, as for logs; links are followed at its end too, since that is how certificates are renewed.
///
/// # Errors
/// The errno of openat(2), or a text that says what is not safe.
pub fn open_trusted(path: &Path, service: Option<(u32, u32)>, private: bool) -> io::Result<OwnedFd> {
    let trust = Trust { own: privilege::own_ids(), service };
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        let directory = trust.directory(parent)?;
        let stat = fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if stat.st_mode & libc::S_IFMT == libc::S_IFLNK {
            if !trust.is_owner(&stat) {
                return Err(refused(&path, "is a link that somebody else made"));
            }
            path = parent.join(readlinkat(&directory, name)?);
            continue;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = openat(&directory, name, flags, Mode::empty())?;
        let stat = fstat(&file)?;
        trust.check_content(&stat)?;
        if private && let Some(why) = trust.is_readable(&stat) {
            return Err(io::Error::other(why));
        }
        return Ok(file);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// Appends to a file; the number of bytes written.
///
/// # Errors
/// The errno of write(2).
pub fn append(file: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(nix::unistd::write(file, bytes)?)
}

/// The same where a pipe or a terminal that nobody reads must not hold this process up.
///
/// # Errors
/// `WouldBlock` when it takes nothing now, or the errno of write(2).
pub fn append_now(file: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let mut ready = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut ready, PollTimeout::ZERO)? == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    // A pipe that is ready takes so many bytes at least (pipe(7)); a file is always ready.
    let most = if fstat(&file)?.st_mode & libc::S_IFMT == libc::S_IFREG { bytes.len() } else { libc::PIPE_BUF };
    Ok(nix::unistd::write(&file, bytes.get(..most).unwrap_or(bytes))?)
}

/// Standard error as a log: without waiting for whoever reads it, and without changing what others share of it.
///
/// # Errors
/// The errno of fcntl(2).
pub fn standard_error() -> io::Result<OwnedFd> {
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    // Opened anew it is a description of its own. A socket (of the journal) cannot be, nor what belongs to somebody else.
    if let Ok(own) = open("/proc/self/fd/2", flags, Mode::empty()) {
        return Ok(own);
    }
    let copy = io::stderr().as_fd().try_clone_to_owned()?;
    if fstat(&copy)?.st_mode & libc::S_IFMT == libc::S_IFSOCK {
        fcntl(&copy, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    Ok(copy)
}

/// Makes sure that nobody but root and the caller can put another directory in the place of this one, or of one above it, or
/// something else into it; `service` likewise, where one is given, though it may be the caller.
///
/// # Errors
/// Names the directory and why it is not fit.
pub fn refuse_untrusted(directory: &Path, service: Option<(u32, u32)>) -> io::Result<()> {
    Trust { own: privilege::own_ids(), service }.directory(directory).map(drop)
}

/// Refuses a directory in which a user could put something in the place of what is there.
///
/// # Errors
/// Names the directory, or the errno of stat(2).
pub fn refuse_writable(directory: &Path, user: (u32, u32)) -> io::Result<()> {
    let stat = nix::sys::stat::stat(directory).map_err(|errno| at(directory, errno))?;
    let by_user = Trust { own: (0, 0), service: Some(user) }.is_writable_for_service(&stat);
    let by_everybody = stat.st_mode & libc::S_IWOTH != 0 && stat.st_mode & libc::S_ISVTX == 0;
    if by_user || by_everybody { Err(refused(directory, "can be written by the service's user")) } else { Ok(()) }
}

/// The directory of a log, its name there and whether there is one, everything found safe.
fn find(path: &Path, service: Option<(u32, u32)>) -> io::Result<(Trust, OwnedFd, &OsStr, bool)> {
    let trust = Trust { own: privilege::own_ids(), service };
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = trust.directory(path.parent().unwrap_or(Path::new("/")))?;
    match fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            trust.check_file(&stat)?;
            Ok((trust, directory, name, true))
        }
        Err(nix::errno::Errno::ENOENT) => Ok((trust, directory, name, false)),
        Err(errno) => Err(errno.into()),
    }
}

/// Whom a path may belong to.
struct Trust {
    own: (u32, u32),
    service: Option<(u32, u32)>,
}

impl Trust {
    /// Walks to a directory, name by name.
    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut ahead: VecDeque<OsString> = names(path);
        let mut directory = root()?;
        let mut walked = PathBuf::from("/");
        let mut links = 0;
        loop {
            let stat = fstat(&directory)?;
            self.check_directory(&walked, &stat, ahead.is_empty())?;
            let Some(name) = ahead.pop_front() else { return Ok(directory) };
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let next = openat(&directory, name.as_os_str(), flags, Mode::empty()).map_err(|errno| at(&walked.join(&name), errno))?;
            let stat = fstat(&next)?;
            if stat.st_mode & libc::S_IFMT != libc::S_IFLNK {
                if stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
                    return Err(at(&walked.join(&name), nix::errno::Errno::ENOTDIR));
                }
                if name == ".." {
                    walked.pop();
                } else {
                    walked.push(&name);
                }
                directory = next;
                continue;
            }
            links += 1;
            if links > LINKS_MAX || !self.is_owner(&stat) {
                return Err(refused(&walked.join(&name), "is a link that somebody else made"));
            }
            let target = PathBuf::from(readlinkat(directory.as_fd(), name.as_os_str())?);
            if target.is_absolute() {
                directory = root()?;
                walked = PathBuf::from("/");
            }
            for name in names(&target).into_iter().rev() {
                ahead.push_front(name);
            }
        }
    }

    fn check_directory(&self, path: &Path, stat: &FileStat, is_last: bool) -> io::Result<()> {
        let is_sticky = stat.st_mode & libc::S_ISVTX != 0;
        let why = if self.is_writable_for_service(stat) {
            "can be written by the service's user"
        } else if !self.is_owner(stat) {
            "belongs to a user other than root and the caller, who could replace what is in it"
        } else if stat.st_mode & libc::S_IWOTH != 0 && !is_sticky {
            "can be written by everybody"
        } else if is_last && !is_sticky && self.is_writable_for_group(stat) {
            "can be written by its group"
        } else {
            return Ok(());
        };
        Err(refused(path, why))
    }

    fn check_file(&self, stat: &FileStat) -> io::Result<()> {
        if stat.st_mode & libc::S_IFMT == libc::S_IFLNK {
            return Err(io::Error::other("it is a symbolic link"));
        }
        if stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_nlink > 1 {
            return Err(io::Error::other("it has another name (hard link)"));
        }
        self.check_content(stat)
    }

    /// Who can say what the file holds.
    fn check_content(&self, stat: &FileStat) -> io::Result<()> {
        let why = if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            "not a regular file"
        } else if !self.is_owner(stat) {
            "it belongs to a user other than root and the caller"
        } else if stat.st_mode & libc::S_IWOTH != 0 || self.is_writable_for_group(stat) {
            "others can write it"
        } else {
            return Ok(());
        };
        Err(io::Error::other(why))
    }

    /// Why a private key in it would be none.
    fn is_readable(&self, stat: &FileStat) -> Option<&'static str> {
        let by_service = |(uid, gid)| stat.st_uid == uid || (stat.st_gid == gid && stat.st_mode & libc::S_IRGRP != 0);
        if stat.st_mode & libc::S_IROTH != 0 {
            Some("everybody can read it, and what it holds is secret (chmod o-r)")
        } else if self.service.is_some_and(by_service) {
            Some("the service's user can read it, and what it holds is secret")
        } else {
            None
        }
    }

    fn is_owner(&self, stat: &FileStat) -> bool {
        stat.st_uid == 0 || stat.st_uid == self.own.0
    }

    /// Root's group and the caller's count as themselves.
    fn is_writable_for_group(&self, stat: &FileStat) -> bool {
        stat.st_mode & libc::S_IWGRP != 0 && stat.st_gid != 0 && stat.st_gid != self.own.1
    }

    fn is_writable_for_service(&self, stat: &FileStat) -> bool {
        self.service.is_some_and(|(uid, gid)| stat.st_uid == uid || (stat.st_gid == gid && stat.st_mode & libc::S_IWGRP != 0))
    }
}

fn root() -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(open("/", flags, Mode::empty())?)
}

fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsStr::new("..").to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn at(path: &Path, errno: nix::errno::Errno) -> io::Error {
    let fault = io::Error::from(errno);
    io::Error::new(fault.kind(), format!("\"{}\": {fault}", path.display()))
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("\"{}\" {why}", path.display()))
}

/// As the kernel (path_resolution(7)).
const LINKS_MAX: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const SERVICE: (u32, u32) = (65_534, 65_534);

    fn refusal(path: &Path) -> String {
        match open_for_appending(path, Some(SERVICE)) {
            Ok(_) => String::new(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn l05_what_others_could_replace_is_refused() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: this case needs root");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        let make = |name: &str, owner: (u32, u32), mode: u32| {
            let path = base.join(name);
            fs::create_dir(&path).unwrap();
            chown(&path, Some(owner.0), Some(owner.1)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        for (name, owner, mode, why) in [
            ("private", (0, 0), 0o755, ""),
            ("roots group", (0, 0), 0o775, ""),
            ("sticky", (0, 0), 0o1777, ""),
            ("everybody", (0, 0), 0o777, "can be written by everybody"),
            ("group", (0, 4), 0o775, "can be written by its group"),
            ("another", (1000, 0), 0o755, "belongs to a user other than root and the caller"),
            ("service", SERVICE, 0o755, "can be written by the service's user"),
            ("its group", (0, SERVICE.1), 0o775, "can be written by the service's user"),
        ] {
            let directory = make(name, owner, mode);
            let said = refusal(&directory.join("a.log"));
            assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{name}: {said}");
            // A directory beneath it that is safe itself: only a group other than the service's does no harm above.
            if name != "private" {
                let beneath = make(&format!("{name}/beneath"), (0, 0), 0o755);
                let said = refusal(&beneath.join("a.log"));
                let why = if name == "group" { "" } else { why };
                assert!(said.contains(why) && said.is_empty() == why.is_empty(), "beneath {name}: {said}");
            }
        }
        let private = base.join("private");
        fs::write(private.join("target"), "").unwrap();
        symlink(private.join("target"), private.join("link")).unwrap();
        assert_eq!(refusal(&private.join("link")), "it is a symbolic link");
        symlink("/nowhere", private.join("dangling")).unwrap();
        assert_eq!(refusal(&private.join("dangling")), "it is a symbolic link");
        fs::hard_link(private.join("target"), private.join("second")).unwrap();
        assert_eq!(refusal(&private.join("second")), "it has another name (hard link)");
        nix::unistd::mkfifo(&private.join("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
        assert_eq!(refusal(&private.join("fifo")), "not a regular file");
        assert_eq!(refusal(&private), "not a regular file");
        fs::write(private.join("theirs"), "").unwrap();
        chown(private.join("theirs"), Some(1000), None).unwrap();
        assert_eq!(refusal(&private.join("theirs")), "it belongs to a user other than root and the caller");
        fs::write(private.join("open"), "").unwrap();
        fs::set_permissions(private.join("open"), Permissions::from_mode(0o666)).unwrap();
        assert_eq!(refusal(&private.join("open")), "others can write it");
        // Links on the way: one that root made is as good as its target; one that another made is not.
        symlink("private", base.join("ours")).unwrap();
        assert_eq!(refusal(&base.join("ours/b.log")), "");
        symlink("../private", base.join("sticky/theirs")).unwrap();
        std::os::unix::fs::lchown(base.join("sticky/theirs"), Some(1000), Some(1000)).unwrap();
        assert!(refusal(&base.join("sticky/theirs/b.log")).ends_with("is a link that somebody else made"));
        symlink("loop", base.join("loop")).unwrap();
        assert!(refusal(&base.join("loop/b.log")).contains("is a link"));
        assert!(refusal(&base.join("none/b.log")).contains("No such file or directory"));
        assert!(refusal(&private.join("target/b.log")).contains("Not a directory"));
    }
}
