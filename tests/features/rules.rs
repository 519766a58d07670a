//! What rules of a site do: their matchers, acts and changes, and the order in which they run.

use crate::support::{Configuration, Response, Root, Server, request, shown};

/// One request and what comes back: status, and what the body is, or where a redirect leads.
type Case<'a> = (&'a str, u16, &'a str);

/// A server with one site, whose root holds `index.html`, and these further lines.
fn server(root: &Root, site: &str) -> Server {
    Server::run(&Configuration::of(&root.path()).site(&root.path(), "name = [\"other.test\"]").site(&root.path(), site))
}

/// A site of this name, and its rules.
fn named(rules: &str) -> String {
    format!("name = [\"a\", \"*.example.org\"]\n{rules}")
}

#[track_caller]
fn is_right(response: &Response, target: &str, status: u16, text: &str) {
    assert_eq!(response.status, status, "{target}: {}", shown(&response.head));
    let found = response.field("Location").map_or_else(|| String::from_utf8_lossy(&response.body).into_owned(), str::to_owned);
    if status / 100 == 3 || status == 200 {
        assert_eq!(found, text, "{target}");
    }
}

#[track_caller]
fn answers(server: &Server, cases: &[Case<'_>]) {
    for (target, status, text) in cases {
        is_right(&server.get(target), target, *status, text);
    }
}

#[track_caller]
fn answers_to(server: &Server, cases: &[(&str, &str, &[&str], u16, &str)]) {
    for (method, target, fields, status, text) in cases {
        is_right(&server.ask(method, target, fields), &format!("{method} {target} {fields:?}"), *status, text);
    }
}

fn of_host(server: &Server, host: &str, target: &str) -> Response {
    server.exchange(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), "GET")
}

/// A rule that answers with this text.
fn says(matchers: &str, text: &str) -> String {
    format!("[[site.rule]]\n{matchers}\nrespond = 200\nrespond_body = {text:?}\n")
}

#[test]
fn paths_match_exactly_or_with_stars() {
    let root = Root::with_index();
    let rules = [
        says("path = \"/exact\"", "exact"),
        says("path = \"/tree/*\"", "tree {1}"),
        says("path = \"*.suffix\"", "suffix {1}"),
        says("path = \"/a/*/b/*\"", "middle {1} {2}"),
        says("path = [\"/one\", \"/two\"]", "either"),
        says("path = \"/sp ace/é\"", "decoded"),
        says("path = \"/100%\"", "percent"),
    ]
    .concat();
    let server = server(&root, &named(&rules));
    answers(
        &server,
        &[
            ("/exact", 200, "exact"),
            ("/%65xact?q", 200, "exact"),
            ("//exact", 200, "exact"),
            ("/./x/../exact", 200, "exact"),
            ("/Exact", 404, ""),
            ("/exact/", 404, ""),
            ("/exactly", 404, ""),
            ("/tree", 404, ""),
            ("/tree/", 200, "tree "),
            ("/tree/a/b", 200, "tree a/b"),
            ("/tree/../exact", 200, "exact"),
            ("/x/y.suffix", 200, "suffix /x/y"),
            ("/y.suffix/", 404, ""),
            ("/a/1/b/2/b/3", 200, "middle 1 2/b/3"),
            ("/a/b/c", 404, ""),
            ("/one", 200, "either"),
            ("/two", 200, "either"),
            ("/sp%20ace/%C3%A9", 200, "decoded"),
            ("/100%25", 200, "percent"),
            ("/", 200, "index\n"),
        ],
    );
}

