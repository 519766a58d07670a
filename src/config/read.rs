//! The configuration file read as a whole: every fault is found in one pass. Run by the parent, before it serves, and by the commands.
//!
//! The one file here that does I/O: it reads the configuration file, and nothing else. Users, directories and
//! addresses are only checked for what their text can tell; that they exist is found out where they are used.

use super::diagnostic::{Diagnostics, Faults};
use super::document::{self, Table};
use super::{Config, Level, Log, LogFormat, LogTarget, Server, paths};
use super::{jail, limits, log, names, server, site};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The configuration in `file`, or everything that is wrong with it. Relative paths start at the file's directory.
pub fn load(file: &Path) -> Result<Config, Diagnostics> {
    let text = read_bounded(file).map_err(|error| Diagnostics::of_file(file, format!("cannot be read: {}", plain(&error)), ""))?;
    // Links are followed here, so that a ".." in the file is the parent of the directory where the file is, as the kernel sees it.
    let directory = std::fs::canonicalize(parent(file))
        .map_err(|error| Diagnostics::of_file(file, format!("directory cannot be read: {}", plain(&error)), ""))?;
    match String::from_utf8(text) {
        Ok(text) => parse_in(&text, file, &directory),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let offset = error.utf8_error().valid_up_to();
            let mut faults = Faults::new(file, &text);
            faults.report(
                offset..offset + char::REPLACEMENT_CHARACTER.len_utf8(),
                "not UTF-8",
                "expected TOML, which is UTF-8",
            );
            Err(faults.into_diagnostics())
        }
    }
}

/// The configuration that `text` is, as if it stood in `file`.
pub fn parse(text: &str, file: &Path) -> Result<Config, Diagnostics> {
    parse_in(text, file, &paths::absolute(parent(file)))
}

/// The configuration of `anchorite serve`: one directory, listed, for every name; everything told on stderr.
pub fn serve(directory: PathBuf, listen: SocketAddr) -> Config {
    let mut site = site::with_defaults(directory);
    site.listing = true;
    let server = Server {
        user: None,
        group: None,
        listen: vec![listen],
        ..server::default()
    };
    let log = Log {
        access: LogTarget::Stderr,
        error: LogTarget::Stderr,
        format: LogFormat::Combined,
        level: Level::Notice,
    };
    Config {
        server,
        jail: jail::default(),
        log,
        limits: limits::default(),
        sites: vec![site],
    }
}

fn parse_in(text: &str, file: &Path, base: &Path) -> Result<Config, Diagnostics> {
    let mut faults = Faults::new(file, text);
    let document = document::parse(text, &mut faults);
    let top = Table::top(&document, &mut faults);
    let server = top
        .table(&names::SERVER, &mut faults)
        .map_or_else(server::default, |table| server::read(&table, &mut faults));
    let log = top
        .table(&names::LOG, &mut faults)
        .map_or_else(log::default, |table| log::read(&table, base, &mut faults));
    let limits = top
        .table(&names::LIMITS, &mut faults)
        .map_or_else(limits::default, |table| limits::read(&table, &mut faults));
    let sites = site::read(&top, base, &mut faults);
    let jail = top
        .table(&names::JAIL, &mut faults)
        .map_or_else(jail::default, |table| jail::read(&table, base, &sites, &mut faults));
    let sites = sites.into_iter().map(|read| read.site).collect();
    faults.finish(Config {
        server,
        jail,
        log,
        limits,
        sites,
    })
}

/// The directory that the file is in.
fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        Some(_) | None => Path::new("."),
    }
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

/// What is said about a file of this text: `LINE:COLUMN: what, help` for each fault.
#[cfg(test)]
pub(super) fn told(text: &str) -> Vec<String> {
    let Err(diagnostics) = parse(text, Path::new("/etc/anchorite/anchorite.toml")) else {
        return Vec::new();
    };
    let show = |fault: &super::Diagnostic| {
        let shown = fault.to_string();
        let first = shown.lines().next().unwrap_or("");
        first.strip_prefix("/etc/anchorite/anchorite.toml:").unwrap_or(first).to_owned()
    };
    diagnostics.list.iter().map(show).collect()
}

