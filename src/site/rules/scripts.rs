//! Where the scripts of a rule with `backend` are looked up, decided before the first request. Does no I/O.

use super::super::lookup::{Question, RootRef};
use super::super::pattern::Pattern;
use super::super::template::Values;
use super::alias::Place;
use crate::config::{Rule, ScriptPlace, ToBackend};
use crate::proto::target::Path;

/// A backend, and where its scripts are looked up.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) number: u16,
    pub(super) name: String,
    /// A program per request, run as its owner.
    pub(super) is_program: bool,
    place: Option<(Place, bool)>,
    /// The paths of the rule, which say what an `alias` stands for.
    paths: Vec<Pattern>,
    check: Option<bool>,
}

impl Backend {
    pub(super) fn new(to: &ToBackend, rule: &Rule, root: RootRef) -> Backend {
        let place = to.place.as_ref().map(|place| match place {
            ScriptPlace::Root(directory) => (Place::new(root, directory.rest.clone()), false),
            ScriptPlace::Alias(directory) => (Place::new(root, directory.rest.clone()), true),
        });
        let paths = rule.matchers.path.iter().map(|path| Pattern::new(path.as_bytes())).collect();
        Backend { number: to.backend, name: to.name.clone(), is_program: to.cgi, place, paths, check: to.check }
    }

    /// Whether a mount is looked up too: only if asked for, or if it is said where.
    pub(super) fn checks_mounts(&self) -> bool {
        self.check.unwrap_or(self.place.is_some())
    }

    pub(super) fn checks(&self) -> bool {
        self.check.unwrap_or(true)
    }

    /// The directory of `root`.
    pub(super) fn root(&self) -> Option<&Place> {
        match &self.place {
            Some((place, false)) => Some(place),
            Some((_, true)) | None => None,
        }
    }

    /// Asks for the first `end` bytes of the path; false: no such file can be.
    pub(super) fn ask(&self, path: &Path, end: usize, values: &dyn Values, site: &Place, question: &mut Question) -> bool {
        let (place, alias) = self.place.as_ref().map_or((site, false), |(place, alias)| (place, *alias));
        if !place.begin(values, question) {
            return false;
        }
        let from = if alias { self.stem(path.bytes()) } else { 0 };
        question.whole = !alias;
        for (segment, (segment_end, names)) in path.segments().zip(path.ends()) {
            if segment_end > end {
                break;
            }
            if segment_end > from {
                question.named &= names;
                question.push(segment);
            }
        }
        true
    }

    /// How many bytes of the path the alias stands for: all of an exact one, else what is before the last star.
    fn stem(&self, text: &[u8]) -> usize {
        let mut stars = Vec::new();
        let found = self.paths.iter().find_map(|pattern| {
            // It may match a prefix only, but where the last star begins is the same.
            let mut ends = memchr::memchr_iter(b'/', text).chain([text.len()]);
            ends.find(|&end| pattern.matches(&text[..end], &mut stars))
        });
        match (found, stars.last()) {
            (Some(_), Some(&(from, _))) => from.saturating_sub(1),
            (Some(end), None) => end,
            (None, _) => 0,
        }
    }
}
