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
use std::sync::mpsc;
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
        let in_time = watch.recv_timeout(PATIENCE).is_ok();
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
    assert!(watchdog.join().unwrap(), "{command:?} did not end in {PATIENCE:?}: {stderr}");
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
            if self.is_meant(pid, registers.orig_rax.cast_signed(), &arguments) {
                // No call of this number: the kernel does nothing.
                registers.orig_rax = u64::MAX;
                let _ = ptrace::setregs(pid, registers);
                self.pending.insert(pid.as_raw(), self.tampering.result);
                self.times += 1;
            }
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

    fn is_meant(&mut self, pid: Pid, call: i64, arguments: &[u64; 6]) -> bool {
        let tampering = &self.tampering;
        if call != tampering.call || !(tampering.which)(arguments) {
            return false;
        }
        let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if !title.starts_with(tampering.whom.as_bytes()) {
            return false;
        }
        let count = self.counts.entry(pid.as_raw()).or_default();
        *count += 1;
        tampering.nth == 0 || *count == tampering.nth
    }
}
