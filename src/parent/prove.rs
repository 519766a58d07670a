//! The sandbox proves itself: one sacrificial process of each confined role, under the same rules with EPERM in place of the
//! end, tries what it must not be able to do. If one attempt works, nothing is served. That of the worker also tells which
//! directories it cannot look into.

use super::cell::Cells;
use super::child::{Ends, Nursery};
use super::supervise::START_MS;
use crate::ipc::messages::ToParent;
use crate::ipc::{Channel, Received, birth};
use crate::role::{Layer, Role};
use crate::sys::epoll::{Interest, Poller};
use crate::sys::{clock, process, proof};
use std::path::PathBuf;

/// What a proof showed.
#[derive(Default)]
pub(super) struct Proof {
    /// Layers that are missing and may be.
    pub(super) missing: Vec<Layer>,
    /// Each directory that cannot be looked into, and a text.
    pub(super) unusable: Vec<(PathBuf, String)>,
}

/// Proves the sandbox.
///
/// # Errors
/// Says how it does not hold, or why it could not be tried.
pub(super) fn prove(nursery: &mut Nursery, cells: &Cells) -> Result<Proof, String> {
    let mut found = Proof::default();
    if cfg!(feature = "bench-unconfined") {
        return Ok(found);
    }
    if nursery.user_namespace
        && cells.allow_missing.contains(&Layer::Namespaces)
        && nursery.start_proof(cells, Role::Log, "log, trying a user namespace", None).is_err()
    {
        nursery.user_namespace = false;
    }
    for role in [Role::Worker, Role::Log, Role::Files].into_iter().chain(cells.brokers()) {
        let ends = if role == Role::Worker { Some(Ends::pairs()?) } else { None };
        let title = format!("{}, proving the sandbox", role.name());
        let child = nursery.start_proof(cells, role, &title, ends.as_ref().map(|(theirs, _)| theirs))?;
        let outcome = hear(&child.channel, cells, &mut found);
        process::kill(child.pid);
        outcome.map_err(|why| format!("confinement of {}: {why}", role.name()))?;
    }
    found.missing.dedup();
    Ok(found)
}

/// Listens to a process until its last word.
fn hear(channel: &Channel, cells: &Cells, found: &mut Proof) -> Result<(), String> {
    let deadline = clock::monotonic_ms() + START_MS;
    let mut poller = Poller::new().map_err(|fault| fault.to_string())?;
    poller.add(channel, Interest::Input, 0).map_err(|fault| fault.to_string())?;
    while clock::monotonic_ms() < deadline {
        match channel.receive() {
            Received::Message(ToParent::Unusable { directory, errno }, _) => found.unusable.push(cells.unusable(directory, errno)),
            Received::Message(ToParent::Proved { missing, escape: None }, _) => {
                found.missing.extend(birth::missing(missing));
                return Ok(());
            }
            Received::Message(ToParent::Proved { escape: Some(attempt), .. }, _) => {
                return Err(format!("the sandbox does not hold: it could {}; nothing is served", proof::name(attempt)));
            }
            Received::Message(ToParent::Failed { why }, _) => return Err(why),
            Received::Nothing => {
                poller.wait(Some(deadline.saturating_sub(clock::monotonic_ms()))).map_err(|fault| fault.to_string())?;
            }
            Received::Message(..) | Received::Ended | Received::Malformed => {
                return Err("the process that proves it ended without a word".to_owned());
            }
        }
    }
    Err(format!("the process that proves it was not ready within {} s", START_MS / 1000))
}
