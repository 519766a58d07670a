//! `[server]`: read and checked. Does no I/O: that the user exists and the addresses are free is found out where they are used.

use super::Server;
use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use std::net::{IpAddr, SocketAddr};

pub(super) fn read(table: &Table<'_>, faults: &mut Faults<'_>) -> Server {
    let mut server = default();
    if let Some(item) = table.item("user") {
        server.user = read_account(&item, "user", faults);
        // Whoever names another user means that user's own group, not ours.
        server.group = None;
    }
    if let Some(item) = table.item("group") {
        server.group = read_account(&item, "group", faults);
    }
    if let Some(workers) = table.item("workers").and_then(|item| item.number(0..=WORKERS_MAX, faults)) {
        server.workers = u16::try_from(workers).unwrap_or(0);
    }
    if let Some(item) = table.item("listen") {
        server.listen = read_listen(&item, faults);
    }
    if let Some(text) = table.item("server_header").and_then(|item| item.text("a string", faults)) {
        server.server_header = read_header_value(&text, faults);
    }
    server
}

pub(super) fn default() -> Server {
    Server {
        user: Some(ACCOUNT.to_owned()),
        group: Some(ACCOUNT.to_owned()),
        workers: 0,
        listen: vec![SocketAddr::from(([0u16; 8], 80))],
        server_header: "anchorite".to_owned(),
    }
}

/// The name or number of a user or group, which may not be the superuser's.
fn read_account(item: &Item<'_>, what: &str, faults: &mut Faults<'_>) -> Option<String> {
    let text = item.text(&format!("the name of a {what}"), faults)?;
    let number = text
        .value
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.value.parse::<u32>());
    if text.value == "root" || number == Some(Ok(0)) {
        let message = format!(
            "{} as {what:?} would leave the confined processes the superuser's rights",
            quoted(text.value)
        );
        item.report(message, format!("expected a {what} of its own, such as \"anchorite\""), faults);
        return None;
    }
    // (uid_t) -1 means "leave as it is" to setresuid(2).
    let impossible = matches!(number, Some(Ok(u32::MAX) | Err(_)));
    if text.value.is_empty()
        || impossible
        || text
            .value
            .contains(|c: char| c.is_control() || c.is_whitespace() || ":/,".contains(c))
    {
        item.report(format!("{} is not the name of a {what}", quoted(text.value)), "", faults);
        return None;
    }
    Some(text.value.to_owned())
}

/// Addresses, no two of which the kernel would refuse to bind together.
fn read_listen(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<SocketAddr> {
    let texts = item.texts(LISTEN_EXPECTED, faults).unwrap_or_default();
    let mut taken: Vec<(SocketAddr, Text<'_>)> = Vec::new();
    for text in texts {
        if text.value.starts_with("unix:") {
            faults.report(
                text.at.clone(),
                format!("{} is not supported by this version", quoted(text.value)),
                LISTEN_HELP,
            );
            continue;
        }
        let Ok(address) = text.value.parse::<SocketAddr>() else {
            faults.report(
                text.at.clone(),
                format!("{} is not an address with a port", quoted(text.value)),
                LISTEN_HELP,
            );
            continue;
        };
        match taken.iter().find(|(other, _)| overlap(*other, address)) {
            Some((other, first)) => {
                let help = format!("given as \"{other}\" at {}", faults.place_name(first.at.start));
                faults.report(text.at.clone(), format!("{} is already listened on", quoted(text.value)), help);
            }
            None => taken.push((address, text)),
        }
    }
    if item.is_empty_list() {
        faults.report(item.at.clone(), "\"listen\" in [server] has no address", LISTEN_HELP);
    }
    taken.into_iter().map(|(address, _)| address).collect()
}

/// Whether two sockets would want the same address: `[::]` also takes IPv4.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let takes = |all: SocketAddr, part: SocketAddr| match (all.ip().to_canonical(), part.ip().to_canonical()) {
        (IpAddr::V6(all), _) if all.is_unspecified() => true,
        (IpAddr::V4(all), IpAddr::V4(_)) if all.is_unspecified() => true,
        (IpAddr::V4(one), IpAddr::V4(other)) => one == other,
        (IpAddr::V6(one), IpAddr::V6(other)) => one == other && scope(all) == scope(part),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    };
    one.port() == other.port() && (takes(one, other) || takes(other, one))
}

