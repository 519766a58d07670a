//! `backend` and `cgi` in a rule, with where its scripts are looked up: read and checked. Does no I/O.

use super::danger::Shown;
use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table};
use super::patterns::Patterns;
use super::{Act, Protocol, ScriptPlace, ToBackend, directory, names};

pub(super) fn read(
    table: &Table<'_>,
    item: &Item<'_>,
    place: Option<&(&str, Item<'_>)>,
    patterns: &Patterns<'_>,
    shown: &mut Shown,
    faults: &mut Faults<'_>,
) -> Option<Act> {
    let check = table.item("check", faults).and_then(|item| item.boolean(faults));
    let place = place.and_then(|(key, item)| read_place(key, item, patterns, shown, faults));
    let text = item.text("the name of a backend", faults)?;
    let named = || patterns.backends.iter().enumerate().filter(|(_, backend)| backend.protocol != Protocol::Cgi);
    let Some((number, found)) = named().find(|(_, backend)| backend.name == text.value) else {
        let known = named().map(|(_, backend)| backend.name.as_str());
        let help = match names::nearest(text.value, known) {
            Some(name) => format!("did you mean {}?", quoted(name)),
            None => format!("expected a table [backend.{}]", text.value),
        };
        faults.report(text.at.clone(), format!("there is no backend {}", quoted(text.value)), help);
        return None;
    };
    // What speaks HTTP itself knows what its paths mean, and has no scripts here.
    let is_http = patterns.backends.get(number).is_some_and(|backend| backend.protocol == Protocol::Http);
    let check = check.or(is_http.then_some(false));
    let backend = u16::try_from(number).unwrap_or(u16::MAX);
    Some(Act::Backend(ToBackend { backend, name: text.value.to_owned(), cgi: false, place, check, sendfile: found.sendfile.clone() }))
}

/// `cgi`: `true`, or a directory, which is as an `alias` beside it.
pub(super) fn read_cgi(
    item: &Item<'_>,
    place: Option<&(&str, Item<'_>)>,
    patterns: &Patterns<'_>,
    shown: &mut Shown,
    faults: &mut Faults<'_>,
) -> Option<Act> {
    let number = patterns.backends.iter().position(|backend| backend.protocol == Protocol::Cgi)?;
    let beside = place.and_then(|(key, item)| read_place(key, item, patterns, shown, faults));
    let place = if item.as_text().is_some() {
        if let Some((key, other)) = place {
            let what = format!("\"cgi\" says already where programs are looked up, and so does {}", quoted(key));
            other.report(what, "expected one of them, or cgi = true", faults);
        }
        Some(read_place("alias", item, patterns, shown, faults)?)
    } else if item.boolean_or(CGI_EXPECTED, faults)? {
        beside
    } else {
        item.report("\"cgi\" is false, which says nothing", "a rule without it runs no program", faults);
        return None;
    };
    let name = patterns.backends.get(number).map(|backend| backend.name.clone())?;
    // What is not there cannot be run: it is looked up, whatever the pattern says.
    Some(Act::Backend(ToBackend { backend: u16::try_from(number).ok()?, name, cgi: true, place, check: Some(true), sendfile: None }))
}

const CGI_EXPECTED: &str = "true, or the directory of the programs";

fn read_place(key: &str, item: &Item<'_>, patterns: &Patterns<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Option<ScriptPlace> {
    let alias = key == "alias";
    for path in patterns.paths.into_iter().flatten().filter(|_| alias) {
        // What is looked up is all behind the last star's slash.
        let fine = path.value.rsplit_once('*').is_none_or(|(before, _)| before.ends_with('/'));
        if !fine {
            let what = format!("{} with \"alias\" does not say what is looked up beneath the directory", quoted(path.value));
            faults.report(path.at.clone(), what, "expected an exact path, or one such as \"/app/*\" or \"/app/*.php\"");
        }
    }
    if alias && patterns.paths.is_none() {
        faults.report(item.key_at.clone(), "\"alias\" needs a \"path\"", "expected path = \"/app/*\"");
    }
    let text = item.text("a directory", faults)?;
    let directory = directory::read(&text, patterns.captures, shown, faults)?;
    Some(if alias { ScriptPlace::Alias(directory) } else { ScriptPlace::Root(directory) })
}
