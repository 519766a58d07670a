//! User and group ids, capabilities and securebits: giving them up, reading them back, trying to regain them.
//!
//! credentials(7), capabilities(7). Used by the parent for its own exact list, by confined roles to have none.

use super::prctl;
use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;
use nix::libc::c_int;
use nix::unistd::{self, Gid, Uid};
use serde::{Deserialize, Serialize};
use std::io;
use std::str::FromStr;

/// Whom a confined role runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Inside a user namespace that maps only the caller's own ids: those ids are kept, and so are the caller's
    /// supplementary groups, which such a namespace does not let go (user_namespaces(7)).
    pub rootless: bool,
}

/// Whether this process is root.
pub fn is_root() -> bool {
    Uid::effective().is_root()
}

/// The effective ids of this process.
pub fn own_ids() -> (u32, u32) {
    (Uid::effective().as_raw(), Gid::effective().as_raw())
}

/// The ids of a user and, if given, of a group, each by its name or number.
///
/// # Errors
/// A text that says which name is not known, or what the name service answered.
pub fn look_up(user: &str, group: Option<&str>) -> Result<(u32, u32), String> {
    let found = match user.parse() {
        Ok(uid) => unistd::User::from_uid(Uid::from_raw(uid)),
        Err(_) => unistd::User::from_name(user),
    };
    let found = found.map_err(|errno| format!("user \"{user}\": {}", errno.desc()))?;
    let found = found.ok_or_else(|| format!("user \"{user}\" does not exist"))?;
    let Some(group) = group else {
        return Ok((found.uid.as_raw(), found.gid.as_raw()));
    };
    Ok((found.uid.as_raw(), look_up_group(group)?))
}

/// The id of a group, by its name or number.
///
/// # Errors
/// As [`look_up`].
pub fn look_up_group(group: &str) -> Result<u32, String> {
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    let gid = unistd::Group::from_name(group).map_err(|errno| format!("group \"{group}\": {}", errno.desc()))?;
    Ok(gid.ok_or_else(|| format!("group \"{group}\" does not exist"))?.gid.as_raw())
}

/// The names of a user and a group, or their numbers where they have none.
pub fn names(uid: u32, gid: u32) -> (String, String) {
    let user = unistd::User::from_uid(Uid::from_raw(uid)).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    let group = unistd::Group::from_gid(Gid::from_raw(gid)).ok().flatten().map_or_else(|| gid.to_string(), |group| group.name);
    (user, group)
}

/// An id that no user and no group has, from the range that systemd keeps for such use.
pub fn unused_id() -> Option<u32> {
    const DYNAMIC: std::ops::RangeInclusive<u32> = 61184..=65519;
    DYNAMIC.rev().find(|id| {
        let user = unistd::User::from_uid(Uid::from_raw(*id));
        let group = unistd::Group::from_gid(Gid::from_raw(*id));
        matches!((user, group), (Ok(None), Ok(None)))
    })
}

/// Cuts this process's capabilities, bounding set included, to exactly these; reads the sets back.
///
/// # Errors
/// Names a capability that is wanted and not held, or the call that failed.
pub fn keep_only(names: &[&str]) -> Result<(), String> {
    let mut wanted = CapsHashSet::new();
    for name in names {
        wanted.insert(Capability::from_str(name).map_err(|_| format!("unknown capability {name}"))?);
    }
    let held = caps::read(None, CapSet::Permitted).map_err(|fault| fault.to_string())?;
    if let Some(missing) = wanted.iter().find(|capability| !held.contains(capability)) {
        return Err(format!("{missing} is needed and not held"));
    }
    for number in 0..CAPABILITIES_MAX {
        if !wanted.iter().any(|capability| u32::from(capability.index()) == number)
            && !drop_from_bounding(number).map_err(|e| e.to_string())?
        {
            break;
        }
    }
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).map_err(|fault| fault.to_string())?;
    }
    caps::set(None, CapSet::Effective, &wanted).map_err(|fault| fault.to_string())?;
    caps::set(None, CapSet::Permitted, &wanted).map_err(|fault| fault.to_string())?;
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Bounding] {
        if caps::read(None, set).map_err(|fault| fault.to_string())? != wanted {
            return Err(format!("the {set:?} set holds more than it should"));
        }
    }
    Ok(())
}

/// These capabilities as the bits that `/proc/PID/status` shows.
pub fn mask(names: &[&str]) -> u64 {
    names.iter().filter_map(|name| Capability::from_str(name).ok()).map(|capability| capability.bitmask()).sum()
}

/// Sets no_new_privs, which every child inherits.
///
/// # Errors
/// The errno of prctl(2).
pub fn forbid_new_privileges() -> io::Result<()> {
    Ok(nix::sys::prctl::set_no_new_privs()?)
}

