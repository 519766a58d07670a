//! O11, `jail.allow_missing`: where the kernel lacks a layer the start is refused, with the layer and the kernel that brings it
//! named, unless the configuration lets it be missing; then the service says so, and `anchorite audit` finds it wanting.

use crate::support::{Client, Configuration, Root, needs_root, request};
use crate::tamper::{Tampered, Tampering, run, run_and};
use nix::libc;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

struct Lacking {
    layer: &'static str,
    call: i64,
    errno: i32,
    /// Whose calls: `unshare` is also what tests and shells use.
    whom: &'static str,
    /// What brings it.
    since: &'static str,
    /// What the service says of itself without it.
    says: &'static str,
}

const LACKING: [Lacking; 3] = [
    Lacking {
        layer: "landlock",
        call: libc::SYS_landlock_create_ruleset,
        errno: libc::ENOSYS,
        whom: "anchorite: ",
        since: "since Linux 5.13",
        says: "NO LANDLOCK",
    },
    Lacking {
        layer: "namespaces",
        call: libc::SYS_unshare,
        errno: libc::EPERM,
        whom: "anchorite: ",
        since: "since Linux 5.12",
        says: "NO PRIVATE TREE, NO NAMESPACES",
    },
    // Of the parent too: a kernel has it for all or for none.
    Lacking { layer: "seccomp", call: libc::SYS_seccomp, errno: libc::EINVAL, whom: "", since: "since Linux 3.17", says: "NO SECCOMP" },
];

impl Lacking {
    fn tampering(&self) -> Tampering {
        Tampering { whom: self.whom, call: self.call, which: |_| true, nth: 0, result: -i64::from(self.errno) }
    }
}

fn command(root: &Root, jail: &str) -> (tempfile::TempDir, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("anchorite.toml");
    let text = Configuration::of(&root.path()).server_also("workers = 1").jail(jail).text(home.path());
    fs::write(&path, text).unwrap();
    let words = ["unshare", "-m", "--propagation", "private", env!("CARGO_BIN_EXE_anchorite"), "run", "-c"];
    let mut command: Vec<String> = words.map(str::to_owned).to_vec();
    command.push(path.to_str().unwrap().to_owned());
    (home, command)
}

#[test]
fn a_missing_layer_is_refused_and_named() {
    needs_root!();
    let root = Root::with_index();
    for lacking in LACKING {
        // Naming the other layers does not help.
        let others: Vec<&str> = LACKING.iter().map(|other| other.layer).filter(|layer| *layer != lacking.layer).collect();
        for jail in [String::new(), format!("allow_missing = {others:?}")] {
            let (_home, command) = command(&root, &jail);
            let tampered = run(&command, &lacking.tampering());
            assert!(tampered.times > 0 && !tampered.was_ready, "{tampered:?}");
            assert_eq!(tampered.code, Some(1), "{tampered:?}");
            let why = format!("the layer \"{}\" is missing ({}", lacking.layer, lacking.since);
            assert!(tampered.stderr.contains(&why), "expected: {why}: {tampered:?}");
        }
    }
}

#[test]
fn a_missing_layer_that_may_be_missing_is_told() {
    needs_root!();
    for lacking in LACKING {
        let root = Root::with_index();
        let (_home, command) = command(&root, &format!("allow_missing = [{:?}]", lacking.layer));
        let layer = lacking.layer;
        let tampered = run_and(&command, &lacking.tampering(), move |pid, stderr| {
            let mut client = Client::connect(address(stderr));
            client.send(request("GET", "/", &["Connection: close"]));
            assert_eq!(client.response("GET").must_be(&[200]).text(), "index\n");

            let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
            assert!(title.contains(&format!(" WITHOUT {layer}")), "{title}");
            let audit = Command::new(env!("CARGO_BIN_EXE_anchorite")).args(["audit", "--json"]).output().unwrap();
            assert_eq!(audit.status.code(), Some(1), "{audit:?}");
            let audit: serde_json::Value = serde_json::from_slice(&audit.stdout).unwrap();
            let rows = audit["processes"].as_array().unwrap().iter().filter(|row| row["service"] == pid);
            let rows: Vec<_> = rows.filter(|row| row["role"] != "parent").collect();
            assert_eq!(rows.len(), 4, "{audit}");
            for row in rows {
                let faults = row["faults"].as_array().unwrap();
                let told = faults.iter().any(|fault| fault.as_str().unwrap().contains(&format!("the layer \"{layer}\" is missing")));
                assert!(told, "{row}");
            }
        });
        assert!(tampered.times > 0 && tampered.was_ready, "{tampered:?}");
        assert_eq!(tampered.code, Some(0), "{tampered:?}");
        assert!(tampered.stderr.contains(lacking.says), "{tampered:?}");
    }
}

/// A layer that may be missing and is not is in force all the same.
#[test]
fn a_layer_that_may_be_missing_and_is_there_is_used() {
    needs_root!();
    let root = Root::with_index();
    let server =
        crate::support::Server::run(&Configuration::of(&root.path()).jail("allow_missing = [\"landlock\", \"seccomp\", \"namespaces\"]"));
    assert!(!server.stderr().contains("NO "), "{}", server.stderr());
    for pid in server.workers() {
        assert_eq!(crate::support::status_field(pid, "Seccomp"), "2");
    }
}

/// An ordinary user of a system that lets nobody make a user namespace.
fn without_user_namespaces(jail: &str) -> Tampered {
    let root = Root::with_index();
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(home.path(), Some(4242), Some(4242)).unwrap();
    let program = home.path().join("anchorite");
    fs::copy(env!("CARGO_BIN_EXE_anchorite"), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let configuration = Configuration::of(&root.path()).server("listen = [\"127.0.0.1:0\"]\nworkers = 1").jail(jail);
    let path = home.path().join("anchorite.toml");
    fs::write(&path, configuration.text(home.path())).unwrap();
    let [program, path] = [&program, &path].map(|path| path.to_str().unwrap());
    let words = ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", program, "run", "-c", path];
    let refused = Tampering { whom: "", call: libc::SYS_unshare, which: |_| true, nth: 0, result: -i64::from(libc::EPERM) };
    let tampered = run_and(&words.map(str::to_owned), &refused, |_, stderr| {
        let mut client = Client::connect(address(stderr));
        client.send(request("GET", "/", &["Connection: close"]));
        client.response("GET").must_be(&[200]);
    });
    assert!(tampered.times > 0, "{tampered:?}");
    tampered
}

#[test]
fn an_ordinary_user_without_user_namespaces_is_refused() {
    needs_root!();
    let tampered = without_user_namespaces("");
    assert!(!tampered.was_ready && tampered.code == Some(1), "{tampered:?}");
    assert!(tampered.stderr.contains("user namespace"), "{tampered:?}");
}

#[test]
fn an_ordinary_user_without_user_namespaces_serves_where_they_may_be_missing() {
    needs_root!();
    let tampered = without_user_namespaces("allow_missing = [\"namespaces\"]");
    assert!(tampered.was_ready && tampered.code == Some(0), "{tampered:?}");
    assert!(tampered.stderr.contains("NO PRIVATE TREE"), "{tampered:?}");
}

fn address(stderr: &str) -> std::net::SocketAddr {
    let line = stderr.lines().find_map(|line| line.strip_prefix("anchorite: listening on "));
    line.unwrap_or_else(|| panic!("no address in {stderr}")).parse().unwrap()
}
