//! Which requests reach a backend, as which script, and that no source is ever sent.

use super::*;
use crate::config::{ScriptPlace, ToBackend};

/// A rule that hands on to backend 3.
fn backend(rule: Rule) -> Rule {
    to(rule, None, None)
}

fn to(rule: Rule, place: Option<ScriptPlace>, check: Option<bool>) -> Rule {
    act(rule, Act::Backend(ToBackend { backend: 3, name: "php".to_owned(), cgi: false, place, check, sendfile: None }))
}

fn post(site: &Site, target: &str) -> String {
    ask(site, &Asked { method: Method::Post, method_name: "POST", ..Asked::get(target) }).text
}

fn php() -> Site {
    let mut site = ruled(vec![backend(rule(&["*.php"]))]);
    site.index = vec!["index.php".to_owned(), "index.html".to_owned()];
    site
}

#[test]
fn c02_c03_c04_only_a_regular_file_of_a_matching_name_is_a_script() {
    check(
        &php(),
        &[
            ("/index.php", "3 /index.php| at /srv/index.php"),
            ("/index.php/info/x?q", "3 /index.php|/info/x at /srv/index.php"),
            ("/index.php/", "3 /index.php|/ at /srv/index.php"),
            ("/index.php/%0aQQQ", "3 /index.php|/\nQQQ at /srv/index.php"),
            ("/index.php/..%2f", "3 /index.php|/../ at /srv/index.php"),
            ("/index.php/x.php", "3 /index.php|/x.php at /srv/index.php"),
            ("/folder/index.php/a", "3 /folder/index.php|/a at /srv/folder/index.php"),
            ("/index.php/../a.txt", "/srv/a.txt"),
            ("/a.txt/x.php", "404"),
            ("/missing.php", "404"),
            ("/index.php%0d", "404"),
            ("/index.php%2fx.php", "404"),
            ("/x%2findex.php", "404"),
            ("/dir.php/x.jpg", "404"),
            ("/dir.php/x.php", "3 /dir.php/x.php| at /srv/dir.php/x.php"),
            ("/.x.php", "404"),
            ("/index.php/.hidden", "3 /index.php|/.hidden at /srv/index.php"),
        ],
    );
    assert_eq!(post(&php(), "/index.php"), "3 /index.php| at /srv/index.php");
    assert_eq!(ask(&php(), &Asked { method: Method::Trace, method_name: "TRACE", ..Asked::get("/index.php") }).text, "405");
}

#[test]
fn a_long_path_of_scripts_asks_for_no_more_than_there_are_directories() {
    let target = "/x.php".repeat(100);
    assert_eq!(ask(&php(), &Asked::get(&target)).asked, 1);
}

#[test]
fn c05_c06_a_source_is_never_sent_whichever_rule_acts() {
    let mut site = php();
    site.rules.insert(0, act(rule(&["/other/*"]), Act::Alias(directory("/other", ""))));
    site.rules.insert(0, act(rule(&["/o/*"]), Act::Root(directory("/other", ""))));
    check(
        &site,
        &[
            ("/other/a.txt", "/other/a.txt"),
            ("/other/s.php", "source"),
            ("/o/s.php", "404"),
            ("/s.phtml", "source"),
            ("/s.phps", "source"),
            ("/s.inc", "source"),
            ("/INDEX.PHP", "404"),
            ("/index.php~", "404"),
            ("/index.php.bak", "404"),
            ("/index.php.", "404"),
            ("/index.php%20", "404"),
            ("/index.php::$DATA", "404"),
        ],
    );
    let only_post = |mut rule: Rule| {
        rule.matchers.method = vec!["POST".to_owned()];
        rule
    };
    let site = ruled(vec![backend(only_post(rule(&["*.php"])))]);
    assert_eq!(get(&site, "/index.php"), "source");
    assert_eq!(post(&site, "/index.php"), "3 /index.php| at /srv/index.php");
}

#[test]
fn an_index_that_is_a_script_is_run_by_the_rule_for_its_own_path() {
    let site = php();
    check(&site, &[("/", "3 /index.php| at /srv/index.php"), ("/folder/", "3 /folder/index.php| at /srv/folder/index.php")]);
    assert_eq!(post(&site, "/folder/"), "3 /folder/index.php| at /srv/folder/index.php");
    assert_eq!(post(&site, "/sub/"), "405");
    assert_eq!(post(&site, "/a.txt"), "405");
    let mut refused = site.clone();
    refused.rules.insert(0, respond(rule(&["/folder/index.php"]), 410));
    assert_eq!(get(&refused, "/folder/"), "respond 410");
    let mut denied = site.clone();
    denied.rules.push(deny(rule(&["/folder/*.php"]), all()));
    assert_eq!(get(&denied, "/folder/"), "403");
    let mut turning = site;
    turning.rules.insert(0, rewrite(rule(&["*.php"]), "/"));
    assert_eq!(get(&turning, "/"), "source");
    let mut html = php();
    html.index = vec!["index.html".to_owned()];
    assert_eq!((get(&html, "/folder/").as_str(), post(&html, "/folder/").as_str()), ("/srv/folder/index.html", "405"));
}

