//! System calls that fail, are interrupted or do only a part of their work while the server serves: case S08. What must hold is that
//! nothing crashes, waits for ever or goes round in circles, and that the client hears the truth.

use crate::support::{Client, Configuration, Root, needs_root, request};
use crate::tamper::{Injection, NONE, SHORT, Tampering, run_and};
use nix::libc;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A response that was cut off, or none: the connection ended.
const CUT: u16 = 0;

/// No answer within the time.
const NOTHING: u16 = 1;

/// A call, what becomes of it, how often, what is asked for (a file of its own where it ends in `-`), and what may come of it.
type Case = (i64, i64, u32, &'static str, &'static [u16]);

const fn fails(errno: i32) -> i64 {
    -(errno as i64)
}

const CASES: [Case; 36] = [
    (libc::SYS_accept4, fails(libc::ECONNABORTED), 1, "/", &[200]),
    (libc::SYS_accept4, fails(libc::EINTR), 3, "/", &[200]),
    (libc::SYS_accept4, fails(libc::EPROTO), 1, "/", &[200]),
    (libc::SYS_accept4, fails(libc::EMFILE), 1, "/", &[200]),
    (libc::SYS_accept4, fails(libc::ENFILE), 2, "/", &[200]),
    (libc::SYS_accept4, fails(libc::ENOMEM), 1, "/", &[200]),
    (libc::SYS_accept4, fails(libc::ENOBUFS), 1, "/", &[200]),
    (libc::SYS_epoll_wait, fails(libc::EINTR), 2, "/?slowly", &[200]),
    // The call may be one for the listener, which is tried again.
    (libc::SYS_epoll_ctl, fails(libc::ENOMEM), 1, "/?slowly", &[200, CUT]),
    (libc::SYS_epoll_ctl, fails(libc::ENOSPC), 1, "/?slowly", &[200, CUT]),
    // Of sockets neither EAGAIN nor less than was asked for: the kernel does so only where it will tell when there is more, or room again,
    // and a debugger does not.
    (libc::SYS_recvfrom, fails(libc::EINTR), 3, "/", &[200]),
    (libc::SYS_recvfrom, fails(libc::ENOMEM), 1, "/", &[CUT]),
    (libc::SYS_recvfrom, fails(libc::ECONNRESET), 1, "/", &[CUT]),
    (libc::SYS_write, fails(libc::EINTR), 1, "/", &[200]),
    (libc::SYS_write, fails(libc::ENOMEM), 1, "/", &[200, CUT]),
    (libc::SYS_write, fails(libc::EPIPE), 1, "/", &[200, CUT]),
    (libc::SYS_writev, fails(libc::EINTR), 2, "/middle-", &[200]),
    (libc::SYS_writev, fails(libc::ENOBUFS), 1, "/middle-", &[CUT]),
    (libc::SYS_sendto, fails(libc::EINTR), 2, "/large-", &[200]),
    (libc::SYS_sendto, fails(libc::ENOMEM), 1, "/large-", &[CUT]),
    (libc::SYS_sendfile, fails(libc::EINTR), 2, "/large-", &[200]),
    (libc::SYS_sendfile, SHORT, 3, "/large-", &[200]),
    (libc::SYS_sendfile, fails(libc::EIO), 1, "/large-", &[CUT]),
    (libc::SYS_sendfile, fails(libc::ENOMEM), 1, "/large-", &[CUT]),
    (libc::SYS_openat2, fails(libc::EMFILE), 1, "/small-", &[503]),
    (libc::SYS_openat2, fails(libc::ENFILE), 1, "/small-", &[503]),
    (libc::SYS_openat2, fails(libc::ENOMEM), 1, "/small-", &[503]),
    (libc::SYS_openat2, fails(libc::EIO), 1, "/small-", &[500]),
    (libc::SYS_openat2, fails(libc::EAGAIN), 1, "/small-", &[200]),
    (libc::SYS_openat2, fails(libc::EINTR), 1, "/small-", &[200, 500, 503]),
    (libc::SYS_pread64, fails(libc::EIO), 1, "/small-", &[500]),
    (libc::SYS_pread64, fails(libc::EINTR), 2, "/small-", &[200]),
    (libc::SYS_pread64, SHORT, 3, "/small-", &[200]),
    (libc::SYS_newfstatat, fails(libc::EIO), 1, "/small-", &[500]),
    (libc::SYS_close, fails(libc::EINTR), 2, "/small-", &[200]),
    (libc::SYS_close, fails(libc::EIO), 2, "/small-", &[200]),
];

