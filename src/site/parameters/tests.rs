//! What a program gets, by name.

use super::*;
use crate::site::facts::tests::Asked;
use crate::site::facts::{Holder, Secured};
use std::collections::BTreeMap;

const PROGRAM: Program<'static> = Program { name: b"/index.php", path_info: b"", file: b"/srv/index.php", document_root: b"/srv" };

fn conveyed<'a>(env: &'a [(String, String)], query: &'a str) -> Conveyed<'a> {
    Conveyed {
        protocol: "HTTP/1.1",
        query: query.as_bytes(),
        content_length: None,
        server_name: b"fallback.test",
        server: Some(([192, 0, 2, 80].into(), 8080)),
        client_port: Some(50_000),
        software: b"anchorite",
        env,
    }
}

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn named(facts: &Facts<'_>, program: &Program<'_>, conveyed: &Conveyed<'_>) -> BTreeMap<String, String> {
    let mut parameters = Parameters::default();
    parameters.collect(facts, program, conveyed);
    let all: Vec<_> = parameters.iter().map(|(name, value)| (text(name), text(value))).collect();
    let names: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(names.len(), all.len(), "a name is there twice: {all:?}");
    // Again in the same memory: nothing of the request before is left.
    let mut again = parameters.clone();
    again.collect(facts, program, conveyed);
    assert_eq!(again, parameters);
    names
}

/// The parameters of a request with these fields.
#[track_caller]
fn with_fields(fields: &[(&'static str, &str)]) -> BTreeMap<String, String> {
    let mut asked = Asked::get("/");
    asked.fields = fields.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())).collect();
    named(&asked.facts(), &PROGRAM, &conveyed(&[], ""))
}

