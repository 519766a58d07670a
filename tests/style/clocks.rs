//! O14: the wall clock is read for dates, and for nothing that is waited for.

use crate::source::{files, read, without_comments, without_tests};

/// What reads it, or could.
const WALL: [&str; 5] = ["SystemTime", "CLOCK_REALTIME", "unix_seconds", "localtime", "Instant"];

/// Files that may, and what for.
const DATES: [(&str, &str); 6] = [
    ("src/tls/mod.rs", "when certificates end"),
    ("src/sys/clock.rs", "reads the clocks"),
    ("src/cli/explain.rs", "Last-Modified is never in the future"),
    ("src/proto/date.rs", "HTTP dates"),
    ("src/worker/clock.rs", "the Date field and the time of access lines"),
    ("src/ipc/lines.rs", "the time of error lines"),
];

/// Those that look at the seconds which the worker's clock holds.
const MOMENTS: [(&str, &str); 6] = [
    ("src/worker/clock.rs", "holds them"),
    ("src/worker/answer.rs", "the access line; Last-Modified is never in the future"),
    ("src/worker/encoding.rs", "Last-Modified is never in the future"),
    ("src/worker/response.rs", "Expires"),
    ("src/worker/log.rs", "the access line"),
    ("src/worker/known.rs", "how long ago the times of a directory are, which the wall clock made"),
];

fn using(words: &[&str], rooms: &str) -> Vec<String> {
    let uses = |path: &std::path::PathBuf| {
        let code = without_comments(&without_tests(path, &read(path)));
        words.iter().any(|word| code.contains(word))
    };
    files(rooms, ".rs").into_iter().filter(uses).map(|path| path.display().to_string()).collect()
}

#[test]
fn o14_the_wall_clock_is_read_for_dates_only() {
    let mut allowed = DATES.map(|(path, _)| path.to_owned()).to_vec();
    allowed.sort();
    let mut found = using(&WALL, "src");
    found.sort();
    assert_eq!(found, allowed, "left: what reads the wall clock; right: what may");
    let strange: Vec<String> =
        using(&[".unix"], "src/worker").into_iter().filter(|path| !MOMENTS.iter().any(|(known, _)| known == path)).collect();
    assert!(strange.is_empty(), "is that a date, or a deadline? {strange:?}");
}
