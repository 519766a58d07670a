//! What a service manager is told (sd_notify(3)), sockets that it hands over (sd_listen_fds(3)), and sockets with a path.

use crate::support::{Configuration, Launch, PATIENCE, Root, Server, signal, wait_until};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;
use nix::sys::socket::{getsockopt, sockopt::ReusePort};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::time::Duration;

fn receive(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = manager.recv(&mut buffer).expect("the service manager is told");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

fn told(manager: &UnixDatagram, server: &mut Server) {
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let ready = receive(manager);
    assert!(ready.starts_with(&format!("READY=1\nMAINPID={}\nSTATUS=", server.parent())), "{ready}");
    server.order(&["reload"]).must_be_done();
    let reloading = receive(manager);
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|rest| rest.split('\n').next());
    assert!(time.is_some_and(|usec| usec.parse::<u64>().unwrap() > 0), "{reloading}");
    assert!(receive(manager).starts_with("READY=1\n"));
    let text = std::fs::read_to_string(server.configuration()).unwrap();
    std::fs::write(server.configuration(), text + "[limit]\n").unwrap();
    server.order(&["reload"]).must_fail();
    assert!(receive(manager).starts_with("RELOADING=1\n"));
    assert!(receive(manager).starts_with("READY=1\n"));
    server.end(Signal::SIGTERM);
    assert!(receive(manager).starts_with("STOPPING=1\n"));
}

#[test]
fn the_service_manager_is_told_at_a_path_and_at_an_abstract_address() {
    let root = Root::with_index();
    let launch = Launch::new();
    let path = launch.home().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let launch = launch.environment("NOTIFY_SOCKET", path.to_str().unwrap());
    told(&manager, &mut launch.run(&Configuration::of(&root.path())));
    let name = format!("anchorite-notify-{}", std::process::id());
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let launch = Launch::new().environment("NOTIFY_SOCKET", &format!("@{name}"));
    told(&manager, &mut launch.run(&Configuration::of(&root.path())));
}

#[test]
fn a_watchdog_gets_a_sign_of_life_at_half_its_time() {
    let root = Root::with_index();
    let launch = Launch::new();
    let path = launch.home().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let launch = launch.environment("NOTIFY_SOCKET", path.to_str().unwrap()).environment("WATCHDOG_USEC", "400000");
    let _server = launch.run(&Configuration::of(&root.path()));
    let beats = (0..8).map(|_| receive(&manager)).filter(|text| text == "WATCHDOG=1\n").count();
    assert!(beats >= 6, "{beats}");
}

#[test]
fn a_service_manager_that_cannot_be_reached_is_no_reason_not_to_serve() {
    let root = Root::with_index();
    let launch = Launch::new().environment("NOTIFY_SOCKET", "/nonexistent/notify");
    let server = launch.run(&Configuration::of(&root.path()));
    let told = server.stderr();
    assert!(told.contains("NOTIFY_SOCKET \"/nonexistent/notify\""), "{told}");
    server.get("/").must_be(&[200]);
}

/// The unit's CapabilityBoundingSet= is enough for a whole start, with a stop and a reload.
#[test]
fn the_capabilities_of_the_unit_are_enough() {
    // 158
    crate::support::needs_root!();
    let unit = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/systemd/anchorite.service")).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let names: Vec<_> = line.split(' ').map(|name| name.replace("CAP_", "+").to_lowercase()).collect();
    let root = Root::with_index();
    let line = format!("exec setpriv --bounding-set=-all,{} \"$@\"", names.join(","));
    let mut server = Launch::new().shell(&line).run(&Configuration::of(&root.path()));
    server.get("/").must_be(&[200]);
    server.order(&["reload"]).must_be_done();
    server.order(&["reopen"]).must_be_done();
    server.get("/").must_be(&[200]);
    assert!(server.end(Signal::SIGQUIT).success());
    assert!(!server.home().join("pid_file").exists());
}

