//! Files that change, in every way, while they are served.

use crate::support::{Configuration, Done, PATIENCE, Root, Server, request, wait_until};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A version: its number, as often as its length says, so that a head that is another's cannot have this body.
fn version(number: usize) -> Vec<u8> {
    format!("{:05}\n", number % 100_000).into_bytes().repeat(10 + number % 40)
}

/// U07: what is in a head fits what is in the body: the length, and the tag, which is that of one version only.
fn races(change: impl Fn(&Root, usize) + Sync) {
    let root = Root::with_index();
    change(&root, 0);
    let server = Server::run(&Configuration::new().site(&root.path(), "[[site.rule]]\ncache = \"0s\"\n"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 1;
            while !stop.load(Ordering::Relaxed) {
                change(&root, number);
                number += 1;
                if number % 7 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let _end = Done(&stop);
        let mut seen = std::collections::HashMap::<String, Vec<u8>>::new();
        let begin = Instant::now();
        let mut client = server.connect();
        // On a machine that is slow or busy it may take longer to see some of them.
        while begin.elapsed() < Duration::from_secs(3) || (seen.len() <= 3 && begin.elapsed() < PATIENCE) {
            client.send(request("GET", "/f.txt", &[]));
            let response = client.response("GET");
            // After 10,000 requests the server ends a connection.
            if response.closes() {
                client = server.connect();
            }
            // A file that is written to all the time may not be had just now.
            if response.status != 200 {
                assert!([404, 500, 503].contains(&response.status), "{}", response.status);
                continue;
            }
            let etag = response.field("ETag").unwrap().to_owned();
            let first = seen.entry(etag.clone()).or_insert_with(|| response.body.clone());
            assert!(*first == response.body, "two contents with the tag {etag}: {:?} and {:?}", &first[..6], &response.body[..6]);
            let line = &response.body[..6.min(response.body.len())];
            assert!(response.body.chunks(6).all(|other| other == line), "a mixture of versions");
        }
        assert!(seen.len() > 3, "{} versions seen", seen.len());
    });
}

#[test]
fn u07_a_file_that_is_replaced_again_and_again_is_served_in_one_version() {
    races(|root, number| {
        root.file("new.tmp", version(number));
        std::fs::rename(root.at("new.tmp"), root.at("f.txt")).unwrap();
    });
}

#[test]
fn u06_a_file_that_becomes_something_else_is_refused_from_then_on() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let remove = |name: &str| std::fs::remove_file(root.at(name)).unwrap();
    for (target, make, status) in [
        (
            "directory",
            Box::new(|name: &str| {
                root.directory(name);
            }) as Box<dyn Fn(&str)>,
            301,
        ),
        (
            "fifo",
            Box::new(|name: &str| {
                root.fifo(name);
            }),
            403,
        ),
        (
            "socket",
            Box::new(|name: &str| {
                std::os::unix::net::UnixListener::bind(root.at(name)).unwrap();
            }),
            403,
        ),
        ("nothing", Box::new(|_: &str| {}), 404),
    ] {
        let path = format!("/{target}");
        root.file(target, "file");
        assert_eq!(server.get(&path).must_be(&[200]).text(), "file");
        remove(target);
        make(target);
        let seen = wait_until(PATIENCE, || server.get(&path).status == status);
        assert!(seen.is_some(), "{target}: {}", server.get(&path).status);
        // And a file again.
        if target == "directory" {
            std::fs::remove_dir(root.at(target)).unwrap();
        } else if target != "nothing" {
            remove(target);
        }
        root.file(target, "again");
        let seen = wait_until(PATIENCE, || server.get(&path).body == b"again");
        assert!(seen.is_some(), "{target}");
    }
}

#[test]
fn u06_a_file_cut_to_nothing_while_it_is_encoded_ends_the_connection_without_a_last_chunk() {
    let root = Root::with_index();
    let text: String = (0..400_000_u64).map(|number| format!("{:x}\n", number * 7919)).collect();
    root.file("a.txt", &text);
    let server = Server::run(
        &Configuration::new()
            .server_also("workers = 1")
            .site(&root.path(), "[[site.rule]]\nrequest_header = { X-Slow = \"yes\" }\nrate = \"64KiB/s\"\n"),
    );
    let mut client = server.connect();
    client.send(request("GET", "/a.txt", &["Accept-Encoding: gzip", "X-Slow: yes"]));
    client.head().unwrap();
    std::fs::File::options().write(true).open(root.at("a.txt")).unwrap().set_len(0).unwrap();
    let rest = client.rest().unwrap();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{} bytes", rest.len());
    // What was cut is not kept.
    std::fs::File::create(root.at("a.txt")).unwrap().write_all(text.as_bytes()).unwrap();
    assert!(server.get("/a.txt").must_be(&[200]).body == text.as_bytes());
}

