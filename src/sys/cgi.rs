//! A CGI program for one request: a process that becomes its owner, looks at the program again, and executes it.
//!
//! Only `spawn` uses this; all but the first lines run in the child, which has given up root before it reads a byte of a worker or follows a
//! path. fork(2), setresuid(2), openat2(2), execve(2), setrlimit(2), path_resolution(7).

use super::{program, signal};
pub use crate::proto::environment::Refusal;
use crate::proto::environment::{self, REFUSED};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::stat::{FileStat, fstat};
use nix::unistd::{ForkResult, Gid, Uid, User};
use std::ffi::{CString, OsStr};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A program to run, and what a worker saw of it.
pub struct Run<'a> {
    /// The directory, or the program itself where `path` is empty.
    pub root: &'a Path,
    pub path: &'a [u8],
    pub device: u64,
    pub inode: u64,
    pub owner: u32,
    pub whom: Whom,
    /// The directories of which one is its DOCUMENT_ROOT, or holds it.
    pub documents: &'a [&'a Path],
    pub limits: Limits,
    /// Beside what the worker sends.
    pub env: &'a [(String, String)],
}

/// Who may have programs.
#[derive(Clone, Copy, Debug)]
pub struct Owners {
    /// Whom programs of root run as, and those of this user.
    pub user: Option<(u32, u32)>,
    pub min_uid: u32,
    /// The user of the service, if it is known.
    pub service: Option<u32>,
    pub rootless: bool,
}

/// Whom it runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Its owner, with the group that its account has.
    Owner,
    /// This user and group, whom it need not belong to.
    User(u32, u32),
    /// Whoever runs the service, who is not root.
    Same,
}

/// What it may use up, as setrlimit(2) has it: seconds, bytes, bytes, processes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub cpu: u64,
    pub memory: u64,
    pub file_size: u64,
    pub processes: u64,
}

/// A process that becomes a program.
pub struct Running {
    pub pid: i32,
    /// The worker's end of what the program has as 0 and 1.
    pub socket: OwnedFd,
    /// Says why it does not become the program, or ends when it has: see [`refusal`].
    pub report: OwnedFd,
    /// What it writes to its descriptor 2.
    pub said: OwnedFd,
}

/// Starts the process; it reads its environment from its socket.
///
/// # Errors
/// The errno of socketpair(2), pipe2(2) or fork(2).
pub fn run(run: &Run<'_>) -> io::Result<Running> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    nix::fcntl::fcntl(&ours, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let (to_report, report) = program::pipe()?;
    let (to_say, said) = program::pipe_of(if let Whom::User(uid, _) = run.whom { uid } else { run.owner })?;
    // SAFETY: this program has one thread, so the child is a whole copy in which any code may run.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => {
            let Err(refused) = become_program(run, [theirs.as_fd(), theirs.as_fd(), to_say.as_fd()], &to_report);
            // The worker, once it knows, has this process ended.
            let _ = nix::unistd::write(&to_report, &[&[refused.0 as u8], refused.1.as_bytes()].concat());
            let _ = nix::unistd::write(&theirs, &[REFUSED, refused.0 as u8]);
            // SAFETY: _exit(2) is always sound; exit(3) would run the parent's handlers in the child.
            unsafe { libc::_exit(127) }
        }
        ForkResult::Parent { child } => Ok(Running { pid: child.as_raw(), socket: ours, report, said }),
    }
}

/// A socket for a worker that says at once that its program is not run.
///
/// # Errors
/// The errno of socketpair(2) or write(2).
pub fn refused(refusal: Refusal) -> io::Result<OwnedFd> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    nix::fcntl::fcntl(&ours, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    nix::unistd::write(&theirs, &[REFUSED, refusal as u8])?;
    Ok(ours)
}

/// What a process reports that does not become its program: why, and a text for the error log.
pub fn refusal(record: &[u8]) -> Option<(Refusal, &[u8])> {
    let (number, text) = record.split_first()?;
    Some((Refusal::of(*number)?, text))
}

/// Why a program is not run, for the client and for the error log.
type Refused = (Refusal, String);

