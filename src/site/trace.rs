//! What a decision was made of, for `anchorite explain`; costs nothing where nobody listens.

use super::lookup::{RootRef, Stands};

/// Listens to a decision.
pub trait Trace {
    /// Takes one step of it; the event is made only if somebody wants it.
    fn record(&mut self, event: impl FnOnce() -> Event);
}

/// Nobody listens.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

/// One step of a decision. Rules are counted from 0 in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An `allow` or `deny` was tried on the path; `None`: it permits.
    Access { rule: usize, refuses: bool },
    /// A rule asks for a user, and the request is not known to be one's.
    Login { rule: usize },
    /// A rule matched, or the first of its matchers that did not.
    Rule { rule: usize, mismatch: Option<Mismatch> },
    /// What a rule that matched did.
    Act { rule: usize, act: &'static str },
    /// The path (decoded) and the query after a `rewrite` or `try`.
    Rewritten { rule: usize, path: Vec<u8>, query: Option<Vec<u8>> },
    /// A candidate of `try` does not stand where it leads.
    Candidate { rule: usize, path: Vec<u8>, taken: bool },
    /// The disk was asked.
    Asked { root: RootRef, path: Vec<u8> },
    /// The disk answered.
    Answered(Answered),
    /// The request came plain, where `https_redirect` is on.
    Plain,
    /// The request is handed to a backend, with these two parts of its path.
    Script { rule: usize, backend: String, name: Vec<u8>, info: Vec<u8>, checked: bool },
    /// The index that was found is a script: the rules run again with its path.
    ScriptIndex { path: Vec<u8> },
    /// A segment of the path looked up is hidden.
    Hidden,
    /// A segment of the path holds an encoded slash, or what a capture stands for may not be put into a directory's name.
    NamesNoFile,
}

/// The matcher that did not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    Method,
    Client,
    Host,
    /// Of that name.
    RequestHeader(String),
    Path,
    Regex,
    Exists,
}

/// An answer of the disk, without its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    Stands(Stands),
    Denied,
    Busy,
    Failed,
}

impl Trace for Silent {
    fn record(&mut self, _: impl FnOnce() -> Event) {}
}

impl Trace for Vec<Event> {
    fn record(&mut self, event: impl FnOnce() -> Event) {
        self.push(event());
    }
}
