//! The response to a request that a backend answered, or did not.
//!
//! Runs in the worker, as a part of [`Service`]; reads no socket but the backend's, as far as its content is taken.

use super::answer::{Answered, Body, Incoming, Service};
use super::backend::{self, Content, Failure, Handed, Shared};
use super::named::Said;
use super::response::{Head, Persistence};
use super::segment::{Delimiter, Segment};
use crate::config::Protocol;
use crate::proto::environment::Refusal;
use crate::proto::head::Method;
use crate::proto::status::Status;
use crate::proto::target;
use crate::site::plan::{Lookup, Outcome, Plan};
use std::collections::VecDeque;
use std::rc::Rc;

impl Service {
    /// Makes the response, of which the head has come, or none will.
    pub(super) fn respond(&mut self, incoming: &Incoming<'_>, handed: Handed) -> Answered {
        let Handed { exchange, plan, site, .. } = handed;
        self.begin_response();
        if let Err(reject) = target::parse_into(incoming.request.path, &mut self.path) {
            return self.refuse(incoming, site, reject);
        }
        self.changes = plan.changes().clone();
        let open = exchange.borrow().is_input_open() && !exchange.borrow().is_tunnel();
        // What is left of the body is not read: where the next request begins cannot be known.
        let incoming = Incoming { persistence: if open { Persistence::Close } else { incoming.persistence }, ..*incoming };
        let failure = exchange.borrow().failure().cloned();
        if let Some(failure) = failure {
            self.backends.abandon(&exchange);
            return self.failed(&incoming, site, plan, &exchange, &failure);
        }
        let bytes = exchange.borrow().head().map(<[u8]>::to_vec).unwrap_or_default();
        if exchange.borrow().is_tunnel() {
            return self.switch(&incoming, site, &exchange, &bytes);
        }
        let head = exchange.borrow().read_head(&bytes);
        let why = match head.map(|head| head.status().map(|status| (head, status))) {
            Ok(Some((head, status))) => {
                if let Some(named) = head.sendfile().filter(|_| status == Status::OK && self.place_of_named(site, &plan).is_some()) {
                    let mut fields: Vec<Said> = Vec::new();
                    head.each(|(name, value)| fields.push((name.into(), value.into())));
                    return self.begin_named(&incoming, site, plan, &exchange, (named, fields));
                }
                return self.pass_on(&incoming, site, &exchange, &head, status);
            }
            Ok(None) => "a status that is not final",
            Err(fault) => fault.why,
        };
        self.backends.abandon(&exchange);
        self.failed(&incoming, site, plan, &exchange, &Failure::Bad(why.to_owned()))
    }

    /// Both sides change to another protocol (RFC 9110, 7.8).
    fn switch(&mut self, incoming: &Incoming<'_>, site: usize, exchange: &Shared, bytes: &[u8]) -> Answered {
        let status = Status::SWITCHING_PROTOCOLS;
        let mut out = Head::begin(&mut self.out, status, &self.server, &self.clock);
        if let Ok(backend::Head::Http(head)) = exchange.borrow().read_head(bytes) {
            out = out.field("Connection", b"Upgrade").field("Upgrade", head.upgrade.unwrap_or_default());
            for (name, value) in head.fields() {
                out.add(name, value);
            }
        }
        // No option but that one: what ends the connection is not of HTTP.
        out.end(Persistence::Keep);
        let incoming = Incoming { persistence: Persistence::Close, ..*incoming };
        let content = Segment::stream(Box::new(Content(Rc::clone(exchange))), Delimiter::None);
        self.finish(&incoming, site, status, Body::Segments(VecDeque::from([content])))
    }

