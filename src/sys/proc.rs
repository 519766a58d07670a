//! What the kernel reports of a process (proc(5)). Read by the parent before it trusts a role, and by `anchorite audit`.

use super::attributes::Attributes;
use super::socket::Address;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The part of `/proc/PID/status` that tells what a process may do.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Status {
    pub parent: i32,
    /// Real, effective, saved, file system.
    pub uids: [u32; 4],
    pub gids: [u32; 4],
    pub groups: Vec<u32>,
    /// Inheritable, permitted, effective, bounding, ambient.
    pub capabilities: [u64; 5],
    pub no_new_privs: bool,
    /// 2: filters.
    pub seccomp: u32,
    pub seccomp_filters: u32,
}

/// The capability sets in the order of [`Status::capabilities`], by their names in `/proc`.
pub const CAPABILITY_SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// Reads `/proc/PID/status`.
///
/// # Errors
/// `NotFound` when the process is gone; `InvalidData` when a line is missing or is not what proc(5) says.
pub fn status(pid: i32) -> io::Result<Status> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse_status(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/status is not understood")))
}

fn parse_status(text: &str) -> Option<Status> {
    let lines: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim())).collect();
    let numbers = |name: &str| -> Option<Vec<u32>> { lines.get(name)?.split_ascii_whitespace().map(|word| word.parse().ok()).collect() };
    let four = |name: &str| -> Option<[u32; 4]> { numbers(name)?.try_into().ok() };
    let number = |name: &str| -> Option<u32> { lines.get(name)?.parse().ok() };
    let mut capabilities = [0; 5];
    for (set, name) in capabilities.iter_mut().zip(CAPABILITY_SETS) {
        *set = u64::from_str_radix(lines.get(name)?, 16).ok()?;
    }
    Some(Status {
        parent: lines.get("PPid")?.parse().ok()?,
        uids: four("Uid")?,
        gids: four("Gid")?,
        groups: numbers("Groups")?,
        capabilities,
        no_new_privs: number("NoNewPrivs")? == 1,
        // A kernel without seccomp has no such line.
        seccomp: number("Seccomp").unwrap_or(0),
        // Since Linux 5.9.
        seccomp_filters: number("Seccomp_filters").unwrap_or(0),
    })
}

/// Whether a signal that ends a process waits for it to leave the kernel: SIGALRM or SIGKILL.
pub fn is_dying(pid: i32) -> bool {
    let pending = |line: &str| {
        let (name, mask) = line.split_once(':')?;
        if ["SigPnd", "ShdPnd"].contains(&name) { u64::from_str_radix(mask.trim(), 16).ok() } else { None }
    };
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines().filter_map(pending).any(|mask| mask & (1 << (SIGKILL - 1) | 1 << (SIGALRM - 1)) != 0)
}

/// signal(7); the same numbers on every architecture here.
const SIGKILL: u32 = 9;
const SIGALRM: u32 = 14;

/// The command line of a process, arguments separated by blanks.
pub fn command_line(pid: i32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    Some(text.trim_end().to_owned())
}