#[test]
fn methods_hosts_clients_and_headers_match() {
    let root = Root::with_index();
    let rules = [
        says("path = \"/m\"\nmethod = [\"POST\", \"PURGE\"]", "method"),
        says("path = \"/got\"\nmethod = \"GET\"", "got"),
        says("path = \"/c\"\nclient = [\"127.0.0.0/8\", \"2001:db8::/32\"]", "client {client}"),
        says("path = \"/d\"\nclient = [\"192.0.2.0/24\", \"::1\"]", "never"),
        says("path = \"/h\"\nhost = [\"x.example.org\"]", "exact"),
        says("path = \"/h\"\nhost = [\"*.example.org\"]", "wild"),
        says("path = \"/r\"\nrequest_header = { X-One = \"a*\", X-Two = \"*\" }", "headers {header.x-one}"),
        says("path = \"/all\"\nmethod = [\"GET\"]\nrequest_header = { X-One = \"1\" }\nclient = [\"127.0.0.1\"]", "all"),
    ]
    .concat();
    let server = server(&root, &named(&rules));
    answers_to(
        &server,
        &[
            ("POST", "/m", &["Content-Length: 0"], 200, "method"),
            ("PURGE", "/m", &[], 200, "method"),
            ("GET", "/m", &[], 404, ""),
            ("GET", "/got", &[], 200, "got"),
            ("HEAD", "/got", &[], 200, ""),
            ("PURGE", "/got", &[], 501, ""),
            ("GET", "/c", &[], 200, "client 127.0.0.1"),
            ("GET", "/d", &[], 404, ""),
            ("GET", "/r", &["x-one: abc", "X-TWO: "], 200, "headers abc"),
            ("GET", "/r", &["X-One: abc"], 404, ""),
            ("GET", "/r", &["X-One: b", "X-Two: 1"], 404, ""),
            ("GET", "/r", &["X-One: b", "X-One: ab", "X-Two: 1"], 200, "headers b"),
            ("GET", "/all", &["X-One: 1"], 200, "all"),
            ("GET", "/all", &["X-One: 2"], 404, ""),
            ("HEAD", "/all", &["X-One: 1"], 200, ""),
        ],
    );
    for (host, status, text) in
        [("x.example.org", 200, "exact"), ("X.Example.ORG.:80", 200, "exact"), ("y.example.org", 200, "wild"), ("a", 404, "")]
    {
        is_right(&of_host(&server, host, "/h"), host, status, text);
    }
}

#[test]
fn regular_expressions_match_the_decoded_path_and_capture() {
    let root = Root::with_index();
    let rules = [
        says("regex = \"^/user/([a-z]+)/(\\\\d+)$\"", "{1} {2}"),
        says("regex = \"^/opt(ional)?/x$\"", "[{1}]"),
        says("path = \"/both/*\"\nregex = \"/(.)$\"", "group {1}"),
        says("regex = \"(?i)^/CASE$\"", "case"),
    ]
    .concat();
    let server = server(&root, &named(&rules));
    answers(
        &server,
        &[
            ("/user/bob/42", 200, "bob 42"),
            ("/user/%62ob/42?x", 200, "bob 42"),
            ("/user/Bob/42", 404, ""),
            ("/user/bob/42/", 404, ""),
            ("/opt/x", 200, "[]"),
            ("/optional/x", 200, "[ional]"),
            ("/both/a/b", 200, "group b"),
            ("/both/ab", 404, ""),
            ("/case", 200, "case"),
        ],
    );
}

#[test]
fn exists_asks_the_disk() {
    let root = Root::with_index();
    root.file("f", "file");
    root.file("d/index.html", "d\n");
    root.file(".hidden", "hidden");
    root.fifo("fifo");
    let rules = [
        says("path = \"/f*\"\nexists = \"file\"", "file"),
        says("path = \"/d*\"\nexists = \"directory\"", "directory"),
        says("exists = \"none\"", "none"),
    ]
    .concat();
    let server = server(&root, &named(&rules));
    answers(
        &server,
        &[
            ("/f", 200, "file"),
            ("/f/", 200, "none"),
            ("/d", 200, "directory"),
            ("/d/", 200, "directory"),
            ("/d/index.html", 200, "d\n"),
            ("/nothing", 200, "none"),
            ("/f%2Fx", 200, "none"),
            ("/.hidden", 200, "none"),
            ("/fifo", 403, ""),
            ("/", 200, "index\n"),
        ],
    );
}

