//! The list of what is in a directory: for people, for programs, in which order.
//!
//! Runs in the `worker`; does no I/O. Names come from the disk, and whoever can create a file chooses them: in a page they are text and
//! links, never markup (CWE-79). The list is written from its beginning to its end bit by bit, so that a directory may hold any number of
//! names.

mod entry;
mod html;
mod json;
mod order;

pub use entry::{Entry, Place};
pub use order::{Entries, Key, Order};

use super::facts::Fields;
use super::pattern;
use crate::config::Site;
use crate::proto::accept::Preference;
use crate::proto::status::Status;
use std::io;

/// What a list is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Html,
    /// An array of objects.
    Json,
}

/// A list being written.
#[derive(Clone, Copy, Debug)]
pub struct List {
    format: Format,
    /// `None`: as the directory gives them.
    order: Option<Order>,
    files: u64,
    directories: u64,
    bytes: u64,
}

/// What is answered where a directory cannot be listed.
pub fn not_listed(fault: &io::Error) -> Status {
    let kind = fault.kind();
    if kind == io::ErrorKind::PermissionDenied {
        Status::FORBIDDEN
    } else if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
        // Gone since it was looked up.
        Status::NOT_FOUND
    } else if is_shortage(fault) {
        Status::SERVICE_UNAVAILABLE
    } else {
        Status::INTERNAL_SERVER_ERROR
    }
}

/// Descriptors or memory ran out: not the file's fault, and over soon.
pub fn is_shortage(fault: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(fault.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE))
}

/// Whether a name matches one of the site's `hidden` patterns: a request for it is refused, and a listing leaves it out.
pub fn is_hidden(site: &Site, name: &[u8]) -> bool {
    site.hidden.iter().any(|hidden| pattern::matches(hidden.as_bytes(), name))
}

impl Format {
    /// What the client would rather have; the page, where it does not matter to it.
    pub fn wanted(fields: &dyn Fields) -> Format {
        let mut preference = Preference::new(["text/html", "application/json"]);
        fields.any("accept", &mut |value| {
            preference.read(value);
            false
        });
        let [html, json] = preference.qualities();
        if json > html { Format::Json } else { Format::Html }
    }

    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Html => "text/html; charset=utf-8",
            // RFC 8259 knows no parameter: it is always UTF-8.
            Format::Json => "application/json",
        }
    }

    /// As `explain` names it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Html => "HTML",
            Format::Json => "JSON",
        }
    }
}

impl List {
    /// `order`: that of the entries to come.
    pub fn new(format: Format, order: Order) -> List {
        List { format, order: Some(order), files: 0, directories: 0, bytes: 0 }
    }

    /// The entries are not sorted after all.
    pub fn forget_order(&mut self) {
        self.order = None;
    }

    /// Appends what comes before the first entry.
    pub fn begin(&self, place: &Place<'_>, out: &mut Vec<u8>) {
        match self.format {
            Format::Html => html::begin(place, self.order, out),
            Format::Json => out.push(b'['),
        }
    }

    /// Appends an entry.
    pub fn entry(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        match self.format {
            Format::Html => html::row(entry, self.order, out),
            Format::Json => json::object(entry, self.files + self.directories == 0, out),
        }
        if entry.directory {
            self.directories += 1;
        } else {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(entry.size);
        }
    }

    /// Appends what comes behind the last entry.
    pub fn end(&self, out: &mut Vec<u8>) {
        match self.format {
            Format::Html => html::end(self.directories, self.files, self.bytes, out),
            Format::Json => out.extend_from_slice(b"\n]\n"),
        }
    }
}

#[cfg(test)]
mod tests;
