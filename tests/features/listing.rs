//! The page that lists a directory.

use crate::support::{Configuration, Root, Server};
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
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(hrefs(&text).iter().filter(|href| href.contains("file-")).count(), 20_000);
}
