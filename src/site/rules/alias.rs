//! `root` and `alias`: another directory instead of the site's.
//!
//! What is looked up is cut out of the normalised path, at segment boundaries only, so that no `..` that stood in the middle of a segment gets
//! to stand alone (CVE-2018-19052: `/alias../secret`).

use super::super::lookup::{Question, RootRef};
use super::super::pattern::{Part, Pattern};
use super::super::template::{self, Values};
use crate::config::Template;
use crate::proto::target::Path;

/// A directory, perhaps with captures in what follows its literal part.
#[derive(Debug, Default)]
pub(super) struct Place {
    root: RootRef,
    rest: Template,
}

/// `alias`.
#[derive(Debug)]
pub(super) struct Alias(Place);

/// What an alias stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Found {
    /// The directory or file itself.
    #[default]
    Itself,
    /// This part of the path, beneath the directory.
    Beneath(usize, usize),
    /// The directory, but the path lacks the slash at its end.
    WithoutSlash,
}

impl Place {
    pub(super) fn new(root: RootRef, rest: Template) -> Place {
        Place { root, rest }
    }

    pub(super) fn is_literal(&self) -> bool {
        self.rest.parts.is_empty()
    }

    /// Asks for the whole path beneath it; false: no such directory can be.
    pub(super) fn ask(&self, path: &Path, values: &dyn Values, question: &mut Question) -> bool {
        if !self.begin(values, question) {
            return false;
        }
        question.directory = path.is_directory();
        question.named = path.names_file();
        question.whole = true;
        for segment in path.segments() {
            question.push(segment);
        }
        true
    }

    pub(super) fn begin(&self, values: &dyn Values, question: &mut Question) -> bool {
        question.at(self.root);
        let fine = self.is_literal() || template::rest(&self.rest, values, &mut question.path);
        question.chosen = question.path.len();
        fine
    }
}

impl Alias {
    pub(super) fn new(root: RootRef, rest: Template) -> Alias {
        Alias(Place::new(root, rest))
    }

    /// Asks for what was found; false: no such directory can be.
    pub(super) fn ask(&self, found: Found, path: &Path, values: &dyn Values, question: &mut Question) -> bool {
        if !self.0.begin(values, question) {
            return false;
        }
        question.directory = path.is_directory();
        question.named = path.names_file();
        if let Found::Beneath(from, to) = found {
            let part = path.bytes().get(from..to).unwrap_or_default();
            for segment in part.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()) {
                question.push(segment);
            }
        }
        true
    }
}

/// Compares a path with a pattern of an alias; of several stars the last one is looked up.
pub(super) fn matches(pattern: &Pattern, text: &[u8], captures: &mut Vec<Part>) -> Option<Found> {
    captures.clear();
    if let Some(exact) = pattern.exact() {
        // With the slash that a directory is redirected to.
        return (text == exact || text.strip_suffix(b"/") == Some(exact)).then_some(Found::Itself);
    }
    let (prefix, open) = pattern.prefix();
    if open && prefix.len() > 1 && prefix.strip_suffix(b"/") == Some(text) {
        return Some(Found::WithoutSlash);
    }
    if !pattern.matches(text, captures) {
        return None;
    }
    let (from, to) = *captures.last()?;
    let part = text.get(from..to)?;
    if from > 0 && text[from - 1] != b'/' {
        match part {
            b"" if to == text.len() => return Some(Found::WithoutSlash),
            [b'/', ..] => {}
            _ => return None,
        }
    }
    let climbs = part.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b".."));
    (!climbs).then_some(Found::Beneath(from, to))
}
