//! What users of such servers reported, where it needs neither backend nor TLS nor users: each as it was asked, under its number.
//!
//! `user_reports.md` beside this file says for every number where it is tested; those that a feature's own tests hold are not
//! repeated here.

use crate::support::{Client, Configuration, Launch, PATIENCE, Response, Root, Server, pattern, request, wait_until};
use nix::sys::socket::{MsgFlags, recv};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// What a redirect says, without the scheme and the host of the request.
fn location(response: &Response) -> String {
    let location = response.field("Location").unwrap();
    location.strip_prefix("http://a").unwrap_or(location).to_owned()
}

fn with_rules(root: &Root, rules: &str) -> Server {
    Server::run(&Configuration::new().site(&root.path(), &format!("name = [\"\"]\n{rules}")))
}

/// Every listed name as a link says it.
fn links(page: &str) -> Vec<String> {
    page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[test]
fn ur_026_a_htaccess_of_unknown_directives_is_neither_read_nor_shown() {
    let root = Root::with_index();
    root.file(".htaccess", "Options +FollowSymLinks\nNoSuchDirective on\nphp_value x 1\n");
    let server = Server::serve(&root.path());
    assert_eq!(server.get("/").must_be(&[200]).text(), "index\n");
    server.get("/.htaccess").must_be(&[403, 404]);
}

#[test]
fn ur_029_the_slash_is_added_before_the_query_which_stays_byte_for_byte() {
    let root = Root::with_index();
    root.file("dir/index.html", "dir");
    let server = Server::serve(&root.path());
    let response = server.get("/dir?a=1&b=%2F;c").must_be(&[301, 308]);
    assert_eq!(location(&response), "/dir/?a=1&b=%2F;c");
}

#[test]
fn ur_032_encoded_backslashes_and_dots_lead_to_no_other_site() {
    let root = Root::with_index();
    for name in ["public/x", "evil.test/dir/x", "\\\\evil.test/x"] {
        root.file(name, "x");
    }
    let server = Server::serve(&root.path());
    for target in ["/public/..%2F%5cevil.test%2F%3f%2F..%2F..", "/%5C%5Cevil.test/%252e%252e", "//evil.test/dir", "/%5C%5Cevil.test"] {
        let response = server.get(target).must_be(&[301, 308, 400, 404]);
        if let Some(to) = response.field("Location") {
            let path = to.strip_prefix("http://a").unwrap_or(to);
            assert!(path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\"), "{target} to {to:?}");
        }
    }
}

#[test]
fn ur_034_an_encoded_slash_separates_nothing() {
    let root = Root::with_index();
    root.file("dir/a.txt", "a");
    let server = Server::serve(&root.path());
    server.get("/dir%2Fa.txt").must_be(&[404]);
    server.get("/dir/a.txt").must_be(&[200]);
}

#[test]
fn ur_079_what_is_denied_stays_denied_behind_a_catch_all_rewrite() {
    let root = Root::with_index();
    root.file("config/secret.ini", "secret");
    root.file("front.html", "front");
    let server = with_rules(
        &root,
        "[[site.rule]]\nregex = '^/config/'\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n[[site.rule]]\nexists = \"none\"\nrewrite = \"/front.html\"\n",
    );
    for target in ["/config/", "/config/secret.ini", "//config/secret.ini", "/config%2Fsecret.ini", "/x/../config/secret.ini"] {
        let response = server.get(target);
        // An encoded slash is no separator: that name does not exist, and the front page may answer for it.
        assert!(matches!(response.status, 403 | 404) || response.text() == "front", "{target}: {}", response.status);
        assert!(!response.text().contains("secret"), "{target}");
        assert!(target.contains("%2F") || response.status == 403, "{target}: {}", response.status);
    }
    assert_eq!(server.get("/nothing").must_be(&[200]).text(), "front");
}

#[test]
fn ur_085_ranges_beyond_the_end_are_cut_and_many_give_no_more_than_the_file() {
    let root = Root::with_index();
    let body = pattern(536);
    root.file("f.bin", &body);
    let server = Server::serve(&root.path());
    let ask = |range: &str| server.ask("GET", "/f.bin", &[&format!("Range: {range}")]);
    let cut = ask("bytes=50-99999").must_be(&[206]);
    assert_eq!((cut.field("Content-Range"), cut.length(), cut.body.as_slice()), (Some("bytes 50-535/536"), 486, &body[50..]));
    let suffix = ask("bytes=-99999").must_be(&[200, 206]);
    assert_eq!(suffix.body, body);
    assert!(suffix.status == 200 || suffix.field("Content-Range") == Some("bytes 0-535/536"));
    let two = ask("bytes=0-0,-1").must_be(&[200, 206]);
    assert!(two.body == body || two.field("Content-Type").is_some_and(|kind| kind.starts_with("multipart/byteranges")));
    let many: Vec<String> = (0..200).map(|number| format!("{number}-")).collect();
    let many = ask(&format!("bytes={}", many.join(","))).must_be(&[200, 416]);
    assert!(many.body.len() <= body.len());
}

#[test]
fn ur_089_a_date_does_not_override_a_tag_that_differs() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let now = httpdate::fmt_http_date(std::time::SystemTime::now());
    let response = server.ask("GET", "/index.html", &["If-None-Match: \"other\"", &format!("If-Modified-Since: {now}")]);
    assert_eq!(response.must_be(&[200]).text(), "index\n");
}

#[test]
fn ur_091_tags_are_compared_weakly_for_reading_and_strongly_for_writing() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let tag = server.get("/index.html").field("ETag").unwrap().to_owned();
    for value in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let response = server.ask("GET", "/index.html", &[&format!("If-None-Match: {value}")]).must_be(&[304]);
        assert!(response.body.is_empty() && response.field("ETag") == Some(&tag), "{value}");
    }
    server.ask("GET", "/index.html", &[&format!("If-Match: W/{tag}")]).must_be(&[412]);
}

