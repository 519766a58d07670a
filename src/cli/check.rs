//! `anchorite check`: every fault of a configuration at once, and whether a start would find what it needs.

use super::{control, surprises};
use crate::config;
use crate::ipc::control::Order;
use crate::ipc::status::quoted;
use crate::parent;
use std::path::Path;

/// `open`: addresses that the service has which asks, and waits for the answer; empty: a service that runs is asked.
pub(super) fn main(file: &Path, dump: bool, open: &[String]) -> u8 {
    let config = match config::load(file) {
        Ok(config) => config,
        Err(faults) => {
            complain!("{faults}");
            return 1;
        }
    };
    if dump {
        say!("{}", config::dump(&config).trim_end());
        return 0;
    }
    // What a running service listens on is no conflict with it.
    let asked = config.server.control_socket.as_deref().filter(|_| open.is_empty());
    let status = asked.and_then(|path| control::ask(path, Order::Status { json: true }).ok());
    let owned =
        |address: &str| open.iter().any(|open| open == address) || status.as_ref().is_some_and(|status| status.contains(&quoted(address)));
    // Where there is no such user, that is a fault, told below.
    let warnings = parent::identity(&config).map_or_else(|_| Vec::new(), |identity| surprises::find(&config, identity));
    for warning in warnings {
        complain!("{}: warning: {warning}", file.display());
    }
    let faults = parent::check(config, owned);
    if faults.is_empty() {
        say!("{}: the configuration is good", file.display());
        return 0;
    }
    complain!("{}", config::diagnose(file, &faults));
    1
}
