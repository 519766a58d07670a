//! Pages of the server itself, and the counters behind them and behind `status --json`.

use crate::support::{Configuration, PATIENCE, Root, Server, request, wait_until};
use std::collections::BTreeMap;

const PAGES: &str = "name = [\"\"]\n[[site.rule]]\npath = \"/status\"\nrespond = \"status\"\n\
                     [[site.rule]]\npath = \"/metrics\"\nrespond = \"metrics\"\nheader = { Cache-Control = \"max-age=9\" }\n\
                     [[site.rule]]\npath = \"/health\"\nrespond = \"health\"\n\
                     [[site.rule]]\npath = \"/elsewhere\"\nallow = [\"192.0.2.0/24\"]\nrespond = \"status\"\n\
                     [[site.rule]]\npath = \"/here\"\nallow = [\"127.0.0.1\"]\nrespond = \"status\"\n";

/// The counters of `status --json`.
fn counters(server: &Server) -> serde_json::Value {
    serde_json::from_str(&server.order(&["status", "--json"]).must_be_done().stdout).unwrap()
}

/// The samples of a page in Prometheus' text format, each line of which must be one or a comment.
fn samples(text: &str) -> BTreeMap<String, u64> {
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            assert!(comment.starts_with("HELP anchorite_") || comment.starts_with("TYPE anchorite_"), "{line}");
            continue;
        }
        let (name, value) = line.split_once(' ').unwrap();
        assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "twice: {name}");
    }
    samples
}

#[test]
fn pages_are_for_this_machine() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::new().site(&root.path(), PAGES));
    assert_eq!(server.get("/health").must_be(&[200]).text(), "ok\n");
    for target in ["/status", "/metrics", "/health", "/here"] {
        let page = server.get(target).must_be(&[200]);
        assert_eq!(page.field("Cache-Control"), Some("no-store"), "{target}");
        assert!(page.field("Content-Type").unwrap().starts_with("text/plain"), "{target}");
        assert!(server.head(target).must_be(&[200]).body.is_empty());
        server.ask("POST", target, &["Content-Length: 0"]).must_be(&[405]);
        // Whoever it says it is: no proxy is trusted.
        server.ask("GET", target, &["X-Forwarded-For: 192.0.2.1"]).must_be(&[200]);
        let client = |client| server.order(&["explain", target, "--json", "--client", client]);
        let right = if target == "/here" { ("403", "403") } else { ("200", "403") };
        assert!(client("::1").stdout.contains(&format!("\"status\":{}", right.0)), "{target}: {:?}", client("::1"));
        assert!(client("192.0.2.1").stdout.contains(&format!("\"status\":{}", right.1)), "{target}");
    }
    server.get("/elsewhere").must_be(&[403]);
    assert!(server.order(&["explain", "/elsewhere", "--json", "--client", "192.0.2.1"]).stdout.contains("\"status\":200"));
}

#[test]
fn counters_move_with_the_requests() {
    let root = Root::with_index();
    root.directory("dir");
    let server = Server::run(&Configuration::new().site(&root.path(), PAGES));
    let before = counters(&server);
    for (target, times) in [("/", 20), ("/none", 7), ("/dir", 3)] {
        for _ in 0..times {
            server.get(target);
        }
    }
    server.exchange("BAD\r\n\r\n", "GET").must_be(&[400]);
    let mut idle = server.connect();
    idle.send(request("GET", "/", &[]));
    idle.response("GET");
    let moved = |name: &str| {
        let now = counters(&server);
        now[name].as_u64().unwrap() - before[name].as_u64().unwrap()
    };
    for (name, right) in [
        ("connections_accepted", 32),
        ("responses_2xx", 21),
        ("responses_3xx", 3),
        ("responses_4xx", 8),
        ("responses_5xx", 0),
        ("requests_refused", 1),
    ] {
        assert!(wait_until(PATIENCE, || moved(name) == right).is_some(), "{name}: {} is not {right}", moved(name));
    }
    assert!(moved("body_bytes_sent") > 21 * 6);
    assert!(wait_until(PATIENCE, || counters(&server)["connections_idle"] == 1).is_some(), "{}", counters(&server));
    // The page says the same, whichever worker answers.
    for _ in 0..8 {
        let page = samples(&server.get("/metrics").text());
        assert!(page["anchorite_responses_2xx_total"] >= 21 && page["anchorite_responses_3xx_total"] == 3, "{page:?}");
        assert_eq!(page["anchorite_connections{state=\"idle\"}"], 1, "{page:?}");
    }
    drop(idle);
    assert!(wait_until(PATIENCE, || counters(&server)["connections_idle"] == 0).is_some());
    // A reload does not set them back.
    let reached = counters(&server)["requests"].as_u64();
    server.order(&["reload"]).must_be_done();
    assert!(counters(&server)["requests"].as_u64() >= reached);
}
