//! An `/etc` of the service's own, for what no test may change on the machine.

use super::Launch;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of `/etc` in the home of a service, which [`OwnEtc::line`] mounts in its place, for the service alone.
pub(crate) struct OwnEtc(PathBuf);

impl OwnEtc {
    pub(crate) fn new(launch: &Launch) -> OwnEtc {
        let path = launch.home().join("etc");
        let output = Command::new("cp").args(["-a", "/etc"]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        OwnEtc(path)
    }

    /// The copy, from outside.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// For [`Launch::shell`].
    pub(crate) fn line(&self) -> String {
        format!("exec unshare -m bash -c 'mount --bind {} /etc && exec \"$@\"' bash \"$@\"", self.0.display())
    }
}
