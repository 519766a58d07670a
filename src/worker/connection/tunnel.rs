//! A connection whose two ends speak another protocol than HTTP, such as WebSocket (RFC 9110, 7.8): bytes go through as they are.
//!
//! Runs in the worker, as a part of [`Connection`]. What the backend says goes to the client as any answer does; here is the other way. Neither
//! end is read from faster than the other takes it. A client that ends its side is told to the backend, which may still speak; when the backend
//! has ended and all of it is sent, so does the connection.

use super::{Connection, Fate};
use crate::worker::answer::Service;
use crate::worker::backend::Shared;
use std::io;
use std::rc::Rc;

impl Connection {
    /// The exchange with the other end, where the protocol was changed.
    pub(super) fn tunnel(&self) -> Option<Shared> {
        self.stream.as_ref().filter(|exchange| exchange.borrow().is_tunnel()).map(Rc::clone)
    }

    /// Whether the connection is a tunnel, which comes to no end by itself.
    pub(in crate::worker) fn is_tunnel(&self) -> bool {
        self.tunnel().is_some()
    }

    /// Takes what the client says to the other end, as much as that takes. `fate` is that of the other direction.
    pub(super) fn carry_from_client(
        &mut self,
        service: &mut Service,
        exchange: &Shared,
        buffer: &mut [u8],
        fate: Fate,
    ) -> io::Result<Fate> {
        for _ in 0..TURNS {
            let room = exchange.borrow().room();
            if room == 0 || !exchange.borrow().is_input_open() {
                return Ok(self.go_on_carrying(exchange, fate));
            }
            let early = self.input.len().min(room);
            if early > 0 {
                exchange.borrow_mut().input(&self.input[..early]);
                self.input.drain(..early);
                service.backends.pump(exchange, service.clock.now);
                continue;
            }
            let most = room.min(buffer.len());
            match self.transport.receive(&mut buffer[..most]) {
                Ok(0) => exchange.borrow_mut().end_input(),
                Ok(count) => exchange.borrow_mut().input(&buffer[..count]),
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(self.go_on_carrying(exchange, fate)),
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => continue,
                Err(fault) => return Err(fault),
            }
            service.backends.pump(exchange, service.clock.now);
        }
        Ok(Fate::Again)
    }

    /// Pumping may have brought something for the client too, or the end.
    fn go_on_carrying(&mut self, exchange: &Shared, fate: Fate) -> Fate {
        let exchange = exchange.borrow();
        if self.waiting == super::Waiting::Backend {
            self.deadline = exchange.deadline();
            if exchange.has_news() {
                return Fate::Again;
            }
        }
        fate
    }
}

/// Parts taken from a client before others get their turn.
const TURNS: u8 = 8;
