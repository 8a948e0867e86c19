//! Sockets as the server needs them, and errors that say how to mend them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::{error, fmt, fs, io};

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Asked of the kernel for what waits in a UDP socket. It counts some 800 bytes for each small datagram, so this is
/// room for a burst of about 10,000.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Asked of the kernel for replies on their way to the network card.
const SEND_BUFFER: usize = 1 << 20;

/// Bytes that may wait in the kernel behind those on their way. With its own measure, megabytes, it would be many seconds
/// until a slow client is seen to take anything.
const NOTSENT_MAX: u32 = 128 << 10;

/// Connections that may wait to be accepted; `net.core.somaxconn` cuts it.
const BACKLOG: i32 = 4096;

/// How queries reach a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Streams.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        })
    }
}

/// Why the server cannot listen on an address. Its text names the address and the remedy.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// For datagrams or streams.
    pub transport: Transport,
    /// What the kernel said.
    pub source: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            transport,
            source,
        } = self;
        write!(f, "cannot listen on {address} ({transport}): ")?;
        match Errno::from_io_error(source) {
            Some(Errno::ADDRINUSE) => {
                let option = if *transport == Transport::Udp { "-lnup" } else { "-lntp" };
                let port = address.port();
                write!(
                    f,
                    "the address is in use: another process listens there; `ss {option} 'sport = :{port}'` names it: stop it, or choose \
                     another address or port"
                )
            }
            Some(Errno::ACCESS) => {
                let free = unprivileged_port_start();
                write!(
                    f,
                    "ports below {free} need the capability CAP_NET_BIND_SERVICE: grant it, or choose a port from \
                     {free} on"
                )
            }
            Some(Errno::AFNOSUPPORT) => f.write_str("this host has no IPv6: use IPv4 addresses only"),
            Some(Errno::MFILE | Errno::NFILE) => {
                f.write_str("no file descriptor left: raise the limit of open files (`ulimit -n`)")
            }
            Some(Errno::INVAL | Errno::NODEV) if is_link_local(address.ip()) => {
                f.write_str("a link-local address needs the interface it belongs to, as in fe80::1%eth0")
            }
            _ => write!(f, "{source}"),
        }
    }
}

impl error::Error for BindError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A UDP socket of a group: each worker binds its own, and the kernel spreads the clients over them. A wildcard
/// address takes IPv4 too where it is IPv6, and tells the address of each query.
///
/// # Errors
/// The kernel refused the address; see [`BindError`].
pub fn bind_udp(address: SocketAddr) -> Result<Socket, BindError> {
    let bind = || {
        let socket = open(address, Transport::Udp)?;
        socket.set_reuse_port(true)?;
        if address.ip().is_unspecified() {
            ask_for_destination(&socket, address)?;
        }
        ask_for_buffer(
            &socket,
            libc::SO_RCVBUFFORCE,
            RECEIVE_BUFFER,
            Socket::set_recv_buffer_size,
        );
        ask_for_buffer(&socket, libc::SO_SNDBUFFORCE, SEND_BUFFER, Socket::set_send_buffer_size);
        socket.bind(&SockAddr::from(address))?;
        Ok(socket)
    };
    bind().map_err(|source| BindError {
        address,
        transport: Transport::Udp,
        source,
    })
}

/// A listening TCP socket of a group, as [`bind_udp`].
///
/// # Errors
/// The kernel refused the address; see [`BindError`].
pub fn bind_tcp(address: SocketAddr) -> Result<Socket, BindError> {
    let bind = || {
        let socket = open(address, Transport::Tcp)?;
        // Connections of a process before this one that are still closing must not hold up the start.
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        // Accepted sockets inherit both.
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_notsent_lowat(NOTSENT_MAX)?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    };
    bind().map_err(|source| BindError {
        address,
        transport: Transport::Tcp,
        source,
    })
}

/// Whether the host has that address now. What is bound to one that it does not have yet is served from the moment it
/// comes.
#[must_use]
pub fn is_local(mut address: SocketAddr) -> bool {
    address.set_port(0);
    let bind = || Socket::new(Domain::for_address(address), Type::DGRAM, None)?.bind(&SockAddr::from(address));
    bind().is_ok()
}

/// Proves that no other process listens on an address. Sockets of a group would share it with them without any error,
/// and the kernel would split the clients between the two.
///
/// Ask for all addresses first, then bind: sockets of our own count as taken.
///
/// # Errors
/// The address is taken or cannot be bound; see [`BindError`].
pub fn probe_taken(address: SocketAddr, transport: Transport) -> Result<(), BindError> {
    let probe = || {
        let socket = open(address, transport)?;
        if transport == Transport::Tcp {
            // Lets connections that are still closing pass, but no socket that listens.
            socket.set_reuse_address(true)?;
        }
        socket.bind(&SockAddr::from(address))
    };
    probe().map_err(|source| BindError {
        address,
        transport,
        source,
    })
}

