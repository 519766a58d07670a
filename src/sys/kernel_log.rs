//! The kernel's log as records (`/dev/kmsg`, syslog(2)): for which system call a filter ended a process. The parent opens it,
//! before it gives up the capability; `log` reads it, since it holds text from elsewhere, firewall lines among others.

use super::policy;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{Whence, lseek};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// Opens it for reading from its end on: nothing of what happened before is told.
///
/// # Errors
/// The errno of open(2): `EPERM` where only root may read it, `ENOENT` in most containers.
pub fn open_at_end() -> io::Result<OwnedFd> {
    let log = open(PATH, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty())?;
    lseek(&log, 0, Whence::SeekEnd)?;
    Ok(log)
}

/// Where it is.
pub const PATH: &str = "/dev/kmsg";

/// That a filter ended a process, as the kernel's log tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub pid: u32,
    pub uid: u32,
    /// An `AUDIT_ARCH_` of linux/audit.h: whose numbers are meant.
    pub arch: u32,
    pub call: u32,
}

/// The log, and what it told of processes of one user. Where it could not be opened, it tells nothing.
#[derive(Debug)]
pub struct KernelLog {
    log: Option<OwnedFd>,
    uid: u32,
    /// Not yet taken; oldest first.
    known: VecDeque<Refused>,
}

impl KernelLog {
    pub fn new(log: Option<OwnedFd>, uid: u32) -> KernelLog {
        KernelLog { log, uid, known: VecDeque::new() }
    }

    /// Reads what is there, never waiting, and so much at a time that others do not wait either; true: to its end.
    pub fn read(&mut self) -> bool {
        let Some(log) = &self.log else { return true };
        let mut buffer = [0; RECORD_MAX];
        for _ in 0..RECORDS_AT_ONCE {
            let refused = match nix::unistd::read(log, &mut buffer) {
                Ok(length @ 1..) => buffer.get(..length).and_then(parse).filter(|refused| refused.uid == self.uid),
                // EPIPE: it was overwritten; the next read goes on behind the gap. EINVAL: longer than any record should be, and skipped.
                Err(Errno::EPIPE | Errno::EINVAL | Errno::EINTR) => None,
                Ok(_) | Err(_) => return true,
            };
            if self.known.len() + usize::from(refused.is_some()) > KNOWN_MAX {
                self.known.pop_front();
            }
            self.known.extend(refused);
        }
        false
    }

    /// Takes what was read of a process: the newest, since an older process may have had the number.
    pub fn take(&mut self, pid: u32) -> Option<Refused> {
        self.known.iter().rposition(|refused| refused.pid == pid).and_then(|at| self.known.remove(at))
    }
}

/// Longest record: `PRINTKRB_RECORD_MAX` and `CONSOLE_EXT_LOG_MAX` of the kernel.
const RECORD_MAX: usize = 8192;

/// Records that are read at once: some milliseconds.
const RECORDS_AT_ONCE: usize = 4_096;

/// Records that are kept until somebody asks: of so many processes that end together.
const KNOWN_MAX: usize = 64;

/// Takes a record of type SECCOMP in the one form that the kernel gives it, see `audit_seccomp` in kernel/auditsc.c:
/// `5,1629,10621461315,-;audit: type=1326 audit(1796042687.105:133326): … uid=0 … pid=10806 … sig=31 arch=c000003e syscall=44 …`
///
/// Whoever may write to /dev/kmsg cannot give a record the kernel's facility, 0 (printk: `devkmsg_write`), and names in a true
/// record are quoted, or in hexadecimal where they hold a blank: no field can be forged in them.
fn parse(record: &[u8]) -> Option<Refused> {
    let line = std::str::from_utf8(record).ok()?.lines().next()?;
    let (head, text) = line.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let (_, fields) = text.strip_prefix("audit: type=1326 audit(")?.split_once("): ")?;
    if priority >= 1 << FACILITY_SHIFT || field(fields, "sig=")? != SIGSYS {
        return None;
    }
    Some(Refused {
        pid: field(fields, "pid=")?.parse().ok()?,
        uid: field(fields, "uid=")?.parse().ok()?,
        arch: u32::from_str_radix(field(fields, "arch=")?, 16).ok()?,
        call: field(fields, "syscall=")?.parse().ok()?,
    })
}

/// The value of a field that stands there once.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    let mut values = fields.split(' ').filter_map(|word| word.strip_prefix(name));
    values.next().filter(|_| values.next().is_none())
}

