//! Lists of directories with more entries than are sorted, and many of them at once.

use crate::support::{Configuration, PATIENCE, Root, Server, is_all, request, wait_until};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

/// What many clients have read, each with a list of its own. One thread reads for all of them in turn, so that none gets less because the
/// machine gave its thread less.
struct Readers {
    read: Vec<AtomicUsize>,
    stop: AtomicBool,
}

impl Readers {
    /// Every tenth is slow.
    fn is_slow(number: usize) -> bool {
        number.is_multiple_of(10)
    }

    fn run(&self, server: &Server) {
        let start = Instant::now();
        let mut streams: Vec<_> = self.read.iter().map(|_| std::net::TcpStream::connect(server.address()).unwrap()).collect();
        for stream in &mut streams {
            stream.write_all(&request("GET", "/d/", &[])).unwrap();
            stream.set_nonblocking(true).unwrap();
        }
        let mut piece = vec![0; 64 * 1024];
        for round in 0.. {
            let mut is_idle = true;
            for (number, stream) in streams.iter_mut().enumerate().filter(|(number, _)| !Self::is_slow(*number) || round % 20 == 0) {
                if let Ok(length @ 1..) = stream.read(&mut piece) {
                    self.read[number].fetch_add(length, Ordering::Relaxed);
                    is_idle = false;
                }
            }
            if self.stop.load(Ordering::Relaxed) || start.elapsed() > PATIENCE * 3 {
                return;
            }
            if is_idle {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Bytes by reader.
    fn progress(&self) -> Vec<usize> {
        self.read.iter().map(|read| read.load(Ordering::Relaxed)).collect()
    }
}

#[test]
fn s14_s15_report_109_many_lists_at_once_are_bounded_and_leave_others_their_turn() {
    /// Of its list, each of the fast ones reads so much while it is looked at; less than there is of it.
    const PART: usize = 1 << 20;
    let count = if is_all() { 200_000 } else { 30_000 };
    let root = root_of(count);
    let server = listed(&root);
    let worker = server.workers()[0];
    server.get("/small").must_be(&[200]);
    let before = resident(worker);
    let readers = Readers { read: (0..50).map(|_| AtomicUsize::new(0)).collect(), stop: AtomicBool::new(false) };
    let fast =
        |all: &[usize]| all.iter().copied().enumerate().filter(|(number, _)| !Readers::is_slow(*number)).map(|(_, read)| read).collect();
    let (mut served, mut most, mut begun, mut since) = (0, 0, None, Vec::<usize>::new());
    std::thread::scope(|scope| {
        scope.spawn(|| readers.run(&server));
        let start = Instant::now();
        while start.elapsed() < PATIENCE * 2 && (since.is_empty() || since.iter().any(|read| *read <= PART)) {
            server.get("/small").must_be(&[200]);
            most = most.max(resident(worker));
            served += 1;
            let now = readers.progress();
            match &begun {
                Some(then) => {
                    since = fast(&std::iter::zip(&now, then).map(|(now, then): (&usize, &usize)| now - then).collect::<Vec<usize>>())
                }
                // From when each has begun to get its list, and not only the head of it, as who came first has a start of the others.
                None if now.iter().all(|read| *read > 2000) => (begun, served) = (Some(now), 0),
                None => {}
            }
        }
        readers.stop.store(true, Ordering::Relaxed);
    });
    eprintln!("{served} other requests answered meanwhile, memory {before} to {most} KiB, the fast ones read {since:?} after {begun:?}");
    assert!(begun.is_some(), "not everybody began: {:?}", readers.progress());
    // Nobody was left out: each went on, and the fast ones got not unlike.
    assert!(since.iter().all(|read| (PART..4 * PART).contains(read)), "{since:?} after {begun:?}");
    // Between any two turns of the lists there is one for others.
    assert!(served >= 5, "{served}");
    assert!(most < before + 100 * 1024, "from {before} to {most} KiB");
    // And when they are gone, what they held is given back, and nothing is left to do.
    assert!(wait_until(PATIENCE, || resident(worker) < before + 40 * 1024).is_some(), "{} KiB", resident(worker));
    let page = server.get("/d/").must_be(&[200]).text();
    assert_eq!(names(&page).len(), count);
}

/// Counts the entries of a list as it comes; whether it is whole.
fn entries(source: impl Read) -> (usize, bool) {
    let (mut source, mut text, mut count) = (std::io::BufReader::with_capacity(1 << 20, source), Vec::new(), 0);
    let mut ends = false;
    while std::io::BufRead::read_until(&mut source, b'\n', &mut text).unwrap() > 0 {
        count += usize::from(memchr::memmem::find(&text, b"href=\"./").is_some());
        ends = text.starts_with(b"</html>");
        text.clear();
    }
    (count, ends)
}

/// The content of a chunked response, as it comes.
struct Content<'c>(&'c std::net::TcpStream, usize);

impl Content<'_> {
    fn line(&mut self) -> String {
        let (mut line, mut byte) = (String::new(), [0]);
        while !line.ends_with("\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            line.push(char::from(byte[0]));
        }
        line
    }
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.1 == 0 {
            self.1 = usize::from_str_radix(self.line().trim(), 16).unwrap();
            if self.1 == 0 {
                return Ok(0);
            }
        }
        let most = buffer.len().min(self.1);
        let count = self.0.read(&mut buffer[..most])?;
        assert!(count > 0, "cut off");
        self.1 -= count;
        if self.1 == 0 {
            assert_eq!(self.line(), "\r\n");
        }
        Ok(count)
    }
}

