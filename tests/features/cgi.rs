//! CGI programs, one for each request, run as their owners by the rules of suexec.

use crate::support::{Configuration, Launch, PATIENCE, Root, Server, needs_root, pattern, request, running, wait_until};
use nix::sys::signal::Signal;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// An account that every system has, above `min_uid`.
const NOBODY: u32 = 65_534;
const WWW_DATA: u32 = 33;
/// The user of the service, who is none of these.
const SERVICE: u32 = 1;
/// A user who is no account's.
const ORDINARY: u32 = 4242;

/// Of a service that runs as that user.
fn configuration() -> Configuration {
    Configuration::new().server("user = \"daemon\"\nlisten = [\"127.0.0.1:0\"]")
}

/// A site whose `cgi-bin` holds programs of `nobody`.
struct Setting {
    root: Root,
}

impl Setting {
    fn new() -> Setting {
        let setting = Setting { root: Root::with_index() };
        setting.root.directory("cgi-bin");
        setting
    }

    /// A program in `cgi-bin`.
    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.file(format!("cgi-bin/{name}"), text);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        path
    }

    fn configuration(&self, cgi: &str) -> Configuration {
        configuration()
            .limits("body = \"64MiB\"\nconnections_per_client = 4000")
            .site(&self.root.path(), &format!("name = [\"\"]\n[[site.rule]]\npath = \"/cgi-bin/*\"\ncgi = true\n[cgi]\n{cgi}\n"))
    }

    fn server(&self, cgi: &str) -> Server {
        Server::run(&self.configuration(cgi))
    }
}

fn error_log(server: &Server) -> String {
    fs::read_to_string(server.home().join("error.log")).unwrap_or_default()
}

#[track_caller]
fn wait(what: &str, condition: impl FnMut() -> bool) {
    assert!(wait_until(PATIENCE, condition).is_some(), "{what}");
}

#[track_caller]
fn wait_for_log(server: &Server, text: &str) {
    assert!(wait_until(PATIENCE, || error_log(server).contains(text)).is_some(), "no \"{text}\" in {}", error_log(server));
}

const ENVIRONMENT: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv | sort\necho \"args $#\"\necho \"ids $(id -u) $(id -g) $(id -G)\"\npwd\n";

