//! `[log]`: read and checked. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::template::{self, Captures, Purpose};
use super::{Level, Log, LogFormat, LogTarget, names, paths};
use std::path::Path;

pub(super) fn read(table: &Table<'_>, faults: &mut Faults<'_>) -> Log {
    let mut log = default();
    if let Some(text) = table.item("access", faults).and_then(|item| item.text(ACCESS_EXPECTED, faults)) {
        log.access = read_target(&text, ACCESS_EXPECTED, faults).unwrap_or(log.access);
    }
    if let Some(text) = table.item("error", faults).and_then(|item| item.text(ERROR_EXPECTED, faults)) {
        if text.value == "off" {
            faults.report(text.at.clone(), "\"error\" in [log] may not be \"off\"", format!("expected {ERROR_EXPECTED}"));
        } else {
            log.error = read_target(&text, ERROR_EXPECTED, faults).unwrap_or(log.error);
        }
    }
    if let Some(level) = table.item("level", faults).and_then(|item| item.choice(&LEVELS, faults)) {
        log.level = level;
    }
    if let Some(item) = table.item("format", faults) {
        log.format = read_format(&item, faults).unwrap_or(log.format);
    }
    log
}

pub(super) fn default() -> Log {
    let target = |name: &str| LogTarget::File(Path::new(LOG_DIRECTORY).join(name));
    Log { access: target("access.log"), error: target("error.log"), format: LogFormat::Combined, level: Level::Notice }
}

