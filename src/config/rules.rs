//! `[[site.rule]]`: matchers and changes read and checked; what a rule does is read by `act`. Does no I/O.

use super::act;
use super::auths;
use super::danger::Shown;
use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::host_name::host_name;
use super::limits::BODY;
use super::mime::is_token;
use super::patterns::Patterns;
use super::template::{self, Captures, Purpose};
use super::{
    AskedFor, Auth, Backend, Changes, Exists, Matchers, Rule, RulePlace, Template, compress, names, network, regex, requests, segments,
};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Regular expressions that have been found good, with the number of their groups: many sites share one.
pub(super) type Regexes = HashMap<String, u8>;

/// The rules of a site, in order.
pub(super) fn read(site: &Table<'_>, around: &mut Around<'_>, faults: &mut Faults<'_>) -> Vec<Rule> {
    let tables = site.tables(&names::RULE, faults);
    tables.iter().map(|table| read_one(table, around, faults)).collect()
}

/// What is known around a site's rules.
pub(super) struct Around<'a> {
    /// What the site's name says that `{1}` is, where a rule has nothing of its own to stand for it.
    pub(super) of_name: Captures,
    pub(super) backends: &'a [Backend],
    pub(super) auths: &'a [Auth],
    pub(super) shown: &'a mut Shown,
    pub(super) regexes: &'a mut Regexes,
}

fn read_one(table: &Table<'_>, around: &mut Around<'_>, faults: &mut Faults<'_>) -> Rule {
    let paths = read_paths(table, faults);
    let (regex, groups) = read_regex(table, around.regexes, faults);
    let has_star = paths.iter().flatten().any(|text| text.value.contains('*'));
    let own = captures(&paths, regex.is_some(), groups);
    let of_name = regex.is_none() && !has_star && around.of_name.count > 0;
    let captures = if of_name { &around.of_name } else { &own };
    let (backends, shown) = (around.backends, &mut *around.shown);
    let patterns = Patterns { paths: paths.as_deref(), captures, may_be_host: of_name || regex.is_some(), backends };
    let act = act::read(table, &patterns, shown, faults);
    let (file, line) = faults.file_and_line(table.at.start);
    let place = RulePlace { file: file.to_string_lossy().into_owned(), line: u32::try_from(line).unwrap_or(u32::MAX) };
    let path = paths.unwrap_or_default().iter().map(|text| text.value.to_owned()).collect();
    Rule { matchers: read_matchers(table, path, regex, faults), changes: read_changes(table, captures, around.auths, faults), act, place }
}

fn asked_for(item: &Item<'_>, auths: &[Auth], faults: &mut Faults<'_>) -> Option<AskedFor> {
    let number = auths::named(item, auths, faults)?;
    let auth = auths.get(usize::from(number))?;
    Some(AskedFor { number, name: auth.name.clone(), realm: auth.realm.clone() })
}

fn read_matchers(table: &Table<'_>, path: Vec<String>, regex: Option<String>, faults: &mut Faults<'_>) -> Matchers {
    Matchers {
        path,
        regex,
        method: words(table, "method", METHOD_EXPECTED, check_method, faults),
        client: networks(table, "client", faults),
        host: words(table, "host", HOST_EXPECTED, check_host, faults),
        request_header: read_request_header(table, faults),
        exists: table.item("exists", faults).and_then(|item| item.choice(&EXISTS, faults)),
    }
}

fn read_changes(table: &Table<'_>, captures: &Captures, auths: &[Auth], faults: &mut Faults<'_>) -> Changes {
    let index = table.item("index", faults);
    Changes {
        header: read_header(table, captures, faults),
        expires: table.item("expires", faults).and_then(|item| item.duration(EXPIRES, faults)),
        allow: networks(table, "allow", faults),
        deny: networks(table, "deny", faults),
        auth: table.item("auth", faults).and_then(|item| asked_for(&item, auths, faults)),
        body: table.item("body", faults).and_then(|item| item.large_size(BODY, faults)),
        requests: table.item("requests", faults).and_then(|item| requests::read(&item, faults)).flatten(),
        listing: table.item("listing", faults).and_then(|item| item.boolean(faults)),
        index: index.map(|item| segments::read_index(&item, faults)),
        compress: table.item("compress", faults).map(|item| compress::read(&item, faults)),
        cache: table.item("cache", faults).and_then(|item| item.duration(CACHE, faults)),
        rate: table.item("rate", faults).and_then(|item| item.rate(RATE, faults)),
    }
}

