//! `[server]`: read and checked. Does no I/O: that the user exists and the addresses are free is found out where they are used.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::{Listen, Network, Proxies, Server, listen, network, paths};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

pub(super) fn read(table: &Table<'_>, faults: &mut Faults<'_>) -> Server {
    let mut server = default();
    if let Some(item) = table.item("user", faults) {
        server.user = read_account(&item, "user", faults);
        // Whoever names another user means that user's own group, not ours.
        server.group = None;
    }
    if let Some(item) = table.item("group", faults) {
        server.group = read_account(&item, "group", faults);
    }
    if let Some(workers) = table.item("workers", faults).and_then(|item| item.number(0..=WORKERS_MAX, faults)) {
        server.workers = u16::try_from(workers).unwrap_or(0);
    }
    if let Some(item) = table.item("listen", faults) {
        server.listen = listen::read(&item, faults);
        if item.is_empty_list() {
            faults.report(item.at.clone(), "\"listen\" in [server] has no address", listen::HELP);
        }
    }
    if let Some(item) = table.item("tls_listen", faults) {
        server.tls_listen = listen::read(&item, faults);
        refuse_plain(&server.tls_listen, &server.listen, &item, faults);
    }
    if let Some(item) = table.item("control_socket", faults) {
        server.control_socket = read_path(&item, paths::socket, faults);
    }
    if let Some(item) = table.item("pid_file", faults) {
        server.pid_file = read_path(&item, paths::regular, faults);
    }
    if let Some(path) =
        table.item("spool", faults).and_then(|item| item.text("a directory", faults)).and_then(|text| paths::directory(&text, faults))
    {
        server.spool = path;
    }
    if let Some(size) = table.item("spool_max", faults).and_then(|item| item.large_size(SPOOL_MAX, faults)) {
        server.spool_max = size;
    }
    if let Some(text) = table.item("server_header", faults).and_then(|item| item.text("a string", faults)) {
        server.server_header = read_header_value(&text, faults);
    }
    if let Some(permitted) = table.item("http2_cleartext", faults).and_then(|item| item.boolean(faults)) {
        server.http2_cleartext = permitted;
    }
    server.proxies =
        Proxies { speaking: networks(table, "proxy_protocol_from", faults), trusted: networks(table, "trusted_proxies", faults) };
    server
}

/// An address is for TLS or plain, never for both.
pub(super) fn refuse_plain(tls: &[Listen], plain: &[Listen], item: &Item<'_>, faults: &mut Faults<'_>) {
    if let Some(address) = tls.iter().find(|address| plain.iter().any(|other| other.overlaps(address))) {
        item.report(format!("\"{address}\" is listened on without TLS"), "expected another port than those of \"listen\"", faults);
    }
}

/// Networks, or none.
fn networks(table: &Table<'_>, key: &'static str, faults: &mut Faults<'_>) -> Vec<Network> {
    let item = table.item(key, faults).filter(|item| !item.is_empty_list());
    item.map_or_else(Vec::new, |item| network::read(&item, faults))
}

pub(super) fn default() -> Server {
    Server {
        user: Some(ACCOUNT.to_owned()),
        group: Some(ACCOUNT.to_owned()),
        workers: 0,
        listen: vec![Listen::Tcp(SocketAddr::from(([0u16; 8], 80)))],
        tls_listen: vec![Listen::Tcp(SocketAddr::from(([0u16; 8], 443)))],
        control_socket: Some(PathBuf::from("/run/anchorite/control.sock")),
        pid_file: Some(PathBuf::from("/run/anchorite/anchorite.pid")),
        server_header: "anchorite".to_owned(),
        http2_cleartext: false,
        proxies: Proxies::default(),
        spool: PathBuf::from("/var/lib/anchorite/spool"),
        spool_max: 1 << 30,
    }
}

