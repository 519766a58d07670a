//! What a generation needs before its workers start: where its configuration comes from, and what that names, bound, opened
//! and resolved.

use super::backends;
use super::cell::Cells;
use super::control;
use super::listen::{Listener, listen};
use super::logs::Logs;
use super::passwords;
use crate::config::{self, Config, Level, directories};
use crate::sys::attributes::Mounts;
use crate::sys::privilege::Identity;
use crate::sys::watch::Watched;
use crate::sys::{clock, pid_file, process, scout};
use crate::tls;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Where the configuration comes from, and what of it a reload may not change.
pub(super) struct Source {
    /// `None`: `anchorite serve`, which has no file.
    pub(super) file: Option<PathBuf>,
    /// Where the program lay when the service started: what USR2 runs.
    pub(super) program: PathBuf,
    pub(super) identity: Identity,
    pub(super) fixed: Fixed,
    /// Directories by the names the configuration has for them, as they were when they were shown.
    pub(super) watched: Watched,
    /// Another reload was asked for while one was under way, by these clients: the file may have changed since it was read.
    pub(super) again: Option<Vec<u64>>,
}

/// Settings that need a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fixed {
    user: Option<String>,
    group: Option<String>,
    mode: config::JailMode,
    control_socket: Option<OsString>,
    spool: OsString,
}

/// Everything a generation needs before its workers start.
pub(super) struct Prepared {
    pub(super) cells: Rc<Cells>,
    pub(super) listeners: Vec<Rc<Listener>>,
    pub(super) workers: u16,
    pub(super) drain_ms: u64,
    /// Taken by whoever writes to them.
    pub(super) logs: Option<Logs>,
    pub(super) watched: Watched,
    pub(super) pid_file: Option<PathBuf>,
}

/// A generation that starts, and what comes into force with it.
pub(super) struct Pending {
    pub(super) number: u32,
    pub(super) clients: Vec<u64>,
    pub(super) logs: Option<Logs>,
    pub(super) watched: Watched,
    pub(super) pid_file: Option<PathBuf>,
}

impl Fixed {
    pub(super) fn of(config: &Config) -> Fixed {
        Fixed {
            user: config.server.user.clone(),
            group: config.server.group.clone(),
            mode: config.jail.mode.clone(),
            control_socket: config.server.control_socket.clone().map(OsString::from),
            spool: config.server.spool.clone().into(),
        }
    }

    /// The first setting in which two configurations differ.
    pub(super) fn difference(&self, other: &Fixed) -> Option<&'static str> {
        [
            (self.user != other.user, "[server] user"),
            (self.group != other.group, "[server] group"),
            (self.mode != other.mode, "[jail] mode"),
            (self.control_socket != other.control_socket, "[server] control_socket"),
            (self.spool != other.spool, "[server] spool"),
        ]
        .into_iter()
        .find_map(|(differs, name)| differs.then_some(name))
    }
}

/// Has another process look at all that a configuration names, before this one does: whoever looks up what lies beneath a mount waits for its
/// server, and no deadline ends that.
///
/// # Errors
/// Names what did not answer.
pub fn look_ahead(file: &Path) -> Result<(), String> {
    scout::look_ahead(file, || config::readable(file).map(|config| config.paths()).unwrap_or_default())
}

/// Binds, opens and resolves what a configuration names.
///
/// # Errors
/// Names what cannot be had, with the errno.
pub(super) fn prepare(
    mut config: Config,
    identity: Identity,
    open: &[Rc<Listener>],
    logs: Option<(&Logs, &BTreeSet<u16>)>,
) -> Result<Prepared, String> {
    control::leave_out_of_reach(&mut config.server, identity.rootless);
    let pid_file = config.server.pid_file.clone();
    pid_file.as_deref().map(pid_file::refuse_other).transpose()?;
    let listeners = listen(&config.addresses(), open, identity)?;
    let (logs, numbers) = Logs::open(&config, identity, logs)?;
    let (bases, _) = directories(&config.sites);
    let also = config.jail.also.iter().cloned().chain(backends::watched(&config));
    let shown: BTreeSet<PathBuf> = bases.into_iter().map(|base| base.path).chain(also).collect();
    // A server that does not answer must not keep this process: what lies on one is looked at again only by a reload.
    let mounts = Mounts::read();
    let watched = Watched::new(shown.into_iter().filter(|path| mounts.is_on_local_disk(path)), clock::monotonic_ms());
    let named = |(path, why): &(PathBuf, String)| format!("\"{}\": {why}", path.display());
    let tls = tls::load(&config, identity).map_err(|faults| faults.iter().map(named).collect::<Vec<_>>().join("\n"))?;
    let passwords = passwords::load(&config, identity).map_err(|faults| faults.iter().map(named).collect::<Vec<_>>().join("\n"))?;
    let of_tls = tls.warnings.iter().cloned().chain(tls::expiring(&tls.ends));
    let warnings: Vec<String> = of_tls.chain(passwords.warnings.iter().cloned()).collect();
    let cells = Rc::new(Cells::new(&mut config, identity, numbers, (tls, passwords))?);
    warnings.into_iter().chain(cells.swappable()).for_each(|warning| logs.report.line(Level::Warning, &warning));
    Ok(Prepared {
        cells,
        listeners,
        workers: if config.server.workers == 0 { process::cpus() } else { config.server.workers },
        drain_ms: u64::try_from(config.limits.drain_timeout.as_millis()).unwrap_or(u64::MAX),
        logs: Some(logs),
        watched,
        pid_file,
    })
}
