//! Record sets as bytes: one slice of shared memory each.

use std::collections::HashSet;

use bytes::{BufMut, Bytes, BytesMut};
use nodens_wire::{NameBuf, Rtype};

use super::link;

/// The records of one type at one name, each `TTL (4) length (2) repeat (1) rdata`, names in the rdata uncompressed.
/// A repeat points to the same name as a record before it: that is found out once, since an answer of thousands of
/// records must not compare each with all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RrSet {
    /// The type.
    pub rtype: Rtype,
    records: Bytes,
}

const FIXED_LEN: usize = 7;

impl RrSet {
    /// A set from TTL in seconds and rdata of each record, in the order in which they will be answered. Rdata longer
    /// than a message is left out.
    pub fn new<'a>(rtype: Rtype, records: impl IntoIterator<Item = (u32, &'a [u8])>) -> Self {
        let mut bytes = BytesMut::new();
        let mut seen = HashSet::<NameBuf>::new();
        for (ttl, rdata) in records {
            let Ok(len) = u16::try_from(rdata.len()) else { continue };
            let target = link::has_targets(rtype).then(|| link::target(rtype, rdata)).flatten();
            let is_repeat = target.is_some_and(|name| !seen.insert(name.to_buf().folded()));
            bytes.put_u32(ttl);
            bytes.put_u16(len);
            bytes.put_u8(u8::from(is_repeat));
            bytes.put_slice(rdata);
        }
        Self {
            rtype,
            records: bytes.freeze(),
        }
    }

    /// TTL in seconds and rdata of each record.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.entries().map(|(ttl, _, rdata)| (ttl, rdata))
    }

    /// The rdata of each record that points to a name which none before it does; of all where none points to any.
    pub(super) fn iter_unrepeated(&self) -> impl Iterator<Item = &[u8]> {
        self.entries()
            .filter_map(|(_, is_repeat, rdata)| (!is_repeat).then_some(rdata))
    }

    #[inline]
    fn entries(&self) -> impl Iterator<Item = (u32, bool, &[u8])> {
        let mut rest = &self.records[..];
        std::iter::from_fn(move || {
            let (fixed, behind) = rest.split_first_chunk::<FIXED_LEN>()?;
            let [a, b, c, d, high, low, is_repeat] = *fixed;
            let (rdata, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
            rest = behind;
            Some((u32::from_be_bytes([a, b, c, d]), is_repeat != 0, rdata))
        })
    }

    /// The rdata of the first record: the only one of a CNAME, DNAME or SOA.
    #[must_use]
    pub fn first(&self) -> Option<(u32, &[u8])> {
        self.iter().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_targets_are_known_however_many_there_are() {
        // Pairs of equal targets in unlike letter case, far apart; were each compared with all, this would take minutes.
        const LEN: u32 = 20_000;
        let rdata: Vec<Vec<u8>> = (0..2 * LEN)
            .map(|at| {
                let host = if at < LEN { "host" } else { "HOST" };
                let name = NameBuf::from_text(&format!("{host}{}.cedar.example", at % LEN)).unwrap();
                [&[0, 10], name.as_bytes()].concat()
            })
            .collect();
        let set = RrSet::new(Rtype::MX, rdata.iter().map(|rdata| (60, &rdata[..])));
        let unrepeated: Vec<_> = set.iter_unrepeated().collect();
        assert_eq!(set.iter().count(), 2 * LEN as usize);
        assert!(
            unrepeated
                .iter()
                .copied()
                .eq(rdata[..LEN as usize].iter().map(|rdata| &rdata[..]))
        );
        let addresses = [[192, 0, 2, 1]; 2];
        let set = RrSet::new(Rtype::A, addresses.iter().map(|rdata| (60, &rdata[..])));
        assert_eq!(set.iter_unrepeated().count(), 2);
    }
}
