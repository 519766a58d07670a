//! What programs are told, by `anchorite explain` with the example configurations of applications: each URL leads to the script, the rest
//! of the path and the query that the application expects.

use crate::support::{Launch, Root};
use std::collections::BTreeMap;
use std::path::Path;

/// An example, its root replaced by one with these files.
struct Application {
    launch: Launch,
    root: Root,
    host: String,
}

impl Application {
    fn new(example: &str, files: &[&str]) -> Application {
        let root = Root::with_index();
        for file in files {
            root.file(file, "<?php");
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples").join(example);
        let text = std::fs::read_to_string(path).unwrap();
        let configured = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{example} has no {key}"));
            line.split('"').nth(1).unwrap().to_owned()
        };
        let (old_root, host) = (configured("root = "), configured("name = "));
        let launch = Launch::new();
        launch.write_configuration(&text.replace(&old_root, root.path().to_str().unwrap()));
        Application { launch, root, host }
    }

    /// The parameters of a URL, without what is the same for all; or the status.
    fn explain(&self, target: &str, headers: &[&str]) -> Result<BTreeMap<String, String>, u64> {
        let url = format!("http://{}{target}", self.host);
        let file = self.launch.home().join("anchorite.toml");
        let mut words = vec!["explain".into(), url.into(), "--json".into(), "-c".into(), file.into()];
        for header in headers {
            words.extend(["--header".into(), header.into()]);
        }
        let ended = self.launch.to_end(&words);
        let lines: Vec<serde_json::Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let parameters: BTreeMap<String, String> =
            lines.iter().filter(|line| line["what"] == "parameter").map(|line| (text(&line["name"]), text(&line["value"]))).collect();
        if !parameters.is_empty() {
            return Ok(parameters);
        }
        let answer = lines.iter().find(|line| line["what"] == "answer").unwrap_or_else(|| panic!("{target}: {ended:?}"));
        Err(answer["status"].as_u64().unwrap_or_else(|| panic!("{target}: {answer}")))
    }

    /// The script, PATH_INFO and QUERY_STRING of a URL; REQUEST_URI is always as it was sent.
    #[track_caller]
    fn leads(&self, target: &str, script: &str, path_info: &str, query: &str) {
        let told = self.explain(target, &[]).unwrap_or_else(|status| panic!("{target}: {status}"));
        let value = |name: &str| told.get(name).map_or("", String::as_str);
        assert_eq!((value("SCRIPT_NAME"), value("PATH_INFO"), value("QUERY_STRING")), (script, path_info, query), "{target}");
        let root = self.root.path().to_str().unwrap().to_owned();
        assert_eq!((value("SCRIPT_FILENAME"), value("DOCUMENT_ROOT")), (format!("{root}{script}").as_str(), root.as_str()), "{target}");
        assert_eq!(value("REQUEST_URI"), target);
    }

    #[track_caller]
    fn answers(&self, target: &str, status: u64) {
        assert_eq!(self.explain(target, &[]).map(|told| told.get("SCRIPT_NAME").cloned()), Err(status), "{target}");
    }
}

#[test]
fn wordpress() {
    let app = Application::new(
        "wordpress.toml",
        &[
            "index.php",
            "wp-login.php",
            "wp-config.php",
            "wp-admin/index.php",
            "wp-admin/post.php",
            "wp-content/uploads/evil.php",
            "wp-content/a.css",
        ],
    );
    app.leads("/", "/index.php", "", "");
    app.leads("/2026/11/hello-world/", "/index.php", "", "");
    app.leads("/wp-json/wp/v2/posts?per_page=5", "/index.php", "", "per_page=5");
    app.leads("/wp-login.php?redirect_to=%2Fwp-admin%2F", "/wp-login.php", "", "redirect_to=%2Fwp-admin%2F");
    app.leads("/wp-admin/", "/wp-admin/index.php", "", "");
    app.leads("/wp-admin/post.php?post=1&action=edit", "/wp-admin/post.php", "", "post=1&action=edit");
    app.answers("/wp-admin", 301);
    app.answers("/wp-config.php", 404);
    app.answers("/wp-content/uploads/evil.php", 403);
    // What is no directory has nothing beneath it.
    app.answers("/wp-content/uploads/evil.php/", 404);
    app.answers("/wp-content/uploads/evil.php/x.jpg", 404);
    app.answers("/wp-content/a.css", 200);
}

