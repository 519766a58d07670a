//! The network: new sockets, what a worker holds, other services, descriptors on their way.

use super::{ABSENT, Attempt, LOG_CHANNEL, Right, Target, attempt, descriptors, dies, here, opens, withstands};
use crate::hijack::{Hijacked, number};
use crate::support::{PATIENCE, needs_root, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

#[test]
fn k05_no_socket_of_any_family() {
    let families = [
        ("unix", libc::AF_UNIX, libc::SOCK_STREAM),
        ("inet", libc::AF_INET, libc::SOCK_STREAM),
        ("inet datagram", libc::AF_INET, libc::SOCK_DGRAM),
        ("inet6", libc::AF_INET6, libc::SOCK_STREAM),
        ("netlink", libc::AF_NETLINK, libc::SOCK_RAW),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM),
        ("xdp", libc::AF_XDP, libc::SOCK_RAW),
    ];
    let mut attempts: Vec<Attempt> =
        families.into_iter().map(|(name, family, kind)| dies(name, libc::SYS_socket, [number(family), number(kind), 0, 0, 0, 0])).collect();
    attempts.push(attempt("socketpair", Right::Dies, |worker| {
        let pair = worker.place(&[0; 8]);
        worker.call(libc::SYS_socketpair, [number(libc::AF_UNIX), number(libc::SOCK_STREAM), 0, pair, 0, 0])
    }));
    withstands(attempts);
}

/// K06, K07 and the ways by which a listening socket becomes one that dials.
#[test]
fn k06_k07_a_listener_dials_nobody() {
    needs_root!();
    let target = Target::new(14);
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let address = stranger.local_addr().unwrap();
    let listener = listener(&target);
    let sends = move |name: &str, flags: i32| {
        attempt(name, Right::Dies, move |worker| {
            let (to, text) = (worker.place(&socket_address(address)), worker.text("stolen"));
            worker.call(libc::SYS_sendto, [number(listener), text, 6, number(flags), to, 16])
        })
    };
    let connects = move |name: &str, structure: Vec<u8>| {
        attempt(name, Right::Dies, move |worker| {
            let to = worker.place(&structure);
            worker.call(libc::SYS_connect, [number(listener), to, 16, 0, 0, 0])
        })
    };
    let shuts = |name: &str, how: i32| dies(name, libc::SYS_shutdown, [number(listener), number(how), 0, 0, 0, 0]);
    let attempts = [
        sends("sendto with MSG_FASTOPEN and an address", libc::MSG_FASTOPEN),
        sends("sendto with an address", 0),
        attempt("sendto with MSG_FASTOPEN alone", Right::Dies, move |worker| {
            let text = worker.text("stolen");
            worker.call(libc::SYS_sendto, [number(listener), text, 6, number(libc::MSG_FASTOPEN), 0, 0])
        }),
        connects("connect", socket_address(address)),
        connects("connect to AF_UNSPEC", vec![0; 16]),
        shuts("shutdown SHUT_RD", libc::SHUT_RD),
        shuts("shutdown SHUT_RDWR", libc::SHUT_RDWR),
        attempt("sendmsg", Right::Dies, move |worker| worker.call(libc::SYS_sendmsg, [number(listener), 0, 0, 0, 0, 0])),
        attempt("sendmmsg", Right::Dies, move |worker| worker.call(libc::SYS_sendmmsg, [number(listener), 0, 0, 0, 0, 0])),
        attempt("recvmsg on the listener", Right::Dies, move |worker| worker.call(libc::SYS_recvmsg, [number(listener), 0, 0, 0, 0, 0])),
        // Allowed, and without effect on a socket that listens.
        attempt("write", Right::Fails(&[libc::ENOTCONN, libc::EPIPE]), move |worker| {
            let text = worker.text("stolen");
            worker.call(libc::SYS_write, [number(listener), text, 6, 0, 0, 0])
        }),
        attempt("sendto without an address", Right::Fails(&[libc::ENOTCONN, libc::EPIPE]), move |worker| {
            let text = worker.text("stolen");
            worker.call(libc::SYS_sendto, [number(listener), text, 6, number(libc::MSG_NOSIGNAL), 0, 0])
        }),
    ];
    target.withstands(&attempts);
    let none = stranger.accept().map(|(_, from)| from).map_err(|error| error.kind());
    assert_eq!(none.unwrap_err(), std::io::ErrorKind::WouldBlock);
}

