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
    if taken.is_empty() {
        faults.report_missing(item.at.clone(), "\"listen\" in [server] has no address", LISTEN_HELP);
    }
    taken.into_iter().map(|(address, _)| address).collect()
}

/// Whether two sockets would want the same address: "[::]" also takes IPv4.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let takes = |all: SocketAddr, part: SocketAddr| match (all.ip().to_canonical(), part.ip().to_canonical()) {
        (IpAddr::V6(all), _) if all.is_unspecified() => true,
        (IpAddr::V4(all), IpAddr::V4(_)) if all.is_unspecified() => true,
        (all, part) => all == part,
    };
    one.port() == other.port() && (takes(one, other) || takes(other, one))
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
