//! The configuration file read as a whole: every fault is found in one pass. Run by the parent, before it serves, and by the commands.
//!
//! Only this file, `include` and `danger` do I/O: they read the configuration's files and follow links, and nothing else. Users, directories
//! and addresses are only checked for what their text can tell; that they exist is found out where they are used.

use super::danger::Shown;
use super::diagnostic::{Diagnostics, Faults};
use super::document::{self, Part, Table};
use super::include::Source;
use super::{Config, Listen, Log, LogTarget, Rule, Server};
use super::{auths, backends, cgi, danger, include, jail, limits, log, mime, names, paths, server, site, tls};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// What can be read of a file that has faults, with defaults for the rest: to try whether what it names is there. Nothing that it names is
/// looked at here. `None`: the file itself cannot be read.
pub fn readable(file: &Path) -> Option<Config> {
    let main = Source::read(file.to_owned()).ok()?;
    let mut config = None;
    // Its faults have been told, or will be.
    let _told = with_parts(&main, |parts, files, faults| config = Some(read_top(parts, files, faults).0));
    config
}

/// The configuration that `text` is, as if it stood in `file`; the files that it includes are read.
pub fn parse(text: &str, file: &Path) -> Result<Config, Diagnostics> {
    read(&Source { file: file.to_owned(), directory: paths::absolute(include::parent(file)), text: text.to_owned() })
}

/// The configuration of `anchorite serve`: one directory, listed, for every name; everything told on stderr.
pub fn serve(directory: PathBuf, listen: SocketAddr) -> Config {
    let mut site = site::with_defaults(directory);
    site.listing = true;
    let server =
        Server { user: None, group: None, listen: vec![Listen::Tcp(listen)], control_socket: None, pid_file: None, ..server::default() };
    let log = Log { access: LogTarget::Stderr, error: LogTarget::Stderr, ..log::default() };
    Config {
        server,
        jail: jail::default(),
        log,
        mime: Vec::new(),
        limits: limits::default(),
        tls: tls::default(),
        backends: Vec::new(),
        cgi: cgi::default(),
        auths: Vec::new(),
        sites: vec![site],
        secrets: Vec::new(),
    }
}

pub(super) fn read(main: &Source) -> Result<Config, Diagnostics> {
    with_parts(main, |parts, files, faults| {
        let (config, shown) = read_top(parts, files, faults);
        danger::check(&config, &shown, faults);
        config
    })
}

/// Has the document of a file, with those that it includes, looked at; everything that is reported meanwhile. `None`: it cannot be read.
pub(super) fn look_at(file: &Path, look: impl FnOnce(&Table<'_>, &mut Faults<'_>)) -> Option<Diagnostics> {
    let main = Source::read(file.to_owned()).ok()?;
    let looked = with_parts(&main, |parts, _, faults| look(&Table::top(parts, faults), faults));
    Some(looked.err().unwrap_or(Diagnostics { list: Vec::new(), left_out: 0 }))
}

