//! A copy of this process that does one thing which may take for ever, says what it finds over a pipe and ends. Used by `scout` and
//! `resolve`, so by the parent, by `connect` before it is confined, and by commands; never by a process of several threads.

use super::{clock, process, socket};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe2};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Such a process, and where it is heard.
pub(super) struct Errand {
    child: Pid,
    pipe: File,
}

impl Errand {
    /// Has a new process do that, which has no descriptor but the pipe.
    pub(super) fn begin(run: impl FnOnce(File)) -> io::Result<Errand> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        // SAFETY: this program has one thread, so the child is a whole copy in which any code may run.
        match unsafe { fork() }? {
            ForkResult::Child => {
                // Whatever comes, a panic included, ends here: nothing of the caller may run a second time.
                let _end = End;
                if let Ok(pipe) = leave_all_but(writer) {
                    run(pipe);
                }
                Err(io::ErrorKind::Other.into())
            }
            ForkResult::Parent { child } => Ok(Errand { child, pipe: reader.into() }),
        }
    }

    /// The next that it says; 0: it has ended. `None`: it has said nothing until then (monotonic milliseconds).
    pub(super) fn hear(&mut self, buffer: &mut [u8], until: u64) -> io::Result<Option<usize>> {
        loop {
            let left = until.saturating_sub(clock::monotonic_ms());
            let timeout = PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX));
            match poll(&mut [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)], timeout) {
                Err(Errno::EINTR) => {}
                Err(fault) => return Err(fault.into()),
                Ok(0) if left == 0 => return Ok(None),
                Ok(0) => {}
                Ok(_) => return self.pipe.read(buffer).map(Some),
            }
        }
    }

    /// Ends it. One that hangs in the kernel (on a mount whose server is away, not even SIGKILL ends it) is left to be reaped later, or by
    /// whoever inherits it: nobody waits for it here.
    pub(super) fn end(self) {
        process::kill(self.child.as_raw());
        let until = clock::monotonic_ms() + REAP_MS;
        while matches!(waitpid(self.child, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive)) && clock::monotonic_ms() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Ends the process when it goes.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: _exit(2) is always sound; exit(3) would run the caller's handlers in the child.
        unsafe { libc::_exit(0) }
    }
}

/// Closes everything but the pipe: what hangs must hold no socket, log or standard stream open.
fn leave_all_but(pipe: OwnedFd) -> io::Result<File> {
    const PIPE: RawFd = process::FIRST_GIVEN;
    let null = socket::null()?;
    let pipe = process::above_given(pipe)?;
    for (from, to) in [(&null, 0), (&null, 1), (&null, 2), (&pipe, PIPE)] {
        // SAFETY: dup2(2) touches no memory, and this process uses nothing of what had the number.
        Errno::result(unsafe { libc::dup2(from.as_raw_fd(), to) })?;
    }
    std::mem::forget((null, pipe));
    // SAFETY: close_range(2) touches no memory; all that is open above belongs to the caller, whose code does not go on here.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, PIPE + 1, u32::MAX, 0) })?;
    // SAFETY: it was put there, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(PIPE) })
}

/// How long the end of one is waited for.
const REAP_MS: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(errand: &mut Errand, until: u64) -> Vec<u8> {
        let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(Some(count @ 1..)) = errand.hear(&mut buffer, until) {
            said.extend_from_slice(&buffer[..count]);
        }
        said
    }

    #[test]
    fn it_has_no_descriptor_but_the_pipe_and_is_gone_when_it_panics() {
        let later = clock::monotonic_ms() + 60_000;
        let open = |mut pipe: File| {
            for number in 0..64 {
                // SAFETY: asks whether a number is in use.
                if unsafe { libc::fcntl(number, libc::F_GETFD) } != -1 {
                    let _ = write!(pipe, "{number} ");
                }
            }
        };
        let mut errand = Errand::begin(open).unwrap();
        assert_eq!(all(&mut errand, later), b"0 1 2 3 ");
        errand.end();
        let mut errand = Errand::begin(|_| panic!("its output goes nowhere")).unwrap();
        assert_eq!(all(&mut errand, later), b"");
        errand.end();
    }

    #[test]
    fn who_says_nothing_is_not_waited_for_and_ended() {
        let mut errand = Errand::begin(|_| std::thread::sleep(Duration::from_secs(600))).unwrap();
        let child = errand.child;
        assert_eq!(errand.hear(&mut [0; 16], clock::monotonic_ms() + 20).unwrap(), None);
        errand.end();
        assert_eq!(waitpid(child, None), Err(Errno::ECHILD));
    }
}
