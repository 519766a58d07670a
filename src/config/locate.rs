//! Where the control socket of a service is, even when its configuration has faults by now: the service that runs was started
//! with an earlier one. Run by the commands; reads the configuration's files.

use super::diagnostic::Faults;
use super::document;
use super::include::{self, Source, Unreadable};
use super::server;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// The control socket that `file`, or a file that it includes, names; else the default. `None`: `""`, there is none.
///
/// # Errors
/// Why the file cannot be read: it may be that of another service than the one at the default.
pub fn control_socket(file: &Path) -> Result<Option<PathBuf>, String> {
    let main = match Source::read(file.to_owned()) {
        Ok(main) | Err(Unreadable::NoText(main, _)) => main,
        Err(Unreadable::NoFile(why)) => return Err(why),
    };
    let mut faults = Faults::new(&main.file, &main.directory, &main.text);
    let document = document::parse(&main.text, 0, &mut faults);
    let included = include::read(&document, &main, &mut faults);
    let named = named(&document, &main).or_else(|| {
        included.iter().find_map(|source| {
            let (document, _) = DeTable::parse_recoverable(&source.text);
            self::named(document.get_ref(), source)
        })
    });
    Ok(named.unwrap_or_else(|| server::default().control_socket))
}

/// What a document says, if it says anything.
fn named(document: &DeTable<'_>, source: &Source) -> Option<Option<PathBuf>> {
    let server = document.get("server")?.get_ref().as_table()?;
    let text = server.get("control_socket")?.get_ref().as_str()?;
    Some((!text.is_empty()).then(|| source.directory.join(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(text: &str) -> Option<PathBuf> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("anchorite.toml");
        std::fs::write(&file, text).unwrap();
        std::fs::write(directory.path().join("more.toml"), "[server]\ncontrol_socket = \"/run/more\"\n").unwrap();
        control_socket(&file)
            .unwrap()
            .map(|path| path.strip_prefix(directory.path().canonicalize().unwrap()).map_or(path.clone(), Path::to_owned))
    }

    #[test]
    fn it_is_found_in_a_file_with_faults_and_in_one_that_is_included() {
        for (text, expected) in [
            ("[server]\ncontrol_socket = \"/run/x\"\n", Some("/run/x")),
            ("[server]\ncontrol_socket = \"x\"\n", Some("x")),
            ("[server]\nlisen = 1\ncontrol_socket = \"/run/x\"\n[[site]\n= =\n", Some("/run/x")),
            ("[server]\ncontrol_socket = \"\"\n", None),
            ("[server]\ncontrol_socket = 1\n", Some("/run/anchorite/control.sock")),
            ("", Some("/run/anchorite/control.sock")),
            ("include = [\"more.toml\"]\n", Some("/run/more")),
        ] {
            assert_eq!(located(text), expected.map(PathBuf::from), "{text}");
        }
        assert!(control_socket(Path::new("/nonexistent/x")).unwrap_err().contains("no such file"));
    }
}
