//! `anchorite check`: what a start would trip over is found before, and nothing is written.

use crate::support::{Configuration, Ended, Launch, Root, Server, free_port, is_root, needs_root};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

fn check(launch: &Launch, configuration: &Configuration) -> Ended {
    let file = launch.write_configuration(&configuration.text(launch.home()));
    launch.to_end(&["check".into(), "-c".into(), file.into()])
}

fn user() -> &'static str {
    if is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" }
}

#[test]
fn a_good_file_passes_and_nothing_is_written() {
    let root = Root::with_index();
    let launch = Launch::new();
    let ended = check(&launch, &Configuration::of(&root.path())).must_be_done();
    assert!(ended.stdout.contains("good"), "{ended:?}");
    let left: Vec<_> = fs::read_dir(launch.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["anchorite.toml"]);
}

#[test]
fn a_root_that_the_worker_cannot_enter_is_found() {
    needs_root!();
    let root = Root::with_index();
    root.directory("closed");
    root.mode("closed", 0o700);
    root.directory("above/inner");
    root.mode("above", 0o700);
    for name in ["closed", "above/inner"] {
        let missing = "name = [\"c\"]\n[[site.rule]]\npath = \"/x/*\"\nalias = \"/nonexistent/x\"";
        let text = Configuration::of(&root.at("missing")).site(&root.at(name), "name = [\"b\"]").site(&root.path(), missing);
        let ended = check(&Launch::new(), &text).must_fail();
        assert!(ended.stderr.contains(root.at(name).to_str().unwrap()), "{name}: {ended:?}");
        let placed =
            [format!("root = {:?}", root.at("missing")), "alias = \"/nonexistent/x\"".into(), format!("root = {:?}", root.at(name))];
        for line in &placed {
            assert_eq!(ended.stderr.matches(line).count(), 1, "{line}: {ended:?}");
        }
    }
}

#[test]
fn logs_and_sockets_in_directories_of_the_worker_are_found() {
    needs_root!();
    let root = Root::with_index();
    let launch = Launch::new();
    let theirs = launch.home().join("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(65534), Some(65534)).unwrap();
    let open = launch.home().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for directory in [&theirs, &open] {
        let path = directory.join("x");
        let log = format!("access = {:?}\nerror = {:?}", path, launch.home().join("error.log"));
        let configurations = [
            Configuration::of(&root.path()).log(&log),
            Configuration::new().site(&root.path(), &format!("name = [\"\"]\naccess_log = {path:?}")),
            Configuration::of(&root.path()).server_also(&format!("control_socket = {path:?}")),
            Configuration::of(&root.path()).server_also(&format!("pid_file = {path:?}")),
        ];
        for configuration in configurations {
            let ended = check(&launch, &configuration).must_fail();
            assert!(
                ended.stderr.contains(path.to_str().unwrap()),
                "{configuration:?}: {ended:?}",
                configuration = configuration.text(launch.home())
            );
            let started = launch.run_to_end(&configuration.text(launch.home())).must_fail();
            assert!(!path.exists(), "{started:?}");
        }
    }
}

#[test]
fn an_address_in_use_is_found_and_the_services_own_passes() {
    let root = Root::with_index();
    let port = free_port();
    let socket = root.base().join("own.sock");
    let listen = format!("{}listen = [\"127.0.0.1:{port}\", \"unix:{}\"]", user(), socket.display());
    let server = Server::run(&Configuration::of(&root.path()).server(&listen));
    server.order(&["check"]).must_be_done();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let also = format!("{}listen = [\"127.0.0.1:{port}\", \"{address}\"]", user());
    server.configure(&Configuration::of(&root.path()).server(&also));
    let ended = server.order(&["check"]).must_fail();
    assert!(ended.stderr.contains(&address) && !ended.stderr.contains(&format!("127.0.0.1:{port}:")), "{ended:?}");
    for path in ["/nonexistent/x.sock", root.at("index.html").to_str().unwrap()] {
        let ended = check(&Launch::new(), &Configuration::of(&root.path()).server(&format!("{}listen = [\"unix:{path}\"]", user())));
        assert!(ended.must_fail().stderr.contains(path));
    }
    // Another service's address is in use.
    let other = Launch::new();
    let ended = check(
        &other,
        &Configuration::of(&root.path()).server(&format!("{}listen = [\"127.0.0.1:{port}\", \"unix:{}\"]", user(), socket.display())),
    )
    .must_fail();
    assert!(ended.stderr.contains(&format!("127.0.0.1:{port}")) && ended.stderr.contains("own.sock"), "{ended:?}");
    // Whatever check tried, the service still answers at both.
    server.must_be_well(&server.workers(), "after checks");
    std::os::unix::net::UnixStream::connect(&socket).unwrap();
}

#[test]
fn what_will_surprise_is_a_warning() {
    let root = Root::with_index();
    root.file("404.html", "page");
    root.file("closed.html", "page");
    root.mode("closed.html", 0o600);
    root.file("app/.htaccess", "Deny from all\n");
    // 026
    root.file(".htaccess", "NoSuchDirective\n");
    let pages = "name = [\"\"]\nerror_pages = { 404 = \"/404.html\", 403 = \"/none.html\", 500 = \"/closed.html\" }";
    let ended = check(&Launch::new(), &Configuration::new().site(&root.path(), pages)).must_be_done();
    let warnings: Vec<_> = ended.stderr.lines().collect();
    assert!(warnings.iter().all(|line| line.contains("anchorite.toml: warning: ")), "{warnings:#?}");
    let mut told = vec!["app/.htaccess", "site/.htaccess", "/none.html"];
    if is_root() {
        told.push("/closed.html");
    }
    assert_eq!(warnings.len(), told.len(), "{warnings:#?}");
    assert!(told.iter().all(|told| ended.stderr.contains(told)), "{told:?}: {warnings:#?}");
}

#[test]
fn every_fault_of_the_machine_is_told_in_one_pass() {
    // 154
    let root = Root::with_index();
    let launch = Launch::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = Configuration::of(&root.at("missing-one"))
        .server(&format!("{}listen = [\"{address}\"]", user()))
        .site(&root.at("missing-two"), "name = [\"b\"]")
        .log("access = \"/nonexistent/access.log\"\nerror = \"/nonexistent/error.log\"");
    let ended = check(&launch, &text).must_fail();
    for told in [address.as_str(), "missing-one", "missing-two", "/nonexistent/access.log", "/nonexistent/error.log"] {
        assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
    }
}

#[test]
fn what_is_there_and_is_not_ours_is_found() {
    let root = Root::with_index();
    let launch = Launch::new();
    let precious = launch.home().join("precious");
    std::fs::write(&precious, "content").unwrap();
    let empty = Configuration::of(&root.path()).text(launch.home());
    for (key, told) in [("pid_file", "is there, and holds no process id"), ("control_socket", "is there, and is no socket")] {
        let of_service = |line: &str| line.starts_with(&format!("{key} =")).then(|| format!("{key} = {precious:?}"));
        let text: Vec<String> = empty.lines().map(|line| of_service(line).unwrap_or_else(|| line.to_owned())).collect();
        let file = launch.write_configuration(&text.join("\n"));
        for command in ["check", "run"] {
            let ended = launch.to_end(&[command.into(), "-c".into(), file.clone().into()]).must_fail();
            assert!(ended.stderr.contains(told) || command == "run" && key == "control_socket", "{command}: {}", ended.stderr);
        }
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "content");
    }
}

