//! The program with one system call tampered with: it fails, or only seems to succeed. By ptrace(2), on every process of it.
//!
//! Everything happens in the thread that calls [`run`], because ptrace and the waiting for what is traced belong to a thread.

use crate::support::PATIENCE;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;

/// Which call of which process, and what becomes of it.
#[derive(Clone, Copy)]
pub(crate) struct Tampering {
    /// How the title of the process begins.
    pub(crate) whom: &'static str,
    pub(crate) call: i64,
    /// Which of those calls, by their arguments.
    pub(crate) which: fn(&[u64; 6]) -> bool,
    /// Only the n-th of those in a process, from 1; 0: each of them.
    pub(crate) nth: u32,
    /// Returned in place of making the call; an errno is negative.
    pub(crate) result: i64,
}

/// What a test tampers with while `serving` runs, in the processes that its [`Tampering`] names: one call at a time.
pub(crate) struct Injection {
    pub(crate) call: i64,
    /// As [`Tampering::result`], or [`SHORT`].
    pub(crate) result: i64,
    /// How many calls are still to be tampered with.
    pub(crate) times: u32,
}

/// In place of a result: the call is made with a length of one.
pub(crate) const SHORT: i64 = i64::MIN;

/// Each test is a process of its own, so that this is one test's.
static INJECTION: Mutex<Injection> = Mutex::new(Injection { call: NONE, result: 0, times: 0 });

/// No call has this number.
pub(crate) const NONE: i64 = -1;

impl Injection {
    /// From now on.
    pub(crate) fn begin(call: i64, result: i64, times: u32) {
        *INJECTION.lock().unwrap() = Injection { call, result, times };
    }

    /// No longer; how many calls were not made.
    pub(crate) fn end() -> u32 {
        let mut injection = INJECTION.lock().unwrap();
        injection.call = NONE;
        injection.times
    }

    /// What becomes of a call.
    fn take(call: i64) -> Option<i64> {
        let mut injection = INJECTION.lock().unwrap();
        if injection.call != call || injection.times == 0 {
            return None;
        }
        injection.times -= 1;
        Some(injection.result)
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Tampered {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    /// How many calls were tampered with.
    pub(crate) times: usize,
    /// Whether it said that it is ready; it was told to end then.
    pub(crate) was_ready: bool,
}

/// Runs a command to its end, and everything that it starts; once it says that it is ready it is told to end.
pub(crate) fn run(command: &[String], tampering: &Tampering) -> Tampered {
    run_and(command, tampering, |_, _| ())
}

/// The same, but when it is ready `serving` runs, with its process id and its stderr so far, before it is told to end.
#[expect(clippy::zombie_processes, reason = "its end comes to the tracer")]
pub(crate) fn run_and(command: &[String], tampering: &Tampering, serving: impl FnOnce(i32, &str) + Send + 'static) -> Tampered {
    let home = tempfile::tempdir().unwrap();
    let stderr = home.path().join("stderr");
    // Waits for a line, so that it is traced before it does anything.
    let mut child = Command::new("bash")
        .args(["-c", "read -r && exec \"$@\" < /dev/null", "bash"])
        .args(command)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&stderr).unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    let root = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD
        | ptrace::Options::PTRACE_O_TRACEFORK
        | ptrace::Options::PTRACE_O_TRACEVFORK
        | ptrace::Options::PTRACE_O_TRACECLONE
        | ptrace::Options::PTRACE_O_EXITKILL;
    ptrace::seize(root, options).unwrap();
    ptrace::interrupt(root).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"\n").unwrap();
    let (over, watch) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let in_time = watch.recv_timeout(PATIENCE * 12).is_ok();
        if !in_time {
            let _ = kill(root, Signal::SIGKILL);
        }
        in_time
    });
    let mut tracer = Tracer {
        tampering: *tampering,
        root,
        stderr,
        code: None,
        counts: BTreeMap::new(),
        pending: BTreeMap::new(),
        times: 0,
        serving: Some(Box::new(serving)),
        served: None,
    };
    tracer.follow();
    let _ = over.send(());
    let stderr = String::from_utf8_lossy(&fs::read(&tracer.stderr).unwrap()).into_owned();
    assert!(watchdog.join().unwrap(), "{command:?} did not end in time: {stderr}");
    let was_ready = tracer.served.is_some();
    if let Some(Err(panic)) = tracer.served.map(JoinHandle::join) {
        eprintln!("{stderr}");
        std::panic::resume_unwind(panic);
    }
    Tampered { code: tracer.code, stderr, times: tracer.times, was_ready }
}

