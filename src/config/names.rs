//! The names a configuration file may hold, and what is said about one that it may not. Does no I/O.
//!
//! This is the one list of keys: a key that is not here cannot be read, and anchorite.toml(5) is compared with it by a test.

use super::diagnostic::quoted;

/// A table: its keys, and the keys that it will have. Those are refused by name, never ignored: a file written for a later version
/// may rely on them for its safety.
pub(super) struct Names {
    pub(super) table: &'static str,
    /// As it stands in a file.
    pub(super) label: &'static str,
    pub(super) keys: &'static [&'static str],
    pub(super) planned: &'static [&'static str],
}

/// The tables and keys that a file may hold outside any table.
pub(super) const FILE: Names = Names {
    table: "",
    label: "the file",
    keys: &["include", "server", "jail", "log", "mime", "limits", "tls", "backend", "cgi", "auth", "site"],
    planned: &["acme", "users"],
};

pub(super) const SERVER: Names = Names {
    table: "server",
    label: "[server]",
    keys: &[
        "user",
        "group",
        "workers",
        "listen",
        "tls_listen",
        "control_socket",
        "pid_file",
        "spool",
        "spool_max",
        "server_header",
        "http2_cleartext",
        "proxy_protocol_from",
        "trusted_proxies",
    ],
    planned: &[],
};

pub(super) const JAIL: Names = Names { table: "jail", label: "[jail]", keys: &["mode", "root", "also", "allow_missing"], planned: &[] };

pub(super) const LOG: Names = Names { table: "log", label: "[log]", keys: &["access", "error", "level", "format"], planned: &[] };

/// Any media type is a key of it.
pub(super) const MIME: Names = Names { table: "mime", label: "[mime]", keys: &[], planned: &[] };

pub(super) const LIMITS: Names = Names {
    table: "limits",
    label: "[limits]",
    keys: &[
        "connections",
        "connections_per_client",
        "request_line",
        "header_bytes",
        "header_count",
        "body",
        "header_timeout",
        "body_timeout",
        "min_rate",
        "write_timeout",
        "keepalive_timeout",
        "keepalive_requests",
        "drain_timeout",
        "requests",
    ],
    planned: &[],
};

pub(super) const TLS: Names = Names {
    table: "tls",
    label: "[tls]",
    keys: &["min_version", "key_isolation", "session_tickets", "ticket_keys", "client_ca", "client_auth"],
    planned: &[],
};

/// Of a site: one, or a list of them.
pub(super) const SITE_TLS: Names = Names {
    table: "site.tls",
    label: "[site.tls]",
    keys: &["certificate", "key", "min_version", "key_isolation", "client_ca", "client_auth"],
    planned: &[],
};

/// Any name is a key of it.
pub(super) const AUTHS: Names = Names { table: "auth", label: "[auth.NAME]", keys: &[], planned: &[] };

pub(super) const AUTH: Names = Names { table: "auth", label: "[auth.NAME]", keys: &["type", "realm", "file"], planned: &[] };

pub(super) const BACKENDS: Names = Names { table: "backend", label: "[backend.NAME]", keys: &[], planned: &[] };

pub(super) const BACKEND: Names = Names {
    table: "backend",
    label: "[backend.NAME]",
    keys: &[
        "type",
        "group",
        "address",
        "balance",
        "script_root",
        "sendfile",
        "connect_timeout",
        "read_timeout",
        "max_connections",
        "keep",
        "keep_idle",
        "queue",
        "buffer",
        "env",
        "spawn",
    ],
    planned: &[],
};

pub(super) const SPAWN: Names =
    Names { table: "spawn", label: "[backend.NAME.spawn]", keys: &["command", "processes", "user", "group", "env"], planned: &[] };

/// Of the programs of rules with `cgi`.
pub(super) const CGI: Names = Names {
    table: "cgi",
    label: "[cgi]",
    keys: &[
        "user",
        "group",
        "min_uid",
        "max_programs",
        "queue",
        "read_timeout",
        "run_timeout",
        "buffer",
        "env",
        "cpu_time",
        "memory",
        "file_size",
        "max_processes",
    ],
    planned: &[],
};

pub(super) const SITE: Names = Names {
    table: "site",
    label: "[[site]]",
    keys: &[
        "name",
        "listen",
        "tls_listen",
        "tls",
        "http2",
        "hsts",
        "root",
        "index",
        "listing",
        "hidden",
        "symlinks",
        "error_pages",
        "charset",
        "compress",
        "https_redirect",
        "access_log",
        "rule",
    ],
    planned: &["htaccess", "users", "user"],
};

pub(super) const RULE: Names = Names {
    table: "rule",
    label: "[[site.rule]]",
    keys: &[
        "path",
        "regex",
        "method",
        "client",
        "host",
        "request_header",
        "exists",
        "header",
        "expires",
        "allow",
        "deny",
        "auth",
        "body",
        "requests",
        "listing",
        "index",
        "compress",
        "cache",
        "rate",
        "root",
        "alias",
        "redirect",
        "status",
        "rewrite",
        "try",
        "respond",
        "respond_body",
        "backend",
        "check",
        "cgi",
    ],
    planned: &[],
};

