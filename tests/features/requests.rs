//! Limits of requests: of each client, for all and by rule.

use crate::fastcgi::{FakeBackend, answer};
use crate::support::{Client, Configuration, Root, Server, needs_root, own_network, request};
use std::time::{Duration, Instant};

fn ask(client: &mut Client, target: &str) -> u16 {
    client.send(request("GET", target, &[]));
    client.response("GET").status
}

/// How many of these requests, each on a connection of its own so that any worker takes it, were answered with the file.
fn passed(server: &Server, target: &str, count: usize) -> usize {
    (0..count).filter(|_| server.get(target).must_be(&[200, 429]).status == 200).count()
}

#[test]
fn requests_beyond_the_rate_are_answered_429_and_told_when_to_come_again() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).limits("requests = \"1/m burst 5\""));
    let begun = Instant::now();
    assert_eq!(passed(&server, "/", 10), 5, "over both workers");
    let mut client = server.connect();
    for method in ["GET", "HEAD", "GET"] {
        client.send(request(method, "/", &[]));
        let refused = client.response(method).must_be(&[429]);
        let seconds: u64 = refused.field("Retry-After").expect("Retry-After").parse().unwrap();
        assert!((30..=60).contains(&seconds), "{seconds}");
        assert!(!refused.closes(), "a new connection would cost more than the next answer");
    }
    let lines = server.wait_for_lines("access.log", 13);
    assert_eq!(lines.iter().filter(|line| line.contains(" 429 ")).count(), 8, "{lines:?}");
    let text = server.order(&["status", "--json"]).must_be_done().stdout;
    assert!(text.contains("\"request_limit_hits\":8"), "{text}");
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let told = server.wait_for_lines("error.log", 1);
    let told = told.iter().filter(|line| line.contains("HTTP/1.1\": more than 1/m burst 5 requests: 429")).count();
    assert!((1..=seconds + 2).contains(&told), "one line a second: {told} in {seconds} s");
}

#[test]
fn a_client_that_waits_is_answered_again() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).limits("requests = \"20/m burst 2\""));
    // Within three seconds, then after twice that.
    assert_eq!(passed(&server, "/", 4), 2);
    std::thread::sleep(Duration::from_millis(6_100));
    assert_eq!(passed(&server, "/", 4), 2);
}

#[test]
fn without_a_rate_there_is_no_limit() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).limits("requests = \"\""));
    let mut client = server.connect();
    assert!((0..2000).all(|_| ask(&mut client, "/") == 200));
}

#[test]
fn a_rule_limits_what_it_matches_and_each_rule_for_itself() {
    let root = Root::with_index();
    for name in ["login", "search", "both", "page"] {
        root.file(name, name);
    }
    let rules = "name = [\"\"]\n[[site.rule]]\npath = [\"/login\", \"/both\"]\nrequests = \"1/m burst 2\"\n\
                 [[site.rule]]\npath = [\"/search\", \"/both\"]\nrequests = \"1/m burst 3\"\n";
    let server = Server::run(&Configuration::new().site(&root.path(), rules));
    assert_eq!(passed(&server, "/login", 4), 2);
    assert_eq!(passed(&server, "/search", 2), 2);
    // Every rule that matches must let it pass.
    assert_eq!(passed(&server, "/both", 2), 0);
    assert_eq!(passed(&server, "/page", 10), 10);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "/login"), 429);
    assert_eq!(ask(&mut client, "/page"), 200);
    // What a request lacks is looked for all the same.
    assert_eq!(passed(&server, "/index.html", 3), 3);
}

#[test]
fn a_429_has_the_sites_page_and_headers_and_the_limit_survives_a_reload() {
    let root = Root::with_index();
    root.file("slow.html", "slow down\n");
    let rules = "name = [\"\"]\nerror_pages = { 429 = \"/slow.html\", 404 = \"/slow.html\" }\n\
                 [[site.rule]]\npath = \"/x\"\nheader = { X-A = \"b\" }\nrequests = \"1/m burst 1\"\n";
    let configuration = Configuration::new().site(&root.path(), rules);
    let server = Server::run(&configuration);
    // The page of an error does not count a second time.
    server.get("/x").must_be(&[404]);
    for _ in 0..2 {
        let refused = server.get("/x").must_be(&[429]);
        assert_eq!((refused.text().as_str(), refused.field("X-A")), ("slow down\n", Some("b")));
        assert!(refused.field("Retry-After").is_some());
        server.order(&["reload"]).must_be_done();
    }
    let server = Server::run(&configuration.limits("requests = \"1/m burst 1\""));
    server.get("/").must_be(&[200]);
    let refused = server.get("/").must_be(&[429]);
    assert_eq!(refused.text(), "slow down\n");
    assert!(refused.field("Retry-After").is_some());
}

#[test]
fn each_client_has_its_own_rate() {
    needs_root!();
    let root = Root::with_index();
    own_network();
    let server = "user = \"nobody\"\ngroup = \"nogroup\"\nlisten = [\"[::]:0\"]";
    let server = Server::run(&Configuration::of(&root.path()).server(server).limits("requests = \"1/m burst 3\""));
    let port = server.address().port();
    for (client, right) in [
        ("192.0.2.1", [200, 200, 200, 429, 429]),
        ("192.0.2.2", [200, 200, 200, 429, 429]),
        ("2001:db8:0:1::1", [200, 200, 200, 429, 429]),
        ("2001:db8:0:1::2", [429; 5]),
        ("2001:db8:0:2::1", [200, 200, 200, 429, 429]),
    ] {
        let host = if client.contains(':') { "[2001:db8:ffff::1]" } else { "192.0.2.250" };
        let mut connection = Client::connect_from(client, format!("{host}:{port}").parse().unwrap());
        assert_eq!([(); 5].map(|()| ask(&mut connection, "/")), right, "{client}");
    }
}

#[test]
fn a_script_is_counted_whatever_stands_behind_its_name() {
    let backend = FakeBackend::new(|_| answer("Content-Type: text/plain\r\n\r\n"));
    let root = Root::new();
    root.file("login.php", "");
    root.file("other.php", "");
    let configuration = Configuration::of(&root.path())
        .backend(&backend.table(""))
        .rule("path = \"/login.php\"\nrequests = \"3/h\"")
        .rule("path = \"*.php\"\nbackend = \"fake\"");
    let server = Server::run(&configuration);
    let statuses =
        ["/login.php/1", "/login.php", "/login.php/", "/login.php/2", "/login.php", "/other.php/x"].map(|target| server.get(target).status);
    assert_eq!(statuses, [200, 200, 200, 429, 429, 200]);
}
