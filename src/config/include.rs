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
    let top = Table::unchecked(&names::FILE, vec![Part { entries: document, shift: 0 }]);
    let patterns = top.item("include", faults).and_then(|item| item.texts(EXPECTED, faults)).unwrap_or_default();
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
        faults.report(item.key_at.clone(), "an included file cannot include others", "\"include\" belongs in the first file");
    }
}

/// The files that a pattern names: itself, or with `*`, `?` or `[` those that match.
fn files(pattern: &Text<'_>, main: &Source, faults: &mut Faults<'_>) -> Vec<PathBuf> {
    if pattern.value.is_empty() || pattern.value.contains('\0') {
        faults.report(pattern.at.clone(), format!("{} is not a path", quoted(pattern.value)), format!("expected {EXPECTED}"));
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
            faults.report(pattern.at.clone(), format!("{} is not a pattern: {}", quoted(pattern.value), error.msg), help);
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for entry in entries {
        match entry {
            Ok(file) => found.push(file),
            Err(error) => {
                let directory = quoted(&error.path().to_string_lossy());
                faults.report(pattern.at.clone(), format!("{directory} cannot be read: {}", plain(error.error())), "");
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
pub(super) fn real(file: &Path) -> PathBuf {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}

fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    // Opening a fifo would wait for its writer, and reading a device need not end.
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    OpenOptions::new().read(true).open(file)?.take(FILE_MAX + 1).read_to_end(&mut text)?;
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
const GLOB: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
const EXPECTED: &str = "a list of files and patterns, such as [\"conf.d/*.toml\"]";

#[cfg(test)]
mod tests {
    use super::super::{Config, load};
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A directory with these files; the first is the configuration.
    struct Files {
        directory: tempfile::TempDir,
        main: PathBuf,
    }

    impl Files {
        fn new(files: &[(&str, &str)]) -> Files {
            let directory = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let file = directory.path().join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            let main = directory.path().join(files[0].0);
            Files { directory, main }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join(name)
        }

        fn load(&self) -> Config {
            load(&self.main).unwrap_or_else(|faults| panic!("{faults}"))
        }

        /// What is said of each fault, names without the directory.
        fn told(&self) -> Vec<String> {
            let faults = load(&self.main).unwrap_err();
            let prefix = format!("{}/", self.directory.path().display());
            let first = |fault: &super::super::Diagnostic| fault.to_string().lines().next().unwrap_or("").replace(&prefix, "");
            faults.list.iter().map(first).collect()
        }
    }

    fn site(name: &str) -> String {
        format!("[[site]]\nname = \"{name}\"\nroot = \"www/{name}\"\n")
    }

    #[test]
    fn sites_append_in_the_order_of_patterns_and_names() {
        let files = Files::new(&[
            ("a.toml", &format!("include = [\"z/*.toml\", \"c/*/?.toml\", \"b.toml\", \"none/*\"]\n{}", site("main"))),
            ("z/10.toml", &site("z10")),
            ("z/2.toml", &format!("{}{}", site("z2"), site("z2b"))),
            ("z/.3.toml", "[nonsense"),
            ("z/4.toml~", "[nonsense"),
            ("c/d/1.toml", &site("c1")),
            ("b.toml", "[log]\nlevel = \"debug\"\n[[site]]\nname = \"b\"\nroot = \"../b\"\n  [[site.rule]]\n  respond = 404\n"),
        ]);
        let config = files.load();
        let names: Vec<&str> = config.sites.iter().map(|site| site.name[0].as_str()).collect();
        assert_eq!(names, ["main", "z10", "z2", "z2b", "c1", "b"]);
        assert_eq!(config.log.level, super::super::Level::Debug);
        assert_eq!(config.sites[0].root, files.path("www/main"));
        assert_eq!(config.sites[1].root, files.path("z/www/z10"));
        assert_eq!(config.sites[5].root, files.path("").parent().unwrap().join("b"));
        let place = &config.sites[5].rules[0].place;
        assert!(Path::new(&place.file).ends_with("b.toml") && place.line == 6, "{place:?}");
    }

    #[test]
    fn faults_point_into_their_file() {
        // 155: a clash of two files names both places.
        let files = Files::new(&[
            ("a.toml", &format!("include = [\"c/*\"]\n[server]\nworkers = 1\n{}", site("a"))),
            ("c/1.toml", "[server]\nuser = \"x\"\nworkers = 2\nlisen = 1\n"),
            ("c/2.toml", &format!("{}rot = 1\n", site("A"))),
            ("c/3.toml", "[log\n"),
            ("c/4.toml", "[log]\nlevel = \"info\"\nlevel = \"debug\"\n"),
            ("c/5.toml", "include = [\"x\"]\n"),
        ]);
        assert_eq!(
            files.told(),
            [
                "c/1.toml:3:1: \"workers\" is given twice, first given at a.toml:3:1",
                "c/1.toml:4:1: unknown key \"lisen\" in [server], did you mean \"listen\"?",
                "c/2.toml:2:8: \"a\" is already the name of a site, first given at a.toml:5:8",
                "c/2.toml:4:1: unknown key \"rot\" in [[site]], did you mean \"root\"?",
                "c/3.toml:1:5: unclosed table, expected \"]\"",
                "c/4.toml:3:1: \"level\" is given twice, first given at c/4.toml:2:1",
                "c/5.toml:1:1: an included file cannot include others, \"include\" belongs in the first file",
            ]
        );
    }

    #[test]
    fn what_cannot_be_included_is_told_at_the_pattern() {
        let files = Files::new(&[
            ("a.toml", &format!("include = [\"none.toml\", \"*.toml\", \"\", \"b.toml\", \"d\", \"[\", \"l/*\"]\n{}", site("a"))),
            ("b.toml", ""),
            ("c.toml", ""),
            ("d/x", ""),
            ("l/x", ""),
        ]);
        fs::write(files.path("c.toml"), b"# \xff").unwrap();
        fs::remove_file(files.path("l/x")).unwrap();
        std::os::unix::fs::symlink("gone", files.path("l/x")).unwrap();
        let expected = "expected a list of files and patterns, such as [\"conf.d/*.toml\"]";
        assert_eq!(
            files.told(),
            [
                "a.toml:1:12: \"none.toml\" cannot be read: no such file or directory".to_owned(),
                "a.toml:1:25: \"a.toml\" would include itself".to_owned(),
                "a.toml:1:25: \"c.toml\" is not UTF-8, expected TOML, which is UTF-8".to_owned(),
                format!("a.toml:1:35: \"\" is not a path, {expected}"),
                "a.toml:1:39: \"b.toml\" is included twice, first at a.toml:1:25".to_owned(),
                "a.toml:1:49: \"d\" cannot be read: not a regular file".to_owned(),
                format!("a.toml:1:54: \"[\" is not a pattern: invalid range pattern, {expected}"),
                "a.toml:1:59: \"l/x\" cannot be read: no such file or directory".to_owned(),
            ]
        );
        let files = Files::new(&[("a.toml", &format!("include = \"b\"\n{}", site("a")))]);
        assert_eq!(files.told(), [format!("a.toml:1:11: \"include\" in the file is a string, {expected}")]);
    }

    #[test]
    fn a_directory_that_holds_an_included_file_is_not_served() {
        let files = Files::new(&[("conf/a.toml", "include = [\"../www/b.toml\"]\n[[site]]\nroot = \"../www\"\n"), ("www/b.toml", "")]);
        let told = files.told();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("would be shown to the workers with the configuration"), "{told:?}");
    }

    #[test]
    fn two_thousand_sites_in_files_of_their_own_are_read_quickly() {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("a.toml");
        fs::write(&main, "include = [\"sites/*.toml\"]\n").unwrap();
        fs::create_dir(directory.path().join("sites")).unwrap();
        for number in 0..2_000 {
            let mut text = site(&format!("s{number}.example"));
            for rule in 0..10 {
                text.push_str(&format!(
                    "[[site.rule]]\npath = \"/r{rule}/*\"\nregex = \"^/r{rule}/([a-z]+)\"\nheader = {{ X-A = \"{{1}}\" }}\nalias = \"/srv/{number}/{rule}\"\n"
                ));
            }
            fs::write(directory.path().join(format!("sites/{number}.toml")), text).unwrap();
        }
        let start = std::time::Instant::now();
        let config = load(&main).unwrap();
        let took = start.elapsed();
        assert_eq!((config.sites.len(), config.sites[1_999].rules.len()), (2_000, 10));
        // Far beyond what it takes unoptimised on a busy machine, far below what anything quadratic would take.
        assert!(took < std::time::Duration::from_secs(20), "{took:?}");
        println!("{took:?}");
    }
}
