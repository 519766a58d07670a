//! What about programs behind sites will surprise somebody: told by `anchorite check` as warnings.

use crate::config::{Act, Backend, BackendAddress, Cgi, Config, Rule, ScriptPlace, Site};
use crate::parent;
use crate::sys::cgi::{self, Owners};
use crate::sys::privilege::{self, Identity};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A text for each.
pub(super) fn find(config: &Config) -> Vec<String> {
    let numbered = || (0..).zip(&config.backends);
    let started = config.backends.iter().filter_map(|backend| Some((backend, backend.spawn.as_ref()?)));
    let mut found: Vec<String> = started.filter_map(|(backend, spawn)| not_to_start(backend, spawn.command.first()?)).collect();
    found.extend(config.backends.iter().filter_map(no_place_for_the_socket));
    let identity = parent::identity(config).ok();
    let runs = config.sites.iter().flat_map(|site| site.rules.iter().map(move |rule| (site, rule)));
    found.extend(
        runs.flat_map(|(site, rule)| programs(site, rule)).filter_map(|program| not_to_run(config, identity, &program)).take(TOLD_MAX),
    );
    found.extend(numbered().filter_map(|(number, backend)| one_name_for_two(config, number, backend)));
    found
}

/// The files of a directory that a rule runs, as far as its path says which.
fn programs(site: &Site, rule: &Rule) -> Vec<PathBuf> {
    let Some(Act::Backend(to)) = rule.act.as_ref().filter(|_| rule.runs_programs()) else { return Vec::new() };
    let beneath =
        |path: &String| path.strip_suffix("/*").map(|path| path.trim_start_matches('/').to_owned()).filter(|path| !path.contains('*'));
    let prefixes = || rule.matchers.path.iter().filter_map(beneath);
    let directories: Vec<PathBuf> = match &to.place {
        Some(ScriptPlace::Alias(directory)) => vec![directory.base.clone()],
        Some(ScriptPlace::Root(directory)) => prefixes().map(|prefix| directory.base.join(prefix)).collect(),
        None => prefixes().map(|prefix| site.root.join(prefix)).collect(),
    };
    let files = |directory: &PathBuf| match std::fs::read_dir(directory) {
        Ok(entries) => entries.take(LOOKED_AT_MAX).flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![directory.clone()],
    };
    directories.iter().flat_map(files).collect()
}

/// Of what looks as if it were to be run.
fn not_to_run(config: &Config, identity: Option<Identity>, program: &Path) -> Option<String> {
    let metadata = std::fs::metadata(program).ok()?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return None;
    }
    let why = examine(&config.cgi, identity, program).err()?;
    Some(format!("program \"{}\" will not be run: {why}", program.display()))
}

/// Files of a directory that are looked at, and programs that are told.
const LOOKED_AT_MAX: usize = 1_000;
const TOLD_MAX: usize = 20;

/// The user id that a CGI program runs as.
///
/// # Errors
/// Why it does not run.
pub(super) fn examine(table: &Cgi, identity: Option<Identity>, program: &Path) -> Result<u32, String> {
    let user = table.user.as_deref().map(|user| privilege::look_up(user, table.group.as_deref())).transpose()?;
    let rootless = identity.is_some_and(|identity| identity.rootless);
    let service = identity.map(|identity| identity.uid);
    cgi::examine(program, &Owners { user, min_uid: table.min_uid, service, rootless })
}

fn not_to_start(backend: &Backend, program: &str) -> Option<String> {
    let why = match std::fs::metadata(program) {
        Err(fault) => fault.to_string(),
        Ok(metadata) if !metadata.is_file() => "is no regular file".to_owned(),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => "is not executable".to_owned(),
        Ok(_) => return None,
    };
    Some(format!("backend \"{}\": the program \"{program}\" cannot be started: {why}", backend.name))
}

