//! Look-ups of `anchorite explain`: made on the real tree as the worker would make them in its jail, by root with the rights of the worker's
//! user, but for the way to a document root, which the jail shows whatever stands above it; by others with their own. Where links lead out of
//! what the jail shows is found out afterwards: this process has to see users and programs too, which no jail shows.

use crate::config::{Jail, JailMode, Symlinks};
use crate::ipc::disk::links;
use crate::proto::status::Status;
use crate::site::explain::{Seen, shown};
use crate::site::listing;
use crate::site::lookup::{Base, Lookup};
use crate::site::plan::Answer;
use crate::sys::directory::Directory;
use crate::sys::file::{Found, Root, Unfollowed};
use crate::sys::privilege::{self, Identity};
use crate::sys::shown as directories;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the worker sees.
pub(super) struct Eyes {
    /// Whose rights count; `None`: those of whoever asks.
    identity: Option<Identity>,
    /// That of the jail, where it is a directory of the host.
    root: Option<PathBuf>,
    /// What may be read, as the host calls it: Landlock refuses the rest of a tree.
    shown: Vec<PathBuf>,
    /// Directories without links on the way, by what the configuration calls them.
    resolved: BTreeMap<PathBuf, PathBuf>,
}

impl Eyes {
    /// Finds out what the jail would show.
    pub(super) fn open(identity: Option<Identity>, jail: &Jail, bases: &[Base]) -> Eyes {
        let resolve = |path: &PathBuf| directories::resolved(path).ok();
        let resolved: BTreeMap<PathBuf, PathBuf> =
            bases.iter().filter_map(|base| Some((base.path.clone(), resolve(&base.path)?))).collect();
        let shown: Vec<PathBuf> = resolved.values().cloned().chain(jail.also.iter().filter_map(resolve)).collect();
        let root = match &jail.mode {
            JailMode::Mount => None,
            JailMode::Chroot(root) => Some(resolve(root).unwrap_or_else(|| root.clone())),
        };
        Eyes { identity, root, shown, resolved }
    }

    /// A directory without links on the way.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        self.resolved.get(path).map_or_else(|| path.to_owned(), PathBuf::clone)
    }

    /// Answers a look-up; with what a reader should know.
    pub(super) fn look(&self, base: &Base, lookup: Lookup<'_>) -> (Answer<Seen>, Option<String>) {
        match self.with_root(base, |root| self.found(root, base, lookup)) {
            Ok(Ok(answer)) => answer,
            Ok(Err(fault)) => (Answer::Missing, Some(format!("\"{}\": {fault}", base.path.display()))),
            Err(why) => (Answer::Failed, Some(why)),
        }
    }

    /// Why a directory cannot be listed, and what is answered then; `None`: it can.
    pub(super) fn not_listed(&self, base: &Base, lookup: Lookup<'_>) -> Option<(Status, String)> {
        if self.withheld(base, lookup.path).is_some() {
            return Some((Status::FORBIDDEN, not_shown(base, lookup)));
        }
        let fault = match self.with_root(base, |root| Directory::open(root, lookup.path).map(drop)) {
            Ok(Ok(listed)) => listed.err()?,
            Ok(Err(fault)) => fault,
            Err(why) => io::Error::other(why),
        };
        let who = self.identity.map_or_else(|| privilege::own_ids().0, |identity| identity.uid);
        Some((listing::not_listed(&fault), format!("\"{}\" cannot be read by user id {who}: {fault}", name(base, lookup.path))))
    }

    /// Does something with a root, with the rights that count.
    fn with_root<T>(&self, base: &Base, work: impl FnOnce(&Root) -> T) -> Result<io::Result<T>, String> {
        let root = match Root::open(&self.resolve(&base.path), links(base.symlinks), false) {
            Ok(root) => root,
            Err(fault) => return Ok(Err(fault)),
        };
        match self.identity {
            None => Ok(Ok(work(&root))),
            Some(identity) => {
                let done = privilege::with_rights_of(identity, || work(&root));
                done.map(Ok).map_err(|fault| format!("the rights of user id {}: {fault}", identity.uid))
            }
        }
    }

    fn found(&self, root: &Root, base: &Base, lookup: Lookup<'_>) -> (Answer<Seen>, Option<String>) {
        let found = root.find(lookup.path);
        let withheld = if matches!(found, Found::File(_) | Found::Directory) { self.withheld(base, lookup.path) } else { None };
        match found {
            // A directory may be opened, though nothing in it.
            Found::File(_) | Found::Directory if withheld == Some(Answer::Missing) => (Answer::Missing, Some(not_shown(base, lookup))),
            Found::File(_) if withheld.is_some() => (Answer::Denied, Some(not_shown(base, lookup))),
            Found::File(opened) => {
                let stat = opened.stat;
                (Answer::File(Seen { size: stat.size, modified: stat.modified, modified_ns: stat.modified_ns }), None)
            }
            Found::Directory => (Answer::Directory, None),
            Found::Unfollowed(link) => (Answer::Missing, Some(self.told(root, base, lookup, link))),
            // One that leads nowhere is not what the policy refuses.
            Found::Missing => (Answer::Missing, root.unfollowed(lookup.path).map(|link| self.told(root, base, lookup, link))),
            Found::Denied => {
                let part = name(base, root.refusing_component(lookup.path));
                (Answer::Denied, Some(format!("\"{part}\" refuses user id {}", privilege::own_ids().0)))
            }
            Found::NotRegular => (Answer::NotRegular, None),
            Found::Busy => (Answer::Busy, None),
            Found::Failed(fault) => (Answer::Failed, Some(fault.to_string())),
        }
    }

    /// What becomes of a file or directory to which links lead that is not shown.
    fn withheld(&self, base: &Base, path: &[u8]) -> Option<Answer<Seen>> {
        let found = std::fs::canonicalize(self.resolve(&base.path).join(OsStr::from_bytes(path))).ok();
        let found = found.filter(|_| base.symlinks == Symlinks::Any)?;
        if self.shown.iter().any(|shown| found.starts_with(shown)) {
            return None;
        }
        let is_there = self.root.as_ref().is_some_and(|root| found.starts_with(root));
        Some(if is_there { Answer::Denied } else { Answer::Missing })
    }

    fn told(&self, root: &Root, base: &Base, lookup: Lookup<'_>, link: Unfollowed) -> String {
        let path = lookup.path.get(..link.length).unwrap_or(lookup.path);
        let target = shown(&root.target(path).unwrap_or_default());
        format!("\"{}\" -> \"{target}\", with symlinks = \"{}\": {}", name(base, path), base.symlinks.word(), link.why.text())
    }
}

fn not_shown(base: &Base, lookup: Lookup<'_>) -> String {
    format!("\"{}\" leads to what the jail does not show: \"also\" of [jail] would", name(base, lookup.path))
}

/// A path beneath a base, as the configuration calls that.
fn name(base: &Base, path: &[u8]) -> String {
    let whole = if path.is_empty() { base.path.clone() } else { base.path.join(OsStr::from_bytes(path)) };
    shown(whole.as_os_str().as_bytes())
}
