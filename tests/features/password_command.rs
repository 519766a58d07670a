//! `anchorite password`: users of password files, in a form that others read too, from a terminal and from a pipe.

use crate::support::{PATIENCE, needs_root, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn password(file: &Path, user: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anchorite"));
    command.arg("password").arg(file).arg(user);
    finish(command, input)
}

fn finish(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let ends = wait_until(PATIENCE, || child.try_wait().unwrap().is_some());
    if ends.is_none() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().unwrap();
    assert!(ends.is_some(), "it does not end: {output:?}");
    output
}

/// Whether Apache's own program takes the password.
fn is_taken(file: &Path, user: &str, password: &str) -> bool {
    let mut command = Command::new("htpasswd");
    command.arg("-vb").arg(file).arg(user).arg(password);
    finish(command, "").status.success()
}

#[test]
fn users_are_added_and_changed_as_htpasswd_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users");
    let done = password(&file, "alice", "first secret\n");
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "nobody else reads a new file");
    assert!(is_taken(&file, "alice", "first secret") && !is_taken(&file, "alice", "first"));
    assert!(password(&file, "bob", "wörter\r\nmore").status.success());
    assert!(password(&file, "alice", "second").status.success());
    assert!(is_taken(&file, "alice", "second") && !is_taken(&file, "alice", "first secret") && is_taken(&file, "bob", "wörter"));
    let text = fs::read_to_string(&file).unwrap();
    let users: Vec<_> = text.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(users, ["alice", "bob"]);
    assert!(text.lines().all(|line| line.contains(":$2y$10$")), "{text}");
}

#[test]
fn a_file_keeps_owner_mode_and_the_lines_of_others() {
    needs_root!();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users");
    fs::write(&file, "# staff\nold:plain\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&file, Some(1234), Some(5678)).unwrap();
    let done = password(&file, "new", "secret");
    assert!(done.status.success(), "{done:?}");
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(told.contains("users:2: ") && told.contains("no hash that is known"), "{told}");
    let stat = file.metadata().unwrap();
    assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o777), (1234, 5678, 0o640));
    assert!(fs::read_to_string(&file).unwrap().starts_with("# staff\nold:plain\nnew:$2y$"));
}

#[test]
fn what_cannot_be_a_user_or_a_password_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users");
    fs::write(&file, "alice:x\n").unwrap();
    let long = "x".repeat(73);
    for (user, secret, why) in [
        ("a:b", "secret", "colon"),
        ("", "secret", "empty"),
        ("a\nb", "secret", "control"),
        ("#a", "secret", "comment"),
        ("alice", "", "empty"),
        ("alice", &long, "72 bytes"),
        ("alice", "a\u{1}b", "control"),
    ] {
        let failed = password(&file, user, secret);
        let told = String::from_utf8_lossy(&failed.stderr);
        assert!(failed.status.code() == Some(1) && told.contains(why), "{user:?}: {failed:?}");
        assert!(!told.contains("secret") && fs::read_to_string(&file).unwrap() == "alice:x\n", "{told}");
    }
    for place in [directory.path().to_owned(), directory.path().join("no/such/place")] {
        assert_eq!(password(&place, "alice", "secret").status.code(), Some(1), "{place:?}");
    }
}

#[test]
fn a_terminal_shows_nothing_of_what_is_typed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users");
    let at_terminal = |answers: [&str; 2]| {
        let mut command = Command::new("script");
        command.arg("-qec").arg(format!("{} password {} alice", env!("CARGO_BIN_EXE_anchorite"), file.display())).arg("/dev/null");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut shown = Vec::new();
        // What is typed before it is asked for is thrown away: the second answer waits for the second question.
        for (question, answer) in ["new password of \"alice\": ", "the same again: "].into_iter().zip(answers) {
            while !String::from_utf8_lossy(&shown).contains(question) {
                let mut byte = [0];
                assert_eq!(screen.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&shown));
                shown.push(byte[0]);
            }
            keys.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
        screen.read_to_end(&mut shown).unwrap();
        child.wait().unwrap();
        String::from_utf8_lossy(&shown).into_owned()
    };
    let shown = at_terminal(["open sesame", "open sesamy"]);
    assert!(shown.contains("not the same") && !shown.contains("sesam") && !file.exists(), "{shown}");
    let shown = at_terminal(["open sesame", "open sesame"]);
    assert!(shown.contains("new password of") && shown.contains("added") && !shown.contains("sesame"), "{shown}");
    assert!(is_taken(&file, "alice", "open sesame"));
}
