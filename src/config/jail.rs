//! `[jail]`: read and checked. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::Table;
use super::{Jail, JailMode, Layer, paths, site};
use std::path::{Path, PathBuf};

pub(super) fn read(table: &Table<'_>, base: &Path, sites: &[site::Read], faults: &mut Faults<'_>) -> Jail {
    let mut jail = default();
    let mut also = Vec::new();
    for text in table
        .item("also")
        .and_then(|item| item.texts("a list of directories", faults))
        .unwrap_or_default()
    {
        also.extend(paths::directory(&text, base, faults).map(|path| (path, text.at.clone())));
    }
    if let Some(layers) = table.item("allow_missing").and_then(|item| item.choices(&LAYERS, faults)) {
        jail.allow_missing = layers;
    }
    let root = read_root(table, base, faults);
    if let Some(root) = root {
        let roots = sites.iter().map(|read| (&read.site.root, &read.root_at));
        for (path, at) in roots.chain(also.iter().map(|(path, at)| (path, at))) {
            // An empty path has been reported already.
            if !path.as_os_str().is_empty() && !path.starts_with(&root) {
                let help = format!(
                    "expected a directory beneath {}, the \"root\" of [jail]",
                    quoted(&root.to_string_lossy())
                );
                faults.report(
                    at.clone(),
                    format!("{} cannot be seen from the jail", quoted(&path.to_string_lossy())),
                    help,
                );
            }
        }
        jail.mode = JailMode::Chroot(root);
    }
    jail.also = also.into_iter().map(|(path, _)| path).collect();
    jail
}

pub(super) fn default() -> Jail {
    Jail {
        mode: JailMode::Mount,
        also: Vec::new(),
        allow_missing: Vec::new(),
    }
}

/// The directory to change the root to; `None`: none, because the mode is another or after a report.
fn read_root(table: &Table<'_>, base: &Path, faults: &mut Faults<'_>) -> Option<PathBuf> {
    let mode = table.item("mode");
    let root = table.item("root");
    let chroot = match &mode {
        Some(item) => item.choice(&MODES, faults)?,
        None => false,
    };
    match (chroot, root) {
        (true, Some(item)) => item
            .text("a directory", faults)
            .and_then(|text| paths::directory(&text, base, faults)),
        (true, None) => {
            let at = mode.map_or(table.at.clone(), |item| item.at);
            faults.report_missing(at, "mode \"chroot\" needs \"root\"", "expected the directory to change the root to");
            None
        }
        (false, Some(item)) => {
            faults.report(
                item.key_at,
                "\"root\" in [jail] is only for mode \"chroot\"",
                "the mode is \"mount\"",
            );
            None
        }
        (false, None) => None,
    }
}

const MODES: [(&str, bool); 2] = [("mount", false), ("chroot", true)];
const LAYERS: [(&str, Layer); 3] = [
    ("landlock", Layer::Landlock),
    ("seccomp", Layer::Seccomp),
    ("namespaces", Layer::Namespaces),
];
