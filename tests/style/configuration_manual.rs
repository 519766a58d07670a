//! anchorite.toml(5) and the code name the same keys, with the same defaults, and the manual's examples are accepted.

use anchorite::config::{known_keys, parse};
use std::collections::BTreeMap;
use std::path::Path;

/// A key as the manual describes it.
struct Described {
    table: String,
    key: String,
    /// As TOML; `None`: none, or none that can be written down.
    default: Option<String>,
}

fn manual() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/anchorite.toml.5");
    std::fs::read_to_string(path).expect("the manual is there")
}

/// mdoc's quotes as TOML has them.
fn plain(text: &str) -> String {
    text.replace("\\(dq", "\"")
}

/// `.Ss [table]` begins a table, `.It Ic key` a key, until the next section.
fn described(manual: &str) -> Vec<Described> {
    let (mut table, mut found) = (None, Vec::<Described>::new());
    let mut lines = manual.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with(".Sh ") || line.starts_with(".Ss ") {
            table = line.strip_prefix(".Ss [").map(|name| name.trim_matches(['[', ']']).to_owned());
        }
        let Some(table) = &table else { continue };
        if let Some(key) = line.strip_prefix(".It Ic ").and_then(|rest| rest.split(' ').next()) {
            found.push(Described { table: table.clone(), key: key.to_owned(), default: None });
        }
        if let (Some(rest), Some(last)) = (line.strip_prefix("Default:"), found.last_mut()) {
            last.default = default(rest.trim(), lines.peek().copied().unwrap_or(""));
        }
    }
    found
}

/// What stands behind "Default:", on its line or on the next.
fn default(rest: &str, next: &str) -> Option<String> {
    let number = rest.trim_end_matches('.');
    if rest == "none." {
        Some("[]".to_owned())
    } else if number.parse::<u32>().is_ok() {
        Some(number.to_owned())
    } else if !rest.is_empty() {
        None
    } else if let Some(value) = next.strip_prefix(".Li ") {
        Some(plain(value.trim_end_matches(" .")))
    } else {
        next.strip_prefix(".Pa ").map(|path| format!("{:?}", path.trim_end_matches(" .")))
    }
}

/// The literal blocks below a heading.
fn literal_blocks(manual: &str, heading: &str) -> Vec<String> {
    let section = manual.split(&format!(".Sh {heading}\n")).nth(1).expect("the section is there");
    let section = section.split("\n.Sh ").next().unwrap_or("");
    let blocks = section.split(".Bd -literal").skip(1);
    let content = |block: &str| Some(plain(block.split_once('\n')?.1.split(".Ed").next()?));
    blocks.filter_map(content).collect()
}

#[test]
fn the_manual_describes_every_key_once_and_no_other() {
    let mut described: Vec<String> = described(&manual()).iter().map(|d| format!("{}.{}", d.table, d.key)).collect();
    let mut known: Vec<String> = known_keys().map(|(table, key)| format!("{table}.{key}")).collect();
    described.sort();
    known.sort();
    assert_eq!(described, known, "left: the manual; right: the code");
}

#[test]
fn the_defaults_of_the_manual_are_those_of_the_code() {
    let mut tables = BTreeMap::<String, String>::new();
    let mut without = Vec::new();
    // A key of a rule that is left out does nothing.
    for Described { table, key, default } in described(&manual()).into_iter().filter(|d| d.table != "site.rule") {
        match default {
            Some(value) => tables.entry(table).or_default().push_str(&format!("{key} = {value}\n")),
            None => without.push(format!("{table}.{key}")),
        }
    }
    // The group's default depends on the user; what has none is given.
    let spawn = ["command", "user", "group"].map(|key| format!("backend.NAME.spawn.{key}"));
    let [command, user, group] = spawn.each_ref().map(String::as_str);
    let of_tls = ["certificate", "key", "min_version", "key_isolation", "client_ca", "client_auth"].map(|key| format!("site.tls.{key}"));
    let mut expected =
        vec!["server.group", "jail.root", "backend.NAME.type", "backend.NAME.address", "backend.NAME.spawn", command, user, group];
    expected.extend(["auth.NAME.type", "auth.NAME.realm", "auth.NAME.file", "site.tls", "site.root"]);
    expected.extend(of_tls.iter().map(String::as_str));
    assert_eq!(without, expected);
    tables.get_mut("backend.NAME.spawn").unwrap().push_str(SPAWN);
    tables.get_mut("backend.NAME").unwrap().push_str(BACKEND);
    tables.get_mut("server").unwrap().push_str("group = \"anchorite\"\n");
    tables.get_mut("site").unwrap().push_str("root = \"/srv/www\"\n");
    let header = |table: &str| {
        if table == "site" { "[[site]]".to_owned() } else { format!("[{table}]") }
    };
    let text: String = tables.iter().map(|(table, keys)| format!("{}\n{keys}\n", header(table))).collect();
    let file = Path::new("/etc/anchorite/anchorite.toml");
    let written = parse(&text, file).unwrap_or_else(|faults| panic!("{faults}"));
    let least = format!("[backend.NAME]\n{BACKEND}[backend.NAME.spawn]\n{SPAWN}[[site]]\nroot = \"/srv/www\"\n");
    assert_eq!(written, parse(&least, file).unwrap(), "left: the manual; right: the code");
}

#[test]
fn the_examples_of_the_manual_are_accepted() {
    let examples = literal_blocks(&manual(), "EXAMPLES");
    assert_eq!(examples.len(), 6);
    for text in examples {
        parse(&text, Path::new("/etc/anchorite/anchorite.toml")).unwrap_or_else(|faults| panic!("{faults}"));
    }
}

/// Whoever follows the manual to a second site gets the redirects that it promises.
#[test]
fn the_second_site_of_the_manual_does_what_the_manual_says() {
    let etc = tempfile::tempdir().unwrap();
    let file = etc.path().join("anchorite.toml");
    let example = literal_blocks(&manual(), "EXAMPLES").into_iter().find(|text| text.contains("shop.log")).unwrap();
    std::fs::write(&file, example).unwrap();
    for (url, location) in [
        ("http://store.example.org/a%20b?c=d", "http://shop.example.org/a%20b?c=d"),
        ("http://shop.example.org/old/page", "/new/page"),
        ("http://shop.example.org/old/page?c=d", "/new/page?c=d"),
    ] {
        let program = std::process::Command::new(env!("CARGO_BIN_EXE_anchorite")).args(["explain", url, "-c"]).arg(&file).output();
        let text = String::from_utf8(program.unwrap().stdout).unwrap();
        assert!(text.ends_with(&format!("answers 301 Moved Permanently, Location: {location}\n")), "{url}: {text}");
    }
}

#[test]
fn the_fault_that_the_manual_shows_is_told_so() {
    let text = "# a comment\n[server]\nlisen = [\"[::]:80\"]\n[[site]]\nroot = \"/srv/www\"\n";
    let faults = parse(text, Path::new("/etc/anchorite/anchorite.toml")).unwrap_err();
    assert_eq!(literal_blocks(&manual(), "DIAGNOSTICS"), [format!("{faults}\n")]);
}

/// What every backend has to say.
const BACKEND: &str = "type = \"fastcgi\"\naddress = [\"unix:/run/x\"]\n";

/// What every program that is started has to say.
const SPAWN: &str = "command = [\"/usr/bin/php-cgi\"]\nuser = \"www-data\"\n";
