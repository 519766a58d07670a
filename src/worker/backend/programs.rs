//! CGI programs as a backend: `spawn` is asked for one where `connect` would be for a connection, and told when its request is over.
//!
//! Runs in the worker, which can start nothing. `spawn` answers on the channel of `connect`: over this one nothing comes, so that the worker's
//! filter takes descriptors over no more channels than it has to.

use super::exchange::Shared;
use crate::ipc::Channel;
use crate::ipc::run::Request;
use std::collections::VecDeque;
use std::io;

/// The way to `spawn`.
pub(super) struct Programs {
    channel: Option<Channel>,
    /// What the channel did not take yet.
    unsent: VecDeque<Request>,
}

impl Programs {
    pub(super) fn new(channel: Option<Channel>) -> Programs {
        Programs { channel, unsent: VecDeque::new() }
    }

    /// Asks for the program of an exchange, if it has one; false: it is for `connect`.
    pub(super) fn run(&mut self, exchange: &Shared, id: u32) -> bool {
        let mut exchange = exchange.borrow_mut();
        let Some(program) = exchange.program.as_mut() else { return false };
        program.id = id;
        self.tell(Request::Run(program.as_ref().clone()));
        true
    }

    /// The request of an exchange is over, and so is its program.
    pub(super) fn over(&mut self, exchange: &Shared) {
        let Some(program) = exchange.borrow_mut().program.take() else { return };
        let ends = exchange.borrow().failure().is_some();
        self.tell(Request::Over { id: program.id, ends });
    }

    fn tell(&mut self, request: Request) {
        self.unsent.push_back(request);
        self.send();
    }

    /// Sends what waits, as much as the channel takes; the rest follows when answers come.
    pub(super) fn send(&mut self) {
        let Some(channel) = &self.channel else { return };
        while let Some(request) = self.unsent.front() {
            match channel.send(request, &[]) {
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return,
                // It is gone, and with it every program.
                Ok(()) | Err(_) => drop(self.unsent.pop_front()),
            }
        }
    }
}
