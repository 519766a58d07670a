//! Directories that confined roles are shown, as the host has them: links followed once, and those refused that never are shown. Used by the
//! parent; a confined process could not look.

use super::attributes::Attributes;
use super::privilege::Identity;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory of mode "chroot", which the user of the service may not be able to change.
///
/// # Errors
/// Names it, and why it is not taken.
pub fn safe_root(path: &Path, identity: Identity) -> Result<PathBuf, String> {
    let found = directory(path)?;
    let metadata = fs::metadata(&found).map_err(|fault| format!("\"{}\": {fault}", found.display()))?;
    let by_owner = metadata.uid() == identity.uid;
    let by_group = metadata.gid() == identity.gid && metadata.mode() & 0o020 != 0;
    if !identity.rootless && (by_owner || by_group || metadata.mode() & 0o002 != 0) {
        return Err(format!("jail root \"{}\": the user of the service (uid {}) can write it", found.display(), identity.uid));
    }
    Ok(found)
}

/// The directory for bodies: nobody but its owner may be able to write it, and the name may be no link, or what is kept could be had elsewhere.
/// `None`: it is not there.
///
/// # Errors
/// Names it, and why it is not taken.
pub fn spool(path: &Path, identity: Identity) -> Result<Option<PathBuf>, String> {
    let refuse = |why: String| Err(format!("spool \"{}\" {why}", path.display()));
    let metadata = match fs::symlink_metadata(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(fault) => return refuse(format!("cannot be looked at: {fault}")),
        Ok(metadata) => metadata,
    };
    let mode = metadata.mode() & 0o7777;
    if metadata.is_symlink() {
        return refuse("is a symbolic link: name the directory itself".to_owned());
    }
    if !metadata.is_dir() {
        return refuse("is not a directory".to_owned());
    }
    if mode & 0o022 != 0 {
        return refuse(format!("can be written by others than its owner (mode {mode:04o}): mode 0700 is right"));
    }
    // Of an ordinary user's service it may be another's, which then cannot be written.
    if !identity.rootless && ![0, identity.uid].contains(&metadata.uid()) {
        return refuse(format!("belongs to user id {}, not to that of the service ({})", metadata.uid(), identity.uid));
    }
    resolved(path).map(Some)
}

/// A directory without links on the way.
///
/// # Errors
/// Names it, with the errno.
pub fn directory(path: &Path) -> Result<PathBuf, String> {
    let found = resolved(path)?;
    if Attributes::of(&found).is_ok_and(|found| found.is_directory) {
        Ok(found)
    } else {
        Err(format!("\"{}\" is not a directory", path.display()))
    }
}

/// A directory, or a file for an exact alias, without links on the way.
///
/// # Errors
/// Names it, with the errno; `/` is not shown.
pub fn resolved(path: &Path) -> Result<PathBuf, String> {
    let resolved = fs::canonicalize(path).map_err(|fault| format!("directory \"{}\": {fault}", path.display()))?;
    if resolved == Path::new("/") {
        return Err(format!("\"{}\" is the whole file system; serve a directory of it", path.display()));
    }
    Ok(resolved)
}
