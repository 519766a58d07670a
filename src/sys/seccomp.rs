//! Installs the compiled seccomp filters (seccomp(2)). Runs as the last step of every role's confinement.

use super::policy::Instruction;
use nix::errno::Errno;
use nix::libc;
use std::io;

/// A number that tells one filter from another (FNV-1a); not against whoever wants two to look the same.
pub fn digest(filter: &[Instruction]) -> u64 {
    let words = filter.iter().flat_map(|step| [u64::from(step.code), u64::from(step.jt), u64::from(step.jf), u64::from(step.k)]);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}

/// Adds a filter to this process for good.
///
/// The kernel demands no_new_privs or CAP_SYS_ADMIN; this sets neither, because the parent must not have the first.
///
/// # Errors
/// The errno of seccomp(2): `EACCES` without either, `ENOSYS`/`EINVAL` where the kernel has no seccomp filters.
pub fn install(filter: &[Instruction]) -> io::Result<()> {
    let length = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut().cast() };
    // SAFETY: `program` points to `length` instructions that live through the call and that have the layout of
    // `struct sock_filter` (repr(C), same fields); the kernel copies and checks them and keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    Ok(Errno::result(result).map(drop)?)
}
