//! What the loop does for connections of HTTP/2: drives them, and makes connections of their streams.
//!
//! Runs in the worker, as a part of its loop.

use super::table::SESSION;
use super::{TURN_US, Worker, find, pack};
use crate::ipc::counters::{Counter, Gauge};
use crate::sys::clock;
use crate::sys::epoll::Interest;
use crate::worker::admission::Admitted;
use crate::worker::connection::Connection;
use crate::worker::http2::session::{Accepted, Next, Request, Session};
use crate::worker::transport::Transport;

impl Worker {
    /// A connection turned out to be one of HTTP/2.
    pub(super) fn become_session(&mut self, index: usize) {
        let Some(parted) = self.connections.try_remove(index).map(Connection::into_parts) else { return };
        if parted.registered
            && let Some(socket) = parted.transport.socket()
        {
            let _ = self.poller.remove(socket);
        }
        self.serial = self.serial.wrapping_add(1);
        let entry = self.sessions.all.vacant_entry();
        let token = u64::from(self.serial) << 32 | SESSION | u64::try_from(entry.key()).unwrap_or(0);
        let (now, header_bytes) = (self.service.clock.now, self.service.head_limits.header_bytes);
        let names = (token, self.serial);
        entry.insert(Session::new(parted, names, &self.sessions.touched, &self.sessions.bell, header_bytes, now));
        self.drive_session(token);
    }

    /// The socket of a session is ready, or it has more to do.
    pub(super) fn drive_session(&mut self, token: u64) {
        let Some((index, session)) = self.sessions.find(token) else { return };
        session.queued = false;
        let Ok(more) = session.receive(&mut self.buffer) else { return self.close_session(index) };
        session.shared.touch();
        if more && !std::mem::replace(&mut session.queued, true) {
            self.sessions.again.push_back(token);
        }
        self.accept_streams(token);
        if let Some((_, session)) = self.sessions.find(token) {
            session.judge(&self.service.limits, self.service.clock.now);
        }
    }

    /// Answers the requests that a session has brought.
    fn accept_streams(&mut self, token: u64) {
        loop {
            self.serial = self.serial.wrapping_add(1);
            let (serial, now) = (self.serial, (self.service.clock.now, self.service.log.moment()));
            let place = pack(self.connections.vacant_key(), serial);
            let mut head = std::mem::take(&mut self.sessions.head);
            let Some((_, session)) = self.sessions.find(token) else { return };
            let accepted = session.accept(place, &mut head, now);
            let admitted = Admitted { client: session.client, trusted: session.proxy.is_some(), ..Admitted::default() };
            if let Accepted::Stream(request) = accepted {
                self.begin_stream(*request, admitted, place, &head);
                self.sessions.head = head;
            } else {
                self.sessions.head = head;
                return;
            }
        }
    }

    fn begin_stream(&mut self, request: Request, admitted: Admitted, token: u64, head: &[u8]) {
        let Request { visit, mut stream } = request;
        let Ok(serial) = u32::try_from(token >> 32) else { return };
        // As many as there may be connections: each of them holds as much.
        if self.sessions.streams >= self.connections_max {
            self.service.counters.count(Counter::LimitHit, 1);
            return stream.refuse();
        }
        let connection = Connection::new(Transport::Stream(Box::new(stream)), visit, admitted, serial, u64::MAX);
        let index = self.connections.insert(connection);
        self.sessions.streams += 1;
        self.service.clients.handles(admitted.client);
        self.service.disk.asker = token;
        let Some(connection) = self.connections.get_mut(index) else { return };
        let fate = connection.begin_stream(&mut self.service, head, &mut self.buffer);
        self.settle(index, token, fate);
    }

    /// Drives sessions that have more to read, sends what was made for them, and wakes the streams that this helps: those may make more, and so
    /// on, but not for long.
    pub(super) fn carry_sessions_on(&mut self) {
        for _ in 0..self.sessions.again.len() {
            let Some(token) = self.sessions.again.pop_front() else { break };
            self.drive_session(token);
        }
        let begun = clock::monotonic_us();
        while !self.sessions.touched.borrow().is_empty() {
            for token in self.sessions.touched.take() {
                self.flush_session(token);
            }
            self.wake_streams();
            if clock::monotonic_us().saturating_sub(begun) > TURN_US {
                return;
            }
        }
    }

