//! The configuration's files: the one that is named and those that its `include` names. Run by the parent, before it serves, and by the
//! commands; reads these files and the directories that a pattern has to look through, and nothing else.

use super::diagnostic::{Faults, quoted};
use super::document::{Part, Table, Text};
use super::names;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// A file of the configuration.
pub(super) struct Source {
    /// As messages name it.
    pub(super) file: PathBuf,
    /// Where its relative paths start: absolute, links resolved.
    pub(super) directory: PathBuf,
    pub(super) text: String,
}

/// Why there is no [`Source`].
pub(super) enum Unreadable {
    NoFile(String),
    /// Not UTF-8: the text with replacements, and a report.
    NoText(Source, (Range<usize>, &'static str, &'static str)),
}

impl Source {
    pub(super) fn read(file: PathBuf) -> Result<Source, Unreadable> {
        let text = read_bounded(&file).map_err(|error| Unreadable::NoFile(format!("cannot be read: {}", plain(&error))))?;
        // Links are followed here, so that a ".." in the file is the parent of the directory where the file is, as the kernel sees it.
        let directory = std::fs::canonicalize(parent(&file))
            .map_err(|error| Unreadable::NoFile(format!("directory cannot be read: {}", plain(&error))))?;
        match String::from_utf8(text) {
            Ok(text) => Ok(Source { file, directory, text }),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let offset = error.utf8_error().valid_up_to();
                let at = offset..offset + char::REPLACEMENT_CHARACTER.len_utf8();
                let fault = (at, "not UTF-8", "expected TOML, which is UTF-8");
                Err(Unreadable::NoText(Source { file, directory, text }, fault))
            }
        }
    }

    /// Where the file is: as it is named, and where that leads if it is a link.
    pub(super) fn paths(&self) -> [PathBuf; 2] {
        let named = self.file.file_name().map_or_else(PathBuf::new, |name| self.directory.join(name));
        [named, real(&self.file)]
    }
}

/// The files that the document of `main` includes, in the order of its patterns and for each in the order of names. What cannot be read is
/// reported.
pub(super) fn read(document: &DeTable<'_>, main: &Source, faults: &mut Faults<'_>) -> Vec<Source> {
    let top = Table::unchecked(
        &names::FILE,
        vec![Part {
            entries: document,
            shift: 0,
        }],
    );
    let patterns = top
        .item("include", faults)
        .and_then(|item| item.texts(EXPECTED, faults))
        .unwrap_or_default();
    let mut taken: HashMap<PathBuf, Option<usize>> = HashMap::new();
    taken.insert(real(&main.file), None);
    let (mut sources, mut room) = (Vec::new(), TOTAL_MAX.saturating_sub(main.text.len()));
    for pattern in &patterns {
        for file in files(pattern, main, faults) {
            if let Some(first) = taken.get(&real(&file)) {
                let (what, help) = match first {
                    None => ("would include itself", String::new()),
                    Some(first) => ("is included twice", format!("first at {}", faults.place_name(*first))),
                };
                faults.report(pattern.at.clone(), format!("{} {what}", quoted(&file.to_string_lossy())), help);
                continue;
            }
            taken.insert(real(&file), Some(pattern.at.start));
            match Source::read(file.clone()) {
                Ok(source) if source.text.len() <= room => {
                    room -= source.text.len();
                    sources.push(source);
                }
                Ok(_) => {
                    faults.report(pattern.at.clone(), "the files together are larger than 64 MiB", "");
                    return sources;
                }
                Err(Unreadable::NoFile(why)) => {
                    faults.report(pattern.at.clone(), format!("{} {why}", quoted(&file.to_string_lossy())), "");
                }
                Err(Unreadable::NoText(_, (_, what, help))) => {
                    faults.report(pattern.at.clone(), format!("{} is {what}", quoted(&file.to_string_lossy())), help);
                }
            }
        }
    }
    sources
}

/// An included file includes no others: what a configuration is made of is seen in one place, and nothing goes in circles.
pub(super) fn refuse_nested(top: &Table<'_>, faults: &mut Faults<'_>) {
    for item in top.items("include").iter().filter(|item| item.is_of_included_file()) {
        faults.report(
            item.key_at.clone(),
            "an included file cannot include others",
            "\"include\" belongs in the first file",
        );
    }
}

/// The files that a pattern names: itself, or with `*`, `?` or `[` those that match.
fn files(pattern: &Text<'_>, main: &Source, faults: &mut Faults<'_>) -> Vec<PathBuf> {
    if pattern.value.is_empty() || pattern.value.contains('\0') {
        faults.report(
            pattern.at.clone(),
            format!("{} is not a path", quoted(pattern.value)),
            format!("expected {EXPECTED}"),
        );
        return Vec::new();
    }
    let base = parent(&main.file);
    if !pattern.value.contains(['*', '?', '[']) {
        return vec![plainly(base).join(pattern.value)];
    }
    let whole = if pattern.value.starts_with('/') {
        pattern.value.to_owned()
    } else {
        format!("{}/{}", glob::Pattern::escape(&base.to_string_lossy()), pattern.value)
    };
    let entries = match glob::glob_with(&whole, GLOB) {
        Ok(entries) => entries,
        Err(error) => {
            let help = format!("expected {EXPECTED}");
            faults.report(
                pattern.at.clone(),
                format!("{} is not a pattern: {}", quoted(pattern.value), error.msg),
                help,
            );
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for entry in entries {
        match entry {
            Ok(file) => found.push(file),
            Err(error) => {
                let directory = quoted(&error.path().to_string_lossy());
                faults.report(
                    pattern.at.clone(),
                    format!("{directory} cannot be read: {}", plain(error.error())),
                    "",
                );
            }
        }
    }
    found.sort();
    found
}

/// The directory that the file is in.
pub(super) fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        Some(_) | None => Path::new("."),
    }
}

/// `.` is not shown before a name.
fn plainly(directory: &Path) -> &Path {
    if directory == Path::new(".") { Path::new("") } else { directory }
}

/// What tells two names of one file; a file that does not exist has only its name.
fn real(file: &Path) -> PathBuf {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}

fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    // Opening a fifo would wait for its writer, and reading a device need not end.
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    OpenOptions::new()
        .read(true)
        .open(file)?
        .take(FILE_MAX + 1)
        .read_to_end(&mut text)?;
    match u64::try_from(text.len()) {
        Ok(length) if length <= FILE_MAX => Ok(text),
        Ok(_) | Err(_) => Err(io::Error::other("larger than 16 MiB")),
    }
}

/// The system's words without its number, beginning in lower case as all our messages do.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let mut words = text.split(" (os error").next().unwrap_or("").chars();
    let first = words.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(words).collect()
}

/// Bytes of a configuration file: thousands of sites, yet nothing that could fill the memory.
const FILE_MAX: u64 = 16 << 20;
/// Bytes of all files together.
const TOTAL_MAX: usize = 64 << 20;
/// As a shell does it: a `*` matches no name that begins with a dot, such as an editor's, and no `/`.
const GLOB: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};
const EXPECTED: &str = "a list of files and patterns, such as [\"conf.d/*.toml\"]";
