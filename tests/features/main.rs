//! Black-box tests of the program: one file per feature, each named as a person who uses the server would name it. The
//! ids in comments and tables (`F01`, `P07`, …) are those of the cases the server is built against; see SECURITY.md.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test ends by panicking, and starts processes, opens files and dials as any user of the machine would"
)]

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/fuse.rs"]
mod fuse;

mod access_log;
mod bodies;
mod bound_sites;
mod changing_files;
mod check;
mod clients;
mod clocks;
mod cold;
mod compression;
mod conditional;
mod configuration;
mod control_socket;
mod error_log;
mod explain;
mod faults;
mod framing;
mod headers;
mod hidden;
mod hosts;
mod https_redirect;
mod in_a_browser;
mod keep_alive;
mod limits;
mod listing;
mod listing_large;
mod log_formats;
mod logs;
mod look;
mod names_down;
mod non_root;
mod operation;
mod options_and_methods;
mod pages;
mod paths;
mod probes;
mod proxies;
mod range;
mod rate;
mod real_clients;
mod requests;
mod rotation;
mod rules;
mod service_manager;
mod site_command;
mod slow;
mod special_files;
mod start;
mod static_files;
mod storms;
mod surroundings;
mod symlinks;
mod upgrade;
mod user_reports;