/// A start that inherits these sockets as descriptors 3 and on.
fn handing_over(sockets: &[impl AsFd]) -> Launch {
    let mut line = String::new();
    for (socket, number) in sockets.iter().zip(3..) {
        fcntl(socket, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let from = socket.as_fd().as_raw_fd();
        // Out of the way first: a number to be filled may be that of one still needed.
        line = format!("exec {}<&{from}; {line} exec {number}<&{}; ", number + 50, number + 50);
    }
    Launch::new().shell(&format!("{line} export LISTEN_PID=$$ LISTEN_FDS={}; exec \"$@\"", sockets.len()))
}

#[test]
fn sockets_that_are_handed_over_are_served_and_stay_through_a_reload() {
    // 158
    let root = Root::with_index();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let launch = handing_over(&[&listener]);
    // One address is handed over, the other is bound here.
    let text = Configuration::of(&root.path()).text(launch.home());
    let text = text.replace("\"127.0.0.1:0\"", &format!("\"{address}\", \"127.0.0.1:0\""));
    let file = launch.write_configuration(&text);
    let server = launch.start(&["run".into(), "-c".into(), file.into()]);
    drop(listener);
    assert!(server.addresses().len() == 2 && server.addresses().contains(&address), "{:?}", server.addresses());
    for _ in 0..2 {
        for address in server.addresses() {
            let mut client = crate::support::Client::connect(*address);
            client.send(crate::support::request("GET", "/", &["Connection: close"]));
            assert_eq!(client.response("GET").must_be(&[200]).text(), "index\n");
        }
        server.order(&["reload"]).must_be_done();
    }
    // Those of the generations before may still be about to end.
    assert!(wait_until(PATIENCE, || server.workers().len() == 2).is_some(), "{:?}", server.processes());
    // The next start would refuse it, when nobody thinks of this reload any more.
    let workers = server.workers();
    std::fs::write(server.configuration(), text.replace(&format!("\"{address}\", "), "")).unwrap();
    for order in ["check", "reload"] {
        let told = server.order(&[order]).must_fail().stderr;
        assert!(told.contains(&format!("a socket at \"{address}\", which no \"listen\" names")), "{order}: {told}");
    }
    server.must_be_well(&workers, "after a reload that gives up a socket of the manager");
}

/// The socket is the manager's before and after the service: what a reload set on it would last beyond every restart.
#[test]
fn a_socket_that_is_handed_over_is_not_given_up_for_an_overlapping_address() {
    let root = Root::with_index();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let wide = format!("0.0.0.0:{}", address.port());
    let shares = || getsockopt(&listener, ReusePort).unwrap();
    let refuses = |server: &Server, text: &str| {
        let workers = server.workers();
        std::fs::write(server.configuration(), text.replace(&address.to_string(), &wide)).unwrap();
        for order in ["check", "reload"] {
            let told = server.order(&[order]).must_fail().stderr;
            assert!(told.contains(&format!("listen on {wide}: ")), "{order}: {told}");
        }
        server.must_be_well(&workers, "after a reload that failed");
        // Nor does the program that is to replace this one take it.
        let refusals = || std::fs::read_to_string(server.home().join("error.log")).unwrap_or_default().matches("upgrade: ").count();
        let before = refusals();
        signal(server.parent(), Signal::SIGUSR2);
        assert!(wait_until(PATIENCE, || refusals() > before).is_some());
        server.must_be_well(&workers, "after a check that failed");
        std::fs::write(server.configuration(), text).unwrap();
        assert!(!shares());
        server.order(&["check"]).must_be_done();
    };
    for _ in 0..2 {
        let launch = handing_over(&[&listener]);
        let text = Configuration::of(&root.path()).text(launch.home()).replace("127.0.0.1:0", &address.to_string());
        let file = launch.write_configuration(&text);
        let server = launch.start(&["run".into(), "-c".into(), file.into()]);
        server.get("/").must_be(&[200]);
        refuses(&server, &text);
        // What the program after this one takes up is the manager's all the same.
        let workers = server.workers();
        signal(server.parent(), Signal::SIGUSR2);
        let replaced = || server.workers().len() == workers.len() && !server.workers().iter().any(|pid| workers.contains(pid));
        assert!(wait_until(PATIENCE, replaced).is_some(), "{:?}", server.processes());
        refuses(&server, &text);
    }
}

#[test]
fn a_socket_that_no_address_names_is_refused() {
    let root = Root::with_index();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let launch = handing_over(&[&listener]);
    let told = launch.run_to_end(&Configuration::of(&root.path()).text(launch.home())).must_fail().stderr;
    assert!(told.contains(&format!("a socket at \"{}\"", listener.local_addr().unwrap())), "{told}");
    let datagram = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let launch = handing_over(&[&datagram]);
    let told = launch.run_to_end(&Configuration::of(&root.path()).text(launch.home())).must_fail().stderr;
    assert!(told.contains("inherited descriptor 3: not a stream socket that listens"), "{told}");
    // Meant for another process: closed, not taken.
    let line = "export LISTEN_PID=1 LISTEN_FDS=1; exec \"$@\"";
    Launch::new().shell(line).run(&Configuration::of(&root.path())).get("/").must_be(&[200]);
}

#[test]
fn a_socket_with_a_path_is_served_and_its_clients_are_called_unix() {
    let root = Root::with_index();
    let launch = Launch::new();
    let path = launch.home().join("http.sock");
    let text = Configuration::of(&root.path()).text(launch.home());
    let file = launch.write_configuration(&text.replace("\"127.0.0.1:0\"", &format!("\"127.0.0.1:0\", \"unix:{}\"", path.display())));
    let server = launch.start(&["run".into(), "-c".into(), file.into()]);
    let metadata = path.metadata().unwrap();
    assert!(metadata.file_type().is_socket() && metadata.mode() & 0o666 == 0o666, "{:o}", metadata.mode());
    let ask = || {
        let mut client = UnixStream::connect(&path).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(&crate::support::request("GET", "/", &["Connection: close"])).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nindex\n"), "{answer}");
    };
    ask();
    let lines = server.wait_for_lines("access.log", 1);
    assert!(lines[0].starts_with("unix: - - ["), "{lines:?}");
    server.order(&["reload"]).must_be_done();
    ask();
    assert!(server.order(&["status"]).stdout.contains(&format!("unix:{}", path.display())));
    drop(server);
    assert!(wait_until(PATIENCE, || !path.exists()).is_some());
}

/// A socket with a path stands between this server and a proxy as a rule, so its clients may be anybody.
#[test]
fn pages_of_the_server_go_to_clients_of_a_socket_with_a_path_only_where_a_rule_allows_them() {
    let root = Root::with_index();
    let launch = Launch::new();
    let path = launch.home().join("http.sock");
    let rules = "name = [\"\"]\n[[site.rule]]\npath = \"/health\"\nrespond = \"health\"\n\
                 [[site.rule]]\npath = \"/metrics\"\nrespond = \"metrics\"\nallow = [\"0.0.0.0\"]";
    let text = Configuration::new().site(&root.path(), rules).text(launch.home());
    let file = launch.write_configuration(&text.replace("\"127.0.0.1:0\"", &format!("\"127.0.0.1:0\", \"unix:{}\"", path.display())));
    let server = launch.start(&["run".into(), "-c".into(), file.into()]);
    for (target, by_path, by_port) in [("/health", 403, 200), ("/metrics", 200, 403)] {
        let mut client = UnixStream::connect(&path).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(&crate::support::request("GET", target, &["Connection: close"])).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {by_path} ")), "{target}: {answer}");
        server.get(target).must_be(&[by_port]);
    }
}