/// `access_log` of a site; `None`: the site has none of its own.
pub(super) fn read_access_log(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<LogTarget> {
    let text = item.text(ACCESS_EXPECTED, faults)?;
    if text.value.is_empty() {
        return None;
    }
    read_target(&text, ACCESS_EXPECTED, faults)
}

fn read_target(text: &Text<'_>, expected: &str, faults: &mut Faults<'_>) -> Option<LogTarget> {
    match text.value {
        "stderr" => Some(LogTarget::Stderr),
        "off" => Some(LogTarget::Off),
        "syslog" => Some(LogTarget::Syslog),
        // A bare word is rather a mistaken "stderr" than a file of that name beside the configuration.
        word if !word.is_empty() && !word.contains(['/', '.']) => {
            faults.report(text.at.clone(), format!("{} is not a place for a log", quoted(word)), format!("expected {expected}"));
            None
        }
        path if !path.is_empty() && matches!(path.rsplit('/').next(), Some("" | "." | "..")) => {
            faults.report(text.at.clone(), format!("{} is a directory", quoted(path)), format!("expected {expected}"));
            None
        }
        _ => paths::directory(text, faults).map(LogTarget::File),
    }
}

/// A name, or a template, which has at least one variable: a line that is always the same is a mistyped name.
fn read_format(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<LogFormat> {
    let text = item.text(FORMAT_EXPECTED, faults)?;
    if text.value.contains(['{', '}']) {
        let captures = Captures { count: 0, source: "a log line has no captures".to_owned() };
        return template::read(&text, Purpose::LogLine, &captures, faults).map(LogFormat::Template);
    }
    if let Some((_, format)) = FORMATS.iter().find(|(name, _)| *name == text.value) {
        return Some(format.clone());
    }
    let help = match names::nearest(text.value, FORMATS.iter().map(|(name, _)| *name)) {
        Some(name) => format!("did you mean {name:?}?"),
        None => format!("expected {FORMAT_EXPECTED}"),
    };
    item.report(format!("\"format\" in [log] is {}", quoted(text.value)), help, faults);
    None
}

pub(super) const FORMATS: [(&str, LogFormat); 4] = [
    ("common", LogFormat::Common),
    ("combined", LogFormat::Combined),
    ("vhost_combined", LogFormat::VhostCombined),
    ("json", LogFormat::Json),
];
const FORMAT_EXPECTED: &str = "\"common\", \"combined\", \"vhost_combined\", \"json\" or a template such as \"{client} {status} {uri}\"";
const LOG_DIRECTORY: &str = "/var/log/anchorite";
pub(super) const LEVELS: [(&str, Level); 5] =
    [("error", Level::Error), ("warning", Level::Warning), ("notice", Level::Notice), ("info", Level::Info), ("debug", Level::Debug)];
const ACCESS_EXPECTED: &str = "a path, \"syslog\", \"stderr\" or \"off\"";
const ERROR_EXPECTED: &str = "a path, \"syslog\" or \"stderr\"";

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;
    use std::path::PathBuf;

    fn said(line: &str) -> Vec<String> {
        told(&format!("[log]\n{line}\n[[site]]\nroot = \"/srv/www\"\n"))
    }

    fn file(path: &str) -> LogTarget {
        LogTarget::File(PathBuf::from(path))
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let log = with_a_site("").log;
        assert_eq!(log.access, file("/var/log/anchorite/access.log"));
        assert_eq!(log.error, file("/var/log/anchorite/error.log"));
        assert_eq!((log.format.clone(), log.level), (LogFormat::Combined, Level::Notice));
        assert_eq!(with_a_site("[log]\nformat = \"combined\"").log, log);
    }

    #[test]
    fn every_key_is_read() {
        let log = with_a_site("[log]\naccess = \"off\"\nerror = \"stderr\"\nlevel = \"debug\"").log;
        assert_eq!((log.access, log.error, log.level), (LogTarget::Off, LogTarget::Stderr, Level::Debug));
        let log = with_a_site("[log]\naccess = \"access.log\"\nerror = \"../log/error\"").log;
        assert_eq!((log.access, log.error), (file("/etc/anchorite/access.log"), file("/etc/log/error")));
        for (level, _) in LEVELS {
            assert_eq!(said(&format!("level = \"{level}\"")), [""; 0]);
        }
    }

    #[test]
    fn what_is_no_place_for_a_log_is_refused() {
        for (line, said_of_it) in [
            ("access = \"stdout\"", "2:10: \"stdout\" is not a place for a log, expected a path, \"syslog\", \"stderr\" or \"off\""),
            ("error = \"off\"", "2:9: \"error\" in [log] may not be \"off\", expected a path, \"syslog\" or \"stderr\""),
            ("access = \"/var/log/\"", "2:10: \"/var/log/\" is a directory, expected a path, \"syslog\", \"stderr\" or \"off\""),
            ("access = \"..\"", "2:10: \"..\" is a directory, expected a path, \"syslog\", \"stderr\" or \"off\""),
            ("access = \"\"", "2:10: \"\" is not a path, expected a path"),
            ("access = false", "2:10: \"access\" in [log] is a boolean, expected a path, \"syslog\", \"stderr\" or \"off\""),
            ("error = 1", "2:9: \"error\" in [log] is an integer, expected a path, \"syslog\" or \"stderr\""),
        ] {
            assert_eq!(said(line), [said_of_it]);
        }
    }

    #[test]
    fn levels_and_formats_are_words_of_a_list() {
        assert_eq!(said("level = \"notcie\""), ["2:9: \"level\" in [log] is \"notcie\", did you mean \"notice\"?"]);
        assert_eq!(
            said("level = \"loud\""),
            ["2:9: \"level\" in [log] is \"loud\", expected \"error\", \"warning\", \"notice\", \"info\" or \"debug\""]
        );
        assert_eq!(
            said("level = 3"),
            ["2:9: \"level\" in [log] is an integer, expected \"error\", \"warning\", \"notice\", \"info\" or \"debug\""]
        );
        let expected = "expected \"common\", \"combined\", \"vhost_combined\", \"json\" or a template such as \"{client} {status} {uri}\"";
        for (line, said_of_it) in [
            ("format = 1", format!("2:10: \"format\" in [log] is an integer, {expected}")),
            ("format = \"\"", format!("2:10: \"format\" in [log] is \"\", {expected}")),
            ("format = \"%h %l %u\"", format!("2:10: \"format\" in [log] is \"%h %l %u\", {expected}")),
            ("format = \"comon\"", "2:10: \"format\" in [log] is \"comon\", did you mean \"common\"?".to_owned()),
            ("format = \"{client} {uir}\"", "2:20: unknown variable \"{uir}\", did you mean \"{uri}\"?".to_owned()),
            ("format = \"{1}\"", "2:11: \"{1}\" stands for nothing, a log line has no captures".to_owned()),
        ] {
            assert_eq!(said(line), [said_of_it]);
        }
    }

    #[test]
    fn formats_are_read() {
        for (name, format) in FORMATS {
            assert_eq!(with_a_site(&format!("[log]\nformat = {name:?}")).log.format, format);
        }
        let format = with_a_site("[log]\nformat = \"{client} {header.Referer}\"").log.format;
        assert!(matches!(format, LogFormat::Template(template) if template.to_string() == "{client} {header.referer}"));
        assert_eq!(with_a_site("[log]\naccess = \"syslog\"").log.access, LogTarget::Syslog);
    }
}
