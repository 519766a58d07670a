//! The configurations in packaging/examples are accepted, together with what they include, and say what their dump says.

use anchorite::config::{RulePlace, dump, load, parse};
use std::fs;
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples")
}

/// Every example, files of single sites too.
fn examples() -> Vec<PathBuf> {
    let directories = [directory(), directory().join("sites-available")];
    let entries = directories.iter().flat_map(|directory| fs::read_dir(directory).expect("the examples are there"));
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the directory can be read").path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn every_example_is_accepted() {
    let files = examples();
    assert_eq!(files.len(), 16, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let config =
            parse(&text, Path::new("/etc/anchorite/anchorite.toml")).unwrap_or_else(|faults| panic!("{}: {faults}", file.display()));
        assert!(!config.sites.is_empty());
    }
}

#[test]
fn an_example_means_what_its_dump_means() {
    for file in examples() {
        let read = |text: &str| {
            let mut config = parse(text, Path::new("/etc/anchorite/anchorite.toml")).unwrap_or_else(|faults| panic!("{faults}"));
            for rule in config.sites.iter_mut().flat_map(|site| &mut site.rules) {
                rule.place = RulePlace::default();
            }
            config
        };
        let config = read(&fs::read_to_string(&file).unwrap());
        assert_eq!(read(&dump(&config)), config, "{}", file.display());
    }
}

#[test]
fn sites_that_are_enabled_join_the_others() {
    let etc = tempfile::tempdir().unwrap();
    let main = etc.path().join("anchorite.toml");
    fs::copy(directory().join("many-sites.toml"), &main).unwrap();
    for name in ["sites-available", "sites-enabled"] {
        fs::create_dir(etc.path().join(name)).unwrap();
    }
    let site = "example.org.toml";
    fs::copy(directory().join("sites-available").join(site), etc.path().join("sites-available").join(site)).unwrap();
    assert_eq!(load(&main).unwrap().sites.len(), 1);
    std::os::unix::fs::symlink(format!("../sites-available/{site}"), etc.path().join("sites-enabled").join(site)).unwrap();
    let config = load(&main).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(config.sites[1].name, ["example.org", "www.example.org"]);
}
