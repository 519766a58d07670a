//! `anchorite audit`: what the kernel reports of every running process of the service, compared with the policy of its role.
//!
//! Everything is read from `/proc`; nothing is asked of the service itself, so a process that lies cannot lie here. Read-only.

use crate::ipc::status::quoted;
use crate::role::{Layer, Role};
use crate::sys::kernel_log;
use crate::sys::policy::{Policy, User};
use crate::sys::privilege::Identity;
use crate::sys::proc::{self, CAPABILITY_SETS, Status};
use crate::sys::verify::{self, Expected};
use std::io;
use std::path::Path;

pub(super) fn main(json: bool) -> u8 {
    let rows = rows();
    if rows.is_empty() {
        complain!("anchorite: no running service was found");
        return 1;
    }
    let unconfined = rows.iter().filter(|row| !row.faults.is_empty()).count();
    if json {
        print_json(&rows, unconfined);
    } else {
        print_table(&rows, unconfined);
    }
    u8::from(rows.iter().any(|row| !row.faults.is_empty() || row.unread.is_some()))
}

/// One process.
struct Row {
    service: i32,
    pid: i32,
    title: String,
    role: Option<Role>,
    status: Status,
    /// What was read beside the status, for the table.
    facts: Facts,
    faults: Vec<String>,
    /// Why not everything could be looked at, which is no fault of the process and no proof of its confinement either.
    unread: Option<String>,
}

#[derive(Default)]
struct Facts {
    root: &'static str,
    namespaces: Vec<&'static str>,
    /// `None`: they cannot be read. A process that may not be traced shows them to root alone, also where its user asks.
    descriptors: Option<usize>,
}

/// Every process of every service that runs: parents are known by their title, the others by being their children.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let all: Vec<(i32, String)> = proc::processes().into_iter().filter_map(|pid| Some((pid, proc::command_line(pid)?))).collect();
    for (pid, title) in all.iter().filter(|(_, title)| title.starts_with(PARENT_TITLE)) {
        let Ok(parent) = proc::status(*pid) else { continue };
        let service = Service { pid: *pid, status: parent.clone(), missing: missing(title) };
        rows.push(service.row(*pid, title.clone(), parent));
        for (child, title) in &all {
            // One that has ended since is no process of the service.
            let Ok(status) = proc::status(*child) else { continue };
            if status.parent == *pid {
                let row = service.row(*child, title.clone(), status);
                // Nor is one that ended while it was looked at.
                if row.unread.is_none() || proc::status(*child).is_ok_and(|status| status.parent == *pid) {
                    rows.push(row);
                }
            }
        }
    }
    rows
}

struct Service {
    pid: i32,
    status: Status,
    /// Layers that the service says are missing and may be.
    missing: Vec<Layer>,
}

impl Service {
    fn row(&self, pid: i32, title: String, status: Status) -> Row {
        let role = role(&title);
        let mut faults = Vec::new();
        let mut facts = Facts::default();
        let mut unread = None;
        match role {
            None => faults.push("no role has this title".to_owned()),
            Some(Role::Parent) => self.audit_parent(&status, &mut faults),
            Some(Role::Spawn) => {
                let (uid, gid) = (self.status.uids[0], self.status.gids[0]);
                let identity = Identity { uid, gid, rootless: uid != 0 };
                let expected = Expected { identity, groups: &[], inherited_filters: self.status.seccomp_filters, missing: &self.missing };
                faults.extend(verify::faults(Role::Spawn, &status, &expected));
            }
            Some(role) => {
                let (uid, gid) = (status.uids[0], status.gids[0]);
                let rootless = self.status.uids[0] != 0;
                let expected_ids = if rootless { (self.status.uids[0], self.status.gids[0]) } else { (uid, gid) };
                let identity = Identity { uid: expected_ids.0, gid: expected_ids.1, rootless };
                // Only the configuration says which groups `connect` has.
                let groups = if role.is_connect() { status.groups.as_slice() } else { &[] };
                let expected = Expected { identity, groups, inherited_filters: self.status.seccomp_filters, missing: &self.missing };
                faults.extend(verify::faults(role, &status, &expected));
                faults.extend(
                    self.missing.iter().map(|layer| format!("the layer \"{}\" is missing, as jail.allow_missing lets it", layer.name())),
                );
                if let Err(fault) = self.audit_confined(role, pid, &mut facts, &mut faults) {
                    unread = Some(format!("not all of /proc/{pid} can be read: {fault}"));
                }
            }
        }
        Row { service: self.pid, pid, title, role, status, facts, faults, unread }
    }

