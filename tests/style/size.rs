//! What runs with privilege stays small enough to be read in an hour, and every file small enough to be read at once.

use crate::source::{files, read, without_tests};

/// Lines of `src/parent` and `src/broker` without tests: reload, replacement in place, control and logs must run there, and `files`
/// waits for disks, which only a process of its own can; `connect` makes the sockets that no worker may, and the parent finds out where they
/// are; `spool` counts what all bodies take, which nobody who reads them may; `spawn` becomes the
/// users of programs, which takes root, and hears from workers which CGI program a request is for; `keys` holds what no worker may see;
/// `auth` makes hashes that are slow on purpose, which no worker may wait for.
const PRIVILEGED_MAX: usize = 6_800;

/// Lines of one file without tests.
const FILE_MAX: usize = 600;

fn lines(path: &std::path::Path) -> usize {
    without_tests(path, &read(path)).lines().count()
}

#[test]
fn parent_and_broker_stay_below_6800_lines() {
    let counted: Vec<_> =
        ["src/parent", "src/broker"].iter().flat_map(|room| files(room, ".rs")).map(|path| (lines(&path), path)).collect();
    let sum: usize = counted.iter().map(|(count, _)| count).sum();
    assert!(sum < PRIVILEGED_MAX, "{sum} lines: {counted:#?}");
}

#[test]
fn no_file_is_longer_than_600_lines() {
    let long: Vec<_> = files("src", ".rs").into_iter().map(|path| (lines(&path), path)).filter(|(count, _)| *count > FILE_MAX).collect();
    assert!(long.is_empty(), "look for the seam: {long:?}");
}