#[test]
fn a_shell_script_answers_as_its_owner_in_its_directory_with_the_variables_of_cgi() {
    needs_root!();
    let setting = Setting::new();
    setting.program("env.sh", ENVIRONMENT);
    let server = setting.server("");
    let response =
        server.ask("GET", "/cgi-bin/env.sh/extra/path%20info?-s&a=%20b", &["X-Some-Thing: one", "X-Some-Thing: two", "Cookie: a=b"]);
    assert_eq!((response.status, response.field("Content-Type")), (200, Some("text/plain")), "{}", error_log(&server));
    let text = response.text();
    let has = |line: &str| text.lines().any(|known| known == line);
    let file = setting.root.path().join("cgi-bin/env.sh");
    for line in [
        "GATEWAY_INTERFACE=CGI/1.1",
        "SCRIPT_NAME=/cgi-bin/env.sh",
        "PATH_INFO=/extra/path info",
        "QUERY_STRING=-s&a=%20b",
        "REQUEST_METHOD=GET",
        "REQUEST_URI=/cgi-bin/env.sh/extra/path%20info?-s&a=%20b",
        "REMOTE_ADDR=127.0.0.1",
        "SERVER_PROTOCOL=HTTP/1.1",
        "HTTP_X_SOME_THING=one, two",
        "HTTP_COOKIE=a=b",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        &format!("SCRIPT_FILENAME={}", file.display()),
        &format!("DOCUMENT_ROOT={}", setting.root.path().display()),
        "args 0",
        "ids 65534 65534 65534",
        &file.parent().unwrap().display().to_string(),
    ] {
        assert!(has(line), "no {line}\n{text}");
    }
    assert!(!text.contains("HOME=") && !text.contains("NOTIFY_SOCKET"), "{text}");
    // Nothing of the server's but the three standard descriptors.
    setting.program("fds.sh", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nls /proc/self/fd\nreadlink /proc/self/fd/0\n");
    let text = server.get("/cgi-bin/fds.sh").text();
    assert!(text.starts_with("0\n1\n2\n3\nsocket:"), "{text}");
}

#[test]
fn bodies_go_through_whole_and_their_end_is_seen() {
    needs_root!();
    let setting = Setting::new();
    setting.program("sum.sh", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho $CONTENT_LENGTH\nsha256sum | cut -d' ' -f1\n");
    setting.program("echo.py", "#!/usr/bin/python3\nimport sys, os\nprint('Content-Type: application/octet-stream\\n', flush=True)\nleft = int(os.environ['CONTENT_LENGTH'])\nwhile left:\n    part = sys.stdin.buffer.read1(min(left, 65536))\n    left -= len(part)\n    sys.stdout.buffer.write(part)\n");
    // This client takes nothing of the answer before all is sent.
    let server = setting.server("buffer = \"16MiB\"");
    let body = pattern(10 << 20);
    let post = |path: &str| {
        let mut client = server.connect();
        client.read_timeout(PATIENCE);
        client.send([format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat());
        client.response("POST")
    };
    let mut sum =
        std::process::Command::new("sha256sum").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    sum.stdin.take().unwrap().write_all(&body).unwrap();
    let expected = String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap();
    let response = post("/cgi-bin/sum.sh");
    assert_eq!(response.text(), format!("{}\n{}\n", body.len(), &expected[..64]), "{}", error_log(&server));
    let response = post("/cgi-bin/echo.py");
    assert!(response.status == 200 && response.body == body, "{} bytes of {}", response.body.len(), body.len());
}

/// A body whose length nobody knows before its end: the program is told it, and gets all of it.
#[test]
fn a_perl_script_gets_bodies_of_both_framings() {
    needs_root!();
    let setting = Setting::new();
    setting.program(
        "body.pl",
        "#!/usr/bin/perl -T\nuse strict; use warnings;\nbinmode STDIN;\nread(STDIN, my $all, $ENV{CONTENT_LENGTH});\n\
         my $more = read(STDIN, my $rest, 1);\nprint \"Content-Type: text/plain\\r\\n\\r\\n\", length $all, ' ', unpack('%32C*', $all), \" $more\";\n",
    );
    let server = setting.server("");
    let body = pattern(100_000);
    let sum: u32 = body.iter().map(|byte| u32::from(*byte)).sum();
    let mut client = server.connect();
    client.send(request("POST", "/cgi-bin/body.pl", &["Content-Length: 100000"])).send(&body);
    assert_eq!(client.response("POST").must_be(&[200]).text(), format!("100000 {sum} 0"), "{}", error_log(&server));
    client.send(request("POST", "/cgi-bin/body.pl", &["Transfer-Encoding: chunked"]));
    for part in body.chunks(10_000) {
        client.send([b"2710\r\n", part, b"\r\n"].concat());
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response("POST").must_be(&[200]).text(), format!("100000 {sum} 0"), "{}", error_log(&server));
}

/// Started by an ordinary user the service can run programs as nobody but that user, and runs those alone that are that user's.
#[test]
fn an_ordinary_users_service_runs_programs_of_that_user_alone() {
    needs_root!();
    let setting = Setting::new();
    let own = setting.program("own.sh", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nid -u\n");
    setting.program("other.sh", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nid -u\n");
    // Within its namespace root is nobody, and so is whose directory it would be.
    for path in [&own, own.parent().unwrap()] {
        chown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
    }
    let configuration = setting.configuration("").server("listen = [\"127.0.0.1:0\"]");
    let server = Launch::new().user(ORDINARY).run(&configuration);
    assert_eq!(server.get("/cgi-bin/own.sh").must_be(&[200]).text(), format!("{ORDINARY}\n"), "{}", error_log(&server));
    assert_eq!(server.get("/cgi-bin/other.sh").status, 403, "{}", error_log(&server));
    let spawn = server.processes().into_iter().find(|process| process.title == "anchorite: spawn").unwrap();
    let row = server.audited(spawn.pid);
    assert_eq!((row["role"].as_str(), &row["faults"]), (Some("spawn"), &serde_json::json!([])), "{row}");
    // Its end is that of the programs, too.
    setting.program("long.sh", "#!/bin/sh\nexec sleep 89\n");
    chown(setting.root.at("cgi-bin/long.sh"), Some(ORDINARY), Some(ORDINARY)).unwrap();
    let mut client = server.connect();
    client.send(request("GET", "/cgi-bin/long.sh", &[]));
    wait("it runs", || !running("sleep\x0089").is_empty());
    let mut server = server;
    server.end(Signal::SIGKILL);
    wait("nothing is left", || running("sleep\x0089").is_empty());
}

#[test]
fn heads_say_status_redirect_and_length_and_head_has_no_body() {
    needs_root!();
    let setting = Setting::new();
    for (name, head) in [
        ("status", "Status: 404 Nowhere\\nContent-Type: text/plain\\n\\nnone"),
        ("client", "Location: https://example.org/\\n\\n"),
        ("local", "Location: /index.html\\n\\n"),
        ("length", "Content-Type: text/plain\\nContent-Length: 4\\n\\nabcdefg"),
        ("short", "Content-Type: text/plain\\nContent-Length: 40\\n\\nabcd"),
        ("unmodified", "Status: 304 Not Modified\\nETag: \"a\"\\n\\nbody"),
        ("nph", "HTTP/1.1 200 OK\\nContent-Type: text/plain\\n\\nnph"),
        ("cookies", "Set-Cookie: a=1\\nSet-Cookie: b=2\\nContent-Type: text/plain\\n\\nx"),
    ] {
        setting.program(name, &format!("#!/bin/sh\nprintf '{head}'\n"));
    }
    let server = setting.server("");
    let response = server.get("/cgi-bin/status");
    assert_eq!((response.status, response.text().as_str()), (404, "none"));
    let response = server.get("/cgi-bin/client");
    assert_eq!((response.status, response.field("Location")), (302, Some("https://example.org/")));
    // B13: what the server would answer itself is asked for by the client, who may not be allowed it.
    let response = server.get("/cgi-bin/local");
    assert_eq!((response.status, response.field("Location")), (302, Some("/index.html")));
    let response = server.get("/cgi-bin/length");
    assert_eq!((response.status, response.text().as_str()), (200, "abcd"));
    let response = server.head("/cgi-bin/length");
    assert_eq!((response.status, response.field("Content-Length"), response.body.len()), (200, Some("4"), 0));
    assert!(
        server
            .connect()
            .send("GET /cgi-bin/short HTTP/1.1\r\nHost: a\r\n\r\n")
            .try_response("GET")
            .map_or(true, |response| response.status == 502)
    );
    let response = server.get("/cgi-bin/unmodified");
    assert_eq!((response.status, response.body.len()), (304, 0));
    assert_eq!(server.get("/cgi-bin/nph").status, 502);
    let response = server.get("/cgi-bin/cookies");
    assert_eq!(response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")).count(), 2);
}

#[test]
fn c01_c10_c16_what_a_client_sends_stays_a_value() {
    needs_root!();
    let setting = Setting::new();
    setting.program("env.sh", ENVIRONMENT);
    let server = setting.server("env = { TZ = \"UTC\", HTTP_X_HIDDEN = \"\" }");
    let response = server.ask(
        "GET",
        "/cgi-bin/env.sh?x",
        &[
            "Proxy: http://evil.test:8080",
            "User-Agent: () { :;}; echo shellshocked",
            "X-Hidden: a",
            "X_Forwarded_For: 1.2.3.4",
            "Path: /tmp",
            "Ld-Preload: /tmp/evil.so",
            "Script-Filename: /etc/passwd",
            "Content_Length: 7",
        ],
    );
    let text = response.text();
    assert_eq!(response.status, 200, "{}", error_log(&server));
    for wrong in
        ["HTTP_PROXY", "\nshellshocked", "HTTP_X_HIDDEN", "HTTP_X_FORWARDED_FOR", "\nLD_PRELOAD", "\nCONTENT_LENGTH", "HTTP_CONTENT_LENGTH"]
    {
        assert!(!text.contains(wrong), "{wrong} in {text}");
    }
    assert!(text.contains("HTTP_USER_AGENT=() { :;}; echo shellshocked\n") && text.contains("\nTZ=UTC\n"), "{text}");
    assert!(text.contains("\nPATH=/usr/local/bin:/usr/bin:/bin\n") && text.contains("HTTP_PATH=/tmp\n"), "{text}");
    assert!(text.contains("\nQUERY_STRING=x\n") && text.contains("\nargs 0\n"), "{text}");
}

#[test]
fn each_rule_of_suexec_refuses_with_a_line_that_says_why() {
    // Id of reports: 080.
    needs_root!();
    let setting = Setting::new();
    let ok = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran'\n";
    let mode = |path: &PathBuf, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let own = |path: &PathBuf, uid| chown(path, Some(uid), Some(uid)).unwrap();
    setting.program("fine", ok);
    own(&setting.program("of-root", ok), 0);
    own(&setting.program("of-system", ok), WWW_DATA);
    own(&setting.program("of-nobody-known", ok), 54_321);
    mode(&setting.program("group-writable", ok), 0o775);
    mode(&setting.program("world-writable", ok), 0o757);
    mode(&setting.program("setuid", ok), 0o4755);
    mode(&setting.program("setgid", ok), 0o2755);
    mode(&setting.program("not-executable", ok), 0o644);
    setting.program("private", ok);
    mode(&setting.root.path().join("cgi-bin/private"), 0o700);
    let directory = |name: &str| setting.program(&format!("{name}/prog"), ok).parent().unwrap().to_path_buf();
    mode(&directory("open"), 0o777);
    own(&directory("of-another"), WWW_DATA);
    own(&directory("of-its-owner"), NOBODY);
    symlink("fine", setting.root.path().join("cgi-bin/link")).unwrap();
    std::os::unix::fs::lchown(setting.root.path().join("cgi-bin/link"), Some(NOBODY), Some(NOBODY)).unwrap();
    let server = setting.server("");
    for (path, status, why) in [
        ("fine", 200, ""),
        ("private", 200, ""),
        ("of-its-owner/prog", 200, ""),
        ("of-root", 403, "it belongs to root, and \"user\" in [cgi] says not whom such programs run as"),
        ("of-system", 403, "its owner, user id 33, is below min_uid = 1000"),
        ("of-nobody-known", 403, "its owner, user id 54321, has no account"),
        ("group-writable", 403, "others may write to it (mode 0775)"),
        ("world-writable", 403, "others may write to it (mode 0757)"),
        ("setuid", 403, "it is setuid or setgid (mode 4755)"),
        ("setgid", 403, "it is setuid or setgid (mode 2755)"),
        ("not-executable", 403, "it is not executable (mode 0644)"),
        ("open/prog", 403, "others may write to its directory (mode 0777)"),
        ("of-another/prog", 403, "its directory belongs to user id 33"),
        ("link", 403, "a symbolic link leads to it, and none is followed"),
    ] {
        let response = server.get(format!("/cgi-bin/{path}"));
        assert_eq!(response.status, status, "{path}: {}", error_log(&server));
        if status == 200 {
            assert_eq!(response.text(), "ran", "{path}");
        } else {
            let program = setting.root.path().join("cgi-bin").join(path);
            wait_for_log(&server, &format!("client 127.0.0.1, site \"\", program \"{}\": {why}: not run", program.display()));
        }
    }
    // Once there is a user for them, programs of root run as that.
    let server = setting.server("user = \"www-data\"");
    for path in ["of-root", "of-system", "fine"] {
        assert_eq!(server.get(format!("/cgi-bin/{path}")).text(), "ran", "{path}: {}", error_log(&server));
    }
}

#[test]
fn a_program_of_the_user_of_the_service_never_runs() {
    needs_root!();
    let setting = Setting::new();
    let path = setting.program("own", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran'\n");
    chown(&path, Some(SERVICE), Some(SERVICE)).unwrap();
    let why = "it belongs to the user of the service";
    for more in ["", "\nuser = \"www-data\""] {
        let server = setting.server(&format!("min_uid = 1{more}"));
        assert_eq!(server.get("/cgi-bin/own").status, 403, "{}", error_log(&server));
        wait_for_log(&server, &format!("cgi-bin/own\": {why}: not run"));
        let told = server.order(&["explain", "http://a/cgi-bin/own"]).stdout;
        assert!(told.contains(&format!("cgi-bin/own\" is not run: {why}")), "{told}");
        let checked = server.order(&["check"]);
        assert!(checked.stderr.contains(&format!("cgi-bin/own\" will not be run: {why}")), "{} {}", checked.stdout, checked.stderr);
    }
}

#[test]
fn every_place_that_a_rule_can_name_is_one_that_is_run() {
    needs_root!();
    let setting = Setting::new();
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s' \"$SCRIPT_FILENAME\" \"$DOCUMENT_ROOT\" \"$PATH_TRANSLATED\"\n";
    setting.program("deep/a.cgi", text);
    setting.program("index.cgi", text);
    let elsewhere = Root::new();
    for name in ["users/amy/bin/a", "users/amy/bin/sub/.well-known/a", "of/web/x.cgi", "r/x.pl"] {
        let path = elsewhere.file(name, text);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let (site, other) = (setting.root.path(), elsewhere.path());
    let other = other.display();
    let rules = format!(
        "name = [\"\"]\nindex = [\"index.cgi\", \"index.html\"]\n\
         [[site.rule]]\npath = \"/old/*\"\nrewrite = \"/cgi-bin/deep/{{1}}\"\n\
         [[site.rule]]\npath = \"/home/*/*\"\nalias = \"{other}/users/{{1}}/bin\"\ncgi = true\n\
         [[site.rule]]\npath = \"/of/*.cgi\"\nroot = \"{other}\"\ncgi = true\n\
         [[site.rule]]\npath = \"/exact\"\ncgi = \"{other}/of/web/x.cgi\"\n\
         [[site.rule]]\npath = \"/mount/\"\ncgi = \"{other}/of/web/x.cgi\"\n\
         [[site.rule]]\nregex = \"^/r/.+[.]pl$\"\nroot = \"{other}\"\ncgi = true\n\
         [[site.rule]]\npath = \"*.cgi\"\ncgi = true\n"
    );
    let server = Server::run(&configuration().site(&site, &rules));
    let site = site.display();
    for (target, program, document) in [
        ("/old/a.cgi", format!("{site}/cgi-bin/deep/a.cgi"), site.to_string()),
        ("/cgi-bin/", format!("{site}/cgi-bin/index.cgi"), site.to_string()),
        ("/home/amy/a", format!("{other}/users/amy/bin/a"), site.to_string()),
        ("/of/web/x.cgi", format!("{other}/of/web/x.cgi"), other.to_string()),
        ("/r/x.pl", format!("{other}/r/x.pl"), other.to_string()),
        ("/exact", format!("{other}/of/web/x.cgi"), site.to_string()),
        ("/mount/", format!("{other}/of/web/x.cgi"), site.to_string()),
    ] {
        let text = server.get(target).text();
        assert!(text.starts_with(&format!("{program}|{document}|")), "{target}: {text} {}", error_log(&server));
    }
    let text = server.get("/cgi-bin/deep/a.cgi/x/%2e%2e%2fy").text();
    assert!(text.starts_with(&format!("{site}/cgi-bin/deep/a.cgi|{site}|")), "{text}");
    // As before: what is hidden is not there.
    assert_eq!(server.get("/home/amy/sub/.well-known/a").status, 404);
    server.must_be_well(&server.workers(), "after programs in every place");
}

#[test]
fn a_file_that_is_another_than_was_seen_is_not_run() {
    needs_root!();
    // The rename comes between the look-up and the execution: the program is behind a slow directory of users in neither case, so it is tried
    // often, and what runs must be one of the two, whole.
    let setting = Setting::new();
    setting.program("one", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\none'\n");
    setting.program("two", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\ntwo'\n");
    let (path, bin) = (setting.root.path().join("cgi-bin/now"), setting.root.path().join("cgi-bin"));
    fs::hard_link(bin.join("one"), &path).unwrap();
    let server = setting.server("");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for name in ["two", "one"].into_iter().cycle() {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                fs::hard_link(bin.join(name), bin.join("next")).unwrap();
                fs::rename(bin.join("next"), &path).unwrap();
            }
        });
        let mut changed = 0;
        for _ in 0..300 {
            let response = server.get("/cgi-bin/now");
            match response.status {
                200 => assert!(["one", "two"].contains(&response.text().as_str())),
                503 => changed += 1,
                // Where a link to the same file is renamed, both names stay: see rename(2).
                other => assert_eq!(other, 404),
            }
            if changed > 2 {
                break;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(changed > 0 && error_log(&server).contains("it is another file than a moment ago: not run"), "{}", error_log(&server));
    });
}

#[test]
fn path_translations_aliases_and_sources_follow_the_contract() {
    // Ids of reports: 035, 038.
    needs_root!();
    let setting = Setting::new();
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s|%s' \"$SCRIPT_NAME\" \"$PATH_INFO\" \"$SCRIPT_FILENAME\" \"$QUERY_STRING\"\n";
    let elsewhere = Root::new();
    for name in ["x.cgi", "sub/y"] {
        let path = elsewhere.file(name, text);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    setting.program("a.cgi", text);
    let (outside, file) = (elsewhere.path(), elsewhere.path().join("x.cgi"));
    let rules = format!(
        "name = [\"\"]\n[[site.rule]]\npath = [\"/one\", \"/one/*\"]\ncgi = \"{}\"\n[[site.rule]]\npath = \"/bin/*\"\ncgi = \"{}\"\n[[site.rule]]\npath = \"/static/*\"\nalias = \"{}\"\n\
         [[site.rule]]\npath = \"*.cgi\"\ncgi = true\n",
        file.display(),
        outside.display(),
        outside.display()
    );
    let server = Server::run(&configuration().site(&setting.root.path(), &rules));
    let root = setting.root.path();
    for (target, name, info, script) in [
        ("/one", "/one", "", file.clone()),
        ("/one/this_is_the/path_info", "/one", "/this_is_the/path_info", file.clone()),
        ("/bin/sub/y/a/b", "/bin/sub/y", "/a/b", outside.join("sub/y")),
        ("/cgi-bin/a.cgi/x", "/cgi-bin/a.cgi", "/x", root.join("cgi-bin/a.cgi")),
    ] {
        let response = server.get(format!("{target}?h=x"));
        assert_eq!(response.text(), format!("{name}|{info}|{}|h=x", script.display()), "{target}: {}", error_log(&server));
    }
    assert_eq!(server.get("/bin/nothing").status, 404);
    assert_eq!(server.get("/bin/sub").status, 404);
    // C05: never sent as a file, whichever rule leads to it.
    assert_eq!(server.get("/static/x.cgi").status, 403);
    assert_eq!(server.ask("TRACE", "/bin/sub/y", &[]).status, 405);
}

#[test]
fn errors_are_honest_and_name_what_is_missing() {
    // Ids of reports: 011, 058.
    needs_root!();
    let setting = Setting::new();
    let head = "printf 'Content-Type: text/plain\\n\\n'";
    setting.program("no-interpreter", "#!/nonexistent/perl -w\n");
    setting.program("crlf", "#!/bin/sh\r\necho\r\n");
    setting.program("no-program", "just text\n");
    setting.program("empty-answer", "#!/bin/sh\nexit 3\n");
    setting.program("garbage", "#!/bin/sh\necho garbage; echo\n");
    setting.program("killed", "#!/bin/sh\nkill -SEGV $$\n");
    setting.program("silent", "#!/bin/sh\nexec sleep 91\n");
    setting.program("stderr", &format!("#!/bin/sh\necho 'first complaint' >&2\necho second > /dev/stderr\nhead -c 1048576 /dev/zero | tr '\\0' '\\n' >&2\nseq 100 >&2\n{head}\necho page\n"));
    setting.program("unread", &format!("#!/bin/sh\n{head}\necho early\n"));
    setting.program("endless", "#!/bin/sh\nprintf 'X: '\nexec cat /dev/zero\n");
    let server = setting.server("read_timeout = \"1s\"");
    for (name, status, why) in [
        ("no-interpreter", 500, "exec: its interpreter \"/nonexistent/perl\": ENOENT: No such file or directory: not run"),
        ("crlf", 500, "exec: its interpreter \"/bin/sh\\r\": ENOENT"),
        ("no-program", 500, "exec: ENOEXEC: Exec format error: neither a program nor a script that begins with \"#!\""),
        ("empty-answer", 502, "closed the connection before the end of its answer"),
        ("garbage", 502, "502 Bad Gateway"),
        ("endless", 502, "502 Bad Gateway"),
        ("killed", 502, "ended: SIGSEGV"),
        ("silent", 504, "no answer within read_timeout"),
    ] {
        assert_eq!(server.get(format!("/cgi-bin/{name}")).status, status, "{name}: {}", error_log(&server));
        wait_for_log(&server, why);
    }
    wait("the silent one is ended", || running("sleep\x0091").is_empty());
    let response = server.get("/cgi-bin/stderr");
    assert_eq!((response.status, response.text().as_str()), (200, "page\n"), "{}", error_log(&server));
    for line in ["cgi-bin/stderr\": first complaint", "cgi-bin/stderr\": second", "cgi-bin/stderr\": truncated: it writes too much"] {
        wait_for_log(&server, line);
    }
    // B17: it answers and ends without having read its input.
    let mut client = server.connect();
    client.send("POST /cgi-bin/unread HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n");
    let _ = client.try_send(pattern(400_000));
    assert_eq!(client.response("POST").text(), "early\n");
    server.must_be_well(&server.workers(), "after programs of every kind");
}

#[test]
fn a_program_ends_with_its_request_term_first() {
    // Ids of reports: 082, 083.
    needs_root!();
    let setting = Setting::new();
    let marks = setting.root.directory("marks");
    fs::set_permissions(&marks, Permissions::from_mode(0o777)).unwrap();
    setting.program(
        "traps",
        &format!(
            "#!/bin/sh\ntrap 'echo ended > {}/term; exit' TERM\nprintf 'Content-Type: text/plain\\n\\nbegun'\nsleep 92 &\nwait\n",
            marks.display()
        ),
    );
    setting.program("stubborn", "#!/bin/sh\ntrap '' TERM\nprintf 'Content-Type: text/plain\\n\\nbegun'\nsleep 93; sleep 93\n");
    setting.program("leaves", "#!/bin/sh\nsleep 94 >/dev/null 2>&1 &\nprintf 'Content-Type: text/plain\\n\\nleft'\n");
    setting.program("late", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nwhile :; do echo x; sleep 0.1; done\n");
    let server = setting.server("run_timeout = \"4s\"");
    for (name, sleeps) in [("traps", "sleep\x0092"), ("stubborn", "sleep\x0093")] {
        let mut client = server.connect();
        client.send(format!("GET /cgi-bin/{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.head().unwrap();
        wait("it runs", || !running(sleeps).is_empty());
        drop(client);
        wait("it is ended", || running(sleeps).is_empty());
    }
    wait("it could put things in order", || marks.join("term").exists());
    // What is left behind in the session of one that has ended goes too.
    assert_eq!(server.get("/cgi-bin/leaves").text(), "left");
    wait("what it left is ended", || running("sleep\x0094").is_empty());
    let mut client = server.connect();
    client.read_timeout(PATIENCE);
    client.send("GET /cgi-bin/late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.rest().unwrap();
    wait_for_log(&server, "it runs for longer than run_timeout: ended");
    for number in 0..50 {
        let mut client = server.connect();
        client.send("GET /cgi-bin/leaves HTTP/1.1\r\nHost: a\r\n\r\n");
        if number % 5 != 0 {
            client.response("GET");
        }
    }
    let defunct = || {
        let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        all.filter(|stat| stat.contains("(leaves) Z")).count()
    };
    wait("nothing defunct and nothing left", || {
        defunct() == 0 && running("sleep\x0094").is_empty() && running("cgi-bin/leaves").is_empty()
    });
}

#[test]
fn c18_many_requests_wait_their_turn_and_static_files_do_not() {
    needs_root!();
    let setting = Setting::new();
    setting.program("slow", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec sleep 0.2\n");
    let server = setting.server("max_programs = 8\nqueue = 100");
    let most = std::sync::atomic::AtomicUsize::new(0);
    let mut clients: Vec<_> = (0..1_000).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.read_timeout(PATIENCE * 3);
        client.send("GET /cgi-bin/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let began = Instant::now();
    assert_eq!(server.get("/index.html").status, 200);
    assert!(began.elapsed() < Duration::from_secs(5), "a static file takes {:?}", began.elapsed());
    let (mut served, mut refused) = (0, 0);
    for client in &mut clients {
        most.fetch_max(running("sleep\x000.2").len(), std::sync::atomic::Ordering::Relaxed);
        let response = client.response("GET");
        match response.status {
            200 => served += 1,
            503 => {
                assert!(response.field("Retry-After").is_some());
                refused += 1;
            }
            other => panic!("{other}"),
        }
    }
    let most = most.into_inner();
    assert!(served >= 100 && served + refused == 1_000 && refused > 0, "{served} served, {refused} refused");
    assert!(most <= 8, "{most} at a time");
    server.must_be_well(&server.workers(), "after 1,000 requests");
}

#[test]
fn nothing_is_left_when_the_parent_is_killed_or_stops() {
    needs_root!();
    for end in [Signal::SIGKILL, Signal::SIGTERM] {
        let setting = Setting::new();
        setting.program(
            "stays",
            "#!/bin/sh\ntrap '' TERM HUP\nsetsid sh -c 'trap \"\" TERM; sleep 95' &\nprintf 'Content-Type: text/plain\\n\\nx'\nsleep 96\n",
        );
        let mut server = setting.server("");
        let mut client = server.connect();
        client.send("GET /cgi-bin/stays HTTP/1.1\r\nHost: a\r\n\r\n");
        wait("both run", || !running("sleep\x0095").is_empty() && !running("sleep\x0096").is_empty());
        server.end(end);
        wait("nothing is left", || running("sleep\x0095").is_empty() && running("sleep\x0096").is_empty());
    }
}

#[test]
fn a_reload_lets_what_runs_come_to_its_end_and_new_rules_hold_at_once() {
    needs_root!();
    let setting = Setting::new();
    let go = setting.root.at("go");
    setting.program(
        "waits",
        &format!(
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nbegun '\nwhile ! test -e {}; do sleep 0.05; done\necho done\n",
            go.display()
        ),
    );
    let server = setting.server("");
    let mut client = server.connect();
    client.read_timeout(PATIENCE);
    client.send("GET /cgi-bin/waits HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.head().unwrap();
    server.configure(&setting.configuration("min_uid = 65535"));
    server.order(&["reload"]).must_be_done();
    wait("the new rule holds", || server.get("/cgi-bin/waits").status == 403);
    fs::write(&go, "").unwrap();
    assert!(String::from_utf8_lossy(&client.rest().unwrap()).contains("done"), "{}", error_log(&server));
}

#[test]
fn limits_of_one_program_are_the_kernels() {
    needs_root!();
    let setting = Setting::new();
    setting.program("limits", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncat /proc/self/limits\n");
    setting.program("spins", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nwhile :; do :; done\n");
    let server = setting.server("cpu_time = \"1s\"\nmemory = \"256MiB\"\nfile_size = \"3MiB\"\nmax_processes = 77");
    let text = server.get("/cgi-bin/limits").text();
    for (name, soft) in [
        ("Max cpu time", "1"),
        ("Max address space", "268435456"),
        ("Max file size", "3145728"),
        ("Max processes", "77"),
        ("Max core file size", "0"),
    ] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(line[name.len()..].split_whitespace().next(), Some(soft), "{line}");
    }
    server.get("/cgi-bin/spins");
    wait_for_log(&server, "ended: SIGXCPU");
}

#[test]
fn explain_tells_whom_a_program_runs_as_and_check_which_is_not_run() {
    needs_root!();
    let setting = Setting::new();
    setting.program("fine", "#!/bin/sh\n");
    let path = setting.program("open", "#!/bin/sh\n");
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let server = setting.server("");
    let explain = |name: &str| server.order(&["explain", &format!("http://a/cgi-bin/{name}/x?y")]).stdout;
    let told = explain("fine");
    assert!(told.contains("cgi-bin/fine\" runs as user id 65534") && told.contains("PATH_INFO = \"/x\""), "{told}");
    assert!(explain("open").contains("is not run: others may write to it (mode 0777)"), "{}", explain("open"));
    let checked = server.order(&["check"]);
    assert!(checked.stderr.contains("cgi-bin/open\" will not be run: others may write to it"), "{} {}", checked.stdout, checked.stderr);
}