    /// The parent: exactly the capabilities of its policy, or none when it is not root, and its filter.
    fn audit_parent(&self, status: &Status, faults: &mut Vec<String>) {
        let names: Vec<&str> = Policy::of(Role::Parent).capabilities.iter().map(|grant| grant.name).collect();
        let is_root = status.uids[0] == 0;
        let wanted = if is_root { crate::sys::privilege::mask(&names) } else { 0 };
        for (set, name) in status.capabilities.iter().zip(CAPABILITY_SETS) {
            let wanted = match name {
                "CapPrm" | "CapEff" => wanted,
                // An ordinary user cannot lower it, and gains nothing by it: no_new_privs is set.
                "CapBnd" if !is_root => *set,
                "CapBnd" => wanted,
                _ => 0,
            };
            if *set != wanted {
                faults.push(format!("{name} is {set:016x}, not {wanted:016x}"));
            }
        }
        if status.seccomp != 2 {
            faults.push("Seccomp is not 2".to_owned());
        }
        if !is_root && !status.no_new_privs {
            faults.push("NoNewPrivs is 0".to_owned());
        }
    }

    /// What only the owner of a process may read: its root, namespaces, descriptors and mappings.
    fn audit_confined(&self, role: Role, pid: i32, facts: &mut Facts, faults: &mut Vec<String>) -> io::Result<()> {
        let without_namespaces = self.missing.contains(&Layer::Namespaces);
        let same_root = proc::root(pid)? == proc::root(self.pid)?;
        facts.root = if same_root { "host" } else { "jail" };
        if same_root && !without_namespaces {
            faults.push("its root directory is the host's".to_owned());
        }
        for grant in Policy::of(role).namespaces {
            let shared = proc::namespace(pid, grant.name)? == proc::namespace(self.pid, grant.name)?;
            if !shared {
                facts.namespaces.push(grant.name);
            } else if !without_namespaces {
                faults.push(format!("shares the host's {} namespace", grant.name));
            }
        }
        match proc::descriptors(pid) {
            Ok(found) => {
                facts.descriptors = Some(found.len());
                for (number, target) in found {
                    if let Some(why) = unexpected(role, number, &target) {
                        faults.push(format!("descriptor {number} ({}) {why}", target.display()));
                    }
                }
            }
            Err(fault) if fault.kind() == io::ErrorKind::PermissionDenied && self.status.uids[0] != 0 => {}
            Err(fault) => return Err(fault),
        }
        faults.extend(proc::doubtful_mappings(pid)?.into_iter().map(|mapping| format!("executable memory that is no file's: {mapping}")));
        Ok(())
    }
}

/// Why a descriptor is not one that the policy of a role lists; `None`: it is.
fn unexpected(role: Role, number: i32, target: &Path) -> Option<&'static str> {
    let kind = target.to_string_lossy();
    let is = |prefix: &str| kind.starts_with(prefix);
    if number <= 2 {
        return (!is("/dev/null")).then_some("is not /dev/null");
    }
    if is("socket:[") || is("anon_inode:[eventpoll]") {
        return None;
    }
    let is_path = kind.starts_with('/') && !is("/dev/") && !is("/proc/") && !is("/sys/");
    match role {
        // Document roots and files beneath them, as seen from inside the jail; unnamed files; password files; log files; the kernel's log.
        Role::Worker | Role::Files | Role::Spool | Role::Auth => (!is_path).then_some("is of a kind that this role may not hold"),
        Role::Log => (!is_path && kind != kernel_log::PATH && !is("/dev/null") && !is("/dev/pts/") && !is("/dev/tty") && !is("pipe:["))
            .then_some("is no log"),
        Role::Connect | Role::ConnectTcp | Role::Keys => Some("is of a kind that this role may not hold"),
        Role::Spawn | Role::Parent => None,
    }
}

/// Whether a process is one that has given everything up, and not root's.
fn is_confined(role: Option<Role>) -> bool {
    role.is_some_and(|role| Policy::of(role).user != User::Root)
}

fn role(title: &str) -> Option<Role> {
    let name = title.strip_prefix("anchorite: ")?;
    Role::from_name(name.split([' ', ',']).next()?)
}

