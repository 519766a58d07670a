//! `[jail]`: read and checked. Does no I/O.

use super::danger::Shown;
use super::diagnostic::{Faults, quoted};
use super::document::Table;
use super::{Jail, JailMode, Layer, paths};
use std::ops::Range;
use std::path::PathBuf;

pub(super) fn read(table: &Table<'_>, shown: &mut Shown, faults: &mut Faults<'_>) -> Jail {
    let mut jail = default();
    let mut also = Vec::new();
    for text in table.item("also", faults).and_then(|item| item.texts("a list of directories", faults)).unwrap_or_default() {
        if let Some(path) = paths::directory(&text, faults) {
            shown.add(&path, text.at.clone());
            also.push(path);
        }
    }
    if let Some(layers) = table.item("allow_missing", faults).and_then(|item| item.choices(&LAYERS, faults)) {
        jail.allow_missing = layers;
    }
    let root = read_root(table, faults);
    if let Some((root, at)) = root {
        for (path, at) in shown.places() {
            if !path.starts_with(&root) {
                let help = format!("expected a directory beneath {}, the \"root\" of [jail]", quoted(&root.to_string_lossy()));
                faults.report(at, format!("{} cannot be seen from the jail", quoted(&path.to_string_lossy())), help);
            }
        }
        shown.add(&root, at);
        jail.mode = JailMode::Chroot(root);
    }
    jail.also = also;
    jail
}

pub(super) fn default() -> Jail {
    Jail { mode: JailMode::Mount, also: Vec::new(), allow_missing: Vec::new() }
}

/// The directory to change the root to; `None`: none, because the mode is another or after a report.
fn read_root(table: &Table<'_>, faults: &mut Faults<'_>) -> Option<(PathBuf, Range<usize>)> {
    let mode = table.item("mode", faults);
    let root = table.item("root", faults);
    let chroot = match &mode {
        Some(item) => item.choice(&MODES, faults)?,
        None => false,
    };
    match (chroot, root) {
        (true, Some(item)) => {
            let text = item.text("a directory", faults)?;
            Some((paths::directory(&text, faults)?, text.at))
        }
        (true, None) => {
            let at = mode.map_or(table.at.clone(), |item| item.at);
            faults.report_missing(at, "mode \"chroot\" needs \"root\"", "expected the directory to change the root to");
            None
        }
        (false, Some(item)) => {
            faults.report(item.key_at, "\"root\" in [jail] is only for mode \"chroot\"", "the mode is \"mount\"");
            None
        }
        (false, None) => None,
    }
}

const MODES: [(&str, bool); 2] = [("mount", false), ("chroot", true)];
pub(super) const LAYERS: [(&str, Layer); 3] =
    [("landlock", Layer::Landlock), ("seccomp", Layer::Seccomp), ("namespaces", Layer::Namespaces)];

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;

    fn said(lines: &str) -> Vec<String> {
        told(&format!("[[site]]\nroot = \"/srv/www\"\n[jail]\n{lines}\n"))
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let expected = Jail { mode: JailMode::Mount, also: Vec::new(), allow_missing: Vec::new() };
        assert_eq!(with_a_site("").jail, expected);
        assert_eq!(with_a_site("[jail]\nmode = \"mount\"").jail, expected);
    }

    #[test]
    fn every_key_is_read() {
        let text = "[jail]\nmode = \"chroot\"\nroot = \"/srv\"\nalso = [\"/srv/lib\"]\nallow_missing = [\"landlock\", \"seccomp\", \"namespaces\"]";
        let expected = Jail {
            mode: JailMode::Chroot(PathBuf::from("/srv")),
            also: vec![PathBuf::from("/srv/lib")],
            allow_missing: vec![Layer::Landlock, Layer::Seccomp, Layer::Namespaces],
        };
        assert_eq!(with_a_site(text).jail, expected);
        assert_eq!(with_a_site("[jail]\nalso = [\"lib\"]").jail.also, [PathBuf::from("/etc/anchorite/lib")]);
        assert_eq!(said("mode = \"chroot\"\nroot = \"/srv/www\""), [""; 0]);
    }

    #[test]
    fn a_root_goes_with_chroot_and_with_nothing_else() {
        assert_eq!(said("mode = \"chroot\""), ["4:8: mode \"chroot\" needs \"root\", expected the directory to change the root to"]);
        for mode in ["", "\nmode = \"mount\""] {
            assert_eq!(
                said(&format!("root = \"/srv\"{mode}")),
                ["4:1: \"root\" in [jail] is only for mode \"chroot\", the mode is \"mount\""]
            );
        }
    }

    #[test]
    fn what_the_jail_does_not_show_is_refused() {
        let help = "expected a directory beneath \"/srv/ww\", the \"root\" of [jail]";
        assert_eq!(
            said("mode = \"chroot\"\nroot = \"/srv/ww\"\nalso = [\"/usr/share\"]"),
            [
                format!("2:8: \"/srv/www\" cannot be seen from the jail, {help}"),
                format!("6:9: \"/usr/share\" cannot be seen from the jail, {help}"),
            ]
        );
    }

    #[test]
    fn words_and_directories_are_checked() {
        for (lines, said_of_it) in [
            ("mode = \"chrot\"", "4:8: \"mode\" in [jail] is \"chrot\", did you mean \"chroot\"?"),
            ("mode = \"none\"", "4:8: \"mode\" in [jail] is \"none\", expected \"mount\" or \"chroot\""),
            ("mode = true", "4:8: \"mode\" in [jail] is a boolean, expected \"mount\" or \"chroot\""),
            ("mode = \"chroot\"\nroot = \"/\"", "5:8: \"/\" is the whole file system, expected a directory beneath \"/\""),
            ("mode = \"chroot\"\nroot = 1", "5:8: \"root\" in [jail] is an integer, expected a directory"),
            ("also = [\"/\"]", "4:9: \"/\" is the whole file system, expected a directory beneath \"/\""),
            ("also = [\"../../..\"]", "4:9: \"../../..\" is the whole file system, expected a directory beneath \"/\""),
            ("also = \"/srv\"", "4:8: \"also\" in [jail] is a string, expected a list of directories"),
            ("also = [1]", "4:9: \"also\" in [jail] holds an integer, expected a list of directories"),
            (
                "allow_missing = [\"selinux\"]",
                "4:18: a value of \"allow_missing\" in [jail] is \"selinux\", expected \"landlock\", \"seccomp\" or \"namespaces\"",
            ),
            (
                "allow_missing = \"seccomp\"",
                "4:17: \"allow_missing\" in [jail] is a string, expected a list of \"landlock\", \"seccomp\" or \"namespaces\"",
            ),
        ] {
            assert_eq!(said(lines), [said_of_it]);
        }
    }
}