/// Number and name of the call.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (policy::call_name(self.call), self.arch) {
            (Some(name), NATIVE) => write!(f, "{} ({name})", self.call),
            (None, NATIVE) => write!(f, "{}", self.call),
            (_, arch) => write!(f, "{} by the numbers of another architecture ({arch:#x})", self.call),
        }
    }
}

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64`.
const NATIVE: u32 = if cfg!(target_arch = "x86_64") { 0xC000_003E } else { 0xC000_00B7 };

/// A priority is `facility << 3 | level` (syslog(3)).
const FACILITY_SHIFT: u32 = 3;

/// signal(7)
const SIGSYS: &str = "31";

#[cfg(test)]
mod tests {
    use super::*;

    const TRUE: &str = "5,1629,10621461315,-;audit: type=1326 audit(1796042687.105:133326): auid=4294967295 uid=990 gid=990 \
        ses=4294967295 subj=unconfined pid=10806 comm=\"anchorite-worke\" exe=\"/usr/bin/anchorite\" sig=31 arch=c000003e \
        syscall=41 compat=0 ip=0x55e7f8698ec7 code=0x80000000\n";

    #[test]
    fn a_record_of_the_kernel_is_understood() {
        let expected = Some(Refused { pid: 10_806, uid: 990, arch: 0xC000_003E, call: 41 });
        for record in [
            TRUE.to_owned(),
            format!("{TRUE} SUBSYSTEM=x\n DEVICE=y\n"),
            TRUE.replace("subj=unconfined", "subj=anchorite (enforce)"),
            TRUE.replace(",-;", ",-,caller=T10806;"),
        ] {
            assert_eq!(parse(record.as_bytes()), expected, "{record}");
        }
    }

    #[test]
    fn o02_what_is_not_the_kernels_or_not_whole_is_not_believed() {
        for (what, record) in [
            ("written by a user", TRUE.replace("5,1629", "13,1629")),
            ("another facility", TRUE.replace("5,1629", "8,1629")),
            ("not at the beginning", TRUE.replace(";audit:", ";IN=eth0 audit:")),
            ("behind a line break", TRUE.replace(";audit:", ";x\naudit:")),
            ("another type", TRUE.replace("1326", "1327")),
            ("another signal", TRUE.replace("sig=31", "sig=0")),
            ("two process ids", TRUE.replace("pid=10806", "pid=10806 pid=1")),
            ("two calls", TRUE.replace("compat=0", "syscall=1")),
            ("no call", TRUE.replace("syscall=41 ", "")),
            ("no number", TRUE.replace("syscall=41", "syscall=4x1")),
            ("a number below 0", TRUE.replace("pid=10806", "pid=-1")),
            ("a number too large", TRUE.replace("syscall=41", "syscall=4294967296")),
            ("no head", TRUE.replace(';', ",")),
            ("no priority", TRUE.replacen('5', "x", 1)),
        ] {
            assert_ne!(record, TRUE, "{what}");
            assert_eq!(parse(record.as_bytes()), None, "{what}");
        }
        for end in 0..TRUE.len() - "=41 compat=0 ip=0x55e7f8698ec7 code=0x80000000\n".len() {
            assert_eq!(parse(&TRUE.as_bytes()[..end]), None, "{end}");
        }
        assert_eq!(parse(&[TRUE.as_bytes(), b"\xff"].concat()), None);
        for record in [b"".as_slice(), b"\n", b";", &[0; 100], &[0xff; 100]] {
            assert_eq!(parse(record), None);
        }
    }

    #[test]
    fn a_flood_of_records_is_read_in_pieces_and_few_are_kept() {
        // Hands out one record a read, as the kernel's does.
        let (theirs, ours) = std::os::unix::net::UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut log = KernelLog::new(Some(ours.into()), 990);
        let feeder = std::thread::spawn(move || {
            for pid in 0..10_000 {
                theirs.send(TRUE.replace("pid=10806", &format!("pid={pid}")).as_bytes()).unwrap();
                theirs.send(TRUE.replace("uid=990", "uid=0").as_bytes()).unwrap();
            }
        });
        let mut found = None;
        while found.is_none() {
            log.read();
            assert!(log.known.len() <= KNOWN_MAX);
            found = log.take(9_999);
        }
        assert_eq!((log.take(9_999), log.take(0), log.take(10_806)), (None, None, None));
        feeder.join().unwrap();
    }

    #[test]
    fn a_call_is_named_by_the_numbers_of_its_architecture() {
        let call = |arch, call| Refused { pid: 1, uid: 1, arch, call }.to_string();
        let socket = u32::try_from(nix::libc::SYS_socket).unwrap();
        assert_eq!(call(NATIVE, socket), format!("{socket} (socket)"));
        assert_eq!(call(NATIVE, 100_000), "100000");
        assert_eq!(call(0x4000_0003, 11), "11 by the numbers of another architecture (0x40000003)");
    }
}
