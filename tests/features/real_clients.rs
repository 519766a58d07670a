//! Other people's clients: browsers of the command line get the right bytes, load generators no failed request.

use crate::support::{Configuration, Root, Server, pattern};
use std::path::Path;
use std::process::{Command, Output};

fn site() -> (Root, Server) {
    let root = Root::with_index();
    root.file("1k.bin", pattern(1024));
    root.file("large.bin", pattern(3_000_000));
    root.file("sub/a b.txt", "a b");
    let server = Server::run(&Configuration::of(&root.path()).limits("keepalive_requests = 1000000"));
    (root, server)
}

/// Runs a command line, its words parted by spaces, in an own directory; panics unless it ends well.
#[track_caller]
fn run(directory: &Path, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output: Output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .env("HOME", directory)
        .output()
        .unwrap_or_else(|fault| panic!("{line}: {fault}; tests/run installs it"));
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{line}: {}\n{text}", output.status);
    text
}

/// The number behind a label in what a program says.
#[track_caller]
fn number(text: &str, label: &str) -> u64 {
    let after = text.split_once(label).unwrap_or_else(|| panic!("no {label:?} in {text}")).1;
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind {label:?} in {text}"))
}

#[test]
fn curl_gets_whole_files_parts_and_many_at_once() {
    let (root, server) = site();
    let home = tempfile::tempdir().unwrap();
    let large = std::fs::read(root.at("large.bin")).unwrap();
    let url = format!("http://{}", server.address());
    let read = |name: &str| std::fs::read(home.path().join(name)).unwrap();
    run(home.path(), &format!("curl -sSf -o whole {url}/large.bin"));
    assert!(read("whole") == large);
    run(home.path(), &format!("curl -sSf -r 1000-1999 -o part {url}/large.bin"));
    assert!(read("part") == large[1000..2000]);
    // Goes on where a broken download ended.
    std::fs::write(home.path().join("broken"), &large[..123_456]).unwrap();
    run(home.path(), &format!("curl -sSf -C - -o broken {url}/large.bin"));
    assert!(read("broken") == large);
    run(home.path(), &format!("curl -sSf --parallel --parallel-max 20 -o many_#1 {url}/1k.bin?[1-200]"));
    let one = std::fs::read(root.at("1k.bin")).unwrap();
    assert!((1..=200).all(|number| read(&format!("many_{number}")) == one));
    // Only if it is younger than what is there: it is not.
    run(home.path(), &format!("curl -sSfR -o dated {url}/1k.bin"));
    let status = run(home.path(), &format!("curl -sS -z dated -o nothing -w %{{http_code}} {url}/1k.bin"));
    assert_eq!(status, "304");
    let status = run(home.path(), &format!("curl -sS -I -o nothing -w %{{http_code}} --path-as-is {url}/../etc/passwd"));
    assert_eq!(status, "400");
    // What is sent is not read; the connection of the second request may be another.
    let status =
        run(home.path(), &format!("curl -sS -o nothing -w %{{http_code}}, --data-binary @whole {url}/1k.bin -o nothing {url}/1k.bin"));
    assert!(status.starts_with("405,"), "{status}");
}

#[test]
fn wget_gets_and_resumes_a_file() {
    let (root, server) = site();
    let home = tempfile::tempdir().unwrap();
    let large = std::fs::read(root.at("large.bin")).unwrap();
    let url = format!("http://{}", server.address());
    std::fs::write(home.path().join("large.bin"), &large[..1_000_001]).unwrap();
    run(home.path(), &format!("wget -q -t 1 -c {url}/large.bin"));
    assert!(std::fs::read(home.path().join("large.bin")).unwrap() == large);
    // Time stamps: the second time there is nothing to fetch.
    run(home.path(), &format!("wget -q -t 1 -N {url}/1k.bin"));
    let said = run(home.path(), &format!("wget -nv -t 1 -N {url}/1k.bin"));
    assert!(!said.contains("->"), "{said}");
    assert_eq!(std::fs::read(home.path().join("1k.bin")).unwrap(), std::fs::read(root.at("1k.bin")).unwrap());
}

#[test]
fn ab_has_no_failed_request() {
    let (_root, server) = site();
    let home = tempfile::tempdir().unwrap();
    for (options, requests) in [("-c 10 -n 1000", 1000), ("-k -c 20 -n 5000", 5000), ("-c 20 -n 5000", 5000), ("-k -c 500 -n 5000", 5000)] {
        let said = run(home.path(), &format!("ab -q {options} http://{}/1k.bin", server.address()));
        assert_eq!((number(&said, "Complete requests:"), number(&said, "Failed requests:")), (requests, 0), "ab {options}: {said}");
        assert!(!said.contains("Non-2xx"), "ab {options}: {said}");
        assert_eq!(number(&said, "Document Length:"), 1024);
    }
}

#[test]
fn siege_has_no_failed_transaction() {
    let (_root, server) = site();
    let home = tempfile::tempdir().unwrap();
    for options in ["-b -c50 -r20", "-d1 -c100 -r2"] {
        let said = run(home.path(), &format!("siege -q -j {options} http://{}/1k.bin", server.address()));
        assert_eq!(number(&said, "\"failed_transactions\":"), 0, "siege {options}: {said}");
        assert!(number(&said, "\"transactions\":") >= 200, "siege {options}: {said}");
    }
}

#[test]
fn wrk_sees_no_socket_error() {
    let (_root, server) = site();
    let home = tempfile::tempdir().unwrap();
    for (connections, file) in [(64, "1k.bin"), (500, "1k.bin"), (32, "large.bin")] {
        let said = run(home.path(), &format!("wrk -t1 -c{connections} -d1s --timeout 10s http://{}/{file}", server.address()));
        assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{file}: {said}");
        let requests =
            said.lines().find_map(|line| line.trim().split_once(" requests in ")).map(|(count, _)| count.parse::<u64>().unwrap());
        assert!(requests.is_some_and(|count| count > 0), "{said}");
    }
}
