//! The processes of a server, as `/proc` shows them.

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fs;

/// A living process and its title (`/proc/PID/cmdline`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) title: String,
    pub(crate) pid: i32,
}

/// The living children of `parent`, by title; zombies are not living.
pub(crate) fn children_of(parent: i32) -> Vec<Process> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if state_and_parent(pid).is_some_and(|(state, of)| of == parent && state != 'Z') {
            found.push(Process { title: title(pid), pid });
        }
    }
    found.sort();
    found
}

/// Whether there is a process with this id that is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| state != 'Z')
}

/// A line of `/proc/PID/status`, such as `CapEff`, without its name.
pub(crate) fn status_field(pid: i32, name: &str) -> String {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path:?}: {error}"));
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name:?} in {path:?}: {status}")).trim().to_owned()
}

/// Sends a signal; panics when there is no such process.
pub(crate) fn signal(pid: i32, which: Signal) {
    nix::sys::signal::kill(Pid::from_raw(pid), which).unwrap_or_else(|error| panic!("{which} to {pid}: {error}"));
}

/// From `/proc/PID/stat`; the name in parentheses may hold anything, so what counts is behind the last one.
fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn title(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

/// The processes whose command line holds this text.
pub(crate) fn running(text: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let runs = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(text.len()).any(|window| window == text.as_bytes()) && is_alive(*pid)
    };
    all.filter(runs).collect()
}