#[test]
fn another_root_and_aliases_are_looked_up() {
    let root = Root::with_index();
    root.file("icons.html", "in the root");
    root.file("../icons/x.png", "png");
    root.file("../icons/index.html", "icons");
    root.file("../icons/secret/.git", "git");
    root.file("../other/sub/page", "other root");
    root.file("../one-file", "one file");
    root.file("../secret", "SECRET");
    let base = root.base().display();
    let rules = format!(
        "[[site.rule]]\npath = \"/icons/*\"\nalias = \"{base}/icons\"\n\
         [[site.rule]]\npath = \"/pics\"\nalias = \"{base}/icons\"\n\
         [[site.rule]]\npath = \"/single.txt\"\nalias = \"{base}/one-file\"\n\
         [[site.rule]]\npath = \"/sub/*\"\nroot = \"{base}/other\"\n"
    );
    let server = server(&root, &named(&rules));
    answers(
        &server,
        &[
            // 104, P16
            ("/icons.html", 200, "in the root"),
            ("/icons", 301, "/icons/"),
            ("/icons?a=1&b=%2F;c", 301, "/icons/?a=1&b=%2F;c"),
            ("/icons/", 200, "icons"),
            ("/icons/x.png", 200, "png"),
            ("/icons../secret", 404, ""),
            ("/icons/../secret", 404, ""),
            ("/icons/%2e%2e/secret", 404, ""),
            ("/icons/..%2Fsecret", 404, ""),
            ("/icons/secret/.git", 404, ""),
            ("/icons/secret", 301, "/icons/secret/"),
            ("/iconsx.png", 404, ""),
            ("/pics", 301, "/pics/"),
            ("/pics/", 200, "icons"),
            ("/pics/x.png", 404, ""),
            ("/single.txt", 200, "one file"),
            ("/single.txt/", 404, ""),
            ("/single.txt/x", 404, ""),
            ("/sub/page", 200, "other root"),
            ("/sub", 404, ""),
            ("/sub/none", 404, ""),
        ],
    );
}

#[test]
fn redirects_lead_where_the_rule_says() {
    let root = Root::with_index();
    let rules = "[[site.rule]]\npath = \"/old/*\"\nredirect = \"/new/{1}\"\nstatus = 301\n\
                 [[site.rule]]\npath = \"/plain\"\nredirect = \"https://example.org/\"\n\
                 [[site.rule]]\npath = \"/q/*\"\nredirect = \"/find?for={1}&was={query}\"\nstatus = 307\n\
                 [[site.rule]]\npath = \"/host\"\nredirect = \"https://{host}{uri}\"\nstatus = 308\n\
                 [[site.rule]]\nregex = \"^/r/(.*)/(.*)$\"\nredirect = \"/{2}/{1}\"\nstatus = 303\n\
                 [[site.rule]]\npath = \"/open/*\"\nredirect = \"/{1}\"\n";
    let server = server(&root, &named(rules));
    answers(
        &server,
        &[
            ("/old/a/b", 301, "/new/a/b"),
            ("/old/a%20b%3F%23", 301, "/new/a%20b%3F%23"),
            ("/old/%C3%A9%25", 301, "/new/%C3%A9%25"),
            ("/plain", 302, "https://example.org/"),
            ("/q/a&b=c", 307, "/find?for=a%26b%3Dc&was="),
            ("/host?x=%2F", 308, "https://a/host?x=%2F"),
            ("/r/one/two", 303, "/two/one"),
            ("/old/a%0d%0aX-Evil:1", 301, "/new/a%0D%0AX-Evil:1"),
        ],
    );
    // 032: what a client puts into the target names no other host.
    for target in ["/open//evil.test/", "/open/%2Fevil.test", "/open/%5Cevil.test", "/open/%09/evil.test", "/open/%2F%2Fevil.test"] {
        let response = server.get(target);
        let location = response.field("Location").unwrap_or("/");
        assert!(!location.starts_with("//") && !location.starts_with("/\\") && location.starts_with('/'), "{target}: {location}");
    }
}

#[test]
fn the_slash_of_a_directory_is_redirected_by_path_alone() {
    let root = Root::with_index();
    root.file("dir/index.html", "dir\n");
    root.directory("evil.test/dir");
    root.directory("dir/evil.test");
    let server = server(&root, &named("listing = true"));
    answers(
        &server,
        &[
            // 028, 029
            ("/dir", 301, "/dir/"),
            ("/dir?a=1&b=%2F;c", 301, "/dir/?a=1&b=%2F;c"),
            ("/dir?", 301, "/dir/?"),
            ("//evil.test/dir", 301, "/evil.test/dir/"),
            ("/dir//evil.test", 301, "/dir/evil.test/"),
        ],
    );
    // 032, 034
    for target in ["/public/..%2F%5cevil.test%2F%3f%2F..%2F..", "/%5C%5Cevil.test/%252e%252e", "/dir%2Findex.html", "/dir%2F"] {
        server.get(target).must_be(&[400, 404]);
    }
}

