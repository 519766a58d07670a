//! A network of the test's own, in which clients come from any address: those of the loopback network are exempt from limits.

use super::Client;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

/// Goes into a new network namespace, in which 192.0.2.0/24 and 2001:db8::/32 are addresses of this machine. What is started afterwards is
/// in it too. Needs root.
pub(crate) fn own_network() {
    // The thread alone goes there, and its children with it; each test has a thread of its own.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    for line in ["link set lo up", "route add local 192.0.2.0/24 dev lo", "-6 route add local 2001:db8::/32 dev lo"] {
        let status = Command::new("ip").args(line.split(' ')).status().unwrap();
        assert!(status.success(), "ip {line}");
    }
    // Of IPv6 the route alone does not make an address one that can be bound.
    std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1").unwrap();
}

impl Client {
    /// Connects from an address of this machine.
    pub(crate) fn connect_from(client: &str, server: SocketAddr) -> Client {
        Client::try_connect_from(client, server).unwrap_or_else(|error| panic!("connect from {client} to {server}: {error}"))
    }

    pub(crate) fn try_connect_from(client: &str, server: SocketAddr) -> std::io::Result<Client> {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt};
        let address: IpAddr = client.parse().unwrap();
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        // Ports are chosen with regard to the destination, so that one address can have more connections than ports.
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        let raw = std::os::fd::AsRawFd::as_raw_fd(&socket);
        bind(raw, &SockaddrStorage::from(SocketAddr::new(address, 0)))?;
        connect(raw, &SockaddrStorage::from(server))?;
        Client::of(std::net::TcpStream::from(socket))
    }
}
