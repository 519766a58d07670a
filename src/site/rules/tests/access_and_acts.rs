//! Access, `try`, redirects, responses, methods, and what hostile requests cost.

use super::*;
use crate::site::facts::Scheme;

#[test]
fn report_079_access_rules_hold_for_the_original_path_and_after_rewriting() {
    let deny_config = || deny(rule(&["/config/*", "/config"]), all());
    let mut missing = rewrite(rule(&[]), "/index.php");
    missing.matchers.exists = Some(Exists::None);
    let orders = [
        vec![deny_config(), missing.clone()],
        vec![missing.clone(), deny_config()],
        vec![rewrite(rule(&["*"]), "/index.php"), deny_config()],
        vec![tries(rule(&[]), &["{path}", "/index.php"]), deny_config()],
    ];
    for (number, rules) in orders.into_iter().enumerate() {
        let site = ruled(rules);
        for target in [
            "/config/",
            "/config",
            "/config/secret.ini",
            "//config/secret.ini",
            "/config%2Fsecret.ini",
            "/x/../config/secret.ini",
            "/%63onfig/nothing",
        ] {
            let text = get(&site, target);
            assert!(text == "403" || text == "404", "{number} {target}: {text}");
        }
        assert_eq!(get(&site, "/nothing"), "/srv/index.php");
    }
    // A rule above the one that rewrites is tried on the result.
    let site = ruled(vec![deny_config(), rewrite(rule(&["/c/*"]), "/config/{1}"), rewrite(rule(&["/d*"]), "/x/../config{1}")]);
    check(&site, &[("/c/secret.ini", "403"), ("/d/secret.ini", "403"), ("/a.txt", "/srv/a.txt")]);
    let ran = ask(&ruled(vec![header(rule(&[]), "X-A", "1"), deny_config(), header(rule(&[]), "X-B", "2")]), &Asked::get("/config/"));
    assert_eq!((ran.text.as_str(), headers(&ran).len(), ran.asked), ("403", 2, 0));
}

#[test]
fn allow_and_deny() {
    let with = |allow: &[&str], deny: &[&str]| {
        let mut rule = rule(&[]);
        rule.changes.allow = allow.iter().map(|text| network(text)).collect();
        rule.changes.deny = deny.iter().map(|text| network(text)).collect();
        rule
    };
    let table: &[(&[&[&str]; 2], &str, bool)] = &[
        (&[&["10.0.0.0/8"], &[]], "10.0.0.1", true),
        (&[&["10.0.0.0/8"], &[]], "11.0.0.1", false),
        (&[&["10.0.0.0/8"], &[]], "::ffff:10.0.0.1", true),
        (&[&[], &["10.0.0.0/8"]], "10.0.0.1", false),
        (&[&[], &["10.0.0.0/8"]], "::1", true),
        (&[&["10.0.0.0/8"], &["10.0.0.1"]], "10.0.0.1", false),
        (&[&["10.0.0.0/8"], &["10.0.0.1"]], "10.0.0.2", true),
        (&[&["2001:db8::/32"], &[]], "2001:db8::9", true),
        (&[&["2001:db8::/32"], &[]], "10.0.0.1", false),
    ];
    for ([allow, deny], client, permitted) in table {
        let mut asked = Asked::get("/a.txt");
        asked.client = client.parse().unwrap();
        let text = ask(&ruled(vec![with(allow, deny)]), &asked).text;
        assert_eq!(text, if *permitted { "/srv/a.txt" } else { "403" }, "{allow:?} {deny:?} {client}");
        // Every matching rule must permit.
        let text = ask(&ruled(vec![with(allow, deny), with(&["192.0.2.0/24"], &[])]), &asked).text;
        assert_eq!(text, "403");
    }
    // A rule that does not match has no say.
    let site = ruled(vec![deny(rule(&["/sub/*"]), all())]);
    check(&site, &[("/a.txt", "/srv/a.txt"), ("/sub/b.txt", "403"), ("/sub", "301 /sub/")]);
    // Nor can an index be had that could not be had by its name.
    let site = ruled(vec![deny(rule(&["*.html"]), all())]);
    check(&site, &[("/", "403"), ("/index.html", "403"), ("/a.txt", "/srv/a.txt")]);
}

#[test]
fn a_listing_leaves_out_what_would_be_refused() {
    let mut site = ruled(vec![deny(rule(&["/config/*", "*.ini"]), all())]);
    site.listing = true;
    let sites = Sites::new(vec![site]);
    let asked = Asked::get("/");
    let mut plan = Plan::default();
    assert_eq!(plan.begin::<()>(sites.compiled(0), &asked.facts()), Step::Ask);
    for (name, directory, shown) in [
        ("a.txt", false, true),
        (".env", false, false),
        ("config", true, false),
        ("config", false, true),
        ("x.ini", false, false),
        ("caf\u{e9} %2F", false, true),
    ] {
        assert_eq!(plan.shows(sites.compiled(0), &asked.facts(), name.as_bytes(), directory), shown, "{name}");
    }
}

