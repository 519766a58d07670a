//! The password files that the configuration names: opened, for `auth`, as safely as keys are, and looked through for lines that let nobody in.

use crate::config::{Config, htpasswd};
use crate::sys::privilege::Identity;
use crate::sys::{file, log_file};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Opened password files.
#[derive(Debug, Default)]
pub struct Passwords {
    /// In the order of the configuration.
    pub(super) files: Vec<Rc<OwnedFd>>,
    /// What is served in spite of it.
    pub warnings: Vec<String>,
}

/// Opens the password files of a configuration.
///
/// # Errors
/// Every file that is not as it must be, and why.
pub fn load(config: &Config, identity: Identity) -> Result<Passwords, Vec<(PathBuf, String)>> {
    let service = (!identity.rootless).then_some((identity.uid, identity.gid));
    let (mut passwords, mut faults, mut told) = (Passwords::default(), Vec::new(), BTreeSet::new());
    for auth in &config.auths {
        match log_file::open_trusted(&auth.file, service, false).and_then(|file| Ok((look_through(&auth.file, &file)?, file))) {
            Ok((warnings, file)) => {
                passwords.files.push(Rc::new(file));
                if told.insert(&auth.file) {
                    // Others can guess at its hashes, but to serve it is no worse for that.
                    let readable = log_file::open_trusted(&auth.file, service, true).err();
                    passwords.warnings.extend(readable.map(|why| format!("password file \"{}\": {why}", auth.file.display())));
                    passwords.warnings.extend(warnings);
                }
            }
            Err(fault) => faults.push((auth.file.clone(), fault.to_string())),
        }
    }
    if faults.is_empty() { Ok(passwords) } else { Err(faults) }
}

/// A text for each line that lets nobody in, and for a file that nobody is in.
fn look_through(path: &Path, file: &OwnedFd) -> io::Result<Vec<String>> {
    let size = file::stat(file)?.size;
    if size > htpasswd::FILE_MAX {
        return Err(io::Error::other(format!("it is longer than {} bytes", htpasswd::FILE_MAX)));
    }
    let (users, faults) = htpasswd::parse(&file::read(file, usize::try_from(size).unwrap_or(0))?);
    let mut warnings: Vec<String> = faults
        .iter()
        .take(TOLD_MAX)
        .map(|fault| format!("{}:{}: {}; nobody gets in by this line", path.display(), fault.line, fault.what))
        .collect();
    if faults.len() > TOLD_MAX {
        warnings.push(format!("{}: {} more lines are wrong", path.display(), faults.len() - TOLD_MAX));
    }
    if users.is_empty() {
        warnings.push(format!("{}: nobody is in it: nobody gets in", path.display()));
    }
    Ok(warnings)
}

/// Lines of one file that are told.
const TOLD_MAX: usize = 20;