#[test]
fn rewriting_goes_on_with_the_next_rule() {
    let root = Root::with_index();
    root.file("real.html", "real");
    root.file(".secret", "hidden");
    let rules = [
        // Above the rewriting: not seen again.
        says("path = \"/real.html\"\nrequest_header = { X-Above = \"1\" }", "above"),
        "[[site.rule]]\npath = \"/p/*\"\nrewrite = \"/show?q={1}&{query}\"\n".into(),
        "[[site.rule]]\npath = \"/keep/*\"\nrewrite = \"/show\"\n".into(),
        "[[site.rule]]\npath = \"/file\"\nrewrite = \"/real.html\"\n".into(),
        "[[site.rule]]\npath = \"/twice\"\nrewrite = \"/once\"\n".into(),
        "[[site.rule]]\npath = \"/once\"\nrewrite = \"/real.html\"\n".into(),
        "[[site.rule]]\npath = \"/hide\"\nrewrite = \"/.secret\"\n".into(),
        "[[site.rule]]\npath = \"/climb/*\"\nrewrite = \"/x/../../{1}\"\n".into(),
        says("path = \"/show\"", "{path} {query} {uri}"),
        says("path = \"/again\"", "not reached"),
    ]
    .concat();
    let server = server(&root, &named(&rules));
    answers(
        &server,
        &[
            ("/p/a?b=c", 200, "/show q=a&b=c /p/a?b=c"),
            ("/p/AT%26T?", 200, "/show q=AT%26T& /p/AT%26T?"),
            ("/keep/x?b=c", 200, "/show b=c /keep/x?b=c"),
            ("/file", 200, "real"),
            ("/twice", 200, "real"),
            ("/hide", 404, ""),
            ("/climb/etc/passwd", 400, ""),
        ],
    );
    assert_eq!(server.ask("GET", "/file", &["X-Above: 1"]).text(), "real");
    assert_eq!(server.ask("GET", "/real.html", &["X-Above: 1"]).text(), "above");
}

#[test]
fn try_takes_the_first_that_exists_and_the_last_anyway() {
    let root = Root::with_index();
    root.file("page.html", "page");
    root.file("plain", "plain");
    root.file("dir/index.html", "dir");
    root.directory("empty");
    let rules = [
        "[[site.rule]]\ntry = [\"{path}\", \"{path}.html\", \"{path}/\", \"/fallback?was={path}\"]\n".into(),
        says("path = \"/fallback\"", "fallback {query}"),
    ]
    .concat();
    let server = server(&root, &named(&rules));
    answers(
        &server,
        &[
            ("/plain", 200, "plain"),
            ("/plain?x", 200, "plain"),
            ("/page", 200, "page"),
            // 031
            ("/dir", 301, "/dir/"),
            ("/dir?a=b", 301, "/dir/?a=b"),
            ("/dir/", 200, "dir"),
            ("/none", 200, "fallback was=/none"),
            ("/none/a&b", 200, "fallback was=/none/a%26b"),
            ("/plain/", 200, "fallback was=/plain/"),
            ("/%2e%2e/plain", 400, ""),
            ("/dir%2Findex.html", 200, "fallback was=/dir/index.html"),
        ],
    );
}

