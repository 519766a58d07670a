//! Sockets: listeners (tcp(7)), connections of clients, and the SOCK_SEQPACKET pairs between processes (unix(7)).
//!
//! The parent listens and makes pairs; workers accept, receive and send; `log` receives.

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, ControlMessage, MsgFlags, SockFlag, SockaddrStorage, UnixAddr, sockopt};
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Opens a TCP listener; an IPv6 wildcard address also takes IPv4.
///
/// Options that connections inherit are set here once, so that none is set per connection.
///
/// # Errors
/// The errno of socket(2), setsockopt(2), bind(2) or listen(2).
pub fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let listener = bind(address, false)?;
    start_listening(&listener)?;
    Ok(listener)
}

/// Binds a TCP socket beside listeners whose addresses overlap with its own and that [`share_port`]; it listens once
/// [`start_listening`] says so.
///
/// # Errors
/// The errno of socket(2), setsockopt(2) or bind(2).
pub fn bind_beside(address: SocketAddr) -> io::Result<OwnedFd> {
    bind(address, true)
}

fn bind(address: SocketAddr, beside: bool) -> io::Result<OwnedFd> {
    let storage = SockaddrStorage::from(address);
    let family = if address.is_ipv6() { socket::AddressFamily::Inet6 } else { socket::AddressFamily::Inet };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket::socket(family, socket::SockType::Stream, flags, None)?;
    socket::setsockopt(&listener, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() {
        socket::setsockopt(&listener, sockopt::Ipv6V6Only, &!address.ip().is_unspecified())?;
    }
    set_inherited(&listener)?;
    if beside {
        share_port(&listener, true)?;
    }
    socket::bind(listener.as_raw_fd(), &storage)?;
    Ok(listener)
}

/// Lets a bound socket take connections.
///
/// # Errors
/// The errno of listen(2): `EADDRINUSE` where another listens meanwhile.
pub fn start_listening(socket: &OwnedFd) -> io::Result<()> {
    Ok(socket::listen(socket, socket::Backlog::new(BACKLOG)?)?)
}

/// Lets others bind beside a socket, or no longer (SO_REUSEPORT). The kernel takes only sockets of the same user there, and only
/// where all of them permit it; for a port it may remember that longer than the option is set. So nobody else can slip in and get a
/// part of the connections, and who is the same user could as well end this process and take its place.
///
/// # Errors
/// The errno of setsockopt(2).
pub fn share_port(socket: &OwnedFd, share: bool) -> io::Result<()> {
    Ok(socket::setsockopt(socket, sockopt::ReusePort, &share)?)
}

/// Whether others may bind beside a socket.
pub fn shares_port(socket: &OwnedFd) -> bool {
    socket::getsockopt(socket, sockopt::ReusePort).unwrap_or(false)
}

/// Hides a TCP listener from new connections, which come to another one at the same address from now on. What it has, half open
/// connections included, stays its own and can be accepted.
///
/// It is bound to an interface that cannot exist, which is looked at for every SYN and never after it; unlike closing, that resets
/// nobody. Connections that the kernel holds back until their first bytes come are handed over at its next retransmission
/// (within [`HELD_BACK_MS`]), since clients who wait for the server to speak shall not be lost either.
///
/// # Errors
/// The errno of setsockopt(2).
pub fn retire(listener: &OwnedFd) -> io::Result<()> {
    defer_accept(listener, 0)?;
    set_integer(listener, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, libc::c_int::MAX)
}

/// Whether listening failed because this host has no IPv6.
pub fn is_without_ipv6(fault: &io::Error) -> bool {
    matches!(fault.raw_os_error().map(Errno::from_raw), Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL))
}

/// Sets the options of a TCP listener and of the connections that inherit them from it.
fn set_inherited(listener: &OwnedFd) -> io::Result<()> {
    socket::setsockopt(listener, sockopt::TcpNoDelay, &true)?;
    set_integer(listener, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, NOT_SENT)?;
    defer_accept(listener, DEFER_SECONDS)
}

