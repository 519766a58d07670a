//! PHP-FPM as it is run: small pools, restarts under load, and none at all for a while.

use crate::fastcgi::Php;
use crate::slow;
use crate::support::{Client, Configuration, PATIENCE, Root, Server, free_port, needs_root, request, wait_until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A service with these many workers, and a pool with these many children; `None` without PHP-FPM.
fn service(workers: usize, children: usize, script: &str) -> Option<(Php, Root, Server)> {
    let php = Php::start(children)?;
    let root = Root::with_index();
    root.file("a.php", script);
    let configuration = Configuration::of(&root.path())
        .server_also(&format!("workers = {workers}"))
        .backend(&php.table(""))
        .rule("path = \"*.php\"\nbackend = \"php\"");
    let server = Server::run(&configuration);
    Some((php, root, server))
}

/// How many answers of each status so many clients got, each on a connection of its own, while `act` was done.
fn under_load(server: &Server, clients: usize, act: impl FnOnce()) -> [(u16, usize); 3] {
    let (over, counts) = (AtomicBool::new(false), [200, 502, 503].map(|status| (status, AtomicUsize::new(0))));
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = server.connect();
                while !over.load(Ordering::Relaxed) {
                    client.send(request("GET", "/a.php", &[]));
                    let response = client.response("GET").must_be(&[200, 502, 503]);
                    assert!(response.status != 200 || response.text() == "whole", "{:?}", response.text());
                    let count = counts.iter().find(|(status, _)| *status == response.status);
                    count.unwrap().1.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        act();
        over.store(true, Ordering::Relaxed);
    });
    counts.map(|(status, count)| (status, count.into_inner()))
}

/// Until so many more were answered.
fn some_more(server: &Server, count: usize) {
    for _ in 0..count {
        server.get("/a.php").must_be(&[200]);
    }
}

