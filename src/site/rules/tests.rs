//! Requests against rules, through the whole plan, over a disk that is a table.

use crate::config::{Act, Directory, Exists, Matchers, Network, Page, Respond, Rule, Site};
use crate::proto::head::Method;
use crate::site::facts::tests::Asked;
use crate::site::plan::{Answer, Outcome, Plan, Step};
use crate::site::template::tests::template;
use crate::site::tests::site;
use crate::site::{ResponseChanges, Sites};

mod access_and_acts;
mod as_written;
mod scripts;

const FILES: &[&str] = &[
    "/srv/index.html",
    "/srv/index.php",
    "/srv/a.txt",
    "/srv/icons.html",
    "/srv/config/secret.ini",
    "/srv/folder/index.php",
    "/srv/folder/index.html",
    "/srv/secret",
    "/srv/x..",
    "/srv/dir.php/x.jpg",
    "/srv/dir.php/x.php",
    "/srv/s.phtml",
    "/srv/s.phps",
    "/srv/s.inc",
    "/srv/.x.php",
    "/other/s.php",
    "/srv/.env",
    "/srv/sub/b.txt",
    "/icons/x.png",
    "/icons/.hidden",
    "/icons/sub/y.png",
    "/logo.png",
    "/www/alice/index.html",
    "/www/index.html",
    "/other/a.txt",
    "/other/.well-known/acme",
];
const DIRECTORIES: &[&str] = &[
    "/srv",
    "/srv/folder",
    "/srv/config",
    "/srv/sub",
    "/icons",
    "/icons/sub",
    "/www",
    "/www/alice",
    "/other",
    "/srv/empty",
    "/srv/dir.php",
];

fn network(text: &str) -> Network {
    let (address, bits) = text.split_once('/').unwrap_or((text, if text.contains(':') { "128" } else { "32" }));
    Network { address: address.parse().unwrap(), bits: bits.parse().unwrap() }
}

fn all() -> Vec<Network> {
    vec![network("0.0.0.0/0"), network("::/0")]
}

fn rule(paths: &[&str]) -> Rule {
    Rule { matchers: Matchers { path: paths.iter().map(ToString::to_string).collect(), ..Matchers::default() }, ..Rule::default() }
}

fn regex(text: &str) -> Rule {
    let mut rule = rule(&[]);
    rule.matchers.regex = Some(text.to_owned());
    rule
}

fn act(mut rule: Rule, act: Act) -> Rule {
    rule.act = Some(act);
    rule
}

fn directory(base: &str, rest: &str) -> Directory {
    Directory { base: base.into(), rest: template(rest) }
}

fn alias(paths: &[&str], base: &str) -> Rule {
    act(rule(paths), Act::Alias(directory(base, "")))
}

fn rewrite(rule: Rule, to: &str) -> Rule {
    act(rule, Act::Rewrite(template(to)))
}

fn tries(rule: Rule, candidates: &[&str]) -> Rule {
    act(rule, Act::Try(candidates.iter().map(|text| template(text)).collect()))
}

fn redirect(rule: Rule, to: &str, status: u16) -> Rule {
    act(rule, Act::Redirect { to: template(to), status })
}

fn respond(rule: Rule, status: u16) -> Rule {
    let answer = Respond::Status { status, body: None };
    act(rule, Act::Respond { answer })
}

fn deny(mut rule: Rule, networks: Vec<Network>) -> Rule {
    rule.changes.deny = networks;
    rule
}

fn header(mut rule: Rule, name: &str, value: &str) -> Rule {
    rule.changes.header.push((name.to_owned(), template(value)));
    rule
}

fn ruled(rules: Vec<Rule>) -> Site {
    let mut site = site(&[""]);
    site.rules = rules;
    site
}

/// What came of a request, in one word, and how often the disk was asked.
struct Ran {
    text: String,
    asked: usize,
    changes: ResponseChanges,
    path: String,
    query: Option<String>,
    body: Option<String>,
    outcome: Outcome<()>,
}

