//! `anchorite explain`: offline, it says what the running server does.

use crate::support::{Configuration, Launch, Root, Server, free_port, needs_root};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The lines of `explain --json`.
fn explained(server: &Server, method: &str, url: &str, fields: &[&str]) -> Vec<serde_json::Value> {
    let mut words = vec!["explain", url, "--json", "--method", method];
    for field in fields {
        words.extend(["--header", field]);
    }
    let ended = server.order(&words);
    let lines = ended.stdout.lines();
    let lines: Vec<_> = lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    assert!(!lines.is_empty(), "{url}: {ended:?}");
    lines
}

fn answer(lines: &[serde_json::Value]) -> &serde_json::Value {
    lines.iter().find(|line| line["what"] == "answer").unwrap()
}

/// Asks the server and `explain` the same; both must say this.
#[track_caller]
fn both_say(server: &Server, (method, host, target, fields, status): (&str, &str, &str, &[&str], u16)) {
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n");
    let real = server.exchange(request, method);
    let told = explained(server, method, &format!("http://{host}{target}"), fields);
    let told = answer(&told);
    assert_eq!((real.status, told["status"].as_u64()), (status, Some(status.into())), "{method} {host}{target}: {told}");
    if let Some(location) = real.field("Location") {
        assert_eq!(told["location"], location, "{host}{target}");
    }
}

#[test]
fn the_server_and_the_explanation_agree() {
    let root = Root::with_index();
    root.file("page.html", "page");
    root.file("dir/index.html", "dir");
    root.file("list/x", "x");
    root.directory("empty");
    root.file(".git", "hidden");
    root.file("closed", "closed");
    root.mode("closed", 0o600);
    root.file("private/index.html", "private");
    root.mode("private", 0o700);
    root.link("dangling", "nowhere");
    root.link("out", root.base());
    root.fifo("fifo");
    root.file("../hosts/one/index.html", "one");
    root.file("../icons/x.png", "png");
    let base = root.base().display();
    let rules = format!(
        "name = [\"a\"]\n\
         [[site.rule]]\npath = \"/list/*\"\nlisting = true\n\
         [[site.rule]]\npath = \"/old/*\"\nredirect = \"/new/{{1}}?{{query}}\"\n\
         [[site.rule]]\npath = \"/deny/*\"\ndeny = [\"127.0.0.0/8\"]\n\
         [[site.rule]]\npath = \"/gone\"\nrespond = 410\n\
         [[site.rule]]\npath = \"/health\"\nrespond = \"health\"\n\
         [[site.rule]]\npath = \"/icons/*\"\nalias = \"{base}/icons\"\n\
         [[site.rule]]\npath = \"/into/*\"\nrewrite = \"/deny/{{1}}\"\n\
         [[site.rule]]\nrequest_header = {{ X-Go = \"*\" }}\nredirect = \"/gone\"\nstatus = 303\n\
         [[site.rule]]\npath = \"/try/*\"\ntry = [\"/{{1}}\", \"/{{1}}/\", \"/page.html\"]\n"
    );
    let hosts = format!("name = [\"b\"]\n[[site]]\nname = [\"*.example.org\"]\nroot = \"{base}/hosts/{{1}}\"");
    let configuration =
        Configuration::of(&root.path()).jail(&format!("also = [\"{base}/hosts\"]")).site(&root.path(), &rules).site(&root.path(), &hosts);
    let server = Server::run(&configuration);
    let mut cases: Vec<(&str, &str, &str, &[&str], u16)> = vec![
        ("GET", "a", "/", &[], 200),
        ("HEAD", "a", "/page.html?x=y", &[], 200),
        ("POST", "a", "/", &["Content-Length: 0"], 405),
        ("OPTIONS", "a", "/", &[], 204),
        ("BREW", "a", "/", &[], 501),
        ("GET", "a", "/none", &[], 404),
        ("GET", "a", "/.git", &[], 404),
        ("GET", "a", "/dir", &[], 301),
        ("GET", "a", "/dir?a=b", &[], 301),
        ("GET", "a", "/dir/", &[], 200),
        ("GET", "a", "/empty/", &[], 403),
        ("GET", "a", "/list/", &[], 200),
        ("GET", "a", "/page.html/", &[], 404),
        ("GET", "a", "/dir%2Findex.html", &[], 404),
        ("GET", "a", "/dangling", &[], 404),
        ("GET", "a", "/fifo", &[], 403),
        ("GET", "a", "/old/x%20y?q", &[], 302),
        ("GET", "a", "/deny/x", &[], 403),
        ("GET", "a", "/into/x", &[], 403),
        ("GET", "a", "/gone", &[], 410),
        ("GET", "a", "/health", &[], 200),
        ("GET", "a", "/icons", &[], 301),
        ("GET", "a", "/icons/x.png", &[], 200),
        ("GET", "a", "/icons../x.png", &[], 404),
        ("GET", "a", "/", &["X-Go: 1"], 303),
        ("GET", "a", "/try/dir", &[], 301),
        ("GET", "a", "/try/none", &[], 200),
        ("GET", "b", "/old/x", &[], 404),
        ("GET", "other", "/", &[], 200),
        ("GET", "one.example.org", "/", &[], 200),
        ("GET", "two.example.org", "/", &[], 404),
    ];
    if crate::support::is_root() {
        cases.extend([("GET", "a", "/closed", &[] as &[&str], 403), ("GET", "a", "/private/", &[], 403)]);
    }
    for case in cases {
        both_say(&server, case);
    }
}

