//! `[[site]]`: read and checked. Does no I/O.

use super::danger::Shown;
use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::host_name::host_name;
use super::mime::is_token;
use super::rules::{self, Around, Regexes};
use super::template::Captures;
use super::{
    Auth, Backend, Coding, Directory, Listen, Server, Site, Symlinks, Template, TlsSettings, compress, directory, listen, log, names,
    segments, server, tls,
};
use std::collections::HashMap;
use std::path::PathBuf;

/// Every site of the files, in order. The directories that they serve are added to `shown`.
pub(super) fn read(
    top: &Table<'_>,
    (server, tls): (&Server, &TlsSettings),
    (backends, auths): (&[Backend], &[Auth]),
    shown: &mut Shown,
    faults: &mut Faults<'_>,
) -> Vec<Site> {
    let tables = top.tables(&names::SITE, faults);
    if top.items("site").iter().all(Item::is_empty_list) {
        faults.report_missing(0..0, "no site is configured", "expected at least one [[site]] with a \"root\"");
    }
    let (mut taken, mut regexes) = (Taken::new(), Regexes::new());
    let mut sites: Vec<Site> = Vec::new();
    let mut last = None;
    for table in &tables {
        let mut site = with_defaults(PathBuf::new());
        if let Some(item) = table.item("listen", faults) {
            site.listen = listen::read(&item, faults);
            last = Some(item.key_at);
        }
        if let Some(item) = table.item("tls_listen", faults) {
            site.tls_listen = listen::read(&item, faults);
            let plain: Vec<Listen> = server.listen.iter().chain(&site.listen).cloned().collect();
            server::refuse_plain(&site.tls_listen, &plain, &item, faults);
            last = Some(item.key_at);
        }
        site.tls = tls::read_site(table, tls, faults);
        let by_default = site.tls.is_some() && site.tls_listen.is_empty() && server.tls_listen == server::default().tls_listen;
        if let Some(item) = table.item("tls", faults).filter(|_| by_default) {
            server::refuse_plain(&server.tls_listen, &server.listen, &item, faults);
        }
        let listen = if site.listen.is_empty() { &server.listen } else { &site.listen };
        site.name = read_names(table, listen, &mut taken, faults).unwrap_or(site.name);
        read_root(table, &mut site, shown, faults);
        read_others(table, &mut site, faults);
        let around = &mut Around { of_name: captures(&site.name), backends, auths, shown, regexes: &mut regexes };
        site.rules = rules::read(table, around, faults);
        sites.push(site);
    }
    if let Some(at) = last.filter(|_| are_too_many(server, &sites)) {
        listen::report_too_many(at, faults);
    }
    sites
}

/// Whether there are more addresses than a service may have, though no list by itself is too long, which has been reported.
fn are_too_many(server: &Server, sites: &[Site]) -> bool {
    let any = sites.iter().any(|site| site.tls.is_some());
    let secure = || [&server.tls_listen].into_iter().chain(sites.iter().map(|site| &site.tls_listen)).filter(move |_| any);
    let lists = || std::iter::once(&server.listen).chain(sites.iter().map(|site| &site.listen)).chain(secure());
    let all = listen::without_covered(lists().flatten());
    all.len() > listen::ADDRESSES_MAX && lists().all(|list| list.len() <= listen::ADDRESSES_MAX)
}

/// The names that sites have so far: where each was given, and the addresses that the site answers at.
type Taken = HashMap<String, Vec<(usize, Vec<Listen>)>>;

/// What a site is when only its root is given.
pub(super) fn with_defaults(root: PathBuf) -> Site {
    Site {
        name: vec![String::new()],
        listen: Vec::new(),
        root,
        root_rest: Template::default(),
        index: vec!["index.html".to_owned()],
        listing: false,
        hidden: HIDDEN.map(str::to_owned).to_vec(),
        symlinks: Symlinks::Owner,
        error_pages: Vec::new(),
        charset: "utf-8".to_owned(),
        compress: Coding::ALL.to_vec(),
        https_redirect: false,
        tls_listen: Vec::new(),
        tls: None,
        http2: true,
        hsts: None,
        access_log: None,
        rules: Vec::new(),
    }
}