/// A connection is handed over only when its first bytes have come: one wake-up less, and no descriptor for who sends nothing.
fn defer_accept(listener: &OwnedFd, seconds: libc::c_int) -> io::Result<()> {
    set_integer(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

fn set_integer(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    const SIZE: libc::socklen_t = 4;
    // SAFETY: the option value is a live c_int of four bytes, as tcp(7) and socket(7) say.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), SIZE) };
    Ok(Errno::result(result).map(drop)?)
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Ip(SocketAddr),
    Path(PathBuf),
}

/// The address that a listener has, with the port that the kernel chose for port 0.
///
/// # Errors
/// The errno of getsockname(2); `InvalidData` for an abstract address or another family.
pub fn local_address(listener: &OwnedFd) -> io::Result<Address> {
    let storage: SockaddrStorage = socket::getsockname(listener.as_raw_fd())?;
    if let Some(path) = storage.as_unix_addr().and_then(UnixAddr::path) {
        return Ok(Address::Path(path.to_owned()));
    }
    if let Some(v4) = storage.as_sockaddr_in() {
        return Ok(Address::Ip(SocketAddr::from(std::net::SocketAddrV4::from(*v4))));
    }
    let v6 = storage.as_sockaddr_in6().ok_or(io::ErrorKind::InvalidData)?;
    Ok(Address::Ip(SocketAddr::from(std::net::SocketAddrV6::from(*v6))))
}

/// Listens for packets at a path that only the owner may connect to, in place of a socket that nobody listens at any more.
///
/// # Errors
/// `AddrInUse` where somebody listens; the errno of socket(2), bind(2), chmod(2) or listen(2).
pub fn listen_local(path: &Path) -> io::Result<OwnedFd> {
    listen_at(path, socket::SockType::SeqPacket, 0o177, 16)
}

/// Listens for clients at a path that every user of this machine may connect to, as to a port of it.
///
/// # Errors
/// As [`listen_local`].
pub fn listen_path(path: &Path) -> io::Result<OwnedFd> {
    listen_at(path, socket::SockType::Stream, 0o111, BACKLOG)
}

/// Listens for clients at a path that only root and the group of this process's new files may connect to.
///
/// # Errors
/// As [`listen_local`].
pub(super) fn listen_group(path: &Path) -> io::Result<OwnedFd> {
    listen_at(path, socket::SockType::Stream, 0o117, BACKLOG)
}

/// Whether [`listen_path`] would succeed; makes and removes nothing.
///
/// # Errors
/// As [`listen_path`], and the errno of access(2) for the directory.
pub fn could_listen_path(path: &Path) -> io::Result<()> {
    UnixAddr::new(path)?;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() && connect_at(path, socket::SockType::Stream).is_err() => Ok(()),
        Ok(_) => Err(Errno::EADDRINUSE.into()),
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => Err(fault),
        Err(_) => Ok(nix::unistd::access(path.parent().unwrap_or(Path::new("/")), nix::unistd::AccessFlags::W_OK)?),
    }
}

/// Refuses what is there and is no socket: nothing could listen in its place.
///
/// # Errors
/// Says so.
pub fn refuse_other(path: &Path) -> Result<(), String> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err("is there, and is no socket".to_owned()),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn listen_at(path: &Path, kind: socket::SockType, mask: libc::mode_t, backlog: i32) -> io::Result<OwnedFd> {
    let address = UnixAddr::new(path)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket::socket(socket::AddressFamily::Unix, kind, flags, None)?;
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        if let Ok(other) = connect_at(path, kind) {
            let pid = socket::getsockopt(&other, sockopt::PeerCredentials)?.pid();
            return Err(io::Error::new(io::ErrorKind::AddrInUse, format!("in use by a process that runs (pid {pid})")));
        }
        std::fs::remove_file(path)?;
    }
    // No moment at which others could connect: the mode is there with the socket.
    let mask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask));
    let bound = socket::bind(listener.as_raw_fd(), &address);
    nix::sys::stat::umask(mask);
    bound?;
    socket::listen(&listener, socket::Backlog::new(backlog)?)?;
    Ok(listener)
}

/// Gives a listener that was opened by another program the options of our own.
///
/// # Errors
/// `InvalidInput` where it is no stream socket that listens; the errno of setsockopt(2).
pub fn prepare_inherited(listener: &OwnedFd) -> io::Result<()> {
    let is_stream = socket::getsockopt(listener, sockopt::SockType).is_ok_and(|kind| kind == socket::SockType::Stream);
    if !is_stream || !is_listening(listener) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a stream socket that listens (with systemd: Accept=no, ListenStream=)",
        ));
    }
    match local_address(listener)? {
        Address::Path(_) => Ok(()),
        Address::Ip(_) => set_inherited(listener),
    }
}

