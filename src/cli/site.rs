//! `anchorite site`: which sites of `sites-available` are served, as symbolic links from `sites-enabled`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What is asked of the sites.
#[derive(clap::Subcommand)]
pub(super) enum Order {
    /// Lists the sites that are there and says which are enabled
    List,
    /// Links a site into sites-enabled
    Enable {
        /// The site: a file of sites-available, with or without `.toml`
        name: String,
    },
    /// Removes the link of a site from sites-enabled
    Disable {
        /// The site
        name: String,
    },
}

/// Does it in the directories beside the configuration file; the exit status.
pub(super) fn main(file: &Path, order: &Order) -> u8 {
    let base = file.parent().filter(|base| !base.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let sites = Sites { available: base.join(AVAILABLE), enabled: base.join(ENABLED) };
    let outcome = match order {
        Order::List => sites.list(),
        Order::Enable { name } => sites.enable(name).inspect(|_| note_include(file)),
        Order::Disable { name } => sites.disable(name),
    };
    match outcome {
        Ok(text) => {
            let _ = write!(io::stdout(), "{text}");
            0
        }
        Err(why) => {
            complain!("anchorite: {why}");
            1
        }
    }
}

struct Sites {
    available: PathBuf,
    enabled: PathBuf,
}

/// What has the name of a site in `sites-enabled`.
#[derive(PartialEq, Eq)]
enum Found {
    Nothing,
    /// A link to the site of that name.
    Link,
    /// Something that is not ours to replace or remove.
    Other(&'static str),
}

impl Sites {
    fn list(&self) -> Result<String, String> {
        let mut states = BTreeMap::new();
        for name in names(&self.available)? {
            let state = match self.found(&name) {
                Found::Link => "enabled",
                Found::Nothing => "disabled",
                Found::Other(_) => "disabled, but sites-enabled has another file of that name",
            };
            states.insert(name, state);
        }
        for name in names(&self.enabled).unwrap_or_default() {
            let missing = self.found(&name) == Found::Link;
            states.entry(name).or_insert(if missing {
                "enabled, but its file is missing"
            } else {
                "enabled, not a link to sites-available"
            });
        }
        let lines = states.iter().map(|(name, state)| format!("{name}: {state}\n"));
        Ok(lines.collect())
    }

    fn enable(&self, name: &str) -> Result<String, String> {
        let name = checked(name)?;
        let available = self.available.join(file_name(name));
        if !available.is_file() {
            let known = names(&self.available).unwrap_or_default().join(", ");
            let known = if known.is_empty() { String::new() } else { format!("; available: {known}") };
            return Err(format!("there is no site \"{}\"{known}", available.display()));
        }
        let link = self.enabled.join(file_name(name));
        match self.found(name) {
            Found::Link => return Ok(format!("{name} is already enabled\n")),
            Found::Other(what) => return Err(format!("\"{}\" is {what}; it is left as it is", link.display())),
            Found::Nothing => {}
        }
        let fault = |fault: io::Error| format!("link \"{}\": {fault}", link.display());
        match fs::create_dir(&self.enabled) {
            Err(errno) if errno.kind() != io::ErrorKind::AlreadyExists => return Err(fault(errno)),
            Ok(()) | Err(_) => {}
        }
        symlink(target(name), &link).map_err(fault)?;
        Ok(format!("{name} is enabled; \"anchorite reload\" brings it into force\n"))
    }

    fn disable(&self, name: &str) -> Result<String, String> {
        let name = checked(name)?;
        let link = self.enabled.join(file_name(name));
        match self.found(name) {
            Found::Nothing if self.available.join(file_name(name)).exists() => Ok(format!("{name} is already disabled\n")),
            Found::Nothing => Err(format!("there is no site \"{}\"", link.display())),
            Found::Other(what) => Err(format!("\"{}\" is {what}; it is left as it is", link.display())),
            Found::Link => {
                fs::remove_file(&link).map_err(|fault| format!("remove \"{}\": {fault}", link.display()))?;
                Ok(format!("{name} is disabled; \"anchorite reload\" brings it into force\n"))
            }
        }
    }

    fn found(&self, name: &str) -> Found {
        let link = self.enabled.join(file_name(name));
        let Ok(metadata) = link.symlink_metadata() else {
            return Found::Nothing;
        };
        if !metadata.is_symlink() {
            return Found::Other("not a link");
        }
        let same = |available: &Path| link.canonicalize().ok().is_some_and(|found| available.canonicalize().ok() == Some(found));
        if fs::read_link(&link).is_ok_and(|found| found == target(name)) || same(&self.available.join(file_name(name))) {
            Found::Link
        } else {
            Found::Other("a link to another file")
        }
    }
}

/// A relative link stays right when the whole directory is copied or mounted elsewhere.
fn target(name: &str) -> PathBuf {
    Path::new("..").join(AVAILABLE).join(file_name(name))
}

fn file_name(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

/// The name without its suffix: one component, and not a hidden file.
fn checked(name: &str) -> Result<&str, String> {
    let bare = name.strip_suffix(SUFFIX).unwrap_or(name);
    if bare.is_empty() || bare.starts_with('.') || bare.contains(['/', '\0']) {
        return Err(format!("{name:?} is not the name of a site: no slash, and no dot at its beginning"));
    }
    Ok(bare)
}

/// The sites whose files stand in a directory, in order.
fn names(directory: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(directory).map_err(|fault| format!("directory \"{}\": {fault}", directory.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned()))
        .filter(|name| checked(name).is_ok())
        .collect();
    names.sort();
    Ok(names)
}

/// A link that no `include` leads to would change nothing, which is easily overlooked.
fn note_include(file: &Path) {
    if fs::read_to_string(file).is_ok_and(|text| !text.contains(ENABLED)) {
        complain!("anchorite: note: {} does not include \"{ENABLED}/*{SUFFIX}\"", file.display());
    }
}

const AVAILABLE: &str = "sites-available";
const ENABLED: &str = "sites-enabled";
const SUFFIX: &str = ".toml";
