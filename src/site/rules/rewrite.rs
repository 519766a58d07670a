//! `rewrite`: another path, and another query if the template has one; the next rule sees them.

use super::super::facts::Facts;
use super::super::template;
use super::compiled::OneRule;
use super::run::{Inputs, Next, Run, parse};
use crate::config::Template;
use crate::proto::status::Status;
use crate::proto::target::Path;

impl Run {
    /// The result is read as a target's path is, so that it is normalised and cannot climb: 400.
    pub(super) fn rewrite(&mut self, to: &Template, rule: &OneRule, facts: &Facts<'_>) -> Option<Next> {
        let mut path = Path::default();
        let Some(query) = self.fill(to, rule, facts, &mut path) else {
            return Some(Next::Status(Status::BAD_REQUEST));
        };
        self.replace(path, query);
        None
    }

    /// Makes path and query of a template; `None`: it is no path.
    pub(super) fn fill(&self, to: &Template, rule: &OneRule, facts: &Facts<'_>, path: &mut Path) -> Option<Option<Vec<u8>>> {
        let values = Inputs::new(rule, facts, &self.current, &self.found);
        let (mut text, mut query) = (Vec::new(), Vec::new());
        template::path(to, &values, &mut text);
        if !parse(&text, path) {
            return None;
        }
        Some(template::query(to, &values, &mut query).then_some(query))
    }
}