/// Accepts a client of such a socket.
///
/// # Errors
/// The errno of accept4(2); `PermissionDenied` for a client that is neither root nor this process's own user: the mode of
/// the socket keeps such a one out, should that ever be lost.
pub fn accept_local(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let client = socket::accept4(listener, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)?;
    let uid = socket::getsockopt(&client, sockopt::PeerCredentials)?.uid();
    if uid != 0 && uid != nix::unistd::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(client)
}

/// Connects to such a socket; reading from it blocks.
///
/// # Errors
/// The errno of socket(2) or connect(2): `ConnectionRefused` and `NotFound` where nobody listens.
pub fn connect_local(path: &Path) -> io::Result<OwnedFd> {
    connect_at(path, socket::SockType::SeqPacket)
}

/// Waits until a packet has come or the other side is gone, at most so many milliseconds; false: neither.
///
/// # Errors
/// The errno of poll(2).
pub fn wait_for_packet(channel: &OwnedFd, limit_ms: Option<u64>) -> io::Result<bool> {
    let timeout = limit_ms.map_or(PollTimeout::NONE, |ms| PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX));
    match poll(&mut [PollFd::new(channel.as_fd(), PollFlags::POLLIN)], timeout) {
        Err(Errno::EINTR) => Ok(false),
        result => Ok(result? > 0),
    }
}

fn connect_at(path: &Path, kind: socket::SockType) -> io::Result<OwnedFd> {
    let socket = socket::socket(socket::AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
    socket::connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

/// A socket to syslog that never waits, and whether somebody listens there; without, it fails at the first line, and a new one
/// is needed.
///
/// # Errors
/// The errno of socket(2).
pub fn syslog() -> io::Result<(OwnedFd, bool)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(socket::AddressFamily::Unix, socket::SockType::Datagram, flags, None)?;
    let connected = socket::connect(socket.as_raw_fd(), &UnixAddr::new(SYSLOG)?);
    Ok((socket, connected.is_ok()))
}

/// Whether a socket still listens. A hijacked worker can turn a listener into a socket that dials (`shutdown(SHUT_RD)`);
/// such a one is not handed out again.
pub fn is_listening(listener: &OwnedFd) -> bool {
    socket::getsockopt(listener, sockopt::AcceptConn).unwrap_or(false)
}

/// Takes one connection off a listener, with the client's address and port (IPv4 as IPv4 on an IPv6 socket too).
///
/// # Errors
/// The errno of accept4(2): `EAGAIN` where none waits, `EMFILE` and `ENFILE` where descriptors run out.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut storage = std::mem::MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::sockaddr_storage>()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: `storage` and `length` are live; the kernel writes at most `length` bytes of address and the length it has.
    let result = unsafe { libc::accept4(listener.as_raw_fd(), storage.as_mut_ptr().cast(), &raw mut length, flags) };
    let descriptor = Errno::result(result)?;
    // SAFETY: accept4(2) succeeded, so the descriptor is new and nobody else's.
    let connection = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // SAFETY: zeroed before, and any bytes are a valid sockaddr_storage.
    let storage = unsafe { storage.assume_init() };
    Ok((connection, peer_of(&storage)))
}

fn peer_of(storage: &libc::sockaddr_storage) -> SocketAddr {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage, which is large and aligned enough for every family, holds this type.
            let v4 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            SocketAddr::new(v4.sin_addr.s_addr.to_ne_bytes().into(), u16::from_be(v4.sin_port))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            SocketAddr::new(IpAddr::from(v6.sin6_addr.s6_addr).to_canonical(), u16::from_be(v6.sin6_port))
        }
        _ => SocketAddr::new(UNIX_PEER, 0),
    }
}

/// Receives what a client sent; 0: it has ended its side.
///
/// # Errors
/// The errno of recv(2).
pub fn receive(connection: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(socket::recv(connection.as_raw_fd(), buffer, MsgFlags::empty())?)
}

/// Sends to a client; a short count when its window is full.
///
/// # Errors
/// The errno of write(2).
pub fn send(connection: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(nix::unistd::write(connection, bytes)?)
}

