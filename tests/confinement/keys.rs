//! `keys`: what it sees, what it may not be asked for, and what a worker that is taken over can have signed.

use crate::hijack::Hijacked;
use crate::support::{Configuration, PATIENCE, Root, Server, is_alive, needs_root, status_field, wait_until};
use crate::syscall::Outcome;
use nix::libc;
use std::collections::BTreeSet;
use std::process::Command;

/// At which a worker has its channel to `keys`.
const KEYS_CHANNEL: u64 = 11;

struct Service {
    server: Server,
    _files: tempfile::TempDir,
    _root: Root,
}

fn run(workers: usize) -> Service {
    let (files, root) = (tempfile::Builder::new().prefix("anchorite-keys-").tempdir().unwrap(), Root::with_index());
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    for (name, key) in [("ec", &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"][..]), ("rsa", &["-newkey", "rsa:2048"])] {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=a.test"])
            .args(key)
            .args(["-keyout", &path(&format!("{name}.key")), "-out", &path(&format!("{name}.pem"))])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let pair = |name: &str| format!("{{ certificate = {:?}, key = {:?} }}", path(&format!("{name}.pem")), path(&format!("{name}.key")));
    let port = crate::support::free_port();
    let configuration = Configuration::of(&root.path())
        .server_also(&format!("workers = {workers}\ntls_listen = [\"127.0.0.1:{port}\"]"))
        .site_also(&format!("tls = [{}, {}]", pair("ec"), pair("rsa")));
    Service { server: Server::run(&configuration), _files: files, _root: root }
}

impl Service {
    fn keys(&self) -> Vec<i32> {
        let processes = self.server.processes();
        processes.into_iter().filter(|process| process.title.starts_with("anchorite: keys")).map(|process| process.pid).collect()
    }
}

/// Whether processes may lock more memory than these keys take.
fn may_lock() -> bool {
    use nix::sys::resource::{Resource, getrlimit};
    getrlimit(Resource::RLIMIT_MEMLOCK).unwrap().0 >= 4 << 20
}

/// Kilobytes of memory that are never written to a swap area.
fn locked(pid: i32) -> u64 {
    status_field(pid, "VmLck").trim_end_matches("kB").trim().parse().unwrap()
}

/// What a server signs in TLS 1.3, and in TLS 1.2.
fn verify() -> Vec<u8> {
    [&[b' '; 64][..], b"TLS 1.3, server CertificateVerify\0", &[0xab; 32]].concat()
}

fn exchange() -> Vec<u8> {
    [&[7; 64][..], &[3, 0, 0x1d, 32], &[9; 32]].concat()
}

fn sign(id: u32, key: u16, scheme: u16, message: &[u8]) -> Vec<u8> {
    [&[1], id.to_le_bytes().as_slice(), &key.to_le_bytes(), &scheme.to_le_bytes(), message].concat()
}

fn probe(id: u32) -> Vec<u8> {
    [&[2], id.to_le_bytes().as_slice()].concat()
}

/// RFC 8446, 4.2.3.
const ECDSA_P256: u16 = 0x0403;
const ECDSA_P384: u16 = 0x0503;
const RSA_PKCS1: u16 = 0x0401;
const RSA_PSS: u16 = 0x0804;

#[test]
fn keys_see_an_empty_directory_have_no_network_and_hold_no_file() {
    needs_root!();
    let service = run(2);
    let keys = service.keys();
    assert_eq!(keys.len(), 2);
    let network = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    for pid in keys {
        assert_ne!(network(pid), network(service.server.parent()));
        assert_eq!(std::fs::read_dir(format!("/proc/{pid}/root/")).unwrap().count(), 0);
        assert!(!may_lock() || locked(pid) > 200, "{} kB are locked", locked(pid));
        let held: BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap().to_string_lossy().split(':').next().unwrap().to_owned())
            .collect();
        assert_eq!(held, ["/dev/null", "anon_inode", "socket"].map(str::to_owned).into());
        assert_eq!(crate::support::status_field(pid, "Seccomp"), "2");
    }
    for row in crate::audit::rows(&service.server) {
        assert_eq!(row["faults"], serde_json::Value::Array(Vec::new()), "{row}");
    }
}

