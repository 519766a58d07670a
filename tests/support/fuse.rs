//! A file system whose disk is this test (fuse(4)): it answers at once, or holds every answer back, as a server that is dead does.
//!
//! Names are believed for no time, so that each look-up asks. A request that was taken and is not answered keeps its process in a
//! wait that no signal ends, as a hard mount does.

use crate::support::PATIENCE;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A mounted file system. Dropping it answers what waits and takes it away.
pub(crate) struct Fuse {
    point: PathBuf,
    directory: Option<tempfile::TempDir>,
    state: Arc<Mutex<State>>,
    device: Arc<File>,
}

struct State {
    files: Vec<(String, Vec<u8>)>,
    hangs: bool,
    held: Vec<Vec<u8>>,
    /// Look-ups by name.
    asked: BTreeMap<String, usize>,
    reads: usize,
}

impl Fuse {
    /// Files by their names, in one directory.
    pub(crate) fn mount(files: &[(&str, &[u8])]) -> Fuse {
        let directory = tempfile::Builder::new().prefix("anchorite-fuse-").tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let point = directory.path().join("mount");
        std::fs::create_dir(&point).unwrap();
        let mut fuse = Fuse::mount_at(&point, files);
        fuse.directory = Some(directory);
        fuse
    }

    /// The same over a directory that is there.
    pub(crate) fn mount_at(point: &Path, files: &[(&str, &[u8])]) -> Fuse {
        let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let options = format!("fd={},rootmode=40755,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        mount(Some("anchorite-test"), point, Some("fuse"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options.as_str())).unwrap();
        let all = files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect();
        let state = State { files: all, hangs: false, held: Vec::new(), asked: BTreeMap::new(), reads: 0 };
        let fuse = Fuse { point: point.to_owned(), directory: None, state: Arc::new(Mutex::new(state)), device: Arc::new(device) };
        let (state, device) = (Arc::clone(&fuse.state), Arc::clone(&fuse.device));
        std::thread::spawn(move || serve(&state, &device));
        // From the first close on the kernel knows that a close is not answered (FLUSH), and does not ask again.
        if let Some((name, _)) = files.first() {
            std::fs::read(point.join(name)).unwrap();
        }
        fuse
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.point.clone()
    }

    /// Answers nothing from now on.
    pub(crate) fn hang(&self) {
        self.state.lock().unwrap().hangs = true;
    }

    /// Answers what waits and whatever comes.
    pub(crate) fn answer(&self) {
        let mut state = self.state.lock().unwrap();
        state.hangs = false;
        for request in std::mem::take(&mut state.held) {
            reply(&mut state, &self.device, &request);
        }
    }

    /// How often a name was looked up.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.state.lock().unwrap().asked.get(name).copied().unwrap_or(0)
    }

    /// Requests that are held back.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().unwrap().held.len()
    }

    /// Waits until so many requests are held back.
    pub(crate) fn wait_for_held(&self, count: usize) {
        let start = Instant::now();
        while self.held() < count {
            assert!(start.elapsed() < PATIENCE, "{} of {count} are held", self.held());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.answer();
        let _ = umount2(&self.path(), MntFlags::MNT_DETACH);
    }
}

fn serve(state: &Mutex<State>, device: &File) {
    let mut buffer = vec![0; 1 << 18];
    // Ends when the file system is gone.
    while let Ok(length) = (&mut &*device).read(&mut buffer) {
        let request = &buffer[..length];
        let mut state = state.lock().unwrap();
        note(&mut state, request);
        // The first exchange, and what wants no answer.
        if state.hangs && ![INIT, FORGET, BATCH_FORGET, INTERRUPT].contains(&u32_at(request, 4)) {
            state.held.push(request.to_vec());
        } else {
            reply(&mut state, device, request);
        }
    }
}

fn note(state: &mut State, request: &[u8]) {
    match u32_at(request, 4) {
        LOOKUP => *state.asked.entry(name(request)).or_default() += 1,
        READ => state.reads += 1,
        _ => {}
    }
}

fn reply(state: &mut State, device: &File, request: &[u8]) {
    let node = u64_at(request, 16);
    let answer: Result<Vec<u8>, i32> = match u32_at(request, 4) {
        FORGET | BATCH_FORGET | INTERRUPT => return,
        // fuse_init_out: version 7.31, look-ups side by side (FUSE_PARALLEL_DIROPS), room for reading and writing.
        INIT => Ok([words(&[7, 31, 1 << 17, 1 << 18, 12 | 9 << 16, 1 << 17, 1, 32]), vec![0; 32]].concat()),
        LOOKUP => {
            let found = state.files.iter().position(|(known, _)| *known == name(request));
            found.map(|index| [&longs(&[index as u64 + 2, 0, 0, 0, 0])[..], &attributes(state, index as u64 + 2)].concat()).ok_or(ENOENT)
        }
        GETATTR => Ok([&longs(&[0, 0])[..], &attributes(state, node)].concat()),
        OPEN | OPENDIR => Ok(longs(&[0, 0])),
        READ => {
            let content = content(state, node);
            let from = usize::try_from(u64_at(request, 48)).unwrap().min(content.len());
            let to = (from + usize::try_from(u32_at(request, 56)).unwrap()).min(content.len());
            Ok(content[from..to].to_vec())
        }
        STATFS => Ok([longs(&[0; 5]), words(&[4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0])].concat()),
        READDIR => Ok(entries(state, u64_at(request, 48), u32_at(request, 56))),
        RELEASE | RELEASEDIR => Ok(Vec::new()),
        _ => Err(ENOSYS),
    };
    let (error, data) = match answer {
        Ok(data) => (0, data),
        Err(errno) => (-errno, Vec::new()),
    };
    let length = u32::try_from(16 + data.len()).unwrap();
    let head = [&length.to_le_bytes()[..], &error.to_le_bytes(), &request[8..16]].concat();
    // The asker may be gone.
    let _ = (&mut &*device).write(&[head, data].concat());
}

/// fuse_dirent of the files from a place on, as many as there is room for.
fn entries(state: &State, from: u64, room: u32) -> Vec<u8> {
    let mut entries = Vec::new();
    for (at, (name, _)) in state.files.iter().enumerate().skip(usize::try_from(from).unwrap()) {
        let (length, regular) = (u32::try_from(name.len()).unwrap(), 8);
        let mut entry = [longs(&[at as u64 + 2, at as u64 + 1]), words(&[length, regular]), name.clone().into_bytes()].concat();
        entry.resize(entry.len().next_multiple_of(8), 0);
        if entries.len() + entry.len() > usize::try_from(room).unwrap() {
            break;
        }
        entries.append(&mut entry);
    }
    entries
}

fn content(state: &State, node: u64) -> &[u8] {
    usize::try_from(node)
        .ok()
        .and_then(|node| node.checked_sub(2))
        .and_then(|index| state.files.get(index))
        .map_or(&[], |(_, content)| content)
}

/// fuse_attr.
fn attributes(state: &State, node: u64) -> Vec<u8> {
    let size = content(state, node).len() as u64;
    let mode = if node == 1 { 0o40755 } else { 0o100_644 };
    [longs(&[node, size, size.div_ceil(512), 1_700_000_000, 1_700_000_000, 1_700_000_000]), words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])]
        .concat()
}

fn name(request: &[u8]) -> String {
    String::from_utf8_lossy(request[40..].split(|byte| *byte == 0).next().unwrap()).into_owned()
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

/// Requests (linux/fuse.h).
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
