//! The slices of the configuration that confined roles get, and nothing else of it.
//!
//! The parent encodes a slice into a sealed memory file that the role inherits; the role decodes it before it is confined.

use super::{Level, Limits, Site};
use serde::{Deserialize, Serialize};

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
