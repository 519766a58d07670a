//! Headers that stand on every answer, and pages of errors that are never anything but the error.

use crate::support::{Configuration, Root, Server};

const SITE: &str = "error_pages = { 404 = \"/404.html\", 403 = \"/none.html\" }\n\
                    [[site.rule]]\nheader = { X-Own = \"{method}\" }\nexpires = \"1h\"\n\
                    [[site.rule]]\npath = \"/denied\"\ndeny = \"0.0.0.0/0\"\n\
                    [[site.rule]]\npath = \"/moved\"\nredirect = \"/a.css\"\n\
                    [[site.rule]]\npath = \"/teapot\"\nrespond = 418\n";

fn site() -> (Root, Server) {
    let root = Root::with_index();
    root.file("a.css", "a { color: red }\n".repeat(200));
    root.file("404.html", "<p>nothing here</p>");
    root.directory("dir");
    let server = Server::run(&Configuration::new().site(&root.path(), SITE));
    (root, server)
}

#[test]
fn c09_types_are_not_to_be_guessed_on_any_answer() {
    let (_root, server) = site();
    let etag = format!("If-None-Match: {}", server.get("/a.css").field("ETag").unwrap());
    let cases: &[(&str, &str, &[&str], u16)] = &[
        ("GET", "/a.css", &[], 200),
        ("GET", "/a.css", &["Accept-Encoding: br"], 200),
        ("HEAD", "/a.css", &[], 200),
        ("GET", "/a.css", &[&etag], 304),
        ("GET", "/a.css", &["Range: bytes=0-1"], 206),
        ("GET", "/a.css", &["Range: bytes=99999-"], 416),
        ("GET", "/a.css", &["If-Match: \"x\""], 412),
        ("OPTIONS", "/a.css", &[], 204),
        ("POST", "/a.css", &["Content-Length: 0"], 405),
        ("GET", "/none", &[], 404),
        ("GET", "/denied", &[], 403),
        ("GET", "/dir/", &[], 403),
        ("GET", "/dir", &[], 301),
        ("GET", "/moved", &[], 302),
        ("GET", "/teapot", &[], 418),
    ];
    for (method, target, fields, status) in cases {
        let response = server.ask(method, target, fields).must_be(&[*status]);
        assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{method} {target} {fields:?}");
        // What the rules say holds for all of them, too.
        assert_eq!(response.field("X-Own"), Some(*method), "{method} {target} {fields:?}");
        assert_eq!(response.field("Cache-Control"), (*status < 400).then_some("max-age=3600"), "{method} {target} {fields:?}");
        assert_eq!(response.field("Expires").is_some(), *status < 400, "{method} {target}");
    }
    for bytes in ["BAD\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let response = server.exchange(bytes, "GET").must_be(&[400]);
        assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{bytes}");
    }
}

#[test]
fn the_page_of_an_error_is_never_304_or_206() {
    let (_root, server) = site();
    let page = server.get("/404.html").must_be(&[200]);
    let (etag, modified) = (page.field("ETag").unwrap().to_owned(), page.field("Last-Modified").unwrap().to_owned());
    for fields in [
        vec![format!("If-None-Match: {etag}")],
        vec!["If-None-Match: *".to_owned()],
        vec![format!("If-Modified-Since: {modified}")],
        vec!["If-Match: \"x\"".to_owned()],
        vec!["Range: bytes=0-1".to_owned()],
        vec!["Range: bytes=99999-".to_owned()],
        vec!["Accept-Encoding: gzip".to_owned()],
    ] {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let response = server.ask("GET", "/none", &fields).must_be(&[404]);
        assert_eq!(response.text(), "<p>nothing here</p>", "{fields:?}");
        for name in ["ETag", "Last-Modified", "Accept-Ranges", "Content-Range"] {
            assert_eq!(response.field(name), None, "{fields:?} {name}");
        }
        let head = server.ask("HEAD", "/none", &fields).must_be(&[404]);
        assert_eq!((head.length(), head.field("Content-Type")), (19, response.field("Content-Type")), "{fields:?}");
    }
}