#[test]
fn responses_have_the_status_and_the_text() {
    let root = Root::with_index();
    let rules = "[[site.rule]]\npath = \"/gone\"\nrespond = 410\n\
                 [[site.rule]]\npath = \"/tea\"\nrespond = 418\nrespond_body = \"short {status}\"\n\
                 [[site.rule]]\npath = \"/empty\"\nrespond = 204\n\
                 [[site.rule]]\npath = \"/reset\"\nrespond = 205\n\
                 [[site.rule]]\npath = \"/page\"\nrespond = 404\n";
    root.file("404.html", "own page");
    let server = server(&root, &named(&format!("error_pages = {{ 404 = \"/404.html\" }}\n{rules}")));
    assert!(server.get("/gone").must_be(&[410]).text().contains("410"));
    let tea = server.get("/tea").must_be(&[418]);
    assert_eq!((tea.text().as_str(), tea.field("Content-Type")), ("short 418", Some("text/plain; charset=utf-8")));
    // Nothing follows the head that the next answer would be read from.
    let mut client = server.connect();
    for (target, status) in [("/empty", 204), ("/reset", 205), ("/empty", 204), ("/tea", 418)] {
        client.send(request("GET", target, &[]));
        let response = client.response("GET").must_be(&[status]);
        assert_eq!(response.body.is_empty(), status != 418);
    }
    assert_eq!(server.get("/none").must_be(&[404]).text(), "own page");
    let head = server.head("/tea").must_be(&[418]);
    assert_eq!(head.length(), 9);
}

#[test]
fn headers_are_set_on_every_answer() {
    let root = Root::with_index();
    root.directory("dir");
    let rules = "[[site.rule]]\nheader = { X-Set = \"{method} {path}\", Last-Modified = \"\", X-Twice = \"1\",\
                 X-Status = \"<{status}> {status}\", X-Time = \"{time}\" }\n\
                 [[site.rule]]\nheader = { x-twice = \"2\" }\nexpires = \"1h\"\n\
                 [[site.rule]]\npath = \"/go\"\nredirect = \"/\"\n\
                 [[site.rule]]\npath = \"/deny\"\ndeny = [\"127.0.0.1\"]\n\
                 [[site.rule]]\npath = \"/go\"\nheader = { X-After = \"1\" }\n";
    let server = server(&root, &named(rules));
    let tag = server.get("/").field("ETag").unwrap().to_owned();
    let not_changed = format!("If-None-Match: {tag}");
    for (method, target, fields, status) in [
        ("GET", "/", vec![], 200),
        ("HEAD", "/", vec![], 200),
        ("GET", "/", vec![not_changed.as_str()], 304),
        ("GET", "/", vec!["Range: bytes=0-1"], 206),
        ("GET", "/none", vec![], 404),
        ("DELETE", "/", vec![], 405),
        ("OPTIONS", "/", vec![], 204),
        ("GET", "/go", vec![], 302),
        ("GET", "/dir", vec![], 301),
        ("GET", "/dir/", vec![], 403),
        ("GET", "/deny", vec![], 403),
    ] {
        let response = server.ask(method, target, &fields).must_be(&[status]);
        assert_eq!(response.field("X-Set"), Some(format!("{method} {target}").as_str()), "{target}");
        assert_eq!(response.field("Last-Modified"), None, "{target}");
        assert_eq!(response.field("X-Twice"), Some("2"), "{target}");
        assert_eq!(response.field("X-After"), None, "{target}");
        // An error that somebody provokes is not kept for everybody.
        assert_eq!(response.field("Cache-Control"), (status < 400).then_some("max-age=3600"), "{target}");
        assert_eq!(response.field("Expires").is_some(), status < 400, "{target}");
        assert_eq!(response.field("X-Status"), Some(format!("<{status}> {status}").as_str()), "{target}");
        assert!(response.field("X-Time").is_some_and(|time| time.starts_with(char::is_numeric) && time.len() == 26), "{response:?}");
    }
    // A client writes no field of its own into a header.
    let response = server.get("/a%0d%0aX-Evil:%201");
    assert_eq!(response.field("X-Evil"), None);
}

