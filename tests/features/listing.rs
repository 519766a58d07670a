//! The page that lists a directory.

use crate::support::{Configuration, PATIENCE, Root, Server};
use std::os::unix::fs::PermissionsExt;

fn listed(root: &Root) -> Server {
    Server::run(&Configuration::new().site(&root.path(), "name = [\"\"]\nlisting = true"))
}

/// The values of all `href` attributes, with their character references resolved.
fn hrefs(page: &str) -> Vec<String> {
    page.split("href=\"")
        .skip(1)
        .map(|rest| {
            let value = rest.split('"').next().unwrap();
            value
                .replace("&quot;", "\"")
                .replace("&#34;", "\"")
                .replace("&#39;", "'")
                .replace("&#x27;", "'")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&amp;", "&")
        })
        .collect()
}

/// The path that a link on the page at `base` leads to (RFC 3986 section 5.2, for what a listing may hold).
fn resolve(base: &str, href: &str) -> String {
    assert!(!href.starts_with("//"), "{href}");
    let first = href.split(['/', '?', '#']).next().unwrap();
    assert!(!first.contains(':'), "{href:?} has a scheme");
    assert!(!href.contains('#'), "{href:?} has a fragment");
    if href.starts_with('/') { href.to_owned() } else { format!("{base}{href}") }
}

#[test]
fn every_link_works_whatever_the_name() {
    let root = Root::new();
    let names: [&[u8]; 16] = [
        b"100%.txt",
        b"a#b",
        b"c?d",
        b"<b>\"&.txt",
        b" lead",
        b"trail ",
        b"a%20space",
        b"-rf",
        b"javascript:x",
        b"Foo & Bar.txt",
        b"<script>alert(1)<",
        b"new\nline",
        b"\xff\xfe.bin",
        "umläut".as_bytes(),
        b"it's",
        b"back\\slash",
    ];
    for name in names {
        root.file(name, name);
    }
    root.file("sub dir/inner.txt", "inner");
    let server = listed(&root);
    let page = server.get("/").must_be(&[200]);
    assert!(page.field("Content-Type").unwrap().starts_with("text/html"));
    let text = String::from_utf8(page.body.clone()).expect("a listing is UTF-8 whatever the names are");
    let mut found = Vec::new();
    for href in hrefs(&text) {
        let target = resolve("/", &href);
        let response = server.get(target.split('?').next().unwrap());
        assert_eq!(response.status, 200, "{href:?}");
        found.push(response.body);
    }
    for name in names {
        assert!(found.iter().any(|body| body == name), "no link to {:?}", name.escape_ascii().to_string());
    }
    // 106: a name is text, never markup.
    for forbidden in ["<script>alert", "<b>", "href=\"javascript:"] {
        assert!(!text.contains(forbidden), "{forbidden} in {text}");
    }
    // 107: escaped once.
    assert!(text.contains("Foo &amp; Bar.txt"), "{text}");
    assert!(!text.contains("&amp;amp;"), "{text}");
}

#[test]
fn links_of_a_listing_beneath_the_root_work_too() {
    let root = Root::with_index();
    root.file("a b/c#d/e?.txt", "e");
    let server = listed(&root);
    let base = "/a%20b/c%23d/";
    let text = server.get(base).must_be(&[200]).text();
    let mut reached = false;
    for href in hrefs(&text) {
        let target = resolve(base, &href);
        let response = server.get(target.split('?').next().unwrap()).must_be(&[200]);
        reached |= response.body == b"e";
    }
    assert!(reached, "{text}");
    // The title or heading names the directory and is escaped as well.
    root.file("<i>x/a.txt", "a");
    let text = server.get("/%3Ci%3Ex/").must_be(&[200]).text();
    assert!(!text.contains("<i>x"), "{text}");
}

