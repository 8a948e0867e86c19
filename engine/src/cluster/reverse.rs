//! Addresses in order, with what they belong to, and the names of addresses.

use std::ops::ControlFlow;

use arrayvec::ArrayVec;

use super::objects::Address;
use crate::zone::keys::Keys;
use crate::zone::small::Small;
use crate::zone::trie::Keyed;

/// An address and what has it: address, rank and labels, as bytes in the order in which they are looked for.
#[derive(Debug)]
pub(super) struct Reversed(Small<38>);

impl Keyed for Reversed {
    fn key(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// How something has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Rank {
    /// It is a service's own.
    Service = 0,
    /// An endpoint of the service has it.
    Endpoint = 1,
}

/// Which addresses: those inside of a cluster, or those by which it is reached from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Side {
    Inside = 0,
    Outside = 1,
}

/// Bytes in front of an address, that keep sides and families apart.
const HEAD: usize = 2;

/// Where the keys of an address begin.
pub(super) type Prefix = ArrayVec<u8, { HEAD + 16 }>;

fn family(address: &Address) -> u8 {
    match address {
        Address::V4(_) => 4,
        Address::V6(_) => 6,
    }
}

pub(super) fn prefix(side: Side, address: &Address) -> Prefix {
    let mut prefix = Prefix::new();
    prefix.push(side as u8);
    prefix.push(family(address));
    prefix.extend(address.octets().iter().copied());
    prefix
}

impl Reversed {
    /// That labels have an address.
    pub(super) fn new(side: Side, address: &Address, rank: Rank, labels: &[u8]) -> Self {
        let key = [&prefix(side, address)[..], &[rank as u8], labels].concat();
        Self(Small::from(&key[..]))
    }

    fn address_len(&self) -> usize {
        if self.key()[1] == 4 { 4 } else { 16 }
    }

    /// How they have it.
    pub(super) fn rank(&self) -> Rank {
        if self.key()[HEAD + self.address_len()] == Rank::Service as u8 {
            Rank::Service
        } else {
            Rank::Endpoint
        }
    }

    /// The first of the labels: of a pod that is its namespace, and its name as text may stand behind it.
    pub(super) fn namespace(&self) -> &[u8] {
        let labels = self.labels();
        let len = labels.first().map_or(0, |len| 1 + usize::from(*len));
        labels.get(..len).unwrap_or_default()
    }

    /// Who has it.
    pub(super) fn labels(&self) -> &[u8] {
        &self.key()[HEAD + self.address_len() + 1..]
    }
}

/// All that have an address, a service's own first.
pub(super) fn each<'z>(
    keys: &'z Keys<Reversed>,
    side: Side,
    address: &Address,
    mut visit: impl FnMut(&'z Reversed) -> ControlFlow<()>,
) {
    let prefix = prefix(side, address);
    keys.scan(&prefix, |reversed| {
        if reversed.key().starts_with(&prefix) {
            visit(reversed)
        } else {
            ControlFlow::Break(())
        }
    });
}

/// What a name below `in-addr.arpa` or `ip6.arpa` says of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reverse {
    /// All of it.
    Address(Address),
    /// How it begins: half bytes, of which there are so many.
    Begins {
        family: u8,
        octets: ArrayVec<u8, 16>,
        /// The upper half of one more byte.
        half: Option<u8>,
    },
}

/// Reads a folded name in wire form.
pub(super) fn parse(folded: &[u8]) -> Option<Reverse> {
    let mut labels = ArrayVec::<&[u8], 34>::new();
    let mut rest = folded;
    while let Some((&len, behind)) = rest.split_first().filter(|(len, _)| **len > 0) {
        let (label, behind) = behind.split_at_checked(usize::from(len))?;
        labels.try_push(label).ok()?;
        rest = behind;
    }
    if labels.pop()? != b"arpa" {
        return None;
    }
    match labels.pop()? {
        b"in-addr" => v4(&labels),
        b"ip6" => v6(&labels),
        _ => None,
    }
}