#[test]
fn a_bad_target_is_explained_with_its_status() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    for target in ["/../x", "/%00", "/%zz", "/a%"] {
        server.get(target).must_be(&[400]);
        let ended = server.order(&["explain", target]).must_fail();
        assert!(ended.stderr.starts_with("400"), "{target}: {ended:?}");
        assert_eq!(answer(&explained(&server, "GET", target, &[]))["status"], 400, "{target}");
    }
}

#[test]
fn what_refuses_is_named() {
    needs_root!();
    let root = Root::with_index();
    root.file("private/sub/file", "private");
    root.mode("private", 0o700);
    let server = Server::run(&Configuration::of(&root.path()));
    server.get("/private/sub/file").must_be(&[403]);
    let text = server.order(&["explain", "/private/sub/file"]);
    assert!(text.code == Some(1) && text.stdout.contains(&format!("\"{}\" refuses", root.at("private").display())), "{text:?}");
}

#[test]
fn every_rule_is_told_with_its_place_and_why_it_does_not_match() {
    let root = Root::with_index();
    let rules = "name = [\"\"]\n[[site.rule]]\npath = \"/x\"\nmethod = [\"POST\"]\nrespond = 404\n\
                 [[site.rule]]\npath = \"/y\"\nrespond = 404\n[[site.rule]]\npath = \"/x\"\nheader = { X-A = \"b\" }\nrespond = 410\n";
    let server = Server::run(&Configuration::new().site(&root.path(), rules));
    let lines = explained(&server, "GET", "/x", &[]);
    let rules: Vec<_> = lines.iter().filter(|line| line["what"] == "rule").collect();
    assert_eq!(rules.len(), 3, "{lines:?}");
    let matches: Vec<_> = rules.iter().map(|rule| rule["matches"].as_bool().unwrap()).collect();
    assert_eq!(matches, [false, false, true]);
    assert!(rules[0]["because"].as_str().unwrap().contains("method") && rules[1]["because"].as_str().unwrap().contains("path"));
    let place = rules[2]["place"].as_str().unwrap();
    let text = fs::read_to_string(server.configuration()).unwrap();
    let line: usize = place.rsplit_once(':').unwrap().1.parse().unwrap();
    assert_eq!(text.lines().nth(line - 1), Some("[[site.rule]]"), "{place}");
    let text = server.order(&["explain", "/x"]).stdout;
    assert!(text.contains("410") && text.to_lowercase().contains("x-a"), "{text}");
    // For another client, another answer.
    fs::set_permissions(server.configuration(), fs::Permissions::from_mode(0o600)).unwrap();
    let denied = server.order(&["explain", "/x", "--method", "POST", "--client", "2001:db8::1"]);
    assert!(denied.stdout.contains("404"), "{denied:?}");
}

#[test]
fn a_site_at_an_address_that_a_wider_one_covers_is_found_by_its_name() {
    let root = Root::new();
    for name in ["all", "own"] {
        root.file(format!("{name}/index.html"), name);
    }
    let launch = Launch::new();
    let port = free_port();
    let configuration = Configuration::new()
        .server(&format!("listen = [\"0.0.0.0:{port}\"]"))
        .site(&root.at("all"), "name = [\"\"]")
        .site(&root.at("own"), &format!("name = [\"own.test\"]\nlisten = [\"127.0.0.2:{port}\"]"));
    let file = launch.write_configuration(&configuration.text(launch.home()));
    for (host, right) in [("own.test", "own"), ("127.0.0.2", "all"), ("other.test", "all"), ("127.0.0.1", "all")] {
        let url = format!("http://{host}:{port}/");
        let words = ["explain", url.as_str(), "-c", file.to_str().unwrap()].map(Into::into);
        let told = launch.to_end(&words).must_be_done().stdout;
        assert!(told.contains(&format!("/{right}/index.html")), "{url}: {told}");
    }
}

#[test]
fn the_page_of_an_error_is_named() {
    let root = Root::with_index();
    root.file("404.html", "not here\n");
    root.file("rw.txt", "x");
    let site = "error_pages = { 404 = \"/404.html\", 405 = \"/gone.html\" }\n[[site.rule]]\npath = \"/no\"\nrespond = 403";
    let server = Server::run(&Configuration::new().site(&root.path(), &format!("name = [\"\"]\n{site}")));
    assert_eq!(server.get("/missing").must_be(&[404]).text(), "not here\n");
    let told = server.order(&["explain", "/missing"]).stdout;
    assert!(told.ends_with(&format!("its page is \"{}/404.html\"\n", root.path().display())), "{told}");
    let lines = explained(&server, "GET", "/missing", &[]);
    let page = lines.iter().find(|line| line["what"] == "error_page").unwrap();
    assert_eq!((page["status"].as_u64(), page["sent"].as_bool()), (Some(404), Some(true)), "{page}");
    // The page itself is missing.
    assert!(server.ask("POST", "/rw.txt", &["Content-Length: 0"]).must_be(&[405]).text().contains("405"));
    let told = server.order(&["explain", "/rw.txt", "--method", "POST"]).stdout;
    assert!(told.contains("/gone.html\" cannot be had: ") && told.ends_with("the client gets the built-in one\n"), "{told}");
    // No error, a rule's own answer, and an error without a page.
    for url in ["/rw.txt", "/no"] {
        let told = server.order(&["explain", url]).stdout;
        assert!(!told.contains("its page"), "{told}");
    }
}
