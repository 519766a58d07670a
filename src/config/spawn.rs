//! `[backend.NAME.spawn]`: a program that the service starts itself, read and checked, and as role `spawn` is told of it. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table};
use super::server;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The program behind a backend, as the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// Its path and its arguments.
    pub command: Vec<String>,
    /// How many of it run, all at one socket.
    pub processes: u32,
    pub user: String,
    /// `None`: the user's own.
    pub group: Option<String>,
    /// Its environment, beside a path for programs.
    pub env: Vec<(String, String)>,
}

/// The same with names looked up, as role `spawn` is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Of the backend.
    pub backend: String,
    pub command: Vec<String>,
    pub processes: u32,
    pub uid: u32,
    pub gid: u32,
    pub env: Vec<(String, String)>,
    /// Where the socket is that it accepts at.
    #[serde(with = "super::slice::path_bytes")]
    pub socket: PathBuf,
    /// Who may connect there beside root: the group of the service.
    pub socket_group: u32,
}

impl Program {
    /// Whether a process of one is as good as a process of the other.
    pub fn runs_as(&self, other: &Program) -> bool {
        Program { processes: other.processes, ..self.clone() } == *other
    }
}

/// All that `spawn` runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnSlice {
    pub programs: Vec<Program>,
}

/// Reads the table.
pub(super) fn read(table: &Table<'_>, faults: &mut Faults<'_>) -> Option<Spawn> {
    let command = table.item("command", faults);
    if command.is_none() {
        faults.report_missing(
            table.at.clone(),
            "nothing is to be started: there is no \"command\"",
            "expected command = [\"/usr/bin/php-cgi\"]",
        );
    }
    let user = table.item("user", faults);
    if user.is_none() {
        faults.report_missing(
            table.at.clone(),
            "the program would run as nobody in particular: there is no \"user\"",
            "expected user = \"www-data\"",
        );
    }
    let processes = table.item("processes", faults).and_then(|item| item.number(PROCESSES, faults));
    let group = table.item("group", faults).and_then(|item| server::read_account(&item, "group", faults));
    let env = table.item("env", faults).map(|item| read_env(&item, faults)).unwrap_or_default();
    let command = command.and_then(|item| read_command(&item, faults));
    let user = user.and_then(|item| server::read_account(&item, "user", faults));
    Some(Spawn { command: command?, processes: processes.unwrap_or(1), user: user?, group, env })
}

fn read_command(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<Vec<String>> {
    let texts = item.texts(COMMAND_EXPECTED, faults)?;
    let Some(path) = texts.first() else {
        item.report("\"command\" is empty", format!("expected {COMMAND_EXPECTED}"), faults);
        return None;
    };
    if !path.value.starts_with('/') {
        faults.report(path.at.clone(), format!("{} is not an absolute path", quoted(path.value)), "expected one: no shell looks for it");
        return None;
    }
    if let Some(text) = texts.iter().find(|text| text.value.contains('\0')) {
        faults.report(text.at.clone(), "an argument with NUL", "which no program can be told");
        return None;
    }
    Some(texts.iter().map(|text| text.value.to_owned()).collect())
}

fn read_env(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<(String, String)> {
    let mut list = Vec::new();
    for (name, value) in item.pairs("a table such as { PHP_FCGI_CHILDREN = \"8\" }", faults).unwrap_or_default() {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.value.is_empty() || name.value.starts_with(|first: char| first.is_ascii_digit()) || !name.value.bytes().all(fine) {
            faults.report(name.at, format!("{} is not the name of a variable", quoted(name.value)), "expected letters, digits and \"_\"");
        } else if value.value.contains('\0') {
            faults.report(value.at, "a variable with NUL", "which no program can be told");
        } else {
            list.push((name.value.to_owned(), value.value.to_owned()));
        }
    }
    list
}

const COMMAND_EXPECTED: &str = "a list of the program's path and its arguments, such as [\"/usr/bin/php-cgi\"]";

/// Each is a process of its own; php-cgi makes more by itself with `PHP_FCGI_CHILDREN`.
const PROCESSES: RangeInclusive<u32> = 1..=256;

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;

    const BACKEND: &str = "[backend.php]\ntype = \"fastcgi\"\naddress = [\"unix:/run/php.sock\"]\n[backend.php.spawn]\n";

    #[test]
    fn a_program_is_read_with_its_defaults() {
        let given = |rest: &str| with_a_site(&format!("{BACKEND}{rest}")).backends[0].spawn.clone();
        let spawn = given("command = [\"/usr/bin/php-cgi\"]\nuser = \"www-data\"");
        let expected =
            Spawn { command: vec!["/usr/bin/php-cgi".to_owned()], processes: 1, user: "www-data".to_owned(), group: None, env: Vec::new() };
        assert_eq!(spawn, Some(expected.clone()));
        let all = "command = [\"/usr/bin/php-cgi\", \"-q\"]\nprocesses = 4\nuser = \"www-data\"\ngroup = \"33\"\nenv = { A_1 = \"b\", PATH = \"\" }";
        let env = vec![("A_1".to_owned(), "b".to_owned()), ("PATH".to_owned(), String::new())];
        let command = ["/usr/bin/php-cgi", "-q"].map(str::to_owned).to_vec();
        assert_eq!(given(all), Some(Spawn { command, processes: 4, group: Some("33".to_owned()), env, ..expected }));
    }

    #[test]
    fn what_cannot_be_started_is_refused() {
        let good = "command = [\"/usr/bin/php-cgi\"]\nuser = \"www-data\"";
        for (rest, why) in [
            ("user = \"www-data\"", "4:1: nothing is to be started: there is no \"command\", expected command = [\"/usr/bin/php-cgi\"]"),
            (
                "command = [\"/a\"]",
                "4:1: the program would run as nobody in particular: there is no \"user\", expected user = \"www-data\"",
            ),
            ("command = []\nuser = \"www-data\"", "5:11: \"command\" is empty"),
            (
                "command = [\"php-cgi\"]\nuser = \"www-data\"",
                "5:12: \"php-cgi\" is not an absolute path, expected one: no shell looks for it",
            ),
            ("command = [\"/a\", \"b\\u0000\"]\nuser = \"www-data\"", "5:18: an argument with NUL"),
            (&format!("{good}\nprocesses = 0"), "7:13: \"processes\" in [backend.NAME.spawn] is 0, expected an integer from 1 to 256"),
            (&format!("{good}\nprocesses = 257"), "7:13: \"processes\" in [backend.NAME.spawn] is 257"),
            (&format!("{good}\nenv = {{ \"1A\" = \"\" }}"), "7:9: \"1A\" is not the name of a variable"),
            (&format!("{good}\nenv = {{ A = \"\\u0000\" }}"), "7:13: a variable with NUL"),
            (&format!("{good}\nproceses = 1"), "7:1: unknown key \"proceses\" in [backend.NAME.spawn], did you mean \"processes\"?"),
        ] {
            let said = told(&format!("{BACKEND}{rest}\n"));
            assert!(said.iter().any(|fault| fault.contains(why)), "{rest}: {said:#?}");
        }
    }

    #[test]
    fn its_socket_is_made_at_one_path() {
        for address in ["127.0.0.1:9000\"", "unix:/a\", \"unix:/b\""] {
            let text = BACKEND.replace("unix:/run/php.sock\"", address) + "command = [\"/a\"]\nuser = \"www-data\"\n";
            let said = told(&text);
            assert!(said.iter().any(|fault| fault.contains("needs one \"address\"")), "{said:#?}");
        }
    }
}
