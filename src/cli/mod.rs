//! The command line: one file per subcommand. Also where a process learns that it is a role.
//!
//! Exit statuses: 0 done, 1 the thing asked failed (the reason on standard error), 2 wrong usage.

#![forbid(unsafe_code)]

/// Prints a line; a reader that has seen enough, such as head(1), is no fault.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// Tells what failed; that nobody listens any more changes nothing of it.
macro_rules! complain {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod audit;
mod check;
mod control;
mod explain;
mod password;
mod policy;
mod programs;
mod run;
mod serve;
mod site;
mod sockets;
mod surprises;

use crate::ipc::control::Order;
use crate::role::Role;
use crate::{broker, worker};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A web server walled in: serves files from processes that can do nothing else.
#[derive(Parser)]
#[command(name = "anchorite", version = VERSION, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves a directory without a configuration file
    Serve {
        /// The directory
        directory: PathBuf,
        /// Where to listen
        #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
    },
    /// Runs the service in the foreground
    Run {
        #[command(flatten)]
        configuration: Configuration,
        /// What the program before left, when it was replaced
        #[arg(long, hide = true, value_name = "DESCRIPTOR")]
        resume: Option<i32>,
        /// Why the program that took its place did not serve
        #[arg(long, hide = true, value_name = "WHY", requires = "resume")]
        returned: Option<String>,
    },
    /// Reads the configuration as `run` would and reports every fault
    Check {
        #[command(flatten)]
        configuration: Configuration,
        /// Prints the effective configuration, defaults filled in
        #[arg(long)]
        dump: bool,
        /// An address that the service has which is to be replaced
        #[arg(long, hide = true, value_name = "ADDRESS")]
        open: Vec<String>,
    },
    /// Reads the configuration again; answers when the new one serves, or says why not
    Reload {
        #[command(flatten)]
        configuration: Configuration,
    },
    /// Lets transfers finish and ends the service; answers when it has ended
    Stop {
        #[command(flatten)]
        configuration: Configuration,
    },
    /// Opens the log files again, after they were renamed
    Reopen {
        #[command(flatten)]
        configuration: Configuration,
    },
    /// Prints the state of the service
    Status {
        #[command(flatten)]
        configuration: Configuration,
        /// For machines
        #[arg(long)]
        json: bool,
    },
    /// Enables and disables the sites of sites-available
    Site {
        #[command(flatten)]
        configuration: Configuration,
        #[command(subcommand)]
        order: site::Order,
    },
    /// Adds a user to a password file, or changes the password of one; asks for it, or reads standard input
    Password {
        /// The file; made if it is missing
        file: PathBuf,
        /// The name of the user
        user: OsString,
    },
    /// Says why a URL is answered as it is: site, rules, files, permissions; offline
    Explain {
        /// The URL, or a path for the default site
        url: String,
        #[command(flatten)]
        configuration: Configuration,
        #[arg(long, default_value = "GET")]
        method: String,
        /// Who asks; "unix:" over a socket in the file system [default: 127.0.0.1, or whoever comes that way]
        #[arg(long, value_name = "ADDR", value_parser = explain::client)]
        client: Option<IpAddr>,
        /// A field of the request, as "Name: value"; may be given more than once
        #[arg(long = "header", value_name = "H")]
        headers: Vec<String>,
        /// For machines
        #[arg(long)]
        json: bool,
    },
    /// Compares every running process of the service with the policy of its role
    Audit {
        /// For machines
        #[arg(long)]
        json: bool,
    },
    /// Prints what a role may do, and why
    Policy {
        /// parent, worker or log; all of them unless given
        role: Option<String>,
    },
}

#[derive(clap::Args)]
struct Configuration {
    /// The configuration file
    #[arg(short = 'c', value_name = "FILE", default_value = "/etc/anchorite/anchorite.toml", global = true)]
    file: PathBuf,
}

/// Does what the command line says; the exit status.
pub fn main() -> u8 {
    if let Some(status) = role() {
        return status;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(fault) => {
            let _ = fault.print();
            return if fault.use_stderr() { USAGE } else { 0 };
        }
    };
    match arguments.command {
        Command::Serve { directory, listen } => serve::main(&directory, listen),
        Command::Run { configuration, resume, returned } => run::main(&configuration.file, resume, returned.as_deref()),
        Command::Check { configuration, dump, open } => check::main(&configuration.file, dump, &open),
        Command::Reload { configuration } => control::main(&configuration.file, Order::Reload),
        Command::Stop { configuration } => control::main(&configuration.file, Order::Stop),
        Command::Reopen { configuration } => control::main(&configuration.file, Order::Reopen),
        Command::Status { configuration, json } => control::main(&configuration.file, Order::Status { json }),
        Command::Site { configuration, order } => site::main(&configuration.file, &order),
        Command::Password { file, user } => password::main(&file, &user),
        Command::Explain { url, configuration, method, client, headers, json } => {
            let question = explain::Question { url: &url, method: &method, client, headers: &headers, json };
            explain::main(&configuration.file, &question)
        }
        Command::Audit { json } => audit::main(json),
        Command::Policy { role } => policy::main(role.as_deref()),
    }
}

/// Runs the role that the parent started this process as: the title is the whole command line.
fn role() -> Option<u8> {
    let mut arguments = std::env::args_os();
    let title = arguments.next()?.into_string().ok()?;
    let role = title.strip_prefix("anchorite: ")?;
    if arguments.next().is_some() {
        return None;
    }
    match role.split([' ', ',']).next()? {
        "worker" => Some(worker::run()),
        "log" => Some(broker::log::run()),
        "files" => Some(broker::files::run()),
        "connect" => Some(broker::connect::run(Role::Connect)),
        "spool" => Some(broker::spool::run()),
        "keys" => Some(broker::keys::run()),
        "auth" => Some(broker::auth::run()),
        "spawn" => Some(broker::spawn::run()),
        "connect-tcp" => Some(broker::connect::run(Role::ConnectTcp)),
        _ => None,
    }
}

const VERSION: &str = if cfg!(feature = "bench-unconfined") {
    concat!(env!("CARGO_PKG_VERSION"), " UNCONFINED, for measuring only")
} else {
    env!("CARGO_PKG_VERSION")
};

/// Wrong usage.
const USAGE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap_complete::Shell;

    /// The completions in `packaging/completions` are what they would be if they were made now: `UPDATE_COMPLETIONS=1` makes them.
    #[test]
    fn completions_know_every_command_and_option() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/completions");
        for (shell, name) in [(Shell::Bash, "anchorite.bash"), (Shell::Zsh, "_anchorite"), (Shell::Fish, "anchorite.fish")] {
            let mut made = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "anchorite", &mut made);
            if std::env::var_os("UPDATE_COMPLETIONS").is_some() {
                std::fs::write(directory.join(name), &made).unwrap();
            }
            assert!(std::fs::read(directory.join(name)).unwrap() == made, "{name} is old");
        }
    }
}