/// Parses a file and those that it includes, and has something made of them.
fn with_parts<T>(main: &Source, take: impl FnOnce(Vec<Part<'_>>, Vec<PathBuf>, &mut Faults<'_>) -> T) -> Result<T, Diagnostics> {
    let mut faults = Faults::new(&main.file, &main.directory, &main.text);
    let document = document::parse(&main.text, 0, &mut faults);
    let included = include::read(&document, main, &mut faults);
    let mut parts = vec![Part { entries: &document, shift: 0 }];
    // Read to the end before anything is borrowed from it.
    let documents: Vec<(usize, DeTable<'_>)> = included
        .iter()
        .map(|source| {
            let shift = faults.add(&source.file, &source.directory, &source.text);
            (shift, document::parse(&source.text, shift, &mut faults))
        })
        .collect();
    parts.extend(documents.iter().map(|(shift, entries)| Part { entries, shift: *shift }));
    let files = std::iter::once(main).chain(&included).flat_map(Source::paths).collect();
    let taken = take(parts, files, &mut faults);
    faults.finish(taken)
}

fn read_top(parts: Vec<Part<'_>>, files: Vec<PathBuf>, faults: &mut Faults<'_>) -> (Config, Shown) {
    let top = Table::top(parts, faults);
    include::refuse_nested(&top, faults);
    let server = top.table(&names::SERVER, faults).map_or_else(server::default, |table| server::read(&table, faults));
    let log = top.table(&names::LOG, faults).map_or_else(log::default, |table| log::read(&table, faults));
    let mime = mime::read(&top, faults);
    let limits = top.table(&names::LIMITS, faults).map_or_else(limits::default, |table| limits::read(&table, faults));
    let tls = top.table(&names::TLS, faults).map_or_else(tls::default, |table| tls::read(&table, faults));
    let mut shown = Shown::default();
    let cgi = cgi::read(&top, faults);
    let mut backends = backends::read(&top, &mut shown, faults);
    backends.push(cgi::as_backend(&cgi));
    let auths = auths::read(&top, faults);
    let sites = site::read(&top, (&server, &tls.defaults), (&backends, &auths), &mut shown, faults);
    let jail = top.table(&names::JAIL, faults).map_or_else(jail::default, |table| jail::read(&table, &mut shown, faults));
    if !sites.iter().flat_map(|site| &site.rules).any(Rule::runs_programs) {
        backends.pop();
    }
    let mut config = Config { server, jail, log, mime, limits, tls, backends, cgi, auths, sites, secrets: Vec::new() };
    config.secrets = danger::secrets(&config, files);
    (config, shown)
}

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
    match parse(&format!("{text}\n[[site]]\nroot = \"/srv/www\"\n"), Path::new("/etc/anchorite/anchorite.toml")) {
        Ok(config) => config,
        Err(diagnostics) => panic!("{diagnostics}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::load;
    use super::*;

    use super::super::{Site, dump, known_keys};

    /// Every key, each with a value that is not the default.
    pub(in crate::config) const WHOLE: &str = r##"# é
[server]
user = "www-data"
group = "www-data"
workers = 2
listen = ["[::]:80", "127.0.0.1:8080"]
tls_listen = ["[::]:443", "127.0.0.1:8443"]
spool = "/srv/spool"
spool_max = "2GiB"
server_header = "x"
http2_cleartext = true
proxy_protocol_from = ["10.0.0.0/8"]
trusted_proxies = ["10.0.0.1", "::1"]
control_socket = "/run/c"
pid_file = "p"

[jail]
mode = "chroot"
root = "/srv"
also = ["/srv/lib"]
allow_missing = ["landlock"]

[log]
access = "stderr"
error = "stderr"
level = "info"
format = "json"

[mime]
"application/x" = ["x"]

[limits]
connections = 20
connections_per_client = 21
request_line = "4KiB"
header_bytes = "16KiB"
header_count = 50
body = "1MiB"
header_timeout = "5s"
body_timeout = "20s"
min_rate = "1KiB/s"
write_timeout = "30s"
keepalive_timeout = "1m"
keepalive_requests = 100
drain_timeout = "1h"
requests = "20/s burst 40"

[tls]
min_version = "1.3"
key_isolation = false
session_tickets = false
ticket_keys = "/etc/anchorite/tickets"
client_ca = "/etc/ssl/ca.pem"
client_auth = "optional"

[backend.php]
type = "fastcgi"
group = "www-data"
address = ["unix:/run/php.sock", "127.0.0.1:9000"]
balance = "round-robin"
script_root = "/www"
sendfile = "/srv/private"
connect_timeout = "1s"
read_timeout = "30s"
max_connections = 10
keep = 2
keep_idle = "2s"
queue = 8
buffer = "64KiB"
env = { PHP_VALUE = "x" }

[backend.own]
type = "fastcgi"
address = "unix:/run/own.sock"

[backend.own.spawn]
command = ["/usr/bin/php-cgi"]
processes = 2
user = "www-data"
group = "www-data"
env = { PHP_FCGI_MAX_REQUESTS = "500" }

[cgi]
user = "www-data"
group = "www-data"
min_uid = 500
max_programs = 2
queue = 3
read_timeout = "4s"
run_timeout = "5m"
buffer = "6KiB"
env = { TZ = "UTC" }
cpu_time = "7s"
memory = "8MiB"
file_size = "9MiB"
max_processes = 10

[auth.staff]
type = "basic"
realm = "Staff only"
file = "/etc/anchorite/staff.passwd"

[[site]]
name = ["example.org", "*.example.org"]
root = "/srv/www"
index = ["index.htm"]
listing = true
hidden = [".*", "#*#"]
symlinks = "inside"
charset = "iso-8859-1"
compress = ["br"]
https_redirect = true
listen = ["unix:/run/x.sock"]
tls_listen = ["127.0.0.1:9443"]
http2 = false
hsts = "365d"
access_log = "syslog"
error_pages = { 404 = "/404.html" }

[[site.tls]]
certificate = "/etc/ssl/a.pem"
key = "/etc/ssl/private/a.key"
min_version = "1.2"
key_isolation = true
client_ca = "/etc/ssl/other.pem"
client_auth = "required"

[[site.tls]]
certificate = "rsa.pem"
key = "rsa.key"

[[site.rule]]
path = ["/a/*", "*.b/*"]
method = "GET"
client = ["10.0.0.0/8", "::1"]
host = "*.example.org"
request_header = { User-Agent = "*bot*" }
exists = "none"
header = { X-A = "{1}", B = "" }
expires = "30d"
allow = "127.0.0.1"
deny = ["0.0.0.0/0"]
auth = "staff"
body = "1GiB"
requests = "5/m"
listing = false
index = ["a", "b"]
compress = []
cache = "10s"
rate = "1MiB/s"
redirect = "/b/{1}?{query}"
status = 301

[[site.rule]]
regex = "^/a/([a-z]+)$"
root = "/srv/x/{1}"
[[site.rule]]
path = "/y/*"
alias = "/srv/y"
[[site.rule]]
rewrite = "/z{path}?a={host}"
[[site.rule]]
try = ["{path}", "{path}/", "/i"]
[[site.rule]]
respond = 404
respond_body = "no {{ {path}"
[[site.rule]]
respond = "health"
[[site.rule]]
path = "/p/*.php"
backend = "php"
alias = "/srv/y"
check = true
[[site.rule]]
path = "/q/*"
cgi = "/srv/q"
[[site.rule]]
path = "*.cgi"
root = "/srv/r"
cgi = true
"##;

    #[test]
    fn a_header_that_is_not_closed_is_one_fault() {
        assert_eq!(told("[server\nworkers = 1\n[[site]]\nroot = \"/srv\"\n"), ["1:8: unclosed table, expected \"]\""]);
        let rule = "[[site.rule]]\npath = \"/x\"\nrespond = 404\n";
        assert_eq!(told(&format!("[[site]\nroot = \"/srv\"\n{rule}")), ["1:8: unclosed array table, expected \"]\""]);
    }

    #[test]
    fn the_whole_is_read() {
        assert_eq!(told(&WHOLE.replace("\"[::]:80\"", "\"[::1]:80\"")), [""; 0]);
        for (_, key) in known_keys().filter(|(_, key)| !["include", "rule", "spawn", "tls"].contains(key)) {
            assert!(WHOLE.contains(&format!("\n{key} = ")), "{key}");
        }
    }

    #[test]
    fn every_key_that_is_known_is_read() {
        for (table, key) in known_keys() {
            let (header, before, line) = match table {
                "site" => ("[[site]]".to_owned(), "", 2),
                "site.rule" => ("[[site.rule]]".to_owned(), "[[site]]\n", 3),
                "site.tls" => ("[site.tls]".to_owned(), "[[site]]\n", 3),
                table => (format!("[{table}]"), "", 2),
            };
            let said = told(&format!("{before}{header}\n{key} = 1979-05-27\n"));
            let expected = format!("{line}:{}: \"{key}\" in {header} is a date or time, expected ", key.len() + 4);
            // These are told that they have no business there, and a rule and a program that they are tables.
            let misplaced = matches!(
                (table, key),
                ("jail", "root") | ("site", "rule") | ("site.rule", "status" | "respond_body" | "check") | ("backend.NAME", "spawn")
            );
            assert!(misplaced || said.iter().any(|said| said.starts_with(&expected)), "{table}.{key}: {said:?}");
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
                "10:7: \"auto\" is not supported by this version, expected tls = { certificate = \"/etc/ssl/example.pem\", key = \"/etc/ssl/private/example.key\" }",
                "11:2: unknown name \"sites\", did you mean \"site\"?",
            ]
        );
    }

    #[test]
    fn what_a_later_version_has_is_refused_at_its_place() {
        let text = "[[site]]\nroot = \"/a\"\n  [[site.rule]]\n  path = \"*.php\"\n[backend.php]\ntype = \"ftp\"\naddress = \"unix:/s\"\n\
                    [acme]\n";
        assert_eq!(
            told(text),
            ["6:8: \"type\" in [backend.NAME] is \"ftp\", did you mean \"http\"?", "8:2: \"acme\" is not supported by this version",]
        );
    }

    #[test]
    fn what_asks_a_later_version_for_nothing_is_taken() {
        let site = |line: &str| told(&format!("[[site]]\nroot = \"/a\"\n{line}\n"));
        for line in ["htaccess = false", "users = true", "users = false", "user = \"\""] {
            assert_eq!(site(line), [""; 0], "{line}");
        }
        for (line, key) in [("htaccess = true", "htaccess"), ("htaccess = [\"Auth\"]", "htaccess"), ("user = \"{1}\"", "user")] {
            assert!(site(line)[0].starts_with(&format!("3:1: \"{key}\" is not supported by this version")), "{line}: {:?}", site(line));
        }
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
        assert_eq!(told("[[server]]\n[[site]]\nroot = \"/a\"\n"), ["1:3: \"server\" is a list, expected a table, [server]"]);
        assert_eq!(told("jail = \"none\"\n[[site]]\nroot = \"/a\"\n"), ["1:1: \"jail\" is a string, expected a table, [jail]"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_without_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("anchorite.toml");
        let told = |file: &Path| load(file).unwrap_err().to_string();
        assert_eq!(told(&file), format!("{}: cannot be read: no such file or directory", file.display()));
        assert_eq!(told(directory.path()), format!("{}: cannot be read: not a regular file", directory.path().display()));
        std::fs::File::create(&file).unwrap().set_len((16 << 20) + 1).unwrap();
        assert_eq!(told(&file), format!("{}: cannot be read: larger than 16 MiB", file.display()));
        std::fs::write(&file, b"# \xc3\xa9\n# \xff\n").unwrap();
        let expected = format!("{}:2:3: not UTF-8, expected TOML, which is UTF-8\n  2 | # \u{fffd}\n    |   ^", file.display());
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
        let site = Site { listing: true, ..expected.sites[0].clone() };
        let server = Server { user: None, group: None, control_socket: None, pid_file: None, ..expected.server.clone() };
        assert_eq!(config, Config { sites: vec![site], server, secrets: Vec::new(), ..expected });
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
        for _ in 0..1_500 {
            let text = damaged(&mut state);
            let diagnostics = match parse(&text, Path::new("/f")) {
                Err(diagnostics) => diagnostics,
                Ok(config) => {
                    let again = parse(&dump(&config), Path::new("/f")).unwrap_or_else(|faults| panic!("{faults} in the dump of {text:?}"));
                    assert_eq!(dump(&again), dump(&config), "{text:?}");
                    continue;
                }
            };
            assert!(!diagnostics.list.is_empty(), "{text:?}");
            assert!(!diagnostics.to_string().contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
            for fault in &diagnostics.list {
                let place = fault.place.as_ref().unwrap();
                let line = text.split('\n').nth(place.line - 1).unwrap_or_else(|| panic!("{fault} in {text:?}"));
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
