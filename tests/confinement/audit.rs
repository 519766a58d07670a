//! `anchorite audit`: what it finds of a service, and that it finds fault with what is not confined.
//!
//! It looks at every service of the machine, and other tests run some. Where its exit status matters, the service and the
//! audit run in a process namespace of their own; elsewhere the rows of other services are left out.

use crate::support::{Configuration, Launch, PATIENCE, Root, Server, is_alive, needs_root, signal, status_field, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;

fn audit(arguments: &[&str]) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_anchorite");
    Command::new(program).arg("audit").args(arguments).output().unwrap()
}

/// The rows of a service.
pub(crate) fn rows(server: &Server) -> Vec<Value> {
    let output = audit(&["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let rows = report["processes"].as_array().unwrap();
    let faultless = rows.iter().all(|row| row["faults"].as_array().unwrap().is_empty());
    let confined = match rows.iter().all(|row| row["unread"].is_null()) {
        false if faultless => Value::Null,
        _ => faultless.into(),
    };
    assert_eq!(report["confined"], confined, "{report}");
    rows.iter().filter(|row| row["service"] == server.parent()).cloned().collect()
}

#[test]
fn names_every_process_and_finds_no_fault() {
    needs_root!();
    let root = Root::with_index();
    for chroot in [false, true] {
        for user in [false, true] {
            let jail = if chroot { format!("mode = \"chroot\"\nroot = {:?}", root.base()) } else { String::new() };
            let mut configuration = Configuration::of(&root.path()).jail(&jail);
            let mut launch = Launch::new();
            if user {
                launch = launch.user(4242);
                configuration = configuration.server("listen = [\"127.0.0.1:0\"]");
            }
            let server = launch.run(&configuration);
            let rows = rows(&server);
            assert_eq!(rows.len(), 6, "{rows:?}");
            for row in &rows {
                assert_eq!(row["faults"], Value::Array(Vec::new()), "{row}");
                agrees(row);
            }
            let mut found: Vec<&str> = rows.iter().map(|row| row["role"].as_str().unwrap()).collect();
            found.sort_unstable();
            assert_eq!(found, ["files", "files", "log", "parent", "worker", "worker"]);
            let table = String::from_utf8(audit(&[]).stdout).unwrap();
            for pid in server.processes().iter().map(|process| process.pid).chain([server.parent()]) {
                assert!(table.lines().any(|line| line.starts_with(&format!("{pid} "))), "{pid}: {table}");
            }
        }
    }
}

#[test]
fn a_generation_after_a_reload_and_a_worker_after_its_death_are_no_less_confined() {
    // O20
    needs_root!();
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).limits("drain_timeout = \"0s\""));
    let first = server.workers();
    server.order(&["reload"]).must_be_done();
    assert!(wait_until(PATIENCE, || server.workers().len() == 2 && server.workers().iter().all(|pid| !first.contains(pid))).is_some());
    for victim in [server.workers()[0], server.log_process().unwrap()] {
        signal(victim, Signal::SIGKILL);
        assert!(wait_until(PATIENCE, || !is_alive(victim) && server.workers().len() == 2 && server.log_process().is_some()).is_some());
        let confined = || {
            let rows = rows(&server);
            rows.len() == 6 && rows.iter().all(|row| row["faults"] == Value::Array(Vec::new()))
        };
        // A process that was just started is not confined yet, and has got no socket.
        assert!(wait_until(PATIENCE, confined).is_some(), "{:?}", rows(&server));
        rows(&server).iter().for_each(agrees);
    }
}

/// What a row says is what `/proc` says.
fn agrees(row: &Value) {
    let pid = i32::try_from(row["pid"].as_i64().unwrap()).unwrap();
    let numbers = |field: &Value| -> Vec<String> { field.as_array().unwrap().iter().map(Value::to_string).collect() };
    assert_eq!(numbers(&row["uids"]).join("\t"), status_field(pid, "Uid"));
    assert_eq!(numbers(&row["gids"]).join("\t"), status_field(pid, "Gid"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(row["capabilities"][set], status_field(pid, set));
    }
    assert_eq!(row["no_new_privs"], status_field(pid, "NoNewPrivs") == "1");
    assert_eq!(row["seccomp"].to_string(), status_field(pid, "Seccomp"));
    assert_eq!(row["seccomp_filters"].to_string(), status_field(pid, "Seccomp_filters"));
    if row["role"] != "parent" {
        assert_eq!(row["root"], "jail");
        let mut namespaces: Vec<&str> = row["own_namespaces"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        namespaces.sort_unstable();
        assert_eq!(namespaces, ["cgroup", "ipc", "mount", "network", "uts"]);
    }
}

/// Runs `lines` in bash in a process namespace of its own; in them `"$@"` starts a service, `$1` is the program, and
/// `served` waits until the service is ready.
fn alone(lines: &str) -> (Option<i32>, String) {
    let root = Root::with_index();
    let script = format!(
        "served() {{ for _ in $(seq 1000); do grep -q '^anchorite: ready' \"$log\" && return; sleep 0.01; done; cat \"$log\"; exit 9; }}
        log=$(mktemp) && trap 'rm -f \"$log\"; kill $(jobs -p) 2> /dev/null; wait' EXIT
        {lines}"
    );
    let words = ["-m", "-p", "-f", "--kill-child", "--mount-proc", "--propagation", "private", "bash", "-c", &script, "bash"];
    let output = Command::new("unshare")
        .args(words)
        .args([env!("CARGO_BIN_EXE_anchorite"), "serve", root.path().to_str().unwrap(), "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

#[test]
fn exits_0_when_everything_is_confined() {
    needs_root!();
    let (code, text) = alone("\"$@\" 2> \"$log\" & served; \"$1\" audit");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("every process is confined as the policy says"), "{text}");
}

/// Neither proved nor disproved: somebody who may not look is told so, and not that the service lies open.
#[test]
fn exits_1_and_says_who_is_to_ask_when_it_may_not_look() {
    needs_root!();
    let somebody = "setpriv --reuid=4242 --regid=4242 --clear-groups \"$1\" audit";
    let (code, text) = alone(&format!("\"$@\" 2> \"$log\" & served; {somebody}; code=$?; {somebody} --json; exit $code"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cannot be told of") && text.contains("run this as root"), "{text}");
    assert!(text.contains("{\"confined\":null,") && !text.contains("NOT CONFINED"), "{text}");
}

#[test]
fn exits_1_when_there_is_nothing_to_audit() {
    needs_root!();
    let (code, text) = alone("\"$1\" audit");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no running service was found"), "{text}");
}

#[test]
fn exits_1_when_what_calls_itself_a_service_is_not_confined() {
    needs_root!();
    let (code, text) = alone("(exec -a 'anchorite: parent 127.0.0.1:1' sleep 60) & sleep 0.2; \"$1\" audit");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("NOT CONFINED") && text.contains("Seccomp is not 2"), "{text}");
}

/// A child of the parent that is no role, or a role that is not confined: `gdb` and the like could start one.
#[test]
fn exits_1_when_a_child_of_the_parent_is_not_confined() {
    needs_root!();
    for (title, fault) in [("anchorite: worker 7", "user ids are"), ("something else", "no role has this title")] {
        let lines =
            format!("(exec -a 'anchorite: parent 127.0.0.1:1' bash -c \"(exec -a '{title}' sleep 60) & wait\") & sleep 0.3; \"$1\" audit");
        let (code, text) = alone(&lines);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.lines().any(|line| line.contains(title) && line.contains(fault)), "{text}");
    }
}