#[test]
fn what_cannot_be_served_does_not_spoil_the_page() {
    let root = Root::new();
    root.file("good.txt", "good");
    root.link("dangling", "nowhere");
    root.link("loop", "loop");
    root.fifo("pipe");
    root.directory("closed");
    root.mode("closed", 0o000);
    let server = listed(&root);
    // 110
    let text = server.get("/").must_be(&[200]).text();
    assert!(hrefs(&text).iter().any(|href| href.ends_with("good.txt")), "{text}");
    std::fs::set_permissions(root.at("closed"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn sizes_over_four_gib_are_right() {
    let root = Root::new();
    root.sparse("large.iso", 4_324_204_544);
    let server = listed(&root);
    // 112
    let text = server.get("/").must_be(&[200]).text();
    assert!(text.contains("4.0 G") || text.contains("4324204544") || text.contains("4.0&nbsp;G"), "{text}");
}

#[test]
fn names_are_sorted_and_hidden_ones_left_out() {
    let root = Root::new();
    for name in ["b.txt", "a.txt", "c.txt", ".secret", "x~", "old.bak", "#draft#"] {
        root.file(name, name);
    }
    root.directory(".git");
    let server = listed(&root);
    let text = server.get("/").must_be(&[200]).text();
    for hidden in [".secret", ".git", "x~", "old.bak", "draft"] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("no {name} in {text}"));
    assert!(at("a.txt") < at("b.txt") && at("b.txt") < at("c.txt"));
}

#[test]
fn an_index_wins_over_the_listing() {
    let root = Root::with_index();
    root.file("a.txt", "a");
    let server = listed(&root);
    assert_eq!(server.get("/").must_be(&[200]).text(), "index\n");
}

#[test]
fn a_listing_has_a_length_and_head_agrees() {
    let root = Root::new();
    root.file("a.txt", "a");
    let server = listed(&root);
    let mut client = server.connect();
    // 121: redirect, listing and file on one connection.
    root.file("dir/a.txt", "a");
    for (target, status) in [("/dir", 301), ("/dir/", 200), ("/a.txt", 200), ("/", 200)] {
        client.send(crate::support::request("GET", target, &[]));
        client.response("GET").must_be(&[status, if status == 301 { 308 } else { status }]);
    }
    let head = server.head("/").must_be(&[200]);
    assert!(head.field("Content-Length").is_none_or(|length| length == server.get("/").body.len().to_string()));
}

#[test]
fn a_directory_of_many_names_is_listed_in_time_and_others_are_served_meanwhile() {
    let root = Root::new();
    for number in 0..20_000 {
        std::fs::write(root.at(format!("file-{number:05}.txt")), "").unwrap();
    }
    let server =
        Server::run(&Configuration::new().server_also("workers = 1").site(&root.path(), "name = [\"\"]\nlisting = true\nindex = []"));
    let start = std::time::Instant::now();
    let text = server.get("/").must_be(&[200]).text();
    // 109 asks for 5 s with an optimised build and 50,000 names; this may be a debug build on a busy machine.
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(hrefs(&text).iter().filter(|href| href.contains("file-")).count(), 20_000);
}

/// The names in a list, as `href` has them, without the directory above.
fn listed_names(page: &str) -> Vec<String> {
    hrefs(page).into_iter().filter_map(|href| Some(href.strip_prefix("./")?.to_owned())).collect()
}

#[test]
fn the_query_sorts_and_what_is_unknown_in_it_does_not_matter() {
    let root = Root::new();
    for (name, size, time) in [("b", 1, 300), ("A", 3, 100), ("c", 2, 200)] {
        let path = root.sparse(name, size);
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(time);
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    root.directory("z");
    let server = listed(&root);
    for (query, right) in [
        ("", ["z/", "A", "b", "c"]),
        ("?sort=name&order=desc", ["z/?sort=name&order=desc", "c", "b", "A"]),
        ("?sort=size", ["z/?sort=size&order=asc", "b", "c", "A"]),
        ("?order=desc&sort=time", ["z/?sort=time&order=desc", "b", "c", "A"]),
        ("?sort=colour&order=up&x=%00%3Cscript%3E", ["z/", "A", "b", "c"]),
    ] {
        let page = server.get(format!("/{query}")).must_be(&[200]).text();
        assert_eq!(listed_names(&page), right, "{query}");
        assert!(!page.contains("<script"));
        let json = server.ask("GET", format!("/{query}"), &["Accept: application/json"]).must_be(&[200]).text();
        let array: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        let names: Vec<&str> = array.iter().map(|object| object["name"].as_str().unwrap()).collect();
        assert_eq!(names, right.map(|name| name.split('/').next().unwrap()), "{query}");
    }
}

#[test]
fn json_leads_to_every_file_whatever_its_name() {
    let root = Root::new();
    let names: [&[u8]; 6] = [b"plain", b"\xff\xfe", b"quote\"", b"new\nline", b"<b>&", "\u{202e}x".as_bytes()];
    for name in names {
        root.file([b"d/", name].concat(), name);
    }
    root.directory("d/sub ");
    let server = listed(&root);
    let response = server.ask("GET", "/d/", &["Accept: application/json, text/html;q=0.5"]).must_be(&[200]);
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    assert_eq!(response.field("Vary"), Some("Accept, Accept-Encoding"));
    let array: Vec<serde_json::Value> = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(array[0]["type"], "directory");
    assert_eq!(array[0]["href"], "./sub%20/");
    server.get("/d/sub%20/").must_be(&[200]);
    assert!(array[0].get("size").is_none());
    let mut found: Vec<Vec<u8>> = array[1..]
        .iter()
        .map(|object| {
            let body = server.get(resolve("/d/", object["href"].as_str().unwrap())).must_be(&[200]).body;
            assert_eq!((object["type"].as_str(), object["size"].as_u64()), (Some("file"), Some(body.len() as u64)));
            assert!(object["modified"].as_str().unwrap().ends_with('Z'));
            body
        })
        .collect();
    found.sort();
    let mut right = names.map(<[u8]>::to_vec);
    right.sort();
    assert_eq!(found, right);
    let page = server.get("/d/").must_be(&[200]);
    assert_eq!(page.field("Vary"), Some("Accept, Accept-Encoding"));
    assert!(page.field("Content-Type").unwrap().starts_with("text/html"));
}

#[test]
fn a_list_shows_what_can_be_had_and_nothing_else() {
    let root = Root::new();
    root.file("open", "x");
    root.file("closed", "x");
    root.mode("closed", 0o600);
    root.file("group", "x");
    root.mode("group", 0o640);
    root.file("denied.ini", "x");
    root.file("hidden.bak", "x");
    root.file("../outside", "x");
    root.file("shut/x", "x");
    root.mode("shut", 0o700);
    root.file("entered/index.html", "x");
    root.mode("entered", 0o711);
    root.fifo("pipe");
    drop(std::os::unix::net::UnixListener::bind(root.at("socket")).unwrap());
    for (name, target) in [("in", "open"), ("out", "../outside"), ("to-closed", "closed"), ("to-shut", "shut"), ("loop", "loop")] {
        root.link(name, target);
    }
    let rule = "name = [\"\"]\nlisting = true\n[[site.rule]]\npath = \"*.ini\"\ndeny = [\"0.0.0.0/0\"]";
    let server = Server::run(&Configuration::new().site(&root.path(), rule));
    let shown = listed_names(&server.get("/").must_be(&[200]).text());
    // Every name that stands there, and whether a request for it is answered.
    let mut right = Vec::new();
    for entry in std::fs::read_dir(root.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let directory = root.at(&name).is_dir();
        let target = if directory { format!("{name}/") } else { name };
        if server.get(format!("/{target}")).status == 200 {
            right.push(target);
        }
    }
    right.sort_by_key(|name| (!name.ends_with('/'), name.to_lowercase()));
    assert_eq!(shown, right);
    assert!(shown.contains(&"open".to_owned()) && shown.contains(&"entered/".to_owned()) && shown.contains(&"in".to_owned()));
    assert!(!shown.contains(&"denied.ini".to_owned()) && !shown.contains(&"out".to_owned()));
    if crate::support::is_root() {
        assert_eq!(shown, ["entered/", "in", "open"]);
    }
    root.mode("shut", 0o755);
}

#[test]
fn a_list_has_no_validators_and_is_not_kept() {
    let root = Root::new();
    root.file("a", "a");
    let server = listed(&root);
    let page = server.get("/").must_be(&[200]);
    assert!(page.field("ETag").is_none() && page.field("Last-Modified").is_none());
    assert_eq!(page.field("Cache-Control"), Some("no-cache"));
    for (field, status) in [
        ("If-None-Match: *", 304),
        ("If-Match: *", 200),
        ("If-Match: \"a\"", 412),
        ("If-None-Match: \"a\"", 200),
        ("If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT", 200),
        ("Range: bytes=0-3", 200),
    ] {
        let answer = server.ask("GET", "/", &[field]).must_be(&[status]);
        assert!(status != 304 || answer.field("Cache-Control") == Some("no-cache"), "{field}");
    }
    // What a rule says stands beside what a cache has to know.
    let rule = "name = [\"\"]\nlisting = true\n[[site.rule]]\nheader = { Vary = \"Cookie\", Cache-Control = \"max-age=9\" }";
    let ruled = Server::run(&Configuration::new().site(&root.path(), rule)).get("/").must_be(&[200]);
    assert_eq!((ruled.field("Vary"), ruled.field("Cache-Control")), (Some("Cookie, Accept, Accept-Encoding"), Some("max-age=9")));
    let head = server.head("/").must_be(&[200]);
    for name in ["Content-Type", "Cache-Control", "Vary", "X-Content-Type-Options", "Content-Security-Policy"] {
        assert_eq!(head.field(name), page.field(name), "{name}");
    }
}

#[test]
fn explain_says_as_what_and_in_which_order_a_directory_is_listed() {
    let root = Root::new();
    root.directory("d");
    let server = listed(&root);
    let explained = |target: &str, accept: &str| {
        let ended = server.order(&["explain", target, "--json", "--header", &format!("Accept: {accept}")]).must_be_done();
        let answer = ended.stdout.lines().find(|line| line.contains("\"what\":\"answer\"")).unwrap().to_owned();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        ["format", "sort", "order"].map(|name| answer[name].as_str().unwrap().to_owned())
    };
    assert_eq!(explained("http://a/d/", "*/*"), ["HTML", "name", "asc"]);
    assert_eq!(explained("http://a/d/?sort=size&order=desc", "application/json"), ["JSON", "size", "desc"]);
}

#[test]
fn slashes_and_spaces_in_the_address_of_a_list_do_not_matter() {
    let root = Root::new();
    root.file("a/ b /c", "c");
    root.file("a/x", "x");
    let server = listed(&root);
    for base in ["/a/%20b%20/", "//a//%20b%20/", "/a/%20b%20//"] {
        let page = server.get(base).must_be(&[200]).text();
        assert!(page.contains("<title>Index of /a/ b /</title>"), "{base}: {page}");
        assert_eq!(listed_names(&page), ["c"], "{base}");
        assert_eq!(server.get(format!("{base}c")).body, b"c", "{base}");
    }
    server.get("/a/%20b%20").must_be(&[301]);
}

#[test]
fn wget_mirrors_a_listed_tree_byte_for_byte() {
    let root = Root::new();
    let names: [&[u8]; 11] = [
        b"a",
        b"100%.txt",
        b"a#b",
        b"c?d",
        b" lead",
        b"it's & <b>",
        b"dist+dev1.pkg",
        b"sub dir/;x=y",
        b"sub dir/deep:er/[1]{2}|^`=",
        "u/\u{e4}\u{f6}\u{634}".as_bytes(),
        b"u/back\\slash",
    ];
    for name in names {
        root.file(name, [name, &crate::support::pattern(70_000)].concat());
    }
    let server = listed(&root);
    let copy = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("wget")
        .args(["-q", "-r", "-np", "-nH", "-e", "robots=off", "--no-iri", "--restrict-file-names=nocontrol", "--reject-regex", "[?]sort="])
        .arg(format!("http://{}/", server.address()))
        .current_dir(copy.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in names {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(name);
        assert_eq!(std::fs::read(copy.path().join(name)).unwrap(), std::fs::read(root.path().join(name)).unwrap(), "{name:?}");
    }
}
