//! One raw system call in a child of the test that has a role's compiled filters, and what became of it.
//!
//! The test has several threads, so between fork and the end the child makes system calls only: no allocation, no lock.
#![expect(unsafe_code, reason = "fork, a raw system call and a page shared with the child have no safe wrapper")]

use anchorite::sys::policy::Instruction;
use anchorite::sys::seccomp;
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::sync::atomic::{AtomicI64, Ordering};

/// What a system call led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It returned this; an errno is negative.
    Returned(i64),
    /// It ended the process, as exit(2) does.
    Exited(i32),
    /// The process was killed by this signal.
    Killed(i32),
}

impl Outcome {
    /// Whether the filter ended the process.
    pub(crate) fn is_refused(self) -> bool {
        self == Outcome::Killed(libc::SIGSYS)
    }
}

/// By which door the kernel is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The `syscall` instruction.
    Native,
    /// `int 0x80`: the 32-bit table, where every number means something else.
    Int80,
}

/// Makes one call in a child under `filters`, which are installed in this order. A call that blocks is ended by SIGALRM.
pub(crate) fn attempt(filters: &[&[Instruction]], entry: Entry, number: i64, arguments: [u64; 6]) -> Outcome {
    let page = Shared::new();
    // SAFETY: the child only makes system calls and ends with _exit, see `child`.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => child(filters, entry, number, arguments, &page),
        ForkResult::Parent { child } => match waitpid(child, None).expect("waitpid") {
            WaitStatus::Exited(_, _) if page.value().load(Ordering::SeqCst) != NOT_RETURNED => {
                Outcome::Returned(page.value().load(Ordering::SeqCst))
            }
            WaitStatus::Exited(_, BROKEN) => panic!("the filters could not be installed"),
            WaitStatus::Exited(_, status) => Outcome::Exited(status),
            WaitStatus::Signaled(_, signal, _) => Outcome::Killed(signal as i32),
            other => panic!("the child is {other:?}"),
        },
    }
}

/// Sets no_new_privs for the calling thread and gives it these filters: for a process of its own that then panics.
pub(crate) fn confine(filters: &[&[Instruction]]) {
    nix::sys::prctl::set_no_new_privs().expect("no_new_privs");
    for filter in filters {
        seccomp::install(filter).expect("seccomp");
    }
}

fn child(filters: &[&[Instruction]], entry: Entry, number: i64, arguments: [u64; 6], page: &Shared) -> ! {
    const SECONDS: libc::c_uint = 2;
    // SAFETY: system calls with integer arguments only. A session of its own keeps calls about terminals from the test's;
    // the default action of SIGSEGV replaces the handler of the standard library, which is not for a forked child.
    unsafe {
        libc::setsid();
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::alarm(SECONDS);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        for filter in filters {
            if seccomp::install(filter).is_err() {
                libc::_exit(BROKEN);
            }
        }
        let returned = enter(entry, number, arguments);
        page.value().store(returned, Ordering::SeqCst);
        libc::_exit(0)
    }
}

/// Enters the kernel; what it returns, an errno negative.
///
/// # Safety
/// The call may do anything to this process: only for a child that ends at once.
#[cfg(target_arch = "x86_64")]
unsafe fn enter(entry: Entry, number: i64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    let returned;
    // SAFETY: the register use of the two entries as the kernel documents it; what it may do to memory is the caller's concern.
    unsafe {
        match entry {
            Entry::Native => std::arch::asm!(
                "syscall",
                inlateout("rax") number => returned,
                in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
                lateout("rcx") _, lateout("r11") _,
            ),
            Entry::Int80 => std::arch::asm!(
                "int 0x80",
                inlateout("rax") number => returned,
                in("rcx") b, in("rdx") c, in("rsi") d, in("rdi") e,
                lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
            ),
        }
    }
    returned
}

/// One number that a child writes and the test reads.
struct Shared(std::ptr::NonNull<AtomicI64>);

impl Shared {
    fn new() -> Self {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
        let length = std::num::NonZeroUsize::new(size_of::<AtomicI64>()).expect("not zero");
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED) };
        let page = Self(address.expect("mmap").cast());
        page.value().store(NOT_RETURNED, Ordering::SeqCst);
        page
    }

    fn value(&self) -> &AtomicI64 {
        // SAFETY: the page is mapped, aligned and zeroed by the kernel, and lives as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this length, and no reference outlives `self`.
        let _ = unsafe { nix::sys::mman::munmap(self.0.cast(), size_of::<AtomicI64>()) };
    }
}

/// No call returns this: errnos end at -4095.
const NOT_RETURNED: i64 = i64::MIN;

/// Exit status of a child whose filters could not be installed.
const BROKEN: i32 = 253;
