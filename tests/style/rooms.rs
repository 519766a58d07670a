//! Who may use whom: the floors of `src/lib.rs` hold, no two files use each other in a circle, and `unsafe` stays in its fence.

use crate::source::{files, read, without_comments, without_tests};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One use of a module by a file.
#[derive(Debug)]
struct Use {
    from: PathBuf,
    /// Names from the crate's root.
    path: Vec<String>,
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`.
fn module(path: &Path) -> Vec<String> {
    let inside = path.strip_prefix("src").expect("a source file").with_extension("");
    let mut names: Vec<String> = inside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        names.pop();
    }
    names
}

/// Every file but `main.rs` by its module.
fn modules() -> BTreeMap<Vec<String>, PathBuf> {
    files("src", ".rs").into_iter().filter(|path| path != Path::new("src/main.rs")).map(|path| (module(&path), path)).collect()
}

/// The uses in one file: `use` declarations that re-export nothing, and paths in code that begin with `crate` or `super`, or in
/// a room's own file with the name of one of its files. A room's `pub use` is its face, not a use.
fn uses(path: &Path) -> Vec<Use> {
    let code = without_comments(&without_tests(path, &read(path)));
    let here = module(path);
    let children: Vec<String> = modules()
        .into_keys()
        .filter(|name| name.len() == here.len() + 1 && name.starts_with(&here))
        .filter_map(|name| name.last().cloned())
        .collect();
    let mut paths = Vec::new();
    let mut rest = code.as_str();
    while let Some((line, after)) = rest.split_once('\n') {
        let line = line.trim_start();
        let declares = line.starts_with("use ") || line.starts_with("pub use ");
        match rest.split_once(';') {
            Some((declaration, after)) if declares => {
                rest = after;
                if let Some(tree) = declaration.trim_start().strip_prefix("use ") {
                    expand(&mut Vec::new(), tree, &mut paths);
                }
            }
            _ => {
                rest = after;
                // `pub(in a::b)` says who may use what follows, and uses nothing.
                let visibility = line.strip_prefix("pub(in ").and_then(|line| line.split_once(')'));
                paths.extend(words(visibility.map_or(line, |(_, line)| line)));
            }
        }
    }
    paths.into_iter().filter_map(|names| Some(Use { from: path.to_owned(), path: from_root(&here, &children, names)? })).collect()
}

/// A tree of a `use` declaration as whole paths.
fn expand(before: &mut Vec<String>, tree: &str, paths: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    if let Some(group) = tree.strip_prefix('{') {
        let group = group.strip_suffix('}').unwrap_or(group);
        let (mut depth, mut start) = (0, 0);
        for (at, character) in group.char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(before, &group[start..at], paths);
                    start = at + 1;
                }
                _ => {}
            }
        }
        expand(before, &group[start..], paths);
    } else if let Some((name, rest)) = tree.split_once("::") {
        before.push(name.to_owned());
        expand(before, rest, paths);
        before.pop();
    } else if !tree.is_empty() {
        let name = tree.split(" as ").next().unwrap_or(tree).trim();
        let mut path = before.clone();
        path.extend((name != "self").then(|| name.to_owned()));
        paths.push(path);
    }
}

/// Every `a::b::c` in code.
fn words(code: &str) -> Vec<Vec<String>> {
    code.split(|character: char| !(character.is_alphanumeric() || character == '_' || character == ':'))
        .filter(|word| word.contains("::"))
        .map(|word| word.split("::").map(str::to_owned).collect())
        .collect()
}

/// A path as it stands in module `here`, from the crate's root; `None`: it leads out of the crate.
fn from_root(here: &[String], children: &[String], names: Vec<String>) -> Option<Vec<String>> {
    let first = names.first()?;
    let supers = names.iter().take_while(|name| *name == "super").count();
    if first == "crate" || first == "anchorite" {
        Some(names[1..].to_vec())
    } else if supers > 0 {
        Some([&here[..here.len() - supers], &names[supers..]].concat())
    } else if first == "self" {
        Some([here, &names[1..]].concat())
    } else {
        children.contains(first).then(|| [here, &names[..]].concat())
    }
}

/// The file that a path leads into.
fn file<'m>(modules: &'m BTreeMap<Vec<String>, PathBuf>, path: &[String]) -> Option<&'m PathBuf> {
    (1..=path.len()).rev().find_map(|length| modules.get(&path[..length]))
}

fn all_uses() -> Vec<Use> {
    files("src", ".rs").iter().flat_map(|path| uses(path)).collect()
}

/// The floor of each room, from the top, as `src/lib.rs` draws them.
fn floors() -> BTreeMap<String, usize> {
    let tour = read("src/lib.rs");
    let drawing = tour.split("//! ```text\n").nth(1).and_then(|rest| rest.split("//! ```").next()).expect("the floors are drawn");
    let rooms = drawing.lines().enumerate().flat_map(|(floor, line)| {
        let rooms = line.trim_start_matches("//!").split_whitespace();
        rooms.map(move |room| (room.to_owned(), floor)).collect::<Vec<_>>()
    });
    rooms.collect()
}