fn missing(title: &str) -> Vec<Layer> {
    let named = title.split_once(" WITHOUT ").map_or("", |(_, named)| named);
    Layer::ALL.into_iter().filter(|layer| named.contains(layer.name())).collect()
}

fn print_table(rows: &[Row], unconfined: usize) {
    say!(
        "{:<8} {:<10} {:>12} {:>10} {:>5} {:>8} {:>9} {:>5} {:>11} {:>4}",
        "PID",
        "ROLE",
        "UID:GID",
        "CAPS",
        "NNP",
        "SECCOMP",
        "FILTERS",
        "ROOT",
        "NAMESPACES",
        "FDS"
    );
    for row in rows {
        let status = &row.status;
        let confined = is_confined(row.role);
        let shown = |value: String| if confined { value } else { "-".to_owned() };
        say!(
            "{:<8} {:<10} {:>12} {:>10} {:>5} {:>8} {:>9} {:>5} {:>11} {:>4}",
            row.pid,
            row.role.map_or("?", Role::name),
            format!("{}:{}", status.uids[1], status.gids[1]),
            status.capabilities.iter().map(|set| set.count_ones()).max().map_or_else(String::new, |count| if count == 0 {
                "none".to_owned()
            } else {
                count.to_string()
            }),
            if status.no_new_privs { "yes" } else { "no" },
            status.seccomp,
            status.seccomp_filters,
            shown(row.facts.root.to_owned()),
            shown(row.facts.namespaces.len().to_string()),
            shown(row.facts.descriptors.map_or_else(|| "?".to_owned(), |count| count.to_string())),
        );
    }
    for row in rows {
        for said in row.faults.iter().chain(&row.unread) {
            say!("{} {} (service {}): {said}", row.pid, row.title, row.service);
        }
    }
    let unread = rows.iter().filter(|row| row.unread.is_some()).count();
    if unconfined > 0 {
        say!("NOT CONFINED as the policy says: {unconfined} of {} processes", rows.len());
    }
    if unread > 0 {
        say!("cannot be told of {unread} of {} processes: run this as root, or as the user of the service", rows.len());
    }
    if unconfined == 0 && unread == 0 {
        say!("every process is confined as the policy says ({} processes)", rows.len());
    }
    if rows.iter().any(|row| is_confined(row.role) && row.faults.is_empty() && row.facts.descriptors.is_none()) {
        say!("their descriptors could not be read: the kernel shows them to root only");
    }
    say!("Landlock is not shown in /proc: it is proved by a sacrificial process of each role at every start");
}

fn print_json(rows: &[Row], unconfined: usize) {
    let processes: Vec<String> = rows.iter().map(json_row).collect();
    let confined = match rows.iter().any(|row| row.unread.is_some()) {
        true if unconfined == 0 => "null".to_owned(),
        _ => (unconfined == 0).to_string(),
    };
    say!("{{\"confined\":{confined},\"processes\":[{}]}}", processes.join(","));
}

fn json_row(row: &Row) -> String {
    let status = &row.status;
    let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let capabilities: Vec<String> =
        status.capabilities.iter().zip(CAPABILITY_SETS).map(|(set, name)| format!("\"{name}\":\"{set:016x}\"")).collect();
    let faults: Vec<String> = row.faults.iter().map(|fault| quoted(fault)).collect();
    let namespaces: Vec<String> = row.facts.namespaces.iter().map(|name| quoted(name)).collect();
    format!(
        "{{\"service\":{},\"pid\":{},\"role\":{},\"title\":{},\"uids\":[{}],\"gids\":[{}],\"groups\":[{}],\"capabilities\":{{{}}},\"no_new_privs\":{},\"seccomp\":{},\"seccomp_filters\":{},\"root\":{},\"own_namespaces\":[{}],\"descriptors\":{},\"faults\":[{}],\"unread\":{}}}",
        row.service,
        row.pid,
        row.role.map_or("null".to_owned(), |role| quoted(role.name())),
        quoted(&row.title),
        list(&status.uids),
        list(&status.gids),
        list(&status.groups),
        capabilities.join(","),
        status.no_new_privs,
        status.seccomp,
        status.seccomp_filters,
        quoted(row.facts.root),
        namespaces.join(","),
        row.facts.descriptors.map_or_else(|| "null".to_owned(), |count| count.to_string()),
        faults.join(","),
        row.unread.as_ref().map_or_else(|| "null".to_owned(), |why| quoted(why)),
    )
}

const PARENT_TITLE: &str = "anchorite: parent";
