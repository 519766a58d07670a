//! Which part of a path is the script, and which is left to it.
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O.

use super::lookup::RootRef;
use super::pattern::{Part, Pattern};
use crate::proto::target::Path;
use regex_automata::meta::Regex;

/// A request that is for a program: what the plan found out about the script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The number of the backend in the configuration.
    pub backend: u16,
    /// How many bytes of the decoded path are SCRIPT_NAME; the rest is PATH_INFO. 0 for an application mounted on `/`.
    pub name: usize,
    /// The directory beneath which the script lies, and where beneath it: SCRIPT_FILENAME.
    pub root: RootRef,
    pub file: Vec<u8>,
    /// The directory that is DOCUMENT_ROOT, and what follows its literal part.
    pub document_root: RootRef,
    pub document_rest: Vec<u8>,
    /// Whether a regular file was found there.
    pub checked: bool,
}

/// Where a script is, as the program's own file system has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// DOCUMENT_ROOT, without a slash at its end.
    pub document_root: Vec<u8>,
    /// SCRIPT_FILENAME.
    pub file: Vec<u8>,
}

impl Script {
    /// Where the program sees the script. `base` says where a directory is here, and `script_root` where the program sees the document
    /// root, if that is elsewhere.
    pub fn places<'b>(&self, base: impl Fn(RootRef) -> &'b [u8], script_root: Option<&[u8]>) -> Places {
        let join = |base: &[u8], rest: &[u8]| if rest.is_empty() { base.to_vec() } else { [base, b"/", rest].concat() };
        let Some(seen) = script_root else {
            return Places { document_root: join(base(self.document_root), &self.document_rest), file: join(base(self.root), &self.file) };
        };
        // What a capture put behind the literal directory is a part of the root that the program sees as its own.
        let beneath = match self.root == self.document_root {
            true => self.file.strip_prefix(self.document_rest.as_slice()).unwrap_or(&self.file),
            false => &self.file,
        };
        Places { document_root: seen.to_vec(), file: join(seen, beneath.strip_prefix(b"/").unwrap_or(beneath)) }
    }
}

/// How the paths of a rule that runs scripts are read.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    paths: Vec<Pattern>,
}

/// What such a rule found in a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Cut {
    #[default]
    Nothing,
    /// An application that is mounted: so many bytes of the path are its mount.
    Mount(usize),
    /// Prefixes of the path that may be the script, shortest first, as numbers of bytes.
    Prefixes(Vec<usize>),
}

impl Patterns {
    pub(super) fn new(paths: &[Pattern]) -> Patterns {
        Patterns { paths: paths.to_vec() }
    }

    /// Reads a path; `captures` becomes what the stars, or the groups, of the first prefix stand for.
    pub(super) fn cut(&self, regex: Option<&Regex>, path: &Path, captures: &mut Vec<Part>) -> Cut {
        captures.clear();
        if self.paths.is_empty() && regex.is_none() {
            return Cut::Mount(0);
        }
        if regex.is_none()
            && let Some(mount) = self.paths.iter().find_map(|pattern| mount(pattern, path.bytes(), captures))
        {
            return Cut::Mount(mount);
        }
        let mut prefixes = Vec::new();
        let mut found = Vec::new();
        for (end, names) in path.ends().take(PREFIXES_MAX) {
            let whole = end == path.bytes().len();
            let text = &path.bytes()[..end];
            // What stands behind an encoded slash names no file.
            if !names || !self.names(text, whole, &mut found) || !regex.is_none_or(|regex| groups(regex, text, &mut found)) {
                continue;
            }
            if prefixes.is_empty() {
                std::mem::swap(captures, &mut found);
            }
            prefixes.push(end);
        }
        if prefixes.is_empty() { Cut::Nothing } else { Cut::Prefixes(prefixes) }
    }

    /// Whether a path is that of a source, which is never sent as it is.
    pub(super) fn is_source(&self, regex: Option<&Regex>, path: &Path, checked: bool) -> bool {
        match self.cut(regex, path, &mut Vec::new()) {
            Cut::Nothing => self.paths.iter().any(|pattern| regex.is_none() && is_relative(pattern, path.bytes())),
            Cut::Mount(mount) => checked && mount < path.bytes().len(),
            Cut::Prefixes(_) => true,
        }
    }

