//! A configuration file, put together from the parts a test cares about.

use super::is_root;
use std::path::Path;

/// Two workers on a free port of the loopback address, logs beside the file; the rest is the test's.
#[derive(Clone)]
pub(crate) struct Configuration {
    server: String,
    jail: String,
    log: Option<String>,
    limits: String,
    sites: String,
    backends: String,
}

impl Configuration {
    pub(crate) fn new() -> Self {
        // `user` must exist and the tests create no account.
        let user = if is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" };
        Self {
            server: format!("{user}listen = [\"127.0.0.1:0\"]\n"),
            jail: String::new(),
            log: None,
            limits: String::new(),
            sites: String::new(),
            backends: String::new(),
        }
    }

    /// One site for every host.
    pub(crate) fn of(root: &Path) -> Self {
        Self::new().site(root, "name = [\"\"]")
    }

    /// Takes the place of the whole `[server]` table but `workers`.
    pub(crate) fn server(mut self, lines: &str) -> Self {
        self.server = format!("{lines}\n");
        self
    }

    pub(crate) fn server_also(mut self, line: &str) -> Self {
        self.server.push_str(line);
        self.server.push('\n');
        self
    }

    pub(crate) fn jail(mut self, line: &str) -> Self {
        self.jail.push_str(line);
        self.jail.push('\n');
        self
    }

    pub(crate) fn log(mut self, lines: &str) -> Self {
        self.log = Some(format!("{lines}\n"));
        self
    }

    pub(crate) fn limits(mut self, line: &str) -> Self {
        self.limits.push_str(line);
        self.limits.push('\n');
        self
    }

    pub(crate) fn site(mut self, root: &Path, lines: &str) -> Self {
        self.sites.push_str(&format!("\n[[site]]\nroot = {root:?}\n{lines}\n"));
        self
    }

    /// A table of a backend.
    pub(crate) fn backend(mut self, table: &str) -> Self {
        self.backends.push_str(table);
        self
    }

    /// Lines of the last site, before its rules.
    pub(crate) fn site_also(mut self, lines: &str) -> Self {
        self.sites.push_str(&format!("{lines}\n"));
        self
    }

    /// A rule of the last site.
    pub(crate) fn rule(mut self, lines: &str) -> Self {
        self.sites.push_str(&format!("[[site.rule]]\n{lines}\n"));
        self
    }

    /// The text, with the logs in `directory`.
    pub(crate) fn text(&self, directory: &Path) -> String {
        let log = self
            .log
            .clone()
            .unwrap_or_else(|| format!("access = {:?}\nerror = {:?}\n", directory.join("access.log"), directory.join("error.log")));
        // Each service has its own: they run side by side.
        let own = ["control_socket", "pid_file", "spool"].map(|key| {
            if self.server.contains(&format!("{key} =")) { String::new() } else { format!("{key} = {:?}\n", directory.join(key)) }
        });
        let workers = if self.server.contains("workers") { "" } else { "workers = 2\n" };
        format!(
            "[server]\n{workers}{}{}\n[jail]\n{}\n[log]\n{log}\n[limits]\n{}\n{}{}",
            own.concat(),
            self.server,
            self.jail,
            self.limits,
            self.backends,
            self.sites
        )
    }
}
