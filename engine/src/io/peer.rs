//! A client's address in the kernel's own form, so that a reply needs no conversion.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for the larger of the two forms, `sockaddr_in6`.
pub(super) const PEER_ROOM: usize = size_of::<libc::sockaddr_in6>();

const IPV4_LEN: usize = size_of::<libc::sockaddr_in>();
const INET: u16 = libc::AF_INET.cast_unsigned() as u16;
const INET6: u16 = libc::AF_INET6.cast_unsigned() as u16;

/// Where a datagram came from, as the kernel wrote it (`sockaddr_in` or `sockaddr_in6`); decoded only when somebody
/// asks.
///
/// On a dual-stack socket an IPv4 client has an IPv4-mapped address. [`Peer::ip`] and its like show it as IPv4, but the
/// bytes stay what the socket needs.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub struct Peer {
    // The family decides how many bytes count; the kernel leaves stale ones behind the shorter form.
    bytes: [u8; PEER_ROOM],
}

impl Peer {
    /// No address at all: what a slot holds before anything came.
    pub(super) const UNSET: Self = Self { bytes: [0; PEER_ROOM] };

    /// What the kernel wrote.
    pub(super) const fn from_bytes(bytes: [u8; PEER_ROOM]) -> Self {
        Self { bytes }
    }

    /// In the form of the address's own family.
    #[must_use]
    pub fn from_socket_addr(addr: SocketAddr) -> Self {
        let mut bytes = [0; PEER_ROOM];
        bytes[2..4].copy_from_slice(&addr.port().to_be_bytes());
        match addr {
            SocketAddr::V4(addr) => {
                bytes[..2].copy_from_slice(&INET.to_ne_bytes());
                bytes[4..8].copy_from_slice(&addr.ip().octets());
            }
            SocketAddr::V6(addr) => {
                bytes[..2].copy_from_slice(&INET6.to_ne_bytes());
                bytes[4..8].copy_from_slice(&addr.flowinfo().to_be_bytes());
                bytes[8..24].copy_from_slice(&addr.ip().octets());
                bytes[24..28].copy_from_slice(&addr.scope_id().to_ne_bytes());
            }
        }
        Self { bytes }
    }

    /// With an IPv4-mapped address shown as IPv4, for logs and lists of networks. Use the `Peer` itself to send.
    #[must_use]
    pub fn to_socket_addr(&self) -> SocketAddr {
        match self.ip() {
            IpAddr::V4(ip) => SocketAddr::V4(SocketAddrV4::new(ip, self.port())),
            IpAddr::V6(ip) => {
                let flow = u32::from_be_bytes(self.at(4));
                SocketAddr::V6(SocketAddrV6::new(
                    ip,
                    self.port(),
                    flow,
                    u32::from_ne_bytes(self.at(24)),
                ))
            }
        }
    }

    /// The address, an IPv4-mapped one as IPv4.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        if self.family() == INET6 {
            Ipv6Addr::from(self.at::<16>(8)).to_canonical()
        } else {
            IpAddr::V4(Ipv4Addr::from(self.at::<4>(4)))
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        u16::from_be_bytes(self.at(2))
    }

    /// Whether the client speaks IPv4, also through a dual-stack socket.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        self.family() == INET || self.at::<12>(8) == MAPPED
    }

    /// How many bytes the kernel is to read.
    pub(super) fn len(&self) -> libc::socklen_t {
        if self.family() == INET6 {
            PEER_ROOM as libc::socklen_t
        } else {
            IPV4_LEN as libc::socklen_t
        }
    }

    fn family(&self) -> u16 {
        u16::from_ne_bytes(self.at(0))
    }

    fn at<const N: usize>(&self, start: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[start..start + N]);
        field
    }

    /// What tells two clients apart: family, port, address, and for IPv6 the scope.
    fn key(&self) -> ([u8; 4], [u8; 16], u32) {
        if self.family() == INET6 {
            return (self.at(0), self.at(8), u32::from_ne_bytes(self.at(24)));
        }
        let mut address = [0; 16];
        address[..4].copy_from_slice(&self.bytes[4..8]);
        (self.at(0), address, 0)
    }
}

impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Peer {}

impl std::hash::Hash for Peer {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.to_socket_addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str, ipv4: bool) {
        let peer = Peer::from_socket_addr(text.parse().unwrap());
        assert_eq!(peer.to_socket_addr().to_string(), shown);
        assert_eq!(peer.to_socket_addr().ip(), peer.ip());
        assert_eq!(peer.to_socket_addr().port(), peer.port());
        assert_eq!(peer.is_ipv4(), ipv4);
    }

    #[test]
    fn addresses_survive_the_kernels_form() {
        check("192.0.2.1:53", "192.0.2.1:53", true);
        check("[2001:db8::1]:65535", "[2001:db8::1]:65535", false);
        check("[fe80::1%7]:53", "[fe80::1%7]:53", false);
        check("[::ffff:192.0.2.1]:9", "192.0.2.1:9", true);
    }

    #[test]
    fn stale_bytes_behind_an_ipv4_address_do_not_count() {
        let clean = Peer::from_socket_addr("192.0.2.1:53".parse().unwrap());
        let mut stale = clean;
        stale.bytes[16..].fill(0xaa);
        assert_eq!(clean, stale);
        assert_ne!(clean, Peer::from_socket_addr("192.0.2.1:54".parse().unwrap()));
        assert_ne!(clean, Peer::from_socket_addr("192.0.2.2:53".parse().unwrap()));
    }

    #[test]
    fn link_local_clients_differ_by_scope() {
        let one = Peer::from_socket_addr("[fe80::1%1]:53".parse().unwrap());
        let two = Peer::from_socket_addr("[fe80::1%2]:53".parse().unwrap());
        assert_ne!(one, two);
    }
}
