//! The slices of the configuration that confined roles get, and nothing else of it.
//!
//! The parent encodes a slice into a sealed memory file that the role inherits; the role decodes it before it is confined.

use super::{Level, Limits, Site};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What a worker needs to know of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSlice {
    pub sites: Vec<Site>,
    pub limits: Limits,
    pub server_header: String,
    pub level: Level,
    /// Whether access lines are written at all.
    pub access_log: bool,
}

/// What `log` needs to know of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSlice {
    pub level: Level,
}

/// The encoding of a slice.
pub fn encode<T: Serialize>(slice: &T) -> Vec<u8> {
    postcard::to_allocvec(slice).unwrap_or_default()
}

/// Decodes a slice.
///
/// # Errors
/// When the bytes are not exactly one value of the type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (slice, rest) = postcard::take_from_bytes(bytes).map_err(|fault| fault.to_string())?;
    if rest.is_empty() { Ok(slice) } else { Err(format!("{} bytes too many", rest.len())) }
}
