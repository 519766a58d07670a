//! Slow and flooding clients: what they hold, and what others notice of it. Cases S01, S03, S04, S06, S14; more of them stand in `limits.rs`
//! and `clients.rs`.

use crate::support::{Client, Configuration, PATIENCE, Root, Server, is_all, request, status_field, wait_until};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::time::{Duration, Instant};

/// Enough descriptors for this many connections of the test, and of the server, which inherits the limit; the number there can be.
pub(crate) fn connections(wanted: usize) -> usize {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    wanted.min(usize::try_from(hard).unwrap() / 4)
}

/// The time within which 99 of 100 requests on connections of their own are answered.
fn slowest_but_one_in_a_hundred(server: &Server) -> Duration {
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let start = Instant::now();
            server.get("/").must_be(&[200]);
            start.elapsed()
        })
        .collect();
    times.sort();
    times[197]
}

/// What one in a hundred may wait on a machine that is busy with others' work too; who had to wait for a slow client would wait for seconds.
const BUSY: Duration = Duration::from_secs(1);

/// Memory of the workers' own in KiB: what is theirs alone, and not a file's.
pub(crate) fn memory(server: &Server) -> usize {
    let own = |pid: &i32| status_field(*pid, "RssAnon").trim_end_matches(" kB").trim().parse::<usize>().unwrap();
    server.workers().iter().map(own).sum()
}

#[test]
fn s01_slow_heads_are_cut_by_their_whole_time_and_others_do_not_notice() {
    let root = Root::with_index();
    let count = connections(if is_all() { 10_000 } else { 2000 });
    let server = Server::run(&Configuration::of(&root.path()).limits("header_timeout = \"4s\"\nmin_rate = \"0B/s\""));
    let workers = server.workers();
    let idle = slowest_but_one_in_a_hundred(&server);
    let start = Instant::now();
    let mut slow: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    // The first of them may be over when the last comes.
    for client in &mut slow {
        let _ = client.try_send("GET / HTTP/1.1\r\nHost: a\r\nX");
    }
    let busy = slowest_but_one_in_a_hundred(&server);
    eprintln!("{count} slow heads: {idle:?} without them, {busy:?} with them");
    assert!(busy < (idle * 10).max(BUSY), "{idle:?} became {busy:?}");
    // A byte now and then does not help.
    while start.elapsed() < Duration::from_secs(8) {
        slow.retain_mut(|client| client.try_send("x").is_ok());
        std::thread::sleep(Duration::from_millis(500));
    }
    for client in &mut slow {
        let rest = client.rest().expect("cut by now");
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408 "), "{}", rest.escape_ascii());
    }
    server.must_be_well(&workers, "slow heads");
}

#[test]
fn s03_a_thousand_readers_that_stop_hold_little_and_are_cut() {
    let root = Root::with_index();
    root.sparse("big.bin", 1 << 30);
    let count = connections(1000);
    let server = Server::run(&Configuration::of(&root.path()).limits("write_timeout = \"8s\""));
    let workers = server.workers();
    let read = |client: &mut Client| {
        client.send(request("GET", "/big.bin", &[]));
        assert_eq!(client.head().unwrap().status, 200);
    };
    let mut stopped: Vec<Client> = (0..50).map(|_| server.connect()).collect();
    stopped.iter_mut().for_each(read);
    let (before, idle) = (memory(&server), slowest_but_one_in_a_hundred(&server));
    let mut more: Vec<Client> = (50..count).map(|_| server.connect()).collect();
    more.iter_mut().for_each(read);
    let (grown, busy) = (memory(&server).saturating_sub(before), slowest_but_one_in_a_hundred(&server));
    eprintln!("{count} readers that stopped: {grown} KiB more for {} of them; {idle:?} became {busy:?}", more.len());
    assert!(grown < more.len() * 4, "more than 4 KiB for each: {grown} KiB");
    assert!(busy < (idle * 10).max(BUSY), "{idle:?} became {busy:?}");
    // Their time without progress ends for all of them.
    let last = more.last_mut().unwrap();
    last.read_timeout(Duration::from_secs(60));
    std::thread::sleep(Duration::from_secs(10));
    let status = |name: &str| {
        let text = server.order(&["status", "--json"]).must_be_done().stdout;
        serde_json::from_str::<serde_json::Value>(&text).unwrap()[name].as_u64().unwrap_or(u64::MAX)
    };
    let cut = wait_until(PATIENCE * 3, || status("connections_writing") == 0);
    assert!(cut.is_some(), "{} are still written to", status("connections_writing"));
    server.must_be_well(&workers, "readers that stopped");
}

