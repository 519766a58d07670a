//! `[backend.NAME]`: read and checked. Does no I/O: that somebody listens at an address is found out when a request comes.

use super::backend::{Address, Backend, Balance, Protocol};
use super::danger::Shown;
use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::{names, paths, server, spawn};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Every backend of the files, in order.
pub(super) fn read(top: &Table<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Vec<Backend> {
    let tables = top.named_tables(&names::BACKENDS, &names::BACKEND, faults);
    let mut backends = Vec::new();
    for (name, table) in &tables {
        if let Err(help) = check_name(name.value) {
            faults.report(name.at.clone(), format!("{} is not the name of a backend", quoted(name.value)), help);
        }
        let mut backend = read_one(name, table, faults);
        backend.sendfile = table.item("sendfile", faults).and_then(|item| read_sendfile(&item, shown, faults));
        backends.push(backend);
    }
    let addresses: usize = backends.iter().map(|backend| backend.addresses.len()).sum();
    if let Some((name, _)) = tables.last().filter(|_| addresses > ADDRESSES_MAX) {
        faults.report(name.at.clone(), format!("more than {ADDRESSES_MAX} addresses of backends"), "expected fewer");
    }
    backends
}

fn read_one(name: &Text<'_>, table: &Table<'_>, faults: &mut Faults<'_>) -> Backend {
    let mut backend = with_defaults(name.value.to_owned());
    if let Some(protocol) = read_protocol(table, faults) {
        backend.protocol = protocol;
    }
    backend.addresses = read_addresses(table, faults);
    backend.group = table.item("group", faults).and_then(|item| read_group(&item, faults));
    backend.script_root = table.item("script_root", faults).and_then(|item| read_script_root(&item, faults));
    if let Some(balance) = table.item("balance", faults).and_then(|item| item.choice(&BALANCES, faults)) {
        backend.balance = balance;
    }
    let mut duration = |key, range, field: &mut Duration| {
        if let Some(value) = table.item(key, faults).and_then(|item| item.duration(range, faults)) {
            *field = value;
        }
    };
    duration("connect_timeout", CONNECT_TIMEOUT, &mut backend.connect_timeout);
    duration("read_timeout", READ_TIMEOUT, &mut backend.read_timeout);
    duration("keep_idle", KEEP_IDLE, &mut backend.keep_idle);
    let mut number = |key, range, field: &mut u32| {
        if let Some(value) = table.item(key, faults).and_then(|item| item.number(range, faults)) {
            *field = value;
        }
    };
    number("max_connections", CONNECTIONS, &mut backend.max_connections);
    number("keep", KEEP, &mut backend.keep);
    number("queue", QUEUE, &mut backend.queue);
    if let Some(item) = table.item("buffer", faults) {
        backend.buffer = read_buffer(&item, faults).unwrap_or(backend.buffer);
    }
    if let Some(item) = table.item("env", faults) {
        backend.env = read_env(&item, faults);
    }
    if backend.protocol == Protocol::Http {
        for (key, given) in [("script_root", backend.script_root.is_some()), ("env", !backend.env.is_empty())] {
            if let Some(item) = table.item(key, faults).filter(|_| given) {
                item.report(format!("\"{key}\" is for programs that are told parameters"), "expected it without type = \"http\"", faults);
            }
        }
    }
    if let Some(table) = table.table(&names::SPAWN, faults) {
        backend.spawn = spawn::read(&table, faults);
        if !matches!(backend.addresses.as_slice(), [Address::Unix(_)]) {
            let what = "a program that is started needs one \"address\", where its socket is made";
            faults.report(table.at.clone(), what, "expected address = [\"unix:/run/anchorite/NAME.sock\"]");
        }
    }
    backend
}

pub(super) fn read_buffer(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<u32> {
    // Nothing has no unit.
    if item.small_number() == Some(0) { Some(0) } else { item.size(BUFFER, faults) }
}

/// What a backend is of which only the address is given.
pub(super) fn with_defaults(name: String) -> Backend {
    Backend {
        name,
        protocol: Protocol::FastCgi,
        group: None,
        addresses: Vec::new(),
        balance: Balance::LeastConnections,
        script_root: None,
        sendfile: None,
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(60),
        max_connections: 64,
        keep: 1,
        keep_idle: Duration::from_secs(1),
        queue: 256,
        buffer: 1 << 20,
        env: Vec::new(),
        spawn: None,
    }
}

/// A directory that workers are shown for it.
fn read_sendfile(item: &Item<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Option<PathBuf> {
    let text = item.text("a directory, or \"\" for none", faults)?;
    if text.value.is_empty() {
        return None;
    }
    let path = paths::directory(&text, faults)?;
    shown.add(&path, text.at);
    Some(path)
}

/// It stands in messages, and in rules.
fn check_name(name: &str) -> Result<(), &'static str> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(fine) {
        return Err("expected at most 64 letters, digits, \"-\", \"_\" and \".\"");
    }
    Ok(())
}

fn read_protocol(table: &Table<'_>, faults: &mut Faults<'_>) -> Option<Protocol> {
    let Some(item) = table.item("type", faults) else {
        faults.report_missing(table.at.clone(), "this backend has no \"type\"", "expected type = \"fastcgi\"");
        return None;
    };
    item.choice(&PROTOCOLS, faults)
}

fn read_addresses(table: &Table<'_>, faults: &mut Faults<'_>) -> Vec<Address> {
    let Some(item) = table.item("address", faults) else {
        let help = "expected address = [\"unix:/run/php/php-fpm.sock\"], or an IP address with a port";
        faults.report_missing(table.at.clone(), "this backend has no \"address\"", help);
        return Vec::new();
    };
    let (mut list, mut taken) = (Vec::new(), HashSet::new());
    let texts = item.text_or_texts(ADDRESS_EXPECTED, faults);
    if item.is_empty_list() {
        item.report("\"address\" is empty", format!("expected {ADDRESS_EXPECTED}"), faults);
    }
    for text in texts.unwrap_or_default() {
        let Some(address) = read_address(&text, faults) else { continue };
        if !taken.insert(address.to_string()) {
            faults.report(text.at.clone(), format!("{} is given twice", quoted(text.value)), "");
            continue;
        }
        list.push(address);
    }
    list
}

pub(super) fn read_address(text: &Text<'_>, faults: &mut Faults<'_>) -> Option<Address> {
    // Of a request nothing may choose whose program is asked. Taken literally it would only be told as a socket that is not there.
    if text.value.contains('{') {
        let help = "pools of users are not supported by this version, and nothing else is put into an address";
        faults.report(text.at.clone(), format!("{} holds a variable", quoted(text.value)), help);
        return None;
    }
    if let Some(path) = text.value.strip_prefix("unix:") {
        return paths::socket(&Text { value: path, at: text.at.clone() }, faults).map(Address::Unix);
    }
    match text.value.parse::<SocketAddr>() {
        Ok(address) if address.port() > 0 && !address.ip().is_unspecified() => {
            Some(Address::Tcp { host: address.ip().to_canonical(), port: address.port() })
        }
        Ok(_) => {
            faults.report(
                text.at.clone(),
                format!("nothing can be reached at {}", quoted(text.value)),
                "expected the address of a machine",
            );
            None
        }
        Err(_) => {
            let name = read_name(text.value);
            if name.is_none() {
                let help = "expected \"unix:/run/php/php-fpm.sock\", or an IP address or a name with a port such as \"127.0.0.1:9000\"";
                faults.report(text.at.clone(), format!("{} is not an address", quoted(text.value)), help);
            }
            name
        }
    }
}

/// The name of a host with a port: letters, digits, `-`, `_` and `.` (RFC 1123, 2.1, and what is in use), of which the last part is no number,
/// or it would be meant as an IP address.
fn read_name(text: &str) -> Option<Address> {
    let (name, port) = text.rsplit_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = Some(port).filter(|port| is_number(port))?.parse().ok().filter(|port| *port > 0)?;
    let fine = |label: &str| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && label.bytes().all(is_fine)
    };
    let absolute = name.strip_suffix('.').unwrap_or(name);
    let is_address = absolute.rsplit('.').next().is_some_and(is_number);
    let is_name = absolute.len() <= HOST_MAX && absolute.split('.').all(fine) && !is_address;
    is_name.then(|| Address::Name { name: name.to_ascii_lowercase(), port })
}