/// Every table that this version reads.
const TABLES: [&Names; 13] = [&SERVER, &JAIL, &LOG, &MIME, &LIMITS, &TLS, &SITE_TLS, &BACKEND, &SPAWN, &CGI, &AUTH, &SITE, &RULE];

/// Every key of the configuration file, with the table it stands in: `site.rule` is that of the rules.
pub fn known_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.into_iter().flat_map(|names| names.keys.iter().map(|key| (names.label.trim_matches(['[', ']']), *key)))
}

/// What is wrong with a key that `names` does not have, and what to do about it.
pub(super) fn explain_unknown(names: &Names, key: &str) -> (String, String) {
    let shown = quoted(key);
    if let Some(help) = beside_rule(names, key) {
        return (format!("unknown key {shown} in {}", names.label), help);
    }
    if names.planned.contains(&key) {
        let help = belongs(key).map_or(String::new(), |tables| format!("but {tables} has a key of that name"));
        return (format!("{shown} is not supported by this version"), help);
    }
    let what = if names.table.is_empty() { format!("unknown name {shown}") } else { format!("unknown key {shown} in {}", names.label) };
    let help = if let Some(place) = elsewhere(names, key) {
        place
    } else if let Some(name) = nearest(key, names.keys.iter().copied()) {
        format!("did you mean {}?", quoted(name))
    } else if let Some(name) = nearest(key, names.planned.iter().copied()) {
        format!("did you mean {}, which is not supported by this version?", quoted(name))
    } else {
        let known: Vec<String> = names.keys.iter().map(|name| as_written(names, name)).collect();
        format!("known here: {}", known.join(", "))
    };
    (what, help)
}

/// The name among `candidates` that `written` was most likely meant to be: at most two slips of the fingers away, or one the beginning of the other.
pub(super) fn nearest<'n>(written: &str, candidates: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // Distances take time that grows with both lengths; no known name is nearly that long.
    if written.len() > NEAREST_MAX {
        return None;
    }
    let written = written.to_lowercase();
    candidates.filter_map(|name| Some((distance(&written, name)?, name))).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// How far a name is from what was written; `None`: too far. A short name allows fewer slips, or every name would be near.
fn distance(written: &str, name: &str) -> Option<usize> {
    let slips = strsim::damerau_levenshtein(written, name);
    let allowed = if name.len() <= 3 { 1 } else { 2 };
    if slips <= allowed {
        return Some(slips);
    }
    let shorter = written.len().min(name.len());
    (shorter >= PREFIX_MIN && (written.starts_with(name) || name.starts_with(written))).then_some(allowed + 1)
}

/// In TOML a key after `[[site.rule]]` is the rule's, wherever the writer's indentation puts it.
fn beside_rule(names: &Names, key: &str) -> Option<String> {
    let has = |table: &Names| table.keys.contains(&key) || table.planned.contains(&key);
    let in_rule = names.label == RULE.label && !has(&RULE) && has(&SITE);
    let in_site = names.label == SITE.label && !has(&SITE) && has(&RULE);
    let place = if in_rule {
        "it belongs to the site, and so before the first [[site.rule]]: a key after that belongs to the rule"
    } else if in_site {
        "it belongs to a rule, and so behind a [[site.rule]]"
    } else {
        return None;
    };
    let planned = SITE.planned.contains(&key) || RULE.planned.contains(&key);
    let later = if planned { "; this version does not support it" } else { "" };
    Some(format!("{place}{later}"))
}

/// Where a key that stands in the wrong table belongs, when it has one place or a few.
fn elsewhere(names: &Names, key: &str) -> Option<String> {
    if key == "include" {
        return Some("it belongs at the head of the file, before the first table".to_owned());
    }
    if FILE.keys.contains(&key) && !names.table.is_empty() {
        return Some(format!("it is a table of its own: {}", as_written(&FILE, key)));
    }
    if let Some(tables) = belongs(key) {
        return Some(format!("it belongs in {tables}"));
    }
    let planned = TABLES.iter().find(|table| table.planned.contains(&key))?;
    Some(format!("it belongs in {} and is not supported by this version", planned.label))
}

/// The tables that have a key: `[jail] or [[site]]`.
fn belongs(key: &str) -> Option<String> {
    let labels: Vec<&str> = TABLES.iter().filter(|table| table.keys.contains(&key)).map(|table| table.label).collect();
    match labels.split_last() {
        Some((last, [])) => Some((*last).to_owned()),
        Some((last, others)) => Some(format!("{} or {last}", others.join(", "))),
        None => None,
    }
}

/// A name as the file would have it: a table in its brackets, a key in quotes.
fn as_written(names: &Names, name: &str) -> String {
    match TABLES.iter().find(|table| table.table == name) {
        Some(table) if names.table.is_empty() => table.label.to_owned(),
        _ => quoted(name),
    }
}

