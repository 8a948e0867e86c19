//! The addresses of a network interface, for `bind eth0`.

use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;
use std::ptr;

use super::peer::{PEER_ROOM, Peer};

/// The addresses of the interface called `name`, with port 0 and link-local ones with their scope; `None` if there is
/// no such interface, empty if it has no address.
///
/// # Errors
/// The kernel does not tell.
pub fn interface_addresses(name: &str) -> io::Result<Option<Vec<SocketAddr>>> {
    let list = InterfaceList::read()?;
    let mut found = None;
    for entry in list.iter() {
        if entry.name.to_bytes() != name.as_bytes() {
            continue;
        }
        let addresses: &mut Vec<SocketAddr> = found.get_or_insert_default();
        if let Some(address) = entry.address
            && !addresses.contains(&address)
        {
            addresses.push(address);
        }
    }
    Ok(found)
}

/// The addresses of this host, with port 0, but for those of a single link.
///
/// # Errors
/// The kernel does not tell.
pub fn local_addresses() -> io::Result<Vec<SocketAddr>> {
    let list = InterfaceList::read()?;
    let mut found = Vec::new();
    for address in list.iter().filter_map(|entry| entry.address) {
        let is_link_local = matches!(address, SocketAddr::V6(address) if address.ip().is_unicast_link_local());
        if !is_link_local && !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

/// What `getifaddrs` allocated.
struct InterfaceList {
    first: *mut libc::ifaddrs,
}

struct Entry<'l> {
    name: &'l CStr,
    address: Option<SocketAddr>,
}

impl InterfaceList {
    fn read() -> io::Result<Self> {
        let mut first = ptr::null_mut();
        // SAFETY: `first` is a valid place for the pointer. No safe wrapper lists interfaces.
        if unsafe { libc::getifaddrs(&raw mut first) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { first })
    }

    fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            // SAFETY: not null, so an entry of the list, which lives as long as `self`. The list is C's.
            let entry = unsafe { &*next };
            next = entry.ifa_next;
            // SAFETY: every entry has a name, ended by a zero byte, that lives as long as the list.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            Some(Entry {
                name,
                address: address(entry.ifa_addr),
            })
        })
    }
}

impl Drop for InterfaceList {
    fn drop(&mut self) {
        // SAFETY: `first` came from `getifaddrs` and is freed once. It is C's memory.
        unsafe { libc::freeifaddrs(self.first) };
    }
}

/// The address behind an entry of the list, if it is one of the internet.
fn address(from: *const libc::sockaddr) -> Option<SocketAddr> {
    if from.is_null() {
        return None;
    }
    // SAFETY: not null, and every address starts with its family.
    let family = unsafe { (*from).sa_family };
    let len = match i32::from(family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    let mut peer = [0; PEER_ROOM];
    // SAFETY: the family says that `len` bytes can be read, and `peer` has room for an address of either family.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), peer.as_mut_ptr(), len) };
    Some(Peer::from_bytes(peer).to_socket_addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_addresses() {
        let addresses = interface_addresses("lo").unwrap().unwrap();
        assert!(addresses.contains(&"127.0.0.1:0".parse().unwrap()), "{addresses:?}");
    }

    #[test]
    fn an_unknown_interface_is_told_from_one_without_addresses() {
        assert_eq!(interface_addresses("no-such-interface").unwrap(), None);
    }

    #[test]
    fn link_local_addresses_carry_their_scope() {
        let list = InterfaceList::read().unwrap();
        for entry in list.iter() {
            if let Some(SocketAddr::V6(address)) = entry.address {
                assert_eq!(
                    address.ip().is_unicast_link_local(),
                    address.scope_id() != 0,
                    "{address}"
                );
            }
        }
    }
}
