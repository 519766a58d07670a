//! Where a setting stands that the system finds fault with, so that `anchorite check` can tell it as it tells the faults of the text: with
//! file, line, column and a caret. Run by that command only; reads the configuration's files again.

use super::danger::Shown;
use super::diagnostic::{Diagnostic, Diagnostics, Faults};
use super::document::{Item, Table, Text};
use super::include::real;
use super::{BackendAddress, Listen, auths, backends, cgi, jail, listen, names, paths, read, server, site, tls};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a fault of the system is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    User,
    Group,
    Listen(Listen),
    Log(PathBuf),
    ControlSocket,
    PidFile,
    Spool,
    /// A certificate, a key, or another file of TLS.
    Tls(PathBuf),
    /// That of an `[auth.NAME]`.
    Passwords(PathBuf),
    /// An address of a backend.
    Backend(BackendAddress),
    /// One that workers are shown.
    Directory(PathBuf),
    /// No setting alone.
    Whole,
}

/// The faults with their places, in the order of the files; before them those that have none: what they are about is a default, or no
/// one setting.
pub fn diagnose(file: &Path, found: &[(Setting, String)]) -> Diagnostics {
    let (placeless, Diagnostics { list, left_out }) = place(file, found);
    Diagnostics { list: placeless.into_iter().map(|message| without_place(file, message)).chain(list).collect(), left_out }
}

/// Only the faults that have a place: where the text itself has faults, what has none may be about a default that was not meant.
pub fn diagnose_placed(file: &Path, found: &[(Setting, String)]) -> Diagnostics {
    place(file, found).1
}

fn place<'f>(file: &Path, found: &'f [(Setting, String)]) -> (Vec<&'f String>, Diagnostics) {
    let mut placeless = Vec::new();
    let placed = read::look_at(file, |top, faults| {
        let places = Places::read(top, faults);
        faults.forget();
        for (setting, message) in found {
            match places.of(setting) {
                Some(at) => faults.report(at, message.clone(), ""),
                None => placeless.push(message),
            }
        }
    });
    match placed {
        Some(placed) => (placeless, placed),
        None => (found.iter().map(|(_, message)| message).collect(), Diagnostics { list: Vec::new(), left_out: 0 }),
    }
}

fn without_place(file: &Path, message: &str) -> Diagnostic {
    Diagnostic { file: file.to_owned(), place: None, message: message.to_owned(), help: String::new() }
}

/// Where each setting is given first.
struct Places {
    keys: HashMap<&'static str, Range<usize>>,
    listen: HashMap<Listen, Range<usize>>,
    logs: HashMap<PathBuf, Range<usize>>,
    tls: HashMap<PathBuf, Range<usize>>,
    passwords: HashMap<PathBuf, Range<usize>>,
    directories: HashMap<PathBuf, Range<usize>>,
    backends: HashMap<String, Range<usize>>,
}

impl Places {
    fn read(top: &Table<'_>, faults: &mut Faults<'_>) -> Places {
        let mut places = Places {
            keys: HashMap::new(),
            listen: HashMap::new(),
            logs: HashMap::new(),
            tls: HashMap::new(),
            passwords: HashMap::new(),
            directories: HashMap::new(),
            backends: HashMap::new(),
        };
        let mut shown = Shown::default();
        let service = top.table(&names::SERVER, faults);
        for key in ["user", "group", "control_socket", "pid_file", "spool"] {
            let item = service.as_ref().and_then(|table| table.item(key, faults));
            places.keys.extend(item.map(|item| (key, item.at)));
        }
        let log = top.table(&names::LOG, faults);
        for key in ["access", "error"] {
            places.log(log.as_ref().and_then(|table| table.item(key, faults)), faults);
        }
        places.addresses(service.as_ref(), faults);
        for (file, at) in tls::places(top, faults) {
            places.tls.entry(file).or_insert(at);
        }
        places.backends(top, faults);
        for (_, table) in top.named_tables(&names::AUTHS, &names::AUTH, faults) {
            let text = table.item("file", faults).and_then(|item| item.as_text());
            if let Some((file, text)) = text.and_then(|text| Some((paths::file(&text, faults)?, text))) {
                places.passwords.entry(file).or_insert(text.at);
            }
        }
        for table in top.tables(&names::SITE, faults) {
            places.addresses(Some(&table), faults);
            places.log(table.item("access_log", faults), faults);
        }
        let of_service = service.map_or_else(server::default, |table| server::read(&table, faults));
        let cgi = cgi::read(top, faults);
        let mut backends = backends::read(top, &mut shown, faults);
        backends.push(cgi::as_backend(&cgi));
        let auths = auths::read(top, faults);
        site::read(top, (&of_service, &tls::default().defaults), (&backends, &auths), &mut shown, faults);
        if let Some(table) = top.table(&names::JAIL, faults) {
            jail::read(&table, &mut shown, faults);
        }
        places.directories = shown.places().into_iter().map(|(path, at)| (path.to_owned(), at)).collect();
        // As they are told of once links are followed.
        for (path, at) in shown.places() {
            places.directories.entry(real(path)).or_insert(at);
        }
        places
    }