#[test]
fn access_is_tried_on_the_path_and_again_after_rewriting() {
    let root = Root::with_index();
    root.file("config/secret.ini", "SECRET");
    root.file("front", "front");
    root.file("open", "open");
    let rules = "[[site.rule]]\nexists = \"none\"\nrewrite = \"/front\"\n\
                 [[site.rule]]\npath = \"/into\"\nrewrite = \"/config/secret.ini\"\n\
                 [[site.rule]]\npath = \"/config/*\"\ndeny = [\"0.0.0.0/0\"]\n\
                 [[site.rule]]\npath = \"/v6/*\"\nallow = [\"::1\", \"2001:db8::/32\"]\n\
                 [[site.rule]]\npath = \"/both/*\"\nallow = [\"127.0.0.0/8\"]\ndeny = [\"127.0.0.1\"]\n\
                 [[site.rule]]\npath = \"/local/*\"\nallow = [\"127.0.0.1\"]\n\
                 [[site.rule]]\npath = \"/local/not/*\"\nallow = [\"192.0.2.1\"]\n\
                 [[site.rule]]\nrequest_header = { X-Into = \"1\" }\nrewrite = \"/config/secret.ini\"\n";
    let server = server(&root, &named(rules));
    // 079, 137
    answers(
        &server,
        &[
            ("/config/", 403, ""),
            ("/config/none", 403, ""),
            ("/config/secret.ini", 403, ""),
            ("//config/secret.ini", 403, ""),
            ("/%63onfig/secret.ini", 403, ""),
            ("/x/../config/secret.ini", 403, ""),
            ("/into", 200, "front"),
            ("/v6/x", 403, ""),
            ("/both/x", 403, ""),
            ("/local/x", 200, "front"),
            ("/local/not/x", 403, ""),
            ("/open", 200, "open"),
            ("/nothing", 200, "front"),
        ],
    );
    assert!(matches!(server.get("/config%2Fsecret.ini").status, 200 | 403 | 404));
    assert_eq!(server.ask("GET", "/open", &["X-Into: 1"]).status, 403);
}

