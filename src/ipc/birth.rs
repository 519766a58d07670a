//! How a confined role comes to life after exec: it takes the descriptors the parent placed, decodes its slice, enters its
//! confinement, and in a process that proves the sandbox, tries to get out.

use super::messages::{Message, ToFiles, ToParent};
use super::{Channel, Received, lines};
use crate::config::{self, Level};
use crate::role::{Layer, Role};
use crate::sys::confine::{self, Cell, Confined};
use crate::sys::epoll::{Interest, Poller};
use crate::sys::privilege::Identity;
use crate::sys::shared::Shared;
use crate::sys::{clock, memory, panic, process, proof, socket, title};
use serde::de::DeserializeOwned;
use std::io;
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
    /// For workers: the way to `connect`, where there is one.
    pub connect: Option<Channel>,
    /// The same for `spool`.
    pub spool: Option<Channel>,
    /// The same for `spawn`.
    pub spawn: Option<Channel>,
    /// The same for its `keys`, and what waits for that alone.
    pub keys: Option<(Channel, Poller)>,
    /// For workers: the way to `auth`.
    pub auth: Option<Channel>,
    /// For `log`: the kernel's log, where it can be read.
    pub kernel_log: Option<OwnedFd>,
}

/// What a broker hears of the parent.
pub enum Order<M> {
    /// It has said this.
    Given(M, Vec<OwnedFd>),
    /// Nothing more for now.
    Nothing,
    /// It is gone, and there is nothing left to do.
    Gone,
}