#[test]
fn mediawiki() {
    // Id of reports: 161.
    let app = Application::new("mediawiki.toml", &["w/index.php", "w/rest.php", "w/load.php", "w/images/a.php", "w/includes/x.php"]);
    for title in ["Main_Page", "AT%26T", "C%2B%2B", "What%3F", "A/B", "%C3%89t%C3%A9", "100%25"] {
        app.leads(&format!("/wiki/{title}"), "/w/index.php", "", "");
    }
    app.leads("/wiki/A?action=edit&x=%26", "/w/index.php", "", "action=edit&x=%26");
    app.leads("/w/index.php/AT%26T", "/w/index.php", "/AT&T", "");
    app.leads("/w/rest.php/v1/page/A", "/w/rest.php", "/v1/page/A", "");
    app.leads("/w/load.php?modules=site", "/w/load.php", "", "modules=site");
    app.answers("/", 302);
    app.answers("/w/images/a.php", 403);
    app.answers("/w/images/a.php/x", 404);
    app.answers("/w/includes/x.php", 403);
}

#[test]
fn nextcloud() {
    let app = Application::new("nextcloud.toml", &["index.php", "remote.php", "ocs/v2.php", "config/config.php", "core/a.css"]);
    app.leads("/", "/index.php", "", "");
    app.leads("/apps/files/?dir=/a", "/index.php", "/apps/files/", "dir=/a");
    app.leads("/remote.php/dav/files/ann/a%20b.txt", "/remote.php", "/dav/files/ann/a b.txt", "");
    app.leads("/ocs/v2.php/cloud/user?format=json", "/ocs/v2.php", "/cloud/user", "format=json");
    app.answers("/.well-known/carddav", 301);
    app.answers("/config/config.php", 404);
    app.answers("/data/ann/files/a.txt", 404);
    app.answers("/core/a.css", 200);
    let told = app.explain("/", &["Authorization: Bearer x", "Destination: /a"]).unwrap();
    assert_eq!((told["HTTP_AUTHORIZATION"].as_str(), told["front_controller_active"].as_str()), ("Bearer x", "true"));
}

#[test]
fn drupal() {
    // Id of reports: 173.
    let app = Application::new(
        "drupal.toml",
        &[
            "index.php",
            "update.php",
            "core/install.php",
            "sites/default/files/a.jpg",
            "sites/default/files/a.php",
            "sites/default/private/x",
            "a.inc",
        ],
    );
    app.leads("/sites/default/files/styles/thumb/a.jpg", "/index.php", "", "");
    app.leads("/system/files/private.pdf", "/index.php", "", "");
    app.leads("/node/my-private-notes?a=b", "/index.php", "", "a=b");
    app.leads("/update.php/selection?op=1", "/update.php", "/selection", "op=1");
    app.leads("/core/install.php", "/core/install.php", "", "");
    app.answers("/sites/default/private/x", 403);
    app.answers("/a.inc", 403);
    app.answers("/sites/default/files/a.jpg", 200);
    app.answers("/sites/default/files/a.php", 403);
    app.answers("/sites/default/files/a.php/x", 403);
}

#[test]
fn smf() {
    // Id of reports: 160.
    let app = Application::new("smf.toml", &["index.php", "attachments/1_abc", "custom_avatar/a.php", "Sources/Load.php"]);
    app.leads("/index.php/topic,12.0.html?a;b=1;c", "/index.php", "/topic,12.0.html", "a;b=1;c");
    app.leads("/boards/general-1/20", "/index.php", "/boards/general-1/20", "");
    app.leads("/index.php?action=calendar;year=2025", "/index.php", "", "action=calendar;year=2025");
    app.answers("/Sources/Load.php", 403);
    app.answers("/attachments/1_abc", 403);
    app.answers("/custom_avatar/a.php", 403);
    app.answers("/custom_avatar/a.php/x", 404);
}

#[test]
fn what_a_client_sends_is_told_as_it_may_be() {
    // Ids of reports: 041, 043, 170, 172.
    let app = Application::new("wordpress.toml", &["index.php"]);
    let told =
        app.explain("/index.php", &["Proxy: http://evil.test:8080", "X-Multi: 1", "X-Multi: 2", "X_Shadow: 1", "Cookie: a=1"]).unwrap();
    for (name, value) in [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_PORT", "80"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REQUEST_METHOD", "GET"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REDIRECT_STATUS", "200"),
        ("HTTP_X_MULTI", "1, 2"),
        ("HTTP_COOKIE", "a=1"),
        ("HTTP_HOST", "example.org"),
    ] {
        assert_eq!(told.get(name).map(String::as_str), Some(value), "{name}");
    }
    for name in ["HTTP_PROXY", "HTTP_X_SHADOW", "HTTPS", "REMOTE_USER", "CONTENT_LENGTH", "PATH_INFO"] {
        assert_eq!(told.get(name), None, "{name}");
    }
}
