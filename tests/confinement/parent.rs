//! What the parent does while clients are served: nothing that they cause.

use crate::support::{Configuration, PATIENCE, Root, Server, needs_root, signal, wait_until};
use nix::sys::signal::Signal;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

/// How many requests; `tests/run --all` takes its time.
fn requests() -> usize {
    if std::env::var_os("ANCHORITE_TESTS_ALL").is_some() { 1_000_000 } else { 200_000 }
}

#[test]
fn o18_a_load_of_requests_moves_it_to_no_call() {
    needs_root!();
    let requests = requests();
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let trace = server.home().join("trace");
    let mut tracer =
        Command::new("strace").args(["-qq", "-p", &server.parent().to_string(), "-o"]).arg(&trace).stderr(Stdio::null()).spawn().unwrap();
    let traced = || crate::support::status_field(server.parent(), "TracerPid") == tracer.id().to_string();
    assert!(wait_until(PATIENCE, traced).is_some());
    let begin = Instant::now();
    let output = Command::new("h2load")
        .args(["--h1", "-t1", "-c50", &format!("-n{requests}")])
        .args(["", "none", "%2e%2e/x", "index.html?x"].map(|target| format!("http://{}/{target}", server.address())))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("requests: {requests} total")), "{output:?}");
    // An order of the administrator is seen: the trace works.
    server.order(&["status"]).must_be_done();
    signal(i32::try_from(tracer.id()).unwrap(), Signal::SIGINT);
    tracer.wait().unwrap();
    let text = fs::read_to_string(&trace).unwrap();
    assert!(text.contains("accept4("), "{text}");
    // Of itself it looks at the directories and at what /proc says of its processes every two seconds, and it answers that one order.
    let most = 500 + 20 * usize::try_from(begin.elapsed().as_secs()).unwrap();
    assert!(text.lines().count() < most, "{} calls: {}", text.lines().count(), text.lines().take(50).collect::<String>());
    for call in ["execve(", "clone", "openat(", "connect(", "sendfile("] {
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(call) && !line.contains("/proc/")).collect();
        assert!(lines.is_empty(), "{lines:?}");
    }
}
