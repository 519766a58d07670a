//! `try`: the first of several paths that exists, the last one unconditionally.

use super::super::lookup::Stands;
use super::super::trace::{Event, Trace};
use super::compiled::OneRule;
use super::run::{Lent, Next, Run};
use crate::config::{Part, Template};
use crate::proto::status::Status;
use crate::proto::target::Path;

impl Run {
    /// Goes through the candidates from the present one on. A candidate that ends in `/` stands for a directory, every other for a regular file.
    pub(super) fn try_<T: Trace>(&mut self, candidates: &[Template], rule: &OneRule, lent: &mut Lent<'_, T>) -> Option<Next> {
        let (number, facts) = (self.next, lent.facts);
        while let Some(candidate) = candidates.get(self.candidate) {
            let last = self.candidate + 1 == candidates.len();
            let mut path = std::mem::take(&mut self.scratch);
            let filled = self.fill(candidate, rule, facts, &mut path);
            self.scratch = path;
            let Some(query) = filled else {
                if last {
                    return Some(Next::Status(Status::BAD_REQUEST));
                }
                self.candidate += 1;
                continue;
            };
            let directory = wants_directory(candidate);
            // Relative links in the index would lead elsewhere.
            let lacks_slash = directory && lacks_slash(self.path(facts), &self.scratch);
            let stands = if last && !lacks_slash {
                None
            } else {
                match self.candidate_stands(directory, lent) {
                    None => return Some(Next::Ask),
                    stands => stands,
                }
            };
            let exists = stands == Some(if directory { Stands::Directory } else { Stands::File });
            lent.trace.record(|| Event::Candidate { rule: number, path: self.scratch.bytes().to_vec(), taken: exists || last });
            if exists && lacks_slash {
                return Some(Next::Slash);
            }
            if exists || last {
                self.candidate = 0;
                let path = std::mem::take(&mut self.scratch);
                self.replace(path, query);
                return None;
            }
            self.candidate += 1;
        }
        self.pass();
        None
    }

    /// `None`: the disk must be asked.
    fn candidate_stands<T>(&mut self, directory: bool, lent: &mut Lent<'_, T>) -> Option<Stands> {
        if self.answered.is_some() {
            return self.answered.take();
        }
        let asked = self.ask_site(lent, true) == Next::Serve;
        if asked && lent.question.named && !lent.question.is_hidden(lent.site) && (directory || !lent.question.directory) {
            return None;
        }
        Some(Stands::Nothing)
    }
}

fn wants_directory(candidate: &Template) -> bool {
    let path = candidate.parts.iter().take_while(|part| **part != Part::Query);
    matches!(path.last(), Some(Part::Literal(text)) if text.ends_with('/'))
}

/// Whether a candidate is the directory that the request asked for without its slash.
fn lacks_slash(asked: &Path, candidate: &Path) -> bool {
    let name = candidate.segments().last();
    !asked.is_directory() && name.is_some() && name == asked.segments().last()
}
