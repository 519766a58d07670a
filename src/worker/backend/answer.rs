//! The answer of a backend as it comes: its head, and the content behind that as far as nobody has taken it.
//!
//! Runs in the worker, on bytes of a program that may be hostile; does no I/O. What is held is limited by who asks for more only where
//! [`Answer::is_full`] does not say otherwise.

use crate::proto::body::{BodyLimits, Piece};
use crate::proto::cgi;
use crate::proto::chunked::Chunked;
use crate::proto::fault::Fault;
use crate::proto::response_head::{self, Asked, Framing, HEAD_MAX, LINES_MAX};
use crate::proto::status::Status;
use crate::worker::segment::PIECE;

/// The answer to one request.
pub(super) struct Answer {
    form: Form,
    /// How a head of HTTP is read.
    asked: Asked,
    head: Vec<u8>,
    head_length: Option<usize>,
    frame: Frame,
    /// Content that came and was not taken.
    held: Vec<u8>,
    taken: usize,
    /// Bytes that may be held.
    limit: usize,
    /// More came than was promised.
    excess: bool,
    /// The head says that the connection may have another request.
    keeps: bool,
    /// The protocol that was asked for, and whether the backend changed to it.
    upgrade: Option<Box<[u8]>>,
    upgraded: bool,
    /// Heads before the last one.
    interim: u8,
    /// The content is of no use: that of an answer to HEAD.
    discard: bool,
}

/// How the head is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Cgi(cgi::Scan),
    Http(response_head::Scan),
    /// As one of them: programs behind SCGI and uwsgi may begin with a status line of HTTP.
    Either,
}

/// Where the content ends.
enum Frame {
    /// Where the backend says.
    Open,
    Counted(u64),
    Chunks(Chunked),
    /// It has.
    Over,
}

/// The head of an answer, however it was written.
pub(crate) enum Head<'b> {
    Cgi(cgi::Head<'b>),
    Http(response_head::Head<'b>),
}

impl Form {
    pub(crate) fn cgi() -> Form {
        Form::Cgi(cgi::Scan::default())
    }

    pub(crate) fn http() -> Form {
        Form::Http(response_head::Scan::default())
    }
}

impl Answer {
    pub(super) fn new(limit: usize) -> Answer {
        Answer {
            form: Form::cgi(),
            asked: Asked::Other,
            head: Vec::new(),
            head_length: None,
            frame: Frame::Open,
            held: Vec::new(),
            taken: 0,
            limit,
            excess: false,
            keeps: true,
            upgrade: None,
            upgraded: false,
            interim: 0,
            discard: false,
        }
    }

    /// What is expected.
    pub(super) fn expect(&mut self, form: Form, asked: Asked) {
        (self.form, self.asked) = (form, asked);
    }

    /// It may be a change to this protocol.
    pub(super) fn expect_upgrade(&mut self, protocol: &[u8]) {
        self.upgrade = Some(protocol.into());
    }

    /// The protocol was changed: what follows are its bytes, until the connection ends.
    pub(super) fn is_upgraded(&self) -> bool {
        self.upgraded
    }

    /// Whether the connection may have another request, as far as the head says.
    pub(super) fn keeps_connection(&self) -> bool {
        self.keeps && !self.excess
    }

    /// Nothing of it has come.
    pub(super) fn is_untouched(&self) -> bool {
        self.head.is_empty() && self.head_length.is_none()
    }

    pub(super) fn has_head(&self) -> bool {
        self.head_length.is_some()
    }

    /// All of the content has come, as the head says.
    pub(super) fn is_whole(&self) -> bool {
        self.has_head() && matches!(self.frame, Frame::Counted(0) | Frame::Over)
    }

    /// What the end of the answer means.
    ///
    /// # Errors
    /// When something is missing of it.
    pub(super) fn end(&mut self) -> Result<(), &'static str> {
        match self.frame {
            Frame::Counted(1..) if !self.discard => Err("sent less than its Content-Length"),
            Frame::Chunks(_) if !self.discard => Err("ended within its chunks"),
            Frame::Open | Frame::Counted(_) | Frame::Chunks(_) | Frame::Over => Ok(()),
        }
    }

    /// The end of the connection is the end of the answer.
    pub(super) fn ends_with_connection(&self) -> bool {
        self.has_head() && matches!(self.frame, Frame::Open)
    }

    pub(super) fn is_full(&self) -> bool {
        !self.discard && self.held.len() - self.taken >= self.limit.max(PIECE)
    }

    /// There is content that nobody took yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.taken < self.held.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.held.capacity()
    }

    /// The head; `None` before it has come.
    pub(super) fn head(&self) -> Option<&[u8]> {
        self.head.get(..self.head_length?)
    }

    /// Reads a head that [`Answer::head`] gave.
    pub(super) fn read_head<'b>(&self, head: &'b [u8]) -> Result<Head<'b>, Fault> {
        read_head(self.form, self.asked, head)
    }

    /// Content that nobody took yet.
    pub(super) fn take_all(&mut self) -> Vec<u8> {
        self.held.drain(..self.taken);
        self.taken = 0;
        std::mem::take(&mut self.held)
    }

    /// Appends some of the content to `out`: how much, and whether that was all there is.
    pub(super) fn take_some(&mut self, out: &mut Vec<u8>) -> (usize, bool) {
        let left = self.held.get(self.taken..).unwrap_or_default();
        let count = left.len().min(PIECE);
        out.extend_from_slice(&left[..count]);
        self.taken += count;
        // A client that stays behind never takes all: what is taken goes when it is as much as what is left, so that no byte is moved twice.
        if self.taken >= self.held.len() - self.taken {
            self.held.drain(..self.taken);
            self.taken = 0;
        }
        (count, self.held.is_empty())
    }

    /// The content is not wanted.
    pub(super) fn discard(&mut self) {
        self.discard = true;
        self.held = Vec::new();
        self.taken = 0;
    }

    /// Takes what has come.
    ///
    /// # Errors
    /// Why it is no answer.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if self.has_head() {
            return self.content(bytes);
        }
        self.head.extend_from_slice(bytes);
        if matches!(self.form, Form::Either) {
            self.form = match self.head.get(..STATUS_LINE.len()) {
                Some(start) if start == STATUS_LINE => Form::http(),
                None if STATUS_LINE.starts_with(&self.head) => return Ok(()),
                Some(_) | None => Form::cgi(),
            };
        }
        let found = match &mut self.form {
            Form::Cgi(scan) => scan.advance(&self.head),
            Form::Http(scan) => scan.advance(&self.head),
            Form::Either => Ok(None),
        };
        let Some(length) = found.map_err(|fault| fault.why)? else { return Ok(()) };
        let rest = self.head.split_off(length);
        match self.framing().map_err(|fault| fault.why)? {
            Some(frame) => {
                self.frame = frame;
                self.head_length = Some(length);
                self.content(&rest)
            }
            None => {
                self.interim = self.interim.checked_add(1).filter(|count| *count <= INTERIM_MAX).ok_or("too many interim answers")?;
                self.form = Form::http();
                self.head.clear();
                self.take(&rest)
            }
        }
    }

    /// Where the content ends, by the head that has come; `None`: another head follows.
    fn framing(&mut self) -> Result<Option<Frame>, Fault> {
        Ok(Some(match read_head(self.form, self.asked, &self.head)? {
            // What a program says to HEAD in the form of CGI is read all the same, so that it comes to its end; its length is that of
            // another answer.
            Head::Cgi(head) if self.asked == Asked::Head || matches!(head.status.code(), 204 | 304) => {
                self.discard = true;
                Frame::Open
            }
            Head::Cgi(head) => head.content_length.map_or(Frame::Open, Frame::Counted),
            Head::Http(head) if head.is_interim() => return Ok(None),
            Head::Http(head) if head.code == 101 => {
                let asked = self.upgrade.as_deref().zip(head.upgrade).is_some_and(|(asked, to)| asked.eq_ignore_ascii_case(to));
                self.upgraded = asked.then_some(true).ok_or(NOT_ASKED)?;
                Frame::Open
            }
            Head::Http(head) => {
                self.keeps = head.keep_alive;
                match head.framing {
                    Framing::None => Frame::Over,
                    Framing::Length(length) => Frame::Counted(length),
                    Framing::Chunked => Frame::Chunks(Chunked::new(&CHUNKS)),
                    Framing::UntilClose => Frame::Open,
                }
            }
        }))
    }

    fn content(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        match &mut self.frame {
            Frame::Open => self.keep(bytes),
            Frame::Counted(remaining) => {
                let fits = usize::try_from(*remaining).unwrap_or(usize::MAX).min(bytes.len());
                self.excess |= fits < bytes.len();
                *remaining -= u64::try_from(fits).unwrap_or(0);
                self.keep(&bytes[..fits]);
            }
            Frame::Over => self.excess |= !bytes.is_empty(),
            Frame::Chunks(chunks) => loop {
                match chunks.read(&mut bytes).map_err(|reject| reject.why)? {
                    Piece::Data(_) if self.discard => {}
                    Piece::Data(data) => self.held.extend_from_slice(data),
                    Piece::More => break,
                    Piece::End => {
                        self.excess |= !bytes.is_empty();
                        self.frame = Frame::Over;
                        break;
                    }
                }
            },
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        if !self.discard {
            self.held.extend_from_slice(bytes);
        }
    }
}

