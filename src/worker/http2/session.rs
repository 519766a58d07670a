//! A connection of HTTP/2: its socket, what `h2` makes of its bytes, and what is known of all its requests.
//!
//! Runs in the worker; the event loop drives it, and gives its streams their places among the other connections.

use super::bell::Bell;
use super::pipe::{End, Pipe};
use super::shared::Shared;
use super::stream::Stream;
use crate::config::Limits;
use crate::ipc::counters::Gauge;
use crate::proto::http2::{self, PREFACE};
use crate::site::facts::Origin;
use crate::worker::clients::{Client, Seat};
use crate::worker::clock::millis;
use crate::worker::state::Parted;
use crate::worker::transport::Transport;
use crate::worker::visit::Visit;
use bytes::Bytes;
use h2::Reason;
use h2::server::{self, Handshake, SendResponse};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A connection of HTTP/2.
pub(in crate::worker) struct Session {
    transport: Transport,
    pipe: Rc<RefCell<Pipe>>,
    state: State,
    pub(in crate::worker) shared: Rc<Shared>,
    bell: Arc<Bell>,
    visit: Visit,
    /// Who has to answer for it, and where it is counted.
    pub(in crate::worker) client: Option<Client>,
    pub(in crate::worker) seat: Option<Seat>,
    /// Who the peer is, where its requests say for whom they are.
    pub(in crate::worker) proxy: Option<Origin>,
    /// Requests that came, and of them those that were none.
    requests: u32,
    malformed: u32,
    /// When it began, when the last of its streams ended, and when its client last took something that had to wait (monotonic milliseconds).
    began: u64,
    idle: u64,
    moved: u64,
    /// It takes no more requests, since this moment.
    leaving: bool,
    left: u64,
    /// There is more to receive than `h2` takes at the moment.
    paused: bool,
    /// It was ended for more work than its requests are worth, and that is yet to be said.
    too_much: bool,
    pub(in crate::worker) deadline: u64,
    /// When the event loop was last asked to be reminded.
    pub(in crate::worker) reminder: u64,
    pub(in crate::worker) registered: bool,
    pub(in crate::worker) queued: bool,
    pub(in crate::worker) gauge: Gauge,
    pub(in crate::worker) serial: u32,
}

enum State {
    Greeting(Box<Handshake<End, Bytes>>),
    Open(Box<server::Connection<End, Bytes>>),
    /// Everything is said; only what is yet to be sent keeps it.
    Over,
    /// Our side is ended.
    Ended,
}

/// What a client asks for next.
pub(in crate::worker) enum Accepted {
    Stream(Box<Request>),
    Nothing,
}

/// A request, whose head is written down elsewhere.
pub(in crate::worker) struct Request {
    pub(in crate::worker) visit: Visit,
    pub(in crate::worker) stream: Stream,
}

/// What is to be done with a session that was driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Next {
    Keep,
    Again,
    Close,
}

impl Session {
    pub(in crate::worker) fn new(
        parted: Parted,
        (token, serial): (u64, u32),
        touched: &Rc<RefCell<Vec<u64>>>,
        bell: &Arc<Bell>,
        header_bytes: usize,
        now: u64,
    ) -> Session {
        let mut pipe = Pipe::default();
        pipe.bring(&parted.input, PREFACE.len());
        let pipe = Rc::new(RefCell::new(pipe));
        let handshake = settings(header_bytes).handshake(End(Rc::clone(&pipe)));
        Session {
            transport: parted.transport,
            pipe,
            state: State::Greeting(Box::new(handshake)),
            shared: Rc::new(Shared::new(token, touched)),
            bell: Arc::clone(bell),
            visit: parted.visit,
            client: parted.client,
            seat: parted.seat,
            proxy: parted.proxy,
            requests: 0,
            malformed: 0,
            began: now,
            idle: now,
            moved: now,
            leaving: false,
            left: now,
            paused: false,
            too_much: false,
            deadline: u64::MAX,
            reminder: u64::MAX,
            registered: false,
            queued: false,
            gauge: parted.gauge,
            serial,
        }
    }

    pub(in crate::worker) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// It is closed: streams have said themselves whether they are whole.
    pub(in crate::worker) fn part(&mut self) {
        self.transport.part();
    }

    /// Whether nothing is under way.
    pub(in crate::worker) fn is_idle(&self) -> bool {
        self.shared.open() == 0 && self.pipe.borrow().outgoing.is_empty()
    }

