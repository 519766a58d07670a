//! Applications of many people, as Debian has them, in a real browser, with PHP-FPM and MariaDB of their own and the configuration of
//! `packaging/examples`. Only with `tests/run --all`, and as root. What belongs to the machine stays as it is: server and PHP run
//! where its directories have others mounted in their place.

mod database;
mod mediawiki;
mod wordpress;

use crate::fastcgi::Php;
use crate::support::{Browser, Launch, Response, Server, pictures};
use database::{Database, done};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An installed application: what it consists of, and a browser.
struct Application {
    name: &'static str,
    server: Server,
    php: Php,
    browser: Browser,
    _database: Database,
    own: tempfile::TempDir,
}

/// What an application is made of.
struct Plan {
    name: &'static str,
    /// Of `packaging/examples`.
    example: &'static str,
    /// Directories of the machine in whose place the application has its own, which belong to PHP where `true`.
    own: &'static [(&'static str, bool)],
    /// Fills them, given where they are, and how a command sees them: see [`Php::start_as`].
    fill: fn(&Path, &Database, &str),
}

impl Application {
    fn start(plan: &Plan) -> Self {
        let database = Database::start();
        let own = tempfile::Builder::new().prefix("anchorite-application-").tempdir().unwrap();
        std::fs::set_permissions(own.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut mounts = String::new();
        for (path, is_of_php) in plan.own {
            let copy = own_path(own.path(), path);
            std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
            done(Command::new("cp").arg("-a").arg(path).arg(&copy));
            mounts.push_str(&format!("mount --bind {} {path} && ", copy.display()));
            if *is_of_php {
                done(Command::new("chown").args(["-R", "www-data:www-data"]).arg(&copy));
            }
        }
        let line = format!("exec unshare -m bash -c '{mounts} exec \"$@\"' bash \"$@\"");
        (plan.fill)(own.path(), &database, &line);
        let pool = "php_admin_value[sendmail_path] = /bin/true\nphp_admin_value[upload_max_filesize] = 64M\nphp_admin_value[post_max_size] = 64M\n";
        let php = Php::start_as(&line, 4, pool).expect("php-fpm is installed");
        let launch = Launch::new().shell(&line);
        let path = launch.write_configuration(&configuration(plan.example, &php, launch.home()));
        let server = launch.start(&["run".into(), "-c".into(), path.into()]);
        let mut browser = Browser::start();
        browser.show_as(1280, 1000, false);
        Self { name: plan.name, server, php, browser, _database: database, own }
    }

    /// An address of the application: with the name of its site.
    fn url(&self, host: &str, target: &str) -> String {
        format!("http://{host}:{}{target}", self.server.address().port())
    }

    /// As a client without a browser asks.
    fn get(&self, host: &str, target: &str) -> Response {
        let port = self.server.address().port();
        self.server.exchange(format!("GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"), "GET")
    }

    fn picture(&mut self, of: &str) {
        self.browser.picture(&pictures().join(format!("{}-{of}.png", self.name)));
    }

    /// Nothing failed, neither here nor there.
    fn must_be_well(&self) {
        let errors = std::fs::read_to_string(self.server.home().join("error.log")).unwrap_or_default();
        // What PHP itself has to say of a database that is still empty is no fault of the way there.
        let failed: Vec<&str> = errors.lines().filter(|line| line.contains("backend \"") && !line.contains("PHP message")).collect();
        assert!(failed.is_empty(), "{failed:?}");
        let lines = std::fs::read_to_string(self.server.home().join("access.log")).unwrap_or_default();
        let failed: Vec<&str> =
            lines.lines().filter(|line| line.split('"').nth(2).is_some_and(|rest| rest.trim_start().starts_with('5'))).collect();
        assert!(failed.is_empty(), "{failed:?}");
        assert!(!self.php.log().contains("Fatal"), "{}", self.php.log());
    }
}

/// Where the application's own copy of a directory of the machine is.
fn own_path(own: &Path, path: &str) -> PathBuf {
    own.join(path.trim_start_matches('/'))
}

/// An example with a free port, logs, and the socket of PHP in place of the machine's.
fn configuration(example: &str, php: &Php, home: &Path) -> String {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples").join(example);
    let text = std::fs::read_to_string(example).unwrap();
    let socket = "/run/php/php8.2-fpm.sock";
    assert!(text.contains(socket), "{text}");
    let at = |name: &str| home.join(name);
    format!(
        "[server]\nworkers = 2\nuser = \"nobody\"\ngroup = \"nogroup\"\nlisten = [\"127.0.0.1:0\"]\ncontrol_socket = {:?}\npid_file = {:?}\n\
         [log]\naccess = {:?}\nerror = {:?}\n{}",
        at("control"),
        at("pid"),
        at("access.log"),
        at("error.log"),
        text.replace(socket, php.socket().to_str().unwrap())
    )
}