fn ask(site: &Site, asked: &Asked) -> Ran {
    let sites = Sites::new(vec![site.clone()]);
    let (site, facts) = (sites.compiled(0), asked.facts());
    let mut plan = Plan::default();
    let mut step = plan.begin(site, &facts);
    let mut count = 0;
    let full = |plan: &Plan| {
        let lookup = plan.lookup();
        let base = sites.directories()[lookup.root.0].path.to_str().unwrap().to_owned();
        let path = String::from_utf8(lookup.path.to_vec()).unwrap();
        assert!(!path.split('/').any(|segment| matches!(segment, "." | "..")), "{path}");
        if path.is_empty() { base } else { format!("{base}/{path}") }
    };
    let outcome = loop {
        match step {
            Step::Done(outcome) => break outcome,
            Step::Ask => {
                count += 1;
                assert!(count < 50);
                let path = full(&plan);
                let answer = match path.as_str() {
                    "/srv/locked" => Answer::Denied,
                    "/srv/busy" => Answer::Busy,
                    "/srv/fifo" => Answer::NotRegular,
                    path if FILES.contains(&path) => Answer::File(()),
                    path if DIRECTORIES.contains(&path) => Answer::Directory,
                    _ => Answer::Missing,
                };
                step = plan.resume(site, &facts, answer);
            }
        }
    };
    let text = match outcome {
        Outcome::File(()) => full(&plan),
        Outcome::Listing => format!("list {}", full(&plan)),
        Outcome::Redirect(status) => {
            let mut location = Vec::new();
            plan.location(site, &facts, &mut location);
            format!("{} {}", status.code(), String::from_utf8(location).unwrap())
        }
        Outcome::Status(status) | Outcome::ErrorPage(status, ()) => status.code().to_string(),
        Outcome::Respond(status) => format!("respond {}", status.code()),
        Outcome::Page(page) => format!("{page:?}"),
        Outcome::Allow => "allow".to_owned(),
        Outcome::MethodNotAllowed => "405".to_owned(),
        Outcome::Source => "source".to_owned(),
        Outcome::Login(realm) => format!("login {realm}"),
        Outcome::Backend => {
            let script = plan.script().unwrap();
            let (name, info) = plan.path(&facts).bytes().split_at(script.name);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("{} {}|{} at {}", script.backend, text(name), text(info), full(&plan))
        }
    };
    let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        text,
        asked: count,
        changes: plan.changes().clone(),
        path: string(plan.path(&facts).bytes()),
        query: plan.query(&facts).map(string),
        body: plan.body().map(string),
        outcome,
    }
}

fn get(site: &Site, target: &str) -> String {
    ask(site, &Asked::get(target)).text
}

fn check(site: &Site, table: &[(&str, &str)]) {
    for (target, expected) in table {
        assert_eq!(get(site, target), *expected, "{target}");
    }
}

fn headers(ran: &Ran) -> Vec<(String, String)> {
    let pairs = ran.changes.headers.iter();
    pairs.map(|(name, value)| (name.to_string(), String::from_utf8(value.to_vec()).unwrap())).collect()
}

#[test]
fn p16_report_104_an_alias_holds_at_segment_boundaries() {
    let site = ruled(vec![alias(&["/icons/*"], "/icons")]);
    check(
        &site,
        &[
            ("/icons.html", "/srv/icons.html"),
            ("/icons", "301 /icons/"),
            ("/icons?a=%20", "301 /icons/?a=%20"),
            ("/icons/", "403"),
            ("/icons/x.png", "/icons/x.png"),
            ("/icons/x.png/", "404"),
            ("/icons/sub", "301 /icons/sub/"),
            ("/icons/sub/y.png", "/icons/sub/y.png"),
            ("/icons../secret", "404"),
            ("/icons/../secret", "/srv/secret"),
            ("/icons/..%2fsecret", "404"),
            ("/icons/.hidden", "404"),
            ("/icons/sub%2Fy.png", "404"),
            ("/Icons/x.png", "404"),
        ],
    );
    // Were such a pattern not refused by the configuration's reader, it would hold at the boundaries only all the same.
    let site = ruled(vec![alias(&["/x*"], "/icons")]);
    check(&site, &[("/x../secret", "404"), ("/x..", "/srv/x.."), ("/x", "301 /x/"), ("/x/x.png", "/icons/x.png"), ("/x.png", "404")]);
}

