//! The control message that says to which address a query was sent, and from which a reply leaves.

use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for one control message: `in6_pktinfo`, the larger of the two, behind its header.
pub(super) const CONTROL_ROOM: usize = size_of::<Control>();

const HEADER_LEN: usize = size_of::<Header>();
const IPV4_INFO_LEN: usize = size_of::<libc::in_pktinfo>();
const IPV6_INFO_LEN: usize = size_of::<libc::in6_pktinfo>();

/// Which message a socket deals in; `None` for a socket that is bound to one address and needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketInfo {
    None,
    Ipv4,
    /// On a dual-stack socket also for IPv4, whose addresses are mapped ones then.
    Ipv6,
}

/// The kernel's `cmsghdr`; the C libraries each have their own idea of its fields.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    len: usize,
    level: i32,
    kind: i32,
}

/// One control message as it stands in memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Control {
    header: Header,
    info: [u8; 24],
}

impl Control {
    pub(super) const EMPTY: Self = Self {
        header: Header {
            len: 0,
            level: 0,
            kind: 0,
        },
        info: [0; 24],
    };

    /// What a reply needs to leave from `local`, and how many bytes of it count.
    pub(super) fn leaving_from(local: IpAddr, info: PacketInfo) -> Option<(Self, usize)> {
        let mut control = Self::EMPTY;
        // The interface stays 0, so that the route decides and not the way the query came. A link-local client has its
        // interface in its address.
        let len = match (info, local) {
            (PacketInfo::Ipv4, IpAddr::V4(ip)) => {
                control.header.level = libc::IPPROTO_IP;
                control.header.kind = libc::IP_PKTINFO;
                control.info[4..8].copy_from_slice(&ip.octets());
                IPV4_INFO_LEN
            }
            (PacketInfo::Ipv6, local) => {
                let ip = match local {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                control.header.level = libc::IPPROTO_IPV6;
                control.header.kind = libc::IPV6_PKTINFO;
                control.info[..16].copy_from_slice(&ip.octets());
                IPV6_INFO_LEN
            }
            _ => return None,
        };
        control.header.len = HEADER_LEN + len;
        Some((control, HEADER_LEN + len.next_multiple_of(align_of::<Header>())))
    }
}

/// The address in a control message that came with a datagram; IPv4 for a mapped one.
pub(super) fn destination(control: &[u8]) -> Option<IpAddr> {
    let (header, info) = control.split_at_checked(HEADER_LEN)?;
    let word = |at: usize| header[at..at + 4].try_into().map_or(0, i32::from_ne_bytes);
    match (word(offset_of!(Header, level)), word(offset_of!(Header, kind))) {
        // The middle field is the local address also where the packet went to a broadcast one.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let octets: [u8; 4] = info.get(4..8)?.try_into().ok()?;
            Some(IpAddr::V4(Ipv4Addr::from(octets)))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let octets: [u8; 16] = info.get(..16)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(local: &str, kind: PacketInfo, len: usize) {
        let local: IpAddr = local.parse().unwrap();
        let (control, used) = Control::leaving_from(local, kind).unwrap();
        assert_eq!(used, len);
        let mut bytes = [0; CONTROL_ROOM];
        bytes[..8].copy_from_slice(&control.header.len.to_ne_bytes());
        bytes[8..12].copy_from_slice(&control.header.level.to_ne_bytes());
        bytes[12..16].copy_from_slice(&control.header.kind.to_ne_bytes());
        bytes[16..].copy_from_slice(&control.info);
        assert_eq!(destination(&bytes[..used]), Some(local));
    }

    #[test]
    fn the_address_asked_is_the_address_that_answers() {
        check("192.0.2.1", PacketInfo::Ipv4, 32);
        check("192.0.2.1", PacketInfo::Ipv6, 40);
        check("2001:db8::1", PacketInfo::Ipv6, 40);
    }

    #[test]
    fn no_message_no_address() {
        assert_eq!(destination(&[]), None);
        assert_eq!(destination(&[0; CONTROL_ROOM]), None);
        assert!(Control::leaving_from(IpAddr::V4(Ipv4Addr::LOCALHOST), PacketInfo::None).is_none());
    }
}
