//! Lists of directories with more entries than are sorted, and many of them at once.

use crate::support::{Configuration, PATIENCE, Root, Server, is_all, request, wait_until};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A root with a directory `d` of so many empty files, and a file `small`.
fn root_of(count: usize) -> Root {
    let root = Root::new();
    root.directory("d");
    root.file("small", "small");
    for number in 0..count {
        std::fs::write(root.at(format!("d/{number:06}")), "").unwrap();
    }
    root
}

fn listed(root: &Root) -> Server {
    let site = "name = [\"\"]\nlisting = true\nindex = []";
    Server::run(&Configuration::new().server_also("workers = 1").site(&root.path(), site))
}

/// The names in a list, in its order.
fn names(page: &str) -> Vec<u64> {
    page.split("href=\"./").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn s15_the_last_number_that_is_sorted_and_one_more() {
    let root = root_of(10_000);
    let server = listed(&root);
    let page = server.get("/d/?sort=name&order=desc").must_be(&[200]).text();
    assert_eq!(names(&page), (0..10_000).rev().collect::<Vec<u64>>());
    assert!(!page.contains("no particular order"));
    std::fs::write(root.at("d/010000"), "").unwrap();
    let page = server.get("/d/?sort=name&order=desc").must_be(&[200]).text();
    let mut found = names(&page);
    assert!(page.contains("no particular order") && !page.contains("?sort="));
    assert!(page.ends_with("</table>\n<p>10001 files, <span>0 B</span></p>\n</main>\n</body>\n</html>\n"));
    found.sort_unstable();
    assert_eq!(found, (0..=10_000).collect::<Vec<u64>>());
    let text = server.ask("GET", "/d/", &["Accept: application/json"]).must_be(&[200]).text();
    assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap().len(), 10_001);
}

#[test]
fn report_121_a_long_list_is_chunked_and_ends_the_connection_of_http_1_0() {
    let root = root_of(1000);
    let server = listed(&root);
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(request("GET", "/d/", &[]));
        let response = client.response("GET").must_be(&[200]);
        assert_eq!(response.field("Transfer-Encoding"), Some("chunked"));
        assert_eq!(names(&response.text()), (0..1000).collect::<Vec<u64>>());
    }
    client.send(request("HEAD", "/d/", &[]));
    assert!(client.response("HEAD").must_be(&[200]).field("Content-Length").is_none());
    client.send(request("GET", "/small", &["Connection: close"]));
    assert_eq!(client.response("GET").body, b"small");
    client.expect_end();
    let mut client = server.connect();
    client.send("GET /d/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let head = client.head().unwrap();
    assert!(head.field("Transfer-Encoding").is_none() && head.closes(), "{head:?}");
    assert_eq!(names(&String::from_utf8(client.rest().unwrap()).unwrap()), (0..1000).collect::<Vec<u64>>());
    // The access line says what was sent of the content, without the framing of chunks.
    let lines = server.wait_for_lines("access.log", 6);
    let bytes = |line: &String| line.split('"').nth(2).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(bytes(&lines[0]), bytes(&lines[5]), "{lines:?}");
}

#[test]
fn entries_that_come_and_go_spoil_no_list() {
    let root = root_of(2000);
    let server = listed(&root);
    let path = root.at("d");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::fs::remove_file(path.join(format!("{:06}", number * 7 % 1000)));
                let _ = std::fs::write(path.join(format!("{:06}", number * 13 % 1000)), "");
                number += 1;
            }
        });
        for _ in 0..20 {
            let found = names(&server.get("/d/").must_be(&[200]).text());
            // Who stays is there, each once.
            assert_eq!(found.iter().filter(|name| **name >= 1000).copied().collect::<Vec<u64>>(), (1000..2000).collect::<Vec<u64>>());
            let mut unique = found.clone();
            unique.dedup();
            assert_eq!(unique, found);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // The directory itself goes while it is listed: what was read is sent, and the list is whole.
    let root = root_of(30_000);
    let server = listed(&root);
    let mut client = server.connect();
    client.send(request("GET", "/d/", &[]));
    client.head().unwrap();
    std::fs::remove_dir_all(root.at("d")).unwrap();
    client.send(request("GET", "/small", &["Connection: close"]));
    let rest = String::from_utf8(client.rest().unwrap()).unwrap();
    assert!(rest.contains("</html>\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"), "{}", &rest[rest.len().saturating_sub(300)..]);
}

/// Resident memory of a process, in KiB.
fn resident(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn s14_s15_report_109_many_lists_at_once_are_bounded_and_leave_others_their_turn() {
    let count = if is_all() { 200_000 } else { 30_000 };
    let root = root_of(count);
    let server = listed(&root);
    let worker = server.workers()[0];
    server.get("/small").must_be(&[200]);
    let before = resident(worker);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let read: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
    let reading = || read.iter().map(|read| read.load(Ordering::Relaxed)).collect::<Vec<usize>>();
    let (slowest, most, progress) = std::thread::scope(|scope| {
        let readers: Vec<_> = read
            .iter()
            .enumerate()
            .map(|(number, total)| {
                let (stop, server) = (&stop, &server);
                scope.spawn(move || {
                    let client = server.connect();
                    let mut stream = client.stream();
                    stream.write_all(&request("GET", "/d/", &[])).unwrap();
                    let mut piece = vec![0; 64 * 1024];
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        match stream.read(&mut piece) {
                            Ok(0) | Err(_) => break,
                            Ok(length) => drop(total.fetch_add(length, Ordering::Relaxed)),
                        }
                        // Every tenth is slow.
                        if number % 10 == 0 {
                            std::thread::sleep(Duration::from_millis(200));
                        }
                    }
                })
            })
            .collect();
        let (mut slowest, mut most) = (Duration::ZERO, 0);
        // From when each has begun to get its list, as who came first has a start of the others.
        let (mut begun, mut end) = (Vec::new(), Instant::now() + Duration::from_secs(40));
        while Instant::now() < end {
            if begun.is_empty() && reading().iter().all(|read| *read > 0) {
                (begun, end) = (reading(), Instant::now() + Duration::from_secs(4));
            }
            let asked = Instant::now();
            server.get("/small");
            slowest = slowest.max(asked.elapsed());
            most = most.max(resident(worker));
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let since: Vec<usize> = reading().iter().zip(&begun).map(|(now, then)| now - then).collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        (slowest, most, since)
    });
    eprintln!("slowest other request {slowest:?}, memory {before} to {most} KiB, read {progress:?}");
    // A round takes a few milliseconds; this may be a debug build on a busy machine.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert!(most < before + 100 * 1024, "from {before} to {most} KiB");
    // Nobody was left out: each got something, the fast ones not unlike.
    let mut fast: Vec<usize> = progress.iter().enumerate().filter(|(number, _)| number % 10 != 0).map(|(_, read)| *read).collect();
    fast.sort_unstable();
    assert_eq!(fast.len(), 45, "not everybody began: {:?}", reading());
    assert!(fast[0] * 4 > fast[fast.len() - 1], "{progress:?}");
    // And when they are gone, what they held is given back, and nothing is left to do.
    assert!(wait_until(PATIENCE, || resident(worker) < before + 40 * 1024).is_some(), "{} KiB", resident(worker));
    let page = server.get("/d/").must_be(&[200]).text();
    assert_eq!(names(&page).len(), count);
}
