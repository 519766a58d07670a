//! The files of `packaging/` agree with the policy and with the defaults of the configuration.

use crate::source::{files, read, repository};
use std::collections::BTreeSet;
use std::process::Command;

const SERVICE: &str = "packaging/systemd/anchorite.service";
const SOCKET: &str = "packaging/systemd/anchorite.socket";

/// The values of a key, of all its lines.
fn values(unit: &str, key: &str) -> Vec<String> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.flat_map(|line| line.split_whitespace().map(str::to_owned)).collect()
}

#[test]
fn the_unit_leaves_the_parent_its_capabilities_and_no_others() {
    let policy = anchorite::sys::policy::Policy::of(anchorite::role::Role::Parent);
    let expected: BTreeSet<String> = policy.capabilities.iter().map(|grant| grant.name.to_owned()).collect();
    let given: BTreeSet<String> = values(&read(SERVICE), "CapabilityBoundingSet").into_iter().collect();
    assert_eq!(given, expected);
    assert!(values(&read(SERVICE), "AmbientCapabilities").is_empty());
}

/// Settings that would keep the parent from confining what it starts, or from serving what it is told to.
#[test]
fn the_unit_does_not_stand_in_the_way_of_the_confinement() {
    let unit = read(SERVICE);
    let harmful = [
        "RestrictNamespaces",
        "NoNewPrivileges",
        "PrivateUsers",
        "PrivateNetwork",
        "ProtectHome",
        "ProtectProc",
        "ProcSubset",
        "SystemCallFilter",
        "RestrictFileSystems",
        "User",
        "DynamicUser",
        "RootDirectory",
        "ProtectControlGroups",
    ];
    for key in harmful {
        assert!(!unit.lines().any(|line| line.starts_with(&format!("{key}="))), "{key}");
    }
    assert!(!values(&unit, "ProtectSystem").contains(&"strict".to_owned()), "logs may lie anywhere");
    assert_eq!(values(&unit, "Type"), ["notify"]);
    assert_eq!(values(&unit, "ExecStart"), ["/usr/bin/anchorite", "run"]);
    assert_eq!(values(&unit, "ExecReload"), ["/usr/bin/anchorite", "reload"]);
}

#[test]
fn the_defaults_of_the_configuration_have_their_places() {
    let file = std::path::Path::new("/etc/anchorite/anchorite.toml");
    let config = anchorite::config::parse("[[site]]\nroot = \"/srv/www\"\n", file).expect("a configuration of defaults");
    let places = read("packaging/tmpfiles.d/anchorite.conf");
    let directories: Vec<&str> =
        places.lines().filter(|line| line.starts_with("d ")).filter_map(|line| line.split_whitespace().nth(1)).collect();
    let within = config.server.spool.join("a body");
    let own = [config.server.control_socket, config.server.pid_file, Some(within)].into_iter().flatten();
    for path in own {
        let directory = path.parent().and_then(|path| path.to_str()).unwrap_or("");
        assert!(directories.contains(&directory), "{directory}");
    }
    let user = config.server.user.unwrap_or_default();
    assert!(read("packaging/sysusers.d/anchorite.conf").contains(&format!("\nu {user} ")));
    assert!(read("packaging/logrotate/anchorite").contains("/usr/bin/anchorite reopen"));
    let addresses: Vec<String> = config.server.listen.iter().map(ToString::to_string).collect();
    assert_eq!(values(&read(SOCKET), "ListenStream"), addresses);
}

#[test]
fn systemd_understands_the_units() {
    // The program need not be installed: what stands for it must only be executable.
    let directory = tempfile::tempdir().expect("a directory");
    for path in files("packaging/systemd", "") {
        let text = read(&path).replace("/usr/bin/anchorite", "/bin/true");
        let name = path.file_name().expect("a file has a name");
        std::fs::write(directory.path().join(name), text).expect("the copy is written");
    }
    let units = ["anchorite.service", "anchorite.socket"].map(|name| directory.path().join(name));
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).args(units).current_dir(repository()).output() {
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            let ours: Vec<&str> = told.lines().filter(|line| line.contains("anchorite")).collect();
            assert!(ours.is_empty(), "{ours:#?}");
        }
        Err(fault) => panic!("systemd-analyze: {fault}"),
    }
}
