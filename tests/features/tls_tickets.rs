//! Clients that come again go on with what they agreed on before: with whichever worker, after reloads and upgrades, and at other machines.

use crate::support::{Configuration, PATIENCE, Root, Server, needs_root, signal, wait_until};
use crate::tls_clients::{Authority, Files, Manner, TlsClient, secured_also};
use nix::sys::signal::Signal;
use rustls::{ClientConfig, HandshakeKind};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Two workers, so that what one gave out comes to the other as often as not.
fn service(root: &Root, files: &Files, lines: &str) -> (Server, SocketAddr) {
    let configuration = Configuration::of(&root.path()).server_also("workers = 2").site_also(&files.line());
    let (configuration, address) = secured_also(configuration, lines);
    (Server::run(&configuration), address)
}

/// One more handshake of this client, which has the tickets of those before.
fn handshake(client: &Arc<ClientConfig>, address: SocketAddr) -> HandshakeKind {
    let mut client = TlsClient::try_connect(Arc::clone(client), "a.test", address).unwrap();
    client.ask("a.test", "/").must_be(&[200]);
    client.session.handshake_kind().unwrap()
}

fn keys(server: &Server) -> Vec<i32> {
    server.processes().into_iter().filter(|process| process.title.starts_with("anchorite: keys")).map(|process| process.pid).collect()
}

fn both() -> [Manner; 2] {
    [Manner::to("a.test"), Manner::to("a.test").tls12()]
}

#[test]
fn every_worker_knows_the_tickets_of_every_other_also_after_reloads_and_upgrades() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let files = authority.site("a", &["a.test"]);
    for lines in ["", "key_isolation = false"] {
        let (server, address) = service(&root, &files, lines);
        let clients = both().map(|manner| manner.configuration(&authority));
        let go_on = |when: &str| {
            for client in &clients {
                for _ in 0..12 {
                    assert_eq!(handshake(client, address), HandshakeKind::Resumed, "{when}, {lines:?}");
                }
            }
        };
        for client in &clients {
            assert_eq!(handshake(client, address), HandshakeKind::Full);
        }
        go_on("at once");
        for _ in 0..2 {
            server.order(&["reload"]).must_be_done();
            go_on("after a reload");
        }
        let before = keys(&server);
        signal(server.parent(), Signal::SIGUSR2);
        let replaced = || keys(&server).len() == 2 && keys(&server).iter().all(|pid| !before.contains(pid));
        assert!(wait_until(PATIENCE, replaced).is_some(), "{}", server.stderr());
        go_on("after an upgrade");
        let before = keys(&server);
        before.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
        let replaced = || keys(&server).len() == 2 && keys(&server).iter().all(|pid| !before.contains(pid));
        assert!(wait_until(PATIENCE, replaced).is_some(), "{}", server.stderr());
        let served = || clients.iter().all(|client| TlsClient::try_connect(Arc::clone(client), "a.test", address).is_ok());
        assert!(wait_until(PATIENCE, || (0..4).all(|_| served())).is_some());
        go_on("after keys was killed");
    }
}

/// Another service has other keys, though it has the same certificate.
#[test]
fn t04_what_another_service_gave_out_is_a_full_handshake() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let files = authority.site("a", &["a.test"]);
    let ((_one, first), (_other, second)) = (service(&root, &files, ""), service(&root, &files, ""));
    for manner in both() {
        let client = manner.configuration(&authority);
        assert_eq!([handshake(&client, first), handshake(&client, first)], [HandshakeKind::Full, HandshakeKind::Resumed]);
        assert_eq!(handshake(&client, second), HandshakeKind::Full);
    }
}

fn write(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn machines_that_share_a_file_know_each_others_tickets() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let files = authority.site("a", &["a.test"]);
    let shared: PathBuf = authority.path("tickets");
    write(&shared, &[7; 48]);
    let line = format!("ticket_keys = {shared:?}");
    let ((one, first), (_other, second)) = (service(&root, &files, &line), service(&root, &files, &line));
    for manner in both() {
        let client = manner.configuration(&authority);
        assert_eq!(handshake(&client, first), HandshakeKind::Full);
        for address in [second, first, second, first] {
            assert_eq!(handshake(&client, address), HandshakeKind::Resumed);
        }
        one.order(&["reload"]).must_be_done();
        assert_eq!(handshake(&client, first), HandshakeKind::Resumed);
    }
    // Another content is other keys, from the next reload on.
    let client = Manner::to("a.test").configuration(&authority);
    assert_eq!([handshake(&client, first), handshake(&client, first)], [HandshakeKind::Full, HandshakeKind::Resumed]);
    write(&shared, &[8; 48]);
    one.order(&["reload"]).must_be_done();
    assert_eq!([handshake(&client, first), handshake(&client, first)], [HandshakeKind::Full, HandshakeKind::Resumed]);
    // What cannot be used leaves all as it is, and is named.
    write(&shared, &[8; 20]);
    let refused = one.order(&["reload"]).must_fail();
    assert!(refused.stderr.contains("tickets\": it holds 20 bytes"), "{}", refused.stderr);
    let refused = one.order(&["check"]).must_fail();
    assert!(refused.stderr.contains("tickets\": it holds 20 bytes") && refused.stderr.contains('^'), "{}", refused.stderr);
    assert_eq!(handshake(&client, first), HandshakeKind::Resumed);
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    needs_root!();
    let (authority, root) = (Authority::new(), Root::with_index());
    let files = authority.site("a", &["a.test"]);
    let shared: PathBuf = authority.path("tickets");
    write(&shared, &[7; 48]);
    let (server, address) = service(&root, &files, &format!("ticket_keys = {shared:?}"));
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = server.order(&["reload"]).must_fail();
    assert!(refused.stderr.contains("tickets\""), "{}", refused.stderr);
    assert_eq!(handshake(&Manner::to("a.test").configuration(&authority), address), HandshakeKind::Full);
}
