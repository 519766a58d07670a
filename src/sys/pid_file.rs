//! The pid file, and the directory that it and the control socket stand in. Written by the parent only.
//!
//! Root writes here, and other programs signal the number that they read here: so never through a link, and never in a
//! directory in which others could put something else in its place (open(2), O_NOFOLLOW).

use super::{log_file, privilege, proc, process};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{AccessFlags, access};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file, removed when this is dropped.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes this process's number, in place of that of a process that is gone.
    ///
    /// # Errors
    /// Names the file and why, another service that runs among others.
    pub fn write(path: &Path) -> Result<PidFile, String> {
        refuse_other(path)?;
        let named = |fault: io::Error| format!("pid file \"{}\": {fault}", path.display());
        // O_NONBLOCK: a FIFO must not stop the start. Not emptied before it is known to be ours.
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = open(path, flags, Mode::from_bits_truncate(0o644)).map_err(|errno| named(errno.into()))?;
        let stat = fstat(&file).map_err(|errno| named(errno.into()))?;
        if stat.st_mode & nix::libc::S_IFMT != nix::libc::S_IFREG || stat.st_nlink != 1 {
            return Err(named(io::Error::other("not a regular file with one name")));
        }
        let mut file = File::from(file);
        file.set_len(0).map_err(named)?;
        file.write_all(format!("{}\n", process::own_id()).as_bytes()).map_err(named)?;
        Ok(PidFile(path.to_owned()))
    }
}

impl PidFile {
    /// The file that this process wrote before, under another program.
    pub fn keep(path: &Path) -> PidFile {
        PidFile(path.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Only our own: whoever replaced it meanwhile keeps it.
        if read(&self.0) == Some(process::own_id()) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Whether the place is fit for a pid file: no service that runs has it, and nobody else can write there.
///
/// # Errors
/// Names the file, and the service that runs or what is wrong.
pub fn refuse_other(path: &Path) -> Result<(), String> {
    let named = |why: &str| format!("pid file \"{}\": {why}", path.display());
    prepare_directory(path).map_err(|why| named(&why))?;
    refuse_foreign(path).map_err(|why| named(&why))?;
    match read(path).filter(|pid| *pid != process::own_id() && is_parent(*pid)) {
        Some(pid) => Err(named(&format!("another service runs (pid {pid})"))),
        None => Ok(()),
    }
}

/// Refuses what is there and was never a pid file: it would be overwritten, and removed at the end.
///
/// # Errors
/// Says what it is.
pub fn refuse_foreign(path: &Path) -> Result<(), String> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    if !metadata.is_file() {
        return Err("is a link, or no regular file".to_owned());
    }
    if metadata.len() > 0 && read(path).is_none() {
        return Err("is there, and holds no process id".to_owned());
    }
    Ok(())
}

/// Makes the directory of a file of the service if it is missing, and looks whether only its owner can write it.
///
/// # Errors
/// Names the directory and why it is not fit.
pub fn prepare_directory(of: &Path) -> Result<(), String> {
    let directory = directory_of(of)?;
    let named = |fault: io::Error| format!("directory \"{}\": {fault}", directory.display());
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(fault) if fault.kind() != io::ErrorKind::AlreadyExists => return Err(named(fault)),
        Ok(()) | Err(_) => {}
    }
    refuse_open(directory)
}

/// Whether [`prepare_directory`] would find the place fit; makes nothing.
///
/// # Errors
/// Names the directory and why it is not fit.
pub fn could_stand(path: &Path) -> Result<(), String> {
    let directory = directory_of(path)?;
    match directory.parent() {
        // It would be made there.
        Some(above) if !directory.exists() && above.is_dir() => Ok(()),
        Some(_) | None => refuse_open(directory),
    }
}

fn directory_of(path: &Path) -> Result<&Path, String> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    Ok(directory.ok_or("it is in no directory")?)
}

/// Refuses a directory in which somebody else could put another file in place of ours.
fn refuse_open(directory: &Path) -> Result<(), String> {
    let named = |fault: io::Error| format!("directory \"{}\": {fault}", directory.display());
    let metadata = directory.metadata().map_err(named)?;
    let (uid, gid) = privilege::own_ids();
    let by_group = metadata.mode() & 0o020 != 0 && metadata.gid() != gid;
    let by_owner = metadata.uid() != 0 && metadata.uid() != uid;
    if metadata.mode() & 0o002 != 0 || by_group || by_owner {
        return Err(named(io::Error::other("other users can write it")));
    }
    // Whoever can replace one above it can replace it.
    let whole = std::path::absolute(directory).map_err(named)?;
    log_file::refuse_untrusted(&whole, None).map_err(|fault| fault.to_string())
}

/// Whether this process could make a file there, as an ordinary user often cannot in a directory of the system.
pub fn is_within_reach(path: &Path) -> bool {
    prepare_directory(path).is_ok() && path.parent().is_some_and(|directory| access(directory, AccessFlags::W_OK).is_ok())
}

fn read(path: &Path) -> Option<i32> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether a process is the parent of a service like this one, and not one that got the number of one that is gone.
fn is_parent(pid: i32) -> bool {
    proc::command_line(pid).is_some_and(|title| title.starts_with("anchorite: parent"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/pid");
        (directory, path)
    }

    #[test]
    fn it_is_written_in_a_directory_that_is_made_and_removed_at_the_end() {
        let (_directory, path) = place();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", process::own_id()));
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o644);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_one_is_replaced_and_one_of_others_is_kept_at_the_end() {
        let (_directory, path) = place();
        for stale in ["1\n", "99999999\n", ""] {
            prepare_directory(&path).unwrap();
            fs::write(&path, stale).unwrap();
            let file = PidFile::write(&path).unwrap();
            fs::write(&path, "1\n").unwrap();
            drop(file);
            assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        }
    }

    #[test]
    fn what_is_no_pid_file_is_left_alone() {
        let (_directory, path) = place();
        prepare_directory(&path).unwrap();
        fs::write(&path, "not a number, but longer than one would be").unwrap();
        assert!(PidFile::write(&path).is_err());
        assert!(fs::read_to_string(&path).unwrap().starts_with("not a number"));
    }

    #[test]
    fn links_special_files_and_directories_of_others_are_refused() {
        let (directory, path) = place();
        prepare_directory(&path).unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "precious").unwrap();
        symlink(&target, &path).unwrap();
        assert!(PidFile::write(&path).is_err());
        fs::remove_file(&path).unwrap();
        fs::hard_link(&target, &path).unwrap();
        assert!(PidFile::write(&path).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(PidFile::write(&path).is_err());
        let open = directory.path().join("run");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let why = PidFile::write(&open.join("other")).err().unwrap();
        assert!(why.ends_with("other users can write it"), "{why}");
    }
}
