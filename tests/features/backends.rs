//! Backends by FastCGI: PHP-FPM as Debian has it, and a backend that shows what it was told. The cases `C`.

use crate::fastcgi::{FakeBackend, Php, Step, answer, no_backend, stdout};
use crate::support::{Configuration, Launch, PATIENCE, Root, Server, needs_root, pattern, request, wait_until};
use std::time::{Duration, Instant};

/// A service that hands everything to a backend, which answers with what it was told.
fn echo(lines: &str) -> (FakeBackend, Root, Server) {
    let backend = FakeBackend::new(|seen| {
        let told: String = seen.parameters.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        answer(format!("Content-Type: text/plain\r\n\r\n{told}BODY={}\n", seen.body.len()))
    });
    let root = Root::new();
    let server = Server::run(&Configuration::of(&root.path()).backend(&backend.table(lines)).rule("backend = \"fake\""));
    (backend, root, server)
}

fn php(scripts: &[(&str, &str)], children: usize, rules: &str) -> Option<(Php, Root, Server)> {
    let php = Php::start(children)?;
    let root = Root::new();
    scripts.iter().for_each(|(name, text)| drop(root.file(name, text)));
    let rules = if rules.is_empty() { "path = \"*.php\"\nbackend = \"php\"" } else { rules };
    let configuration =
        Configuration::of(&root.path()).backend(&php.table("")).site_also("index = [\"index.php\", \"index.html\"]").rule(rules);
    let server = Server::run(&configuration);
    Some((php, root, server))
}

/// Ends the test early where PHP-FPM is not to be had.
macro_rules! needs_php {
    ($started:expr) => {
        match $started {
            Some(started) => started,
            None => {
                eprintln!("skipped: this case needs php-fpm");
                return;
            }
        }
    };
}

const SHOW: &str = "<?php header('X-A: b'); setcookie('a', '1'); setcookie('b', '2'); \
     echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['QUERY_STRING'], ' ', \
     strlen(file_get_contents('php://input'));";

/// One worker, and a backend with two addresses.
fn shared_by(backends: &[FakeBackend; 2], root: &Root, balance: &str) -> Server {
    let [one, other] = backends.each_ref().map(|backend| format!("\"unix:{}\"", backend.path().display()));
    let table = format!("\n[backend.two]\ntype = \"fastcgi\"\naddress = [{one}, {other}]\nbalance = \"{balance}\"\nkeep = 0\n");
    let configuration = Configuration::of(&root.path()).server_also("workers = 1").backend(&table).rule("backend = \"two\"");
    Server::run(&configuration)
}

fn two() -> [FakeBackend; 2] {
    ["one", "other"].map(|name| FakeBackend::new(move |_| answer(format!("Content-Type: text/plain\r\n\r\n{name}"))))
}

#[test]
fn several_addresses_are_shared_as_the_configuration_says() {
    let root = Root::new();
    for (balance, most) in [("least-connections", 4), ("round-robin", 4), ("hash-client", 8)] {
        let backends = two();
        let server = shared_by(&backends, &root, balance);
        for _ in 0..8 {
            server.get("/").must_be(&[200]);
        }
        let seen = backends.each_ref().map(|backend| backend.seen.lock().unwrap().len());
        assert_eq!((seen.iter().sum::<usize>(), seen.iter().max().copied()), (8, Some(most)), "{balance}: {seen:?}");
    }
}

#[test]
fn an_address_that_fails_is_passed_over_and_asked_again_when_it_is_back() {
    let root = Root::new();
    for balance in ["least-connections", "round-robin", "hash-client"] {
        let backends = two();
        let server = shared_by(&backends, &root, balance);
        let away = backends[0].path().with_file_name("away");
        std::fs::rename(backends[0].path(), &away).unwrap();
        for _ in 0..8 {
            assert_eq!(server.get("/").must_be(&[200]).text(), "other", "{balance}");
        }
        std::fs::rename(&away, backends[0].path()).unwrap();
        std::fs::rename(backends[1].path(), backends[1].path().with_file_name("away")).unwrap();
        wait_until(PATIENCE, || server.get("/").status == 200).unwrap();
        assert_eq!(server.get("/").must_be(&[200]).text(), "one", "{balance}");
    }
}

/// As fcgiwrap's, which lies in /run: the directory of the service's own socket, which no role is shown.
#[test]
fn a_socket_beside_the_control_socket_is_shown_alone() {
    let (backend, root) = (FakeBackend::new(|_| answer("Content-Type: text/plain\r\n\r\nfine")), Root::new());
    let control = backend.path().with_file_name("control");
    let configuration = Configuration::of(&root.path())
        .server_also(&format!("control_socket = {control:?}"))
        .backend(&backend.table(""))
        .rule("backend = \"fake\"");
    let server = Server::run(&configuration);
    assert_eq!(server.get("/").must_be(&[200]).text(), "fine");
}