#[test]
fn ur_092_a_resumed_download_never_mixes_two_versions() {
    let root = Root::with_index();
    root.file("d.bin", "0123456789");
    let server = Server::serve(&root.path());
    let first = server.get("/d.bin");
    let (tag, date) = (first.field("ETag").unwrap().to_owned(), first.field("Last-Modified").unwrap().to_owned());
    let older = httpdate::fmt_http_date(httpdate::parse_http_date(&date).unwrap() - Duration::from_secs(3600));
    // The date is as young as the file: within its second a change would not show, so it may count as weak (RFC 9110, 8.8.2.2).
    for (value, right) in
        [(tag.clone(), &[206][..]), ("\"other\"".into(), &[200]), (format!("W/{tag}"), &[200]), (date, &[206, 200]), (older, &[200])]
    {
        let response = server.ask("GET", "/d.bin", &["Range: bytes=2-3", &format!("If-Range: {value}")]).must_be(right);
        assert_eq!(response.text(), if response.status == 206 { "23" } else { "0123456789" }, "{value}");
    }
}

#[test]
fn ur_094_a_file_of_unknown_type_has_validators() {
    let root = Root::with_index();
    root.file("data.zzz", "data");
    let server = Server::serve(&root.path());
    let response = server.get("/data.zzz").must_be(&[200]);
    assert_eq!(response.field("Content-Type"), Some("application/octet-stream"));
    assert!(response.field("ETag").is_some());
    let since = format!("If-Modified-Since: {}", response.field("Last-Modified").unwrap());
    server.ask("GET", "/data.zzz", &[&since]).must_be(&[304]);
}

#[test]
fn ur_100_a_question_mark_in_a_name_is_asked_for_encoded() {
    let root = Root::with_index();
    root.file("bla.html?bla", "odd");
    root.file("bla.html", "plain");
    let server = Server::serve(&root.path());
    assert_eq!(server.get("/bla.html%3Fbla").must_be(&[200]).text(), "odd");
    assert_eq!(server.get("/bla.html?bla").must_be(&[200]).text(), "plain");
}

#[test]
fn ur_101_a_plus_is_a_plus_and_a_space_is_percent_20() {
    let root = Root::new();
    root.file("dist+dev1.pkg", "plus");
    root.file("my file", "space");
    let server = Server::serve(&root.path());
    assert_eq!(server.get("/dist+dev1.pkg").must_be(&[200]).text(), "plus");
    assert_eq!(server.get("/dist%2Bdev1.pkg").must_be(&[200]).text(), "plus");
    server.get("/my+file").must_be(&[404]);
    let links = links(&server.get("/").must_be(&[200]).text());
    assert!(links.iter().any(|link| link.ends_with("my%20file")), "{links:?}");
    assert!(links.iter().any(|link| link.ends_with("dist+dev1.pkg") || link.ends_with("dist%2Bdev1.pkg")), "{links:?}");
}

#[test]
fn ur_103_a_directory_may_end_in_a_dot() {
    let root = Root::with_index();
    root.file("baz./index.html", "baz");
    let server = Server::serve(&root.path());
    assert_eq!(server.get("/baz./").must_be(&[200]).text(), "baz");
    assert_eq!(location(&server.get("/baz.").must_be(&[301, 308])), "/baz./");
    server.get("/baz").must_be(&[404]);
}