#[test]
fn s15_a_million_entries_are_listed_within_bounds_and_others_are_served_meanwhile() {
    crate::support::needs_all!();
    const COUNT: usize = 1_000_000;
    let root = Root::in_memory();
    root.file("small", "small");
    root.directory("d");
    let one = root.file("d/0000000", "");
    for number in 1..COUNT {
        std::fs::hard_link(&one, root.at(format!("d/{number:07}"))).unwrap();
    }
    let site = "name = [\"\"]\nlisting = true\nindex = []";
    // A busy machine may give the thread that reads so little that its window of TCP stays shut for a minute.
    let configuration = Configuration::new().server_also("workers = 1").limits("write_timeout = \"1h\"").site(&root.path(), site);
    let server = Server::run(&configuration);
    let worker = server.workers()[0];
    server.get("/small").must_be(&[200]);
    let before = resident(worker);
    for fields in [[].as_slice(), &["Accept-Encoding: gzip"]] {
        let done = std::sync::atomic::AtomicBool::new(false);
        let (served, most, listed) = std::thread::scope(|scope| {
            let list = scope.spawn(|| {
                let stream = std::net::TcpStream::connect(server.address()).unwrap();
                (&stream).write_all(&request("GET", "/d/", fields)).unwrap();
                let mut content = Content(&stream, 0);
                while content.line() != "\r\n" {}
                let counted = if fields.is_empty() { entries(content) } else { entries(flate2::read::GzDecoder::new(content)) };
                done.store(true, Ordering::Relaxed);
                counted
            });
            let (mut served, mut most) = (0, 0);
            while !done.load(Ordering::Relaxed) && !list.is_finished() {
                assert_eq!(server.get("/small").must_be(&[200]).body, b"small");
                served += 1;
                most = most.max(resident(worker));
                // Leaves most of the processor to the list and its reader.
                std::thread::sleep(Duration::from_millis(5));
            }
            (served, most, list.join().unwrap())
        });
        eprintln!("{fields:?}: {served} other requests answered meanwhile, memory {before} to {most} KiB");
        assert_eq!(listed, (COUNT, true), "{fields:?}");
        // Between any two batches there is a turn for others.
        assert!(served > 100, "{served}");
        assert!(most < before + 40 * 1024, "from {before} to {most} KiB");
    }
}
