//! The configuration file and the command line: what is refused, and how.

use crate::support::{Configuration, Launch, Root, Server, is_root};

/// Starts with `text`, which must be refused; returns what stood on stderr.
fn refused(text: &str) -> String {
    let ended = Launch::new().run_to_end(text);
    assert_eq!(ended.code, Some(1), "{text}\n{ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    ended.stderr
}

/// Whether a line of `stderr` begins with `…anchorite.toml:LINE:COLUMN: `.
fn names_the_place(stderr: &str, line: usize) -> bool {
    stderr.lines().any(|text| {
        text.split_once("anchorite.toml:").is_some_and(|(_, after)| {
            let mut parts = after.splitn(3, ':');
            parts.next() == Some(line.to_string().as_str())
                && parts.next().is_some_and(|column| column.parse::<u32>().is_ok())
                && parts.next().is_some_and(|rest| rest.starts_with(' '))
        })
    })
}

fn with_site(root: &Root, head: &str, site: &str) -> String {
    format!("{head}\n[[site]]\nroot = {:?}\n{site}\n", root.path())
}

#[test]
fn broken_files_are_refused_with_their_place() {
    let root = Root::with_index();
    for (head, site, line) in [
        // No TOML, unknown keys, wrong types, values out of range.
        ("[server\nworkers = 1", "", 1),
        ("[server]\nworkers = = 1", "", 2),
        ("[server]\nworkers = \"two\"", "", 2),
        ("[server]\nworkers = -1", "", 2),
        ("[server]\n\nworker = 1", "", 3),
        ("[servers]\nworkers = 1", "", 1),
        ("[limits]\nheader_timeout = \"ten\"", "", 2),
        ("[limits]\nheader_timeout = 10", "", 2),
        ("[limits]\nheader_bytes = \"32 bananas\"", "", 2),
        ("[limits]\nheader_count = \"100\"", "", 2),
        ("[jail]\nmode = \"cellar\"", "", 2),
        ("[jail]\nallow_missing = [\"locks\"]", "", 2),
        ("[log]\nlevel = \"loud\"", "", 2),
        ("[server]\nlisten = [\"nonsense\"]", "", 2),
        ("[server]\nlisten = [\"127.0.0.1:99999\"]", "", 2),
        ("", "symlinks = \"sometimes\"", 4),
        ("", "listing = \"yes\"", 4),
        ("", "listning = true", 4),
    ] {
        let stderr = refused(&with_site(&root, head, site));
        assert!(names_the_place(&stderr, line), "line {line} of\n{head}\n{site}\n{stderr}");
    }
}

#[test]
fn an_unknown_key_suggests_the_known_one() {
    let root = Root::with_index();
    for (head, site, right) in [
        ("", "listning = true", "listing"),
        ("[limits]\nheader_timeuot = \"1s\"", "", "header_timeout"),
        ("[server]\nworker = 1", "", "workers"),
        ("[limts]", "", "limits"),
    ] {
        let stderr = refused(&with_site(&root, head, site));
        assert!(
            stderr.contains(&format!("\"{right}\"")) || stderr.contains(&format!("`{right}`")) || stderr.contains(&format!("'{right}'")),
            "{right}: {stderr}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    let root = Root::with_index();
    let missing = root.base().join("nowhere");
    let stderr = refused(&Configuration::new().site(&missing, "").text(root.base()));
    assert!(stderr.contains("nowhere"), "{stderr}");
    let stderr = refused("[server]\nlisten = [\"127.0.0.1:0\"]\n");
    assert!(stderr.contains("site"), "no site at all: {stderr}");
    if is_root() {
        // O12
        for user in ["root", "no-such-user-here", "0"] {
            let text = Configuration::of(&root.path()).server(&format!("user = {user:?}\nlisten = [\"127.0.0.1:0\"]")).text(root.base());
            let stderr = refused(&text);
            assert!(stderr.contains(user), "{user}: {stderr}");
        }
    }
    let file = root.file("../plain-file", "");
    let stderr = refused(&Configuration::of(&file).text(root.base()));
    assert!(stderr.contains("plain-file"), "{stderr}");
}

#[test]
fn a_file_that_is_not_there_is_refused_and_named() {
    let ended = Launch::new().to_end(&["run".into(), "-c".into(), "/nonexistent/anchorite.toml".into()]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("/nonexistent/anchorite.toml"), "{}", ended.stderr);
    let ended = Launch::new().to_end(&["serve".into(), "/nonexistent".into(), "--listen".into(), "127.0.0.1:0".into()]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("/nonexistent"), "{}", ended.stderr);
}

#[test]
fn wrong_usage_is_2() {
    for arguments in [
        ["serve"].as_slice(),
        &["no-such-command"],
        &["serve", "/tmp", "--no-such-option"],
        &["serve", "/tmp", "--listen"],
        &["run", "-c"],
        &["serve", "/tmp", "--listen", "nonsense"],
        &[],
    ] {
        let words: Vec<_> = arguments.iter().map(Into::into).collect();
        let ended = Launch::new().to_end(&words);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(!ended.stderr.is_empty());
    }
}

#[test]
fn help_and_version_are_0() {
    let help = Launch::new().to_end(&["--help".into()]);
    assert_eq!(help.code, Some(0), "{help:?}");
    assert!(help.stdout.contains("serve") && help.stdout.contains("run"), "{}", help.stdout);
    let version = Launch::new().to_end(&["--version".into()]);
    assert_eq!(version.code, Some(0));
    assert_eq!(version.stdout.trim(), format!("anchorite {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_index_list_is_tried_in_order() {
    let root = Root::new();
    root.file("both/index.htm", "htm");
    root.file("both/index.html", "html");
    root.file("one/index.html", "html");
    let server = Server::run(&Configuration::new().site(&root.path(), "name = [\"\"]\nindex = [\"index.htm\", \"index.html\"]"));
    assert_eq!(server.get("/both/").must_be(&[200]).text(), "htm");
    assert_eq!(server.get("/one/").must_be(&[200]).text(), "html");
}

#[test]
fn the_number_of_workers_is_the_configured_one() {
    let root = Root::with_index();
    for count in [1, 3] {
        let server = Server::run(&Configuration::of(&root.path()).server_also(&format!("workers = {count}")));
        assert_eq!(server.workers().len(), count);
    }
}

#[test]
fn the_chroot_mode_serves_what_lies_beneath_its_root() {
    if !is_root() {
        eprintln!("skipped: chroot without a namespace needs root");
        return;
    }
    let root = Root::with_index();
    root.file("sub/a.txt", "a");
    root.file("../outside/secret", "outside-the-root");
    let jail = format!("mode = \"chroot\"\nroot = {:?}", root.base());
    let server = Server::run(&Configuration::of(&root.path()).jail(&jail));
    let workers = server.workers();
    assert_eq!(server.get("/").must_be(&[200]).text(), "index\n");
    assert_eq!(server.get("/sub/a.txt").must_be(&[200]).text(), "a");
    server.get("/../outside/secret").must_be(&[400]);
    server.must_be_well(&workers, "chroot");
    // A document root elsewhere is refused.
    let other = Root::with_index();
    let stderr = refused(&Configuration::of(&other.path()).jail(&jail).text(root.base()));
    assert!(stderr.contains(other.path().to_str().unwrap()), "{stderr}");
}