    fn backends(&mut self, top: &Table<'_>, faults: &mut Faults<'_>) {
        for (_, table) in top.named_tables(&names::BACKENDS, &names::BACKEND, faults) {
            let texts = table.item("address", faults).and_then(|item| item.text_or_texts("addresses", faults));
            for text in texts.unwrap_or_default() {
                let address = backends::read_address(&text, faults);
                self.backends.extend(address.map(|address| (address.to_string(), text.at)));
            }
        }
    }

    fn log(&mut self, item: Option<Item<'_>>, faults: &mut Faults<'_>) {
        if let Some(text) = item.and_then(|item| item.as_text()).filter(|text| !text.value.is_empty())
            && let Some(path) = paths::file(&text, faults)
        {
            self.logs.entry(path).or_insert(text.at);
        }
    }

    fn addresses(&mut self, table: Option<&Table<'_>>, faults: &mut Faults<'_>) {
        let item = table.and_then(|table| table.item("listen", faults));
        let texts: Vec<Text<'_>> = item.and_then(|item| item.texts(listen::EXPECTED, faults)).unwrap_or_default();
        for text in texts {
            if let Some(address) = listen::read_one(&text, faults) {
                self.listen.entry(address).or_insert(text.at);
            }
        }
    }

    fn of(&self, setting: &Setting) -> Option<Range<usize>> {
        let found = match setting {
            Setting::User => self.keys.get("user"),
            Setting::Group => self.keys.get("group"),
            Setting::ControlSocket => self.keys.get("control_socket"),
            Setting::PidFile => self.keys.get("pid_file"),
            Setting::Backend(address) => self.backends.get(&address.to_string()),
            Setting::Spool => self.keys.get("spool"),
            Setting::Listen(address) => self.listen.get(address),
            Setting::Tls(path) => self.tls.get(path),
            Setting::Passwords(path) => self.passwords.get(path),
            Setting::Log(path) => self.logs.get(path),
            Setting::Directory(path) => self.directories.get(path),
            Setting::Whole => None,
        };
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_found_where_it_is_given_and_a_default_has_no_place() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("a.toml");
        std::fs::write(
            &file,
            "include = [\"b.toml\"]\n[server]\nuser = \"u\"\ngroup = \"g\"\nspool = \"/s\"\nlisten = [\"[::1]:80\", \"127.0.0.1:80\"]\ncontrol_socket = \"/run/c\"\n\
             [log]\naccess = \"/l/a\"\nerror = \"stderr\"\n[jail]\nalso = [\"/also\"]\n[[site]]\nroot = \"/r/{{x\"\naccess_log = \"/l/s\"\n\
             [[site.rule]]\npath = \"/x/*\"\nalias = \"/x\"\n",
        )
        .unwrap();
        std::fs::write(base.path().join("b.toml"), "[[site]]\nname = \"*.b\"\nlisten = [\"unix:s\"]\nroot = \"/b/{1}\"\n").unwrap();
        let real = base.path().canonicalize().unwrap();
        let path = |path: &str| PathBuf::from(path);
        for (setting, place) in [
            (Setting::User, "a.toml:3:8:"),
            (Setting::Group, "a.toml:4:9:"),
            (Setting::Spool, "a.toml:5:9:"),
            (Setting::Listen(Listen::Tcp("127.0.0.1:80".parse().unwrap())), "a.toml:6:23:"),
            (Setting::Listen(Listen::Unix(real.join("s"))), "b.toml:3:11:"),
            (Setting::ControlSocket, "a.toml:7:18:"),
            (Setting::PidFile, "a.toml:"),
            (Setting::Log(path("/l/a")), "a.toml:9:10:"),
            (Setting::Log(path("/l/s")), "a.toml:15:14:"),
            (Setting::Log(path("/var/log/anchorite/error.log")), "a.toml:"),
            (Setting::Directory(path("/also")), "a.toml:12:9:"),
            (Setting::Directory(path("/r/{x")), "a.toml:14:8:"),
            (Setting::Directory(path("/x")), "a.toml:18:9:"),
            (Setting::Directory(path("/b")), "b.toml:4:8:"),
            (Setting::Whole, "a.toml:"),
        ] {
            let told = diagnose(&file, &[(setting.clone(), "what".to_owned())]).to_string();
            let first = told.lines().next().unwrap();
            assert!(first.ends_with(&format!("/{place} what")), "{setting:?}: {told}");
            assert_eq!(told.lines().count(), if place == "a.toml:" { 1 } else { 3 }, "{told}");
        }
        let both = [
            (Setting::Directory(path("/x")), "last".to_owned()),
            (Setting::Whole, "first".to_owned()),
            (Setting::User, "second".to_owned()),
        ];
        let told = diagnose(&file, &both);
        assert_eq!(told.list.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>(), ["first", "second", "last"]);
        assert!(diagnose(&file, &[]).list.is_empty());
    }

    #[test]
    fn where_the_file_is_gone_the_faults_are_told_without_a_place() {
        let told = diagnose(Path::new("/nonexistent/a.toml"), &[(Setting::User, "what".to_owned())]);
        assert_eq!(told.to_string(), "/nonexistent/a.toml: what");
    }
}