struct Tracer {
    tampering: Tampering,
    root: Pid,
    stderr: std::path::PathBuf,
    code: Option<i32>,
    /// Matching calls so far, by process.
    counts: BTreeMap<i32, u32>,
    /// Processes in a call that was taken away.
    pending: BTreeMap<i32, i64>,
    times: usize,
    serving: Option<Serving>,
    /// The thread in which `serving` runs: this one must let the processes go on meanwhile.
    served: Option<JoinHandle<()>>,
}

type Serving = Box<dyn FnOnce(i32, &str) + Send>;

impl Tracer {
    /// Until nothing that is traced is left.
    fn follow(&mut self) {
        // Not the children of other tests in this process.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        while let Ok(status) = waitpid(None, Some(flags)) {
            match status {
                WaitStatus::PtraceSyscall(pid) => {
                    self.at_call(pid);
                    let _ = ptrace::syscall(pid, None);
                }
                WaitStatus::PtraceEvent(pid, _, _) => {
                    let _ = ptrace::syscall(pid, None);
                }
                WaitStatus::Stopped(pid, signal) => {
                    let _ = ptrace::syscall(pid, signal);
                }
                WaitStatus::Exited(pid, code) if pid == self.root => self.code = Some(code),
                _ => {}
            }
        }
    }

    fn at_call(&mut self, pid: Pid) {
        // Fails when the process was killed meanwhile.
        let (Ok(info), Ok(mut registers)) = (ptrace::syscall_info(pid), ptrace::getregs(pid)) else {
            return;
        };
        if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
            let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
            let call = registers.orig_rax.cast_signed();
            match self.meant(pid, call, &arguments) {
                None => return,
                Some(SHORT) if call == libc::SYS_sendfile => registers.r10 = 1,
                // The length of a buffer, or the number of buffers.
                Some(SHORT) => registers.rdx = 1,
                Some(result) => {
                    // A call that does nothing, and that every filter allows: those see what it was changed to.
                    registers.orig_rax = libc::SYS_getpid.cast_unsigned();
                    self.pending.insert(pid.as_raw(), result);
                }
            }
            let _ = ptrace::setregs(pid, registers);
            self.times += 1;
        } else if let Some(result) = self.pending.remove(&pid.as_raw()) {
            registers.rax = result.cast_unsigned();
            let _ = ptrace::setregs(pid, registers);
        } else if pid == self.root && registers.orig_rax.cast_signed() == libc::SYS_write {
            self.look_whether_ready();
        }
    }

    fn look_whether_ready(&mut self) {
        let text = fs::read_to_string(&self.stderr).unwrap_or_default();
        if text.contains("anchorite: ready")
            && let Some(serving) = self.serving.take()
        {
            let root = self.root;
            self.served = Some(std::thread::spawn(move || {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serving(root.as_raw(), &text)));
                let _ = kill(root, Signal::SIGTERM);
                if let Err(panic) = outcome {
                    std::panic::resume_unwind(panic);
                }
            }));
        }
    }

    /// What becomes of a call, if it is one to tamper with.
    fn meant(&mut self, pid: Pid, call: i64, arguments: &[u64; 6]) -> Option<i64> {
        let tampering = &self.tampering;
        let from_the_start = call == tampering.call && (tampering.which)(arguments);
        if !from_the_start && call != INJECTION.lock().unwrap().call {
            return None;
        }
        let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if !title.starts_with(tampering.whom.as_bytes()) {
            return None;
        }
        if !from_the_start {
            return Injection::take(call);
        }
        let count = self.counts.entry(pid.as_raw()).or_default();
        *count += 1;
        (tampering.nth == 0 || *count == tampering.nth).then_some(tampering.result)
    }
}