/// The one way of shutdown(2) that the filter lets pass does nothing to a socket that listens.
#[test]
fn k07_a_listener_listens_on_after_its_sending_side_was_shut() {
    needs_root!();
    let target = Target::new(2);
    let listener = listener(&target);
    for pid in &target.workers {
        let mut worker = Hijacked::take(*pid);
        let outcome = worker.call(libc::SYS_shutdown, [number(listener), number(libc::SHUT_WR), 0, 0, 0, 0]);
        assert_eq!(outcome, Outcome::Returned(0));
        let outcome = worker.call(libc::SYS_accept4, [number(listener), 0, 0, number(libc::SOCK_NONBLOCK), 0, 0]);
        assert_eq!(outcome, Outcome::Returned(-i64::from(libc::EAGAIN)));
    }
    target.server.must_be_well(&target.workers, "after SHUT_WR");
}

#[test]
fn k08_a_listener_is_not_bound_or_configured_anew() {
    needs_root!();
    let target = Target::new(9);
    let listener = listener(&target);
    let option =
        |name: &str, level: i32, option: i32| dies(name, libc::SYS_setsockopt, [number(listener), number(level), number(option), 0, 0, 0]);
    let attempts = [
        dies("bind", libc::SYS_bind, [number(listener), 0, 16, 0, 0, 0]),
        dies("listen", libc::SYS_listen, [number(listener), 1, 0, 0, 0, 0]),
        option("SO_ATTACH_FILTER", libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
        option("SO_BINDTODEVICE", libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
        option("TCP_ULP", libc::IPPROTO_TCP, libc::TCP_ULP),
        option("TCP_REPAIR", libc::IPPROTO_TCP, libc::TCP_REPAIR),
        option("TCP_FASTOPEN_CONNECT", libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
        dies("getsockopt", libc::SYS_getsockopt, [number(listener), 1, 1, 0, 0, 0]),
    ];
    target.withstands(&attempts);
}

#[test]
fn k22_no_socket_of_another_service_is_reached() {
    withstands(vec![
        attempt("connect to an abstract name", Right::Dies, |worker| {
            let to = worker.place(b"\x01\0\0name");
            worker.call(libc::SYS_connect, [3, to, 7, 0, 0, 0])
        }),
        attempt("sendto a name", Right::Dies, |worker| {
            let to = worker.place(b"\x01\0/run/dbus/system_bus_socket\0");
            worker.call(libc::SYS_sendto, [3, to, 1, 0, to, 30])
        }),
        opens(here, "/run/dbus/system_bus_socket", libc::O_PATH, ABSENT),
        opens(here, "/var/run/docker.sock", libc::O_PATH, ABSENT),
    ]);
}

#[test]
fn k29_no_descriptor_is_passed_on() {
    needs_root!();
    let target = Target::new(5);
    let descriptors = |pid: i32| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let log = target.server.log_process().unwrap();
    // Each worker has its channel to `log` once its lines come: that is a moment after the start.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let before = descriptors(log);
    let mut attempts = Vec::new();
    for channel in [3, LOG_CHANNEL] {
        for (name, call) in [("sendmsg", libc::SYS_sendmsg), ("sendmmsg", libc::SYS_sendmmsg)] {
            attempts.push(attempt(name, Right::Dies, move |worker| {
                // A `struct msghdr` of zeros: no filter looks into it.
                let message = worker.place(&[0; 56]);
                worker.call(call, [channel, message, 0, 0, 0, 0])
            }));
        }
    }
    target.withstands(&attempts);
    // The channels of the workers that ended are closed and as many new ones handed over, each in its time.
    let same = wait_until(PATIENCE, || descriptors(log) == before);
    assert!(same.is_some(), "log has {} descriptors, not {before}", descriptors(log));
}

/// The listening socket in every worker: the descriptor that the parent has too.
fn listener(target: &Target) -> i32 {
    let parents: BTreeSet<PathBuf> = descriptors(target.server.parent()).into_iter().map(|(_, target)| target).collect();
    let shared = descriptors(target.workers[0])
        .into_iter()
        .find(|(_, target)| target.to_string_lossy().starts_with("socket:") && parents.contains(target));
    shared.expect("a listener").0
}

/// A `struct sockaddr_in`.
fn socket_address(address: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(address) = address else { panic!("IPv4") };
    let family = u16::try_from(libc::AF_INET).unwrap().to_ne_bytes();
    [&family[..], &address.port().to_be_bytes(), &address.ip().octets(), &[0; 8]].concat()
}