#[test]
fn an_exact_alias_is_the_thing_itself() {
    let site = ruled(vec![alias(&["/favicon.ico"], "/logo.png"), alias(&["/pictures"], "/icons"), alias(&["/home"], "/www")]);
    let bases = Sites::new(vec![site.clone()]);
    let files: Vec<bool> = bases.directories().iter().map(|base| base.may_be_file).collect();
    assert_eq!(files, [false, true, true, true]);
    check(
        &site,
        &[
            ("/favicon.ico", "/logo.png"),
            ("/favicon.ico/", "404"),
            ("/favicon.ico/x", "404"),
            ("/pictures", "301 /pictures/"),
            ("/pictures/", "403"),
            ("/home/", "/www/index.html"),
            ("/pictures/x.png", "404"),
        ],
    );
}

#[test]
fn root_takes_the_whole_path() {
    let site = ruled(vec![act(rule(&["/a.txt", "/.well-known/*"]), Act::Root(directory("/other", "")))]);
    check(
        &site,
        &[
            ("/a.txt", "/other/a.txt"),
            ("/.well-known/acme", "/other/.well-known/acme"),
            ("/.well-known/.env", "404"),
            ("/sub/b.txt", "/srv/sub/b.txt"),
        ],
    );
}

#[test]
fn captures_in_directories_are_single_segments() {
    let mut site = ruled(vec![act(rule(&[]), Act::Root(directory("/www", "/{1}")))]);
    site.name = vec!["*.example.org".into(), "example.org".into()];
    for (host, expected) in [
        (Some("alice.example.org"), "/www/alice/index.html"),
        (Some("ALICE.example.org."), "/www/alice/index.html"),
        (Some("example.org"), "404"),
        (Some("..example.org"), "404"),
        (Some("x.y.example.org"), "404"),
        (Some("elsewhere"), "404"),
        (None, "404"),
    ] {
        let mut asked = Asked::get("/");
        asked.host = host;
        assert_eq!(ask(&site, &asked).text, expected, "{host:?}");
    }
    // The same as the site's own root, without any rule, and with one that asks.
    let mut site = ruled(Vec::new());
    site.name = vec!["*.example.org".into()];
    (site.root, site.root_rest) = ("/www".into(), template("{1}"));
    for rules in [vec![], vec![tries(rule(&[]), &["{path}", "{path}/", "/index.html"])]] {
        site.rules = rules;
        for (host, expected) in [("alice.example.org", "/www/alice/index.html"), ("..example.org", "404"), ("none.example.org", "404")] {
            let mut asked = Asked::get("/");
            asked.host = Some(host);
            assert_eq!(ask(&site, &asked).text, expected, "{host}");
        }
    }
    let site = ruled(vec![act(regex("^/u/([^/]*)/?$"), Act::Alias(directory("/www", "/{1}")))]);
    check(
        &site,
        &[
            ("/u/alice/", "/www/alice/index.html"),
            ("/u/alice", "301 /u/alice/"),
            ("/u/..%2F", "404"),
            ("/u/.ssh", "404"),
            ("/u/", "404"),
            ("/u/%2F", "404"),
        ],
    );
}

#[test]
fn order_decides_and_changes_add_up() {
    let site = ruled(vec![
        header(header(rule(&["*"]), "X-A", "1"), "X-B", "{path}"),
        header(rule(&["/a.txt"]), "x-a", "2"),
        header(respond(rule(&["/gone"]), 410), "X-C", ""),
        header(rule(&[]), "X-D", "4"),
    ]);
    let ran = ask(&site, &Asked::get("/a.txt"));
    assert_eq!(ran.text, "/srv/a.txt");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(headers(&ran), [pair("X-A", "2"), pair("X-B", "/a.txt"), pair("X-D", "4")]);
    let ran = ask(&site, &Asked::get("/gone"));
    assert_eq!(ran.text, "respond 410");
    assert_eq!(headers(&ran), [pair("X-A", "1"), pair("X-B", "/gone"), pair("X-C", "")]);
    // Errors have them too.
    let ran = ask(&site, &Asked::get("/no%0d%0apage"));
    assert_eq!((ran.text.as_str(), headers(&ran)[1].1.as_str()), ("404", "/no%0D%0Apage"));
}

