//! The slices of the configuration that confined roles get, and nothing else of it.
//!
//! The parent encodes a slice into a sealed memory file that the role inherits; the role decodes it before it is confined.

use super::{Backend, Base, Config, Level, Limits, Listen, LogFormat, LogNumbers, Proxies, Site, SiteTls, directories};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use zeroize::Zeroize;

/// What a worker needs to know of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSlice {
    pub sites: Vec<Site>,
    pub limits: Limits,
    pub server_header: String,
    pub http2_cleartext: bool,
    pub proxies: Proxies,
    /// Addresses of the sites that have none of their own.
    pub listen: Vec<Listen>,
    /// Likewise for TLS; empty where no site has a certificate.
    pub tls_listen: Vec<Listen>,
    /// By the number of the site; empty: no site has a certificate.
    pub tls: Vec<Option<SiteTls>>,
    /// Whether sessions are resumed.
    pub session_tickets: bool,
    /// Extension and type, before the built-in table.
    pub mime: Vec<(String, String)>,
    pub level: Level,
    pub format: LogFormat,
    /// Where access lines go.
    pub logs: LogNumbers,
    pub backends: Vec<Backend>,
    /// Where `spool` keeps bodies, for the error log.
    #[serde(with = "path_bytes")]
    pub spool: PathBuf,
}

/// What `log` needs to know of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSlice {
    pub level: Level,
}

/// What `files` needs to know of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesSlice {
    /// In the order of their numbers.
    pub directories: Vec<Base>,
}

/// What `connect` needs to know of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectSlice {
    /// In the order of their numbers, see [`address_number`](super::address_number).
    pub targets: Vec<Target>,
    /// It takes the place of one that ended: a name that leads nowhere then is no reason not to serve the others.
    pub again: bool,
}

/// What `spool` needs to know of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolSlice {
    /// `None`: it is not there.
    #[serde(with = "super::backend::optional_path")]
    pub directory: Option<PathBuf>,
    /// Bytes that all bodies may take.
    pub max: u64,
}

/// What `keys` needs to know of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysSlice {
    /// By their numbers; `None`: the workers hold it themselves. The parent places the file of each of the others.
    pub keys: Vec<Option<KeySlice>>,
    /// `None`: there are no tickets.
    pub tickets: Option<TicketSource>,
}

/// Where the keys of tickets come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TicketSource {
    /// The secret of an hour, in hours since 1970; those of later hours follow from it.
    Made { hour: u64, secret: Secret },
    /// A file that several machines share, which the parent places behind the keys; what the configuration calls it.
    File(String),
}

/// Bytes that are overwritten when they are dropped, and not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; 32]);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

impl KeysSlice {
    /// Bytes that the process may need at most, in whose memory the keys are: itself, the largest file, and keys of RSA with 4,096 bits.
    pub fn memory(&self) -> u64 {
        const ITSELF: u64 = 3 << 20;
        const KEY: u64 = 16 << 10;
        u64::try_from(self.keys.len()).unwrap_or(u64::MAX).saturating_mul(KEY).saturating_add(ITSELF)
    }
}

/// A private key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySlice {
    /// What the configuration calls its file, for whoever is told that it cannot be used.
    pub path: String,
    /// SubjectPublicKeyInfo as DER, of the certificate that it must belong to.
    pub public: Vec<u8>,
}

/// What `auth` needs to know of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthSlice {
    /// What the configuration calls the password files, by the numbers of the `[auth.NAME]`; the parent places them.
    pub files: Vec<String>,
}

/// Where one address of a backend leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Of a local socket: its path, links followed.
    #[serde(with = "super::backend::optional_path")]
    pub path: Option<PathBuf>,
    /// Of a TCP address.
    pub addresses: Vec<SocketAddr>,
    /// Whose addresses `connect` looks up before it is confined, and the port.
    pub name: Option<(String, u16)>,
    pub timeout_ms: u64,
    /// The service starts the program itself: a socket that is not there is about to be.
    pub begins: bool,
}

/// The bytes are not a slice as this version writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceError {
    Malformed(postcard::Error),
    /// Bytes after the end of the slice.
    Trailing(usize),
}

