//! The limits of one client, over all workers and generations, and what becomes of one whose request ends a worker.

use crate::support::{Client, Configuration, PATIENCE, Root, Server, needs_root, own_network, request, signal, wait_until};
use nix::sys::signal::Signal;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// In a network of its own, on every address.
fn server(root: &Root, limits: &str) -> Server {
    own_network();
    Server::run(&Configuration::of(&root.path()).server("user = \"nobody\"\ngroup = \"nogroup\"\nlisten = [\"[::]:0\"]").limits(limits))
}

fn address(server: &Server, client: &str) -> std::net::SocketAddr {
    let host = if client.contains(':') { "[2001:db8:ffff::1]" } else { "192.0.2.250" };
    format!("{host}:{}", server.address().port()).parse().unwrap()
}

/// A connection on which a request was answered; `None`: the server closed it without a word.
fn served(server: &Server, client: &str) -> Option<Client> {
    let mut connection = Client::connect_from(client, address(server, client));
    connection.try_send(request("GET", "/", &[])).ok()?;
    connection.try_response("GET").ok().map(|response| {
        response.must_be(&[200]);
        connection
    })
}

fn some(server: &Server, client: &str, count: usize) -> Vec<Client> {
    (0..count).map(|number| served(server, client).unwrap_or_else(|| panic!("{client}: connection {number}"))).collect()
}

/// The value of a counter in `status --json`, once a worker answers.
fn counter(server: &Server, name: &str) -> u64 {
    let mut value = None;
    wait_until(PATIENCE, || {
        let text = server.order(&["status", "--json"]).must_be_done().stdout;
        value = serde_json::from_str::<serde_json::Value>(&text).unwrap()[name].as_u64();
        value.is_some()
    });
    value.unwrap_or_else(|| panic!("no {name}"))
}

/// Waits until there are as many workers as before, none of them `old`.
fn replaced(server: &Server, old: i32, count: usize) {
    let new = wait_until(PATIENCE, || server.workers().len() == count && !server.workers().contains(&old));
    assert!(new.is_some(), "{:?}", server.processes());
    // And each has been handed its sockets.
    counter(server, "requests");
}

#[test]
fn s09_one_address_gets_its_connections_and_others_are_served() {
    needs_root!();
    let root = Root::with_index();
    let server = server(&root, "connections_per_client = 5");
    let workers = server.workers();
    for (greedy, same, other) in [("192.0.2.1", "192.0.2.1", "192.0.2.2"), ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1")] {
        let mut held = some(&server, greedy, 5);
        for _ in 0..20 {
            assert!(served(&server, same).is_none(), "{same} beside {greedy}");
        }
        assert!(served(&server, other).is_some(), "{other} beside {greedy}");
        // One that is closed makes room for one.
        drop(held.pop());
        assert!(
            wait_until(PATIENCE, || served(&server, same).is_some_and(|client| {
                held.push(client);
                true
            }))
            .is_some()
        );
        assert!(served(&server, same).is_none(), "{same} again");
    }
    assert!(counter(&server, "client_connection_limit_hits") >= 42);
    let lines = server.wait_for_lines("error.log", 1);
    let told: Vec<_> = lines.iter().filter(|line| line.contains("has 5 connections already")).collect();
    assert!(!told.is_empty() && told.len() < 20, "one line a second: {lines:?}");
    assert!(told[0].contains("192.0.2.1"), "{told:?}");
    server.must_be_well(&workers, "a client with many connections");
}

#[test]
fn s09_programs_of_this_machine_are_exempt() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).limits("connections_per_client = 1"));
    let mut clients: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(request("GET", "/", &[]));
        client.response("GET").must_be(&[200]);
    }
}

#[test]
fn connections_of_a_dead_worker_are_not_counted_for_ever() {
    needs_root!();
    let root = Root::with_index();
    let server = server(&root, "connections_per_client = 6");
    for _ in 0..3 {
        // Those of the round before are given back one after the other.
        let mut held = Vec::new();
        let all = wait_until(PATIENCE, || {
            held.extend(served(&server, "192.0.2.1"));
            held.len() == 6
        });
        assert!(all.is_some(), "{} were let in", held.len());
        assert!(served(&server, "192.0.2.1").is_none());
        let workers = server.workers();
        signal(workers[0], Signal::SIGKILL);
        replaced(&server, workers[0], workers.len());
        // What the other worker has stays counted.
        held.retain_mut(|client| client.try_send(request("GET", "/", &[])).is_ok() && client.try_response("GET").is_ok());
        let more = some(&server, "192.0.2.1", 6 - held.len());
        assert!(served(&server, "192.0.2.1").is_none(), "{} were left", held.len());
        drop((held, more));
        assert!(wait_until(PATIENCE, || served(&server, "192.0.2.1").is_some()).is_some());
    }
}

