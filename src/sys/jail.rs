//! The jail: a private read-only tree that holds only what a role may see. Runs in confined roles, before they drop privilege.
//!
//! mount_namespaces(7), pivot_root(2), mount_setattr(2), chroot(2). The order is that of a container: an own mount
//! namespace, a small tmpfs, bind mounts made read-only in one recursive call each, then the old root is gone.

use super::attributes::{self, Attributes};
use super::withheld::Withheld;
use nix::errno::Errno;
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::CloneFlags;
use nix::unistd::{chdir, chroot, pivot_root};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a role sees of the file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tree {
    /// Only these directories, each at its own path; none: an empty directory.
    Shown(Vec<OsString>),
    /// This directory and all beneath it.
    Beneath(OsString),
    /// This directory alone, at its own path, and files may be made in it.
    Written(OsString),
}

/// Where paths of the host lie for a role that is inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    stripped: PathBuf,
}

impl Inside {
    /// The path by which the role reaches what the host calls `path`.
    pub fn path(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.stripped).map_or_else(|_| path.to_owned(), |rest| Path::new("/").join(rest))
    }
}

/// Leaves the host's namespaces; checks that each one really is another afterwards, because what follows mounts.
///
/// # Errors
/// The errno of unshare(2), or a text.
pub(super) fn leave_namespaces(names: &[&str]) -> io::Result<()> {
    let mut flags = CloneFlags::empty();
    let mut before = Vec::new();
    for name in names {
        let (flag, link) = namespace(name).ok_or_else(|| io::Error::other(format!("unknown namespace \"{name}\"")))?;
        flags |= flag;
        before.push((link, fs::metadata(link)?.ino()));
    }
    nix::sched::unshare(flags)?;
    for (link, inode) in before {
        if fs::metadata(link)?.ino() == inode {
            return Err(io::Error::other(format!("{link} is still the host's")));
        }
    }
    Ok(())
}

fn namespace(name: &str) -> Option<(CloneFlags, &'static str)> {
    match name {
        "mount" => Some((CloneFlags::CLONE_NEWNS, "/proc/self/ns/mnt")),
        "network" => Some((CloneFlags::CLONE_NEWNET, "/proc/self/ns/net")),
        "ipc" => Some((CloneFlags::CLONE_NEWIPC, "/proc/self/ns/ipc")),
        "uts" => Some((CloneFlags::CLONE_NEWUTS, "/proc/self/ns/uts")),
        "cgroup" => Some((CloneFlags::CLONE_NEWCGROUP, "/proc/self/ns/cgroup")),
        _ => None,
    }
}

/// Builds the tree in this process's own mount namespace and makes it the root; `withheld` is not shown in it.
///
/// # Errors
/// A text that names the step and the path, with the errno.
pub(super) fn enter(tree: &Tree, withheld: &Withheld) -> Result<Inside, String> {
    // Nothing mounted here may reach the host, and nothing the host mounts later may appear here with its own flags.
    step("make / private", mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE))?;
    confirm_private()?;
    match tree {
        Tree::Shown(paths) => {
            pivot_to_private_tree(&outermost(paths), withheld, READ_ONLY)?;
            enter_root(Path::new(TREE))?;
            Ok(Inside { stripped: PathBuf::from("/") })
        }
        Tree::Written(path) => {
            pivot_to_private_tree(&[Path::new(path)], withheld, WRITABLE)?;
            enter_root(Path::new(TREE))?;
            Ok(Inside { stripped: PathBuf::from("/") })
        }
        Tree::Beneath(root) => {
            let root = Path::new(root);
            show(root, root, withheld, &mut Mounts::open()?, READ_ONLY)?;
            enter_root(root)?;
            Ok(Inside { stripped: root.to_owned() })
        }
    }
}

/// Reads back that no mount passes on what is mounted beneath it (proc_pid_mountinfo(5), the optional fields): the tree is
/// built over `/proc`, which the host would lose.
fn confirm_private() -> Result<(), String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|fault| format!("/proc/self/mountinfo: {fault}"))?;
    match mounts.lines().find(|line| line.split(' ').any(|field| field.starts_with("shared:"))) {
        None => Ok(()),
        Some(line) => Err(format!("{} is still shared with the host", line.split(' ').nth(4).unwrap_or("a mount"))),
    }
}

