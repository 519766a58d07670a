//! `files`: opens and reads what workers would have to wait for: a cold or slow disk, a mount whose server is dead. CONFINED: it
//! sees the tree that workers see, read-only, has no network, and waits in their place.
//!
//! All `files` of a generation hold one end of each worker's channel: whichever is free takes the next request, and one that waits
//! for a disk keeps nobody else waiting. What takes too long ends this process by the kernel's timer, and the parent starts another.
//! It trusts no path: the look-up is the worker's own, by the same policies; a malformed request ends its sender.

use crate::config::FilesSlice;
use crate::ipc::answers;
use crate::ipc::birth::{self, Born};
use crate::ipc::disk::{Reply, Request, links};
use crate::ipc::messages::{Message, ToParent};
use crate::ipc::{Channel, Received};
use crate::role::Role;
use crate::sys::epoll::Interest;
use crate::sys::file::Root;
use crate::sys::{alarm, clock};
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

    /// The loop. Ends when the parent is gone, or after [`Stop`](crate::ipc::messages::ToFiles::Stop) when every channel has ended.
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
        let senders = &mut self.senders;
        self.born.obey(&mut self.stopping, &mut self.next_token, |token, worker, channel| {
            senders.insert(token, Sender { worker, channel });
        })
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
        let number = usize::from(request.root);
        let (Some(root), Some(base)) = (self.roots.get(number), self.born.slice.directories.get(number)) else { return };
        let (outcome, opened) = answers::of(root, base.lists, request);
        let descriptors: Vec<BorrowedFd<'_>> = opened.iter().map(|opened| opened.file.as_fd()).collect();
        let _ = sender.channel.send(&Reply { id: request.id, outcome }, &descriptors);
    }
}

/// Token of the parent's channel.
const PARENT: u64 = 0;

/// Requests of one worker before others get their turn.
const TURN: u8 = 4;

/// How long one request may take before the kernel ends this process: less than a worker waits.
const PATIENCE_MS: u32 = 4_000;
