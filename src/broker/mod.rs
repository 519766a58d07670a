//! The brokers: one file per small process that does one thing for the workers; all but `spawn` are confined. None may use `proto`, `site` or
//! `worker`: what a client sent has no meaning here.

#![forbid(unsafe_code)]

pub mod auth;
pub mod connect;
pub mod files;
pub mod keys;
pub mod log;
mod refusals;
mod sink;
pub mod spawn;
pub mod spool;
