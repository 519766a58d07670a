//! The configuration: TOML read into a checked, immutable [`Config`], with every fault reported by file, line and column.
//!
//! Read by the `parent` and by the commands; a confined role sees only the slice that is meant for it
//! ([`WorkerSlice`]), which the parent hands over at start. Nothing here does I/O except reading the
//! configuration file and those it includes, and following links where a directory could show what must stay hidden.
//! Names and meanings are those of anchorite.toml(5).

#![forbid(unsafe_code)]

mod act;
mod apr1;
mod auths;
mod backend;
mod backends;
mod cgi;
mod compress;
mod danger;
mod diagnostic;
mod directories;
mod directory;
mod document;
mod dump;
mod host_name;
pub mod htpasswd;
mod include;
mod jail;
mod limits;
mod listen;
mod load;
mod locate;
mod log;
mod log_table;
mod mime;
mod names;
mod network;
mod parameter;
pub mod passwords;
mod paths;
mod patterns;
mod quantity;
mod read;
mod redirect;
mod regex;
mod requests;
mod rule;
mod rules;
mod run;
mod scope;
mod segments;
mod server;
mod setting;
mod site;
mod slice;
mod spawn;
mod template;
mod tls;
pub mod wildcard;

pub use crate::proto::coding::Coding;
pub use crate::role::Layer;
pub use auths::Auth;
pub use backend::{Address as BackendAddress, Backend, Balance, Protocol, address_number};
pub use cgi::{Cgi, RunLimits, RunSlice};
pub use diagnostic::{Diagnostic, Diagnostics, Place};
pub use directories::{Base, directories};
pub use dump::dump;
pub use listen::{ADDRESSES_MAX, Listen};
pub use load::load;
pub use locate::control_socket;
pub use log_table::{LogNumbers, NUMBERS_MAX, SYSLOG};
pub use names::known_keys;
pub use parameter::{PROTECTED, is_protected};

pub use read::{parse, readable, serve};
pub use regex::compile as compile_regex;
pub use rule::RequestRate;
pub use rule::{
    Act, AskedFor, Changes, Directory, Exists, LogFormat, Matchers, Network, Page, Part, Respond, Rule, RulePlace, ScriptPlace, Template,
    ToBackend, Variable,
};
pub use scope::{RunRoot, Scope, run_roots};
pub use setting::{Setting, diagnose, diagnose_placed};
pub use slice::{
    AuthSlice, ConnectSlice, FilesSlice, KeySlice, KeysSlice, LogSlice, Secret, SliceError, SpoolSlice, Target, TicketSource, WorkerSlice,
    decode, encode,
};
pub use spawn::{Program, Spawn, SpawnSlice};
pub use tls::{ClientAuth, KeyKind, Pair, PairFiles, SiteTls, Tls, TlsFiles, TlsSettings, TlsVersion};

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// A whole configuration, defaults filled in and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub server: Server,
    pub jail: Jail,
    pub log: Log,
    /// What `[mime]` adds to the built-in table or puts in place of it: extension (lower case, without its dot) and type.
    pub mime: Vec<(String, String)>,
    pub limits: Limits,
    pub tls: Tls,
    /// In the order of the file; behind them the programs of rules with `cgi`, where there are such rules.
    pub backends: Vec<Backend>,
    pub cgi: Cgi,
    /// In the order of the file.
    pub auths: Vec<Auth>,
    /// In the order of the file; never empty.
    pub sites: Vec<Site>,
    /// The files that no worker may be shown, and what each is: those of the configuration, logs, the service's own.
    pub secrets: Vec<(PathBuf, &'static str)>,
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
    /// No two of them overlap; never empty. Sites may have addresses of their own, see [`Config::addresses`].
    pub listen: Vec<Listen>,
    /// Addresses for TLS, opened only when some site has a certificate.
    pub tls_listen: Vec<Listen>,
    /// Where the commands speak to the parent; `None`: nowhere.
    pub control_socket: Option<PathBuf>,
    /// The file that holds the parent's process id; `None`: none is written.
    pub pid_file: Option<PathBuf>,
    /// Value of the `Server` header; empty: none is sent.
    pub server_header: String,
    /// Whether a client may begin with HTTP/2 without TLS, knowing beforehand that it can.
    pub http2_cleartext: bool,
    pub proxies: Proxies,
    /// Where bodies go that are too large for memory, and bytes that all of them together may take.
    pub spool: PathBuf,
    pub spool_max: u64,
}

