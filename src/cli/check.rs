//! `anchorite check`: every fault of a configuration at once, and whether a start would find what it needs.

use super::{control, surprises};
use crate::config::{self, Config, Diagnostics, Listen, Setting};
use crate::ipc::control::Order;
use crate::ipc::status::{OF_THE_MANAGER, handed_over, is_handed_over, quoted};
use crate::parent::{self, Depth, Owner};
use crate::sys::socket::Address;
use crate::sys::{candidate, privilege, proc, scout};
use crate::tls;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `open`: addresses that the service has which asks, and waits for the answer; empty: a service that runs is asked.
pub(super) fn main(file: &Path, dump: bool, open: &[String]) -> u8 {
    if let Err(why) = parent::look_ahead(file) {
        complain!("{}: {why}", file.display());
        return 1;
    }
    let config = match config::load(file) {
        Ok(config) => config,
        Err(faults) => {
            complain!("{faults}");
            complain_of_what_is_named(file, open);
            return 1;
        }
    };
    if dump {
        say!("{}", config::dump(&config).trim_end());
        return 0;
    }
    for warning in warnings(&config) {
        complain!("{}: warning: {warning}", file.display());
    }
    let faults = tried(config, Depth::Jail, open);
    if faults.is_empty() {
        say!("{}: {}", file.display(), candidate::GOOD);
        return 0;
    }
    complain!("{}", config::diagnose(file, &faults));
    1
}

/// What is no fault and will surprise somebody. A root that is a mount may be dead: it is served from once it answers, and not waited for here.
fn warnings(config: &Config) -> Vec<String> {
    let dead = scout::stays_at(|tell| {
        for site in &config.sites {
            tell(&site.root);
            let _ = std::fs::read_dir(&site.root).map(|mut entries| entries.next().is_some());
        }
    });
    if let Some(path) = dead {
        return vec![format!("\"{}\": its file system does not answer", path.display())];
    }
    let mut warnings: Vec<String> = parent::ignored(config).into_iter().chain(not_ours(config)).collect();
    // Where there is no such user, that is a fault, told elsewhere.
    if let Ok(identity) = parent::identity(config) {
        let loaded = tls::load(config, identity).unwrap_or_default();
        warnings.extend(loaded.warnings.iter().cloned().chain(tls::expiring(&loaded.ends)));
        warnings.extend(parent::passwords(config, identity).map(|found| found.warnings).unwrap_or_default());
        warnings.extend(surprises::find(config, identity));
    }
    warnings
}

/// What a text with faults names is tried as far as that is safe, so that one pass tells of all that is to be mended.
fn complain_of_what_is_named(file: &Path, open: &[String]) {
    let Some(config) = config::readable(file) else { return };
    let faults: Diagnostics = config::diagnose_placed(file, &tried(config, Depth::Outside, open));
    if !faults.list.is_empty() {
        complain!("{faults}");
    }
}

/// Files of the configuration that others can write: they say what root does.
fn not_ours(config: &Config) -> impl Iterator<Item = String> {
    let own = privilege::own_ids();
    let files = config.secrets.iter().filter(|(_, what)| *what == "the configuration").map(|(path, _)| path);
    files.filter_map(move |path| {
        let metadata = path.metadata().ok()?;
        let by_owner = ![0, own.0].contains(&metadata.uid());
        let by_group = metadata.mode() & 0o020 != 0 && ![0, own.1].contains(&metadata.gid());
        let by_all = metadata.mode() & 0o002 != 0;
        (by_owner || by_group || by_all).then(|| format!("\"{}\" can be written by other users than root", path.display()))
    })
}

fn of_service_manager() -> Vec<String> {
    const FIRST: i32 = 1;
    if proc::name(FIRST).is_none_or(|name| name != "systemd") {
        return Vec::new();
    }
    let text = |address| match address {
        Address::Ip(address) => Listen::Tcp(address).to_string(),
        Address::Path(path) => Listen::Unix(path).to_string(),
    };
    proc::listening_of(FIRST).into_iter().map(text).collect()
}

fn tried(config: Config, depth: Depth, open: &[String]) -> Vec<(Setting, String)> {
    // What a running service listens on is no conflict with it.
    let asked = config.server.control_socket.as_deref().filter(|_| open.is_empty());
    let status = asked.and_then(|path| control::ask(path, Order::Status { json: true }).ok());
    // Where none runs, what the service manager listens on is meant for the one that it will start.
    let waiting = if open.is_empty() && status.is_none() { of_service_manager() } else { Vec::new() };
    let is_open = |address: &str| open.iter().any(|open| open == address);
    let says = |text: &str| status.as_ref().is_some_and(|status| status.contains(text));
    let named: Vec<String> = config.addresses().iter().map(|address| quoted(&address.to_string())).collect();
    let unnamed = status.iter().flat_map(|status| handed_over(status)).find(|address| !named.iter().any(|named| named == address));
    let unnamed = unnamed.map(|address| {
        (Setting::Whole, format!("the service manager handed over a socket at {address}, which no \"listen\" names: neither a reload nor a start would take that"))
    });
    let faults = parent::check(config, depth, |address| {
        let waits = waiting.iter().any(|waiting| waiting == address);
        if waits || is_open(&format!("{OF_THE_MANAGER}{address}")) || status.as_ref().is_some_and(|status| is_handed_over(status, address))
        {
            Owner::Manager
        } else if is_open(address) || says(&quoted(address)) {
            Owner::Service
        } else {
            Owner::Another
        }
    });
    faults.into_iter().chain(unnamed).collect()
}
