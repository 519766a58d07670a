//! Logs beyond one access log: a file per site, formats, syslog, a full disk, paths that are not safe, too many error lines.

use crate::fastcgi::{FakeBackend, Step, answer, no_backend};
use crate::support::{AccessLine, Configuration, Launch, PATIENCE, Root, Server, needs_root, request, signal, wait_until};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Two sites: `a` with a file of its own, and one for every other name.
fn two_sites(root: &Root, home: &Path, own: &str) -> Configuration {
    Configuration::new().site(&root.path(), &format!("name = \"a\"\naccess_log = {:?}", home.join(own))).site(&root.path(), "name = \"\"")
}

fn get(server: &Server, host: &str, target: &str) {
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    server.exchange(head, "GET").must_be(&[200, 404]);
}

/// The whole lines of a file, once there are `count` of them.
fn lines_of(path: &Path, count: usize) -> Vec<String> {
    let read = || {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n').map(str::to_owned)).collect::<Vec<_>>()
    };
    wait_until(PATIENCE, || read().len() >= count);
    std::thread::sleep(Duration::from_millis(150));
    read()
}

fn error_log(server: &Server) -> String {
    fs::read_to_string(server.home().join("error.log")).unwrap_or_default()
}

fn wait_for_error(server: &Server, text: &str) {
    assert!(wait_until(PATIENCE, || error_log(server).contains(text)).is_some(), "no {text:?} in\n{}", error_log(server));
}

/// Puts another configuration in place and waits until a generation serves it.
fn reload(server: &Server, configuration: &Configuration, generation: u32) {
    fs::write(server.home().join("anchorite.toml"), configuration.text(server.home())).unwrap();
    signal(server.parent(), Signal::SIGHUP);
    wait_for_error(server, &format!("generation {generation} serves"));
}

#[test]
fn a_site_has_a_log_of_its_own() {
    let root = Root::with_index();
    let launch = Launch::new();
    let configuration = two_sites(&root, launch.home(), "own.log");
    let server = launch.run(&configuration);
    for number in 0..10 {
        get(&server, "a", &format!("/a{number}"));
        get(&server, "b", &format!("/b{number}"));
    }
    let own = server.wait_for_lines("own.log", 10);
    let service = server.wait_for_lines("access.log", 10);
    assert!(own.len() == 10 && own.iter().all(|line| line.contains("GET /a")), "{own:#?}");
    assert!(service.len() == 10 && service.iter().all(|line| line.contains("GET /b")), "{service:#?}");
    // What is no request belongs to no site.
    server.exchange("BAD\r\n\r\n", "GET").must_be(&[400]);
    assert_eq!(server.wait_for_lines("access.log", 11).len(), 11);
}

#[test]
fn formats_say_what_they_promise() {
    let root = Root::with_index();
    for (format, begins, is_combined) in [("common", "127.0.0.1 - - [", false), ("vhost_combined", "a.example", true)] {
        let launch = Launch::new();
        let home = launch.home().to_owned();
        let log = format!("format = {format:?}\naccess = {:?}\nerror = {:?}", home.join("access.log"), home.join("error.log"));
        let server = launch.run(&Configuration::new().log(&log).site(&root.path(), "name = \"a.example\""));
        get(&server, "a.example", "/x?%22");
        let lines = server.wait_for_lines("access.log", 1);
        let line = lines[0].as_str();
        assert!(line.starts_with(begins), "{format}: {line}");
        let combined = if is_combined { line.split_once(' ').unwrap().1.to_owned() } else { format!("{line} \"-\" \"-\"") };
        let parsed = AccessLine::parse(combined.as_bytes()).unwrap_or_else(|| panic!("{format}: {line}"));
        assert_eq!((parsed.status, parsed.request.as_str()), (404, "GET /x?%22 HTTP/1.1"));
    }
}