#[test]
fn ur_104_a_prefix_matches_at_a_border_of_segments_only() {
    let root = Root::with_index();
    root.file("icons.html", "page");
    root.file("../shared/x.png", "png");
    let shared = root.base().join("shared");
    let server = with_rules(&root, &format!("[[site.rule]]\npath = \"/icons/*\"\nalias = {shared:?}\n"));
    assert_eq!(server.get("/icons.html").must_be(&[200]).text(), "page");
    assert_eq!(location(&server.get("/icons").must_be(&[301, 308])), "/icons/");
    assert_eq!(server.get("/icons/x.png").must_be(&[200]).text(), "png");
}

#[test]
fn ur_113_five_gib_arrive_whole() {
    let root = Root::with_index();
    const LENGTH: u64 = 5 << 30;
    root.sparse("large.bin", LENGTH);
    let server = Server::serve(&root.path());
    assert_eq!(server.head("/large.bin").length(), LENGTH);
    let range = server.ask("GET", "/large.bin", &["Range: bytes=4294967290-4294967300"]).must_be(&[206]);
    assert_eq!((range.length(), range.body.len()), (11, 11));
    let mut client = server.connect();
    client.send(request("GET", "/large.bin", &["Connection: close"]));
    assert_eq!(client.head().unwrap().length(), LENGTH);
    let mut received = u64::try_from(client.buffered()).unwrap();
    let mut piece = vec![0; 8 << 20];
    loop {
        // With this flag the kernel drops what came instead of copying it (tcp(7)).
        match recv(client.stream().as_raw_fd(), &mut piece, MsgFlags::MSG_TRUNC).unwrap() {
            0 => break,
            count => received += u64::try_from(count).unwrap(),
        }
    }
    assert_eq!(received, LENGTH);
}

#[test]
fn ur_115_the_types_of_newer_formats_are_known() {
    let root = Root::with_index();
    for (name, right) in [
        ("a.wasm", "application/wasm"),
        ("a.avif", "image/avif"),
        ("a.webp", "image/webp"),
        ("a.woff2", "font/woff2"),
        ("a.svg", "image/svg+xml"),
        ("a.json", "application/json"),
        ("a.webmanifest", "application/manifest+json"),
        ("a.ftl", "application/octet-stream"),
        ("a.xyz", ""),
        ("name", "application/octet-stream"),
    ] {
        root.file(name, "x");
        let server = Server::serve(&root.path());
        let response = server.head(format!("/{name}")).must_be(&[200]);
        let kind = response.field("Content-Type").unwrap().split(';').next().unwrap().trim().to_owned();
        assert!(kind == right || right.is_empty(), "{name}: {kind}");
        assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{name}");
    }
}

#[test]
fn ur_121_redirect_listing_and_file_share_one_connection() {
    let root = Root::new();
    root.file("dir/a.txt", "a");
    root.file("a.txt", "a");
    let server = Server::serve(&root.path());
    let mut client = server.connect();
    for (target, status) in [("/dir", 301), ("/dir/", 200), ("/a.txt", 200)] {
        client.send(request("GET", target, &[]));
        let response = client.response("GET").must_be(&[status, if status == 301 { 308 } else { status }]);
        assert!(!response.closes(), "{target}");
    }
    for target in ["/dir", "/dir/", "/a.txt"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.0\r\nHost: a\r\n\r\n"));
        let head = client.head().unwrap();
        assert_eq!(head.field("Transfer-Encoding"), None, "{target}");
    }
}

#[test]
fn ur_139_out_of_descriptors_neither_spins_nor_floods_the_log() {
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path()).server_also("workers = 1");
    let server = Launch::new().shell("ulimit -n 64; exec \"$@\"").run(&configuration);
    let worker = server.workers()[0];
    let mut idle: Vec<Client> = (0..200).filter_map(|_| Client::try_connect(server.address()).ok()).collect();
    for client in &mut idle {
        let _ = client.try_send("GET / HTTP/1.1\r\n");
    }
    let (begun, before, lines) = (std::time::Instant::now(), ticks(worker), log_length(&server));
    std::thread::sleep(Duration::from_secs(3));
    // A hundred ticks a second: less than a fifth of them, and a line a second, with one for each border.
    let (spent, said) = (ticks(worker) - before, log_length(&server) - lines);
    let seconds = begun.elapsed().as_secs();
    assert!(spent < seconds * 20, "{spent} ticks in {seconds} s");
    assert!(said <= usize::try_from(seconds).unwrap() + 2, "{said} lines in {seconds} s");
    drop(idle);
    let well = wait_until(PATIENCE * 2, || {
        let Ok(mut client) = Client::try_connect(server.address()) else { return false };
        client.read_timeout(Duration::from_secs(5));
        client.try_send(request("GET", "/", &[])).is_ok() && client.try_response("GET").is_ok_and(|response| response.status == 200)
    });
    assert!(well.is_some(), "no answer after the connections were gone");
}

