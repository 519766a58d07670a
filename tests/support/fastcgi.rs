//! A backend that speaks FastCGI as a script says, right or wrong; and PHP-FPM as Debian has it.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What one request was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// How the connection ended while the answer was being given: by a record of type 2, or just so.
    pub(crate) aborted: bool,
    pub(crate) gone: bool,
    pub(crate) keep: bool,
}

impl Seen {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// What a mount on `/` gets of the path.
    pub(crate) fn path(&self) -> &str {
        self.value("PATH_INFO").unwrap_or("")
    }
}

pub(crate) enum Step {
    Send(Vec<u8>),
    /// Some bytes, with this many descriptors beside them.
    SendWith(Vec<u8>, usize),
    Pause(Duration),
    /// Until the other side ends the connection.
    Wait,
    /// What comes goes back, to the end.
    Echo,
    Close,
}

type Script = dyn Fn(&Seen) -> Vec<Step> + Send + Sync;

/// Listens at a socket of its own; each request is answered as `answer` says.
pub(crate) struct FakeBackend {
    directory: tempfile::TempDir,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    pub(crate) connections: Arc<Mutex<usize>>,
}

impl FakeBackend {
    pub(crate) fn new(answer: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let directory = tempfile::Builder::new().prefix("anchorite-backend-").tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let backend = Self { directory, seen: Arc::default(), connections: Arc::default() };
        backend.listen(Arc::new(answer));
        backend
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The table of the configuration, with more lines.
    pub(crate) fn table(&self, lines: &str) -> String {
        format!("\n[backend.fake]\ntype = \"fastcgi\"\naddress = [\"unix:{}\"]\n{lines}\n", self.path().display())
    }

    fn listen(&self, answer: Arc<Script>) {
        let listener = UnixListener::bind(self.path()).unwrap();
        std::fs::set_permissions(self.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        let (seen, connections) = (Arc::clone(&self.seen), Arc::clone(&self.connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *connections.lock().unwrap() += 1;
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || converse(stream, &seen, &*answer));
            }
        });
    }
}

fn converse(mut stream: UnixStream, all: &Mutex<Vec<Seen>>, answer: &dyn Fn(&Seen) -> Vec<Step>) {
    loop {
        let Some(seen) = read_request(&mut stream) else { return };
        let keep = seen.keep;
        let steps = answer(&seen);
        let place = {
            let mut all = all.lock().unwrap();
            all.push(seen);
            all.len() - 1
        };
        for step in steps {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).is_err() {
                        all.lock().unwrap()[place].gone = true;
                        return;
                    }
                }
                Step::SendWith(bytes, count) => send_with(&stream, &bytes, count),
                Step::Pause(time) => std::thread::sleep(time),
                Step::Wait => {
                    let mut rest = Vec::new();
                    let _ = stream.read_to_end(&mut rest);
                    let mut all = all.lock().unwrap();
                    all[place].gone = true;
                    all[place].aborted = rest.starts_with(&[1, 2]);
                    return;
                }
                Step::Close | Step::Echo => return,
            }
        }
        if !keep {
            return;
        }
    }
}

fn send_with(stream: &UnixStream, bytes: &[u8], count: usize) {
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
    use std::os::fd::AsRawFd;
    let descriptors = vec![stream.as_raw_fd(); count];
    let parts = [std::io::IoSlice::new(bytes)];
    sendmsg::<()>(stream.as_raw_fd(), &parts, &[ControlMessage::ScmRights(&descriptors)], MsgFlags::empty(), None).unwrap();
}

/// Up to the end of the body, or only of the parameters for a path that begins with `/early`.
fn read_request(stream: &mut UnixStream) -> Option<Seen> {
    let (mut seen, mut parameters) = (Seen::default(), Vec::new());
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).ok()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        stream.read_exact(&mut content).ok()?;
        content.truncate(length);
        match header[1] {
            1 => seen.keep = content[2] & 1 == 1,
            4 if content.is_empty() => {
                seen.parameters = pairs(&parameters);
                if seen.path().starts_with("/early") {
                    return Some(seen);
                }
            }
            4 => parameters.extend(content),
            5 if content.is_empty() => return Some(seen),
            5 => seen.body.extend(content),
            _ => return None,
        }
    }
}

fn pairs(mut bytes: &[u8]) -> Vec<(String, String)> {
    fn length(bytes: &mut &[u8]) -> usize {
        let first = usize::from(bytes[0]);
        if first < 128 {
            *bytes = &bytes[1..];
            return first;
        }
        let long = u32::from_be_bytes([bytes[0] & 0x7f, bytes[1], bytes[2], bytes[3]]);
        *bytes = &bytes[4..];
        long as usize
    }
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        list.push((text(&bytes[..name]), text(&bytes[name..name + value])));
        bytes = &bytes[name + value..];
    }
    list
}