#[test]
fn changes_of_the_handling() {
    let mut listing = rule(&["/empty/*"]);
    listing.changes.listing = Some(true);
    listing.changes.expires = Some(std::time::Duration::from_secs(60));
    let mut index = rule(&["/folder/*"]);
    index.changes.index = Some(vec!["index.php".into()]);
    index.changes.body = Some(5);
    let site = ruled(vec![listing, index]);
    check(&site, &[("/empty/", "list /srv/empty"), ("/folder/", "/srv/folder/index.php"), ("/config/", "403"), ("/empty", "301 /empty/")]);
    assert_eq!(ask(&site, &Asked::get("/empty/")).changes.expires.unwrap().as_secs(), 60);
    assert_eq!(ask(&site, &Asked::get("/folder/")).changes.body, Some(5));
}

#[test]
fn every_matcher_must_match() {
    let mut rules = Vec::new();
    let mut push = |status, change: &dyn Fn(&mut Matchers)| {
        let mut rule = respond(rule(&[]), status);
        change(&mut rule.matchers);
        rules.push(rule);
    };
    push(201, &|m| m.method = vec!["POST".into(), "PROPFIND".into()]);
    push(202, &|m| m.client = vec![network("10.0.0.0/8"), network("2001:db8::/32")]);
    push(203, &|m| m.host = vec!["b.test".into(), "*.c.test".into()]);
    push(400, &|m| m.request_header = vec![("user-agent".into(), "*Bot*".into()), ("x-y".into(), "1".into())]);
    push(401, &|m| {
        m.path = vec!["/both/*".into()];
        m.regex = Some("\\.(png|jpe?g)$".into());
    });
    push(402, &|m| m.path = vec!["/%2e".into(), "/a b".into(), "/caf\u{e9}".into()]);
    push(409, &|m| m.regex = Some("(?i)^/upper$".into()));
    push(410, &|m| m.exists = Some(Exists::Directory));
    let site = ruled(rules);
    let said = |change: &dyn Fn(&mut Asked), target: &str| {
        let mut asked = Asked::get(target);
        change(&mut asked);
        ask(&site, &asked).text
    };
    let post = |asked: &mut Asked| (asked.method, asked.method_name) = (Method::Post, "POST");
    assert_eq!(said(&post, "/a.txt"), "respond 201");
    assert_eq!(said(&|a| (a.method, a.method_name) = (Method::Extension, "PROPFIND"), "/"), "respond 201");
    assert_eq!(said(&|a| (a.method, a.method_name) = (Method::Extension, "propfind"), "/x"), "501");
    for (client, expected) in [
        ("10.1.2.3", "respond 202"),
        ("::ffff:10.1.2.3", "respond 202"),
        ("2001:db8::1", "respond 202"),
        ("11.0.0.1", "/srv/a.txt"),
        ("::1", "/srv/a.txt"),
    ] {
        assert_eq!(said(&|a| a.client = client.parse().unwrap(), "/a.txt"), expected, "report 137: {client}");
    }
    for (host, expected) in [
        (Some("B.Test."), "respond 203"),
        (Some("x.c.test"), "respond 203"),
        (Some("c.test"), "/srv/a.txt"),
        (Some(".c.test"), "/srv/a.txt"),
        (Some("bb.test"), "/srv/a.txt"),
        (None, "/srv/a.txt"),
    ] {
        assert_eq!(said(&|a| a.host = host, "/a.txt"), expected, "{host:?}");
    }
    let bot = |value: &'static [u8]| {
        move |a: &mut Asked| a.fields = vec![("User-Agent", b"x".to_vec()), ("USER-AGENT", value.to_vec()), ("X-Y", b"1".to_vec())]
    };
    assert_eq!(said(&bot(b"A Bot/1"), "/a.txt"), "respond 400");
    assert_eq!(said(&bot(b"a bot/1"), "/a.txt"), "/srv/a.txt");
    for (target, expected) in [
        ("/both/x.jpeg", "respond 401"),
        ("/both/x.gif", "404"),
        ("/x.png", "404"),
        ("/%252e", "respond 402"),
        ("/a%20b", "respond 402"),
        ("/caf%C3%A9", "respond 402"),
        ("/UPPER", "respond 409"),
        ("/folder", "respond 410"),
        ("/a.txt", "/srv/a.txt"),
        ("/none", "404"),
        // Hidden names are as if they were not there, and nothing is asked.
        ("/.env", "404"),
    ] {
        assert_eq!(said(&|_| {}, target), expected, "{target}");
    }
    assert_eq!(ask(&site, &Asked::get("/.env")).asked, 0);
    assert_eq!(ask(&site, &Asked::get("/folder")).asked, 1);
    assert_eq!(said(&|_| {}, "/locked"), "403");
    assert_eq!(said(&|_| {}, "/busy"), "503");
}

