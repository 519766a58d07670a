//! A request handed to a backend: its parameters or its head put together, a connection wanted.
//!
//! Runs in the worker, as a part of [`Service`]; reads no socket.

use super::answer::{Incoming, Service, facts, hexadecimal};
use super::backend::{Codec, Exchange, Failure, Form, Shared};
use super::kept::Given;
use crate::config::{Backend, Protocol};
use crate::ipc::run::Run;
use crate::proto::environment::Refusal;
use crate::proto::fault::Unencodable;
use crate::proto::head::{Framing, Method, Version};
use crate::proto::response_head::Asked;
use crate::proto::{environment, fastcgi, scgi, uwsgi};
use crate::site::facts::Facts;
use crate::site::lookup::{Lookup, RootRef};
use crate::site::origin;
use crate::site::parameters::{Conveyed, Parameters, Program, server_name};
use crate::site::plan::Plan;
use crate::site::relay::{self, Relayed};
use crate::site::script::Script;
use std::cell::RefCell;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

impl Service {
    /// Begins to hand a request without a body to the backend of its plan.
    pub(super) fn hand_over_head(&mut self, incoming: &Incoming<'_>, site: usize, plan: &Plan) -> Shared {
        self.hand_over(incoming, site, plan, None, Given::Streams)
    }

    /// Begins to hand a request to the backend of its plan. `length` is that of its body.
    pub(super) fn hand_over(&mut self, incoming: &Incoming<'_>, site: usize, plan: &Plan, length: Option<u64>, body: Given<'_>) -> Shared {
        let (id, now) = (hexadecimal(incoming.visit.id), self.clock.now);
        let facts = facts(incoming, &self.path, &id, &self.clock.log_time);
        let number = plan.script().map_or(0, |script| usize::from(script.backend));
        let mut exchange = Exchange::new(number, self.disk.asker, self.backends.terms(number), now);
        let Some(backend) = self.backends.all.get(number) else {
            exchange.failure = Some(Failure::Unreachable("no such backend".to_owned()));
            return Rc::new(RefCell::new(exchange));
        };
        let chunked = incoming.request.framing == Framing::Chunked && length.is_none();
        let is_given = !matches!(body, Given::Streams);
        let streams = (length.is_some_and(|length| length > 0) || chunked) && !is_given;
        let asked = if incoming.request.method == Method::Head { Asked::Head } else { Asked::Other };
        match self.opening(backend, incoming, site, plan, &facts, length) {
            Ok(Opening { codec, form, bytes, upgrade }) => {
                exchange.ask(codec, bytes, streams || is_given, (form, asked));
                if let Some(protocol) = upgrade {
                    exchange.may_upgrade(&protocol);
                }
            }
            Err(_) => {
                exchange.failure = Some(Failure::TooLarge);
                return Rc::new(RefCell::new(exchange));
            }
        }
        if let Given::Memory(body) = body {
            exchange.input(body);
            exchange.end_input();
        }
        // A program that says nothing is run once: it has been run.
        if !streams && is_idempotent(incoming.request.method) && backend.protocol != Protocol::Cgi {
            exchange.may_repeat();
        }
        let site_name = self.sites.get(site).name.first().map_or("", String::as_str);
        let whose = format!("client {}, site \"{site_name}\"", incoming.visit.client);
        if let Some(script) = plan.script().filter(|_| backend.protocol == Protocol::Cgi) {
            let lookup = Lookup { root: script.root, path: &script.file };
            match self.files.program(lookup) {
                Ok(seen) => exchange.program = Some(Box::new(run(script, seen, &whose))),
                Err(fault) => {
                    let text = format!("open {}: {fault}: not run", self.files.name(lookup));
                    exchange.failure = Some(Failure::NotRun(not_seen(&fault)));
                    self.complain(incoming, site, &text);
                    return Rc::new(RefCell::new(exchange));
                }
            }
        }
        exchange.origin = format!("{whose}, backend \"{}\"", backend.name);
        let exchange = Rc::new(RefCell::new(exchange));
        if let Given::Spooled(body) = body {
            self.backends.feed_from(&exchange, body.clone());
        }
        self.backends.begin(&exchange, incoming.visit.client, now);
        exchange
    }

    /// Whether a backend takes bodies whose length is not known yet.
    pub(super) fn takes_chunks(&self, plan: &Plan) -> bool {
        let backend = plan.script().and_then(|script| self.backends.all.get(usize::from(script.backend)));
        backend.is_some_and(|backend| backend.protocol == Protocol::Http)
    }

