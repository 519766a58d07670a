//! Pages of listings, read as a browser would.

use super::*;
use crate::site::tests::site;

fn entry(name: &[u8]) -> Entry {
    Entry { name: name.to_vec(), directory: false, size: 0, modified: 784_111_777 }
}

fn directory(name: &[u8]) -> Entry {
    Entry { directory: true, ..entry(name) }
}

fn path(raw: &str) -> Path {
    let mut path = Path::default();
    target::parse_into(raw.as_bytes(), &mut path).unwrap();
    path
}

fn page(raw: &str, entries: &[Entry]) -> String {
    let mut out = Vec::new();
    render(&path(raw), &mut entries.to_vec(), false, &mut out);
    String::from_utf8(out).unwrap()
}

/// The rows' links and texts.
fn rows(page: &str) -> Vec<(String, String)> {
    let rows = page.split("<tr><td><a href=\"").skip(1);
    rows.map(|row| {
        let (href, rest) = row.split_once("\">").unwrap();
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
fn directories_come_first_then_names_without_regard_to_case() {
    let page = page("/", &[entry(b"b"), entry(b"A"), directory(b"z"), entry(b"a"), directory(b"Y"), entry(b"B2")]);
    let texts: Vec<String> = rows(&page).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Y/", "z/", "A", "a", "b", "B2"]);
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
        let page = page("/d/", &[entry(&name), directory(&[byte, b'x'])]);
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
        "Index of <a href=\"../../../\"><bdi>/</bdi></a><a href=\"../../\"><bdi>a</bdi></a>/\
         <a href=\"../\"><bdi>&lt;b&gt;</bdi></a>/<bdi>c</bdi>/"
    );
    assert!(page.contains("<title>Index of /a/&lt;b&gt;/c/</title>"), "{page}");
    assert!(page.contains("This directory is empty."), "{page}");
}

#[test]
fn the_root_has_no_parent() {
    let page = page("/", &[entry(b"a")]);
    assert!(page.contains("<h1>Index of /</h1>") && !page.contains("../"), "{page}");
}

#[test]
fn p15_a_deep_path_does_not_grow_quadratically() {
    assert!(page(&"/a".repeat(2000), &[]).len() < 40_000);
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
    for (bytes, expected) in table {
        let mut out = Vec::new();
        size(bytes, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("<data value=\"{bytes}\">{expected}</data>"));
    }
}

#[test]
fn times_are_shown_to_the_minute() {
    let table = [
        (784_111_777, "<time datetime=\"1994-11-06T08:49Z\">1994-11-06 08:49</time>"),
        (i64::MIN, "<time datetime=\"1970-01-01T00:00Z\">1970-01-01 00:00</time>"),
        (i64::MAX, "<time datetime=\"9999-12-31T23:59Z\">9999-12-31 23:59</time>"),
    ];
    for (unix, expected) in table {
        let mut out = Vec::new();
        time(unix, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn a_cut_listing_says_so() {
    let mut out = Vec::new();
    render(&path("/"), &mut [entry(b"a"), entry(b"b")], true, &mut out);
    assert!(String::from_utf8(out).unwrap().contains("only 2 are shown"));
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
