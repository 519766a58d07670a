//! Conditional requests (RFC 9110 section 13): 304 and 412, and what is ignored.

use crate::support::{Root, Server, request};

fn validators(server: &Server) -> (String, String) {
    let response = server.get("/a.txt").must_be(&[200]);
    (response.field("ETag").unwrap().to_owned(), response.field("Last-Modified").unwrap().to_owned())
}

fn site() -> (Root, Server) {
    let root = Root::with_index();
    root.file("a.txt", "hello\n");
    let server = Server::serve(&root.path());
    (root, server)
}

#[test]
fn the_same_etag_gives_304_without_body() {
    let (_root, server) = site();
    let (etag, modified) = validators(&server);
    assert!(etag.starts_with('"') || etag.starts_with("W/\""), "{etag}");
    for value in [etag.clone(), format!("\"x\", {etag}"), format!("W/{}", etag.trim_start_matches("W/")), "*".to_owned()] {
        for method in ["GET", "HEAD"] {
            let response = server.ask(method, "/a.txt", &[&format!("If-None-Match: {value}")]).must_be(&[304]);
            // RFC 9110 section 15.4.5: what a cache needs to update its copy.
            assert_eq!(response.field("ETag"), Some(etag.as_str()));
            assert!(response.field("Last-Modified").is_none_or(|value| value == modified));
        }
    }
}

#[test]
fn another_etag_gives_200() {
    let (_root, server) = site();
    let (_, modified) = validators(&server);
    server.ask("GET", "/a.txt", &["If-None-Match: \"x\""]).must_be(&[200]);
    // Section 13.2.2: with If-None-Match the date does not count.
    server.ask("GET", "/a.txt", &["If-None-Match: \"x\"", &format!("If-Modified-Since: {modified}")]).must_be(&[200]);
}

#[test]
fn the_same_date_gives_304_and_an_earlier_one_200() {
    let (_root, server) = site();
    let (_, modified) = validators(&server);
    server.ask("GET", "/a.txt", &[&format!("If-Modified-Since: {modified}")]).must_be(&[304]);
    server.ask("GET", "/a.txt", &["If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"]).must_be(&[200]);
    // The two obsolete forms of section 5.6.7.
    server.ask("GET", "/a.txt", &["If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT"]).must_be(&[200]);
    server.ask("GET", "/a.txt", &["If-Modified-Since: Sun Nov  6 08:49:37 1994"]).must_be(&[200]);
}

#[test]
fn preconditions_that_fail_give_412() {
    let (_root, server) = site();
    let (etag, modified) = validators(&server);
    server.ask("GET", "/a.txt", &["If-Match: \"x\""]).must_be(&[412]);
    server.ask("GET", "/a.txt", &["If-Match: *"]).must_be(&[200]);
    if !etag.starts_with("W/") {
        server.ask("GET", "/a.txt", &[&format!("If-Match: {etag}")]).must_be(&[200]);
    }
    server.ask("GET", "/a.txt", &["If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"]).must_be(&[412]);
    server.ask("GET", "/a.txt", &[&format!("If-Unmodified-Since: {modified}")]).must_be(&[200]);
}

#[test]
fn h07_what_is_no_validator_is_ignored_or_bounded() {
    let (_root, server) = site();
    let workers = server.workers();
    // H07
    server.ask("GET", "/a.txt", &["If-Modified-Since: Fri, 31 Dec 99999 23:59:59 GMT"]).must_be(&[200]);
    server.ask("GET", "/a.txt", &["If-Modified-Since: yesterday"]).must_be(&[200]);
    server.ask("GET", "/a.txt", &["If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT"]).must_be(&[200]);
    server.ask("GET", "/a.txt", &["If-None-Match: \"unfinished"]).must_be(&[200]);
    let tags = vec!["\"0123\""; 1000].join(", ");
    server.ask("GET", "/a.txt", &[&format!("If-None-Match: {tags}")]).must_be(&[200]);
    server.must_be_well(&workers, "odd validators");
}

#[test]
fn after_304_the_connection_goes_on() {
    let (_root, server) = site();
    let (etag, _) = validators(&server);
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(request("GET", "/a.txt", &[&format!("If-None-Match: {etag}")]));
        client.response("GET").must_be(&[304]);
        client.send(request("GET", "/a.txt", &[]));
        assert_eq!(client.response("GET").must_be(&[200]).text(), "hello\n");
    }
}
