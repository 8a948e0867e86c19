//! Weights of addresses by name, for `loadbalance weighted`: no zone, but data that is published, replaced and freed as
//! zones are.

use std::net::IpAddr;

use hashbrown::HashTable;
use nodens_wire::NameBuf;

use super::trie::NameHash;

/// What weighs more than 1.
#[derive(Clone, Debug)]
pub struct Weights {
    hash: NameHash,
    names: HashTable<(Box<[u8]>, Listed)>,
}

/// Addresses of one name with their weights, sorted by address.
type Listed = Box<[(IpAddr, u8)]>;

impl Weights {
    /// The weights of these names' addresses. Of one that is listed twice the first counts.
    #[must_use]
    pub fn new(hash: NameHash, names: impl IntoIterator<Item = (NameBuf, Vec<(IpAddr, u8)>)>) -> Self {
        let mut table = HashTable::new();
        for (name, mut addresses) in names {
            addresses.sort_by_key(|(address, _)| *address);
            addresses.dedup_by_key(|(address, _)| *address);
            let name: Box<[u8]> = name.folded().as_bytes().into();
            table.insert_unique(hash.of(&name), (name, addresses.into()), |(name, _)| hash.of(name));
        }
        Self { hash, names: table }
    }

    /// The weight of an address record's data under a folded owner.
    pub(crate) fn of(&self, owner: &[u8], rdata: &[u8]) -> u32 {
        let found = self.names.find(self.hash.of(owner), |(name, _)| **name == *owner);
        let listed = found.and_then(|(_, addresses)| {
            let address = address(rdata)?;
            let at = addresses.binary_search_by_key(&address, |(listed, _)| *listed).ok()?;
            Some(addresses[at].1)
        });
        listed.unwrap_or(1).into()
    }
}

fn address(rdata: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(rdata).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(rdata).map(|octets| IpAddr::from(octets).to_canonical());
    v4().or_else(|_| v6()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_weighs_one() {
        let name = |text: &str| NameBuf::from_text(text).unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let listed = vec![(ip("192.0.2.2"), 7), (ip("192.0.2.1"), 3), (ip("192.0.2.2"), 9)];
        let weights = Weights::new(
            NameHash::new(3),
            [
                (name("WWW.cedar.example"), listed),
                (name("six.cedar.example"), vec![(ip("2001:db8::1"), 255)]),
            ],
        );
        let check = |owner: &str, rdata: &[u8], expected| {
            assert_eq!(weights.of(name(owner).as_bytes(), rdata), expected, "{owner} {rdata:?}");
        };
        check("www.cedar.example", &[192, 0, 2, 1], 3);
        check("www.cedar.example", &[192, 0, 2, 2], 7);
        check("www.cedar.example", &[192, 0, 2, 3], 1);
        check("cedar.example", &[192, 0, 2, 1], 1);
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 1];
        check("www.cedar.example", &mapped, 3);
        let six = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        check("six.cedar.example", &six, 255);
        check("www.cedar.example", &six, 1);
    }
}
