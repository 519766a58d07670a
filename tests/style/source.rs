//! Reads the repository's own files for the tests of this folder.

use std::path::{Path, PathBuf};

/// The directory of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file, its path given from the repository's directory.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()))
}

/// Every file below a directory of the repository whose name ends so, in order; paths from the repository's directory.
pub(crate) fn files(below: &str, ending: &str) -> Vec<PathBuf> {
    let (mut found, mut directories) = (Vec::new(), vec![PathBuf::from(below)]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(repository().join(&directory)).expect("the directory is there") {
            let entry = entry.expect("an entry can be read");
            let path = directory.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Source without its unit tests, which stand at the bottom of a file or in a `tests.rs` of their own.
pub(crate) fn without_tests(path: &Path, text: &str) -> String {
    if path.file_name().is_some_and(|name| name == "tests.rs") {
        return String::new();
    }
    let is_tests = |after: &str| after.trim_start().lines().next().is_some_and(|line| line.contains("mod tests {"));
    let mut starts = text.match_indices(CFG).map(|(at, _)| at);
    let end = starts.find(|at| is_tests(&text[at + CFG.len()..]));
    text[..end.unwrap_or(text.len())].to_owned()
}

const CFG: &str = "#[cfg(test)]";

/// Source without comments and without what stands in quotes on one line.
pub(crate) fn without_comments(text: &str) -> String {
    let code = |line: &str| line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"").split("//").next().unwrap_or("").to_owned() + "\n";
    text.lines().map(code).collect()
}