/// Every process of the system.
pub fn processes() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut pids: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Device and inode of the program that a process runs.
///
/// # Errors
/// The errno of stat(2): `EACCES` for a process of another user.
pub fn executable(pid: i32) -> io::Result<(u64, u64)> {
    let metadata = fs::metadata(format!("/proc/{pid}/exe"))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Device and inode of a process's root directory.
///
/// # Errors
/// As [`executable`].
pub fn root(pid: i32) -> io::Result<(u64, u64)> {
    let metadata = fs::metadata(format!("/proc/{pid}/root/"))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Device and inode of what a path leads to, without asking who keeps it.
pub fn inode(path: &Path) -> Option<(u64, u64)> {
    Attributes::of(path).ok().map(|found| (found.device, found.inode))
}

/// The name of a process's program, as the kernel has it.
pub fn name(pid: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// The TCP addresses that are listened on, whoever does; empty where the kernel does not tell.
pub fn listening() -> Vec<SocketAddr> {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(read)
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(listener)
        .map(|(address, _)| address)
        .collect()
}

/// What a process listens on; empty where this one may not know.
pub fn listening_of(pid: i32) -> Vec<Address> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let inode = |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned);
    let own: HashSet<String> = links.filter_map(inode).collect();
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
    let [tcp, tcp6, unix] = ["tcp", "tcp6", "unix"].map(read);
    let ports = tcp.lines().chain(tcp6.lines()).filter_map(listener).filter(|(_, inode)| own.contains(*inode));
    let paths = unix.lines().filter_map(listener_at_path).filter(|(_, inode)| own.contains(*inode));
    ports.map(|(address, _)| Address::Ip(address)).chain(paths.map(|(path, _)| Address::Path(path.into()))).collect()
}

/// The path and the inode in a line of `/proc/net/unix`, if it is that of a listener.
fn listener_at_path(line: &str) -> Option<(&str, &str)> {
    const ACCEPTS_CONNECTIONS: &str = "00010000";
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (&flags, &inode, &path) = (words.get(3)?, words.get(6)?, words.get(7)?);
    (flags == ACCEPTS_CONNECTIONS && path.starts_with('/')).then_some((path, inode))
}

/// The address and the inode in a line of such a file, if it is that of a listener. Each 32 bits of the address are a number as this machine
/// has them.
fn listener(line: &str) -> Option<(SocketAddr, &str)> {
    const LISTEN: &str = "0A";
    let mut words = line.split_ascii_whitespace().skip(1);
    let (address, port) = words.next()?.split_once(':')?;
    let part = |at: usize| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let address: IpAddr = match address.len() {
        8 => part(0)?.into(),
        32 => <[u8; 16]>::try_from([part(0)?, part(8)?, part(16)?, part(24)?].concat()).ok()?.into(),
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    (words.nth(1)? == LISTEN).then_some((SocketAddr::new(address, port), words.nth(5)?))
}

/// Number of a namespace of a process; `name` as in `policy/roles.toml`.
///
/// # Errors
/// As [`executable`].
pub fn namespace(pid: i32, name: &str) -> io::Result<PathBuf> {
    let link = match name {
        "mount" => "mnt",
        "network" => "net",
        other => other,
    };
    fs::read_link(format!("/proc/{pid}/ns/{link}"))
}

/// What a process's descriptors are open on, as `/proc/PID/fd` names it.
///
/// # Errors
/// As [`executable`].
pub fn descriptors(pid: i32) -> io::Result<Vec<(i32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let (Some(number), Ok(target)) = (number, fs::read_link(entry.path())) {
            found.push((number, target));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Executable mappings of a process that no file lies behind, or that are writable as well; none in a confined one.
///
/// # Errors
/// As [`executable`].
pub fn doubtful_mappings(pid: i32) -> io::Result<Vec<String>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    Ok(maps.lines().filter(|line| is_doubtful(line)).map(str::to_owned).collect())
}

fn is_doubtful(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let permissions = words.nth(1).unwrap_or("");
    let path = words.nth(3).unwrap_or("");
    permissions.contains('x') && (permissions.contains('w') || !(path.starts_with('/') || path == "[vdso]" || path == "[vsyscall]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_status() {
        let own = status(super::super::process::own_id()).unwrap();
        assert_eq!(own.uids[0], super::super::privilege::own_ids().0);
        assert_eq!(own.parent, super::super::process::parent_id());
    }

    #[test]
    fn a_missing_line_is_an_error() {
        assert_eq!(parse_status("Uid:\t0\t0\t0\t0\n"), None);
    }

    #[test]
    fn addresses_that_are_listened_on_are_found() {
        let (one, two) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), std::net::TcpListener::bind("[::]:0").unwrap());
        let found = listening();
        assert!(found.contains(&one.local_addr().unwrap()) && found.contains(&two.local_addr().unwrap()), "{found:?}");
        let connected = "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1";
        assert_eq!(listener(connected), None);
        let expected = "127.0.0.1:8080".parse().ok().filter(|_| cfg!(target_endian = "little")).map(|address| (address, "1"));
        assert_eq!(listener(&connected.replace(" 01 ", " 0A ")), expected);
    }

    #[test]
    fn what_a_process_listens_on_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (port, at_path) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), std::os::unix::net::UnixListener::bind(&path).unwrap());
        let own = || listening_of(super::super::process::own_id());
        let is_there = |found: &[Address], wanted: &Address| found.iter().any(|found| format!("{found:?}") == format!("{wanted:?}"));
        let wanted = [Address::Ip(port.local_addr().unwrap()), Address::Path(path)];
        assert!(wanted.iter().all(|wanted| is_there(&own(), wanted)), "{:?}", own());
        drop((port, at_path));
        assert!(!wanted.iter().any(|wanted| is_there(&own(), wanted)), "{:?}", own());
    }

    #[test]
    fn anonymous_or_writable_code_is_doubtful() {
        assert!(is_doubtful("7f0000000000-7f0000001000 r-xp 00000000 00:00 0 "));
        assert!(is_doubtful("7f0000000000-7f0000001000 rwxp 00000000 fe:00 12 /usr/bin/x"));
        assert!(!is_doubtful("7f0000000000-7f0000001000 r-xp 00000000 fe:00 12 /usr/bin/x"));
        assert!(!is_doubtful("7f0000000000-7f0000001000 r-xp 00000000 00:00 0 [vdso]"));
        assert!(!is_doubtful("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 [heap]"));
    }
}
