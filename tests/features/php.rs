//! PHP-FPM as it is run: small pools, restarts under load, and none at all for a while.

use crate::fastcgi::Php;
use crate::support::{Configuration, PATIENCE, Root, Server, needs_root, request, wait_until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

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
