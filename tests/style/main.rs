//! The house rules, checked: rooms and their floors, sizes, and documents that say what the code does.
#![expect(clippy::panic, clippy::disallowed_methods, reason = "a test ends by panicking, and runs the program and mandoc")]

mod clocks;
mod configuration_manual;
mod examples;
mod package;
mod policy_documents;
mod references;
mod rooms;
mod seccomp_files;
mod size;
mod source;
mod units;
mod user_reports;
