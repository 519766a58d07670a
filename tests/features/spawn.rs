//! Programs of backends that the service starts itself: php-cgi as lighttpd's `bin-path` and Cherokee's interpreter start it, and others.

use crate::support::{Configuration, PATIENCE, Root, Server, is_alive, needs_root, running, signal, status_field, wait_until};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A directory for the socket, and a configuration whose backend starts this command.
struct Setting {
    root: Root,
    run: tempfile::TempDir,
}

impl Setting {
    fn new() -> Setting {
        Setting { root: Root::with_index(), run: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.run.path().join("program.sock")
    }

    fn configuration(&self, spawn: &str) -> Configuration {
        let backend = format!(
            "name = [\"\"]\nindex = [\"index.html\", \"index.php\"]\n[[site.rule]]\npath = \"*.php\"\nbackend = \"app\"\n[backend.app]\ntype = \"fastcgi\"\naddress = [\"unix:{}\"]\n[backend.app.spawn]\nuser = \"www-data\"\n{spawn}",
            self.socket().display()
        );
        Configuration::new().site(&self.root.path(), &backend)
    }

    /// The same for a shell script.
    fn script(&self, script: &str, rest: &str) -> Configuration {
        self.configuration(&format!("command = [\"/bin/sh\", \"-c\", {script:?}]\n{rest}"))
    }
}

fn error_log(server: &Server) -> String {
    fs::read_to_string(server.home().join("error.log")).unwrap_or_default()
}

fn spawn_of(server: &Server) -> Option<i32> {
    server.processes().into_iter().find(|process| process.title == "anchorite: spawn").map(|process| process.pid)
}

#[track_caller]
fn wait(what: &str, condition: impl FnMut() -> bool) {
    assert!(wait_until(PATIENCE, condition).is_some(), "{what}");
}

/// Asks a FastCGI program for a script, as a backend's client would; its whole answer.
fn ask(socket: &Path, script: &Path) -> Option<String> {
    let pair = |name: &str, value: &str| {
        [&[u8::try_from(name.len()).unwrap(), u8::try_from(value.len()).unwrap()], name.as_bytes(), value.as_bytes()].concat()
    };
    let record = |kind: u8, content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
    };
    let script = script.to_str().unwrap();
    let params = [pair("SCRIPT_FILENAME", script), pair("REQUEST_METHOD", "GET"), pair("REDIRECT_STATUS", "200")].concat();
    let request = [record(1, &[0, 1, 0, 0, 0, 0, 0, 0]), record(4, &params), record(4, b""), record(5, b"")].concat();
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(&request).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn php_cgi_is_started_with_its_children_and_answers() {
    needs_root!();
    let setting = Setting::new();
    let script = setting.root.path().join("a.php");
    fs::write(
        &script,
        "<?php echo 'user ', posix_getuid(), ' children ', getenv('PHP_FCGI_CHILDREN'), ' home ', var_export(getenv('HOME'), true);",
    )
    .unwrap();
    let env = "command = [\"/usr/bin/php-cgi\"]\nenv = { PHP_FCGI_CHILDREN = \"3\", PHP_FCGI_MAX_REQUESTS = \"5\" }";
    let server = Server::run(&setting.configuration(env));
    let mut answer = None;
    wait("php-cgi answers", || {
        answer = ask(&setting.socket(), &script);
        answer.is_some()
    });
    let answer = answer.unwrap();
    assert!(answer.contains("user 33 children 3 home false"), "{answer}");
    // Its children end after so many requests, and it makes new ones.
    for _ in 0..40 {
        assert!(ask(&setting.socket(), &script).is_some_and(|answer| answer.contains("user 33")));
    }
    assert!(!error_log(&server).contains("ended:"), "{}", error_log(&server));
}

#[test]
fn a_page_of_a_started_program_is_served_and_while_there_is_none_503() {
    needs_root!();
    let setting = Setting::new();
    setting.root.file(
        "a.php",
        "<?php header('X-Of: php'); echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'] ?? '', '|', $_SERVER['QUERY_STRING'];",
    );
    let server = Server::run(&setting.configuration("command = [\"/usr/bin/php-cgi\"]\nenv = { PHP_FCGI_CHILDREN = \"2\" }"));
    assert_eq!(server.get("/a.php").status, 200, "the first request");
    let response = server.get("/a.php/info/x?q=1");
    assert_eq!((response.status, response.field("X-Of")), (200, Some("php")));
    assert_eq!(String::from_utf8_lossy(&response.body), "/a.php|/info/x|q=1");
    // A program that cannot be started: the truth, and the rest is served.
    server.configure(&setting.configuration("command = [\"/nonexistent/php-cgi\"]"));
    server.order(&["reload"]).must_be_done();
    wait("it is told", || error_log(&server).contains("\"/nonexistent/php-cgi\" cannot be started"));
    assert_eq!(server.get("/").status, 200);
}

/// Whoever starts the service finds it serving, also where the directory of the socket may not be shown to anybody because the service's own
/// socket is in it, as in /run/anchorite; and no reload is needed for that.
#[test]
fn the_first_request_finds_its_program() {
    needs_root!();
    for beside_the_control_socket in [false, true] {
        let setting = Setting::new();
        setting.root.file("a.php", "<?php echo 'page';");
        let php = setting.configuration("command = [\"/usr/bin/php-cgi\"]\nenv = { PHP_FCGI_CHILDREN = \"2\" }");
        let php = if beside_the_control_socket {
            php.server_also(&format!("control_socket = {:?}", setting.run.path().join("control.sock")))
        } else {
            php
        };
        let server = Server::run(&php);
        assert_eq!(server.get("/a.php").must_be(&[200]).text(), "page");
        std::thread::sleep(std::time::Duration::from_secs(3));
        assert!(!error_log(&server).contains("was replaced"), "{}", error_log(&server));
        assert_eq!(server.get("/a.php").must_be(&[200]).text(), "page");
    }
}

/// With a reload, too, where the directory of the socket is shown: it is waited for while `spawn` makes it.
#[test]
fn the_first_request_after_a_reload_finds_its_program() {
    needs_root!();
    let setting = Setting::new();
    setting.root.file("a.php", "<?php echo 'page';");
    let server = Server::run(&Configuration::of(&setting.root.path()));
    server.configure(&setting.configuration("command = [\"/usr/bin/php-cgi\"]\nenv = { PHP_FCGI_CHILDREN = \"2\" }"));
    server.order(&["reload"]).must_be_done();
    assert_eq!(server.get("/a.php").must_be(&[200]).text(), "page");
}

#[test]
fn nothing_is_left_when_the_parent_is_killed_or_stops() {
    needs_root!();
    for end in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGQUIT] {
        let setting = Setting::new();
        let script = "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; sleep 81' & sleep 82; sleep 83";
        let mut server = Server::run(&setting.script(script, ""));
        wait("both run", || !running("sleep\x0081").is_empty() && !running("sleep\x0082").is_empty());
        server.end(end);
        wait("nothing is left", || running("sleep\x0081").is_empty() && running("sleep\x0082").is_empty());
        assert_eq!(setting.socket().exists(), end == Signal::SIGKILL, "{end}");
    }
}

