//! The control socket under clients that keep it busy.

use crate::support::{Configuration, PATIENCE, Root, Server, wait_until};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

/// Connects to the control socket and says nothing.
fn silent(server: &Server) -> OwnedFd {
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    connect(client.as_raw_fd(), &UnixAddr::new(&server.home().join("control_socket")).unwrap()).unwrap();
    client
}

#[test]
fn silent_clients_lose_their_places_after_two_seconds() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()));
    let begin = Instant::now();
    let clients: Vec<OwnedFd> = (0..16).map(|_| silent(&server)).collect();
    let turned_away = server.order(&["status"]).must_fail();
    assert!(turned_away.stderr.contains("too many askers"), "{turned_away:?}");
    let heard = || server.order(&["status"]).code == Some(0);
    assert!(wait_until(PATIENCE, heard).is_some(), "{clients:?}");
    assert!(begin.elapsed().as_secs() >= 2, "they had their time");
    server.order(&["reload"]).must_be_done();
    assert_eq!(server.get("/").must_be(&[200]).text(), "index\n");
}