/// Asks on a connection of its own; [`CUT`] where the answer does not come, or not whole.
fn ask(address: SocketAddr, target: &str) -> u16 {
    let mut client = Client::connect(address);
    client.read_timeout(Duration::from_secs(30));
    let request = request("GET", target, &["Connection: close"]);
    // In two parts, the server has to wait in between.
    let (first, rest) = request.split_at(if target.ends_with("slowly") { 10 } else { request.len() });
    let sent = client.try_send(first).and_then(|()| {
        std::thread::sleep(Duration::from_millis(if rest.is_empty() { 0 } else { 100 }));
        client.try_send(rest)
    });
    if sent.is_err() {
        return CUT;
    }
    match client.try_response("GET") {
        Ok(response) => response.status,
        Err(fault) => {
            if fault.contains("in time") {
                NOTHING
            } else {
                CUT
            }
        }
    }
}

fn address(stderr: &str) -> SocketAddr {
    stderr.lines().find_map(|line| line.strip_prefix("anchorite: listening on ")).unwrap().parse().unwrap()
}

fn command(root: &Root) -> (tempfile::TempDir, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("anchorite.toml");
    std::fs::write(&path, Configuration::of(&root.path()).server_also("workers = 1").text(home.path())).unwrap();
    let words = [env!("CARGO_BIN_EXE_anchorite"), "run", "-c", path.to_str().unwrap()];
    (home, words.map(str::to_owned).to_vec())
}

#[test]
fn s08_calls_that_fail_end_no_process_and_each_client_hears_the_truth() {
    needs_root!();
    let root = Root::with_index();
    for number in 0..CASES.len() {
        root.file(format!("small-{number}"), "small");
        root.file(format!("middle-{number}"), "m".repeat(30_000));
        root.file(format!("large-{number}"), "l".repeat(300_000));
    }
    let (home, command) = command(&root);
    let nothing = Tampering { whom: "anchorite: worker", call: NONE, which: |_| false, nth: 0, result: 0 };
    let tampered = run_and(&command, &nothing, |_, stderr| {
        let address = address(stderr);
        let mut wrong = Vec::new();
        for (number, (call, result, times, target, right)) in CASES.into_iter().enumerate() {
            let target = if target.ends_with('-') { format!("{target}{number}") } else { target.to_owned() };
            eprintln!("call {call}, result {result}, {times} times: {target}");
            Injection::begin(call, result, times);
            let status = ask(address, &target);
            let left = Injection::end();
            if !right.contains(&status) {
                wrong.push(format!("call {call}, result {result}: {target} gives {status}, not one of {right:?}"));
            }
            if left == times {
                wrong.push(format!("call {call}, result {result}: {target} makes no such call"));
            }
            // And then it is as if nothing had been.
            let after = ask(address, &target);
            if after != 200 {
                wrong.push(format!("call {call}, result {result}: {target} gives {after} afterwards"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
    let errors = std::fs::read_to_string(home.path().join("error.log")).unwrap();
    assert!(!errors.contains("worker ended") && !errors.contains("panicked"), "{errors}");
    assert_eq!((tampered.code, tampered.was_ready), (Some(0), true), "{}\n{errors}", tampered.stderr);
}

#[test]
fn s07_s08_where_no_connection_can_be_accepted_nobody_spins_and_it_goes_on_when_one_can() {
    needs_root!();
    let root = Root::with_index();
    let (home, command) = command(&root);
    let nothing = Tampering { whom: "anchorite: worker", call: NONE, which: |_| false, nth: 0, result: 0 };
    run_and(&command, &nothing, |_, stderr| {
        let address = address(stderr);
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS] {
            const MANY: u32 = 1_000_000;
            Injection::begin(libc::SYS_accept4, fails(errno), MANY);
            let mut waiting: Vec<Client> = (0..5).map(|_| Client::connect(address)).collect();
            waiting.iter_mut().for_each(|client| drop(client.try_send(request("GET", "/", &["Connection: close"]))));
            let start = Instant::now();
            std::thread::sleep(Duration::from_millis(1500));
            let tried = MANY - Injection::end();
            let limit = 200 * u32::try_from(start.elapsed().as_millis()).unwrap() / 1000;
            assert!(tried > 0 && tried < limit, "errno {errno}: {tried} attempts");
            for client in &mut waiting {
                client.response("GET").must_be(&[200]);
            }
        }
    });
    let errors = std::fs::read_to_string(home.path().join("error.log")).unwrap();
    assert!(errors.lines().filter(|line| line.contains("accept")).count() < 20, "{errors}");
}
