//! The entry point of every process of the service: the commands, and the roles that the parent starts.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(anchorite::cli::main())
}
