//! One client: its bytes in, its responses out. Knows nothing of other connections; the event loop drives it.
//!
//! What the socket does not take waits here, and while it waits nothing more is read: a slow client holds one response, not
//! many. Buffers are given back while the connection is idle.

mod backend;
mod body;
mod disk;
mod ending;
mod http2;
mod proxied;
mod secured;
mod tunnel;

use super::admission::Admitted;
use super::answer::{Answered, Incoming, Service};
use super::backend::{Handed, Shared};
use super::body::{Ended, Reading, pace};
use super::clients::{Client, Seat};
use super::clock::millis;
use super::outgoing::{Outgoing, Sent};
use super::pending::Paused;
use super::response::Persistence;
use super::state::{Fate, Ticket, Waiting};
use super::transport::Transport;
use super::visit::Visit;
use crate::ipc::counters::Gauge;
use crate::proto::head::{self, Framing, Scan};
use crate::proto::status::{Reject, Status};
use crate::site::facts::Origin;
use std::io;

/// A client's connection.
pub(super) struct Connection {
    transport: Transport,
    /// What is known of its requests before they come.
    visit: Visit,
    /// Who has to answer for it, and where it is counted; nobody, where its peer is exempt.
    pub(super) client: Option<Client>,
    pub(super) seat: Option<Seat>,
    /// A header of the PROXY protocol has to come first.
    introduces: bool,
    /// Who the peer is, where its requests say for whom they are.
    proxy: Option<Origin>,
    /// Received and not yet consumed: part of a head, or whole requests that wait for their turn.
    input: Vec<u8>,
    scan: Scan,
    /// Made and not yet taken by the socket.
    outgoing: Outgoing,
    /// Bytes of it that are counted among those that slow readers hold.
    held: usize,
    /// A request asks something of the disk.
    asking: Option<Box<Asking>>,
    /// The number of the answer that it waits for.
    pub(super) ticket: Option<Ticket>,
    /// Until when the present request may wait for disks, once it did.
    patience: Option<u64>,
    /// A request waits for its backend; and the exchange whose answer is being sent.
    backend: Option<Box<Handed>>,
    stream: Option<Shared>,
    /// The body of a request is coming in; its head is no longer in `input`.
    body: Option<Box<Reading>>,
    requests: u32,
    /// What is waited for, and until when (monotonic milliseconds).
    pub(super) waiting: Waiting,
    pub(super) deadline: u64,
    /// When the event loop was last asked to be reminded.
    pub(super) reminder: u64,
    /// When a response with a rate goes on.
    pub(super) wake: u64,
    pub(super) registered: bool,
    /// Whether it stands in the queue of those that have more to do.
    pub(super) queued: bool,
    /// The state it is counted in.
    pub(super) gauge: Gauge,
    /// Tells this connection from others that had or will have its place.
    pub(super) serial: u32,
    closing: bool,
    /// The client may still be sending the body of a request that was answered without it.
    unread: bool,
    /// When our side was ended, and the bytes that came since.
    ended: u64,
    lingered: usize,
}

/// A request that waits for the disk.
struct Asking {
    paused: Box<Paused>,
    /// `None`: it is at the front of `input`.
    head: Option<Box<[u8]>>,
}

/// How far consuming came.
enum Progress {
    /// All that can be done with these bytes is done.
    NeedsMore,
    Stopped(Fate),
}

/// How far sending came.
enum Flushed {
    All,
    Stopped(Fate),
}

impl Connection {
    pub(super) fn new(transport: Transport, visit: Visit, admitted: Admitted, serial: u32, deadline: u64) -> Connection {
        let proxy = admitted.trusted.then(|| visit.origin());
        Connection {
            transport,
            visit,
            client: admitted.client,
            seat: admitted.seat,
            introduces: admitted.introduces,
            proxy,
            input: Vec::new(),
            scan: Scan::default(),
            outgoing: Outgoing::default(),
            held: 0,
            asking: None,
            ticket: None,
            patience: None,
            backend: None,
            stream: None,
            body: None,
            requests: 0,
            waiting: Waiting::Head,
            deadline,
            reminder: u64::MAX,
            wake: u64::MAX,
            registered: false,
            queued: false,
            gauge: Gauge::Reading,
            serial,
            closing: false,
            unread: false,
            ended: 0,
            lingered: 0,
        }
    }

