//! `dns64`: IPv6 addresses made from IPv4 addresses, for clients that have no other way to them (RFC 6147).
//!
//! The step asks for A where AAAA was asked for and there was none; what it has to know for that is here, without it.

use std::net::{Ipv4Addr, Ipv6Addr};

use nodens_wire::{Rclass, Rcode, Rtype};

/// Longest TTL where the empty answer had no SOA (RFC 6147 §5.1.7).
const TTL_MAX: u32 = 600;

/// `dns64`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dns64 {
    /// Where the addresses lie.
    pub prefix: Prefix,
    /// Addresses are made, whether there are some or not.
    pub translates_all: bool,
    /// For clients that ask over IPv4, too.
    pub allows_v4: bool,
}

/// The net in which IPv4 addresses stand (RFC 6052 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    octets: [u8; 16],
    /// Of these, how many are the net's.
    len: usize,
}

impl Prefix {
    /// `64:ff9b::/96`
    pub const WELL_KNOWN: Self = Self {
        octets: [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        len: 12,
    };

    /// A net of 32 to 96 bits, a multiple of 8; what stands behind them does not count.
    #[must_use]
    pub fn new(net: Ipv6Addr, bits: u8) -> Option<Self> {
        if !(32..=96).contains(&bits) || !bits.is_multiple_of(8) {
            return None;
        }
        let (len, mut octets) = (usize::from(bits / 8), net.octets());
        octets[len..].fill(0);
        Some(Self { octets, len })
    }

    /// The address that stands for one of IPv4. The ninth octet stays free.
    #[must_use]
    pub fn embed(&self, address: Ipv4Addr) -> Ipv6Addr {
        let mut octets = self.octets;
        let places = (self.len..16).filter(|at| *at != 8);
        for (at, octet) in places.zip(address.octets()) {
            octets[at] = octet;
        }
        octets.into()
    }
}

impl Dns64 {
    /// Whether addresses may be made for a question.
    #[must_use]
    pub fn is_for(&self, client_is_v6: bool, rtype: Rtype, rclass: Rclass) -> bool {
        (client_is_v6 || self.allows_v4) && rtype == Rtype::AAAA && rclass == Rclass::IN
    }

    /// Whether they are made in the place of this answer to it; any error but NXDOMAIN is as good as no answer
    /// (RFC 6147 §5.1.2, §5.1.4).
    #[must_use]
    pub fn is_needed(&self, rcode: Rcode, mut answer: impl Iterator<Item = Rtype>) -> bool {
        rcode != Rcode::NXDOMAIN && (self.translates_all || answer.all(|rtype| rtype != Rtype::AAAA))
    }
}

/// The TTL of an address that was made: of A's, and of the SOA of the answer that had no AAAA.
#[must_use]
pub fn ttl(of_a: u32, of_soa: Option<u32>) -> u32 {
    of_a.min(of_soa.unwrap_or(TTL_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_in_rfc_6052() {
        for (net, bits, expected) in [
            ("2001:db8::", 32, "2001:db8:c000:221::"),
            ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
            ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344:5::", 72, "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::", 80, "2001:db8:122:344:0:c000:221:0"),
            ("2001:db8:122:344::", 96, "2001:db8:122:344::c000:221"),
        ] {
            let prefix = Prefix::new(net.parse().unwrap(), bits).unwrap();
            let made = prefix.embed(Ipv4Addr::new(192, 0, 2, 33));
            assert_eq!(made, expected.parse::<Ipv6Addr>().unwrap(), "{net}/{bits}");
        }
        let known = Prefix::new("64:ff9b::".parse().unwrap(), 96);
        assert_eq!(known, Some(Prefix::WELL_KNOWN));
        for bits in [0, 24, 31, 33, 100, 104, 128] {
            assert_eq!(Prefix::new(Ipv6Addr::UNSPECIFIED, bits), None, "{bits}");
        }
    }

    #[test]
    fn when_addresses_are_made() {
        let plain = Dns64 {
            prefix: Prefix::WELL_KNOWN,
            translates_all: false,
            allows_v4: false,
        };
        let both = Dns64 {
            translates_all: true,
            allows_v4: true,
            ..plain
        };
        assert!(plain.is_for(true, Rtype::AAAA, Rclass::IN) && both.is_for(false, Rtype::AAAA, Rclass::IN));
        assert!(!plain.is_for(false, Rtype::AAAA, Rclass::IN) && !plain.is_for(true, Rtype::A, Rclass::IN));
        assert!(!plain.is_for(true, Rtype::AAAA, Rclass::CH));
        let needed = |step: &Dns64, rcode, answer: &[Rtype]| step.is_needed(rcode, answer.iter().copied());
        assert!(needed(&plain, Rcode::NOERROR, &[]) && needed(&plain, Rcode::SERVFAIL, &[]));
        assert!(needed(&plain, Rcode::NOERROR, &[Rtype::CNAME]));
        assert!(!needed(&plain, Rcode::NOERROR, &[Rtype::CNAME, Rtype::AAAA]));
        assert!(needed(&both, Rcode::NOERROR, &[Rtype::AAAA]));
        assert!(!needed(&both, Rcode::NXDOMAIN, &[]));
    }

    #[test]
    fn the_shortest_ttl_counts() {
        assert_eq!(
            [
                ttl(700, None),
                ttl(5, None),
                ttl(700, Some(30)),
                ttl(5, Some(30)),
                ttl(700, Some(900))
            ],
            [600, 5, 30, 5, 700]
        );
    }
}
