//! What the parent decides about each confined process: whom it runs as, what it sees, which rights it needs.

use crate::config::{self, Act, Config, FilesSlice, JailMode, LogNumbers, LogSlice, Site, WorkerSlice};
use crate::ipc::birth;
use crate::role::{Layer, Role};
use crate::sys::confine::Cell;
use crate::sys::jail::Tree;
use crate::sys::policy::Policy;
use crate::sys::privilege::Identity;
use crate::sys::process;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// The part of every cell that does not depend on its role, and the slices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cells {
    pub(super) identity: Identity,
    pub(super) allow_missing: Vec<Layer>,
    /// Document roots and `jail.also`, resolved.
    shown: Vec<OsString>,
    chroot: Option<OsString>,
    listing: bool,
    worker: WorkerSlice,
    log: LogSlice,
    files: FilesSlice,
}

impl Cells {
    /// Resolves the directories that are shown; a confined process could not, and a link is followed here once.
    ///
    /// # Errors
    /// Names every directory that cannot be shown, and why, on a line each.
    pub(super) fn new(config: &mut Config, identity: Identity, logs: LogNumbers) -> Result<Cells, String> {
        let mut faults: Vec<String> = Vec::new();
        let mut replace = |path: &mut PathBuf, by: fn(&PathBuf) -> Result<PathBuf, String>| match by(path) {
            Ok(found) => *path = found,
            Err(fault) if faults.contains(&fault) => {}
            Err(fault) => faults.push(fault),
        };
        for site in &mut config.sites {
            replace(&mut site.root, directory);
            for rule in &mut site.rules {
                if let Some(Act::Root(to) | Act::Alias(to)) = &mut rule.act {
                    replace(&mut to.base, resolved);
                }
            }
        }
        let mut also = config.jail.also.clone();
        also.iter_mut().for_each(|path| replace(path, directory));
        if !faults.is_empty() {
            return Err(faults.join("\n"));
        }
        let bases = config::directories(&config.sites).0.into_iter().map(|base| base.path);
        let shown = bases.chain(also).map(OsString::from).collect();
        let chroot = match &config.jail.mode {
            JailMode::Mount => None,
            JailMode::Chroot(root) => Some(safe_root(root, identity)?.into()),
        };
        Ok(Cells {
            identity,
            allow_missing: config.jail.allow_missing.clone(),
            shown,
            chroot,
            listing: config.sites.iter().any(lists),
            worker: config.worker_slice(logs),
            log: config.log_slice(),
            files: config.files_slice(),
        })
    }

    /// That a directory, by its number, cannot be looked into by confined processes.
    pub(super) fn unusable(&self, directory: u16, errno: i32) -> (PathBuf, String) {
        let path = self.shown.get(usize::from(directory)).map_or_else(|| "?".into(), PathBuf::from);
        let (fault, uid) = (std::io::Error::from_raw_os_error(errno), self.identity.uid);
        let text = format!("root \"{}\": {fault} (uid {uid}): nothing of it can be served", path.display());
        (path, text)
    }

    /// The logs that its workers write to.
    pub(super) fn log_numbers(&self) -> impl Iterator<Item = u16> {
        let numbers = &self.worker.logs;
        numbers.sites.iter().chain([&numbers.service]).copied().flatten()
    }

    /// What a new process of this role is told, encoded.
    pub(super) fn encode(&self, role: Role, number: u16, proof: bool) -> Vec<u8> {
        let cell = self.cell(role, number, proof);
        match role {
            Role::Worker => config::encode(&(cell, &self.worker)),
            Role::Log => config::encode(&(cell, &self.log)),
            Role::Files => config::encode(&(cell, &self.files)),
            // The parent starts no parent.
            Role::Parent => Vec::new(),
        }
    }

    fn cell(&self, role: Role, number: u16, proof: bool) -> Cell {
        let sees_tree = matches!(role, Role::Worker | Role::Files);
        let tree = match &self.chroot {
            Some(root) if sees_tree => Tree::Beneath(root.clone()),
            _ => Tree::Shown(if sees_tree { self.shown.clone() } else { Vec::new() }),
        };
        // The policy's rights, less what this configuration does not need.
        let needed = |right: &&str| self.listing || *right != "read_dir";
        let rights = Policy::of(role).landlock.iter().map(|grant| grant.name).filter(needed).map(str::to_owned).collect();
        Cell {
            role,
            identity: self.identity,
            tree,
            paths: if sees_tree { self.shown.clone() } else { Vec::new() },
            rights,
            allow_missing: self.allow_missing.clone(),
            proof,
            number,
            parent: process::own_id(),
            last_descriptor: match role {
                Role::Worker => birth::FILES_CHANNEL,
                Role::Log => birth::KERNEL_LOG,
                Role::Files | Role::Parent => birth::SLICE,
            },
        }
    }
}

/// Whether a site shows directories to clients, by itself or by a rule.
fn lists(site: &Site) -> bool {
    site.listing || site.rules.iter().any(|rule| rule.changes.listing == Some(true))
}

/// The directory of mode "chroot", which the user of the service may not be able to change.
pub(super) fn safe_root(path: &PathBuf, identity: Identity) -> Result<PathBuf, String> {
    use std::os::unix::fs::MetadataExt;
    let found = directory(path)?;
    let metadata = std::fs::metadata(&found).map_err(|fault| format!("\"{}\": {fault}", found.display()))?;
    let by_owner = metadata.uid() == identity.uid;
    let by_group = metadata.gid() == identity.gid && metadata.mode() & 0o020 != 0;
    if !identity.rootless && (by_owner || by_group || metadata.mode() & 0o002 != 0) {
        return Err(format!("jail root \"{}\": the user of the service (uid {}) can write it", found.display(), identity.uid));
    }
    Ok(found)
}

pub(super) fn directory(path: &PathBuf) -> Result<PathBuf, String> {
    let found = resolved(path)?;
    if found.is_dir() { Ok(found) } else { Err(format!("\"{}\" is not a directory", path.display())) }
}

/// A directory, or a file for an exact alias, without links on the way.
pub(super) fn resolved(path: &PathBuf) -> Result<PathBuf, String> {
    let resolved = std::fs::canonicalize(path).map_err(|fault| format!("directory \"{}\": {fault}", path.display()))?;
    if resolved == std::path::Path::new("/") {
        return Err(format!("\"{}\" is the whole file system; serve a directory of it", path.display()));
    }
    Ok(resolved)
}
