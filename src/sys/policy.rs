//! The policy of every role as compiled from `policy/`: grants with their reasons, and seccomp filters.
//!
//! Data only. The confinement, the start, `anchorite policy` and `anchorite audit` all read it here.

use crate::role::Role;

/// What one role may do.
#[derive(Debug)]
pub struct Policy {
    pub name: &'static str,
    pub purpose: &'static str,
    pub sees: &'static str,
    pub user: User,
    pub capabilities: &'static [Grant],
    pub namespaces: &'static [Grant],
    pub landlock: &'static [Grant],
    pub limits: &'static [Limit],
    pub descriptors: &'static [Grant],
    pub messages: &'static [Grant],
    /// System calls that pass; empty where `deny` is not.
    pub allow: &'static [Call],
    /// System calls answered with ENOSYS.
    pub enosys: &'static [Call],
    /// System calls answered with EPERM, all others pass: the roles whose children are not bound by this policy.
    pub deny: &'static [Call],
    /// The filter of `allow` (any other call ends the process) or of `deny`.
    pub list: &'static [Instruction],
    /// The filter of `allow` with EPERM in place of the end.
    pub proof: &'static [Instruction],
    /// The filter of `enosys`.
    pub answered: &'static [Instruction],
}

/// Whom a role runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Root,
    /// The user of the service, never root.
    Service,
    /// `anchorite-keys` where there is such a user, else that of the service.
    Keys,
}

/// One thing granted, and why.
#[derive(Debug)]
pub struct Grant {
    pub name: &'static str,
    pub reason: &'static str,
}

/// A resource limit, soft and hard alike (setrlimit(2)).
#[derive(Debug)]
pub struct Limit {
    pub name: &'static str,
    pub value: u64,
    pub reason: &'static str,
}

/// A system call; all of its argument conditions must hold.
#[derive(Debug)]
pub struct Call {
    pub name: &'static str,
    pub reason: &'static str,
    pub arguments: &'static [Argument],
}

/// A condition on an argument: `argument & mask == value`.
#[derive(Debug)]
pub struct Argument {
    pub index: u8,
    pub mask: u64,
    pub value: u64,
    pub reason: &'static str,
}

/// One instruction of a seccomp filter, laid out as `struct sock_filter` of linux/filter.h.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Instruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

impl Policy {
    /// The policy of a role.
    pub fn of(role: Role) -> &'static Policy {
        match role {
            Role::Parent => &compiled::PARENT,
            Role::Worker => &compiled::WORKER,
            Role::Log => &compiled::LOG,
            Role::Files => &compiled::FILES,
            Role::Connect => &compiled::CONNECT,
            Role::ConnectTcp => &compiled::CONNECT_TCP,
            Role::Spool => &compiled::SPOOL,
            Role::Keys => &compiled::KEYS,
            Role::Auth => &compiled::AUTH,
            Role::Spawn => &compiled::SPAWN,
        }
    }
}

/// The name of a system call of this architecture.
pub fn call_name(number: u32) -> Option<&'static str> {
    compiled::CALLS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

mod compiled {
    use super::{Argument, Call, Grant, Instruction, Limit, Policy, User};
    include!(concat!(env!("OUT_DIR"), "/policy.rs"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_has_at_most_48_system_calls() {
        assert!(Policy::of(Role::Worker).allow.len() <= 48, "{}", Policy::of(Role::Worker).allow.len());
    }

    #[test]
    fn every_role_has_its_policy_under_its_name() {
        for role in Role::ALL {
            assert_eq!(Policy::of(role).name, role.name());
        }
    }

    #[test]
    fn executable_memory_is_granted_to_no_confined_role() {
        const PROT_EXEC: u64 = 4;
        for role in [Role::Worker, Role::Log, Role::Files, Role::Connect, Role::ConnectTcp, Role::Spool, Role::Keys, Role::Auth] {
            for call in Policy::of(role).allow.iter().filter(|call| ["mmap", "mprotect"].contains(&call.name)) {
                assert!(call.arguments.iter().any(|a| a.index == 2 && a.mask & PROT_EXEC != 0 && a.value & PROT_EXEC == 0), "{call:?}");
            }
            assert!(
                !Policy::of(role).allow.iter().any(|call| ["pkey_mprotect", "execve", "execveat", "memfd_create"].contains(&call.name))
            );
        }
    }
}
