//! The program that is to take this one's place, until it does: a child that checks the configuration, while everything else
//! goes on, and then waits for its turn. Used by the parent only, which believes of it that it takes the configuration
//! when it says so in the words that this program would say it in, and nothing else.

use super::clock;
use super::process::{self, Ended};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// How far the replacement of the program has come.
#[derive(Default)]
pub enum Candidate {
    #[default]
    None,
    /// It reads the configuration.
    Checking(Check),
    /// It takes it, and its turn comes when no reload is under way.
    Waiting,
}

impl Candidate {
    /// When its check is ended, in monotonic milliseconds.
    pub fn until(&self) -> Option<u64> {
        match self {
            Candidate::Checking(check) => Some(check.until),
            Candidate::None | Candidate::Waiting => None,
        }
    }

    /// The service ends: so does the check, for which nobody waits any more.
    pub fn abandon(&mut self) {
        if let Candidate::Checking(check) = std::mem::take(self) {
            check.kill();
        }
    }
}

/// A program that checks a configuration, while this process does other things.
pub struct Check {
    child: std::process::Child,
    stderr: std::process::ChildStderr,
    stdout: std::process::ChildStdout,
    said: Vec<u8>,
    /// When it is ended, in monotonic milliseconds.
    pub until: u64,
}

impl Check {
    /// Starts it; `open` are the addresses that this process listens on, which the other could not have beside it.
    ///
    /// # Errors
    /// Why it could not be run.
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    pub fn start(program: &Path, file: &Path, open: &[String]) -> io::Result<Check> {
        use std::process::Stdio;
        let mut command = std::process::Command::new(program);
        command.arg("check").arg("-c").arg(file).args(open.iter().flat_map(|address| ["--open", address]));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().ok_or(io::ErrorKind::NotFound)?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::NotFound)?;
        for pipe in [stderr.as_fd(), stdout.as_fd()] {
            let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?);
            fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        Ok(Check { child, stderr, stdout, said: Vec::new(), until: clock::monotonic_ms() + CHECK_MS })
    }

    /// Takes what it has said since; of that the beginning is kept. False: it has closed its standard error.
    pub fn read(&mut self) -> bool {
        const KEPT: usize = 16 * 1024;
        let mut piece = [0; 4096];
        loop {
            match self.stderr.read(&mut piece) {
                Ok(0) => return false,
                Ok(length) => {
                    let room = KEPT.saturating_sub(self.said.len()).min(length);
                    self.said.extend_from_slice(piece.get(..room).unwrap_or_default());
                }
                Err(fault) => return matches!(fault.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
            }
        }
    }

    /// Whether it is the process of this id, which was reaped.
    pub fn is(&self, pid: i32) -> bool {
        i32::try_from(self.child.id()) == Ok(pid)
    }

    /// Ends it, if it has not ended; to be reaped like any other.
    pub fn kill(&self) {
        process::kill(i32::try_from(self.child.id()).unwrap_or(0).max(1));
    }

    /// Whether it said so. All that it wrote waits in the pipe by now, if it was little.
    fn is_good(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        let length = self.stdout.read(&mut piece).unwrap_or(0);
        piece.get(..length).unwrap_or_default().trim_ascii_end().ends_with(GOOD.as_bytes())
    }

    /// What it found, once it has ended.
    ///
    /// # Errors
    /// What it said, or that it took longer than `CHECK_MS`.
    pub fn outcome(mut self, ended: Ended) -> Result<(), String> {
        self.read();
        match ended {
            Ended::Exited(0) if self.is_good() => Ok(()),
            // Many programs find nothing wrong with whatever they are asked.
            Ended::Exited(0) => Err(format!("it does not say that {GOOD}")),
            // One that ends without a word is no reason; how it ended is.
            Ended::Exited(_) if self.said.trim_ascii().is_empty() => Err(ended.to_string()),
            Ended::Exited(_) => Err(String::from_utf8_lossy(&self.said).trim_end().to_owned()),
            Ended::Signalled(_) if clock::monotonic_ms() >= self.until => Err("it does not come to an end".to_owned()),
            Ended::Signalled(_) => Err(ended.to_string()),
        }
    }
}

impl AsFd for Check {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stderr.as_fd()
    }
}

/// What `anchorite check` says at its end, of every version, when there is nothing to mend.
pub const GOOD: &str = "the configuration is good";

/// How long another program may take to check a configuration.
const CHECK_MS: u64 = 15_000;