fn log_length(server: &Server) -> usize {
    std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default().lines().count()
}

/// Time on a CPU, in ticks of the clock: fields 14 and 15 of proc_pid_stat(5).
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
}

#[test]
fn ur_142_what_is_hidden_does_not_hide_the_challenges_of_certificates() {
    let root = Root::with_index();
    for name in [".well-known/acme-challenge/tok", ".git/config", ".env"] {
        root.file(name, name);
    }
    let server = Server::serve(&root.path());
    assert_eq!(server.get("/.well-known/acme-challenge/tok").must_be(&[200]).text(), ".well-known/acme-challenge/tok");
    for target in ["/.git/config", "/.env", "/.well-known/../.env"] {
        server.get(target).must_be(&[403, 404]);
    }
}

#[test]
fn ur_151_what_is_missing_is_404_with_a_body_whoever_makes_the_page() {
    let root = Root::with_index();
    root.file("a.txt", "a");
    root.file("404.html", "own page");
    for (site, own) in [("", false), ("error_pages = { 404 = \"/404.html\" }", true)] {
        let server = with_rules(&root, site);
        for target in ["/nope", "/nope/", "/a.txt/"] {
            let response = server.get(target).must_be(&[404]);
            assert!(!response.body.is_empty() && (response.text() == "own page") == own, "{target}: {}", response.text());
        }
    }
}

#[test]
fn ur_152_no_refusal_repeats_markup() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    for bytes in [
        "GET /<script>alert(1)</script> HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /%3Cscript%3Ealert(1)%3C/script%3E HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "<script>x</script> / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "G<b>T / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: <script>x</script>\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n<script>: x\r\nConnection: close\r\n\r\n",
    ] {
        let response = server.exchange(bytes, "GET");
        assert!((400..=501).contains(&response.status), "{bytes:?}: {}", response.status);
        let text = response.text();
        assert!(!text.contains("<script>") && !text.contains("<b>"), "{bytes:?}: {text}");
        let kind = response.field("Content-Type").unwrap();
        assert!(kind.contains("charset="), "{bytes:?}: {kind}");
        assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{bytes:?}");
    }
}

#[test]
fn ur_160_a_semicolon_in_a_query_changes_nothing_and_is_logged_raw() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    server.get("/index.html?action=calendar;year=2025").must_be(&[200]);
    let lines = server.wait_for_lines("access.log", 1);
    assert!(lines[0].contains("\"GET /index.html?action=calendar;year=2025 HTTP/1.1\" 200"), "{lines:?}");
}

#[test]
fn ur_176_pipelined_requests_are_answered_in_order_and_never_beyond_a_close() {
    let root = Root::with_index();
    let large = pattern(16 << 20);
    root.file("16mb.bin", &large);
    root.file("1mb.bin", &large[..1 << 20]);
    root.file("b.txt", "b");
    let server = Server::run(&Configuration::of(&root.path()));
    let mut client = server.connect();
    client.send([request("GET", "/16mb.bin", &["Connection: close"]), request("GET", "/b.txt", &[])].concat());
    let first = client.response("GET").must_be(&[200]);
    assert!(first.body == large && first.closes());
    client.expect_end();
    let lines = server.wait_for_lines("access.log", 1);
    assert!(lines.len() == 1 && lines[0].contains("/16mb.bin"), "{lines:?}");
    let mut client = server.connect();
    let targets = ["/b.txt", "/1mb.bin", "/none", "/b.txt", "/", "/1mb.bin", "/b.txt", "/none", "/", "/b.txt"];
    client.send(targets.iter().flat_map(|target| request("GET", target, &[])).collect::<Vec<u8>>());
    for target in targets {
        let response = client.response("GET");
        let right = match target {
            "/1mb.bin" => response.status == 200 && response.body == large[..1 << 20],
            "/b.txt" => response.status == 200 && response.body == b"b",
            "/" => response.status == 200 && response.body == b"index\n",
            _ => response.status == 404,
        };
        assert!(right, "{target}: {}", response.status);
    }
}
