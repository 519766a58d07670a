//! The brokers: one file per small confined process that does one thing for the workers. None may use `proto`, `site` or
//! `worker`: what a client sent has no meaning here.

#![forbid(unsafe_code)]

pub mod files;
pub mod log;
mod refusals;
mod sink;