/// One record, without padding.
pub(crate) fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let [a, b] = id.to_be_bytes();
    let [c, d] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, a, b, c, d, 0, 0], content].concat()
}

pub(crate) fn stdout(content: impl AsRef<[u8]>) -> Vec<u8> {
    content.as_ref().chunks(60_000).flat_map(|part| record(6, 1, part)).collect()
}

/// The end of a request.
pub(crate) fn end(protocol: u8) -> Vec<u8> {
    record(3, 1, &[0, 0, 0, 0, protocol, 0, 0, 0])
}

/// A whole answer.
pub(crate) fn answer(text: impl AsRef<[u8]>) -> Vec<Step> {
    vec![Step::Send([stdout(text), record(6, 1, b""), end(0)].concat())]
}

/// PHP-FPM with a pool of its own, whose socket only its group may use.
pub(crate) struct Php {
    directory: tempfile::TempDir,
    child: std::process::Child,
    line: String,
}

impl Php {
    /// `None`: it is not installed.
    pub(crate) fn start(children: usize) -> Option<Self> {
        Self::start_as("exec \"$@\"", children, "php_admin_value[enable_post_data_reading] = 0\n")
    }

    /// Through `bash -c LINE`, in which `"$@"` is the command, and with more lines for the pool.
    pub(crate) fn start_as(line: &str, children: usize, lines: &str) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("anchorite-php-").tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let (socket, log, file) = (directory.path().join("socket"), directory.path().join("log"), directory.path().join("conf"));
        std::fs::write(
            &file,
            format!(
                "[global]\nerror_log = {}\ndaemonize = no\nprocess_control_timeout = 10s\n[www]\nuser = www-data\ngroup = www-data\nlisten = {}\nlisten.owner = www-data\n\
                 listen.group = www-data\nlisten.mode = 0660\npm = static\npm.max_children = {children}\ncatch_workers_output = yes\n{lines}",
                log.display(),
                socket.display()
            ),
        )
        .unwrap();
        let child = Self::run(line, directory.path())?;
        let php = Self { directory, child, line: line.to_owned() };
        php.wait();
        Some(php)
    }

    fn run(line: &str, directory: &Path) -> Option<std::process::Child> {
        let program = std::fs::read_dir("/usr/sbin").ok()?.flatten().map(|entry| entry.path());
        let program = program.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))).max()?;
        let mut command = std::process::Command::new("bash");
        command.args(["-c", line, "bash"]).arg(program).args(["-F", "-y"]).arg(directory.join("conf"));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        Some(command.spawn().unwrap())
    }

    fn wait(&self) {
        let listens = crate::support::wait_until(crate::support::PATIENCE, || UnixStream::connect(self.socket()).is_ok());
        assert!(listens.is_some(), "PHP-FPM does not listen: {}", self.log());
    }

    /// What it wrote to its error log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Has it read its configuration anew: its children end when they have answered, its socket stays.
    pub(crate) fn reload(&self) {
        let ready = || self.log().matches("ready to handle connections").count();
        let before = ready();
        crate::support::signal(i32::try_from(self.child.id()).unwrap(), nix::sys::signal::Signal::SIGUSR2);
        let again = crate::support::wait_until(crate::support::PATIENCE, || ready() > before);
        assert!(again.is_some(), "PHP-FPM did not come back: {}", self.log());
    }

    /// Starts it again after [`Php::stop`].
    pub(crate) fn start_again(&mut self) {
        self.child = Self::run(&self.line, self.directory.path()).unwrap();
        self.wait();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn table(&self, lines: &str) -> String {
        format!("\n[backend.php]\ntype = \"fastcgi\"\ngroup = \"www-data\"\naddress = [\"unix:{}\"]\n{lines}\n", self.socket().display())
    }

    /// Ends it, and removes its socket.
    pub(crate) fn stop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            crate::support::signal(i32::try_from(self.child.id()).unwrap(), nix::sys::signal::Signal::SIGTERM);
            let _ = self.child.wait();
        }
        let _ = std::fs::remove_file(self.socket());
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The socket of a directory, for a backend that is not there.
pub(crate) fn no_backend(directory: &Path) -> String {
    format!("\n[backend.fake]\ntype = \"fastcgi\"\naddress = [\"unix:{}\"]\n", directory.join("none").display())
}