    /// Whether a prefix of the path is a name that a pattern matches. An exact pattern matches nothing but the whole path.
    fn names(&self, text: &[u8], whole: bool, stars: &mut Vec<Part>) -> bool {
        stars.clear();
        self.paths.is_empty() || self.paths.iter().any(|pattern| (whole || pattern.exact().is_none()) && pattern.matches(text, stars))
    }
}

/// The length of the mount, if the pattern is one and matches: it ends in `/` or `/*`, or is `*`.
fn mount(pattern: &Pattern, text: &[u8], stars: &mut Vec<Part>) -> Option<usize> {
    if let Some(exact) = pattern.exact() {
        return (exact.ends_with(b"/") && exact == text).then(|| exact.len() - 1);
    }
    if !pattern.is_open() || !pattern.matches(text, stars) {
        return None;
    }
    let (from, _) = *stars.last()?;
    match from.checked_sub(1) {
        None => Some(0),
        Some(at) if text.get(at) == Some(&b'/') => Some(at),
        Some(_) => None,
    }
}

/// PHP runs, shows or includes files of these names beside `*.php`, so where that is run they are sources too; in any case, for that is how
/// they come from where case does not matter.
fn is_relative(pattern: &Pattern, text: &[u8]) -> bool {
    let name = text.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_ascii_lowercase();
    pattern.suffix() == b".php" && RELATIVES.iter().any(|end| name.ends_with(end.as_bytes()))
}

fn groups(regex: &Regex, text: &[u8], captures: &mut Vec<Part>) -> bool {
    let mut groups = regex.create_captures();
    regex.captures(text, &mut groups);
    captures.clear();
    captures.extend(groups.iter().skip(1).map(|group| group.map_or((0, 0), |span| (span.start, span.end))));
    groups.is_match()
}