/// Each client asks again and again on a connection of its own, until all of them have had so many answers.
fn all_get(server: &Server, clients: usize, count: usize) {
    let counts: Vec<AtomicUsize> = (0..clients).map(|_| AtomicUsize::new(0)).collect();
    let over = || counts.iter().all(|had| had.load(Ordering::Relaxed) >= count);
    std::thread::scope(|scope| {
        for had in &counts {
            scope.spawn(|| {
                let mut client = server.connect();
                while !over() {
                    client.send(request("GET", "/a.php", &[]));
                    client.response("GET").must_be(&[200]);
                    had.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        assert!(wait_until(3 * PATIENCE, over).is_some(), "{counts:?}");
    });
}

#[test]
fn a_pool_of_two_children_never_hangs_four_workers() {
    needs_root!();
    let Some((_php, _root, server)) = service(4, 2, "<?php echo 'whole';") else { return };
    assert_eq!(server.workers().len(), 4);
    // Two workers could keep both children as long as their own clients go on.
    all_get(&server, 8, 20);
}

#[test]
fn a_pool_of_one_child_serves_four_workers_in_turn() {
    needs_root!();
    let Some((_php, _root, server)) = service(4, 1, "<?php echo 'whole';") else { return };
    let begun = Instant::now();
    for _ in 0..40 {
        server.get("/a.php").must_be(&[200]);
    }
    // A connection that was kept for its whole second, each time another worker is asked, would cost half a minute.
    assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn b22_a_reload_of_php_under_load_loses_nothing() {
    needs_root!();
    let Some((php, _root, server)) = service(2, 4, "<?php usleep(2000); echo 'whole';") else { return };
    let counts = under_load(&server, 4, || {
        for _ in 0..3 {
            some_more(&server, 20);
            php.reload();
        }
        some_more(&server, 20);
    });
    assert_eq!((counts[1], counts[2]), ((502, 0), (503, 0)), "{counts:?}");
}

#[test]
fn b22_a_restart_of_php_under_load_loses_what_was_in_flight_and_nothing_after_it() {
    needs_root!();
    let Some((mut php, _root, server)) = service(2, 4, "<?php usleep(2000); echo 'whole';") else { return };
    let clients = 4;
    let [_, (_, cut), (_, refused)] = under_load(&server, clients, || {
        some_more(&server, 20);
        php.stop();
        assert!(wait_until(PATIENCE, || server.get("/a.php").must_be(&[502, 503]).status == 503).is_some());
        assert_eq!(server.get("/").status, 200);
        php.start_again();
        assert!(wait_until(PATIENCE, || server.get("/a.php").must_be(&[200, 503]).status == 200).is_some());
        // From here on there is no failure.
        let [_, cut, refused] = under_load(&server, clients, || some_more(&server, 50));
        assert_eq!((cut, refused), ((502, 0), (503, 0)));
    });
    // One of each client may have been with a child that was ended; all others were told at once that there is none.
    assert!(cut <= clients && refused > 0, "{cut} {refused}");
}

#[test]
fn php_that_comes_after_the_service_is_found() {
    needs_root!();
    let Some(mut php) = Php::start(2) else { return };
    php.stop();
    let root = Root::with_index();
    root.file("a.php", "<?php echo 'whole';");
    let server = Server::run(&Configuration::of(&root.path()).backend(&php.table("")).rule("path = \"*.php\"\nbackend = \"php\""));
    let response = server.get("/a.php").must_be(&[503]);
    assert!(response.field("Retry-After").is_some() && !response.text().contains("<?php"));
    assert_eq!(server.get("/").status, 200);
    php.start_again();
    assert!(wait_until(PATIENCE, || server.get("/a.php").must_be(&[200, 503]).status == 200).is_some());
}

/// Over TCP it is the same: pages, bodies byte for byte, and the truth when nobody listens.
#[test]
fn php_over_tcp_answers_and_is_told_apart_from_one_that_is_away() {
    needs_root!();
    let port = free_port();
    let pool = format!(
        "[tcp]\nuser = www-data\ngroup = www-data\nlisten = 127.0.0.1:{port}\nlisten.allowed_clients = 127.0.0.1\npm = static\npm.max_children = 2\n"
    );
    let Some(mut php) = Php::start_as("exec \"$@\"", 1, &pool) else { return };
    let root = Root::with_index();
    root.file(
        "a.php",
        "<?php $all = file_get_contents('php://input'); echo $_SERVER['REQUEST_METHOD'], ' ', strlen($all), ' ', md5($all);",
    );
    root.file("large.php", "<?php for ($i = 0; $i < 3000; $i++) echo str_repeat(sprintf('%08d', $i), 128);");
    let table = format!("\n[backend.php]\ntype = \"fastcgi\"\naddress = [\"127.0.0.1:{port}\"]\n");
    let server = Server::run(&Configuration::of(&root.path()).backend(&table).rule("path = \"*.php\"\nbackend = \"php\""));
    assert_eq!(server.get("/a.php").must_be(&[200]).text(), "GET 0 d41d8cd98f00b204e9800998ecf8427e");
    let body: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mut client = server.connect();
    // As md5sum(1) has it; chunks as many as are kept in memory.
    client.send(request("POST", "/a.php", &["Content-Length: 1000000"])).send(&body);
    assert_eq!(client.response("POST").must_be(&[200]).text(), "POST 1000000 35efddb2811ce9ecbdfa17f18472e604");
    client.send(request("POST", "/a.php", &["Transfer-Encoding: chunked"]));
    for part in body[..100_000].chunks(10_000) {
        client.send([b"2710\r\n", part, b"\r\n"].concat());
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response("POST").must_be(&[200]).text(), "POST 100000 28cb595c158e9b74e34ae9e8da710fff");
    let large = server.get("/large.php").must_be(&[200]);
    let expected: String = (0..3000).map(|number| format!("{number:08}").repeat(128)).collect();
    assert!(large.text() == expected, "{} bytes", large.body.len());
    php.stop();
    let away = server.get("/a.php").must_be(&[503]);
    assert!(away.field("Retry-After").is_some());
    let log = || std::fs::read_to_string(server.home().join("error.log")).unwrap();
    let is_told = || log().contains(&format!("127.0.0.1:{port}")) && log().contains("Connection refused");
    assert!(wait_until(PATIENCE, is_told).is_some(), "{}", log());
}

/// A thousand at once to ten children: what the queue has room for is answered, the rest is told to come again, and static files are served
/// meanwhile. What waits is small.
#[test]
fn a_thousand_requests_to_a_pool_of_ten_are_answered_or_told_to_come_again() {
    needs_root!();
    let count = slow::connections(1000);
    let Some(php) = Php::start(10) else { return };
    let root = Root::with_index();
    root.file("a.php", "<?php usleep(20000); echo 'whole';");
    for (queue, all) in [("queue = 2000", true), ("max_connections = 10\nqueue = 100", false)] {
        let configuration = Configuration::of(&root.path()).server_also("workers = 2");
        let server = Server::run(&configuration.backend(&php.table(queue)).rule("path = \"*.php\"\nbackend = \"php\""));
        server.get("/a.php").must_be(&[200]);
        let before = slow::memory(&server);
        let mut crowd: Vec<Client> = (0..count).map(|_| server.connect()).collect();
        for client in &mut crowd {
            client.send(request("GET", "/a.php", &[]));
        }
        let (mut held, mut files) = (0, 0);
        let mut times: Vec<Duration> = Vec::new();
        let mut answers = [0, 0];
        for client in &mut crowd {
            let begin = Instant::now();
            server.get("/").must_be(&[200]);
            times.push(begin.elapsed());
            files += 1;
            held = held.max(slow::memory(&server).saturating_sub(before));
            let response = client.response("GET").must_be(if all { &[200] } else { &[200, 503] });
            assert_eq!(response.status == 503, response.field("Retry-After").is_some());
            answers[usize::from(response.status == 503)] += 1;
        }
        times.sort();
        // On a busy machine; who had to wait for a child would wait for seconds.
        assert!(times[files * 99 / 100] < Duration::from_secs(1), "{queue}: {:?}", times[files * 99 / 100]);
        assert!(answers[0] >= 100 && (all || answers[1] > 0), "{queue}: {answers:?}");
        // Two buffers each at most, beside what the connections themselves take; PHP alone would take a gigabyte for as many.
        assert!(held < 64 * count, "{queue}: {held} KiB for {count} requests");
    }
}