#[test]
fn a_reload_adds_a_log_and_an_old_transfer_still_goes_to_its_own() {
    let root = Root::with_index();
    root.sparse("big.bin", 64 * 1024 * 1024);
    let launch = Launch::new();
    let first = two_sites(&root, launch.home(), "old.log");
    let second = two_sites(&root, launch.home(), "new.log");
    let server = launch.run(&first);
    let mut client = server.connect();
    client.send("GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.head().unwrap();
    reload(&server, &second, 2);
    get(&server, "a", "/new");
    let new = server.wait_for_lines("new.log", 1);
    assert!(new.len() == 1 && new[0].contains("GET /new"), "{new:?}");
    client.exactly(64 * 1024 * 1024).unwrap();
    let old = server.wait_for_lines("old.log", 1);
    assert!(old.len() == 1 && old[0].contains("GET /big.bin"), "{old:?}");
    assert!(!error_log(&server).contains("malformed"), "{}", error_log(&server));
    // Nobody writes to it any more: it is closed, and not made anew.
    drop(client);
    let path = server.home().join("old.log");
    let holds = |pid: i32| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| link == path)
    };
    let is_closed = || ![Some(server.parent()), server.log_process()].into_iter().flatten().any(holds);
    assert!(wait_until(PATIENCE, is_closed).is_some(), "{:?}", server.processes());
    fs::remove_file(&path).unwrap();
    server.order(&["reopen"]).must_be_done();
    assert!(!path.exists());
}

#[test]
fn reopen_takes_every_log_and_names_one_that_it_cannot_open() {
    let root = Root::with_index();
    let launch = Launch::new();
    let configuration = two_sites(&root, launch.home(), "own.log");
    let server = launch.run(&configuration);
    for host in ["a", "b"] {
        get(&server, host, "/before");
    }
    let rotated = |name: &str| server.home().join(format!("{name}.1"));
    for name in ["own.log", "access.log", "error.log"] {
        server.wait_for_lines(name, 1);
        fs::rename(server.home().join(name), rotated(name)).unwrap();
    }
    signal(server.parent(), Signal::SIGUSR1);
    wait_until(PATIENCE, || server.home().join("own.log").exists());
    for host in ["a", "b"] {
        get(&server, host, "/after");
    }
    for name in ["own.log", "access.log"] {
        let (before, after) = (lines_of(&rotated(name), 1), server.wait_for_lines(name, 1));
        assert!(before.len() == 1 && before[0].contains("/before"), "{name}: {before:?}");
        assert!(after.len() == 1 && after[0].contains("/after"), "{name}: {after:?}");
    }
    // A link in place of a log: the old files stay in use.
    fs::rename(server.home().join("own.log"), server.home().join("own.log.2")).unwrap();
    symlink("/dev/null", server.home().join("own.log")).unwrap();
    signal(server.parent(), Signal::SIGUSR1);
    wait_for_error(&server, "own.log\": it is a symbolic link; the old files stay in use");
    get(&server, "a", "/still");
    assert_eq!(lines_of(&server.home().join("own.log.2"), 2).len(), 2);
}

#[test]
fn two_thousand_sites_have_logs_of_their_own() {
    let root = Root::with_index();
    let launch = Launch::new();
    let mut configuration = Configuration::new();
    for number in 0..2000 {
        let own = launch.home().join(format!("site{number}.log"));
        configuration = configuration.site(&root.path(), &format!("name = \"s{number}\"\naccess_log = {own:?}"));
    }
    let server = launch.run(&configuration);
    for number in (0..2000).step_by(97) {
        get(&server, &format!("s{number}"), &format!("/{number}"));
    }
    for number in (0..2000).step_by(97) {
        let lines = server.wait_for_lines(&format!("site{number}.log"), 1);
        assert!(lines.len() == 1 && lines[0].contains(&format!("GET /{number} ")), "{number}: {lines:?}");
    }
    reload(&server, &configuration, 2);
    signal(server.parent(), Signal::SIGUSR1);
    get(&server, "s1999", "/again");
    let lines = server.wait_for_lines("site1999.log", 1);
    assert!(lines.last().unwrap().contains("GET /again "), "{lines:?}");
    assert!(!error_log(&server).contains("it is ended"), "{}", error_log(&server));
}

#[test]
fn lines_below_the_level_are_not_written() {
    let root = Root::with_index();
    for (level, notices, infos) in [("error", false, false), ("notice", true, false), ("info", true, true)] {
        let launch = Launch::new();
        let log =
            format!("level = {level:?}\naccess = {:?}\nerror = {:?}", launch.home().join("access.log"), launch.home().join("error.log"));
        let server = launch.run(&Configuration::of(&root.path()).log(&log));
        server.exchange("BAD\r\n\r\n", "GET").must_be(&[400]);
        server.wait_for_lines("access.log", 1);
        if infos {
            wait_for_error(&server, "[info] ");
        }
        let text = error_log(&server);
        assert_eq!((text.contains("[notice] "), text.contains("[info] ")), (notices, infos), "{level}:\n{text}");
    }
}

