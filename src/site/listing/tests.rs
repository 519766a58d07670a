//! Lists, read as a browser or a program would.

use super::*;
use crate::proto::target::{self, Path};
use crate::site::tests::site;

fn entry(name: &[u8]) -> Entry<'_> {
    Entry { name, directory: false, size: 0, modified: 784_111_777 }
}

fn directory(name: &[u8]) -> Entry<'_> {
    Entry { directory: true, ..entry(name) }
}

fn path(raw: &str) -> Path {
    let mut path = Path::default();
    target::parse_into(raw.as_bytes(), &mut path).unwrap();
    path
}

/// The list of these entries as they stand, in that format.
fn write(mut list: List, raw: &str, entries: &[Entry<'_>]) -> String {
    let mut out = Vec::new();
    list.begin(&Place { path: &path(raw), raw: raw.as_bytes() }, &mut out);
    entries.iter().for_each(|entry| list.entry(entry, &mut out));
    list.end(&mut out);
    String::from_utf8(out).unwrap()
}

fn page(raw: &str, entries: &[Entry<'_>]) -> String {
    write(List::new(Format::Html, Order::DEFAULT), raw, entries)
}

fn page_by(query: &str, raw: &str, entries: &[Entry<'_>]) -> String {
    write(List::new(Format::Html, Order::of_query(Some(query.as_bytes()))), raw, entries)
}

fn json(entries: &[Entry<'_>]) -> String {
    write(List::new(Format::Json, Order::DEFAULT), "/d/", entries)
}

/// The rows' links and texts.
fn rows(page: &str) -> Vec<(String, String)> {
    let rows = page.split("<tr><th scope=\"row\"><a ").skip(1);
    rows.map(|row| {
        let (href, rest) = row.split_once("href=\"").unwrap().1.split_once("\">").unwrap();
        let text = rest.split_once("</a>").unwrap().0;
        (href.to_string(), text.replace("<bdi>", "").replace("</bdi>", ""))
    })
    .collect()
}

/// What a browser asks for when it follows a link in the page of `/d/`.
fn follow(href: &str) -> Vec<u8> {
    path(&format!("/d/{href}")).bytes().to_vec()
}

#[test]
fn names_are_escaped_once_and_their_links_work() {
    let names: [&[u8]; 15] = [
        b"100%.txt",
        b"a#b",
        b"c?d",
        b"<b>\"&.txt",
        b" lead",
        b"a%20space",
        b"-rf",
        b"javascript:x",
        b"Foo & Bar.txt",
        b"dist+dev1.pkg",
        b"my file",
        b"bla.html?bla",
        b"new\nline",
        b"bad\xff\xfeutf8",
        b"'quote'",
    ];
    for name in names {
        let page = page("/d/", &[entry(name)]);
        let (href, text) = rows(&page).into_iter().find(|(href, _)| href != "../").unwrap();
        assert_eq!(follow(&href), [b"/d/", name].concat(), "{href}");
        assert!(href.starts_with("./"), "{href}");
        assert!(!text.contains(['<', '>', '"', '\'', '\n']), "{text}");
    }
    let page = page("/d/", &names.map(entry));
    assert!(page.contains("<bdi>Foo &amp; Bar.txt</bdi>"), "{page}");
    assert!(page.contains("<bdi>&lt;b&gt;&quot;&amp;.txt</bdi>"), "{page}");
    assert!(page.contains("<bdi>bad\u{fffd}\u{fffd}utf8</bdi>"), "{page}");
    assert!(page.contains("href=\"./my%20file\""), "{page}");
    assert!(!page.contains("<b>") && !page.contains("&amp;amp;"), "{page}");
}

#[test]
fn s15_every_byte_in_a_name_is_harmless_and_works() {
    for byte in (1..=255u8).filter(|&byte| byte != b'/') {
        let name = [b'x', byte];
        let page = page("/d/", &[directory(&[byte, b'x']), entry(&name)]);
        let links = rows(&page);
        assert_eq!(follow(&links[2].0), [b"/d/", &name[..]].concat(), "{byte:#04x}");
        assert_eq!(follow(&links[1].0), [b"/d/", &[byte][..], b"x/"].concat(), "{byte:#04x}");
        assert!(page.chars().all(|character| character == '\n' || !character.is_control()), "{byte:#04x}");
    }
    let page = page("/d/", &[entry("a\u{202e}txt.exe\u{ffff}\u{fdd0}\u{85}".as_bytes())]);
    assert!(page.contains("<bdi>a\u{fffd}txt.exe\u{fffd}\u{fffd}\u{fffd}</bdi>"), "{page}");
}

#[test]
fn the_heading_links_to_each_directory_above() {
    let page = page("/a/%3Cb%3E/c/", &[]);
    let heading = page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0;
    assert_eq!(
        heading,
        "<span>Index of </span><a href=\"../../../\"><bdi>/</bdi></a><a href=\"../../\"><bdi>a</bdi></a>/\
         <a href=\"../\"><bdi>&lt;b&gt;</bdi></a>/<bdi>c</bdi>/"
    );
    assert!(page.contains("<title>Index of /a/&lt;b&gt;/c/</title>"), "{page}");
    assert!(page.contains("This directory is empty."), "{page}");
}

#[test]
fn the_root_has_no_parent() {
    let page = page("/", &[entry(b"a")]);
    assert!(page.contains("<h1><span>Index of </span>/</h1>") && !page.contains("../"), "{page}");
}

#[test]
fn p15_a_deep_path_does_not_grow_quadratically() {
    assert!(page(&"/a".repeat(2000), &[]).len() < 40_000);
}

/// What a browser makes of a relative link on the page that it asked for at `base` (RFC 3986, 5.2).
fn resolve(base: &str, href: &str) -> String {
    let mut levels: Vec<&str> = base[1..base.rfind('/').unwrap() + 1].split('/').filter(|level| *level != ".").collect();
    levels.pop();
    let mut pieces = href.split('/').peekable();
    while let Some(piece) = pieces.next() {
        match piece {
            "." => {}
            ".." => drop(levels.pop()),
            piece if pieces.peek().is_none() && piece.is_empty() => {}
            piece => levels.push(piece),
        }
    }
    format!("/{}{}", levels.join("/"), if href.ends_with('/') && !levels.is_empty() { "/" } else { "" })
}

#[test]
fn links_upwards_hold_whatever_slashes_the_target_has() {
    for raw in ["/a/b%20c/d/", "//a//b%20c/d/", "/a/b%20c///d//", "/a/./b%20c/d/", "////a/b%20c/d/"] {
        let page = page(raw, &[]);
        let links: Vec<&str> =
            page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).filter(|h| !h.starts_with('?')).collect();
        let leads: Vec<Vec<u8>> = links.iter().map(|href| path(&resolve(raw, href)).bytes().to_vec()).collect();
        assert_eq!(leads, [&b"/"[..], b"/a/", b"/a/b c/", b"/a/b c/"], "{raw}: {links:?}");
    }
    assert!(page(&format!("{}a/", "/".repeat(4000)), &[]).len() < 40_000);
}

#[test]
fn the_order_is_shown_and_every_link_keeps_it() {
    let sorts = |page: &str| -> Vec<String> {
        page.split("<th scope=\"col\"").skip(1).map(|rest| rest.split("</th>").next().unwrap().replace(" rel=\"nofollow\"", "")).collect()
    };
    let entries = [directory(b"x"), entry(b"y")];
    let plain = page("/a/", &entries);
    assert_eq!(
        sorts(&plain),
        [
            " aria-sort=\"ascending\"><a href=\"?sort=name&amp;order=desc\">Name</a>",
            "><a href=\"?sort=size&amp;order=asc\">Size</a>",
            "><a href=\"?sort=time&amp;order=asc\">Modified <small>(UTC)</small></a>",
        ]
    );
    assert!(!plain.contains("robots"), "{plain}");
    assert_eq!(rows(&plain).into_iter().map(|(href, _)| href).collect::<Vec<_>>(), ["../", "./x/", "./y"]);
    let by_size = page_by("sort=size&order=desc", "/a/b/", &entries);
    assert_eq!(
        sorts(&by_size),
        [
            "><a href=\"?sort=name&amp;order=desc\">Name</a>",
            " aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size</a>",
            "><a href=\"?sort=time&amp;order=desc\">Modified <small>(UTC)</small></a>",
        ]
    );
    assert!(by_size.contains("<meta name=\"robots\" content=\"noindex,nofollow\">"), "{by_size}");
    let kept = "?sort=size&amp;order=desc";
    let links: Vec<String> = rows(&by_size).into_iter().map(|(href, _)| href).collect();
    assert_eq!(links, [format!("../{kept}"), format!("./x/{kept}"), "./y".to_owned()]);
    assert!(by_size.contains(&format!("<a href=\"../../{kept}\">")), "{by_size}");
}

#[test]
fn without_an_order_the_page_says_so() {
    let mut list = List::new(Format::Html, Order::of_query(Some(b"sort=size")));
    list.forget_order();
    let page = write(list, "/a/", &[directory(b"x")]);
    assert!(page.contains("in no particular order") && !page.contains("?sort=") && !page.contains(" aria-sort="), "{page}");
}

#[test]
fn a_page_sums_up_what_it_shows() {
    let sized = |size| Entry { size, ..entry(b"f") };
    for (entries, text) in [
        (vec![], "This directory is empty."),
        (vec![directory(b"d")], "1 directory"),
        (vec![sized(5)], "1 file, <span>5 B</span>"),
        (
            vec![directory(b"d"), directory(b"e"), sized(1024), sized(512)],
            "2 directories, 2 files, <span title=\"1536 bytes\">1.5 KiB</span>",
        ),
    ] {
        assert!(page("/", &entries).contains(&format!("</table>\n<p>{text}</p>\n")), "{text}");
    }
}

#[test]
fn sizes_are_readable_and_exact() {
    let table: [(u64, &str); 11] = [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1_048_524, "1023.9 KiB"),
        (1_048_575, "1.0 MiB"),
        (1_048_576, "1.0 MiB"),
        (4_324_204_544, "4.0 GiB"),
        (5_368_709_120, "5.0 GiB"),
        (1 << 60, "1.0 EiB"),
        (u64::MAX, "16.0 EiB"),
    ];
    for (bytes, right) in table {
        let title = if bytes < 1024 { String::new() } else { format!(" title=\"{bytes} bytes\"") };
        let page = page("/", &[Entry { size: bytes, ..entry(b"f") }]);
        assert!(page.contains(&format!("<td{title}>{right}</td>")), "{bytes}: {page}");
    }
}

#[test]
fn times_are_shown_to_the_minute() {
    let table = [
        (784_111_777, "<time datetime=\"1994-11-06T08:49:37Z\">1994-11-06<span> 08:49</span></time>"),
        (i64::MIN, "<time datetime=\"1970-01-01T00:00:00Z\">1970-01-01<span> 00:00</span></time>"),
        (i64::MAX, "<time datetime=\"9999-12-31T23:59:59Z\">9999-12-31<span> 23:59</span></time>"),
    ];
    for (modified, right) in table {
        let page = page("/", &[Entry { modified, ..entry(b"f") }]);
        assert!(page.contains(right), "{page}");
    }
}

#[test]
fn s15_json_is_valid_and_its_links_are_lossless_whatever_the_names() {
    let names: Vec<Vec<u8>> = (1..=255u8).filter(|&byte| byte != b'/').map(|byte| vec![b'x', byte, b'"']).collect();
    let entries: Vec<Entry<'_>> = names.iter().map(|name| entry(name)).chain([directory(b"d\xffd")]).collect();
    let text = json(&entries);
    assert!(text.is_ascii());
    let parsed: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed.len(), entries.len());
    for (object, entry) in parsed.iter().zip(&entries) {
        let mut right = [b"/d/", entry.name].concat();
        right.extend_from_slice(if entry.directory { b"/" } else { b"" });
        assert_eq!(follow(object["href"].as_str().unwrap()), right);
        assert_eq!(object["name"].as_str().unwrap(), String::from_utf8_lossy(entry.name));
    }
    let object = Entry { size: 5, ..entry(b"a b") };
    assert_eq!(
        json(&[object, directory(b"c")]),
        "[\n{\"name\":\"a b\",\"type\":\"file\",\"size\":5,\"modified\":\"1994-11-06T08:49:37Z\",\"href\":\"./a%20b\"},\n\
         {\"name\":\"c\",\"type\":\"directory\",\"modified\":\"1994-11-06T08:49:37Z\",\"href\":\"./c/\"}\n]\n"
    );
    assert_eq!(serde_json::from_str::<Vec<u8>>(&json(&[])).unwrap(), [0; 0]);
}

#[test]
fn json_is_for_who_would_rather_have_it() {
    for (accept, right) in [
        (None, Format::Html),
        (Some("*/*"), Format::Html),
        (Some("application/json"), Format::Json),
        (Some("application/json, text/html"), Format::Html),
        (Some("application/json, text/html;q=0.9"), Format::Json),
        (Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), Format::Html),
        (Some("application/json;q=0.1, text/*;q=0"), Format::Json),
        (Some("image/png"), Format::Html),
    ] {
        let fields: Vec<(&'static str, Vec<u8>)> = accept.into_iter().map(|value| ("ACCEPT", value.as_bytes().to_vec())).collect();
        assert_eq!(Format::wanted(&fields), right, "{accept:?}");
    }
}

#[test]
fn a_page_is_readable_on_a_phone_and_in_the_dark() {
    let page = page("/", &[]);
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    assert!(page.contains("name=\"viewport\"") && page.contains("content=\"light dark\""));
    assert!(!page.contains("<script"));
}

#[test]
fn p18_hidden_names_are_told() {
    for (name, expected) in [(".git", true), ("x~", true), ("x.bak", true), ("#x#", true), ("x", false), (".well-known", true)] {
        assert_eq!(is_hidden(&site(&[]), name.as_bytes()), expected, "{name}");
    }
}