    /// Wakes the streams that have something new.
    fn wake_streams(&mut self) {
        for token in self.sessions.bell.take() {
            self.wake(token);
        }
    }

    fn flush_session(&mut self, token: u64) {
        let now = self.service.clock.now;
        let Some((index, session)) = self.sessions.find(token) else { return };
        let Ok(next) = session.flush(now) else { return self.close_session(index) };
        if let Some(client) = session.takes_too_much() {
            self.service.counters.count(Counter::Refused, 1);
            self.service
                .say_refused(|| format!("client {client}: more frames, or requests taken back, than HTTP/2 needs: connection ended"));
        }
        let Some((_, session)) = self.sessions.find(token) else { return };
        if session.is_over() && session.shared.open() > 0 {
            self.close_streams(token);
        }
        let Some((index, session)) = self.sessions.find(token) else { return };
        let waiting = session.shared.take_waiting();
        match next {
            Next::Close => return self.close_session(index),
            Next::Again if !std::mem::replace(&mut session.queued, true) => self.sessions.again.push_back(token),
            Next::Again | Next::Keep => {}
        }
        for stream in waiting {
            // In turn with all others that have more to do.
            if let Some((_, connection)) = find(&mut self.connections, stream)
                && !std::mem::replace(&mut connection.queued, true)
            {
                self.again.push_back(stream);
            }
        }
        self.settle_session(token);
    }

    fn settle_session(&mut self, token: u64) {
        let now = self.service.clock.now;
        let Some((index, session)) = self.sessions.find(token) else { return };
        let gauge = session.settle(&self.service.limits, now);
        self.gauges[session.gauge as usize] -= 1;
        self.gauges[gauge as usize] += 1;
        session.gauge = gauge;
        if session.deadline < session.reminder {
            session.reminder = session.deadline;
            self.wheel.remind(token, session.deadline);
        }
        if !session.registered {
            let added = session.transport().socket().map(|socket| self.poller.add(socket, Interest::Connection, token));
            if !matches!(added, Some(Ok(()))) {
                return self.close_session(index);
            }
            session.registered = true;
        }
    }

    /// A reminder came: the deadline has passed, or was put off since.
    pub(super) fn remind_session(&mut self, token: u64) {
        let now = self.service.clock.now;
        let Some((index, session)) = self.sessions.find(token) else { return };
        session.reminder = u64::MAX;
        if session.deadline <= now {
            if session.time_out(now) {
                return session.shared.touch();
            }
            if session.gauge != Gauge::Idle {
                self.service.counters.count(Counter::TimedOut, 1);
            }
            return self.close_session(index);
        }
        session.reminder = session.deadline;
        if session.deadline < u64::MAX {
            self.wheel.remind(token, session.deadline);
        }
    }

    /// All sessions take no more requests.
    pub(super) fn wind_up_sessions(&mut self) {
        let now = self.service.clock.now;
        self.sessions.all().for_each(|session| session.leave(now));
    }

    /// The idle ones are closed, those that have been so longest first; how many there were.
    pub(super) fn close_idle_sessions(&mut self, most: usize) -> usize {
        let mut idle: Vec<(u64, usize)> =
            self.sessions.all.iter().filter(|(_, s)| s.is_idle()).map(|(index, s)| (s.deadline, index)).collect();
        idle.sort_unstable();
        let count = most.min(idle.len());
        for (_, index) in idle.into_iter().take(count) {
            self.close_session(index);
        }
        count
    }

    /// Closes a session with all its streams.
    pub(super) fn close_session(&mut self, index: usize) {
        let Some(mut session) = self.sessions.all.try_remove(index) else { return };
        session.part();
        self.gauges[session.gauge as usize] -= 1;
        if let Some(seat) = session.seat.take() {
            self.service.clients.leave(seat);
        }
        if session.shared.open() > 0 {
            self.close_streams(session.shared.token);
        }
        if self.accept_again.is_some() {
            self.accept_again = Some(self.service.clock.now);
        }
    }

    pub(super) fn close_all_sessions(&mut self) {
        for index in self.sessions.all.iter().map(|(index, _)| index).collect::<Vec<_>>() {
            self.close_session(index);
        }
    }

    fn close_streams(&mut self, session: u64) {
        let streams = self.connections.iter().filter(|(_, connection)| connection.session() == Some(session));
        for index in streams.map(|(index, _)| index).collect::<Vec<_>>() {
            self.close(index);
        }
    }
}
