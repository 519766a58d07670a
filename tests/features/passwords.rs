//! `[auth.NAME]` and the rule key `auth`: who is asked for a password, what is taken for one, and who is told whom a request is from.

use crate::fastcgi::{FakeBackend, answer};
use crate::support::{Configuration, Launch, PATIENCE, Root, Server, wait_until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A password file beside nothing that is served.
struct Users {
    directory: tempfile::TempDir,
}

impl Users {
    fn new(lines: &str) -> Users {
        let users = Users { directory: tempfile::Builder::new().prefix("anchorite-users-").tempdir().unwrap() };
        users.write(lines);
        users
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("users")
    }

    /// Writes over the file, as htpasswd(1) does.
    fn write(&self, lines: &str) {
        fs::write(self.path(), lines).unwrap();
    }

    fn table(&self) -> String {
        format!("[auth.staff]\ntype = \"basic\"\nrealm = \"Staff only\"\nfile = {:?}\n", self.path())
    }
}

/// A line that another program makes.
fn line(user: &str, kind: &str, password: &str) -> String {
    let output = match kind {
        "bcrypt" => Command::new("htpasswd").args(["-nbBC", "5", user, password]).output().unwrap(),
        kind => Command::new("openssl").args(["passwd", kind, password]).output().unwrap(),
    };
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.trim();
    if kind == "bcrypt" { format!("{text}\n") } else { format!("{user}:{text}\n") }
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// A root with a page at `/index.html`, and rules.
fn run(users: &Users, rules: &[&str]) -> (Root, Server) {
    let root = Root::with_index();
    let mut configuration = Configuration::of(&root.path()).backend(&users.table());
    for rule in rules {
        configuration = configuration.rule(rule);
    }
    let server = Server::run(&configuration);
    (root, server)
}

const ASKS: &str = "Basic realm=\"Staff only\", charset=\"UTF-8\"";

#[test]
fn passwords_of_every_kind_let_their_users_in_and_nobody_else() {
    let kinds = ["bcrypt", "-apr1", "-5", "-6"];
    let lines: String = kinds.iter().map(|kind| line(&format!("u{}", kind.trim_start_matches('-')), kind, "s3:cret é")).collect();
    let users = Users::new(&format!("# staff\n{lines}"));
    let (_root, server) = run(&users, &["path = \"/*\"\nauth = \"staff\""]);
    for kind in kinds {
        let user = format!("u{}", kind.trim_start_matches('-'));
        server.ask("GET", "/", &[&basic(&user, "s3:cret é")]).must_be(&[200]);
        for wrong in ["s3:cret", "", "S3:cret é", "s3:cret é "] {
            let refused = server.ask("GET", "/", &[&basic(&user, wrong)]).must_be(&[401]);
            assert_eq!(refused.field("WWW-Authenticate"), Some(ASKS));
        }
        // From memory too.
        server.ask("GET", "/", &[&basic(&user, "s3:cret é")]).must_be(&[200]);
        server.ask("GET", "/", &[&basic("nobody", "s3:cret é")]).must_be(&[401]);
    }
    let asked = server.get("/").must_be(&[401]);
    assert_eq!(asked.field("WWW-Authenticate"), Some(ASKS));
    assert!(asked.text().contains("401 Unauthorized"), "{}", asked.text());
    server.ask("HEAD", "/", &[]).must_be(&[401]);
    // curl, as people call it.
    let url = format!("http://{}/", server.address());
    let curl = Command::new("curl").args(["-sf", "-u", "ubcrypt:s3:cret é", &url]).output().unwrap();
    assert!(curl.status.success(), "{curl:?}");
    let lines = wait_until(PATIENCE, || fs::read_to_string(server.home().join("error.log")).is_ok_and(|log| log.contains("nobody")));
    assert!(lines.is_some(), "a failure has a line in the error log");
    assert!(!fs::read_to_string(server.home().join("error.log")).unwrap().contains("s3:cret"));
}

#[test]
fn h05_credentials_that_are_none_are_nobody() {
    let users = Users::new(&line("alice", "bcrypt", "secret"));
    let (_root, server) = run(&users, &["auth = \"staff\""]);
    let good = basic("alice", "secret");
    for value in [
        "Authorization: Basic".to_owned(),
        "Authorization: Basic YWxpY2U6c2VjcmV0=".to_owned(),
        format!("Authorization: Basic {}", STANDARD.encode("alice")),
        format!("Authorization: Basic {}", STANDARD.encode("alice\0:secret")),
        format!("Authorization: Basic {}", STANDARD.encode("alice:secret\0")),
        format!("Authorization: Basic {}", STANDARD.encode("alice:secret\r\nX: y")),
        format!("Authorization: Basic {}", STANDARD.encode(":secret")),
        format!("Authorization: Basic {}", STANDARD.encode(format!("{}:secret", "a".repeat(300)))),
        format!("Authorization: Basic {}", STANDARD.encode(format!("alice:{}", "x".repeat(600)))),
        format!("Authorization: Bearer {}", STANDARD.encode("alice:secret")),
        format!("{good}\r\n{good}"),
    ] {
        let refused = server.ask("GET", "/", &[&value]).must_be(&[401]);
        assert_eq!(refused.field("WWW-Authenticate"), Some(ASKS), "{value}");
    }
    let huge = format!("Authorization: Basic {}", STANDARD.encode(vec![b'a'; 1 << 20]));
    server.ask("GET", "/", &[&huge]).must_be(&[431]);
    server.ask("GET", "/", &[&good]).must_be(&[200]);
}

#[test]
fn a_user_is_asked_for_whichever_way_leads_there() {
    let users = Users::new(&line("alice", "bcrypt", "secret"));
    let root = Root::with_index();
    for file in ["open/page.html", "secret/index.html", "mixed/index.html", "mixed/open.txt", "denied/x", "401.html"] {
        root.file(file, file);
    }
    let server = Server::run(
        &Configuration::of(&root.path())
            .server_also("workers = 1")
            .backend(&users.table())
            .site_also("error_pages = { 401 = \"/401.html\" }\nlisting = true")
            .rule("path = \"/by/rewrite\"\nrewrite = \"/secret/\"")
            .rule("path = \"/by/try\"\ntry = [\"/no\", \"/secret/\"]")
            .rule("path = \"/moved\"\nredirect = \"/open/page.html\"")
            .rule("path = \"/said\"\nrespond = 200\nrespond_body = \"for {user}\"")
            .rule("header = { X-User = \"<{user}>\" }")
            .rule("path = [\"/secret/*\", \"/moved\", \"/said\", \"/mixed/index.html\"]\nauth = \"staff\"")
            .rule("path = \"/denied/*\"\nauth = \"staff\"\ndeny = \"127.0.0.0/8\""),
    );
    let good = basic("alice", "secret");
    for path in
        ["/secret/", "/secret/index.html", "/secret/no", "//secret/./index.html", "/by/rewrite", "/by/try", "/moved", "/said", "/mixed/"]
    {
        let asked = server.get(path).must_be(&[401]);
        assert_eq!((asked.field("WWW-Authenticate"), asked.text().as_str()), (Some(ASKS), "401.html"), "{path}");
        server.ask("GET", path, &[&basic("alice", "wrong")]).must_be(&[401]);
        let answered = server.ask("GET", path, &[&good]);
        assert_eq!(answered.field("WWW-Authenticate"), None, "{path}");
        assert_ne!(answered.status, 401, "{path}");
    }
    assert_eq!(server.ask("GET", "/by/rewrite", &[&good]).must_be(&[200]).text(), "secret/index.html");
    assert_eq!(server.ask("GET", "/said", &[&good]).must_be(&[200]).text(), "for alice");
    let page = server.ask("GET", "/secret/", &[&good]);
    assert_eq!((page.status, page.field("X-User")), (200, Some("<alice>")));
    // Who need not log in is nobody, whatever is sent.
    let open = server.ask("GET", "/open/page.html", &[&good]);
    assert_eq!((open.status, open.field("X-User")), (200, Some("<>")));
    // Whoever is kept out by address is not asked first.
    let denied = server.get("/denied/x").must_be(&[403]);
    assert_eq!(denied.field("WWW-Authenticate"), None);
    // A listing leaves out what it would take a password to see, as long as none is given.
    let names = server.get("/mixed/").must_be(&[401]);
    drop(names);
    fs::remove_file(root.at("mixed/index.html")).unwrap();
    assert!(wait_until(PATIENCE, || server.get("/mixed/").status == 200).is_some());
    assert!(server.get("/mixed/").text().contains("open.txt"));
    // A body is not waited for.
    let refused =
        server.exchange(b"POST /secret/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\nExpect: 100-continue\r\n\r\n", "POST");
    assert_eq!(refused.must_be(&[401, 413]).field("Connection"), Some("close"));
    // One connection, one user after the other.
    let mut client = server.connect();
    for (fields, status) in [(Some(good.as_str()), 200), (None, 401), (Some(good.as_str()), 200), (None, 401)] {
        let fields: Vec<&str> = fields.into_iter().collect();
        client.send(crate::support::request("GET", "/secret/", &fields));
        assert_eq!(client.response("GET").status, status);
    }
}

#[test]
fn every_rule_that_matches_has_to_know_the_user() {
    let staff = Users::new(&format!("{}{}", line("alice", "bcrypt", "secret"), line("bob", "bcrypt", "secret")));
    let board = Users::new(&format!("{}{}", line("bob", "bcrypt", "secret"), line("carol", "bcrypt", "secret")));
    let second = format!("[auth.board]\ntype = \"basic\"\nfile = {:?}\n", board.path());
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path())
        .backend(&format!("{}{second}", staff.table()))
        .rule("auth = \"staff\"")
        .rule("path = \"/index.html\"\nauth = \"board\"");
    let server = Server::run(&configuration);
    for (user, whole, page) in [("alice", 404, 401), ("bob", 404, 200), ("carol", 401, 401)] {
        assert_eq!(server.ask("GET", "/no", &[&basic(user, "secret")]).status, whole, "{user}");
        assert_eq!(server.ask("GET", "/index.html", &[&basic(user, "secret")]).status, page, "{user}");
    }
    let asked = server.ask("GET", "/index.html", &[&basic("alice", "secret")]);
    assert_eq!(asked.field("WWW-Authenticate"), Some("Basic realm=\"board\", charset=\"UTF-8\""));
}

#[test]
fn backends_are_told_the_user_and_not_the_password() {
    let backend = FakeBackend::new(|seen| {
        let shown: String = ["REMOTE_USER", "AUTH_TYPE", "HTTP_AUTHORIZATION"]
            .iter()
            .map(|name| format!("{name}={};", seen.value(name).unwrap_or("-")))
            .collect();
        answer(format!("Content-Type: text/plain\r\n\r\n{shown}"))
    });
    let users = Users::new(&line("al ice", "bcrypt", "secret"));
    let root = Root::with_index();
    let server = Server::run(
        &Configuration::of(&root.path())
            .server_also("workers = 1")
            .backend(&backend.table(""))
            .backend(&users.table())
            .rule("path = \"/staff/*\"\nauth = \"staff\"")
            .rule("backend = \"fake\""),
    );
    let good = basic("al ice", "secret");
    assert_eq!(server.ask("GET", "/staff/x", &[&good]).text(), "REMOTE_USER=al ice;AUTH_TYPE=Basic;HTTP_AUTHORIZATION=-;");
    // With a body, too.
    let length = "Content-Length: 3";
    let bytes = [crate::support::request("POST", "/staff/x", &[&good, length, "Connection: close"]), b"abc".to_vec()].concat();
    assert_eq!(server.exchange(bytes, "POST").text(), "REMOTE_USER=al ice;AUTH_TYPE=Basic;HTTP_AUTHORIZATION=-;");
    let chunked = "Transfer-Encoding: chunked";
    let bytes =
        [crate::support::request("POST", "/staff/x", &[&good, chunked, "Connection: close"]), b"3\r\nabc\r\n0\r\n\r\n".to_vec()].concat();
    assert_eq!(server.exchange(bytes, "POST").text(), "REMOTE_USER=al ice;AUTH_TYPE=Basic;HTTP_AUTHORIZATION=-;");
    let passed = server.ask("GET", "/open", &[&good]).text();
    assert_eq!(passed, format!("REMOTE_USER=-;AUTH_TYPE=-;HTTP_AUTHORIZATION={};", good.trim_start_matches("Authorization: ")));
    server.ask("GET", "/staff/x", &["Remote-User: root"]).must_be(&[401]);
    // One field of the access log, whatever the name; of a request that was refused it is nobody's.
    let lines = server.wait_for_lines("access.log", 5);
    assert!(lines[0].starts_with("127.0.0.1 - al\\x20ice [") || lines[0].starts_with("127.0.0.1 - \"al ice\" ["), "{}", lines[0]);
    assert!(lines[3].starts_with("127.0.0.1 - - [") && lines[4].starts_with("127.0.0.1 - - ["), "{lines:?}");
}

#[test]
fn a_file_that_is_written_over_is_taken_up_without_a_reload() {
    let users = Users::new(&line("alice", "bcrypt", "first"));
    let (_root, server) = run(&users, &["auth = \"staff\""]);
    let status = |user: &str, password: &str| server.ask("GET", "/", &[&basic(user, password)]).status;
    assert_eq!((status("alice", "first"), status("bob", "new")), (200, 401));
    users.write(&line("bob", "bcrypt", "new"));
    assert!(wait_until(PATIENCE, || status("bob", "new") == 200).is_some(), "who is added gets in");
    assert_eq!(status("alice", "first"), 401, "who is gone is not known from memory either");
    server.order(&["reload"]).must_be_done();
    assert_eq!((status("alice", "first"), status("bob", "new")), (401, 200));
}

#[test]
fn what_is_wrong_with_a_password_file_is_told_with_its_place() {
    let users = Users::new(&format!("old:{{SHA}}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n{}plain:secret\n", line("alice", "bcrypt", "secret")));
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path()).backend(&users.table()).rule("auth = \"staff\"");
    let server = Server::run(&configuration);
    server.ask("GET", "/", &[&basic("alice", "secret")]).must_be(&[200]);
    for (user, password) in [("old", "secret"), ("plain", "secret")] {
        server.ask("GET", "/", &[&basic(user, password)]).must_be(&[401]);
    }
    let check = server.order(&["check"]).must_be_done();
    for told in ["users:1: {SHA} is not taken", "users:3: no hash that is known here"] {
        assert!(check.stderr.contains(told), "{}", check.stderr);
        assert!(server.stderr().contains(told) || fs::read_to_string(server.home().join("error.log")).unwrap().contains(told));
    }
    assert!(!check.stderr.contains("W6ph5"), "no hash is shown");
    let launch = Launch::new();
    fs::remove_file(users.path()).unwrap();
    let failed = launch.run_to_end(&configuration.text(launch.home())).must_fail();
    assert!(failed.stderr.contains("password file") || failed.stderr.contains("users\""), "{}", failed.stderr);
}