/// Of a program that the service starts: of others the socket may come with the program.
fn no_place_for_the_socket(backend: &Backend) -> Option<String> {
    let (Some(_), [BackendAddress::Unix(path)]) = (&backend.spawn, backend.addresses.as_slice()) else { return None };
    let directory = path.parent().unwrap_or(Path::new("/"));
    let missing = !directory.is_dir();
    missing.then(|| format!("backend \"{}\": no socket can be made in \"{}\": it is no directory", backend.name, directory.display()))
}

/// Scripts of two sites have the same name for the program, which may run one for the other from its cache.
fn one_name_for_two(config: &Config, number: u16, backend: &Backend) -> Option<String> {
    let seen = backend.script_root.as_ref()?;
    let uses = |act: &Option<Act>| matches!(act, Some(Act::Backend(to)) if to.backend == number);
    let sites = config.sites.iter().filter(|site| site.rules.iter().any(|rule| uses(&rule.act)));
    let roots: BTreeSet<_> = sites.map(|site| &site.root).collect();
    let mut roots = roots.into_iter();
    let (first, second) = (roots.next()?, roots.next()?);
    let (first, second, seen) = (first.display(), second.display(), seen.display());
    Some(format!("backend \"{}\": it sees scripts beneath \"{first}\" and \"{second}\" under the same names, in \"{seen}\"", backend.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn told(text: &str) -> Vec<String> {
        find(&parse(text, Path::new("/etc/anchorite/anchorite.toml")).unwrap_or_else(|faults| panic!("{faults}")))
    }

    #[test]
    fn programs_that_cannot_be_started_are_told() {
        let site = "[[site]]\nroot = \"/srv/www\"\n";
        let started = |command: &str, address: &str| {
            told(&format!(
                "[backend.app]\ntype = \"fastcgi\"\naddress = [\"unix:{address}\"]\n[backend.app.spawn]\nuser = \"www-data\"\ncommand = [{command:?}]\n{site}"
            ))
        };
        assert_eq!(started("/bin/sh", "/tmp/a.sock"), Vec::<String>::new());
        for (command, address, why) in [
            ("/nonexistent", "/tmp/a.sock", "\"/nonexistent\" cannot be started: No such file or directory"),
            ("/usr", "/tmp/a.sock", "\"/usr\" cannot be started: is no regular file"),
            ("/etc/passwd", "/tmp/a.sock", "\"/etc/passwd\" cannot be started: is not executable"),
            ("/bin/sh", "/nonexistent/a.sock", "no socket can be made in \"/nonexistent\""),
        ] {
            let told = started(command, address);
            assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
        }
    }

    #[test]
    fn two_sites_with_one_name_for_their_scripts_are_told() {
        // Id of reports: 010.
        let with = |script_root: &str, second: &str| {
            let site = |name: &str, root: &str| {
                format!("[[site]]\nname = \"{name}\"\nroot = \"{root}\"\n[[site.rule]]\npath = \"*.php\"\nbackend = \"app\"\n")
            };
            let backend = format!("[backend.app]\ntype = \"fastcgi\"\naddress = [\"unix:/run/a.sock\"]\nscript_root = \"{script_root}\"\n");
            told(&[backend, site("a", "/srv/a"), site("b", second)].concat())
        };
        assert_eq!(
            with("/www", "/srv/b"),
            ["backend \"app\": it sees scripts beneath \"/srv/a\" and \"/srv/b\" under the same names, in \"/www\""]
        );
        assert!(with("/www", "/srv/a").is_empty() && with("", "/srv/b").is_empty());
    }

    #[test]
    fn programs_that_will_not_be_run_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (name, mode) in [("mine", 0o755), ("open", 0o777), ("text", 0o644)] {
            std::fs::write(at(name), "").unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let owner = privilege::own_ids().0;
        let user = if owner == 0 { "user = \"65534\"" } else { "" };
        let text = format!(
            "[cgi]\n{user}\nmin_uid = 1\n[[site]]\nroot = \"/srv/www\"\n[[site.rule]]\npath = \"/x/*\"\ncgi = \"{}\"\n",
            directory.path().display()
        );
        assert_eq!(told(&text), [format!("program \"{}\" will not be run: others may write to it (mode 0777)", at("open").display())]);
    }
}