/// `None`: there is none, or what is there has been reported.
fn read_paths<'d>(table: &Table<'d>, faults: &mut Faults<'_>) -> Option<Vec<Text<'d>>> {
    let item = table.item("path", faults)?;
    let texts = item.text_or_texts(PATH_EXPECTED, faults)?;
    report_empty(&item, PATH_EXPECTED, faults);
    let mut paths = Vec::new();
    for text in texts {
        match check_path(text.value) {
            Ok(()) => paths.push(text),
            Err((what, help)) => faults.report(text.at.clone(), format!("{} {what}", quoted(text.value)), help),
        }
    }
    (!paths.is_empty()).then_some(paths)
}

/// A pattern is compared with a path that is decoded and normalised, so one that is not so itself would match nothing, silently.
fn check_path(pattern: &str) -> Result<(), (&'static str, &'static str)> {
    if pattern.starts_with(['^', '~']) || pattern.ends_with('$') {
        return Err(("is not a path pattern", "for a regular expression there is \"regex\""));
    }
    if !pattern.starts_with(['/', '*']) {
        return Err(("is not a path pattern", "expected it to begin with \"/\" or \"*\""));
    }
    if pattern.contains('\0') {
        return Err(("holds a NUL", "which no path does"));
    }
    if pattern.contains("**") {
        return Err(("has two stars in a row", "expected one, which stands for \"/\" too"));
    }
    if pattern.contains("//") || pattern.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(("matches nothing", "\"//\", \"/./\" and \"/../\" are resolved before a path is compared"));
    }
    if pattern.matches('*').count() > STARS_MAX {
        return Err(("has more than 9 stars", ""));
    }
    Ok(())
}

/// The expression and the number of its groups.
fn read_regex(table: &Table<'_>, regexes: &mut Regexes, faults: &mut Faults<'_>) -> (Option<String>, Option<u8>) {
    let text = table.item("regex", faults).and_then(|item| item.text("a regular expression", faults));
    let Some(text) = text else { return (None, None) };
    let pattern = text.value.to_owned();
    if let Some(groups) = regexes.get(text.value) {
        return (Some(pattern), Some(*groups));
    }
    match regex::groups(text.value) {
        Ok(groups) => {
            regexes.insert(pattern.clone(), groups);
            (Some(pattern), Some(groups))
        }
        Err(fault) => {
            let at = text.part(fault.at, faults);
            faults.report(at, format!("regular expression: {}", fault.message), "");
            (Some(pattern), None)
        }
    }
}