/// Sends to a client from two places in one call.
///
/// # Errors
/// The errno of writev(2).
pub fn send_both(connection: &OwnedFd, first: &[u8], second: &[u8]) -> io::Result<usize> {
    Ok(nix::sys::uio::writev(connection, &[IoSlice::new(first), IoSlice::new(second)])?)
}

/// Sends to a client from several places in one call.
///
/// # Errors
/// The errno of writev(2).
pub fn send_parts(connection: &OwnedFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(nix::sys::uio::writev(connection, parts)?)
}

/// Sends to a client what more will follow at once, so that it leaves in one segment with it.
///
/// # Errors
/// The errno of send(2).
pub fn send_more(connection: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(socket::send(connection.as_raw_fd(), bytes, MsgFlags::from_bits_retain(libc::MSG_MORE) | MsgFlags::MSG_NOSIGNAL)?)
}

/// Sends part of a file to a client (sendfile(2)); 0: the file has become shorter than it was.
///
/// # Errors
/// The errno of sendfile(2).
pub fn send_file(connection: &OwnedFd, file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<u64> {
    /// One call sends at most this much, so that one fast client does not keep the worker from the others.
    const TURN: u64 = 1 << 20;
    let mut position = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let count = usize::try_from(length.min(TURN)).map_err(|_| io::ErrorKind::InvalidInput)?;
    let sent = nix::sys::sendfile::sendfile(connection, file, Some(&mut position), count)?;
    u64::try_from(sent).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Ends the sending side: the client sees the end, while what it still sends can be read.
///
/// # Errors
/// The errno of shutdown(2).
pub fn end_sending(connection: &OwnedFd) -> io::Result<()> {
    Ok(socket::shutdown(connection.as_raw_fd(), socket::Shutdown::Write)?)
}

/// A connection being made.
pub struct Dialled {
    pub socket: OwnedFd,
    /// Still under way: when the socket can be written to, [`outcome`] tells.
    pub pending: bool,
}

/// Begins to connect to a backend; never blocks.
///
/// # Errors
/// The errno of socket(2) or connect(2); `WouldBlock` where a local socket's queue is full.
pub fn dial(address: &Address) -> io::Result<Dialled> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream = |family| socket::socket(family, socket::SockType::Stream, flags, None);
    let (socket, begun) = match address {
        Address::Path(path) => {
            let address = UnixAddr::new(path)?;
            let socket = stream(socket::AddressFamily::Unix)?;
            let begun = socket::connect(socket.as_raw_fd(), &address);
            (socket, begun)
        }
        Address::Ip(ip) => {
            let family = if ip.is_ipv6() { socket::AddressFamily::Inet6 } else { socket::AddressFamily::Inet };
            let socket = stream(family)?;
            socket::setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
            let begun = socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(*ip));
            (socket, begun)
        }
    };
    match begun {
        Ok(()) => Ok(Dialled { socket, pending: false }),
        Err(Errno::EINPROGRESS) => Ok(Dialled { socket, pending: true }),
        Err(errno) => Err(errno.into()),
    }
}

/// What became of a connection that was under way.
///
/// # Errors
/// The errno that connect(2) would have had.
pub fn outcome(socket: &OwnedFd) -> io::Result<()> {
    match socket::getsockopt(socket, sockopt::SocketError)? {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// A connected pair that keeps message boundaries; both ends do not block.
///
/// # Errors
/// The errno of socketpair(2).
pub fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket::socketpair(socket::AddressFamily::Unix, socket::SockType::SeqPacket, None, flags)?)
}

