//! `anchorite check`: every fault of a configuration at once, and whether a start would find what it needs.

use super::control;
use crate::config;
use crate::ipc::control::Order;
use crate::parent;
use std::path::Path;

pub(super) fn main(file: &Path, dump: bool, replacing: bool) -> u8 {
    let config = match config::load(file) {
        Ok(config) => config,
        Err(faults) => {
            eprintln!("{faults}");
            return 1;
        }
    };
    if dump {
        say!("{}", config::dump(&config).trim_end());
        return 0;
    }
    for warning in super::surprises::surprises(&config) {
        eprintln!("{}: warning: {warning}", file.display());
    }
    // What a running service listens on is no conflict with it.
    let socket = config.server.control_socket.as_deref().filter(|_| !replacing);
    let status = socket.and_then(|path| control::ask(path, Order::Status { json: true }).ok());
    let owned = |address: &str| replacing || status.as_ref().is_some_and(|status| status.contains(&format!("\"{address}\"")));
    let faults = parent::check(config, owned);
    for fault in &faults {
        eprintln!("{}: {fault}", file.display());
    }
    if faults.is_empty() {
        say!("{}: the configuration is good", file.display());
    }
    u8::from(!faults.is_empty())
}