/// What `{1}`… stand for: the groups of the regular expression, else what the stars of the path stand for. Where several paths may match,
/// only the stars that all of them have.
fn captures(paths: &Option<Vec<Text<'_>>>, has_regex: bool, groups: Option<u8>) -> Captures {
    let counted = |count: u8, what: &str| match count {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let (count, source) = if has_regex {
        // One that is faulty has been reported; its groups cannot be counted.
        let count = groups.unwrap_or(u8::MAX);
        (count, format!("the regex has {}", counted(count, "group")))
    } else {
        let stars = |text: &Text<'_>| u8::try_from(text.value.matches('*').count()).unwrap_or(u8::MAX);
        let fewest = paths.iter().flatten().min_by_key(|text| stars(text));
        match fewest {
            Some(text) => (stars(text), format!("the path {} has {}", quoted(text.value), counted(stars(text), "star"))),
            None => (0, "the rule has neither a \"regex\" nor a \"path\" with a star".to_owned()),
        }
    };
    Captures { count, source }
}

/// A string or a list of strings, each checked and as it is compared.
fn words(
    table: &Table<'_>,
    key: &'static str,
    expected: &str,
    check: fn(&str) -> Result<String, String>,
    faults: &mut Faults<'_>,
) -> Vec<String> {
    let Some(item) = table.item(key, faults) else { return Vec::new() };
    report_empty(&item, expected, faults);
    let mut list = Vec::new();
    for text in item.text_or_texts(expected, faults).unwrap_or_default() {
        match check(text.value) {
            Ok(word) => list.push(word),
            Err(help) => faults.report(text.at.clone(), format!("{} is not possible here", quoted(text.value)), help),
        }
    }
    list
}

/// A list without elements would match nothing, and reads as if it matched everything.
fn report_empty(item: &Item<'_>, expected: &str, faults: &mut Faults<'_>) {
    if item.is_empty_list() {
        item.report("an empty list matches nothing", format!("expected {expected}"), faults);
    }
}

/// RFC 9110, section 9.1: a token, and case-sensitive; all that are registered are upper case.
fn check_method(word: &str) -> Result<String, String> {
    if !is_token(word) {
        return Err(format!("expected {METHOD_EXPECTED}"));
    }
    let upper = word.to_ascii_uppercase();
    if upper == word { Ok(upper) } else { Err(format!("methods are case-sensitive: did you mean {upper:?}?")) }
}

fn check_host(word: &str) -> Result<String, String> {
    match host_name(word) {
        Ok(name) if name.is_empty() => Err(format!("expected {HOST_EXPECTED}")),
        Ok(name) => Ok(name),
        Err(help) => Err(help.to_owned()),
    }
}

fn networks(table: &Table<'_>, key: &'static str, faults: &mut Faults<'_>) -> Vec<super::Network> {
    table.item(key, faults).map_or_else(Vec::new, |item| network::read(&item, faults))
}

fn read_request_header(table: &Table<'_>, faults: &mut Faults<'_>) -> Vec<(String, String)> {
    let mut list = Vec::new();
    for (name, value) in header_pairs(table, "request_header", "a table such as { User-Agent = \"*bot*\" }", faults) {
        if value.value.contains(char::is_control) {
            let what = format!("{} matches nothing", quoted(value.value));
            faults.report(value.at, what, "the value of a header has no control characters");
            continue;
        }
        list.push((name.value.to_ascii_lowercase(), value.value.to_owned()));
    }
    list
}

fn read_header(table: &Table<'_>, captures: &Captures, faults: &mut Faults<'_>) -> Vec<(String, Template)> {
    let mut list = Vec::new();
    for (name, value) in header_pairs(table, "header", "a table such as { X-Frame-Options = \"DENY\" }", faults) {
        if let Some((_, why)) = OWN_HEADERS.iter().find(|(own, _)| name.value.eq_ignore_ascii_case(own)) {
            faults.report(name.at, format!("{} cannot be set", quoted(name.value)), *why);
            continue;
        }
        if let Some(template) = template::read(&value, Purpose::Header, captures, faults) {
            list.push((name.value.to_owned(), template));
        }
    }
    list
}

/// Names of headers, each once, and their values.
fn header_pairs<'d>(table: &Table<'d>, key: &'static str, expected: &str, faults: &mut Faults<'_>) -> Vec<(Text<'d>, Text<'d>)> {
    let Some(item) = table.item(key, faults) else { return Vec::new() };
    let mut taken: HashMap<String, usize> = HashMap::new();
    let mut list = Vec::new();
    for (name, value) in item.pairs(expected, faults).unwrap_or_default() {
        if !is_token(name.value) {
            let what = format!("{} is not the name of a header", quoted(name.value));
            faults.report(name.at, what, "expected letters, digits and \"-\"");
            continue;
        }
        let lower = name.value.to_ascii_lowercase();
        if let Some(first) = taken.get(&lower) {
            let help = format!("first given at {}; case does not matter", faults.place_name(*first));
            faults.report(name.at, format!("{} is given twice", quoted(name.value)), help);
            continue;
        }
        taken.insert(lower, name.at.start);
        list.push((name, value));
    }
    list
}

