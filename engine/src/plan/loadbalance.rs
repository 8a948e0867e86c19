//! The `loadbalance` step: on the way up addresses and MX records are shuffled.

use std::net::IpAddr;

use nodens_wire::{Rcode, Rtype};
use rand::RngExt as _;
use rand::rngs::ChaCha8Rng;

use crate::answer::{Answer, Bytes, Pick};

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

    fn holds(&self, rdata: &[u8]) -> bool {
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

/// `loadbalance round_robin`, with the ranges of `prefer`.
#[derive(Clone, Debug, Default)]
pub struct LoadBalance {
    /// Addresses of the first range come first, then those of the second...
    pub prefer: Box<[Cidr]>,
}

/// In each section: aliases, other types, addresses, MX; or with `prefer` aliases, addresses, MX, others.
fn rank(rtype: Rtype) -> u8 {
    match rtype {
        Rtype::CNAME => 0,
        Rtype::A | Rtype::AAAA => 2,
        Rtype::MX => 3,
        _ => 1,
    }
}

pub(super) fn leave(balance: &LoadBalance, random: &mut ChaCha8Rng, from: [usize; 3], answer: &mut Answer<'_>) {
    if answer.rcode != Rcode::NOERROR || answer.rendered.is_some() {
        return;
    }
    let Answer { sections, made, .. } = answer;
    for (picks, from) in sections.iter_mut().zip(from) {
        let picks = &mut picks[from..];
        if picks.len() < 2 {
            continue;
        }
        arrange(picks, |pick| rank(pick.rtype));
        for wanted in [2, 3] {
            let start = picks.partition_point(|pick| rank(pick.rtype) < wanted);
            let end = picks.partition_point(|pick| rank(pick.rtype) <= wanted);
            shuffle(&mut picks[start..end], random);
        }
        if !balance.prefer.is_empty() {
            arrange(picks, |pick| match rank(pick.rtype) {
                0 => 0,
                2 => 1 + preference(balance, pick, made),
                3 => 254,
                _ => 255,
            });
        }
    }
}

/// Which range of `prefer` an address lies in.
fn preference(balance: &LoadBalance, pick: &Pick<'_>, made: &[u8]) -> u8 {
    let rdata = match pick.rdata {
        Bytes::Zone(bytes) => bytes,
        Bytes::Made { at, len } => &made[at as usize..at as usize + usize::from(len)],
    };
    let found = balance.prefer.iter().position(|range| range.holds(rdata));
    found.unwrap_or(balance.prefer.len()).min(252) as u8
}

/// A stable sort that does not allocate: the keys are few, and mostly in order already.
fn arrange(picks: &mut [Pick<'_>], key: impl Fn(&Pick<'_>) -> u8) {
    if picks.is_sorted_by_key(&key) {
        return;
    }
    if picks.len() <= 64 {
        for i in 1..picks.len() {
            let at = picks[..i].partition_point(|pick| key(pick) <= key(&picks[i]));
            picks[at..=i].rotate_right(1);
        }
    } else {
        picks.sort_by_key(key);
    }
}

fn shuffle(picks: &mut [Pick<'_>], random: &mut ChaCha8Rng) {
    for i in (1..picks.len()).rev() {
        picks.swap(i, random.random_range(0..=i));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_addresses() {
        let check = |range: &str, prefix, address: &[u8], expected| {
            let cidr = Cidr {
                address: range.parse().unwrap(),
                prefix,
            };
            assert_eq!(cidr.holds(address), expected, "{range}/{prefix} {address:?}");
        };
        check("198.51.100.0", 24, &[198, 51, 100, 7], true);
        check("198.51.100.0", 24, &[198, 51, 101, 7], false);
        check("198.51.100.0", 23, &[198, 51, 101, 7], true);
        check("0.0.0.0", 0, &[1, 2, 3, 4], true);
        check("192.0.2.1", 32, &[192, 0, 2, 1], true);
        check("2001:db8::", 32, &[192, 0, 2, 1], false);
    }
}
