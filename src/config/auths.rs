//! `[auth.NAME]`: who may log in. Read and checked; does no I/O: the file is opened at the start.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::{names, paths};
use std::path::PathBuf;

/// Who may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    pub name: String,
    /// What browsers show.
    pub realm: String,
    /// Users and the hashes of their passwords, see [`htpasswd`](super::htpasswd).
    pub file: PathBuf,
}

/// Every such table of the files, in order.
pub(super) fn read(top: &Table<'_>, faults: &mut Faults<'_>) -> Vec<Auth> {
    let tables = top.named_tables(&names::AUTHS, &names::AUTH, faults);
    if let Some((name, _)) = tables.get(AUTHS_MAX) {
        faults.report(name.at.clone(), format!("more than {AUTHS_MAX} of [auth.NAME]"), "expected fewer");
    }
    tables.iter().map(|(name, table)| read_one(name, table, faults)).collect()
}

fn read_one(name: &Text<'_>, table: &Table<'_>, faults: &mut Faults<'_>) -> Auth {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.value.is_empty() || name.value.len() > NAME_MAX || !name.value.bytes().all(is_fine) {
        let help = "expected at most 64 letters, digits, \"-\", \"_\" and \".\"";
        faults.report(name.at.clone(), format!("{} is not a name for an [auth.NAME]", quoted(name.value)), help);
    }
    match table.item("type", faults) {
        Some(item) => read_type(&item, faults),
        None => faults.report_missing(table.at.clone(), "this [auth.NAME] has no \"type\"", "expected type = \"basic\""),
    }
    let realm = table.item("realm", faults).and_then(|item| read_realm(&item, faults));
    let file = match table.item("file", faults) {
        Some(item) => item.text("the path of a password file", faults).and_then(|text| paths::file(&text, faults)),
        None => {
            let help = "expected file = \"/etc/anchorite/NAME.passwd\", which \"anchorite password\" makes";
            faults.report_missing(table.at.clone(), "this [auth.NAME] has no \"file\"", help);
            None
        }
    };
    Auth { name: name.value.to_owned(), realm: realm.unwrap_or_else(|| name.value.to_owned()), file: file.unwrap_or_default() }
}

fn read_type(item: &Item<'_>, faults: &mut Faults<'_>) {
    match item.as_text() {
        Some(text) if PLANNED.contains(&text.value) => {
            item.report(format!("{} is not supported by this version", quoted(text.value)), "expected type = \"basic\"", faults);
        }
        Some(_) | None => drop(item.choice(&[("basic", ())], faults)),
    }
}

fn read_realm(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<String> {
    let text = item.text("what browsers show to whoever is to log in", faults)?;
    if text.value.chars().any(char::is_control) || text.value.len() > REALM_MAX {
        let help = format!("expected at most {REALM_MAX} bytes, without control characters");
        faults.report(text.at, format!("{} is not possible here", quoted(text.value)), help);
        return None;
    }
    Some(text.value.to_owned())
}

/// The `auth` of a rule: the number of the table that it names.
pub(super) fn named(item: &Item<'_>, auths: &[Auth], faults: &mut Faults<'_>) -> Option<u16> {
    let text = item.text("the name of an [auth.NAME], such as \"staff\"", faults)?;
    let number = auths.iter().position(|auth| auth.name == text.value);
    if number.is_none() {
        let help = match names::nearest(text.value, auths.iter().map(|auth| auth.name.as_str())) {
            Some(name) => format!("did you mean {}?", quoted(name)),
            None => format!("expected a table [auth.{}] in the file", text.value),
        };
        faults.report(text.at, format!("no [auth.NAME] is called {}", quoted(text.value)), help);
    }
    number.and_then(|number| u16::try_from(number).ok())
}

/// As many as are handed to one process.
const AUTHS_MAX: usize = 64;
const NAME_MAX: usize = 64;
const REALM_MAX: usize = 255;
/// What a later version has.
const PLANNED: [&str; 3] = ["digest", "pam", "ldap"];

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};

    #[test]
    fn a_rule_names_who_may_log_in() {
        let config = with_a_site(
            "[auth.staff]\ntype = \"basic\"\nfile = \"staff.passwd\"\n[auth.b]\ntype = \"basic\"\nrealm = \"é \\\"b\\\"\"\nfile = \"/b\"\n\
             [[site]]\nname = \"a\"\nroot = \"/srv\"\n[[site.rule]]\nauth = \"b\"\n",
        );
        let auths: Vec<_> =
            config.auths.iter().map(|auth| (auth.name.as_str(), auth.realm.as_str(), auth.file.to_str().unwrap())).collect();
        assert_eq!(auths, [("staff", "staff", "/etc/anchorite/staff.passwd"), ("b", "é \"b\"", "/b")]);
        let auth = config.sites[0].rules[0].changes.auth.clone().unwrap();
        assert_eq!((auth.number, auth.name.as_str(), auth.realm.as_str()), (1, "b", "é \"b\""));
    }

    #[test]
    fn what_cannot_be_is_told() {
        let site = "[[site]]\nroot = \"/srv\"\n[[site.rule]]\n";
        let said = |text: &str| told(&format!("{text}\n{site}"));
        for kind in ["digest", "pam", "ldap"] {
            assert_eq!(
                said(&format!("[auth.a]\nfile = \"/a\"\ntype = \"{kind}\"")),
                [format!("3:8: \"{kind}\" is not supported by this version, expected type = \"basic\"")]
            );
        }
        assert_eq!(said("[auth.a]\nfile = \"/a\"\ntype = \"basci\"").len(), 1);
        let missing = said("[auth.a]");
        assert!(missing.len() == 2 && missing.iter().all(|said| said.contains("this [auth.NAME] has no")), "{missing:?}");
        assert!(said("[auth.\"a b\"]\ntype = \"basic\"\nfile = \"/a\"")[0].contains("is not a name"));
        assert!(said("[auth.a]\ntype = \"basic\"\nfile = \"/a\"\nrealm = \"a\\nb\"")[0].contains("is not possible here"));
        let unknown = told(&format!("[auth.staff]\ntype = \"basic\"\nfile = \"/a\"\n{site}auth = \"staf\"\n"));
        assert_eq!(unknown, ["7:8: no [auth.NAME] is called \"staf\", did you mean \"staff\"?"]);
    }

    #[test]
    fn a_password_file_beneath_a_root_is_refused() {
        let said = told("[auth.a]\ntype = \"basic\"\nfile = \"/srv/www/.htpasswd\"\n[[site]]\nroot = \"/srv/www\"\n");
        assert!(said.len() == 1 && said[0].contains("would be shown to the workers with the password file"), "{said:?}");
    }
}