#[test]
fn k17_what_is_no_handshake_is_not_signed_and_ends_its_sender() {
    needs_root!();
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("unknown tag", vec![vec![9, 1, 0, 0, 0]]),
        ("short", vec![vec![1, 0]]),
        ("nothing to sign", vec![sign(1, 0, ECDSA_P256, b"")]),
        ("much too long", vec![vec![1; 60_000]]),
        ("a probe with a byte too many", vec![[probe(1), vec![0]].concat()]),
        ("a text", vec![sign(1, 0, ECDSA_P256, b"I owe you 1,000 euros")]),
        ("a client's", vec![sign(1, 0, ECDSA_P256, &[&[b' '; 64][..], b"TLS 1.3, client CertificateVerify\0", &[1; 32]].concat())]),
        ("a digest", vec![sign(1, 1, RSA_PKCS1, &[1; 32])]),
        ("a key that is not there", vec![sign(1, 2, ECDSA_P256, &verify())]),
        ("a scheme of another key", vec![sign(1, 1, ECDSA_P256, &verify())]),
        ("a scheme of another curve", vec![sign(1, 0, ECDSA_P384, &verify())]),
        ("a padding that TLS 1.3 has given up", vec![sign(1, 1, RSA_PKCS1, &verify())]),
        ("a number twice", vec![probe(1), probe(1)]),
        ("a gap", vec![probe(1), probe(3)]),
    ];
    // One for each, as a worker that takes the place of one that ended comes later each time.
    let service = run(cases.len() + 1);
    let before: BTreeSet<i32> = service.keys().into_iter().collect();
    let mut killed = BTreeSet::new();
    let send = |worker: i32, packets: &[Vec<u8>]| {
        let mut process = Hijacked::take(worker);
        for packet in packets {
            let (address, length) = (process.place(packet), u64::try_from(packet.len()).unwrap());
            // The parent may be faster than the way out of the call.
            process.call(libc::SYS_write, [KEYS_CHANNEL, address, length, 0, 0, 0]);
        }
        process
    };
    for (name, packets) in cases {
        let Some(worker) = service.server.workers().into_iter().find(|pid| !killed.contains(pid)) else { panic!("{name}: no worker") };
        drop(send(worker, &packets));
        let errors = || std::fs::read_to_string(service.server.home().join("error.log")).unwrap_or_default();
        assert!(wait_until(PATIENCE, || !is_alive(worker)).is_some(), "{name}: its sender lives on: {}", errors());
        killed.insert(worker);
    }
    // What a worker in its senses asks for is answered: so these are not ended for anything else.
    let Some(worker) = service.server.workers().into_iter().find(|pid| !killed.contains(pid)) else { panic!("no worker") };
    let good = [
        sign(1, 0, ECDSA_P256, &verify()),
        sign(2, 1, RSA_PSS, &verify()),
        sign(3, 1, RSA_PKCS1, &exchange()),
        sign(4, 0, ECDSA_P256, &exchange()),
        probe(5),
    ];
    let mut process = send(worker, &good);
    let room = process.place(&[0; 512]);
    for (id, length) in [(1u32, 70..=72), (2, 256..=256), (3, 256..=256), (4, 69..=72), (5, 0..=0)] {
        let mut received = None;
        wait_until(PATIENCE, || match process.call(libc::SYS_recvfrom, [KEYS_CHANNEL, room, 512, 0, 0, 0]) {
            Outcome::Returned(count) if count > 0 => {
                received = Some(process.read(room, usize::try_from(count).unwrap()));
                true
            }
            _ => false,
        });
        let received = received.unwrap_or_else(|| panic!("{id}: no answer"));
        assert_eq!((received[0], &received[1..5]), (if id == 5 { 3 } else { 1 }, id.to_le_bytes().as_slice()));
        assert!(length.contains(&(received.len() - 5)), "{id}: {} bytes", received.len() - 5);
    }
    drop(process);
    assert!(is_alive(worker));
    assert_eq!(service.keys().into_iter().collect::<BTreeSet<_>>(), before, "none of them ends");
    assert_eq!(service.server.get("/").status, 200);
}
