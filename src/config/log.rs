//! `[log]`: read and checked. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::{Level, Log, LogTarget, paths};
use std::path::Path;

pub(super) fn read(table: &Table<'_>, base: &Path, faults: &mut Faults<'_>) -> Log {
    let mut log = default();
    if let Some(text) = table.item("access").and_then(|item| item.text(ACCESS_EXPECTED, faults)) {
        log.access = read_target(&text, base, ACCESS_EXPECTED, faults).unwrap_or(log.access);
    }
    if let Some(text) = table.item("error").and_then(|item| item.text(ERROR_EXPECTED, faults)) {
        if text.value == "off" {
            faults.report(
                text.at.clone(),
                "\"error\" in [log] may not be \"off\"",
                format!("expected {ERROR_EXPECTED}"),
            );
        } else {
            log.error = read_target(&text, base, ERROR_EXPECTED, faults).unwrap_or(log.error);
        }
    }
    if let Some(level) = table.item("level").and_then(|item| item.choice(&LEVELS, faults)) {
        log.level = level;
    }
    if let Some(item) = table.item("format") {
        read_format(&item, faults);
    }
    log
}

pub(super) fn default() -> Log {
    let target = |name: &str| LogTarget::File(Path::new(LOG_DIRECTORY).join(name));
    Log {
        access: target("access.log"),
        error: target("error.log"),
        level: Level::Notice,
    }
}

fn read_target(text: &Text<'_>, base: &Path, expected: &str, faults: &mut Faults<'_>) -> Option<LogTarget> {
    match text.value {
        "stderr" => Some(LogTarget::Stderr),
        "off" => Some(LogTarget::Off),
        "syslog" => {
            faults.report(
                text.at.clone(),
                "\"syslog\" is not supported by this version",
                format!("expected {expected}"),
            );
            None
        }
        // A bare word is rather a mistaken "stderr" than a file of that name beside the configuration.
        word if !word.is_empty() && !word.contains(['/', '.']) => {
            faults.report(
                text.at.clone(),
                format!("{} is not a place for a log", quoted(word)),
                format!("expected {expected}"),
            );
            None
        }
        path if path.ends_with('/') => {
            faults.report(
                text.at.clone(),
                format!("{} is a directory", quoted(path)),
                format!("expected {expected}"),
            );
            None
        }
        _ => paths::directory(text, base, faults).map(LogTarget::File),
    }
}

fn read_format(item: &Item<'_>, faults: &mut Faults<'_>) {
    let Some(text) = item.text("\"combined\"", faults) else { return };
    if text.value != "combined" {
        item.report(
            format!("{} is not supported by this version", quoted(text.value)),
            "expected \"combined\"",
            faults,
        );
    }
}

const LOG_DIRECTORY: &str = "/var/log/anchorite";
const LEVELS: [(&str, Level); 5] = [
    ("error", Level::Error),
    ("warning", Level::Warning),
    ("notice", Level::Notice),
    ("info", Level::Info),
    ("debug", Level::Debug),
];
const ACCESS_EXPECTED: &str = "a path, \"stderr\" or \"off\"";
const ERROR_EXPECTED: &str = "a path or \"stderr\"";
