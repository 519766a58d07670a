//! `anchorite site`: links from sites-enabled to sites-available.

use crate::support::{Configuration, Ended, Launch, Root};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn site(launch: &Launch, words: &[&str]) -> Ended {
    let file = launch.home().join("anchorite.toml");
    let words = words.iter().map(Into::into);
    let arguments: Vec<_> = ["site".into()].into_iter().chain(words).chain(["-c".into(), file.into()]).collect();
    launch.to_end(&arguments)
}

fn with_sites(names: &[&str]) -> Launch {
    let launch = Launch::new();
    launch.write_configuration("include = [\"sites-enabled/*.toml\"]\n");
    fs::create_dir(launch.home().join("sites-available")).unwrap();
    for name in names {
        fs::write(launch.home().join(format!("sites-available/{name}.toml")), "").unwrap();
    }
    launch
}

#[test]
fn a_site_is_enabled_and_disabled_by_a_relative_link() {
    let launch = with_sites(&["blog", "shop"]);
    let link = launch.home().join("sites-enabled/blog.toml");
    let said = site(&launch, &["enable", "blog"]).must_be_done();
    assert!(said.stdout.contains("anchorite reload") && said.stderr.is_empty(), "{said:?}");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("../sites-available/blog.toml"));
    assert!(site(&launch, &["enable", "blog.toml"]).must_be_done().stdout.contains("already enabled"));
    assert_eq!(site(&launch, &["list"]).must_be_done().stdout, "blog: enabled\nshop: disabled\n");
    site(&launch, &["disable", "blog.toml"]).must_be_done();
    assert!(link.symlink_metadata().is_err());
    assert!(site(&launch, &["disable", "blog"]).must_be_done().stdout.contains("already disabled"));
    assert_eq!(site(&launch, &["list"]).must_be_done().stdout, "blog: disabled\nshop: disabled\n");
}

#[test]
fn what_is_not_its_link_is_left_as_it_is() {
    let launch = with_sites(&["blog", "shop"]);
    let enabled = launch.home().join("sites-enabled");
    fs::create_dir(&enabled).unwrap();
    fs::write(enabled.join("blog.toml"), "precious").unwrap();
    symlink("../sites-available/blog.toml", enabled.join("shop.toml")).unwrap();
    symlink("../sites-available/gone.toml", enabled.join("gone.toml")).unwrap();
    for name in ["blog", "shop"] {
        for order in ["enable", "disable"] {
            let told = site(&launch, &[order, name]).must_fail().stderr;
            assert!(told.contains("left as it is"), "{told}");
        }
    }
    assert_eq!(fs::read_to_string(enabled.join("blog.toml")).unwrap(), "precious");
    let list = site(&launch, &["list"]).must_be_done().stdout;
    assert!(list.contains("gone: enabled, but its file is missing"), "{list}");
    site(&launch, &["disable", "gone"]).must_be_done();
}

#[test]
fn names_are_names_and_not_paths() {
    let launch = with_sites(&["blog"]);
    fs::write(launch.home().join("outside.toml"), "").unwrap();
    for name in ["../outside", "/etc/passwd", ".hidden", "..", "", "a/b"] {
        for order in ["enable", "disable"] {
            assert!(site(&launch, &[order, name]).must_fail().stderr.contains("is not the name of a site"), "{name}");
        }
    }
    let told = site(&launch, &["enable", "blgo"]).must_fail().stderr;
    assert!(told.contains("available: blog"), "{told}");
    assert_eq!(site(&launch, &[]).code, Some(2));
}

#[test]
fn an_enabled_site_is_served_after_a_reload() {
    let (one, two) = (Root::with_index(), Root::new());
    two.file("index.html", "two\n");
    let launch = with_sites(&[]);
    let text = format!("[[site]]\nname = [\"two.test\"]\nroot = {:?}\n", two.path());
    fs::write(launch.home().join("sites-available/two.toml"), text).unwrap();
    let text = Configuration::of(&one.path()).text(launch.home());
    let file = launch.write_configuration(&format!("include = [\"sites-enabled/*.toml\"]\n{text}"));
    fs::create_dir(launch.home().join("sites-enabled")).unwrap();
    let server = launch.start(&["run".into(), "-c".into(), file.into()]);
    server.order(&["site", "enable", "two"]).must_be_done();
    server.order(&["reload"]).must_be_done();
    let ask = "GET / HTTP/1.1\r\nHost: two.test\r\nConnection: close\r\n\r\n";
    assert_eq!(server.exchange(ask, "GET").text(), "two\n");
}
