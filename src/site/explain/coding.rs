//! Which form of a file or a list a client gets, told without making it.
//!
//! Used by `anchorite explain`; does no I/O: whoever calls answers the look-ups for what stands beside a file.

use super::line::{Circumstances, Line, Seen, full, shown};
use crate::config::Coding;
use crate::site::facts::Facts;
use crate::site::form::{self, Form};
use crate::site::lookup::{Base, Lookup};
use crate::site::mime::{self, Gain};
use crate::site::plan::{Answer, Plan};
use crate::site::{Compiled, Sites};
use std::os::unix::ffi::OsStrExt;

/// The form of a file that is sent.
pub(super) struct Sent {
    /// What is said of it; nothing, where no other form could be sent.
    pub(super) line: Option<Line>,
    /// The file that it is or is made of.
    pub(super) seen: Seen,
    /// That of what stands beside the file and is sent in its place.
    pub(super) beside: Option<Coding>,
    pub(super) is_made: bool,
}

/// Which form is sent.
pub(super) fn of_file(
    (sites, site): (&Sites, &Compiled),
    plan: &mut Plan,
    facts: &Facts<'_>,
    circumstances: &Circumstances<'_>,
    seen: Seen,
    look: impl FnMut(&Base, Lookup<'_>) -> (Answer<Seen>, Option<String>),
) -> Sent {
    let itself = |line: Option<Line>| Sent { line, seen, beside: None, is_made: false };
    let Some(codings) = codings(site, plan) else { return itself(None) };
    let there = beside((sites, site), plan, facts, circumstances, seen, &codings, look);
    let is_made =
        gain(sites, site, plan, circumstances).is_some_and(|gain| form::is_made(gain, seen.size)) && facts.fields.first("range").is_none();
    if there.is_empty() && !is_made {
        return itself(None);
    }
    let made = codings.into_iter().filter(|_| is_made);
    match form::choose(&circumstances.wanted, there, made) {
        Form::Itself => {
            let text = "sends it as it is: the client wants none of its codings";
            itself(Some(Line::new("coding", text.to_owned()).with("coding", "identity")))
        }
        Form::Beside(coding, (file, seen)) => {
            let text = format!("sends it with Content-Encoding: {}, from \"{}\"", coding.name(), shown(&file));
            let line = Line::new("coding", text).with("coding", coding.name()).with("file", file);
            Sent { line: Some(line), seen, beside: Some(coding), is_made: false }
        }
        Form::Made(coding) => Sent { is_made: true, ..itself(Some(of_what_is_made(coding))) },
    }
}

/// What is said of a list.
pub(super) fn of_listing(site: &Compiled, plan: &Plan, circumstances: &Circumstances<'_>) -> Option<Line> {
    circumstances.wanted.best(codings(site, plan)?).map(of_what_is_made)
}

fn of_what_is_made(coding: Coding) -> Line {
    let text = format!("sends it with Content-Encoding: {}, compressed on the fly unless that gains nothing", coding.name());
    Line::new("coding", text).with("coding", coding.name())
}

/// The codings that may be sent; `None`: none, or a rule says that the file is encoded as it is.
fn codings(site: &Compiled, plan: &Plan) -> Option<Vec<Coding>> {
    let changes = plan.changes();
    let codings = form::codings(&site.site, changes);
    (!form::is_encoded_by_rule(changes) && !codings.is_empty()).then(|| codings.to_vec())
}

/// What its type gains; `None`: it is encoded already.
fn gain(sites: &Sites, site: &Compiled, plan: &Plan, circumstances: &Circumstances<'_>) -> Option<Gain> {
    let (name, mut media) = (full(sites, plan.lookup()), Vec::new());
    mime::content_type(&name, &site.site.charset, circumstances.mime, &mut media);
    mime::coding(&name).is_none().then(|| mime::gain(&media))
}

/// The forms that stand beside a file, each with its size and the file that holds it.
fn beside(
    (sites, site): (&Sites, &Compiled),
    plan: &mut Plan,
    facts: &Facts<'_>,
    circumstances: &Circumstances<'_>,
    seen: Seen,
    codings: &[Coding],
    mut look: impl FnMut(&Base, Lookup<'_>) -> (Answer<Seen>, Option<String>),
) -> Vec<(Coding, u64, (Vec<u8>, Seen))> {
    let (root, path) = (plan.lookup().root, plan.lookup().path.to_vec());
    let Some(base) = sites.directories().get(root.0).filter(|_| !path.is_empty()) else { return Vec::new() };
    if matches!(gain(sites, site, plan, circumstances), None | Some(Gain::None)) {
        return Vec::new();
    }
    let mut forms = Vec::new();
    for coding in codings {
        if form::hides(&site.site, &path, *coding) || !plan.permits_beside(site, facts, coding.suffix()) {
            continue;
        }
        let path = [path.as_slice(), coding.suffix().as_bytes()].concat();
        if let (Answer::File(sibling), _) = look(base, Lookup { root, path: &path })
            && form::is_of(seen.modified, sibling.modified, sibling.size)
        {
            let file = base.path.join(std::ffi::OsStr::from_bytes(&path)).into_os_string().into_encoded_bytes();
            forms.push((*coding, sibling.size, (file, sibling)));
        }
    }
    forms
}