    fn opening(
        &self,
        backend: &Backend,
        incoming: &Incoming<'_>,
        site: usize,
        plan: &Plan,
        facts: &Facts<'_>,
        length: Option<u64>,
    ) -> Result<Opening, Unencodable> {
        let parameters = || self.parameters(incoming, site, plan, facts, length);
        let mut bytes = Vec::new();
        let (codec, form) = match backend.protocol {
            Protocol::FastCgi => {
                fastcgi::begin_request(&mut bytes, backend.keep > 0);
                fastcgi::params(&mut bytes, parameters().iter());
                (Codec::fastcgi(), Form::cgi())
            }
            Protocol::Scgi => {
                scgi::encode(&mut bytes, length.unwrap_or(0), parameters().iter())?;
                (Codec::Plain, Form::Either)
            }
            Protocol::Uwsgi => {
                uwsgi::encode(&mut bytes, parameters().iter())?;
                (Codec::Plain, Form::Either)
            }
            Protocol::Cgi => {
                environment::encode(&mut bytes, parameters().iter())?;
                (Codec::program(), Form::cgi())
            }
            Protocol::Http => return Ok(self.relay(incoming, site, plan, facts, (length, backend.keep > 0))),
        };
        Ok(Opening { codec, form, bytes, upgrade: None })
    }

    /// What a program is told.
    fn parameters(&self, incoming: &Incoming<'_>, site: usize, plan: &Plan, facts: &Facts<'_>, length: Option<u64>) -> Parameters {
        let mut parameters = Parameters::default();
        let none = Script::default();
        let script = plan.script().unwrap_or(&none);
        let Some(backend) = self.backends.all.get(usize::from(script.backend)) else { return parameters };
        let path = plan.path(facts).bytes();
        let (name, path_info) = path.split_at_checked(script.name).unwrap_or((path, b""));
        let base = |root: RootRef| self.sites.directories().get(root.0).map_or(&b""[..], |base| base.path.as_os_str().as_bytes());
        let places = script.places(base, backend.script_root.as_ref().map(|root| root.as_os_str().as_bytes()));
        let program = Program { name, path_info, file: &places.file, document_root: &places.document_root };
        let conveyed = Conveyed {
            protocol: match incoming.request.version {
                Version::Http2 => "HTTP/2.0",
                Version::Http11 => "HTTP/1.1",
                Version::Http10 => "HTTP/1.0",
            },
            query: plan.query(facts).unwrap_or_default(),
            content_length: length,
            server_name: &server_name(&self.sites.get(site).name, incoming.visit.local),
            server: incoming.visit.local.map(|address| (address, incoming.visit.port)),
            client_port: Some(incoming.visit.peer_port).filter(|port| *port > 0 && !incoming.visit.forwarded),
            software: self.server.as_bytes(),
            env: &backend.env,
        };
        parameters.collect(facts, &program, &conveyed);
        parameters
    }

    /// The head of the request as a backend of HTTP gets it.
    fn relay(&self, incoming: &Incoming<'_>, site: usize, plan: &Plan, facts: &Facts<'_>, (length, keep): (Option<u64>, bool)) -> Opening {
        let request = incoming.request;
        let framing = match (length, request.framing) {
            (Some(length), _) => Framing::Length(length),
            (None, Framing::Chunked) => Framing::Chunked,
            (None, Framing::None | Framing::Length(_)) => Framing::None,
        };
        let upgrade = relay::upgrade(facts, request.version == Version::Http11, request.framing);
        let relayed = Relayed {
            path: plan.path(facts),
            query: plan.query(facts),
            server_name: &server_name(&self.sites.get(site).name, incoming.visit.local),
            framing,
            upgrade,
            chain: &origin::chain(request, facts.client, incoming.visit.proxy, &self.proxies.trusted),
            trusted: incoming.visit.proxy.is_some(),
            keep,
        };
        let mut bytes = Vec::with_capacity(incoming.head.len() + HEAD_MORE);
        relay::head(facts, &relayed, &mut bytes);
        let codec = Codec::Http { chunked: framing == Framing::Chunked };
        Opening { codec, form: Form::http(), bytes, upgrade: upgrade.map(<[u8]>::to_vec) }
    }
}

/// What `spawn` is asked for.
fn run(script: &Script, (device, inode, owner): (u64, u64, u32), origin: &str) -> Run {
    let root = u16::try_from(script.root.0).unwrap_or(u16::MAX);
    Run { id: 0, root, path: script.file.clone(), device, inode, owner, origin: origin.as_bytes().to_vec() }
}

fn not_seen(fault: &io::Error) -> Refusal {
    let kind = fault.kind();
    if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
        Refusal::Gone
    } else if kind == io::ErrorKind::PermissionDenied {
        Refusal::Denied
    } else {
        Refusal::Failed
    }
}

/// What a request begins with, how it goes on, and how its answer is read.
struct Opening {
    codec: Codec,
    form: Form,
    bytes: Vec<u8>,
    /// The protocol that the client would change to.
    upgrade: Option<Vec<u8>>,
}

/// Whether a request may be sent a second time without doing more than once (RFC 9110, 9.2.2).
fn is_idempotent(method: Method) -> bool {
    match method {
        Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete => true,
        Method::Post | Method::Patch | Method::Trace | Method::Connect | Method::Extension => false,
    }
}

/// Bytes by which a head may grow, about.
const HEAD_MORE: usize = 256;