/// Sends one packet; never blocks.
///
/// # Errors
/// `WouldBlock` when the receiver is behind, `BrokenPipe` and `ConnectionReset` when it is gone.
pub fn send_packet(channel: &OwnedFd, packet: &[u8]) -> io::Result<()> {
    let sent = nix::unistd::write(channel, packet)?;
    if sent == packet.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Sends one packet with descriptors. The parent, `files` and `connect` do; no other role's filter has sendmsg(2).
///
/// # Errors
/// As [`send_packet`].
pub fn send_packet_with(channel: &OwnedFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let sent = socket::sendmsg::<()>(channel.as_raw_fd(), &[IoSlice::new(packet)], &rights, MsgFlags::MSG_NOSIGNAL, None)?;
    if sent == packet.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives one packet and takes no descriptors: without a control buffer the kernel drops any that are sent.
/// Returns its real length, which is larger than the buffer for a packet that was cut; 0: the other side is gone.
///
/// # Errors
/// The errno of recv(2); `WouldBlock` when none waits.
pub fn receive_packet(channel: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(socket::recv(channel.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC)?)
}

/// Receives one packet with up to [`DESCRIPTORS_MAX`] descriptors, from the parent or a broker. Every descriptor that the kernel
/// made for it is returned or closed, also of a packet that has more than there is room for.
///
/// # Errors
/// As [`receive_packet`]; `EMFILE` when descriptors were lost on the way, for want of room or because this process may have no
/// more.
pub fn receive_packet_with(channel: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros is a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = control.capacity() as _;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
    // SAFETY: the buffers that the header points to are live, exclusively borrowed and as long as it says.
    let length = Errno::result(unsafe { libc::recvmsg(channel.as_raw_fd(), &raw mut message, flags) })?;
    let mut descriptors = Vec::new();
    // SAFETY: the kernel has filled the header and the control buffer that it points to.
    let mut record = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !record.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return only records that lie wholly in the control buffer.
        let (level, kind, size, data) =
            unsafe { ((*record).cmsg_level, (*record).cmsg_type, (*record).cmsg_len, libc::CMSG_DATA(record).cast::<RawFd>()) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            // SAFETY: no memory is touched.
            let head = usize::try_from(unsafe { libc::CMSG_LEN(0) }).unwrap_or(usize::MAX);
            for index in 0..size.saturating_sub(head) / size_of::<RawFd>() {
                // SAFETY: within the record by its length; the kernel has just made the descriptor for this process, so nothing
                // else owns it.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(data.add(index).read_unaligned()) });
            }
        }
        // SAFETY: as for the first record.
        record = unsafe { libc::CMSG_NXTHDR(&raw const message, record) };
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(Errno::EMFILE.into());
    }
    Ok((usize::try_from(length).unwrap_or(0), descriptors))
}

/// Whether a packet came without its descriptors.
pub fn is_without_descriptors(fault: &io::Error) -> bool {
    fault.raw_os_error() == Some(Errno::EMFILE as i32)
}

/// The descriptor of this number, which the parent put there before the program started.
///
/// # Errors
/// `EBADF` where there is none, as when a role is started by hand.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only looks whether the number is open; a closed one is an error, not undefined.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    nix::fcntl::fcntl(borrowed, nix::fcntl::FcntlArg::F_GETFD)?;
    // SAFETY: it is open, and by the start order of a role nothing else in this process owns it: each role takes each
    // number once, before it opens anything itself.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A copy, closed on exec, of the descriptor of this number.
///
/// # Errors
/// `EBADF` where there is none.
pub fn copy_of(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only copies whatever the number stands for; a closed one is an error, not undefined.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}

/// A copy of a descriptor that is closed on exec.
///
/// # Errors
/// The errno of fcntl(2).
pub fn copy(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    descriptor.as_fd().try_clone_to_owned()
}

/// `/dev/null` for reading and writing.
///
/// # Errors
/// The errno of open(2).
pub fn null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

/// Where syslog listens: syslog(3).
const SYSLOG: &str = "/dev/log";
/// The address that a client at a path has in place of one: no client of the network has it.
pub const UNIX_PEER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Descriptors that one packet may carry.
pub const DESCRIPTORS_MAX: usize = 64;

/// Connections that wait to be accepted; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// How long the kernel holds a connection back that sends nothing; some seconds more, as it counts retransmissions.
const DEFER_SECONDS: libc::c_int = 10;

/// Bytes that the kernel takes of one connection beyond what it may send (TCP_NOTSENT_LOWAT). Without a bound it takes some megabytes and
/// asks for more only when a third of them is gone: a slow client who reads all the time then looks as one who takes nothing for a
/// minute, holds that memory, and what is urgent waits behind it.
const NOT_SENT: libc::c_int = 128 * 1024;

/// The longest that a connection which was held back can wait in a listener that [`retire`]d: its fourth and last retransmission comes
/// 8 s after the third.
pub const HELD_BACK_MS: u64 = 10_000;