impl Head<'_> {
    /// A final one.
    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            Head::Cgi(head) => Some(head.status),
            Head::Http(head) => Status::of(head.code),
        }
    }

    pub(crate) fn content_length(&self) -> Option<u64> {
        match self {
            Head::Cgi(head) => head.content_length,
            Head::Http(head) => head.content_length,
        }
    }

    /// The file that is to be sent instead of the content, if the configuration lets it.
    pub(crate) fn sendfile(&self) -> Option<&[u8]> {
        match self {
            Head::Cgi(head) => head.sendfile,
            Head::Http(head) => head.sendfile,
        }
    }

    /// Shows the fields for the client in order.
    pub(crate) fn each(&self, visit: impl FnMut((&str, &[u8]))) {
        match self {
            Head::Cgi(head) => head.fields().for_each(visit),
            Head::Http(head) => head.fields().for_each(visit),
        }
    }
}

fn read_head(form: Form, asked: Asked, head: &[u8]) -> Result<Head<'_>, Fault> {
    match form {
        Form::Http(_) => response_head::parse(head, asked).map(Head::Http),
        Form::Cgi(_) | Form::Either => cgi::parse(head).map(Head::Cgi),
    }
}

/// What a head of HTTP begins with, and none of CGI can: a slash is no part of a name.
const STATUS_LINE: &[u8] = b"HTTP/";

/// The content of an answer has no limit, since it is passed on as it comes; a trailer section is read and left out.
const CHUNKS: BodyLimits = BodyLimits { content: u64::MAX, trailer_bytes: HEAD_MAX, trailer_count: LINES_MAX };

/// Heads with a status below 200 before the last one: each is passed over.
const INTERIM_MAX: u8 = 16;

const NOT_ASKED: Fault = Fault { why: "101 to a protocol that nobody asked for" };
