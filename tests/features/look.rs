//! The pages for people, as a browser takes them: what their policy allows, and that they are valid HTML.

use crate::support::{Configuration, Response, Root, Server};
use std::io::Write;
use std::process::{Command, Stdio};

/// What the program prints for this input.
fn piped(program: &str, arguments: &[&str], input: &[u8]) -> String {
    let mut command = Command::new(program);
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A listing with names of every kind, a sorted one, an empty one, an error and the status page, by name.
pub(crate) fn pages() -> (Root, Server, Vec<(&'static str, &'static str)>) {
    let root = Root::new();
    root.file("d/100%.txt", "x");
    root.file(b"d/bad\xff\n<script>alert(1)</script>\"'&", "x");
    root.file("d/javascript:alert(1).txt", "x");
    root.file(format!("d/{}", "averylongname".repeat(18)), "x");
    root.sparse("d/large.iso", 4_324_204_544);
    root.file("d/sub dir/\u{634}\u{631}\u{62d}.txt", "x");
    root.directory("empty");
    for number in 1..=40u64 {
        root.sparse(format!("picture-{number:02}.jpg"), number * number * 54_321);
        root.sparse(format!("d/picture-{number:02}.jpg"), number * number * 54_321);
    }
    let rule = "name = [\"\"]\nlisting = true\n[[site.rule]]\npath = \"/status\"\nrespond = \"status\"";
    let server = Server::run(&Configuration::new().site(&root.path(), rule));
    let targets =
        [("listing", "/d/"), ("sorted", "/d/?sort=size&order=desc"), ("empty", "/empty/"), ("error", "/nothing"), ("status", "/status")];
    (root, server, targets.to_vec())
}

fn style(page: &Response) -> String {
    page.text().split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap().to_owned()
}

#[test]
fn the_policy_of_a_page_allows_its_style_and_nothing_else() {
    let (_root, server, targets) = pages();
    for (name, target) in targets {
        let page = server.ask("GET", target, &["Accept: text/html"]).must_be(&[200, 404]);
        // Hexadecimal to binary to base64, as the policy has it.
        let hash = piped("sha256sum", &[], style(&page).as_bytes());
        let bytes: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&hash[2 * at..2 * at + 2], 16).unwrap()).collect();
        let hash = piped("base64", &[], &bytes).trim().to_owned();
        let policy = page.field("Content-Security-Policy").unwrap_or_else(|| panic!("{name} has no policy"));
        assert!(policy.starts_with("default-src 'none'; "), "{name}: {policy}");
        assert!(policy.contains(&format!("style-src 'sha256-{hash}';")), "{name}: {policy} is not for {hash}");
        assert_eq!(page.field("X-Content-Type-Options"), Some("nosniff"), "{name}");
        let text = page.text();
        for forbidden in ["<script", "http:", "https:", "style=\"", "onload", "url(", "@import", "src="] {
            assert!(!text.contains(forbidden), "{name}: {forbidden}");
        }
        assert!(!text.to_lowercase().contains("anchorite") && !text.contains(env!("CARGO_PKG_VERSION")), "{name}");
        assert!(!text.contains("/tmp"), "{name}");
    }
}

#[test]
fn pages_are_valid_html() {
    let (_root, server, targets) = pages();
    for (name, target) in targets {
        let page = server.ask("GET", target, &["Accept: text/html"]).must_be(&[200, 404]);
        let faults = piped("tidy", &["-errors", "-quiet", "-utf8"], &page.body);
        assert!(faults.is_empty(), "{name}: {faults}");
        // A page that is wrong is noticed.
        let broken = page.text().replace("</h1>", "");
        assert!(!piped("tidy", &["-errors", "-quiet", "-utf8"], broken.as_bytes()).is_empty(), "{name}");
    }
}