#[test]
fn exists_looks_where_the_rule_itself_leads() {
    let mut overlay = act(rule(&[]), Act::Root(directory("/other", "")));
    overlay.matchers.exists = Some(Exists::File);
    let mut none = rewrite(rule(&[]), "/index.html");
    none.matchers.exists = Some(Exists::None);
    let site = ruled(vec![overlay, none]);
    check(
        &site,
        &[
            ("/a.txt", "/other/a.txt"),
            ("/secret", "/srv/secret"),
            ("/nothing", "/srv/index.html"),
            ("/secret/", "/srv/index.html"),
            ("/.env", "/srv/index.html"),
            ("/fifo", "403"),
        ],
    );
}

#[test]
fn rewrite_goes_on_with_the_next_rule() {
    let site = ruled(vec![
        rewrite(rule(&["/index.php"]), "/never"),
        rewrite(regex("^/article/([0-9]+)/(.*)$"), "/index.php?id={1}&rest={2}&{query}"),
        header(rule(&["*.php"]), "X-Script", "{path}?{query}"),
        rewrite(rule(&["/loop"]), "/loop"),
    ]);
    let ran = ask(&site, &Asked::get("/article/7/a%20b%26c%2Fd?x=%2F"));
    assert_eq!((ran.text.as_str(), ran.path.as_str()), ("/srv/index.php", "/index.php"));
    assert_eq!(ran.query.as_deref(), Some("id=7&rest=a%20b%26c/d&x=%2F"));
    assert_eq!(headers(&ran)[0].1, "/index.php?id=7&rest=a%20b%26c/d&x=%2F");
    assert_eq!(get(&site, "/loop"), "404");
    assert_eq!(get(&site, "/index.php"), "404");
    // A template without `?` leaves the query.
    let ran = ask(&ruled(vec![rewrite(rule(&["/x"]), "/a.txt")]), &Asked::get("/x?q=1"));
    assert_eq!((ran.text.as_str(), ran.query.as_deref()), ("/srv/a.txt", Some("q=1")));
}

#[test]
fn p05_p08_rewriting_neither_climbs_nor_decodes_twice() {
    let site = ruled(vec![rewrite(rule(&["/up/*"]), "/../{1}"), rewrite(rule(&["/to*"]), "/sub/{1}"), rewrite(rule(&["/raw/*"]), "{1}")]);
    check(
        &site,
        &[
            ("/up/etc/passwd", "400"),
            ("/to/b.txt", "/srv/sub/b.txt"),
            ("/to../a.txt", "/srv/a.txt"),
            ("/to/../a.txt", "/srv/a.txt"),
            ("/raw/sub/b.txt", "/srv/sub/b.txt"),
            ("/raw/sub%2Fb.txt", "404"),
            ("/raw/%252e%252e/secret", "404"),
            ("/raw/%2e%2e/secret", "/srv/secret"),
            ("/raw/.env", "404"),
        ],
    );
    assert_eq!(ask(&site, &Asked::get("/raw/%252e%252e/secret")).path, "/%2e%2e/secret");
}