#[test]
fn a_front_controller_gets_the_query_and_the_path_as_rewritten() {
    let site = ruled(vec![tries(rule(&[]), &["{path}", "{path}/", "/index.php?{query}"]), backend(rule(&["*.php"]))]);
    let ran = ask(&site, &Asked::get("/2026/a-post/?x=%20"));
    assert_eq!((ran.text.as_str(), ran.query.as_deref()), ("3 /index.php| at /srv/index.php", Some("x=%20")));
    assert_eq!(get(&site, "/a.txt"), "/srv/a.txt");
}

#[test]
fn a_mount_takes_everything_beneath_it_without_a_look_up() {
    let site = ruled(vec![backend(rule(&["/app/*"]))]);
    check(
        &site,
        &[
            ("/app/", "3 /app|/ at /srv/app"),
            ("/app/x/y", "3 /app|/x/y at /srv/app"),
            ("/app", "404"),
            ("/apple", "404"),
            ("/a.txt", "/srv/a.txt"),
        ],
    );
    assert_eq!(ask(&site, &Asked::get("/app/x")).asked, 0);
    for all in [rule(&[]), rule(&["*"]), rule(&["/*"])] {
        assert_eq!(get(&ruled(vec![backend(all)]), "/a/b"), "3 |/a/b at /srv");
    }
    let checked = ruled(vec![to(rule(&["/folder/*"]), None, Some(true))]);
    check(
        &checked,
        &[("/folder/index.php/extra", "3 /folder/index.php|/extra at /srv/folder/index.php"), ("/folder/x", "404"), ("/folder/", "404")],
    );
}

#[test]
fn check_false_leaves_the_look_up_out() {
    let site = ruled(vec![to(rule(&["*.php"]), None, Some(false))]);
    assert_eq!(get(&site, "/not/there.php/x"), "3 /not/there.php|/x at /srv/not/there.php");
    assert_eq!(ask(&site, &Asked::get("/not/there.php")).asked, 0);
}

#[test]
fn root_and_alias_say_where_scripts_are_looked_up() {
    let root = ruled(vec![to(rule(&["*.php"]), Some(ScriptPlace::Root(directory("/other", ""))), None)]);
    check(&root, &[("/s.php/i", "3 /s.php|/i at /other/s.php"), ("/index.php", "404")]);
    let place = || Some(ScriptPlace::Alias(directory("/other", "")));
    let alias = ruled(vec![to(rule(&["/pma/*.php"]), place(), None)]);
    check(&alias, &[("/pma/s.php/i", "3 /pma/s.php|/i at /other/s.php"), ("/pma/index.php", "404"), ("/s.php", "404")]);
    let mount = ruled(vec![to(rule(&["/cgi/*"]), place(), None)]);
    check(&mount, &[("/cgi/s.php/i", "3 /cgi/s.php|/i at /other/s.php"), ("/cgi/x", "404")]);
    let exact = ruled(vec![to(rule(&["/search"]), Some(ScriptPlace::Alias(directory("/other/s.php", ""))), None)]);
    check(&exact, &[("/search", "3 /search| at /other/s.php"), ("/search/x", "404")]);
    let captured = ruled(vec![to(rule(&["/u/*/x.php"]), Some(ScriptPlace::Root(directory("/srv", "{1}"))), None)]);
    check(&captured, &[("/u/sub/x.php", "404"), ("/u/../x.php", "404")]);
}

#[test]
fn what_a_script_is_refused_by_its_own_path_is_refused_with_more_behind_it() {
    let mut site = ruled(vec![
        deny(rule(&["/index.php"]), all()),
        deny(rule(&["/folder/*.php"]), all()),
        deny(regex(r"^/dir.php/x\.php$"), all()),
        deny(rule(&["/index.html"]), all()),
        backend(rule(&["*.php"])),
    ]);
    check(
        &site,
        &[
            ("/index.php", "403"),
            ("/index.php/", "403"),
            ("/index.php/x.css", "403"),
            ("/folder/index.php/x", "403"),
            ("/dir.php/x.php/y", "403"),
            // Nothing of this name is there, so nothing would run.
            ("/folder/other.php/x", "404"),
        ],
    );
    // A rule further down counts as well, and a rule for the mount of an application does not speak of what lies beneath.
    site.rules.rotate_left(4);
    check(&site, &[("/index.php/x", "403"), ("/folder/index.php/x", "403")]);
    let unchecked = ruled(vec![to(rule(&["*.php"]), None, Some(false)), deny(rule(&["/a.php"]), all())]);
    check(&unchecked, &[("/a.php/x", "403"), ("/b.php/x", "3 /b.php|/x at /srv/b.php")]);
    let mount = ruled(vec![deny(rule(&["/app"]), all()), backend(rule(&["/app/*"]))]);
    check(&mount, &[("/app", "403"), ("/app/x", "3 /app|/x at /srv/app")]);
    let mut elsewhere = ruled(vec![deny(rule(&["/index.php"]), vec![network("203.0.113.0/24")]), backend(rule(&["*.php"]))]);
    check(&elsewhere, &[("/index.php/x", "3 /index.php|/x at /srv/index.php")]);
    elsewhere.rules[0].matchers.exists = Some(Exists::None);
    elsewhere.rules[0].changes.deny = all();
    check(&elsewhere, &[("/index.php/x", "3 /index.php|/x at /srv/index.php")]);
}