#[test]
fn report_031_a_front_controller_leaves_directories_their_slash() {
    let site = ruled(vec![tries(rule(&[]), &["{path}", "{path}/", "/index.php?{query}"]), header(rule(&["*.php"]), "X-Script", "{path}")]);
    check(
        &site,
        &[
            ("/a.txt", "/srv/a.txt"),
            ("/folder", "301 /folder/"),
            ("/folder?x=1", "301 /folder/?x=1"),
            ("/folder/", "/srv/folder/index.html"),
            ("/nothing", "/srv/index.php"),
            ("/a.txt/", "/srv/index.php"),
            ("/.env", "/srv/index.php"),
            ("/a%2Fb", "/srv/index.php"),
            ("/locked", "403"),
            ("/busy", "503"),
            ("/fifo", "/srv/index.php"),
        ],
    );
    let ran = ask(&site, &Asked::get("/nothing?a=b%26"));
    assert_eq!((ran.path.as_str(), ran.query.as_deref()), ("/index.php", Some("a=b%26")));
    assert_eq!(headers(&ran)[0].1, "/index.php");
    // The last candidate is not asked for, even where it is a directory.
    let site = ruled(vec![tries(rule(&[]), &["{path}/"])]);
    check(&site, &[("/folder", "301 /folder/"), ("/folder/", "/srv/folder/index.html"), ("/nothing", "404")]);
    let site = ruled(vec![tries(rule(&["/s/*"]), &["/sub/{1}", "/icons{path}", "/../x"])]);
    check(&site, &[("/s/b.txt", "/srv/sub/b.txt"), ("/s/none", "400")]);
}

#[test]
fn report_029_032_redirects_keep_the_query_and_the_host() {
    let site = ruled(vec![
        redirect(rule(&["/old/*"]), "/new/{1}?{query}", 301),
        redirect(rule(&["/go*"]), "{1}", 302),
        redirect(rule(&["/out"]), "https://{host}{uri}", 308),
        redirect(regex("^/(?P<a>x)(y)?$"), "/z?{1}-{2}", 307),
        redirect(rule(&["/host*"]), "https://b.test{1}", 302),
    ]);
    check(
        &site,
        &[
            ("/old/a%20b?c=%2F", "301 /new/a%20b?c=%2F"),
            ("/old/a%2Fb", "301 /new/a%2Fb"),
            ("/old/", "301 /new/"),
            ("/go//evil.example", "302 /evil.example"),
            ("/go%2F%2Fevil.example", "302 /%2F%2Fevil.example"),
            ("/go%0d%0aX:y", "302 /%0D%0AX:y"),
            ("/out?a=b", "308 https://a.test/out?a=b"),
            ("/x", "307 /z?x-"),
            ("/host.evil.example", "400"),
            ("/host/a", "302 https://b.test/a"),
        ],
    );
    let mut asked = Asked::get("/old/x");
    (asked.method, asked.method_name) = (Method::Post, "POST");
    asked.scheme = Scheme::Https;
    assert_eq!(ask(&site, &asked).text, "301 /new/x");
}

#[test]
fn respond_and_pages() {
    let page = |path: &str, page| act(rule(&[path]), Act::Respond { answer: Respond::Page(page) });
    let mut open = page("/open", Page::Metrics);
    open.changes.allow = vec![network("10.0.0.0/8")];
    let body = Respond::Status { status: 451, body: Some(template("no {path} for {client}")) };
    let site = ruled(vec![
        page("/status", Page::Status),
        page("/health", Page::Health),
        open,
        act(rule(&["/no/*"]), Act::Respond { answer: body }),
    ]);
    let table: &[(&str, &str, bool, &str)] = &[
        ("/status", "127.0.0.1", false, "Status"),
        ("/status", "127.9.9.9", false, "Status"),
        ("/status", "::1", false, "Status"),
        ("/status", "::ffff:127.0.0.1", false, "Status"),
        ("/status", "10.0.0.1", false, "403"),
        ("/status", "127.0.0.1", true, "403"),
        ("/open", "10.0.0.1", false, "Metrics"),
        ("/open", "10.0.0.1", true, "403"),
        ("/open", "127.0.0.1", false, "403"),
        ("/health", "::1", false, "Health"),
        ("/no/%0d%0a", "10.0.0.1", false, "respond 451"),
    ];
    for (target, client, forwarded, expected) in table {
        let mut asked = Asked::get(target);
        asked.client = client.parse().unwrap();
        asked.forwarded = *forwarded;
        assert_eq!(ask(&site, &asked).text, *expected, "{target} {client} {forwarded}");
    }
    let ran = ask(&site, &Asked::get("/no/a%20b"));
    assert_eq!(ran.body.as_deref(), Some("no /no/a b for 192.0.2.1"));
    let mut asked = Asked::get("/status");
    asked.client = [127, 0, 0, 1].into();
    (asked.method, asked.method_name) = (Method::Post, "POST");
    assert_eq!(ask(&site, &asked).outcome, Outcome::MethodNotAllowed);
}