#[test]
fn what_the_machine_lacks_is_told_with_its_place_in_the_file() {
    let root = Root::with_index();
    let launch = Launch::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let user = if is_root() { "user = \"no-such-user\"\n" } else { "" };
    let text = Configuration::of(&root.at("missing"))
        .server(&format!("{user}listen = [\"127.0.0.1:0\", \"{address}\"]"))
        .site(&root.path(), "name = [\"b\"]\n[[site.rule]]\npath = \"/x/*\"\nalias = \"/nonexistent/x\"")
        .log("access = \"/nonexistent/access.log\"\nerror = \"error.log\"")
        .text(launch.home());
    // The same is told where the text has faults of its own.
    for text in [text.clone(), format!("{text}\nmethdo = \"GET\"\n")] {
        tells_what_is_missing(&launch, &root, &text, &address);
    }
}

fn tells_what_is_missing(launch: &Launch, root: &Root, text: &str, address: &str) {
    let file = launch.write_configuration(text);
    let ended = launch.to_end(&["check".into(), "-c".into(), file.clone().into()]).must_fail();
    assert_eq!(text.contains("methdo"), ended.stderr.contains("did you mean \"method\""), "{}", ended.stderr);
    let missing = format!("{:?}", root.at("missing"));
    let listened = format!("{address:?}");
    let users: &[&str] = if is_root() { &["\"no-such-user\""] } else { &[] };
    for written in [missing.as_str(), "\"/nonexistent/x\"", "\"/nonexistent/access.log\"", listened.as_str()].iter().chain(users) {
        let (line, found) = (1..).zip(text.lines()).find(|(_, line)| line.contains(written)).unwrap();
        let column = found.find(written).unwrap() + 1;
        let place = format!("{}:{line}:{column}: ", file.display());
        let carets = format!("\n  {} | {}{}\n", " ".repeat(line.to_string().len()), " ".repeat(column - 1), "^".repeat(written.len()));
        assert!(ended.stderr.contains(&place) && format!("{}\n", ended.stderr).contains(&carets), "{place}: {}", ended.stderr);
    }
}

