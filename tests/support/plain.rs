//! A backend that is told requests by SCGI, uwsgi or HTTP, and answers with bytes as a script says.

use crate::fastcgi::Step;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    Scgi,
    Uwsgi,
    Http,
}

/// What one request was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// As it came, up to the body.
    pub(crate) opening: Vec<u8>,
    /// The request line, of HTTP.
    pub(crate) line: String,
    /// Parameters, or fields with their names as they were sent.
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The other side ended the connection while the answer was being given.
    pub(crate) gone: bool,
}

impl Told {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// What a mount on `/` gets of the path; the path of a request of HTTP.
    pub(crate) fn path(&self) -> &str {
        let target = self.line.split(' ').nth(1).and_then(|target| target.split('?').next());
        target.or(self.value("PATH_INFO")).unwrap_or("")
    }
}

type Script = dyn Fn(&Told) -> Vec<Step> + Send + Sync;

/// Listens at a socket of its own; each request is answered as `answer` says. That was the connection, except by HTTP.
pub(crate) struct PlainBackend {
    directory: tempfile::TempDir,
    tongue: Tongue,
    pub(crate) told: Arc<Mutex<Vec<Told>>>,
    pub(crate) connections: Arc<Mutex<usize>>,
}

impl PlainBackend {
    pub(crate) fn new(tongue: Tongue, answer: impl Fn(&Told) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let directory = tempfile::Builder::new().prefix("anchorite-backend-").tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let backend = Self { directory, tongue, told: Arc::default(), connections: Arc::default() };
        backend.listen(Arc::new(answer));
        backend
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The table of the configuration, with more lines.
    pub(crate) fn table(&self, lines: &str) -> String {
        let tongue = format!("{:?}", self.tongue).to_lowercase();
        format!("\n[backend.fake]\ntype = \"{tongue}\"\naddress = [\"unix:{}\"]\n{lines}\n", self.path().display())
    }

    fn listen(&self, answer: Arc<Script>) {
        let listener = UnixListener::bind(self.path()).unwrap();
        std::fs::set_permissions(self.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        let (told, connections, tongue) = (Arc::clone(&self.told), Arc::clone(&self.connections), self.tongue);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *connections.lock().unwrap() += 1;
                let (told, answer) = (Arc::clone(&told), Arc::clone(&answer));
                std::thread::spawn(move || converse(stream, tongue, &told, &*answer));
            }
        });
    }
}

fn converse(mut stream: UnixStream, tongue: Tongue, all: &Mutex<Vec<Told>>, answer: &Script) {
    loop {
        let read = match tongue {
            Tongue::Scgi => read_scgi(&mut stream),
            Tongue::Uwsgi => read_uwsgi(&mut stream),
            Tongue::Http => read_http(&mut stream),
        };
        let Some(told) = read else { return };
        let steps = answer(&told);
        let place = {
            let mut all = all.lock().unwrap();
            all.push(told);
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
                Step::SendWith(..) => panic!("descriptors go by FastCGI here"),
                Step::Pause(time) => std::thread::sleep(time),
                Step::Wait => {
                    let _ = stream.read_to_end(&mut Vec::new());
                    all.lock().unwrap()[place].gone = true;
                    return;
                }
                Step::Echo => return echo(stream),
                Step::Close => return,
            }
        }
        if tongue != Tongue::Http {
            return;
        }
    }
}

/// Sends back what comes, to the end; then a last word.
fn echo(mut stream: UnixStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
    let _ = stream.write_all(b"end");
}

/// A head, and a body that is framed in the one way that it says.
fn read_http(stream: &mut UnixStream) -> Option<Told> {
    let mut opening = Vec::new();
    while !opening.ends_with(b"\r\n\r\n") {
        opening.extend(some(stream, 1)?);
    }
    let text = String::from_utf8_lossy(&opening).into_owned();
    let mut lines = text.trim_end().split("\r\n");
    let line = lines.next()?.to_owned();
    let parameters = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut told = Told { opening, line, parameters, ..Told::default() };
    if told.path().starts_with("/early") {
        return Some(told);
    }
    match (told.value("Content-Length").map(str::to_owned), told.value("Transfer-Encoding").map(str::to_owned)) {
        (Some(length), None) => told.body = some(stream, length.parse().ok()?)?,
        (None, Some(coding)) => {
            assert_eq!(coding, "chunked");
            told.body = chunks(stream)?;
        }
        (None, None) => {}
        (Some(_), Some(_)) => panic!("two framings: {text}"),
    }
    Some(told)
}

fn chunks(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(some(stream, 1)?);
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line[..line.len() - 2]).ok()?, 16).ok()?;
        body.extend(some(stream, size)?);
        assert_eq!(some(stream, 2)?, b"\r\n");
        if size == 0 {
            return Some(body);
        }
    }
}

/// A netstring, and a body of the length that it says.
fn read_scgi(stream: &mut UnixStream) -> Option<Told> {
    let mut opening = Vec::new();
    while opening.last() != Some(&b':') {
        opening.extend(some(stream, 1)?);
    }
    let length: usize = std::str::from_utf8(&opening[..opening.len() - 1]).ok()?.parse().ok()?;
    let netstring = some(stream, length + 1)?;
    assert_eq!(netstring.last(), Some(&b','));
    let texts: Vec<String> = netstring[..length].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    let parameters = texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    opening.extend(netstring);
    with_body(stream, Told { opening, parameters, ..Told::default() })
}

fn read_uwsgi(stream: &mut UnixStream) -> Option<Told> {
    let mut opening = some(stream, 4)?;
    let packet = some(stream, usize::from(u16::from_le_bytes([opening[1], opening[2]])))?;
    let (mut rest, mut texts) = (packet.as_slice(), Vec::new());
    while !rest.is_empty() {
        let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        texts.push(String::from_utf8_lossy(&rest[2..2 + length]).into_owned());
        rest = &rest[2 + length..];
    }
    let parameters = texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    opening.extend(packet);
    with_body(stream, Told { opening, parameters, ..Told::default() })
}

/// Except for a path that begins with `/early`, which is answered before it.
fn with_body(stream: &mut UnixStream, mut told: Told) -> Option<Told> {
    let length = told.value("CONTENT_LENGTH").and_then(|length| length.parse().ok()).unwrap_or(0);
    if !told.path().starts_with("/early") {
        told.body = some(stream, length)?;
    }
    Some(told)
}

fn some(stream: &mut UnixStream, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