#[test]
fn explain_says_that_a_user_is_asked_for() {
    let users = Users::new(&line("alice", "bcrypt", "secret"));
    let (_root, server) = run(&users, &["path = \"/index.html\"\nauth = \"staff\""]);
    let asked = server.order(&["explain", "/index.html"]);
    assert!(asked.stdout.contains("asks for a user of [auth.staff]") && asked.stdout.contains("answers 401"), "{}", asked.stdout);
    let header = basic("alice", "whatever");
    let known = server.order(&["explain", "/index.html", "--header", &header]);
    assert!(known.stdout.contains("takes user \"alice\"") && known.stdout.contains("answers with the file"), "{}", known.stdout);
}

#[test]
fn others_are_served_while_a_password_is_looked_at() {
    // A hash that takes some hundred milliseconds.
    let output = Command::new("htpasswd").args(["-nbBC", "12", "alice", "secret"]).output().unwrap();
    let users = Users::new(&String::from_utf8(output.stdout).unwrap());
    let root = Root::with_index();
    let configuration =
        Configuration::of(&root.path()).server_also("workers = 1").backend(&users.table()).rule("path = \"/staff/*\"\nauth = \"staff\"");
    let server = Server::run(&configuration);
    let mut waiting: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for (number, client) in waiting.iter_mut().enumerate() {
        client.send(crate::support::request("GET", "/staff/", &[&basic("alice", &format!("wrong {number}"))]));
    }
    // Before the last of them is answered, others are: the worker does not make hashes.
    for _ in 0..20 {
        server.get("/").must_be(&[200]);
    }
    assert_eq!(waiting.last_mut().map(|client| client.buffered()), Some(0));
    for client in &mut waiting {
        assert_eq!(client.response("GET").status, 401);
    }
}

