//! How a confined role comes to life after exec: it takes the descriptors the parent placed, decodes its slice, enters its
//! confinement, and in a process that proves the sandbox, tries to get out.

use super::messages::ToParent;
use super::{Channel, lines};
use crate::config::{self, Level};
use crate::role::{Layer, Role};
use crate::sys::confine::{self, Cell, Confined};
use crate::sys::epoll::Poller;
use crate::sys::shared::Shared;
use crate::sys::{clock, memory, panic, process, proof, socket, title};
use serde::de::DeserializeOwned;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A role that is confined and may begin.
pub struct Born<S> {
    pub confined: Confined,
    pub cell: Cell,
    pub slice: S,
    /// How many descriptors this process may have open.
    pub descriptors: usize,
    pub parent: Channel,
    /// Made before the confinement, whose filter has no call for it.
    pub poller: Poller,
    /// For workers: the way to `log`, the memory that they share, and the way to `files`.
    pub log: Option<Channel>,
    pub shared: Option<Shared>,
    pub files: Option<Channel>,
    /// For `log`: the kernel's log, where it can be read.
    pub kernel_log: Option<OwnedFd>,
}

/// Descriptor numbers at which the parent places what a role is given.
pub const PARENT_CHANNEL: i32 = process::FIRST_GIVEN;
pub const SLICE: i32 = PARENT_CHANNEL + 1;
pub const LOG_CHANNEL: i32 = SLICE + 1;
pub const COUNTERS: i32 = LOG_CHANNEL + 1;
/// A worker's filter takes descriptors over this one and the parent's channel only.
pub const FILES_CHANNEL: i32 = COUNTERS + 1;

/// For `log`, in place of the channel to itself; perhaps not there.
pub const KERNEL_LOG: i32 = LOG_CHANNEL;

/// Brings the role to life. `None`: the process has nothing more to do and must exit with the status.
///
/// # Errors
/// The exit status: 0 after a proof, 1 after a failed start, which the parent has been told of.
pub fn begin<S: DeserializeOwned>(role: Role) -> Result<Born<S>, u8> {
    panic::install(|text| lines::error_packet(Level::Error, text));
    title::set_short(&format!("anchorite-{}", role.name()));
    let Ok(parent) = socket::inherited(PARENT_CHANNEL).map(Channel::from) else {
        eprintln!("anchorite: a role is started by the parent, not by hand");
        return Err(2);
    };
    let born = take(role, parent);
    match born {
        Ok(born) => Ok(born),
        Err((parent, why)) => {
            let _ = parent.send(&ToParent::Failed { why }, &[]);
            Err(1)
        }
    }
}

/// Runs a broker from its beginning to its end, or proves its sandbox where the parent wants that; the exit status.
pub fn run<S: DeserializeOwned>(role: Role, serve: impl FnOnce(Born<S>) -> std::io::Result<()>) -> u8 {
    match begin::<S>(role) {
        Ok(born) if born.cell.proof => prove(&born),
        Ok(born) => u8::from(serve(born).is_err()),
        Err(status) => status,
    }
}

/// In a process that proves the sandbox: tries to get out and reports it; the exit status.
pub fn prove<S>(born: &Born<S>) -> u8 {
    let (missing, escape) = (mask(&born.confined.missing), proof::escape(born.cell.parent, &born.confined));
    u8::from(born.parent.send(&ToParent::Proved { missing, escape }, &[]).is_err())
}

/// Reports that the role may be given its work.
///
/// # Errors
/// As [`Channel::send`].
pub fn report_ready(parent: &Channel, confined: &Confined) -> std::io::Result<()> {
    parent.send(&ToParent::Ready { missing: mask(&confined.missing) }, &[])
}

/// The layers whose bit is set in a [`ToParent::Ready`].
pub fn missing(mask: u8) -> impl Iterator<Item = Layer> {
    Layer::ALL.into_iter().enumerate().filter(move |(bit, _)| mask & (1 << bit) != 0).map(|(_, layer)| layer)
}

fn mask(layers: &[Layer]) -> u8 {
    Layer::ALL.iter().enumerate().filter(|(_, layer)| layers.contains(layer)).map(|(bit, _)| 1 << bit).sum()
}

fn take<S: DeserializeOwned>(role: Role, parent: Channel) -> Result<Born<S>, (Channel, String)> {
    let outcome = (|| {
        let slice = socket::inherited(SLICE).and_then(memory::content).map_err(|fault| format!("slice: {fault}"))?;
        let (cell, slice): (Cell, S) = config::decode(&slice).map_err(|fault| format!("slice: {fault}"))?;
        if cell.role != role {
            return Err("slice: it is for another role".to_owned());
        }
        let shared = if cell.last_descriptor >= COUNTERS {
            Some(socket::inherited(COUNTERS).and_then(Shared::map).map_err(|fault| format!("counters: {fault}"))?)
        } else {
            None
        };
        let (log, kernel_log) = match role {
            Role::Worker => (socket::inherited(LOG_CHANNEL).ok().map(Channel::from), None),
            Role::Log => (None, socket::inherited(KERNEL_LOG).ok()),
            Role::Files | Role::Parent => (None, None),
        };
        let files = if role == Role::Worker { socket::inherited(FILES_CHANNEL).ok().map(Channel::from) } else { None };
        if let Some(log) = &log {
            panic::send_to(log.as_fd().as_raw_fd());
        }
        // It takes the number that the slice had, so that the first step of the confinement does not close it.
        let poller = Poller::new().map_err(|fault| format!("epoll: {fault}"))?;
        clock::load_zone();
        let descriptors = usize::try_from(process::file_limit()).unwrap_or(usize::MAX);
        let confined = confine::enter(&cell).map_err(|fault| format!("step {}: {}", fault.step, fault.why))?;
        Ok((confined, cell, slice, log, shared, files, kernel_log, descriptors, poller))
    })();
    match outcome {
        Ok((confined, cell, slice, log, shared, files, kernel_log, descriptors, poller)) => {
            Ok(Born { confined, cell, slice, descriptors, parent, poller, log, shared, files, kernel_log })
        }
        Err(why) => Err((parent, why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_layers_survive_their_mask() {
        assert_eq!(missing(mask(&[Layer::Namespaces, Layer::Landlock])).collect::<Vec<_>>(), [Layer::Landlock, Layer::Namespaces]);
    }
}