#[test]
fn a_reload_replaces_what_has_changed_and_keeps_the_rest() {
    needs_root!();
    let setting = Setting::new();
    let server = Server::run(&setting.script("exec sleep 84", ""));
    wait("it runs", || running("sleep\x0084").len() == 1);
    let (pid, spawn) = (running("sleep\x0084"), spawn_of(&server));
    server.order(&["reload"]).must_be_done();
    wait("it is taken over", || server.processes().iter().all(|process| !process.title.ends_with("generation 1")));
    assert_eq!((running("sleep\x0084"), spawn_of(&server)), (pid.clone(), spawn));
    server.configure(&setting.script("exec sleep 84", "processes = 3"));
    server.order(&["reload"]).must_be_done();
    wait("two more run", || running("sleep\x0084").len() == 3);
    assert!(running("sleep\x0084").contains(&pid[0]));
    server.configure(&setting.script("exec sleep 85", ""));
    server.order(&["reload"]).must_be_done();
    wait("others run", || running("sleep\x0084").is_empty() && running("sleep\x0085").len() == 1);
    assert_eq!(spawn_of(&server), spawn);
    // None is to run any more.
    server.configure(&Configuration::of(&setting.root.path()));
    server.order(&["reload"]).must_be_done();
    wait("none runs", || running("sleep\x0085").is_empty() && !setting.socket().exists());
    // And from nothing to one.
    server.configure(&setting.script("exec sleep 86", ""));
    server.order(&["reload"]).must_be_done();
    wait("one runs", || running("sleep\x0086").len() == 1);
}

#[test]
fn without_programs_there_is_no_spawn_and_with_the_first_there_is_one() {
    needs_root!();
    let setting = Setting::new();
    let server = Server::run(&Configuration::of(&setting.root.path()));
    assert_eq!(spawn_of(&server), None);
    server.configure(&setting.script("exec sleep 87", ""));
    server.order(&["reload"]).must_be_done();
    wait("it is there", || spawn_of(&server).is_some() && running("sleep\x0087").len() == 1);
}