    /// What is known of the request that is next.
    fn visit(&self) -> Visit {
        let proxy = self.proxy.map(|proxy| proxy.client);
        Visit { id: self.visit.id | u128::from(self.requests & 0xFFFF), proxy, ..self.visit.clone() }
    }

    /// Does what can be done now: sends what waits, then receives and answers. `buffer` is scratch space for receiving.
    pub(super) fn drive(&mut self, service: &mut Service, buffer: &mut [u8]) -> Fate {
        if self.waiting == Waiting::End {
            return self.linger(service, buffer);
        }
        match self.go_on(service, buffer) {
            Ok(Fate::Keep) => self.watch(),
            Ok(fate) => fate,
            // Reset, broken pipe: the client is gone.
            Err(_) => self.fail_over_tls(service),
        }
    }

    /// The deadline has passed. `Close`, or `Keep` while the refusal is sent.
    pub(super) fn time_out(&mut self, service: &mut Service) -> Fate {
        match self.waiting {
            Waiting::Head => self.refuse_rest(service, Status::REQUEST_TIMEOUT, "the head did not come in time"),
            Waiting::Body => self.refuse_rest(service, Status::REQUEST_TIMEOUT, "the body did not come in time"),
            Waiting::Backend => self.backend_is_late(service),
            Waiting::Request | Waiting::Room | Waiting::Disk | Waiting::End => Fate::Close,
        }
    }

    /// The rest of what has begun does not come: refuses the request, if any of it has come.
    fn refuse_rest(&mut self, service: &mut Service, status: Status, why: &'static str) -> Fate {
        let reject = Reject { status, why };
        if self.introduces {
            return Fate::Close;
        }
        let refused = if let Some(reading) = self.body.take() {
            self.conclude(service, *reading, &Ended::Broken(reject))
        } else {
            let input = std::mem::take(&mut self.input);
            // A line end before a request is none.
            if matches!(&input[..], b"" | b"\r" | b"\r\n") {
                return Fate::Close;
            }
            service.reject(&self.visit(), &reject, head::first_line(&input));
            self.closing = true;
            self.unread = true;
            self.send_made(service)
        };
        match refused {
            Ok(Progress::Stopped(fate)) => fate,
            Ok(Progress::NeedsMore) => Fate::Again,
            Err(_) => Fate::Close,
        }
    }