pub(super) fn read_group(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<String> {
    if item.as_text().is_some_and(|text| text.value.is_empty()) {
        return None;
    }
    server::read_account(item, "group", faults)
}

fn read_script_root(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<PathBuf> {
    let text = item.text("an absolute path, or \"\"", faults)?;
    if text.value.is_empty() {
        return None;
    }
    if !text.value.starts_with('/') || text.value.contains(char::is_control) {
        faults.report(text.at.clone(), format!("{} is not an absolute path", quoted(text.value)), "expected it as the backend sees it");
        return None;
    }
    Some(PathBuf::from(text.value.trim_end_matches('/')))
}

/// Names of parameters, which no request has a say in.
pub(super) fn read_env(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<(String, String)> {
    let mut list = Vec::new();
    for (name, value) in item.pairs("a table such as { PHP_VALUE = \"memory_limit=256M\" }", faults).unwrap_or_default() {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.value.is_empty() || name.value.len() > NAME_MAX || !name.value.bytes().all(fine) {
            faults.report(name.at, format!("{} is not the name of a parameter", quoted(name.value)), "expected letters, digits and \"_\"");
        } else if super::is_protected(name.value) {
            let help = "it says what the request is, or goes to the dynamic loader";
            faults.report(name.at, format!("{} cannot be set", quoted(name.value)), help);
        } else if value.value.contains('\0') {
            faults.report(value.at, "a parameter with NUL", "which no program can be told");
        } else {
            list.push((name.value.to_owned(), value.value.to_owned()));
        }
    }
    list
}

pub(super) const PROTOCOLS: [(&str, Protocol); 4] =
    [("fastcgi", Protocol::FastCgi), ("scgi", Protocol::Scgi), ("uwsgi", Protocol::Uwsgi), ("http", Protocol::Http)];
pub(super) const BALANCES: [(&str, Balance); 3] =
    [("least-connections", Balance::LeastConnections), ("round-robin", Balance::RoundRobin), ("hash-client", Balance::HashClient)];
const ADDRESS_EXPECTED: &str = "a list of addresses such as \"unix:/run/php/php-fpm.sock\" or \"127.0.0.1:9000\"";

/// Each is counted in memory that workers share, which has room for one more: programs of rules with `cgi`.
pub(super) const ADDRESSES_MAX: usize = 255;
const NAME_MAX: usize = 64;
const HOST_MAX: usize = 253;
const CONNECT_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(600);
pub(super) const READ_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
const KEEP_IDLE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3_600);
const CONNECTIONS: RangeInclusive<u32> = 1..=65_536;
const KEEP: RangeInclusive<u32> = 0..=1_024;
pub(super) const QUEUE: RangeInclusive<u32> = 0..=65_536;
const BUFFER: RangeInclusive<u32> = 0..=1 << 30;

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;

    fn said(lines: &str) -> Vec<String> {
        told(&format!("[[site]]\nroot = \"/srv\"\n[backend.php]\n{lines}\n"))
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let read = with_a_site("[backend.php]\ntype = \"fastcgi\"\naddress = [\"unix:/run/php.sock\"]");
        let expected = Backend { addresses: vec![Address::Unix("/run/php.sock".into())], ..with_defaults("php".to_owned()) };
        assert_eq!(read.backends, [expected]);
    }

    #[test]
    fn every_type_is_read() {
        for (word, protocol) in PROTOCOLS {
            let read = with_a_site(&format!("[backend.x]\ntype = \"{word}\"\naddress = \"unix:/s\""));
            assert_eq!(read.backends[0].protocol, protocol);
        }
    }

    #[test]
    fn every_key_is_read() {
        let text = "[backend.\"a.b\"]\ntype = \"fastcgi\"\ngroup = \"www-data\"\naddress = [\"127.0.0.1:9000\", \"[::1]:9000\"]\nbalance = \"hash-client\"\n\
                    script_root = \"/www/\"\nsendfile = \"/srv/private\"\nconnect_timeout = \"1s\"\nread_timeout = \"2s\"\nmax_connections = 3\nkeep = 4\nkeep_idle = \"5s\"\nqueue = 6\n\
                    buffer = \"7KiB\"\nenv = { PHP_VALUE = \"x\" }\n";
        let tcp = |host: &str| Address::Tcp { host: host.parse().unwrap(), port: 9000 };
        let expected = Backend {
            name: "a.b".to_owned(),
            protocol: Protocol::FastCgi,
            group: Some("www-data".to_owned()),
            addresses: vec![tcp("127.0.0.1"), tcp("::1")],
            balance: Balance::HashClient,
            script_root: Some("/www".into()),
            sendfile: Some("/srv/private".into()),
            connect_timeout: Duration::from_secs(1),
            read_timeout: Duration::from_secs(2),
            max_connections: 3,
            keep: 4,
            keep_idle: Duration::from_secs(5),
            queue: 6,
            buffer: 7 << 10,
            env: vec![("PHP_VALUE".to_owned(), "x".to_owned())],
            spawn: None,
        };
        assert_eq!(with_a_site(text).backends, [expected]);
    }

    #[test]
    fn names_of_hosts_are_told_from_what_is_none() {
        for (text, name, port) in [
            ("localhost:9000", "localhost", 9000),
            ("Backend.Example.:1", "backend.example.", 1),
            ("php_1:65535", "php_1", 65_535),
            ("1.example:80", "1.example", 80),
        ] {
            assert_eq!(read_name(text), Some(Address::Name { name: name.to_owned(), port }), "{text}");
        }
        let long = format!("{}:80", ["a"; 128].join("."));
        for text in
            ["a", "a:", "a:0", "a:65536", "a:+1", ":80", "a..b:80", "-a:80", "a.-b:80", "a/b:80", "1.2.3:80", "10:80", "a b:80", &long]
        {
            assert_eq!(read_name(text), None, "{text}");
        }
    }

    #[test]
    fn faults_are_told_where_they_stand() {
        let base = "type = \"fastcgi\"\naddress = \"unix:/s\"";
        assert_eq!(
            said(""),
            [
                "3:10: this backend has no \"type\", expected type = \"fastcgi\"",
                "3:10: this backend has no \"address\", expected address = [\"unix:/run/php/php-fpm.sock\"], or an IP address with a port",
            ]
        );
        for (lines, said_of_it) in [
            ("type = \"http\"\naddress = \"unix:/s\"\nenv = { A = \"b\" }", "6:7: \"env\" is for programs that are told parameters"),
            ("type = \"fastcg\"\naddress = \"unix:/s\"", "4:8: \"type\" in [backend.NAME] is \"fastcg\", did you mean \"fastcgi\"?"),
            ("type = \"fastcgi\"\naddress = \"localhost\"", "5:11: \"localhost\" is not an address, expected \"unix:/run/php/"),
            ("type = \"fastcgi\"\naddress = \"1.2.3:80\"", "5:11: \"1.2.3:80\" is not an address"),
            (
                "type = \"fastcgi\"\naddress = \"unix:/run/{user}.sock\"",
                "5:11: \"unix:/run/{user}.sock\" holds a variable, pools of users are not",
            ),
            ("type = \"fastcgi\"\naddress = \"a b:80\"", "5:11: \"a b:80\" is not an address"),
            ("type = \"fastcgi\"\naddress = [\"unix:/s\", \"unix:/s\"]", "5:23: \"unix:/s\" is given twice"),
            (&format!("{base}\nenv = {{ QUERY_STRING = \"\" }}"), "6:9: \"QUERY_STRING\" cannot be set"),
            (
                &format!("{base}\nmax_connections = 0"),
                "6:19: \"max_connections\" in [backend.NAME] is 0, expected an integer from 1 to 65536",
            ),
            (&format!("{base}\nadress = []"), "6:1: unknown key \"adress\" in [backend.NAME], did you mean \"address\"?"),
        ] {
            let said = said(lines);
            assert!(said.len() == 1 && said[0].starts_with(said_of_it), "{lines}: {said:?}");
        }
    }

    #[test]
    fn a_rule_names_a_backend_that_there_is() {
        let rule = |line: &str| {
            told(&format!(
                "[backend.php]\ntype = \"fastcgi\"\naddress = \"unix:/s\"\n[[site]]\nroot = \"/srv\"\n[[site.rule]]\npath = \"*.php\"\n{line}\n"
            ))
        };
        assert_eq!(rule("backend = \"php\""), [""; 0]);
        assert_eq!(rule("backend = \"php\"\nroot = \"/x\"\ncheck = false"), [""; 0]);
        assert_eq!(rule("backend = \"phpp\""), ["8:11: there is no backend \"phpp\", did you mean \"php\"?"]);
        assert_eq!(rule("check = true"), ["8:1: \"check\" is only for \"backend\", expected \"backend\" beside it"]);
        assert!(rule("backend = \"php\"\nredirect = \"/\"")[0].contains("a rule does one thing"));
    }
}