fn v4(labels: &[&[u8]]) -> Option<Reverse> {
    if labels.len() > 4 {
        return None;
    }
    let mut octets = ArrayVec::<u8, 16>::new();
    for label in labels.iter().rev() {
        // As an address is written: no zeros in front.
        if label.len() > 3 || label.len() > 1 && label[0] == b'0' || !label.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let value = label
            .iter()
            .fold(0_u16, |value, digit| value * 10 + u16::from(digit - b'0'));
        octets.push(u8::try_from(value).ok()?);
    }
    Some(match <[u8; 4]>::try_from(&octets[..]) {
        Ok(octets) => Reverse::Address(Address::V4(octets)),
        Err(_) => Reverse::Begins {
            family: 4,
            octets,
            half: None,
        },
    })
}

fn v6(labels: &[&[u8]]) -> Option<Reverse> {
    let mut octets = ArrayVec::<u8, 16>::new();
    let mut half = None;
    for label in labels.iter().rev() {
        let [digit] = label else { return None };
        let digit = char::from(*digit).to_digit(16)? as u8;
        match half.take() {
            None => half = Some(digit),
            Some(upper) => octets.try_push(upper << 4 | digit).ok()?,
        }
    }
    Some(match (<[u8; 16]>::try_from(&octets[..]), half) {
        (Ok(octets), None) => Reverse::Address(Address::V6(octets)),
        (Ok(_), Some(_)) => return None,
        (Err(_), half) => Reverse::Begins {
            family: 6,
            octets,
            half,
        },
    })
}

impl Reverse {
    /// Whether any address is, or begins, like this.
    pub(super) fn exists(&self, keys: &Keys<Reversed>, side: Side) -> bool {
        let mut from = Prefix::new();
        from.push(side as u8);
        let (octets, half) = match self {
            Self::Address(address) => {
                from.push(family(address));
                (address.octets(), None)
            }
            Self::Begins { family, octets, half } => {
                from.push(*family);
                (&octets[..], *half)
            }
        };
        from.extend(octets.iter().copied());
        let whole = from.len();
        if let Some(half) = half {
            from.push(half << 4);
        }
        let mut exists = false;
        keys.scan(&from, |reversed| {
            let key = reversed.key();
            let begins = key.starts_with(&from[..whole]);
            exists = begins && half.is_none_or(|half| key.get(whole).is_some_and(|byte| byte >> 4 == half));
            ControlFlow::Break(())
        });
        exists
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::NameBuf;
    use std::net::IpAddr;
    use std::sync::Arc;

    fn address(text: &str) -> Address {
        Address::from(text.parse::<IpAddr>().unwrap())
    }

    fn read(name: &str) -> Option<Reverse> {
        parse(NameBuf::from_text(name).unwrap().as_bytes())
    }

    #[test]
    fn a_reverse_name_is_an_address_or_the_beginning_of_one() {
        assert_eq!(
            read("20.0.96.10.in-addr.arpa"),
            Some(Reverse::Address(address("10.96.0.20")))
        );
        assert_eq!(
            read("9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa"),
            Some(Reverse::Address(address("fd00::9")))
        );
        assert!(matches!(read("96.10.in-addr.arpa"), Some(Reverse::Begins { .. })));
        for wrong in [
            "1.20.0.96.10.in-addr.arpa",
            "x.96.10.in-addr.arpa",
            "010.in-addr.arpa",
            "256.in-addr.arpa",
            "00.d.f.ip6.arpa",
            "www.example",
            "arpa",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_any_address_begins_with_exists() {
        let mut keys = Keys::default();
        for text in ["10.96.0.20", "fd00:12::9"] {
            keys.insert(Arc::new(Reversed::new(
                Side::Inside,
                &address(text),
                Rank::Service,
                b"\x03web\x02ns",
            )));
        }
        let exists = |name: &str, side| read(name).unwrap().exists(&keys, side);
        for there in ["10.in-addr.arpa", "0.96.10.in-addr.arpa", "f.ip6.arpa", "d.f.ip6.arpa"] {
            assert!(exists(there, Side::Inside), "{there}");
            assert!(!exists(there, Side::Outside), "{there}");
        }
        for missing in ["11.in-addr.arpa", "1.96.10.in-addr.arpa", "e.ip6.arpa", "c.f.ip6.arpa"] {
            assert!(!exists(missing, Side::Inside), "{missing}");
        }
        assert!(exists("20.0.96.10.in-addr.arpa", Side::Inside));
    }
}