/// Where namespaces are missing and may be: chroot(2) alone, to the deepest directory that holds all that is shown. Without
/// the privilege for even that the real tree stays, and Landlock alone guards it.
pub(super) fn enter_without_namespaces(tree: &Tree) -> Result<Inside, String> {
    let root = match tree {
        Tree::Shown(paths) => common_ancestor(paths),
        Tree::Beneath(root) | Tree::Written(root) => PathBuf::from(root),
    };
    match chroot(&root) {
        Err(Errno::EPERM) => {
            return Ok(Inside { stripped: PathBuf::from("/") });
        }
        result => step("chroot", result)?,
    }
    step("chdir", chdir("/"))?;
    Ok(Inside { stripped: root })
}

fn common_ancestor(paths: &[OsString]) -> PathBuf {
    let mut paths = paths.iter().map(Path::new);
    let mut common = paths.next().unwrap_or(Path::new("/")).to_owned();
    for path in paths {
        while !path.starts_with(&common) && common.pop() {}
    }
    common
}

/// A tmpfs with the shown directories becomes the root of the namespace; the host's root is gone from it.
fn pivot_to_private_tree(shown: &[&Path], withheld: &Withheld, how: Attribute) -> Result<(), String> {
    // A node for each component of each path, the tree's own directories, and one page each.
    let nodes = 16 + shown.iter().map(|path| path.components().count()).sum::<usize>();
    let options = format!("mode=0755,nr_inodes={nodes},size={}", nodes.saturating_mul(4096));
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // The tree is built over /proc.
    let mut mounts = Mounts::open()?;
    step("mount the tree", mount(Some("anchorite"), BASE, Some("tmpfs"), flags, Some(options.as_str())))?;
    let tree = Path::new(BASE).join(TREE.trim_start_matches('/'));
    fs::create_dir(&tree).map_err(|fault| format!("make the tree: {fault}"))?;
    for path in shown {
        let target = tree.join(path.strip_prefix("/").unwrap_or(path));
        make_place(path, &target).map_err(|fault| format!("make a place for \"{}\": {fault}", path.display()))?;
        show(path, &target, withheld, &mut mounts, how)?;
    }
    step("enter the tree", chdir(BASE))?;
    step("pivot_root", pivot_root(".", "."))?;
    step("detach the old root", umount2(".", MntFlags::MNT_DETACH))?;
    step("chdir", chdir("/"))?;
    // The old root was mounted over the new one: were it still there, the parent of the root would lead into it.
    if identity(Path::new("/.."))? != identity(Path::new("/"))? {
        return Err("the old root is still there".to_owned());
    }
    set_attributes(Path::new("/"), false, READ_ONLY)?;
    confirm_tree_read_only()
}

/// Makes an empty directory, or an empty file for a file, to bind `path` over.
fn make_place(path: &Path, target: &Path) -> io::Result<()> {
    if Attributes::of(path)?.is_directory {
        return fs::create_dir_all(target);
    }
    target.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(target, "")
}

/// Leaves out what lies beneath another shown directory: binding that one recursively shows it already.
fn outermost(paths: &[OsString]) -> Vec<&Path> {
    let mut kept: Vec<&Path> = Vec::new();
    for path in paths.iter().map(Path::new).collect::<BTreeSet<_>>() {
        // In the order of paths, what lies beneath one comes right behind it.
        if !kept.last().is_some_and(|outer| path.starts_with(outer)) {
            kept.push(path);
        }
    }
    kept
}

/// Binds a directory with all that is mounted beneath it, read-only unless files are made in it. Its name was looked at before; who can change what that leads to must
/// gain nothing, so what was bound is looked at too.
fn show(path: &Path, target: &Path, withheld: &Withheld, mounts: &mut Mounts, how: Attribute) -> Result<(), String> {
    let bound = mount(Some(path), target, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE);
    bound.map_err(|errno| format!("show \"{}\": {}", path.display(), errno.desc()))?;
    withheld.refuse(path, identity(target)?)?;
    set_attributes(target, true, how)?;
    mounts.confirm(target, how)
}

/// Makes a mount, and with `recursive` all beneath it, read-only where that is wanted, without devices, set-id and executables. Flags are only
/// added: those that a user namespace inherited locked could not be rewritten.
fn set_attributes(target: &Path, recursive: bool, how: Attribute) -> Result<(), String> {
    let attributes = libc::mount_attr {
        attr_set: how | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    let path = CString::new(target.as_os_str().as_bytes()).map_err(|_| "a path holds NUL".to_owned())?;
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a live C string and the attributes are a live structure of the size given.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path.as_ptr(), flags, &raw const attributes, size_of_val(&attributes))
    };
    step("mount_setattr", Errno::result(result).map(drop))
}