/// The networks of the proxies in front.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxies {
    /// `proxy_protocol_from`: their connections start with a header of the PROXY protocol.
    pub speaking: Vec<Network>,
    /// `trusted_proxies`: what they say in `X-Forwarded-For` and `Forwarded` is believed.
    pub trusted: Vec<Network>,
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
    /// Connections of one client over all workers; beyond: closed.
    pub connections_per_client: u32,
    /// Bytes of the request line without its CRLF; beyond: 414.
    pub request_line: u32,
    /// Bytes of all header lines together; beyond: 431.
    pub header_bytes: u32,
    /// Number of header lines, at most [`Limits::HEADER_COUNT_MAX`]; beyond: 431.
    pub header_count: u16,
    /// Bytes of a request body, unless a rule says otherwise; beyond: 413.
    pub body: u64,
    /// Time for a whole head, from its first byte: 408.
    pub header_timeout: Duration,
    /// Time in which nothing comes of a body: 408.
    pub body_timeout: Duration,
    /// Bytes a second below which a head or a body is cut: 408. 0: none.
    pub min_rate: u64,
    /// Time without progress while sending.
    pub write_timeout: Duration,
    pub keepalive_timeout: Duration,
    /// Requests on one connection.
    pub keepalive_requests: u32,
    /// How long transfers may take to finish when the service stops with QUIT.
    pub drain_timeout: Duration,
    /// Requests of one client; beyond: 429.
    pub requests: Option<RequestRate>,
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
    /// The site answers only at these addresses; empty: at those of the server.
    pub listen: Vec<Listen>,
    /// Likewise for TLS.
    pub tls_listen: Vec<Listen>,
    /// Absolute; resolved from the configuration file's directory when written as a relative path.
    #[serde(with = "slice::path_bytes")]
    pub root: PathBuf,
    /// What follows `root`, where that is written with captures: `root` is then the literal directory before them, which the jail shows.
    /// Empty: the root is `root` itself.
    pub root_rest: Template,
    pub index: Vec<String>,
    pub listing: bool,
    /// Patterns of one path segment with `*`; a match is 404, `.well-known` excepted.
    pub hidden: Vec<String>,
    pub symlinks: Symlinks,
    /// The path on this site that answers in place of the built-in page, by status.
    pub error_pages: Vec<(u16, String)>,
    /// For text types; empty: none is sent.
    pub charset: String,
    /// The content codings that may be sent, first the one that is sent to a client to whom all are the same.
    pub compress: Vec<Coding>,
    /// Whether plain requests are sent to the same address with https.
    pub https_redirect: bool,
    /// Its certificates; no business of a confined role, which gets what the files hold.
    #[serde(skip)]
    pub tls: Option<TlsFiles>,
    /// Whether HTTP/2 is offered over TLS.
    pub http2: bool,
    /// For how long browsers are told to come by TLS alone; `None`: they are not told.
    pub hsts: Option<Duration>,
    /// `None`: where `[log] access` says.
    pub access_log: Option<LogTarget>,
    /// In the order of the file; they run from top to bottom.
    pub rules: Vec<Rule>,
}

impl Config {
    /// The sockets to open, plain and for TLS: those of the server and of the sites, each once, without those that a wider one takes
    /// connections for (then the address that a connection was made to says which sites answer).
    pub fn addresses(&self) -> Vec<Listen> {
        let plain = self.server.listen.iter().chain(self.sites.iter().flat_map(|site| &site.listen));
        listen::without_covered(plain.chain(self.tls_addresses()))
    }

    /// Those for TLS, which are none unless some site has a certificate.
    pub fn tls_addresses(&self) -> impl Iterator<Item = &Listen> {
        let any = self.sites.iter().any(|site| site.tls.is_some());
        let all = self.server.tls_listen.iter().chain(self.sites.iter().flat_map(|site| &site.tls_listen));
        all.filter(move |_| any)
    }
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