/// Runs in the child; returns only when a step failed.
fn become_program(run: &Run<'_>, standard: [BorrowedFd<'_>; 3], report: &OwnedFd) -> Result<std::convert::Infallible, Refused> {
    let failed = |step: &'static str| move |errno: Errno| (Refusal::Failed, format!("{step}: {errno}"));
    // A session of its own: it and all that it starts can be signalled together.
    nix::unistd::setsid().map_err(failed("setsid"))?;
    signal::all_default().map_err(|fault| (Refusal::Failed, format!("signals: {fault}")))?;
    // What hangs, be it a directory of users, a disk or the worker, does not hold the place of a program for ever.
    nix::unistd::alarm::set(PATIENCE_S);
    let identity = identity(run)?;
    program::limits().and_then(|()| limits(&run.limits)).map_err(failed("limits"))?;
    program::place(standard, report).map_err(failed("descriptors"))?;
    if let Some((uid, gid)) = identity {
        let gid = Gid::from_raw(gid);
        nix::unistd::setgroups(&[gid]).and_then(|()| nix::unistd::setresgid(gid, gid, gid)).map_err(failed("group"))?;
        program::become_user(Uid::from_raw(uid)).map_err(failed("user"))?;
    }
    let block = block()?;
    let (directory, name) = look_again(run)?;
    let environment = surroundings(&block, run)?;
    nix::unistd::fchdir(&directory).map_err(failed("fchdir"))?;
    nix::unistd::alarm::cancel();
    let path = CString::new([b"./", name.as_slice()].concat()).map_err(|_| (Refusal::Failed, "its name holds NUL".to_owned()))?;
    match nix::unistd::execve(&path, &[&path], &environment) {
        Ok(never) => match never {},
        Err(errno) => Err(not_executed(errno, &path)),
    }
}

/// The ids to run as; `None`: those that this process has.
fn identity(run: &Run<'_>) -> Result<Option<(u32, u32)>, Refused> {
    match run.whom {
        Whom::Same => Ok(None),
        Whom::User(uid, gid) => Ok(Some((uid, gid))),
        Whom::Owner => match User::from_uid(Uid::from_raw(run.owner)) {
            Ok(Some(user)) if user.gid.as_raw() == 0 => Err((Refusal::Denied, format!("its owner \"{}\" is of root's group", user.name))),
            Ok(Some(user)) => Ok(Some((run.owner, user.gid.as_raw()))),
            Ok(None) => Err((Refusal::Denied, format!("its owner, user id {}, has no account", run.owner))),
            Err(errno) => Err((Refusal::Failed, format!("its owner, user id {}, cannot be looked up: {errno}", run.owner))),
        },
    }
}

fn limits(limits: &Limits) -> nix::Result<()> {
    // The hard limit a little later: SIGXCPU first, so that it can put things in order.
    setrlimit(Resource::RLIMIT_CPU, limits.cpu, limits.cpu.saturating_add(GRACE_S))?;
    setrlimit(Resource::RLIMIT_AS, limits.memory, limits.memory)?;
    setrlimit(Resource::RLIMIT_FSIZE, limits.file_size, limits.file_size)?;
    setrlimit(Resource::RLIMIT_NPROC, limits.processes, limits.processes)
}

/// Reads the environment that the worker sends, and not a byte of what comes behind it, which is the program's.
fn block() -> Result<Vec<u8>, Refused> {
    // SAFETY: descriptor 0 is the socket, as `place` has just put it, and nobody else reads or closes it.
    let mut socket = std::mem::ManuallyDrop::new(std::fs::File::from(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(0) }));
    let mut prefix = [0; 4];
    socket.read_exact(&mut prefix).map_err(|_| left())?;
    let length = environment::length(prefix).ok_or_else(|| (Refusal::Malformed, "an environment that is too long".to_owned()))?;
    let mut block = vec![0; length];
    socket.read_exact(&mut block).map_err(|_| left())?;
    Ok(block)
}

/// The request was over before the program began; nobody is told.
fn left() -> Refused {
    (Refusal::Gone, String::new())
}

/// Opens the program's directory and looks at both by the rules of suexec: what is executed must be what the worker saw, and nobody but the
/// user whom it runs as, or root, can have put it there.
fn look_again(run: &Run<'_>) -> Result<(OwnedFd, Vec<u8>), Refused> {
    let whole = whole(run);
    let name = whole.file_name().map(|name| name.as_bytes().to_vec()).ok_or_else(|| (Refusal::Gone, "it has no name".to_owned()))?;
    let root = if run.path.is_empty() { run.root.parent().unwrap_or(run.root) } else { run.root };
    let how = |flags| OpenHow::new().flags(flags | OFlag::O_PATH | OFlag::O_CLOEXEC);
    let root = openat2(AT_FDCWD, root, how(OFlag::O_DIRECTORY).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS)).map_err(not_opened)?;
    let beneath = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let parent = run.path.iter().rposition(|&byte| byte == b'/').and_then(|end| run.path.get(..end)).unwrap_or(b".");
    let directory = openat2(&root, OsStr::from_bytes(parent), how(OFlag::O_DIRECTORY).resolve(beneath)).map_err(not_opened)?;
    let file = openat2(&directory, OsStr::from_bytes(&name), how(OFlag::empty()).resolve(beneath)).map_err(not_opened)?;
    let (file, beside) = (fstat(&file).map_err(not_opened)?, fstat(&directory).map_err(not_opened)?);
    is_same(&file, run)?;
    check(&file, &beside, nix::unistd::geteuid().as_raw()).map_err(|why| (Refusal::Denied, why))?;
    Ok((directory, name))
}