/// The mounts of this process, held open: statvfs(2) would ask the servers of what is shown, which may not answer.
struct Mounts(fs::File);

impl Mounts {
    fn open() -> Result<Mounts, String> {
        let file = fs::OpenOptions::new().read(true).open("/proc/self/mountinfo");
        file.map(Mounts).map_err(|fault| format!("/proc/self/mountinfo: {fault}"))
    }

    /// Reads the flags of a mount back.
    fn confirm(&mut self, target: &Path, how: Attribute) -> Result<(), String> {
        let fault = |fault: io::Error| format!("/proc/self/mountinfo: {fault}");
        let mut text = String::new();
        self.0.seek(SeekFrom::Start(0)).map_err(fault)?;
        self.0.read_to_string(&mut text).map_err(fault)?;
        let number = Attributes::of(target).map_err(|fault| format!("stat: {fault}"))?.mount;
        let options = attributes::options_of_mount(&text, number).unwrap_or("what is not known");
        let has = |wanted: &&str| options.split(',').any(|option| option == *wanted);
        let wanted = ["ro", "nosuid", "nodev", "noexec"];
        match wanted.iter().skip(usize::from(how == WRITABLE)).all(has) {
            true => Ok(()),
            false => Err(format!("the tree is mounted with {options} at \"{}\"", target.display())),
        }
    }
}

/// The same of the tree itself, which asks nobody.
fn confirm_tree_read_only() -> Result<(), String> {
    use nix::sys::statvfs::{FsFlags, statvfs};
    let flags = statvfs("/").map_err(|errno| format!("statvfs: {}", errno.desc()))?.flags();
    let wanted = FsFlags::ST_RDONLY | FsFlags::ST_NOSUID | FsFlags::ST_NODEV | FsFlags::ST_NOEXEC;
    if flags.contains(wanted) { Ok(()) } else { Err(format!("the tree is mounted with {flags:?}")) }
}

/// chroot(2) and then chdir: without the latter, `..` from the old working directory leads out. Checks that both hold.
fn enter_root(root: &Path) -> Result<(), String> {
    let wanted = identity(root)?;
    step("chroot", chroot(root))?;
    step("chdir", chdir("/"))?;
    if identity(Path::new("/"))? != wanted || identity(Path::new("."))? != wanted || identity(Path::new(".."))? != wanted {
        return Err("the root directory is not the jail".to_owned());
    }
    Ok(())
}

/// Device and inode.
fn identity(path: &Path) -> Result<(libc::dev_t, libc::ino_t), String> {
    let found = Attributes::of(path).map_err(|fault| format!("stat: {fault}"))?;
    Ok((found.device, found.inode))
}

fn step(name: &str, result: nix::Result<()>) -> Result<(), String> {
    result.map_err(|errno| format!("{name}: {}", errno.desc()))
}

/// Whether what is shown is read-only, as mount_setattr(2) has it.
type Attribute = u64;
const READ_ONLY: Attribute = libc::MOUNT_ATTR_RDONLY;
const WRITABLE: Attribute = 0;

const NONE: Option<&str> = None;

/// Where the tree is mounted while it is built: a directory that every system has and beneath which nothing is served.
const BASE: &str = "/proc";

/// The directory of the tree that becomes the root: a process whose root is not its namespace's root cannot make a user
/// namespace (user_namespaces(7)), one more door shut.
const TREE: &str = "/jail";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_leaves_out_what_is_shown_already() {
        let paths = ["/srv/www/a", "/srv/www", "/srv/wwwx", "/srv/www-x/b", "/srv/www", "/srv/www/b/c", "/srv/www!"].map(OsString::from);
        assert_eq!(outermost(&paths), ["/srv/www", "/srv/www!", "/srv/www-x/b", "/srv/wwwx"].map(Path::new));
    }

    #[test]
    fn common_ancestor_is_the_deepest_directory_above_all() {
        let paths = ["/srv/www/a", "/srv/www/b/c", "/srv/www/b"].map(OsString::from);
        assert_eq!(common_ancestor(&paths), Path::new("/srv/www"));
        assert_eq!(common_ancestor(&["/a", "/b"].map(OsString::from)), Path::new("/"));
    }

    #[test]
    fn paths_are_stripped_of_the_root() {
        let inside = Inside { stripped: PathBuf::from("/srv") };
        assert_eq!(inside.path(Path::new("/srv/www")), Path::new("/www"));
        assert_eq!(inside.path(Path::new("/srv")), Path::new("/"));
    }
}