#[test]
fn a_dump_is_a_configuration_with_the_same_dump() {
    let root = Root::with_index();
    root.directory("../icons");
    let base = root.base().display();
    let site = format!(
        "name = [\"\", \"*.example.org\"]\nerror_pages = {{ 404 = \"/404.html\" }}\nhidden = [\".*\", \"a\\\"b\"]\ncharset = \"\"\n\
         [[site.rule]]\npath = [\"/icons/*\"]\nalias = \"{base}/icons\"\nexpires = \"1h\"\n\
         [[site.rule]]\nregex = \"^/([a-z]+)\\\\.x$\"\nredirect = \"/{{1}}?{{query}}\"\nstatus = 308\n\
         [[site.rule]]\nclient = [\"10.0.0.0/8\", \"2001:db8::/32\"]\nexists = \"none\"\nmethod = [\"GET\"]\nhost = [\"*.example.org\"]\n\
         request_header = {{ X-A = \"b*\" }}\nheader = {{ X-B = \"{{path}} {{{{x}}}}\" }}\nallow = [\"::1\"]\ndeny = [\"10.1.0.0/16\"]\nbody = \"10MB\"\n\
         try = [\"{{path}}\", \"/x?y={{path}}\"]\n\
         [[site.rule]]\npath = \"/m\"\nrespond = \"metrics\"\n[[site.rule]]\npath = \"/t\"\nrespond = 418\nrespond_body = \"line\\n\\\"two\\\"\"\n"
    );
    let launch = Launch::new();
    let configuration = Configuration::new().limits("[mime]\n\"application/x-own\" = [\"own\"]").site(&root.path(), &site);
    let site = configuration.text(launch.home()).replace("{{x}}", "x");
    let file = launch.write_configuration(&site);
    let dump = |file: &std::path::Path| launch.to_end(&["check".into(), "--dump".into(), "-c".into(), file.into()]).must_be_done().stdout;
    let first = dump(&file);
    assert!(first.contains("keepalive_timeout") && first.contains("metrics"), "{first}");
    let again = launch.home().join("again.toml");
    fs::write(&again, &first).unwrap();
    assert_eq!(dump(&again), first);
    launch.to_end(&["check".into(), "-c".into(), again.into()]).must_be_done();
}

/// Two thousand sites, each with a root, a redirect and a header.
fn many(root: &Root, count: usize, text: &str) -> Configuration {
    let mut sites = String::from("name = [\"\"]\n");
    for number in 0..count {
        let place = root.file(format!("many/{number}/index.html"), format!("{number} {text}"));
        let _ = write!(
            sites,
            "[[site]]\nname = [\"s{number}.test\", \"www.s{number}.test\"]\nroot = {:?}\n\
             [[site.rule]]\npath = \"/old/*\"\nredirect = \"/new/{{1}}\"\nstatus = 301\n[[site.rule]]\nheader = {{ X-Site = \"{number}\" }}\n",
            place.parent().unwrap()
        );
    }
    Configuration::new().site(&root.path(), &sites)
}

#[test]
fn two_thousand_sites_are_checked_and_reloaded_soon() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    server.configure(&many(&root, 2000, "first"));
    let start = Instant::now();
    server.order(&["check"]).must_be_done();
    let checked = start.elapsed();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (ended, reloaded) = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                server.get("/").must_be(&[200]);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let start = Instant::now();
        let outcome = (server.order(&["reload"]), start.elapsed());
        done.store(true, Ordering::Relaxed);
        outcome
    });
    ended.must_be_done();
    assert!(answered.load(Ordering::Relaxed) > 0);
    println!("2,000 sites: check {checked:?}, reload {reloaded:?}");
    let mut client = server.connect();
    for number in 0..2000 {
        client.send(format!("GET / HTTP/1.1\r\nHost: s{number}.test\r\n\r\n"));
        let response = client.response("GET").must_be(&[200]);
        assert_eq!((response.text(), response.field("X-Site")), (format!("{number} first"), Some(number.to_string().as_str())));
    }
    // The figures are 1 s and 3 s on a quiet machine with an optimised build.
    assert!(checked.as_secs() < 10 && reloaded.as_secs() < 30, "check {checked:?}, reload {reloaded:?}");
}

#[test]
fn faults_that_nobody_reads_are_no_crash() {
    // The reader is gone before the first fault is told.
    let launch = Launch::new().shell("(sleep 0.3; exec \"$@\" 2>&1 >/dev/null) | true; exit ${PIPESTATUS[0]}");
    let file = launch.write_configuration("[server]\nlisen = 1\n");
    for command in ["check", "run", "explain"] {
        let target = (command == "explain").then_some("/");
        let words = [Some(command), target, Some("-c"), file.to_str()].into_iter().flatten();
        let ended = launch.to_end(&words.map(Into::into).collect::<Vec<_>>());
        assert_eq!(ended.code, Some(1), "{command}: {ended:?}");
    }
}
