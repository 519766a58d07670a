//! Directories that are looked at from time to time, by their names: whether another one has taken the place of one, by
//! renaming, or because a link leads elsewhere now. Used by the parent; a mount keeps showing the old one.

use super::proc;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Directories, and what they were.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Watched {
    directories: Vec<(OsString, Inode)>,
    /// When they were last looked at, in monotonic milliseconds.
    looked: u64,
    /// What they were when a change was last told.
    told: Vec<Inode>,
}

/// Device and inode; `None`: there is nothing.
type Inode = Option<(u64, u64)>;

impl Watched {
    /// Takes them as they are now.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>, now: u64) -> Watched {
        let directories = paths.into_iter().map(|path| (path.clone().into(), proc::inode(&path))).collect();
        Watched { directories, looked: now, told: Vec::new() }
    }

    /// Takes them as they are now, again.
    pub fn look_again(&mut self, now: u64) {
        let paths = std::mem::take(&mut self.directories).into_iter().map(|(path, _)| PathBuf::from(path));
        *self = Watched::new(paths, now);
    }

    /// A directory that is another one than it was, told once for each change. Looks no more often than every [`WATCH_MS`].
    pub fn replaced(&mut self, now: u64) -> Option<PathBuf> {
        if now.saturating_sub(self.looked) < WATCH_MS {
            return None;
        }
        self.looked = now;
        let found: Vec<Inode> = self.directories.iter().map(|(path, _)| proc::inode(Path::new(path))).collect();
        let changed = |((_, known), found): &(&(OsString, Inode), &Inode)| found.is_some() && *found != known;
        let path = self.directories.iter().zip(&found).find(changed).map(|((path, _), _)| PathBuf::from(path))?;
        // What was told and led to nothing is not told again before something changes.
        (self.told != found).then(|| {
            self.told = found;
            path
        })
    }
}

/// How often the directories are looked at, in milliseconds.
pub const WATCH_MS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_that_was_replaced_is_told_once_and_one_that_is_gone_is_not() {
        let base = tempfile::tempdir().unwrap();
        let [path, next, other] = ["root", "next", "other"].map(|name| base.path().join(name));
        for path in [&path, &next, &other] {
            fs::create_dir(path).unwrap();
        }
        let mut watched = Watched::new([path.clone(), other], 0);
        assert_eq!(watched.replaced(WATCH_MS), None);
        fs::rename(&path, base.path().join("before")).unwrap();
        assert_eq!(watched.replaced(2 * WATCH_MS), None, "it is gone");
        fs::rename(&next, &path).unwrap();
        assert_eq!(watched.replaced(3 * WATCH_MS - 1), None, "not yet looked at again");
        assert_eq!(watched.replaced(3 * WATCH_MS), Some(path.clone()));
        assert_eq!(watched.replaced(4 * WATCH_MS), None, "told");
        fs::rename(&path, &next).unwrap();
        assert_eq!(watched.replaced(5 * WATCH_MS), None);
        fs::create_dir(&path).unwrap();
        assert_eq!(watched.replaced(6 * WATCH_MS), Some(path));
    }
}