/// The line says why; owner, group and mode are told by `check` beforehand.
#[test]
fn ur_166_a_socket_that_may_not_be_used_is_503_and_told_with_the_reason() {
    needs_root!();
    let (backend, _root, server) = echo("keep = 0");
    let errors = || std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default();
    let at = |why: &str| format!("backend \"fake\" at unix:{}: connect: {why}", backend.path().display());
    std::fs::set_permissions(backend.path(), std::os::unix::fs::PermissionsExt::from_mode(0o660)).unwrap();
    server.get("/x").must_be(&[503]);
    assert!(wait_until(PATIENCE, || errors().contains(&at("Permission denied"))).is_some(), "{}", errors());
    let checked = server.order(&["check"]);
    let told = format!("{}{}", checked.stdout, checked.stderr);
    assert!(told.contains(&backend.path().display().to_string()) && told.contains("belongs to root:root with mode 0660"), "{told}");
    std::fs::remove_file(backend.path()).unwrap();
    server.get("/x").must_be(&[503]);
    assert!(wait_until(PATIENCE, || errors().contains(&at("No such file"))).is_some(), "{}", errors());
}

#[test]
fn php_behind_a_socket_of_its_group_works_at_once() {
    needs_root!();
    let (_php, _root, server) = needs_php!(php(&[("index.php", SHOW), ("a/index.php", SHOW), ("x.html", "static")], 2, ""));
    let mut client = server.connect();
    for (method, target, body, expected) in [
        ("GET", "/index.php", "", "GET /index.php -  0"),
        ("GET", "/", "", "GET /index.php -  0"),
        ("GET", "/a/?q=%20", "", "GET /a/index.php - q=%20 0"),
        ("GET", "/index.php/info/x?y", "", "GET /index.php /info/x y 0"),
        ("POST", "/index.php", "hello", "POST /index.php -  5"),
        ("POST", "/a/", "hello", "POST /a/index.php -  5"),
    ] {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let response = client.response(method).must_be(&[200]);
        assert_eq!(response.text(), expected, "{target}");
        assert_eq!(response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")).count(), 2);
    }
    assert_eq!(server.get("/x.html").text(), "static");
}

#[test]
fn c02_c03_c05_c06_c07_c09_no_source_is_sent_and_no_upload_is_run() {
    needs_root!();
    let scripts = [
        ("a.php", "<?php echo 'run';"),
        ("avatar.jpg", "<?php echo 'run';"),
        ("x.php.jpg", "<?php echo 'run';"),
        ("s.phtml", "<?php x"),
        ("s.inc", "x"),
    ];
    let (mut php, _root, server) = needs_php!(php(&scripts, 2, ""));
    for (target, status) in [
        ("/avatar.jpg/x.php", 404),
        ("/a.php/%0aQQQ", 200),
        ("/a.php%0d", 404),
        ("/a.php.", 404),
        ("/a.php%20", 404),
        ("/a.php::$DATA", 404),
        ("/A.PHP", 404),
        ("/a.php~", 404),
        ("/a.php.bak", 404),
        ("/s.phtml", 403),
        ("/s.inc", 403),
        ("/a.php%00.txt", 400),
    ] {
        let response = server.get(target);
        assert_eq!(response.status, status, "{target}");
        assert!(!response.text().contains("<?php"), "{target}");
    }
    let upload = server.get("/x.php.jpg").must_be(&[200]);
    assert_eq!((upload.field("content-type"), upload.field("x-content-type-options")), (Some("image/jpeg"), Some("nosniff")));
    php.stop();
    let down = server.get("/a.php");
    assert!(down.status == 503 && down.field("retry-after").is_some() && !down.text().contains("<?php"), "{}", down.status);
    let log = || std::fs::read_to_string(server.home().join("error.log")).unwrap();
    let told = || log().contains("backend \"php\" at unix:") && log().contains("os error 2");
    assert!(wait_until(PATIENCE, told).is_some(), "{}", log());
}

#[test]
fn wordpress_has_its_permalinks_by_try() {
    needs_root!();
    let rules = "try = [\"{path}\", \"{path}/\", \"/index.php?{query}\"]\n[[site.rule]]\npath = \"*.php\"\nbackend = \"php\"";
    let scripts = [
        ("index.php", "<?php echo $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['QUERY_STRING'];"),
        ("a.css", "css"),
    ];
    let (_php, _root, server) = needs_php!(php(&scripts, 2, rules));
    assert_eq!(server.get("/2026/11/a-post/?p=1").text(), "/2026/11/a-post/?p=1 /index.php p=1");
    assert_eq!(server.get("/a.css").text(), "css");
    assert_eq!(server.get("/").text(), "/ /index.php ");
}

#[test]
fn uploads_are_byte_exact_and_streamed() {
    needs_root!();
    let sum = "<?php $h = hash_init('crc32b'); $n = 0; $f = fopen('php://input', 'rb'); \
               while (($d = fread($f, 65536)) !== '' && $d !== false) { $n += strlen($d); hash_update($h, $d); } echo $n, ' ', hash_final($h);";
    let (_php, _root, server) = needs_php!(php(&[("sum.php", sum), ("echo.php", "<?php echo file_get_contents('php://input');")], 2, ""));
    let body = pattern(10_000_000);
    let mut client = server.connect();
    client.send(request("POST", "/sum.php", &[&format!("Content-Length: {}", body.len()), "Expect: 100-continue"]));
    assert_eq!(client.head().unwrap().status, 100);
    client.send(&body);
    let response = client.response("POST").must_be(&[200]);
    assert!(response.text().starts_with("10000000 ") && !response.closes(), "{}", response.text());
    let body = &body[..1_000_000];
    client.send(request("POST", "/echo.php", &[&format!("Content-Length: {}", body.len())])).send(body);
    assert!(client.response("POST").must_be(&[200]).body == body);
    // Chunked: the length is told.
    client.send("POST /echo.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    assert_eq!(client.response("POST").must_be(&[200]).text(), "hello world");
}

#[test]
fn c13_a_chunked_body_has_a_length() {
    let (backend, _root, server) = echo("");
    let mut client = server.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    let text = client.response("POST").must_be(&[200]).text();
    assert!(text.contains("CONTENT_LENGTH=3\n") && text.contains("BODY=3\n"), "{text}");
    assert_eq!(backend.seen.lock().unwrap().len(), 1);
}

#[test]
fn s11_a_body_beyond_the_limit_never_reaches_the_backend() {
    let (backend, _root, server) = echo("");
    let response = server.exchange("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n", "POST");
    assert_eq!(response.status, 413);
    assert!(backend.seen.lock().unwrap().is_empty());
}

#[test]
fn c01_c10_c11_c15_c16_parameters_are_the_servers_to_name() {
    let (_backend, root, server) = echo("env = { PHP_VALUE = \"x\" }");
    let fields = [
        "Proxy: http://evil",
        "X-Forwarded_For: 1",
        "X_Forwarded-For: 2",
        "Script-Filename: /etc/passwd",
        "Remote-Addr: 1.2.3.4",
        "Https: on",
        "Php-Value: y",
        "Authorization: Basic eDp5",
        "X-A: 1",
        "X-A: 2",
        "Cookie: a=1",
        "Cookie: b=2",
    ];
    let text = server.ask("GET", "/x/y%2Fz?-s", &fields).must_be(&[200]).text();
    for line in [
        "HTTP_X_A=1, 2",
        "HTTP_COOKIE=a=1; b=2",
        "HTTP_AUTHORIZATION=Basic eDp5",
        "HTTP_SCRIPT_FILENAME=/etc/passwd",
        "PHP_VALUE=x",
        "QUERY_STRING=-s",
        "REQUEST_URI=/x/y%2Fz?-s",
        "PATH_INFO=/x/y/z",
        "SCRIPT_NAME=",
        "REMOTE_ADDR=127.0.0.1",
        "SERVER_PROTOCOL=HTTP/1.1",
        &format!("SERVER_PORT={}", server.address().port()),
        &format!("DOCUMENT_ROOT={}", root.path().canonicalize().unwrap().display()),
    ] {
        assert!(text.lines().any(|have| have == line), "{line}: {text}");
    }
    for name in ["HTTP_PROXY=", "HTTP_X_FORWARDED_FOR=", "REMOTE_USER=", "AUTH_TYPE=", "HTTPS=", "CONTENT_LENGTH="] {
        assert!(!text.lines().any(|line| line.starts_with(name)), "{name}: {text}");
    }
}

#[test]
fn script_root_is_where_the_backend_sees_the_document_root() {
    let backend = FakeBackend::new(|seen| {
        let told = |name| seen.value(name).unwrap_or("-").to_owned();
        answer(format!("A: b\r\n\r\n{} {}", told("DOCUMENT_ROOT"), told("SCRIPT_FILENAME")))
    });
    let root = Root::new();
    root.file("sub/a.php", "");
    let server = Server::run(
        &Configuration::of(&root.path()).backend(&backend.table("script_root = \"/www\"")).rule("path = \"*.php\"\nbackend = \"fake\""),
    );
    assert_eq!(server.get("/sub/a.php/i").text(), "/www /www/sub/a.php");
}

#[test]
fn an_answer_is_sent_as_it_comes() {
    const PAUSE: Duration = Duration::from_secs(5);
    let backend = FakeBackend::new(|_| {
        let mut steps = vec![Step::Send(stdout("Content-Type: text/event-stream\r\n\r\n"))];
        for number in 0..3 {
            steps.extend([Step::Send(stdout(format!("data: {number}\n\n"))), Step::Pause(PAUSE)]);
        }
        steps.extend(answer(""));
        steps
    });
    let root = Root::new();
    let server = Server::run(&Configuration::of(&root.path()).backend(&backend.table("")).rule("backend = \"fake\""));
    let mut client = server.connect();
    let begun = Instant::now();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head().unwrap();
    client.exactly("9\r\ndata: 0\n\n\r\n".len()).unwrap();
    // Before the next is even made.
    assert!(begun.elapsed() < PAUSE, "{:?}", begun.elapsed());
}

#[test]
fn c18_more_than_may_be_open_wait_and_more_than_may_wait_are_503() {
    let backend =
        FakeBackend::new(|_| [vec![Step::Pause(Duration::from_secs(3))], answer("A: b\r\n\r\nfine")].into_iter().flatten().collect());
    let root = Root::with_index();
    let limits = "max_connections = 2\nqueue = 2\nkeep = 0";
    let server = Server::run(&Configuration::of(&root.path()).backend(&backend.table(limits)).rule("path = \"/b/*\"\nbackend = \"fake\""));
    let mut clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /b/x HTTP/1.1\r\nHost: a\r\n\r\n");
            std::thread::sleep(Duration::from_millis(10));
            client
        })
        .collect();
    server.get("/").must_be(&[200]);
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.response("GET").status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 4, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 4, "{statuses:?}");
}