#[test]
fn a_dying_program_says_why_in_the_error_log() {
    needs_root!();
    // Id of reports: 004.
    let setting = Setting::new();
    let server = Server::run(&setting.script("echo 'cannot open shared object file' >&2; exit 127", ""));
    wait("it is told", || error_log(&server).contains("ended: exit status 127; a new one starts in 100 ms"));
    let log = error_log(&server);
    assert!(log.contains("] spawn: backend \"app\"") && log.contains("cannot open shared object file"), "{log}");
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn spawn_is_replaced_when_it_dies_and_its_programs_with_it() {
    needs_root!();
    let setting = Setting::new();
    let server = Server::run(&setting.script("echo it runs >&2; exec sleep 88", ""));
    wait("it runs", || running("sleep\x0088").len() == 1);
    let (spawn, program) = (spawn_of(&server).unwrap(), running("sleep\x0088")[0]);
    signal(spawn, Signal::SIGKILL);
    wait("another runs", || running("sleep\x0088").first().is_some_and(|pid| *pid != program));
    assert!(!is_alive(program) && spawn_of(&server).is_some_and(|pid| pid != spawn));
    wait("its lines are told", || error_log(&server).matches("it runs").count() >= 2);
}

#[test]
fn log_is_replaced_and_programs_are_still_heard() {
    needs_root!();
    let setting = Setting::new();
    let server = Server::run(&setting.script("while sleep 0.2; do echo tick >&2; done", ""));
    wait("it is heard", || error_log(&server).contains("tick"));
    signal(server.log_process().unwrap(), Signal::SIGKILL);
    wait("it is heard again", || {
        error_log(&server).split("anchorite").last().is_some_and(|rest| rest.contains("tick")) && error_log(&server).contains("log (pid")
    });
    let count = error_log(&server).matches("tick").count();
    wait("it goes on", || error_log(&server).matches("tick").count() > count + 2);
}

#[test]
fn audit_finds_spawn_as_its_policy_says() {
    needs_root!();
    let setting = Setting::new();
    let server = Server::run(&setting.script("exec sleep 89", ""));
    wait("it runs", || running("sleep\x0089").len() == 1);
    let spawn = spawn_of(&server).unwrap();
    let row = server.audited(spawn);
    assert_eq!((row["role"].as_str(), row["faults"].as_array().map(Vec::len)), (Some("spawn"), Some(0)), "{row}");
    let program = running("sleep\x0089")[0];
    for field in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_eq!(status_field(program, field), "0000000000000000", "{field}");
    }
    assert!(status_field(program, "Uid").starts_with("33\t33") && status_field(program, "Groups") == "33");
}

#[test]
fn root_and_the_user_of_the_service_are_refused() {
    needs_root!();
    let setting = Setting::new();
    for (user, why) in [
        ("root", "\"root\" as \"user\""),
        ("nobody", "program of backend \"app\": it may not run as root, nor as the user of the service"),
        ("unknown-user", "program of backend \"app\": user \"unknown-user\" does not exist"),
    ] {
        let launch = crate::support::Launch::new();
        let text = setting.script("exec sleep 90", "").text(launch.home()).replace("user = \"www-data\"", &format!("user = {user:?}"));
        let path = launch.write_configuration(&text);
        let told = launch.to_end(&["run".into(), "-c".into(), path.into()]).must_fail().stderr;
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn what_a_program_is_doing_is_finished_when_another_takes_its_place() {
    needs_root!();
    let setting = Setting::new();
    let script = setting.root.path().join("slow.php");
    fs::write(&script, "<?php sleep(1); echo 'finished by ', getenv('NAME');").unwrap();
    let php = |name: &str| {
        setting.configuration(&format!("command = [\"/usr/bin/php-cgi\"]\nenv = {{ PHP_FCGI_CHILDREN = \"2\", NAME = {name:?} }}"))
    };
    let server = Server::run(&php("the first"));
    wait("php-cgi listens", || UnixStream::connect(setting.socket()).is_ok());
    let (socket, path) = (setting.socket(), script.clone());
    let asked = std::thread::spawn(move || ask(&socket, &path));
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.configure(&php("the second"));
    server.order(&["reload"]).must_be_done();
    let answer = asked.join().unwrap().unwrap();
    assert!(answer.contains("finished by the first"), "{answer}");
    // `spawn` is told while the reload is answered.
    wait("the second answers", || ask(&setting.socket(), &script).is_some_and(|answer| answer.contains("finished by the second")));
}
