//! Settings that would show what must stay hidden, told by their paths: as they are written, and as they are once links are followed. What
//! owners make of a path is looked at by `anchorite check` and at the start.

use super::diagnostic::{Faults, quoted};
use super::include::real;
use super::{Config, LogTarget};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The directories that workers can see, and where each is named first.
#[derive(Default)]
pub(super) struct Shown {
    directories: HashMap<PathBuf, Range<usize>>,
}

impl Shown {
    pub(super) fn add(&mut self, directory: &Path, at: Range<usize>) {
        if !directory.as_os_str().is_empty() {
            self.directories.entry(directory.to_owned()).or_insert(at);
        }
    }

    /// The directories in the order of the files, each with its place.
    pub(super) fn places(&self) -> Vec<(&Path, Range<usize>)> {
        let mut places: Vec<_> = self.directories.iter().map(|(path, at)| (path.as_path(), at.clone())).collect();
        places.sort_by_key(|(_, at)| at.start);
        places
    }
}

/// The files that whoever gets a worker to serve a file must not get, and what each is.
pub(super) fn secrets(config: &Config, files: Vec<PathBuf>) -> Vec<(PathBuf, &'static str)> {
    let files = files.into_iter().map(|file| (file, "the configuration"));
    let logs = logs(config).map(|file| (file.to_owned(), "the log"));
    let others = [&config.server.control_socket, &config.server.pid_file];
    let others = others.into_iter().flatten().map(|file| (file.clone(), "the service's own file"));
    let pairs = config.sites.iter().filter_map(|site| site.tls.as_ref()).flat_map(|tls| &tls.pairs);
    let keys = pairs.map(|pair| (pair.key.clone(), "the private key"));
    let tickets = config.tls.ticket_keys.iter().map(|file| (file.clone(), "the keys of tickets"));
    let passwords = config.auths.iter().map(|auth| (auth.file.clone(), "the password file"));
    files.chain(logs).chain(others).chain(keys).chain(tickets).chain(passwords).collect()
}

/// Reports directories that are shown to workers and hold a file of the configuration, a log or the control socket: whoever gets a worker
/// to serve a file gets these.
pub(super) fn check(config: &Config, shown: &Shown, faults: &mut Faults<'_>) {
    let mut above: HashMap<PathBuf, (&Path, &str)> = HashMap::new();
    for (file, what) in &config.secrets {
        let real = real_place(file);
        for directory in file.ancestors().chain(real.ancestors()) {
            above.entry(directory.to_owned()).or_insert((file, what));
        }
    }
    for (directory, at) in &shown.directories {
        // As many look-ups as there are directories, however many files they must not hold.
        let Some((file, what)) = above.get(directory).or_else(|| above.get(&real(directory))) else {
            continue;
        };
        let (directory, file) = (quoted(&directory.to_string_lossy()), quoted(&file.to_string_lossy()));
        let message = format!("{directory} would be shown to the workers with {what} {file} in it");
        faults.report(at.clone(), message, "expected a directory that holds only what is served");
    }
}

/// Where a file is or will be, links followed; it may not be there yet.
pub(super) fn real_place(file: &Path) -> PathBuf {
    match (file.parent(), file.file_name()) {
        (Some(directory), Some(name)) => real(directory).join(name),
        _ => file.to_owned(),
    }
}

pub(super) fn logs(config: &Config) -> impl Iterator<Item = &Path> {
    let own = config.sites.iter().filter_map(|site| site.access_log.as_ref());
    let targets = [&config.log.access, &config.log.error].into_iter().chain(own);
    targets.filter_map(|target| match target {
        LogTarget::File(path) => Some(path.as_path()),
        LogTarget::Syslog | LogTarget::Stderr | LogTarget::Off => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{load, read::told};

    #[test]
    fn a_directory_that_holds_the_configuration_is_not_served() {
        let help = "expected a directory that holds only what is served";
        let config = |directory: &str| {
            format!("\"{directory}\" would be shown to the workers with the configuration \"/etc/anchorite/anchorite.toml\" in it, {help}")
        };
        for root in ["/etc", "/etc/anchorite", "/etc/anchorite/anchorite.toml"] {
            assert_eq!(told(&format!("[[site]]\nroot = \"{root}\"\n")), [format!("2:8: {}", config(root))]);
        }
        assert_eq!(
            told("[jail]\nalso = [\"/etc\"]\n[[site]]\nroot = \"/srv\"\n[[site.rule]]\npath = \"/x/*\"\nalias = \".\"\n"),
            [format!("2:9: {}", config("/etc")), format!("7:9: {}", config("/etc/anchorite")),]
        );
        assert_eq!(
            told("[[site]]\nroot = \"/srv\"\n[[site.rule]]\npath = \"/x/*\"\nroot = \"/etc/{1}\"\n"),
            [format!("5:8: {}", config("/etc"))]
        );
        assert_eq!(told("[[site]]\nroot = \"/etc/anchorite/html\"\n"), [""; 0]);
    }

    #[test]
    fn a_directory_that_holds_a_log_or_a_socket_is_not_served() {
        let help = "expected a directory that holds only what is served";
        assert_eq!(
            told("[[site]]\nroot = \"/srv\"\naccess_log = \"/srv/access.log\"\n"),
            [format!("2:8: \"/srv\" would be shown to the workers with the log \"/srv/access.log\" in it, {help}")]
        );
        assert_eq!(
            told("[log]\nerror = \"/srv/log/error.log\"\n[[site]]\nroot = \"/srv\"\n"),
            [format!("4:8: \"/srv\" would be shown to the workers with the log \"/srv/log/error.log\" in it, {help}")]
        );
        assert_eq!(
            told("[server]\ncontrol_socket = \"/srv/s\"\n[[site]]\nroot = \"/srv\"\n"),
            [format!("4:8: \"/srv\" would be shown to the workers with the service's own file \"/srv/s\" in it, {help}")]
        );
        assert_eq!(
            told("[jail]\nmode = \"chroot\"\nroot = \"/var\"\n[[site]]\nroot = \"/var/www\"\n"),
            [format!("3:8: \"/var\" would be shown to the workers with the log \"/var/log/anchorite/access.log\" in it, {help}")]
        );
    }

    #[test]
    fn a_link_to_such_a_directory_is_not_served_either() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        for name in ["conf", "log", "run", "www"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        for (name, target) in [("to-conf", "conf"), ("to-log", "log"), ("to-run", "run"), ("to-all", "."), ("to-www", "www")] {
            std::os::unix::fs::symlink(target, base.join(name)).unwrap();
        }
        let file = base.join("conf/a.toml");
        let faults = |root: &str| {
            let server = "[server]\ncontrol_socket = \"../to-run/c\"\npid_file = \"../run/p\"\n[log]\naccess = \"../to-log/a.log\"\n";
            std::fs::write(&file, format!("{server}error = \"../log/e.log\"\n[[site]]\nroot = \"../{root}\"\n")).unwrap();
            load(&file).err().map(|faults| faults.to_string()).unwrap_or_default()
        };
        for (root, what) in [
            ("to-conf", "the configuration"),
            ("to-log", "the log"),
            ("log", "the log"),
            ("to-run", "the service's own file"),
            ("to-all", "the configuration"),
        ] {
            let said = faults(root);
            let written = base.join(root);
            assert!(said.contains(&format!("{:?} would be shown to the workers with {what}", written.to_str().unwrap())), "{root}: {said}");
        }
        for root in ["to-www", "www"] {
            assert_eq!(faults(root), "", "{root}");
        }
    }
}
