//! `[backend.NAME]` as checked data: what a backend speaks, where it is, how much may be asked of it. Does no I/O.

use super::spawn::Spawn;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// A program that answers requests in anchorite's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backend {
    pub name: String,
    pub protocol: Protocol,
    /// A group that `connect` holds beside its own.
    pub group: Option<String>,
    /// Never empty.
    pub addresses: Vec<Address>,
    pub balance: Balance,
    /// Where the backend sees the document root; `None`: where the host does.
    #[serde(with = "optional_path")]
    pub script_root: Option<PathBuf>,
    /// Beneath which its answers may name files that are sent in their place; `None`: they may not.
    #[serde(with = "optional_path")]
    pub sendfile: Option<PathBuf>,
    pub connect_timeout: Duration,
    /// Time in which the backend says nothing: 504.
    pub read_timeout: Duration,
    /// Connections over all workers.
    pub max_connections: u32,
    /// Idle connections kept per worker and address.
    pub keep: u32,
    pub keep_idle: Duration,
    /// Requests that wait for a connection, over all workers; beyond: 503.
    pub queue: u32,
    /// Bytes of a response that are held for a slow client.
    pub buffer: u32,
    /// Parameters of every request, beside those of the protocol.
    pub env: Vec<(String, String)>,
    /// The program behind it, where the service starts that.
    pub spawn: Option<Spawn>,
}

/// What a backend speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    FastCgi,
    Scgi,
    Uwsgi,
    /// HTTP/1.1.
    Http,
    /// A program per request, which `spawn` starts; not a type that a table can have.
    Cgi,
}

/// Where a backend listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Address {
    Unix(#[serde(with = "super::slice::path_bytes")] PathBuf),
    Tcp {
        host: IpAddr,
        port: u16,
    },
    /// Whose addresses are looked up when a generation starts.
    Name {
        name: String,
        port: u16,
    },
}

/// Which of several addresses is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Balance {
    LeastConnections,
    RoundRobin,
    HashClient,
}

/// The number by which `connect` knows an address of a backend: all addresses of all backends are counted.
pub fn address_number(backends: &[Backend], backend: usize, address: usize) -> u16 {
    let before: usize = backends.iter().take(backend).map(|backend| backend.addresses.len()).sum();
    u16::try_from(before + address).unwrap_or(u16::MAX)
}

impl Address {
    /// The name that has to be looked up, and the port.
    pub fn name(&self) -> Option<(String, u16)> {
        match self {
            Address::Name { name, port } => Some((name.clone(), *port)),
            Address::Unix(_) | Address::Tcp { .. } => None,
        }
    }
}

/// As it is written in the configuration, with an IPv6 address in brackets.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp { host, port } => SocketAddr::new(*host, *port).fmt(f),
            Address::Name { name, port } => write!(f, "{name}:{port}"),
        }
    }
}

/// A path that may be absent, as bytes.
pub(super) mod optional_path {
    use super::{OsStr, OsStrExt, PathBuf};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| path.as_os_str().as_bytes()).serialize(serializer)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Vec<u8>>::deserialize(deserializer)?.map(|bytes| OsStr::from_bytes(&bytes).into()))
    }
}
