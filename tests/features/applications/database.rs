//! MariaDB with a directory and a socket of its own, and nothing on the network.

use crate::support::{signal, wait_until};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running one. Dropping it ends it.
pub(super) struct Database {
    directory: tempfile::TempDir,
    child: Child,
}

impl Database {
    /// With one database, whose name, user and password are `application`.
    pub(super) fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("anchorite-database-").tempdir().unwrap();
        std::os::unix::fs::chown(directory.path(), Some(user_id("mysql")), None).unwrap();
        std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let data = format!("--datadir={}", directory.path().join("data").display());
        // Each removes what it takes for its own temporary tables of an earlier run.
        let temporary = format!("--tmpdir={}", directory.path().display());
        let first = ["--no-defaults", "--user=mysql", "--skip-test-db", "--auth-root-authentication-method=normal", &data, &temporary];
        done(Command::new("mariadb-install-db").args(first));
        let socket = format!("--socket={}", directory.path().join("socket").display());
        let quick = ["--skip-networking", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--skip-log-bin"];
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new("mariadbd");
        command
            .args(["--no-defaults", "--user=mysql", &data, &socket, &temporary])
            .args(quick)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let database = Self { directory, child: command.spawn().unwrap() };
        let log = || std::fs::read_to_string(database.directory.path().join("log")).unwrap_or_default();
        let listens = wait_until(Duration::from_secs(60), || UnixStream::connect(database.socket()).is_ok());
        assert!(listens.is_some(), "the database does not listen: {}", log());
        let orders = "CREATE DATABASE application; GRANT ALL ON application.* TO application@localhost IDENTIFIED BY 'application'";
        done(Command::new("mariadb").args(["--no-defaults", "-u", "root", &socket, "-e", orders]));
        database
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        signal(i32::try_from(self.child.id()).unwrap(), nix::sys::signal::Signal::SIGTERM);
        let child = &mut self.child;
        if wait_until(Duration::from_secs(30), || !matches!(child.try_wait(), Ok(None))).is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn user_id(name: &str) -> u32 {
    nix::unistd::User::from_name(name).unwrap().unwrap_or_else(|| panic!("no user {name:?}")).uid.as_raw()
}

/// Runs a command to its end, which must be a good one.
pub(super) fn done(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&told));
}
