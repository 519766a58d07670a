//! What no confined role may be shown: the configuration, logs, the service's own sockets, and every directory that one of them is
//! in. The parent says what that is; each role refuses it when it has the directory in hand, whatever its name leads to by then.

use super::proc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// Files and directories by device and inode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    inodes: BTreeSet<(u64, u64)>,
}

impl Withheld {
    /// These files, which may not be there yet, and all that they lie in: by their names, and by where links lead.
    pub fn of<'p>(files: impl Iterator<Item = &'p Path> + Clone) -> Withheld {
        // Many logs are in one directory.
        let parents: BTreeSet<&Path> = files.clone().filter_map(Path::parent).collect();
        let real = parents.iter().filter_map(|parent| std::fs::canonicalize(parent).ok());
        let mut above: BTreeSet<_> = real.flat_map(|real| real.ancestors().map(Path::to_owned).collect::<Vec<_>>()).collect();
        above.extend(parents.iter().flat_map(|parent| parent.ancestors()).map(Path::to_owned));
        let files = files.filter_map(proc::inode);
        Withheld { inodes: above.iter().filter_map(|path| proc::inode(path)).chain(files).collect() }
    }

    /// Refuses to show a directory, or a file, that is one of these now.
    ///
    /// # Errors
    /// Names it.
    pub fn refuse(&self, path: &Path, inode: (u64, u64)) -> Result<(), String> {
        if !self.inodes.contains(&inode) {
            return Ok(());
        }
        Err(format!("\"{}\" leads to what holds the configuration, a log or a socket of the service: it is not shown", path.display()))
    }

    /// The same of what a path leads to.
    ///
    /// # Errors
    /// Names it.
    pub fn refuse_path(&self, path: &Path) -> Result<(), String> {
        proc::inode(path).map_or(Ok(()), |inode| self.refuse(path, inode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_secret_is_refused_by_whatever_name_it_has() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        for name in ["all/conf/html", "all/www", "log", "run"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        std::fs::write(base.join("all/conf/a.toml"), "").unwrap();
        std::os::unix::fs::symlink("log", base.join("to-log")).unwrap();
        std::os::unix::fs::symlink("all/www", base.join("current")).unwrap();
        let files = ["all/conf/a.toml", "to-log/later.log", "run/socket"].map(|name| base.join(name));
        let withheld = Withheld::of(files.iter().map(|file| file.as_path()));
        let refused = |name: &str| withheld.refuse_path(&base.join(name)).is_err();
        for name in ["", "all", "all/conf", "all/conf/a.toml", "log", "to-log", "run", "all/www/../conf"] {
            assert!(refused(name), "{name}");
        }
        for name in ["all/conf/html", "all/www", "current", "nothing"] {
            assert!(!refused(name), "{name}");
        }
        // The same name, after the link was switched.
        std::fs::remove_file(base.join("current")).unwrap();
        std::os::unix::fs::symlink("all/conf", base.join("current")).unwrap();
        assert!(refused("current"));
    }
}