#[test]
fn u08_a_sparse_file_of_a_tib_has_its_length_and_its_parts() {
    let root = Root::with_index();
    root.sparse("huge.bin", 1 << 40);
    let server = Server::serve(&root.path());
    assert_eq!(server.head("/huge.bin").must_be(&[200]).length(), 1 << 40);
    let part = server.ask("GET", "/huge.bin", &["Range: bytes=-11"]).must_be(&[206]);
    assert_eq!(part.field("Content-Range"), Some("bytes 1099511627765-1099511627775/1099511627776"));
    assert_eq!(part.body, [0; 11]);
    let mut client = server.connect();
    client.send(request("GET", "/huge.bin", &["Accept-Encoding: gzip, br, zstd"]));
    assert_eq!(client.head().unwrap().field("Content-Encoding"), None);
    assert!(client.exactly(50 << 20).unwrap().iter().all(|byte| *byte == 0));
}

/// What has stood still for some seconds is believed by the times of its directory: no change of any kind is missed for that.
#[test]
fn a_change_of_what_stood_still_is_noticed_whatever_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let root = Root::with_index();
    let text = "text that is long enough to be encoded\n".repeat(100);
    let mode = |path: std::path::PathBuf, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let at = |name: &str| root.at(name);
    type Change<'c> = (&'c str, Box<dyn Fn(&str) + 'c>, u16, &'c str);
    let changes: Vec<Change<'_>> = vec![
        ("written", Box::new(|dir| drop(root.file(format!("{dir}/f.css"), "new"))), 200, "new"),
        (
            "replaced",
            Box::new(|dir| {
                root.file(format!("{dir}-new"), "new");
                std::fs::rename(at(&format!("{dir}-new")), at(&format!("{dir}/f.css"))).unwrap();
            }),
            200,
            "new",
        ),
        ("removed", Box::new(|dir| std::fs::remove_file(at(&format!("{dir}/f.css"))).unwrap()), 404, ""),
        ("forbidden", Box::new(|dir| mode(at(&format!("{dir}/f.css")), 0o600)), 403, ""),
        ("locked", Box::new(|dir| mode(at(dir), 0o700)), 403, ""),
        ("moved", Box::new(|dir| std::fs::rename(at(dir), at(&format!("{dir}-moved"))).unwrap()), 404, ""),
        (
            "linked",
            Box::new(|dir| {
                let path = at(&format!("{dir}/f.css"));
                std::fs::rename(&path, at(&format!("{dir}/other"))).unwrap();
                std::os::unix::fs::symlink("/etc/hostname", path).unwrap();
            }),
            404,
            "",
        ),
        ("beside", Box::new(|dir| drop(root.file(format!("{dir}/f.css.gz"), "as good as encoded"))), 200, "as good as encoded"),
    ];
    for (dir, ..) in &changes {
        root.directory(dir);
        root.file(format!("{dir}/f.css"), &text);
    }
    for rule in ["", "[[site.rule]]\nheader = { X-A = \"b\" }\n"] {
        let server = Server::run(&Configuration::new().server_also("workers = 1").site(&root.path(), rule));
        let ask = |dir: &str| server.ask("GET", format!("/{dir}/f.css"), &["Accept-Encoding: gzip"]);
        // Longer than a directory's clock may take to go on; then seen, and seen again.
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(1_100));
            changes.iter().for_each(|(dir, ..)| drop(ask(dir).must_be(&[200])));
        }
        for (dir, change, status, body) in &changes {
            change(dir);
            let seen = wait_until(PATIENCE, || {
                let response = ask(dir);
                response.status == *status && (*status != 200 || response.body == body.as_bytes())
            });
            assert!(seen.is_some(), "{dir} {rule:?}: {}", ask(dir).status);
        }
        // As it was.
        mode(at("locked"), 0o755);
        mode(at("forbidden/f.css"), 0o644);
        std::fs::rename(at("moved-moved"), at("moved")).unwrap();
        for name in ["linked/f.css", "linked/other", "beside/f.css.gz", "written/f.css", "replaced/f.css"] {
            std::fs::remove_file(at(name)).unwrap();
        }
        for (dir, ..) in &changes {
            root.file(format!("{dir}/f.css"), &text);
        }
    }
}
