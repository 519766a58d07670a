//! `anchorite serve DIR`: a directory, no configuration file.

use crate::config;
use crate::parent::{self, Announce, Origin};
use std::net::SocketAddr;
use std::path::Path;

pub(super) fn main(directory: &Path, listen: SocketAddr) -> u8 {
    let resolved = match std::fs::canonicalize(directory) {
        Ok(resolved) => resolved,
        Err(fault) => {
            complain!("anchorite: directory \"{}\": {fault}", directory.display());
            return 1;
        }
    };
    let announcement = Announce::Directory(resolved.display().to_string());
    parent::run(config::serve(resolved, listen), Origin::default(), &announcement)
}