/// The configuration that this text is, with a site added.
#[cfg(test)]
pub(super) fn with_a_site(text: &str) -> Config {
    match parse(
        &format!("{text}\n[[site]]\nroot = \"/srv/www\"\n"),
        Path::new("/etc/anchorite/anchorite.toml"),
    ) {
        Ok(config) => config,
        Err(diagnostics) => panic!("{diagnostics}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::{Site, known_keys};

    /// Every key, each with a value that is not the default.
    const WHOLE: &str = r##"# é
[server]
user = "www-data"
group = "www-data"
workers = 2
listen = ["[::]:80", "127.0.0.1:8080"]
server_header = "x"

[jail]
mode = "chroot"
root = "/srv"
also = ["/srv/lib"]
allow_missing = ["landlock"]

[log]
access = "stderr"
error = "stderr"
level = "info"
format = "combined"

[limits]
connections = 20
request_line = "4KiB"
header_bytes = "16KiB"
header_count = 50
header_timeout = "5s"
write_timeout = "30s"
keepalive_timeout = "1m"
keepalive_requests = 100
drain_timeout = "1h"

[[site]]
name = ["example.org", "*.example.org"]
root = "/srv/www"
index = ["index.htm"]
listing = true
hidden = [".*", "#*#"]
symlinks = "inside"
charset = "iso-8859-1"
access_log = "off"
"##;

    #[test]
    fn the_whole_is_read() {
        assert_eq!(told(&WHOLE.replace("\"[::]:80\"", "\"[::1]:80\"")), [""; 0]);
        for (_, key) in known_keys() {
            assert!(WHOLE.contains(&format!("\n{key} = ")), "{key}");
        }
    }

    #[test]
    fn every_key_that_is_known_is_read() {
        for (table, key) in known_keys() {
            let header = if table == "site" {
                "[[site]]".to_owned()
            } else {
                format!("[{table}]")
            };
            let said = told(&format!("{header}\n{key} = 1979-05-27\n"));
            let expected = format!("2:{}: \"{key}\" in {header} is a date or time, expected ", key.len() + 4);
            // `root` of [jail] is told that it has no business there.
            let misplaced = (table, key) == ("jail", "root");
            assert!(
                misplaced || said.iter().any(|said| said.starts_with(&expected)),
                "{table}.{key}: {said:?}"
            );
        }
    }

    #[test]
    fn all_faults_are_told_at_once_in_the_order_of_the_file() {
        let text = "[server]\nlisen = [\"[::]:80\"]\nworkers = \"two\"\nuser = \"root\n\n[limits]\nheader_count = 257\n\
                    [[site]]\nroot = \"/\"\ntls = \"auto\"\n[sites]\n";
        assert_eq!(
            told(text),
            [
                "2:1: unknown key \"lisen\" in [server], did you mean \"listen\"?",
                "3:11: \"workers\" in [server] is a string, expected an integer from 0 to 1024",
                "4:13: invalid basic string, expected \"\"\"",
                "7:16: \"header_count\" in [limits] is 257, expected an integer from 1 to 256",
                "9:8: \"/\" is the whole file system, expected a directory beneath \"/\"",
                "10:1: \"tls\" is not supported by this version",
                "11:2: unknown name \"sites\", did you mean \"site\"?",
            ]
        );
    }

    #[test]
    fn what_a_later_version_has_is_refused_at_its_place() {
        assert_eq!(
            told("include = []\n[[site]]\nroot = \"/a\"\n"),
            ["1:1: \"include\" is not supported by this version"]
        );
        let text = "[[site]]\nroot = \"/a\"\n  [[site.rule]]\n  path = \"*.php\"\n[backend.php]\ntype = \"fastcgi\"\n\
                    [server]\ntls_listen = []\n";
        assert_eq!(
            told(text),
            [
                "3:10: \"rule\" is not supported by this version",
                "5:2: \"backend\" is not supported by this version",
                "8:1: \"tls_listen\" is not supported by this version",
            ]
        );
    }

    #[test]
    fn a_key_given_twice_is_told_with_both_places() {
        let file = "/etc/anchorite/anchorite.toml";
        let text = "[server]\nworkers = 1\n\"workers\" = 2\n[[site]]\nroot = \"/a\"\n[server]\nuser = \"x\"\n\
                    [[site]]\nname = \"b\"\nroot = \"/a\"\nroot = \"/b\"\n";
        assert_eq!(
            told(text),
            [
                format!("3:1: \"workers\" is given twice, first given at {file}:2:1"),
                format!("6:2: \"server\" is given twice, first given at {file}:1:1"),
                format!("11:1: \"root\" is given twice, first given at {file}:10:1"),
            ]
        );
    }

    #[test]
    fn a_table_of_the_wrong_kind_is_told() {
        assert_eq!(
            told("[[server]]\n[[site]]\nroot = \"/a\"\n"),
            ["1:3: \"server\" is a list, expected a table, [server]"]
        );
        assert_eq!(
            told("jail = \"none\"\n[[site]]\nroot = \"/a\"\n"),
            ["1:1: \"jail\" is a string, expected a table, [jail]"]
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_without_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("anchorite.toml");
        let told = |file: &Path| load(file).unwrap_err().to_string();
        assert_eq!(
            told(&file),
            format!("{}: cannot be read: no such file or directory", file.display())
        );
        assert_eq!(
            told(directory.path()),
            format!("{}: cannot be read: not a regular file", directory.path().display())
        );
        std::fs::File::create(&file).unwrap().set_len(FILE_MAX + 1).unwrap();
        assert_eq!(told(&file), format!("{}: cannot be read: larger than 16 MiB", file.display()));
        std::fs::write(&file, b"# \xc3\xa9\n# \xff\n").unwrap();
        let expected = format!(
            "{}:2:3: not UTF-8, expected TOML, which is UTF-8\n  2 | # \u{fffd}\n    |   ^",
            file.display()
        );
        assert_eq!(told(&file), expected);
    }

    #[test]
    fn relative_paths_start_where_the_file_really_is() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("a/conf")).unwrap();
        std::fs::write(real.join("a/conf/anchorite.toml"), "[[site]]\nroot = \"../www\"\n").unwrap();
        std::os::unix::fs::symlink(real.join("a/conf"), real.join("link")).unwrap();
        let config = load(&real.join("link/anchorite.toml")).unwrap();
        assert_eq!(config.sites[0].root, real.join("a/www"));
    }

    #[test]
    fn a_file_without_a_directory_is_in_the_current_one() {
        let config = parse("[[site]]\nroot = \"www\"\n", Path::new("anchorite.toml")).unwrap();
        assert_eq!(config.sites[0].root, std::env::current_dir().unwrap().join("www"));
    }

    #[test]
    fn serve_lists_one_directory_for_every_name() {
        let address = "127.0.0.1:8080".parse().unwrap();
        let config = serve(PathBuf::from("/srv/www"), address);
        let expected = with_a_site("[server]\nlisten = [\"127.0.0.1:8080\"]\n[log]\naccess = \"stderr\"\nerror = \"stderr\"");
        let site = Site {
            listing: true,
            ..expected.sites[0].clone()
        };
        let server = Server {
            user: None,
            group: None,
            ..expected.server.clone()
        };
        assert_eq!(
            config,
            Config {
                sites: vec![site],
                server,
                ..expected
            }
        );
    }

    /// The same numbers each time: xorshift.
    fn random(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        usize::try_from(*state >> 33).unwrap()
    }

    /// The file with a few pieces cut, inserted, replaced or doubled.
    fn damaged(state: &mut u64) -> String {
        let pieces = "[ ] [[site]]\n \" \"\"\" ' \n \r = . # \\u0000 \0 { } , 9 - é \u{feff} 1979-05-27";
        let pieces: Vec<&str> = pieces.split(' ').collect();
        let mut bytes = WHOLE.as_bytes().to_vec();
        for _ in 0..=random(state) % 4 {
            let at = random(state) % bytes.len();
            let end = (at + random(state) % 12).min(bytes.len());
            let piece = pieces[random(state) % pieces.len()].bytes();
            match random(state) % 4 {
                0 => bytes.truncate(at.max(1)),
                1 => drop(bytes.splice(at..end, piece)),
                2 => drop(bytes.splice(at..at, piece)),
                _ => {
                    let copy = bytes[at..end].to_vec();
                    drop(bytes.splice(at..at, copy));
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn a_damaged_file_never_panics_and_every_place_is_in_it() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..3_000 {
            let text = damaged(&mut state);
            let Err(diagnostics) = parse(&text, Path::new("/f")) else {
                continue;
            };
            assert!(!diagnostics.list.is_empty(), "{text:?}");
            assert!(!diagnostics.to_string().contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
            for fault in &diagnostics.list {
                let place = fault.place.as_ref().unwrap();
                let line = text
                    .split('\n')
                    .nth(place.line - 1)
                    .unwrap_or_else(|| panic!("{fault} in {text:?}"));
                assert!((1..=line.chars().count() + 1).contains(&place.column), "{fault} in {text:?}");
            }
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        let text = format!("[[site]]\nroot = \"/a\"\nindex = {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!told(&text).is_empty());
        let text = format!("{} = 1\n", ["a"; 50_000].join("."));
        assert!(!told(&text).is_empty());
    }
}