#[test]
fn s04_idle_connections_by_the_thousand_shut_nobody_out() {
    let root = Root::with_index();
    let count = connections(if is_all() { 50_000 } else { 4_000 });
    // Of each worker: far fewer than come, however few the machine allows.
    let places = count / 8;
    // The clients of one address are the test's all.
    let limits = format!("connections = {places}\nkeepalive_timeout = \"10m\"");
    let server = Server::run(&Configuration::of(&root.path()).limits(&limits));
    let workers = server.workers();
    let mut idle: Vec<Client> = Vec::new();
    for _ in 0..count {
        let mut client = server.connect();
        client.send(request("GET", "/", &[]));
        client.response("GET").must_be(&[200]);
        idle.push(client);
    }
    // The oldest are gone, the youngest are not.
    idle[0].expect_end();
    let youngest = idle.last_mut().unwrap();
    youngest.send(request("GET", "/", &[]));
    youngest.response("GET").must_be(&[200]);
    server.must_be_well(&workers, "idle connections");
}

#[test]
fn s06_a_storm_of_connections_that_are_reset_at_once_is_survived_without_spinning() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let workers = server.workers();
    for number in 0..if is_all() { 100_000 } else { 20_000 } {
        let Ok(client) = Client::try_connect(server.address()) else { continue };
        let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        if number % 2 == 0 {
            nix::sys::socket::setsockopt(client.stream(), nix::sys::socket::sockopt::Linger, &linger).unwrap();
        }
    }
    server.must_be_well(&workers, "resets");
    std::thread::sleep(Duration::from_millis(500));
    must_rest(&workers, "after the storm");
}

#[test]
fn s14_a_thousand_slow_clients_of_a_huge_file_that_would_compress_cost_no_memory() {
    let root = Root::with_index();
    // A text of zeros: too large to be encoded on the fly. And one that is encoded while it is sent.
    root.sparse("huge.txt", 1 << 30);
    root.sparse("large.txt", 10 << 20);
    let count = connections(if is_all() { 1000 } else { 300 });
    let server = Server::run(&Configuration::of(&root.path()).server_also("workers = 1"));
    let workers = server.workers();
    let before = memory(&server);
    let mut clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    let mut coded = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        let target = if number % 2 == 0 { "/huge.txt" } else { "/large.txt" };
        client.send(request("GET", target, &["Accept-Encoding: gzip, br, zstd"]));
        let head = client.head().unwrap();
        assert_eq!(head.status, 200);
        assert!(number % 2 == 1 || head.field("Content-Encoding").is_none());
        coded += usize::from(head.field("Content-Encoding").is_some());
    }
    assert!(coded > 0, "none is encoded");
    // Each reads a little, slowly.
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| drop(client.exactly(1000)));
        std::thread::sleep(Duration::from_millis(100));
    }
    let grown = memory(&server).saturating_sub(before);
    eprintln!("{count} slow clients, {coded} of them encoded: {grown} KiB more");
    assert!(grown < 64 * 1024, "{grown} KiB");
    server.get("/").must_be(&[200]);
    server.must_be_well(&workers, "slow clients of a huge file");
}

/// Panics where a process uses more than a third of a CPU.
#[track_caller]
fn must_rest(workers: &[i32], context: &str) {
    let ticks = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // Behind the name, which stands in parentheses.
        let fields: Vec<&str> = stat[stat.rfind(") ").unwrap() + 2..].split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before: Vec<u64> = workers.iter().map(ticks).collect();
    std::thread::sleep(Duration::from_secs(1));
    let used: Vec<u64> = workers.iter().map(ticks).zip(before).map(|(now, before)| now - before).collect();
    // A hundred ticks are a second.
    assert!(used.iter().all(|ticks| *ticks < 34), "{context}: {used:?} ticks in a second");
}
