//! What the error log says of processes that a filter ended: for which system call. CONFINED like `log`, which alone runs it;
//! it reads the kernel's log, which the parent opened, and believes only the kernel.

use crate::sys::kernel_log::KernelLog;

/// Processes that ended by SIGSYS and whose record is looked for.
pub(super) struct Refusals {
    kernel_log: KernelLog,
    /// Process ids, each with the moment at which the search ends, in monotonic milliseconds.
    wanted: Vec<(u32, u64)>,
}

impl Refusals {
    pub(super) fn new(kernel_log: KernelLog) -> Refusals {
        Refusals { kernel_log, wanted: Vec::new() }
    }

    /// A process ended by SIGSYS. Its record may come a moment later: the kernel writes it in a thread of its own.
    pub(super) fn want(&mut self, pid: u32, now: u64) {
        self.wanted.push((pid, now + SEARCH_MS));
    }

    /// When to look again.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        (!self.wanted.is_empty()).then_some(now + LOOK_AGAIN_MS)
    }

    /// A line for each process whose record was found, or whose time is over.
    pub(super) fn look(&mut self, now: u64) -> Vec<String> {
        let ended = self.wanted.is_empty() || self.kernel_log.read();
        let mut lines = Vec::new();
        self.wanted.retain(|(pid, until)| {
            match self.kernel_log.take(*pid) {
                Some(refused) => lines.push(format!("pid {pid} was ended by SIGSYS for the system call {refused}")),
                None if ended && now >= *until => lines.push(format!("pid {pid} was ended by SIGSYS; {UNKNOWN}")),
                None => return true,
            }
            false
        });
        lines
    }
}

const UNKNOWN: &str = "the kernel's log does not tell the system call: auditd takes such records away, kernel.printk_ratelimit \
    drops them, and a container has other process ids; look for an audit record of type SECCOMP (1326)";

/// How long a record is looked for, and how often.
const SEARCH_MS: u64 = 1_000;
const LOOK_AGAIN_MS: u64 = 25;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// A log that hands out one record a read, as the kernel's does.
    fn log() -> (UnixDatagram, Refusals) {
        let (theirs, ours) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (theirs, Refusals::new(KernelLog::new(Some(ours.into()), 990)))
    }

    fn tell(log: &UnixDatagram, pid: u32, uid: u32, call: u32) {
        let record = format!(
            "5,1,1,-;audit: type=1326 audit(1.1:1): auid=1 uid={uid} gid=1 ses=1 pid={pid} comm=\"x\" exe=\"/x\" sig=31 arch=0 \
             syscall={call} compat=0 ip=0x0 code=0x80000000\n"
        );
        log.send(record.as_bytes()).unwrap();
    }

    #[test]
    fn o02_a_record_is_found_before_and_after_it_is_asked_for() {
        let (kernel, mut refusals) = log();
        assert!(refusals.look(0).is_empty() && refusals.due(0).is_none());
        refusals.want(7, 0);
        assert!(refusals.look(0).is_empty() && refusals.due(0).is_some());
        tell(&kernel, 8, 990, 2);
        tell(&kernel, 7, 0, 3);
        assert!(refusals.look(1).is_empty(), "of another user");
        tell(&kernel, 7, 990, 4);
        let line = refusals.look(2).pop().unwrap();
        assert!(line.starts_with("pid 7 was ended by SIGSYS for the system call 4 "), "{line}");
        refusals.want(8, 3);
        assert!(refusals.look(3)[0].starts_with("pid 8 was ended by SIGSYS for the system call 2 "));
        assert!(refusals.look(4).is_empty() && refusals.due(4).is_none());
    }

    #[test]
    fn o02_without_a_record_the_line_says_where_to_look() {
        let (_kernel, mut refusals) = log();
        refusals.want(7, 100);
        assert!(refusals.look(99 + SEARCH_MS).is_empty());
        assert_eq!(refusals.look(100 + SEARCH_MS), [format!("pid 7 was ended by SIGSYS; {UNKNOWN}")]);
    }
}
