//! A document root in a temporary directory, readable by everybody whatever the umask.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// `BASE/site` is the root; what stands beside it in `BASE` is outside.
pub(crate) struct Root {
    base: tempfile::TempDir,
}

impl Root {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::beneath(&std::env::temp_dir())
    }

    /// An empty one on a file system in memory, for what would take a disk long.
    pub(crate) fn in_memory() -> Self {
        Self::beneath(Path::new("/dev/shm"))
    }

    fn beneath(directory: &Path) -> Self {
        let base = tempfile::Builder::new().prefix("anchorite-root-").tempdir_in(directory).unwrap();
        fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
        let root = Self { base };
        root.make_directory(&root.path());
        root
    }

    /// With an `index.html` that reads `index\n`.
    pub(crate) fn with_index() -> Self {
        let root = Self::new();
        root.file("index.html", "index\n");
        root
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.base.path().join("site")
    }

    /// The directory that holds the root.
    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    /// A path beneath the root; `../x` is one outside of it. Any bytes.
    pub(crate) fn at(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.path().join(OsStr::from_bytes(name.as_ref()))
    }

    /// Makes a file of mode 0644, with the directories it needs.
    pub(crate) fn file(&self, name: impl AsRef<[u8]>, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        self.make_directory(path.parent().unwrap());
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&path).unwrap();
        file.write_all(contents.as_ref()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// Makes a file of `len` bytes that takes no room.
    pub(crate) fn sparse(&self, name: impl AsRef<[u8]>, len: u64) -> PathBuf {
        let path = self.file(name, "");
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
        path
    }

    pub(crate) fn directory(&self, name: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        self.make_directory(&path);
        path
    }

    /// Makes the symbolic link `name`.
    pub(crate) fn link(&self, name: impl AsRef<[u8]>, target: impl AsRef<Path>) -> PathBuf {
        let path = self.at(name);
        self.make_directory(path.parent().unwrap());
        symlink(target, &path).unwrap();
        path
    }

    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
        path
    }

    pub(crate) fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), Permissions::from_mode(mode)).unwrap();
    }

    fn make_directory(&self, path: &Path) {
        if path.is_dir() {
            return;
        }
        if let Some(above) = path.parent() {
            self.make_directory(above);
        }
        fs::create_dir(path).unwrap_or_else(|error| panic!("create {path:?}: {error}"));
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
}