#[test]
fn secrets_stay_out_of_every_format() {
    // 167
    let root = Root::with_index();
    for format in ["common", "combined", "vhost_combined", "json"] {
        let launch = Launch::new();
        let log = format!(
            "format = {format:?}\nlevel = \"debug\"\naccess = {:?}\nerror = {:?}",
            launch.home().join("access.log"),
            launch.home().join("error.log")
        );
        // Parameters of a program hold what a client sent: of one that answers, one that answers nothing, and one that is not there.
        let ill = FakeBackend::new(|seen| {
            if seen.parameters.iter().any(|(_, value)| value == "/b/ill") {
                vec![Step::Close]
            } else {
                answer("Content-Type: text/plain\r\n\r\nwell")
            }
        });
        let configuration =
            Configuration::of(&root.path()).log(&log).backend(&ill.table("")).backend(&no_backend(&root.path()).replace("fake", "away"));
        let configuration = configuration.rule("path = \"/b/*\"\nbackend = \"fake\"").rule("path = \"/away/*\"\nbackend = \"away\"");
        let server = launch.run(&configuration);
        // L09, in an answer and in a refusal.
        for (field, status) in [("X: y", 200), ("Transfer-Encoding: chunked, chunked", 400), ("Content-Length: x", 400)] {
            let fields = [
                field,
                "Authorization: Basic c2VjcmV0",
                "Cookie: session=hidden",
                "Proxy-Authorization: Basic cHJveHk",
                "Connection: close",
            ];
            let response = server.exchange(request("GET", "/", &fields), "GET");
            assert!([status, 501].contains(&response.status), "{field}: {}", response.status);
        }
        for (target, status) in [("/b/well", 200), ("/b/ill", 502), ("/away/x", 503)] {
            let fields =
                ["Authorization: Basic c2VjcmV0", "Cookie: session=hidden", "Proxy-Authorization: Basic cHJveHk", "Connection: close"];
            server.exchange(request("GET", target, &fields), "GET").must_be(&[status]);
        }
        server.wait_for_lines("access.log", 6);
        for file in ["access.log", "error.log"] {
            let text = fs::read_to_string(server.home().join(file)).unwrap();
            for secret in ["c2VjcmV0", "hidden", "cHJveHk"] {
                assert!(!text.contains(secret), "{format}, {file}:\n{text}");
            }
        }
    }
}

#[test]
fn a_worker_that_says_too_much_is_cut_short() {
    let root = Root::with_index();
    let launch = Launch::new();
    let log = format!("level = \"info\"\naccess = \"off\"\nerror = {:?}", launch.home().join("error.log"));
    let server = launch.run(&Configuration::of(&root.path()).server_also("workers = 1").log(&log));
    // K15: each refused request is one line of level info.
    const SENT: usize = 1500;
    let start = Instant::now();
    for _ in 0..SENT {
        server.exchange("BAD\r\n\r\n", "GET").must_be(&[400]);
    }
    let seconds = usize::try_from(start.elapsed().as_secs()).unwrap() + 2;
    let told = || {
        let text = error_log(&server);
        let lines = text.lines().filter(|line| line.contains("[info] worker")).count();
        let suppressed: usize = text
            .lines()
            .filter_map(|line| line.split_once(" more lines of this process were suppressed")?.0.rsplit(' ').next()?.parse::<usize>().ok())
            .sum();
        (lines, suppressed)
    };
    wait_until(PATIENCE, || told().0 + told().1 >= SENT);
    let (lines, suppressed) = told();
    assert_eq!(lines + suppressed, SENT, "{lines} and {suppressed}");
    assert!(lines <= 200 * seconds, "{lines} lines in {seconds} s");
    assert!(suppressed > 0 || seconds > SENT / 200, "none was suppressed in {seconds} s");
}