/// Makes these capabilities survive the next execve(2) of a process that is not root.
///
/// # Errors
/// The errno of capset(2) or prctl(2).
pub(super) fn keep_over_exec(capabilities: &[Capability]) -> io::Result<()> {
    for capability in capabilities {
        caps::raise(None, CapSet::Inheritable, *capability).map_err(|_| Errno::EPERM)?;
        caps::raise(None, CapSet::Ambient, *capability).map_err(|_| Errno::EPERM)?;
    }
    Ok(())
}

/// Empties the bounding set and locks the securebits, so that no later call or execve brings a capability back.
/// NO_SETUID_FIXUP is left out: it would keep the capabilities over setresuid(2).
pub(super) fn drop_bounding() -> io::Result<()> {
    prctl::set_securebits(SECUREBITS)?;
    for number in 0..CAPABILITIES_MAX {
        if !drop_from_bounding(number)? {
            break;
        }
    }
    Ok(())
}

/// Drops one capability by number; false: the kernel knows no such capability, nor any of a higher number.
fn drop_from_bounding(number: u32) -> io::Result<bool> {
    match prctl::drop_bounding(number) {
        Err(fault) if fault.raw_os_error() == Some(Errno::EINVAL as c_int) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Gives up supplementary groups but those of the role, then group ids, then user ids: in any other order the rest would be refused.
pub(super) fn become_identity(identity: Identity, groups: &[u32]) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    if !identity.rootless {
        let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
        unistd::setgroups(&groups)?;
    }
    unistd::setresgid(gid, gid, gid)?;
    unistd::setresuid(uid, uid, uid)?;
    Ok(())
}

/// Does something with the rights that a user has on files, and takes root's back. For a command that ends soon, of one thread: the
/// supplementary groups are gone afterwards.
///
/// # Errors
/// The errno of setgroups(2), setresgid(2) or setresuid(2).
pub fn with_rights_of<T>(identity: Identity, work: impl FnOnce() -> T) -> io::Result<T> {
    if identity.rootless {
        return Ok(work());
    }
    unistd::setgroups(&[])?;
    unistd::setegid(Gid::from_raw(identity.gid))?;
    // With this the kernel takes the effective capabilities away, those to pass over permissions among them (capabilities(7)).
    unistd::seteuid(Uid::from_raw(identity.uid))?;
    let outcome = work();
    unistd::seteuid(Uid::from_raw(0))?;
    unistd::setegid(Gid::from_raw(0))?;
    Ok(outcome)
}

/// Empties the four remaining capability sets.
pub(super) fn drop_capabilities() -> io::Result<()> {
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|_| Errno::EPERM)?;
    }
    Ok(())
}

/// Reads ids, groups and capability sets back, with `bounding` the bounding set and the securebits too, and tries to regain root.
///
/// # Errors
/// Says what is not as it should be.
pub(super) fn confirm_dropped(identity: Identity, groups: &[u32], bounding: bool) -> Result<(), String> {
    let uids = unistd::getresuid().map_err(|errno| errno.to_string())?;
    let gids = unistd::getresgid().map_err(|errno| errno.to_string())?;
    if [uids.real, uids.effective, uids.saved].iter().any(|uid| uid.as_raw() != identity.uid) {
        return Err(format!("user ids are {uids:?}"));
    }
    if [gids.real, gids.effective, gids.saved].iter().any(|gid| gid.as_raw() != identity.gid) {
        return Err(format!("group ids are {gids:?}"));
    }
    let left: Vec<u32> = unistd::getgroups().map_err(|errno| errno.to_string())?.into_iter().map(Gid::as_raw).collect();
    if !identity.rootless && left != groups {
        return Err(format!("supplementary groups are {left:?}, not {groups:?}"));
    }
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        if !caps::read(None, set).map_err(|fault| fault.to_string())?.is_empty() {
            return Err(format!("the {set:?} set is not empty"));
        }
    }
    if bounding {
        confirm_bounding()?;
    }
    let root = Uid::from_raw(0);
    if unistd::setresuid(root, root, root).is_ok() || unistd::setgroups(&[Gid::from_raw(0)]).is_ok() {
        return Err("root could be regained".to_owned());
    }
    Ok(())
}

/// Reads the bounding set and the securebits back.
fn confirm_bounding() -> Result<(), String> {
    // The crate knows the capabilities of its day; the kernel is asked up to the first number that it does not know.
    for number in 0..CAPABILITIES_MAX {
        match prctl::in_bounding(number) {
            Ok(true) => return Err(format!("capability {number} is left in the bounding set")),
            Ok(false) => {}
            Err(_) => break,
        }
    }
    if prctl::securebits().map_err(|fault| fault.to_string())? != SECUREBITS {
        return Err("the securebits are not as set".to_owned());
    }
    Ok(())
}

// linux/securebits.h: NOROOT, KEEP_CAPS and NO_CAP_AMBIENT_RAISE; each bit's lock is the next higher one.
const SECUREBITS: c_int = 0b1 | 0b10 | 0b10_0000 | 0b100_0000 | 0b1000_0000;

/// Capability sets are 64 bits wide.
const CAPABILITIES_MAX: u32 = 64;