fn read_root(table: &Table<'_>, site: &mut Site, shown: &mut Shown, faults: &mut Faults<'_>) {
    let Some(item) = table.item("root", faults) else {
        let help = match table.inside("rule", "root") {
            Some(place) => format!("the one at {} stands behind [[site.rule]] and belongs to that rule", faults.place_name(place)),
            None => "expected the directory to serve, such as root = \"/var/www/html\"".to_owned(),
        };
        faults.report_missing(table.at.clone(), "this site has no \"root\"", help);
        return;
    };
    let read = item.text("a directory", faults).and_then(|text| directory::read(&text, &captures(&site.name), shown, faults));
    if let Some(Directory { base, rest }) = read {
        (site.root, site.root_rest) = (base, rest);
    }
}

/// `{1}` is what the star of the name stands for.
fn captures(names: &[String]) -> Captures {
    match names.iter().find(|name| !name.starts_with('*')) {
        Some(name) => Captures { count: 0, source: format!("the name {} has no star", quoted(name)) },
        None => Captures { count: 1, source: "the name has 1 star".to_owned() },
    }
}

fn read_others(table: &Table<'_>, site: &mut Site, faults: &mut Faults<'_>) {
    if let Some(item) = table.item("error_pages", faults) {
        site.error_pages = read_error_pages(&item, faults);
    }
    if let Some(item) = table.item("access_log", faults) {
        site.access_log = log::read_access_log(&item, faults);
    }
    if let Some(item) = table.item("index", faults) {
        site.index = segments::read_index(&item, faults);
    }
    if let Some(item) = table.item("hidden", faults) {
        site.hidden = segments::read_hidden(&item, faults);
    }
    if let Some(listing) = table.item("listing", faults).and_then(|item| item.boolean(faults)) {
        site.listing = listing;
    }
    if let Some(symlinks) = table.item("symlinks", faults).and_then(|item| item.choice(&SYMLINKS, faults)) {
        site.symlinks = symlinks;
    }
    if let Some(item) = table.item("compress", faults) {
        site.compress = compress::read(&item, faults);
    }
    if let Some(http2) = table.item("http2", faults).and_then(|item| item.boolean(faults)) {
        site.http2 = http2;
    }
    if let Some(item) = table.item("hsts", faults) {
        site.hsts = tls::read_hsts(&item, faults);
    }
    if let Some(redirect) = table.item("https_redirect", faults).and_then(|item| item.boolean(faults)) {
        site.https_redirect = redirect;
    }
    if let Some(charset) = table.item("charset", faults).and_then(|item| item.text("the name of a character set, or \"\"", faults)) {
        site.charset = read_charset(&charset, faults);
    }
}

/// Statuses and paths of this site.
fn read_error_pages(item: &Item<'_>, faults: &mut Faults<'_>) -> Vec<(u16, String)> {
    let mut list: Vec<(u16, String)> = Vec::new();
    for (status, path) in item.pairs("a table such as { 404 = \"/404.html\" }", faults).unwrap_or_default() {
        let number = status.value.parse().ok().filter(|number| (400..=599).contains(number));
        let Some(number) = number.filter(|_| status.value.len() == 3) else {
            faults.report(status.at, format!("{} is not the status of an error", quoted(status.value)), "expected 400 to 599");
            continue;
        };
        if !path.value.starts_with('/') || path.value.ends_with('/') || path.value.contains(char::is_control) {
            let help = "expected the path of a file on this site, such as \"/404.html\"";
            faults.report(path.at, format!("{} is not possible here", quoted(path.value)), help);
            continue;
        }
        list.push((number, path.value.to_owned()));
    }
    list
}

/// The names of a site, each on no other site that answers at one of its addresses.
fn read_names(table: &Table<'_>, listen: &[Listen], taken: &mut Taken, faults: &mut Faults<'_>) -> Option<Vec<String>> {
    let Some(item) = table.item("name", faults) else {
        take(String::new(), table.at.clone(), listen, taken, faults);
        return None;
    };
    let texts = item.text_or_texts("a host name or a list of them", faults)?;
    if item.is_empty_list() {
        item.report("\"name\" in [[site]] is empty", "expected a host name, or \"\" for requests that match no other site", faults);
    }
    let mut list = Vec::new();
    for text in &texts {
        match host_name(text.value) {
            Ok(name) => {
                take(name.clone(), text.at.clone(), listen, taken, faults);
                list.push(name);
            }
            Err(help) => faults.report(text.at.clone(), format!("{} is not a host name", quoted(text.value)), help),
        }
    }
    Some(list)
}