/// Segments of a path that are tried as the end of a script's name: what a client sends costs this much and no more.
const PREFIXES_MAX: usize = 128;
const RELATIVES: [&str; 12] = [".php", ".phtml", ".phps", ".phar", ".php3", ".php4", ".php5", ".php6", ".php7", ".php8", ".pht", ".inc"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile_regex;
    use crate::proto::target;

    fn path(raw: &str) -> Path {
        let mut path = Path::default();
        target::parse_into(raw.as_bytes(), &mut path).unwrap();
        path
    }

    fn patterns(list: &[&str]) -> Patterns {
        Patterns::new(&list.iter().map(|pattern| Pattern::new(pattern.as_bytes())).collect::<Vec<_>>())
    }

    #[test]
    fn a_program_sees_its_script_where_its_file_system_has_it() {
        // Ids of reports: 001, 002, 005, 010.
        let base = |root: RootRef| [b"/jail/sites/a".as_slice(), b"/cgiroot"][root.0];
        let script = |root, file: &str, rest: &str| Script {
            root: RootRef(root),
            file: file.into(),
            document_rest: rest.into(),
            ..Script::default()
        };
        for (script, script_root, document_root, file) in [
            (script(0, "x.php", ""), None, "/jail/sites/a", "/jail/sites/a/x.php"),
            (script(0, "x.php", ""), Some("/sites/a"), "/sites/a", "/sites/a/x.php"),
            (script(0, "", ""), None, "/jail/sites/a", "/jail/sites/a"),
            (script(1, "index.sh", ""), None, "/jail/sites/a", "/cgiroot/index.sh"),
            (script(1, "index.sh", ""), Some("/r"), "/r", "/r/index.sh"),
            (script(0, "b/x.php", "b"), None, "/jail/sites/a/b", "/jail/sites/a/b/x.php"),
            (script(0, "b/x.php", "b"), Some("/r"), "/r", "/r/x.php"),
        ] {
            let places = script.places(base, script_root.map(str::as_bytes));
            assert_eq!(places, Places { document_root: document_root.into(), file: file.into() }, "{script:?} {script_root:?}");
        }
    }

    #[test]
    fn a_suffix_matches_every_name_that_the_path_goes_on_behind() {
        for (pattern, raw, expected) in [
            ("*.php", "/a.php", vec!["/a.php"]),
            ("*.php", "/a.php/", vec!["/a.php"]),
            ("*.php", "/a.php/info/x", vec!["/a.php"]),
            ("*.php", "/a.php/b.php/c", vec!["/a.php", "/a.php/b.php"]),
            ("*.php", "/dir.php/x.jpg", vec!["/dir.php"]),
            ("*.php", "/photo.jpg/x.php", vec!["/photo.jpg/x.php"]),
            ("*.php", "/a.php/../b", vec![]),
            ("*.php", "/a.phpx", vec![]),
            ("*.php", "/A.PHP", vec![]),
            ("*.php", "/a.php%2fx.php", vec![]),
            ("*.php", "/a.php/..%2fx", vec!["/a.php"]),
            ("*.php", "/a.php/%0aQQQ", vec!["/a.php"]),
            ("*.php", "/a.php%0d", vec![]),
            ("/x/*.php", "/x/y/a.php/i", vec!["/x/y/a.php"]),
            ("/index.php", "/index.php", vec!["/index.php"]),
            ("/index.php", "/index.php/x", vec![]),
            ("/cgi*", "/cgi-bin/a/b", vec!["/cgi-bin", "/cgi-bin/a", "/cgi-bin/a/b"]),
        ] {
            let asked = path(raw);
            let prefixes = match patterns(&[pattern]).cut(None, &asked, &mut Vec::new()) {
                Cut::Nothing => vec![],
                Cut::Prefixes(ends) => ends.into_iter().map(|end| str::from_utf8(&asked.bytes()[..end]).unwrap()).collect(),
                Cut::Mount(mount) => panic!("{pattern} {raw}: a mount of {mount}"),
            };
            assert_eq!(prefixes, expected, "{pattern} {raw}");
        }
    }

    #[test]
    fn what_ends_in_a_slash_or_matches_everything_is_a_mount() {
        for (list, raw, expected) in [
            (vec![], "/a/b", Some(0)),
            (vec!["*"], "/a/b", Some(0)),
            (vec!["/"], "/", Some(0)),
            (vec!["/*"], "/a", Some(0)),
            (vec!["/app/*"], "/app/x/y", Some(4)),
            (vec!["/app/*"], "/app/", Some(4)),
            (vec!["/*/app/*"], "/u/app/x", Some(6)),
            (vec!["*.php", "/app/*"], "/app/x", Some(4)),
            (vec!["/app/*"], "/app", None),
        ] {
            let cut = patterns(&list).cut(None, &path(raw), &mut Vec::new());
            assert_eq!(cut, expected.map_or(Cut::Nothing, Cut::Mount), "{list:?} {raw}");
        }
    }

    #[test]
    fn a_regex_is_compared_with_every_prefix_and_gives_its_groups() {
        let regex = compile_regex(r"^/([a-z]+)\.php$").unwrap();
        let mut captures = Vec::new();
        let asked = path("/ab.php/x/y");
        assert_eq!(patterns(&[]).cut(Some(&regex), &asked, &mut captures), Cut::Prefixes(vec![7]));
        assert_eq!(captures, [(1, 3)]);
        assert_eq!(patterns(&["/b*"]).cut(Some(&regex), &asked, &mut captures), Cut::Nothing);
    }

    #[test]
    fn sources_are_known_by_their_pattern_alone() {
        for (list, checked, raw, expected) in [
            (vec!["*.php"], true, "/a.php", true),
            (vec!["*.php"], true, "/d.php/x.jpg", true),
            (vec!["*.php"], true, "/a.phtml", true),
            (vec!["*.php"], true, "/a.php5", true),
            (vec!["*.php"], true, "/x/a.inc", true),
            (vec!["*.php"], true, "/A.PHP", true),
            (vec!["*.php"], true, "/x/a.Inc", true),
            (vec!["/x/*.php"], true, "/x/A.PHP", true),
            (vec!["*.cgi"], true, "/A.PHP", false),
            (vec!["*.php"], true, "/a.php.txt", false),
            (vec!["*.cgi"], true, "/a.inc", false),
            (vec!["/app/*"], false, "/app/x.js", false),
            (vec!["/cgi/*"], true, "/cgi/prog", true),
            (vec!["*"], false, "/x", false),
        ] {
            assert_eq!(patterns(&list).is_source(None, &path(raw), checked), expected, "{list:?} {raw}");
        }
    }

    #[test]
    fn a_path_of_many_segments_costs_no_more_than_the_first_of_them() {
        let raw = "/a.php".repeat(PREFIXES_MAX + 5);
        let Cut::Prefixes(prefixes) = patterns(&["*.php"]).cut(None, &path(&raw), &mut Vec::new()) else { panic!() };
        assert_eq!(prefixes.len(), PREFIXES_MAX);
    }
}
