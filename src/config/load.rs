//! The configuration of a file. Beyond what its text says, no file of the service may be another one of it: one would be written over the
//! other, and removed with it. Run by the parent, before it serves, and by the commands; reads the files, and looks links of directories up.

use super::danger::{logs, real_place};
use super::diagnostic::{Diagnostics, Faults, quoted};
use super::include::{Source, Unreadable};
use super::{Config, Listen, Setting, read, setting};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The configuration in `file` and the files it includes, or everything that is wrong with them. Relative paths start at the directory of
/// the file that they stand in.
pub fn load(file: &Path) -> Result<Config, Diagnostics> {
    match Source::read(file.to_owned()) {
        Ok(main) => read::read(&main).and_then(|config| match of_one_purpose(&config) {
            found if found.is_empty() => Ok(config),
            found => Err(setting::diagnose(file, &found)),
        }),
        Err(Unreadable::NoFile(why)) => Err(Diagnostics::of_file(file, why, "")),
        Err(Unreadable::NoText(source, fault)) => {
            let mut faults = Faults::new(&source.file, &source.directory, &source.text);
            faults.report(fault.0, fault.1, fault.2);
            Err(faults.into_diagnostics())
        }
    }
}

/// Each setting that names a file which is another one of the service's already. Several logs may be one.
fn of_one_purpose(config: &Config) -> Vec<(Setting, String)> {
    let texts = config.secrets.iter().filter(|(_, what)| *what == "the configuration");
    let sockets = config.addresses().into_iter().filter_map(|address| match &address {
        Listen::Unix(path) => Some((path.clone(), "a socket to listen on", Setting::Listen(address.clone()))),
        Listen::Tcp(_) => None,
    });
    let control = config.server.control_socket.iter().map(|path| (path.clone(), "the control socket", Setting::ControlSocket));
    let pid_file = config.server.pid_file.iter().map(|path| (path.clone(), "the pid file", Setting::PidFile));
    let logs = logs(config).map(|path| (path.to_owned(), "a log", Setting::Log(path.to_owned())));
    let mut taken: HashMap<PathBuf, &str> = texts.map(|(path, what)| (real_place(path), *what)).collect();
    let mut faults = Vec::new();
    for (path, what, setting) in control.chain(pid_file).chain(sockets).chain(logs) {
        let first = *taken.entry(real_place(&path)).or_insert(what);
        if first != what {
            faults.push((setting, is_both(&path, what, first)));
        }
    }
    faults
}

fn is_both(path: &Path, what: &str, first: &str) -> String {
    format!("{} cannot be {what}: it is {first}", quoted(&path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::load;

    #[test]
    fn a_file_has_one_purpose() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        std::fs::create_dir(home.join("site")).unwrap();
        std::os::unix::fs::symlink(&home, home.join("link")).unwrap();
        let file = home.join("a.toml");
        let told = |text: &str| {
            std::fs::write(&file, format!("{text}\n[[site]]\nroot = \"site\"\n")).unwrap();
            let told = load(&file).err().map(|faults| faults.to_string()).unwrap_or_default();
            let lines = told.lines().filter(|line| line.contains(".toml:"));
            lines.map(|line| line.replace(&format!("{}/", home.display()), "")).collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("[server]\npid_file = \"a.toml\"", "a.toml:2:12: \"a.toml\" cannot be the pid file: it is the configuration"),
            ("[log]\naccess = \"link/a.toml\"", "a.toml:2:10: \"link/a.toml\" cannot be a log: it is the configuration"),
            ("[server]\npid_file = \"x\"\ncontrol_socket = \"x\"", "a.toml:2:12: \"x\" cannot be the pid file: it is the control socket"),
            (
                "[server]\nlisten = [\"unix:x\"]\ncontrol_socket = \"x\"",
                "a.toml:2:11: \"x\" cannot be a socket to listen on: it is the control socket",
            ),
            ("[server]\npid_file = \"x\"\n[log]\nerror = \"./x\"", "a.toml:4:9: \"x\" cannot be a log: it is the pid file"),
        ] {
            assert_eq!(told(text), [expected], "{text}");
        }
        assert_eq!(told("[log]\naccess = \"./x\"\nerror = \"./x\""), [""; 0]);
    }
}
