//! The entry point.
#![forbid(unsafe_code)]
fn main() {}