impl Config {
    /// What a worker is told; the logs have the numbers that the parent gave them.
    pub fn worker_slice(&self, logs: LogNumbers) -> WorkerSlice {
        WorkerSlice {
            sites: self.sites.clone(),
            limits: self.limits.clone(),
            server_header: self.server.server_header.clone(),
            http2_cleartext: self.server.http2_cleartext,
            proxies: self.server.proxies.clone(),
            listen: self.server.listen.clone(),
            tls_listen: if self.tls_addresses().next().is_some() { self.server.tls_listen.clone() } else { Vec::new() },
            tls: Vec::new(),
            session_tickets: self.tls.session_tickets,
            mime: self.mime.clone(),
            level: self.log.level,
            format: self.log.format.clone(),
            logs,
            spool: self.server.spool.clone(),
            // How programs are started is no worker's to know.
            backends: self.backends.iter().cloned().map(|backend| Backend { spawn: None, ..backend }).collect(),
        }
    }

    /// What `auth` is told.
    pub fn auth_slice(&self) -> AuthSlice {
        AuthSlice { files: self.auths.iter().map(|auth| auth.file.to_string_lossy().into_owned()).collect() }
    }

    /// What `log` is told.
    pub fn log_slice(&self) -> LogSlice {
        LogSlice { level: self.log.level }
    }

    /// What `files` is told.
    pub fn files_slice(&self) -> FilesSlice {
        FilesSlice { directories: directories(&self.sites).0 }
    }
}

/// A slice as bytes.
pub fn encode<T: Serialize>(slice: &T) -> Vec<u8> {
    postcard::to_stdvec(slice).expect("memory grows as needed, lengths are known and paths are written as bytes")
}

/// A slice from all of the bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SliceError> {
    match postcard::take_from_bytes(bytes) {
        Ok((slice, [])) => Ok(slice),
        Ok((_, rest)) => Err(SliceError::Trailing(rest.len())),
        Err(error) => Err(SliceError::Malformed(error)),
    }
}

impl fmt::Display for SliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SliceError::Malformed(error) => write!(f, "malformed slice of the configuration: {error}"),
            SliceError::Trailing(count) => write!(f, "{count} bytes after the slice of the configuration"),
        }
    }
}

impl std::error::Error for SliceError {}

/// A path as bytes: serde's own way refuses one that is not UTF-8, and the kernel has such paths.
pub(super) mod path_bytes {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    pub(in crate::config) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(path.as_os_str().as_bytes())
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Ok(PathBuf::from(OsString::from_vec(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{JailMode, parse, serve};
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::Path;

    fn config() -> Config {
        serve(PathBuf::from(OsString::from_vec(b"/srv/\xff\xfe".to_vec())), "127.0.0.1:8080".parse().unwrap())
    }

    #[test]
    fn a_slice_survives_its_bytes_even_with_a_path_that_is_not_utf_8() {
        let slice = config().worker_slice(LogNumbers::default());
        assert_eq!(decode::<WorkerSlice>(&encode(&slice)), Ok(slice));
        let slice = config().log_slice();
        assert_eq!(decode::<LogSlice>(&encode(&slice)), Ok(slice));
        let slice = config().files_slice();
        assert_eq!(decode::<FilesSlice>(&encode(&slice)), Ok(slice));
        let mode = JailMode::Chroot(PathBuf::from(OsString::from_vec(b"/\xff".to_vec())));
        assert_eq!(decode::<JailMode>(&encode(&mode)), Ok(mode));
    }

    #[test]
    fn a_byte_too_many_or_too_few_is_refused() {
        let bytes = encode(&config().worker_slice(LogNumbers::default()));
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(decode::<WorkerSlice>(&longer), Err(SliceError::Trailing(1)));
        for length in 0..bytes.len() {
            let error = decode::<WorkerSlice>(&bytes[..length]).unwrap_err();
            assert!(matches!(error, SliceError::Malformed(_)), "{length}: {error}");
        }
    }

    #[test]
    fn the_slices_hold_what_the_configuration_says() {
        let text = "[server]\nserver_header = \"x\"\n[log]\naccess = \"off\"\nlevel = \"debug\"\n[[site]]\nroot = \"/srv\"\n";
        let config = parse(text, Path::new("/f.toml")).unwrap();
        let slice = config.worker_slice(LogNumbers::default());
        assert_eq!(slice.sites, config.sites);
        assert_eq!(slice.limits, config.limits);
        assert_eq!((slice.server_header.as_str(), slice.level, slice.format), ("x", Level::Debug, LogFormat::Combined));
        assert_eq!(config.log_slice().level, Level::Debug);
    }
}