    /// Takes in what the client sent; whether there may be more.
    ///
    /// # Errors
    /// The client is gone.
    pub(in crate::worker) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..READS {
            if self.pipe.borrow().unread() >= UNREAD_MAX && !matches!(self.state, State::Ended) {
                // Read on when all is sent: until then `h2` takes nothing, and nobody would be the wiser for asking.
                self.paused = true;
                return Ok(false);
            }
            match self.transport.receive(buffer) {
                Ok(0) => {
                    self.pipe.borrow_mut().ended = true;
                    return Ok(false);
                }
                Ok(_) if matches!(self.state, State::Ended) => {}
                Ok(count) => {
                    self.pipe.borrow_mut().bring(buffer.get(..count).unwrap_or_default(), 0);
                    return Ok(!self.transport.is_drained(count, buffer.len()));
                }
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(true)
    }

    /// The next request; its head is appended to `head`. `token`: that of its connection. What is no request is reset here.
    pub(in crate::worker) fn accept(&mut self, token: u64, head: &mut Vec<u8>, (now, now_us): (u64, u64)) -> Accepted {
        let mut context = Context::from_waker(Waker::noop());
        if let State::Greeting(handshake) = &mut self.state {
            match Pin::new(&mut **handshake).poll(&mut context) {
                Poll::Pending => return Accepted::Nothing,
                Poll::Ready(Ok(connection)) => self.state = State::Open(Box::new(connection)),
                Poll::Ready(Err(_)) => {
                    self.state = State::Over;
                    return Accepted::Nothing;
                }
            }
        }
        loop {
            let State::Open(connection) = &mut self.state else { return Accepted::Nothing };
            let (request, mut respond) = match connection.poll_accept(&mut context) {
                Poll::Pending => return Accepted::Nothing,
                Poll::Ready(Some(Ok(accepted))) => accepted,
                Poll::Ready(ended) => {
                    self.end(ended.and_then(Result::err));
                    return Accepted::Nothing;
                }
            };
            self.requests = self.requests.saturating_add(1);
            head.clear();
            let ends = request.body().is_end_stream();
            if http2::write_head(&request, ends, head).is_err() {
                self.malformed += 1;
                respond.send_reset(Reason::PROTOCOL_ERROR);
                continue;
            }
            let stream = self.stream(token, request, respond, ends);
            let id = self.visit.id | u128::from(self.requests & 0xFFFF);
            let proxy = self.proxy.map(|proxy| proxy.client);
            return Accepted::Stream(Box::new(Request {
                visit: Visit { id, proxy, began: now, began_us: now_us, ..self.visit.clone() },
                stream,
            }));
        }
    }

    fn stream(&self, token: u64, request: http::Request<h2::RecvStream>, respond: SendResponse<Bytes>, ends: bool) -> Stream {
        let has_length = request.headers().contains_key(http::header::CONTENT_LENGTH);
        let mut stream = Stream::new(&self.shared, &self.bell, token, request.into_body(), respond);
        if !ends && !has_length {
            stream.in_chunks();
        }
        stream
    }

    /// Lets `h2` write what there is, and sends it.
    ///
    /// # Errors
    /// The client is gone.
    pub(in crate::worker) fn flush(&mut self, now: u64) -> io::Result<Next> {
        self.shared.untouch();
        for _ in 0..TURNS {
            let was_empty = self.pipe.borrow().outgoing.is_empty();
            self.poll();
            let mut pipe = self.pipe.borrow_mut();
            let (before, held) = (pipe.sent, self.transport.held());
            while let Some(left) = pipe.outgoing.get(pipe.sent..).filter(|left| !left.is_empty()) {
                match self.transport.send(left) {
                    Ok(count) => pipe.sent += count,
                    Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => break,
                    Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                    Err(fault) => return Err(fault),
                }
            }
            let is_gone = self.transport.flush()?;
            // What is not sent waits since now.
            if pipe.sent > before || self.transport.held() < held || (was_empty && !pipe.outgoing.is_empty()) {
                self.moved = now;
            }
            if pipe.sent < pipe.outgoing.len() || !is_gone {
                return Ok(Next::Keep);
            }
            pipe.outgoing.clear();
            pipe.sent = 0;
            if !std::mem::take(&mut pipe.is_full) {
                drop(pipe);
                self.shared.refill();
                return self.rest(now);
            }
        }
        Ok(Next::Again)
    }

    /// Everything is sent: goes on, or ends.
    fn rest(&mut self, now: u64) -> io::Result<Next> {
        if matches!(self.state, State::Over) {
            if self.pipe.borrow().ended || self.transport.end_sending().is_err() {
                return Ok(Next::Close);
            }
            self.state = State::Ended;
            self.left = now;
            return Ok(Next::Again);
        }
        let goes_on = std::mem::take(&mut self.paused) && !matches!(self.state, State::Ended);
        Ok(match self.state {
            State::Ended if self.pipe.borrow().ended => Next::Close,
            State::Greeting(_) | State::Open(_) | State::Over | State::Ended => {
                if goes_on {
                    Next::Again
                } else {
                    Next::Keep
                }
            }
        })
    }

    fn poll(&mut self) {
        if let State::Open(connection) = &mut self.state
            && let Poll::Ready(ended) = connection.poll_closed(&mut Context::from_waker(Waker::noop()))
        {
            self.end(ended.err());
        }
    }

    /// It is over; what `h2` had to say of it is in the pipe.
    fn end(&mut self, fault: Option<h2::Error>) {
        self.too_much |=
            !self.leaving && fault.is_some_and(|fault| fault.is_library() && fault.reason() == Some(Reason::ENHANCE_YOUR_CALM));
        self.state = State::Over;
    }

    /// Whose connection it is, if it was ended for what its client asks of the server; once.
    pub(in crate::worker) fn takes_too_much(&mut self) -> Option<IpAddr> {
        std::mem::take(&mut self.too_much).then_some(self.visit.client)
    }

    /// Ends it where its client sends what is no use, or has had as many requests as it may.
    pub(in crate::worker) fn judge(&mut self, limits: &Limits, now: u64) {
        let seconds = now.saturating_sub(self.began) / 1000;
        let content = (self.shared.sent.get(), self.shared.received.get());
        let is_flood = self.pipe.borrow().meter.is_flood(seconds, u64::from(self.requests), self.shared.finished.get(), content);
        if let State::Open(connection) = &mut self.state
            && (is_flood || self.malformed > MALFORMED_MAX)
        {
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            self.too_much |= !std::mem::replace(&mut self.leaving, true);
            self.left = now;
            return self.shared.touch();
        }
        if self.requests >= limits.keepalive_requests {
            self.leave(now);
        }
    }

    /// Takes no more requests, and tells the client so; those that are under way are answered.
    pub(in crate::worker) fn leave(&mut self, now: u64) {
        if let State::Open(connection) = &mut self.state
            && !std::mem::replace(&mut self.leaving, true)
        {
            connection.graceful_shutdown();
            self.left = now;
            self.shared.touch();
        }
    }

    /// Whether it has ended, and its streams with it.
    pub(in crate::worker) fn is_over(&self) -> bool {
        matches!(self.state, State::Over | State::Ended)
    }

    /// Sets the time of the next thing that has to happen, and says what it is counted as.
    pub(in crate::worker) fn settle(&mut self, limits: &Limits, now: u64) -> Gauge {
        let mut pipe = self.pipe.borrow_mut();
        let open = self.shared.open();
        if open > 0 {
            self.idle = now;
        }
        let (deadline, gauge) = if !pipe.outgoing.is_empty() {
            (self.moved + millis(limits.write_timeout), Gauge::Writing)
        } else if matches!(self.state, State::Over | State::Ended) || (self.leaving && open == 0) {
            (self.idle.max(self.left) + END_MS, Gauge::Writing)
        } else if self.requests == 0 {
            (self.began + millis(limits.header_timeout), Gauge::Reading)
        } else if open == 0 {
            (self.idle + millis(limits.keepalive_timeout), Gauge::Idle)
        } else {
            (u64::MAX, Gauge::Writing)
        };
        self.deadline = deadline;
        if gauge == Gauge::Idle {
            pipe.release();
        }
        gauge
    }

    /// The time has passed; false: it is closed at once.
    pub(in crate::worker) fn time_out(&mut self, now: u64) -> bool {
        let is_idle = self.is_idle() && self.requests > 0 && !self.leaving && matches!(self.state, State::Open(_));
        if is_idle {
            self.leave(now);
        }
        is_idle
    }
}

/// What `h2` is told of how much a client may ask for.
fn settings(header_bytes: usize) -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .initial_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_MAX)
        .max_concurrent_reset_streams(RESET_STREAMS)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(Some(LOCAL_RESETS));
    builder
}

/// Requests that one client may have under way on one connection.
const STREAMS: u32 = 128;

/// Bytes of content that a client may send ahead on a stream, and on all of them: so much is held where nobody takes it.
const WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;

/// Bytes of content of one response that `h2` holds; what it holds of all of them is bounded by `shared`.
const SEND_MAX: usize = 128 * 1024;

/// Streams that are remembered after they were reset, and those that the client may have reset before they were looked at.
const RESET_STREAMS: usize = 20;
const PENDING_RESETS: usize = 64;

/// Streams that may be reset for what is wrong with them (CVE-2025-8671), and requests that are none.
const LOCAL_RESETS: usize = 100;
const MALFORMED_MAX: u32 = 100;

/// Times that a session is read from, and times that it sends as much as gathers, before others get their turn.
const READS: u8 = 8;
const TURNS: u8 = 8;

/// Bytes that `h2` does not read, since its client takes nothing: then nothing is received either.
const UNREAD_MAX: usize = 64 * 1024;

/// How long the client has to end its side after we said that it is over.
const END_MS: u64 = 5_000;