/// The name or number of a user or group, which may not be the superuser's.
pub(super) fn read_account(item: &Item<'_>, what: &str, faults: &mut Faults<'_>) -> Option<String> {
    let text = item.text(&format!("the name of a {what}"), faults)?;
    let number = text.value.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.value.parse::<u32>());
    if text.value == "root" || number == Some(Ok(0)) {
        let message = format!("{} as {what:?} would leave the confined processes the superuser's rights", quoted(text.value));
        item.report(message, format!("expected a {what} of its own, such as \"anchorite\""), faults);
        return None;
    }
    // (uid_t) -1 means "leave as it is" to setresuid(2).
    let impossible = matches!(number, Some(Ok(u32::MAX) | Err(_)));
    if text.value.is_empty() || impossible || text.value.contains(|c: char| c.is_control() || c.is_whitespace() || ":/,".contains(c)) {
        item.report(format!("{} is not the name of a {what}", quoted(text.value)), "", faults);
        return None;
    }
    Some(text.value.to_owned())
}

/// A path for the service's own use; `None`: `""`, or reported.
fn read_path(item: &Item<'_>, read: fn(&Text<'_>, &mut Faults<'_>) -> Option<PathBuf>, faults: &mut Faults<'_>) -> Option<PathBuf> {
    let text = item.text("a path, or \"\" for none", faults)?;
    if text.value.is_empty() {
        return None;
    }
    read(&text, faults)
}

/// What may stand in a header without changing the message around it: RFC 9110, section 5.5.
fn read_header_value(text: &Text<'_>, faults: &mut Faults<'_>) -> String {
    let visible = text.value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if !visible || text.value.trim() != text.value || text.value.len() > SERVER_HEADER_MAX {
        let help = format!("expected at most {SERVER_HEADER_MAX} visible ASCII characters, or \"\" to send none");
        faults.report(text.at.clone(), format!("{} cannot be the value of a header", quoted(text.value)), help);
    }
    text.value.to_owned()
}