/// SCRIPT_FILENAME.
fn whole(run: &Run<'_>) -> PathBuf {
    if run.path.is_empty() { run.root.to_owned() } else { run.root.join(OsStr::from_bytes(run.path)) }
}

/// What is executed must be what the worker saw.
fn is_same(file: &FileStat, run: &Run<'_>) -> Result<(), Refused> {
    if (file.st_dev, file.st_ino) != (run.device, run.inode) {
        return Err((Refusal::Changed, "it is another file than a moment ago".to_owned()));
    }
    if file.st_uid != run.owner {
        return Err((Refusal::Changed, format!("it belongs to user id {} now", file.st_uid)));
    }
    if run.whom == Whom::Same && file.st_uid != nix::unistd::geteuid().as_raw() {
        return Err((Refusal::Denied, format!("it belongs to user id {}, not to the user of the service", file.st_uid)));
    }
    Ok(())
}

/// Whether a program and its directory are as suexec wants them for this user.
fn check(file: &FileStat, beside: &FileStat, uid: u32) -> Result<(), String> {
    let told = |why: &str| Err(format!("{why} (mode {:04o})", file.st_mode & MODE));
    match file.st_mode {
        mode if mode & libc::S_IFMT != libc::S_IFREG => return told("it is no regular file"),
        mode if mode & OTHERS_WRITE != 0 => return told("others may write to it"),
        mode if mode & (libc::S_ISUID | libc::S_ISGID) != 0 => return told("it is setuid or setgid"),
        mode if mode & ANY_EXECUTE == 0 => return told("it is not executable"),
        _ => {}
    }
    if beside.st_uid != uid && beside.st_uid != 0 {
        return Err(format!("its directory belongs to user id {}", beside.st_uid));
    }
    if beside.st_mode & OTHERS_WRITE != 0 {
        return Err(format!("others may write to its directory (mode {:04o})", beside.st_mode & MODE));
    }
    Ok(())
}

/// Whom a program of this owner runs as.
///
/// # Errors
/// Why it does not run at all.
pub fn whom(owners: &Owners, owner: u32) -> Result<Whom, String> {
    match owners.user {
        _ if owners.rootless => Ok(Whom::Same),
        // It could end the workers, and write where they do.
        _ if owners.service == Some(owner) => Err("it belongs to the user of the service".to_owned()),
        Some((uid, gid)) if owner == 0 || owner == uid => Ok(Whom::User(uid, gid)),
        _ if owner == 0 => Err("it belongs to root, and \"user\" in [cgi] says not whom such programs run as".to_owned()),
        _ if owner < owners.min_uid => Err(format!("its owner, user id {owner}, is below min_uid = {}", owners.min_uid)),
        _ => Ok(Whom::Owner),
    }
}

/// For whoever asks beforehand: the user id that a program would run as.
///
/// # Errors
/// Why it would not run.
pub fn examine(program: &Path, owners: &Owners) -> Result<u32, String> {
    use nix::sys::stat::{lstat, stat};
    let text = |errno: Errno| errno.to_string();
    let file = lstat(program).map_err(text)?;
    if file.st_mode & libc::S_IFMT == libc::S_IFLNK {
        return Err("it is a symbolic link, and none is followed".to_owned());
    }
    let uid = match whom(owners, file.st_uid)? {
        Whom::User(uid, _) => uid,
        Whom::Owner | Whom::Same => file.st_uid,
    };
    check(&file, &stat(program.parent().unwrap_or(program)).map_err(text)?, uid)?;
    Ok(uid)
}

fn not_opened(errno: Errno) -> Refused {
    #[expect(clippy::wildcard_enum_match_arm, reason = "errno is the kernel's enumeration, and grows with it")]
    match errno {
        Errno::ENOENT | Errno::ENOTDIR => (Refusal::Gone, "it is not there any more".to_owned()),
        Errno::ELOOP | Errno::EXDEV => (Refusal::Denied, "a symbolic link leads to it, and none is followed".to_owned()),
        Errno::EACCES => (Refusal::Denied, "its user may not go there".to_owned()),
        errno => (Refusal::Failed, format!("open: {errno}")),
    }
}

