//! Directories that may hold captures: the `root` of a site, `root` and `alias` of a rule. Does no I/O.

use super::danger::Shown;
use super::diagnostic::{Faults, quoted};
use super::document::Text;
use super::template::{self, Captures, Purpose};
use super::{Directory, Part, Template, paths};

/// A directory, with captures only in what follows a literal one.
pub(super) fn read(text: &Text<'_>, captures: &Captures, shown: &mut Shown, faults: &mut Faults<'_>) -> Option<Directory> {
    if text.value.contains('\0') {
        // Reported there; here it could also stand behind the literal directory.
        paths::directory(text, faults);
        return None;
    }
    let template = template::read(text, Purpose::Directory, captures, faults)?;
    let (literal, rest) = match template.parts.split_first() {
        Some((Part::Literal(literal), rest)) => (literal.as_str(), rest),
        _ => ("", template.parts.as_slice()),
    };
    let base = |literal: &str, faults: &mut Faults<'_>| {
        let text = Text { value: literal, at: text.at.clone() };
        paths::directory(&text, faults)
    };
    let (base, rest) = if rest.is_empty() {
        (base(literal, faults)?, Template::default())
    } else {
        let cut = literal.rfind('/').filter(|cut| *cut > 0);
        let Some((literal, first)) = cut.and_then(|cut| literal.split_at_checked(cut)) else {
            let what = format!("{} begins with what a request chooses", quoted(text.value));
            faults.report(text.at.clone(), what, "expected a literal directory first, such as \"/srv/www/{1}\"");
            return None;
        };
        (base(literal, faults)?, beneath(first, rest, text, faults)?)
    };
    shown.add(&base, text.at.clone());
    Some(Directory { base, rest })
}

/// What follows the literal directory, without a slash at either end.
fn beneath(first: &str, rest: &[Part], text: &Text<'_>, faults: &mut Faults<'_>) -> Option<Template> {
    let first = first.trim_start_matches('/');
    let mut parts = Vec::new();
    if !first.is_empty() {
        parts.push(Part::Literal(first.to_owned()));
    }
    parts.extend_from_slice(rest);
    if let Some(Part::Literal(last)) = parts.last_mut() {
        last.truncate(last.trim_end_matches('/').len());
    }
    parts.retain(|part| *part != Part::Literal(String::new()));
    // A capture may be empty; then nothing of what is literal may lead upwards.
    let literal = |part: &Part| match part {
        Part::Literal(text) => text.clone(),
        Part::Capture(_) | Part::Variable(_) | Part::Header(_) | Part::Query => String::new(),
    };
    let bare: String = parts.iter().map(literal).collect();
    if bare.split('/').any(|segment| segment == "." || segment == "..") {
        let what = format!("{} could leave its directory", quoted(text.value));
        faults.report(text.at.clone(), what, "expected no \".\" or \"..\" beside a capture");
        return None;
    }
    Some(Template { parts })
}

#[cfg(test)]
mod tests {
    use super::super::Act;
    use super::super::act::tests::{act, said};
    use super::super::read::{told, with_a_site};

    #[test]
    fn captures_stand_behind_a_literal_directory() {
        for (directory, base, rest) in [
            ("/srv/www/{1}", "/srv/www", "{1}"),
            ("/srv/www/x-{1}/pub/{2}/", "/srv/www", "x-{1}/pub/{2}"),
            ("/srv//{1}{2}", "/srv", "{1}{2}"),
            ("www/{1}", "/etc/anchorite/www", "{1}"),
            ("/s{{/{1}}}", "/s{", "{1}}}"),
        ] {
            let Act::Root(read) = act(&format!("path = \"/u/*/*\"\nroot = \"{directory}\"")) else { panic!("{directory}") };
            assert_eq!((read.base.to_str().unwrap(), read.rest.to_string().as_str()), (base, rest));
        }
        for directory in ["{1}", "/{1}", "a{1}", "//{1}"] {
            assert_eq!(
                said(&format!("path = \"/u/*\"\nroot = \"{directory}\""))[0],
                if directory == "//{1}" {
                    "5:8: \"/\" is the whole file system, expected a directory beneath \"/\"".to_owned()
                } else {
                    format!(
                        "5:8: {directory:?} begins with what a request chooses, expected a literal directory first, such as \"/srv/www/{{1}}\""
                    )
                }
            );
        }
        for directory in ["/srv/{1}/../x", "/srv/..{1}", "/srv/{1}.{1}.", "/srv/./{1}/."] {
            let said = said(&format!("path = \"/u/*\"\nroot = \"{directory}\""));
            assert_eq!(said, [format!("5:8: {directory:?} could leave its directory, expected no \".\" or \"..\" beside a capture")]);
        }
    }

    #[test]
    fn the_root_of_a_site_may_hold_what_the_star_of_its_name_stands_for() {
        let site = with_a_site("[[site]]\nname = [\"*.a\", \"*.b.c\"]\nroot = \"/srv/{1}/www\"").sites[0].clone();
        assert_eq!((site.root.to_str().unwrap(), site.root_rest.to_string().as_str()), ("/srv", "{1}/www"));
        for (names, help) in [("[\"*.a\", \"b\"]", "the name \"b\" has no star"), ("\"\"", "the name \"\" has no star")] {
            assert_eq!(
                told(&format!("[[site]]\nname = {names}\nroot = \"/srv/{{1}}\"\n")),
                [format!("3:14: \"{{1}}\" stands for nothing, {help}")]
            );
        }
        assert_eq!(
            told("[[site]]\nname = \"*.a\"\nroot = \"/srv/{host}\"\n"),
            ["3:14: \"{host}\" cannot be part of a directory, expected only captures such as \"{1}\""]
        );
    }
}
