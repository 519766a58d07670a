//! The configuration: TOML read into a checked, immutable [`Config`], with every fault reported by file, line and column.
//!
//! Read by the `parent` and by the commands; a confined role sees only the slice that is meant for it
//! ([`WorkerSlice`]), which the parent hands over at start. Nothing here does I/O except reading the
//! configuration file itself. Names and meanings are those of anchorite.toml(5).

#![forbid(unsafe_code)]

mod diagnostic;
mod document;
mod jail;
mod limits;
mod log;
mod log_table;
mod names;
mod paths;
mod quantity;
mod read;
mod rule;
mod server;
mod site;
mod slice;

pub use crate::role::Layer;
pub use diagnostic::{Diagnostic, Diagnostics, Place};
pub use log_table::{LogNumbers, NUMBERS_MAX, SYSLOG};
pub use names::known_keys;
pub use read::{load, parse, serve};
pub use rule::{Act, Changes, Directory, Exists, LogFormat, Matchers, Network, Page, Part, Respond, Rule, RulePlace, Template, Variable};
pub use slice::{LogSlice, SliceError, WorkerSlice, decode, encode};

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A whole configuration, defaults filled in and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub server: Server,
    pub jail: Jail,
    pub log: Log,
    pub limits: Limits,
    /// In the order of the file; never empty.
    pub sites: Vec<Site>,
}

/// `[server]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The user that confined roles run as; `None` (only for `anchorite serve`): `anchorite` if it exists, else an unused id.
    pub user: Option<String>,
    /// `None`: the primary group of `user`.
    pub group: Option<String>,
    /// Number of workers; 0: one per CPU this process may use.
    pub workers: u16,
    pub listen: Vec<SocketAddr>,
    /// Value of the `Server` header; empty: none is sent.
    pub server_header: String,
    pub control_socket: Option<PathBuf>,
    pub pid_file: Option<PathBuf>,
}

/// `[jail]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jail {
    pub mode: JailMode,
    /// More directories shown read-only in the tree.
    pub also: Vec<PathBuf>,
    pub allow_missing: Vec<Layer>,
}

/// How a confined role's view of the file system is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JailMode {
    /// A private read-only tree that holds only what is served.
    Mount,
    /// chroot(2) into this directory; every document root lies beneath it.
    Chroot(#[serde(with = "slice::path_bytes")] PathBuf),
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub access: LogTarget,
    pub error: LogTarget,
    /// Of access lines, also those in a site's own file.
    pub format: LogFormat,
    pub level: Level,
}

/// Where lines of a log go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LogTarget {
    File(#[serde(with = "slice::path_bytes")] PathBuf),
    Syslog,
    Stderr,
    Off,
}

/// Severity of an error line, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    Error,
    Warning,
    Notice,
    Info,
    Debug,
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Connections per worker; at the limit the oldest idle keep-alive connections are closed first.
    pub connections: u32,
    /// Bytes of the request line without its CRLF; beyond: 414.
    pub request_line: u32,
    /// Bytes of all header lines together; beyond: 431.
    pub header_bytes: u32,
    /// Number of header lines, at most [`Limits::HEADER_COUNT_MAX`]; beyond: 431.
    pub header_count: u16,
    /// Time for a whole head, from its first byte: 408.
    pub header_timeout: Duration,
    /// Time without progress while sending.
    pub write_timeout: Duration,
    pub keepalive_timeout: Duration,
    /// Requests on one connection.
    pub keepalive_requests: u32,
    /// How long transfers may take to finish when the service stops with QUIT.
    pub drain_timeout: Duration,
}

impl Limits {
    /// The largest `header_count` that can be configured: heads are parsed into a table of this size on the stack.
    pub const HEADER_COUNT_MAX: u16 = 256;
}

/// `[[site]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Lower case, without a trailing dot: exact, `*.example.org`, or empty for requests that match none.
    pub name: Vec<String>,
    /// Absolute; resolved from the configuration file's directory when written as a relative path.
    #[serde(with = "slice::path_bytes")]
    pub root: PathBuf,
    pub index: Vec<String>,
    pub listing: bool,
    /// Patterns of one path segment with `*`; a match is 404, `.well-known` excepted.
    pub hidden: Vec<String>,
    pub symlinks: Symlinks,
    /// For text types; empty: none is sent.
    pub charset: String,
    /// `None`: where `[log] access` says.
    pub access_log: Option<LogTarget>,
    /// In the order of the file; they run from top to bottom.
    pub rules: Vec<Rule>,
}

/// Which symbolic links beneath a root are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Symlinks {
    Never,
    /// Link and target have the same owner; the target lies beneath the root.
    Owner,
    /// The target lies beneath the root.
    Inside,
    /// Anything that the jail shows.
    Any,
}