/// A link-local address is another on each interface.
fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// What may stand in a header without changing the message around it: RFC 9110, section 5.5.
fn read_header_value(text: &Text<'_>, faults: &mut Faults<'_>) -> String {
    let visible = text.value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if !visible || text.value.trim() != text.value || text.value.len() > SERVER_HEADER_MAX {
        let help = format!("expected at most {SERVER_HEADER_MAX} visible ASCII characters, or \"\" to send none");
        faults.report(
            text.at.clone(),
            format!("{} cannot be the value of a header", quoted(text.value)),
            help,
        );
    }
    text.value.to_owned()
}

/// The user and the group that the package makes.
const ACCOUNT: &str = "anchorite";
/// More than any machine has CPUs for.
const WORKERS_MAX: u32 = 1024;
/// Bytes of the `Server` header, so that a head still fits its buffer.
const SERVER_HEADER_MAX: usize = 128;
const LISTEN_EXPECTED: &str = "a list of addresses with ports, such as [\"[::]:80\"]";
const LISTEN_HELP: &str = "expected an address with a port, such as \"[::]:80\" or \"127.0.0.1:8080\"";

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;

    fn said(line: &str) -> Vec<String> {
        told(&format!("[server]\n{line}\n[[site]]\nroot = \"/srv/www\"\n"))
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let server = with_a_site("").server;
        assert_eq!(server, default());
        assert_eq!(
            (server.user.as_deref(), server.group.as_deref(), server.workers),
            (Some("anchorite"), Some("anchorite"), 0)
        );
        assert_eq!(server.listen, ["[::]:80".parse().unwrap()]);
        assert_eq!(server.server_header, "anchorite");
        assert_eq!(with_a_site("[server]").server, default());
    }

    #[test]
    fn every_key_is_read() {
        let text =
            "[server]\nuser = \"www-data\"\ngroup = \"33\"\nworkers = 1024\nlisten = [\"0.0.0.0:80\", \"[::1]:81\"]\nserver_header = \"\"";
        let server = with_a_site(text).server;
        assert_eq!(
            (server.user.as_deref(), server.group.as_deref(), server.workers),
            (Some("www-data"), Some("33"), 1024)
        );
        assert_eq!(server.listen, ["0.0.0.0:80".parse().unwrap(), "[::1]:81".parse().unwrap()]);
        assert_eq!(server.server_header, "");
    }

    #[test]
    fn another_user_brings_its_own_group() {
        let server = with_a_site("[server]\nuser = \"www-data\"").server;
        assert_eq!((server.user.as_deref(), server.group), (Some("www-data"), None));
    }

    #[test]
    fn the_superuser_is_refused() {
        for name in ["root", "0", "000"] {
            for (key, column) in [("user", 8), ("group", 9)] {
                let what = format!("2:{column}: \"{name}\" as \"{key}\" would leave the confined processes the superuser's rights");
                assert_eq!(
                    said(&format!("{key} = \"{name}\"")),
                    [format!("{what}, expected a {key} of its own, such as \"anchorite\"")]
                );
            }
        }
    }

    #[test]
    fn what_cannot_be_an_account_is_refused() {
        for name in ["", "4294967295", "4294967296", "a b", "a:b", "a/b", "a\\nb", "a\\u0000"] {
            let text: String = name.replace("\\u0000", "\\0");
            assert_eq!(
                said(&format!("user = \"{name}\"")),
                [format!("2:8: \"{text}\" is not the name of a user")]
            );
        }
        assert_eq!(
            said("user = 33"),
            ["2:8: \"user\" in [server] is an integer, expected the name of a user"]
        );
        assert_eq!(
            said("group = [\"a\"]"),
            ["2:9: \"group\" in [server] is a list, expected the name of a group"]
        );
    }

    #[test]
    fn workers_beyond_the_range_give_the_range() {
        for number in ["-1", "1025", "99999999999999999999"] {
            assert_eq!(
                said(&format!("workers = {number}")),
                [format!(
                    "2:11: \"workers\" in [server] is {number}, expected an integer from 0 to 1024"
                )]
            );
        }
        assert_eq!(
            said("workers = \"2\""),
            ["2:11: \"workers\" in [server] is a string, expected an integer from 0 to 1024"]
        );
        assert_eq!(
            said("workers = 1.0"),
            ["2:11: \"workers\" in [server] is a float, expected an integer from 0 to 1024"]
        );
    }

    #[test]
    fn an_address_needs_a_port() {
        for address in [
            "80",
            ":80",
            "[::]",
            "127.0.0.1",
            "localhost:80",
            "*:80",
            "127.0.0.1:65536",
            "::1:80",
            "",
        ] {
            assert_eq!(
                said(&format!("listen = [\"{address}\"]")),
                [format!("2:11: \"{address}\" is not an address with a port, {LISTEN_HELP}")],
            );
        }
        assert_eq!(
            said("listen = \"[::]:80\""),
            [format!("2:10: \"listen\" in [server] is a string, expected {LISTEN_EXPECTED}")]
        );
        assert_eq!(
            said("listen = [80]"),
            [format!("2:11: \"listen\" in [server] holds an integer, expected {LISTEN_EXPECTED}")]
        );
        assert_eq!(
            said("listen = []"),
            [format!("2:10: \"listen\" in [server] has no address, {LISTEN_HELP}")]
        );
        assert_eq!(
            said("listen = [\"unix:/run/x\"]"),
            [format!("2:11: \"unix:/run/x\" is not supported by this version, {LISTEN_HELP}")]
        );
    }

    #[test]
    fn an_address_given_twice_is_told_with_both_places() {
        for (first, second) in [
            ("[::]:80", "[::]:80"),
            ("[::]:80", "0.0.0.0:80"),
            ("[::]:80", "10.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "0.0.0.0:80"),
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80"),
        ] {
            assert_eq!(
                said(&format!("listen = [\n\"{first}\",\n\"{second}\"]")),
                [format!(
                    "4:1: \"{second}\" is already listened on, given as \"{first}\" at /etc/anchorite/anchorite.toml:3:1"
                )]
            );
        }
        for (first, second) in [
            ("[::]:80", "[::]:81"),
            ("0.0.0.0:80", "[::1]:80"),
            ("[fe80::1%1]:80", "[fe80::1%2]:80"),
            ("127.0.0.1:80", "127.0.0.2:80"),
        ] {
            assert_eq!(said(&format!("listen = [\"{first}\", \"{second}\"]")), [""; 0]);
        }
    }

    #[test]
    fn a_server_header_cannot_break_the_head() {
        for value in ["a\\r\\nX: y", "a\\n", "é", "\\u0000", " a", "a ", &"a".repeat(129)] {
            let said = said(&format!("server_header = \"{value}\""));
            assert_eq!(said.len(), 1);
            assert!(said[0].starts_with("2:17: "), "{said:?}");
            assert!(
                said[0].ends_with("cannot be the value of a header, expected at most 128 visible ASCII characters, or \"\" to send none")
            );
        }
        assert_eq!(said(&format!("server_header = \"{}\"", "a".repeat(128))), [""; 0]);
        assert_eq!(
            said("server_header = false"),
            ["2:17: \"server_header\" in [server] is a boolean, expected a string"]
        );
    }
}
