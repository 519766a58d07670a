//! A connection that turns out to be one of HTTP/2, and one that is a stream of it.
//!
//! Runs in the worker, as a part of [`Connection`].

use super::{Connection, Fate, Progress, Scan, Waiting};
use crate::proto::http2::Preface;
use crate::worker::answer::Service;
use crate::worker::state::Parted;
use crate::worker::transport::Transport;

impl Connection {
    /// Whether the first bytes are those of HTTP/2, where that was agreed on over TLS or is permitted without; `None`: they are a request's.
    pub(super) fn become_http2(&mut self, service: &Service, input: &[u8]) -> Option<Progress> {
        if self.requests > 0 || !self.transport.may_be_http2(service.http2_cleartext) {
            return None;
        }
        match Preface::of(input) {
            Preface::Whole => Some(Progress::Stopped(Fate::Http2)),
            Preface::Begun => Some(Progress::NeedsMore),
            // Who has agreed to HTTP/2 and speaks something else is not understood either way.
            Preface::Absent if self.visit.tls.is_some() => Some(Progress::Stopped(Fate::Close)),
            Preface::Absent => None,
        }
    }

    /// What it was made of.
    pub(in crate::worker) fn into_parts(self) -> Parted {
        Parted {
            transport: self.transport,
            visit: self.visit,
            client: self.client,
            seat: self.seat,
            proxy: self.proxy,
            input: self.input,
            gauge: self.gauge,
            registered: self.registered,
        }
    }

    /// Answers the request of a stream, whose head is this.
    pub(in crate::worker) fn begin_stream(&mut self, service: &mut Service, head: &[u8], buffer: &mut [u8]) -> Fate {
        self.registered = true;
        self.waiting = Waiting::Body;
        self.scan = Scan::http2();
        match self.consume_borrowed(service, head) {
            Ok(Progress::Stopped(Fate::Keep)) => self.watch(),
            Ok(Progress::Stopped(fate)) => fate,
            Ok(Progress::NeedsMore) => self.drive(service, buffer),
            Err(_) => Fate::Close,
        }
    }

    pub(super) fn new_scan(&self) -> Scan {
        if self.transport.is_stream() { Scan::http2() } else { Scan::default() }
    }

    /// Of a stream: the loop is told when its client takes the request back.
    pub(super) fn watch(&mut self) -> Fate {
        if self.transport.watch().is_ok() { Fate::Keep } else { Fate::Close }
    }

    /// The session that it is a stream of.
    pub(in crate::worker) fn session(&self) -> Option<u64> {
        match &self.transport {
            Transport::Stream(stream) => Some(stream.session()),
            Transport::Plain(_) | Transport::Tls(_) => None,
        }
    }

    pub(in crate::worker) fn transport(&self) -> &Transport {
        &self.transport
    }
}