/// Length in bytes beyond which no nearest name is looked for.
const NEAREST_MAX: usize = 64;
/// Bytes that must agree before one name counts as the beginning of another.
const PREFIX_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn explained(names: &Names, key: &str) -> String {
        let (what, help) = explain_unknown(names, key);
        format!("{what}, {help}")
    }

    #[test]
    fn a_slip_gives_the_nearest_name() {
        for (names, written, meant) in [
            (&SERVER, "lisen", "listen"),
            (&SERVER, "Listen", "listen"),
            (&SERVER, "usre", "user"),
            (&SERVER, "worker", "workers"),
            (&SERVER, "server_headers", "server_header"),
            (&SITE, "nmae", "name"),
            (&SITE, "symlink", "symlinks"),
            (&LIMITS, "keepalive_time_out", "keepalive_timeout"),
            (&LIMITS, "conn", "connections"),
        ] {
            assert_eq!(explained(names, written), format!("unknown key {written:?} in {}, did you mean {meant:?}?", names.label));
        }
        assert_eq!(explained(&FILE, "sites"), r#"unknown name "sites", did you mean "site"?"#);
        assert_eq!(explained(&FILE, "sever"), r#"unknown name "sever", did you mean "server"?"#);
    }

    #[test]
    fn a_key_of_another_table_is_sent_there() {
        assert_eq!(explained(&SERVER, "listing"), r#"unknown key "listing" in [server], it belongs in [[site]] or [[site.rule]]"#);
        assert_eq!(explained(&LOG, "root"), r#"unknown key "root" in [log], it belongs in [jail], [[site]] or [[site.rule]]"#);
        assert_eq!(explained(&FILE, "listen"), r#"unknown name "listen", it belongs in [server] or [[site]]"#);
        assert_eq!(
            explained(&SITE, "include"),
            r#"unknown key "include" in [[site]], it belongs at the head of the file, before the first table"#
        );
        assert_eq!(explained(&SITE, "limits"), r#"unknown key "limits" in [[site]], it is a table of its own: [limits]"#);
        assert_eq!(explained(&SERVER, "hsts"), r#"unknown key "hsts" in [server], it belongs in [[site]]"#);
        assert_eq!(explained(&FILE, "htaccess"), r#"unknown name "htaccess", it belongs in [[site]] and is not supported by this version"#);
    }

    #[test]
    fn what_resembles_nothing_gets_the_list() {
        assert_eq!(explained(&JAIL, "zzz"), r#"unknown key "zzz" in [jail], known here: "mode", "root", "also", "allow_missing""#);
        assert_eq!(
            explained(&FILE, "x"),
            r#"unknown name "x", known here: "include", [server], [jail], [log], [mime], [limits], [tls], [backend.NAME], [cgi], [auth.NAME], [[site]]"#
        );
        assert!(explained(&JAIL, &"m".repeat(10_000)).len() < 400);
    }

    #[test]
    fn what_is_planned_is_refused_by_name() {
        for names in TABLES.into_iter().chain([&FILE]) {
            for key in names.planned {
                assert_eq!(explain_unknown(names, key).0, format!("{key:?} is not supported by this version"));
            }
        }
    }

    #[test]
    fn what_is_planned_here_and_known_elsewhere_says_so() {
        assert_eq!(
            explained(&SITE, "user"),
            r#""user" is not supported by this version, but [server], [backend.NAME.spawn] or [cgi] has a key of that name"#
        );
        assert_eq!(
            explained(&SITE, "htacces"),
            r#"unknown key "htacces" in [[site]], did you mean "htaccess", which is not supported by this version?"#
        );
    }

    #[test]
    fn a_key_that_fell_into_a_rule_is_sent_back_and_the_other_way_round() {
        let site = "it belongs to the site, and so before the first [[site.rule]]: a key after that belongs to the rule";
        for key in ["name", "charset", "hidden", "access_log"] {
            assert_eq!(explained(&RULE, key), format!("unknown key {key:?} in [[site.rule]], {site}"));
        }
        assert_eq!(
            explained(&RULE, "htaccess"),
            format!("unknown key \"htaccess\" in [[site.rule]], {site}; this version does not support it")
        );
        let rule = "it belongs to a rule, and so behind a [[site.rule]]";
        for key in ["path", "alias", "redirect", "respond", "try"] {
            assert_eq!(explained(&SITE, key), format!("unknown key {key:?} in [[site]], {rule}"));
        }
        for key in ["backend", "auth"] {
            assert_eq!(explained(&SITE, key), format!("unknown key {key:?} in [[site]], {rule}"));
        }
    }

    #[test]
    fn no_name_is_listed_twice_and_every_table_is_a_name_of_the_file() {
        for names in TABLES.into_iter().chain([&FILE]) {
            let all: Vec<&&str> = names.keys.iter().chain(names.planned).collect();
            assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{}", names.label);
        }
        let tables: Vec<&str> =
            TABLES.iter().map(|names| names.table).filter(|table| !["rule", "spawn", "site.tls"].contains(table)).collect();
        assert_eq!(tables, FILE.keys[1..]);
    }
}
