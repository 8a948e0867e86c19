//! Address ranges, and sets of them.

use std::net::IpAddr;

/// An address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// An address of it.
    pub address: IpAddr,
    /// How many bits count.
    pub prefix: u8,
}

impl Cidr {
    /// Reads `ADDRESS/BITS`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let net = Self {
            address: address.parse().ok()?,
            prefix: prefix.parse().ok().filter(|_| is_number)?,
        };
        (net.prefix <= if net.address.is_ipv4() { 32 } else { 128 }).then_some(net)
    }

    /// Whether an address lies in it.
    pub(crate) fn holds_address(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.holds(&address.octets()),
            IpAddr::V6(address) => self.holds(&address.octets()),
        }
    }

    /// Whether it holds the address of an A or AAAA record.
    pub(super) fn holds(&self, rdata: &[u8]) -> bool {
        match self.address {
            IpAddr::V4(address) => same_prefix(&address.octets(), rdata, self.prefix),
            IpAddr::V6(address) => same_prefix(&address.octets(), rdata, self.prefix),
        }
    }
}

fn same_prefix(one: &[u8], other: &[u8], prefix: u8) -> bool {
    let (whole, bits) = (usize::from(prefix / 8), prefix % 8);
    one.len() == other.len()
        && one.iter().zip(other).take(whole).all(|(one, other)| one == other)
        && (bits == 0
            || one
                .get(whole)
                .zip(other.get(whole))
                .is_none_or(|(one, other)| (one ^ other) >> (8 - bits) == 0))
}

/// A set of ranges: whatever their number, looking one address up is a bisection of one slice.
#[derive(Clone, Debug, Default)]
pub struct Nets {
    /// First and last address of each, sorted, with others between them.
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

impl Nets {
    /// The set of these ranges, which may overlap.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Cidr>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for Cidr { address, prefix } in ranges {
            match address {
                IpAddr::V4(address) => {
                    let host = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
                    v4.push((address.to_bits() & !host, address.to_bits() | host));
                }
                IpAddr::V6(address) => {
                    let host = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
                    v6.push((address.to_bits() & !host, address.to_bits() | host));
                }
            }
        }
        Self {
            v4: disjoint(v4),
            v6: disjoint(v6),
        }
    }

    /// Whether one of the ranges holds the address.
    #[must_use]
    pub fn hold(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => within(&self.v4, address.to_bits()),
            IpAddr::V6(address) => within(&self.v6, address.to_bits()),
        }
    }
}

/// Sorted, with ranges that share an address made one.
fn disjoint<T: Copy + Ord>(mut ranges: Vec<(T, T)>) -> Box<[(T, T)]> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        let overlaps = next.0 <= range.1;
        if overlaps {
            range.1 = range.1.max(next.1);
        }
        overlaps
    });
    ranges.into()
}

fn within<T: Copy + Ord>(ranges: &[(T, T)], address: T) -> bool {
    let behind = ranges.partition_point(|&(first, _)| first <= address);
    ranges[..behind].last().is_some_and(|&(_, last)| address <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        let (address, prefix) = text.split_once('/').unwrap();
        Cidr {
            address: address.parse().unwrap(),
            prefix: prefix.parse().unwrap(),
        }
    }

    #[test]
    fn a_range_holds_its_addresses() {
        let check = |range, address: &[u8], expected| {
            assert_eq!(cidr(range).holds(address), expected, "{range} {address:?}");
        };
        check("198.51.100.0/24", &[198, 51, 100, 7], true);
        check("198.51.100.0/24", &[198, 51, 101, 7], false);
        check("198.51.100.0/23", &[198, 51, 101, 7], true);
        check("0.0.0.0/0", &[1, 2, 3, 4], true);
        check("192.0.2.1/32", &[192, 0, 2, 1], true);
        check("2001:db8::/32", &[192, 0, 2, 1], false);
    }

    #[test]
    fn a_set_holds_what_one_of_its_ranges_holds() {
        let ranges = [
            "198.51.100.0/24",
            "198.51.100.128/25",
            "198.51.101.0/24",
            "10.9.8.7/8",
            "192.0.2.1/32",
            "2001:db8::/32",
            "::1/128",
        ];
        let nets = Nets::new(ranges.map(cidr));
        let check = |address: &str, expected| assert_eq!(nets.hold(address.parse().unwrap()), expected, "{address}");
        check("198.51.99.255", false);
        check("198.51.100.0", true);
        check("198.51.100.200", true);
        check("198.51.101.255", true);
        check("198.51.102.0", false);
        check("10.0.0.0", true);
        check("10.255.255.255", true);
        check("11.0.0.0", false);
        check("192.0.2.1", true);
        check("192.0.2.2", false);
        check("0.0.0.0", false);
        check("::", false);
        check("::1", true);
        check("2001:db8:ffff::1", true);
        check("2001:db9::", false);
        let all = Nets::new(["0.0.0.0/0", "::/0"].map(cidr));
        for address in ["0.0.0.0", "255.255.255.255", "::", "ffff::"] {
            assert!(all.hold(address.parse().unwrap()), "{address}");
        }
        assert!(!Nets::default().hold("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn a_set_agrees_with_its_ranges_one_by_one() {
        let mut seed = 7_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        for _ in 0..200 {
            let ranges: Vec<Cidr> = (0..next() % 9)
                .map(|_| Cidr {
                    address: IpAddr::from([192, 0, 2, next() as u8]),
                    prefix: 24 + (next() % 9) as u8,
                })
                .collect();
            let nets = Nets::new(ranges.iter().copied());
            for last in 0..=255 {
                let address = [192, 0, 2, last];
                let expected = ranges.iter().any(|range| range.holds(&address));
                assert_eq!(nets.hold(address.into()), expected, "{ranges:?} {last}");
            }
        }
    }
}
