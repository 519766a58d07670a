//! One client's connection over TLS: its handshake, and its bytes in and out.
//!
//! Runs in the worker, on bytes from the network. What comes is decrypted as far as the caller has room; what goes is sealed into records of
//! full size, several of them for one writev(2). Between events next to nothing is held: an idle connection has the state of its ciphers.

use super::holder;
use super::identity::Identities;
use crate::config::ClientAuth;
use crate::site::facts::Secured;
use crate::site::{Door, Sites};
use crate::sys::socket;
use rustls::server::{Accepted, Acceptor, ServerConnection};
use rustls::{HandshakeKind, ProtocolVersion};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A connection over TLS, from its first byte on.
pub(in crate::worker) struct Tls {
    socket: OwnedFd,
    state: State,
    place: Rc<Place>,
    door: Door,
    /// What has come and is not decrypted yet, since the caller had no room.
    raw: Vec<u8>,
    /// Whether the socket was empty when it was last read from.
    is_drained: bool,
    /// Bytes that came since there was content in them.
    barren: usize,
    /// Bytes that are sealed and not sent, about.
    sealed: usize,
    /// The client has said that it sends no more.
    is_closed: bool,
    secured: Option<Rc<Secured>>,
    /// What is to be said in the log, once.
    news: Option<News>,
}

/// What all connections of a worker share.
pub(in crate::worker) struct Place {
    pub(in crate::worker) sites: Rc<Sites>,
    pub(in crate::worker) identities: Identities,
}

/// What a handshake came to that is worth a line.
pub(in crate::worker) enum News {
    /// The client asked for a name that no site with a certificate has.
    Unknown(String),
    Failed(String),
    /// It does not speak TLS but HTTP.
    Plain,
}

enum State {
    /// A header of the PROXY protocol comes first, as it is.
    Introducing,
    Greeting(Box<Acceptor>),
    Open(Box<ServerConnection>),
    /// Nothing more can be said.
    Broken,
    /// The client does not speak TLS.
    Plain,
}

impl Tls {
    pub(in crate::worker) fn new(socket: OwnedFd, place: &Rc<Place>, door: Door, introduces: bool) -> Tls {
        Tls {
            socket,
            state: if introduces { State::Introducing } else { State::Greeting(Box::default()) },
            place: Rc::clone(place),
            door,
            raw: Vec::new(),
            is_drained: false,
            barren: 0,
            sealed: 0,
            is_closed: false,
            secured: None,
            news: None,
        }
    }

    pub(in crate::worker) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Goes on without TLS, with a client that does not speak it; what came of it.
    pub(in crate::worker) fn give_up(&mut self) -> Vec<u8> {
        self.state = State::Plain;
        std::mem::take(&mut self.raw)
    }

    pub(in crate::worker) fn is_plain(&self) -> bool {
        matches!(self.state, State::Plain)
    }

    /// The client that was introduced begins with these bytes.
    pub(in crate::worker) fn introduced(&mut self, rest: &[u8]) {
        if matches!(self.state, State::Introducing) {
            self.raw = rest.to_vec();
            self.is_drained = false;
            self.state = State::Greeting(Box::default());
        }
    }

    /// Whether nothing more can be had until the socket tells.
    pub(in crate::worker) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// What is known of it; `None` before the handshake is whole.
    pub(in crate::worker) fn secured(&self) -> Option<&Rc<Secured>> {
        self.secured.as_ref()
    }

    pub(in crate::worker) fn is_handshaking(&self) -> bool {
        match &self.state {
            State::Open(connection) => connection.is_handshaking(),
            State::Introducing | State::Greeting(_) => true,
            State::Broken | State::Plain => false,
        }
    }

    /// Whether HTTP/2 was agreed on.
    pub(in crate::worker) fn is_http2(&self) -> bool {
        match &self.state {
            State::Open(connection) => connection.alpn_protocol() == Some(b"h2"),
            State::Introducing | State::Greeting(_) | State::Broken | State::Plain => false,
        }
    }

    pub(in crate::worker) fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// Bytes that are held for a client who does not take them.
    pub(in crate::worker) fn held(&self) -> usize {
        self.sealed
    }

