//! `anchorite policy [ROLE]`: what a role may do, every grant with its reason. The text is also the role table of the
//! manual: nothing is written twice.

use crate::role::Role;
use crate::sys::policy::{Argument, Call, Grant, Policy, User};
use std::fmt::Write as _;

pub(super) fn main(role: Option<&str>) -> u8 {
    let roles: Vec<Role> = match role {
        None => Role::ALL.to_vec(),
        Some(name) => match Role::from_name(name) {
            Some(role) => vec![role],
            None => {
                let names: Vec<&str> = Role::ALL.iter().map(|role| role.name()).collect();
                complain!("anchorite: no role \"{name}\"; there are {}", names.join(", "));
                return 2;
            }
        },
    };
    let texts: Vec<String> = roles.into_iter().map(|role| describe(Policy::of(role))).collect();
    // A reader that has seen enough, such as head(1), is no fault.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), texts.join("\n").as_bytes());
    0
}

/// The policy of a role as text.
fn describe(policy: &Policy) -> String {
    let mut text = String::new();
    let user = match policy.user {
        User::Root => "root (the caller, when that is not root)",
        User::Service => "the service's user, never root; no supplementary groups",
        User::Keys => "\"anchorite-keys\" where there is such a user, else the service's, never root; no supplementary groups",
    };
    let _ = writeln!(text, "{}: {}", policy.name, policy.purpose);
    let _ = writeln!(text, "  user: {user}\n  sees: {}", policy.sees);
    grants(&mut text, "capabilities", policy.capabilities);
    grants(&mut text, "own namespaces", policy.namespaces);
    grants(&mut text, "Landlock rights beneath what it sees", policy.landlock);
    if policy.limits.is_empty() {
        let _ = writeln!(text, "  limits: none of its own");
    } else {
        let _ = writeln!(text, "  limits:");
        for limit in policy.limits {
            let _ = writeln!(text, "    {:<22} {}", format!("{} = {}", limit.name, limit.value), limit.reason);
        }
    }
    grants(&mut text, "descriptors", policy.descriptors);
    grants(&mut text, "messages", policy.messages);
    calls(&mut text, "system calls that pass; any other ends the process", policy.allow);
    calls(&mut text, "system calls answered ENOSYS", policy.enosys);
    calls(&mut text, "system calls answered EPERM, here and in every process it starts; all others pass", policy.deny);
    text
}

fn grants(text: &mut String, title: &str, grants: &[Grant]) {
    if grants.is_empty() {
        let _ = writeln!(text, "  {title}: none");
        return;
    }
    let _ = writeln!(text, "  {title}:");
    for grant in grants {
        let _ = writeln!(text, "    {:<22} {}", grant.name, grant.reason);
    }
}

fn calls(text: &mut String, title: &str, calls: &[Call]) {
    if calls.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {title} ({}):", calls.len());
    for call in calls {
        let _ = writeln!(text, "    {:<22} {}", call.name, call.reason);
        for argument in call.arguments {
            let _ = writeln!(text, "      {}  {}", condition(argument), argument.reason);
        }
    }
}

fn condition(argument: &Argument) -> String {
    let Argument { index, mask, value, .. } = argument;
    if *mask == u64::MAX || *mask == u64::from(u32::MAX) {
        format!("only argument {index} == {value:#x}")
    } else {
        format!("only argument {index} & {mask:#x} == {value:#x}")
    }
}
