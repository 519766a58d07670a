//! The configuration file read as a whole: every fault is found in one pass. Run by the parent, before it serves, and by the commands.
//!
//! The one file here that does I/O: it reads the configuration file, and nothing else. Users, directories and
//! addresses are only checked for what their text can tell; that they exist is found out where they are used.

use super::diagnostic::{Diagnostics, Faults};
use super::document::{self, Table};
use super::{Config, Level, Log, LogTarget, Server, paths};
use super::{jail, limits, log, names, server, site};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The configuration in `file`, or everything that is wrong with it. Relative paths start at the file's directory.
pub fn load(file: &Path) -> Result<Config, Diagnostics> {
    let text = read_bounded(file).map_err(|error| Diagnostics::of_file(file, format!("cannot be read: {}", plain(&error)), ""))?;
    // Links are followed here, so that a ".." in the file is the parent of the directory where the file is, as the kernel sees it.
    let directory = std::fs::canonicalize(parent(file))
        .map_err(|error| Diagnostics::of_file(file, format!("directory cannot be read: {}", plain(&error)), ""))?;
    match String::from_utf8(text) {
        Ok(text) => parse_in(&text, file, &directory),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let offset = error.utf8_error().valid_up_to();
            let mut faults = Faults::new(file, &text);
            faults.report(
                offset..offset + char::REPLACEMENT_CHARACTER.len_utf8(),
                "not UTF-8",
                "expected TOML, which is UTF-8",
            );
            Err(faults.into_diagnostics())
        }
    }
}

/// The configuration that `text` is, as if it stood in `file`.
pub fn parse(text: &str, file: &Path) -> Result<Config, Diagnostics> {
    parse_in(text, file, &paths::absolute(parent(file)))
}

/// The configuration of `anchorite serve`: one directory, listed, for every name; everything told on stderr.
pub fn serve(directory: PathBuf, listen: SocketAddr) -> Config {
    let mut site = site::with_defaults(directory);
    site.listing = true;
    let server = Server {
        user: None,
        group: None,
        listen: vec![listen],
        ..server::default()
    };
    let log = Log {
        access: LogTarget::Stderr,
        error: LogTarget::Stderr,
        level: Level::Notice,
    };
    Config {
        server,
        jail: jail::default(),
        log,
        limits: limits::default(),
        sites: vec![site],
    }
}

fn parse_in(text: &str, file: &Path, base: &Path) -> Result<Config, Diagnostics> {
    let mut faults = Faults::new(file, text);
    let document = document::parse(text, &mut faults);
    let top = Table::top(&document, &mut faults);
    let server = top
        .table(&names::SERVER, &mut faults)
        .map_or_else(server::default, |table| server::read(&table, &mut faults));
    let log = top
        .table(&names::LOG, &mut faults)
        .map_or_else(log::default, |table| log::read(&table, base, &mut faults));
    let limits = top
        .table(&names::LIMITS, &mut faults)
        .map_or_else(limits::default, |table| limits::read(&table, &mut faults));
    let sites = site::read(&top, base, &mut faults);
    let jail = top
        .table(&names::JAIL, &mut faults)
        .map_or_else(jail::default, |table| jail::read(&table, base, &sites, &mut faults));
    let sites = sites.into_iter().map(|read| read.site).collect();
    faults.finish(Config {
        server,
        jail,
        log,
        limits,
        sites,
    })
}

/// The directory that the file is in.
fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        Some(_) | None => Path::new("."),
    }
}

fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    // Opening a fifo would wait for its writer, and reading a device need not end.
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    OpenOptions::new()
        .read(true)
        .open(file)?
        .take(FILE_MAX + 1)
        .read_to_end(&mut text)?;
    match u64::try_from(text.len()) {
        Ok(length) if length <= FILE_MAX => Ok(text),
        Ok(_) | Err(_) => Err(io::Error::other("larger than 16 MiB")),
    }
}

/// The system's words without its number, in lower case.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or("");
    text.to_lowercase()
}

/// Bytes of a configuration file: thousands of sites, yet nothing that could fill the memory.
const FILE_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {}
