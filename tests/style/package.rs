//! The Debian package in `packaging/debian` brings what there is, and its scripts are scripts.

use crate::source::{files, read, repository};
use std::process::Command;

/// Names of the files of a directory.
fn names(directory: &str) -> Vec<String> {
    let name = |path: &std::path::PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = files(directory, "").iter().filter_map(name).collect();
    assert!(!names.is_empty(), "{directory}");
    names
}

#[test]
fn every_manual_completion_and_unit_is_installed() {
    let rules = read("packaging/debian/rules");
    for directory in
        ["man", "packaging/completions", "packaging/systemd", "packaging/sysusers.d", "packaging/tmpfiles.d", "packaging/logrotate"]
    {
        for name in names(directory) {
            assert!(rules.contains(&format!("{directory}/{name}")), "{directory}/{name}");
        }
    }
    assert!(rules.contains("cp -r packaging/examples"));
}

#[test]
fn the_package_has_the_version_of_the_program() {
    let version = format!("anchorite ({}-", env!("CARGO_PKG_VERSION"));
    assert!(read("packaging/debian/changelog").starts_with(&version), "{version}");
}

#[test]
fn every_user_of_the_service_goes_with_it() {
    let (users, purge) = (read("packaging/sysusers.d/anchorite.conf"), read("packaging/debian/anchorite.postrm"));
    let gone = purge.lines().find_map(|line| line.trim().strip_prefix("for user in ")).unwrap();
    for user in users.lines().filter_map(|line| line.strip_prefix("u ")?.split(' ').next()) {
        assert!(gone.trim_end_matches("; do").split(' ').any(|name| name == user), "{user}");
    }
}

#[test]
fn its_site_is_a_configuration() {
    let read_as = |name: &str| {
        let text = read(format!("packaging/debian/etc/{name}"));
        text.lines().filter(|line| !line.starts_with("include")).fold(String::new(), |all, line| all + line + "\n")
    };
    let file = std::path::Path::new("/etc/anchorite/anchorite.toml");
    let config = anchorite::config::parse(&format!("{}{}", read_as("anchorite.toml"), read_as("default.toml")), file).unwrap();
    assert_eq!(config.sites.len(), 1);
}

#[test]
fn its_scripts_are_understood_by_their_shells() {
    for (shell, script) in [
        ("dash", "debian/anchorite.postinst"),
        ("dash", "debian/anchorite.postrm"),
        ("bash", "build-deb"),
        ("bash", "test-install.sh"),
        ("bash", "completions/anchorite.bash"),
    ] {
        let script = repository().join("packaging").join(script);
        let checked = Command::new(shell).arg("-n").arg(&script).output().unwrap();
        assert!(checked.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&checked.stderr));
    }
}
