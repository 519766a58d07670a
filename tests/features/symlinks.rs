//! Symbolic links: which are followed under which policy, and that a race changes nothing.

use crate::support::{Configuration, Root, Server, needs_root, request};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use std::os::unix::fs::{chown, lchown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SECRET: &str = "outside-the-root";
const OTHER: u32 = 4243;

fn served(root: &Root, policy: &str, also_outside: bool) -> Server {
    let mut configuration = Configuration::new().site(&root.path(), &format!("name = [\"\"]\nsymlinks = {policy:?}"));
    if also_outside {
        configuration = configuration.jail(&format!("also = [{:?}]", root.base().join("outside")));
    }
    Server::run(&configuration)
}

fn site() -> Root {
    let root = Root::with_index();
    root.file("file.txt", "file\n");
    root.file("sub/inner.txt", "inner\n");
    root.file("../outside/secret", SECRET);
    root.link("relative", "file.txt");
    root.link("sub/up", "../file.txt");
    root.link("directory", "sub");
    root.link("absolute", root.at("file.txt"));
    root.link("leaving", "../outside/secret");
    root.link("leaving-absolute", root.base().join("outside/secret"));
    root.link("leaving-directory", "../outside");
    root.link("dangling", "nowhere");
    root.link("itself", "itself");
    root.link("loop-a", "loop-b");
    root.link("loop-b", "loop-a");
    root.link("parent", "..");
    root.link("here", ".");
    root.link("proc-root", "/proc/self/root");
    root.link("proc", "/proc/self/environ");
    root.link("empty-component", "sub//inner.txt");
    root.link("chain-0", "file.txt");
    for number in 1..=45 {
        root.link(format!("chain-{number}"), format!("chain-{}", number - 1));
    }
    root
}

/// Each link, and its status where links are followed beneath the root.
const LINKS: [(&str, u16); 19] = [
    ("/relative", 200),
    ("/sub/up", 200),
    ("/directory/inner.txt", 200),
    ("/here/file.txt", 200),
    ("/here/here/here/file.txt", 200),
    ("/empty-component", 200),
    ("/chain-5", 200),
    ("/leaving", 404),
    ("/leaving-absolute", 404),
    ("/leaving-directory/secret", 404),
    ("/dangling", 404),
    ("/itself", 404),
    ("/loop-a", 404),
    ("/parent/secret", 404),
    ("/parent/outside/secret", 404),
    ("/proc-root/etc/passwd", 404),
    ("/proc", 404),
    ("/chain-41", 404),
    ("/chain-45", 404),
];

fn check(server: &Server, policy: &str, right: impl Fn(&str, u16) -> Vec<u16>) {
    let workers = server.workers();
    let mut wrong = Vec::new();
    for (target, inside) in LINKS {
        let response = server.get(target);
        let right = right(target, inside);
        if !right.contains(&response.status) {
            wrong.push(format!("{policy}: {target}: {}, not {right:?}", response.status));
        }
        assert!(!String::from_utf8_lossy(&response.body).contains(SECRET), "{policy}: {target} leaked");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.get("/file.txt").must_be(&[200]);
    server.must_be_well(&workers, policy);
}

#[test]
fn never_follows_none() {
    check(&served(&site(), "never", false), "never", |_, _| vec![404]);
}

#[test]
fn p20_p21_p23_inside_follows_what_stays_beneath_the_root() {
    let root = site();
    let server = served(&root, "inside", true);
    // The jail shows what is outside, so that it is the policy that refuses.
    check(&server, "inside", |_, inside| vec![inside]);
    // P23: an absolute link is one that leaves, even if it comes back.
    server.get("/absolute").must_be(&[404]);
}

#[test]
fn owner_follows_links_of_the_owner_of_their_target() {
    let root = site();
    let server = served(&root, "owner", false);
    check(&server, "owner", |_, inside| vec![inside]);
}

#[test]
fn owner_refuses_links_of_others() {
    needs_root!();
    let root = Root::with_index();
    root.file("mine.txt", "mine\n");
    root.file("theirs.txt", "theirs\n");
    root.file("their-directory/a.txt", "a\n");
    root.file("../outside/secret", SECRET);
    chown(root.at("theirs.txt"), Some(OTHER), Some(OTHER)).unwrap();
    chown(root.at("their-directory"), Some(OTHER), Some(OTHER)).unwrap();
    chown(root.at("their-directory/a.txt"), Some(OTHER), Some(OTHER)).unwrap();
    for (name, target, owner) in [
        ("mine-to-theirs", "theirs.txt", 0),
        ("theirs-to-mine", "mine.txt", OTHER),
        ("theirs-to-theirs", "theirs.txt", OTHER),
        ("mine-to-mine", "mine.txt", 0),
        ("mine-to-directory", "their-directory", 0),
        ("theirs-to-directory", "their-directory", OTHER),
        ("first", "theirs-to-mine", 0),
        ("theirs-to-outside", "../outside/secret", OTHER),
        ("theirs-to-outside-absolute", root.base().join("outside/secret").to_str().unwrap(), OTHER),
    ] {
        let link = root.link(name, target);
        lchown(link, Some(owner), Some(owner)).unwrap();
    }
    // U01: the link's owner is not the target's.
    let server = served(&root, "owner", true);
    for (target, status) in [
        ("/mine-to-theirs", 404),
        ("/theirs-to-mine", 404),
        ("/theirs-to-theirs", 200),
        ("/mine-to-mine", 200),
        ("/mine-to-directory/a.txt", 404),
        ("/theirs-to-directory/a.txt", 200),
        // Every link on the way counts, not the first or the last alone.
        ("/first", 404),
        ("/theirs-to-outside", 404),
        ("/theirs-to-outside-absolute", 404),
        ("/theirs.txt", 200),
    ] {
        let response = server.get(target);
        assert_eq!(response.status, status, "owner: {target}");
        assert!(!response.text().contains(SECRET));
    }
    let inside = served(&root, "inside", true);
    for target in ["/mine-to-theirs", "/theirs-to-mine", "/first", "/mine-to-directory/a.txt"] {
        inside.get(target).must_be(&[200]);
    }
    inside.get("/theirs-to-outside").must_be(&[404]);
}

#[test]
fn any_follows_what_the_jail_shows_and_nothing_else() {
    let root = site();
    let shown = served(&root, "any", true);
    for target in ["/leaving-absolute", "/leaving", "/leaving-directory/secret", "/absolute"] {
        let response = shown.get(target).must_be(&[200]);
        assert!(target == "/absolute" || response.text() == SECRET);
    }
    for target in ["/proc", "/proc-root/etc/passwd", "/itself", "/dangling", "/chain-45"] {
        shown.get(target).must_be(&[404]);
    }
    root.link("passwd", "/etc/passwd");
    shown.get("/passwd").must_be(&[404]);
    let closed = served(&root, "any", false);
    for target in ["/leaving-absolute", "/leaving-directory/secret", "/passwd"] {
        closed.get(target).must_be(&[404]);
    }
    closed.get("/absolute").must_be(&[200]);
}

/// Swaps a directory and a link to the outside under one name as fast as it can, while requests go through that name.
fn race(policy: &str, prepare: impl Fn(&Root)) {
    const LIMIT: Duration = Duration::from_secs(3);
    const FILES: usize = 400;
    let root = Root::with_index();
    for number in 0..FILES {
        root.file(format!("swap/{number}"), "inside");
        root.file(format!("../outside/{number}"), SECRET);
    }
    root.link("other", "../outside");
    prepare(&root);
    let server = served(&root, policy, true);
    let workers = server.workers();
    let stop = Arc::new(AtomicBool::new(false));
    let (swap, other, seen) = (root.at("swap"), root.at("other"), Arc::clone(&stop));
    let swapping = std::thread::spawn(move || {
        let mut swaps = 0_u32;
        while !seen.load(Ordering::Relaxed) {
            renameat2(AT_FDCWD, &swap, AT_FDCWD, &other, RenameFlags::RENAME_EXCHANGE).unwrap();
            swaps += 1;
            if swaps.is_multiple_of(64) {
                std::thread::yield_now();
            }
        }
        swaps
    });
    let start = Instant::now();
    let mut client = server.connect();
    let (mut found, mut missing) = (0, 0);
    for number in 0..20_000 {
        if start.elapsed() > LIMIT {
            break;
        }
        client.send(request("GET", format!("/swap/{}", number % FILES), &[]));
        let response = client.response("GET").must_be(&[200, 404, 503]);
        assert!(!response.text().contains(SECRET), "request {number} leaked what is outside");
        if response.status == 200 {
            assert_eq!(response.text(), "inside");
            found += 1;
        } else {
            missing += 1;
        }
        if response.closes() {
            client = server.connect();
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapping.join().unwrap();
    eprintln!("{policy}: {swaps} swaps, {found} found, {missing} refused");
    assert!(found > 0 && missing > 0, "the race was not run: {found} found, {missing} refused");
    server.must_be_well(&workers, policy);
}

// P24, U02: the outside is shown in the jail, so that only the look-up stands between it and the client.

#[test]
fn p24_a_race_of_renames_leaks_nothing_where_links_stay_inside() {
    race("inside", |_| {});
}

#[test]
fn p24_a_race_of_renames_leaks_nothing_where_links_are_refused() {
    race("never", |_| {});
}

#[test]
fn p24_a_race_of_renames_leaks_nothing_where_owners_must_match() {
    needs_root!();
    race("owner", |root| {
        lchown(root.at("other"), Some(OTHER), Some(OTHER)).unwrap();
    });
}

/// The comparison where the file is read comes before the directory is shown: a link may lead elsewhere by then.
#[test]
fn a_root_that_is_switched_to_the_configuration_while_it_is_reloaded_is_not_shown() {
    let root = Root::with_index();
    let current = root.base().join("current");
    std::os::unix::fs::symlink("site", &current).unwrap();
    let server = Server::run(&Configuration::of(&current));
    let next = root.base().join("next");
    let switch = |target: &std::path::Path| {
        std::os::unix::fs::symlink(target, &next).unwrap();
        std::fs::rename(&next, &current).unwrap();
    };
    let done = Arc::new(AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                switch(server.home());
                std::thread::sleep(Duration::from_micros(300));
                switch(&root.path());
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let shown = (0..40).find_map(|_| {
            let _ = server.order(&["reload"]);
            let response = server.get("/anchorite.toml");
            (response.status == 200).then(|| response.text())
        });
        done.store(true, Ordering::Relaxed);
        assert_eq!(shown, None);
    });
}