#[test]
fn connections_of_the_only_worker_are_forgotten_with_it() {
    needs_root!();
    let root = Root::with_index();
    own_network();
    let configuration = Configuration::of(&root.path())
        .server("user = \"nobody\"\ngroup = \"nogroup\"\nlisten = [\"[::]:0\"]\nworkers = 1")
        .limits("connections_per_client = 3");
    let server = Server::run(&configuration);
    let held = some(&server, "192.0.2.1", 3);
    let worker = server.workers()[0];
    signal(worker, Signal::SIGKILL);
    replaced(&server, worker, 1);
    let again = some(&server, "192.0.2.1", 3);
    assert!(served(&server, "192.0.2.1").is_none());
    drop((held, again));
}

#[test]
fn connections_of_an_old_generation_stay_counted() {
    needs_root!();
    let root = Root::with_index();
    let server = server(&root, "connections_per_client = 4");
    let held = some(&server, "192.0.2.1", 4);
    server.order(&["reload"]).must_be_done();
    assert!(served(&server, "192.0.2.1").is_none());
    drop(held);
    assert!(wait_until(PATIENCE, || served(&server, "192.0.2.1").is_some()).is_some());
}

#[test]
fn o02_k31_a_client_whose_request_ends_a_worker_is_refused_and_others_are_not() {
    needs_root!();
    let root = Root::with_index();
    let server = server(&root, "connections_per_client = 100");
    let workers = server.workers();
    // A fault while bytes of a client are handled, in each worker, since either may take the connection.
    let mut tracers: Vec<_> = workers
        .iter()
        .map(|worker| {
            let mut tracer = Command::new("strace");
            tracer.args(["-qq", "-e", "trace=recvfrom", "-e", "inject=recvfrom:signal=SIGSEGV", "-p", &worker.to_string()]);
            tracer.stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let traced = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    };
    assert!(wait_until(PATIENCE, || workers.iter().all(traced)).is_some(), "strace did not attach");
    let sent = Instant::now();
    let mut victim = Client::connect_from("192.0.2.1", address(&server, "192.0.2.1"));
    victim.send(request("GET", "/", &[]));
    assert!(victim.try_response("GET").is_err());
    // The other worker loses its tracer and is whole again.
    let crashed = wait_until(PATIENCE, || tracers.iter_mut().any(|tracer| tracer.try_wait().unwrap().is_some()));
    assert!(crashed.is_some(), "no worker died");
    for tracer in &mut tracers {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(i32::try_from(tracer.id()).unwrap()), Signal::SIGINT);
        let _ = tracer.wait();
    }
    assert!(wait_until(PATIENCE, || server.workers().len() == 2 && server.workers() != workers).is_some());
    let lines = server.wait_for_lines("error.log", 2);
    assert!(lines.iter().any(|line| line.contains("192.0.2.1 is refused for 10 s: a worker died")), "{lines:?}");
    let refused = served(&server, "192.0.2.1").is_none();
    assert!(refused || sent.elapsed() > Duration::from_secs(10), "it is served");
    assert!(served(&server, "192.0.2.2").is_some(), "others are served");
    assert!(counter(&server, "penalty_refusals") > 0);
    let back = wait_until(PATIENCE, || served(&server, "192.0.2.1").is_some());
    assert!(back.is_some() && sent.elapsed() > Duration::from_secs(9), "{back:?}");
}

#[test]
fn a_worker_that_an_administrator_ends_penalises_nobody() {
    needs_root!();
    let root = Root::with_index();
    let server = server(&root, "connections_per_client = 100");
    let held = some(&server, "192.0.2.1", 4);
    for which in [Signal::SIGKILL, Signal::SIGTERM] {
        let worker = server.workers()[0];
        signal(worker, which);
        replaced(&server, worker, 2);
        assert!(served(&server, "192.0.2.1").is_some(), "{which}");
    }
    drop(held);
}