/// The address for "everywhere": both families in one socket, or IPv4 alone where the kernel has no IPv6. A host without
/// it is told with a notice to show once.
#[must_use]
pub fn wildcard() -> (IpAddr, Option<&'static str>) {
    // The kernel leaves it empty while IPv6 is disabled on every interface.
    let has_addresses = fs::read_to_string("/proc/net/if_inet6").is_ok_and(|list| !list.is_empty());
    match Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) => (
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Some("this host has no IPv6; listening on IPv4 alone"),
        ),
        _ => (
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            (!has_addresses).then_some("this host has no IPv6 address; answering over IPv4 alone until it has one"),
        ),
    }
}

fn open(address: SocketAddr, transport: Transport) -> io::Result<Socket> {
    let (kind, protocol) = match transport {
        Transport::Udp => (Type::DGRAM, Protocol::UDP),
        Transport::Tcp => (Type::STREAM, Protocol::TCP),
    };
    let socket = Socket::new(Domain::for_address(address), kind.nonblocking(), Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // An address that comes later must not hold up the others.
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
    }
    Ok(socket)
}

/// Has the kernel say with each datagram which address it was sent to.
fn ask_for_destination(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    let (level, option) = match address {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        // An IPv6 socket tells it for IPv4 clients too, as a mapped address.
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    set_option(socket.as_raw_fd(), level, option, 1)
}

/// Past the system's limit if we may, else up to it. A smaller buffer is no error: it only takes smaller bursts.
fn ask_for_buffer(socket: &Socket, force: i32, bytes: usize, ask: impl Fn(&Socket, usize) -> io::Result<()>) {
    if set_option(socket.as_raw_fd(), libc::SOL_SOCKET, force, bytes as i32).is_err() {
        let _ = ask(socket, bytes);
    }
}

fn set_option(fd: RawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` is an int, valid for reading its own size, and the kernel checks the rest. socket2 knows none of
    // these options.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn unprivileged_port_start() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1024)
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    fn port(socket: &Socket) -> u16 {
        socket.local_addr().unwrap().as_socket().unwrap().port()
    }

    #[test]
    fn a_group_shares_one_port() {
        for bind in [bind_udp, bind_tcp] {
            let first = bind(local(0)).unwrap();
            bind(local(port(&first))).unwrap();
        }
    }

    #[test]
    fn a_taken_address_is_seen_although_it_is_shared() {
        let udp = bind_udp(local(0)).unwrap();
        let error = probe_taken(local(port(&udp)), Transport::Udp).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("127.0.0.1") && text.contains("(UDP)") && text.contains("ss -lnup"),
            "{text}"
        );

        let tcp = bind_tcp(local(0)).unwrap();
        let error = probe_taken(local(port(&tcp)), Transport::Tcp).unwrap_err();
        assert!(error.to_string().contains("ss -lntp"), "{error}");

        let port = port(&tcp);
        drop(tcp);
        probe_taken(local(port), Transport::Tcp).unwrap();
    }

    #[test]
    fn a_wildcard_sees_the_holder_of_one_address() {
        let udp = UdpSocket::bind(local(0)).unwrap();
        let everywhere = SocketAddr::new(wildcard().0, udp.local_addr().unwrap().port());
        probe_taken(everywhere, Transport::Udp).unwrap_err();
    }

    #[test]
    fn connections_that_are_still_closing_do_not_take_the_port() {
        let listener = TcpListener::bind(local(0)).unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        drop((server, listener, client));
        probe_taken(address, Transport::Tcp).unwrap();
        bind_tcp(address).unwrap();
    }

    #[test]
    fn an_address_that_is_not_there_yet_can_be_bound() {
        let later: SocketAddr = "198.51.100.77:5353".parse().unwrap();
        assert!(!is_local(later) && is_local(local(5353)));
        probe_taken(later, Transport::Tcp).unwrap();
        let _held = (bind_udp(later).unwrap(), bind_tcp(later).unwrap());
        probe_taken(later, Transport::Udp).unwrap_err();
    }

    #[test]
    fn a_link_local_address_needs_its_interface() {
        let error = bind_tcp("[fe80::77]:5353".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("%eth0"), "{error}");
    }

    #[test]
    fn every_known_refusal_names_its_remedy() {
        for (errno, part) in [
            (Errno::ACCESS, "CAP_NET_BIND_SERVICE"),
            (Errno::AFNOSUPPORT, "no IPv6"),
            (Errno::MFILE, "ulimit -n"),
            (Errno::ADDRINUSE, "another process"),
        ] {
            let error = BindError {
                address: local(53),
                transport: Transport::Udp,
                source: errno.into(),
            };
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
