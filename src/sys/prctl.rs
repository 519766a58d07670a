//! prctl(2) operations that `nix` does not wrap. Runs in every role while it is confined.

use nix::errno::Errno;
use nix::libc::{self, c_int, c_ulong};
use std::io;

/// Calls prctl(2) with integer arguments only.
fn integers(option: c_int, second: c_ulong, third: c_ulong) -> io::Result<c_int> {
    const UNUSED: c_ulong = 0;
    // SAFETY: the callers below pass only operations whose arguments are integers, so the kernel touches no memory of ours.
    let result = unsafe { libc::prctl(option, second, third, UNUSED, UNUSED) };
    Ok(Errno::result(result)?)
}

/// Drops one capability from the bounding set; `EINVAL`: the kernel does not know one of that number.
pub(super) fn drop_bounding(capability: u32) -> io::Result<()> {
    integers(libc::PR_CAPBSET_DROP, c_ulong::from(capability), 0).map(drop)
}

/// Whether a capability is in the bounding set; `EINVAL`: the kernel does not know one of that number.
pub(super) fn in_bounding(capability: u32) -> io::Result<bool> {
    Ok(integers(libc::PR_CAPBSET_READ, c_ulong::from(capability), 0)? != 0)
}

/// Sets the securebits, capabilities(7).
pub(super) fn set_securebits(bits: c_int) -> io::Result<()> {
    let bits = c_ulong::try_from(bits).map_err(|_| io::ErrorKind::InvalidInput)?;
    integers(libc::PR_SET_SECUREBITS, bits, 0).map(drop)
}

pub(super) fn securebits() -> io::Result<c_int> {
    integers(libc::PR_GET_SECUREBITS, 0, 0)
}

/// Memory-deny-write-execute: no mapping of this process becomes executable any more (Linux 6.3).
pub(super) fn set_mdwe() -> io::Result<()> {
    integers(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0).map(drop)
}

pub(super) fn mdwe() -> io::Result<bool> {
    Ok(integers(PR_GET_MDWE, 0, 0)? & 1 == 1)
}

/// The seccomp mode of this thread: what the `ENOSYS` filter makes of the question says whether the filter is there.
pub(super) fn seccomp_mode() -> io::Result<c_int> {
    integers(libc::PR_GET_SECCOMP, 0, 0)
}

// linux/prctl.h; not in the C library's headers of the oldest supported distributions.
const PR_SET_MDWE: c_int = 65;
const PR_GET_MDWE: c_int = 66;
const PR_MDWE_REFUSE_EXEC_GAIN: c_ulong = 1;
