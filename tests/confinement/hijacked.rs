//! A hijacked worker: the system calls that shell-code would make, made in a live worker, achieve nothing, and the service
//! goes on. Rows `K` of the cases the server is built against:
//!
//! | file | cases |
//! |---|---|
//! | `hijacked/files.rs` | K01, K02, K03, K04, K14, K34 |
//! | `hijacked/network.rs` | K05, K06, K07, K08, K22, K29 |
//! | `hijacked/system.rs` | K09, K10, K11, K12, K13, K18, K19, K20, K21, K23, K24, K25, K27, K31 |
//!
//! K15 stands in `messages.rs`, K32 in `seccomp.rs`.
//!
//! A call that the filter refuses costs its worker, so each gets one of its own: the service is started with as many.

mod files;
mod network;
mod system;

use crate::hijack::Hijacked;
use crate::support::{Configuration, PATIENCE, Root, Server, is_alive, needs_root, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// What should become of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right {
    /// The filter ends the worker.
    Dies,
    /// The worker goes on with one of these errnos.
    Fails(&'static [i32]),
}

pub(crate) type Make = Box<dyn Fn(&mut Hijacked) -> Outcome>;

pub(crate) struct Attempt {
    pub(crate) name: String,
    pub(crate) make: Make,
    right: Right,
}

pub(crate) fn attempt(name: impl Into<String>, right: Right, make: impl Fn(&mut Hijacked) -> Outcome + 'static) -> Attempt {
    Attempt { name: name.into(), make: Box::new(make), right }
}

/// A call with these arguments, which must cost its worker.
pub(crate) fn dies(name: &str, call: i64, arguments: [u64; 6]) -> Attempt {
    attempt(name, Right::Dies, move |worker| worker.call(call, arguments))
}

/// Each of these calls, with zeros.
pub(crate) fn die(calls: &[(&str, i64)]) -> Vec<Attempt> {
    calls.iter().map(|(name, call)| dies(name, *call, [0; 6])).collect()
}

/// A service with a worker for each attempt and one that is left alone.
pub(crate) struct Target {
    pub(crate) root: Root,
    pub(crate) server: Server,
    pub(crate) workers: Vec<i32>,
}

impl Target {
    pub(crate) fn new(workers: usize) -> Target {
        let root = Root::with_index();
        let configuration = Configuration::of(&root.path()).server_also(&format!("workers = {workers}"));
        let server = Server::run(&configuration);
        crate::wait_for_listeners(&server);
        let workers = server.workers();
        Target { root, server, workers }
    }

    /// Makes every attempt in a worker of its own, then looks whether anything but those workers has changed.
    pub(crate) fn withstands(&self, attempts: &[Attempt]) {
        assert!(self.workers.len() > attempts.len(), "a worker for each attempt, and one more");
        let (parent, log) = (self.server.parent(), self.server.log_process());
        let mut killed = BTreeSet::new();
        for (attempt, pid) in attempts.iter().zip(&self.workers) {
            let mut worker = Hijacked::take(*pid);
            let outcome = (attempt.make)(&mut worker);
            drop(worker);
            match attempt.right {
                Right::Dies => assert!(outcome.is_refused(), "{}: {outcome:?}", attempt.name),
                Right::Fails(errnos) => {
                    assert!(errnos.iter().any(|errno| outcome == Outcome::Returned(-i64::from(*errno))), "{}: {outcome:?}", attempt.name)
                }
            }
            if outcome.is_refused() {
                killed.insert(*pid);
            }
        }
        self.goes_on(&killed);
        let errors = self.errors();
        assert_eq!(errors.matches("ended: SIGSYS").count(), killed.len(), "{errors}");
        assert!(is_alive(parent));
        assert_eq!(self.server.log_process(), log);
    }

    /// All workers but these are the same ones, these are replaced, and the service answers.
    #[track_caller]
    pub(crate) fn goes_on(&self, killed: &BTreeSet<i32>) {
        let mut now = Vec::new();
        let replaced = wait_until(PATIENCE, || {
            now = self.server.workers();
            now.len() == self.workers.len() && !now.iter().any(|pid| killed.contains(pid))
        });
        assert!(replaced.is_some(), "not replaced: {:?}", self.server.processes());
        let untouched = self.workers.iter().filter(|pid| !killed.contains(pid));
        assert!(untouched.clone().all(|pid| now.contains(pid)), "another worker ended: {now:?}");
        assert_eq!(self.server.get("/").must_be(&[200]).text(), "index\n");
    }

    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.server.home().join("error.log")).unwrap()
    }
}

pub(crate) fn withstands(attempts: Vec<Attempt>) {
    needs_root!();
    Target::new(attempts.len() + 1).withstands(&attempts);
}

/// Nothing there, or no right to it.
pub(crate) const ABSENT: Right = Right::Fails(&[libc::ENOENT, libc::EACCES]);
pub(crate) const NO_CALL: Right = Right::Fails(&[libc::ENOSYS]);

pub(crate) fn opens(directory: impl Fn(&Hijacked) -> i32 + 'static, path: &str, flags: i32, right: Right) -> Attempt {
    let text = path.to_owned();
    attempt(format!("openat2 {path}"), right, move |worker| {
        let directory = directory(worker);
        worker.openat2(directory, &text, flags)
    })
}

pub(crate) fn here(_: &Hijacked) -> i32 {
    libc::AT_FDCWD
}

pub(crate) fn descriptors(pid: i32) -> Vec<(i32, PathBuf)> {
    let mut found: Vec<(i32, PathBuf)> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, fs::read_link(entry.path()).ok()?)))
        .filter(|(number, _)| *number > 2)
        .collect();
    found.sort();
    found
}

/// Number of the channel to `log` in a worker.
pub(crate) const LOG_CHANNEL: u64 = 5;