    /// Receives what the client sent; 0: it has said that this was all.
    ///
    /// # Errors
    /// `WouldBlock` where nothing has come; `UnexpectedEof` where the connection was cut without a word; `InvalidData` where it cannot go on:
    /// see [`Tls::take_news`]. Else the errno of recv(2).
    pub(in crate::worker) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if matches!(self.state, State::Introducing | State::Plain) {
            let count = socket::receive(&self.socket, buffer)?;
            self.is_drained = count < buffer.len();
            return Ok(count);
        }
        loop {
            let mut filled = self.take(buffer)?;
            if filled < buffer.len() && !self.raw.is_empty() {
                let raw = std::mem::take(&mut self.raw);
                filled += self.decrypt(&raw, buffer, filled)?;
            }
            if filled == 0 && !self.is_closed {
                let place = Rc::clone(&self.place);
                let mut scratch = place.identities.scratch.borrow_mut();
                scratch.resize(SCRATCH, 0);
                let count = match socket::receive(&self.socket, &mut scratch) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Err(fault) => {
                        drop(scratch);
                        self.is_drained = fault.kind() == io::ErrorKind::WouldBlock;
                        // What was kept before may have been a hello.
                        self.answer(false)?;
                        return Err(fault);
                    }
                    Ok(count) => count,
                };
                self.is_drained = count < scratch.len();
                filled = self.decrypt(&scratch[..count], buffer, 0)?;
            }
            if filled > 0 || self.is_closed {
                self.answer(filled > 0)?;
                self.is_drained &= self.raw.is_empty() && !self.has_content();
                return Ok(filled);
            }
            self.answer(false)?;
            if self.is_drained {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Seals content into records, as much as is sealed at once; how many bytes.
    ///
    /// # Errors
    /// There is no such connection any more.
    pub(in crate::worker) fn seal(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let State::Open(connection) = &mut self.state else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let first = first.get(..PIECE).unwrap_or(first);
        let second = second.get(..PIECE - first.len()).unwrap_or(second);
        let mut writer = connection.writer();
        let count = match (first.is_empty(), second.is_empty()) {
            (false, false) => writer.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?,
            (true, _) => writer.write(second)?,
            (_, true) => writer.write(first)?,
        };
        self.sealed += count + count.div_ceil(RECORD) * RECORD_MORE;
        Ok(count)
    }

    /// Sends what is sealed; whether all of it is gone.
    ///
    /// # Errors
    /// The errno of writev(2).
    pub(in crate::worker) fn flush(&mut self) -> io::Result<bool> {
        let State::Open(connection) = &mut self.state else { return Ok(true) };
        while connection.wants_write() {
            match connection.write_tls(&mut Out(&self.socket)) {
                // Never none while there is some.
                Ok(count) => self.sealed = self.sealed.saturating_sub(count).max(1),
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return Err(fault),
            }
        }
        self.sealed = 0;
        Ok(true)
    }

    /// Says that nothing more is sent: without that, the client could not tell an end from a cut (RFC 8446, 6.1).
    pub(in crate::worker) fn part(&mut self) {
        if let State::Open(connection) = &mut self.state
            && !connection.is_handshaking()
        {
            connection.send_close_notify();
            let _ = self.flush();
        }
    }

    fn has_content(&mut self) -> bool {
        let State::Open(connection) = &mut self.state else { return false };
        connection.reader().into_first_chunk().is_ok_and(|chunk| !chunk.is_empty())
    }

    /// Takes what is decrypted.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let State::Open(connection) = &mut self.state else { return Ok(0) };
        match connection.reader().read(buffer) {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }

    /// Decrypts what came, into `buffer` behind what is there; what there is no room for is kept. How many bytes.
    fn decrypt(&mut self, mut raw: &[u8], buffer: &mut [u8], filled: usize) -> io::Result<usize> {
        let mut at = filled;
        while !raw.is_empty() {
            if at == buffer.len() {
                self.raw = raw.to_vec();
                break;
            }
            let before = raw.len();
            match &mut self.state {
                State::Greeting(acceptor) => {
                    if let Some(offer) = Offer::of(raw).filter(|_| self.barren == 0) {
                        match offer {
                            Offer::Plain => {
                                self.raw = raw.to_vec();
                                self.state = State::Broken;
                                self.news = Some(News::Plain);
                                return Err(io::ErrorKind::InvalidData.into());
                            }
                            Offer::Old(version) => {
                                let _ = socket::send(&self.socket, PROTOCOL_VERSION);
                                return Err(self.fail(&format_args!("offers {version} at most")));
                            }
                        }
                    }
                    acceptor.read_tls(&mut raw)?;
                    self.barren += before - raw.len();
                    match acceptor.accept() {
                        Ok(None) => {}
                        Ok(Some(accepted)) => self.greet(accepted)?,
                        Err((fault, mut alert)) => {
                            let _ = alert.write(&mut Out(&self.socket));
                            return Err(self.fail(&fault));
                        }
                    }
                }
                State::Open(connection) => {
                    // Nothing is taken behind what the client has called its end.
                    if connection.read_tls(&mut raw)? == 0 {
                        break;
                    }
                    at += self.process(buffer.get_mut(at..).unwrap_or_default(), before - raw.len())?;
                }
                State::Introducing | State::Broken | State::Plain => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(at - filled)
    }

    /// The client has said hello.
    fn greet(&mut self, accepted: Accepted) -> io::Result<()> {
        let name = accepted.client_hello().server_name().map(str::to_owned);
        let found = self.place.identities.find(&self.place.sites, self.door, name.as_deref());
        let Some(found) = found else { return Err(self.fail(&"no site here has a certificate")) };
        if let Some(name) = name.as_ref().filter(|_| found.is_default) {
            self.news = Some(News::Unknown(name.clone()));
        }
        self.secured = Some(Rc::new(Secured {
            version: "",
            cipher: "",
            sni: name.unwrap_or_default(),
            site: found.site,
            resumed: false,
            verify: if found.asks == ClientAuth::None { "" } else { "NONE" },
            holder: None,
        }));
        match accepted.into_connection(found.config) {
            Ok(mut connection) => {
                connection.set_buffer_limit(Some(2 * PIECE));
                self.state = State::Open(Box::new(connection));
                // The rest of a flight may stand in the same record.
                self.process(&mut [], 0).map(drop)
            }
            Err((fault, mut alert)) => {
                let _ = alert.write(&mut Out(&self.socket));
                Err(self.fail(&fault))
            }
        }
    }

    /// Has `rustls` look at what it was given, and takes what came of it.
    fn process(&mut self, buffer: &mut [u8], count: usize) -> io::Result<usize> {
        let State::Open(connection) = &mut self.state else { return Ok(0) };
        let was_handshaking = connection.is_handshaking();
        let state = match connection.process_new_packets() {
            Ok(state) => state,
            Err(fault) => {
                let _ = connection.write_tls(&mut Out(&self.socket));
                return Err(self.fail(&fault));
            }
        };
        self.is_closed = state.peer_has_closed();
        if was_handshaking && !connection.is_handshaking() {
            self.secured = self.secured.as_deref().map(|secured| Rc::new(known(connection, secured)));
        }
        if state.plaintext_bytes_to_read() == 0 {
            self.barren += count;
            if self.barren > if was_handshaking { HANDSHAKE_MAX } else { BARREN_MAX } {
                return Err(self.fail(&"too much without content"));
            }
            return Ok(0);
        }
        self.barren = 0;
        self.take(buffer)
    }

    /// Sends what `rustls` has to say itself. What follows a handshake of TLS 1.3 waits for the answer to what came with its end.
    fn answer(&mut self, came: bool) -> io::Result<()> {
        match &self.state {
            State::Open(connection) if !connection.wants_write() => Ok(()),
            State::Open(connection) if came && connection.protocol_version() == Some(ProtocolVersion::TLSv1_3) => Ok(()),
            State::Open(_) => self.flush().map(drop),
            State::Introducing | State::Greeting(_) | State::Broken | State::Plain => Ok(()),
        }
    }

    fn fail(&mut self, why: &dyn std::fmt::Display) -> io::Error {
        self.state = State::Broken;
        self.news = Some(News::Failed(why.to_string()));
        io::ErrorKind::InvalidData.into()
    }
}

/// What is known of a connection whose handshake is whole.
fn known(connection: &ServerConnection, greeted: &Secured) -> Secured {
    let leaf = connection.peer_certificates().and_then(|chain| chain.first());
    Secured {
        version: match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(_) | None => "",
        },
        cipher: connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or(""),
        resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        verify: if leaf.is_some() { "SUCCESS" } else { greeted.verify },
        holder: leaf.and_then(|leaf| holder::of(leaf)),
        ..greeted.clone()
    }
}

/// What the first bytes of a client say of it, where that is not what is served here.
enum Offer {
    /// A method of HTTP.
    Plain,
    /// An older version of TLS, as it is called.
    Old(&'static str),
}

impl Offer {
    fn of(bytes: &[u8]) -> Option<Offer> {
        match bytes {
            [0x16, _, _, _, _, 1, _, _, _, 3, 0, ..] => Some(Offer::Old("SSL 3.0")),
            [0x16, _, _, _, _, 1, _, _, _, 3, 1, ..] => Some(Offer::Old("TLS 1.0")),
            [0x16, _, _, _, _, 1, _, _, _, 3, 2, ..] => Some(Offer::Old("TLS 1.1")),
            [b'A'..=b'Z', second, ..] if second.is_ascii_uppercase() => Some(Offer::Plain),
            _ => None,
        }
    }
}

/// Where `rustls` writes.
struct Out<'s>(&'s OwnedFd);

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(self.0, bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_parts(self.0, parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The alert `protocol_version`, which is fatal, in a record that every version understands (RFC 8446, 6).
const PROTOCOL_VERSION: &[u8] = &[21, 3, 1, 0, 2, 2, 70];

/// Bytes that are taken from a socket at once.
const SCRATCH: usize = 48 * 1024;

/// Bytes that are sealed at once: four records.
pub(in crate::worker) const PIECE: usize = 4 * RECORD;

/// Bytes of content in a record, at most, and what its framing adds.
const RECORD: usize = 16 * 1024;
const RECORD_MORE: usize = 22;

/// Bytes that a handshake may take, which are those of the client's certificates and not much else.
const HANDSHAKE_MAX: usize = 128 * 1024;

/// Bytes that may come without any content in them: one record that is not whole, and some that say something else.
const BARREN_MAX: usize = 32 * 1024;
