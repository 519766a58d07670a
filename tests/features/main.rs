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

#[path = "../support/fastcgi.rs"]
mod fastcgi;

#[path = "../support/plain.rs"]
mod plain;

#[path = "../support/http2.rs"]
mod http2_frames;

#[path = "../support/tls.rs"]
mod tls_clients;

mod access_log;
mod applications;
mod backend_names;
mod backends;
mod balancing;
mod bodies;
mod bound_sites;
mod cache;
mod cgi;
mod changing_files;
mod check;
mod clients;
mod clocks;
mod cold;
mod compressed_pages;
mod compression;
mod conditional;
mod configuration;
mod control_socket;
mod endless_answers;
mod error_log;
mod explain;
mod faults;
mod framing;
mod headers;
mod hidden;
mod hostile_backends;
mod hosts;
mod http2;
mod http2_attacks;
mod http_backends;
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
mod overlapping;
mod pages;
mod parameters;
mod password_command;
mod passwords;
mod paths;
mod php;
mod probes;
mod proxies;
mod range;
mod rate;
mod real_clients;
mod repeating;
mod reports_of_backends;
mod requests;
mod rotation;
mod rules;
mod scgi_and_uwsgi;
mod sendfile;
mod service_manager;
mod site_command;
mod slow;
mod spawn;
mod special_files;
mod spool;
mod start;
mod static_files;
mod storms;
mod surroundings;
mod symlinks;
mod tls;
mod tls_attacks;
mod tls_keys;
mod tls_tickets;
mod upgrade;
mod upgrades;
mod user_reports;
