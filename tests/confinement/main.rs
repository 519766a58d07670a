//! Tests of the confinement on the shipped program, one file per concern. The ids in test names (`k01`, `m06`, …) are those
//! of the cases the server is built against; see SECURITY.md.
//!
//! Each layer has tests that fail when it is taken away. Those of `steps` fail for every layer, since they look for its
//! calls; beyond those:
//!
//! | layer | taken away, this fails |
//! |---|---|
//! | descriptors closed | `steps::parent`, `proc_facts::descriptors_of_the_parent_are_of_the_kinds_of_the_policy` |
//! | resource limits | `proc_facts::limits_are_those_of_the_policy` |
//! | namespaces | `proc_facts::namespaces_are_those_of_the_policy`, `proc_facts::no_network_interface_is_up` |
//! | private tree, chroot | `proc_facts::root_is_the_jail_and_holds_exactly_what_is_served`, `hijacked::files::k01_…` |
//! | read-only mounts | `proc_facts::tree_is_read_only_…`, `proc_facts::mounts_beneath_a_document_root_are_restricted_too` |
//! | user, group, groups | `proc_facts::ids_and_groups_are_those_of_the_service` |
//! | capability sets | `proc_facts::capability_sets_are_those_of_the_policy` |
//! | dumpable, write xor execute, death with the parent | `steps::flags`, `steps::capabilities_of_an_ordinary_user` |
//! | default action of faults | `messages::m08_a_worker_or_log_that_faults_ends`, `proc_facts::each_has_one_thread_…` |
//! | no_new_privs | `proc_facts::no_new_privileges_and_filters_are_in_force` |
//! | Landlock | `hijacked::files::k01_k34_…` (`/`) and `k03_…` (`..`): what it alone refuses |
//! | seccomp of the roles | `seccomp::*` for the rules, `hijacked::*` for its being in force |
//! | seccomp of the parent | `seccomp::parent_*`, `proc_facts::parent_has_the_capabilities_and_the_filter_of_its_policy` |
//! | capabilities of the parent | `proc_facts::parent_has_the_capabilities_and_the_filter_of_its_policy` |
//! | what programs of backends get | `spawn::*` |
//! | the proof at every start | `steps::a_proof_that_gets_out_stops_the_start` |
//! | the parent's look into `/proc` | `steps::landlock_and_seccomp` (the list, lost where it serves) |
//! | message checks | `messages::*` |
//! | new addresses for every process | `hijacked::system::k31_every_new_worker_has_other_addresses` |
//!
//! The tests of system calls know those of x86-64 only.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a test ends by panicking, also at what it does not expect of the kernel, and starts processes, opens files and \
              dials as any user of the machine would"
)]

#[path = "../support/mod.rs"]
mod support;

#[cfg(target_arch = "x86_64")]
#[path = "../support/fastcgi.rs"]
#[allow(dead_code, reason = "each test binary uses its own part of it")]
mod fastcgi;
#[cfg(target_arch = "x86_64")]
#[path = "../support/hijack.rs"]
mod hijack;
#[cfg(target_arch = "x86_64")]
#[path = "../support/syscall.rs"]
mod syscall;
#[cfg(target_arch = "x86_64")]
#[path = "../support/tamper.rs"]
mod tamper;

#[cfg(target_arch = "x86_64")]
mod allow_missing;
mod audit;
#[cfg(target_arch = "x86_64")]
mod auth;
mod cgi;
#[cfg(target_arch = "x86_64")]
mod connect;
#[cfg(target_arch = "x86_64")]
mod files;
#[cfg(target_arch = "x86_64")]
mod hijacked;
#[cfg(target_arch = "x86_64")]
mod keys;
#[cfg(target_arch = "x86_64")]
mod messages;
mod parent;
mod proc_facts;
#[cfg(target_arch = "x86_64")]
mod refusals;
#[cfg(target_arch = "x86_64")]
mod seccomp;
#[cfg(target_arch = "x86_64")]
mod shortages;
mod spawn;
#[cfg(target_arch = "x86_64")]
mod spool;
#[cfg(target_arch = "x86_64")]
mod steps;

/// Waits until every worker has its listening socket, which it is handed as the service says that it is ready: the
/// descriptor that it shares with the parent.
fn wait_for_listeners(server: &support::Server) {
    let open_on = |pid: i32| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
    };
    let parents = open_on(server.parent());
    let is_listener = |target: &std::path::PathBuf| target.to_string_lossy().starts_with("socket:") && parents.contains(target);
    let all = || server.workers().into_iter().all(|pid| open_on(pid).iter().any(is_listener));
    assert!(support::wait_until(support::PATIENCE, all).is_some(), "a worker has no listener");
}