/// H06: who has a wrong password looked at learns nothing by the time it takes, whether there is such a user or not.
#[test]
fn h06_a_wrong_user_takes_as_long_as_a_wrong_password() {
    let output = Command::new("htpasswd").args(["-nbBC", "6", "alice", "secret"]).output().unwrap();
    let users = Users::new(&String::from_utf8(output.stdout).unwrap());
    let (_root, server) = run(&users, &["auth = \"staff\""]);
    let many = if std::env::var_os("ANCHORITE_TESTS_ALL").is_some_and(|value| value == "1") { 1_000 } else { 60 };
    let mut times = [Vec::new(), Vec::new()];
    let mut client = server.connect();
    for number in 0..many {
        // By turns, so that what slows the machine slows both.
        for (user, times) in ["alice", "nobody"].iter().zip(&mut times) {
            let began = std::time::Instant::now();
            client.send(crate::support::request("GET", "/", &[&basic(user, &format!("wrong {number}"))]));
            assert_eq!(client.response("GET").status, 401);
            times.push(began.elapsed());
        }
    }
    let [known, unknown] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64()
    });
    // Without a hash it would be a hundredth.
    assert!((0.5..2.0).contains(&(known / unknown)), "{known} s and {unknown} s");
}

/// H06: wrong ones are counted, and whoever had many waits; nobody else does.
#[test]
fn h06_who_guesses_is_slowed_and_nobody_else() {
    let users = Users::new(&line("alice", "bcrypt", "secret"));
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path()).server_also("trusted_proxies = [\"127.0.0.0/8\"]\nworkers = 2");
    let server = Server::run(&configuration.backend(&users.table()).rule("auth = \"staff\""));
    let ask = |client: &str, password: &str| server.ask("GET", "/", &[&format!("X-Forwarded-For: {client}"), &basic("alice", password)]);
    for number in 0..5 {
        ask("192.0.2.1", &format!("guess {number}")).must_be(&[401]);
    }
    let slowed = ask("192.0.2.1", "guess 5").must_be(&[429]);
    assert_eq!(slowed.field("Retry-After"), Some("1"));
    ask("192.0.2.2", "secret").must_be(&[200]);
    let told = || fs::read_to_string(server.home().join("error.log")).unwrap_or_default();
    assert!(wait_until(PATIENCE, || told().contains("there were too many wrong passwords")).is_some(), "{}", told());
    let come = wait_until(PATIENCE, || ask("192.0.2.1", "secret again").status == 401);
    assert!(come.is_some());
    // Nor is the right one looked at then, which would tell that it is.
    ask("192.0.2.1", "secret").must_be(&[429]);
    assert!(wait_until(PATIENCE, || ask("192.0.2.1", "secret").status == 200).is_some());
    // What was right is forgiven.
    ask("192.0.2.1", "guess 6").must_be(&[401]);
    // Whoever is on this machine is behind it, or all of those are one.
    for number in 0..30 {
        server.ask("GET", "/", &[&basic("alice", &format!("guess {number}"))]).must_be(&[401]);
    }
}
