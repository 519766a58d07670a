//! Compares a process, as `/proc` shows it, with the policy of its role. The parent gives nothing to a process that differs;
//! `anchorite audit` tells anyone who asks.

use super::policy::{Policy, User};
use super::privilege::{Identity, mask};
use super::proc::{CAPABILITY_SETS, Status};
use crate::role::{Layer, Role};

/// What is known of a service when one of its confined processes is compared with the policy.
#[derive(Clone, Debug)]
pub struct Expected<'a> {
    pub identity: Identity,
    /// Supplementary groups of the role.
    pub groups: &'a [u32],
    /// Seccomp filters of the parent, which every child inherits.
    pub inherited_filters: u32,
    /// Layers that the process said are missing and that the configuration lets it miss.
    pub missing: &'a [Layer],
}

/// Everything in which a confined process differs from its policy; empty: it is confined as the policy says.
pub fn faults(role: Role, status: &Status, expected: &Expected<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    let policy = Policy::of(role);
    if cfg!(feature = "bench-unconfined") {
        return faults;
    }
    if policy.user == User::Root {
        return root_faults(policy, status, expected);
    }
    let Identity { uid, gid, rootless } = expected.identity;
    if status.uids != [uid; 4] || (uid == 0) {
        faults.push(format!("user ids are {:?}, not {uid}", status.uids));
    }
    if status.gids != [gid; 4] || (gid == 0 && !rootless) {
        faults.push(format!("group ids are {:?}, not {gid}", status.gids));
    }
    if !rootless && (status.groups != expected.groups || status.groups.contains(&0)) {
        faults.push(format!("has supplementary groups {:?}", status.groups));
    }
    let powerless = rootless && expected.missing.contains(&Layer::Namespaces);
    for (set, name) in status.capabilities.iter().zip(CAPABILITY_SETS) {
        // The bounding set of one who never had a capability cannot be emptied by him, nor used.
        if *set != 0 && !(powerless && name == "CapBnd") {
            faults.push(format!("{name} is {set:016x}, not empty"));
        }
    }
    if !status.no_new_privs {
        faults.push("NoNewPrivs is 0".to_owned());
    }
    if !expected.missing.contains(&Layer::Seccomp) {
        let filters = expected.inherited_filters + u32::from(FILTERS);
        if status.seccomp != SECCOMP_MODE_FILTER || status.seccomp_filters != filters {
            faults.push(format!("Seccomp is {} with {} filters, not 2 with {filters}", status.seccomp, status.seccomp_filters));
        }
    }
    faults
}

/// The same for a role that stays root: exactly its capabilities, and one filter beside the parent's. Started by an ordinary user it is that
/// user, without any.
fn root_faults(policy: &Policy, status: &Status, expected: &Expected<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    let Identity { uid, gid, rootless } = expected.identity;
    let (uid, gid) = if rootless { (uid, gid) } else { (0, 0) };
    if status.uids != [uid; 4] || status.gids != [gid; 4] {
        faults.push(format!("ids are {:?} {:?}, not {uid} {gid}", status.uids, status.gids));
    }
    let wanted = policy.capabilities.iter().filter(|_| !rootless);
    let names: Vec<&str> = wanted.map(|grant| grant.name).collect();
    for (set, name) in status.capabilities.iter().zip(CAPABILITY_SETS) {
        let wanted = if matches!(name, "CapPrm" | "CapEff" | "CapBnd") { mask(&names) } else { 0 };
        if *set != wanted {
            faults.push(format!("{name} is {set:016x}, not {wanted:016x}"));
        }
    }
    let filters = expected.inherited_filters + 1;
    if !expected.missing.contains(&Layer::Seccomp) && (status.seccomp != SECCOMP_MODE_FILTER || status.seccomp_filters != filters) {
        faults.push(format!("Seccomp is {} with {} filters, not 2 with {filters}", status.seccomp, status.seccomp_filters));
    }
    faults
}

/// `Seccomp:` in `/proc/PID/status` when filters are in force.
const SECCOMP_MODE_FILTER: u32 = 2;

/// Filters a confined role adds: what is answered with ENOSYS, and the allow list.
const FILTERS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn confined() -> Status {
        Status { uids: [900; 4], gids: [900; 4], no_new_privs: true, seccomp: 2, seccomp_filters: 3, ..Status::default() }
    }

    fn found(status: &Status) -> Vec<String> {
        let identity = Identity { uid: 900, gid: 900, rootless: false };
        faults(Role::Worker, status, &Expected { identity, groups: &[], inherited_filters: 1, missing: &[] })
    }

    #[test]
    fn a_confined_process_has_no_fault() {
        assert_eq!(found(&confined()), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_a_fault() {
        let mut differing = Vec::new();
        for index in 0..4 {
            differing.push(Status { uids: std::array::from_fn(|i| if i == index { 0 } else { 900 }), ..confined() });
            differing.push(Status { gids: std::array::from_fn(|i| if i == index { 0 } else { 900 }), ..confined() });
        }
        for index in 0..5 {
            differing.push(Status { capabilities: std::array::from_fn(|i| u64::from(i == index)), ..confined() });
        }
        differing.push(Status { groups: vec![33], ..confined() });
        differing.push(Status { no_new_privs: false, ..confined() });
        differing.push(Status { seccomp: 0, ..confined() });
        differing.push(Status { seccomp_filters: 2, ..confined() });
        for status in differing {
            assert_eq!(found(&status).len(), 1, "{status:?}");
        }
    }
}
