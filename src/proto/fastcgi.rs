//! FastCGI 1.0, the side of the web server: records to a backend are encoded, records from it decoded (the FastCGI Specification, 1996).
//!
//! Runs in the `worker`; does no I/O. What comes in may come from a hostile program: content is handed out where it lies in the buffer,
//! nothing is held, and what is no content has a limit. One request at a time is on a connection, with the id 1: several at once
//! (section 3.3) is what no PHP offers, and how one client's page could reach another.

pub use decode::{Decoder, EMPTY_MAX, End, Event, MANAGEMENT_MAX, Protocol, STDERR_MAX};

mod decode;

/// Appends the record that begins a request for a responder. With `keep` the backend is asked to leave the connection open behind the answer.
pub fn begin_request(out: &mut Vec<u8>, keep: bool) {
    out.extend_from_slice(&header(BEGIN_REQUEST, 8, 0));
    out.extend_from_slice(&[0, RESPONDER, u8::from(keep), 0, 0, 0, 0, 0]);
}

/// Appends the parameters of a request, in as many records as they need, and the empty record that ends them (sections 3.4 and 5.2).
pub fn params<'p>(out: &mut Vec<u8>, pairs: impl IntoIterator<Item = (&'p [u8], &'p [u8])>) {
    let mut record = Record::begin(out);
    for (name, value) in pairs {
        record.length(name.len());
        record.length(value.len());
        record.push(name);
        record.push(value);
    }
    record.end();
    out.extend_from_slice(&header(PARAMS, 0, 0));
}

/// What stands before and behind up to [`CONTENT_MAX`] bytes of a request's body: the record's header, and padding to a multiple of eight bytes,
/// which lets the backend read aligned (section 3.3). More bytes than that are not said to be there.
pub fn stdin(content: usize) -> ([u8; HEADER], &'static [u8]) {
    let content = content.min(CONTENT_MAX);
    let padding = padding(content);
    (header(STDIN, content, padding), &PADDING[..padding])
}

/// The same without padding, for content that is sent from where it lies: what would stand behind it need not be sent then.
pub fn stdin_alone(content: usize) -> [u8; HEADER] {
    header(STDIN, content.min(CONTENT_MAX), 0)
}

/// The record that ends a request's body.
pub const STDIN_END: [u8; HEADER] = header(STDIN, 0, 0);

/// The record that tells the backend that nobody waits for its answer any more (section 5.4).
pub const ABORT_REQUEST: [u8; HEADER] = header(ABORT, 0, 0);

/// Bytes of a record's header.
pub const HEADER: usize = 8;

/// Bytes of content in one record to a backend: the most that the header can say and needs no padding.
pub const CONTENT_MAX: usize = 65_528;

const fn header(kind: u8, content: usize, padding: usize) -> [u8; HEADER] {
    let [.., high, low] = content.to_be_bytes();
    let [.., padding] = padding.to_be_bytes();
    [VERSION, kind, 0, ID, high, low, padding, 0]
}

const fn padding(content: usize) -> usize {
    content.wrapping_neg() % 8
}

const PADDING: [u8; 8] = [0; 8];

/// A record of parameters whose end is not known yet: pairs go over the ends of records as they come.
struct Record<'o> {
    out: &'o mut Vec<u8>,
    /// Where its header stands.
    start: usize,
}

impl<'o> Record<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Record<'o> {
        let start = out.len();
        out.extend_from_slice(&header(PARAMS, 0, 0));
        Record { out, start }
    }

    /// A length below 128 takes one byte, any other four with the highest bit set (section 3.4).
    fn length(&mut self, length: usize) {
        match u8::try_from(length) {
            Ok(short @ 0..=127) => self.push(&[short]),
            Ok(_) | Err(_) => {
                let [.., a, b, c, d] = length.to_be_bytes();
                self.push(&[a | 0x80, b, c, d]);
            }
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = CONTENT_MAX - self.content();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.out.extend_from_slice(now);
            bytes = later;
            if !bytes.is_empty() {
                self.finish();
                self.start = self.out.len();
                self.out.extend_from_slice(&header(PARAMS, 0, 0));
            }
        }
    }

    fn content(&self) -> usize {
        self.out.len() - self.start - HEADER
    }

    fn finish(&mut self) {
        let content = self.content();
        let padding = padding(content);
        self.out[self.start..self.start + HEADER].copy_from_slice(&header(PARAMS, content, padding));
        self.out.extend_from_slice(&PADDING[..padding]);
    }

    /// An empty record would end the parameters.
    fn end(mut self) {
        match self.content() {
            0 => self.out.truncate(self.start),
            _ => self.finish(),
        }
    }
}

const VERSION: u8 = 1;
/// The id of every request.
const ID: u8 = 1;
const RESPONDER: u8 = 1;

/// Types of records (section 8).
const BEGIN_REQUEST: u8 = 1;
const ABORT: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;

#[cfg(test)]
mod tests;
