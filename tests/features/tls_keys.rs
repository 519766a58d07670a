//! Certificates that are exchanged while they are served, and the process that alone has the private keys.

use crate::support::{Configuration, PATIENCE, Root, Server, needs_root, signal, wait_until};
use crate::tls_clients::{Authority, Files, Manner, P256, RSA, TlsClient, openssl, secured, secured_also};
use nix::sys::signal::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One site for every host, with these pairs.
fn configuration(root: &Root, pairs: &[&Files]) -> Configuration {
    let pairs: Vec<String> = pairs.iter().map(|files| files.pair()).collect();
    Configuration::new().site(&root.path(), &format!("name = [\"a.test\", \"\"]\ntls = [{}]", pairs.join(", ")))
}

fn keys(server: &Server) -> Vec<i32> {
    server.processes().into_iter().filter(|process| process.title.starts_with("anchorite: keys")).map(|process| process.pid).collect()
}

/// The certificate that the server shows.
fn shown(client: &TlsClient) -> Vec<u8> {
    client.session.peer_certificates().unwrap()[0].to_vec()
}

fn certificate(files: &Files) -> Vec<u8> {
    CertificateDer::from_pem_file(&files.certificate).unwrap().to_vec()
}

fn copy(from: &Files, to: &Files) {
    // As certbot and others do it: what is read is whole at every moment.
    for (from, to) in [(&from.certificate, &to.certificate), (&from.key, &to.key)] {
        let new = to.with_extension("new");
        fs::copy(from, &new).unwrap();
        fs::rename(&new, to).unwrap();
    }
}

#[test]
fn t17_a_new_pair_is_taken_up_by_a_reload_without_a_connection_lost() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (first, second, third) =
        (authority.site("first", &["a.test"]), authority.site_with("second", &["a.test"], RSA), authority.site("third", &["a.test"]));
    let live = Files { certificate: authority.path("live.pem"), key: authority.path("live.key") };
    copy(&first, &live);
    let (configuration, address) = secured(configuration(&root, &[&live]));
    let server = Server::run(&configuration);
    let client = Manner::to("a.test");
    let mut kept = client.connect(&authority, address);
    assert_eq!((kept.ask("a.test", "/").status, shown(&kept)), (200, certificate(&first)));
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut new = client.connect(&authority, address);
                    assert_eq!(new.ask("a.test", "/").status, 200);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more = |count: usize| {
            let before = served.load(Ordering::Relaxed);
            assert!(wait_until(PATIENCE, || served.load(Ordering::Relaxed) >= before + count).is_some());
        };
        more(3);
        copy(&second, &live);
        server.order(&["reload"]).must_be_done();
        let new = client.connect(&authority, address);
        assert_eq!(shown(&new), certificate(&second));
        more(3);
        // Another certificate than that of the key: nothing changes, and the file is named.
        fs::copy(&third.certificate, &live.certificate).unwrap();
        let refused = server.order(&["reload"]).must_fail();
        assert!(refused.stderr.contains("live.key") && refused.stderr.contains("not that of the certificate"), "{}", refused.stderr);
        let new = client.connect(&authority, address);
        assert_eq!(shown(&new), certificate(&second));
        // And one that is none.
        fs::write(&live.certificate, "nothing").unwrap();
        let refused = server.order(&["reload"]).must_fail();
        assert!(refused.stderr.contains("live.pem") && refused.stderr.contains("no certificate"), "{}", refused.stderr);
        more(3);
        stop.store(true, Ordering::Relaxed);
    });
    // The connection that was made with the first is as it was.
    assert_eq!(kept.ask("a.test", "/").status, 200);
    copy(&third, &live);
    server.order(&["reload"]).must_be_done();
    assert_eq!(shown(&client.connect(&authority, address)), certificate(&third));
}