#[test]
fn a_connection_is_kept_and_one_that_was_closed_meanwhile_costs_no_request() {
    let (backend, _root, server) = echo("keep_idle = \"10s\"");
    let mut client = server.connect();
    for _ in 0..5 {
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response("GET").must_be(&[200]);
    }
    assert_eq!(*backend.connections.lock().unwrap(), 1);
    let closing = FakeBackend::new(|_| answer("A: b\r\n\r\nfine").into_iter().chain([Step::Close]).collect());
    let root = Root::new();
    let server = Server::run(&Configuration::of(&root.path()).backend(&closing.table("keep_idle = \"10s\"")).rule("backend = \"fake\""));
    let mut client = server.connect();
    for _ in 0..5 {
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response("GET").must_be(&[200]);
    }
}

#[test]
fn b20_b22_nobody_there_is_503_and_somebody_new_is_found() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let root = Root::new();
    let server = Server::run(&Configuration::of(&root.path()).backend(&no_backend(directory.path())).rule("backend = \"fake\""));
    let response = server.get("/x").must_be(&[503]);
    assert!(response.field("retry-after").is_some());
    let (backend, _root, server) = echo("");
    server.get("/x").must_be(&[200]);
    std::fs::remove_file(backend.path()).unwrap();
    std::thread::sleep(Duration::from_millis(1_100));
    server.get("/x").must_be(&[503]);
    let listener = std::os::unix::net::UnixListener::bind(backend.path()).unwrap();
    std::fs::set_permissions(backend.path(), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    // Each connection ends at once, also the one on which the request is sent once more.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    server.get("/x").must_be(&[502]);
}

/// Neither the path of a request nor anything else of it chooses a socket.
#[test]
fn c17_nothing_of_a_request_is_put_into_an_address() {
    let root = Root::new();
    for variable in ["{user}", "{1}", "{path}", "{header.X-Pool}"] {
        let table = format!("\n[backend.fake]\ntype = \"fastcgi\"\naddress = [\"unix:/run/php/{variable}.sock\"]\n");
        let launch = Launch::new();
        let configuration = Configuration::of(&root.path()).backend(&table).rule("path = \"/*/*\"\nbackend = \"fake\"");
        let path = launch.write_configuration(&configuration.text(launch.home()));
        let told = launch.to_end(&["check".into(), "-c".into(), path.into()]).must_fail().stderr;
        assert!(told.contains(&format!("{variable}.sock\" holds a variable")), "{told}");
    }
}