#[test]
fn index_listing_and_body_are_changed() {
    let root = Root::with_index();
    root.file("a/main.htm", "main");
    root.file("a/index.html", "index");
    root.file("b/x", "x");
    root.file("b/no.txt", "x");
    let rules = "[[site.rule]]\npath = \"/a/*\"\nindex = [\"none\", \"main.htm\"]\n\
                 [[site.rule]]\npath = \"/b/*\"\nlisting = true\n\
                 [[site.rule]]\npath = \"/b/no.txt\"\ndeny = [\"127.0.0.1\"]\n\
                 [[site.rule]]\npath = \"/small\"\nbody = \"10B\"\nmethod = [\"POST\"]\nrespond = 200\nrespond_body = \"took\"\n";
    let server = server(&root, &named(rules));
    answers(&server, &[("/a/", 200, "main"), ("/a/none", 404, ""), ("/b", 301, "/b/")]);
    let listing = server.get("/b/").must_be(&[200]).text();
    assert!(listing.contains("\"./x\"") && !listing.contains("no.txt"), "{listing}");
    let mut client = server.connect();
    client.send("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
    assert_eq!(client.response("POST").must_be(&[200]).text(), "took");
    client.send("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n0123456789a");
    client.response("POST").must_be(&[413]);
    let mut client = server.connect();
    client.send("POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n");
    // Of a length that nobody knows nothing is read before the answer, and the connection ends.
    assert!(client.response("POST").must_be(&[200, 413]).closes());
}

#[test]
fn a_captured_root_is_the_hosts_own() {
    let root = Root::with_index();
    root.file("../hosts/one/index.html", "one");
    root.file("../hosts/two/index.html", "two");
    root.file("../hosts/two/page", "page");
    root.file("../hosts/.git/index.html", "SECRET");
    root.file("../index.html", "SECRET");
    let base = root.base().display();
    let lines = format!(
        "\n[[site]]\nname = [\"*.example.org\"]\nroot = \"{base}/hosts/{{1}}\"\n\
         [[site.rule]]\npath = \"/star\"\nrespond = 200\nrespond_body = \"this is {{1}}\"\n"
    );
    let configuration = Configuration::of(&root.path()).jail(&format!("also = [\"{base}/hosts\"]"));
    let text = configuration.site(&root.path(), &format!("name = [\"unused.test\"]\n{lines}"));
    let server = Server::run(&text);
    for (host, target, status, text) in [
        ("one.example.org", "/", 200, "one"),
        ("ONE.example.org.", "/", 200, "one"),
        ("two.example.org:81", "/page", 200, "page"),
        ("one.example.org", "/page", 404, ""),
        ("three.example.org", "/", 404, ""),
        (".git.example.org", "/", 404, ""),
        ("...example.org", "/", 404, ""),
        ("two.example.org", "/star", 200, "this is two"),
        ("other.test", "/", 200, "index\n"),
    ] {
        let response = of_host(&server, host, target);
        assert!(response.status == status || (status == 404 && response.status == 400), "{host}{target}: {}", response.status);
        assert!(status != 200 || response.text() == text, "{host}{target}");
        assert!(!String::from_utf8_lossy(&response.body).contains("SECRET"), "{host}");
    }
}

#[test]
fn error_pages_types_and_character_sets_are_the_configured_ones() {
    let root = Root::with_index();
    root.file("errors/404.html", "not here");
    root.file("errors/403.html", "not you");
    root.file("errors/405.html", "not so");
    root.file("a.wasm", "wasm");
    root.file("a.own", "own");
    root.file("a.txt", "text");
    root.file("a.css", "css");
    root.file("a.png", "png");
    root.directory("closed");
    let site =
        "charset = \"iso-8859-15\"\nerror_pages = { 404 = \"/errors/404.html\", 403 = \"/errors/403.html\", 405 = \"/errors/405.html\", 410 = \"/errors/none.html\" }
[[site.rule]]
path = \"/said\"
respond = 404
[[site.rule]]
path = \"/own\"
respond = 404
respond_body = \"own\"
[[site.rule]]
path = \"/gone\"
respond = 410
";
    let mime = "\n[mime]\n\"application/x-own\" = [\"own\"]\n\"text/x-sheet\" = [\"css\"]\n";
    let server = Server::run(&Configuration::of(&root.path()).limits(mime).site(&root.path(), &named(site)));
    for (target, kind) in [
        ("/a.wasm", "application/wasm"),
        ("/a.own", "application/x-own"),
        ("/a.txt", "text/plain; charset=iso-8859-15"),
        ("/a.css", "text/x-sheet; charset=iso-8859-15"),
        ("/a.png", "image/png"),
    ] {
        assert_eq!(server.get(target).must_be(&[200]).field("Content-Type"), Some(kind), "{target}");
    }
    let missing = server.get("/none").must_be(&[404]);
    assert_eq!(missing.text(), "not here");
    assert_eq!(server.get("/said").must_be(&[404]).text(), "not here");
    assert_eq!(server.get("/own").must_be(&[404]).text(), "own");
    assert_ne!(server.get("/gone").must_be(&[410]).text(), "not here");
    // The page is no answer to conditions or ranges of the request.
    let ranged = server.ask("GET", "/none", &["Range: bytes=0-1", "If-None-Match: *"]).must_be(&[404]);
    assert_eq!(ranged.text(), "not here");
    assert_eq!(server.get("/closed/").must_be(&[403]).text(), "not you");
    assert_eq!(server.head("/none").must_be(&[404]).length(), 8);
    let refused = server.ask("DELETE", "/", &[]).must_be(&[405]);
    assert!(refused.text() == "not so" && refused.field("Allow").is_some());
}

#[test]
fn a_bad_rule_says_where_it_is_wrong() {
    let root = Root::with_index();
    for (rule, told) in [
        ("listing = true\nroot = \"/tmp\"\nalias = \"/tmp\"", "alias"),
        ("path = \"x\"", "path"),
        ("regex = \"(\"\nrespond = 200", "regex"),
        ("client = [\"300.0.0.1\"]", "300.0.0.1"),
        ("status = 301", "status"),
        ("redirect = \"/x\"\nstatus = 200", "200"),
        ("respond = 99", "99"),
        ("exists = \"maybe\"", "maybe"),
        ("hidden = [\"x\"]", "site"),
        ("htaccess = true", "site"),
        ("rewrite = \"x\"", "rewrite"),
        ("try = []", "try"),
        ("redirect = \"/{9}\"\npath = \"/*\"", "9"),
        ("header = { \"X Y\" = \"1\" }", "X Y"),
        ("header = { X = \"a\\r\\nb\" }", "X"),
        ("redirect = \"/{nosuch}\"", "nosuch"),
    ] {
        let text = Configuration::of(&root.path()).site(&root.path(), &named(&format!("[[site.rule]]\n{rule}\n")));
        let ended = crate::support::Launch::new().run_to_end(&text.text(root.base())).must_fail();
        assert!(ended.stderr.contains("anchorite.toml:") && ended.stderr.contains(told), "{rule}\n{}", ended.stderr);
    }
}