/// All that the program finds in its environment.
fn surroundings(block: &[u8], run: &Run<'_>) -> Result<Vec<CString>, Refused> {
    let (env, file) = (run.env, whole(run));
    let malformed = || (Refusal::Malformed, "a variable that is not of CGI".to_owned());
    let sent = environment::decode(block).ok_or_else(malformed)?;
    let file = file.as_os_str().as_bytes();
    let documents: Vec<&[u8]> = run.documents.iter().map(|path| path.as_os_str().as_bytes()).collect();
    if !environment::agrees(&sent, file, &documents) {
        return Err((Refusal::Malformed, "variables that are those of another program".to_owned()));
    }
    let is_set = |name: &[u8]| env.iter().any(|(set, _)| set.as_bytes() == name);
    // No worker says which file is run.
    let sent = sent.into_iter().filter(|(name, _)| !is_set(name) && *name != SCRIPT).chain([(SCRIPT, file)]);
    // An `HTTP_` name without a value is a field that the program does not get.
    let set = env.iter().filter(|(name, value)| !(value.is_empty() && name.starts_with("HTTP_")));
    let path = (!is_set(b"PATH")).then_some((&b"PATH"[..], PATH.as_bytes()));
    let all = sent.chain(set.map(|(name, value)| (name.as_bytes(), value.as_bytes()))).chain(path);
    all.map(|(name, value)| CString::new([name, b"=", value].concat()).map_err(|_| malformed())).collect()
}

/// Says what the errno of execve(2) does not: which file is not there.
fn not_executed(errno: Errno, path: &CString) -> Refused {
    let mut head = [0; 256];
    let opened = nix::fcntl::open(path.as_c_str(), OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, nix::sys::stat::Mode::empty());
    let length = opened.and_then(|file| nix::unistd::read(&file, &mut head)).unwrap_or(0);
    let first = head[..length].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let interpreter = first.strip_prefix(b"#!").map(|line| line.trim_ascii_start().split(|&byte| byte == b' ').next().unwrap_or_default());
    let what = match (errno, interpreter) {
        (Errno::ENOENT | Errno::EACCES, Some(name)) => format!("exec: its interpreter \"{}\": {errno}", name.escape_ascii()),
        (Errno::ENOENT, None) => format!("exec: its dynamic loader: {errno}"),
        (Errno::ENOEXEC, None) => format!("exec: {errno}: neither a program nor a script that begins with \"#!\""),
        (errno, _) => format!("exec: {errno}"),
    };
    (if errno == Errno::EACCES { Refusal::Denied } else { Refusal::Failed }, what)
}

/// What a program finds that has no `PATH` from the configuration.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

const SCRIPT: &[u8] = b"SCRIPT_FILENAME";

/// How long it may take until the program is executed.
const PATIENCE_S: u32 = 15;
/// Between SIGXCPU and SIGKILL.
const GRACE_S: u64 = 5;

const MODE: u32 = 0o7777;
const OTHERS_WRITE: u32 = 0o022;
const ANY_EXECUTE: u32 = 0o111;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_program_runs_as_follows_from_its_owner() {
        let none = Owners { user: None, min_uid: 1000, service: Some(1001), rootless: false };
        let named = Owners { user: Some((33, 34)), ..none };
        assert_eq!(whom(&none, 1000), Ok(Whom::Owner));
        assert_eq!(whom(&none, 999), Err("its owner, user id 999, is below min_uid = 1000".to_owned()));
        assert!(whom(&none, 0).unwrap_err().starts_with("it belongs to root"));
        for owner in [0, 33] {
            assert_eq!(whom(&named, owner), Ok(Whom::User(33, 34)));
        }
        assert_eq!(whom(&named, 34), Err("its owner, user id 34, is below min_uid = 1000".to_owned()));
        assert_eq!(whom(&named, 1000), Ok(Whom::Owner));
        for owners in [none, named, Owners { min_uid: 1, user: Some((1001, 1001)), ..none }] {
            assert_eq!(whom(&owners, 1001), Err("it belongs to the user of the service".to_owned()));
        }
        assert_eq!(whom(&Owners { rootless: true, ..none }, 0), Ok(Whom::Same));
        assert_eq!(whom(&Owners { rootless: true, ..none }, 1001), Ok(Whom::Same));
    }
}