/// The user and the group that the package makes.
const ACCOUNT: &str = "anchorite";
/// More than any machine has CPUs for.
const WORKERS_MAX: u32 = 1024;
/// Bytes of all spooled bodies.
const SPOOL_MAX: RangeInclusive<u64> = 64 << 10..=1 << 50;
/// Bytes of the `Server` header, so that a head still fits its buffer.
const SERVER_HEADER_MAX: usize = 128;

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
        assert_eq!((server.user.as_deref(), server.group.as_deref(), server.workers), (Some("anchorite"), Some("anchorite"), 0));
        assert_eq!(server.listen, [Listen::Tcp("[::]:80".parse().unwrap())]);
        assert_eq!(server.server_header, "anchorite");
        assert_eq!(with_a_site("[server]").server, default());
    }

    #[test]
    fn every_key_is_read() {
        let text = "[server]\nuser = \"www-data\"\ngroup = \"33\"\nworkers = 1024\nlisten = [\"0.0.0.0:80\", \"[::1]:81\"]\nserver_header = \"\"\nhttp2_cleartext = true";
        let server = with_a_site(text).server;
        assert_eq!((server.user.as_deref(), server.group.as_deref(), server.workers), (Some("www-data"), Some("33"), 1024));
        assert_eq!(server.listen, ["0.0.0.0:80", "[::1]:81"].map(|address| Listen::Tcp(address.parse().unwrap())));
        assert_eq!((server.server_header.as_str(), server.http2_cleartext), ("", true));
    }

    #[test]
    fn proxies_are_networks_or_none() {
        let proxies =
            with_a_site("[server]\nproxy_protocol_from = [\"10.0.0.0/8\", \"::1\"]\ntrusted_proxies = \"192.0.2.1\"").server.proxies;
        let shown = |networks: &[Network]| networks.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            (shown(&proxies.speaking), shown(&proxies.trusted)),
            (vec!["10.0.0.0/8".into(), "::1/128".into()], vec!["192.0.2.1/32".into()])
        );
        assert_eq!(with_a_site("[server]\nproxy_protocol_from = []\ntrusted_proxies = []").server.proxies, Proxies::default());
        let said = said("trusted_proxies = [\"10.0.0.1/8\"]");
        assert!(said[0].contains("its last bits are not zero"), "{said:?}");
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
                assert_eq!(said(&format!("{key} = \"{name}\"")), [format!("{what}, expected a {key} of its own, such as \"anchorite\"")]);
            }
        }
    }

    #[test]
    fn what_cannot_be_an_account_is_refused() {
        for name in ["", "4294967295", "4294967296", "a b", "a:b", "a/b", "a\\nb", "a\\u0000"] {
            let text: String = name.replace("\\u0000", "\\0");
            assert_eq!(said(&format!("user = \"{name}\"")), [format!("2:8: \"{text}\" is not the name of a user")]);
        }
        assert_eq!(said("user = 33"), ["2:8: \"user\" in [server] is an integer, expected the name of a user"]);
        assert_eq!(said("group = [\"a\"]"), ["2:9: \"group\" in [server] is a list, expected the name of a group"]);
    }

    #[test]
    fn workers_beyond_the_range_give_the_range() {
        for number in ["-1", "1025", "99999999999999999999"] {
            assert_eq!(
                said(&format!("workers = {number}")),
                [format!("2:11: \"workers\" in [server] is {number}, expected an integer from 0 to 1024")]
            );
        }
        assert_eq!(said("workers = \"2\""), ["2:11: \"workers\" in [server] is a string, expected an integer from 0 to 1024"]);
        assert_eq!(said("workers = 1.0"), ["2:11: \"workers\" in [server] is a float, expected an integer from 0 to 1024"]);
    }

    #[test]
    fn the_services_own_files_have_paths() {
        let server = with_a_site("[server]\ncontrol_socket = \"s\"\npid_file = \"../p\"").server;
        assert_eq!((server.control_socket, server.pid_file), (Some("/etc/anchorite/s".into()), Some("/etc/p".into())));
        let server = with_a_site("[server]\ncontrol_socket = \"\"\npid_file = \"\"").server;
        assert_eq!((server.control_socket, server.pid_file), (None, None));
        for (line, said_of_it) in [
            ("control_socket = 1", "2:18: \"control_socket\" in [server] is an integer, expected a path, or \"\" for none"),
            ("control_socket = \"/\"", "2:18: \"/\" is a directory, expected the path of a socket"),
            ("pid_file = \"/run/\"", "2:12: \"/run/\" is a directory, expected the path of a file"),
            ("pid_file = \"a\\u0000\"", "2:12: \"a\\0\" holds a NUL, expected a path"),
        ] {
            assert_eq!(said(line), [said_of_it]);
        }
        let long = said(&format!("control_socket = \"/{}\"", "a".repeat(107)));
        assert!(long[0].ends_with("is too long for a socket, expected at most 107 bytes"), "{long:?}");
    }

    #[test]
    fn the_spool_is_a_directory_and_a_size() {
        let server = with_a_site("[server]\nspool = \"s\"\nspool_max = \"64KiB\"").server;
        assert_eq!((server.spool, server.spool_max), (PathBuf::from("/etc/anchorite/s"), 64 << 10));
        for (line, said_of_it) in [
            ("spool = \"/\"", "2:9: \"/\" is the whole file system, expected a directory beneath \"/\""),
            ("spool = \"\"", "2:9: \"\" is not a path, expected a path"),
            ("spool = 1", "2:9: \"spool\" in [server] is an integer, expected a directory"),
            ("spool_max = \"65535B\"", "2:13: \"spool_max\" in [server] is \"65535B\", expected \"64KiB\" to \"1024TiB\""),
        ] {
            assert_eq!(said(line), [said_of_it]);
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
        assert_eq!(said("server_header = false"), ["2:17: \"server_header\" in [server] is a boolean, expected a string"]);
    }
}