#[test]
fn paths_that_others_could_bend_are_refused_with_the_reason() {
    needs_root!();
    let root = Root::with_index();
    let launch = Launch::new();
    let home = launch.home().to_owned();
    let directory = |name: &str, owner: Option<u32>, mode: u32| -> PathBuf {
        let path = home.join(name);
        fs::create_dir(&path).unwrap();
        chown(&path, owner, owner).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    // L05
    let service = nix::unistd::User::from_name("nobody").unwrap().unwrap().uid.as_raw();
    let theirs = directory("theirs", Some(service), 0o755).join("a.log");
    let open = directory("open", None, 0o777).join("a.log");
    let beneath = directory("open/beneath", None, 0o755).join("a.log");
    let another = directory("another", Some(1000), 0o755).join("a.log");
    let safe = directory("safe", None, 0o755);
    symlink("/etc/passwd", safe.join("link")).unwrap();
    fs::write(safe.join("file"), "").unwrap();
    fs::hard_link(safe.join("file"), safe.join("second")).unwrap();
    nix::unistd::mkfifo(&safe.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    for (path, why) in [
        (theirs, "can be written by the service's user"),
        (open, "can be written by everybody"),
        (beneath, "can be written by everybody"),
        (another, "belongs to a user other than root and the caller"),
        (safe.join("link"), "it is a symbolic link"),
        (safe.join("second"), "it has another name (hard link)"),
        (safe.join("fifo"), "not a regular file"),
        (safe.join("none/a.log"), "No such file or directory"),
    ] {
        for lines in [format!("access = {path:?}\nerror = \"stderr\""), format!("access = \"off\"\nerror = {path:?}")] {
            let text = Configuration::of(&root.path()).log(&lines).text(&home);
            let ended = launch.run_to_end(&text);
            assert_eq!(ended.code, Some(1), "{path:?}: {}", ended.stderr);
            assert!(ended.stderr.contains(&path.display().to_string()) && ended.stderr.contains(why), "{path:?}: {}", ended.stderr);
        }
    }
    // A directory as /tmp is one serves: what is ours in it nobody else can replace.
    let sticky = directory("sticky", None, 0o1777).join("a.log");
    let server = launch.run(&Configuration::of(&root.path()).log(&format!("access = {sticky:?}\nerror = \"stderr\"")));
    server.get("/").must_be(&[200]);
    assert_eq!(lines_of(&sticky, 1).len(), 1);
}

/// Starts the server with `setup` done in a mount namespace of its own; in it `$H` is the home.
fn in_own_mounts(setup: &str, configuration: impl FnOnce(&Path) -> Configuration) -> Server {
    let launch = Launch::new();
    let home = launch.home().to_owned();
    let inner = format!("set -e; H={}; {setup}; exec \"$@\"", home.display());
    let configuration = configuration(&home);
    launch.shell(&format!("exec unshare -m --propagation private bash -c '{inner}' bash \"$@\"")).run(&configuration)
}

/// A path as the server sees it.
fn seen_by(server: &Server, path: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{}", server.parent(), path.display()))
}

/// Processor time of a process so far, in ticks.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_full_disk_loses_lines_tells_once_and_heals() {
    needs_root!();
    let root = Root::with_index();
    // L06
    let setup = "mkdir $H/full; mount -t tmpfs -o size=64k,mode=755 none $H/full; head -c 40000 /dev/zero > $H/full/ballast";
    let server = in_own_mounts(setup, |home| {
        Configuration::of(&root.path()).log(&format!("access = {:?}\nerror = {:?}", home.join("full/access.log"), home.join("error.log")))
    });
    let full = seen_by(&server, &server.home().join("full"));
    let agent = format!("User-Agent: {}", "x".repeat(900));
    let send = |from: usize, to: usize| {
        for number in from..to {
            server.ask("GET", format!("/{number}"), &[&agent]).must_be(&[404]);
        }
    };
    send(0, 60);
    wait_for_error(&server, "full/access.log\": No space left on device");
    let before = ticks(server.log_process().unwrap());
    std::thread::sleep(Duration::from_millis(500));
    assert!(ticks(server.log_process().unwrap()) - before <= 5, "\"log\" spins");
    fs::remove_file(full.join("ballast")).unwrap();
    send(60, 80);
    let wanted = |lines: &[String]| lines.iter().filter(|line| line.contains("GET /79 ")).count() == 1;
    let lines = || lines_of(&full.join("access.log"), 1);
    assert!(wait_until(PATIENCE, || wanted(&lines())).is_some(), "it does not resume");
    for line in lines() {
        assert!(AccessLine::parse(line.as_bytes()).is_some(), "torn: {line}");
    }
    for number in 60..80 {
        let target = format!("GET /{number} ");
        assert_eq!(lines().iter().filter(|line| line.contains(&target)).count(), 1, "{target}");
    }
    assert_eq!(error_log(&server).matches("could not be written").count(), 1, "{}", error_log(&server));
}

#[test]
fn a_full_disk_under_the_error_log_is_told_on_standard_error() {
    needs_root!();
    let root = Root::with_index();
    let setup = "mkdir $H/full; mount -t tmpfs -o size=16k,mode=755 none $H/full; touch $H/full/error.log; \
                 head -c 100000 /dev/zero > $H/full/ballast || true";
    let server = in_own_mounts(setup, |home| {
        Configuration::of(&root.path()).log(&format!(
            "level = \"info\"\naccess = {:?}\nerror = {:?}",
            home.join("access.log"),
            home.join("full/error.log")
        ))
    });
    server.exchange("BAD\r\n\r\n", "GET").must_be(&[400]);
    let told = || server.stderr().contains("full/error.log\": No space left on device");
    assert!(wait_until(PATIENCE, told).is_some(), "{}", server.stderr());
    server.get("/").must_be(&[200]);
}

/// In the server's mounts `/dev/log` is `$H/run/log`.
const OWN_DEV: &str = "mkdir -p $H/run $H/dev; mount -t tmpfs -o mode=755 none $H/dev; touch $H/dev/null; \
                       mount --bind /dev/null $H/dev/null; ln -s $H/run/log $H/dev/log; mount --rbind $H/dev /dev";

struct Syslogd {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Syslogd {
    fn start(home: &Path) -> Syslogd {
        let path = home.join("run/log");
        fs::create_dir_all(home.join("run")).unwrap();
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Syslogd { socket, path }
    }

    /// Waits for a datagram that holds `text`.
    fn wait_for(&self, text: &str) -> Option<String> {
        self.wait_so_long(text, PATIENCE)
    }

    fn wait_so_long(&self, text: &str, limit: Duration) -> Option<String> {
        let deadline = Instant::now() + limit;
        let mut buffer = vec![0; 65536];
        while Instant::now() < deadline {
            if let Ok(length) = self.socket.recv(&mut buffer) {
                let datagram = String::from_utf8(buffer[..length].to_vec()).unwrap();
                if datagram.contains(text) {
                    return Some(datagram);
                }
            }
        }
        None
    }
}

impl Drop for Syslogd {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[test]
fn syslog_gets_lines_is_missed_while_it_is_away_and_found_again() {
    // 008
    needs_root!();
    let root = Root::with_index();
    // L08: it is not there yet when the service starts.
    let server =
        in_own_mounts(OWN_DEV, |_| Configuration::of(&root.path()).log("access = \"syslog\"\nerror = \"syslog\"\nlevel = \"info\""));
    server.get("/nobody-hears").must_be(&[404]);
    for round in 0..3 {
        let syslogd = Syslogd::start(server.home());
        let found = wait_until(PATIENCE, || {
            server.get(format!("/round{round}")).must_be(&[404]);
            syslogd.wait_so_long(&format!("GET /round{round} "), Duration::from_secs(3)).is_some()
        });
        assert!(found.is_some(), "round {round}: {}", server.stderr());
        server.ask("GET", "/whole", &["User-Agent: a\"\\b"]).must_be(&[404]);
        let line = syslogd.wait_for("GET /whole").unwrap();
        // 3 * 8 + 6: daemon, info.
        assert!(line.starts_with("<30>"), "{line}");
        let (head, text) = line.split_once("]: ").unwrap();
        assert!(head.ends_with(&format!("anchorite[{}", server.parent())), "{line}");
        assert_eq!(AccessLine::parse(text.as_bytes()).unwrap().agent, r"a\x22\x5Cb");
        server.exchange("BAD\r\n\r\n", "GET").must_be(&[400]);
        let line = syslogd.wait_for(": worker ").unwrap();
        assert!(line.starts_with("<30>") && !line.contains('\n'), "{line}");
        signal(server.parent(), Signal::SIGHUP);
        let line = syslogd.wait_for("parent: generation").unwrap();
        assert!(line.starts_with("<29>"), "{line}");
        drop(syslogd);
        for _ in 0..5 {
            server.get("/lost").must_be(&[404]);
        }
        std::thread::sleep(Duration::from_millis(1100));
    }
}

#[test]
fn a_syslog_that_does_not_read_holds_nothing_up() {
    needs_root!();
    let root = Root::with_index();
    let server = in_own_mounts(OWN_DEV, |home| {
        Configuration::of(&root.path()).log(&format!("access = \"syslog\"\nerror = {:?}", home.join("error.log")))
    });
    let syslogd = Syslogd::start(server.home());
    wait_until(PATIENCE, || {
        server.get("/hello").must_be(&[404]);
        syslogd.wait_so_long("GET /hello ", Duration::from_secs(3)).is_some()
    });
    let mut client = server.connect();
    let start = Instant::now();
    client.send(request("GET", "/", &[]).repeat(5000));
    for _ in 0..5000 {
        client.response("GET").must_be(&[200]);
    }
    assert!(start.elapsed() < PATIENCE * 2);
    server.get("/").must_be(&[200]);
    assert!(syslogd.wait_for("GET / ").is_some());
}