#[test]
fn check_tells_of_files_that_cannot_be_used_where_they_are_named() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (one, other) = (authority.site("one", &["a.test"]), authority.site_with("other", &["a.test"], RSA));
    let site = |files: &Files| configuration(&root, &[files]);
    let server = Server::run(&secured(site(&one)).0);
    let check = |files: &Files| {
        server.configure(&secured(site(files)).0);
        server.order(&["check"])
    };
    check(&one).must_be_done();
    let with = |certificate: &Path, key: &Path| Files { certificate: certificate.to_owned(), key: key.to_owned() };
    let said = check(&with(&one.certificate, &other.key)).must_fail().stderr;
    assert!(said.contains("other.key\": the key is not that of the certificate") && said.contains('^'), "{said}");
    let keyless = authority.path("keyless.key");
    fs::copy(&one.certificate, &keyless).unwrap();
    fs::set_permissions(&keyless, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let said = check(&with(&one.certificate, &keyless)).must_fail().stderr;
    assert!(said.contains("keyless.key\": it holds no private key"), "{said}");
    let said = check(&with(&one.key, &one.key)).must_fail().stderr;
    assert!(said.contains("one.key\": it holds no certificate"), "{said}");
    let said = check(&with(&authority.path("none.pem"), &one.key)).must_fail().stderr;
    assert!(said.contains("none.pem\": "), "{said}");
    let locked = authority.path("locked.key");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    openssl(&["pkey", "-in", &text(&one.key), "-aes256", "-passout", "pass:x", "-out", &text(&locked)]);
    let said = check(&with(&one.certificate, &locked)).must_fail().stderr;
    assert!(said.contains("locked.key\": its key is encrypted"), "{said}");
    fs::set_permissions(&other.key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let said = check(&other).must_fail().stderr;
    assert!(said.contains("other.key\": everybody can read it"), "{said}");
}

#[test]
fn a_certificate_that_ends_soon_is_told_of_by_check_status_and_the_log() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let soon = Files { certificate: authority.path("soon.pem"), key: authority.path("soon.key") };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let common = ["req", "-x509", "-nodes", "-days", "5", "-subj", "/CN=a.test"];
    openssl(&[&common[..], P256, &["-keyout", &text(&soon.key), "-out", &text(&soon.certificate)]].concat());
    let server = Server::run(&secured(configuration(&root, &[&soon])).0);
    let expected = format!("certificate {:?} expires in ", soon.certificate);
    for said in [server.order(&["check"]).must_be_done().stderr, server.order(&["status"]).must_be_done().stdout] {
        assert!(said.contains(&expected), "{said}");
    }
    assert!(server.order(&["status", "--json"]).must_be_done().stdout.contains("expires in "));
    let log = fs::read_to_string(server.home().join("error.log")).unwrap();
    assert!(log.contains(&expected), "{log}");
}

#[test]
fn keys_of_every_form_and_chains_in_any_order_are_served() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let ec = authority.site("ec", &["a.test"]);
    let rsa = authority.site_with("rsa", &["a.test"], RSA);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (sec1, pkcs1) = (authority.path("sec1.key"), authority.path("pkcs1.key"));
    openssl(&["ec", "-in", &text(&ec.key), "-out", &text(&sec1)]);
    openssl(&["rsa", "-traditional", "-in", &text(&rsa.key), "-out", &text(&pkcs1)]);
    assert!(fs::read_to_string(&sec1).unwrap().contains("BEGIN EC PRIVATE KEY"));
    assert!(fs::read_to_string(&pkcs1).unwrap().contains("BEGIN RSA PRIVATE KEY"));
    // The authority first, and text around what is meant.
    let chain = authority.path("chain.pem");
    let parts = [&authority.certificate(), &ec.certificate].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&chain, format!("first:\n{}then:\n{}", parts[0], parts[1])).unwrap();
    let (ec, rsa) = (Files { certificate: chain, key: sec1 }, Files { certificate: rsa.certificate, key: pkcs1 });
    let (configuration, address) = secured(configuration(&root, &[&ec, &rsa]));
    let server = Server::run(&configuration);
    let checked = server.order(&["check"]).must_be_done().stderr;
    assert!(checked.contains("another order"), "{checked}");
    for manner in [Manner::to("a.test"), Manner::to("a.test").tls12()] {
        let mut client = manner.connect(&authority, address);
        assert_eq!(client.session.peer_certificates().unwrap().len(), 2);
        assert_eq!(client.ask("a.test", "/").status, 200);
    }
    let rsa_only =
        ["s_client", "-connect", &address.to_string(), "-servername", "a.test", "-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"].map(str::to_owned);
    for version in ["-tls1_2", "-tls1_3"] {
        let arguments: Vec<&str> = rsa_only.iter().map(String::as_str).chain([version]).collect();
        let said = openssl(&arguments);
        assert!(said.contains("Server public key is 2048 bit"), "{said}");
    }
}

#[test]
fn t18_what_keys_does_not_sign_fails_soon_and_everything_else_goes_on() {
    let (authority, root) = (Authority::new(), Root::with_index());
    let (configuration, address) = secured(configuration(&root, &[&authority.site("a", &["a.test"])]));
    let server = Server::run(&configuration);
    let client = Manner::to("a.test");
    assert!(wait_until(PATIENCE, || keys(&server).len() == 2).is_some());
    let mut kept: Vec<TlsClient> = (0..8).map(|_| client.connect(&authority, address)).collect();
    let stopped = keys(&server);
    assert_eq!(stopped.len(), 2);
    stopped.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
    for _ in 0..10 {
        let began = Instant::now();
        assert!(client.try_connect(&authority, address).is_err());
        // A second, ten times over.
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(server.get("/").status, 200);
    }
    kept.iter_mut().for_each(|client| assert_eq!(client.ask("a.test", "/").status, 200));
    stopped.iter().for_each(|pid| signal(*pid, Signal::SIGCONT));
    let is_served = || client.try_connect(&authority, address).is_ok();
    assert!(wait_until(PATIENCE, || (0..8).all(|_| is_served())).is_some());
    // O06: killed ones are replaced, with the same keys.
    stopped.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
    assert!(wait_until(PATIENCE, || (0..8).all(|_| is_served())).is_some());
    let new = keys(&server);
    assert!(new.len() == 2 && new.iter().all(|pid| !stopped.contains(pid)), "{new:?}");
    kept.iter_mut().for_each(|client| assert_eq!(client.ask("a.test", "/").status, 200));
}

