//! Records from a backend, as they come.
//!
//! Runs in the `worker`, on bytes of a program that may be hostile; does no I/O and holds nothing of the content.

use super::super::fault::Fault;
use super::{END_REQUEST, GET_VALUES_RESULT, HEADER, ID, STDERR, STDOUT, UNKNOWN_TYPE, VERSION};

/// What a backend said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// Bytes of its answer, never none.
    Stdout(&'b [u8]),
    /// Bytes for the error log, never none; where its lines end is not where records end.
    Stderr(&'b [u8]),
    /// The request is done (section 5.5).
    End(End),
    /// All of the input is used; more must come.
    More,
}

/// How a backend ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub protocol: Protocol,
    /// The exit status of the application, as it says.
    pub app_status: u32,
}

/// The protocol status of an ended request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Complete,
    /// It serves one request on a connection at a time, and has one.
    CannotMultiplex,
    /// It is out of something.
    Overloaded,
    /// It does not know the role, or what it says is not in the specification.
    Other,
}

/// The records of one answer.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    /// Records without content, and records about the connection, that may still come.
    empty: u32,
    management: u32,
    /// Bytes of the error stream that may still come.
    stderr: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes of a record's header are there.
    Header { have: usize, bytes: [u8; HEADER] },
    /// So much of a record is still to come.
    Record { kind: Kind, content: usize, padding: usize },
    /// So many bytes are there of what ends the request.
    End { have: usize, bytes: [u8; HEADER], padding: usize },
    /// The request has ended; so much padding is still to come.
    Ended { padding: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stdout,
    Stderr,
    /// Answers to what was never asked; nobody reads them.
    Management,
}

const FIRST: State = State::Header { have: 0, bytes: [0; HEADER] };

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { state: FIRST, empty: EMPTY_MAX, management: MANAGEMENT_MAX, stderr: STDERR_MAX }
    }
}

impl Decoder {
    /// Takes the next event off the front of `input`. To be called again until it says [`Event::More`]; behind [`Event::End`] too, since
    /// what comes then must be nothing.
    ///
    /// # Errors
    /// For a record that a backend may not send, or not to this request, and for what is beyond a limit. It is not to be called again.
    pub fn read<'b>(&mut self, input: &mut &'b [u8]) -> Result<Event<'b>, Fault> {
        while !input.is_empty() {
            match &mut self.state {
                State::Header { have, bytes } => {
                    if fill(input, have, bytes) {
                        let header = *bytes;
                        self.state = self.begin(header)?;
                    }
                }
                State::Record { content: 0, padding: 0, .. } => self.state = FIRST,
                State::Record { content: 0, padding, .. } => drop(take(input, padding)),
                State::Record { kind, content, .. } => {
                    let bytes = take(input, content);
                    match kind {
                        Kind::Stdout => return Ok(Event::Stdout(bytes)),
                        Kind::Stderr => return self.error_stream(bytes),
                        Kind::Management => {}
                    }
                }
                State::End { have, bytes, padding } => {
                    if fill(input, have, bytes) {
                        let end = End::read(bytes);
                        self.state = State::Ended { padding: *padding };
                        return Ok(Event::End(end));
                    }
                }
                State::Ended { padding: 0 } => return Err(BEHIND_END),
                State::Ended { padding } => drop(take(input, padding)),
            }
        }
        Ok(Event::More)
    }

    /// Whether the answer has ended and nothing is still to come of it: only then may the connection have another request.
    pub fn is_reusable(&self) -> bool {
        matches!(self.state, State::Ended { padding: 0 })
    }

    /// What a record's header announces.
    fn begin(&mut self, header: [u8; HEADER]) -> Result<State, Fault> {
        let [version, kind, id_high, id_low, high, low, padding, _] = header;
        let (id, content, padding) =
            (u16::from_be_bytes([id_high, id_low]), usize::from(u16::from_be_bytes([high, low])), usize::from(padding));
        if version != VERSION {
            return Err(Fault::new("record of another version, or no record"));
        }
        let kind = match kind {
            // Both are about the connection and carry the null id (section 4).
            GET_VALUES_RESULT | UNKNOWN_TYPE if id == 0 => Kind::Management,
            STDOUT | STDERR | END_REQUEST if id != u16::from(ID) => return Err(Fault::new("record of another request")),
            END_REQUEST if content == HEADER => return Ok(State::End { have: 0, bytes: [0; HEADER], padding }),
            END_REQUEST => return Err(Fault::new("end of request of a wrong size")),
            STDOUT => Kind::Stdout,
            STDERR => Kind::Stderr,
            _ => return Err(Fault::new("record of a type that no backend sends")),
        };
        self.count(kind, content)?;
        Ok(State::Record { kind, content, padding })
    }

    fn count(&mut self, kind: Kind, content: usize) -> Result<(), Fault> {
        let left = match kind {
            Kind::Management => &mut self.management,
            Kind::Stdout | Kind::Stderr if content == 0 => &mut self.empty,
            Kind::Stdout | Kind::Stderr => return Ok(()),
        };
        *left = left.checked_sub(1).ok_or(Fault::new("records without content beyond the limit"))?;
        Ok(())
    }

    fn error_stream<'b>(&mut self, bytes: &'b [u8]) -> Result<Event<'b>, Fault> {
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.stderr = self.stderr.checked_sub(count).ok_or(Fault::new("error stream beyond the limit"))?;
        Ok(Event::Stderr(bytes))
    }
}

impl End {
    fn read(body: &[u8; HEADER]) -> End {
        let [a, b, c, d, protocol, ..] = *body;
        let protocol = match protocol {
            0 => Protocol::Complete,
            1 => Protocol::CannotMultiplex,
            2 => Protocol::Overloaded,
            _ => Protocol::Other,
        };
        End { protocol, app_status: u32::from_be_bytes([a, b, c, d]) }
    }
}

/// Moves bytes to where `have` of them are; true when all are there.
fn fill(input: &mut &[u8], have: &mut usize, bytes: &mut [u8; HEADER]) -> bool {
    let mut missing = HEADER - *have;
    let part = take(input, &mut missing);
    bytes[*have..*have + part.len()].copy_from_slice(part);
    *have += part.len();
    *have == HEADER
}

/// Takes up to `remaining` bytes off the front of `input`, and counts them down.
fn take<'b>(input: &mut &'b [u8], remaining: &mut usize) -> &'b [u8] {
    let (data, rest) = input.split_at((*remaining).min(input.len()));
    *input = rest;
    *remaining -= data.len();
    data
}

/// Records of the streams without content in one answer. Each stream ends with one; a backend that sends nothing else would keep its
/// client waiting for ever, and us at work.
pub const EMPTY_MAX: u32 = 1000;

/// Records about the connection in one answer: we ask for none.
pub const MANAGEMENT_MAX: u32 = 16;

/// Bytes of the error stream in one answer. Far beyond what the log takes; a program that writes so much will not come to an end.
pub const STDERR_MAX: u64 = 16 * 1024 * 1024;

const BEHIND_END: Fault = Fault::new("bytes behind the end of the answer");
