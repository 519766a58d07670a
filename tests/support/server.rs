//! A running server: started on a free port, waited for, watched, and ended with all its processes.

use super::{AccessLine, Client, Configuration, PATIENCE, Process, Response, children_of, is_alive, request, signal, wait_until};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How to start the program: as whom, with which environment, through which shell line.
pub(crate) struct Launch {
    /// Holds the configuration, the logs and, for an ordinary user, a copy of the program.
    home: tempfile::TempDir,
    user: Option<u32>,
    environment: Vec<(String, String)>,
    shell: Option<String>,
}

/// What a start that failed, or a command that ended by itself, left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Panics unless it did what was asked.
    #[track_caller]
    pub(crate) fn must_be_done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Panics unless it failed and said so on standard error.
    #[track_caller]
    pub(crate) fn must_fail(self) -> Self {
        assert!(self.code == Some(1) && !self.stderr.is_empty(), "{self:?}");
        self
    }
}

impl Launch {
    pub(crate) fn new() -> Self {
        let home = tempfile::Builder::new().prefix("anchorite-home-").tempdir().unwrap();
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { home, user: None, environment: Vec::new(), shell: None }
    }

    /// As the ordinary user `uid`, who owns the directory of configuration and logs. Changes nothing when the tests do not run as root.
    pub(crate) fn user(mut self, uid: u32) -> Self {
        if super::is_root() {
            self.user = Some(uid);
            std::os::unix::fs::chown(self.home.path(), Some(uid), Some(uid)).unwrap();
        }
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Through `bash -c LINE`; in the line `"$@"` is the command.
    pub(crate) fn shell(mut self, line: &str) -> Self {
        self.shell = Some(line.to_owned());
        self
    }

    /// Where configuration and logs stand.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes `text` as the configuration file and returns its path.
    pub(crate) fn write_configuration(&self, text: &str) -> PathBuf {
        let path = self.home.path().join("anchorite.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// `anchorite serve DIR` on a free port, until it is ready.
    pub(crate) fn serve(self, directory: &Path) -> Server {
        let arguments = [OsString::from("serve"), directory.into(), "--listen".into(), "127.0.0.1:0".into()];
        self.start(&arguments)
    }

    /// `anchorite run -c FILE`, until it is ready.
    pub(crate) fn run(self, configuration: &Configuration) -> Server {
        let path = self.write_configuration(&configuration.text(self.home.path()));
        self.start(&[OsString::from("run"), "-c".into(), path.into()])
    }

    /// Starts the program and waits for `anchorite: ready`; panics with its stderr when that does not come.
    pub(crate) fn start(self, arguments: &[OsString]) -> Server {
        let mut server = self.spawn(arguments);
        let stderr = Arc::clone(&server.stderr);
        let ready = || lines_of(&stderr).iter().any(|line| line == "anchorite: ready");
        let deadline = Instant::now() + PATIENCE;
        while !ready() {
            if let Some(status) = server.child.try_wait().unwrap() {
                // The thread that reads may be a moment behind.
                std::thread::sleep(Duration::from_millis(50));
                server.ended = true;
                panic!("the server ended before it was ready ({status}); its stderr:\n{}", server.stderr());
            }
            assert!(Instant::now() < deadline, "the server was not ready in {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        server.addresses = lines_of(&stderr).iter().filter_map(|line| address_in(line)).collect();
        assert!(!server.addresses.is_empty(), "no address on stderr");
        server
    }

    /// Starts the program and waits for nothing: for a start without stderr.
    pub(crate) fn spawn(self, arguments: &[OsString]) -> Server {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let mut pipe = child.stderr.take().unwrap();
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&stderr);
        std::thread::spawn(move || {
            let mut piece = vec![0; 64 * 1024];
            while let Ok(count) = pipe.read(&mut piece) {
                if count == 0 {
                    break;
                }
                into.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        Server { child, stderr, addresses: Vec::new(), home: self.home, ended: false }
    }

    /// Runs the program to its end, at most [`PATIENCE`].
    pub(crate) fn to_end(&self, arguments: &[OsString]) -> Ended {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let pid = i32::try_from(child.id()).unwrap();
        let mut ends = false;
        wait_until(PATIENCE, || {
            ends = child.try_wait().unwrap().is_some();
            ends
        });
        if !ends {
            signal(pid, Signal::SIGTERM);
            std::thread::sleep(Duration::from_secs(1));
            let _ = child.kill();
        }
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(ends, "{command:?} did not end by itself; its stderr:\n{stderr}");
        Ended { code: output.status.code(), stdout: String::from_utf8_lossy(&output.stdout).into_owned(), stderr }
    }

    /// `anchorite run` with this text as its configuration, to its end: for files that must be refused.
    pub(crate) fn run_to_end(&self, text: &str) -> Ended {
        let path = self.write_configuration(text);
        self.to_end(&[OsString::from("run"), "-c".into(), path.into()])
    }

    fn command(&self, arguments: &[OsString]) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(uid) = self.user {
            words.extend(["setpriv".into(), format!("--reuid={uid}").into(), format!("--regid={uid}").into(), "--clear-groups".into()]);
        }
        if let Some(line) = &self.shell {
            words.extend(["bash".into(), "-c".into(), line.into(), "bash".into()]);
        }
        words.push(self.program().into());
        words.extend(arguments.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir("/");
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// The program; for an ordinary user a copy, since the build directory may be closed to others.
    fn program(&self) -> PathBuf {
        let built = PathBuf::from(env!("CARGO_BIN_EXE_anchorite"));
        if self.user.is_none() {
            return built;
        }
        let copy = self.home.path().join("anchorite");
        if !copy.exists() {
            std::fs::copy(&built, &copy).unwrap();
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        copy
    }
}

/// A started server. Dropping it ends it, and checks that no process of it is left.
pub(crate) struct Server {
    child: Child,
    stderr: Arc<Mutex<Vec<u8>>>,
    addresses: Vec<SocketAddr>,
    home: tempfile::TempDir,
    ended: bool,
}

impl Server {
    /// `anchorite serve DIR` on a free port.
    pub(crate) fn serve(directory: &Path) -> Self {
        Launch::new().serve(directory)
    }

    /// `anchorite run -c FILE`.
    pub(crate) fn run(configuration: &Configuration) -> Self {
        Launch::new().run(configuration)
    }

    /// The first address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where configuration and logs stand.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// The configuration file of `anchorite run`.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.home.path().join("anchorite.toml")
    }

    /// Writes another configuration in place of the one it was started with.
    pub(crate) fn configure(&self, configuration: &Configuration) {
        std::fs::write(self.configuration(), configuration.text(self.home.path())).unwrap();
    }

    /// An order of the administrator, `anchorite ORDER -c FILE`, to its end.
    pub(crate) fn order(&self, words: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anchorite"));
        command.args(words).arg("-c").arg(self.configuration()).stdin(Stdio::null());
        let output = command.output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// GET on a connection of its own, which the server must close after it.
    #[track_caller]
    pub(crate) fn get(&self, target: impl AsRef<[u8]>) -> Response {
        self.ask("GET", target, &[])
    }

    #[track_caller]
    pub(crate) fn head(&self, target: impl AsRef<[u8]>) -> Response {
        self.ask("HEAD", target, &[])
    }

    /// A request on a connection of its own, which the server must close after it.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: impl AsRef<[u8]>, fields: &[&str]) -> Response {
        let mut all = fields.to_vec();
        all.push("Connection: close");
        self.exchange(request(method, target, &all), method)
    }

    /// Sends `bytes`, reads one response and the close.
    #[track_caller]
    pub(crate) fn exchange(&self, bytes: impl AsRef<[u8]>, method: &str) -> Response {
        let mut client = self.connect();
        client.send(bytes);
        let response = client.response(method);
        client.expect_end();
        response
    }

    pub(crate) fn parent(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Every living child of the parent, by title.
    pub(crate) fn processes(&self) -> Vec<Process> {
        children_of(self.parent())
    }

    /// The worker processes, by number.
    pub(crate) fn workers(&self) -> Vec<i32> {
        self.processes().into_iter().filter(|process| process.title.starts_with("anchorite: worker ")).map(|process| process.pid).collect()
    }

    /// The processes that wait for disks, by number.
    pub(crate) fn files(&self) -> Vec<i32> {
        self.processes().into_iter().filter(|process| process.title.starts_with("anchorite: files ")).map(|process| process.pid).collect()
    }

    /// The log process, if it lives.
    pub(crate) fn log_process(&self) -> Option<i32> {
        self.processes().into_iter().find(|process| process.title.starts_with("anchorite: log")).map(|process| process.pid)
    }

    /// What `anchorite audit` says of one of its processes.
    #[track_caller]
    pub(crate) fn audited(&self, pid: i32) -> serde_json::Value {
        let told = Command::new(env!("CARGO_BIN_EXE_anchorite")).args(["audit", "--json"]).output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        told["processes"].as_array().unwrap().iter().find(|row| row["pid"] == pid).expect("a row").clone()
    }

    /// What it wrote to stderr so far.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap()).into_owned()
    }

    /// The access lines on stderr so far.
    pub(crate) fn access_lines(&self) -> Vec<AccessLine> {
        self.stderr.lock().unwrap().split(|&byte| byte == b'\n').filter_map(AccessLine::parse).collect()
    }

    /// Waits for at least `count` access lines on stderr, then a moment for one too many, and returns them.
    #[track_caller]
    pub(crate) fn wait_for_access_lines(&self, count: usize) -> Vec<AccessLine> {
        let whole = wait_until(PATIENCE, || self.access_lines().len() >= count);
        assert!(whole.is_some(), "{} access lines of {count}", self.access_lines().len());
        std::thread::sleep(Duration::from_millis(100));
        self.access_lines()
    }

    /// The whole lines of a file in [`Server::home`], once there are `count` of them.
    #[track_caller]
    pub(crate) fn wait_for_lines(&self, file: &str, count: usize) -> Vec<String> {
        let read = || {
            let bytes = std::fs::read(self.home.path().join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .map(|line| line.trim_end_matches('\n').to_owned())
                .collect::<Vec<_>>()
        };
        let whole = wait_until(PATIENCE, || read().len() >= count);
        assert!(whole.is_some(), "{} lines of {count} in {file}: {:?}", read().len(), read());
        std::thread::sleep(Duration::from_millis(100));
        read()
    }

    /// Sends the parent `which` and waits for its end; panics when it does not end within [`PATIENCE`] or leaves a process behind.
    pub(crate) fn end(&mut self, which: Signal) -> ExitStatus {
        let children = self.processes();
        signal(self.parent(), which);
        let status = self.wait_for_end();
        self.ended = true;
        assert_gone(&children);
        status
    }

    /// Waits for the parent to end by itself.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until(PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap_or_else(|| panic!("the parent did not end in {PATIENCE:?}"));
        self.ended = true;
        status
    }

    /// Checks what holds after every case: the same workers as before, and an answer on a new connection.
    #[track_caller]
    pub(crate) fn must_be_well(&self, workers: &[i32], context: &str) {
        assert!(!workers.is_empty(), "no workers: {:?}", self.processes());
        assert_eq!(self.workers(), workers, "workers changed: {context}");
        let mut client = self.connect();
        client.send(request("GET", "/", &["Connection: close"]));
        match client.try_response("GET") {
            Ok(response) => assert_eq!(response.status, 200, "the next request: {context}"),
            Err(fault) => panic!("the next request: {fault}: {context}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let children = if self.ended { Vec::new() } else { self.processes() };
        if !self.ended {
            let pid = self.parent();
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM);
            let child = &mut self.child;
            if wait_until(Duration::from_secs(5), || !matches!(child.try_wait(), Ok(None))).is_none() {
                let _ = child.kill();
                let _ = child.wait();
                for process in &children {
                    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), Signal::SIGKILL);
                }
                if !std::thread::panicking() {
                    panic!("the server did not end on TERM; its stderr:\n{}", self.stderr());
                }
            }
        }
        if std::thread::panicking() {
            eprintln!("---- stderr of the server ----\n{}---- end ----", self.stderr());
            for process in &children {
                if is_alive(process.pid) {
                    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), Signal::SIGKILL);
                }
            }
        } else {
            assert_gone(&children);
        }
    }
}

fn assert_gone(processes: &[Process]) {
    let gone = wait_until(PATIENCE, || processes.iter().all(|process| !is_alive(process.pid)));
    let left: Vec<_> = processes.iter().filter(|process| is_alive(process.pid)).collect();
    assert!(gone.is_some(), "left behind: {left:?}");
}

fn lines_of(stderr: &Mutex<Vec<u8>>) -> Vec<String> {
    let bytes = stderr.lock().unwrap();
    bytes
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
        .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
        .collect()
}

/// The address in `anchorite: listening on ADDRESS` or `anchorite: serving DIR at http://ADDRESS/`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let text = line
        .strip_prefix("anchorite: listening on ")
        .or_else(|| line.strip_prefix("anchorite: serving ")?.rsplit_once(" at http://").map(|(_, after)| after))?;
    text.trim_end_matches('/').parse().ok()
}

/// A port of the loopback address that nobody listens on, for the few cases that cannot read it from stderr.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}