/// The room that a file belongs to.
fn room(path: &Path) -> String {
    module(path).into_iter().next().unwrap_or_else(|| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
}

#[test]
fn every_room_has_its_floor_and_every_floor_its_rooms() {
    let mut drawn: Vec<String> = floors().into_keys().collect();
    let rooms: BTreeSet<String> = files("src", ".rs").iter().map(|path| room(path)).filter(|room| room != "lib").collect();
    drawn.sort();
    assert_eq!(drawn, rooms.into_iter().collect::<Vec<_>>());
}

#[test]
fn the_parser_finds_the_uses() {
    let found: Vec<String> =
        all_uses().iter().filter(|found| found.from == Path::new("src/parent/child.rs")).map(|found| found.path.join("::")).collect();
    for wanted in ["parent::cell::Cells", "sys::verify", "sys::verify::Expected", "ipc::Channel", "sys::process::Start", "role::Layer"] {
        assert!(found.iter().any(|path| path == wanted), "{wanted} in {found:#?}");
    }
    assert!(all_uses().iter().any(|found| found.from == Path::new("src/cli/mod.rs") && found.path.join("::") == "cli::serve::main"));
    assert!(all_uses().iter().any(|found| found.from == Path::new("src/main.rs") && found.path[0] == "cli"));
}

#[test]
fn a_room_uses_only_rooms_on_floors_below_its_own() {
    let floors = floors();
    let mut wrong = Vec::new();
    for Use { from, path } in all_uses() {
        let (here, Some(there)) = (room(&from), path.first()) else {
            continue;
        };
        if here == *there || here == "lib" {
            continue;
        }
        let floor = floors.get(there).unwrap_or_else(|| panic!("{} uses {path:?}, which is no room", from.display()));
        if *floor <= floors[&here] {
            wrong.push(format!("{} uses {}", from.display(), path.join("::")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_runs_with_privilege_or_for_a_worker_does_not_know_the_protocol() {
    for (here, forbidden) in [("broker", ["proto", "site", "worker"]), ("parent", ["proto", "site", "worker"])] {
        for Use { from, path } in all_uses() {
            let known = room(&from) == here && path.first().is_some_and(|there| forbidden.contains(&there.as_str()));
            assert!(!known, "{} uses {path:?}", from.display());
        }
    }
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let modules = modules();
    let mut graph = BTreeMap::<PathBuf, BTreeSet<PathBuf>>::new();
    for Use { from, path } in all_uses() {
        if let Some(to) = file(&modules, &path).filter(|to| **to != from) {
            graph.entry(from).or_default().insert(to.clone());
        }
    }
    // What uses nothing that is left, or is used by nothing that is left, is in no circle.
    let mut left = graph;
    loop {
        let before = left.len();
        let users: Vec<PathBuf> = left.keys().cloned().collect();
        left.retain(|_, used| used.iter().any(|used| users.contains(used)));
        let used: BTreeSet<PathBuf> = left.values().flatten().cloned().collect();
        left.retain(|path, _| used.contains(path));
        if left.len() == before {
            break;
        }
    }
    let users: Vec<PathBuf> = left.keys().cloned().collect();
    left.values_mut().for_each(|used| used.retain(|path| users.contains(path)));
    assert!(left.is_empty(), "in a circle, or between two: {left:#?}");
}

#[test]
fn unsafe_stays_in_its_fence() {
    for path in files("src", ".rs") {
        let code = without_comments(&read(&path));
        let fenced = path.starts_with("src/sys");
        let begins = code.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == "unsafe");
        assert!(fenced || !begins, "{} holds unsafe code", path.display());
        let is_room = path.file_name().is_some_and(|name| name == "mod.rs") && path.iter().count() == 3;
        if is_room || path == Path::new("src/main.rs") {
            assert_eq!(code.contains("#![forbid(unsafe_code)]"), !fenced, "{}", path.display());
        }
    }
}

#[test]
fn crates_that_make_system_calls_stay_in_the_fence() {
    for path in files("src", ".rs").iter().filter(|path| !path.starts_with("src/sys")) {
        let code = without_comments(&without_tests(path, &read(path)));
        for word in ["nix", "caps", "landlock", "libc"] {
            let uses = words(&code).iter().any(|path| path[0] == word) || code.contains(&format!("use {word};"));
            // `landlock` is also the name of a file of the fence.
            let own = word == "landlock" && code.contains("use crate::sys");
            assert!(!uses || own, "{} uses the crate {word}", path.display());
        }
    }
}
