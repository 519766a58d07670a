//! Parts of a file: 206 and 416 (RFC 9110, 14 and 15.3.7).
//!
//! Runs in the worker, as a part of [`Service`]; opens no file.

use super::answer::{Answered, Body, Incoming, Service, count};
use super::response::{Head, write_content_range};
use super::segment::Segment;
use super::served::Served;
use crate::proto::range::Part;
use crate::proto::status::Status;
use std::collections::VecDeque;
use std::rc::Rc;

impl Service {
    pub(super) fn part(&mut self, incoming: &Incoming<'_>, site: usize, file: &Rc<Served>, varies: bool, part: Part) -> Answered {
        let Part { first, .. } = part;
        Head::begin(&mut self.out, Status::PARTIAL_CONTENT, &self.server, &self.clock)
            .field("Content-Type", &file.content_type)
            .number("Content-Length", part.length())
            .content_range(Some((first, part.last)), file.length())
            .of_file(file, file.weak)
            .field("Accept-Ranges", b"bytes")
            .vary(varies)
            .end(incoming.persistence);
        let body = Body::File { file: Rc::clone(file), offset: first, length: part.length() };
        self.finish(incoming, site, Status::PARTIAL_CONTENT, body)
    }

    /// Whether a response can have several parts of a file. Not where it would be unclear whether the parts or all of them together are
    /// encoded, nor where a rule gives a type of its own: it would take the place of the one that says what tells the parts apart.
    pub(super) fn can_be_parts(&self, file: &Served) -> bool {
        file.coding.is_none() && !self.changes.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    }

    /// Several parts, each with a head of its own. Those of a file in memory are still sent from there, not copied.
    pub(super) fn parts(&mut self, incoming: &Incoming<'_>, site: usize, file: &Rc<Served>, varies: bool, parts: &[Part]) -> Answered {
        let boundary = self.boundaries.next();
        let mut segments = VecDeque::with_capacity(parts.len() * 2 + 1);
        let mut length = 0;
        for part in parts {
            let head = part_head(&boundary, file, *part);
            length += count(&head) + part.length();
            segments.push_back(Segment::bytes(head));
            segments.push_back(Segment::File { file: Rc::clone(file), offset: part.first, remaining: part.length() });
        }
        let end = [b"\r\n--".as_slice(), &boundary, b"--\r\n"].concat();
        length += count(&end);
        segments.push_back(Segment::bytes(end));
        Head::begin(&mut self.out, Status::PARTIAL_CONTENT, &self.server, &self.clock)
            .field("Content-Type", &[b"multipart/byteranges; boundary=".as_slice(), &boundary].concat())
            .number("Content-Length", length)
            .of_file(file, file.weak)
            .field("Accept-Ranges", b"bytes")
            .vary(varies)
            .end(incoming.persistence);
        self.finish(incoming, site, Status::PARTIAL_CONTENT, Body::Segments(segments))
    }

    pub(super) fn unsatisfiable(&mut self, incoming: &Incoming<'_>, site: usize, length: u64) -> Answered {
        let head = Head::begin(&mut self.out, Status::RANGE_NOT_SATISFIABLE, &self.server, &self.clock);
        head.content_range(None, length).number("Content-Length", 0).end(incoming.persistence);
        self.finish(incoming, site, Status::RANGE_NOT_SATISFIABLE, Body::None)
    }
}

/// What stands before the bytes of a part.
fn part_head(boundary: &[u8], file: &Served, part: Part) -> Vec<u8> {
    let mut head = [b"\r\n--".as_slice(), boundary, b"\r\nContent-Type: ", &file.content_type, b"\r\n"].concat();
    write_content_range(Some((part.first, part.last)), file.length(), &mut head);
    head.extend_from_slice(b"\r\n");
    head
}
