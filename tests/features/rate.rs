//! `rate`: the bandwidth of one response, whatever it is made of.

use crate::support::{Configuration, Root, Server, pattern, request};
use std::time::{Duration, Instant};

const RATE: usize = 256 * 1024;

fn server(root: &Root) -> Server {
    let rule = "[[site.rule]]\npath = \"/slow/*\"\nrate = \"256KiB/s\"\n";
    Server::run(&Configuration::new().server_also("workers = 1").log("access = \"stderr\"\nerror = \"stderr\"").site(&root.path(), rule))
}

/// Seconds that a response takes, and its body.
fn timed(server: &Server, target: &str, fields: &[&str]) -> (f64, Vec<u8>) {
    let (begin, mut client) = (Instant::now(), server.connect());
    client.send(request("GET", target, fields));
    let response = client.response("GET").must_be(&[200, 206]);
    (begin.elapsed().as_secs_f64(), response.body)
}

/// What was not sent yet cannot have come, however loaded the machine is: of so many bytes all but a burst took their time.
fn least(bytes: usize) -> f64 {
    (bytes as f64 / RATE as f64) * 0.9 - 0.25
}

#[test]
fn files_from_memory_open_files_parts_and_streams_keep_the_rate() {
    let root = Root::with_index();
    let large = pattern(3 * RATE);
    let text: Vec<u8> = large.iter().flat_map(|byte| format!("{byte:03}\n").into_bytes()).collect();
    root.file("slow/open", &large);
    root.file("slow/memory", pattern(60_000));
    root.file("slow/stream.txt", &text);
    let server = server(&root);
    let (seconds, body) = timed(&server, "/slow/open", &[]);
    assert!(body == large);
    assert!(seconds >= least(3 * RATE) && seconds < 30.0, "{seconds}");
    let (seconds, body) = timed(&server, "/slow/open", &["Range: bytes=100-262243"]);
    assert!(body == large[100..=262_243]);
    assert!(seconds >= least(RATE), "{seconds}");
    // Many small answers on one connection: each has its own rate.
    let (seconds, body) = timed(&server, "/slow/memory", &[]);
    assert!(body == pattern(60_000));
    assert!(seconds >= 0.1, "{seconds}");
    let (seconds, body) = timed(&server, "/slow/stream.txt", &["Accept-Encoding: gzip"]);
    assert!(seconds >= least(body.len()), "{seconds} for {}", body.len());
}

#[test]
fn the_rate_is_kept_within_a_tenth_over_three_seconds() {
    let root = Root::with_index();
    root.file("slow/open", pattern(5 * RATE));
    let server = server(&root);
    let mut client = server.connect();
    let begin = Instant::now();
    client.send(request("GET", "/slow/open", &[]));
    client.head().unwrap();
    // A burst, and three seconds: counted from the request on, since what has come waits for a reader that is late.
    client.exactly(RATE / 4 + 3 * RATE).unwrap();
    let rate = 3.0 * RATE as f64 / begin.elapsed().as_secs_f64();
    // Above: never. Below: a machine that does something else is given time.
    assert!(rate < 1.1 * RATE as f64 && rate > 0.2 * RATE as f64, "{rate}");
}

#[test]
fn a_paced_answer_keeps_nobody_waiting_and_the_worker_sleeps() {
    let root = Root::with_index();
    root.file("slow/open", pattern(8 * RATE));
    let server = server(&root);
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let mut client = server.connect();
            client.send(request("GET", "/slow/open", &[]));
            client
        })
        .collect();
    let worker = server.workers()[0];
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    let begin = Instant::now();
    let mut others = 0;
    while begin.elapsed() < Duration::from_secs(2) {
        server.get("/").must_be(&[200]);
        others += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    // A busy loop would be 200 ticks.
    assert!(ticks() - before < 100, "{} ticks of processor time in two seconds", ticks() - before);
    // One that was cut off has its line, with what was sent of it.
    drop(slow);
    let cut = |line: &&crate::support::AccessLine| line.bytes > 1000 && line.bytes < 8 * RATE as u64;
    let lines = server.wait_for_access_lines(others + 20);
    assert_eq!(lines.iter().filter(cut).count(), 20, "{others} others, {lines:?}");
    // The connection goes on after a paced answer.
    let mut client = server.connect();
    root.file("slow/small", "small");
    client.send(request("GET", "/slow/small", &[]));
    assert_eq!(client.response("GET").text(), "small");
    client.send(request("GET", "/", &[]));
    client.response("GET").must_be(&[200]);
}