    /// Whether nothing is under way, so that the connection may be closed for another's sake.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting == Waiting::Request
    }

    /// Whether a request has asked something of the disk that this worker is yet to look up.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.is_some() && self.ticket.is_none()
    }

    /// Whether a response is on its way, or made while it is sent.
    pub(super) fn is_sending(&self) -> bool {
        self.waiting == Waiting::Room || self.outgoing.is_making()
    }

    /// No more request is wanted; true: it can be closed at once.
    pub(super) fn wind_up(&mut self) -> bool {
        self.is_idle() || (self.waiting == Waiting::Head && self.input.is_empty()) || self.is_tunnel()
    }

    /// Gives back what it held, and writes the access line of a response that was cut off.
    pub(super) fn abandon(&mut self, service: &mut Service) {
        // A client shall be able to tell what is whole from what is not.
        if self.outgoing.is_empty() && self.body.is_none() && self.backend.is_none() && self.stream.is_none() {
            self.transport.part();
        }
        service.held = service.held.saturating_sub(self.held);
        if let Some(rest) = self.outgoing.abandon() {
            service.log_sent(&rest);
        }
        if let Some(reading) = self.body.take() {
            if let Some(exchange) = reading.exchange() {
                service.backends.abandon(exchange);
            }
            service.log_cut(&reading, &self.visit());
        }
        self.abandon_backend(service);
    }

    fn go_on(&mut self, service: &mut Service, buffer: &mut [u8]) -> io::Result<Fate> {
        if self.ticket.is_some() && self.asking.is_none() {
            return Ok(Fate::Keep);
        }
        if let Flushed::Stopped(fate) = self.flush(service)? {
            if let Some(tunnel) = self.tunnel().filter(|_| fate != Fate::Close) {
                return self.carry_from_client(service, &tunnel, buffer, fate);
            }
            return if self.waiting == Waiting::Backend && fate == Fate::Keep { self.hear_client(buffer) } else { Ok(fate) };
        }
        if self.ticket.is_some() {
            self.wait_for_disk(service);
            return Ok(Fate::Keep);
        }
        if self.is_asking() {
            return Ok(Fate::Ask);
        }
        if self.backend.is_some()
            && let Progress::Stopped(fate) = self.go_on_backend(service, buffer)?
        {
            return Ok(fate);
        }
        if self.closing {
            return Ok(self.end_sending(service, !self.input.is_empty() || self.unread));
        }
        if !self.input.is_empty() || self.body.as_ref().is_some_and(|reading| reading.is_taken_elsewhere()) {
            let input = std::mem::take(&mut self.input);
            if let Progress::Stopped(fate) = self.consume(service, input)? {
                return Ok(fate);
            }
        }
        loop {
            let count = match self.transport.receive(buffer) {
                Ok(0) => {
                    self.note_tls(service);
                    return Ok(self.refuse_rest(service, Status::BAD_REQUEST, "the client ended within a request"));
                }
                Ok(count) => count,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(self.wait(service)),
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => continue,
                Err(fault) => return Err(fault),
            };
            let received = buffer.get(..count).unwrap_or_default();
            self.note_tls(service);
            if self.input.is_empty() && self.body.is_none() {
                (self.visit.began, self.visit.began_us) = (service.clock.now, service.log.moment());
            }
            let progress = if self.input.is_empty() {
                self.consume_borrowed(service, received)?
            } else {
                let mut input = std::mem::take(&mut self.input);
                input.extend_from_slice(received);
                self.consume(service, input)?
            };
            if let Progress::Stopped(fate) = progress {
                return Ok(fate);
            }
            // The next bytes will be told.
            if self.transport.is_drained(count, buffer.len()) {
                return Ok(self.wait(service));
            }
        }
    }

    /// Consumes as many requests as possible of bytes that are owned; keeps the rest.
    fn consume(&mut self, service: &mut Service, mut input: Vec<u8>) -> io::Result<Progress> {
        let (used, progress) = self.take_requests(service, &input)?;
        input.drain(..used.min(input.len()));
        if !input.is_empty() {
            self.input = input;
        }
        Ok(progress)
    }

    /// The same for bytes in the shared buffer, which is most of the time: nothing is copied unless something is left.
    fn consume_borrowed(&mut self, service: &mut Service, input: &[u8]) -> io::Result<Progress> {
        let (used, progress) = self.take_requests(service, input)?;
        self.input.extend_from_slice(input.get(used..).unwrap_or_default());
        Ok(progress)
    }

    /// Answers the requests at the front of `input`; how many bytes were consumed, and why no more were.
    fn take_requests(&mut self, service: &mut Service, input: &[u8]) -> io::Result<(usize, Progress)> {
        let mut used = 0;
        if self.introduces {
            match self.introduce(service, input) {
                Ok(None) => return Ok((0, Progress::NeedsMore)),
                Ok(Some(length)) if self.transport.introduced(input.get(length..).unwrap_or_default()) => {
                    return Ok((input.len(), Progress::NeedsMore));
                }
                Ok(Some(length)) => used = length,
                Err(fate) => return Ok((0, Progress::Stopped(fate))),
            }
        }
        loop {
            let rest = input.get(used..).unwrap_or_default();
            if let Some(reading) = self.body.take() {
                let (count, stopped) = self.take_body(service, reading, rest)?;
                used += count;
                match stopped {
                    Some(progress) => return Ok((used, progress)),
                    None => continue,
                }
            }
            if rest.is_empty() {
                return Ok((used, self.send_made(service)?));
            }
            if let Some(progress) = self.become_http2(service, rest) {
                return Ok((used, progress));
            }
            match self.scan.advance(rest, &service.head_limits) {
                Ok(None) => return Ok((used, self.send_made(service)?)),
                Ok(Some(length)) => {
                    let progress = self.answer_head(service, rest.get(..length).unwrap_or_default(), None, false)?;
                    if self.asking.is_some() {
                        return Ok((used, progress));
                    }
                    if self.backend.is_some() {
                        self.scan = Scan::default();
                        return Ok((used + length, progress));
                    }
                    used += length;
                    self.next_head(service);
                    if let Progress::Stopped(fate) = progress {
                        return Ok((used, Progress::Stopped(fate)));
                    }
                }
                Err(reject) => {
                    service.reject(&self.visit(), &reject, head::first_line(rest));
                    self.closing = true;
                    return Ok((used, self.send_made(service)?));
                }
            }
        }
    }

    /// What comes next is another head.
    fn next_head(&mut self, service: &Service) {
        self.scan = Scan::default();
        (self.visit.began, self.visit.began_us) = (service.clock.now, service.log.moment());
        // While a body comes in, the request is not over.
        if let Some(proxy) = self.proxy.filter(|_| self.body.is_none()) {
            self.visit.set_origin(proxy);
            self.client = None;
        }
    }

    /// Takes up the request that asked again. At the front of the input its head is removed when it is answered.
    fn answer_again(&mut self, service: &mut Service, asking: Asking) -> io::Result<Progress> {
        let Asking { paused, head } = asking;
        if let Some(head) = head {
            return self.answer_head(service, &head, Some(paused), true);
        }
        let mut input = std::mem::take(&mut self.input);
        let Ok(Some(length)) = self.new_scan().advance(&input, &service.head_limits) else {
            return Ok(Progress::Stopped(Fate::Close));
        };
        let progress = self.answer_head(service, input.get(..length).unwrap_or_default(), Some(paused), false)?;
        if self.asking.is_none() {
            self.next_head(service);
            input.drain(..length);
        }
        if !input.is_empty() {
            self.input = input;
        }
        Ok(progress)
    }

    /// Answers one request, whose head is whole, or goes on with it. `apart`: the head is not at the front of the input.
    fn answer_head(&mut self, service: &mut Service, bytes: &[u8], asked: Option<Box<Paused>>, apart: bool) -> io::Result<Progress> {
        let mut space = head::field_space();
        let request = match head::parse(bytes, &mut space, &service.head_limits) {
            Ok(request) => request,
            Err(reject) => {
                service.reject(&self.visit(), &reject, head::first_line(bytes));
                self.closing = true;
                return self.send_made(service);
            }
        };
        if let Some(proxy) = self.proxy
            && asked.is_none()
            && !self.attribute(service, &request, proxy)
        {
            let reject = Reject { status: Status::TOO_MANY_REQUESTS, why: "too many at once for the client of a proxy" };
            service.reject(&self.visit(), &reject, request.line);
            self.closing = true;
            self.unread = true;
            return self.send_made(service);
        }
        if asked.is_none() {
            self.visit.user = None;
        }
        let visit = self.visit();
        let incoming = |persistence| Incoming { request: &request, head: bytes, visit: &visit, persistence };
        let answered = match asked {
            None => service.answer(&incoming(service.persistence(&request, self.requests + 1))),
            Some(paused) => service.resume(&incoming(paused.persistence), *paused),
        };
        if let Some(user) = service.user.take() {
            self.visit.user = Some(user);
        }
        if !apart {
            self.unread = !matches!(request.framing, Framing::None | Framing::Length(0));
        }
        self.take_up(service, answered, bytes, apart)
    }

    /// Goes on as the answer says.
    fn take_up(&mut self, service: &mut Service, answered: Answered, head: &[u8], apart: bool) -> io::Result<Progress> {
        match answered {
            Answered::Asks(paused) => {
                self.asking = Some(Box::new(Asking { paused, head: apart.then(|| head.into()) }));
                self.waiting = Waiting::Disk;
                self.deadline = service.clock.now + millis(service.limits.write_timeout);
                // What was answered before goes out while this one waits.
                match self.flush(service)? {
                    Flushed::All => Ok(Progress::Stopped(Fate::Ask)),
                    Flushed::Stopped(fate) => Ok(Progress::Stopped(fate)),
                }
            }
            Answered::Reads(decided) => {
                // A body has times of its own.
                self.patience = None;
                self.body = Some(Box::new(Reading::new(head, decided, service.clock.now)));
                Ok(Progress::NeedsMore)
            }
            Answered::Backend(handed) => {
                self.backend = Some(handed);
                self.wait_for_backend();
                match self.flush(service)? {
                    Flushed::All => self.go_on_waiting(service),
                    Flushed::Stopped(fate) => Ok(Progress::Stopped(fate)),
                }
            }
            Answered::Waits(paused, id) => self.wait_for_answer(service, paused, apart.then(|| head.into()), id),
            Answered::Response { persistence, rest } => {
                self.requests += 1;
                self.patience = None;
                self.outgoing.follow(rest);
                self.waiting = Waiting::Request;
                self.closing = persistence == Persistence::Close;
                if self.closing || !self.outgoing.is_empty() || service.out.len() >= OUT_MAX {
                    return self.send_made(service);
                }
                Ok(Progress::NeedsMore)
            }
        }
    }

    /// Sends what was made; goes on only when all is gone and the connection stays.
    fn send_made(&mut self, service: &mut Service) -> io::Result<Progress> {
        Ok(match self.flush(service)? {
            Flushed::Stopped(fate) => Progress::Stopped(fate),
            // Closing is seen to with the input that is left, in `drive`.
            Flushed::All if self.closing => Progress::Stopped(if self.transport.is_stream() { Fate::Close } else { Fate::Again }),
            Flushed::All => Progress::NeedsMore,
        })
    }

    /// Sends what was made and what waits, the content behind it included.
    fn flush(&mut self, service: &mut Service) -> io::Result<Flushed> {
        let sent = self.outgoing.send(&mut self.transport, &mut service.out, service.clock.now)?;
        self.wake = if let Sent::Paused { until, .. } = sent { until } else { u64::MAX };
        let (before, held) = (self.held, self.outgoing.held() + self.transport.held());
        self.held = held;
        service.held = service.held.saturating_sub(before) + held;
        match sent {
            Sent::All(rest) => {
                self.stream = None;
                if let Some(rest) = rest {
                    service.log_sent(&rest);
                }
                if matches!(self.waiting, Waiting::Room | Waiting::Backend) {
                    self.waiting = Waiting::Request;
                }
                Ok(Flushed::All)
            }
            Sent::Wait { .. } if self.outgoing.wants().is_some() => self.read_ahead(service),
            // Slow readers hold memory together; when it is too much, who would hold more is dropped.
            Sent::Blocked { .. } if held > before && service.held > HELD_MAX => Ok(Flushed::Stopped(Fate::Close)),
            Sent::Wait { .. } if self.stream.is_some() => {
                self.wait_for_backend();
                Ok(Flushed::Stopped(Fate::Keep))
            }
            Sent::Blocked { moved } | Sent::Wait { moved } | Sent::Paused { moved, .. } if !moved && self.waiting == Waiting::Room => {
                Ok(Flushed::Stopped(Fate::Keep))
            }
            Sent::Blocked { .. } | Sent::Wait { .. } | Sent::Paused { .. } => Ok(self.wait_for_room(service, Fate::Keep)),
            Sent::Turn => Ok(self.wait_for_room(service, Fate::Again)),
            Sent::Cold => self.read_ahead(service),
            Sent::Short => Ok(Flushed::Stopped(Fate::Close)),
        }
    }

    /// The socket is full after progress: the time for the next progress starts.
    fn wait_for_room(&mut self, service: &Service, fate: Fate) -> Flushed {
        self.waiting = Waiting::Room;
        self.deadline = service.clock.now + millis(service.limits.write_timeout);
        Flushed::Stopped(fate)
    }

    /// Nothing more can be done with what has come.
    fn wait(&mut self, service: &Service) -> Fate {
        let limits = &service.limits;
        if let Some(reading) = &self.body {
            self.waiting = Waiting::Body;
            self.deadline = reading.deadline(limits);
        } else if !self.input.is_empty() {
            // Counted from the first byte, not from the last.
            self.waiting = Waiting::Head;
            let (began, received) = (self.visit.began, u64::try_from(self.input.len()).unwrap_or(u64::MAX));
            self.deadline = pace(began, received, limits.min_rate).min(began + millis(limits.header_timeout));
        } else if self.requests > 0 {
            self.waiting = Waiting::Request;
            self.deadline = service.clock.now + millis(limits.keepalive_timeout);
        }
        Fate::Keep
    }
}

/// Pipelined responses are sent when they have this many bytes.
const OUT_MAX: usize = 64 * 1024;

/// Bytes of responses that slow readers may hold in one worker, beside the files themselves.
const HELD_MAX: usize = 64 * 1024 * 1024;
