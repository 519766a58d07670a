//! What the act of a rule needs to know of the paths that the rule matches. Does no I/O.

use super::Backend;
use super::document::Text;
use super::template::Captures;

/// What the act needs to know of the rule's matchers.
pub(super) struct Patterns<'r> {
    /// `None`: the rule has no `path`, or a faulty one.
    pub(super) paths: Option<&'r [Text<'r>]>,
    pub(super) captures: &'r Captures,
    /// Whether captures may be a part of a host: groups of a regular expression, whose writer says what may stand there, and what the star of
    /// the site's name stands for, which is a part of one already.
    pub(super) may_be_host: bool,
    /// Those that there are.
    pub(super) backends: &'r [Backend],
}
