//! `files`: opens and reads what workers would have to wait for: a cold or slow disk, a mount whose server is dead. CONFINED: it
//! sees the tree that workers see, read-only, has no network, and waits in their place.
//!
//! All `files` of a generation hold one end of each worker's channel: whichever is free takes the next request, and one that waits
//! for a disk keeps nobody else waiting. What takes too long ends this process by the kernel's timer, and the parent starts another.
//! It trusts no path: the look-up is the worker's own, by the same policies; a malformed request ends its sender.

use crate::config::FilesSlice;
use crate::ipc::birth::{self, Born};
use crate::ipc::disk::{Act, BEGINNING, Outcome, Reply, Request, links};
use crate::ipc::messages::{Message, ToFiles, ToParent};
use crate::ipc::{Channel, Received};
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::file::{Found, Opened, Root};
use crate::sys::{alarm, clock, page_cache};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Runs the role until the parent stops it; the exit status.
pub fn run() -> u8 {
    birth::run(Role::Files, |born| Files::new(born)?.serve())
}

struct Files {
    born: Born<FilesSlice>,
    roots: Vec<Root>,
    /// By token: workers are replaced, so one number may stand for two processes for a moment.
    senders: BTreeMap<u64, Sender>,
    next_token: u64,
    stopping: bool,
    /// Room for one request.
    buffer: Vec<u8>,
}

/// A worker.
struct Sender {
    worker: u16,
    channel: Channel,
}

impl Files {
    fn new(born: Born<FilesSlice>) -> io::Result<Files> {
        let open = |base: &crate::config::Base| {
            Root::open(&born.confined.inside.path(&base.path), links(base.symlinks), born.cell.identity.rootless)
        };
        // A root on a mount that does not answer keeps this process, and the parent ends it in time.
        let roots = born.slice.directories.iter().map(open).collect::<io::Result<_>>()?;
        born.poller.add(&born.parent, Interest::Input, PARENT)?;
        birth::report_ready(&born.parent, &born.confined)?;
        let buffer = vec![0; Request::LENGTH_MAX + 1];
        Ok(Files { born, roots, senders: BTreeMap::new(), next_token: PARENT + 1, stopping: false, buffer })
    }

    /// The loop. Ends when the parent is gone, or after [`ToFiles::Stop`] when every channel has ended.
    fn serve(mut self) -> io::Result<()> {
        while !(self.stopping && self.senders.is_empty()) {
            let count = self.born.poller.wait(None)?;
            for index in 0..count {
                let Some(ready) = self.born.poller.ready(index) else { continue };
                if ready.token != PARENT {
                    self.take_requests(ready.token)?;
                } else if !self.obey()? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes what the parent has sent; false: it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        loop {
            match self.born.parent.receive_from_parent() {
                Received::Message(ToFiles::Channel { worker }, descriptors) => {
                    for channel in descriptors.into_iter().map(Channel::from) {
                        self.born.poller.add(&channel, Interest::Input, self.next_token)?;
                        self.senders.insert(self.next_token, Sender { worker, channel });
                        self.next_token += 1;
                    }
                }
                Received::Message(ToFiles::Stop, _) => self.stopping = true,
                Received::Nothing => return Ok(true),
                // As when the program is replaced: the workers that still serve need this process. Should the parent really have
                // died, the kernel ends it.
                Received::Ended if self.stopping => {
                    let _ = self.born.poller.remove(&self.born.parent);
                    return Ok(true);
                }
                Received::Ended => return Ok(false),
                // The parent is trusted; if it is not what it was, this process must not go on.
                Received::Malformed => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Carries out requests of one worker, some at a time so that a busy one does not keep the others waiting.
    fn take_requests(&mut self, token: u64) -> io::Result<()> {
        for _ in 0..TURN {
            let Some(sender) = self.senders.get(&token) else { break };
            match sender.channel.receive_long::<Request>(&mut self.buffer) {
                Received::Message(request, _) if usize::from(request.root) < self.roots.len() => {
                    // Nobody waits for it any more: what lies in the channel after a disk was slow shall not make it slower.
                    if request.deadline > clock::monotonic_ms() {
                        alarm::end_in(PATIENCE_MS)?;
                        self.carry_out(sender, &request);
                        alarm::end_in(0)?;
                    }
                }
                Received::Nothing => break,
                Received::Ended => {
                    self.senders.remove(&token);
                }
                Received::Message(..) | Received::Malformed => {
                    let worker = sender.worker;
                    self.senders.remove(&token);
                    let _ = self.born.parent.send(&ToParent::Malformed { worker }, &[]);
                }
            }
        }
        Ok(())
    }

    /// Waits for the disk and answers. A worker that does not take its answers loses them.
    fn carry_out(&self, sender: &Sender, request: &Request) {
        let Some(root) = self.roots.get(usize::from(request.root)) else { return };
        let (outcome, opened) = match request.act {
            Act::Open => open(root, &request.path),
            Act::Warm { device, inode, offset, length } => (warm(root, &request.path, (device, inode), offset, u64::from(length)), None),
        };
        let descriptors: Vec<BorrowedFd<'_>> = opened.iter().map(|opened| opened.file.as_fd()).collect();
        let _ = sender.channel.send(&Reply { id: request.id, outcome }, &descriptors);
    }
}

/// Opens what stands at a path, and reads its beginning into memory.
fn open(root: &Root, path: &[u8]) -> (Outcome, Option<Opened>) {
    let outcome = match root.find(path) {
        Found::File(opened) => {
            // What cannot be read, the worker finds out itself.
            let _ = page_cache::bring(&opened.file, 0, opened.stat.size.min(BEGINNING));
            return (Outcome::File(opened.stat), Some(opened));
        }
        Found::Directory => Outcome::Directory,
        Found::Missing => Outcome::Missing,
        Found::Denied => Outcome::Denied { length: u16::try_from(root.refusing_component(path).len()).unwrap_or(u16::MAX) },
        Found::NotRegular => Outcome::NotRegular,
        Found::Busy => Outcome::Busy,
        Found::Failed(fault) => failed(&fault),
    };
    (outcome, None)
}

/// Reads a part of the file that a worker has open into memory, if it still stands at its path.
fn warm(root: &Root, path: &[u8], file: (u64, u64), offset: u64, length: u64) -> Outcome {
    let Found::File(opened) = root.find(path) else { return Outcome::Changed };
    if (opened.stat.device, opened.stat.inode) != file {
        return Outcome::Changed;
    }
    match page_cache::bring(&opened.file, offset, length) {
        Ok(()) => Outcome::Warm,
        Err(fault) => failed(&fault),
    }
}

fn failed(fault: &io::Error) -> Outcome {
    Outcome::Failed { errno: fault.raw_os_error().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0) }
}

/// Token of the parent's channel.
const PARENT: u64 = 0;

/// Requests of one worker before others get their turn.
const TURN: u8 = 4;

/// How long one request may take before the kernel ends this process: less than a worker waits.
const PATIENCE_MS: u32 = 4_000;