#[test]
fn p22_methods_are_told_after_the_rules() {
    let site = ruled(vec![respond(rule(&["/"]), 200), header(rule(&[]), "X-A", "1"), alias(&["/icons/*"], "/icons")]);
    for (method, name, target, expected) in [
        (Method::Options, "OPTIONS", "*", "allow"),
        (Method::Options, "OPTIONS", "/icons", "allow"),
        (Method::Connect, "CONNECT", "", "405"),
        (Method::Post, "POST", "/icons/x.png", "405"),
        (Method::Extension, "MOVE", "/a.txt", "501"),
        (Method::Head, "HEAD", "/icons/x.png", "/icons/x.png"),
        (Method::Post, "POST", "/", "respond 200"),
    ] {
        let mut asked = Asked::get(target);
        (asked.method, asked.method_name) = (method, name);
        let ran = ask(&site, &asked);
        assert_eq!(ran.text, expected, "{name} {target}");
        assert_eq!(ran.changes.headers.len(), usize::from(target != "/"), "{name} {target}");
    }
    let site = ruled(vec![deny(rule(&["*"]), all())]);
    let mut asked = Asked::get("*");
    (asked.method, asked.method_name) = (Method::Options, "OPTIONS");
    assert_eq!(ask(&site, &asked).text, "403");
}

#[test]
fn a_rule_that_does_not_compile_refuses_everything() {
    let site = ruled(vec![deny(regex("("), all())]);
    assert_eq!(get(&site, "/a.txt"), "500");
}

#[test]
fn long_paths_and_hostile_patterns_take_linear_time() {
    let site = ruled(vec![rewrite(regex("^/(a+)+$"), "/x"), rewrite(regex("(x+x+)+y"), "/x"), rewrite(rule(&["*a*a*a*a*a*a*b"]), "/x")]);
    let target = format!("/{}!", "a".repeat(60_000));
    assert_eq!(get(&site, &target), "404");
}

#[test]
fn bytes_that_are_no_text_match_too() {
    let site =
        ruled(vec![redirect(regex("^/(.)z$"), "/{1}", 302), deny(regex("^/config/.*ini$"), all()), redirect(rule(&["/*z"]), "/{1}", 303)]);
    check(&site, &[("/%FFz", "302 /%FF"), ("/%FF%FFz", "303 /%FF%FF"), ("/config/%FF%0A.ini", "403")]);
}

#[test]
fn rules_share_directories() {
    let one = ruled(vec![alias(&["/icons/*"], "/icons"), alias(&["/i/*"], "/icons")]);
    let mut two = one.clone();
    two.name = vec!["b.test".into()];
    let sites = Sites::new(vec![one, two]);
    let paths: Vec<&str> = sites.directories().iter().map(|base| base.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["/srv", "/srv", "/icons"]);
}

#[test]
fn an_act_above_does_not_take_a_path_past_a_deny_below() {
    let site = ruled(vec![alias(&["/icons/*"], "/icons"), respond(rule(&["/said"]), 200), deny(rule(&["/icons/sub/*", "/said"]), all())]);
    check(&site, &[("/icons/x.png", "/icons/x.png"), ("/icons/sub/y.png", "403"), ("/said", "403")]);
}

#[test]
fn access_rules_that_ask_the_disk_ask_once_for_each_path() {
    let (mut one, mut two) = (deny(rule(&[]), all()), deny(rule(&[]), all()));
    one.matchers.exists = Some(Exists::Directory);
    two.matchers.exists = Some(Exists::None);
    let mut other = act(deny(rule(&["/other"]), all()), Act::Root(directory("/other", "")));
    other.matchers.exists = Some(Exists::File);
    let site = ruled(vec![one, two, other, rewrite(rule(&["/a.txt"]), "/secret"), rewrite(rule(&["/secret"]), "/folder")]);
    let ran = ask(&site, &Asked::get("/a.txt"));
    // For the path, for each of the two it becomes, of which the last is refused.
    assert_eq!((ran.text.as_str(), ran.asked), ("403", 3));
    assert_eq!(get(&site, "/nothing"), "403");
}
