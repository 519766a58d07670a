//! `anchorite explain`: offline, it says what the running server does.

use crate::support::{Client, Configuration, Launch, Root, Server, free_port, needs_root, request};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

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
    let sent: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{sent}\r\n");
    let real = server.exchange(request, method);
    let lines = explained(server, method, &format!("http://{host}{target}"), fields);
    let told = answer(&lines);
    assert_eq!((real.status, told["status"].as_u64()), (status, Some(status.into())), "{method} {host}{target}: {told}");
    if let Some(location) = real.field("Location") {
        assert_eq!(told["location"], location, "{host}{target}");
    }
    // What it says of a file is what is sent.
    for line in lines.iter().filter(|line| line["what"] == "header") {
        let (name, value) = (line["name"].as_str().unwrap(), line["value"].as_str().unwrap());
        assert_eq!(real.field(name), Some(value), "{method} {host}{target}: {name}");
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
fn what_a_request_says_of_versions_and_parts_is_told() {
    let root = Root::with_index();
    let text = "some text that is long enough to be worth encoding\n".repeat(100);
    root.file("page.html", &text);
    root.file("beside.html", &text);
    root.file("beside.html.gz", "not smaller, but there");
    root.file("412.html", "my own");
    let rules = "error_pages = { 412 = \"/412.html\", 416 = \"/412.html\" }\n[[site.rule]]\nheader = { X-Status = \"{status}\" }";
    let server = Server::run(&Configuration::of(&root.path()).site_also(rules));
    let tag = |target: &str, fields: &[&str]| {
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        let answer = server.exchange(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n"), "GET");
        answer.field("ETag").unwrap().to_owned()
    };
    let gzip = "Accept-Encoding: gzip";
    let (plain, beside, made) = (tag("/page.html", &[]), tag("/beside.html", &[gzip]), tag("/page.html", &[gzip]));
    assert!(made.starts_with("W/") && !beside.starts_with("W/") && beside.ends_with("-gzip\""), "{made} {beside}");
    let none = |tag: &str| format!("If-None-Match: {tag}");
    let only = |tag: &str| format!("If-Match: {tag}");
    let past = "Sat, 01 Jan 2000 00:00:00 GMT";
    let future = "Fri, 01 Jan 2100 00:00:00 GMT";
    for (method, target, fields, status) in [
        ("GET", "/page.html", vec![none(&plain)], 304),
        ("HEAD", "/page.html", vec![none("*")], 304),
        ("GET", "/page.html", vec![none("\"other\"")], 200),
        ("GET", "/page.html", vec![none(&made), gzip.to_owned()], 304),
        ("GET", "/page.html", vec![only(&plain)], 200),
        ("GET", "/page.html", vec![only(&plain), gzip.to_owned()], 412),
        ("GET", "/page.html", vec![only("\"other\"")], 412),
        ("GET", "/beside.html", vec![none(&beside), gzip.to_owned()], 304),
        ("GET", "/beside.html", vec![none(&beside)], 200),
        ("GET", "/page.html", vec![format!("If-Modified-Since: {future}")], 304),
        ("GET", "/page.html", vec![format!("If-Modified-Since: {past}")], 200),
        ("GET", "/page.html", vec![format!("If-Unmodified-Since: {past}")], 412),
        ("GET", "/page.html", vec!["Range: bytes=0-3".to_owned()], 206),
        ("GET", "/page.html", vec!["Range: bytes=0-3,9-10".to_owned(), gzip.to_owned()], 206),
        ("GET", "/beside.html", vec!["Range: bytes=0-3,9-10".to_owned(), gzip.to_owned()], 200),
        ("GET", "/page.html", vec!["Range: bytes=999999-".to_owned()], 416),
        ("GET", "/beside.html", vec!["Range: bytes=50-".to_owned(), gzip.to_owned()], 416),
        ("HEAD", "/page.html", vec!["Range: bytes=0-3".to_owned()], 200),
        ("GET", "/page.html", vec!["Range: bytes=0-3".to_owned(), "If-Range: \"other\"".to_owned()], 200),
        ("GET", "/page.html", vec!["Range: bytes=0-3".to_owned(), format!("If-Range: {plain}")], 206),
    ] {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        both_say(&server, (method, "a", target, &fields, status));
        let told = explained(&server, method, &format!("http://a{target}"), &fields);
        let header = told.iter().find(|line| line["what"] == "header" && line["name"] == "X-Status").unwrap();
        assert_eq!(header["value"], status.to_string(), "{told:?}");
        assert_eq!(told.iter().any(|line| line["what"] == "error_page"), status == 412, "{told:?}");
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
fn a_link_that_is_not_followed_is_named_with_its_reason() {
    let root = Root::with_index();
    root.file("file.txt", "x");
    root.file("../outside/file", "x");
    root.link("leaves", "../outside/file");
    root.link("loop", "loop");
    root.link("dangling", "nowhere");
    root.link("passwd", "/etc/passwd");
    root.link("inside", "file.txt");
    root.link("directory", "../outside");
    for (policy, link, path, why) in [
        ("owner", "leaves", "leaves", "leads out of the directory"),
        ("owner", "loop", "loop", "too many links"),
        ("owner", "dangling", "dangling", "leads to nothing"),
        ("owner", "directory", "directory/file", "leads out of the directory"),
        ("never", "inside", "inside", "no symbolic link is followed"),
        ("inside", "passwd", "passwd", "leads out of the directory"),
        ("any", "dangling", "dangling", "leads to nothing"),
    ] {
        let server = Server::run(&Configuration::new().site(&root.path(), &format!("name = [\"\"]\nsymlinks = {policy:?}")));
        server.get(&*format!("/{path}")).must_be(&[404]);
        let told = server.order(&["explain", &format!("/{path}")]).stdout;
        let target = fs::read_link(root.at(link)).unwrap();
        let named = format!("finds nothing: {:?} -> {target:?}, with symlinks = \"{policy}\": ", root.at(link));
        assert!(told.contains(&named) && told.contains(why), "{policy} {path}: {told}");
        server.get("/none").must_be(&[404]);
        assert!(server.order(&["explain", "/none"]).stdout.contains("finds nothing\n"));
    }
}

#[test]
fn what_the_jail_does_not_show_is_not_found_by_explain_either() {
    let root = Root::with_index();
    root.file("../shown/file", "x");
    root.file("../not-shown/file", "x");
    root.link("passwd", "/etc/passwd");
    root.link("in", "index.html");
    root.link("also", root.base().join("shown/file"));
    root.link("relative", "../shown/file");
    root.link("not", "../not-shown/file");
    root.link("through", root.base().join("not-shown"));
    let base = root.base().display();
    let also = format!("also = [\"{base}/shown\"]");
    let chroot = format!("{also}\nmode = \"chroot\"\nroot = \"{base}\"");
    for (jail, cases) in [
        (&also, &[("/passwd", 404), ("/in", 200), ("/also", 200), ("/relative", 200), ("/not", 404), ("/through/file", 404)][..]),
        (&chroot, &[("/passwd", 404), ("/in", 200), ("/relative", 200), ("/not", 403)]),
    ] {
        let server = Server::run(&Configuration::new().jail(jail).site(&root.path(), "name = [\"\"]\nsymlinks = \"any\""));
        for (target, status) in cases {
            both_say(&server, ("GET", "a", target, &[], *status));
        }
    }
}

#[test]
fn a_directory_that_cannot_be_read_is_not_listed_by_explain_either() {
    needs_root!();
    let root = Root::with_index();
    root.file("closed/file", "x");
    root.file("open/file", "x");
    root.mode("closed", 0o711);
    root.file("403.html", "no\n");
    let server = Server::run(&Configuration::of(&root.path()).site_also("listing = true\nerror_pages = { 403 = \"/403.html\" }"));
    both_say(&server, ("GET", "a", "/closed/", &[], 403));
    both_say(&server, ("GET", "a", "/open/", &[], 200));
    let told = server.order(&["explain", "/closed/"]).stdout;
    assert!(told.contains("cannot list: ") && told.contains("its page is "), "{told}");
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
fn a_host_at_an_address_is_explained_as_it_is_answered_there() {
    let root = Root::new();
    for name in ["all", "own", "socket"] {
        root.file(format!("{name}/index.html"), name);
    }
    let (port, socket) = (free_port(), root.base().join("s.sock"));
    let user = if crate::support::is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" };
    let rules = "[[site.rule]]\npath = \"/denied\"\ndeny = \"127.0.0.0/8\"\n[[site.rule]]\npath = \"/status\"\nrespond = \"status\"\n\
                 [[site.rule]]\npath = \"/who\"\nredirect = \"/{client}\"\n";
    let configuration = Configuration::new()
        .server(&format!("{user}listen = [\"0.0.0.0:{port}\"]"))
        .site(&root.at("all"), "name = [\"\"]")
        .site(&root.at("own"), &format!("name = [\"own.test\"]\nlisten = [\"127.0.0.2:{port}\"]"))
        .site(&root.at("socket"), &format!("name = [\"sock.test\"]\nlisten = [\"unix:{}\"]\n{rules}", socket.display()));
    let server = Server::run(&configuration);
    for (address, host, right) in [
        ("127.0.0.1", "own.test", "all"),
        ("127.0.0.2", "own.test", "own"),
        ("127.0.0.2", "127.0.0.1", "all"),
        ("127.0.0.1", "sock.test", "all"),
    ] {
        let mut client = Client::connect(format!("{address}:{port}").parse().unwrap());
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.response("GET").must_be(&[200]).text(), right, "{host} at {address}");
        let lines = explained(&server, "GET", &format!("http://{address}:{port}/"), &[&format!("Host: {host}")]);
        assert_eq!(answer(&lines)["file"].as_str(), root.at(format!("{right}/index.html")).to_str(), "{host} at {address}");
    }
    // Who comes over a socket has no address, and is not this machine.
    for (target, status) in [("/", 200), ("/denied", 404), ("/status", 403), ("/who", 302)] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: sock.test\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut real = String::new();
        stream.read_to_string(&mut real).unwrap();
        assert!(real.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {real}");
        for (url, client) in [("http://sock.test", None), (&format!("http://sock.test:{port}"), Some("unix:"))] {
            let mut words = vec!["explain".to_owned(), format!("{url}{target}"), "--json".to_owned()];
            words.extend(client.map(|client| format!("--client={client}")));
            let told = server.order(&words.iter().map(String::as_str).collect::<Vec<_>>()).stdout;
            let lines: Vec<serde_json::Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(answer(&lines)["status"], status, "{target}: {told}");
            assert_eq!(lines.iter().find(|line| line["what"] == "client").unwrap()["client"], "unix:", "{told}");
        }
    }
    assert_eq!(server.order(&["explain", "/", "--client", "unix"]).code, Some(2));
}

#[test]
fn the_page_of_an_error_is_named() {
    let root = Root::with_index();
    root.file("404.html", "not here\n");
    root.file("rw.txt", "x");
    let site = "error_pages = { 404 = \"/404.html\", 405 = \"/gone.html\" }\n[[site.rule]]\npath = \"/no\"\nrespond = 403\n\
                [[site.rule]]\npath = \"/none\"\nrespond = 404\n\
                [[site.rule]]\npath = \"/own\"\nrespond = 404\nrespond_body = \"nothing here\"";
    let server = Server::run(&Configuration::new().site(&root.path(), &format!("name = [\"\"]\n{site}")));
    assert_eq!(server.get("/none").must_be(&[404]).text(), "not here\n");
    let told = server.order(&["explain", "/none"]).stdout;
    assert!(told.ends_with(&format!("its page is \"{}/404.html\"\n", root.path().display())), "{told}");
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
    for url in ["/rw.txt", "/own", "/no"] {
        let told = server.order(&["explain", url]).stdout;
        assert!(!told.contains("its page"), "{told}");
    }
}

#[test]
fn a_body_that_is_too_large_is_told() {
    let root = Root::with_index();
    root.file("413.html", "too much\n");
    let site = "name = [\"\"]\nerror_pages = { 413 = \"/413.html\" }\n[[site.rule]]\npath = \"/large\"\nbody = \"1KiB\"\n\
                [[site.rule]]\npath = \"/*\"\nmethod = \"POST\"\nrespond = 204";
    let server = Server::run(&Configuration::new().site(&root.path(), site).limits("body = \"100B\""));
    for (target, length, status) in [("/", 100, 204), ("/", 101, 413), ("/large", 1024, 204), ("/large", 1025, 413)] {
        let field = format!("Content-Length: {length}");
        let mut client = server.connect();
        client.send(request("POST", target, &[&field]));
        if status == 204 {
            client.send(vec![b'x'; length]);
        }
        client.response("POST").must_be(&[status]);
        let lines = explained(&server, "POST", target, &[&field]);
        assert_eq!(answer(&lines)["status"].as_u64(), Some(status.into()), "{target} {length}");
        let pages = lines.iter().filter(|line| line["what"] == "error_page" && line["sent"] == true).count();
        assert_eq!(pages, usize::from(status == 413), "{lines:#?}");
    }
}

#[test]
fn the_coding_that_is_sent_is_named_as_it_is_chosen() {
    let root = Root::with_index();
    let text: String = (0..400).map(|number| format!(".c{number} {{ margin: 0 }}\n")).collect();
    root.file("a.css", &text);
    root.file("b.css", &text);
    root.file("b.css.gz", "stored");
    root.file("c.css", &text);
    root.file("c.css.br", "denied");
    root.file("small.css", "a {}");
    root.file("a.png", &text);
    for number in 0..50 {
        root.file(format!("list/{number:050}"), "");
    }
    let rules = "name = [\"\"]\n[[site.rule]]\npath = \"/list/*\"\nlisting = true\n\
                 [[site.rule]]\npath = \"*.br\"\ndeny = \"127.0.0.0/8\"\n\
                 [[site.rule]]\npath = \"/plain/*\"\ncompress = []\nrewrite = \"/{1}\"\n";
    let server = Server::run(&Configuration::new().site(&root.path(), rules));
    for target in ["/a.css", "/b.css", "/c.css", "/small.css", "/a.png", "/plain/a.css", "/list/"] {
        for accepted in ["gzip", "br", "gzip;q=0.5, zstd", "identity", "*", "gzip;q=0, *", "br, gzip"] {
            let field = format!("Accept-Encoding: {accepted}");
            let real = server.ask("GET", target, &[&field]).must_be(&[200]);
            let lines = explained(&server, "GET", target, &[&field]);
            let told = lines.iter().find(|line| line["what"] == "coding").and_then(|line| line["coding"].as_str());
            assert_eq!(real.field("Content-Encoding").unwrap_or("identity"), told.unwrap_or("identity"), "{target} {accepted}: {lines:?}");
        }
    }
    let stored = explained(&server, "GET", "/b.css", &["Accept-Encoding: gzip"]);
    let line = stored.iter().find(|line| line["what"] == "coding").unwrap();
    assert_eq!(line["file"].as_str(), root.at("b.css.gz").to_str());
    let listing = explained(&server, "GET", "/list/", &[]);
    assert_eq!(answer(&listing)["rule"], 1, "{listing:?}");
    let text = server.order(&["explain", "/list/"]).must_be_done().stdout;
    assert!(text.contains(", which rule 1 (") && text.contains(") allows\n"), "{text}");
}

#[test]
fn the_head_that_a_backend_of_http_gets_is_told() {
    let (root, home) = (Root::new(), tempfile::tempdir().unwrap());
    let configuration = Configuration::of(&root.path())
        .server_also("trusted_proxies = [\"10.0.0.0/8\"]")
        .backend("\n[backend.app]\ntype = \"http\"\naddress = [\"127.0.0.1:9\"]\n")
        .rule("path = \"/app/*\"\nbackend = \"app\"");
    let file = home.path().join("site.toml");
    std::fs::write(&file, configuration.text(home.path())).unwrap();
    let said = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_anchorite"))
            .arg("explain")
            .args(arguments)
            .arg("-c")
            .arg(&file)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = said(&["http://a.test/app/./x%2Fy?z", "--client", "10.0.0.9", "--header", "X-Forwarded-For: 192.0.2.66, 198.51.100.7"]);
    for line in [
        "head GET /app/x%2Fy?z HTTP/1.1",
        "head Host: a.test",
        "head X-Forwarded-For: 198.51.100.7, 10.0.0.9",
        "head X-Forwarded-Proto: http",
        "head X-Forwarded-Host: a.test",
    ] {
        assert!(text.lines().any(|have| have == line), "{line}: {text}");
    }
    assert!(!text.contains("parameter "), "{text}");
}