fn take(name: String, at: std::ops::Range<usize>, listen: &[Listen], taken: &mut Taken, faults: &mut Faults<'_>) {
    let others = taken.entry(name.clone()).or_default();
    let meets = |theirs: &[Listen]| theirs.iter().any(|one| listen.iter().any(|other| one.overlaps(other)));
    if let Some((first, _)) = others.iter().find(|(_, theirs)| meets(theirs)) {
        let help = format!("first given at {}", faults.place_name(*first));
        let what = match name.as_str() {
            "" => "requests that match no name have a site already".to_owned(),
            name => format!("{} is already the name of a site", quoted(name)),
        };
        faults.report(at, what, help);
        return;
    }
    others.push((at.start, listen.to_vec()));
}

/// It stands in a response header unquoted: RFC 9110, section 5.6.2, token.
fn read_charset(text: &Text<'_>, faults: &mut Faults<'_>) -> String {
    if !text.value.is_empty() && !is_token(text.value) {
        let help = "expected a token such as \"utf-8\", or \"\" to send none";
        faults.report(text.at.clone(), format!("{} is not the name of a character set", quoted(text.value)), help);
    }
    text.value.to_owned()
}

/// Dot files, editors' backups and autosaves.
const HIDDEN: [&str; 4] = [".*", "*~", "*.bak", "#*#"];
pub(super) const SYMLINKS: [(&str, Symlinks); 4] =
    [("never", Symlinks::Never), ("owner", Symlinks::Owner), ("inside", Symlinks::Inside), ("any", Symlinks::Any)];

