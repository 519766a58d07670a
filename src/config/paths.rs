//! Paths as a configuration file writes them, made absolute. Does no I/O: symbolic links are the kernel's business.

use super::diagnostic::{Faults, quoted};
use super::document::Text;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The absolute path of a directory that may be shown to a confined role; reported and `None` when it is not one.
///
/// `/` is refused: a jail that shows the whole system is none. So are the directories in which the kernel shows itself, its processes and devices.
pub(super) fn directory(text: &Text<'_>, faults: &mut Faults<'_>) -> Option<PathBuf> {
    let path = file(text, faults)?;
    if path == Path::new("/") {
        faults.report(text.at.clone(), format!("{} is the whole file system", quoted(text.value)), "expected a directory beneath \"/\"");
        return None;
    }
    // Beneath /dev lies /dev/shm, which holds files.
    if path.starts_with("/proc") || path.starts_with("/sys") || path == Path::new("/dev") {
        let what = format!("{} is the kernel's, and would show processes and devices", quoted(text.value));
        faults.report(text.at.clone(), what, "expected a directory of files");
        return None;
    }
    Some(path)
}

/// The path of a socket: one that fits into an address.
pub(super) fn socket(text: &Text<'_>, faults: &mut Faults<'_>) -> Option<PathBuf> {
    let path = file(text, faults)?;
    let fault = if path == Path::new("/") || text.value.ends_with('/') {
        Some(("is a directory", "expected the path of a socket".to_owned()))
    } else if !fits_a_socket(&path) {
        let help = format!("expected at most {} bytes", SOCKET_PATH_MAX);
        Some(("is too long for a socket", help))
    } else {
        None
    };
    if let Some((what, help)) = fault {
        faults.report(text.at.clone(), format!("{} {what}", quoted(text.value)), help);
        return None;
    }
    Some(path)
}

/// The path of a file that is not a directory, as far as its text tells.
pub(super) fn regular(text: &Text<'_>, faults: &mut Faults<'_>) -> Option<PathBuf> {
    let path = file(text, faults)?;
    if matches!(text.value.rsplit('/').next(), Some("" | "." | "..")) {
        faults.report(text.at.clone(), format!("{} is a directory", quoted(text.value)), "expected the path of a file");
        return None;
    }
    Some(path)
}

/// The absolute path, without `.` and `..`; reported and `None` when there is none. A relative path starts at the directory of the file it
/// stands in.
pub(super) fn file(text: &Text<'_>, faults: &mut Faults<'_>) -> Option<PathBuf> {
    match resolve(text.value, faults.directory(text.at.start)) {
        Ok(path) => Some(path),
        Err((what, help)) => {
            faults.report(text.at.clone(), what, help);
            None
        }
    }
}

fn resolve(written: &str, base: &Path) -> Result<PathBuf, (String, &'static str)> {
    if written.is_empty() {
        return Err(("\"\" is not a path".to_owned(), "expected a path"));
    }
    // A NUL ends a path for the kernel: what is checked here and what is opened would differ.
    if written.contains('\0') {
        return Err((format!("{} holds a NUL", quoted(written)), "expected a path"));
    }
    let mut path = base.to_owned();
    let mut named = false;
    for component in Path::new(written).components() {
        match component {
            Component::RootDir => path = PathBuf::from("/"),
            Component::CurDir | Component::Prefix(_) => {}
            // Beyond a name, ".." depends on whether that name is a symbolic link, and text cannot tell.
            Component::ParentDir if named => {
                return Err((format!("{} has \"..\" after a name", quoted(written)), "expected \"..\" only at the beginning"));
            }
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => {
                named = true;
                path.push(name);
            }
        }
    }
    Ok(path)
}

/// A path made absolute and rid of `.` and `..` by its text alone.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    let absolute = std::path::absolute(path).unwrap_or_else(|_| clean.join(path));
    for component in absolute.components() {
        match component {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Normal(name) => clean.push(name),
        }
    }
    clean
}

/// Whether a path is short enough for a socket: `sun_path` of unix(7) has 108 bytes, the last a NUL.
pub(super) fn fits_a_socket(path: &std::path::Path) -> bool {
    path.as_os_str().as_bytes().len() <= SOCKET_PATH_MAX
}

pub(super) const SOCKET_PATH_MAX: usize = 107;
#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(written: &str) -> Result<String, String> {
        resolve(written, Path::new("/etc/anchorite"))
            .map(|path| path.to_str().unwrap().to_owned())
            .map_err(|(what, help)| format!("{what}, {help}"))
    }

    #[test]
    fn paths_become_absolute() {
        for (written, path) in [
            ("/srv/www", "/srv/www"),
            ("/srv//www/.", "/srv/www"),
            ("/srv/www/", "/srv/www"),
            ("www", "/etc/anchorite/www"),
            ("./www", "/etc/anchorite/www"),
            ("../www", "/etc/www"),
            ("../../../../www", "/www"),
            ("/../srv", "/srv"),
            ("..", "/etc"),
            ("a..b", "/etc/anchorite/a..b"),
        ] {
            assert_eq!(resolved(written).as_deref(), Ok(path), "{written}");
        }
    }

    #[test]
    fn ambiguous_and_impossible_paths_are_refused() {
        assert_eq!(resolved(""), Err("\"\" is not a path, expected a path".to_owned()));
        assert_eq!(resolved("a\0b"), Err("\"a\\0b\" holds a NUL, expected a path".to_owned()));
        assert_eq!(resolved("a/../b"), Err("\"a/../b\" has \"..\" after a name, expected \"..\" only at the beginning".to_owned()));
    }

    #[test]
    fn the_directory_of_the_file_is_made_absolute_by_text() {
        assert_eq!(absolute(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
        assert!(absolute(Path::new("a")).is_absolute());
    }
}
