//! What is spoken on a connection to a backend: how a body is told to it, and how what comes back is taken apart.
//!
//! Runs in the worker, on bytes of a program that may be hostile; does no I/O. What a request begins with is put together where it is handed
//! over; what the answer says is `answer`'s to read, whatever it was wrapped in.

use crate::proto::environment::{REFUSED, Refusal};
use crate::proto::fastcgi::{self, Decoder, Protocol};
use crate::proto::fault::Fault;

/// What is spoken on a connection.
#[derive(Debug)]
pub(crate) enum Codec {
    /// Records, which say where an answer ends.
    FastCgi(Decoder),
    /// Bytes as they are, of SCGI and uwsgi: the answer ends with the connection, or where its head says.
    Plain,
    /// HTTP/1.1; whether the body goes in chunks.
    Http { chunked: bool },
    /// What both sides made of a connection of HTTP: bytes, both ways, until the backend has ended.
    Tunnel,
    /// Those of a CGI program, or of the process that was to become it: whether anything came, and whether that was a refusal.
    Program { begun: bool, refused: bool },
}

/// What a backend said.
pub(super) enum Event<'b> {
    /// Bytes of its answer.
    Answer(&'b [u8]),
    /// Bytes for the error log.
    Stderr(&'b [u8]),
    End(End),
    /// All that came is used.
    More,
}

/// How a backend ended its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete {
        app_status: u32,
    },
    /// It takes no request now, and why.
    Refused(&'static str),
    /// It was not run.
    NotRun(Refusal),
}

impl Codec {
    pub(crate) fn program() -> Codec {
        Codec::Program { begun: false, refused: false }
    }

    pub(crate) fn fastcgi() -> Codec {
        Codec::FastCgi(Decoder::default())
    }

    /// Appends a part of a body.
    pub(super) fn frame(&self, content: &[u8], out: &mut Vec<u8>) {
        match self {
            Codec::FastCgi(_) => {
                for part in content.chunks(fastcgi::CONTENT_MAX) {
                    let (header, padding) = fastcgi::stdin(part.len());
                    out.extend_from_slice(&header);
                    out.extend_from_slice(part);
                    out.extend_from_slice(padding);
                }
            }
            Codec::Http { chunked: true } if !content.is_empty() => {
                out.extend_from_slice(format!("{:x}\r\n", content.len()).as_bytes());
                out.extend_from_slice(content);
                out.extend_from_slice(b"\r\n");
            }
            Codec::Plain | Codec::Http { .. } | Codec::Tunnel | Codec::Program { .. } => out.extend_from_slice(content),
        }
    }

    /// What stands before a part of a body, of at most [`PART_MAX`] bytes, that is sent from where it lies, and how many bytes that is.
    /// `None`: something has to stand behind it too.
    pub(super) fn prefix(&self, length: usize) -> Option<([u8; fastcgi::HEADER], usize)> {
        match self {
            Codec::FastCgi(_) => Some((fastcgi::stdin_alone(length), fastcgi::HEADER)),
            Codec::Http { chunked: true } => None,
            Codec::Plain | Codec::Http { chunked: false } | Codec::Tunnel | Codec::Program { .. } => Some(([0; fastcgi::HEADER], 0)),
        }
    }

    /// Appends what ends a body, or stands for one that is empty.
    pub(super) fn frame_end(&self, out: &mut Vec<u8>) {
        match self {
            Codec::FastCgi(_) => out.extend_from_slice(&fastcgi::STDIN_END),
            Codec::Http { chunked: true } => out.extend_from_slice(b"0\r\n\r\n"),
            // Its length was told.
            Codec::Plain | Codec::Http { chunked: false } | Codec::Tunnel | Codec::Program { .. } => {}
        }
    }

    /// What tells a backend that nobody waits any more, before the connection ends, which tells it too.
    pub(super) fn abort(&self) -> &'static [u8] {
        match self {
            Codec::FastCgi(_) => &fastcgi::ABORT_REQUEST,
            Codec::Plain | Codec::Http { .. } | Codec::Tunnel | Codec::Program { .. } => b"",
        }
    }

    /// Takes the next event off the front of `input`.
    ///
    /// # Errors
    /// For what a backend may not send.
    pub(super) fn read<'b>(&mut self, input: &mut &'b [u8]) -> Result<Event<'b>, Fault> {
        match self {
            Codec::FastCgi(decoder) => decoder.read(input).map(Event::of_record),
            Codec::Plain | Codec::Http { .. } | Codec::Tunnel | Codec::Program { .. } if input.is_empty() => Ok(Event::More),
            Codec::Program { begun, refused } => Ok(program(begun, refused, input)),
            Codec::Plain | Codec::Http { .. } | Codec::Tunnel => Ok(Event::Answer(std::mem::take(input))),
        }
    }

    /// Whether an answer is over where its own head says, with nothing behind it.
    pub(super) fn ends_with_content(&self) -> bool {
        match self {
            Codec::FastCgi(_) => false,
            Codec::Plain | Codec::Http { .. } | Codec::Tunnel | Codec::Program { .. } => true,
        }
    }

    /// Whether the end of a body is told by the end of what is sent.
    pub(super) fn ends_with_input(&self) -> bool {
        match self {
            Codec::FastCgi(_) | Codec::Plain | Codec::Http { .. } => false,
            Codec::Tunnel | Codec::Program { .. } => true,
        }
    }

    /// Whether the connection may have another request, as far as that is told here.
    pub(super) fn is_reusable(&self) -> bool {
        match self {
            Codec::FastCgi(decoder) => decoder.is_reusable(),
            // If the head of the answer says so too.
            Codec::Http { .. } => true,
            Codec::Plain | Codec::Tunnel | Codec::Program { .. } => false,
        }
    }

    /// The same request goes to another connection.
    pub(super) fn begin_again(&mut self) {
        match self {
            Codec::FastCgi(decoder) => *decoder = Decoder::default(),
            Codec::Plain | Codec::Http { .. } | Codec::Tunnel | Codec::Program { .. } => {}
        }
    }
}

/// A program's process begins with [`REFUSED`] where it does not become the program, which no head of an answer begins with.
fn program<'b>(begun: &mut bool, refused: &mut bool, input: &mut &'b [u8]) -> Event<'b> {
    if !std::mem::replace(begun, true) && input.first() == Some(&REFUSED) {
        *refused = true;
        *input = &input[1..];
    }
    if !*refused {
        return Event::Answer(std::mem::take(input));
    }
    match input.first().map(|number| Refusal::of(*number)) {
        None => Event::More,
        Some(refusal) => {
            *input = &[];
            Event::End(End::NotRun(refusal.unwrap_or(Refusal::Failed)))
        }
    }
}

/// Bytes of a body that may be sent behind one prefix.
pub(super) const PART_MAX: usize = fastcgi::CONTENT_MAX;

impl<'b> Event<'b> {
    fn of_record(event: fastcgi::Event<'b>) -> Event<'b> {
        match event {
            fastcgi::Event::Stdout(bytes) => Event::Answer(bytes),
            fastcgi::Event::Stderr(bytes) => Event::Stderr(bytes),
            fastcgi::Event::More => Event::More,
            fastcgi::Event::End(end) => Event::End(match end.protocol {
                Protocol::CannotMultiplex => End::Refused("it takes no more requests"),
                Protocol::Overloaded => End::Refused("it is overloaded"),
                Protocol::Complete | Protocol::Other => End::Complete { app_status: end.app_status },
            }),
        }
    }
}