impl Symlinks {
    /// As it stands in a file.
    pub fn word(self) -> &'static str {
        SYMLINKS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| *word)
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::told;
    use super::super::{LogTarget, parse};
    use super::*;
    use std::path::Path;

    fn sites(text: &str) -> Vec<Site> {
        parse(text, Path::new("/etc/anchorite/anchorite.toml")).unwrap().sites
    }

    fn said(line: &str) -> Vec<String> {
        told(&format!("[[site]]\nroot = \"/srv/www\"\n{line}\n"))
    }

    fn named(name: &str) -> Vec<String> {
        sites(&format!("[[site]]\nroot = \"/srv/www\"\nname = {name}\n"))[0].name.clone()
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let expected = Site {
            name: vec![String::new()],
            listen: Vec::new(),
            root: PathBuf::from("/srv/www"),
            root_rest: Template::default(),
            index: vec!["index.html".to_owned()],
            listing: false,
            hidden: vec![".*".to_owned(), "*~".to_owned(), "*.bak".to_owned(), "#*#".to_owned()],
            symlinks: Symlinks::Owner,
            error_pages: Vec::new(),
            charset: "utf-8".to_owned(),
            compress: vec![Coding::Gzip, Coding::Brotli, Coding::Zstd],
            https_redirect: false,
            tls_listen: Vec::new(),
            tls: None,
            http2: true,
            hsts: None,
            access_log: None,
            rules: Vec::new(),
        };
        assert_eq!(sites("[[site]]\nroot = \"/srv/www\"\n"), [expected]);
    }

    #[test]
    fn every_key_is_read() {
        let text = "[[site]]\nname = [\"a.example\", \"*.b.example\"]\nroot = \"www\"\nindex = [\"a.html\", \"b.html\"]\nlisting = true\n\
                    hidden = []\nsymlinks = \"any\"\ncharset = \"\"\ncompress = [\"zstd\", \"gzip\"]\nhttps_redirect = true\nerror_pages = { 404 = \"/404.html\", 500 = \"/e/500\" }\naccess_log = \"b.log\"\nlisten = [\"[::1]:80\", \"unix:/run/b\"]\n\
                    [[site]]\nname = \"b\"\nroot = \"../www\"\nsymlinks = \"never\"\n";
        let expected = Site {
            name: vec!["a.example".to_owned(), "*.b.example".to_owned()],
            listen: vec![Listen::Tcp("[::1]:80".parse().unwrap()), Listen::Unix("/run/b".into())],
            root: PathBuf::from("/etc/anchorite/www"),
            root_rest: Template::default(),
            index: vec!["a.html".to_owned(), "b.html".to_owned()],
            listing: true,
            hidden: Vec::new(),
            symlinks: Symlinks::Any,
            error_pages: vec![(404, "/404.html".to_owned()), (500, "/e/500".to_owned())],
            charset: String::new(),
            compress: vec![Coding::Zstd, Coding::Gzip],
            https_redirect: true,
            tls_listen: Vec::new(),
            tls: None,
            http2: true,
            hsts: None,
            access_log: Some(LogTarget::File("/etc/anchorite/b.log".into())),
            rules: Vec::new(),
        };
        let read = sites(text);
        assert_eq!(read[0], expected);
        assert_eq!((read[1].root.as_path(), read[1].symlinks), (Path::new("/etc/www"), Symlinks::Never));
        assert_eq!(read[1].name, ["b"]);
    }

    #[test]
    fn names_are_compared_as_requests_are() {
        assert_eq!(named("\"Example.ORG.\""), ["example.org"]);
        let plain = ["", "*.a.example", "a_b.example", "127.0.0.1", "xn--bcher-kva.example"];
        assert_eq!(named("[\"\", \"*.A.example\", \"a_b.example\", \"127.0.0.1\", \"xn--bcher-kva.example\"]"), plain);
        let longest = format!("{}.{}", ["a".repeat(63).as_str(); 3].join("."), "a".repeat(61));
        assert_eq!(named(&format!("\"{longest}.\"")), [longest.as_str()]);
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        let labels = "expected labels of 1 to 63 letters, digits, \"-\" and \"_\" with dots between them";
        let star = "expected \"*\" only as the whole first label, such as \"*.example.org\"";
        let label = "a".repeat(64);
        for (name, help) in [
            ("*", "expected \"\" for requests that match no other site"),
            ("bücher.example", "expected its ASCII form, which begins with \"xn--\""),
            ("a.*.example", star),
            ("*a.example", star),
            ("example.org:80", "expected a name without a port"),
            ("a..b", labels),
            (".", labels),
            ("-a.example", labels),
            ("a-.example", labels),
            ("a b", labels),
            ("http//a", labels),
            (&label, labels),
        ] {
            assert_eq!(said(&format!("name = [\"{name}\"]")), [format!("3:9: {name:?} is not a host name, {help}")]);
        }
        let long = ["a".repeat(60).as_str(); 5].join(".");
        assert!(said(&format!("name = \"{long}\""))[0].ends_with("is not a host name, expected at most 253 characters"));
        assert_eq!(said("name = 1"), ["3:8: \"name\" in [[site]] is an integer, expected a host name or a list of them"]);
        assert_eq!(said("name = [1]"), ["3:9: \"name\" in [[site]] holds an integer, expected a host name or a list of them"]);
        assert_eq!(
            said("name = []"),
            ["3:8: \"name\" in [[site]] is empty, expected a host name, or \"\" for requests that match no other site"]
        );
    }

    #[test]
    fn a_name_on_two_sites_is_told_with_both_places() {
        let file = "/etc/anchorite/anchorite.toml";
        assert_eq!(
            told("[[site]]\nname = \"a.example\"\nroot = \"/a\"\n[[site]]\nname = [\"b\", \"A.Example.\"]\nroot = \"/b\"\n"),
            [format!("5:14: \"a.example\" is already the name of a site, first given at {file}:2:8")]
        );
        assert_eq!(
            told("[[site]]\nroot = \"/a\"\n[[site]]\nroot = \"/b\"\n"),
            [format!("3:1: requests that match no name have a site already, first given at {file}:1:1")]
        );
    }

    #[test]
    fn a_name_may_stand_twice_at_addresses_of_their_own() {
        let site = |lines: &str| format!("[[site]]\nroot = \"/srv\"\n{lines}\n");
        let both = |one: &str, other: &str| told(&format!("{}{}", site(one), site(other)));
        for (one, other) in [
            ("listen = [\"127.0.0.1:80\"]", "listen = [\"127.0.0.2:80\"]"),
            ("", "listen = [\"[::]:81\"]"),
            ("listen = [\"unix:/a\"]", "listen = [\"unix:/b\"]"),
        ] {
            assert_eq!(both(one, other), [""; 0], "{one} {other}");
        }
        for (one, other) in [
            ("listen = []", "listen = [\"[::]:80\"]"),
            ("", "listen = [\"127.0.0.1:80\"]"),
            ("listen = [\"127.0.0.1:80\"]", "listen = [\"0.0.0.0:80\"]"),
            ("listen = [\"unix:/a\"]", "listen = [\"unix:/b\", \"unix:/a\"]"),
        ] {
            assert_eq!(
                both(one, other),
                ["4:1: requests that match no name have a site already, first given at /etc/anchorite/anchorite.toml:1:1"],
                "{one} {other}"
            );
        }
    }

    #[test]
    fn a_site_needs_a_root_and_a_file_needs_a_site() {
        assert_eq!(
            told("[[site]]\nname = \"a\"\n"),
            ["1:1: this site has no \"root\", expected the directory to serve, such as root = \"/var/www/html\""]
        );
        assert_eq!(
            told("[[site]]\n[[site.rule]]\n[[site.rule]]\npath = \"/x\"\nroot = \"/a\"\n"),
            [
                "1:1: this site has no \"root\", the one at /etc/anchorite/anchorite.toml:5:1 stands behind [[site.rule]] and belongs to that rule"
            ]
        );
        for text in ["", "# nothing\n", "[server]\n", "site = []\n"] {
            assert_eq!(told(text), ["1:1: no site is configured, expected at least one [[site]] with a \"root\""], "{text:?}");
        }
        assert_eq!(told("site = [1]\n"), ["1:9: \"site\" holds an integer, expected only tables, each begun with [[site]]"]);
        assert_eq!(told("[site]\nroot = \"/a\"\n"), ["1:2: \"site\" is a table, expected a list of tables, each begun with [[site]]"]);
    }

    #[test]
    fn a_root_is_a_directory_beneath_the_root_of_all() {
        for (root, said_of_it) in [
            ("\"/\"", "2:8: \"/\" is the whole file system, expected a directory beneath \"/\""),
            (
                "\"/proc/1/root\"",
                "2:8: \"/proc/1/root\" is the kernel's, and would show processes and devices, expected a directory of files",
            ),
            ("\"/sys\"", "2:8: \"/sys\" is the kernel's, and would show processes and devices, expected a directory of files"),
            ("\"//dev/\"", "2:8: \"//dev/\" is the kernel's, and would show processes and devices, expected a directory of files"),
            ("\"\"", "2:8: \"\" is not a path, expected a path"),
            ("\"/a/../..\"", "2:8: \"/a/../..\" has \"..\" after a name, expected \"..\" only at the beginning"),
            ("\"a\\u0000\"", "2:8: \"a\\0\" holds a NUL, expected a path"),
            ("1", "2:8: \"root\" in [[site]] is an integer, expected a directory"),
        ] {
            assert_eq!(told(&format!("[[site]]\nroot = {root}\n")), [said_of_it]);
        }
    }

    #[test]
    fn the_other_keys_are_checked() {
        for (line, said_of_it) in [
            ("index = \"a\"", "3:9: \"index\" in [[site]] is a string, expected a list of file names"),
            ("index = [\"\"]", "3:10: \"\" is not possible here, expected the name of a file"),
            ("index = [\"a\", \"..\"]", "3:15: \"..\" is not possible here, expected the name of a file"),
            ("index = [\".\"]", "3:10: \".\" is not possible here, expected the name of a file"),
            ("index = [\"a/b\"]", "3:10: \"a/b\" is not possible here, expected the name of a file, without \"/\""),
            ("hidden = [\"\"]", "3:11: \"\" is not possible here, expected a pattern, such as \".*\""),
            ("hidden = [\"a/*\"]", "3:11: \"a/*\" is not possible here, expected a pattern for one segment of a path, without \"/\""),
            ("hidden = false", "3:10: \"hidden\" in [[site]] is a boolean, expected a list of patterns"),
            ("listing = \"yes\"", "3:11: \"listing\" in [[site]] is a string, expected true or false"),
            ("symlinks = \"onwer\"", "3:12: \"symlinks\" in [[site]] is \"onwer\", did you mean \"owner\"?"),
            ("symlinks = \"x\"", "3:12: \"symlinks\" in [[site]] is \"x\", expected \"never\", \"owner\", \"inside\" or \"any\""),
            (
                "charset = \"utf-8\\r\\nX: y\"",
                "3:11: \"utf-8\\r\\nX: y\" is not the name of a character set, expected a token such as \"utf-8\", or \"\" to send none",
            ),
            ("error_pages = { 200 = \"/a\" }", "3:17: \"200\" is not the status of an error, expected 400 to 599"),
            (
                "error_pages = { 404 = \"a.html\" }",
                "3:23: \"a.html\" is not possible here, expected the path of a file on this site, such as \"/404.html\"",
            ),
            ("error_pages = \"/a\"", "3:15: \"error_pages\" in [[site]] is a string, expected a table such as { 404 = \"/404.html\" }"),
            ("charset = 8", "3:11: \"charset\" in [[site]] is an integer, expected the name of a character set, or \"\""),
        ] {
            assert_eq!(said(line), [said_of_it]);
        }
    }
}