    fn pass_on(&mut self, incoming: &Incoming<'_>, site: usize, exchange: &Shared, head: &backend::Head<'_>, status: Status) -> Answered {
        let bodiless = matches!(status.code(), 204 | 304) || incoming.request.method == Method::Head;
        let whole = if bodiless { None } else { exchange.borrow_mut().whole() };
        let length = whole.as_ref().map(|whole| u64::try_from(whole.len()).unwrap_or(u64::MAX)).or(head.content_length());
        let length = length.filter(|_| !matches!(status.code(), 204 | 304));
        let (delimiter, incoming) = if bodiless || length.is_some() { (Delimiter::None, *incoming) } else { incoming.without_length() };
        let mut out = Head::begin(&mut self.out, status, &self.server, &self.clock);
        head.each(|(name, value)| {
            if !name.eq_ignore_ascii_case("x-content-type-options") {
                out.add(name, value);
            }
        });
        if let Some(length) = length {
            out = out.number("Content-Length", length);
        }
        if !bodiless {
            out = out.delimited(delimiter);
        }
        out.end(incoming.persistence);
        if bodiless {
            self.backends.discard(exchange, self.clock.now);
            return self.finish(&incoming, site, status, Body::None);
        }
        match whole {
            Some(whole) => self.finish(&incoming, site, status, Body::Bytes(&whole)),
            None => {
                let content = Segment::stream(Box::new(Content(Rc::clone(exchange))), delimiter);
                self.finish(&incoming, site, status, Body::Segments(VecDeque::from([content])))
            }
        }
    }

    /// Says that a program was not run, and no more: why is in the log.
    fn not_run(&mut self, incoming: &Incoming<'_>, site: usize, mut plan: Plan, refusal: Refusal) -> Answered {
        let status = match refusal {
            Refusal::Denied => Status::FORBIDDEN,
            Refusal::Gone => Status::NOT_FOUND,
            Refusal::Changed => Status::SERVICE_UNAVAILABLE,
            Refusal::Failed | Refusal::Malformed => Status::INTERNAL_SERVER_ERROR,
        };
        if status == Status::SERVICE_UNAVAILABLE {
            plan.wait(RETRY_AFTER);
        }
        self.decided(incoming, site, plan, Outcome::Status(status))
    }

    /// Says what is wrong, to the log in full and to the client by the status.
    fn failed(&mut self, incoming: &Incoming<'_>, site: usize, mut plan: Plan, exchange: &Shared, failure: &Failure) -> Answered {
        let (status, why) = match failure {
            Failure::NotRun(refusal) => return self.not_run(incoming, site, plan, *refusal),
            Failure::Unreachable(why) => (Status::SERVICE_UNAVAILABLE, why.clone()),
            Failure::Full => (Status::SERVICE_UNAVAILABLE, "max_connections are open and its queue is full".to_owned()),
            Failure::Overloaded(why) => (Status::SERVICE_UNAVAILABLE, (*why).to_owned()),
            Failure::Bad(why) => (Status::BAD_GATEWAY, why.clone()),
            Failure::TooLarge => (Status::REQUEST_HEADER_FIELDS_TOO_LARGE, "its protocol has no room for such a request".to_owned()),
            Failure::Late => (Status::GATEWAY_TIMEOUT, "no answer within read_timeout".to_owned()),
        };
        let (number, address) = (exchange.borrow().backend, exchange.borrow().address);
        let who = self.backends.all.get(number).map_or_else(String::new, |backend| match (backend.protocol, plan.script()) {
            (Protocol::Cgi, Some(script)) => format!("program {}", self.files.name(Lookup { root: script.root, path: &script.file })),
            (Protocol::Cgi | Protocol::FastCgi | Protocol::Scgi | Protocol::Uwsgi | Protocol::Http, _) => {
                format!("backend \"{}\" at {}", backend.name, backend.addresses.get(address).map_or_else(String::new, ToString::to_string))
            }
        });
        self.complain(incoming, site, &format!("{who}: {why}; {status}"));
        if status == Status::SERVICE_UNAVAILABLE {
            plan.wait(RETRY_AFTER);
        }
        self.decided(incoming, site, plan, Outcome::Status(status))
    }
}

/// Seconds after which a client may try again.
const RETRY_AFTER: u64 = 2;
