//! A reload to an address that overlaps one which is open: nobody is refused, nothing that waits is lost, and a reload that fails
//! leaves the sockets as they were.

use crate::support::{Client, Configuration, Done, PATIENCE, Root, Server, free_port, is_alive, is_root, request, signal, wait_until};
use nix::sys::signal::Signal;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn configuration(root: &Path, addresses: &[String]) -> Configuration {
    let user = if is_root() { "user = \"nobody\"\ngroup = \"nogroup\"\n" } else { "" };
    Configuration::new().server(&format!("{user}listen = {addresses:?}")).site(root, "name = [\"\"]")
}

fn at(ip: &str, port: u16) -> String {
    format!("{ip}:{port}")
}

/// What every reload of the list leads to and from, all of which take connections to 127.0.0.1.
fn steps(port: u16) -> Vec<Vec<String>> {
    let sets: [&[&str]; 7] =
        [&["0.0.0.0"], &["[::]"], &["127.0.0.1", "[::1]"], &["0.0.0.0", "[::]"], &["127.0.0.2", "127.0.0.1"], &["0.0.0.0"], &["127.0.0.1"]];
    sets.iter().map(|ips| ips.iter().map(|ip| at(ip, port)).collect()).collect()
}

#[test]
fn reloads_to_overlapping_addresses_refuse_nobody_under_load() {
    let (root, port) = (Root::with_index(), free_port());
    let server = Server::run(&configuration(&root.path(), &[at("127.0.0.1", port)]));
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address: SocketAddr = at("127.0.0.1", port).parse().unwrap();
    std::thread::scope(|threads| {
        let load = || {
            while !done.load(Ordering::Relaxed) {
                let mut client = Client::connect(address);
                client.send(request("GET", "/", &["Connection: close"]));
                assert_eq!(client.response("GET").must_be(&[200]).text(), "index\n");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        };
        let end = Done(&done);
        let loads = [threads.spawn(load), threads.spawn(load)];
        for addresses in steps(port).iter().chain(&steps(port)) {
            server.configure(&configuration(&root.path(), addresses));
            server.order(&["check"]).must_be_done();
            let before = answered.load(Ordering::Relaxed);
            server.order(&["reload"]).must_be_done();
            for address in addresses.iter().filter(|address| !address.contains("0.0.0.0") && !address.contains("[::]")) {
                let mut client = Client::connect(address.parse().unwrap());
                client.send(request("GET", "/", &["Connection: close"]));
                client.response("GET").must_be(&[200]);
            }
            wait_until(PATIENCE, || answered.load(Ordering::Relaxed) > before + 50);
        }
        drop(end);
        loads.into_iter().for_each(|load| load.join().unwrap());
    });
    assert!(answered.load(Ordering::Relaxed) > 500, "{answered:?}");
    let is_free = || TcpListener::bind(at("127.0.0.3", port)).is_ok();
    assert!(wait_until(2 * PATIENCE, is_free).is_some(), "addresses that were left are free soon");
}

#[test]
fn connections_in_the_queue_of_an_address_that_is_left_are_served() {
    let (root, port) = (Root::with_index(), free_port());
    let mut before = vec![at("127.0.0.1", port)];
    let server = Server::run(&configuration(&root.path(), &before));
    let address: SocketAddr = at("127.0.0.1", port).parse().unwrap();
    for addresses in steps(port).into_iter().take(3) {
        let workers = server.workers();
        // Nobody accepts meanwhile; some have sent their request, and some nothing yet, so that the kernel holds them back.
        workers.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
        let mut waiting: Vec<Client> = (0..40).map(|_| Client::connect(address)).collect();
        for client in waiting.iter_mut().take(20) {
            client.send(request("GET", "/", &["Connection: close"]));
        }
        server.configure(&configuration(&root.path(), &addresses));
        server.order(&["reload"]).must_be_done();
        workers.iter().for_each(|pid| signal(*pid, Signal::SIGCONT));
        for client in waiting.iter_mut().skip(20) {
            client.send(request("GET", "/", &["Connection: close"]));
        }
        for (number, client) in waiting.iter_mut().enumerate() {
            let response = client.try_response("GET").unwrap_or_else(|fault| panic!("{number}, {before:?} to {addresses:?}: {fault}"));
            assert_eq!(response.status, 200);
        }
        before = addresses;
    }
}

#[test]
fn workers_of_an_address_that_is_left_end_when_nothing_can_wait_there_any_more() {
    let (root, port) = (Root::with_index(), free_port());
    let server = Server::run(&configuration(&root.path(), &[at("127.0.0.1", port)]));
    let workers = server.workers();
    // It waits for the server to speak, as clients of other protocols do: held back by the kernel, but connected.
    let silent = Client::connect(at("127.0.0.1", port).parse().unwrap());
    server.configure(&configuration(&root.path(), &[at("0.0.0.0", port)]));
    server.order(&["reload"]).must_be_done();
    std::thread::sleep(Duration::from_secs(1));
    assert!(workers.iter().all(|pid| is_alive(*pid)));
    let mut silent = silent;
    silent.send(request("GET", "/", &["Connection: close"]));
    silent.response("GET").must_be(&[200]);
    assert!(wait_until(Duration::from_secs(30), || !workers.iter().any(|pid| is_alive(*pid))).is_some());
}

#[test]
fn a_reload_to_an_overlapping_address_that_fails_changes_nothing() {
    let (root, port) = (Root::with_index(), free_port());
    let server = Server::run(&configuration(&root.path(), &[at("127.0.0.1", port)]));
    let workers = server.workers();
    let foreign = TcpListener::bind(at("127.0.0.2", port)).unwrap();
    let wide = configuration(&root.path(), &[at("0.0.0.0", port)]);
    server.configure(&wide);
    for order in ["check", "reload"] {
        let told = server.order(&[order]).must_fail().stderr;
        assert!(told.contains(&format!("listen on 0.0.0.0:{port}")), "{told}");
        server.must_be_well(&workers, order);
    }
    drop(foreign);
    // Bound, and given up for another reason.
    server.configure(&wide.clone().log("access = \"/proc/none/a\"\nerror = \"/proc/none/e\""));
    assert!(server.order(&["reload"]).must_fail().stderr.contains("/proc/none"));
    server.must_be_well(&workers, "after a reload that failed");
    server.configure(&wide);
    server.order(&["check"]).must_be_done();
    server.must_be_well(&workers, "after a check");
    server.order(&["reload"]).must_be_done();
}

#[test]
fn a_program_that_is_replaced_may_find_an_overlapping_address() {
    let (root, port) = (Root::with_index(), free_port());
    let server = Server::run(&configuration(&root.path(), &[at("127.0.0.1", port)]));
    let workers = server.workers();
    workers.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
    let mut waiting = Client::connect(at("127.0.0.1", port).parse().unwrap());
    waiting.send(request("GET", "/", &["Connection: close"]));
    workers.iter().for_each(|pid| signal(*pid, Signal::SIGCONT));
    server.configure(&configuration(&root.path(), &[at("0.0.0.0", port)]));
    signal(server.parent(), Signal::SIGUSR2);
    let replaced = || server.workers().iter().any(|pid| !workers.contains(pid));
    assert!(wait_until(PATIENCE, replaced).is_some(), "{}", std::fs::read_to_string(server.home().join("error.log")).unwrap());
    waiting.response("GET").must_be(&[200]);
    let beside = at("127.0.0.2", port).parse().unwrap();
    assert!(wait_until(PATIENCE, || Client::try_connect(beside).is_ok()).is_some());
}
