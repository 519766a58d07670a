//! Settings that would show what must stay hidden, told by their paths alone. Does no I/O: what links and owners make of a path is looked at
//! by `anchorite check` and at the start.

use super::diagnostic::{Faults, quoted};
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

/// Reports directories that are shown to workers and hold a file of the configuration, a log or the control socket: whoever gets a worker
/// to serve a file gets these.
pub(super) fn check(config: &Config, files: &[PathBuf], shown: &Shown, faults: &mut Faults<'_>) {
    let mut found: HashMap<&Path, (&Path, &str)> = HashMap::new();
    let secret = files.iter().map(|file| (file.as_path(), "the configuration"));
    let secret = secret.chain(logs(config).map(|file| (file, "the log")));
    let others = [&config.server.control_socket, &config.server.pid_file];
    let secret = secret.chain(others.into_iter().flatten().map(|file| (file.as_path(), "the service's own file")));
    for (file, what) in secret {
        // As many look-ups as the path has directories, however many are shown.
        for directory in file.ancestors() {
            if let Some((directory, _)) = shown.directories.get_key_value(directory) {
                found.entry(directory).or_insert((file, what));
            }
        }
    }
    for (directory, (file, what)) in found {
        let at = shown.directories.get(directory).cloned().unwrap_or(0..0);
        let file = quoted(&file.to_string_lossy());
        let message = format!("{} would be shown to the workers with {what} {file} in it", quoted(&directory.to_string_lossy()));
        faults.report(at, message, "expected a directory that holds only what is served");
    }
}

fn logs(config: &Config) -> impl Iterator<Item = &Path> {
    let own = config.sites.iter().filter_map(|site| site.access_log.as_ref());
    let targets = [&config.log.access, &config.log.error].into_iter().chain(own);
    targets.filter_map(|target| match target {
        LogTarget::File(path) => Some(path.as_path()),
        LogTarget::Syslog | LogTarget::Stderr | LogTarget::Off => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::read::told;

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
}
