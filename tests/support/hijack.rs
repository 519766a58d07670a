//! A live process taken over by ptrace(2), to make the system calls that shell-code in it would make.
//!
//! The process waits in a system call, so there is a `syscall` instruction right before its instruction pointer: it is run
//! again with other registers. The filter of the process judges the call as if the process had made it. Strings and
//! structures lie in memory that the hijacked process maps itself, as shell-code could.

use crate::support::{PATIENCE, status_field, wait_until};
use crate::syscall::Outcome;
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// A process that this thread holds. Dropping it lets it go on where it was taken.
pub(crate) struct Hijacked {
    pid: Pid,
    taken: user_regs_struct,
    alive: bool,
    /// Where the next bytes are placed, and the end of the room.
    room: Option<(u64, u64)>,
}

impl Hijacked {
    /// Takes a process over while it waits in a system call.
    pub(crate) fn take(pid: i32) -> Self {
        let pid = Pid::from_raw(pid);
        ptrace::seize(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap_or_else(|errno| panic!("seize {pid}: {errno}"));
        let mut hijacked = Self { pid, taken: stopped(pid), alive: true, room: None };
        let waits = wait_until(PATIENCE, || {
            let instruction = hijacked.read(hijacked.taken.rip - 2, 2);
            if instruction == SYSCALL && hijacked.taken.orig_rax != u64::MAX {
                return true;
            }
            ptrace::cont(pid, None).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            hijacked.taken = stopped(pid);
            false
        });
        assert!(waits.is_some(), "{pid} never waits in a system call");
        hijacked
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Makes one system call.
    pub(crate) fn call(&mut self, number: i64, arguments: [u64; 6]) -> Outcome {
        let mut registers = self.taken;
        registers.rip -= 2;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        self.enter(registers, number)
    }

    /// Makes one system call through `int 0x80`, with the numbers and the 32 bits of that table.
    pub(crate) fn call_int80(&mut self, number: i64, arguments: [u64; 6]) -> Outcome {
        // Shell-code would find these two bytes in the program or its libraries; here they are put in its way.
        let place = self.taken.rip - 2;
        self.write(place, &INT_80);
        let mut registers = self.taken;
        registers.rip = place;
        [registers.rbx, registers.rcx, registers.rdx, registers.rsi, registers.rdi, registers.rbp] = arguments;
        let outcome = self.enter(registers, number);
        if self.alive {
            self.write(place, &SYSCALL);
        }
        outcome
    }

    fn enter(&mut self, mut registers: user_regs_struct, number: i64) -> Outcome {
        assert!(self.alive, "{} has died", self.pid);
        registers.rax = number.cast_unsigned();
        // Not in a system call: the kernel shall not restart the one that was interrupted.
        registers.orig_rax = u64::MAX;
        ptrace::setregs(self.pid, registers).unwrap();
        // Once into the call, once out of it.
        for _ in 0..2 {
            // Fails when it was killed meanwhile, which the wait then tells.
            let _ = ptrace::syscall(self.pid, None);
            match wait(self.pid) {
                WaitStatus::PtraceSyscall(_) => {}
                WaitStatus::Signaled(_, signal, _) => {
                    self.alive = false;
                    return Outcome::Killed(signal as i32);
                }
                WaitStatus::Exited(_, status) => {
                    self.alive = false;
                    return Outcome::Exited(status);
                }
                WaitStatus::Stopped(_, signal) => {
                    ptrace::syscall(self.pid, signal).unwrap();
                    self.alive = !matches!(wait(self.pid), WaitStatus::Signaled(..) | WaitStatus::Exited(..));
                    return Outcome::Killed(signal as i32);
                }
                other => panic!("{other:?} in call {number}"),
            }
        }
        if let (Ok(registers), false) = (ptrace::getregs(self.pid), self.is_dying()) {
            return Outcome::Returned(registers.rax.cast_signed());
        }
        // The filter has sent the signal that ends the process; the kernel stops it on its way out all the same.
        let mut signal = None;
        loop {
            let _ = ptrace::cont(self.pid, signal);
            match wait(self.pid) {
                WaitStatus::Stopped(_, fatal) => signal = Some(fatal),
                WaitStatus::Signaled(_, fatal, _) => {
                    self.alive = false;
                    return Outcome::Killed(fatal as i32);
                }
                other => panic!("{other:?} after call {number}"),
            }
        }
    }

    /// Whether SIGSYS or SIGKILL is on its way. Others are not fatal: SIGPIPE, which the program ignores, waits here too.
    fn is_dying(&self) -> bool {
        let pending = u64::from_str_radix(&status_field(self.pid(), "SigPnd"), 16).unwrap();
        [libc::SIGSYS, libc::SIGKILL].iter().any(|signal| pending & (1 << (signal - 1)) != 0)
    }

    /// Lets it go on at an address where nothing is.
    pub(crate) fn crash(mut self) {
        let mut registers = self.taken;
        registers.rip = 0;
        registers.orig_rax = u64::MAX;
        ptrace::setregs(self.pid, registers).and_then(|()| ptrace::detach(self.pid, None)).unwrap();
        self.alive = false;
    }

    /// Puts bytes into the memory of the process; their address there.
    pub(crate) fn place(&mut self, bytes: &[u8]) -> u64 {
        const ROOM: u64 = 1 << 20;
        let (start, end) = self.room.unwrap_or_else(|| {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let arguments = [0, ROOM, access.cast_unsigned().into(), kind.cast_unsigned().into(), u64::MAX, 0];
            let Outcome::Returned(address @ 1..) = self.call(libc::SYS_mmap, arguments) else {
                panic!("mmap in {}", self.pid);
            };
            (address.cast_unsigned(), address.cast_unsigned() + ROOM)
        });
        let length = u64::try_from(bytes.len()).unwrap();
        assert!(start + length <= end, "no room in {}", self.pid);
        self.write(start, bytes);
        self.room = Some(((start + length).next_multiple_of(16), end));
        start
    }

    /// Puts a string with its NUL there.
    pub(crate) fn text(&mut self, text: &str) -> u64 {
        self.place(&[text.as_bytes(), b"\0"].concat())
    }

    /// `openat2` with these flags and no resolve restriction.
    pub(crate) fn openat2(&mut self, directory: i32, path: &str, flags: i32) -> Outcome {
        let path = self.text(path);
        let makes = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let mode: u64 = if makes { 0o644 } else { 0 };
        let how = [u64::from(flags.cast_unsigned()), mode, 0].map(u64::to_ne_bytes).concat();
        let how = self.place(&how);
        self.call(libc::SYS_openat2, [number(directory), path, how, 24, 0, 0])
    }

    pub(crate) fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory().read_exact_at(&mut bytes, address).unwrap();
        bytes
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        self.memory().write_all_at(bytes, address).unwrap();
    }

    fn memory(&self) -> std::fs::File {
        let path = PathBuf::from(format!("/proc/{}/mem", self.pid));
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }
}

impl Drop for Hijacked {
    fn drop(&mut self) {
        if !self.alive {
            return;
        }
        let mut registers = self.taken;
        // Into the call again that it waited in.
        registers.rip -= 2;
        registers.rax = registers.orig_rax;
        registers.orig_rax = u64::MAX;
        let let_go = ptrace::setregs(self.pid, registers).and_then(|()| ptrace::detach(self.pid, None));
        if let_go.is_err() {
            // It was killed meanwhile; its parent is told only after this.
            let _ = waitpid(self.pid, Some(WaitPidFlag::__WALL));
        }
    }
}

/// An integer argument as it stands in a register.
pub(crate) fn number(value: i32) -> u64 {
    i64::from(value).cast_unsigned()
}

fn stopped(pid: Pid) -> user_regs_struct {
    ptrace::interrupt(pid).unwrap();
    match wait(pid) {
        WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..) => ptrace::getregs(pid).unwrap(),
        other => panic!("{pid} is {other:?}"),
    }
}

fn wait(pid: Pid) -> WaitStatus {
    let mut status = WaitStatus::StillAlive;
    let changed = wait_until(PATIENCE, || {
        status = waitpid(pid, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)).unwrap();
        status != WaitStatus::StillAlive
    });
    assert!(changed.is_some(), "{pid} neither stops nor ends");
    status
}

const SYSCALL: [u8; 2] = [0x0F, 0x05];
const INT_80: [u8; 2] = [0xCD, 0x80];