/// Every way in which a key may lie in memory: as its file has it, as DER, and its secret numbers in either order of bytes.
fn forms(files: &Files) -> Vec<(String, Vec<u8>)> {
    let pem = fs::read_to_string(&files.key).unwrap();
    let line = pem.lines().nth(1).unwrap().as_bytes().to_vec();
    let der = rustls::pki_types::PrivateKeyDer::from_pem_file(&files.key).unwrap().secret_der().to_vec();
    let mut forms = vec![("PEM".to_owned(), line), ("DER".to_owned(), der)];
    let text = openssl(&["pkey", "-in", files.key.to_str().unwrap(), "-noout", "-text"]);
    let (mut name, mut digits) = (String::new(), String::new());
    for line in text.lines().chain(["end:"]) {
        if line.starts_with(' ') {
            digits.push_str(&line.replace([' ', ':'], ""));
            continue;
        }
        if ["priv:", "prime1:", "prime2:", "privateExponent:"].contains(&name.as_str()) {
            let bytes: Vec<u8> = (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect();
            let number: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
            forms.push((format!("{name} backwards"), number.iter().rev().copied().collect()));
            forms.push((name.clone(), number));
        }
        (name, digits) = (line.to_owned(), String::new());
    }
    assert!(forms.len() >= 4, "{text}");
    forms
}

/// Which of these lie in the memory of a process.
fn found(pid: i32, forms: &[(String, Vec<u8>)]) -> Vec<String> {
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = BufReader::new(fs::File::open(format!("/proc/{pid}/maps")).unwrap());
    let mut hits = Vec::new();
    for line in maps.lines().map(Result::unwrap).filter(|line| line.contains(" r") && !line.contains("[v")) {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut content = vec![0; usize::try_from(end - start).unwrap()];
        // A part that is a hole of a file cannot be read.
        if memory.read_exact_at(&mut content, start).is_err() {
            continue;
        }
        // The first eight bytes are found fast, and then the rest is compared.
        for (name, form) in forms {
            let is_there = memchr::memmem::find(&content, form).is_some();
            hits.extend(is_there.then(|| format!("{name} in {line}")));
        }
    }
    hits
}

#[test]
fn t19_no_worker_has_a_private_key_in_its_memory() {
    needs_root!();
    let (authority, root) = (Authority::new(), Root::with_index());
    let (ec, rsa) = (authority.site("ec", &["a.test"]), authority.site_with("rsa", &["b.test"], RSA));
    let sites = |configuration: Configuration| {
        configuration
            .site(&root.path(), &format!("name = \"a.test\"\n{}", ec.line()))
            .site(&root.path(), &format!("name = \"b.test\"\n{}", rsa.line()))
    };
    let forms: Vec<_> = [forms(&ec), forms(&rsa)].concat();
    let handshakes = |address: SocketAddr, count: usize| {
        for manner in [Manner::to("a.test"), Manner::to("b.test"), Manner::to("a.test").tls12(), Manner::to("b.test").tls12()] {
            let configuration = manner.configuration(&authority);
            for _ in 0..count / 4 {
                TlsClient::try_connect(configuration.clone(), manner.name, address).unwrap_or_else(|fault| panic!("{fault}"));
            }
        }
    };
    let (configuration, address) = secured(sites(Configuration::new()));
    let server = Server::run(&configuration);
    let count = if std::env::var_os("ANCHORITE_TESTS_ALL").is_some() { 10_000 } else { 1_000 };
    handshakes(address, count);
    let workers = server.workers();
    assert_eq!(workers.len(), 2);
    for process in server.processes().into_iter().filter(|process| !process.title.starts_with("anchorite: keys")) {
        assert_eq!(found(process.pid, &forms), [""; 0], "{}", process.title);
    }
    assert_eq!(found(server.parent(), &forms), [""; 0], "parent");
    // What is looked for is found where it is: in `keys`, though neither the file nor its DER, which are wiped.
    for pid in keys(&server) {
        let hits = found(pid, &forms);
        assert!(["priv:", "prime1:", "prime2:"].iter().all(|name| hits.iter().any(|hit| hit.starts_with(name))), "{hits:?}");
        assert!(!hits.iter().any(|hit| hit.starts_with("PEM")), "{hits:?}");
    }
    drop(server);
    let (configuration, address) =
        secured_also(sites(Configuration::new().server_also("workers = 1")), "key_isolation = false\nsession_tickets = false");
    let server = Server::run(&configuration);
    handshakes(address, 4);
    assert!(keys(&server).is_empty());
    assert!(!found(server.workers()[0], &forms).is_empty());
}