impl<S> Born<S> {
    /// The next order. One that is `stopping` outlives the parent's end, as when the program is replaced: workers that still serve need it.
    /// Should the parent really have died, the kernel ends this process.
    ///
    /// # Errors
    /// `InvalidData`: the parent is trusted; if it is not what it was, this process must not go on.
    pub fn order<M: Message>(&self, stopping: bool) -> io::Result<Order<M>> {
        match self.parent.receive_from_parent() {
            Received::Message(message, descriptors) => Ok(Order::Given(message, descriptors)),
            Received::Nothing => Ok(Order::Nothing),
            Received::Ended if stopping => {
                // It may have been removed before.
                let _ = self.poller.remove(&self.parent);
                Ok(Order::Nothing)
            }
            Received::Ended => Ok(Order::Gone),
            Received::Malformed => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Does what the parent orders a broker to: each worker's channel is watched, and taken by `take` with its token, the next of
    /// `next_token`. False: the parent is gone.
    ///
    /// # Errors
    /// As [`Born::order`], and the errno of epoll_ctl(2).
    pub fn obey(&self, stopping: &mut bool, next_token: &mut u64, mut take: impl FnMut(u64, u16, Channel)) -> io::Result<bool> {
        loop {
            match self.order(*stopping)? {
                Order::Given(ToFiles::Channel { worker }, descriptors) => {
                    for channel in descriptors.into_iter().map(Channel::from) {
                        self.poller.add(&channel, Interest::Input, *next_token)?;
                        take(*next_token, worker, channel);
                        *next_token += 1;
                    }
                }
                Order::Given(ToFiles::Stop, _) => *stopping = true,
                Order::Nothing => return Ok(true),
                Order::Gone => return Ok(false),
            }
        }
    }
}

/// Descriptor numbers at which the parent places what a role is given.
pub const PARENT_CHANNEL: i32 = process::FIRST_GIVEN;
pub const SLICE: i32 = PARENT_CHANNEL + 1;
pub const LOG_CHANNEL: i32 = SLICE + 1;
/// A worker's filter takes descriptors over these two and the parent's channel only: numbers that one mask tells from all others but that
/// of standard error, which is no socket.
pub const CONNECT_CHANNEL: i32 = LOG_CHANNEL + 1;
pub const FILES_CHANNEL: i32 = CONNECT_CHANNEL + 1;
pub const COUNTERS: i32 = FILES_CHANNEL + 1;
/// No descriptors come from there.
pub const SPOOL_CHANNEL: i32 = COUNTERS + 1;

/// Nor over this one: `spawn` answers over that of `connect`.
pub const SPAWN_CHANNEL: i32 = SPOOL_CHANNEL + 1;
/// No descriptors come from there.
pub const KEYS_CHANNEL: i32 = SPAWN_CHANNEL + 1;
/// Nor from there.
pub const AUTH_CHANNEL: i32 = KEYS_CHANNEL + 1;

/// For `keys` and `auth`: the first of the files with private keys, or with passwords.
pub const FIRST_FILE: i32 = SLICE + 1;

/// For `log`, in place of the channel to itself; perhaps not there.
pub const KERNEL_LOG: i32 = LOG_CHANNEL;

/// Brings the role to life. `None`: the process has nothing more to do and must exit with the status.
///
/// # Errors
/// The exit status: 0 after a proof, 1 after a failed start, which the parent has been told of.
pub fn begin<S: DeserializeOwned>(role: Role) -> Result<Born<S>, u8> {
    begin_prepared(role, |_, _| Ok(()))
}

fn begin_prepared<S: DeserializeOwned>(role: Role, prepare: Prepare<S>) -> Result<Born<S>, u8> {
    panic::install(|text| lines::error_packet(Level::Error, text));
    title::set_short(&format!("anchorite-{}", role.name()));
    let Ok(parent) = socket::inherited(PARENT_CHANNEL).map(Channel::from) else {
        eprintln!("anchorite: a role is started by the parent, not by hand");
        return Err(2);
    };
    let born = take(role, parent, prepare);
    match born {
        Ok(born) => Ok(born),
        Err((parent, why)) => {
            let _ = parent.send(&ToParent::Failed { why }, &[]);
            Err(1)
        }
    }
}

/// Runs a broker from its beginning to its end, or proves its sandbox where the parent wants that; the exit status.
pub fn run<S: DeserializeOwned>(role: Role, serve: impl FnOnce(Born<S>) -> io::Result<()>) -> u8 {
    run_prepared(role, |_, _| Ok(()), serve)
}

/// What has to be done with a slice before the confinement.
pub type Prepare<S> = fn(Identity, &mut S) -> Result<(), String>;

/// The same for one that has something to prepare while it still may.
pub fn run_prepared<S: DeserializeOwned>(role: Role, prepare: Prepare<S>, serve: impl FnOnce(Born<S>) -> io::Result<()>) -> u8 {
    match begin_prepared::<S>(role, prepare) {
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
pub fn report_ready(parent: &Channel, confined: &Confined) -> io::Result<()> {
    parent.send(&ToParent::Ready { missing: mask(&confined.missing) }, &[])
}

/// The layers whose bit is set in a [`ToParent::Ready`].
pub fn missing(mask: u8) -> impl Iterator<Item = Layer> {
    Layer::ALL.into_iter().enumerate().filter(move |(bit, _)| mask & (1 << bit) != 0).map(|(_, layer)| layer)
}

fn mask(layers: &[Layer]) -> u8 {
    Layer::ALL.iter().enumerate().filter(|(_, layer)| layers.contains(layer)).map(|(bit, _)| 1 << bit).sum()
}

fn take<S: DeserializeOwned>(role: Role, parent: Channel, prepare: Prepare<S>) -> Result<Born<S>, (Channel, String)> {
    let outcome = (|| {
        let slice = socket::inherited(SLICE).and_then(memory::content).map_err(|fault| format!("slice: {fault}"))?;
        let (cell, mut slice): (Cell, S) = config::decode(&slice).map_err(|fault| format!("slice: {fault}"))?;
        if cell.role != role {
            return Err("slice: it is for another role".to_owned());
        }
        let shared = if role == Role::Worker {
            Some(socket::inherited(COUNTERS).and_then(Shared::map).map_err(|fault| format!("counters: {fault}"))?)
        } else {
            None
        };
        let (log, kernel_log) = match role {
            Role::Worker => (socket::inherited(LOG_CHANNEL).ok().map(Channel::from), None),
            Role::Log => (None, socket::inherited(KERNEL_LOG).ok()),
            Role::Files | Role::Connect | Role::ConnectTcp | Role::Spool | Role::Keys | Role::Auth | Role::Spawn | Role::Parent => {
                (None, None)
            }
        };
        let of_worker = |number| if role == Role::Worker { socket::inherited(number).ok().map(Channel::from) } else { None };
        let (files, connect) = (of_worker(FILES_CHANNEL), of_worker(CONNECT_CHANNEL));
        let (spool, spawn) = (of_worker(SPOOL_CHANNEL), of_worker(SPAWN_CHANNEL));
        let auth = of_worker(AUTH_CHANNEL);
        if let Some(log) = &log {
            panic::send_to(log.as_fd().as_raw_fd());
        }
        prepare(cell.identity, &mut slice)?;
        // It takes the number that the slice had, so that the first step of the confinement does not close it.
        let poller = || Poller::new().map_err(|fault| format!("epoll: {fault}"));
        let (poller, keys) = (poller()?, of_worker(KEYS_CHANNEL).map(|channel| Ok::<_, String>((channel, poller()?))).transpose()?);
        clock::load_zone();
        let descriptors = usize::try_from(process::file_limit()).unwrap_or(usize::MAX);
        let confined = confine::enter(&cell).map_err(|fault| format!("step {}: {}", fault.step, fault.why))?;
        Ok((confined, cell, slice, log, shared, files, connect, (spool, spawn, keys, auth), kernel_log, descriptors, poller))
    })();
    match outcome {
        Ok((confined, cell, slice, log, shared, files, connect, (spool, spawn, keys, auth), kernel_log, descriptors, poller)) => Ok(Born {
            confined,
            cell,
            slice,
            descriptors,
            parent,
            poller,
            log,
            shared,
            files,
            connect,
            spool,
            spawn,
            keys,
            auth,
            kernel_log,
        }),
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