/// Headers that say where a message ends or belong to one connection (RFC 9110, section 7.6.1; RFC 9112, section 6), or that the server alone
/// knows the value of.
const OWN_HEADERS: [(&str, &str); 11] = [
    ("connection", HOP_BY_HOP),
    ("keep-alive", HOP_BY_HOP),
    ("proxy-connection", HOP_BY_HOP),
    ("te", HOP_BY_HOP),
    ("trailer", HOP_BY_HOP),
    ("upgrade", HOP_BY_HOP),
    ("transfer-encoding", FRAMING),
    ("content-length", FRAMING),
    ("content-range", FRAMING),
    ("date", "the server always sends its own time"),
    ("server", "it is \"server_header\" in [server]"),
];
const HOP_BY_HOP: &str = "it belongs to the connection and not to the response";
const FRAMING: &str = "it says where the response ends, which only the server knows";
const EXISTS: [(&str, Exists); 3] = [("file", Exists::File), ("directory", Exists::Directory), ("none", Exists::None)];
/// From "look each time" to a day: who forgets that a file is kept should not wonder for longer.
const CACHE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);
/// A response at less would not end.
const RATE: RangeInclusive<u64> = 1..=1 << 40;
/// From "do not keep" to what no cache outlives.
const EXPIRES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3_650 * 86_400);
/// As many as `{1}` to `{9}` can tell apart.
const STARS_MAX: usize = 9;
const PATH_EXPECTED: &str = "a path such as \"/icons/*\" or \"*.png\", or a list of them";
const METHOD_EXPECTED: &str = "a method such as \"GET\", or a list of them";
const HOST_EXPECTED: &str = "a host name such as \"example.org\" or \"*.example.org\", or a list of them";

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;

    /// What is said about a rule; its first line is line 4.
    fn said(lines: &str) -> Vec<String> {
        told(&format!("[[site]]\nroot = \"/srv\"\n[[site.rule]]\n{lines}\n"))
    }

    fn rule(lines: &str) -> Rule {
        let text = format!("[[site]]\nname = \"a\"\nroot = \"/srv\"\n[[site.rule]]\n{lines}\n");
        with_a_site(&text).sites[0].rules[0].clone()
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_matcher_is_read() {
        let text = "path = [\"/a\", \"*.b\"]\nregex = \"^/(a)$\"\nmethod = [\"GET\", \"M-SEARCH\"]\nclient = \"10.0.0.0/8\"\n\
                    host = [\"A.Example.\", \"*.b.example\"]\nrequest_header = { X-B = \"*\", A = \"b c\" }\nexists = \"directory\"";
        let rule = rule(text);
        let expected = Matchers {
            path: texts(&["/a", "*.b"]),
            regex: Some("^/(a)$".to_owned()),
            method: texts(&["GET", "M-SEARCH"]),
            client: vec![super::super::Network { address: "10.0.0.0".parse().unwrap(), bits: 8 }],
            host: texts(&["a.example", "*.b.example"]),
            request_header: vec![("x-b".to_owned(), "*".to_owned()), ("a".to_owned(), "b c".to_owned())],
            exists: Some(Exists::Directory),
        };
        assert_eq!(rule.matchers, expected);
        assert_eq!(rule.changes, Changes::default());
        assert_eq!(rule.act, None);
        assert_eq!((rule.place.file.as_str(), rule.place.line), ("/etc/anchorite/anchorite.toml", 4));
        for (word, exists) in EXISTS {
            assert_eq!(self::rule(&format!("exists = {word:?}")).matchers.exists, Some(exists));
        }
    }

    #[test]
    fn every_change_is_read() {
        let text = "header = { X-B = \"a {host}\", A = \"\" }\nexpires = \"30d\"\nallow = [\"::1\", \"10.0.0.0/8\"]\ndeny = \"0.0.0.0/0\"\n\
                    body = \"1TiB\"\nrequests = \"5/m burst 2\"\nlisting = true\nindex = []";
        let changes = rule(text).changes;
        let headers: Vec<(&str, String)> = changes.header.iter().map(|(name, value)| (name.as_str(), value.to_string())).collect();
        assert_eq!(headers, [("X-B", "a {host}".to_owned()), ("A", String::new())]);
        assert_eq!(changes.expires, Some(Duration::from_secs(30 * 86_400)));
        let shown = |networks: &[super::super::Network]| networks.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&changes.allow), ["::1/128", "10.0.0.0/8"]);
        assert_eq!(shown(&changes.deny), ["0.0.0.0/0"]);
        assert_eq!(changes.requests.map(|rate| rate.to_string()).as_deref(), Some("5/m burst 2"));
        assert_eq!((changes.body, changes.listing, changes.index), (Some(1 << 40), Some(true), Some(Vec::new())));
        for (cache, seconds) in [("0s", 0), ("1d", 86_400)] {
            assert_eq!(rule(&format!("cache = \"{cache}\"")).changes.cache, Some(Duration::from_secs(seconds)));
        }
        assert_eq!(rule("").matchers, Matchers::default());
    }

    #[test]
    fn paths_that_match_nothing_are_refused() {
        let resolved = "matches nothing, \"//\", \"/./\" and \"/../\" are resolved before a path is compared";
        let regex = "is not a path pattern, for a regular expression there is \"regex\"";
        let begin = "is not a path pattern, expected it to begin with \"/\" or \"*\"";
        for (path, said_of_it) in [
            ("", begin),
            ("a", begin),
            (".php", begin),
            ("^/a", regex),
            ("~ /a", regex),
            ("/a$", regex),
            ("/a//b", resolved),
            ("/./a", resolved),
            ("/a/..", resolved),
            ("/a/**/b", "has two stars in a row, expected one, which stands for \"/\" too"),
            ("/*a*a*a*a*a*a*a*a*a*", "has more than 9 stars"),
        ] {
            assert_eq!(said(&format!("path = [\"/x\", \"{path}\"]")), [format!("4:15: \"{path}\" {said_of_it}")]);
        }
        assert_eq!(said("path = \"/a\\u0000\""), ["4:8: \"/a\\0\" holds a NUL, which no path does"]);
        assert_eq!(said("path = []"), [format!("4:8: an empty list matches nothing, expected {PATH_EXPECTED}")]);
        assert_eq!(said("path = 1"), [format!("4:8: \"path\" in [[site.rule]] is an integer, expected {PATH_EXPECTED}")]);
        assert_eq!(said("path = [\"/a/*\", \"*.b\", \"*\", \"/..a/.\u{e9}\"]"), [""; 0]);
    }

    #[test]
    fn a_regex_is_told_where_it_fails() {
        assert_eq!(said("regex = '^/(a'"), ["4:12: regular expression: unclosed group"]);
        // With escapes in the string the place cannot be told.
        assert_eq!(said("regex = \"^/(\\u0061\""), ["4:9: regular expression: unclosed group"]);
        assert_eq!(said("regex = 1"), ["4:9: \"regex\" in [[site.rule]] is an integer, expected a regular expression"]);
        // What follows from it is not told.
        assert_eq!(said("regex = '^/(a'\nrewrite = \"/{2}\"").len(), 1);
    }

    #[test]
    fn a_rule_without_stars_has_that_of_the_name() {
        let site = |name: &str, rule: &str| {
            let text = format!("[[site]]\nroot = \"/srv\"\nname = {name}\n[[site.rule]]\n{rule}\nheader = {{ A = \"{{1}}\" }}\n");
            told(&text)
        };
        for rule in ["method = \"GET\"", "path = \"/a\"", "path = \"/*\""] {
            assert_eq!(site("\"*.test\"", rule), [""; 0], "{rule}");
        }
        for (name, rule, help) in [
            ("\"*.test\"", "regex = \"^/a\"", "the regex has no group"),
            ("\"*.test\"", "path = [\"/a\", \"/b/*\"]", "the path \"/a\" has no star"),
            ("[\"*.test\", \"a.test\"]", "path = \"/a\"", "the path \"/a\" has no star"),
        ] {
            assert_eq!(site(name, rule), [format!("6:17: \"{{1}}\" stands for nothing, {help}")]);
        }
    }

    #[test]
    fn captures_are_counted() {
        for (matchers, number, help) in [
            ("regex = '^/(a)(b)'", 3, "the regex has 2 groups"),
            ("regex = '^/(a)'\npath = \"/*/*\"", 2, "the regex has 1 group"),
            ("regex = '^/(?:a)'", 1, "the regex has no group"),
            ("path = \"/a/*\"", 2, "the path \"/a/*\" has 1 star"),
            ("path = [\"/*/*\", \"/a\"]", 1, "the path \"/a\" has no star"),
            ("method = \"GET\"", 1, "the rule has neither a \"regex\" nor a \"path\" with a star"),
        ] {
            let line = 4 + matchers.lines().count();
            assert_eq!(
                said(&format!("{matchers}\nheader = {{ A = \"é{{{number}}}\" }}")),
                [format!("{line}:18: \"{{{number}}}\" stands for nothing, {help}")]
            );
            if number > 1 {
                let lower = number - 1;
                assert_eq!(said(&format!("{matchers}\nheader = {{ A = \"{{{lower}}}\" }}")), [""; 0]);
            }
        }
    }

    #[test]
    fn the_other_matchers_are_checked() {
        for (line, said_of_it) in [
            (
                "method = \"get\"",
                "4:10: \"get\" is not possible here, methods are case-sensitive: did you mean \"GET\"?".to_owned(),
            ),
            ("method = \"A B\"", format!("4:10: \"A B\" is not possible here, expected {METHOD_EXPECTED}")),
            (
                "method = []",
                format!("4:10: an empty list matches nothing, expected {METHOD_EXPECTED}"),
            ),
            ("host = [\"\"]", format!("4:9: \"\" is not possible here, expected {HOST_EXPECTED}")),
            (
                "host = \"a:80\"",
                "4:8: \"a:80\" is not possible here, expected a name without a port".to_owned(),
            ),
            (
                "client = \"10.0.0.1/8\"",
                "4:10: \"10.0.0.1/8\" is not a network, its last bits are not zero: did you mean \"10.0.0.0/8\", or the one address \
                 \"10.0.0.1\"?"
                    .to_owned(),
            ),
            (
                "allow = []",
                "4:9: an empty list of networks, expected an address or a network such as \"192.0.2.0/24\" or \"2001:db8::/32\", or a list \
                 of them"
                    .to_owned(),
            ),
            (
                "request_header = { \"A B\" = \"c\" }",
                "4:20: \"A B\" is not the name of a header, expected letters, digits and \"-\"".to_owned(),
            ),
            (
                "request_header = { a = \"b\", A = \"c\" }",
                "4:29: \"A\" is given twice, first given at /etc/anchorite/anchorite.toml:4:20; case does not matter".to_owned(),
            ),
            (
                "request_header = { a = \"\\r\" }",
                "4:24: \"\\r\" matches nothing, the value of a header has no control characters".to_owned(),
            ),
            (
                "request_header = { a = 1 }",
                "4:24: \"request_header\" in [[site.rule]] holds an integer, expected a table such as { User-Agent = \"*bot*\" }".to_owned(),
            ),
            (
                "exists = \"flie\"",
                "4:10: \"exists\" in [[site.rule]] is \"flie\", did you mean \"file\"?".to_owned(),
            ),
        ] {
            assert_eq!(said(line), [said_of_it], "{line}");
        }
    }

    #[test]
    fn headers_that_are_the_servers_own_are_refused() {
        for (name, why) in OWN_HEADERS {
            let upper = name.to_ascii_uppercase();
            assert_eq!(said(&format!("header = {{ {upper} = \"\" }}")), [format!("4:12: {upper:?} cannot be set, {why}")]);
        }
        for value in ["a\\r\\nX: y", "a\\n", "\\u0000"] {
            let said = said(&format!("header = {{ A = \"{value}\" }}"));
            assert!(said[0].ends_with("is not possible here, expected no control characters"), "{said:?}");
        }
        assert_eq!(
            said("header = \"A: b\""),
            ["4:10: \"header\" in [[site.rule]] is a string, expected a table such as { X-Frame-Options = \"DENY\" }"]
        );
    }

    #[test]
    fn the_other_changes_are_checked() {
        for (line, said_of_it) in [
            ("expires = \"11y\"", "4:11: \"11y\" is not a duration"),
            ("expires = \"3651d\"", "4:11: \"expires\" in [[site.rule]] is \"3651d\", expected \"0ms\" to \"3650d\""),
            ("cache = \"86401s\"", "4:9: \"cache\" in [[site.rule]] is \"86401s\", expected \"0ms\" to \"1d\""),
            ("cache = true", "4:9: \"cache\" in [[site.rule]] is"),
            ("body = \"17TiB\"", "4:8: \"body\" in [[site.rule]] is \"17TiB\", expected \"0B\" to \"16TiB\""),
            ("listing = 1", "4:11: \"listing\" in [[site.rule]] is an integer, expected true or false"),
            ("index = [\"a/b\"]", "4:10: \"a/b\" is not possible here, expected the name of a file, without \"/\""),
        ] {
            assert!(said(line)[0].starts_with(said_of_it), "{:?}", said(line));
        }
    }

    #[test]
    fn a_key_that_fell_into_the_rule_is_sent_back() {
        assert_eq!(
            said("path = \"/a\"\ncharset = \"\""),
            [
                "5:1: unknown key \"charset\" in [[site.rule]], it belongs to the site, and so before the first [[site.rule]]: a key after that \
              belongs to the rule"
            ]
        );
        assert_eq!(
            told("[[site]]\nroot = \"/srv\"\nrule = [1]\n"),
            ["3:9: \"rule\" holds an integer, expected only tables, each begun with [[site.rule]]"]
        );
    }
}