fn http(all: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    all.iter().filter(|(name, _)| name.starts_with("HTTP_")).map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn everything_of_a_plain_request() {
    // Id of reports: 041, 043.
    let asked = Asked::get("/index.php?a=b");
    let all = named(&asked.facts(), &PROGRAM, &conveyed(&[], "a=b"));
    let expected = [
        ("DOCUMENT_ROOT", "/srv"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("QUERY_STRING", "a=b"),
        ("REDIRECT_STATUS", "200"),
        ("REMOTE_ADDR", "192.0.2.1"),
        ("REMOTE_PORT", "50000"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_SCHEME", "http"),
        ("REQUEST_URI", "/index.php?a=b"),
        ("SCRIPT_FILENAME", "/srv/index.php"),
        ("SCRIPT_NAME", "/index.php"),
        ("SERVER_ADDR", "192.0.2.80"),
        ("SERVER_NAME", "a.test"),
        ("SERVER_PORT", "8080"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_SOFTWARE", "anchorite"),
    ];
    assert_eq!(all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
}

#[test]
fn the_rest_of_the_path_is_told_decoded_and_beneath_the_root() {
    let table: &[(&[u8], Option<&str>)] = &[
        (b"/info", Some("/srv/info")),
        (b"/res/http://acme.test/text", Some("/srv/res/http://acme.test/text")),
        (b"/topic,12.0.html", Some("/srv/topic,12.0.html")),
        (b"/", Some("/srv/")),
        (b"/\nQQQ", Some("/srv/\nQQQ")),
        (b"/../../etc", None),
        (b"/a/../b", None),
        (b"/a/.", None),
        (b"/..a/b", Some("/srv/..a/b")),
    ];
    for (path_info, translated) in table {
        let asked = Asked::get("/index.php/x");
        let all = named(&asked.facts(), &Program { path_info, ..PROGRAM }, &conveyed(&[], ""));
        assert_eq!(all.get("PATH_INFO"), Some(&text(path_info)), "c03, c04");
        assert_eq!(all.get("PATH_TRANSLATED").map(String::as_str), *translated, "{}", text(path_info));
    }
}

#[test]
fn the_uri_is_as_it_was_sent_and_the_query_as_it_was_rewritten() {
    // Ids of reports: 033, 040, 160, 161.
    for (target, query) in
        [("/p/a?b=c", "q=a&b=c"), ("/wiki/AT%26T", "title=AT%26T"), ("/x?", ""), ("/t,1.html?a;b=1;c", "a;b=1;c"), ("/a%2fb//c", "")]
    {
        let asked = Asked::get(target);
        let all = named(&asked.facts(), &PROGRAM, &conveyed(&[], query));
        assert_eq!((all["REQUEST_URI"].as_str(), all["QUERY_STRING"].as_str()), (target, query));
    }
}

#[test]
fn c01_c11_c13_a_field_sets_nothing_but_its_own_name() {
    let all = with_fields(&[
        ("Proxy", "http://evil"),
        ("X-Sendfile-Type", "X-Accel-Redirect"),
        ("X-Accel-Mapping", "/=/etc"),
        ("PROXY", "http://evil"),
        ("Content-Type", "text/plain"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Script-Filename", "/etc/passwd"),
        ("Document-Root", "/"),
        ("PHP-Value", "x=y"),
        ("Remote-Addr", "127.0.0.1"),
        ("Https", "on"),
    ]);
    let expected = [
        ("HTTP_DOCUMENT_ROOT", "/"),
        ("HTTP_HTTPS", "on"),
        ("HTTP_PHP_VALUE", "x=y"),
        ("HTTP_REMOTE_ADDR", "127.0.0.1"),
        ("HTTP_SCRIPT_FILENAME", "/etc/passwd"),
    ];
    assert_eq!(http(&all), expected);
    assert_eq!((all["CONTENT_TYPE"].as_str(), all["SCRIPT_FILENAME"].as_str()), ("text/plain", "/srv/index.php"));
    assert!(!all.contains_key("HTTPS") && !all.contains_key("PHP_VALUE") && !all.contains_key("CONTENT_LENGTH"));
}

#[test]
fn c10_f13_names_that_could_pass_for_others_are_dropped() {
    let all = with_fields(&[
        ("X_Forwarded_For", "10.0.0.1"),
        ("X-Forwarded_For", "10.0.0.2"),
        ("X.Forwarded.For", "10.0.0.3"),
        ("X-Forwarded-For", "192.0.2.9"),
        ("Content_Length", "5"),
        ("X!", "a"),
    ]);
    assert_eq!(http(&all), [("HTTP_X_FORWARDED_FOR", "192.0.2.9")]);
}

#[test]
fn fields_of_one_name_are_joined_and_cookies_their_own_way() {
    // Ids of reports: 049, 172.
    let all = with_fields(&[("X-Multi", "1"), ("Cookie", "a=1"), ("x-multi", "2"), ("cookie", "b=2"), ("X-MULTI", ""), ("X-Multi-2", "3")]);
    assert_eq!(http(&all), [("HTTP_COOKIE", "a=1; b=2"), ("HTTP_X_MULTI", "1, 2, "), ("HTTP_X_MULTI_2", "3")]);
}

#[test]
fn c15_a_user_is_told_only_when_the_server_has_checked_it() {
    // Id of reports: 044.
    let fields: &[(&'static str, &str)] = &[("Authorization", "Basic YTpi"), ("Remote-User", "root"), ("Auth-Type", "x")];
    let all = with_fields(fields);
    assert!(!all.contains_key("REMOTE_USER") && !all.contains_key("AUTH_TYPE"));
    assert_eq!(all["HTTP_AUTHORIZATION"], "Basic YTpi");
    let mut asked = Asked::get("/");
    asked.fields = fields.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())).collect();
    let facts = Facts { user: b"ann", ..asked.facts() };
    let all = named(&facts, &PROGRAM, &conveyed(&[], ""));
    assert_eq!((all["REMOTE_USER"].as_str(), all["AUTH_TYPE"].as_str()), ("ann", "Basic"));
    assert!(!all.contains_key("HTTP_AUTHORIZATION"));
}

#[test]
fn c16_a_query_goes_into_its_parameter_alone() {
    for query in ["-s", "-d+allow_url_include=1", "%ADd+allow_url_include%3d1"] {
        let target = format!("/index.php?{query}");
        let all = named(&Asked::get(&target).facts(), &PROGRAM, &conveyed(&[], query));
        let holders: Vec<&String> = all.iter().filter(|(_, value)| value.contains(query)).map(|(name, _)| name).collect();
        assert_eq!(holders, ["QUERY_STRING", "REQUEST_URI"]);
    }
}

#[test]
fn https_is_there_when_it_is_on_and_a_port_always() {
    let mut asked = Asked::get("/");
    let at = |asked: &Asked, server| named(&asked.facts(), &PROGRAM, &Conveyed { server, ..conveyed(&[], "") });
    let all = at(&asked, None);
    assert_eq!((all["SERVER_PORT"].as_str(), all.get("HTTPS"), all.get("SERVER_ADDR")), ("80", None, None));
    asked.scheme = Scheme::Https;
    let all = at(&asked, None);
    assert_eq!((all["SERVER_PORT"].as_str(), all["HTTPS"].as_str(), all["REQUEST_SCHEME"].as_str()), ("443", "on", "https"));
    let all = at(&asked, Some(("::1".parse().unwrap(), 444)));
    assert_eq!((all["SERVER_PORT"].as_str(), all["SERVER_ADDR"].as_str()), ("444", "::1"));
}

#[test]
fn what_is_known_of_tls_is_told_and_nothing_where_there_is_none() {
    let asked = Asked { scheme: Scheme::Https, ..Asked::get("/") };
    let told = |facts: &Facts<'_>| {
        let all = named(facts, &PROGRAM, &conveyed(&env(&[("SSL_CLIENT_VERIFY", "SUCCESS")]), ""));
        all.into_iter().filter(|(name, _)| name.starts_with("SSL_")).map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(told(&asked.facts()), [""; 0]);
    let mut secured = Secured { version: "TLSv1.3", cipher: "X", ..Secured::default() };
    assert_eq!(told(&Facts { tls: Some(&secured), ..asked.facts() }), ["SSL_CIPHER=X", "SSL_PROTOCOL=TLSv1.3"]);
    secured = Secured { sni: "a.test".into(), verify: "NONE", ..secured };
    let expected = ["SSL_CIPHER=X", "SSL_CLIENT_VERIFY=NONE", "SSL_PROTOCOL=TLSv1.3", "SSL_TLS_SNI=a.test"];
    assert_eq!(told(&Facts { tls: Some(&secured), ..asked.facts() }), expected);
    let holder = Holder { subject: "CN=ann".into(), issuer: "CN=ca".into(), serial: "0A".into() };
    secured = Secured { verify: "SUCCESS", holder: Some(holder), ..secured };
    let expected =
        ["SSL_CIPHER=X", "SSL_CLIENT_I_DN=CN=ca", "SSL_CLIENT_M_SERIAL=0A", "SSL_CLIENT_S_DN=CN=ann", "SSL_CLIENT_VERIFY=SUCCESS"];
    assert_eq!(told(&Facts { tls: Some(&secured), ..asked.facts() })[..5], expected);
}

#[test]
fn a_server_has_a_name_without_a_port_or_a_last_dot() {
    let mut asked = Asked::get("/");
    for (host, name) in [(Some("a.test."), "a.test"), (Some("[::1]"), "[::1]"), (None, "fallback.test")] {
        asked.host = host;
        assert_eq!(named(&asked.facts(), &PROGRAM, &conveyed(&[], ""))["SERVER_NAME"], name);
    }
}

#[test]
fn lengths_are_told_where_there_is_a_body() {
    let asked = Asked::get("/");
    for (content_length, told) in [(None, None), (Some(0), Some("0")), (Some(u64::MAX), Some("18446744073709551615"))] {
        let all = named(&asked.facts(), &PROGRAM, &Conveyed { content_length, ..conveyed(&[], "") });
        assert_eq!(all.get("CONTENT_LENGTH").map(String::as_str), told);
    }
}

#[test]
fn the_configuration_adds_and_replaces_but_decides_nothing() {
    // Ids of reports: 046, 172.
    let mut asked = Asked::get("/");
    asked.fields = vec![("X-Site", b"b".to_vec()), ("Authorization", b"Basic YTpi".to_vec()), ("Cookie", b"c".to_vec())];
    let env = env(&[
        ("HTTP_X_SITE", "a"),
        ("HTTP_AUTHORIZATION", ""),
        ("PHP_VALUE", ""),
        ("SERVER_NAME", "canonical.test"),
        ("SCRIPT_FILENAME", "/etc/passwd"),
        ("HTTP_PROXY", "http://evil"),
        ("HTTPS", "on"),
        ("DIR", "/opt/x/"),
        ("DIR", "/opt/y/"),
    ]);
    let all = named(&asked.facts(), &PROGRAM, &conveyed(&env, ""));
    assert_eq!(http(&all), [("HTTP_COOKIE", "c"), ("HTTP_X_SITE", "a")]);
    assert_eq!((all["PHP_VALUE"].as_str(), all["SERVER_NAME"].as_str(), all["DIR"].as_str()), ("", "canonical.test", "/opt/y/"));
    assert_eq!(all["SCRIPT_FILENAME"], "/srv/index.php");
    assert!(!all.contains_key("HTTPS"));
    // What was taken out leaves the others as they were.
    assert_eq!(
        (all["SERVER_PORT"].as_str(), all["REMOTE_ADDR"].as_str(), all["SERVER_PROTOCOL"].as_str()),
        ("8080", "192.0.2.1", "HTTP/1.1")
    );
}
